package batch

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/afterbay/afterbay/model"
)

// slow scores a row as its own number, and takes a while.
type slow struct {
	took time.Duration
	mu   sync.Mutex
	ends []time.Time // of calls
	rows []int
}

func (m *slow) Info() model.Info {
	return model.Info{Inputs: model.Numbers(1), Outputs: []model.Output{{Size: 1}}}
}
func (m *slow) Check([]float64, [][]byte) error { return nil }

func (m *slow) Predict(ctx context.Context, rows model.Rows, scores []float32) error {
	select {
	case <-time.After(max(m.took, 1)): // timers due at once crash the race detector in bubbles (golang/go#78156)
	case <-ctx.Done():
		return ctx.Err()
	}
	if i := slices.Index(rows.Values, -1); i >= 0 {
		return fmt.Errorf("row %d cannot be scored", i)
	}
	for i, value := range rows.Values[:rows.Len()] {
		scores[i] = float32(value)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.ends, m.rows = append(m.ends, time.Now()), append(m.rows, rows.Len())
	return nil
}

// ask scores rows of a value each and says how long it took.
func ask(t *testing.T, ctx context.Context, s *Shared, values ...float64) (time.Duration, error) {
	t.Helper()
	start, scores := time.Now(), make([]float32, len(values))
	err := s.Predict(ctx, model.Rows{Width: 1, Values: values}, scores)
	if err == nil && !slices.EqualFunc(scores, values, func(a float32, b float64) bool { return float64(a) == b }) {
		t.Errorf("scores %v of %v", scores, values)
	}
	return time.Since(start), err
}

func flushes(s *Shared) string {
	var parts []string
	for r := range reasons {
		if n := s.Flushed(r); n > 0 {
			parts = append(parts, fmt.Sprintf("%v %d", r, n))
		}
	}
	return strings.Join(parts, ", ")
}

func TestCallIsMadeWhenItIsFull(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := &slow{took: time.Millisecond}
		s := NewShared(m, model.Policy{Size: 4, Wait: time.Second}, 1)
		var group sync.WaitGroup
		for i := range 4 {
			group.Go(func() {
				if took, err := ask(t, t.Context(), s, float64(i)); err != nil || took != time.Millisecond {
					t.Errorf("%v, %v", took, err)
				}
			})
		}
		group.Wait()
		if got := flushes(s); got != "full 1" || !slices.Equal(m.rows, []int{4}) {
			t.Errorf("%s, rows %v", got, m.rows)
		}
	})
}

func TestRowsWaitNoLongerThanThePolicySays(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := &slow{took: time.Millisecond}
		s := NewShared(m, model.Policy{Size: 4, Wait: 5 * time.Millisecond}, 1)
		var group sync.WaitGroup
		for i := range 3 {
			group.Go(func() {
				time.Sleep(time.Duration(i) * time.Millisecond)
				if took, err := ask(t, t.Context(), s, float64(i)); err != nil || took != time.Duration(6-i)*time.Millisecond {
					t.Errorf("%d: %v, %v", i, took, err)
				}
			})
		}
		group.Wait()
		if got := flushes(s); got != "waited 1" || !slices.Equal(m.rows, []int{3}) {
			t.Errorf("%s, rows %v", got, m.rows)
		}
	})
}

func TestNothingWaitsWhereNothingMoreIsOnItsWay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := &slow{took: time.Millisecond}
		s := NewShared(m, model.Policy{Size: 4, Wait: time.Second}, 1)
		s.Enter()
		if took, err := ask(t, t.Context(), s, 1); err != nil || took != time.Millisecond {
			t.Errorf("the only member: %v, %v", took, err)
		}
		s.Enter() // another one, whose rows may come
		go func() {
			time.Sleep(7 * time.Millisecond)
			s.Leave()
		}()
		if took, err := ask(t, t.Context(), s, 1); err != nil || took != 8*time.Millisecond {
			t.Errorf("after the other left: %v, %v", took, err)
		}
		if got := flushes(s); got != "idle 2" {
			t.Error(got)
		}
	})
}

