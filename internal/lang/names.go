package lang

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/afterbay/afterbay/internal/event/expression"
	"github.com/afterbay/afterbay/internal/event/value"
	"github.com/afterbay/afterbay/internal/task/operator"
)

// Names is the flat set of names introduced so far. An expression may use these names.
type Names struct {
	Schema     *value.Schema
	Constants  map[string]expression.Constant
	Later      map[string]bool   // names that some step of the pipeline introduces
	missing    []string          // names of Later that an expression used before their introduction
	Cases      map[string]caseAt // names that left the scope with their case
	Routes     []string          // paths of the routes around the current step
	Introduced []string          // names that steps introduced, in order
	Broken     map[string]bool   // names that never exist because of an error already reported
	Used       map[string]bool   // names that steps read

	Headers []operator.FromHeader // record headers that expressions read

	elements bool // new names belong to the elements of a list

	there map[string]bool // fields that are always present, although their type is optional: see OfInput
}

// caseAt says where a name exists that is out of scope here: in a case of a route, in the elements
// of a list, or in an input.
type caseAt struct {
	Route, At, Instead string
	Element            bool // the elements of a list have the name
}

func newNames() Names {
	return Names{
		Schema: &value.Schema{}, Constants: map[string]expression.Constant{},
		Broken: map[string]bool{}, Used: map[string]bool{}, Cases: map[string]caseAt{},
	}
}

// add introduces a name. Another case of the same route may introduce it again with the same type,
// because an event takes one case. So may the elements of another list.
func (n *Names) add(name string, t value.Type) (value.Slot, error) {
	n.Introduced = append(n.Introduced, name)
	where, over := n.Cases[name]
	if !over {
		return n.Schema.Add(name, t)
	}
	slot, _ := n.Schema.Lookup(name)
	switch {
	case !slices.Contains(n.Routes, where.Route) && !(n.elements && where.Element):
		return value.Slot{}, fmt.Errorf("%q is introduced in %s already: a pipeline has one namespace, without shadowing", name, where.At)
	case slot.Type != t:
		return value.Slot{}, fmt.Errorf("%q is of type %v in %s and %v here: a name has one type", name, slot.Type, where.At, t)
	}
	delete(n.Cases, name)
	return slot, nil
}

// Lookup returns the slot of a name that is in scope.
func (n *Names) Lookup(name string) (value.Slot, bool) {
	slot, ok := n.Schema.Lookup(name)
	if _, over := n.Cases[name]; over {
		return value.Slot{}, false
	}
	return slot, ok
}

func (n *Names) anyBroken(list []string) bool {
	return slices.ContainsFunc(list, n.IsBroken)
}

// IsBroken reports whether a name, or name.*, never exists because of an error already reported. If
// a feature is invalid, all its columns are broken.
func (n *Names) IsBroken(name string) bool {
	dot := strings.LastIndexByte(name, '.')
	return n.Broken[name] || dot > 0 && n.Broken[name[:dot]+".*"]
}

// Slot implements expression.Names.
func (n *Names) Slot(name string) (value.Slot, bool) {
	slot, ok := n.Lookup(name)
	if !ok && strings.HasPrefix(name, "meta.") {
		slot, ok = n.header(name)
	}
	_, over := n.Cases[name]
	if n.Used[name] = true; !ok && (n.Later[name] || over || n.IsBroken(name)) {
		n.missing = append(n.missing, name)
	}
	slot.Type.Optional = slot.Type.Optional && !n.there[name]
	return slot, ok
}

// header introduces the name of a record header when an expression first reads it.
func (n *Names) header(name string) (value.Slot, bool) {
	h, ok := operator.HeaderNamed(name)
	if !ok {
		return value.Slot{}, false
	}
	h.Slot, _ = n.Schema.Add(name, h.Type())
	n.Headers = append(n.Headers, h)
	return h.Slot, true
}

// Constant implements expression.Names.
func (n *Names) Constant(name string) (expression.Constant, bool) {
	constant, ok := n.Constants[name]
	return constant, ok
}

// Known implements expression.Names.
func (n *Names) Known() []string {
	var all []string
	for name := range n.Constants {
		all = append(all, name)
	}
	slices.Sort(all)
	all = append(all, operator.MetaHeaders...)
	for _, slot := range n.Schema.Slots {
		_, ofHeader := operator.HeaderNamed(slot.Name)
		if _, ok := n.Lookup(slot.Name); ok && !ofHeader && !strings.HasPrefix(slot.Name, Hidden) {
			all = append(all, slot.Name)
		}
	}
	return all
}

// Hidden is the prefix of slot names that no expression can write, such as the values of emits.
const Hidden = "\x00"

// Leave ends a case of a route at a path. It removes the names introduced since index since from
// the scope and returns those that were in scope.
func (n *Names) Leave(path string, since int) (in []string) {
	return n.leave(caseAt{At: path}, since)
}

// leave is Leave for any reason that makes names leave the scope.
func (n *Names) leave(of caseAt, since int) (in []string) {
	of.Route = n.Routes[len(n.Routes)-1]
	for _, name := range n.Introduced[since:] {
		if _, ok := n.Lookup(name); ok {
			in = append(in, name)
		}
	}
	for _, name := range n.Introduced[since:] {
		n.Cases[name] = of
	}
	return in
}

// outOfScope returns why a name of this pipeline cannot be used here, and what to do. It returns ""
// if no step introduces the name.
func (n *Names) outOfScope(name string) (message, hint string) {
	if where, ok := n.Cases[name]; ok {
		return fmt.Sprintf("%q is known only to events of %s", name, where.At), cmp.Or(where.Instead, "introduce it in every case of the route that continues, or use it only there")
	}
	if n.Later[name] {
		return fmt.Sprintf("%q is introduced below; a name is used below its introduction, except in a feature's value and when", name), ""
	}
	return "", ""
}
