package operator

import (
	"errors"
	"fmt"
	"slices"

	"github.com/afterbay/afterbay/internal/event/decode"
	"github.com/afterbay/afterbay/internal/event/expression"
	"github.com/afterbay/afterbay/internal/event/value"
	"github.com/afterbay/afterbay/internal/models/batch"
	"github.com/afterbay/afterbay/model"
)

// Each runs operators for the elements of a list, and makes a list or records of the results. The
// row of the event holds the values of one element after the other. After the step it holds no
// values of elements.
type Each struct {
	Name   string // name of the list, for errors
	In     *expression.Program
	Max    int            // most elements; more are an error
	Fields []decode.Field // fields of elements that are objects; nil if they are scalars
	Item   value.Slot     // slot of elements that are scalars
	When   *expression.Program
	Before []Operator // all operators, or those before the score
	After  []Operator // operators after the score
	Emits  []*Emit    // emits of records of elements; they run after the other operators
	Gather *Gather    // nil makes no list

	scanner *decode.Scanner
	made    []value.Slot // slots that the operators make
}

// NewEach returns an Each that is ready to use.
func NewEach(x Each) *Each {
	if x.Fields != nil {
		x.scanner = decode.New(x.Fields)
	}
	for _, op := range slices.Concat(x.Before, x.After) {
		x.made = append(x.made, op.Makes()...)
	}
	for _, m := range x.Emits {
		x.made = slotsOf(x.made, m.Compute)
	}
	switch {
	case x.Gather == nil:
	case x.Gather.Object != nil:
		x.made = slotsOf(x.made, x.Gather.Object.Compute)
	default:
		x.made = append(x.made, x.Gather.Value.Slot)
	}
	return &x
}

// Label implements Operator. An Each has the name of its list, or of its first emit.
func (x *Each) Label() (kind, name string) {
	if x.Gather == nil {
		_, name = x.Emits[0].Label()
		return "each", name
	}
	return "each", x.Gather.To.Name
}

// Makes implements Operator. After the step an event has only the list.
func (x *Each) Makes() []value.Slot {
	if x.Gather == nil {
		return nil
	}
	return []value.Slot{x.Gather.To}
}

func (x *Each) emits() []*Emit { return x.Emits }

// Has reports whether a slot belongs to the elements, not to events.
func (x *Each) Has(slot value.Slot) bool {
	return x.scanner == nil && x.Item == slot || slices.Contains(x.made, slot) ||
		slices.ContainsFunc(x.Fields, func(f decode.Field) bool { return f.Slot == slot })
}

// Run implements Operator.
func (x *Each) Run(e *Event) error {
	return x.gather(e, func() error { return runAll(x.Before, e) })
}

// gather calls do for each element, and makes the list.
func (x *Each) gather(e *Event, do func() error) error {
	list, written := gathered{Gather: x.Gather}, written{each: x}
	length, err := x.each(e, func(place int) error {
		if err := do(); err != nil {
			return err
		}
		if err := written.add(e.Row, place); err != nil || list.Gather == nil {
			return err
		}
		return list.add(e.Row)
	})
	if err == nil && list.Gather != nil {
		err = list.store(e.Row)
	}
	if err != nil {
		return err
	}
	e.Elements += length
	e.Calls = append(e.Calls, written.list...)
	return nil
}

// each calls do with the index of each element that When holds for. It returns the number of
// elements in the list.
func (x *Each) each(e *Event, do func(place int) error) (length int, err error) {
	list, length, err := x.list(e.Row)
	if err != nil {
		return 0, err
	}
	defer x.clear(e.Row)
	place, kind := 0, x.In.Type().Kind.Element()
	for element := range value.Elements(list, kind) {
		wanted, err := x.set(e.Row, element)
		if wanted {
			err = do(place)
		}
		if err != nil {
			return 0, fmt.Errorf("element %d of %s: %w", place, x.Name, err)
		}
		place++
	}
	return length, nil
}

// list returns the text of the list, and its number of elements.
func (x *Each) list(row *value.Row) (list string, length int, err error) {
	if list, err = x.In.Text(row); err != nil {
		return "", 0, fmt.Errorf("%s: %w", x.Name, err)
	}
	for range value.Elements(list, x.In.Type().Kind.Element()) {
		length++
	}
	if length > x.Max {
		return "", 0, fmt.Errorf("%s has %d elements, and max of the step is %d", x.Name, length, x.Max)
	}
	return list, length, nil
}

