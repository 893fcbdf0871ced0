package batch

import (
	"context"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/afterbay/afterbay/internal/models/calling"
	"github.com/afterbay/afterbay/model"
)

// Reason is why a batch starts.
type Reason int

// The reasons.
const (
	Full   Reason = iota // the batch has the most rows of a call
	Idle                 // no more rows are on their way
	Waited               // the first row reached the longest wait
	Due                  // a deadline is as near as the duration of the call
	reasons
)

// String returns the reason as metrics name it.
func (r Reason) String() string { return [...]string{"full", "idle", "waited", "due"}[r] }

// Shared is a model with shared calls: its callers send rows together. Rows of one caller wait for rows of others until one
// of these holds:
//
//   - there are as many rows as a call takes,
//   - no more rows are on their way: every member waits, or, if the policy has no
//     wait, a call may start,
//   - the first row has waited for as long as the policy says, or
//   - a deadline is as near as the measured duration of calls with this many rows.
//
// NewShared sets how many calls may run concurrently. The rows of a caller stay together. If a call
// fails, Gather finds the bad rows, and their callers get model.RowErrors.
type Shared struct {
	model.Model
	policy  model.Policy
	calls   int // most concurrent calls
	outputs int
	texts   int // texts per row of an answer
	flushed [reasons]atomic.Uint64
	gathers sync.Pool // of *Gather

	mu      sync.Mutex
	members int
	queue   []*request
	rows    int // in the queue
	running int // calls in flight
	blocked int // requests in the queue and in running calls
	cost    cost
	timer   *time.Timer // wakes the queue when it is due
}

// request is a call of Predict.
type request struct {
	rows   model.Rows
	scores []float32
	texts  [][]byte
	since  time.Time
	due    time.Time // zero means never

	signal chan struct{} // of capacity 1: signals that lead or err is set
	lead   []*request    // a batch to call: its first request makes the call
	err    error
}

var _ model.Answerer = (*Shared)(nil)

// NewShared returns a model that shares calls among callers by a policy. At most calls calls run
// concurrently; 0 means one per core.
func NewShared(m model.Model, policy model.Policy, calls int) *Shared {
	if policy.Size == 0 {
		policy.Size = 64
	}
	if calls == 0 {
		calls = runtime.GOMAXPROCS(0)
	}
	s := &Shared{Model: m, policy: policy, calls: calls, outputs: m.Info().Scores(), texts: m.Info().Texts()}
	s.gathers.New = func() any { return new(Gather) }
	s.timer = time.AfterFunc(time.Hour, s.tick)
	s.timer.Stop()
	return s
}

// Flushed returns how many batches started for a reason.
func (s *Shared) Flushed(r Reason) uint64 { return s.flushed[r].Load() }

// Enter makes the caller a member. While a member does not wait in Predict, its rows may be on
// their way. A member must call Leave.
func (s *Shared) Enter() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.members++
}

// Leave ends the membership that Enter began.
func (s *Shared) Leave() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.members--
	s.start()
}

// Predict implements model.Model. ctx's deadline is the time when scores are late. If ctx ends
// before the call of its rows starts, they are not sent.
func (s *Shared) Predict(ctx context.Context, rows model.Rows, scores []float32) error {
	if s.texts > 0 {
		return calling.ErrTexts
	}
	return s.Answer(ctx, rows, scores, nil)
}

// Answer implements model.Answerer, as Predict implements model.Model.
func (s *Shared) Answer(ctx context.Context, rows model.Rows, scores []float32, texts [][]byte) error {
	if rows.Len() == 0 {
		return ctx.Err()
	}
	r := &request{rows: rows, scores: scores, texts: texts, since: time.Now(), signal: make(chan struct{}, 1)}
	r.due, _ = ctx.Deadline()
	s.mu.Lock()
	s.queue, s.rows, s.blocked = append(s.queue, r), s.rows+rows.Len(), s.blocked+1
	s.start()
	s.mu.Unlock()
	for {
		select {
		case <-r.signal:
			if r.lead == nil {
				return r.err
			}
			batch := r.lead
			r.lead = nil
			s.call(ctx, batch)
		case <-ctx.Done():
			if s.withdraw(r) {
				return ctx.Err()
			}
			ctx = context.WithoutCancel(ctx) // the call of its rows has started
		}
	}
}

// withdraw removes a request from the queue. It returns false if the request is no longer there.
func (s *Shared) withdraw(r *request) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	i := slices.Index(s.queue, r)
	if i < 0 {
		return false
	}
	s.queue = slices.Delete(s.queue, i, i+1)
	s.rows, s.blocked = s.rows-r.rows.Len(), s.blocked-1
	s.start()
	return true
}

func (s *Shared) tick() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.start()
}

