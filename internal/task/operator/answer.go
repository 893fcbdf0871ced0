package operator

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"strings"

	"github.com/afterbay/afterbay/internal/event/expression"
	"github.com/afterbay/afterbay/internal/event/header"
	"github.com/afterbay/afterbay/internal/event/value"
)

// Answer is what the stage of another key says of an event, or what the event says to such a
// stage: numbers, with the names of what they are.
type Answer struct {
	Names       string // with commas between them
	Numbers     []byte // 8 bytes for each name
	Approximate string // features that are, likewise
	Failure     string // why there are no numbers; "" is no failure
}

var errAnswer = errors.New("an answer cannot be read: only the pipeline writes this topic")

// Append appends the answer as it is written to a topic.
func (a *Answer) Append(to []byte) []byte {
	for _, text := range []string{a.Names, a.Approximate, a.Failure} {
		to = append(binary.AppendUvarint(to, uint64(len(text))), text...)
	}
	return append(to, a.Numbers...)
}

// AppendNumber appends a number to those of an answer.
func AppendNumber(to []byte, v float64) []byte {
	return binary.LittleEndian.AppendUint64(to, math.Float64bits(v))
}

// ParseAnswer reads what Append wrote. The answer keeps data.
func ParseAnswer(data []byte) (a Answer, err error) {
	for _, text := range []*string{&a.Names, &a.Approximate, &a.Failure} {
		n, size := binary.Uvarint(data)
		if size <= 0 || n > uint64(len(data)-size) {
			return a, errAnswer
		}
		data = data[size:]
		*text, data = value.Text(data[:n]), data[n:]
	}
	if a.Numbers = data; len(data) != 8*a.names() {
		return a, errAnswer
	}
	return a, nil
}

// names returns how many names there are.
func (a *Answer) names() int {
	if a.Names == "" {
		return 0
	}
	return strings.Count(a.Names, ",") + 1
}

// number returns the i-th number.
func (a *Answer) number(i int) float64 {
	return math.Float64frombits(binary.LittleEndian.Uint64(a.Numbers[8*i:]))
}

// Answers puts the answers of stages of other keys into the columns of features. The reader
// of the event's partition has them in headers.
type Answers struct {
	List []Answered
	by   []answersBy
}

// Answered is a feature that a stage of another key computes.
type Answered struct {
	Feature string
	By      value.Slot // the field that is the key there
	Columns []value.Slot
	Empty   float64 // of the columns where the event has no such field
}

// answersBy are the columns that one stage answers with.
type answersBy struct {
	names string
	slots []value.Slot
}

// NewAnswers returns the operator of features.
func NewAnswers(list []Answered) *Answers {
	a := &Answers{List: list}
	at := map[string]int{}
	for i := range list {
		by := list[i].By.Name
		if _, ok := at[by]; !ok {
			at[by], a.by = len(a.by), append(a.by, answersBy{})
		}
		of := &a.by[at[by]]
		for _, column := range list[i].Columns {
			of.names = strings.TrimPrefix(of.names+","+column.Name, ",")
			of.slots = append(of.slots, column)
		}
	}
	return a
}

// Label implements Operator.
func (a *Answers) Label() (kind, name string) { return "features", a.List[0].Feature }

// Makes implements Operator.
func (a *Answers) Makes() (slots []value.Slot) {
	for i := range a.List {
		slots = append(slots, a.List[i].Columns...)
	}
	return slots
}

// Run implements Operator.
func (a *Answers) Run(e *Event) error {
	for i := range a.List {
		for _, column := range a.List[i].Columns {
			e.Row.SetNumber(column, a.List[i].Empty)
		}
	}
	answered, back := false, false
	for i := range e.Record.Headers {
		switch h := &e.Record.Headers[i]; h.Key {
		case header.Redrive:
			back = true
		case header.Answer:
			answered = true
			if err := a.put(e, h.Value); err != nil {
				return err
			}
		}
	}
	if back && !answered {
		return a.unasked(e)
	}
	return nil
}