// set stores the values of an element in the row, and reports whether When holds for it.
func (x *Each) set(row *value.Row, element value.Element) (wanted bool, err error) {
	x.clear(row)
	if x.scanner == nil {
		row.SetElement(x.Item, element)
	} else if err = x.scanner.Scan(bytesOf(element.Str), row); err != nil {
		return false, err
	}
	return Holds(x.When, row)
}

// clear removes the values of an element from the row.
func (x *Each) clear(row *value.Row) {
	for i := range x.made {
		row.Drop(x.made[i])
	}
	for i := range x.Fields {
		row.Clear(x.Fields[i].Slot)
	}
	if x.scanner == nil {
		row.Clear(x.Item)
	}
}

func runAll(list []Operator, e *Event) error {
	for _, op := range list {
		if err := op.Run(e); err != nil {
			return err
		}
	}
	return nil
}

// Scored is an Each with a score. It calls the model once for all elements of an event.
type Scored struct {
	*Each
	Batch        // its Model is a batch.Lists of the score's model
	Score *Score // score of an element
}

// NewScored returns an Each with a score. rows is the most rows of a call.
func NewScored(x Each, score *Score, rows int) *Scored {
	s := &Scored{Each: NewEach(x), Batch: score.Batch, Score: score}
	s.made = append(s.made, score.texts()...)
	numbers, texts, _ := score.Columns()
	s.Model = &batch.Lists{Model: score.Model, Size: rows, ByLength: score.ByLength, Width: numbers, Texts: texts, Most: x.Max}
	s.Size, s.ByLength = max(rows/x.Max, 1), false
	return s
}

// rowsMax bounds the model inputs for the elements of an event, in bytes.
const rowsMax = 16 << 20

var (
	errRows    = fmt.Errorf("the inputs of the model for the elements are over the limit of %d bytes: give fewer elements to the step", rowsMax)
	errAnswers = errors.New("the model answered for the wrong elements")
)

// Run implements Operator. It always returns an error, because the loop does not call it.
func (s *Scored) Run(*Event) error { return errBatched }

// Wants implements Batched.
func (s *Scored) Wants(e *Event) (bool, error) {
	_, length, err := s.list(e.Row)
	return length > 0, err
}

// Columns implements Batched.
func (s *Scored) Columns() (numbers, texts, scores int) { return 0, 1, 0 }

// Append implements Batched.
func (s *Scored) Append(rows *model.Rows, e *Event) error {
	var one model.Rows
	list := []byte{}
	_, err := s.each(e, func(place int) error {
		if wanted, err := s.above(e); err != nil || !wanted {
			return err
		}
		one.Values, one.Bytes, one.N = one.Values[:0], one.Bytes[:0], 0
		if err := s.Score.appendRow(&one, e.Row, nil); err != nil {
			return err
		}
		if list = batch.AppendElement(list, place, one.Values, one.Bytes); len(list) > rowsMax {
			return errRows
		}
		return nil
	})
	if err == nil {
		rows.Append(nil, [][]byte{list})
	}
	return err
}

// above runs the operators before the score, and reports whether to score the element.
func (s *Scored) above(e *Event) (wanted bool, err error) {
	if err = runAll(s.Before, e); err != nil {
		return false, err
	}
	return s.Score.Wants(e)
}

// Store implements Batched.
func (s *Scored) Store(e *Event, answer model.Answer) error {
	_, _, scores := s.Score.Columns()
	one := model.Answer{Scores: make([]float32, scores), Texts: make([][]byte, s.Score.Model.Info().Texts())}
	list, before := answer.Texts[0], len(e.Calls)
	err := s.gather(e, func() error {
		wanted, err := s.above(e)
		switch {
		case err != nil:
			return err
		case !wanted:
			return s.skip(e)
		}
		if list, err = batch.NextAnswer(list, &one); err != nil {
			return err
		}
		if err = s.Score.Store(e, one); err != nil {
			return err
		}
		return runAll(s.After, e)
	})
	if err == nil && len(list) > 0 {
		for _, slot := range s.Makes() {
			e.Row.Drop(slot)
		}
		e.Calls = e.Calls[:before]
		err = errAnswers
	}
	return err
}

// Skip implements Batched.
func (s *Scored) Skip(e *Event) error {
	return s.gather(e, func() error {
		if err := runAll(s.Before, e); err != nil {
			return err
		}
		return s.skip(e)
	})
}

// skip runs the operators after the score for an element that is not scored.
func (s *Scored) skip(e *Event) error {
	if err := s.Score.Skip(e); err != nil {
		return err
	}
	return runAll(s.After, e)
}
