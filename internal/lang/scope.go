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

// Scope holds the names and findings known at a step.
type Scope struct {
	*Findings
	Names   Names
	Fields  []string        // fields of the input
	FedBack map[string]bool // names that exist only in the waves

	Pipeline *Pipeline
	Topic    string          // the topic that the pipeline reads: its repartition topic if inputs are copied
	Guards   operator.Guards // guards of the case of a route that the step stands in, and of those around it
	Outputs  Outputs
	ID       value.Slot        // id of the event
	Keyed    []string          // names of the stateful functions that steps call
	Groups   []*operator.Guard // guards of the groups above; nil for a group that takes all events
	Nodes    []Node            // the bound steps, in the order of the file
	Cases    *operator.Route   // the first route that all events take, or nil
	Tables   []table.Spec      // tables that lookups read, by the index that operators use
	Rows     []Rows            // fields that each table lookup reads
	Scored   []Scored          // the scores of events, in the order of the file
	walk

	Answers map[string][]value.Type // output types of models, as the file has them
	Absent  func(model string) bool // if not nil: binding ends before the first score of a model if Absent returns true for the model
}

// Rows says which fields a lookup reads from the rows of a table.
type Rows struct {
	Path   string // path of the lookup in the file
	Table  int    // index in Scope.Tables
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

// Make introduces the name of a step or field. It reports a finding and returns false if the name
// is taken.
func (s *Scope) Make(path, name string, t value.Type) (value.Slot, bool) {
	if _, ok := s.Names.Constants[name]; ok {
		s.Fail(path, "%q is a constant already: a pipeline has one namespace, without shadowing", name)
		return value.Slot{}, false
	}
	slot, err := s.Names.add(name, t)
	if err != nil {
		s.Fail(path, "%v", err)
		return value.Slot{}, false
	}
	return slot, true
}

// Identifier reports whether a name may be introduced, and adds a finding if not.
func (s *Scope) Identifier(path, name string) bool {
	ok := naming.Identifier(name) && name != "meta" && name != "event"
	if !ok {
		s.Fail(path, "%q is not a name: use letters, digits and '_', not starting with a digit; meta and event are taken", name)
	}
	return ok
}

// Field introduces a field of the input.
func (s *Scope) Field(path, name string, t value.Type) (value.Slot, bool) {
	if !s.Identifier(path, name) {
		return value.Slot{}, false
	}
	s.Fields = append(s.Fields, name)
	return s.Make(path, name, t)
}

// IsField reports whether a name is a field of the input.
func (s *Scope) IsField(name string) bool { return slices.Contains(s.Fields, name) }

// FieldNamed returns the field that the input refers to by name. It reports a missing or untyped
// field once.
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
	s.Names.Broken[name] = !ok // the field has a finding already
	return value.Slot{}, false
}

// Slots resolves a name. "prefix.*" stands for all names under prefix, in order, and event.* for
// all fields.
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
			continue // meta.* does not depend on which headers the file reads
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
		s.Fail(path, "%q is a constant; to use it here, give it another name with let", name)
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

// Expr compiles source. If want is given, the expression must have one of these types.
func (s *Scope) Expr(path, source string, want ...value.Kind) *expression.Program {
	before := len(s.Names.missing)
	program, err := expression.Compile(source, &s.Names)
	if err != nil {
		missing := s.Names.missing[before:]
		if s.Names.anyBroken(missing) {
			return nil // the step that introduces the name has a finding
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
		s.Fail(path, "the expression is of type %v, but %v is needed", t, KindsText(want))
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

// OfInput runs bind for expressions that only events of one input compute. Fields that this input
// always has are not optional there.
func (s *Scope) OfInput(in *Input, bind func()) {
	before := s.Names.there
	s.Names.there = in.has()
	bind()
	s.Names.there = before
}

// Joined declares that only events of the left input reach the steps below a join. Fields that only
// the right input has are available there as name.field.
func (s *Scope) Joined(name string, left, right *Input) {
	s.Names.there = left.has()
	for _, f := range right.Fields {
		if _, both := s.Names.there[f.Name]; !both {
			s.Names.Cases[f.Name] = caseAt{At: "input " + right.Topic, Instead: "below the join it is " + name + "." + f.Name}
		}
	}
}

// has returns the fields of an input, and whether each is always present.
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

// Fed reports whether any of the expressions reads a fed-back feature.
func (s *Scope) Fed(programs ...*expression.Program) bool {
	return slices.ContainsFunc(programs, func(p *expression.Program) bool {
		return p != nil && slices.ContainsFunc(p.Uses(), func(name string) bool { return s.FedBack[name] })
	})
}

// FedSlots is Fed for names.
func (s *Scope) FedSlots(slots ...value.Slot) bool {
	return slices.ContainsFunc(slots, func(slot value.Slot) bool { return s.FedBack[slot.Name] })
}

// Givens returns the values that the text of a model input stands for. The text is a name, name.*,
// or an expression that is computed before each call.
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

// Given is a value that a model gets as input.
type Given struct {
	Path    string
	Slot    value.Slot
	Program *expression.Program // computes the value of the slot; nil if the slot belongs to a name
}

// Width returns how many columns of a row the value fills.
func (g Given) Width() int { return max(g.Slot.Type.Size, 1) }

// aName matches the form of a name, or of name.*, whether or not the name exists.
var aName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*(\.[A-Za-z_][A-Za-z0-9_]*)*(\.\*)?$`)

// KindsText lists kinds of values for a message.
func KindsText(list []value.Kind) string {
	texts := make([]string, len(list))
	for i, k := range list {
		texts[i] = k.String()
	}
	return strings.Join(texts, " or ")
}

// NoContent reports content in a place that needs a value.
func (s *Scope) NoContent(path string, slots ...value.Slot) {
	for _, slot := range slots {
		if slot.Type.Kind == value.Content {
			s.Fail(path, "%q is content, and only models can read it", slot.Name)
			s.Hint("use its sha256, size or type, or give it to a score")
		}
	}
}

// BelowGroup reports whether the step stands below a group.
func (s *Scope) BelowGroup() bool {
	return slices.ContainsFunc(s.Groups, s.Guards.Within)
}

// AboveGroup reports keyed state below a group as an error, and returns false there. Keyed state
// follows log order, and the event of a group has no position in the log.
func (s *Scope) AboveGroup(path string) bool {
	below := s.BelowGroup()
	if below {
		s.RefuseBelowGroup(path)
	}
	return !below
}

// RefuseBelowGroup reports keyed state below a group as an error.
func (f *Findings) RefuseBelowGroup(path string) {
	f.Fail(path, "below a group: features, and functions and models with state, need events of the log")
	f.Hint("write it above the group, or in a pipeline that reads what this one emits")
}

// Table returns the index of a table. It adds the table if it is new.
func (s *Scope) Table(spec table.Spec) int {
	if i := slices.Index(s.Tables, spec); i >= 0 {
		return i
	}
	s.Tables = append(s.Tables, spec)
	return len(s.Tables) - 1
}
