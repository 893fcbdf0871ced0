package expression

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/afterbay/afterbay/internal/event/value"
	"github.com/expr-lang/expr/ast"
)

// compiler checks the tree of one expression and compiles it to closures.
type compiler struct {
	names        Names
	uses         []string
	nodes, depth int
	within       *lambda  // the lambda being compiled
	known        []string // names that are never absent when the compiled node is evaluated
}

// compile returns the operand for a node and its children.
func (c *compiler) compile(node ast.Node) (operand, *Error) {
	c.nodes++
	c.depth++
	defer func() { c.depth-- }()
	if c.depth > MaxDepth || c.nodes > MaxNodes {
		return operand{}, &Error{Column: node.Location().From + 1, Message: "the expression is too complex", Hint: "divide it over several names"}
	}
	o, err := c.part(node)
	o.node = node
	return o, err
}

func (c *compiler) part(node ast.Node) (operand, *Error) {
	switch n := node.(type) {
	case *ast.IdentifierNode:
		if c.isNull(n) {
			return operand{}, nullAlone(n)
		}
		return c.read(n, n.Value)
	case *ast.MemberNode:
		if name, ok := dotted(n); ok {
			return c.read(n, name)
		}
		return c.lookup(n)
	case *ast.BoolNode:
		return constant(value.Bool, n.Value), nil
	case *ast.IntegerNode:
		return constant(value.Int, int64(n.Value)), nil
	case *ast.FloatNode:
		return constant(value.Number, n.Value), nil
	case *ast.StringNode:
		return constant(value.String, n.Value), nil
	case *ast.BytesNode:
		return constant(value.Bytes, string(n.Value)), nil
	case *ast.UnaryNode:
		return c.unary(n)
	case *ast.BinaryNode:
		return c.binary(n)
	case *ast.ConditionalNode:
		return c.conditional(n)
	case *ast.BuiltinNode:
		return c.call(n, n.Name, n.Arguments)
	case *ast.CallNode:
		if callee, ok := n.Callee.(*ast.IdentifierNode); ok {
			return c.call(n, callee.Value, n.Arguments)
		}
		return operand{}, method(n)
	case *ast.NilNode:
		return operand{}, nullAlone(n)
	case *ast.ArrayNode:
		return c.list(n)
	case *ast.PointerNode:
		return c.item(n)
	case *ast.SliceNode:
		return operand{}, &Error{Column: n.Location().From + 1, Message: "slices are not supported"}
	case *ast.MapNode:
		if len(n.Pairs) == 0 {
			return constant(value.Map|value.String, ""), nil
		}
		return operand{}, &Error{Column: column(n), Message: "a map that is written out is not supported, but for {}", Hint: "name a table under constants"}
	}
	return operand{}, &Error{Column: column(node), Message: "this syntax is not supported"}
}

// method returns the error for x.f(), with a hint how to call functions.
func method(n *ast.CallNode) *Error {
	e := &Error{Column: column(n), Message: "methods are not supported", Hint: "call functions as f(x)"}
	if of, ok := n.Callee.(*ast.MemberNode); ok && len(n.Arguments) == 0 {
		if name, ok := of.Property.(*ast.StringNode); ok {
			e.Hint = "write " + name.Value + "(" + of.Node.String() + ")"
		}
	}
	return e
}

// constant returns a literal.
func constant[T any](kind value.Kind, v T) operand {
	return operand{typ: value.Type{Kind: kind}, fn: fixed(v), literal: true, loose: true}
}

// derived returns the operand that f computes from parts. If all parts are literals, it computes
// the result at once.
func derived[T any](kind value.Kind, f eval[T], parts ...operand) (operand, *Error) {
	for _, p := range parts {
		if !p.literal {
			return operand{typ: value.Type{Kind: kind}, fn: f}, nil
		}
	}
	v, err := f(nil)
	return constant(kind, v), err
}