// put puts an answer into the row of an event.
func (a *Answers) put(e *Event, data []byte) error {
	answer, err := ParseAnswer(data)
	switch {
	case err != nil:
		return err
	case answer.Failure != "":
		return errors.New(answer.Failure)
	case answer.Approximate != "":
		e.Approximate = append(e.Approximate, strings.Split(answer.Approximate, ",")...)
	}
	for i := range a.by {
		if of := &a.by[i]; of.names == answer.Names {
			for n, slot := range of.slots {
				e.Row.SetNumber(slot, answer.number(n))
			}
			return nil
		}
	}
	n := 0
	for name := range strings.SplitSeq(answer.Names, ",") { // of several steps, or of another version of the file
		for _, of := range a.by {
			for _, slot := range of.slots {
				if slot.Name == name {
					e.Row.SetNumber(slot, answer.number(n))
				}
			}
		}
		n++
	}
	return nil
}

// unasked returns why an event that was sent back has no columns; nil if it needs none.
func (a *Answers) unasked(e *Event) error {
	for i := range a.List {
		if by := a.List[i].By; e.Row.Has(by) {
			return fmt.Errorf("feature %s is by %s, which an event that is sent back is not asked for again: write the event to the input instead", a.List[i].Feature, by.Name)
		}
	}
	return nil
}

// Return computes what an event says to the stage of a feature with a delay, which is sent
// there when the event is through.
type Return struct {
	Feature, By string
	Value       *expression.Program // nil says 0, as of an event that is counted
	When        *expression.Program // nil is always
	Slot        value.Slot          // absent if it says nothing
}

// Label implements Operator.
func (r *Return) Label() (kind, name string) { return "features", r.Feature + " write" }

// Makes implements Operator.
func (r *Return) Makes() []value.Slot { return []value.Slot{r.Slot} }

// Run implements Operator.
func (r *Return) Run(e *Event) error {
	wanted, err := Holds(r.When, e.Row)
	if err != nil {
		return fmt.Errorf("feature %s: when: %w", r.Feature, err)
	}
	v := 0.0
	if wanted && r.Value != nil {
		if v, err = Number(r.Value, e.Row); err != nil {
			return fmt.Errorf("feature %s: value: %w", r.Feature, err)
		}
	}
	if wanted {
		e.Row.SetNumber(r.Slot, v)
	}
	return nil
}

// Stage counts asks in features of another key, and what events say after a delay.
type Stage struct {
	Asks  *Features
	Turns *Features // nil without delays
	Said  []Said    // what Turns count
}

// Asked is a step of a stage that asks go through. What an event says later has no fields: its
// turn does not compute them again, nor fail again.
type Asked struct{ Operator }

// Run implements Operator.
func (a Asked) Run(e *Event) error {
	if header.Value(e.Record, header.Ask) == nil {
		return nil
	}
	return a.Operator.Run(e)
}

// Said is what an event says of a feature.
type Said struct {
	Feature string
	Slot    value.Slot
}

// Label implements Operator.
func (s *Stage) Label() (kind, name string) { return s.Asks.Label() }

// Makes implements Operator.
func (s *Stage) Makes() []value.Slot { return s.Asks.Makes() }

// Run implements Operator.
func (s *Stage) Run(e *Event) error {
	if header.Value(e.Record, header.Ask) != nil {
		return e.Kept.Count(e, s.Asks)
	}
	answer, err := ParseAnswer(header.Value(e.Record, header.Answer))
	if err != nil {
		return err
	}
	n := 0
	for name := range strings.SplitSeq(answer.Names, ",") {
		for _, said := range s.Said {
			if said.Feature == name {
				e.Row.SetNumber(said.Slot, answer.number(n))
			}
		}
		n++
	}
	return e.Kept.Count(e, s.Turns)
}
