package gateway

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"os"
	"slices"
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
	readersMost = 16             // requests of a tenant whose bodies are being read; others wait
	eventsMost  = 4096           // of a request: what is made of each takes more than its bytes
	waitMost    = 60 * time.Second
	sseRetryMs  = 2000
	bodyTimeout = 30 * time.Second
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

// caller returns who a request is of.
func (g *Gateway) caller(r *http.Request) (Identity, error) {
	token, err := g.check(r)
	if err == nil && token == "" {
		g.metrics.Forbidden.Add(1)
		err = errNoToken
	}
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

// writer collects frames of an answer.
type writer struct {
	w       http.ResponseWriter
	control *http.ResponseController
	encode  func(wire.Frame) ([]byte, error)
	buffer  bytes.Buffer
}

func newWriter(w http.ResponseWriter, encode func(wire.Frame) ([]byte, error)) *writer {
	return &writer{w: w, control: http.NewResponseController(w), encode: encode}
}

func (o *writer) event(frame wire.Frame) {
	message, err := o.encode(frame)
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

func (o *writer) lines(frames []wire.Frame) {
	for _, frame := range frames {
		if message, err := o.encode(frame); err == nil {
			o.buffer.Write(append(message, '\n'))
		}
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
	if err := o.control.Flush(); err != nil {
		return err
	}
	return o.control.SetWriteDeadline(time.Time{}) // over HTTP/2 it ends also who has nothing to write
}

// serveEvents appends the events of a request, a frame in each line or CloudEvents,
// and answers each of them, in order, when all are in the log.
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
	read, err := g.readers.acquire(r.Context(), who.Tenant)
	if err != nil {
		return // the client is gone
	}
	if err := g.bodies.Acquire(r.Context(), bodyBytes); err != nil {
		read()
		return
	}
	defer g.bodies.Release(bodyBytes)
	b := &submissions{gateway: g, who: who, correlation: correlationOf(w, r)}
	body := http.MaxBytesReader(w, r.Body, bodyBytes)
	cloud := hasCloudEvents(r)
	if cloud {
		err = b.readCloudEvents(r, body)
	} else {
		err = b.readLines(body)
	}
	read()
	if err != nil {
		g.refuse(w, unread(err, "send fewer events, none longer than "+strconv.Itoa(g.options.MessageBytes)+" bytes"))
		return
	}
	b.append()
	status := http.StatusOK
	if slices.ContainsFunc(b.answers, retryable) {
		status = http.StatusServiceUnavailable
	}
	if cloud {
		status = b.status()
	}
	out := newWriter(w, wire.Encode)
	out.lines(b.answers)
	w.Header().Set("Content-Type", "application/x-ndjson")
	if status == http.StatusTooManyRequests || status == http.StatusServiceUnavailable {
		w.Header().Set("Retry-After", b.retryAfter())
	}
	w.WriteHeader(status)
	_ = out.flush()
}

// unread says why a body was not read; fewer is what to do where it is too large.
func unread(err error, fewer string) *refusal {
	var known *refusal
	if errors.As(err, &known) {
		return known
	}
	if errors.Is(err, os.ErrDeadlineExceeded) {
		return &refusal{http.StatusRequestTimeout, "the body did not come within " + bodyTimeout.String(), "send it at once"}
	}
	return &refusal{http.StatusRequestEntityTooLarge, "the body is too large: " + err.Error(), fewer}
}

var errTooMany = errors.New("more than " + strconv.Itoa(eventsMost) + " events")

// submissions are the events of a request: an answer for each, nil for those that
// are to be appended, and these.
type submissions struct {
	gateway     *Gateway
	who         Identity
	correlation correlation
	answers     []wire.Frame
	records     []stream.Record
	ids         []string
}

// readLines reads a frame in each line.
func (b *submissions) readLines(body io.Reader) error {
	lines := bufio.NewScanner(body)
	lines.Buffer(nil, b.gateway.options.MessageBytes)
	for lines.Scan() {
		if len(bytes.TrimSpace(lines.Bytes())) == 0 {
			continue
		}
		if len(b.answers) == eventsMost {
			return errTooMany
		}
		frame, problem := wire.ParseClient(lines.Bytes())
		if f, ok := frame.(*wire.Submission); ok {
			event := f.Event(b.who.Tenant, b.who.Client)
			b.take(&event)
			continue
		}
		if problem == nil {
			problem = &wire.Error{Code: wire.CodeBadFrame, Message: "only frames of type event are taken here"}
		}
		b.refuse(&wire.ErrorFrame{Error: problem})
	}
	return lines.Err()
}

func (b *submissions) take(event *wire.Event) {
	if bad := prepare(event, b.correlation); bad != nil {
		b.refuse(bad)
		return
	}
	b.answers, b.records, b.ids = append(b.answers, nil), append(b.records, wire.Submit(b.gateway.options.Inbox, event)), append(b.ids, event.ID)
}

func (b *submissions) refuse(problem *wire.ErrorFrame) {
	b.gateway.metrics.Bad.Add(1)
	b.answers = append(b.answers, problem)
}

// append writes the events, and answers them. The quota is asked once for all, so
// that none is taken that comes behind one that is not: its sequence number would
// have it wait for that. What was wrong counts too.
func (b *submissions) append() {
	var err error
	taken, refused := b.gateway.quota(b.who, len(b.records))
	b.gateway.quota(b.who, len(b.answers)-len(b.records))
	b.gateway.metrics.Refused.Add(uint64(len(b.records) - taken))
	if taken > 0 {
		err = b.gateway.append(b.records[:taken])
	}
	next := 0
	for i := range b.answers {
		if b.answers[i] != nil {
			continue
		}
		if next < taken {
			b.answers[i] = appended(&b.records[next], b.ids[next], errorOf(err, next))
		} else {
			refused := refused
			refused.EventID, refused.CorrelationID = b.ids[next], wire.Correlation(&b.records[next])
			b.answers[i] = &refused
		}
		next++
	}
}

// retryable reports whether an answer is that the log did not take an event, which may
// be sent again.
func retryable(answer wire.Frame) bool {
	f, ok := answer.(*wire.ErrorFrame)
	return ok && f.Error.Retryable
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