// dotted returns the name that a node writes. a.b is a name and a["b"] is not; only the position of
// the member distinguishes them.
func dotted(node ast.Node) (string, bool) {
	switch n := node.(type) {
	case *ast.IdentifierNode:
		return n.Value, true
	case *ast.MemberNode:
		property, ok := n.Property.(*ast.StringNode)
		if !ok || n.Method || n.Location() != property.Location() {
			return "", false
		}
		prefix, ok := dotted(n.Node)
		return prefix + "." + property.Value, ok
	}
	return "", false
}

// read returns the operand for a slot or constant.
func (c *compiler) read(node ast.Node, name string) (operand, *Error) {
	if slot, ok := c.names.Slot(name); ok {
		if slot.Type.Kind == value.Content {
			return operand{}, &Error{Column: column(node), Message: name + " is content, and only models can read it", Hint: "use its sha256, size or type, or give it to a score"}
		}
		c.use(name)
		if c.within != nil && slot.Type.Kind.Text() {
			c.within.reads = append(c.within.reads, slot)
		}
		o := slotValue(slot, column(node))
		if slot.Type.Optional && slices.Contains(c.known, name) {
			o.typ.Optional, o.known = false, true
		}
		return o, nil
	}
	if k, ok := c.names.Constant(name); ok {
		if k.Table != nil {
			return operand{}, &Error{Column: column(node), Message: name + " is a table", Hint: "write " + name + "[key] ?? otherwise"}
		}
		if o, ok := scalar(k.Value); ok {
			return o, nil
		}
		return operand{}, &Error{Column: column(node), Message: fmt.Sprintf("constant %s is a %T", name, k.Value), Hint: "a constant is a bool, int, number, string or table of them"}
	}
	return operand{}, c.unknown(node, name)
}

func (c *compiler) use(name string) {
	for _, u := range c.uses {
		if u == name {
			return
		}
	}
	c.uses = append(c.uses, name)
}

// unknown returns the error for a name that no step introduces.
func (c *compiler) unknown(node ast.Node, name string) *Error {
	e := &Error{Column: column(node), Message: "unknown name " + name}
	if dot := strings.LastIndexByte(name, '.'); dot > 0 {
		if k, ok := c.names.Constant(name[:dot]); ok && k.Table != nil {
			e.Hint = fmt.Sprintf("write %s[%q] ?? otherwise", name[:dot], name[dot+1:])
			return e
		}
	}
	field, ofEvent := strings.CutPrefix(name, "event.")
	if _, there := c.names.Slot(field); ofEvent && there {
		e.Hint = "fields of the event are named alone: " + field
	} else {
		e.Hint = Suggest(name, c.names.Known())
	}
	return e
}

// scalar returns a constant's value as a literal.
func scalar(v any) (operand, bool) {
	switch v := v.(type) {
	case bool:
		return constant(value.Bool, v), true
	case int64:
		return constant(value.Int, v), true
	case float64:
		return constant(value.Number, v), value.Finite(v)
	case string:
		return constant(value.String, v), true
	}
	return operand{}, false
}

// slotValue reads a slot. By contract a slot that is not optional has a value, and a number is
// finite. A NaN would make comparisons meaningless, so a number that is not finite is an error of
// the evaluation.
func slotValue(slot value.Slot, column int) operand {
	o := operand{typ: slot.Type}
	index := slot.Index
	switch slot.Type.Kind {
	case value.Bool:
		o.fn = reader(slot, func(row *value.Row) (bool, *Error) { return row.Num[index] != 0, nil })
	case value.Number:
		fault := &Error{Column: column, Message: slot.Name + " is not a finite number"}
		o.fn = reader(slot, func(row *value.Row) (float64, *Error) {
			v := math.Float64frombits(row.Num[index])
			if !value.Finite(v) {
				return 0, fault
			}
			return v, nil
		})
	case value.Int, value.Time:
		o.fn = reader(slot, func(row *value.Row) (int64, *Error) { return int64(row.Num[index]), nil })
	default:
		o.fn = reader(slot, func(row *value.Row) (string, *Error) { return row.Str[index], nil })
	}
	return o
}

