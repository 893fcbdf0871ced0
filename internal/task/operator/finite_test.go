package operator

import (
	"math"
	"testing"

	"github.com/afterbay/afterbay/internal/event/value"
	"github.com/afterbay/afterbay/model"
	"github.com/afterbay/afterbay/udf"
)

// TestNoRowHasANumberThatIsNotFinite gives a row such numbers by all that steps take
// numbers from. Each is an error of the event, also for the rows of dead letters.
func TestNoRowHasANumberThatIsNotFinite(t *testing.T) {
	var schema value.Schema
	number, err := schema.Add("n", value.Type{Kind: value.Number})
	if err != nil {
		t.Fatal(err)
	}
	vector, err := schema.Add("v", value.Type{Kind: value.Vector, Size: 3})
	if err != nil {
		t.Fatal(err)
	}
	for _, bad := range []float64{math.NaN(), math.Inf(1), math.Inf(-1)} {
		for name, give := range map[string]func(row *value.Row) error{
			"a function": func(row *value.Row) error {
				f := &udf.Function{Version: 1, Event: func(c *udf.Context) error { c.SetNumber("n", bad); return nil }}
				_, err := (&Invocation{Row: row, Outputs: []value.Slot{number}}).Call(f)
				return err
			},
			"a model": func(row *value.Row) error {
				return (&Score{Outputs: []value.Slot{number}}).Store(&Event{Row: row}, model.Answer{Scores: []float32{float32(bad)}})
			},
			"a model's vector": func(row *value.Row) error {
				return (&Score{Outputs: []value.Slot{vector}}).Store(&Event{Row: row}, model.Answer{Scores: []float32{1, float32(bad), 3}})
			},
		} {
			row := &schema.NewRows(1)[0]
			if err := give(row); err == nil {
				t.Errorf("%v of %s is taken", bad, name)
			}
			if row.Has(number) || row.Has(vector) {
				t.Errorf("%v of %s is in the row", bad, name)
			}
		}
	}
}
