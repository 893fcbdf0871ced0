package expression

import (
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/afterbay/afterbay/internal/event/value"
	"github.com/expr-lang/expr/ast"
)

// bound refuses texts that an expression must not make. Each operator and function
// that composes a text asks for its size first. The digits of string(x) are few, and
// a part of a text takes no memory: they do not ask.
type bound struct{ node ast.Node }

// take asks for the memory of a text.
func (b bound) take(row *value.Row, size int) *Error { return b.of(row.Compose(size)) }

// of returns an error of package value with the expression that it is of.
func (b bound) of(err error) *Error {
	if err == nil {
		return nil
	}
	o := operand{node: b.node}
	return &Error{Column: o.column(), Message: fmt.Sprintf("%s: %v", o.text(), err)}
}

// concatenation compiles + of strings. A chain of + composes its text once.
func concatenation(n *ast.BinaryNode, a, b operand) (operand, *Error) {
	var parts []eval[string]
	for _, side := range []operand{a, b} {
		if side.parts != nil {
			parts = append(parts, side.parts...)
		} else {
			parts = append(parts, side.fn.(eval[string]))
		}
	}
	limit := bound{n}
	o, err := derived(value.String, func(row *value.Row) (string, *Error) {
		var few [8]string
		texts, size := few[:0], 0
		for _, part := range parts {
			s, err := part(row)
			if err != nil {
				return "", err
			}
			if s != "" {
				texts, size = append(texts, s), size+len(s)
			}
		}
		if len(texts) == 1 {
			return texts[0], nil
		}
		if err := limit.take(row, size); err != nil {
			return "", err
		}
		whole := make([]byte, 0, size)
		for _, s := range texts {
			whole = append(whole, s...)
		}
		return value.Text(whole), nil
	}, a, b)
	if !o.literal {
		o.parts = parts
	}
	return o, err
}

// cased compiles lower and upper, which are f of a text and each of a rune. Some runes
// have more bytes in the other case.
func cased(node ast.Node, x operand, f func(string) string, each func(rune) rune) (operand, *Error) {
	get, limit := x.fn.(eval[string]), bound{node}
	return derived(value.String, func(row *value.Row) (string, *Error) {
		s, err := get(row)
		if err != nil {
			return "", err
		}
		size := len(s)
		if size > value.TextMax/utf8.UTFMax {
			size = 0
			for _, r := range s {
				size += utf8.RuneLen(each(r))
			}
		}
		if err := limit.take(row, size); err != nil {
			return "", err
		}
		return f(s), nil
	}, x)
}

// count returns how many strings a list has.
func count(list string) (n int) {
	for range value.EachString(list) {
		n++
	}
	return n
}

// join compiles join(list, between): the strings one behind the other.
func join(node ast.Node, list, between operand) (operand, *Error) {
	if list.typ.Kind != value.Strings {
		return operand{}, wrong("join", "a list of strings", list)
	}
	if between.typ.Kind != value.String {
		return operand{}, wrong("join", "a string between those of its list", between)
	}
	get, separator, limit := list.fn.(eval[string]), between.fn.(eval[string]), bound{node}
	return derived(value.String, func(row *value.Row) (string, *Error) {
		text, err := get(row)
		if err != nil {
			return "", err
		}
		with, err := separator(row)
		if err != nil {
			return "", err
		}
		size := -len(with) // none before the first
		for s := range value.EachString(text) {
			size += len(with) + len(s)
		}
		if err := limit.take(row, max(size, 0)); err != nil || size <= 0 {
			return "", err
		}
		whole, between := make([]byte, 0, size), ""
		for s := range value.EachString(text) {
			whole, between = append(append(whole, between...), s...), with
		}
		return value.Text(whole), nil
	}, list, between)
}

// split compiles split(text, separator): the list of its parts.
func split(node ast.Node, text, separator operand) (operand, *Error) {
	for _, x := range []operand{text, separator} {
		if x.typ.Kind != value.String {
			return operand{}, wrong("split", "a string and a string that separates its parts", x)
		}
	}
	get, by, limit := text.fn.(eval[string]), separator.fn.(eval[string]), bound{node}
	return derived(value.Strings, func(row *value.Row) (string, *Error) {
		whole, err := get(row)
		if err != nil {
			return "", err
		}
		with, err := by(row)
		if err != nil {
			return "", err
		}
		size := 0
		for part := range strings.SplitSeq(whole, with) {
			size += value.StringBytes(part)
		}
		if err := limit.take(row, size); err != nil {
			return "", err
		}
		list := make([]byte, 0, size)
		for part := range strings.SplitSeq(whole, with) {
			list = value.AppendString(list, part)
		}
		return value.Text(list), nil
	}, text, separator)
}
