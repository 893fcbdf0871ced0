package sequence

import (
	"cmp"

	"github.com/afterbay/afterbay/internal/event/header"
	"github.com/afterbay/afterbay/internal/gateway/wire"
	"github.com/afterbay/afterbay/stream"
)

// cancel ends an event at its client's request, at once, and tells the pipeline to stop. The
// partition drops a later outcome of the event. An event that has already ended keeps its result.
func (p *partition) cancel(tenant, client, event string, r *stream.Record, t *turn) error {
	s, err := p.find(tenant, client, event, t)
	if err != nil {
		return err
	}
	if !s.known {
		p.write(&s, &wire.Result{
			Tenant: tenant, Client: client, Event: event, Correlation: wire.Correlation(r), Status: wire.StatusError, Time: r.Time,
			Error: &wire.Error{Code: wire.CodeUnknownEvent, Message: "no event with this id is known: it never arrived, or is too old"},
		})
		p.cells.put(key(kindClient, s.clientKey), s.client.append(nil))
		return nil
	}
	switch s.entry.state {
	case held:
		p.unhold(&s)
	case forwarded:
		t.output(p.stop(&s, r))
	default:
		return nil
	}
	e := wire.Event{Tenant: tenant, Client: client, ID: event, Causal: s.entry.causal, Correlation: s.entry.correlationID()}
	p.reject(&s, &e, r.Time, wire.CodeCancelled, false, "the client gave the event up")
	p.keep(&s)
	return nil
}

// stop returns the record that tells the pipeline to stop work on an event. It has the same key as
// the event's record in the pipeline's input.
func (p *partition) stop(s *subject, r *stream.Record) stream.Record {
	to := s.entry.key
	if to == nil {
		to = []byte(s.clientKey)
	}
	return stream.Record{
		Partition: stream.Partition{Topic: p.options.Input, Index: stream.ByKey}, Time: r.Time, Key: to,
		Headers: []stream.Header{
			{Key: header.ID, Value: []byte(s.name + "/cancel")}, {Key: header.Cancel, Value: []byte(s.name)},
			{Key: header.Correlation, Value: []byte(cmp.Or(wire.Correlation(r), s.entry.correlationID()))},
		},
	}
}
