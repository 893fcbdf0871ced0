package client_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lxzan/gws"

	"github.com/afterbay/afterbay/client"
	"github.com/afterbay/afterbay/internal/event/header"
	"github.com/afterbay/afterbay/internal/gateway"
	"github.com/afterbay/afterbay/internal/gateway/wire"
	"github.com/afterbay/afterbay/internal/http/server"
	"github.com/afterbay/afterbay/internal/log/memory"
	"github.com/afterbay/afterbay/internal/test/contracttest"
	"github.com/afterbay/afterbay/internal/test/memnet"
	"github.com/afterbay/afterbay/stream"
)

// tokens are those of clients of acme: tenant.name, and ~ before when they end, in
// seconds since 1970, where they do.
type tokens struct{}

func (tokens) Verify(_ context.Context, token string) (gateway.Identity, error) {
	tenant, name, ok := strings.Cut(token, ".")
	if !ok {
		return gateway.Identity{}, errors.New("no such token")
	}
	name, end, ends := strings.Cut(name, "~")
	who := gateway.Identity{Tenant: tenant, Client: name}
	if seconds, err := strconv.ParseInt(end, 10, 64); ends {
		who.Expires = time.Unix(seconds, 0)
		if err != nil || !time.Now().Before(who.Expires) {
			return gateway.Identity{}, errors.New("it ended")
		}
	}
	return who, nil
}

func tokenOf(name string) func(context.Context) (string, error) {
	return func(context.Context) (string, error) { return "acme." + name, nil }
}

// world is a gateway on connections in memory, which can be another one a while
// later, and what stands in for the sequencer and the pipeline.
type world struct {
	testing.TB
	log   *memory.Log
	close func()

	mu       sync.Mutex // guards what follows
	gateway  *gateway.Gateway
	listener *memnet.Listener // of the gateway that serves; nil where none does
	taps     []*contracttest.Tap
}

const partitions = 2

func newWorld(t testing.TB) *world {
	w := &world{TB: t, log: memory.New(memory.Options{})}
	for _, topic := range []string{"inbox", "results"} {
		w.ok(w.log.CreateTopic(t.Context(), stream.Topic{Name: topic, Partitions: partitions}))
	}
	var group sync.WaitGroup
	ctx, cancel := context.WithCancel(context.Background())
	for p := range int32(partitions) {
		group.Go(func() { w.answer(ctx, p) })
	}
	w.close = func() {
		cancel()
		group.Wait()
		w.ok(w.log.Close())
		w.check()
	}
	return w
}

// start serves by a gateway until stop is called, as a signal would end it.
func (w *world) start(o gateway.Options) (stop func()) {
	o.CursorKey, o.Logger = []byte("0123456789abcdef0123456789abcdef"), slog.New(slog.DiscardHandler)
	g, err := gateway.New(w.Context(), w.log, tokens{}, o)
	w.ok(err)
	ctx, cancel := context.WithCancel(context.Background())
	l := memnet.Listen()
	server := g.Server(server.Options{})
	var group sync.WaitGroup
	group.Go(func() {
		if err := server.Serve(l); !errors.Is(err, http.ErrServerClosed) {
			w.Errorf("the server ended with %v", err)
		}
	})
	group.Go(func() {
		if err := g.Run(ctx); err != nil {
			w.Errorf("the gateway ended with %v", err)
		}
		_ = server.Close()
	})
	w.mu.Lock()
	w.listener, w.gateway = l, g
	w.mu.Unlock()
	return func() { cancel(); group.Wait() }
}

func (w *world) metrics() *gateway.Metrics {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.gateway.Metrics()
}

// dial connects to the gateway that serves.
func (w *world) dial(context.Context, string, string) (net.Conn, error) {
	w.mu.Lock()
	l := w.listener
	w.mu.Unlock()
	here, there := net.Pipe()
	if err := l.Give(there); err != nil {
		return nil, err
	}
	tap := contracttest.New(w.TB, here, true)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.taps = append(w.taps, tap)
	return tap, nil
}

// check holds what both sides sent to the documents of the protocol.
func (w *world) check() {
	w.Helper()
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, tap := range w.taps {
		tap.Check()
	}
}

// client returns one that is connected.
func (w *world) client(name string, o client.Options) *client.Client {
	w.Helper()
	if o.Token == nil {
		o.Token = tokenOf(name)
	}
	if o.Dial == nil {
		o.Dial = w.dial
	}
	c, err := client.Dial(w.Context(), "ws://gateway", o)
	w.ok(err)
	return c
}

func (w *world) ok(err error) {
	w.Helper()
	if err != nil {
		w.Fatal(err)
	}
}

// send sends an event. It may be called by any goroutine.
func (w *world) send(c *client.Client, id, payload string) {
	if err := c.Send(w.Context(), event(id, payload)); err != nil {
		w.Error(err)
	}
}

// answer judges the events of a partition of the inbox as the sequencer does: one
// that it has seen gets its result again, marked. One that is slow takes a second.
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
		if string(e.Payload) == `"slow"` {
			time.Sleep(time.Second)
		}
		key := wire.Key(e.Tenant, e.Client)
		result, again := results[key+"/"+e.ID]
		if !again {
			result = wire.Result{
				Tenant: e.Tenant, Client: e.Client, Event: e.ID, Status: wire.StatusOK,
				Payload: json.RawMessage(fmt.Sprintf(`{"of":%s}`, e.Payload)), Time: time.Unix(1_750_000_000, 0),
			}
			results[key+"/"+e.ID] = result
		}
		if string(e.Payload) == `"never"` {
			continue
		}
		seqs[key]++
		result.Seq, result.Duplicate = seqs[key], again
		if err := w.log.Append(ctx, wire.ResultRecord("results", &result)); err != nil && ctx.Err() == nil {
			w.Errorf("results: %v", err)
		}
	}
}

