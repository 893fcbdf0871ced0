// Package gateway serves clients. Clients send events, which the gateway accepts once they are in
// the log, and receive results from any position. A connection is only a cursor on the results
// topic. The gateway keeps no data that a client could lose, so any gateway can serve any client.
// See docs/design/gateway.md.
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

// Identity is the tenant and client that a token belongs to.
type Identity struct {
	Tenant, Client string    // valid ids, as package wire defines them
	Expires        time.Time // zero means never
}

// Authenticator verifies tokens. Its errors must not contain secrets, because the gateway logs
// them. It must be safe for concurrent use.
type Authenticator interface {
	Verify(ctx context.Context, token string) (Identity, error)
}

// Log is the part of stream.Log and stream.Inspector that a gateway needs.
type Log interface {
	hub.Log
	Append(ctx context.Context, records ...stream.Record) error
}

// Gateway serves clients. Create one with New, call Run, and serve its Handler.
type Gateway struct {
	options Options
	log     Log
	auth    Authenticator
	hub     *hub.Hub
	metrics Metrics
	tenants *limit.Limiter[string]
	sockets sockets
	cursors *wire.CursorKey
	readers shares              // requests with a body that is being read
	appends *semaphore.Weighted // bytes of connections' events that are being appended to the log

	ctx  context.Context // context of all client work; done when the last client has left
	stop context.CancelFunc
	crew *crew // runs the workers of sessions

	connections
}

// New returns a gateway on log. Its topics must exist.
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

// Metrics returns the counters of the gateway.
func (g *Gateway) Metrics() *Metrics { return &g.metrics }

// Tenants returns the statistics of the tenant limits.
func (g *Gateway) Tenants() limit.Stats { return g.tenants.Stats() }

// Hub returns the metrics of the results reader.
func (g *Gateway) Hub() *hub.Metrics { return g.hub.Metrics() }

// Endpoints returns all endpoints of Handler. The gateway itself checks the tokens of its clients;
// the documents need no token.
func (g *Gateway) Endpoints() []access.Endpoint {
	const get, post, options = http.MethodGet, http.MethodPost, http.MethodOptions
	list := []access.Endpoint{
		{Method: get, Pattern: "/v1/stream", Role: access.Client, Summary: "Connect by WebSocket, subprotocol afterbay.v1.", Handler: g.correlate(g.serveStream)},
	}
	for _, e := range []access.Endpoint{
		{Method: get, Pattern: "/v1/results", Summary: "Receive results: server-sent events, or with ?wait= one NDJSON response.", Handler: g.serveResults},
		{Method: post, Pattern: "/v1/events", Summary: "Send events, NDJSON.", Handler: g.serveEvents},
		{Method: post, Pattern: "/v1/ack", Summary: "Acknowledge results.", Handler: g.serveAck},
		{Method: post, Pattern: "/v1/cancel", Summary: "Give up an event.", Handler: g.serveCancel},
	} {
		e.Role, e.Handler = access.Client, g.share(g.correlate(e.Handler))
		list = append(list, e, access.Endpoint{Method: options, Pattern: e.Pattern, Role: access.Public, Summary: "CORS preflight for web pages.", Handler: g.share(g.preflight(e.Method))})
	}
	for path, document := range documents {
		list = append(list, access.Endpoint{Method: get, Pattern: path, Role: access.Public, Summary: "Describe these endpoints for programs.", Handler: g.share(describe(document))})
	}
	return list
}

// Handler returns a handler for Endpoints. Server returns a server for it.
func (g *Gateway) Handler() http.Handler {
	mux := http.NewServeMux()
	for _, e := range g.Endpoints() {
		mux.HandleFunc(e.Method+" "+e.Pattern, e.Handler)
	}
	return mux
}

// Server returns a server for Handler; the caller runs it. Fields of o that are set keep their
// values.
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
	// The gateway itself limits its clients, per tenant and in total.
	o.Requests = cmp.Or(o.Requests, g.options.Connections+requestsMost)
	o.Connections = cmp.Or(o.Connections, g.options.Connections+requestsMost)
	o.ConnectionsEach = cmp.Or(o.ConnectionsEach, o.Connections)
	return server.New(o)
}

// requestsMost is the maximum number of requests in addition to the connections of clients.
const requestsMost = 256

// Run serves until ctx is done and then drains the gateway. While draining it accepts no new
// connections and no more events. It completes the appends in progress, and closes connections
// spread over Options.DrainWindow. Run returns when all connections are closed.
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

// tick drives the timeouts of all connections, so that a connection needs no timer of its own.
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

// drainPause is the time between a client's turn in the drain and its reconnect. A client that is
// told late gets a shorter time, so that reconnects are spread as evenly as the turns.
const drainPause = 2 * time.Second

// drain closes the connections one after the other, each with its own reconnect delay.
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
		// Turns follow the clock, not a ticker. Late ticks would stretch the drain beyond the
		// window, and the process that stops the gateway does not wait longer.
		turn := began.Add(time.Duration(i) * every)
		time.Sleep(time.Until(turn))
		m.leave(closeDrain, max(0, time.Until(turn.Add(drainPause))))
	}
}
