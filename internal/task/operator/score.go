package operator

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"unsafe"

	"github.com/afterbay/afterbay/internal/event/decode"
	"github.com/afterbay/afterbay/internal/event/expression"
	"github.com/afterbay/afterbay/internal/event/value"
	"github.com/afterbay/afterbay/internal/models/category"
	"github.com/afterbay/afterbay/model"
	"github.com/afterbay/afterbay/udf"
)

// Score calls a model. For a lookup or fetch it finds a row outside of the log, or content.
type Score struct {
	Batch
	When     *expression.Program
	Inputs   []value.Slot      // number inputs, in the model's order
	Codes    []*category.Codes // codes of the Inputs that are categories; nil if no input is one
	Texts    []value.Slot      // text and bytes inputs, in the model's order
	Compute  []Assign          // expressions among Texts
	State    *Call             // stores the model's state, as for a function; nil if the model has no state
	Outputs  []value.Slot
	Fallback []*expression.Program // fallback of each output; nil without one

	// Row reads Outputs from a row, if Finds is set. The row is a JSON object, and the only text of
	// the answer of Model.
	Row *decode.Scanner
}

// Label implements Operator. The prefix of the outputs is the name of the score.
func (s *Score) Label() (kind, name string) {
	if len(s.Outputs) > 0 {
		name, _, _ = strings.Cut(s.Outputs[0].Name, ".")
	}
	return s.Kind, name
}

// Makes implements Operator.
func (s *Score) Makes() []value.Slot { return s.Outputs }

func (s *Score) texts() []value.Slot { return slotsOf(s.Outputs, s.Compute) }

// Run implements Operator. It always returns an error, because the loop does not call it.
func (s *Score) Run(*Event) error { return errBatched }

var errBatched = errors.New("a batch step was run for a single event")

// Wants implements Batched.
func (s *Score) Wants(e *Event) (bool, error) { return Holds(s.When, e.Row) }

// Skip implements Batched. It sets the outputs of an event without a call.
func (s *Score) Skip(e *Event) error { return s.skip(e.Row) }

func (s *Score) skip(row *value.Row) error {
	for i, slot := range s.Outputs {
		if s.Fallback[i] == nil {
			row.Clear(slot)
		} else if err := s.Fallback[i].Store(row, slot); err != nil {
			return fmt.Errorf("fallback of %s: %w", slot.Name, err)
		}
	}
	return nil
}

// Columns implements Batched.
func (s *Score) Columns() (numbers, texts, scores int) {
	numbers, texts = columns(s.Inputs, 1), len(s.Texts)
	if s.Row == nil {
		scores = columns(s.Outputs, 0)
	}
	if s.State != nil {
		texts, scores = texts+1, scores+s.Model.Info().State
	}
	return numbers, texts, scores
}

// columns returns how many numbers the values of slots take. text is the count for a text.
func columns(slots []value.Slot, text int) (n int) {
	for i := range slots {
		switch t := &slots[i].Type; {
		case t.Kind == value.Vector:
			n += t.Size
		case t.Kind.Text():
			n += text
		default:
			n++
		}
	}
	return n
}

// Append implements Batched.
func (s *Score) Append(rows *model.Rows, e *Event) error {
	var kept *State
	if s.State != nil {
		var err error
		if _, kept, err = e.Kept.State(e, s.State); err != nil {
			return err
		}
	}
	return s.appendRow(rows, e.Row, kept)
}

// appendRow appends the model's inputs, followed by its state for the key. An absent value is
// appended as missing, NaN or nil. Texts are not copied from the row. appendRow appends no row that
// the model refuses.
func (s *Score) appendRow(rows *model.Rows, row *value.Row, kept *State) error {
	values, texts := len(rows.Values), len(rows.Bytes)
	err := AssignAll(s.Compute, row)
	if err == nil {
		err = s.appendNumbers(rows, row)
	}
	for i := range s.Texts {
		rows.Bytes = append(rows.Bytes, asText(row, s.Texts[i]))
	}
	if s.State != nil {
		rows.Bytes = append(rows.Bytes, kept.Values[s.Model.Info().Digest])
	}
	if err == nil {
		if err = s.Model.Check(rows.Values[values:], rows.Bytes[texts:]); err != nil {
			err = s.given(err)
		}
	}
	if err != nil {
		rows.Values, rows.Bytes = rows.Values[:values], rows.Bytes[:texts]
		return err
	}
	rows.N++
	return nil
}

// given adds to the error the expression or field of the input that a model refuses.
func (s *Score) given(err error) error {
	var refused *model.InputError
	if !errors.As(err, &refused) {
		return err
	}
	at, text := s.Model.Info().Column(refused)
	slots, width := s.Inputs, 1
	if text {
		slots = s.Texts
	}
	for i := range slots {
		if !text {
			width = columns(slots[i:i+1], 1)
		}
		if at >= 0 && at < width {
			named := *refused
			named.Given = slots[i].Name
			return &named
		}
		at -= width
	}
	return err
}

