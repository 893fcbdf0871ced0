package sequence

import (
	"fmt"
	"time"

	"github.com/afterbay/afterbay/internal/event/header"
	"github.com/afterbay/afterbay/internal/gateway/wire"
	"github.com/afterbay/afterbay/internal/state/packed"
	"github.com/afterbay/afterbay/stream"
)

// hold stores an event until its predecessors have arrived.
func (p *partition) hold(s *subject, e *wire.Event, r *stream.Record) error {
	limits, next := &p.options.Limits, s.client.sequence+1
	other, err := p.cells.get(heldKey(s.clientKey, e.Sequence))
	switch {
	case err != nil:
		return err
	case other != nil:
		p.reject(s, e, r.Time, wire.CodeSequence, false, fmt.Sprintf("another event with sequence %d waits for %d", e.Sequence, next))
		return nil
	case s.client.held >= limits.Held || s.client.heldBytes+len(r.Value) > limits.HeldBytes:
		p.reject(s, e, r.Time, wire.CodeSequence, true, fmt.Sprintf("sequence %d: %d is the next one, and %d events wait for it: send that event, then this one with another id", e.Sequence, next, s.client.held))
		return nil
	}
	p.options.Metrics.Held.Add(1)
	s.entry.state = held
	s.entry.record = &stream.Record{Time: r.Time, Key: r.Key, Value: r.Value, Headers: r.Headers}
	s.client.held++
	s.client.heldBytes += len(r.Value)
	p.cells.put(heldKey(s.clientKey, e.Sequence), []byte(s.name))
	p.cells.put(numbered(kindWait, p.meta.nextWait), place{s.entry.at, s.name}.append(nil))
	p.meta.nextWait++
	return nil
}

// unhold removes an event from the held events.
func (p *partition) unhold(s *subject) {
	s.client.held--
	s.client.heldBytes -= len(s.entry.record.Value)
	p.cells.delete(heldKey(s.clientKey, s.entry.sequence))
}

// release forwards the held events that directly follow the event just forwarded.
func (p *partition) release(s *subject) error {
	for {
		name, err := p.cells.get(heldKey(s.clientKey, s.client.sequence+1))
		if err != nil || name == nil {
			return err
		}
		p.keep(s)
		next, e, err := p.waiting(string(name), s.turn)
		if err != nil {
			return err
		}
		r := next.entry.record
		p.unhold(&next)
		next.client.sequence++
		p.forward(&next, &e, r)
		p.keep(&next)
		s.client = next.client
	}
}

// waiting returns a held event.
func (p *partition) waiting(name string, t *turn) (s subject, e wire.Event, err error) {
	if s, err = p.named(name, t); err != nil {
		return s, e, err
	}
	if !s.known || s.entry.state != held {
		return s, e, fmt.Errorf("event %s: %w: it is not held", name, packed.ErrDamaged)
	}
	if e, err = wire.ParseSubmit(s.entry.record); err != nil {
		err = fmt.Errorf("event %s: %w: %w", name, packed.ErrDamaged, err)
	}
	return s, e, err
}

func (p *partition) named(name string, t *turn) (subject, error) {
	tenant, client, id, ok := wire.ParseClientEvent(name)
	if !ok {
		return subject{}, fmt.Errorf("event %q: %w", name, packed.ErrDamaged)
	}
	return p.find(tenant, client, id, t)
}

// advance moves the partition's time forward, and rejects events that were held for too long.
func (p *partition) advance(to time.Time, t *turn) error {
	p.meta.clock = max(p.meta.clock, to.UnixMicro())
	for range forgetMax {
		front, ok, err := p.front(kindWait, p.meta.firstWait, p.meta.nextWait)
		if err != nil || !ok || front.at+p.options.Limits.HeldFor.Microseconds() > p.meta.clock {
			return err
		}
		s, err := p.named(front.name, t)
		if err != nil {
			return err
		}
		if s.known && s.entry.state == held && s.entry.at == front.at { // not a later event with the same id
			_, e, err := p.waiting(s.name, t)
			if err != nil {
				return err
			}
			p.unhold(&s)
			p.reject(&s, &e, p.time(), wire.CodeSequence, true, fmt.Sprintf("sequence %d: %d did not arrive within %v: send that event, then this one with another id",
				e.Sequence, s.client.sequence+1, p.options.Limits.HeldFor))
			p.keep(&s)
		}
		p.cells.delete(numbered(kindWait, p.meta.firstWait))
		p.meta.firstWait++
	}
	return nil
}

