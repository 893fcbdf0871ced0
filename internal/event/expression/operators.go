package expression

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/afterbay/afterbay/internal/event/value"
	"github.com/expr-lang/expr/ast"
)

// at returns an error at the position of a node. For an operator this is the operator itself.
func at(node ast.Node, message string) *Error {
	return &Error{Column: node.Location().From + 1, Message: message}
}

// Errors of arithmetic.
const (
	intRange    = "the result is out of the range of int"
	numberRange = "the result is out of the range of number"
	notANumber  = "the result is not a number"
	byZero      = "division by zero"
)

// unary compiles -x, +x, !x and not x.
func (c *compiler) unary(n *ast.UnaryNode) (operand, *Error) {
	x, err := c.present(n.Node)
	if err != nil {
		return operand{}, err
	}
	switch f := x.fn.(type) {
	case eval[bool]:
		if n.Operator == "!" || n.Operator == "not" {
			return derived(value.Bool, func(row *value.Row) (bool, *Error) {
				v, err := f(row)
				return !v, err
			}, x)
		}
	case eval[int64]:
		if n.Operator == "+" && x.typ.Kind == value.Int {
			return x, nil
		}
		if n.Operator == "-" && x.typ.Kind == value.Int {
			fault := at(n, intRange)
			return derived(value.Int, func(row *value.Row) (int64, *Error) {
				v, err := f(row)
				if err == nil && v == math.MinInt64 {
					err = fault
				}
				return -v, err
			}, x)
		}
	case eval[float64]:
		if n.Operator == "+" {
			return x, nil
		}
		if n.Operator == "-" {
			return derived(value.Number, func(row *value.Row) (float64, *Error) {
				v, err := f(row)
				return -v, err
			}, x)
		}
	}
	want := "an int or a number"
	if n.Operator == "!" || n.Operator == "not" {
		want = "a bool"
	}
	e := &Error{Column: x.column(), Message: fmt.Sprintf("%s takes %s, not %s", n.Operator, want, x.typ.Kind)}
	if x.typ.Kind == value.String && want != "a bool" {
		e.mistyped(x, value.Number)
	}
	return operand{}, e
}

// binary compiles an operator between two values.
func (c *compiler) binary(n *ast.BinaryNode) (operand, *Error) {
	if n.Operator == "in" {
		return c.in(n)
	}
	for _, sides := range [][2]ast.Node{{n.Left, n.Right}, {n.Right, n.Left}} {
		if !c.isNull(sides[1]) {
			continue
		}
		if n.Operator == "==" || n.Operator == "!=" {
			return c.absence(n, sides[0])
		}
		return operand{}, nullAlone(sides[1])
	}
	compile := c.present
	if n.Operator == "??" {
		compile = c.compile
	}
	a, err := compile(n.Left)
	if err != nil {
		return operand{}, err
	}
	right := compile
	switch n.Operator {
	case "&&", "and":
		right = func(node ast.Node) (operand, *Error) { return c.knowing(n.Left, true, compile, node) }
	case "||", "or":
		right = func(node ast.Node) (operand, *Error) { return c.knowing(n.Left, false, compile, node) }
	}
	b, err := right(n.Right)
	if err != nil {
		return operand{}, err
	}
	switch n.Operator {
	case "??":
		return otherwise(n, a, b)
	case "&&", "and", "||", "or":
		return logic(n, a, b)
	case "==", "!=", "<", "<=", ">", ">=":
		return comparison(n, a, b)
	case "+", "-", "*", "/", "%", "**", "^":
		return arithmetic(n, a, b)
	case "contains", "startsWith", "endsWith", "matches":
		return search(n, a, b)
	}
	return operand{}, at(n, n.Operator+" is not supported")
}

// isNull reports whether a node is null or nil, and not a name spelled like that.
func (c *compiler) isNull(node ast.Node) bool {
	if _, ok := node.(*ast.NilNode); ok {
		return true
	}
	name, ok := node.(*ast.IdentifierNode)
	if !ok || name.Value != "null" {
		return false
	}
	_, slot := c.names.Slot("null")
	_, constant := c.names.Constant("null")
	return !slot && !constant
}

func nullAlone(node ast.Node) *Error {
	return &Error{Column: column(node), Message: "null is not a value", Hint: "compare with it by == or !=, or write a default for an absent value: a ?? b"}
}

