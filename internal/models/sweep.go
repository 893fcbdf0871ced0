package models

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/afterbay/afterbay/model"
)

const (
	sweepRowsMax = 1024 // most rows per call
	worthwhile   = 1.1  // speedup that justifies more rows per call, or sorting them
)

// Cost is the measured cost of calls with this many rows.
type Cost struct {
	Rows      int // of a call
	ByLength  bool
	Calls     int
	P50, P99  time.Duration
	PerSecond float64 // rows, at the median
}

// Sweep measures calls of 1, 2, 4 and so on rows. Their largest size is limit, or 1,024 if limit is
// 0. total is the approximate time of all measurements. It returns the costs and the policy that
// pays: the smallest calls within a tenth of the fastest, sorted by length if sorting makes them a
// tenth faster. It stops increasing the size when a call takes an eighth of the time or fails.
// Other load on the machine affects the results.
func Sweep(ctx context.Context, m model.Model, rows model.Rows, limit int, total time.Duration) ([]Cost, model.Policy, error) {
	limit = min(cmp.Or(limit, sweepRowsMax), sweepRowsMax)
	rows = repeated(rows, 2*limit)
	costs, err := sizes(ctx, m, rows, limit, total/8)
	if err != nil {
		return nil, model.Policy{}, err
	}
	texts := rows.BytesWidth > 0
	share := total / time.Duration(len(costs)+2) // two of the shares are for sorting
	if !texts {
		share = total / time.Duration(len(costs))
	}
	if err := measure(ctx, m, []model.Rows{rows}, costs, share); err != nil {
		return nil, model.Policy{}, err
	}
	best := slices.MaxFunc(costs, func(a, b Cost) int { return cmp.Compare(a.PerSecond, b.PerSecond) })
	at := slices.IndexFunc(costs, func(c Cost) bool { return c.PerSecond*worthwhile >= best.PerSecond })
	policy := model.Policy{Size: costs[at].Rows}
	if !texts || policy.Size == 1 {
		return costs, policy, nil
	}
	pair := []Cost{{Rows: policy.Size}, {Rows: policy.Size, ByLength: true}}
	if err := measure(ctx, m, []model.Rows{rows, byLength(rows)}, pair, share); err != nil {
		return nil, policy, err
	}
	policy.ByLength = pair[1].PerSecond >= worthwhile*pair[0].PerSecond
	return append(costs, pair[1]), policy, nil
}

// sizes makes a call of 1, 2, 4 and so on rows, until a call fails or takes longer than longest. It
// returns the sizes worth measuring.
func sizes(ctx context.Context, m model.Model, rows model.Rows, limit int, longest time.Duration) ([]Cost, error) {
	var costs []Cost
	scores := make([]float32, limit*m.Info().Scores())
	for size := 1; size <= limit; size *= 2 {
		start := time.Now()
		if err := m.Predict(ctx, rows.Slice(0, size), scores); err != nil {
			if size == 1 || ctx.Err() != nil {
				return nil, fmt.Errorf("a call of %d rows: %w", size, err)
			}
			break
		}
		costs = append(costs, Cost{Rows: size})
		if time.Since(start) > longest {
			break
		}
	}
	return costs, nil
}

// sweepRounds is the number of rounds. Measurements are interleaved, so that a temporary slowdown
// of the machine affects all of them.
const sweepRounds = 5

// measure measures each of the costs for the given time. Costs by length use the second element of
// rows.
func measure(ctx context.Context, m model.Model, rows []model.Rows, costs []Cost, each time.Duration) error {
	scores := make([]float32, rows[0].Len()*m.Info().Scores())
	times := make([][]time.Duration, len(costs))
	for range sweepRounds {
		for i := range costs {
			from := rows[0]
			if costs[i].ByLength {
				from = rows[1]
			}
			at := 0
			for begin := time.Now(); ; {
				start := time.Now()
				if err := m.Predict(ctx, from.Slice(at, at+costs[i].Rows), scores); err != nil {
					return fmt.Errorf("a call of %d rows: %w", costs[i].Rows, err)
				}
				end := time.Now()
				times[i] = append(times[i], end.Sub(start))
				if at += costs[i].Rows; at+costs[i].Rows > from.Len() {
					at = 0
				}
				if end.Sub(begin) >= each/sweepRounds {
					break
				}
			}
		}
	}
	for i := range costs {
		c, list := &costs[i], times[i]
		slices.Sort(list)
		c.Calls, c.P50, c.P99 = len(list), list[len(list)/2], list[min(len(list)*99/100, len(list)-1)]
		mean := time.Duration(0)
		for _, t := range list { // calls by length start at different positions
			mean += t
		}
		typical := float64(max(c.P50, 1))
		if rows[0].BytesWidth > 0 {
			typical = float64(max(mean, 1)) / float64(len(list))
		}
		c.PerSecond = float64(c.Rows) / typical * float64(time.Second)
	}
	return nil
}

// repeated returns at least n rows, by repeating the given ones.
func repeated(rows model.Rows, n int) model.Rows {
	all := model.Rows{Width: rows.Width, BytesWidth: rows.BytesWidth}
	for all.Len() < n {
		for i := range rows.Len() {
			all.Append(rows.Row(i))
		}
	}
	return all
}

// byLength returns rows sorted by their number of bytes.
func byLength(rows model.Rows) model.Rows {
	order := make([]int, rows.Len())
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(sizeOf(rows, a), sizeOf(rows, b)) })
	sorted := model.Rows{Width: rows.Width, BytesWidth: rows.BytesWidth}
	for _, row := range order {
		sorted.Append(rows.Row(row))
	}
	return sorted
}

// Generate returns rows of numbers that a model accepts, some of them missing. Use them to measure
// calls, or as golden vectors if there are no real rows. It fails for models that take texts.
func Generate(m model.Model, n int) (model.Rows, error) {
	info := m.Info()
	if info.BytesWidth() > 0 {
		return model.Rows{}, fmt.Errorf("rows of a model that takes texts cannot be made up: give some")
	}
	random := rand.New(rand.NewPCG(20261121, 1))
	rows := model.Rows{Width: info.Width()}
	for attempt := 0; rows.Len() < n; attempt++ {
		values := make([]float64, 0, rows.Width)
		for _, in := range info.Inputs {
			for range in.Size() {
				values = append(values, generated(random, in))
			}
		}
		if err := m.Check(values, nil); err == nil {
			rows.Append(values, nil)
		} else if attempt > 100*n {
			return rows, fmt.Errorf("the model refuses rows that are made up: %w: give some", err)
		}
	}
	return rows, nil
}

func generated(random *rand.Rand, in model.Input) float64 {
	switch k := random.IntN(16); {
	case k == 0:
		return math.NaN()
	case in.Categories != nil:
		return float64(random.IntN(len(in.Categories)))
	case k < 4:
		return float64(random.IntN(10))
	}
	return random.NormFloat64() * math.Exp(2*random.NormFloat64())
}
