package step

import (
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/afterbay/afterbay/expression"
	"github.com/afterbay/afterbay/model"
	"github.com/afterbay/afterbay/value"
)

// Score calls a model.
type Score struct {
	Model    model.Model
	Name     string // name@version
	When     *expression.Program
	Inputs   []value.Slot
	Outputs  []value.Slot
	Fallback []*expression.Program // by output; nil where there is none
	Size     int                   // most rows of a call
}

// Skip sets the outputs of a score whose condition does not hold.
func (s *Score) Skip(row *value.Row) error {
	for i, slot := range s.Outputs {
		if s.Fallback[i] == nil {
			row.Clear(slot)
		} else if err := s.Fallback[i].Store(row, slot); err != nil {
			return fmt.Errorf("fallback of %s: %w", slot.Name, err)
		}
	}
	return nil
}

// AppendRow appends the model's inputs; an absent value is missing, NaN.
func (s *Score) AppendRow(dst []float32, row *value.Row) []float32 {
	at := len(dst)
	dst = slices.Grow(dst, len(s.Inputs))[:at+len(s.Inputs)]
	for i := range s.Inputs {
		slot := &s.Inputs[i]
		switch {
		case slot.Type.Optional && !row.Has(*slot):
			dst[at+i] = float32(math.NaN())
		case slot.Type.Kind == value.Number:
			dst[at+i] = float32(math.Float64frombits(row.Num[slot.Index]))
		default:
			dst[at+i] = float32(int64(row.Num[slot.Index]))
		}
	}
	return dst
}

var errNotFinite = errors.New("the model's output is not a finite number")

// Store puts the scores of a row into their slots.
func (s *Score) Store(row *value.Row, scores []float32) error {
	for i, slot := range s.Outputs {
		v := float64(scores[i])
		if math.IsNaN(v) || math.IsInf(v, 0) {
			return fmt.Errorf("%s: %w", slot.Name, errNotFinite)
		}
		row.SetNumber(slot, v)
	}
	return nil
}
