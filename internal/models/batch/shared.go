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

// Reason is why a batch is called.
type Reason int

// The reasons.
const (
	Full   Reason = iota // as many rows as a call takes
	Idle                 // nothing more is on its way
	Waited               // the first row has waited for as long as it may
	Due                  // a deadline is as near as the call takes
	reasons
)

// String returns the reason as metrics name it.
func (r Reason) String() string { return [...]string{"full", "idle", "waited", "due"}[r] }

// Shared is a model whose callers share calls: rows of one caller wait for those
// of others, unless
//
//   - there are as many as a call takes,
//   - nothing more is on its way: of the members every one waits, or, where the
//     policy has no wait, a call may start,
//   - the first of them has waited for as long as the policy says, or
//   - a deadline is as near as calls of so many rows were measured to take.
//
// At most so many calls as NewShared was told run at a time. The rows of a caller
// stay together. Where a call fails, Gather finds the bad rows, and their callers
// get model.RowErrors.
type Shared struct {
	model.Model
	policy  model.Policy
	calls   int // that may run at a time
	outputs int
	texts   int // that a row is answered with
	flushed [reasons]atomic.Uint64
	gathers sync.Pool // of *Gather

	mu      sync.Mutex
	members int
	queue   []*request
	rows    int // of the queue
	running int // calls
	blocked int // requests of the queue and of running calls
	cost    cost
	timer   *time.Timer // wakes the queue when it is due
}

// request is a call of Predict.
type request struct {
	rows   model.Rows
	scores []float32
	texts  [][]byte
	since  time.Time
	due    time.Time // zero is never

	signal chan struct{} // of capacity 1: lead or err is set
	lead   []*request    // a batch to call: its first request does
	err    error
}

var _ model.Answerer = (*Shared)(nil)

// NewShared returns a model whose callers share calls by a policy. At most so
// many calls run at a time; 0 is one for each core.
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

// Flushed returns how many batches were called for a reason.
func (s *Shared) Flushed(r Reason) uint64 { return s.flushed[r].Load() }

// Enter makes the caller a member: one whose rows may be on their way as long as
// it does not wait in Predict. It leaves by Leave.
func (s *Shared) Enter() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.members++
}

// Leave is the end of Enter.
func (s *Shared) Leave() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.members--
	s.start()
}

// Predict implements model.Model. ctx's deadline is when scores are late; where
// ctx ends before its rows are called, they are not.
func (s *Shared) Predict(ctx context.Context, rows model.Rows, scores []float32) error {
	if s.texts > 0 {
		return calling.ErrTexts
	}
	return s.Answer(ctx, rows, scores, nil)
}

// Answer implements model.Answerer, as Predict does model.Model.
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
			ctx = context.WithoutCancel(ctx) // its rows are being called
		}
	}
}

// withdraw takes a request out of the queue; false where it is there no more.
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

// start hands the batches that are due to their first requests, and sets the timer
// for the next.
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

// judge says why the queue is to be called, or reasons and when it will be.
func (s *Shared) judge(now time.Time) (Reason, time.Time) {
	var at time.Time
	earlier := func(t time.Time) {
		if at.IsZero() || t.Before(at) {
			at = t
		}
	}
	idle := s.members > 0 && s.blocked >= s.members || s.policy.Wait == 0
	switch {
	case s.running >= s.calls: // the end of one looks again
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
	if !at.IsZero() && (!now.Before(at) || took == 0) { // or who knows when
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

// call scores the rows of a batch and tells its requests. It runs in the goroutine
// of the first of them.
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
	g.Begin(0, 0) // let go of what it points to
}

// failedOf returns the errors of the rows from lo to before hi, as a call of those
// alone has them.
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

// called notes the end of a call, and what it took where it went well.
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

// latest returns a context that ends when all of a batch are late, if they ever
// are: a request that is given up does not end the call of the others.
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
