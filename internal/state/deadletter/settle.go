package deadletter

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"time"

	"github.com/afterbay/afterbay/stream"
)

// Log is a log with dead letters to read and settle.
type Log interface {
	stream.Log
	stream.Inspector
}

// Letters yields the dead letters of a pipeline that a filter selects, partition by partition in
// topic order. It skips settled ones, unless all is true. It yields the letters that exist at the
// time of the call. An error ends the iteration.
func Letters(ctx context.Context, log Log, pipeline string, f Filter, all bool) iter.Seq2[Letter, error] {
	return func(yield func(Letter, error) bool) {
		partitions, err := partitionsOf(ctx, log, pipeline)
		for _, p := range partitions {
			if !f.reads(p.Index) {
				continue
			}
			var m *marks
			if m, err = committed(ctx, log, pipeline, p); err != nil {
				break
			}
			from := m.next
			if all {
				from = 0
			}
			for l, err := range read(ctx, log, p, from) {
				if err == nil {
					if l.Settled = m.has(l.Record.Offset); l.Settled && !all || !f.Takes(&l) {
						continue
					}
				}
				if !yield(l, err) || err != nil {
					return
				}
			}
		}
		if err != nil {
			yield(Letter{}, err)
		}
	}
}

// partitionsOf returns the partitions of a pipeline's dead letters.
func partitionsOf(ctx context.Context, log Log, pipeline string) ([]stream.Partition, error) {
	topics, err := log.Topics(ctx)
	if err != nil {
		return nil, fmt.Errorf("list topics: %w", err)
	}
	var list []stream.Partition
	for _, t := range topics {
		for i := int32(0); t.Name == Topic(pipeline) && i < t.Partitions; i++ {
			list = append(list, stream.Partition{Topic: t.Name, Index: i})
		}
	}
	if list == nil {
		return nil, fmt.Errorf("topic %q of the dead letters of pipeline %q: %w: see afterbay topics, which lists NAME.dlq of each pipeline NAME", Topic(pipeline), pipeline, stream.ErrUnknownTopic)
	}
	return list, nil
}

// committed returns the committed marks of a partition.
func committed(ctx context.Context, log Log, pipeline string, p stream.Partition) (*marks, error) {
	state, err := log.State(ctx, Group(pipeline), p)
	if err != nil {
		return nil, err
	}
	return readMarks(state)
}

// read yields the dead letters of a partition from an offset to its current end.
func read(ctx context.Context, log Log, p stream.Partition, from stream.Offset) iter.Seq2[Letter, error] {
	return func(yield func(Letter, error) bool) {
		first, end, err := log.Offsets(ctx, p)
		if err != nil {
			yield(Letter{}, err)
			return
		}
		if from = max(from, first); from >= end {
			return
		}
		for r, err := range log.Tail(ctx, p, from) {
			if !yield(Read(r), err) || err != nil || r.Offset+1 >= end {
				return
			}
		}
	}
}

// Job says which dead letters to settle.
type Job struct {
	Pipeline string
	Filter   Filter
	Drop     bool // drop the events, do not send them back
	Limit    int  // most dead letters to settle; 0 is no limit
}

// Progress is the progress of a Job.
type Progress struct {
	Read     int       `json:"read"`    // dead letters read that were not settled before
	Settled  int       `json:"settled"` // durably sent back or dropped
	Refused  int       `json:"refused"` // selected dead letters that cannot be sent back; they stay
	Refusals []Refusal `json:"refusals,omitempty"`
	Done     bool      `json:"done"` // all dead letters were read
}

// Refusal describes a dead letter that cannot be sent back. Progress lists the first ones.
type Refusal struct {
	DeadLetter string `json:"dead_letter"` // topic/partition@offset
	ID         string `json:"id"`
	Reason     string `json:"reason"`
}

const (
	stepLetters = 256       // most letters settled in a transaction,
	stepBytes   = 512 << 10 // or most bytes sent
	lookLetters = 10_000    // letters read between two reports if none is settled
	refusalsMax = 20
	joinWait    = 30 * time.Second
)

// ErrBusy means that another process is settling dead letters of the pipeline.
var ErrBusy = errors.New("another process is settling dead letters of this pipeline")

// Settle sends the events of dead letters back, or drops them. It yields its progress after each
// transaction and at the end. Yielded progress is durable. If Settle ends early, the next call
// continues with the rest. Whatever happens, an event that is sent back is in the log exactly once.
func Settle(ctx context.Context, log Log, job Job) iter.Seq2[Progress, error] {
	return func(yield func(Progress, error) bool) {
		s := &settler{log: log, job: job}
		s.report = func() bool {
			s.stopped = s.stopped || !yield(s.progress, nil)
			return !s.stopped
		}
		err := s.run(ctx)
		if s.stopped {
			return
		}
		if err != nil {
			yield(s.progress, fmt.Errorf("settle dead letters of pipeline %q: %w", job.Pipeline, err))
			return
		}
		s.progress.Done = true
		s.report()
	}
}

type settler struct {
	log      Log
	job      Job
	member   stream.Member
	progress Progress
	report   func() bool // returns false if the caller wants to stop
	stopped  bool
}

