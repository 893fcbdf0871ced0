package operator

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/afterbay/afterbay/internal/event/expression"
	"github.com/afterbay/afterbay/internal/event/value"
)

// Stage is one thing done to each record; exactly one of the fields after Guard
// is set.
type Stage struct {
	Name     string // of dead letters: "let", "features", "lookup", "fetch", "score", "call", "route", "group", "decide", "emit"
	At       int    // place in the plan, from 1
	Guard    *Guard // nil is for all records
	Assign   []Assign
	Features []Feature // of one set; all of them count an event, or none
	Undoes   bool      // one of Features may refuse an event that one before it has counted
	Score    *Score
	Call     *Call
	Route    *Route
	Emit     *Emit
	Lookup   *Lookup
	Group    *Group
}

// FeatureStage returns the stage of features of one set.
func FeatureStage(list []Feature) Stage {
	s := Stage{Name: "features", Features: list}
	counted := false
	for i := range list {
		s.Undoes = s.Undoes || counted && list[i].Refuses
		counted = counted || list[i].Add
	}
	return s
}

// Adds reports whether the stage adds to a feature.
func (s *Stage) Adds() bool {
	return slices.ContainsFunc(s.Features, func(f Feature) bool { return f.Add })
}

// Label says which stage of a pipeline it is by what it is named in the file, so
// that it is found again where steps came or went around it. Two routes with the same
// first case share one, and so may calls without outputs. outputs are the topics of emits.
func (s *Stage) Label(outputs []string) string {
	of := ""
	switch {
	case len(s.Assign) > 0:
		of = s.Assign[0].Name
	case len(s.Features) > 0:
		if of = s.Features[0].Name; !s.Features[0].Read {
			of += " write"
		}
	case s.Lookup != nil:
		of, _, _ = strings.Cut(s.Lookup.Fields[0].Slot.Name, ".")
	case s.Score != nil && len(s.Score.Outputs) > 0: // their prefix is the name of the score
		of, _, _ = strings.Cut(s.Score.Outputs[0].Name, ".")
	case s.Call != nil:
		if of = s.Call.Name; s.Call.As != "" {
			of += "#" + s.Call.As
		}
		if !s.Call.Function.Keyed && len(s.Call.Outputs) > 0 { // another step may call it, too
			of += " " + s.Call.Outputs[0].Name
		}
	case s.Route != nil:
		of = s.Route.Names[0]
	case s.Group != nil:
		of = s.Group.Name
	case s.Emit != nil:
		if of = outputs[s.Emit.Output]; s.Emit.Name != "" {
			of += "#" + s.Emit.Name
		}
	}
	if s.Guard != nil {
		of += " in " + s.Guard.Name
	}
	return s.Name + " " + of
}

// OnFailure returns what is done for an event that the stage gives up.
func (s *Stage) OnFailure() []Stage {
	if s.Score == nil {
		return nil
	}
	return s.Score.OnFailure
}

// Introduces returns the slots that a record has after the stage.
func (s *Stage) Introduces() []value.Slot {
	switch {
	case s.Score != nil:
		return s.Score.Outputs
	case s.Call != nil:
		return s.Call.Outputs
	case s.Group != nil:
		return s.Group.Introduces()
	}
	var slots []value.Slot
	if s.Lookup != nil {
		for _, f := range s.Lookup.Fields {
			slots = append(slots, f.Slot)
		}
	}
	for i := range s.Features {
		slots = append(slots, s.Features[i].Columns...)
	}
	for i := range s.Assign {
		slots = append(slots, s.Assign[i].Slot)
	}
	return slots
}

// Makes returns the slots of texts that the stage makes: not the lists of a group, which
// are texts of its members.
func (s *Stage) Makes() []value.Slot {
	if s.Group != nil {
		return nil
	}
	slots := s.Introduces()
	var computed []Assign
	switch {
	case s.Emit != nil:
		computed = s.Emit.Compute
	case s.Score != nil:
		computed = s.Score.Compute
	}
	for i := range computed {
		slots = append(slots[:len(slots):len(slots)], computed[i].Slot)
	}
	return slices.DeleteFunc(slices.Clone(slots), func(slot value.Slot) bool { return !slot.Type.Kind.Text() })
}

