// Package gateway serves clients: they send events, which are accepted once they
// are in the log, and get results, from any position on. A connection is only a
// cursor on the topic of results; nothing that a client may lose is kept here, so
// any gateway serves any client. docs/design/gateway.md has the whole.
package gateway

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	"golang.org/x/sync/semaphore"

	"github.com/afterbay/afterbay/gateway/hub"
	"github.com/afterbay/afterbay/gateway/limit"
	"github.com/afterbay/afterbay/gateway/wire"
	"github.com/afterbay/afterbay/stream"
)

// Identity is who a token speaks for.
type Identity struct {
	Tenant, Client string    // valid ids of package wire
	Expires        time.Time // zero is never
}

// Authenticator says whom a token belongs to. Its errors may be logged: they hold
// nothing secret. It is called by many goroutines.
type Authenticator interface {
	Verify(ctx context.Context, token string) (Identity, error)
}

// Log is what a gateway needs of a stream.Log and its stream.Inspector.
type Log interface {
	hub.Log
	Append(ctx context.Context, records ...stream.Record) error
}

// Options of a Gateway. CursorKey is needed; the zero value of every other field
// is a good default.
type Options struct {
	// Inbox is the topic that events are appended to, and Results the one that
	// results are read from; they are inbox and results.
	Inbox, Results string
	// CursorKey signs cursors, at least 32 bytes, the same for all gateways.
	CursorKey []byte
	// Epoch is of the log: one that lost records has another.
	Epoch uint64
	// Origins of pages that may connect, and read answers, as https://example.org;
	// "*" is any. A request without an origin comes from no page and is served.
	Origins []string
	// Connections is how many clients may be connected, an eighth of them without
	// having said yet who they are; 0 is 10,000.
	Connections int
	// PendingLimit is how many events of a connection may wait for their result;
	// 0 is 50.
	PendingLimit int
	// MessageBytes bounds a message of a client; 0 is 64 KiB.
	MessageBytes int
	// AppendingBytes bounds the events of all connections that are on their way
	// into the log; 0 is 256 MiB.
	AppendingBytes int64
	// Ping is between pings, and PongTimeout how long a client may leave one
	// unanswered; 0 is 15 s and 10 s.
	Ping, PongTimeout time.Duration
	// DrainWindow is the time over which clients are sent away when the gateway
	// ends; 0 is 30 s.
	DrainWindow time.Duration
	// Tenants bounds each tenant: its connections, and how many connections and
	// events it begins a second. Zeros are 10,000 connections, 10,000 a second and
	// 20,000 at once after a pause.
	Tenants limit.Options
	// Hub bounds what is kept of results.
	Hub hub.Options
	// Logger gets what goes wrong; nil is slog.Default().
	Logger *slog.Logger
	// Fault is called before events are appended (append) and before they are
	// accepted (accept): crash tests end the process there.
	Fault func(stage string)
}

const cursorKeyBytesMin = 32

// Validate returns all that is wrong with the options, and why.
func (o Options) Validate() error {
	errs := []error{o.Hub.Validate()}
	if len(o.CursorKey) < cursorKeyBytesMin {
		errs = append(errs, fmt.Errorf("CursorKey has %d bytes, want at least %d: others could make cursors", len(o.CursorKey), cursorKeyBytesMin))
	}
	for _, n := range [...]struct {
		name  string
		value int64
	}{
		{"Connections", int64(o.Connections)}, {"PendingLimit", int64(o.PendingLimit)}, {"MessageBytes", int64(o.MessageBytes)}, {"AppendingBytes", o.AppendingBytes},
		{"Ping", int64(o.Ping)}, {"PongTimeout", int64(o.PongTimeout)}, {"DrainWindow", int64(o.DrainWindow)},
	} {
		if n.value < 0 {
			errs = append(errs, fmt.Errorf("%s is %d: leave it 0 for the default", n.name, n.value))
		}
	}
	return errors.Join(errs...)
}

func (o Options) withDefaults() Options {
	o.Inbox, o.Results = cmp.Or(o.Inbox, "inbox"), cmp.Or(o.Results, "results")
	o.Connections = cmp.Or(o.Connections, 10_000)
	o.PendingLimit = cmp.Or(o.PendingLimit, 50)
	o.MessageBytes = cmp.Or(o.MessageBytes, 64<<10)
	o.AppendingBytes = cmp.Or(o.AppendingBytes, 256<<20)
	o.Ping, o.PongTimeout = cmp.Or(o.Ping, 15*time.Second), cmp.Or(o.PongTimeout, 10*time.Second)
	o.DrainWindow = cmp.Or(o.DrainWindow, 30*time.Second)
	o.Tenants.Open, o.Tenants.Rate, o.Tenants.Burst = cmp.Or(o.Tenants.Open, 10_000), cmp.Or(o.Tenants.Rate, 10_000), cmp.Or(o.Tenants.Burst, 20_000)
	o.Logger = cmp.Or(o.Logger, slog.Default())
	if o.Fault == nil {
		o.Fault = func(string) {}
	}
	return o
}

