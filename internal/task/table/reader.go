package table

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/afterbay/afterbay/internal/observe"
	"github.com/afterbay/afterbay/internal/task/clock"
	"github.com/afterbay/afterbay/stream"
)

// Reader reads the topics of tables for the partitions of one member. A nil Reader has no
// tables. One goroutine uses it.
type Reader struct {
	log       stream.Log
	inspector stream.Inspector
	specs     []Spec
	places    []place   // partitions of all tables; nil before the first look
	looked    time.Time // time of the newest look at the partitions
	input     string
	pipeline  string
	logger    *slog.Logger
	clock     clock.Clock
	inputs    int32     // number of partitions of input
	followed  *Follower // says how far to read in a replay; nil reads to the end
	states    map[stream.Partition]*State
	metrics   *observe.Member
	encoded   map[int]*encoded // by table; tables without one are JSON
	warned    time.Time        // newest warning that the schema registry is away
	badKeys   bool             // a bad key was logged
}

// NewReader returns a reader of tables for a pipeline that reads the topic input. It returns nil if
// there are no tables. The log must be a stream.Inspector. The logs of all engines are.
func NewReader(log stream.Log, input, pipeline string, specs []Spec, logger *slog.Logger, clock clock.Clock, metrics *observe.Member) (*Reader, error) {
	if len(specs) == 0 {
		return nil, nil
	}
	inspector, ok := log.(stream.Inspector)
	if !ok {
		return nil, fmt.Errorf("read tables: a log of type %T cannot be inspected", log)
	}
	r := &Reader{log: log, inspector: inspector, specs: specs, input: input, pipeline: pipeline, logger: logger, clock: clock, metrics: metrics, states: map[stream.Partition]*State{}, encoded: map[int]*encoded{}}
	for i := range specs {
		switch of := &specs[i]; {
		case of.Schema != nil:
			r.encoded[i] = &encoded{Transcoder: always{of.Schema}, whole: true}
		case of.Schemas != nil:
			r.encoded[i] = &encoded{Transcoder: of.Schemas.Transcoder(), woken: make(chan struct{}, 1)}
		}
	}
	return r, nil
}

// Follow makes the Reader take rows according to the notes that f follows.
func (r *Reader) Follow(f *Follower) {
	if r != nil {
		r.followed = f
	}
}

// Unread reports whether there are rows to take even if no event came.
func (r *Reader) Unread() bool { return r != nil && r.followed != nil && r.followed.unread() }

// Assign restores the state of a partition that the member now owns. Until Bring, its rows are
// those of its last transaction.
func (r *Reader) Assign(a stream.Assigned) (*State, error) {
	if r == nil {
		return nil, nil
	}
	s, err := newState(r.specs, a, r.pipeline, r.logger, r.metrics)
	if err == nil {
		r.states[a.Partition] = s
	}
	return s, err
}

// Revoke removes a partition.
func (r *Reader) Revoke(p stream.Partition) {
	if r != nil {
		delete(r.states, p)
	}
}

// Bring reads all rows that are durable at the call. After each row it calls took with the
// partition of the row and about the bytes that the row adds to the partition's next transaction.
// took may commit that transaction.
func (r *Reader) Bring(ctx context.Context, took func(p stream.Partition, bytes int) error) error {
	if r == nil || len(r.states) == 0 {
		return nil
	}
	if err := r.look(ctx); err != nil {
		return fmt.Errorf("read tables: %w", err)
	}
	for _, s := range r.states {
		s.partitions = r.inputs
	}
	read := r.toEnd
	if r.followed != nil {
		read = r.asNoted
	}
	if err := read(ctx, took); err != nil {
		return fmt.Errorf("read tables: %w", err)
	}
	for id, s := range r.states {
		s.note()
		if err := s.sweep(func(bytes int) error { return took(id, bytes) }); err != nil {
			return fmt.Errorf("remove old versions of tables beside %v: %w", id, err)
		}
	}
	return nil
}

// toEnd reads all rows that are durable.
func (r *Reader) toEnd(ctx context.Context, took func(stream.Partition, int) error) error {
	extents, err := r.extents(ctx)
	if err != nil {
		return err
	}
	for _, at := range r.places {
		if err := r.bring(ctx, at, *extents[r.partition(at)], took); err != nil {
			return fmt.Errorf("%v: %w", r.partition(at), err)
		}
	}
	return nil
}

// asNoted reads the rows that the notes say. It reads tables with history to their end.
func (r *Reader) asNoted(ctx context.Context, took func(stream.Partition, int) error) error {
	for id, s := range r.states {
		for _, at := range r.places {
			p, end := r.partition(at), stream.Offset(math.MaxInt64)
			if until := r.followed.until(id, p); !r.specs[at.table].Versions.Kept() {
				end = until
			}
			for s.next[at] < end {
				record, found, err := r.inspector.Peek(ctx, p, s.next[at])
				if err != nil {
					return fmt.Errorf("%v: %w", p, err)
				}
				if !found || record.Offset >= end {
					break
				}
				row, err := r.plain(ctx, at, &record)
				if err == nil {
					err = take(s, at, record.Offset, row, took)
				}
				if err != nil {
					return fmt.Errorf("%v: %w", p, err)
				}
			}
		}
	}
	return nil
}

