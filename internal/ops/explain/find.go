package explain

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/afterbay/afterbay/internal/event/header"
	"github.com/afterbay/afterbay/internal/ops/inspect"
	"github.com/afterbay/afterbay/internal/state/deadletter"
	"github.com/afterbay/afterbay/stream"
)

// find returns the output or event that was asked for.
func (e *explanation) find(ctx context.Context, id string) (*Record, error) {
	p, err := deadletter.ParsePosition(id)
	if err == nil && slices.ContainsFunc(e.topics, func(t inspect.Topic) bool { return t.Name == p.Topic }) {
		r, err := e.at(ctx, id)
		if err == nil && r.Missing != "" {
			err = fmt.Errorf("%s: %w: %s: see afterbay topics for the offsets there are", id, ErrNotFound, r.Missing)
		}
		e.report.Searched = 1
		return r, err
	}
	if made, ok := parseMade(id); ok {
		if r, err := e.near(ctx, id, made); r != nil || err != nil {
			return r, err
		}
	}
	r, err := e.scan(ctx, id)
	if r != nil || err != nil {
		return r, err
	}
	return nil, fmt.Errorf("id %q: %w among the %d retained records: use the header afterbay-id of an output from afterbay tail TOPIC --headers, or name a record as topic/partition@offset",
		id, ErrNotFound, e.report.Searched)
}

// madeOf is the origin in the id of an output. Such an id names the event's position if the event
// had no id, or if the event's own id was made in this way.
type madeOf struct {
	topic     string
	before    string // the id up to the offset of the event; the same for all events of a partition
	partition int32
	offset    stream.Offset
}

// parseMade parses the id of an output.
func parseMade(text string) (m madeOf, ok bool) {
	start := 0
	for event := text; ; {
		id, ok := header.ParseID(event)
		if !ok {
			return m, false
		}
		if start == 0 {
			m.topic = id.Topic
		}
		event, start = id.Event, start+len(id.Pipeline)+1
		if p, err := deadletter.ParsePosition(event); err == nil {
			m.before, m.partition, m.offset = text[:start+strings.LastIndexByte(event, '@')], p.Index, p.Offset
			return m, true
		}
	}
}

// near searches an output at its most likely place: in the partition of its event, which is in the
// order of events. If the partition also holds other records, near finds nothing and the caller
// must scan.
func (e *explanation) near(ctx context.Context, id string, made madeOf) (*Record, error) {
	var found []*Record
	for _, topic := range e.topics {
		if e.derived.output(topic.Name) != made.topic || int(made.partition) >= len(topic.Partitions) {
			continue
		}
		p := stream.Partition{Topic: topic.Name, Index: made.partition}
		at, err := e.lowest(ctx, p, topic.Partitions[p.Index], made)
		if err != nil {
			return nil, err
		}
		for r, err := range e.Directory.Records(ctx, inspect.Query{Topic: p.Topic, Partition: p.Index, From: int64(at)}) {
			if err != nil {
				return nil, err
			}
			e.report.Searched++
			own := header.Get(&r, header.ID)
			if offset, ok := sameSource(own, made); !ok || offset > made.offset {
				break
			}
			if own == id {
				found = append(found, newRecord(&r))
			}
		}
	}
	if found == nil {
		return nil, nil
	}
	slices.SortStableFunc(found, func(a, b *Record) int { return e.derived.rank(a) - e.derived.rank(b) })
	for _, r := range found[1:] {
		e.report.Also = append(e.report.Also, r.Position)
	}
	return found[0], nil
}

// rank orders outputs before records that only have the id of their event.
func rank(r *Record) int {
	return slices.Index([]string{KindOutput, KindDead, KindLate, KindEvent, KindCopy}, r.Kind)
}

// sameSource returns the offset of the event in an id. ok is true if the record was made in the
// same way from an event of the same partition.
func sameSource(id string, made madeOf) (stream.Offset, bool) {
	other, ok := parseMade(id)
	return other.offset, ok && other.before == made.before
}

// lowest returns the offset of the first record made from the event or a later one, by bisection.
// It returns the end if the partition holds other records.
func (e *explanation) lowest(ctx context.Context, p stream.Partition, in inspect.Partition, made madeOf) (stream.Offset, error) {
	low, high := in.First, in.Next
	for low < high {
		middle := low + (high-low)/2
		r, found, err := e.read(ctx, deadletter.Position{Partition: p, Offset: middle})
		if err != nil {
			return 0, err
		}
		e.report.Searched++
		offset, ok := sameSource(header.Get(&r, header.ID), made)
		switch {
		case !found || !ok:
			return in.Next, nil
		case offset < made.offset:
			low = middle + 1
		default:
			high = middle
		}
	}
	return low, nil
}

const progressEvery = 1 << 12 // records

// all calls take with every retained record, topic by topic.
func (e *explanation) all(ctx context.Context, what string, take func(*stream.Record) (bool, error)) error {
	var done, total int64
	for _, topic := range e.topics {
		for _, p := range topic.Partitions {
			total += int64(p.Next - p.First)
		}
	}
	for _, topic := range e.topics {
		for r, err := range e.Directory.Records(ctx, inspect.Query{Topic: topic.Name, Partition: inspect.AllPartitions}) {
			if err != nil {
				return err
			}
			if done++; done%progressEvery == 0 {
				e.Progress(what, done, total)
			}
			if more, err := take(&r); err != nil || !more {
				return err
			}
		}
	}
	return nil
}

// scan searches all records for an id, up to the first output that has it.
func (e *explanation) scan(ctx context.Context, id string) (found *Record, err error) {
	err = e.all(ctx, "looking for "+id, func(r *stream.Record) (bool, error) {
		e.report.Searched++
		if header.Get(r, header.ID) != id {
			return true, nil
		}
		next := newRecord(r)
		if found != nil && e.derived.rank(found) <= e.derived.rank(next) {
			found, next = next, found
		}
		if found != nil && len(e.report.Also) < becameMax {
			e.report.Also = append(e.report.Also, found.Position)
		}
		found = next
		return e.derived.rank(found) > 0, nil // an id refers to an output of the live generation
	})
	return found, err
}

// madeOf reports whether a record was made from the copy that is the event.
func (e *explanation) madeOf(r *stream.Record) bool {
	event := e.report.Event
	return event.Kind == KindCopy && header.Get(r, header.Repartition) != "" && header.Get(r, header.Position) == event.Made.From
}

// became lists the records made from the event.
func (e *explanation) became(ctx context.Context) error {
	return e.all(ctx, "looking for the outputs of "+e.report.Event.Position, func(r *stream.Record) (bool, error) {
		own := e.report.Event.Position
		if header.Get(r, header.Position) != own && header.Get(r, header.Source) != own && !e.madeOf(r) {
			return true, nil
		}
		if len(e.report.Became) < becameMax {
			e.report.Became = append(e.report.Became, newRecord(r))
		} else {
			e.report.More++
		}
		return true, nil
	})
}
