package expression

import (
	"fmt"
	"math"

	"github.com/afterbay/afterbay/internal/event/value"
	"github.com/expr-lang/expr/ast"
)

// element evaluates to a value of any kind.
type element func(row *value.Row) (value.Element, *Error)

// ofElement returns an operand of a kind. get returns its values.
func ofElement(kind value.Kind, get element) operand {
	o := operand{typ: value.Type{Kind: kind}}
	switch kind {
	case value.Bool:
		o.fn = eval[bool](func(row *value.Row) (bool, *Error) {
			e, err := get(row)
			return e.Num != 0, err
		})
	case value.Int, value.Time:
		o.fn = eval[int64](func(row *value.Row) (int64, *Error) {
			e, err := get(row)
			return int64(e.Num), err
		})
	case value.Number:
		o.fn = eval[float64](func(row *value.Row) (float64, *Error) {
			e, err := get(row)
			return math.Float64frombits(e.Num), err
		})
	default:
		o.fn = eval[string](func(row *value.Row) (string, *Error) {
			e, err := get(row)
			return e.Str, err
		})
	}
	return o
}

// element returns the evaluation of an operand as a value of any kind.
func (o operand) element() element {
	switch f := o.fn.(type) {
	case eval[bool]:
		return func(row *value.Row) (e value.Element, err *Error) {
			v, err := f(row)
			if v {
				e.Num = 1
			}
			return e, err
		}
	case eval[int64]:
		return func(row *value.Row) (value.Element, *Error) {
			v, err := f(row)
			return value.Element{Num: uint64(v)}, err
		}
	case eval[float64]:
		return func(row *value.Row) (value.Element, *Error) {
			v, err := f(row)
			return value.Element{Num: math.Float64bits(v)}, err
		}
	}
	f := o.fn.(eval[string])
	return func(row *value.Row) (value.Element, *Error) {
		v, err := f(row)
		return value.Element{Str: v}, err
	}
}

// asNumber converts an int of a list to a number.
func asNumber(e value.Element) value.Element {
	return value.Element{Num: math.Float64bits(float64(int64(e.Num)))}
}

// fitted converts a literal list or map to another kind: an empty one fits any kind, and ints fit
// numbers. It returns any other operand unchanged.
func (o operand) fitted(kind value.Kind) operand {
	text, ok := known[string](o)
	of := o.typ.Kind
	switch {
	case !ok || of.IsList() != kind.IsList() || of.IsMap() != kind.IsMap() || of.Element() == of:
	case text == "":
		o.typ.Kind = kind
	case of == value.List|value.Int && kind == value.List|value.Number:
		var numbers []byte
		for e := range value.Elements(text, value.Int) {
			numbers = value.AppendElement(numbers, value.Number, asNumber(e))
		}
		o.typ.Kind, o.fn = kind, fixed(value.Text(numbers))
	}
	return o
}

// listable reports whether a list may have elements of a kind.
func listable(kind value.Kind) bool {
	return kind <= value.String || kind == value.Raw
}

// list compiles a literal list. Its values have one kind; ints next to numbers become numbers.
func (c *compiler) list(n *ast.ArrayNode) (operand, *Error) {
	parts, of := make([]operand, len(n.Nodes)), value.String
	for i, node := range n.Nodes {
		var err *Error
		if parts[i], err = c.present(node); err != nil {
			return operand{}, err
		}
		switch kind := parts[i].typ.Kind; {
		case !listable(kind):
			return operand{}, &Error{Column: parts[i].column(), Message: fmt.Sprintf("a list has bools, ints, numbers, times or strings, not %s", kind)}
		case i == 0 || of == value.Int && kind == value.Number:
			of = kind
		case kind != of && !(of == value.Number && kind == value.Int):
			return operand{}, &Error{Column: parts[i].column(), Message: fmt.Sprintf("a list has values of one type, not %s and %s", of, kind), Hint: conversion(parts[0], parts[i])}
		}
	}
	get := make([]element, len(parts))
	for i := range parts {
		if of == value.Number {
			parts[i] = parts[i].number()
		}
		get[i] = parts[i].element()
	}
	limit := bound{n}
	return derived(value.List|of, func(row *value.Row) (string, *Error) {
		var list []byte
		for _, f := range get {
			e, err := f(row)
			if err != nil {
				return "", err
			}
			if list, err = limit.grow(row, list, of, e); err != nil {
				return "", err
			}
		}
		return value.Text(list), nil
	}, parts...)
}