func TestWithoutWaitRowsShareTheCallAfterTheRunningOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := &slow{took: 10 * time.Millisecond}
		s := NewShared(m, model.Policy{Size: 64}, 1)
		var group sync.WaitGroup
		for i := range 8 {
			group.Go(func() {
				time.Sleep(time.Duration(i) * time.Millisecond)
				if took, err := ask(t, t.Context(), s, float64(i)); err != nil || took > 20*time.Millisecond {
					t.Errorf("%d: %v, %v", i, took, err)
				}
			})
		}
		group.Wait()
		if got := flushes(s); got != "idle 2" || !slices.Equal(m.rows, []int{1, 7}) {
			t.Errorf("%s, rows %v", got, m.rows)
		}
	})
}

func TestCallStartsAsLongBeforeTheDeadlineAsItTakes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := &slow{took: 10 * time.Millisecond}
		s := NewShared(m, model.Policy{Size: 64, Wait: time.Minute}, 1)
		s.Enter()
		for range 60 { // the measured cost settles
			if _, err := ask(t, t.Context(), s, 1); err != nil {
				t.Fatal(err)
			}
		}
		s.Enter() // two more members than wait: nothing is idle
		s.Enter()
		var group sync.WaitGroup
		for _, budget := range []time.Duration{time.Second, 100 * time.Millisecond} {
			group.Go(func() {
				ctx, cancel := context.WithTimeout(t.Context(), budget)
				defer cancel()
				if took, err := ask(t, ctx, s, 1); err != nil || took > 100*time.Millisecond || took < 85*time.Millisecond {
					t.Errorf("%v, %v: the earliest deadline is in 100ms", took, err)
				}
			})
		}
		group.Wait()
		if got := flushes(s); got != "idle 60, due 1" {
			t.Error(got)
		}
	})
}

func TestRequestThatIsGivenUpLeavesTheQueue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := &slow{took: 10 * time.Millisecond}
		s := NewShared(m, model.Policy{Size: 4, Wait: 20 * time.Millisecond}, 1)
		ctx, cancel := context.WithCancel(t.Context())
		var group sync.WaitGroup
		group.Go(func() {
			if took, err := ask(t, ctx, s, 1); !errors.Is(err, context.Canceled) || took != 5*time.Millisecond {
				t.Errorf("given up: %v, %v", took, err)
			}
		})
		group.Go(func() {
			time.Sleep(time.Millisecond)
			if took, err := ask(t, t.Context(), s, 2); err != nil || took != 30*time.Millisecond {
				t.Errorf("the other: %v, %v", took, err)
			}
		})
		time.Sleep(5 * time.Millisecond)
		cancel()
		group.Wait()
		if !slices.Equal(m.rows, []int{1}) {
			t.Errorf("rows %v", m.rows)
		}
	})
}

func TestRequestGivenUpDuringItsCallDoesNotEndIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := &slow{took: 10 * time.Millisecond}
		s := NewShared(m, model.Policy{Size: 2, Wait: time.Second}, 1)
		ctx, cancel := context.WithCancel(t.Context())
		var group sync.WaitGroup
		group.Go(func() { _, _ = ask(t, ctx, s, 1) })
		group.Go(func() {
			time.Sleep(time.Millisecond)
			if took, err := ask(t, t.Context(), s, 2); err != nil || took != 10*time.Millisecond {
				t.Errorf("%v, %v", took, err)
			}
		})
		time.Sleep(5 * time.Millisecond)
		cancel()
		group.Wait()
	})
}

func TestBadRowsFailTheirCallerAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := NewShared(&slow{took: time.Millisecond}, model.Policy{Size: 6, Wait: time.Second}, 1)
		var group sync.WaitGroup
		for _, values := range [][]float64{{1, 2}, {3, -1}, {5, 6}} {
			group.Go(func() {
				if _, err := ask(t, t.Context(), s, values...); (err != nil) != slices.Contains(values, -1) {
					t.Errorf("%v: %v", values, err)
				}
			})
		}
		group.Wait()
	})
}

