package gateway

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/afterbay/afterbay/internal/gateway/hub"
	"github.com/afterbay/afterbay/internal/gateway/wire"
)

// CursorHeader is a header in the answer to a long poll: the cursor after its results, for the next
// poll.
const CursorHeader = "Afterbay-Cursor"

const (
	waitMost   = 60 * time.Second
	waitGrace  = time.Second // added to a poll's wait, to complete a read of the log
	sseRetryMs = 2000
)

// listening is a client that receives results by HTTP request: server-sent events or a long poll.
type listening struct {
	gateway      *Gateway
	who          Identity
	kind         string // value of Client.Kind
	cloud        bool   // frames are CloudEvents
	correlation  string // correlation id of the request
	opened       time.Time
	subscription atomic.Pointer[hub.Subscription] // written once, before the first read
	digest       uint32                           // digest of the record before the start; set before subscription
	gap          *wire.Gap                        // gap to send first
	woken        chan struct{}

	mu      sync.Mutex // guards the fields below
	pinged  time.Time
	ping    bool             // a ping must be sent
	leaving *wire.Disconnect // the last frame to send
	back    time.Time        // when the client may reconnect after leaving
}

func (l *listening) wake() {
	select {
	case l.woken <- struct{}{}:
	default:
	}
}

// begin returns the cursor at which the client starts.
func (l *listening) begin() string {
	return l.gateway.cursor(l.who, l.subscription.Load().Start()-1, l.digest)
}

// tick runs each second.
func (l *listening) tick(now time.Time) {
	if !l.who.Expires.IsZero() && now.Sub(l.who.Expires) >= expiryGrace {
		l.leave(closeExpired, 0)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if now.Sub(l.pinged) >= l.gateway.options.Ping {
		l.pinged, l.ping = now, true
		l.wake()
	}
}

// leave makes the goroutine of the request close the connection.
func (l *listening) leave(code closeCode, after time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.leaving != nil {
		return
	}
	l.gateway.metrics.Closed.add(code)
	l.leaving, l.back = code.frame(0), time.Now().Add(after)
	l.wake()
}

// due returns whether to send a ping, and the last frame. The frame is nil if the connection stays
// open.
func (l *listening) due() (ping bool, leaving *wire.Disconnect) {
	l.mu.Lock()
	defer l.mu.Unlock()
	ping, l.ping = l.ping, false
	if l.leaving != nil {
		l.leaving.RetryAfterMs = max(0, time.Until(l.back).Milliseconds()) // leave may be long ago
	}
	return ping, l.leaving
}

// serveResults answers with results: a stream of server-sent events, or one answer to a long poll.
func (g *Gateway) serveResults(w http.ResponseWriter, r *http.Request) {
	if r.Method == http.MethodHead { // a HEAD would block as long as the stream that it cannot read
		w.Header().Set("Allow", "GET, OPTIONS")
		g.refuse(w, &refusal{http.StatusMethodNotAllowed, "results have no head", "use GET"})
		return
	}
	who, err := g.caller(w, r)
	if err != nil {
		g.refuse(w, err)
		return
	}
	if r.ContentLength == 0 { // the server's read deadline is only for a body
		_ = http.NewResponseController(w).SetReadDeadline(time.Time{})
	}
	query := r.URL.Query()
	wait, err := time.ParseDuration(query.Get("wait"))
	if query.Has("wait") && (err != nil || wait < 0 || wait > waitMost) {
		g.refuse(w, &refusal{http.StatusBadRequest, "wait is not a duration from 0s to " + waitMost.String(), "say ?wait=20s"})
		return
	}
	start, problem := g.start(who, resumeOf(r))
	if problem != nil {
		g.refuse(w, &refusal{http.StatusBadRequest, problem.Error(), "use a cursor that this client received, or ?from=latest or ?from=earliest"})
		return
	}
	now := time.Now()
	l := &listening{gateway: g, who: who, kind: "sse", cloud: asksForCloudEvents(r), correlation: correlationIn(w), opened: now, pinged: now, gap: start.gap, woken: make(chan struct{}, 1)}
	ctx := r.Context()
	if query.Has("wait") {
		l.kind = "poll"
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, wait+waitGrace)
		defer cancel()
	}
	l.serve(ctx, w, &start, wait)
}

// serve subscribes at a start position and sends the results.
func (l *listening) serve(ctx context.Context, w http.ResponseWriter, at *start, wait time.Duration) {
	g, who := l.gateway, l.who
	if err := g.enter(l); err != nil {
		g.refuse(w, err)
		return
	}
	defer g.exit(l)
	if refusal := g.tenants.Enter(who.Tenant); refusal.Reason != "" {
		g.refuse(w, &overQuota{refusal})
		return
	}
	defer g.tenants.Leave(who.Tenant)
	g.metrics.Opened.Add(1)
	subscription, err := g.subscribe(ctx, who, at, l.wake, l.correlation)
	if err != nil {
		g.refuse(w, err)
		return
	}
	defer subscription.Close()
	l.digest = at.digest
	l.subscription.Store(subscription)
	if l.gap != nil {
		l.gap.Earliest = l.begin()
	}
	if l.kind == "poll" {
		l.once(ctx, w, wait)
		return
	}
	l.stream(ctx, w)
}

