package expression

import (
	"fmt"

	"github.com/afterbay/afterbay/internal/event/value"
	"github.com/expr-lang/expr/ast"
)

// bound limits the texts that an expression makes. Each operator and function that composes a text
// asks for its size first. Two do not ask: string(x), because it has few digits, and a part of a
// text, because it takes no memory.
type bound struct{ node ast.Node }

// take asks for the memory of a text.
func (b bound) take(row *value.Row, size int) *Error { return b.of(row.Compose(size)) }

// grow appends an element of a kind to a list, within the size limit of a text.
func (b bound) grow(row *value.Row, list []byte, of value.Kind, e value.Element) ([]byte, *Error) {
	size := value.ElementBytes(of, e)
	if len(list)+size > value.TextMax {
		return list, b.of(&value.Excess{Size: len(list) + size})
	}
	return value.AppendElement(list, of, e), b.take(row, size)
}

// of adds the position of the expression to an error of package value.
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
