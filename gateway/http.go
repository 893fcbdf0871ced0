package gateway

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"os"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/afterbay/afterbay/gateway/hub"
	"github.com/afterbay/afterbay/gateway/wire"
	"github.com/afterbay/afterbay/stream"
)

// CursorHeader is the header of an answer to a long poll: the cursor behind its
// results, for the next one.
const CursorHeader = "Afterbay-Cursor"

const (
	bodyBytes   = 1 << 20        // most of a request
	bodiesBytes = 64 * bodyBytes // most of all that are held; others wait
	waitMost    = 60 * time.Second
	sseRetryMs  = 2000
	bodyTimeout = 30 * time.Second
)

// listening is a client that gets results over a request.
type listening struct {
	gateway      *Gateway
	who          Identity
	kind         string // of Client
	opened       time.Time
	subscription atomic.Pointer[hub.Subscription] // written once, when it is open already
	gap          *wire.Gap                        // to be said first
	woken        chan struct{}
	left         chan *wire.Disconnect
}

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
	query := r.URL.Query()
	wait, err := time.ParseDuration(query.Get("wait"))
	if query.Has("wait") && (err != nil || wait < 0 || wait > waitMost) {
		g.refuse(w, &refusal{http.StatusBadRequest, "wait is no duration from 0s to " + waitMost.String(), "say ?wait=20s"})
		return
	}
	start, problem := g.start(who, resumeOf(r))
	if problem != nil {
		g.refuse(w, &refusal{http.StatusBadRequest, problem.Error(), "use a cursor that this client was given"})
		return
	}
	l := &listening{gateway: g, who: who, kind: "sse", opened: time.Now(), gap: start.gap, woken: make(chan struct{}, 1), left: make(chan *wire.Disconnect, 1)}
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

// caller returns who a request is of.
func (g *Gateway) caller(r *http.Request) (Identity, error) {
	token, err := g.check(r)
	if err != nil {
		return Identity{}, err
	}
	return g.verify(r.Context(), token)
}