// absence compiles a == null and a != null for an optional a.
func (c *compiler) absence(n *ast.BinaryNode, side ast.Node) (operand, *Error) {
	if c.isNull(side) {
		return operand{}, nullAlone(side)
	}
	o, err := c.compile(side)
	if err != nil {
		return operand{}, err
	}
	if !o.typ.Optional && !o.known {
		return operand{}, &Error{Column: n.Location().From + 1, Message: o.text() + " is never absent", Hint: "leave out the comparison, or make the field optional"}
	}
	equal := n.Operator == "=="
	switch f := o.fn.(type) {
	case eval[bool]:
		o.fn = isAbsent(f, equal)
	case eval[int64]:
		o.fn = isAbsent(f, equal)
	case eval[float64]:
		o.fn = isAbsent(f, equal)
	case eval[string]:
		o.fn = isAbsent(f, equal)
	}
	return operand{typ: value.Type{Kind: value.Bool}, fn: o.fn}, nil
}

// isAbsent evaluates to equal if a value is absent, and to !equal otherwise.
func isAbsent[T any](f eval[T], equal bool) eval[bool] {
	return func(row *value.Row) (bool, *Error) {
		switch _, err := f(row); err {
		case absent:
			return equal, nil
		case nil:
			return !equal, nil
		default:
			return false, err
		}
	}
}

// logic compiles && and ||.
func logic(n *ast.BinaryNode, a, b operand) (operand, *Error) {
	for _, o := range []operand{a, b} {
		if o.typ.Kind != value.Bool {
			return operand{}, &Error{Column: o.column(), Message: fmt.Sprintf("%s takes bools, not %s", n.Operator, o.typ.Kind)}
		}
	}
	left, right := a.fn.(eval[bool]), b.fn.(eval[bool])
	decisive := n.Operator == "||" || n.Operator == "or"
	return derived(value.Bool, func(row *value.Row) (bool, *Error) {
		v, err := left(row)
		if err != nil || v == decisive {
			return v, err
		}
		return right(row)
	}, a, b)
}

// arithmetical reports whether both operands are ints or numbers.
func arithmetical(a, b operand) bool {
	number := func(k value.Kind) bool { return k == value.Int || k == value.Number }
	return number(a.typ.Kind) && number(b.typ.Kind)
}

// comparison compiles == != < <= > >=.
func comparison(n *ast.BinaryNode, a, b operand) (operand, *Error) {
	equality := n.Operator == "==" || n.Operator == "!="
	if a.typ.Kind != b.typ.Kind && arithmetical(a, b) {
		a, b = a.number(), b.number()
	}
	if a.typ.Kind != b.typ.Kind {
		e := at(n, fmt.Sprintf("%s compares values of one type, not %s and %s", n.Operator, a.typ.Kind, b.typ.Kind))
		e.Hint = conversion(a, b)
		for _, pair := range [][2]operand{{a, b}, {b, a}} {
			switch number, other := pair[0], pair[1]; {
			case !arithmetical(number, number):
			case other.typ.Kind == value.String:
				numberAgainstText(e, number, other, !equality)
			case number.literal:
				e.mistyped(other, value.Number)
			}
		}
		return operand{}, e
	}
	if a.typ.Kind == value.Raw {
		return operand{}, at(n, n.Operator+" does not compare raw: it is a text of JSON")
	}
	if a.typ.Kind >= value.Vector {
		return operand{}, at(n, n.Operator+" does not compare lists")
	}
	switch left := a.fn.(type) {
	case eval[bool]:
		if equality {
			return equal(n.Operator, left, a, b)
		}
		return operand{}, at(n, n.Operator+" does not compare bools")
	case eval[int64]:
		return ordered(n.Operator, left, a, b)
	case eval[float64]:
		return ordered(n.Operator, left, a, b)
	default:
		if equality {
			return equal(n.Operator, left.(eval[string]), a, b)
		}
		return ordered(n.Operator, left.(eval[string]), a, b)
	}
}