func (s *Score) appendNumbers(rows *model.Rows, row *value.Row) error {
	dst, codes := slices.Grow(rows.Values, columns(s.Inputs, 1)), s.Codes[:len(s.Inputs)]
	for i := range s.Inputs {
		slot := &s.Inputs[i]
		switch {
		case slot.Type.Optional && !row.Has(*slot):
			for range max(slot.Type.Size, 1) {
				dst = append(dst, math.NaN())
			}
		case slot.Type.Kind == value.Number && codes[i] == nil:
			dst = append(dst, math.Float64frombits(row.Num[slot.Index]))
		case slot.Type.Kind == value.Vector:
			dst = value.AppendVector(row, dst, *slot)
		case slot.Type.Kind.Text():
			code, ok := codes[i].Text(row.Str[slot.Index])
			if !ok {
				return fmt.Errorf("%s is %q, which is not a category of the model", slot.Name, clip(row.Str[slot.Index]))
			}
			dst = append(dst, code)
		case codes[i] == nil:
			dst = append(dst, float64(int64(row.Num[slot.Index])))
		default:
			code, err := categoryCode(codes[i], row, *slot)
			if err != nil {
				return fmt.Errorf("%s: %w", slot.Name, err)
			}
			dst = append(dst, code)
		}
	}
	rows.Values = dst
	return nil
}

// categoryCode returns the code of a bool or number.
func categoryCode(codes *category.Codes, row *value.Row, slot value.Slot) (float64, error) {
	switch slot.Type.Kind {
	case value.Bool:
		return codes.Bool(row.Bool(slot))
	case value.Number:
		return codes.Number(math.Float64frombits(row.Num[slot.Index]))
	}
	return codes.Number(float64(int64(row.Num[slot.Index])))
}

// asText returns the bytes of a slot, and for an int its digits.
func asText(row *value.Row, slot value.Slot) []byte {
	if slot.Type.Kind == value.Int {
		return strconv.AppendInt(nil, row.Int(slot), 10)
	}
	return text(row, slot)
}

// text returns the bytes of a slot, or nil if it has no value.
func text(row *value.Row, slot value.Slot) []byte {
	if slot.Type.Optional && !row.Has(slot) {
		return nil
	}
	return bytesOf(row.Str[slot.Index])
}

// bytesOf returns the bytes of a text without a copy. The caller must not change them.
func bytesOf(s string) []byte {
	if s == "" {
		return []byte{}
	}
	return unsafe.Slice(unsafe.StringData(s), len(s))
}

// clip shortens a text of an event for a message.
func clip(text string) string {
	if len(text) > 60 {
		return text[:60] + "..."
	}
	return text
}

var (
	errNotFinite = errors.New("the model's output is not a finite number")
	errNoText    = errors.New("the model has no such output for the event")
)

// Store implements Batched.
func (s *Score) Store(e *Event, answer model.Answer) error {
	if s.Row != nil {
		return s.storeRow(e.Row, answer.Texts[0])
	}
	if err := s.store(e.Row, answer); err != nil || s.State == nil {
		return err
	}
	_, before, err := e.Kept.State(e, s.State)
	if err != nil {
		return err
	}
	return e.Kept.Keep(e, s.State, s.keep(answer.Scores, before, e.Kept.Until(e), int64(e.Record.Offset)))
}

// store stores the answer of a model in the slots of a row.
func (s *Score) store(row *value.Row, answer model.Answer) error {
	scores, texts := answer.Scores, answer.Texts
	for _, slot := range s.Outputs {
		if slot.Type.Kind.Text() && slot.Type.Kind != value.Vector {
			text := texts[0]
			texts = texts[1:]
			switch {
			case text != nil:
				if err := row.Make(&slot, value.Text(text)); err != nil {
					return fmt.Errorf("%s: %w", slot.Name, err)
				}
			case slot.Type.Optional:
				row.Clear(slot)
			default:
				return fmt.Errorf("%s: %w", slot.Name, errNoText)
			}
			continue
		}
		numbers := scores[:max(slot.Type.Size, 1)]
		scores = scores[len(numbers):]
		for _, v := range numbers {
			if !value.Finite(float64(v)) {
				return fmt.Errorf("%s: %w", slot.Name, errNotFinite)
			}
		}
		if slot.Type.Kind == value.Vector {
			row.SetVector(slot, numbers)
		} else {
			row.SetNumber(slot, float64(numbers[0]))
		}
	}
	return nil
}

// storeRow stores the row that a lookup found; nil means no row.
func (s *Score) storeRow(row *value.Row, found []byte) error {
	if found == nil {
		return s.skip(row)
	}
	if err := s.Row.Scan(found, row); err != nil {
		return fmt.Errorf("row of %s: %w", s.Name, err)
	}
	for _, slot := range s.Outputs {
		if err := row.Made(slot); err != nil {
			return fmt.Errorf("row of %s: %s: %w", s.Name, slot.Name, err)
		}
	}
	return nil
}

// NewState returns the call that stores the state of a model for a key. The state is stored by the
// digest of the model, so that another model begins without state.
func NewState(index int, name string) *Call {
	forget := func(c *udf.Context) error {
		c.Host.(*Invocation).forget()
		return nil
	}
	return &Call{Index: index, Name: name, Function: &udf.Function{Version: 1, Keyed: true, Timer: forget}}
}

// keep returns the state of a key after a row, with an expiry timer at until. The state is the last
// part of the row's scores.
func (s *Score) keep(scores []float32, before *State, until, offset int64) *State {
	if len(before.Timers) > 0 {
		until = max(until, before.Timers[0].At)
	}
	return &State{
		Values: map[string][]byte{s.Model.Info().Digest: model.AppendState(nil, scores[columns(s.Outputs, 0):])},
		Timers: []Timer{{Name: "forget", At: until, After: offset}},
	}
}
