package gateway

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/afterbay/afterbay/internal/gateway/hub"
	"github.com/afterbay/afterbay/internal/gateway/wire"
	"github.com/afterbay/afterbay/stream"
)

var (
	errDraining = errors.New("the gateway is ending: come again, another one serves")
	errFull     = errors.New("the gateway has as many connections as it takes: come again later")
	errToken    = errors.New("the token is not valid")
	errNoToken  = errors.New("the request has no token")
	errNotTaken = errors.New("the log did not accept the cancel: send it again")
	errLog      = errors.New("the log cannot be read: come again later")
)

// ErrUnavailable is in the error of an Authenticator that cannot say at the moment whose
// a token is: its client is to come again, as it is not where the token is not valid.
var ErrUnavailable = errors.New("tokens cannot be verified at the moment: come again later")

// verify returns who a token speaks for. The error is for clients: why is logged, with
// the correlation id of the request.
func (g *Gateway) verify(ctx context.Context, token, correlation string) (Identity, error) {
	who, err := g.auth.Verify(ctx, token)
	if err == nil {
		err = errors.Join(wire.CheckID("tenant", who.Tenant), wire.CheckID("client", who.Client))
	}
	switch {
	case err == nil:
		return who, nil
	case errors.Is(err, ErrUnavailable):
		g.options.Logger.Info("gateway: token not verified", "error", err, "correlation", correlation)
		return Identity{}, ErrUnavailable
	}
	g.metrics.Forbidden.Add(1)
	g.options.Logger.Info("gateway: token refused", "error", err, "correlation", correlation)
	return Identity{}, errToken
}

// subscribe calls wake when there are results for a client from its start on. It completes
// the digest of the start. The error is for clients; the log has the reason.
func (g *Gateway) subscribe(ctx context.Context, who Identity, at *start, wake func(), correlation string) (s *hub.Subscription, err error) {
	key := []byte(wire.Key(who.Tenant, who.Client))
	if at.digest != 0 {
		s, err = g.hub.Resume(ctx, key, at.from-1, wire.DigestOf, at.digest, wake)
	} else {
		s, err = g.hub.Subscribe(ctx, key, at.from, wake)
	}
	if err == nil {
		if at.digest == 0 || !s.Whole() {
			at.digest = g.digestAt(ctx, who, s.Start()-1)
		}
		return s, nil
	}
	if !errors.Is(ctx.Err(), context.Canceled) { // the client is there
		g.options.Logger.Error("gateway: subscribe", "error", err, "correlation", correlation)
	}
	return nil, errLog
}

// read returns the results that come next for a client, or the gap before them. It
// returns neither where there are none yet, or where the log has been read for so long
// that pings and answers come first: the State of the subscription says which. The error
// is for clients: why is logged.
func (g *Gateway) read(ctx context.Context, who Identity, s *hub.Subscription, correlation string) ([]stream.Record, *wire.Gap, error) {
	records, err := s.Read(ctx)
	if err == nil {
		return records, nil, nil
	}
	if gap, ok := errors.AsType[*hub.Gap](err); ok {
		g.metrics.Gaps.Add(1)
		return nil, g.gapFrame(who, gap), nil
	}
	if ctx.Err() == nil {
		g.options.Logger.Error("gateway: read results", "error", err, "correlation", correlation)
	}
	return nil, nil, errLog
}

// quota returns how many events of a tenant are taken, the first of those that come
// at once, and why the others are not.
func (g *Gateway) quota(who Identity, events int) (taken int, refused wire.Backpressure) {
	taken, refusal := g.tenants.Take(who.Tenant, events)
	return taken, wire.Backpressure{Reason: wire.ReasonTenantQuota, RetryAfterMs: refusal.Wait.Milliseconds() + 1}
}

// digestAt returns the digest of the record at an offset of a client's partition, which
// may be of another client. It returns 0 if the log cannot return the record at once.
func (g *Gateway) digestAt(ctx context.Context, who Identity, offset stream.Offset) uint32 {
	r, ok := g.hub.At(ctx, []byte(wire.Key(who.Tenant, who.Client)), offset)
	if !ok {
		return 0
	}
	return wire.DigestOf(&r)
}

// cursor returns a client's cursor behind offset, where the log has a record of this
// digest.
func (g *Gateway) cursor(who Identity, offset stream.Offset, digest uint32) string {
	c := wire.Cursor{Epoch: g.options.Epoch, Partition: wire.PartitionOf(who.Tenant, who.Client, g.hub.Partitions()), Offset: offset, Digest: digest}
	return c.Encode(g.cursors, who.Tenant, who.Client)
}

func (g *Gateway) parseCursor(who Identity, text string) (wire.Cursor, error) {
	return wire.ParseCursor(g.cursors, who.Tenant, who.Client, text)
}

// start is where a client goes on: at offset from, and with a gap where the log
// that its cursor is of is not this one.
type start struct {
	from   stream.Offset
	digest uint32 // of the record before it; 0 is unknown
	gap    *wire.Gap
}