// Gateway serves clients. Make one with New, Run it, and serve its Handler.
type Gateway struct {
	options Options
	log     Log
	auth    Authenticator
	hub     *hub.Hub
	metrics Metrics
	tenants *limit.Limiter[string]
	sockets sockets
	cursors *wire.CursorKey
	bodies  *semaphore.Weighted // bytes of requests that are held
	readers shares              // requests whose bodies are being read
	appends *semaphore.Weighted // bytes of events of connections on their way into the log

	ctx  context.Context // of all that clients ask for: done when the last has gone
	stop context.CancelFunc
	work sync.WaitGroup // connections, requests and their goroutines
	crew *crew          // of sessions

	mu       sync.Mutex // guards what follows
	draining bool
	drained  chan struct{}       // closed when draining begins
	open     map[member]struct{} // connections of every kind
	named    map[string]*session // by client and session id
	strange  int                 // connections of open that have not said who they are
}

// member is an open connection: the gateway's clock looks at it each second, and
// it is sent away when the gateway ends.
type member interface {
	tick(now time.Time)
	leave(code closeCode, after time.Duration)
	state() Client
}

// New returns a gateway on log, whose topics exist.
func New(ctx context.Context, log Log, auth Authenticator, o Options) (*Gateway, error) {
	if err := o.Validate(); err != nil {
		return nil, fmt.Errorf("gateway: %w", err)
	}
	o = o.withDefaults()
	h, err := hub.New(ctx, log, o.Results, o.Hub)
	if err != nil {
		return nil, fmt.Errorf("gateway: %w", err)
	}
	tenants, err := limit.New[string](o.Tenants)
	if err != nil {
		return nil, fmt.Errorf("gateway: tenants: %w", err)
	}
	g := &Gateway{
		options: o, log: log, auth: auth, hub: h, tenants: tenants, cursors: wire.NewCursorKey(o.CursorKey),
		drained: make(chan struct{}), open: map[member]struct{}{}, named: map[string]*session{},
		bodies: semaphore.NewWeighted(bodiesBytes), readers: newShares(readersMost), appends: semaphore.NewWeighted(o.AppendingBytes),
	}
	g.ctx, g.stop = context.WithCancel(context.WithoutCancel(ctx))
	g.crew = newCrew(&g.work)
	g.sockets = newSockets(g)
	return g, nil
}

// Metrics returns what the gateway counts.
func (g *Gateway) Metrics() *Metrics { return &g.metrics }

// Tenants returns what the bounds of tenants did.
func (g *Gateway) Tenants() limit.Stats { return g.tenants.Stats() }

// Hub returns the metrics of the reading of results.
func (g *Gateway) Hub() *hub.Metrics { return g.hub.Metrics() }

// Handler serves
//
//	GET  /v1/stream   WebSocket, subprotocol afterbay.v1
//	GET  /v1/results  server-sent events, or with ?wait= one answer of NDJSON
//	POST /v1/events   NDJSON of events
//	POST /v1/ack      an acknowledgement
//
//	GET  /v1/openapi.json, /v1/asyncapi.json  all of that, for programs
//
// See Server for what serves it.
func (g *Gateway) Handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /v1/stream", g.correlate(g.serveStream))
	for _, route := range [...]struct {
		method, path string
		handler      http.HandlerFunc
	}{
		{http.MethodGet, "/v1/results", g.serveResults}, {http.MethodPost, "/v1/events", g.serveEvents}, {http.MethodPost, "/v1/ack", g.serveAck},
	} {
		mux.HandleFunc(route.method+" "+route.path, g.share(g.correlate(route.handler)))
		mux.HandleFunc(http.MethodOptions+" "+route.path, g.share(g.preflight(route.method)))
	}
	for path, document := range documents {
		mux.HandleFunc(http.MethodGet+" "+path, g.share(describe(document)))
	}
	return mux
}

const (
	headerTimeout = 5 * time.Second  // for the header of a request
	idleTimeout   = 60 * time.Second // for the next request of a connection
	headerBytes   = 16 << 10
)

