// Package expression compiles and evaluates the expressions of a pipeline over
// the typed slots of a row. The syntax and its meaning are expr-lang's; the
// types are stricter and every result depends on the row alone.
//
// Types. There is no implicit conversion but from int to number, in arithmetic,
// comparisons, min and max, and of literal ints wherever a number is wanted. The
// branches of ?: and both sides of ?? have one type. A value that may be absent
// must pass ?? before anything else uses it.
//
// Errors. Arithmetic never yields NaN, an infinity or a wrapped int: division by
// zero and every result out of range are errors of the evaluation.
//
// Operators: + - * / % ** (or ^), == != < <= > >=, && || ! (or and, or, not),
// ?:, ??, in and not in with a list or map, contains, startsWith, endsWith,
// matches with a literal regular expression (RE2), table[key], list[n], map[key]. Functions are
// those of Groups.
package expression

import (
	"fmt"
	"maps"
	"slices"
	"unicode/utf8"

	"github.com/afterbay/afterbay/internal/event/value"
	"github.com/expr-lang/expr/ast"
)

// Bounds of one expression.
const (
	MaxBytes = 4096 // of its text
	MaxDepth = 256  // of operators inside operators
	MaxNodes = 4096 // names, literals, operators and calls, where a < b < c counts b twice
)

// Names resolves what an expression reads. A name may have dots, as in
// meta.offset.
type Names interface {
	Slot(name string) (value.Slot, bool)
	Constant(name string) (Constant, bool)
	Known() []string // every name, for suggestions
}

// Constant is a named scalar, or a table from string to scalars of one kind that
// is read as table[key] ?? otherwise. A scalar is bool, int64, float64 or string;
// a table of ints and numbers is one of numbers.
type Constant struct {
	Value any // nil where Table is set
	Table map[string]any
}

// Error says what is wrong with an expression, or with its evaluation.
type Error struct {
	Column  int    // in characters from 1; 0 where no place is at fault
	Message string // what is wrong
	Hint    string // what to do next; may be empty

	Name string     // that has another type than the expression wants; "" where that is not what is wrong
	Want value.Kind // the type that is wanted of Name
}

// Error returns column, message and hint.
func (e *Error) Error() string {
	text := e.Message
	if e.Column > 0 {
		text = fmt.Sprintf("column %d: %s", e.Column, text)
	}
	if e.Hint != "" {
		text += " (" + e.Hint + ")"
	}
	return text
}

// absent is how the evaluation of an optional value says that there is none.
var absent = &Error{Message: "the value is absent"}

// eval is a compiled expression of one type. Its errors are made at load, so
// that evaluation allocates nothing but text that it composes.
type eval[T any] func(row *value.Row) (T, *Error)

// Program is a compiled expression. It does not change and is safe for
// concurrent use.
type Program struct {
	operand
	uses []string

	// The evaluation, by kind. Ints that are literals have a number too.
	bool   eval[bool]
	int    eval[int64] // int and time
	number eval[float64]
	text   eval[string] // string and bytes
}

// Compile checks an expression against names and compiles it.
func Compile(source string, names Names) (*Program, *Error) {
	tree, elements, err := parse(source)
	if err == nil {
		err = shadows(elements, names)
	}
	if err != nil {
		return nil, err
	}
	c := &compiler{names: names}
	o, err := c.compile(tree)
	if err != nil {
		return nil, err
	}
	p := &Program{operand: o, uses: c.uses}
	p.bool, _ = o.fn.(eval[bool])
	p.int, _ = o.fn.(eval[int64])
	p.number, _ = o.promoted(value.Number).fn.(eval[float64])
	p.text, _ = o.fn.(eval[string])
	return p, nil
}

// NamesIn returns the names that an expression writes, slots and constants, in no order.
// It is nil where the text is no expression.
func NamesIn(source string) []string {
	tree, _, err := parse(source)
	if err != nil {
		return nil
	}
	names := written{}
	ast.Walk(&tree, names)
	return slices.Collect(maps.Values(names))
}

// written has the names of a tree, by the nodes that write them.
type written map[ast.Node]string

// Visit implements ast.Visitor. A node comes after those under it, which are part of its
// name.
func (w written) Visit(n *ast.Node) {
	name, ok := dotted(*n)
	if call, is := (*n).(*ast.CallNode); is {
		delete(w, call.Callee)
	} else if member, is := (*n).(*ast.MemberNode); is && ok {
		delete(w, member.Node)
	}
	if ok {
		w[*n] = name
	}
}

// Type returns the type of the result.
func (p *Program) Type() value.Type { return p.typ }

// Uses returns the names of the slots that the expression reads, in the order of
// their first use.
func (p *Program) Uses() []string { return slices.Clone(p.uses) }

// Name returns the name of the slot whose value the expression is, where it is
// no more than that.
func (p *Program) Name() (name string, ok bool) {
	name, ok = dotted(p.node)
	return name, ok && len(p.uses) == 1 && p.uses[0] == name
}

