package gateway_test

import (
	"errors"
	"fmt"
	"net"
	"testing"
	"testing/synctest"

	"github.com/afterbay/afterbay/gateway"
	"github.com/afterbay/afterbay/gateway/limit"
	"github.com/afterbay/afterbay/gateway/wire"
)

// cut is a connection that breaks after so many bytes in one direction; the other
// side sees it closed.
type cut struct {
	net.Conn
	reads, writes int // that are left; negative is for ever
	read, written int
	broke         bool
}

var errCut = errors.New("the connection was cut")

func (c *cut) Read(b []byte) (int, error) {
	if c.reads == 0 {
		c.broke = true
		return 0, errors.Join(errCut, c.Close())
	}
	if c.reads > 0 {
		b = b[:min(len(b), c.reads)]
	}
	n, err := c.Conn.Read(b)
	c.read += n
	if c.reads > 0 {
		c.reads -= n
	}
	return n, err
}

func (c *cut) Write(b []byte) (int, error) {
	whole := len(b)
	if c.writes >= 0 {
		b = b[:min(len(b), c.writes)]
		c.writes -= len(b)
	}
	n, err := c.Conn.Write(b)
	if c.written += n; err == nil && n < whole {
		c.broke = true
		err = errors.Join(errCut, c.Close())
	}
	return n, err
}

// talker is a client that sends events until each has its result, over as many
// connections as it takes.
type talker struct {
	*world
	name   string
	events int
	cursor string
	seq    uint64          // of the newest result
	got    []string        // events of the results, in order
	done   map[string]bool // events that have a result
}

// talk goes on over a connection until all is done, and the log has no more of
// this client.
func (c *talker) talk(conn net.Conn, until uint64) error {
	w, _, err := dialRaw(conn, offered, "Authorization: Bearer acme."+c.name)
	if err != nil {
		return err
	}
	connect := &wire.Connect{}
	if c.cursor != "" {
		connect.Resume = &wire.Resume{Cursor: c.cursor}
	}
	if err := w.send(connect); err != nil {
		return err
	}
	for len(c.done) < c.events || c.seq < until {
		f, err := w.receive()
		if err != nil {
			return err
		}
		switch f := f.(type) {
		case *wire.Connected:
			c.cursor = f.Cursor
			for i := range c.events {
				if id := fmt.Sprint("e", i); !c.done[id] {
					if err := w.send(event(id, `"some text"`)); err != nil {
						return err
					}
				}
			}
		case *wire.ResultFrame:
			if f.Seq <= c.seq {
				continue // it has it
			}
			if f.Seq != c.seq+1 {
				return fmt.Errorf("after result %d comes %d", c.seq, f.Seq)
			}
			c.seq, c.cursor, c.done[f.EventID] = f.Seq, f.Cursor, true
			c.got = append(c.got, f.EventID)
			if err := w.send(&wire.Ack{Cursor: f.Cursor}); err != nil {
				return err
			}
		case *wire.Accepted:
		default:
			return fmt.Errorf("%s: %+v", f.Name(), f)
		}
	}
	return nil
}

// TestConversationCutAfterAnyByteLosesAndRepeatsNothing cuts a conversation after
// each of its bytes, of either direction. The client comes again, and has at last
// each result of the log once, in order.
func TestConversationCutAfterAnyByteLosesAndRepeatsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, gateway.Options{Connections: 1 << 20, Tenants: limit.Options{Open: 1 << 20, Burst: 1e6}})
		defer w.close()
		names := 0
		converse := func(reads, writes int) *cut {
			names++
			c := &talker{world: w, name: fmt.Sprintf("c%05d", names), events: 3, done: map[string]bool{}}
			broken := &cut{Conn: w.listener.dial(), reads: reads, writes: writes}
			from := w.end(c.name)
			first := c.talk(broken, 0)
			if first != nil && !broken.broke {
				t.Errorf("cut after %d bytes read, %d written: %v", reads, writes, first)
			}
			_ = broken.Close()
			synctest.Wait()
			if again := w.listener.dial(); first != nil {
				if err := c.talk(again, 0); err != nil {
					t.Errorf("again after %d bytes read, %d written: %v", reads, writes, err)
				}
				_ = again.Close()
			}
			synctest.Wait()
			want := w.resultsOf(c.name, from)
			last := w.listener.dial()
			if err := c.talk(last, uint64(len(want))); err != nil {
				t.Errorf("at last, after %d bytes read, %d written: %v", reads, writes, err)
			}
			_ = last.Close()
			if len(want) < c.events || len(c.got) != len(want) {
				t.Errorf("after %d bytes read, %d written: %d results, %d are in the log", reads, writes, len(c.got), len(want))
			}
			for i := range min(len(c.got), len(want)) {
				if c.got[i] != want[i].Event {
					t.Errorf("after %d bytes read, %d written: result %d is of %s, want %s", reads, writes, i+1, c.got[i], want[i].Event)
				}
			}
			return broken
		}
		whole := converse(-1, -1)
		if whole.read < 500 || whole.read+whole.written > 8<<10 {
			t.Fatalf("the conversation has %d bytes there and %d back", whole.written, whole.read)
		}
		for k := range whole.read {
			converse(k, -1)
		}
		for k := range whole.written {
			converse(-1, k)
		}
		t.Logf("cut after each of %d bytes read and %d written", whole.read, whole.written)
	})
}
