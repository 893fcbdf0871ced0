package task

import (
	"bytes"
	"cmp"
	"context"
	"encoding/binary"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/afterbay/afterbay/internal/event/header"
	"github.com/afterbay/afterbay/internal/event/value"
	"github.com/afterbay/afterbay/internal/naming"
	"github.com/afterbay/afterbay/internal/observe"
	"github.com/afterbay/afterbay/internal/state/generation"
	"github.com/afterbay/afterbay/internal/state/order"
	"github.com/afterbay/afterbay/internal/state/statekey"
	"github.com/afterbay/afterbay/internal/task/clock"
	"github.com/afterbay/afterbay/stream"
)

// A topic that a pipeline writes has events of several partitions of that pipeline: its writers.
// The events of one writer are in order. Those of another may be far behind.
//
//  1. Each writer is a separate source in each partition of the topic. So only its own events decide
//     which of them are late, and where their turn is.
//  2. The mark of a partition says what holds for all of its writers.
//  3. The pipeline writes its watermarks to the topic <pipeline>.marks, in the transaction that
//     reaches them. It does so only if a pipeline that runs with it copies its outputs:
//     Task.TellWatermarks. If an event waits for a repartitioner, the repartitioner reads these
//     watermarks. They apply once it has read all records that the partition had then: the outputs
//     of that transaction and of earlier ones.
//  4. The clock says that a writer is silent if two conditions hold: it had neither a record nor a
//     watermark for CopyPlan.Idle, and its pipeline has computed all of its input.
//
// If a writer's pipeline does not run with this one, the repartitioner learns of the writer from
// its first record. Only the clock then says that the writer is silent.

// Upstream is a pipeline that writes a copied topic.
type Upstream struct {
	Pipeline string
	Topic    string         // topic that the pipeline reads: each of its partitions is a writer
	Keyed    bool           // each writer may write to each partition; otherwise only to its own
	Reads    []observe.Read // reads of all groups on the way to its outputs, in the order of events
}

// Follow sets the pipelines that write the copied topic. Call it before Run.
func (t *Task) Follow(list []Upstream) { t.shared.upstreams = list }

// TellWatermarks sets whether the pipeline writes its watermarks. Call it before Run.
func (t *Task) TellWatermarks(tell bool) { t.shared.tells = tell }

// writer is the part of a source partition that one partition of a pipeline writes.
type writer struct {
	order.Source
	name  string    // pipeline/partition; "" if no pipeline writes it
	of    *upstream // nil if unknown
	heard time.Time // when it last had a record or a watermark
	moved bool      // its newest time changed since it was stored
}

// writersMax is how many writers a partition of a topic may have. Records of further writers count
// as records of the first one.
const writersMax = 4096

// writer returns the writer of a record, and adds it if it is new. A dead letter that is sent back
// does not advance a writer, and gets a copy of one. Otherwise its pipeline would become a writer
// that never advances.
func (s *source) writer(r *stream.Record, now time.Time) *writer {
	if s.named() && header.Value(r, header.Redrive) != nil {
		beside := *slices.MinFunc(s.writers, func(a, b *writer) int { return strings.Compare(a.name, b.name) })
		return &beside
	}
	s.name = s.name[:0]
	index := int32(0)
	if pipeline, _, _ := bytes.Cut(header.Value(r, header.Pipeline), []byte(" ")); naming.Valid(value.Text(pipeline)) { // any producer can set the header
		if at, _, known := generation.Event(r); known {
			index = at
			s.name = strconv.AppendInt(append(append(s.name, pipeline...), '/'), int64(at), 10)
		}
	}
	w := s.byName[string(s.name)]
	switch first := s.writers[0]; {
	case w != nil:
	case len(s.writers) == 1 && first.name == "": // the placeholder for writers that are not known yet
		w = first
		delete(s.byName, "")
		w.name, w.Writer, w.moved = string(s.name), index, true
		s.byName[w.name] = w
	case len(s.writers) == writersMax:
		w = first
	default:
		w = s.add(string(s.name), index)
		w.moved = true
	}
	w.heard = now
	return w
}

// add adds a writer.
func (s *source) add(name string, index int32) *writer {
	w := &writer{Source: order.NewSource(s.number), name: name, heard: s.begun}
	w.Writer = index
	s.writers, s.byName[name] = append(s.writers, w), w
	return w
}

// named reports whether pipelines write the partition.
func (s *source) named() bool { return len(s.writers) > 1 || s.writers[0].name != "" }