// inList compiles x in list, for a list that is no literal, and key in map.
func (c *compiler) inList(n *ast.BinaryNode, x operand) (operand, *Error) {
	list, err := c.present(n.Right)
	if err != nil {
		return operand{}, err
	}
	kind := list.typ.Kind
	of := kind.Element()
	switch {
	case kind.IsMap() && x.typ.Kind != value.String:
		return operand{}, &Error{Column: x.column(), Message: fmt.Sprintf("the keys of a map are strings, not %s", x.typ.Kind), Hint: convert(x, value.String)}
	case kind.IsMap():
		return both(value.Bool, x, list, func(key, text string) (bool, bool) {
			_, found := entryOf(text, of, key)
			return found, true
		}, nil)
	case !kind.IsList():
		return operand{}, &Error{Column: column(n.Right), Message: fmt.Sprintf("in takes a list or a map, not %s", kind), Hint: `write x in ["a", "b"]`}
	case of == value.Raw:
		return operand{}, at(n, "in does not compare raw: it is a text of JSON")
	}
	list = list.fitted(value.List | x.typ.Kind)
	of = list.typ.Kind.Element()
	if of != x.typ.Kind && !arithmetical(x, operand{typ: value.Type{Kind: of}}) {
		return operand{}, &Error{Column: x.column(), Message: fmt.Sprintf("in compares values of one type, not %s and %s", x.typ.Kind, of), Hint: convert(x, of)}
	}
	if of == value.Number {
		x = x.number()
	}
	return derived(value.Bool, has(x, list.fn.(eval[string]), of), x, list)
}

// has evaluates whether a list of a kind has an element equal to x.
func has(x operand, list eval[string], of value.Kind) eval[bool] {
	get, float := x.element(), x.typ.Kind == value.Number
	return func(row *value.Row) (bool, *Error) {
		v, err := get(row)
		if err != nil {
			return false, err
		}
		text, err := list(row)
		if err != nil {
			return false, err
		}
		for e := range value.Elements(text, of) {
			if float && of == value.Int {
				e = asNumber(e)
			}
			if e == v || float && math.Float64frombits(e.Num) == math.Float64frombits(v.Num) {
				return true, nil
			}
		}
		return false, nil
	}
}

// entryOf returns the value of a key of a map.
func entryOf(text string, of value.Kind, key string) (value.Element, bool) {
	for e := range value.Entries(text, of) {
		if e.Key >= key {
			return e.Element, e.Key == key
		}
	}
	return value.Element{}, false
}

// entry compiles map[key]. The result is absent if the map is absent or has no such key.
func (c *compiler) entry(n *ast.MemberNode, from operand) (operand, *Error) {
	key, err := c.present(n.Property)
	if err != nil {
		return operand{}, err
	}
	if key.typ.Kind != value.String {
		e := &Error{Column: key.column(), Message: fmt.Sprintf("the key of a map is a string, not %s", key.typ.Kind), Hint: convert(key, value.String)}
		return operand{}, e.mistyped(key, value.String)
	}
	get, by, of := from.fn.(eval[string]), key.fn.(eval[string]), from.typ.Kind.Element()
	o := ofElement(of, func(row *value.Row) (value.Element, *Error) {
		text, err := get(row)
		if err != nil {
			return value.Element{}, err
		}
		k, err := by(row)
		if err != nil {
			return value.Element{}, err
		}
		e, ok := entryOf(text, of, k)
		if !ok {
			return e, absent
		}
		return e, nil
	})
	o.typ.Optional, o.written = true, from.text()+"["+key.text()+"]"
	return o, nil
}
