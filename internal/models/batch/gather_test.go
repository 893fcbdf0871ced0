package batch

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/afterbay/afterbay/internal/models/calling"
	"github.com/afterbay/afterbay/model"
)

// lengths scores a row by its number and the length of its text; a text with an
// x in it cannot be scored, nor can what shares its call.
type lengths struct {
	calls [][]int // the lengths of each
}

func (m *lengths) Info() model.Info {
	return model.Info{Inputs: append(model.Numbers(1), model.Input{Type: model.String}), Outputs: []model.Output{{Size: 2}}}
}

func (m *lengths) Check([]float64, [][]byte) error { return nil }

func (m *lengths) Predict(ctx context.Context, rows model.Rows, scores []float32) error {
	var call []int
	for i := range rows.Len() {
		values, texts := rows.Row(i)
		call = append(call, len(texts[0]))
		if strings.Contains(string(texts[0]), "x") {
			return errors.New("no")
		}
		scores[2*i], scores[2*i+1] = float32(values[0]), float32(len(texts[0]))
	}
	m.calls = append(m.calls, call)
	return ctx.Err()
}

func gather(g *Gather, texts ...string) {
	g.Begin(1, 1)
	for i, text := range texts {
		g.Rows.Append([]float64{float64(i)}, [][]byte{[]byte(text)})
	}
}

func TestRowsOfLikeLengthShareCallsAndKeepTheirScores(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	var g Gather
	for range 100 {
		var texts []string
		for range random.IntN(50) {
			texts = append(texts, strings.Repeat("a", random.IntN(20)))
		}
		gather(&g, texts...)
		m, size := &lengths{}, 1+random.IntN(8)
		if err := g.Run(t.Context(), m, 2, size, true); err != nil {
			t.Fatal(err)
		}
		for i, text := range texts {
			if g.Scores[2*i] != float32(i) || g.Scores[2*i+1] != float32(len(text)) {
				t.Fatalf("row %d has the scores %v", i, g.Scores[2*i:2*i+2])
			}
		}
		if all := slices.Concat(m.calls...); len(texts) > size && !slices.IsSorted(all) || len(all) != len(texts) {
			t.Fatalf("calls %v", m.calls)
		}
		if g.Calls != (len(texts)+size-1)/size || g.Called != len(texts) {
			t.Fatalf("%d calls of %d rows, of size %d", g.Calls, g.Called, size)
		}
	}
}

func TestBadRowFailsAlone(t *testing.T) {
	for _, byLength := range []bool{false, true} {
		var g Gather
		gather(&g, "aaaa", "ax", "aaa", "", "aaaaaa", "xaaaaaaa", "a")
		if err := g.Run(t.Context(), &lengths{}, 2, 4, byLength); err != nil {
			t.Fatal(err)
		}
		var failed []int
		for _, f := range g.Failed {
			failed = append(failed, f.Row)
		}
		if slices.Sort(failed); !slices.Equal(failed, []int{1, 5}) {
			t.Errorf("by length %v: rows %v failed", byLength, failed)
		}
		for _, i := range []int{0, 2, 3, 4, 6} {
			if g.Scores[2*i] != float32(i) {
				t.Errorf("by length %v: row %d has the scores %v", byLength, i, g.Scores[2*i:2*i+2])
			}
		}
	}
}

// blamed is an error that says whose fault it is.
type blamed struct{ blame model.Blame }

func (b blamed) Error() string      { return fmt.Sprint("blame ", int(b.blame)) }
func (b blamed) Blame() model.Blame { return b.blame }

// sick scores a row as its number, if no row of the call is bad.
type sick struct {
	constant
	bad   func(row int) error
	broke int   // calls that fail first
	err   error // of those
	calls int
}

func (m *sick) Predict(_ context.Context, rows model.Rows, scores []float32) error {
	if m.calls++; m.calls <= m.broke {
		return m.err
	}
	for _, value := range rows.Values {
		if m.bad != nil {
			if err := m.bad(int(value)); err != nil {
				return err
			}
		}
	}
	for i, value := range rows.Values {
		scores[i] = float32(value)
	}
	return nil
}