func reader[T any](slot value.Slot, get eval[T]) eval[T] {
	if !slot.Type.Optional {
		return get
	}
	return func(row *value.Row) (T, *Error) {
		if !row.Has(slot) {
			var zero T
			return zero, absent
		}
		return get(row)
	}
}

// lookup compiles table[key] and list[n].
func (c *compiler) lookup(n *ast.MemberNode) (operand, *Error) {
	name, ok := dotted(n.Node)
	if name == headers {
		return c.header(n)
	}
	k, constant := c.names.Constant(name)
	_, slot := c.names.Slot(name)
	switch {
	case !ok || slot:
		return c.element(n)
	case !constant:
		return operand{}, c.unknown(n.Node, name)
	case k.Table == nil:
		return operand{}, &Error{Column: column(n), Message: name + " is not a table"}
	}
	key, err := c.present(n.Property)
	if err != nil {
		return operand{}, err
	}
	if key.typ.Kind != value.String {
		e := &Error{Column: key.column(), Message: fmt.Sprintf("the key of a table is a string, not %s", key.typ.Kind)}
		e.Hint = convert(key, value.String)
		return operand{}, e.mistyped(key, value.String)
	}
	written := name + "[" + key.text() + "]"
	o, reason := table(k.Table, key.fn.(eval[string]))
	if reason != "" {
		return operand{}, &Error{Column: column(n), Message: "table " + name + " " + reason, Hint: "the values of a table are bools, ints, numbers or strings"}
	}
	o.written = written
	return o, nil
}

// headers is the name of the headers of a record. Expressions read one as meta.headers["name"].
// Names has a slot with that name.
const headers = "meta.headers"

// header compiles meta.headers["name"].
func (c *compiler) header(n *ast.MemberNode) (operand, *Error) {
	key, ok := n.Property.(*ast.StringNode)
	if !ok {
		return operand{}, &Error{Column: column(n.Property), Message: "the name of a header is a literal", Hint: `write meta.headers["content-type"]`}
	}
	return c.read(n, headers+"["+strconv.Quote(key.Value)+"]")
}

// element compiles list[n] and map[key]. n counts from 0, or from the end if it is negative; a
// vector works like a list. An element of an absent vector is absent, because no literal could
// stand for the vector.
func (c *compiler) element(n *ast.MemberNode) (operand, *Error) {
	list, err := c.compile(n.Node)
	if err != nil {
		return operand{}, err
	}
	switch kind := list.typ.Kind; {
	case kind.IsMap():
		return c.entry(n, list)
	case kind.IsList() && list.typ.Optional:
		return operand{}, list.mayBeAbsent()
	case !kind.IsList() && kind != value.Vector:
		return operand{}, &Error{Column: n.Location().From + 1, Message: "only a table, a vector, a list and a map can be indexed"}
	}
	index, err := c.present(n.Property)
	if err != nil {
		return operand{}, err
	}
	if index.typ.Kind != value.Int {
		return operand{}, &Error{Column: index.column(), Message: fmt.Sprintf("the place in a list is an int, not %s", index.typ.Kind)}
	}
	var o operand
	if list.typ.Kind == value.Vector {
		o, err = c.component(n, list, index)
	} else {
		o, err = c.at(n, list, index)
	}
	o.typ.Optional = list.typ.Optional
	return o, err
}