// mark returns the mark that holds for all writers.
func (s *source) mark(rules order.Rules) order.Mark {
	m := s.writers[0].Mark(rules)
	for _, w := range s.writers[1:] {
		m = m.And(w.Mark(rules))
	}
	return m
}

// newest returns the place of the newest event of all writers.
func (s *source) newest(rules order.Rules) order.Key {
	k := order.First
	for _, w := range s.writers {
		if m := w.Mark(rules); k.Before(m.Key) {
			k = m.Key
		}
	}
	return k
}

// restore adds the writers from the state, and the writers of known pipelines.
func (s *source) restore(p stream.Partition, newest int64, state stream.View, known []*upstream) error {
	for e, err := range state.Scan([]byte{statekey.Source}) {
		if err != nil || len(e.Value) != 16 {
			return cmp.Or(err, fmt.Errorf("the stored writer %q of %v is damaged", e.Key[1:], p))
		}
		name, index := string(e.Key[1:]), int64(0)
		if name != "" {
			if index, err = strconv.ParseInt(name[strings.LastIndexByte(name, '/')+1:], 10, 32); err != nil {
				return fmt.Errorf("the stored writer %q of %v is damaged", name, p)
			}
		}
		w := s.add(name, int32(index))
		w.Newest, w.Behind = int64(binary.BigEndian.Uint64(e.Value)), int64(binary.BigEndian.Uint64(e.Value[8:]))
	}
	for _, u := range known {
		for index := range u.partitions[u.Topic] {
			if !u.Keyed && index != p.Index {
				continue
			}
			name := u.Pipeline + "/" + strconv.Itoa(int(index))
			w := s.byName[name]
			if w == nil {
				w = s.add(name, index)
			}
			w.of = u
		}
	}
	if len(s.writers) == 0 {
		s.add("", 0).Newest = newest
	}
	return nil
}

// changes writes the changes of writers that are not in the state yet. The single writer of a
// partition that no pipeline writes is not stored: its newest time is that of the partition.
func (s *source) changes(write func(key, data []byte)) {
	for _, w := range s.writers {
		if w.moved && s.named() {
			data := binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint64(nil, uint64(w.Newest)), uint64(w.Behind))
			write(append([]byte{statekey.Source}, w.name...), data)
		}
		w.moved = false
	}
}

// upstream is an Upstream with the partitions of its log.
type upstream struct {
	Upstream
	partitions map[string]int32 // number of partitions by topic
}

// upstreamsOf looks up the partitions of the topics that pipelines read.
func upstreamsOf(ctx context.Context, log stream.Log, list []Upstream) (all []*upstream, err error) {
	if len(list) == 0 {
		return nil, nil
	}
	topics, err := log.Topics(ctx)
	if err != nil {
		return nil, err
	}
	partitions := map[string]int32{}
	for _, t := range topics {
		partitions[t.Name] = t.Partitions
	}
	for _, u := range list {
		all = append(all, &upstream{u, partitions})
	}
	return all, nil
}

// tellWatermark appends the watermark of a partition. It does so only if the watermark changed and
// all timers and ends due by it have run.
func (tx *committer) tellWatermark(p *partition) {
	at := p.watermark(tx.plan.Time.Lateness)
	if at == p.told || at == never || p.isDue(at) {
		return
	}
	p.told = at
	tx.building.Watermark(at, stream.Partition{Topic: naming.Of(tx.plan.Name, naming.Marks), Index: p.id.Index})
}

// survey says how far writers are at a time, and where partitions of their topic ended shortly
// after. It runs outside the loop, because an open transaction may hide records for long.
type survey struct {
	at   time.Time
	done chan struct{} // closed when far, ends and err are set
	far  map[writerOf]progress
	ends map[stream.Partition]stream.Offset // ends of the partitions that an event waited for
	err  error
}

// writerOf identifies a writer of a known pipeline.
type writerOf struct {
	pipeline string
	index    int32
}

// progress says how far a writer is.
type progress struct {
	watermark int64
	computed  bool // the pipeline has computed all input of the writer
}

// waitedFor is a partition of a topic that pipelines write, and that an event waits for.
type waitedFor struct {
	*partition
	silentFrom time.Time // earliest time of a needed mark with the clock; zero if none is needed
}

// listenAgain is how long a repartitioner waits before it asks again how far the writers are that
// events wait for.
const listenAgain = 20 * time.Millisecond