// numberAgainstText adds a hint to the error about a comparison of a number with a string.
func numberAgainstText(e *Error, number, text operand, ordered bool) {
	switch {
	case text.literal:
		v, _ := text.fn.(eval[string])(nil)
		if _, err := strconv.ParseFloat(v, 64); err == nil {
			e.Hint = "write the number without quotes: " + v
		}
		e.mistyped(number, value.String)
	case number.literal:
		e.Hint = fmt.Sprintf("compare float(%s), or introduce %s as a number", text.text(), text.text())
		e.mistyped(text, value.Number)
	case ordered: // texts have another order: "10" < "9"
		e.Hint = "use float(" + text.text() + ")"
	}
}

func equal[T comparable](operator string, left eval[T], a, b operand) (operand, *Error) {
	right, same := b.fn.(eval[T]), operator == "=="
	return derived(value.Bool, func(row *value.Row) (bool, *Error) {
		v, err := left(row)
		if err != nil {
			return false, err
		}
		w, err := right(row)
		return (v == w) == same, err
	}, a, b)
}

// ordered compiles a comparison. One order serves all operators, because no value is NaN.
func ordered[T cmp.Ordered](operator string, left eval[T], a, b operand) (operand, *Error) {
	right := b.fn.(eval[T])
	less := operator == "<" || operator == "<=" || operator == "!="
	same := operator == "==" || operator == "<=" || operator == ">="
	more := operator == ">" || operator == ">=" || operator == "!="
	result := func(v, w T) bool {
		switch {
		case v < w:
			return less
		case v == w:
			return same
		}
		return more
	}
	if b.literal {
		w, _ := right(nil)
		return derived(value.Bool, func(row *value.Row) (bool, *Error) {
			v, err := left(row)
			return result(v, w), err
		}, a, b)
	}
	return derived(value.Bool, func(row *value.Row) (bool, *Error) {
		v, err := left(row)
		if err != nil {
			return false, err
		}
		w, err := right(row)
		return result(v, w), err
	}, a, b)
}

// arithmetic compiles + - * / % **, and + of strings.
func arithmetic(n *ast.BinaryNode, a, b operand) (operand, *Error) {
	if n.Operator == "+" && a.typ.Kind == value.String && b.typ.Kind == value.String {
		return concatenation(n, a, b)
	}
	if !arithmetical(a, b) {
		want := "ints or numbers"
		if n.Operator == "+" {
			want += ", or two strings"
		}
		e := at(n, fmt.Sprintf("%s takes %s, not %s and %s", n.Operator, want, a.typ.Kind, b.typ.Kind))
		if n.Operator == "+" {
			e.Hint = conversion(a, b)
		}
		for _, pair := range [][2]operand{{a, b}, {b, a}} {
			switch number, other := pair[0], pair[1]; {
			case !arithmetical(number, number) || n.Operator == "+" && !number.literal:
			case other.typ.Kind == value.String:
				e.Hint = "use float(" + other.text() + ")"
				fallthrough
			default:
				e.mistyped(other, value.Number)
			}
		}
		return operand{}, e
	}
	ints := a.typ.Kind == value.Int && b.typ.Kind == value.Int
	switch n.Operator {
	case "%":
		if !ints {
			e := at(n, fmt.Sprintf("%% takes ints, not %s and %s", a.typ.Kind, b.typ.Kind))
			e.Hint = "convert with int(...)"
			return operand{}, e
		}
		return both(value.Int, a, b, remainder, at(n, byZero))
	case "/":
		return numbers(n, a, b, func(v, w float64) float64 { return v / w })
	case "**", "^":
		return numbers(n, a, b, pow)
	case "+":
		if ints {
			return both(value.Int, a, b, plus, at(n, intRange))
		}
		return numbers(n, a, b, func(v, w float64) float64 { return v + w })
	case "-":
		if ints {
			return both(value.Int, a, b, minus, at(n, intRange))
		}
		return numbers(n, a, b, func(v, w float64) float64 { return v - w })
	}
	if ints {
		return both(value.Int, a, b, times, at(n, intRange))
	}
	return numbers(n, a, b, func(v, w float64) float64 { return v * w })
}

func plus(v, w int64) (int64, bool) { sum := v + w; return sum, (v^sum)&(w^sum) >= 0 }

func minus(v, w int64) (int64, bool) { rest := v - w; return rest, (v^w)&(v^rest) >= 0 }

func times(v, w int64) (int64, bool) {
	product := v * w
	fits := v == 0 || product/v == w && (v != -1 || w != math.MinInt64)
	return product, fits
}

func remainder(v, w int64) (int64, bool) {
	if w == 0 {
		return 0, false
	}
	return v % w, true
}