// at compiles the element at an index of a list. It checks an element of literals at load.
func (c *compiler) at(n *ast.MemberNode, list, index operand) (operand, *Error) {
	get, place, kind := list.fn.(eval[string]), index.fn.(eval[int64]), list.typ.Kind
	one := func(row *value.Row) (value.Element, *Error) {
		text, err := get(row)
		if err != nil {
			return value.Element{}, err
		}
		i, err := place(row)
		if err != nil {
			return value.Element{}, err
		}
		elements := value.Count(text, kind)
		from, ok := fromStart(i, elements)
		if !ok {
			return value.Element{}, at(n, fmt.Sprintf("the list has %d elements, none at %d", elements, i))
		}
		for e := range value.Elements(text, kind.Element()) {
			if from--; from < 0 {
				return e, nil
			}
		}
		return value.Element{}, nil
	}
	if list.literal && index.literal {
		if _, err := one(nil); err != nil {
			return operand{}, err
		}
	}
	return ofElement(kind.Element(), one), nil
}

// component compiles the number at an index of a vector. It checks a literal index at load.
func (c *compiler) component(n *ast.MemberNode, vector, index operand) (operand, *Error) {
	get, place, size := vector.fn.(eval[string]), index.fn.(eval[int64]), vector.typ.Size
	outside := func(i int64) *Error {
		e := at(n, fmt.Sprintf("%s has %d numbers, none at %d", vector.text(), size, i))
		e.Hint = fmt.Sprintf("use 0 to %d", size-1)
		return e
	}
	if index.literal {
		i, err := place(nil)
		if err != nil {
			return operand{}, err
		}
		if _, ok := fromStart(i, size); !ok {
			return operand{}, outside(i)
		}
	}
	return derived(value.Number, func(row *value.Row) (float64, *Error) {
		text, err := get(row)
		if err != nil {
			return 0, err
		}
		i, err := place(row)
		if err != nil {
			return 0, err
		}
		from, ok := fromStart(i, size)
		if !ok {
			return 0, outside(i)
		}
		return float64(value.Component(text, from)), nil
	}, vector, index)
}

// fromStart converts an index to one from the start of a list. ok is false if the list has no such
// element.
func fromStart(i int64, elements int) (place int, ok bool) {
	if i < 0 {
		i += int64(elements)
	}
	return int(i), i >= 0 && i < int64(elements)
}

// table compiles reading a table by key. A table of ints and numbers is a table of numbers.
func table(entries map[string]any, key eval[string]) (operand, string) {
	var kind value.Kind
	literals := make(map[string]operand, len(entries))
	numeric := true
	for k, v := range entries {
		o, ok := scalar(v)
		if !ok {
			return operand{}, fmt.Sprintf("has a value of type %T", v)
		}
		literals[k] = o
		numeric = numeric && (o.typ.Kind == value.Int || o.typ.Kind == value.Number)
		switch {
		case kind == 0:
			kind = o.typ.Kind
		case kind != o.typ.Kind && numeric:
			kind = value.Number
		case kind != o.typ.Kind:
			return operand{}, "has values of several types"
		}
	}
	o := operand{typ: value.Type{Kind: kind, Optional: true}}
	switch kind {
	case value.Bool:
		o.fn = entry[bool](literals, kind, key)
	case value.Int:
		o.fn = entry[int64](literals, kind, key)
	case value.Number:
		o.fn = entry[float64](literals, kind, key)
	case value.String:
		o.fn = entry[string](literals, kind, key)
	default:
		return operand{}, "is empty"
	}
	return o, ""
}

func entry[T any](literals map[string]operand, kind value.Kind, key eval[string]) eval[T] {
	values := make(map[string]T, len(literals))
	for k, o := range literals {
		values[k], _ = o.promoted(kind).fn.(eval[T])(nil)
	}
	return func(row *value.Row) (v T, err *Error) {
		k, err := key(row)
		if err != nil {
			return v, err
		}
		v, ok := values[k]
		if !ok {
			return v, absent
		}
		return v, nil
	}
}

// present compiles a node. It reports an error if the value is optional.
func (c *compiler) present(node ast.Node) (operand, *Error) {
	o, err := c.compile(node)
	if err == nil && o.typ.Optional {
		err = o.mayBeAbsent()
	}
	return o, err
}

