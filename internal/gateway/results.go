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

// CursorHeader is the header of an answer to a long poll: the cursor behind its
// results, for the next one.
const CursorHeader = "Afterbay-Cursor"

const (
	waitMost   = 60 * time.Second
	waitGrace  = time.Second // after a poll's wait, for what is being read of the log
	sseRetryMs = 2000
)

// listening is a client that gets results over a request.
type listening struct {
	gateway      *Gateway
	who          Identity
	kind         string // of Client
	cloud        bool   // frames are CloudEvents
	correlation  string // id of the request
	opened       time.Time
	subscription atomic.Pointer[hub.Subscription] // written once, when it is open already
	digest       uint32                           // of the record before its start; set before subscription
	gap          *wire.Gap                        // to be said first
	woken        chan struct{}

	mu      sync.Mutex // guards what follows
	pinged  time.Time
	ping    bool             // one is to be sent
	leaving *wire.Disconnect // to be sent, as the last
	back    time.Time        // when the client may come again then
}

func (l *listening) wake() {
	select {
	case l.woken <- struct{}{}:
	default:
	}
}

// begin returns the cursor from which the client goes on.
func (l *listening) begin() string {
	return l.gateway.cursor(l.who, l.subscription.Load().Start()-1, l.digest)
}

// tick is called each second.
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

// leave has the client sent away by the goroutine of its request.
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

// due returns whether a ping is to be sent, and the last frame; nil where there is more
// to come.
func (l *listening) due() (ping bool, leaving *wire.Disconnect) {
	l.mu.Lock()
	defer l.mu.Unlock()
	ping, l.ping = l.ping, false
	if l.leaving != nil {
		l.leaving.RetryAfterMs = max(0, time.Until(l.back).Milliseconds()) // this may be long after leave
	}
	return ping, l.leaving
}

// serveResults answers with results, as they come or once.
func (g *Gateway) serveResults(w http.ResponseWriter, r *http.Request) {
	if r.Method == http.MethodHead { // it would last as long as what it hears nothing of
		w.Header().Set("Allow", "GET, OPTIONS")
		g.refuse(w, &refusal{http.StatusMethodNotAllowed, "results have no head", "use GET"})
		return
	}
	who, err := g.caller(w, r)
	if err != nil {
		g.refuse(w, err)
		return
	}
	if r.ContentLength == 0 { // the server's time is for what is to be read
		_ = http.NewResponseController(w).SetReadDeadline(time.Time{})
	}
	query := r.URL.Query()
	wait, err := time.ParseDuration(query.Get("wait"))
	if query.Has("wait") && (err != nil || wait < 0 || wait > waitMost) {
		g.refuse(w, &refusal{http.StatusBadRequest, "wait is no duration from 0s to " + waitMost.String(), "say ?wait=20s"})
		return
	}
	start, problem := g.start(who, resumeOf(r))
	if problem != nil {
		g.refuse(w, &refusal{http.StatusBadRequest, problem.Error(), "use a cursor that this client was given, or say ?from=latest or ?from=earliest"})
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

// serve answers with results from a start on.
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

// resumeOf returns where a request goes on: an EventSource that comes again says
// it in its header.
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

// read returns the frames that come next; none where there are none yet, or the log has
// been read for long enough.
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

// ready is what to wait for before read; nothing, where there is more already.
func (l *listening) ready() <-chan struct{} {
	if l.subscription.Load().State() != hub.Idle {
		l.wake()
	}
	return l.woken
}

// stream sends results as server-sent events until the client or the gateway
// ends it.
func (l *listening) stream(ctx context.Context, w http.ResponseWriter) {
	o := &l.gateway.options
	w.Header().Set("Content-Type", "text/event-stream")
	w.Header().Set("Cache-Control", "no-store, no-transform") // a proxy that compresses holds events back
	w.Header().Set("X-Accel-Buffering", "no")                 // as one that buffers does
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
			return // the client comes again with its cursor
		}
	}
}

// once answers with the results that there are within a time, as NDJSON or a batch
// of CloudEvents, or without any. Its context ends soon after that.
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
		if !late && (err != nil || ctx.Err() != nil) { // of those who are gone nobody hears
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
	} else { // the next poll reads nothing twice
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

// cursorOf returns the cursor behind a frame, "" where it has none.
func cursorOf(frame wire.Frame) string {
	switch f := frame.(type) {
	case *wire.Connected:
		if f.Recovered { // else who is cut before the gap would not hear of it
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
