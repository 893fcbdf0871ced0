package compile

import (
	"slices"
	"strconv"
	"strings"

	"github.com/afterbay/afterbay/internal/event/expression"
	"github.com/afterbay/afterbay/internal/event/value"
	"github.com/afterbay/afterbay/internal/naming"
	"github.com/afterbay/afterbay/internal/spec"
)

// scope is what is known where a step stands: the names, and what is wrong up to there.
type scope struct {
	*findings
	names   names
	fields  []string           // of the input
	fedBack map[string]bool    // names that only the waves know
	given   map[string][]given // what inputs of scores stand for, by their path
}

func newScope() scope {
	return scope{
		findings: &findings{typed: map[*spec.Problem]use{}}, names: newNames(), fedBack: map[string]bool{}, given: map[string][]given{},
	}
}

// introduce adds a name of a step or field.
func (s *scope) introduce(path, name string, t value.Type) (value.Slot, bool) {
	if _, ok := s.names.constants[name]; ok {
		s.fail(path, "%q is a constant already: names are one flat set without shadowing", name)
		return value.Slot{}, false
	}
	slot, err := s.names.add(name, t)
	if err != nil {
		s.fail(path, "%v", err)
		return value.Slot{}, false
	}
	return slot, true
}

func (s *scope) identifier(path, name string) bool {
	ok := naming.Identifier(name) && name != "meta" && name != "event"
	if !ok {
		s.fail(path, "%q is not a name: use letters, digits and '_', not starting with a digit; meta and event are taken", name)
	}
	return ok
}

// field introduces a field.
func (s *scope) field(path, name string, t value.Type) (value.Slot, bool) {
	if !s.identifier(path, name) {
		return value.Slot{}, false
	}
	s.fields = append(s.fields, name)
	return s.introduce(path, name, t)
}

func (s *scope) isField(name string) bool { return slices.Contains(s.fields, name) }

// fieldNamed returns the field that a word of an input names. One that is not there, or
// has no type, is reported once.
func (s *scope) fieldNamed(path, input, name string) (value.Slot, bool) {
	slot, ok := s.names.schema.Lookup(name)
	switch {
	case s.names.broken[name]:
		return value.Slot{}, false
	case ok && s.isField(name):
		return slot, true
	}
	s.fail(path, "%q is not one of %s.fields", name, input)
	if near := expression.Nearest(name, s.fields); near != "" {
		s.hint("did you mean " + near + "?")
	}
	s.names.broken[name] = !ok // it has a finding already
	return value.Slot{}, false
}

// expand resolves a list of names where "prefix.*" stands for all names under
// prefix, in order, and event.* for all fields.
func (s *scope) expand(path, name string) []value.Slot {
	prefix, all := strings.CutSuffix(name, ".*")
	if !all {
		if slot, ok := s.names.Slot(name); ok {
			return []value.Slot{slot}
		}
		s.unknown(path, name)
		return nil
	}
	var found []value.Slot
	for _, slot := range s.names.schema.Slots {
		if _, ok := s.names.lookup(slot.Name); !ok {
			continue
		}
		if prefix == "event" && s.isField(slot.Name) || strings.HasPrefix(slot.Name, prefix+".") {
			found = append(found, slot)
		}
	}
	if found == nil && !s.names.isBroken(name) {
		s.fail(path, "nothing is named %q", name)
		s.hint("name a feature, model or event before the .*")
	}
	return found
}

func (s *scope) unknown(path, name string) {
	if s.names.isBroken(name) {
		return
	}
	if _, ok := s.names.constants[name]; ok {
		s.fail(path, "%q is a constant; give it a name of its own by let to use it here", name)
		return
	}
	if message, hint := s.names.outOfScope(name); message != "" {
		s.fail(path, "%s", message)
		s.hint(hint)
		return
	}
	s.fail(path, "unknown name %q", name)
	if near := expression.Nearest(name, s.names.Known()); near != "" {
		s.hint("did you mean " + near + "?")
	}
}

// expression compiles source, whose type must be one of want if any is given.
func (s *scope) expression(path, source string, want ...value.Kind) *expression.Program {
	before := len(s.names.missing)
	program, err := expression.Compile(source, &s.names)
	if err != nil {
		missing := s.names.missing[before:]
		if s.names.anyBroken(missing) {
			return nil // what introduces the name was reported
		}
		found := &spec.Problem{Path: path, Column: err.Column, Message: err.Message, Hint: err.Hint}
		s.typed[found] = use{err.Name, err.Want}
		if len(missing) > 0 {
			found.Message, found.Hint = s.names.outOfScope(missing[len(missing)-1])
		}
		s.errs = append(s.errs, found)
		return nil
	}
	if t := program.Type(); len(want) > 0 && (t.Optional || !slices.Contains(want, t.Kind)) {
		s.fail(path, "the expression is of type %v, where %v is needed", t, kinds(want))
		if name, ok := program.Name(); ok && !t.Optional {
			s.mistyped(name, want[0])
		}
		if t.Optional {
			s.hint("give a value for when it is absent: ... ?? 0")
		}
		return nil
	}
	return program
}

func (s *scope) hiddenName() string { return Hidden + strconv.Itoa(len(s.names.schema.Slots)) }

// fed reports whether expressions read features that are fed back.
func (s *scope) fed(programs ...*expression.Program) bool {
	return slices.ContainsFunc(programs, func(p *expression.Program) bool {
		return p != nil && slices.ContainsFunc(p.Uses(), func(name string) bool { return s.fedBack[name] })
	})
}

// fedSlots is fed of names.
func (s *scope) fedSlots(slots ...value.Slot) bool {
	return slices.ContainsFunc(slots, func(slot value.Slot) bool { return s.fedBack[slot.Name] })
}

// givens returns the values that the text of an input stands for: a name, name.*, or
// an expression, which is computed before each call. A model that the pipeline
// describes asks twice.
func (s *scope) givens(path, text string) []given {
	if list, ok := s.given[path]; ok {
		return list
	}
	var list []given
	_, constant := s.names.constants[text]
	if _, ok := s.names.lookup(text); ok || aName.MatchString(text) && !constant {
		for _, slot := range s.expand(path, text) {
			list = append(list, given{path: path, slot: slot})
		}
	} else if program := s.expression(path, text); program != nil {
		if slot, ok := s.introduce(path, s.hiddenName(), program.Type()); ok {
			slot.Name = text // for messages
			list = append(list, given{path, slot, program})
		}
	}
	s.given[path] = list
	return list
}
