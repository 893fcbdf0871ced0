package remote

import (
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/afterbay/afterbay/internal/models/calling"
	"github.com/afterbay/afterbay/model"
)

// faultsMax is how many consecutive failed calls show that the server is gone.
const faultsMax = 16

// streak counts consecutive faults: those of the rows after the newest row with an answer. Calls
// begin in the order of the rows. So a late answer hides no faults of later calls, and a late fault
// is not counted if a later call has an answer.
type streak struct {
	workers int // concurrent calls

	mu           sync.Mutex
	answered     int   // the newest row with an answer; -1 if there is no such row
	late, failed []int // rows after it
}

// note takes the result of the call for a row. It returns the error that shows that the
// server is gone, or nil.
func (s *streak) note(row int, err error) *Error {
	s.mu.Lock()
	defer s.mu.Unlock()
	var failed *Error
	switch {
	case !errors.As(err, &failed), failed.Fault == Refused, failed.Fault == Unfit:
		s.answered = max(s.answered, row)
		older := func(row int) bool { return row < s.answered }
		s.late, s.failed = slices.DeleteFunc(s.late, older), slices.DeleteFunc(s.failed, older)
		return nil
	case failed.Fault == Unreachable, failed.Fault == Denied:
		return failed
	case row < s.answered:
	case failed.Fault == Late:
		s.late = append(s.late, row)
	default:
		s.failed = append(s.failed, row)
	}
	if len(s.late) >= s.workers || len(s.failed) >= max(s.workers, faultsMax) {
		return failed
	}
	return nil
}

// each makes a call for each row. It stops if the server is gone. That is so in three cases: a call
// cannot reach the server, as many consecutive calls are late as run at a time, or faultsMax
// consecutive calls fail.
func (m *Model) each(ctx context.Context, rows model.Rows, of func(lo, hi int) model.Answer) error {
	n, call := rows.Len(), model.CallOf(ctx)
	errs := make([]error, n)
	var next atomic.Int64
	workers := min(n, m.options.Calls)
	calls := streak{workers: workers, answered: -1}
	var away atomic.Pointer[Error] // the server is gone, so the remaining rows are not tried
	var group sync.WaitGroup
	for range workers {
		group.Go(func() {
			for i := int(next.Add(1)) - 1; i < n; i = int(next.Add(1)) - 1 {
				if gone := away.Load(); gone != nil {
					errs[i] = untried{gone}
					continue
				}
				one := ctx
				if part := call.Part; part != nil {
					of := call
					of.Part = func(_ int, text string) { part(i, text) }
					one = model.WithCall(ctx, of)
				}
				errs[i] = m.call(one, rows.Slice(i, i+1), of(i, i+1))
				if gone := calls.note(i, errs[i]); gone != nil {
					away.Store(gone)
				}
			}
		})
	}
	group.Wait()
	if err := ctx.Err(); errors.Is(err, context.Canceled) {
		return err
	}
	var failed model.RowErrors
	unanswered := 0
	for i, err := range errs {
		if err == nil {
			continue
		}
		failed = append(failed, model.RowError{Row: i, Err: err})
		if blame := calling.BlameOf(err); blame == model.BlameWay || blame == model.BlameSource {
			unanswered++
		}
	}
	switch {
	case failed == nil:
		return nil
	case unanswered == n:
		for _, f := range failed {
			if calling.BlameOf(f.Err) == model.BlameWay {
				return f.Err
			}
		}
	}
	return failed
}

// untried is the error of a row that was not sent, because the call of another row could not reach
// the server. It says nothing about the row.
type untried struct{ cause *Error }

// Error returns the cause.
func (u untried) Error() string { return u.cause.Error() }

// Unwrap returns the cause.
func (u untried) Unwrap() error { return u.cause }

// Blame implements the method that calling.BlameOf calls.
func (untried) Blame() model.Blame { return model.BlameSource }
