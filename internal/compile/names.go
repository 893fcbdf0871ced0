package compile

import (
	"fmt"
	"slices"
	"strings"

	"github.com/afterbay/afterbay/internal/event/expression"
	"github.com/afterbay/afterbay/internal/event/value"
)

// names is the flat set of names as far as it has been introduced: what an
// expression at some place may use.
type names struct {
	schema     *value.Schema
	constants  map[string]expression.Constant
	later      map[string]bool  // introduced somewhere by a step
	missing    []string         // of them, looked up before they were there
	cases      map[string]place // names of a case that is over
	routes     []string         // paths of the routes around the step that is compiled
	introduced []string         // by steps, in order
	broken     map[string]bool  // of them, never there because of an error that was reported
}

// place is the case of a route.
type place struct{ route, at string }

func newNames() names {
	return names{
		schema: &value.Schema{}, constants: map[string]expression.Constant{},
		broken: map[string]bool{}, cases: map[string]place{},
	}
}

// add introduces a name. One of another case of a route may be introduced again,
// as the same type: an event takes one case.
func (n *names) add(name string, t value.Type) (value.Slot, error) {
	n.introduced = append(n.introduced, name)
	where, over := n.cases[name]
	if !over {
		return n.schema.Add(name, t)
	}
	slot, _ := n.schema.Lookup(name)
	switch {
	case !slices.Contains(n.routes, where.route):
		return value.Slot{}, fmt.Errorf("%q is introduced in %s already: names are one flat set without shadowing", name, where.at)
	case slot.Type != t:
		return value.Slot{}, fmt.Errorf("%q is of type %v in %s and %v here: a name has one type", name, slot.Type, where.at, t)
	}
	delete(n.cases, name)
	return slot, nil
}

// lookup returns the slot of a name that is in scope.
func (n *names) lookup(name string) (value.Slot, bool) {
	slot, ok := n.schema.Lookup(name)
	if _, over := n.cases[name]; over {
		return value.Slot{}, false
	}
	return slot, ok
}

func (n *names) anyBroken(list []string) bool {
	return slices.ContainsFunc(list, n.isBroken)
}

// isBroken reports whether a name, or name.*, is never there because of an error that
// was reported. Of a feature that is wrong all columns are.
func (n *names) isBroken(name string) bool {
	dot := strings.LastIndexByte(name, '.')
	return n.broken[name] || dot > 0 && n.broken[name[:dot]+".*"]
}

// Slot implements expression.Names.
func (n *names) Slot(name string) (value.Slot, bool) {
	slot, ok := n.lookup(name)
	if !ok && (n.later[name] || n.isBroken(name)) {
		n.missing = append(n.missing, name)
	}
	return slot, ok
}

// Constant implements expression.Names.
func (n *names) Constant(name string) (expression.Constant, bool) {
	constant, ok := n.constants[name]
	return constant, ok
}

// Known implements expression.Names.
func (n *names) Known() []string {
	var all []string
	for name := range n.constants {
		all = append(all, name)
	}
	slices.Sort(all)
	for _, slot := range n.schema.Slots {
		if _, ok := n.lookup(slot.Name); ok && !strings.HasPrefix(slot.Name, Hidden) {
			all = append(all, slot.Name)
		}
	}
	return all
}

// Hidden starts the names of slots that no expression can write: values of
// emits.
const Hidden = "\x00"

// outOfScope says why a name that is somewhere in the pipeline cannot be used
// here, and what to do; "" where it is nowhere.
func (n *names) outOfScope(name string) (message, hint string) {
	if where, ok := n.cases[name]; ok {
		return fmt.Sprintf("%q is known only to events of %s", name, where.at), "introduce it in every case of the route that goes on, or use it there"
	}
	if n.later[name] {
		return fmt.Sprintf("%q is introduced below; a name is used below its introduction, except in a feature's value and when", name), ""
	}
	return "", ""
}
