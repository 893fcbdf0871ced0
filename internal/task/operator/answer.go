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
	"github.com/afterbay/afterbay/internal/feature"
)

// Answer is the answer of a stage of another key about an event, or the values that the event
// returns to such a stage. It holds values with their names and types.
type Answer struct {
	Names       string // names, separated by commas; a type other than number follows its name: last.value string
	Values      []byte // concatenated, as AppendValue writes them
	Approximate string // approximate features, separated by commas
	Failure     string // why there are no values; "" means no failure
}

var errAnswer = errors.New("an answer cannot be read: only the pipeline writes this topic")

// Append appends the encoding of the answer in a topic.
func (a *Answer) Append(to []byte) []byte {
	for _, text := range []string{a.Names, a.Approximate, a.Failure} {
		to = append(binary.AppendUvarint(to, uint64(len(text))), text...)
	}
	return append(to, a.Values...)
}

// Say appends the value of a row, under a name.
func (a *Answer) Say(name string, row *value.Row, slot value.Slot) {
	a.Names = appendName(a.Names, name, slot.Type)
	a.Values = AppendValue(a.Values, row, slot)
}

// NamesOf returns the names of columns in the form of Answer.Names.
func NamesOf(columns []value.Slot) (names string) {
	for _, c := range columns {
		names = appendName(names, c.Name, c.Type)
	}
	return names
}

func appendName(names, name string, t value.Type) string {
	if t.Kind != value.Number {
		name += " " + t.Kind.String()
	}
	return strings.TrimPrefix(names+","+name, ",")
}

// AppendValue appends the value of a row. A number is always present and takes 8 bytes. A value of
// another kind is 0 if it is absent. Otherwise a text is its length plus one and its bytes, and any
// other value is 1 and 8 bytes.
func AppendValue(to []byte, row *value.Row, slot value.Slot) []byte {
	switch {
	case slot.Type.Kind == value.Number:
		return binary.LittleEndian.AppendUint64(to, math.Float64bits(row.Number(slot)))
	case !row.Has(slot):
		return append(to, 0)
	case slot.Type.Kind.Text():
		text := row.Text(slot)
		return append(binary.AppendUvarint(to, uint64(len(text))+1), text...)
	}
	return binary.LittleEndian.AppendUint64(append(to, 1), uint64(row.Int(slot)))
}

// ParseAnswer parses the output of Append. The answer keeps references to data.
func ParseAnswer(data []byte) (a Answer, err error) {
	for _, text := range []*string{&a.Names, &a.Approximate, &a.Failure} {
		n, size := binary.Uvarint(data)
		if size <= 0 || n > uint64(len(data)-size) {
			return a, errAnswer
		}
		data = data[size:]
		*text, data = value.Text(data[:n]), data[n:]
	}
	a.Values = data
	return a, nil
}

// said is a value of an answer.
type said struct {
	kind    value.Kind
	present bool
	word    uint64
	text    string
}

// next removes and returns the first value of the answer, which must be of the given kind.
func (a *Answer) next(kind value.Kind) (v said, err error) {
	v = said{kind: kind, present: true}
	if kind != value.Number {
		n, size := binary.Uvarint(a.Values)
		if size <= 0 {
			return v, errAnswer
		}
		a.Values = a.Values[size:]
		if v.present = n > 0; !v.present {
			return v, nil
		}
		if n--; kind.Text() {
			if n > uint64(len(a.Values)) {
				return v, errAnswer
			}
			v.text, a.Values = value.Text(a.Values[:n]), a.Values[n:]
			return v, nil
		}
	}
	if len(a.Values) < 8 {
		return v, errAnswer
	}
	v.word, a.Values = binary.LittleEndian.Uint64(a.Values), a.Values[8:]
	return v, nil
}

// each yields the values of the answer with their names.
func (a *Answer) each(yield func(name string, v said) error) error {
	if a.Names == "" {
		return a.end()
	}
	for name := range strings.SplitSeq(a.Names, ",") {
		kind := value.Number
		if of, text, typed := strings.Cut(name, " "); typed {
			t, err := value.ReadType(text)
			if err != nil {
				return errAnswer
			}
			name, kind = of, t.Kind
		}
		v, err := a.next(kind)
		if err == nil {
			err = yield(name, v)
		}
		if err != nil {
			return err
		}
	}
	return a.end()
}

// end returns an error if there are more values.
func (a *Answer) end() error {
	if len(a.Values) > 0 {
		return errAnswer
	}
	return nil
}