// both applies f to two operands. If f returns false, the evaluation fails with fault.
func both[T, R any](kind value.Kind, a, b operand, f func(v, w T) (R, bool), fault *Error) (operand, *Error) {
	left, right := a.fn.(eval[T]), b.fn.(eval[T])
	return derived(kind, func(row *value.Row) (r R, err *Error) {
		v, err := left(row)
		if err != nil {
			return r, err
		}
		w, err := right(row)
		if err != nil {
			return r, err
		}
		r, ok := f(v, w)
		if !ok {
			return r, fault
		}
		return r, nil
	}, a, b)
}

// numbers applies f to two numbers. The result must be finite.
func numbers(n *ast.BinaryNode, a, b operand, f func(v, w float64) float64) (operand, *Error) {
	a, b = a.number(), b.number()
	left, right := a.fn.(eval[float64]), b.fn.(eval[float64])
	check := finite(n)
	zero, divides := at(n, byZero), n.Operator == "/"
	return derived(value.Number, func(row *value.Row) (float64, *Error) {
		v, err := left(row)
		if err != nil {
			return 0, err
		}
		w, err := right(row)
		if err != nil {
			return 0, err
		}
		if divides && w == 0 {
			return 0, zero
		}
		r := f(v, w)
		if !value.Finite(r) {
			return 0, check(r)
		}
		return r, nil
	}, a, b)
}

// finite returns a function that returns the error for a result that is not finite, or nil.
func finite(node ast.Node) func(float64) *Error {
	infinite, nan := at(node, numberRange), at(node, notANumber)
	return func(r float64) *Error {
		if math.IsNaN(r) {
			return nan
		}
		return infinite
	}
}

// search compiles contains, startsWith, endsWith and matches.
func search(n *ast.BinaryNode, a, b operand) (operand, *Error) {
	for _, o := range []operand{a, b} {
		if o.typ.Kind != value.String {
			e := &Error{Column: o.column(), Message: fmt.Sprintf("%s takes strings, not %s", n.Operator, o.typ.Kind)}
			if o.typ.Kind == value.List|value.String {
				e.Hint = "write x in " + o.text()
			}
			return operand{}, e
		}
	}
	var f func(s, part string) bool
	switch n.Operator {
	case "contains":
		f = strings.Contains
	case "startsWith":
		f = strings.HasPrefix
	case "endsWith":
		f = strings.HasSuffix
	default:
		re, err := pattern(n.Operator, b)
		if err != nil {
			return operand{}, err
		}
		f = func(s, _ string) bool { return re.MatchString(s) }
	}
	return both(value.Bool, a, b, func(s, part string) (bool, bool) { return f(s, part), true }, nil)
}

// in compiles x in [literals].
func (c *compiler) in(n *ast.BinaryNode) (operand, *Error) {
	x, err := c.present(n.Left)
	if err != nil {
		return operand{}, err
	}
	list, ok := n.Right.(*ast.ArrayNode)
	if !ok {
		return c.inList(n, x)
	}
	elements := make([]operand, len(list.Nodes))
	for i, node := range list.Nodes {
		if elements[i], err = c.present(node); err != nil {
			return operand{}, err
		}
		e := &elements[i]
		*e = e.promoted(x.typ.Kind)
		switch {
		case !e.literal && listable(e.typ.Kind):
			return c.inList(n, x)
		case e.typ.Kind != x.typ.Kind:
			return operand{}, &Error{Column: e.column(), Message: fmt.Sprintf("in compares values of one type, not %s and %s", x.typ.Kind, e.typ.Kind), Hint: conversion(x, *e)}
		}
	}
	switch f := x.fn.(type) {
	case eval[bool]:
		return among(f, x, elements)
	case eval[int64]:
		return among(f, x, elements)
	case eval[float64]:
		return among(f, x, elements)
	default:
		return among(f.(eval[string]), x, elements)
	}
}

func among[T comparable](f eval[T], x operand, elements []operand) (operand, *Error) {
	list := make([]T, len(elements))
	for i, e := range elements {
		list[i], _ = e.fn.(eval[T])(nil)
	}
	return derived(value.Bool, func(row *value.Row) (bool, *Error) {
		v, err := f(row)
		return slices.Contains(list, v), err
	}, x)
}