func (s *settler) run(ctx context.Context) (err error) {
	partitions, err := partitionsOf(ctx, s.log, s.job.Pipeline)
	if err != nil {
		return err
	}
	if s.member, err = s.log.Join(ctx, Group(s.job.Pipeline), Topic(s.job.Pipeline)); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.member.Close()) }()
	assigned, err := s.assigned(ctx, len(partitions))
	if err != nil {
		return err
	}
	for _, p := range partitions {
		if !s.job.Filter.reads(p.Index) || s.full() {
			continue
		}
		if err := s.partition(ctx, assigned[p]); err != nil || s.stopped {
			return err
		}
	}
	return nil
}

// assigned waits until the member owns all n partitions. It pauses them, because the settler reads
// the records itself.
func (s *settler) assigned(ctx context.Context, n int) (map[stream.Partition]stream.Assigned, error) {
	within, cancel := context.WithTimeout(ctx, joinWait)
	defer cancel()
	have := map[stream.Partition]stream.Assigned{}
	for len(have) < n {
		batch, err := s.member.Poll(within, 1)
		if err != nil && within.Err() != nil && ctx.Err() == nil {
			err = ErrBusy
		}
		if err != nil {
			return nil, err
		}
		for _, p := range batch.Revoked {
			delete(have, p)
		}
		for _, a := range batch.Assigned {
			have[a.Partition] = a
			s.member.Pause(a.Partition)
		}
	}
	return have, nil
}

func (s *settler) full() bool {
	return s.job.Limit > 0 && s.progress.Settled >= s.job.Limit
}

// partition settles the dead letters of one partition.
func (s *settler) partition(ctx context.Context, a stream.Assigned) error {
	m, err := readMarks(a.State)
	if err != nil {
		return err
	}
	w := &writing{settler: s, partition: a.Partition, marks: m, open: -1, next: m.next}
	looked := 0
	for l, err := range read(ctx, s.log, a.Partition, m.next) {
		if err != nil {
			return err
		}
		w.take(&l)
		if looked++; w.full() || looked%lookLetters == 0 {
			if err := w.commit(ctx); err != nil {
				return err
			}
			if !s.report() || s.full() {
				return nil
			}
		}
	}
	if w.settled == 0 && w.end() <= m.next {
		return nil
	}
	if err := w.commit(ctx); err != nil {
		return err
	}
	s.report()
	return nil
}

// writing is the transaction being built for one partition.
type writing struct {
	*settler
	partition stream.Partition
	marks     *marks
	open      stream.Offset // first letter that is not settled; -1 if all letters so far are settled
	next      stream.Offset // after the last letter read
	outputs   []stream.Record
	bytes     int
	settled   int
}

// end returns the offset before which all letters are settled.
func (w *writing) end() stream.Offset {
	if w.open >= 0 {
		return w.open
	}
	return w.next
}

func (w *writing) full() bool {
	return w.settled >= stepLetters || w.bytes >= stepBytes || w.job.Limit > 0 && w.progress.Settled+w.settled >= w.job.Limit
}

// take settles a letter if the job selects it.
func (w *writing) take(l *Letter) {
	at := l.Record.Offset
	w.next = at + 1
	if w.marks.has(at) {
		return
	}
	w.progress.Read++
	if !w.job.Filter.Takes(l) || !w.send(l) {
		if w.open < 0 {
			w.open = at
		}
		return
	}
	w.marks.set(at)
	w.settled++
}

// send adds the event of a letter to the transaction, unless the job drops it. It reports whether
// the letter is settled.
func (w *writing) send(l *Letter) bool {
	if w.job.Drop {
		return true
	}
	refusal := l.Refusal()
	if refusal == "" {
		r, err := l.Again()
		if err == nil {
			w.outputs = append(w.outputs, r)
			w.bytes += recordBytes(&r)
			return true
		}
		refusal = err.Error()
	}
	w.progress.Refused++
	if len(w.progress.Refusals) < refusalsMax {
		w.progress.Refusals = append(w.progress.Refusals, Refusal{l.Place().String(), l.ID, refusal})
	}
	return false
}

func recordBytes(r *stream.Record) int {
	n := len(r.Key) + len(r.Value)
	for i := range r.Headers {
		n += len(r.Headers[i].Key) + len(r.Headers[i].Value)
	}
	return n
}

// commit commits the transaction: events and marks together.
func (w *writing) commit(ctx context.Context) error {
	step := stream.Transaction{
		Outputs: w.outputs, Changes: w.marks.changes(w.partition, w.end()),
		Offsets: map[stream.Partition]stream.Offset{w.partition: w.marks.next},
	}
	if err := w.member.Commit(step).Wait(ctx); err != nil {
		return err
	}
	w.progress.Settled += w.settled
	w.outputs, w.bytes, w.settled = nil, 0, 0
	w.member.Wake() // the member must call Poll regularly; do not block in it
	batch, err := w.member.Poll(ctx, 1)
	if err == nil && len(batch.Revoked) > 0 {
		err = ErrBusy
	}
	return err
}