// Fits returns why the result cannot be stored in a slot of type t, or nil. Its
// type must be the slot's, except that the slot may be optional where the
// result is not, and that a result chosen among literal ints fits a number.
func (p *Program) Fits(t value.Type) *Error {
	if wanted := (operand{typ: t}); !wanted.alike(p.operand) && !(t.Kind == value.Number && p.number != nil) {
		e := &Error{Column: 1, Message: fmt.Sprintf("want %s, got %s", wanted.kind(), p.kind())}
		if f := converter(p.typ.Kind, t.Kind); f != "" {
			e.Hint = "convert with " + f + "(...)"
		}
		return e
	}
	if p.typ.Optional && !t.Optional {
		return p.mayBeAbsent()
	}
	return nil
}

// Bool evaluates an expression of kind bool.
func (p *Program) Bool(row *value.Row) (bool, error) { return run(p, p.bool, value.Bool, row) }

// Int evaluates an expression of kind int or time.
func (p *Program) Int(row *value.Row) (int64, error) { return run(p, p.int, value.Int, row) }

// Number evaluates an expression of kind number, or one chosen among literal
// ints.
func (p *Program) Number(row *value.Row) (float64, error) {
	return run(p, p.number, value.Number, row)
}

// Text evaluates an expression of kind string or bytes. The result may alias the
// row's text.
func (p *Program) Text(row *value.Row) (string, error) { return run(p, p.text, value.String, row) }

// run evaluates f, which is nil where p has another kind. An absent result is an
// error.
func run[T any](p *Program, f eval[T], want value.Kind, row *value.Row) (v T, _ error) {
	if f == nil {
		return v, p.Fits(value.Type{Kind: want, Optional: true})
	}
	row.Begin()
	v, err := f(row)
	if err != nil {
		return v, err
	}
	return v, nil
}

// Store evaluates the expression into a slot that its result fits. A result that
// is absent clears the slot. On an error the slot is as it was: also where the text is
// larger than value.Row.Make takes.
func (p *Program) Store(row *value.Row, slot value.Slot) error {
	if err := p.Fits(slot.Type); err != nil {
		return err
	}
	row.Begin()
	var err *Error
	switch slot.Type.Kind {
	case value.Bool:
		var v bool
		if v, err = p.bool(row); err == nil {
			row.SetBool(slot, v)
		}
	case value.Number:
		var v float64
		if v, err = p.number(row); err == nil {
			row.SetNumber(slot, v)
		}
	case value.Int, value.Time:
		var v int64
		if v, err = p.int(row); err == nil {
			row.SetInt(slot, v)
		}
	default:
		var v string
		if v, err = p.text(row); err == nil {
			err = bound{p.node}.of(row.Make(&slot, v))
		}
	}
	switch err {
	case nil:
		return nil
	case absent:
		row.Clear(slot)
		return nil
	}
	return err
}

// alike reports whether values of two operands are of one type.
func (o operand) alike(other operand) bool {
	return o.typ.Kind == other.typ.Kind && o.typ.Size == other.typ.Size
}

// kind returns the type as the file writes it, whether it is optional or not.
func (o operand) kind() string { return value.Type{Kind: o.typ.Kind, Size: o.typ.Size}.String() }

// operand is a compiled part of an expression.
type operand struct {
	typ     value.Type
	fn      any            // eval of bool, int64 (int, time), float64 or string (string, bytes), by typ.Kind
	literal bool           // known at load
	loose   bool           // a literal, or one of several by ?:
	known   bool           // a name that may be absent, but not here: a condition before it says so
	parts   []eval[string] // what + puts one behind the other; nil of anything else
	node    ast.Node
	each    *lambda // of the body of a lambda
	written string  // as an expression, where node prints otherwise
}

// column returns where the operand starts.
func (o operand) column() int { return column(o.node) }

// text returns the operand as an expression, for messages.
func (o operand) text() string {
	s := o.written
	if s == "" {
		s = o.node.String()
	}
	if utf8.RuneCountInString(s) > 40 {
		return string([]rune(s)[:37]) + "..."
	}
	return s
}

// mistyped notes in e that o has another type than is wanted, where o is a name alone.
func (e *Error) mistyped(o operand, want value.Kind) *Error {
	if name, ok := dotted(o.node); ok && !o.literal {
		e.Name, e.Want = name, want
	}
	return e
}

// mayBeAbsent is the error of using an optional operand.
func (o operand) mayBeAbsent() *Error {
	return &Error{Column: o.column(), Message: o.text() + " may be absent", Hint: "say what then: " + o.text() + " ?? ..."}
}

// promoted returns a loose int as a number where a number is wanted, and any
// other operand as it is.
func (o operand) promoted(kind value.Kind) operand {
	if o.loose && o.typ.Kind == value.Int && kind == value.Number {
		return o.number()
	}
	return o
}

// number returns an operand of kind int or number as a number.
func (o operand) number() operand {
	f, ok := o.fn.(eval[int64])
	if !ok {
		return o
	}
	g := func(row *value.Row) (float64, *Error) {
		v, err := f(row)
		return float64(v), err
	}
	o.typ.Kind, o.fn = value.Number, eval[float64](g)
	if o.literal {
		v, _ := g(nil)
		o.fn = fixed(v)
	}
	return o
}

// fixed is the evaluation of a literal.
func fixed[T any](v T) eval[T] { return func(*value.Row) (T, *Error) { return v, nil } }