// run has n rows scored, in calls of 64, and returns which failed.
func (m *sick) run(t *testing.T, g *Gather, n int) []int {
	t.Helper()
	g.Begin(1, 0)
	for i := range n {
		g.Rows.Append([]float64{float64(i)}, nil)
	}
	if err := g.Run(t.Context(), m, 1, 64, false); err != nil {
		t.Fatal(err)
	}
	failed := make(map[int]bool)
	var rows []int
	for _, f := range g.Failed {
		if f.Err == nil || failed[f.Row] {
			t.Fatalf("row %d failed twice, or over nothing: %v", f.Row, f.Err)
		}
		failed[f.Row] = true
		rows = append(rows, f.Row)
	}
	for i, score := range g.Scores {
		if !failed[i] && score != float32(i) {
			t.Fatalf("row %d has the score %v", i, score)
		}
	}
	slices.Sort(rows)
	return rows
}

func TestOneBadRowCostsFewCalls(t *testing.T) {
	var g Gather
	for bad := range 64 {
		for err, most := range map[error]int{errors.New("these rows"): 7, blamed{model.BlameModel}: 8} {
			m := &sick{bad: func(row int) error {
				if row == bad {
					return err
				}
				return nil
			}}
			if failed := m.run(t, &g, 64); !slices.Equal(failed, []int{bad}) {
				t.Errorf("rows %v failed for %d: %v", failed, bad, err)
			}
			if g.Calls-1 > most || g.Calls != m.calls {
				t.Errorf("row %d cost %d calls more, at most %d: %v", bad, g.Calls-1, most, err)
			}
		}
	}
}

func TestBadRowsAreAllThatFail(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	var g Gather
	for range 500 {
		n, share := 1+random.IntN(200), random.Float64()*random.Float64()
		errs := make([]error, n)
		var want []int
		for row := range n {
			if random.Float64() < share {
				errs[row] = fmt.Errorf("row %d", row)
				want = append(want, row)
			}
		}
		m := &sick{bad: func(row int) error { return errs[row] }}
		if failed := m.run(t, &g, n); !slices.Equal(failed, want) {
			t.Fatalf("rows %v failed, not %v", failed, want)
		}
		if most := 2*n + 9*(n/64+1); g.Calls > most {
			t.Fatalf("%d calls for %d rows", g.Calls, n)
		}
	}
}

func TestModelThatBrokeForAMomentFailsNoRow(t *testing.T) {
	var g Gather
	for broke := range 7 {
		m := &sick{broke: broke, err: blamed{model.BlameModel}}
		if failed := m.run(t, &g, 64); len(failed) > 0 {
			t.Errorf("broken for %d calls: rows %v failed", broke, failed)
		}
	}
	m := &sick{broke: 1, err: errors.New("whatever")}
	if failed := m.run(t, &g, 64); len(failed) > 0 {
		t.Errorf("failed once: rows %v failed", failed)
	}
}

func TestBrokenModelIsAskedFewTimes(t *testing.T) {
	var g Gather
	m := &sick{broke: 1000, err: blamed{model.BlameModel}}
	if failed := m.run(t, &g, 64); len(failed) != 64 || g.Calls > 8 {
		t.Errorf("%d rows failed by %d calls", len(failed), g.Calls)
	}
}