// Guard holds for the records that took one case of a route.
type Guard struct {
	Slot value.Slot // of kind int
	Case int64
	Name string // of the case, behind those of the cases around it: ends the labels of its stages
}

// Holds reports whether the guard lets a row through; a nil one lets all.
func (g *Guard) Holds(row *value.Row) bool {
	return g == nil || row.Has(g.Slot) && row.Int(g.Slot) == g.Case
}

// Assign stores the value of an expression in a slot.
type Assign struct {
	Name    string // for errors
	Slot    value.Slot
	Program *expression.Program
}

// AssignAll stores the values of the expressions, in order.
func AssignAll(list []Assign, row *value.Row) error {
	for i := range list {
		if err := list[i].Program.Store(row, list[i].Slot); err != nil {
			return fmt.Errorf("%s: %w", list[i].Name, err)
		}
	}
	return nil
}

// Holds evaluates a condition; nil is true.
func Holds(when *expression.Program, row *value.Row) (bool, error) {
	if when == nil {
		return true, nil
	}
	return when.Bool(row)
}

// Number evaluates a program of type int or number.
func Number(p *expression.Program, row *value.Row) (float64, error) {
	if p.Type().Kind == value.Int {
		v, err := p.Int(row)
		return float64(v), err
	}
	return p.Number(row)
}

// Feature reads a feature into its columns, folds a value into it, or
// both.
type Feature struct {
	Name      string
	Late      bool // which of the plan's sets
	Index     int  // in the set
	Read      bool
	Add       bool
	ReadFirst bool                // read before adding: elapsed
	Refuses   bool                // it may refuse an event
	Value     *expression.Program // nil counts events
	When      *expression.Program // of the addition; nil is always
	Columns   []value.Slot
}

// Set returns which of the plan's sets the feature is in: 0, early, or 1, late.
func (f *Feature) Set() int {
	if f.Late {
		return 1
	}
	return 0
}

// Emit writes an output record. What can fail about it is computed at its
// place, into slots; the record itself is made in position order.
type Emit struct {
	Index   int    // among the pipeline's emits
	Output  int    // in Plan.Outputs
	Name    string // ends the default id; "" is that of the topic alone
	When    *expression.Program
	ID      *value.Slot // nil for the default
	Key     *value.Slot // nil for the input's key and partition
	Compute []Assign    // the values and the id
	Names   [][]byte    // `"name":` of each value
	Values  []value.Slot
	Table   int // in Plan.Tables, from 1, that its records are rows of; 0 is none
}

// AppendValue appends the value of the record, an object of JSON, and returns its size.
// If its texts alone are over limit, AppendValue returns b unchanged and their size.
func (e *Emit) AppendValue(b []byte, row *value.Row, limit int) ([]byte, int) {
	from := len(b)
	b = append(b, '{')
	for i := range e.Values {
		slot := &e.Values[i]
		if i > 0 {
			b = append(b, ',')
		}
		b = append(b, e.Names[i]...)
		if slot.Type.Kind.Text() && row.Has(*slot) {
			least := len(row.Text(*slot))
			if slot.Type.Kind == value.Vector {
				least /= 2 // a number has two bytes at least, as JSON, with its comma
			}
			if size := len(b) - from + least; size > limit {
				return b[:from], size
			}
		}
		b = expression.AppendValue(b, row, slot)
	}
	b = append(b, '}')
	return b, len(b) - from
}

// Prepare evaluates at its place what can fail about an emit, and reports whether
// the record is to be made.
func (e *Emit) Prepare(row *value.Row) (wanted bool, err error) {
	if wanted, err = Holds(e.When, row); err != nil || !wanted {
		return false, err
	}
	if err = AssignAll(e.Compute, row); err == nil && e.ID != nil && row.Text(*e.ID) == "" {
		err = errNoID
	}
	return err == nil, err
}

// Readers take an empty id for none, and would tell outputs apart by their positions.
var errNoID = errors.New(`id: the text is empty: write an id that is never "", or remove "id" from the step`)
