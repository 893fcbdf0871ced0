package explain

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/afterbay/afterbay/header"
	"github.com/afterbay/afterbay/serve"
	"github.com/afterbay/afterbay/stream"
)

// find returns the record that was asked for, or the event.
func (e *explanation) find(ctx context.Context, id string) (*Record, error) {
	p, _, ok := parsePosition(id)
	if ok && slices.ContainsFunc(e.topics, func(t serve.Topic) bool { return t.Name == p.Topic }) {
		r, err := e.at(ctx, id)
		if err == nil && r.Missing != "" {
			err = fmt.Errorf("%s: %w: %s: see afterbay topics for the offsets there are", id, ErrNotFound, strings.TrimPrefix(r.Missing, "not there: "))
		}
		e.report.Searched = 1
		return r, err
	}
	if _, p, offset, ok := parseID(id); ok {
		if r, err := e.near(ctx, id, p.Index, offset); r != nil || err != nil {
			return r, err
		}
	}
	r, err := e.scan(ctx, id)
	if r != nil || err != nil {
		return r, err
	}
	return nil, fmt.Errorf("id %q: %w among the %d records that are retained: take the header afterbay-id of an output from afterbay tail TOPIC --headers, or name a record as topic/partition@offset",
		id, ErrNotFound, e.report.Searched)
}

// parseID reads an id that starts as a pipeline makes them of an event's
// position: pipeline:partition:offset, with or without more.
func parseID(id string) (pipeline string, p stream.Partition, offset stream.Offset, ok bool) {
	parts := strings.SplitN(id, ":", 4)
	if len(parts) < 3 {
		return "", p, 0, false
	}
	index, err := strconv.ParseInt(parts[1], 10, 32)
	n, err1 := strconv.ParseInt(parts[2], 10, 64)
	p.Index = int32(index)
	return parts[0], p, stream.Offset(n), err == nil && err1 == nil && index >= 0 && n >= 0 && parts[0] != ""
}

// near looks for an id made of a position where it most likely is: outputs
// stay in the partition of their event, in order. Where a partition holds
// others too it finds nothing, and scan has to.
func (e *explanation) near(ctx context.Context, id string, partition int32, offset stream.Offset) (*Record, error) {
	var exact []*Record
	var derived *Record
	for _, topic := range e.topics {
		if int(partition) >= len(topic.Partitions) {
			continue
		}
		p := stream.Partition{Topic: topic.Name, Index: partition}
		at, err := e.lowest(ctx, id, p, topic.Partitions[partition], offset)
		if err != nil {
			return nil, err
		}
		for r, err := range e.Directory.Records(ctx, serve.Query{Topic: p.Topic, Partition: p.Index, From: int64(at)}) {
			if err != nil {
				return nil, err
			}
			e.report.Searched++
			own := header.Get(&r, header.ID)
			if n, ok := sameSource(own, id); !ok || n > offset {
				break
			}
			if own == id {
				exact = append(exact, newRecord(&r))
			} else if derived == nil && strings.HasPrefix(own, id+":") {
				derived = newRecord(&r)
			}
		}
	}
	if exact == nil {
		return e.eventOf(ctx, derived, id)
	}
	slices.SortStableFunc(exact, func(a, b *Record) int { return e.derived.rank(a) - e.derived.rank(b) })
	for _, r := range exact[1:] {
		e.report.Also = append(e.report.Also, r.Position)
	}
	return exact[0], nil
}

// eventOf returns the event that has an id, from a record that was made of it;
// nil where that was made of another.
func (e *explanation) eventOf(ctx context.Context, r *Record, id string) (*Record, error) {
	var err error
	for r != nil && err == nil && r.Made != nil && strings.HasPrefix(r.ID, id+":") {
		r, err = e.at(ctx, r.Made.From)
	}
	if r == nil || err != nil {
		return nil, err
	}
	_, wanted, offset, _ := parseID(id)
	p, at, _ := parsePosition(r.Position)
	if r.ID == id || r.ID == "" && p.Index == wanted.Index && at == offset {
		return r, nil
	}
	return nil, nil
}

// rank puts outputs before what only has the id of its event.
func rank(r *Record) int {
	return slices.Index([]string{KindOutput, KindDead, KindLate, KindEvent, KindCopy}, r.Kind)
}

// sameSource returns the offset in an id that is of the same pipeline and
// partition as another.
func sameSource(id, other string) (stream.Offset, bool) {
	pipeline, p, offset, ok := parseID(id)
	name, q, _, _ := parseID(other)
	return offset, ok && pipeline == name && p == q
}

// lowest returns the offset of the first record whose id is of an offset not
// below the one wanted, by bisection; the end where the partition holds other
// records.
func (e *explanation) lowest(ctx context.Context, id string, p stream.Partition, in serve.Partition, wanted stream.Offset) (stream.Offset, error) {
	low, high := in.First, in.Next
	for low < high {
		middle := low + (high-low)/2
		r, found, err := e.read(ctx, p, middle)
		if err != nil {
			return 0, err
		}
		e.report.Searched++
		offset, ok := sameSource(header.Get(&r, header.ID), id)
		switch {
		case !found || !ok:
			return in.Next, nil
		case offset < wanted:
			low = middle + 1
		default:
			high = middle
		}
	}
	return low, nil
}

const progressEvery = 1 << 12 // records

// all yields every record that is retained, topic by topic.
func (e *explanation) all(ctx context.Context, what string, take func(*stream.Record) (bool, error)) error {
	var done, total int64
	for _, topic := range e.topics {
		for _, p := range topic.Partitions {
			total += int64(p.Next - p.First)
		}
	}
	for _, topic := range e.topics {
		for r, err := range e.Directory.Records(ctx, serve.Query{Topic: topic.Name, Partition: serve.AllPartitions}) {
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

// scan looks for an id in every record, up to the first output that has it.
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
		return e.derived.rank(found) > 0, nil // the id means an output of the live generation
	})
	return found, err
}

// became lists what was made of the event.
func (e *explanation) became(ctx context.Context) error {
	return e.all(ctx, "looking for what came of "+e.report.Event.Position, func(r *stream.Record) (bool, error) {
		if header.Get(r, header.Position) != e.report.Event.Position && header.Get(r, header.Source) != e.report.Event.Position {
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