func TestModelThatIsAwayIsAskedOnce(t *testing.T) {
	away := fmt.Errorf("nobody there: %w", blamed{model.BlameWay})
	var g Gather
	m := &sick{broke: 1000, err: away}
	if failed := m.run(t, &g, 200); len(failed) != 200 || g.Calls != 1 || calling.BlameOf(g.Failed[199].Err) != model.BlameWay {
		t.Errorf("%d rows failed by %d calls", len(failed), g.Calls)
	}
	m.broke = 0
	if failed := m.run(t, &g, 200); len(failed) > 0 {
		t.Errorf("rows %v failed when it was back", failed)
	}
	for gone := 2; gone < 9; gone++ { // while a bad row is searched
		calls := 0
		m := &sick{bad: func(row int) error {
			if row%64 == 0 || row == 20 {
				calls++
			}
			switch {
			case calls >= gone:
				return away
			case row == 20:
				return errors.New("this row")
			}
			return nil
		}}
		m.run(t, &g, 128)
		for _, f := range g.Failed {
			if f.Row != 20 && calling.BlameOf(f.Err) != model.BlameWay {
				t.Errorf("away from call %d on: row %d: %v", gone, f.Row, f.Err)
			}
		}
	}
}

func TestDeadlineIsNoRowsFault(t *testing.T) {
	var g Gather
	gather(&g, "a", "b", "c")
	ctx, cancel := context.WithTimeout(t.Context(), 0)
	defer cancel()
	if err := g.Run(ctx, &lengths{}, 2, 2, false); err != nil || len(g.Failed) != 3 || g.Calls != 1 {
		t.Errorf("%v, %v by %d calls", err, g.Failed, g.Calls)
	}
	for _, f := range g.Failed {
		if calling.BlameOf(f.Err) != model.BlameWay || !errors.Is(f.Err, context.DeadlineExceeded) {
			t.Errorf("row %d: %v", f.Row, f.Err)
		}
	}
}

// single fails rows by themselves.
type single struct{ sick }

func (m *single) Predict(_ context.Context, rows model.Rows, scores []float32) error {
	for i, value := range rows.Values {
		scores[i] = float32(value)
	}
	return fmt.Errorf("of a call: %w", model.RowErrors{{Row: 1, Err: errors.New("no")}})
}

func TestRowsThatFailByThemselvesAreNotSearched(t *testing.T) {
	var g Gather
	g.Begin(1, 0)
	for i := range 128 {
		g.Rows.Append([]float64{float64(i)}, nil)
	}
	if err := g.Run(t.Context(), &single{}, 1, 64, false); err != nil || g.Calls != 2 || len(g.Failed) != 2 || g.Failed[0].Row != 1 || g.Failed[1].Row != 65 {
		t.Errorf("%v, %v by %d calls", err, g.Failed, g.Calls)
	}
}

func TestEndedContextIsNoRowsFault(t *testing.T) {
	var g Gather
	gather(&g, "a", "b")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := g.Run(ctx, &lengths{}, 2, 2, false); !errors.Is(err, context.Canceled) || len(g.Failed) > 0 {
		t.Errorf("%v, %v", err, g.Failed)
	}
}

func TestGatheringDoesNotAllocate(t *testing.T) {
	var g Gather
	values, texts := []float64{1}, [][]byte{[]byte("text")}
	fixed := constant{}
	if n := testing.AllocsPerRun(10, func() {
		g.Begin(1, 1)
		for range 100 {
			g.Rows.Append(values, texts)
		}
		if err := g.Run(context.Background(), fixed, 1, 64, false); err != nil {
			t.Fatal(err)
		}
	}); n > 0 {
		t.Errorf("%v allocations", n)
	}
}

// constant scores 1.
type constant struct{}

func (constant) Info() model.Info                { return model.Info{Outputs: []model.Output{{Size: 1}}} }
func (constant) Check([]float64, [][]byte) error { return nil }

func (constant) Predict(_ context.Context, rows model.Rows, scores []float32) error {
	for i := range rows.Len() {
		scores[i] = 1
	}
	return nil
}

func Example() {
	var g Gather
	gather(&g, "some", "words")
	if err := g.Run(context.Background(), &lengths{}, 2, 64, true); err != nil {
		panic(err)
	}
	fmt.Println(g.Scores, g.Calls)
	// Output: [0 4 1 5] 1
}
