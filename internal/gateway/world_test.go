package gateway_test

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/afterbay/afterbay/internal/event/header"
	"github.com/afterbay/afterbay/internal/gateway"
	"github.com/afterbay/afterbay/internal/gateway/wire"
	"github.com/afterbay/afterbay/internal/http/server"
	"github.com/afterbay/afterbay/internal/log/memory"
	"github.com/afterbay/afterbay/internal/test/contracttest"
	"github.com/afterbay/afterbay/internal/test/memnet"
	"github.com/afterbay/afterbay/stream"
)

// tokens are tenant.client, or tenant.client.expires in seconds of Unix.
type tokens struct{}

var errNoToken = errors.New("no such token")

func (tokens) Verify(_ context.Context, token string) (gateway.Identity, error) {
	parts := strings.Split(token, ".")
	if len(parts) < 2 {
		return gateway.Identity{}, errNoToken
	}
	who := gateway.Identity{Tenant: parts[0], Client: parts[1]}
	if len(parts) == 3 {
		var seconds int64
		if _, err := fmt.Sscan(parts[2], &seconds); err != nil || time.Unix(seconds, 0).Before(time.Now()) {
			return gateway.Identity{}, errNoToken
		}
		who.Expires = time.Unix(seconds, 0)
	}
	return who, nil
}

var cursors = wire.NewCursorKey([]byte(cursorKey)) // signs them

// world is a gateway, on connections in memory, and what stands in for the
// sequencer and the pipeline.
type world struct {
	testing.TB
	log      engine
	reads    gateway.Log // the log as the gateway has it
	auth     gateway.Authenticator
	gateway  *gateway.Gateway
	listener *listener
	finish   func() // ends the gateway as a signal would, and waits for it
	close    func()
}

type engine interface {
	stream.Log
	stream.Inspector
	Close() error
}

const (
	partitions = 2
	cursorKey  = "0123456789abcdef0123456789abcdef"
)

func newWorld(t testing.TB, o gateway.Options) *world {
	t.Helper()
	return newWorldOn(t, memory.New(memory.Options{}), o)
}

func newWorldOn(t testing.TB, log engine, o gateway.Options) *world {
	t.Helper()
	return newWorldWith(t, tokens{}, log, o)
}

func newWorldWith(t testing.TB, auth gateway.Authenticator, log engine, o gateway.Options) *world {
	t.Helper()
	w := &world{TB: t, log: log, reads: log, auth: auth}
	for _, topic := range []string{"inbox", "results"} {
		w.ok(w.log.CreateTopic(t.Context(), stream.Topic{Name: topic, Partitions: partitions}))
	}
	var group sync.WaitGroup
	ctx, cancel := context.WithCancel(context.Background())
	for p := range int32(partitions) {
		group.Go(func() { w.answer(ctx, p) })
	}
	o.CursorKey = []byte(cursorKey)
	o.Logger = cmp.Or(o.Logger, slog.New(slog.DiscardHandler))
	stop := w.start(o)
	w.finish = stop
	w.close = func() {
		stop()
		cancel()
		group.Wait()
		w.ok(w.log.Close())
	}
	return w
}

// start serves the log by a gateway, and returns what ends it.
func (w *world) start(o gateway.Options) (stop func()) {
	w.Helper()
	g, err := gateway.New(w.Context(), w.reads, w.auth, o)
	w.ok(err)
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 2)
	l := newListener(w.TB)
	server := g.Server(server.Options{})
	go func() { ended <- g.Run(ctx) }()
	go func() { ended <- server.Serve(l) }()
	w.gateway, w.listener = g, l
	done := make(chan struct{})
	go func() {
		defer close(done)
		if err := <-ended; err != nil {
			w.Errorf("the gateway ended with %v", err)
		}
		_ = server.Close()
		if err := <-ended; !errors.Is(err, http.ErrServerClosed) {
			w.Errorf("the server ended with %v", err)
		}
	}()
	return func() { cancel(); <-done; l.check() }
}

func (w *world) ok(err error) {
	w.Helper()
	if err != nil {
		w.Fatal(err)
	}
}

