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
	errDraining = errors.New("the gateway is stopping: connect again to reach another gateway")
	errFull     = errors.New("the gateway has the maximum number of connections: try again later")
	errToken    = errors.New("the token is not valid")
	errNoToken  = errors.New("the request has no token")
	errNotTaken = errors.New("the log did not accept the cancel: send it again")
	errLog      = errors.New("the log cannot be read: try again later")
)

// ErrUnavailable is the error of an Authenticator that cannot verify a token at the moment. The
// client should try again later; with an invalid token it should not.
var ErrUnavailable = errors.New("tokens cannot be verified at the moment: try again later")

// verify returns the identity of a token. The error is for clients. verify logs the reason with the
// correlation id of the request.
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

// subscribe subscribes to the results of a client from its start position. It calls wake when there
// are results, and fills in the digest of the start. The error is for clients; subscribe logs the
// reason.
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
	if !errors.Is(ctx.Err(), context.Canceled) { // the client is still connected
		g.options.Logger.Error("gateway: subscribe", "error", err, "correlation", correlation)
	}
	return nil, errLog
}

// read returns the next results for a client, or the gap before them. It returns neither if there
// are no results yet. It also returns neither if reading the log took so long that pings and
// answers must go first. The State of the subscription tells the two cases apart. The error is for
// clients; read logs the reason.
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

// quota returns how many of a tenant's events are accepted, counted from the first, and the answer
// for the rest.
func (g *Gateway) quota(who Identity, events int) (taken int, refused wire.Backpressure) {
	taken, refusal := g.tenants.Take(who.Tenant, events)
	return taken, wire.Backpressure{Reason: wire.ReasonTenantQuota, RetryAfterMs: refusal.Wait.Milliseconds() + 1}
}

// digestAt returns the digest of the record at an offset of a client's partition; the record may
// belong to another client. It returns 0 if the log cannot return the record at once.
func (g *Gateway) digestAt(ctx context.Context, who Identity, offset stream.Offset) uint32 {
	r, ok := g.hub.At(ctx, []byte(wire.Key(who.Tenant, who.Client)), offset)
	if !ok {
		return 0
	}
	return wire.DigestOf(&r)
}

// cursor returns a client's cursor for the position after offset. digest is that of the record at
// offset.
func (g *Gateway) cursor(who Identity, offset stream.Offset, digest uint32) string {
	c := wire.Cursor{Epoch: g.options.Epoch, Partition: wire.PartitionOf(who.Tenant, who.Client, g.hub.Partitions()), Offset: offset, Digest: digest}
	return c.Encode(g.cursors, who.Tenant, who.Client)
}

func (g *Gateway) parseCursor(who Identity, text string) (wire.Cursor, error) {
	return wire.ParseCursor(g.cursors, who.Tenant, who.Client, text)
}

// start is the position at which a client resumes. gap is set if the client's cursor belongs to
// another log.
type start struct {
	from   stream.Offset
	digest uint32 // digest of the record before from; 0 if unknown
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

// result parses a record and returns the result and its frame. The frame is nil if the record is
// not a result.
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

// prepare validates an event and fills in missing fields. It returns an error frame if the event is
// invalid.
func prepare(event *wire.Event, request correlation) *wire.ErrorFrame {
	if err := event.Validate(); err != nil {
		return badEvent(event.ID, event.Correlation, err)
	}
	request.apply(event)
	return nil
}

// badEvent returns an error frame for an event. It leaves out ids that are invalid themselves.
func badEvent(id, correlation string, err error) *wire.ErrorFrame {
	frame := &wire.ErrorFrame{Error: &wire.Error{Code: wire.CodeBadEvent, Message: err.Error(), EventID: shown(id)}}
	if wire.ValidCorrelation(correlation) {
		frame.CorrelationID = correlation
	}
	return frame
}

// shown returns an id if it may be sent back, otherwise "".
func shown(id string) string {
	if wire.ValidID(id) {
		return id
	}
	return ""
}

// append writes events to the inbox, and returns when they are durable. If one event or all
// together are too large, append writes each event separately. So a large event does not cause the
// rejection of others. errorOf returns the error of one event.
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

// eachError holds the error of each event of an append; nil if the event is durable.
type eachError []error

// Error implements error.
func (e eachError) Error() string { return errors.Join(e...).Error() }

// errorOf returns the error of the event at index, given the error of its append.
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

// appended returns the answer to an event, given the error of its append.
func appended(event *stream.Record, id string, err error) wire.Frame {
	if err != nil {
		return &wire.ErrorFrame{CorrelationID: wire.Correlation(event), Error: appendProblem(err, id)}
	}
	return &wire.Accepted{EventID: id, CorrelationID: wire.Correlation(event)}
}

// appendProblem returns the error for an event that may not be in the log. Unless the event is too
// large, it asks the client to send the event again with the same id.
func appendProblem(err error, id string) *wire.Error {
	if errors.Is(err, stream.ErrTooLarge) {
		return &wire.Error{Code: wire.CodeBadEvent, Message: "the event is too large for the log", EventID: id}
	}
	return &wire.Error{Code: wire.CodeInternal, Message: fmt.Sprintf("the log did not accept event %s: send it again with the same id", id), EventID: id, Retryable: true}
}
