package batch

import (
	"context"
	"errors"
	"testing"

	"github.com/afterbay/afterbay/model"
)

// TestRowsAreCountedOnceWhateverCallsTheyTook has one row of many be bad, which takes
// calls to find, then a model that does not answer, and one that was told to end.
func TestRowsAreCountedOnceWhateverCallsTheyTook(t *testing.T) {
	var g Gather
	run := func(ctx context.Context, c *Counted, rows int) {
		g.Begin(1, 0)
		for i := range rows {
			g.Rows.Append([]float64{float64(i)}, nil)
		}
		if err := g.Run(ctx, c, 1, 64, false); err != nil && ctx.Err() == nil {
			t.Fatal(err)
		}
	}
	bad := &sick{bad: func(row int) error {
		if row == 5 || row == 70 {
			return errors.New("no")
		}
		return nil
	}}
	c := &Counted{Model: bad}
	run(t.Context(), c, 100)
	if got, want := c.Outcomes(), (Outcomes{Rows: 100, Refused: 2}); got != want {
		t.Errorf("%+v after %d calls, want %+v", got, bad.calls, want)
	}
	down := &Counted{Model: &sick{broke: 1, err: blamed{model.BlameWay}}}
	run(t.Context(), down, 10)
	run(t.Context(), down, 10)
	if got, want := down.Outcomes(), (Outcomes{Rows: 20, Faults: 10}); got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
	if got, want := c.Outcomes().Plus(down.Outcomes()), (Outcomes{120, 2, 10}); got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
	gone := &Counted{Model: &sick{broke: 1, err: blamed{model.BlameSource}}}
	run(t.Context(), gone, 1)
	ended, end := context.WithCancel(t.Context())
	end()
	gone.Model = &sick{broke: 10, err: ended.Err()}
	run(ended, gone, 10)
	if got, want := gone.Outcomes(), (Outcomes{Rows: 1}); got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
}
