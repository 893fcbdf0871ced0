package gateway

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/afterbay/afterbay/gateway/hub"
	"github.com/afterbay/afterbay/gateway/wire"
)

// CursorHeader is the header of an answer to a long poll: the cursor behind its
// results, for the next one.
const CursorHeader = "Afterbay-Cursor"

const (
	waitMost   = 60 * time.Second
	sseRetryMs = 2000
)

// listening is a client that gets results over a request.
type listening struct {
	gateway      *Gateway
	who          Identity
	kind         string // of Client
	cloud        bool   // frames are CloudEvents
	opened       time.Time
	subscription atomic.Pointer[hub.Subscription] // written once, when it is open already
	gap          *wire.Gap                        // to be said first
	woken        chan struct{}
	left         chan *wire.Disconnect
}

// always lets everybody through.
var always = func() chan struct{} {
	c := make(chan struct{})
	close(c)
	return c
}()

func (l *listening) wake() {
	select {
	case l.woken <- struct{}{}:
	default:
	}
}

// begin returns the cursor from which the client goes on.
func (l *listening) begin() string { return l.gateway.cursor(l.who, l.subscription.Load().Start()-1) }

// tick does nothing: the request's own goroutine waits for what is to come.
func (l *listening) tick(time.Time) {}

func (l *listening) leave(code closeCode, after time.Duration) {
	select {
	case l.left <- code.frame(after.Milliseconds()):
		l.gateway.metrics.Closed.add(code)
	default:
	}
}

// serveResults answers with results, as they come or once.
func (g *Gateway) serveResults(w http.ResponseWriter, r *http.Request) {
	who, err := g.caller(r)
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
	l := &listening{gateway: g, who: who, kind: "sse", cloud: asksForCloudEvents(r), opened: time.Now(), gap: start.gap, woken: make(chan struct{}, 1), left: make(chan *wire.Disconnect, 1)}
	if query.Has("wait") {
		l.kind = "poll"
	}
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
	subscription, err := g.hub.Subscribe(r.Context(), []byte(wire.Key(who.Tenant, who.Client)), start.from, l.wake)
	if err != nil {
		g.refuse(w, err)
		return
	}
	defer subscription.Close()
	l.subscription.Store(subscription)
	if l.gap != nil {
		l.gap.Earliest = l.begin()
	}
	if query.Has("wait") {
		l.once(w, r, wait)
		return
	}
	l.stream(w, r)
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

// read returns the frames that come next; none where there are none yet.
func (l *listening) read(ctx context.Context) ([]wire.Frame, error) {
	if l.gap != nil {
		frame := l.gap
		l.gap = nil
		return []wire.Frame{frame}, nil
	}
	for {
		records, err := l.subscription.Load().Read(ctx)
		var gap *hub.Gap
		if errors.As(err, &gap) {
			l.gateway.metrics.Gaps.Add(1)
			return []wire.Frame{l.gateway.gapFrame(l.who, gap)}, nil
		}
		if err != nil || len(records) == 0 {
			return nil, err
		}
		var frames []wire.Frame
		for i := range records {
			if _, frame := l.gateway.result(l.who, &records[i]); frame != nil {
				frames = append(frames, frame)
			}
		}
		if len(frames) > 0 {
			return frames, nil
		}
	}
}

// stream sends results as server-sent events until the client or the gateway
// ends it.
func (l *listening) stream(w http.ResponseWriter, r *http.Request) {
	o := &l.gateway.options
	w.Header().Set("Content-Type", "text/event-stream")
	w.Header().Set("Cache-Control", "no-store")
	out := newWriter(w, l.encoder())
	_, _ = io.WriteString(&out.buffer, "retry: "+strconv.Itoa(sseRetryMs)+"\n\n")
	out.event(&wire.Connected{
		ClientID: l.who.Client, TenantID: l.who.Tenant, Epoch: strconv.FormatUint(o.Epoch, 10), Cursor: l.begin(),
		Recovered: l.gap == nil && l.subscription.Load().Whole(), PingMs: o.Ping.Milliseconds(), PendingLimit: o.PendingLimit, MaxMessageBytes: int64(o.MessageBytes), ExpiresAt: l.who.Expires,
	})
	ping := time.NewTicker(o.Ping)
	defer ping.Stop()
	var expired <-chan time.Time
	if !l.who.Expires.IsZero() {
		timer := time.NewTimer(time.Until(l.who.Expires.Add(expiryGrace)))
		defer timer.Stop()
		expired = timer.C
	}
	for {
		frames, err := l.read(r.Context())
		for _, frame := range frames {
			out.event(frame)
		}
		if err != nil && r.Context().Err() == nil {
			o.Logger.Error("gateway: read results", "error", err)
		}
		if err != nil || out.flush() != nil {
			return // the client comes again with its cursor
		}
		woken := l.woken
		if len(frames) > 0 { // there may be more: whoever is far behind is sent away as others are
			woken = always
		}
		select {
		case <-woken:
		case <-ping.C:
			out.buffer.WriteString(": ping\n\n")
		case <-expired:
			l.leave(closeExpired, 0)
		case frame := <-l.left:
			out.event(frame)
			_ = out.flush()
			return
		case <-r.Context().Done():
			return
		}
	}
}

// once answers with the results that there are within a time, as NDJSON or a batch
// of CloudEvents.
func (l *listening) once(w http.ResponseWriter, r *http.Request, wait time.Duration) {
	timer := time.NewTimer(wait)
	defer timer.Stop()
	cursor := l.begin()
	out := newWriter(w, l.encoder())
	for done := false; ; {
		frames, err := l.read(r.Context())
		if err != nil {
			l.gateway.refuse(w, err)
			return
		}
		if len(frames) > 0 || done {
			if l.cloud {
				out.batch(frames)
			} else {
				out.lines(frames)
			}
			if len(frames) > 0 {
				cursor = cursorOf(frames[len(frames)-1])
			}
			break
		}
		select {
		case <-l.woken:
		case <-timer.C:
			done = true
		case <-l.left:
			done = true
		case <-r.Context().Done():
			return
		}
	}
	w.Header().Set("Content-Type", "application/x-ndjson")
	if l.cloud {
		w.Header().Set("Content-Type", cloudEvents)
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