// put stores the value in a slot of its kind.
func (v *said) put(row *value.Row, slot value.Slot) error {
	switch {
	case v.kind != slot.Type.Kind: // from another version of the pipeline file
	case !v.present:
		row.Clear(slot)
	case v.kind.Text():
		return row.Make(&slot, v.text)
	case v.kind == value.Number:
		row.SetNumber(slot, math.Float64frombits(v.word))
	default:
		row.SetInt(slot, int64(v.word))
	}
	return nil
}

// Answers stores the answers of stages of other keys in the columns of features. The reader of the
// event's partition delivers them in headers.
type Answers struct {
	List []Answered
	by   []answersBy
}

// Answered is a feature that a stage of another key computes.
type Answered struct {
	Feature string
	By      value.Slot // the field that is the key of the stage
	Columns []value.Slot
	Empty   float64 // value of number columns if the event lacks the field
}

// answersBy holds the columns in the answers of one stage.
type answersBy struct {
	names string
	slots []value.Slot
}

// NewAnswers returns the operator for a list of features.
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
			of.names = appendName(of.names, column.Name, column.Type)
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
		a.List[i].unknown(e.Row)
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

// put stores an answer in the row of an event.
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
			for _, slot := range of.slots {
				v, err := answer.next(slot.Type.Kind)
				if err == nil {
					err = v.put(e.Row, slot)
				}
				if err != nil {
					return err
				}
			}
			return answer.end()
		}
	}
	return answer.each(func(name string, v said) error { // the answer covers several steps, or comes from another version of the pipeline file
		for _, of := range a.by {
			for _, slot := range of.slots {
				if slot.Name == name {
					if err := v.put(e.Row, slot); err != nil {
						return err
					}
				}
			}
		}
		return nil
	})
}

// unknown sets the columns to their values without an answer: the event lacks the field, or was not
// asked about.
func (a *Answered) unknown(row *value.Row) {
	for _, column := range a.Columns {
		switch kind := column.Type.Kind; {
		case kind == value.Number:
			row.SetNumber(column, a.Empty)
		case kind.IsList() || kind.IsMap():
			row.SetText(column, "") // an empty list or map
		default:
			row.Clear(column)
		}
	}
}

// unasked returns an error if an event that was sent back needs columns of a stage. Such an event
// is not asked about again. It returns nil if the event needs none.
func (a *Answers) unasked(e *Event) error {
	for i := range a.List {
		if by := a.List[i].By; e.Row.Has(by) {
			return fmt.Errorf("feature %s is by %s, and a redriven event cannot read it again: write the event to the input instead", a.List[i].Feature, by.Name)
		}
	}
	return nil
}

// Return computes the value that an event returns to the stage of a feature with a delay. The loop
// sends the value when the event is finished.
type Return struct {
	Feature, By string
	Value       *expression.Program // nil returns 0, for a feature that counts events
	When        *expression.Program // nil always holds
	Slot        value.Slot          // absent if the event returns no value
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
	if wanted {
		if err := r.put(e.Row); err != nil {
			return fmt.Errorf("feature %s: value: %w", r.Feature, err)
		}
	}
	return nil
}

// put stores the returned value in its slot.
func (r *Return) put(row *value.Row) error {
	switch {
	case r.Value == nil:
		row.SetNumber(r.Slot, 0)
	case r.Slot.Type.Kind == value.Number:
		v, err := Number(r.Value, row)
		if err != nil {
			return err
		}
		row.SetNumber(r.Slot, v)
	case r.Slot.Type.Kind.Text():
		v, err := r.Value.Text(row)
		if err == nil {
			err = feature.CheckText(v)
		}
		if err != nil {
			return err
		}
		return row.Make(&r.Slot, v)
	default:
		v, err := Word(r.Value, row)
		if err != nil {
			return err
		}
		row.SetInt(r.Slot, v)
	}
	return nil
}

// Stage counts asks in features of another key. After a delay it also counts the values that events
// return.
type Stage struct {
	Asks  *Features
	Turns *Features // nil without delays
	Said  []Said    // the values that Turns counts
}

// Asked is an operator of a stage that only asks run. A record with returned values has no fields.
// It does not run the operator again, so it cannot fail again.
type Asked struct{ Operator }

// Run implements Operator.
func (a Asked) Run(e *Event) error {
	if header.Value(e.Record, header.Ask) == nil {
		return nil
	}
	return a.Operator.Run(e)
}

// Said is the value that an event returns for a feature.
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
	err = answer.each(func(name string, v said) error {
		for _, said := range s.Said {
			if said.Feature == name {
				return v.put(e.Row, said.Slot)
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	return e.Kept.Count(e, s.Turns)
}
