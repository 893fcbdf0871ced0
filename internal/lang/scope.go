package lang

import (
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/afterbay/afterbay/internal/event/decode"
	"github.com/afterbay/afterbay/internal/event/expression"
	"github.com/afterbay/afterbay/internal/event/value"
	"github.com/afterbay/afterbay/internal/naming"
	"github.com/afterbay/afterbay/internal/spec"
	"github.com/afterbay/afterbay/internal/task/operator"
	"github.com/afterbay/afterbay/internal/task/table"
)

// Scope is what is known where a step stands: the names, and what is wrong up to there.
type Scope struct {
	*Findings
	Names   Names
	Fields  []string        // of the input
	FedBack map[string]bool // names that only the waves know

	Pipeline *Pipeline
	Topic    string          // that is read: one of its own if inputs are copied
	Guards   operator.Guards // of the case of a route that the step stands in, and of those around it
	Outputs  Outputs
	ID       value.Slot        // of events
	Keyed    []string          // functions with state that are called
	Groups   []*operator.Guard // of the groups above, nil for one of all events
	Nodes    []Node            // the steps that are bound, in the order of the file
	Cases    *operator.Route   // the first route that all events take; nil is none
	Tables   []table.Spec      // that lookups read, by the index that operators have
	Rows     []Rows            // what each lookup in a table reads
	walk

	Answers map[string][]value.Type // types of the outputs of models, as the file has them
	Absent  func(model string) bool // steps end before the first score of such a model; nil is none
}

// Rows is what a lookup reads of the rows of a table.
type Rows struct {
	Path   string // of the lookup in the file
	Table  int    // in Scope.Tables
	Format Format
	Fields []decode.Field
}

// NewScope returns the scope of a pipeline, without names.
func NewScope(p *Pipeline) *Scope {
	return &Scope{
		Pipeline: p, Outputs: Outputs{Written: map[string][]Field{}, Keyed: map[string]Keyed{}, names: map[string][]writerName{}},
		Findings: &Findings{Typed: map[*spec.Problem]Use{}}, Names: newNames(), FedBack: map[string]bool{}, Answers: map[string][]value.Type{},
	}
}

// Make adds a name of a step or field.
func (s *Scope) Make(path, name string, t value.Type) (value.Slot, bool) {
	if _, ok := s.Names.Constants[name]; ok {
		s.Fail(path, "%q is a constant already: names are one flat set without shadowing", name)
		return value.Slot{}, false
	}
	slot, err := s.Names.add(name, t)
	if err != nil {
		s.Fail(path, "%v", err)
		return value.Slot{}, false
	}
	return slot, true
}

// Identifier reports whether a name may be introduced, and reports if not.
func (s *Scope) Identifier(path, name string) bool {
	ok := naming.Identifier(name) && name != "meta" && name != "event"
	if !ok {
		s.Fail(path, "%q is not a name: use letters, digits and '_', not starting with a digit; meta and event are taken", name)
	}
	return ok
}

// Field introduces a field.
func (s *Scope) Field(path, name string, t value.Type) (value.Slot, bool) {
	if !s.Identifier(path, name) {
		return value.Slot{}, false
	}
	s.Fields = append(s.Fields, name)
	return s.Make(path, name, t)
}

// IsField reports whether a name is a field of the input.
func (s *Scope) IsField(name string) bool { return slices.Contains(s.Fields, name) }

// FieldNamed returns the field that a word of an input names. One that is not there, or
// has no type, is reported once.
func (s *Scope) FieldNamed(path, input, name string) (value.Slot, bool) {
	slot, ok := s.Names.Schema.Lookup(name)
	switch {
	case s.Names.Broken[name]:
		return value.Slot{}, false
	case ok && s.IsField(name):
		return slot, true
	}
	s.Fail(path, "%q is not one of %s.fields", name, input)
	near := expression.Nearest(name, s.Fields)
	switch {
	case near != "":
		s.Hint("did you mean " + near + "?")
	default:
		s.Hint("write one of them, or add " + name + " to them")
	}
	s.Names.Broken[name] = !ok // it has a finding already
	return value.Slot{}, false
}

// Slots resolves a list of names where "prefix.*" stands for all names under
// prefix, in order, and event.* for all fields.
func (s *Scope) Slots(path, name string) []value.Slot {
	prefix, all := strings.CutSuffix(name, ".*")
	if !all {
		if slot, ok := s.Names.Slot(name); ok {
			return []value.Slot{slot}
		}
		s.unknown(path, name)
		return nil
	}
	var found []value.Slot
	for _, slot := range s.Names.Schema.Slots {
		if _, ok := s.Names.Lookup(slot.Name); !ok {
			continue
		}
		if _, ofHeader := operator.HeaderNamed(slot.Name); ofHeader {
			continue // meta.* is the same, whatever else the file reads
		}
		if prefix == "event" && s.IsField(slot.Name) || strings.HasPrefix(slot.Name, prefix+".") {
			s.Names.Used[slot.Name] = true
			found = append(found, slot)
		}
	}
	if found == nil && !s.Names.IsBroken(name) {
		s.Fail(path, "nothing is named %q", name)
		s.Hint("name a feature, model or event before the .*")
	}
	return found
}

func (s *Scope) unknown(path, name string) {
	if s.Names.IsBroken(name) {
		return
	}
	if _, ok := s.Names.Constants[name]; ok {
		s.Fail(path, "%q is a constant; give it a name of its own by let to use it here", name)
		return
	}
	if message, hint := s.Names.outOfScope(name); message != "" {
		s.Fail(path, "%s", message)
		s.Hint(hint)
		return
	}
	s.Fail(path, "unknown name %q", name)
	s.Hint(expression.Suggest(name, s.Names.Known()))
}