// conditional compiles condition ? a : b.
func (c *compiler) conditional(n *ast.ConditionalNode) (operand, *Error) {
	condition, err := c.present(n.Cond)
	if err != nil {
		return operand{}, err
	}
	if condition.typ.Kind != value.Bool {
		return operand{}, &Error{Column: condition.column(), Message: fmt.Sprintf("the condition of ?: is a bool, not %s", condition.typ.Kind)}
	}
	a, err := c.knowing(n.Cond, true, c.compile, n.Exp1)
	if err != nil {
		return operand{}, err
	}
	b, err := c.knowing(n.Cond, false, c.compile, n.Exp2)
	if err != nil {
		return operand{}, err
	}
	a, b = a.promoted(b.typ.Kind).fitted(b.typ.Kind), b.promoted(a.typ.Kind).fitted(a.typ.Kind)
	if !a.alike(b) {
		return operand{}, &Error{Column: b.column(), Message: fmt.Sprintf("the branches of ?: have two types, %s and %s", a.kind(), b.kind()), Hint: conversion(a, b)}
	}
	test := condition.fn.(eval[bool])
	o := operand{typ: value.Type{Kind: a.typ.Kind, Optional: a.typ.Optional || b.typ.Optional, Size: a.typ.Size}, loose: a.loose && b.loose}
	switch a := a.fn.(type) {
	case eval[bool]:
		o.fn = choose(test, a, b.fn)
	case eval[int64]:
		o.fn = choose(test, a, b.fn)
	case eval[float64]:
		o.fn = choose(test, a, b.fn)
	case eval[string]:
		o.fn = choose(test, a, b.fn)
	}
	return o, nil
}

func choose[T any](test eval[bool], a eval[T], other any) eval[T] {
	b := other.(eval[T])
	return func(row *value.Row) (T, *Error) {
		yes, err := test(row)
		if err != nil {
			var zero T
			return zero, err
		}
		if yes {
			return a(row)
		}
		return b(row)
	}
}

// otherwise compiles a ?? b.
func otherwise(n *ast.BinaryNode, a, b operand) (operand, *Error) {
	if !a.typ.Optional && !a.known {
		return operand{}, &Error{Column: n.Location().From + 1, Message: a.text() + " is never absent", Hint: "leave out the ??"}
	}
	b = b.promoted(a.typ.Kind).fitted(a.typ.Kind)
	if !a.alike(b) {
		return operand{}, &Error{Column: b.column(), Message: fmt.Sprintf("the sides of ?? have two types, %s and %s", a.kind(), b.kind()), Hint: convert(b, a.typ.Kind)}
	}
	o := operand{typ: b.typ}
	switch a := a.fn.(type) {
	case eval[bool]:
		o.fn = first(a, b.fn)
	case eval[int64]:
		o.fn = first(a, b.fn)
	case eval[float64]:
		o.fn = first(a, b.fn)
	case eval[string]:
		o.fn = first(a, b.fn)
	}
	return o, nil
}

func first[T any](a eval[T], other any) eval[T] {
	b := other.(eval[T])
	return func(row *value.Row) (T, *Error) {
		v, err := a(row)
		if err == absent {
			return b(row)
		}
		return v, err
	}
}

// converter returns the name of the function that converts one kind to another, or "".
func converter(from, to value.Kind) string {
	switch {
	case to == value.String && from < value.String:
		return "string"
	case to == value.Number && from == value.Int:
		return "float"
	case to == value.Int && from == value.Number:
		return "int"
	}
	return ""
}

// convert suggests how to convert an operand to a kind. It returns "" if there is no way.
func convert(o operand, to value.Kind) string {
	if f := converter(o.typ.Kind, to); f != "" {
		return "use " + f + "(" + o.text() + ")"
	}
	return ""
}

// conversion suggests a lossless conversion that gives two operands the same kind, or "".
func conversion(a, b operand) string {
	if a.typ.Kind > b.typ.Kind {
		a, b = b, a // order the kinds: bool, int, number, time, string, bytes
	}
	return convert(a, b.typ.Kind)
}