// sender returns who a request with a body is of, which has to come within
// bodyTimeout.
func (g *Gateway) sender(w http.ResponseWriter, r *http.Request) (Identity, error) {
	if err := http.NewResponseController(w).SetReadDeadline(time.Now().Add(bodyTimeout)); err != nil {
		return Identity{}, err
	}
	if coding := r.Header.Get("Content-Encoding"); coding != "" && coding != "identity" {
		return Identity{}, &refusal{http.StatusUnsupportedMediaType, "the body is compressed", "send it as it is"}
	}
	return g.caller(r)
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
	out := &writer{w: w, control: http.NewResponseController(w)}
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
		if err != nil || out.flush() != nil {
			return // the client comes again with its cursor
		}
		if len(frames) > 0 {
			continue
		}
		select {
		case <-l.woken:
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

// once answers with the results that there are within a time, as NDJSON.
func (l *listening) once(w http.ResponseWriter, r *http.Request, wait time.Duration) {
	timer := time.NewTimer(wait)
	defer timer.Stop()
	cursor := l.begin()
	out := &writer{w: w, control: http.NewResponseController(w)}
	for done := false; ; {
		frames, err := l.read(r.Context())
		if err != nil {
			l.gateway.refuse(w, err)
			return
		}
		if len(frames) > 0 || done {
			for _, frame := range frames {
				out.line(frame)
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

// writer collects frames of an answer.
type writer struct {
	w       http.ResponseWriter
	control *http.ResponseController
	buffer  bytes.Buffer
}

func (o *writer) event(frame wire.Frame) {
	message, err := wire.Encode(frame)
	if err != nil {
		return // a payload that is no JSON, which no sequencer writes
	}
	if cursor := cursorOf(frame); cursor != "" {
		o.buffer.WriteString("id: " + cursor + "\n")
	}
	o.buffer.WriteString("event: " + frame.Name() + "\ndata: ")
	o.buffer.Write(message) // JSON of Go has no line breaks
	o.buffer.WriteString("\n\n")
}

func (o *writer) line(frame wire.Frame) {
	if message, err := wire.Encode(frame); err == nil {
		o.buffer.Write(append(message, '\n'))
	}
}

// flush sends what was collected, to a client that reads it in time.
func (o *writer) flush() error {
	if err := o.control.SetWriteDeadline(time.Now().Add(writeTimeout)); err != nil {
		return err
	}
	if _, err := o.w.Write(o.buffer.Bytes()); err != nil {
		return err
	}
	o.buffer.Reset()
	return o.control.Flush()
}

// serveEvents appends the events of a request, a frame in each line, and answers
// each of them, in order, when all are in the log.
func (g *Gateway) serveEvents(w http.ResponseWriter, r *http.Request) {
	who, err := g.sender(w, r)
	if err == nil {
		err = g.hold()
	}
	if err != nil {
		g.refuse(w, err)
		return
	}
	defer g.work.Done()
	if err := g.bodies.Acquire(r.Context(), bodyBytes); err != nil {
		return // the client is gone
	}
	defer g.bodies.Release(bodyBytes)
	answers, records, ids, err := g.parseEvents(who, r.Header.Get("X-Correlation-Id"), http.MaxBytesReader(w, r.Body, bodyBytes))
	if err != nil {
		g.refuse(w, unread(err, "send fewer events, none longer than "+strconv.Itoa(g.options.MessageBytes)+" bytes"))
		return
	}
	// Asked once for all, so that none is taken that comes behind one that is not:
	// its sequence number would have it wait for that.
	taken, refused := g.quota(who, len(records))
	g.metrics.Refused.Add(uint64(len(records) - taken))
	if taken > 0 {
		err = g.append(records[:taken])
	}
	out := &writer{w: w, control: http.NewResponseController(w)}
	for _, answer := range answers {
		if answer == nil {
			answer = answerOf(ids[0], taken > 0, refused, err)
			ids, taken = ids[1:], taken-1
		}
		out.line(answer)
	}
	w.Header().Set("Content-Type", "application/x-ndjson")
	if err != nil {
		w.WriteHeader(http.StatusServiceUnavailable)
	}
	_ = out.flush()
}

// answerOf returns the answer to an event, which was taken by the quota or refused,
// and whose append ended with err.
func answerOf(id string, taken bool, refused wire.Backpressure, err error) wire.Frame {
	switch {
	case !taken:
		refused.EventID = id
		return &refused
	case err != nil:
		return &wire.ErrorFrame{Error: appendProblem(err, id)}
	}
	return &wire.Accepted{EventID: id}
}

// unread says why a body was not read; fewer is what to do where it is too large.
func unread(err error, fewer string) *refusal {
	if errors.Is(err, os.ErrDeadlineExceeded) {
		return &refusal{http.StatusRequestTimeout, "the body did not come within " + bodyTimeout.String(), "send it at once"}
	}
	return &refusal{http.StatusRequestEntityTooLarge, "the body is too large: " + err.Error(), fewer}
}

// parseEvents returns an answer for each line of body, nil for those that are
// right, and these.
func (g *Gateway) parseEvents(who Identity, correlation string, body io.Reader) (answers []wire.Frame, records []stream.Record, ids []string, err error) {
	lines := bufio.NewScanner(body)
	lines.Buffer(nil, g.options.MessageBytes)
	for lines.Scan() {
		if len(bytes.TrimSpace(lines.Bytes())) == 0 {
			continue
		}
		event, problem := parseEvent(who, correlation, lines.Bytes())
		if problem != nil {
			g.metrics.Bad.Add(1)
			answers = append(answers, &wire.ErrorFrame{Error: problem})
			continue
		}
		answers, records, ids = append(answers, nil), append(records, wire.Submit(g.options.Inbox, &event)), append(ids, event.ID)
	}
	return answers, records, ids, lines.Err()
}

func parseEvent(who Identity, correlation string, line []byte) (wire.Event, *wire.Error) {
	frame, problem := wire.ParseClient(line)
	if problem != nil {
		return wire.Event{}, problem
	}
	f, ok := frame.(*wire.Submission)
	if !ok {
		return wire.Event{}, &wire.Error{Code: wire.CodeBadFrame, Message: "only frames of type event are taken here"}
	}
	event := f.Event(who.Tenant, who.Client)
	if event.Correlation == "" {
		event.Correlation = correlation
	}
	if err := prepare(&event); err != nil {
		return event, &wire.Error{Code: wire.CodeBadEvent, Message: err.Error(), EventID: shown(f.EventID)}
	}
	return event, nil
}

// serveAck takes the acknowledgement of a client without a connection.
func (g *Gateway) serveAck(w http.ResponseWriter, r *http.Request) {
	who, err := g.sender(w, r)
	if err != nil {
		g.refuse(w, err)
		return
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, int64(g.options.MessageBytes)))
	if err != nil {
		g.refuse(w, unread(err, `send {"type":"ack","cursor":"..."}`))
		return
	}
	frame, _ := wire.ParseClient(body)
	ack, ok := frame.(*wire.Ack)
	if !ok {
		g.refuse(w, &refusal{http.StatusBadRequest, "no frame of type ack", `send {"type":"ack","cursor":"..."}`})
		return
	}
	if _, err := g.parseCursor(who, ack.Cursor); err != nil {
		g.refuse(w, &refusal{http.StatusBadRequest, wire.ErrBadCursor.Error(), "use a cursor that this client was given"})
		return
	}
	w.WriteHeader(http.StatusNoContent)
}
