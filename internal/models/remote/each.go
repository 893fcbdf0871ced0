package remote

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"

	"github.com/afterbay/afterbay/model"
)

// faultsMax is after how many faults with no answer between each makes no more calls.
const faultsMax = 16

// each makes a call for each row. It makes no more if the server is gone: a call cannot
// reach it, or with no answer between as many calls are late as run at a time, or
// faultsMax fail.
func (m *Model) each(ctx context.Context, rows model.Rows, of func(lo, hi int) model.Answer) error {
	n, part := rows.Len(), model.PartsOf(ctx)
	errs := make([]error, n)
	var next, faults atomic.Int64
	workers := min(n, m.options.Calls)
	var away atomic.Pointer[Error] // nobody is there, so the rows behind need not be tried
	var group sync.WaitGroup
	for range workers {
		group.Go(func() {
			for i := int(next.Add(1)) - 1; i < n; i = int(next.Add(1)) - 1 {
				if gone := away.Load(); gone != nil {
					errs[i] = untried{gone}
					continue
				}
				calling := ctx
				if part != nil {
					calling = model.WithParts(ctx, func(_ int, text string) { part(i, text) })
				}
				errs[i] = m.call(calling, rows.Slice(i, i+1), of(i, i+1))
				var failed *Error
				switch {
				case !errors.As(errs[i], &failed), failed.Fault == Refused, failed.Fault == Unfit:
					faults.Store(0)
				case failed.Fault == Unreachable, failed.Fault == Denied:
					away.Store(failed)
				default:
					most := workers
					if failed.Fault != Late {
						most = max(workers, faultsMax)
					}
					if faults.Add(1) >= int64(most) {
						away.Store(failed)
					}
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
		if blame := model.BlameOf(err); blame == model.BlameWay || blame == model.BlameSource {
			unanswered++
		}
	}
	switch {
	case failed == nil:
		return nil
	case unanswered == n:
		for _, f := range failed {
			if model.BlameOf(f.Err) == model.BlameWay {
				return f.Err
			}
		}
	}
	return failed
}

// untried is the error of a row without a call, because the call of another row could
// not reach the server. It says nothing about the row.
type untried struct{ cause *Error }

// Error says why.
func (u untried) Error() string { return u.cause.Error() }

// Unwrap returns why.
func (u untried) Unwrap() error { return u.cause }

// Blame implements what model.BlameOf asks.
func (untried) Blame() model.Blame { return model.BlameSource }