// forget removes ids that are too old or too many.
func (p *partition) forget(t *turn) error {
	for range forgetMax {
		front, ok, err := p.front(kindID, p.meta.firstID, p.meta.nextID)
		limits := &p.options.Limits
		if err != nil || !ok || p.meta.nextID-p.meta.firstID <= uint64(limits.IDs) && front.at+limits.Window.Microseconds() > p.meta.clock {
			return err
		}
		s, err := p.named(front.name, t)
		if err != nil {
			return err
		}
		if !s.known {
			return fmt.Errorf("event %s: %w: it has no entry", s.name, packed.ErrDamaged)
		}
		if s.entry.state == forwarded || s.entry.state == held {
			why := fmt.Sprintf("it has no outcome within %v", limits.Window)
			if p.meta.nextID-p.meta.firstID > uint64(limits.IDs) {
				why = fmt.Sprintf("it has no outcome, and %d others came after it", limits.IDs)
			}
			p.expire(&s, why+": send it again with another id")
		}
		p.cells.delete(key(kindEvent, s.name))
		p.cells.delete(numbered(kindID, p.meta.firstID))
		p.meta.firstID++
	}
	return nil
}

func (p *partition) expire(s *subject, why string) {
	p.options.Metrics.Expired.Add(1)
	if s.entry.state == held {
		p.unhold(s)
	}
	tenant, client, event, _ := wire.ParseClientEvent(s.name) // front has parsed it already
	p.end(s, &wire.Result{
		Tenant: tenant, Client: client, Event: event, Causal: s.entry.causal, Correlation: s.entry.correlationID(), Time: p.time(), Status: wire.StatusExpired,
		Error: &wire.Error{Code: wire.CodeExpired, Message: why, Retryable: true},
	})
	p.keep(s)
}

func (p *partition) time() time.Time { return time.UnixMicro(p.meta.clock).UTC() }

// front returns the place with the first of the numbers [first, next); ok is false if the range is
// empty.
func (p *partition) front(kind byte, first, next uint64) (front place, ok bool, err error) {
	if first == next {
		return front, false, nil
	}
	data, err := p.cells.get(numbered(kind, first))
	if err == nil {
		front, err = parsePlace(data)
	}
	return front, true, err
}

// timeEvery is the minimum time between two time records, unless one record cannot end everything
// that is due.
const timeEvery = time.Second

// pass processes a time record.
func (p *partition) pass(to time.Time, t *turn) error {
	if err := p.advance(to, t); err != nil {
		return err
	}
	if err := p.forget(t); err != nil {
		return err
	}
	at, err := p.first()
	if err == nil && !at.IsZero() && !at.After(p.time()) {
		p.asked = time.Time{}
	}
	return err
}

// first returns when the next entry ends by time; zero if no entry does.
func (p *partition) first() (at time.Time, err error) {
	for _, q := range [...]struct {
		kind        byte
		first, next uint64
		wait        time.Duration
	}{{kindWait, p.meta.firstWait, p.meta.nextWait, p.options.Limits.HeldFor}, {kindID, p.meta.firstID, p.meta.nextID, p.options.Limits.Window}} {
		front, ok, err := p.front(q.kind, q.first, q.next)
		if err != nil {
			return at, err
		}
		if due := time.UnixMicro(front.at).Add(q.wait); ok && (at.IsZero() || due.Before(at)) {
			at = due
		}
	}
	return at, nil
}

// due writes a time record if an entry is due and no client may append an event that would move
// time forward. It returns when to check again.
func (p *partition) due(now time.Time, t *turn) (time.Time, error) {
	at, err := p.first()
	if err != nil || at.IsZero() {
		return at, err
	}
	if again := p.asked.Add(timeEvery); at.Before(again) {
		at = again
	}
	if at.After(now) {
		return at, nil
	}
	p.asked = now
	id := p.cells.partition
	t.output(stream.Record{Partition: id, Time: now.Truncate(time.Microsecond), Headers: []stream.Header{{Key: header.Inbox, Value: []byte(wire.InboxTime)}}})
	t.Offsets[id] = p.next
	return now.Add(timeEvery), nil
}