// Server returns a server of the Handler that bounds what those cost who send
// slowly, nothing, or much. Its caller may set other fields, and serves it.
func (g *Gateway) Server() *http.Server {
	return &http.Server{
		Handler: g.Handler(), ReadHeaderTimeout: headerTimeout, ReadTimeout: bodyTimeout, IdleTimeout: idleTimeout, MaxHeaderBytes: headerBytes,
		ErrorLog: slog.NewLogLogger(g.options.Logger.Handler(), slog.LevelDebug),
	}
}

// Run serves until ctx is done and then sends clients away: it takes no new
// connections and no more events, finishes those that are being appended, and
// spreads the ends of connections over Options.DrainWindow. It returns when all
// of them are gone.
func (g *Gateway) Run(ctx context.Context) error {
	group, failed := errgroup.WithContext(g.ctx)
	group.Go(func() error { return g.hub.Run(failed) })
	ticks, endTicks := context.WithCancel(g.ctx)
	var clock sync.WaitGroup
	clock.Go(func() { g.tick(ticks) })
	select {
	case <-ctx.Done():
	case <-failed.Done():
	}
	g.drain()
	g.work.Wait()
	endTicks()
	clock.Wait()
	g.stop()
	g.crew.end()
	return group.Wait()
}

// tick is the clock of all connections, so that none needs a timer.
func (g *Gateway) tick(ctx context.Context) {
	ticker := time.NewTicker(time.Second)
	defer ticker.Stop()
	for {
		select {
		case now := <-ticker.C:
			for _, m := range g.members() {
				m.tick(now)
			}
		case <-ctx.Done():
			return
		}
	}
}

func (g *Gateway) members() []member {
	g.mu.Lock()
	defer g.mu.Unlock()
	members := make([]member, 0, len(g.open))
	for m := range g.open {
		members = append(members, m)
	}
	return members
}

// drainPause is between the turn of a client to be sent away and its return. It is
// less for one that is told late, so that they come back as evenly as their turns are.
const drainPause = 2 * time.Second

// drain sends clients away, one after the other, each with its own time to come back.
func (g *Gateway) drain() {
	g.mu.Lock()
	g.draining = true
	close(g.drained)
	g.mu.Unlock()
	members := g.members()
	if len(members) == 0 {
		return
	}
	began, every := time.Now(), g.options.DrainWindow/time.Duration(len(members))
	for i, m := range members {
		// By the clock, not a tick for each: where ticks come late it would take longer
		// than the window, and who ends the process waits no longer.
		turn := began.Add(time.Duration(i) * every)
		time.Sleep(time.Until(turn))
		m.leave(closeDrain, max(0, time.Until(turn.Add(drainPause))))
	}
}

// enter takes a connection in, where there is room for it. Run waits for its exit.
// Strangers have little room: who only knocks keeps no client out that shows its
// token with its request.
func (g *Gateway) enter(m member) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	switch {
	case g.draining:
		return errDraining
	case len(g.open) >= g.options.Connections, stranger(m) && g.strange >= max(1, g.options.Connections/8):
		g.metrics.Full.Add(1)
		return errFull
	}
	if stranger(m) {
		g.strange++
	}
	g.open[m] = struct{}{}
	g.metrics.Connections.Add(1)
	g.work.Add(1)
	return nil
}

// stranger reports whether it is not known who a connection is of. Its caller holds
// mu.
func stranger(m member) bool {
	s, ok := m.(*session)
	return ok && s.strange
}

// know says that it is known who a connection is of.
func (g *Gateway) know(s *session) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if s.strange {
		s.strange = false
		g.strange--
	}
}

// hold keeps Run from returning until g.work is done with what a request asks.
func (g *Gateway) hold() error {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.draining {
		return errDraining
	}
	g.work.Add(1)
	return nil
}

func (g *Gateway) exit(m member) {
	defer g.work.Done()
	g.mu.Lock()
	defer g.mu.Unlock()
	if stranger(m) {
		g.strange--
	}
	delete(g.open, m)
	g.metrics.Connections.Add(-1)
}

// name makes s the connection of a client's session, and returns the older one, if
// there are two: that is s where its client gave it up, and was served faster by the
// next one.
func (g *Gateway) name(key string, s *session) (older *session) {
	g.mu.Lock()
	defer g.mu.Unlock()
	before := g.named[key]
	if before != nil && before.opened.After(s.opened) {
		return s
	}
	g.named[key] = s
	return before
}

func (g *Gateway) unname(key string, s *session) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.named[key] == s {
		delete(g.named, key)
	}
}

func (g *Gateway) leaving() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.draining
}