// answer judges the events of a partition of the inbox as the sequencer does: one
// that it has seen gets its result again, marked, with a seq of its own.
func (w *world) answer(ctx context.Context, p int32) {
	seqs, results := map[string]uint64{}, map[string]wire.Result{}
	for r, err := range w.log.Tail(ctx, stream.Partition{Topic: "inbox", Index: p}, 0) {
		if err != nil {
			return
		}
		if header.Get(&r, header.Inbox) == wire.InboxCancel {
			tenant, client, id, err := wire.ParseCancel(&r)
			w.ok(err)
			key := wire.Key(tenant, client)
			seqs[key]++
			w.ok(w.log.Append(ctx, wire.ResultRecord("results", &wire.Result{
				Tenant: tenant, Client: client, Event: id, Seq: seqs[key], Status: wire.StatusRejected, Error: &wire.Error{Code: wire.CodeCancelled, Message: "given up"},
			})))
			continue
		}
		e, err := wire.ParseSubmit(&r)
		if err != nil {
			w.Errorf("inbox: %v", err)
			return
		}
		key := wire.Key(e.Tenant, e.Client)
		result, again := results[key+"/"+e.ID]
		if !again {
			result = wire.Result{
				Tenant: e.Tenant, Client: e.Client, Event: e.ID, Causal: e.Causal, Status: wire.StatusOK, Correlation: e.Correlation,
				Payload: json.RawMessage(fmt.Sprintf(`{"of":%s}`, e.Payload)), Time: time.Unix(1_750_000_000, 0),
			}
			results[key+"/"+e.ID] = result
		}
		if string(e.Payload) == `"never"` {
			continue
		}
		seqs[key]++
		result.Seq, result.Duplicate = seqs[key], again
		w.ok(w.log.Append(ctx, wire.ResultRecord("results", &result)))
	}
}

func resultsAt(client string) stream.Partition {
	return stream.Partition{Topic: "results", Index: wire.PartitionOf("acme", client, partitions)}
}

// end returns the end of the partition of a client's results.
func (w *world) end(client string) stream.Offset {
	_, next, err := w.log.Offsets(w.Context(), resultsAt(client))
	w.ok(err)
	return next
}

// resultsOf returns the results of a client that are in the log from offset on.
func (w *world) resultsOf(client string, offset stream.Offset) []wire.Result {
	p := resultsAt(client)
	var results []wire.Result
	for ; ; offset++ {
		r, found, err := w.log.Peek(w.Context(), p, offset)
		w.ok(err)
		if !found {
			return results
		}
		result, err := wire.ParseResult(&r)
		w.ok(err)
		if result.Client == client {
			results = append(results, result)
		}
	}
}

// connect returns a connection of a client that is connected.
func (w *world) connect(client string, resume *wire.Resume) (*raw, *wire.Connected) {
	w.Helper()
	c, _, err := dialRaw(w.listener.dial(), offered, "Authorization: Bearer acme."+client)
	w.ok(err)
	w.ok(c.send(&wire.Connect{ID: 1, Resume: resume}))
	connected, ok := w.receive(c).(*wire.Connected)
	if !ok || connected.ID != 1 {
		w.Fatalf("connect is answered by %+v", connected)
	}
	return c, connected
}

// receive returns the next frame, but for pings.
func (w *world) receive(c *raw) wire.Frame {
	w.Helper()
	for {
		f, err := c.receive()
		w.ok(err)
		if _, ping := f.(*wire.Ping); !ping {
			return f
		}
	}
}

func event(id, payload string) *wire.Submission {
	return &wire.Submission{EventID: id, Payload: json.RawMessage(payload)}
}

// ends returns the frames until the connection is closed, and how it was.
func (w *world) ends(c *raw) (frames []wire.Frame, how *closed) {
	w.Helper()
	for {
		f, err := c.receive()
		if errors.As(err, &how) || errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, io.ErrClosedPipe) {
			return frames, how
		}
		w.ok(err)
		frames = append(frames, f)
	}
}

// listener taps the connections that it is given.
type listener struct {
	testing.TB
	*memnet.Listener

	mu   sync.Mutex // guards taps
	taps []*contracttest.Tap
}

func newListener(t testing.TB) *listener {
	return &listener{TB: t, Listener: memnet.Listen()}
}

// check holds all that the gateway has sent to the documents of its protocol.
func (l *listener) check() {
	l.Helper()
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, tap := range l.taps {
		tap.Check()
	}
}

func (l *listener) dial() net.Conn {
	client, server := net.Pipe()
	_ = l.Give(server)
	tap := contracttest.New(l, client, false) // some tests send what is wrong
	l.mu.Lock()
	defer l.mu.Unlock()
	l.taps = append(l.taps, tap)
	return tap
}