// resultsOf returns the results of a client that are in the log.
func (w *world) resultsOf(name string) []wire.Result {
	p := stream.Partition{Topic: "results", Index: wire.PartitionOf("acme", name, partitions)}
	var results []wire.Result
	for offset := stream.Offset(0); ; offset++ {
		r, found, err := w.log.Peek(w.Context(), p, offset)
		w.ok(err)
		if !found {
			return results
		}
		result, err := wire.ParseResult(&r)
		w.ok(err)
		if result.Client == name {
			results = append(results, result)
		}
	}
}

// rest returns the results of a client that follow the first n. Send returns at the
// first proof that an event is in the log. The gateway can then still hold a copy of it
// behind a client that reads no results, so each result that is read can lead to more.
func (w *world) rest(c *client.Client, name string, n int) (results []*client.Result) {
	w.Helper()
	for synctest.Wait(); n+len(results) < len(w.resultsOf(name)); synctest.Wait() {
		results = append(results, next(w, c, 1)...)
	}
	return results
}

// compare sees that a client received what is in the log, once, in order.
func (w *world) compare(name string, got []*client.Result) {
	w.Helper()
	want := w.resultsOf(name)
	if len(got) != len(want) {
		w.Errorf("%s received %d results, %d are in the log", name, len(got), len(want))
	}
	for i := range min(len(got), len(want)) {
		g, r := got[i], &want[i]
		if g.Seq != r.Seq || g.EventID != r.Event || g.Duplicate != r.Duplicate || string(g.Payload) != string(r.Payload) {
			w.Errorf("%s: result %d is %d of %s, want %d of %s", name, i, g.Seq, g.EventID, r.Seq, r.Event)
			return
		}
	}
}

// cut is a connection that breaks after so many bytes in one direction.
type cut struct {
	net.Conn
	reads, writes int // that are left
}

var errCut = errors.New("the connection was cut")

func (c *cut) Read(b []byte) (int, error) {
	if c.reads == 0 {
		return 0, errors.Join(errCut, c.Close())
	}
	n, err := c.Conn.Read(b[:min(len(b), c.reads)])
	c.reads -= n
	return n, err
}

func (c *cut) Write(b []byte) (int, error) {
	n, err := c.Conn.Write(b[:min(len(b), c.writes)])
	if c.writes -= n; err == nil && n < len(b) {
		err = errors.Join(errCut, c.Close())
	}
	return n, err
}

// peer is the gateway's end of a connection whose gateway is a script.
type peer struct {
	gws.BuiltinEventHandler
	testing.TB
	conn   *gws.Conn
	frames chan wire.Frame // of the client; closed when the connection is
}

// OnMessage implements gws.Event.
func (p *peer) OnMessage(_ *gws.Conn, m *gws.Message) {
	f, problem := wire.ParseClient(m.Bytes())
	if problem != nil {
		p.Errorf("the client sends %s: %v", m.Bytes(), problem)
	}
	if err := contracttest.Client(m.Bytes()); err != nil {
		p.Errorf("the client sends what its contract has not: %v", err)
	}
	_ = m.Close()
	p.frames <- f
}

// OnClose implements gws.Event.
func (p *peer) OnClose(*gws.Conn, error) { close(p.frames) }

// send sends frames; those after the connection's end are lost.
func (p *peer) send(frames ...wire.Frame) {
	for _, f := range frames {
		message, err := wire.Encode(f)
		if err == nil {
			err = contracttest.Server(message)
		}
		if err != nil {
			p.Error(err)
		}
		_ = p.conn.WriteMessage(gws.OpcodeText, message)
	}
}

func (p *peer) close(code uint16) { _ = p.conn.WriteClose(code, []byte("test")) }

func hello() *wire.Connected {
	return &wire.Connected{ID: 1, ClientID: "ada", TenantID: "acme", Epoch: "0", Cursor: "c0", PingMs: 15_000, PongTimeoutMs: 10_000, PendingLimit: 50, MaxMessageBytes: 64 << 10}
}

// scripted returns what dials a gateway that does to its connection number n, from
// 0, what the script says; connect is its first frame.
func scripted(t testing.TB, script func(n int, connect *wire.Connect, p *peer)) func(context.Context, string, string) (net.Conn, error) {
	n := -1
	return func(context.Context, string, string) (net.Conn, error) {
		n++
		number := n
		here, there := net.Pipe()
		go serve(t, there, func(connect *wire.Connect, p *peer) { script(number, connect, p) })
		return here, nil
	}
}

func serve(t testing.TB, conn net.Conn, script func(*wire.Connect, *peer)) {
	defer func() { _ = conn.Close() }()
	r := bufio.NewReader(conn)
	request, err := http.ReadRequest(r)
	if err != nil {
		return
	}
	p := &peer{TB: t, frames: make(chan wire.Frame, 4096)}
	p.conn, err = gws.NewUpgrader(p, &gws.ServerOption{SubProtocols: []string{wire.Protocol}}).UpgradeFromConn(conn, r, request)
	if err != nil {
		t.Error(err)
		return
	}
	var reading sync.WaitGroup
	reading.Go(p.conn.ReadLoop)
	defer reading.Wait()
	defer func() { _ = conn.Close() }()
	if connect, ok := (<-p.frames).(*wire.Connect); ok {
		script(connect, p)
	}
}

// wait waits until the client is gone.
func (p *peer) wait() {
	for range p.frames {
	}
}
