// Package gateway serves clients: they send events, which are accepted once they
// are in the log, and get results, from any position on. A connection is only a
// cursor on the topic of results; nothing that a client may lose is kept here, so
// any gateway serves any client. docs/design/gateway.md has the whole.
package gateway

import (
	"cmp"
	"context"
	"crypto/rand"
	"fmt"
	"net/http"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	"golang.org/x/sync/semaphore"

	"github.com/afterbay/afterbay/internal/event/header"
	"github.com/afterbay/afterbay/internal/gateway/hub"
	"github.com/afterbay/afterbay/internal/gateway/limit"
	"github.com/afterbay/afterbay/internal/gateway/wire"
	"github.com/afterbay/afterbay/internal/http/access"
	"github.com/afterbay/afterbay/internal/http/server"
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
	readers shares              // requests whose bodies are being read
	appends *semaphore.Weighted // bytes of events of connections on their way into the log

	ctx  context.Context // of all that clients ask for: done when the last has gone
	stop context.CancelFunc
	crew *crew // of sessions

	connections
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
		connections: connections{most: o.Connections, drained: make(chan struct{}), open: map[member]struct{}{}, named: map[string]*session{}},
		readers:     newShares(readersMost), appends: semaphore.NewWeighted(o.AppendingBytes),
	}
	g.ctx, g.stop = context.WithCancel(context.WithoutCancel(ctx))
	g.count, g.crew = &g.metrics, newCrew(&g.work)
	g.sockets = newSockets(g)
	return g, nil
}

// Metrics returns what the gateway counts.
func (g *Gateway) Metrics() *Metrics { return &g.metrics }

// Tenants returns what the bounds of tenants did.
func (g *Gateway) Tenants() limit.Stats { return g.tenants.Stats() }

// Hub returns the metrics of the reading of results.
func (g *Gateway) Hub() *hub.Metrics { return g.hub.Metrics() }

// Endpoints is all that Handler serves. The gateway itself checks the tokens of its
// clients; the documents need none.
func (g *Gateway) Endpoints() []access.Endpoint {
	const get, post, options = http.MethodGet, http.MethodPost, http.MethodOptions
	list := []access.Endpoint{
		{Method: get, Pattern: "/v1/stream", Role: access.Client, Summary: "Connect by WebSocket, subprotocol afterbay.v1.", Handler: g.correlate(g.serveStream)},
	}
	for _, e := range []access.Endpoint{
		{Method: get, Pattern: "/v1/results", Summary: "Receive results: server-sent events, or with ?wait= one answer of NDJSON.", Handler: g.serveResults},
		{Method: post, Pattern: "/v1/events", Summary: "Send events, NDJSON.", Handler: g.serveEvents},
		{Method: post, Pattern: "/v1/ack", Summary: "Acknowledge results.", Handler: g.serveAck},
		{Method: post, Pattern: "/v1/cancel", Summary: "Give up an event.", Handler: g.serveCancel},
	} {
		e.Role, e.Handler = access.Client, g.share(g.correlate(e.Handler))
		list = append(list, e, access.Endpoint{Method: options, Pattern: e.Pattern, Role: access.Public, Summary: "Tell pages what they may send.", Handler: g.share(g.preflight(e.Method))})
	}
	for path, document := range documents {
		list = append(list, access.Endpoint{Method: get, Pattern: path, Role: access.Public, Summary: "Describe all of that, for programs.", Handler: g.share(describe(document))})
	}
	return list
}

// Handler serves Endpoints. See Server for what serves it.
func (g *Gateway) Handler() http.Handler {
	mux := http.NewServeMux()
	for _, e := range g.Endpoints() {
		mux.HandleFunc(e.Method+" "+e.Pattern, e.Handler)
	}
	return mux
}

// Server returns a server of the Handler, which its caller serves. Fields of o that are
// not zero stay as they are.
func (g *Gateway) Server(o server.Options) *server.Server {
	if o.Handler == nil {
		o.Handler = g.Handler()
	}
	o.Name, o.Logger = cmp.Or(o.Name, "gateway"), cmp.Or(o.Logger, g.options.Logger)
	o.Refuse = func(w http.ResponseWriter, _ *http.Request, why *server.Refusal) {
		why.SetHeader(w.Header())
		w.Header().Set(header.Correlation, rand.Text())
		g.refuse(w, &refusal{why.Status, why.Message, why.Hint})
	}
	// The gateway itself bounds its clients, by tenant and in all.
	o.Requests = cmp.Or(o.Requests, g.options.Connections+requestsMost)
	o.Connections = cmp.Or(o.Connections, g.options.Connections+requestsMost)
	o.ConnectionsEach = cmp.Or(o.ConnectionsEach, o.Connections)
	return server.New(o)
}

// requestsMost is how many requests there may be beside the connections of clients.
const requestsMost = 256

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