// listen finds out how far the writers are that events wait for.
func (w *worker) listen(list []waitedFor, now time.Time, ends []stream.Offset) error {
	if len(list) == 0 {
		return nil
	}
	r, wait := w.readers, time.Duration(0)
	r.lookBy(now.Add(listenAgain))
	if r.survey == nil {
		r.survey, wait = r.surveyOf(list, now), listenAgain // long enough for most surveys
	}
	select {
	case <-r.survey.done:
	case <-clock.After(w.options.Clock, wait):
		return nil
	}
	done := r.survey
	if r.survey = nil; done.err != nil {
		return done.err
	}
	for _, p := range list {
		if _, asked := done.ends[p.id]; asked && p.source.news == nil {
			p.source.news = done
		}
		if p.source.news == nil || p.next < p.source.news.ends[p.id] {
			continue // the survey applies later, when these records are read
		}
		w.hear(p, ends)
	}
	return nil
}

// hear applies a survey to the writers of a partition.
func (w *worker) hear(p waitedFor, ends []stream.Offset) {
	s, at, idle := p.source, p.source.news.at, w.readers.plan.Idle
	byClock := idle > 0 && !p.silentFrom.IsZero() && !at.Before(p.silentFrom)
	for _, w := range s.writers {
		quiet := at.Sub(w.heard) >= idle
		if w.of != nil {
			far := s.news.far[writerOf{w.of.Pipeline, w.Writer}]
			if far.watermark > w.Passed {
				w.Passed, w.heard = far.watermark, at
			}
			quiet = quiet && far.computed
		}
		if byClock && quiet {
			w.Silent = max(w.Silent, at.Add(-idle).UnixMicro())
		}
	}
	if s.news = nil; s.mark(w.plan.rules()) != s.told {
		s.ends = ends
		w.building.touch(p.partition)
	}
}

// surveyOf starts a survey of all writers.
func (r *readers) surveyOf(list []waitedFor, now time.Time) *survey {
	s := &survey{at: now, done: make(chan struct{}), far: map[writerOf]progress{}, ends: map[stream.Partition]stream.Offset{}}
	partitions := make([]stream.Partition, len(list))
	for i, p := range list {
		partitions[i] = p.id
	}
	r.asking.Go(func() {
		defer close(s.done)
		s.err = r.make(s, partitions)
	})
	return s
}

// make fills a survey: first how far the writers are, then where the partitions end.
func (r *readers) make(s *survey, partitions []stream.Partition) error {
	for _, u := range r.upstreams {
		all, err := true, error(nil)
		if len(u.Reads) > 1 { // each writer depends on all inputs
			if all, err = r.computed(u, nil); err != nil {
				return err
			}
		}
		for index := range u.partitions[u.Topic] {
			far := progress{computed: all}
			if len(u.Reads) == 1 {
				if far.computed, err = r.computed(u, &index); err != nil {
					return err
				}
			}
			if far.watermark, err = r.watermark(stream.Partition{Topic: naming.Of(u.Pipeline, naming.Marks), Index: index}); err != nil {
				return err
			}
			s.far[writerOf{u.Pipeline, index}] = far
		}
	}
	for _, p := range partitions {
		first, end, err := r.log.Offsets(r.ctx, p)
		if err != nil {
			return err
		}
		if first == end { // all of its records were deleted
			end = 0
		}
		s.ends[p] = end
	}
	return nil
}

// watermark returns the newest watermark in a partition of a topic of watermarks.
func (r *readers) watermark(p stream.Partition) (int64, error) {
	first, next, err := r.log.Offsets(r.ctx, p)
	if err != nil || next == first {
		return never, err
	}
	record, found, err := r.log.Peek(r.ctx, p, next-1)
	if err != nil || !found {
		return never, err
	}
	marks, err := order.ParseMarks(nil, header.Value(&record, header.Frontier))
	if err != nil || len(marks) != 1 {
		return never, fmt.Errorf("the watermark in %v@%d cannot be read: only the pipeline may write to this topic", p, record.Offset)
	}
	return marks[0].Key.Time, nil
}

// computed reports whether a pipeline has computed all input of its own and of the pipelines before
// it. If only is set, computed looks at that partition alone.
func (r *readers) computed(u *upstream, only *int32) (bool, error) {
	for _, read := range u.Reads {
		for index := range u.partitions[read.Topic] {
			if only != nil && index != *only {
				continue
			}
			p := stream.Partition{Topic: read.Topic, Index: index}
			first, end, err := r.log.Offsets(r.ctx, p)
			if err != nil {
				return false, err
			}
			committed, err := r.log.Committed(r.ctx, read.Group, p)
			if err != nil || committed < end && first < end {
				return false, err
			}
		}
	}
	return true, nil
}