func (g *Gateway) start(who Identity, resume *wire.Resume) (start, *wire.Error) {
	switch {
	case resume == nil || *resume == wire.Resume{From: wire.FromLatest}:
		return start{from: hub.Latest}, nil
	case *resume == wire.Resume{From: wire.FromEarliest}:
		return start{from: hub.Earliest}, nil
	case resume.From != "" || resume.Cursor == "":
		return start{}, &wire.Error{Code: wire.CodeBadFrame, Message: `resume: give a cursor, or from "latest" or "earliest"`}
	}
	cursor, err := g.parseCursor(who, resume.Cursor)
	if err != nil {
		return start{}, &wire.Error{Code: wire.CodeBadCursor, Message: err.Error()}
	}
	if cursor.Epoch != g.options.Epoch || cursor.Partition != wire.PartitionOf(who.Tenant, who.Client, g.hub.Partitions()) {
		g.metrics.Gaps.Add(1)
		return start{from: hub.Earliest, gap: &wire.Gap{Requested: resume.Cursor}}, nil
	}
	g.metrics.Resumes.Add(1)
	return start{from: cursor.Offset + 1, digest: cursor.Digest}, nil
}

func (g *Gateway) gapFrame(who Identity, gap *hub.Gap) *wire.Gap {
	return &wire.Gap{Requested: g.cursor(who, gap.Requested-1, 0), Earliest: g.cursor(who, gap.Earliest-1, 0)}
}

// result returns the result that a record is, and its frame; nil where it is
// none.
func (g *Gateway) result(who Identity, r *stream.Record) (wire.Result, wire.Frame) {
	result, err := wire.ParseResult(r)
	if err != nil {
		g.metrics.Unreadable.Add(1)
		g.options.Logger.Error("gateway: result", "error", err, "correlation", wire.Correlation(r))
		return result, nil
	}
	g.metrics.Results.Add(1)
	return result, wire.FrameOf(&result, g.cursor(who, r.Offset, wire.DigestOf(r)))
}

// prepare fills in what an event leaves out, or returns what is wrong with it.
func prepare(event *wire.Event, request correlation) *wire.ErrorFrame {
	if err := event.Validate(); err != nil {
		return badEvent(event.ID, event.Correlation, err)
	}
	request.apply(event)
	return nil
}

// badEvent says what is wrong with an event, whose ids may be wrong themselves.
func badEvent(id, correlation string, err error) *wire.ErrorFrame {
	frame := &wire.ErrorFrame{Error: &wire.Error{Code: wire.CodeBadEvent, Message: err.Error(), EventID: shown(id)}}
	if wire.ValidCorrelation(correlation) {
		frame.CorrelationID = correlation
	}
	return frame
}

// shown returns an id that may be sent back; "" for one that may not.
func shown(id string) string {
	if wire.ValidID(id) {
		return id
	}
	return ""
}

// append writes events to the inbox, and returns when they are durable. Where they are
// too large, one of them or all together, each is written by itself: none is refused
// for another. See errorOf.
func (g *Gateway) append(events []stream.Record) error {
	err := g.write(events)
	if len(events) == 1 || !errors.Is(err, stream.ErrTooLarge) {
		return err
	}
	each := make(eachError, len(events))
	for i := range events {
		each[i] = g.write(events[i : i+1])
	}
	return each
}

// eachError is what became of each event of an append; nil where it is durable.
type eachError []error

// Error implements error.
func (e eachError) Error() string { return errors.Join(e...).Error() }

// errorOf returns what became of the event at index of an append that ended by err.
func errorOf(err error, index int) error {
	if each, ok := errors.AsType[eachError](err); ok {
		return each[index]
	}
	return err
}

func (g *Gateway) write(events []stream.Record) error {
	g.options.Fault("append")
	began := time.Now()
	if err := g.log.Append(g.ctx, events...); err != nil {
		g.metrics.Failures.Add(1)
		g.options.Logger.Error("gateway: append", "error", err, "events", len(events), "correlation", correlationsOf(events))
		return err
	}
	g.options.Fault("accept")
	g.metrics.Append.Record(time.Since(began), len(events))
	g.metrics.Accepted.Add(uint64(len(events)))
	return nil
}

// appended answers an event by how its append ended.
func appended(event *stream.Record, id string, err error) wire.Frame {
	if err != nil {
		return &wire.ErrorFrame{CorrelationID: wire.Correlation(event), Error: appendProblem(err, id)}
	}
	return &wire.Accepted{EventID: id, CorrelationID: wire.Correlation(event)}
}

// appendProblem is what a client is told of an event that was perhaps not
// appended: to send it again, with the same id.
func appendProblem(err error, id string) *wire.Error {
	if errors.Is(err, stream.ErrTooLarge) {
		return &wire.Error{Code: wire.CodeBadEvent, Message: "the event is too large for the log", EventID: id}
	}
	return &wire.Error{Code: wire.CodeInternal, Message: fmt.Sprintf("the log did not accept event %s: send it again with the same id", id), EventID: id, Retryable: true}
}
