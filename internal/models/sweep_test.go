package models

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/afterbay/afterbay/model"
)

// padding takes a fixed time for a call and one for each row, as long as the
// longest text of the call, and refuses calls of more rows than it can.
type padding struct {
	call, row time.Duration
	most      int
}

func (padding) Info() model.Info {
	return model.Info{Inputs: []model.Input{{Name: "text", Type: model.String}}, Outputs: []model.Output{{Size: 1}}}
}
func (padding) Check([]float64, [][]byte) error { return nil }

func (p padding) Predict(_ context.Context, rows model.Rows, _ []float32) error {
	if rows.Len() > p.most {
		return errors.New("too much")
	}
	longest := 0
	for _, text := range rows.Bytes {
		longest = max(longest, len(text))
	}
	time.Sleep(p.call + p.row*time.Duration(rows.Len()*longest))
	return nil
}

func TestPolicyIsTheSmallestThatPays(t *testing.T) {
	same, mixed := model.Rows{BytesWidth: 1}, model.Rows{BytesWidth: 1}
	for i := range 64 {
		same.Append(nil, [][]byte{make([]byte, 4)})
		mixed.Append(nil, [][]byte{make([]byte, 1+(i%8)*(i%8))})
	}
	for name, c := range map[string]struct {
		m    padding
		rows model.Rows
		want model.Policy
		most int // rows that are tried
	}{
		"calls cost":            {padding{100 * time.Microsecond, time.Microsecond, 4096}, same, model.Policy{Size: 256}, 1024},
		"rows cost":             {padding{time.Nanosecond, time.Millisecond, 4096}, same, model.Policy{Size: 1}, 64},
		"padding costs":         {padding{time.Millisecond, time.Microsecond, 4096}, mixed, model.Policy{Size: 256, ByLength: true}, 1024},
		"it cannot take more":   {padding{100 * time.Microsecond, time.Microsecond, 20}, same, model.Policy{Size: 16}, 16},
		"it can take next to 0": {padding{time.Millisecond, time.Microsecond, 1}, same, model.Policy{Size: 1}, 1},
	} {
		synctest.Test(t, func(t *testing.T) {
			start := time.Now()
			costs, policy, err := Sweep(t.Context(), c.m, c.rows, 0, 2*time.Second)
			if err != nil {
				t.Fatal(err)
			}
			most := 0
			for _, cost := range costs {
				most = max(most, cost.Rows)
			}
			if policy != c.want || most != c.most {
				t.Errorf("%s: %+v of %d rows at most, want %+v of %d\n%+v", name, policy, most, c.want, c.most, costs)
			}
			if took := time.Since(start); took > 4*time.Second {
				t.Errorf("%s: it took %v", name, took)
			}
		})
	}
	if _, _, err := Sweep(t.Context(), padding{most: 0}, same, 0, time.Second); err == nil {
		t.Error("a model that cannot be called has a policy")
	}
}
