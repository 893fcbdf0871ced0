package gateway_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"testing"
	"testing/synctest"

	"github.com/afterbay/afterbay/internal/gateway"
	"github.com/afterbay/afterbay/internal/gateway/limit"
	"github.com/afterbay/afterbay/internal/gateway/wire"
	"github.com/afterbay/afterbay/internal/log/kafka"
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
	w.pongs = true
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
		case *wire.Accepted, *wire.Ping: // raw answers it
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
		s := &seam{world: newWorld(t, manyClients), settle: synctest.Wait}
		defer s.close()
		s.dial = func() net.Conn { return s.listener.dial() }
		every, first := 1, 0
		if testing.Short() { // the race detector takes ten times as long
			every, first = 7, rand.IntN(7)
			t.Logf("after every %d bytes, from byte %d on", every, first)
		}
		s.cutEverywhere(t, every, first)
	})
}

// TestConversationCutOverTCPLosesAndRepeatsNothing does the same with a proxy on
// the way, which closes both of its connections: what the kernel holds of either
// side is on its way or lost, as it comes.
func TestConversationCutOverTCPLosesAndRepeatsNothing(t *testing.T) {
	every, first := 31, rand.IntN(31)
	if strict() {
		every, first = 1, 0
	}
	cutOverTCP(t, newWorld(t, manyClients), every, first)
}

// TestConversationCutOverTCPOnABroker does so on a real Kafka.
func TestConversationCutOverTCPOnABroker(t *testing.T) {
	every, first := 400, rand.IntN(400)
	if strict() {
		every, first = 10, 0
	}
	log, err := kafka.Open(t.Context(), kafka.Options{Brokers: broker.Get(t).Addresses()})
	if err != nil {
		t.Fatal(err)
	}
	cutOverTCP(t, newWorldOn(t, log, manyClients), every, first)
}

// cutOverTCP cuts conversations over TCP after every so many bytes, from one on.
func cutOverTCP(t *testing.T, w *world, every, first int) {
	t.Helper()
	defer w.close()
	t.Logf("after every %d bytes, from byte %d on", every, first)
	p := newProxy(t, w.listener)
	s := &seam{world: w, dial: p.dial, settle: func() {}}
	s.cutEverywhere(t, every, first)
}

var manyClients = gateway.Options{Connections: 1 << 20, Tenants: limit.Options{Open: 1 << 20, Burst: 1e6}}

// seam cuts conversations of a world.
type seam struct {
	*world
	dial   func() net.Conn
	settle func() // returns when a closed connection is forgotten, or at once
	names  int
}

// cutEverywhere cuts conversations after every so many bytes of either direction,
// from one on.
func (s *seam) cutEverywhere(t *testing.T, every, first int) {
	t.Helper()
	whole := s.converse(t, -1, -1)
	if whole.read < 500 || whole.read+whole.written > 8<<10 {
		t.Fatalf("the conversation has %d bytes there and %d back", whole.written, whole.read)
	}
	for k := first; k < whole.read; k += every {
		s.converse(t, k, -1)
	}
	for k := first; k < whole.written; k += every {
		s.converse(t, -1, k)
	}
	t.Logf("%d conversations, of %d bytes read and %d written", s.names, whole.read, whole.written)
}

// converse has one conversation, which is cut and goes on.
func (s *seam) converse(t *testing.T, reads, writes int) *cut {
	t.Helper()
	s.names++
	c := &talker{world: s.world, name: fmt.Sprintf("c%05d", s.names), events: 3, done: map[string]bool{}}
	broken := &cut{Conn: s.dial(), reads: reads, writes: writes}
	from := s.end(c.name)
	first := c.talk(broken, 0)
	if first != nil && !broken.broke {
		t.Errorf("cut after %d bytes read, %d written: %v", reads, writes, first)
	}
	_ = broken.Close()
	s.settle()
	if again := s.dial(); first != nil {
		if err := c.talk(again, 0); err != nil {
			t.Errorf("again after %d bytes read, %d written: %v", reads, writes, err)
		}
		_ = again.Close()
	}
	s.settle()
	want := s.resultsOf(c.name, from)
	last := s.dial()
	if err := c.talk(last, uint64(len(want))); err != nil {
		t.Errorf("at last, after %d bytes read, %d written: %v", reads, writes, err)
	}
	_ = last.Close()
	if len(want) < c.events || len(c.got) < len(want) {
		t.Errorf("after %d bytes read, %d written: %d results, %d are in the log", reads, writes, len(c.got), len(want))
	}
	want = s.resultsOf(c.name, from) // where nothing settles an event comes into the log late
	if len(c.got) > len(want) {
		t.Errorf("after %d bytes read, %d written: %d results, %d are in the log", reads, writes, len(c.got), len(want))
	}
	for i := range min(len(c.got), len(want)) {
		if c.got[i] != want[i].Event {
			t.Errorf("after %d bytes read, %d written: result %d is of %s, want %s", reads, writes, i+1, c.got[i], want[i].Event)
		}
	}
	return broken
}