// start gives each batch that must start to its first request, and sets the timer for the next
// batch.
func (s *Shared) start() {
	s.timer.Stop()
	for len(s.queue) > 0 {
		reason, at := s.judge(time.Now())
		if reason == reasons {
			if !at.IsZero() {
				s.timer.Reset(time.Until(at))
			}
			return
		}
		n, rows := 1, s.queue[0].rows.Len()
		for n < len(s.queue) && rows+s.queue[n].rows.Len() <= s.policy.Size {
			rows += s.queue[n].rows.Len()
			n++
		}
		first := s.queue[0]
		first.lead = slices.Clone(s.queue[:n])
		s.queue = slices.Delete(s.queue, 0, n)
		s.rows -= rows
		s.running++
		s.flushed[reason].Add(1)
		first.signal <- struct{}{}
	}
}

// judge returns why the queue must be called now. If it need not, judge returns reasons and the
// time when it must.
func (s *Shared) judge(now time.Time) (Reason, time.Time) {
	var at time.Time
	earlier := func(t time.Time) {
		if at.IsZero() || t.Before(at) {
			at = t
		}
	}
	idle := s.members > 0 && s.blocked >= s.members || s.policy.Wait == 0
	switch {
	case s.running >= s.calls: // the end of a call checks again
		return reasons, at
	case s.rows >= s.policy.Size:
		return Full, at
	case idle:
		return Idle, at
	}
	took := s.cost.of(s.rows)
	for _, r := range s.queue {
		if !r.due.IsZero() {
			earlier(r.due.Add(-took))
		}
	}
	if !at.IsZero() && (!now.Before(at) || took == 0) { // or the duration is unknown
		return Due, at
	}
	if s.policy.Wait > 0 {
		waited := s.queue[0].since.Add(s.policy.Wait)
		if !now.Before(waited) {
			return Waited, at
		}
		earlier(waited)
	}
	return reasons, at
}

// call scores the rows of a batch and signals its requests. It runs in the goroutine of the first
// request.
func (s *Shared) call(ctx context.Context, batch []*request) {
	if r := batch[0]; len(batch) == 1 && r.rows.Len() <= s.policy.Size {
		start := time.Now()
		r.err = calling.Ask(ctx, s.Model, r.rows, r.scores, r.texts)
		s.called(batch, r.rows.Len(), time.Since(start), r.err == nil)
		r.signal <- struct{}{}
		return
	}
	g := s.gathers.Get().(*Gather)
	defer s.gathers.Put(g)
	g.Begin(batch[0].rows.Width, batch[0].rows.BytesWidth)
	for _, r := range batch {
		for i := range r.rows.Len() {
			g.Rows.Append(r.rows.Row(i))
		}
	}
	ctx, cancel := latest(ctx, batch)
	defer cancel()
	start := time.Now()
	err := g.Run(ctx, s.Model, s.outputs, s.policy.Size, s.policy.ByLength)
	s.called(batch, g.Rows.Len(), time.Since(start), err == nil && len(g.Failed) == 0)
	row := 0
	for _, r := range batch {
		next := row + r.rows.Len()
		if r.err = err; err == nil {
			copy(r.scores, g.Scores[row*s.outputs:next*s.outputs])
			copy(r.texts, g.Texts[row*s.texts:next*s.texts])
			r.err = failedOf(g.Failed, row, next)
		}
		row = next
		r.signal <- struct{}{}
	}
	g.Begin(0, 0) // releases the memory that it points to
}

// failedOf returns the errors of the rows [lo, hi), numbered as in a call of these rows alone.
func failedOf(all []Failed, lo, hi int) error {
	var failed model.RowErrors
	away := 0
	for _, f := range all {
		if f.Row < lo || f.Row >= hi {
			continue
		}
		failed = append(failed, model.RowError{Row: f.Row - lo, Err: f.Err})
		if calling.BlameOf(f.Err) == model.BlameWay {
			away++
		}
	}
	switch {
	case failed == nil:
		return nil
	case hi-lo == 1 || away == hi-lo:
		return failed[0].Err
	}
	return failed
}

// called records the end of a call, and its duration if it succeeded.
func (s *Shared) called(batch []*request, rows int, took time.Duration, well bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if well {
		s.cost.add(rows, took)
	}
	s.running--
	s.blocked -= len(batch)
	s.start()
}

// latest returns a context that ends at the latest deadline of a batch, if every request has one.
// So a cancelled request does not end the call of the others.
func latest(ctx context.Context, batch []*request) (context.Context, context.CancelFunc) {
	var last time.Time
	for _, r := range batch {
		if r.due.IsZero() {
			return context.WithoutCancel(ctx), func() {}
		}
		if r.due.After(last) {
			last = r.due
		}
	}
	return context.WithDeadline(context.WithoutCancel(ctx), last)
}