func TestOneBadRowOfASharedCallIsSearchedOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := &sick{bad: func(row int) error {
			if row == 21 {
				return errors.New("this row")
			}
			return nil
		}}
		s := NewShared(m, model.Policy{Size: 64, Wait: time.Second}, 1)
		var group sync.WaitGroup
		for caller := range 4 {
			group.Go(func() {
				var g Gather
				g.Begin(1, 0)
				for i := range 16 {
					g.Rows.Append([]float64{float64(16*caller + i)}, nil)
				}
				err := g.Run(t.Context(), s, 1, 16, false)
				if err != nil || g.Calls != 1 || (len(g.Failed) == 1) != (caller == 1) || caller == 1 && g.Failed[0].Row != 5 {
					t.Errorf("caller %d: %v, %v by %d calls", caller, err, g.Failed, g.Calls)
				}
			})
		}
		group.Wait()
		if m.calls > 8 {
			t.Errorf("%d calls", m.calls)
		}
	})
}

// Whatever callers do, each gets the scores of its own rows, no call has more
// rows than it may, and no more calls run than may.
func TestCallersGetTheirOwnScores(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	for round := range uint64(50) {
		synctest.Test(t, func(t *testing.T) {
			random := rand.New(rand.NewPCG(seed, round))
			m := &slow{took: time.Duration(random.IntN(5)) * time.Millisecond}
			size := 1 + random.IntN(10)
			s := NewShared(m, model.Policy{Size: size, Wait: time.Duration(random.IntN(3)) * time.Millisecond}, 1+random.IntN(3))
			var group sync.WaitGroup
			total := 0
			for range 1 + random.IntN(8) {
				member, asks := random.IntN(2) == 0, 1+random.IntN(10)
				own := rand.New(rand.NewPCG(seed, random.Uint64()))
				total += asks
				group.Go(func() {
					if member {
						s.Enter()
						defer s.Leave()
					}
					for range asks {
						time.Sleep(time.Duration(own.IntN(4)) * time.Millisecond)
						values := make([]float64, 1+own.IntN(min(size, 4)))
						for i := range values {
							values[i] = float64(own.Float32())
						}
						if _, err := ask(t, t.Context(), s, values...); err != nil {
							t.Error(err)
						}
					}
				})
			}
			group.Wait()
			if len(m.rows) > total || slices.Max(m.rows) > size {
				t.Errorf("seed %d round %d: %d calls of %d requests, rows %v of %d", seed, round, len(m.rows), total, m.rows, size)
			}
			if s.blocked != 0 || s.running != 0 || s.rows != 0 || s.members != 0 {
				t.Errorf("left over: %d blocked, %d running, %d rows, %d members", s.blocked, s.running, s.rows, s.members)
			}
		})
	}
}

func TestCostFollowsWhatCallsTake(t *testing.T) {
	var c cost
	if c.of(5) != 0 {
		t.Error("a cost of nothing")
	}
	for range 200 {
		c.add(8, 10*time.Millisecond)
		c.add(64, 40*time.Millisecond)
	}
	near := func(got, want time.Duration) bool { return got >= want && got < want+want/100 }
	for rows, want := range map[int]time.Duration{1: 10, 5: 10, 8: 10, 9: 40, 64: 40, 128: 80, 200: 160} {
		if got := c.of(rows); !near(got, want*time.Millisecond) {
			t.Errorf("%d rows take %v", rows, got)
		}
	}
	for range 200 {
		c.add(8, 30*time.Millisecond)
	}
	if got := c.of(8); !near(got, 30*time.Millisecond) {
		t.Errorf("later 8 rows take %v", got)
	}
}

func TestUnknownCostIsNotWaitedFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := NewShared(&slow{took: 10 * time.Millisecond}, model.Policy{Size: 64, Wait: time.Minute}, 1)
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		defer cancel()
		if took, err := ask(t, ctx, s, 1); err != nil || took != 10*time.Millisecond {
			t.Errorf("%v, %v", took, err)
		}
		if got := flushes(s); got != "due 1" {
			t.Error(got)
		}
	})
}

func TestOnlyCallerEndsItsCall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := NewShared(&slow{took: time.Hour}, model.Policy{Size: 2}, 1)
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(5*time.Millisecond, cancel)
		if took, err := ask(t, ctx, s, 1); !errors.Is(err, context.Canceled) || took != 5*time.Millisecond {
			t.Errorf("%v, %v", took, err)
		}
	})
}
