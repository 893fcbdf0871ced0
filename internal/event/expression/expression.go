// Package expression compiles the expressions of a pipeline and evaluates them over the typed slots
// of a row. Syntax and semantics are those of expr-lang. The types are stricter, and every result
// depends only on the row.
//
// Types. The only implicit conversion is from int to number: in arithmetic, comparisons, min and
// max, and for literal ints wherever a number is needed. The branches of ?: have one type, and so
// have both sides of ??. A value that may be absent must pass ?? before any other use.
//
// Errors. Arithmetic never yields NaN, an infinity or a wrapped int. Division by zero and results
// out of range are errors of the evaluation.
//
// Operators: + - * / % ** (or ^), == != < <= > >=, && || ! (or and, or, not), ?:, ??, in and not in
// with a list or map, contains, startsWith, endsWith, matches with a literal regular expression
// (RE2), table[key], list[n], map[key]. Groups lists the functions.
package expression

import (
	"fmt"
	"maps"
	"slices"
	"unicode/utf8"

	"github.com/afterbay/afterbay/internal/event/value"
	"github.com/expr-lang/expr/ast"
)

// Limits of one expression.
const (
	MaxBytes = 4096 // bytes of its text
	MaxDepth = 256  // nesting of operators
	MaxNodes = 4096 // names, literals, operators and calls; a < b < c counts b twice
)

// Names resolves the names that an expression reads. A name may have dots, as in meta.offset.
type Names interface {
	Slot(name string) (value.Slot, bool)
	Constant(name string) (Constant, bool)
	Known() []string // all names, for suggestions
}

// Constant is a named scalar, or a table from string to scalars of one kind, read as table[key] ??
// otherwise. A scalar is bool, int64, float64 or string. A table of ints and numbers is a table of
// numbers.
type Constant struct {
	Value any // nil if Table is set
	Table map[string]any
}

// Error describes an error in an expression, or in its evaluation.
type Error struct {
	Column  int    // in characters from 1; 0 if the error has no position
	Message string // the error
	Hint    string // what to do next; may be empty

	Name string     // a name with the wrong type; "" for any other error
	Want value.Kind // the type that the expression needs Name to have
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

// absent is returned by the evaluation of an optional value that is absent.
var absent = &Error{Message: "the value is absent"}

// eval is a compiled expression of one type. Its errors are created at load, so evaluation
// allocates memory only for text that it composes.
type eval[T any] func(row *value.Row) (T, *Error)

// Program is a compiled expression. It is immutable and safe for concurrent use.
type Program struct {
	operand
	uses []string

	// The evaluation for each kind. Literal ints also set number.
	bool   eval[bool]
	int    eval[int64] // for int and time
	number eval[float64]
	text   eval[string] // for string and bytes
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

// NamesIn returns the names of slots and constants in an expression, in no order. It returns nil if
// the text is no valid expression.
func NamesIn(source string) []string {
	tree, _, err := parse(source)
	if err != nil {
		return nil
	}
	names := written{}
	ast.Walk(&tree, names)
	return slices.Collect(maps.Values(names))
}

// written maps the nodes of a tree to the names that they write.
type written map[ast.Node]string

// Visit implements ast.Visitor. It visits children before their parent, and they are part of its
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

// Uses returns the names of the slots that the expression reads, in the order of their first use.
func (p *Program) Uses() []string { return slices.Clone(p.uses) }

// Name returns the name of a slot if the expression consists only of that name.
func (p *Program) Name() (name string, ok bool) {
	name, ok = dotted(p.node)
	return name, ok && len(p.uses) == 1 && p.uses[0] == name
}

// Fits returns the reason why the result cannot be stored in a slot of type t, or nil. The types
// must be the same, with two exceptions. An optional slot accepts a result that is not optional. A
// number slot accepts a result chosen among literal ints.
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

// Number evaluates an expression of kind number, or one chosen among literal ints.
func (p *Program) Number(row *value.Row) (float64, error) {
	return run(p, p.number, value.Number, row)
}

// Text evaluates an expression of kind string or bytes. The result may alias the row's text.
func (p *Program) Text(row *value.Row) (string, error) { return run(p, p.text, value.String, row) }

// run evaluates f, which is nil if p has another kind. An absent result is an error.
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

// Store evaluates the expression into a slot of a fitting type. An absent result clears the slot.
// On an error the slot stays unchanged; a text larger than value.Row.Make accepts is an error.
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

// alike reports whether two operands have the same type, ignoring optional.
func (o operand) alike(other operand) bool {
	return o.typ.Kind == other.typ.Kind && o.typ.Size == other.typ.Size
}

// kind returns the type as the file writes it, without optional.
func (o operand) kind() string { return value.Type{Kind: o.typ.Kind, Size: o.typ.Size}.String() }

// operand is a compiled part of an expression.
type operand struct {
	typ     value.Type
	fn      any            // eval of bool, int64 (int, time), float64 or string (string, bytes), by typ.Kind
	literal bool           // the value is known at load
	loose   bool           // a literal, or a choice of literals by ?:
	known   bool           // an optional name that a condition proves to be present here
	parts   []eval[string] // the texts that a chain of + concatenates; nil for any other operand
	node    ast.Node
	each    *lambda // for the body of a lambda
	written string  // text of the expression, if node prints differently
}

// column returns the column where the operand starts.
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

// mistyped notes in e that o has the wrong type, if o is only a name.
func (e *Error) mistyped(o operand, want value.Kind) *Error {
	if name, ok := dotted(o.node); ok && !o.literal {
		e.Name, e.Want = name, want
	}
	return e
}

// mayBeAbsent returns the error for using an optional operand.
func (o operand) mayBeAbsent() *Error {
	return &Error{Column: o.column(), Message: o.text() + " may be absent", Hint: "write a default: " + o.text() + " ?? ..."}
}

// promoted converts a loose int to a number if kind is Number. It returns any other operand
// unchanged.
func (o operand) promoted(kind value.Kind) operand {
	if o.loose && o.typ.Kind == value.Int && kind == value.Number {
		return o.number()
	}
	return o
}

// number converts an operand of kind int or number to a number.
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

// fixed returns the evaluation of a literal.
func fixed[T any](v T) eval[T] { return func(*value.Row) (T, *Error) { return v, nil } }
