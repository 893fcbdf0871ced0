package operator

import (
	"context"
	"errors"
	"testing"

	"github.com/afterbay/afterbay/internal/event/value"
	"github.com/afterbay/afterbay/internal/models/category"
	"github.com/afterbay/afterbay/model"
)

// choosy refuses the value of one of its inputs.
type choosy struct{ refuses string }

func (choosy) Info() model.Info {
	return model.Info{Inputs: []model.Input{
		{Name: "x", Type: model.Number, Shape: []int{3}}, {Name: "words", Type: model.String}, {Name: "y", Type: model.Number}, {Name: "amount", Type: model.Number},
	}}
}

func (m choosy) Check([]float64, [][]byte) error {
	if m.refuses == "" {
		return nil
	}
	return &model.InputError{Name: m.refuses, Err: errors.New("it is missing")}
}

func (choosy) Predict(context.Context, model.Rows, []float32) error { return nil }

// TestRefusedInputsAreNamedByWhatTheyAreGiven has values that are called otherwise than
// the model's inputs, a vector among them.
func TestRefusedInputsAreNamedByWhatTheyAreGiven(t *testing.T) {
	var schema value.Schema
	slot := func(name string, kind value.Kind, size int) value.Slot {
		s, err := schema.Add(name, value.Type{Kind: kind, Size: size})
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	numbers := []value.Slot{slot("wave", value.Vector, 3), slot("price", value.Number, 0), slot("amount", value.Number, 0)}
	texts := []value.Slot{slot("body", value.String, 0)}
	row := &schema.NewRows(1)[0]
	for refused, want := range map[string]string{
		"x":      `input "x", given wave: it is missing`,
		"words":  `input "words", given body: it is missing`,
		"y":      `input "y", given price: it is missing`,
		"amount": `input "amount": it is missing`,
		"other":  `input "other": it is missing`,
	} {
		s := &Score{Batch: Batch{Model: choosy{refused}}, Inputs: numbers, Codes: make([]*category.Codes, len(numbers)), Texts: texts}
		e := Event{Row: row}
		rows := model.Rows{Width: 5, BytesWidth: 1}
		if err := s.Append(&rows, &e); err == nil || err.Error() != want {
			t.Errorf("%v, want %s", err, want)
		}
		if rows.N != 0 || len(rows.Values) != 0 {
			t.Errorf("%+v: a refused row is kept", rows)
		}
	}
}

func TestRowsAreAppendedWithoutMemoryOfTheirOwn(t *testing.T) {
	var schema value.Schema
	slot, err := schema.Add("amount", value.Type{Kind: value.Number})
	if err != nil {
		t.Fatal(err)
	}
	s := &Score{Batch: Batch{Model: choosy{}}, Inputs: []value.Slot{slot}, Codes: make([]*category.Codes, 1)}
	row := &schema.NewRows(1)[0]
	row.SetNumber(slot, 3)
	e := Event{Row: row}
	rows := model.Rows{Width: 1, Values: make([]float64, 0, 8)}
	allocated := testing.AllocsPerRun(100, func() {
		rows.N, rows.Values = 0, rows.Values[:0]
		if err := s.Append(&rows, &e); err != nil {
			t.Fatal(err)
		}
	})
	if allocated != 0 {
		t.Errorf("%v allocations a row", allocated)
	}
}