// lookEvery is how often the reader looks for new partitions of tables.
const lookEvery = 10 * time.Second

// look lists the partitions of the tables.
func (r *Reader) look(ctx context.Context) error {
	first := r.places == nil
	if !first && r.clock.Now().Sub(r.looked) < lookEvery {
		return nil
	}
	topics, err := r.log.Topics(ctx)
	if r.looked = r.clock.Now(); err != nil && !first {
		return nil // continue with the known partitions
	} else if err != nil {
		return err
	}
	counts := map[string]int32{}
	for _, t := range topics {
		counts[t.Name] = t.Partitions
	}
	var places []place
	for i, spec := range r.specs {
		if counts[spec.Topic] == 0 && !first {
			return nil // the following read returns the cause
		} else if counts[spec.Topic] == 0 {
			return fmt.Errorf("%w %q", stream.ErrUnknownTopic, spec.Topic)
		}
		for partition := range counts[spec.Topic] {
			places = append(places, place{i, partition})
		}
	}
	if r.places = places; first {
		r.inputs = counts[r.input]
	}
	return nil
}

// extent is the first offset of a partition and the offset after its last record.
type extent struct{ first, end stream.Offset }

// extents returns the extents of all partitions of tables. All lookups of one topic read it up to
// the same end.
func (r *Reader) extents(ctx context.Context) (map[stream.Partition]*extent, error) {
	all := map[stream.Partition]*extent{}
	group, ctx := errgroup.WithContext(ctx) // in parallel, because a broker takes time to answer
	for _, at := range r.places {
		p := r.partition(at)
		if all[p] != nil {
			continue
		}
		to := &extent{}
		all[p] = to
		group.Go(func() (err error) {
			to.first, to.end, err = r.inspector.Offsets(ctx, p)
			return err
		})
	}
	return all, group.Wait()
}

func (r *Reader) partition(at place) stream.Partition {
	return stream.Partition{Topic: r.specs[at.table].Topic, Index: at.partition}
}

// tailMax is how long a tail may take to reach a record that exists. If the topic is compacted or
// trimmed meanwhile, its last record may change.
const tailMax = 10 * time.Second

// bring reads one partition of a table up to its end.
func (r *Reader) bring(ctx context.Context, at place, to extent, took func(stream.Partition, int) error) error {
	for {
		from, err := r.least(at, to)
		if err != nil || from >= to.end {
			return err
		}
		short, cancel := context.WithTimeout(ctx, tailMax)
		err = r.read(short, at, from, to.end, took)
		late := short.Err() != nil && ctx.Err() == nil
		cancel()
		if err == nil || !late && !errors.Is(err, stream.ErrTrimmed) {
			return err
		}
		if to.first, to.end, err = r.inspector.Offsets(ctx, r.partition(at)); err != nil {
			return err
		}
	}
}

// least returns the lowest offset that a partition still has to read. It skips records that are no
// longer retained.
func (r *Reader) least(at place, to extent) (stream.Offset, error) {
	least := stream.Offset(math.MaxInt64)
	for _, s := range r.states {
		next := s.next[at]
		if next > to.end {
			return 0, fmt.Errorf("it ends at %d, but beside %v it was read to %d: it was deleted and created again, or lost records. Give the pipeline another name, so that it reads all of its input and tables", to.end, s.id, next)
		}
		if next < to.first {
			if next > 0 {
				r.logger.Warn("rows of a table were deleted before the pipeline read them; older rows stay in use", "table", r.partition(at).String(), "beside", s.id.String(), "from", next, "to", to.first)
			}
			next = to.first
			s.move(at, next)
		}
		least = min(least, next)
	}
	return least, nil
}

// read passes the records of a table partition, up to end, to the states that have not read them.
func (r *Reader) read(ctx context.Context, at place, from, end stream.Offset, took func(stream.Partition, int) error) error {
	for record, err := range r.log.Tail(ctx, r.partition(at), from) {
		if err != nil {
			return err
		}
		row, err := r.plain(ctx, at, &record)
		if err != nil {
			return err
		}
		for _, s := range r.states {
			if record.Offset < s.next[at] {
				continue
			}
			if err := take(s, at, record.Offset, row, took); err != nil {
				return err
			}
		}
		if record.Offset+1 >= end {
			return nil
		}
	}
	return nil
}

// take passes a record to a state. nil is a record without a row.
func take(s *State, at place, offset stream.Offset, row *stream.Record, took func(stream.Partition, int) error) error {
	if row == nil {
		s.move(at, offset+1)
		return nil
	}
	n, err := s.take(at, row)
	if err == nil && n > 0 {
		err = took(s.id, n)
	}
	return err
}

// Topics lists the topics of tables, each once.
func Topics(specs []Spec) []string {
	var topics []string
	for _, s := range specs {
		if !slices.Contains(topics, s.Topic) {
			topics = append(topics, s.Topic)
		}
	}
	return topics
}