// Expr compiles source, whose type must be one of want if any is given.
func (s *Scope) Expr(path, source string, want ...value.Kind) *expression.Program {
	before := len(s.Names.missing)
	program, err := expression.Compile(source, &s.Names)
	if err != nil {
		missing := s.Names.missing[before:]
		if s.Names.anyBroken(missing) {
			return nil // what introduces the name was reported
		}
		found := &spec.Problem{Path: path, Column: err.Column, Message: err.Message, Hint: err.Hint}
		s.Typed[found] = Use{err.Name, err.Want}
		if len(missing) > 0 {
			found.Message, found.Hint = s.Names.outOfScope(missing[len(missing)-1])
		}
		s.Errs = append(s.Errs, found)
		return nil
	}
	if t := program.Type(); len(want) > 0 && (t.Optional || !slices.Contains(want, t.Kind)) {
		s.Fail(path, "the expression is of type %v, where %v is needed", t, KindsText(want))
		if name, ok := program.Name(); ok && !t.Optional {
			s.Mistyped(name, want[0])
		}
		if t.Optional {
			s.Hint("give a value for when it is absent: ... ?? 0")
		}
		return nil
	}
	return program
}

// OfInput does what binds expressions that are computed for the events of one input alone:
// the fields that these always have are not optional there.
func (s *Scope) OfInput(in *Input, bind func()) {
	before := s.Names.there
	s.Names.there = in.has()
	bind()
	s.Names.there = before
}

// Joined says that only the events of the left input come to the steps below a join. What the
// right alone has is there as name.field.
func (s *Scope) Joined(name string, left, right *Input) {
	s.Names.there = left.has()
	for _, f := range right.Fields {
		if _, both := s.Names.there[f.Name]; !both {
			s.Names.Cases[f.Name] = caseAt{At: "input " + right.Topic, Instead: "below the join it is " + name + "." + f.Name}
		}
	}
}

// has returns the fields of an input, and whether they are always there.
func (in *Input) has() map[string]bool {
	fields := map[string]bool{}
	for _, f := range in.Fields {
		t, err := value.ReadType(f.Type)
		fields[f.Name] = err == nil && !t.Optional
	}
	return fields
}

// HiddenName returns a name that no step can read.
func (s *Scope) HiddenName() string { return Hidden + strconv.Itoa(len(s.Names.Schema.Slots)) }

// Fed reports whether expressions read features that are fed back.
func (s *Scope) Fed(programs ...*expression.Program) bool {
	return slices.ContainsFunc(programs, func(p *expression.Program) bool {
		return p != nil && slices.ContainsFunc(p.Uses(), func(name string) bool { return s.FedBack[name] })
	})
}

// FedSlots is Fed of names.
func (s *Scope) FedSlots(slots ...value.Slot) bool {
	return slices.ContainsFunc(slots, func(slot value.Slot) bool { return s.FedBack[slot.Name] })
}

// Givens returns the values that the text of an input stands for: a name, name.*, or
// an expression, which is computed before each call.
func (s *Scope) Givens(path, text string) []Given {
	var list []Given
	_, constant := s.Names.Constants[text]
	if _, ok := s.Names.Lookup(text); ok || aName.MatchString(text) && !constant {
		for _, slot := range s.Slots(path, text) {
			list = append(list, Given{Path: path, Slot: slot})
		}
	} else if program := s.Expr(path, text); program != nil {
		if slot, ok := s.Make(path, s.HiddenName(), program.Type()); ok {
			slot.Name = text // for messages
			list = append(list, Given{path, slot, program})
		}
	}
	return list
}

// Given is a name that stands for an input of a model.
type Given struct {
	Path    string
	Slot    value.Slot
	Program *expression.Program // the slot has its value; nil if the slot is a name's
}

// Width returns how many columns of a row the name fills.
func (g Given) Width() int { return max(g.Slot.Type.Size, 1) }

// aName is what names look like, and name.*, whether there is such a name or not.
var aName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*(\.[A-Za-z_][A-Za-z0-9_]*)*(\.\*)?$`)

// KindsText lists kinds of values for a message.
func KindsText(list []value.Kind) string {
	texts := make([]string, len(list))
	for i, k := range list {
		texts[i] = k.String()
	}
	return strings.Join(texts, " or ")
}

// NoContent refuses content where a value is needed.
func (s *Scope) NoContent(path string, slots ...value.Slot) {
	for _, slot := range slots {
		if slot.Type.Kind == value.Content {
			s.Fail(path, "%q is content, which only models are given", slot.Name)
			s.Hint("use its sha256, size or type, or give it to a score")
		}
	}
}

// BelowGroup reports whether a group stands above.
func (s *Scope) BelowGroup() bool {
	return slices.ContainsFunc(s.Groups, s.Guards.Within)
}

// AboveGroup refuses what is kept by key below a group: it is kept in log order,
// where the event of a group has no place.
func (s *Scope) AboveGroup(path string) bool {
	below := s.BelowGroup()
	if below {
		s.RefuseBelowGroup(path)
	}
	return !below
}

// RefuseBelowGroup refuses what is kept by key below a group.
func (f *Findings) RefuseBelowGroup(path string) {
	f.Fail(path, "below a group: features, and functions and models with state, are of the events of the log")
	f.Hint("write it above the group, or in a pipeline that reads what this one emits")
}

// Table returns the index of a table.
func (s *Scope) Table(spec table.Spec) int {
	if i := slices.Index(s.Tables, spec); i >= 0 {
		return i
	}
	s.Tables = append(s.Tables, spec)
	return len(s.Tables) - 1
}