// resumeOf returns the position at which a request resumes. An EventSource that reconnects sends it
// in a header.
func resumeOf(r *http.Request) *wire.Resume {
	query := r.URL.Query()
	switch last := r.Header.Get("Last-Event-ID"); {
	case last != "":
		return &wire.Resume{Cursor: last}
	case query.Has("cursor") || query.Has("from"):
		return &wire.Resume{Cursor: query.Get("cursor"), From: query.Get("from")}
	}
	return nil
}

// read returns the next frames. It returns no frames if none are available yet, or if reading the
// log took too long.
func (l *listening) read(ctx context.Context) ([]wire.Frame, error) {
	if l.gap != nil {
		frame := l.gap
		l.gap = nil
		return []wire.Frame{frame}, nil
	}
	records, gap, err := l.gateway.read(ctx, l.who, l.subscription.Load(), l.correlation)
	if gap != nil {
		return []wire.Frame{gap}, nil
	}
	var frames []wire.Frame
	for i := range records {
		if _, frame := l.gateway.result(l.who, &records[i]); frame != nil {
			frames = append(frames, frame)
		}
	}
	return frames, err
}

// ready returns the channel to wait on before read. It is readable at once if there are more
// results already.
func (l *listening) ready() <-chan struct{} {
	if l.subscription.Load().State() != hub.Idle {
		l.wake()
	}
	return l.woken
}

// stream sends results as server-sent events until the client or the gateway ends the connection.
func (l *listening) stream(ctx context.Context, w http.ResponseWriter) {
	o := &l.gateway.options
	w.Header().Set("Content-Type", "text/event-stream")
	w.Header().Set("Cache-Control", "no-store, no-transform") // a compressing proxy delays events
	w.Header().Set("X-Accel-Buffering", "no")                 // a buffering proxy does too
	out := newWriter(w, l.encoder())
	_, _ = io.WriteString(&out.buffer, "retry: "+strconv.Itoa(sseRetryMs)+"\n\n")
	out.event(&wire.Connected{
		ClientID: l.who.Client, TenantID: l.who.Tenant, Epoch: strconv.FormatUint(o.Epoch, 10), Cursor: l.begin(),
		Recovered: l.gap == nil && l.subscription.Load().Whole(), PingMs: o.Ping.Milliseconds(), PendingLimit: o.PendingLimit, MaxMessageBytes: int64(o.MessageBytes), ExpiresAt: l.who.Expires,
	})
	for out.buffer.Len() == 0 || out.flush() == nil {
		select {
		case <-l.ready():
		case <-ctx.Done():
			return
		}
		frames, err := l.read(ctx)
		if ctx.Err() != nil {
			return
		}
		if err != nil {
			l.leave(closeInternal, retryAfterDrain)
		}
		for _, frame := range frames {
			out.event(frame)
		}
		ping, leaving := l.due()
		if ping {
			out.buffer.WriteString(": ping\n\n")
		}
		if leaving != nil {
			out.event(leaving)
			_ = out.flush()
			return // the client reconnects with its cursor
		}
	}
}

// once answers a long poll with the results that arrive within wait, possibly none, as NDJSON or a
// batch of CloudEvents. ctx ends shortly after wait.
func (l *listening) once(ctx context.Context, w http.ResponseWriter, wait time.Duration) {
	var over <-chan time.Time
	if wait > 0 {
		timer := time.NewTimer(wait)
		defer timer.Stop()
		over = timer.C
	}
	var frames []wire.Frame
	for done := wait == 0; ; {
		var err error
		frames, err = l.read(ctx)
		late := errors.Is(ctx.Err(), context.DeadlineExceeded)
		if !late && (err != nil || ctx.Err() != nil) { // if the client has disconnected, the answer goes nowhere
			l.gateway.refuse(w, errLog)
			return
		}
		if _, leaving := l.due(); len(frames) > 0 || done || late || leaving != nil {
			break
		}
		select {
		case <-l.ready():
		case <-over:
			done = true
		case <-ctx.Done():
		}
	}
	out := newWriter(w, l.encoder())
	w.Header().Set("Content-Type", "application/x-ndjson")
	if l.cloud {
		out.batch(frames)
		w.Header().Set("Content-Type", cloudEvents)
	} else {
		out.lines(frames)
	}
	cursor := ""
	if len(frames) > 0 {
		cursor = cursorOf(frames[len(frames)-1])
	} else { // the next poll must not read the same records again
		at, digest := l.subscription.Load().Next()-1, l.digest
		if at != l.subscription.Load().Start()-1 {
			digest = l.gateway.digestAt(ctx, l.who, at)
		}
		cursor = l.gateway.cursor(l.who, at, digest)
	}
	w.Header().Set("Cache-Control", "no-store")
	w.Header().Set(CursorHeader, cursor)
	_ = out.flush()
}

// cursorOf returns the cursor after a frame, "" if it has none.
func cursorOf(frame wire.Frame) string {
	switch f := frame.(type) {
	case *wire.Connected:
		if f.Recovered { // otherwise a client that disconnects before the gap frame would never see the gap
			return f.Cursor
		}
	case *wire.ResultFrame:
		return f.Cursor
	case *wire.ErrorFrame:
		return f.Cursor
	case *wire.Gap:
		return f.Earliest
	}
	return ""
}
