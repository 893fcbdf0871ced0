package gateway

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"net/http"
	"slices"
	"strconv"

	"github.com/afterbay/afterbay/internal/gateway/wire"
	"github.com/afterbay/afterbay/internal/http/server"
	"github.com/afterbay/afterbay/stream"
)

// begin returns the identity of the client that sent a request with a body. It keeps the gateway
// open until the caller calls work.Done. If it returns false, it has already answered.
func (g *Gateway) begin(w http.ResponseWriter, r *http.Request) (who Identity, ok bool) {
	who, err := g.sender(w, r)
	if err == nil {
		err = g.hold()
	}
	if err != nil {
		g.refuse(w, err)
	}
	return who, err == nil
}

// serveEvents appends the events of a request: NDJSON frames or CloudEvents. When all are in the
// log, it answers each of them, in order.
func (g *Gateway) serveEvents(w http.ResponseWriter, r *http.Request) {
	who, ok := g.begin(w, r)
	if !ok {
		return
	}
	defer g.work.Done()
	b := &submissions{gateway: g, who: who, correlation: correlationOf(w, r), room: server.RoomOf(r.Context())}
	cloud := hasCloudEvents(r)
	if err := b.read(r, cloud); err != nil {
		if gone := r.Context().Err(); gone != nil && errors.Is(err, gone) {
			panic(http.ErrAbortHandler) // a plain return would send 200 without a body
		}
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

// submissions holds the events of a request. answers has an entry for each event: nil for an event
// that will be appended. records and ids hold the events that will be appended.
type submissions struct {
	gateway     *Gateway
	who         Identity
	correlation correlation
	room        *server.Room // memory budget for the records of events
	answers     []wire.Frame
	records     []stream.Record
	ids         []string
}

// read reads the events of a request. It waits until the tenant may have another reader.
func (b *submissions) read(r *http.Request, cloud bool) error {
	done, err := b.gateway.readers.acquire(r.Context(), b.who.Tenant)
	if err != nil {
		return err
	}
	defer done()
	body, err := b.room.OpenBody(r, bodyBytes)
	if err != nil {
		return err
	}
	if err := b.room.Work(); err != nil {
		return err
	}
	defer b.room.Rest()
	if cloud {
		return b.readCloudEvents(r, body)
	}
	return b.readLines(body)
}

// readLines reads NDJSON frames.
func (b *submissions) readLines(body io.Reader) error {
	lines := bufio.NewScanner(body)
	lines.Buffer(nil, b.gateway.options.MessageBytes+len("\n"))
	for lines.Scan() {
		if len(lines.Bytes()) > b.gateway.options.MessageBytes {
			return bufio.ErrTooLong
		}
		if len(bytes.TrimSpace(lines.Bytes())) == 0 {
			continue
		}
		if len(b.answers) == eventsMost {
			return errTooMany
		}
		if err := b.charge(len(lines.Bytes())); err != nil {
			return err
		}
		frame, bad := wire.ParseClient(lines.Bytes())
		if f, ok := frame.(*wire.Submission); ok {
			event := f.Event(b.who.Tenant, b.who.Client)
			b.take(&event)
			continue
		}
		if bad == nil {
			bad = wire.Refuse(lines.Bytes(), &wire.Error{Code: wire.CodeBadFrame, Message: "only frames of type event are taken here"})
		}
		b.refuse(bad)
	}
	if err := lines.Err(); err != nil || len(b.answers) > 0 {
		return err
	}
	return &refusal{http.StatusBadRequest, "the request has no event", "send frames of type event, one in each line"}
}

// charge reserves memory for an event of n bytes: its record, its answer and the parsed values.
func (b *submissions) charge(n int) error { return b.room.Take(int64(eventBytes + eventFactor*n)) }

const (
	eventBytes  = 256
	eventFactor = 4
)

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

// append writes the events and answers them. It checks the quota once for all events, so that it
// never accepts an event after one that it rejected. With sequence numbers, the later event would
// have to wait for the rejected one. Invalid events count towards the quota too.
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

var errTooMany = tooLarge("more than " + strconv.Itoa(eventsMost) + " events")

// retryable reports whether an answer says that the log did not accept an event, which may be sent
// again.
func retryable(answer wire.Frame) bool {
	f, ok := answer.(*wire.ErrorFrame)
	return ok && f.Error.Retryable
}

// serveAck accepts an acknowledgement by HTTP request.
func (g *Gateway) serveAck(w http.ResponseWriter, r *http.Request) {
	who, err := g.sender(w, r)
	if err != nil {
		g.refuse(w, err)
		return
	}
	body, err := server.ReadBody(r, int64(g.options.MessageBytes))
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
		g.refuse(w, &refusal{http.StatusBadRequest, wire.ErrBadCursor.Error(), "use a cursor that this client received"})
		return
	}
	w.WriteHeader(http.StatusNoContent)
}
