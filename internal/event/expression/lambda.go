package expression

import (
	"fmt"
	"strings"

	"github.com/afterbay/afterbay/internal/event/value"
	"github.com/expr-lang/expr/ast"
	"github.com/expr-lang/expr/parser/lexer"
)

// A lambda is written x -> x + "s". For the parser the element is #, which would begin a comment in
// YAML. Before parsing, spaces therefore replace the arrow and the name before it, and a # replaces
// the name in the body. Each character keeps its position.

// arrowAt reports whether a lambda begins at a token.
func arrowAt(tokens []lexer.Token, i int) bool {
	return i+2 < len(tokens) && tokens[i].Kind == lexer.Identifier && tokens[i+1].Is(lexer.Operator, "-") && tokens[i+2].Is(lexer.Operator, ">")
}

// lambdas returns the source for the parser, and the names of the elements of its lambdas.
func lambdas(source string, tokens []lexer.Token) (plain string, elements []lexer.Token, err *Error) {
	if !strings.Contains(source, ">") {
		return source, nil, nil
	}
	runes := []rune(source)
	for i := range tokens {
		if !arrowAt(tokens, i) {
			continue
		}
		place := tokens[i].From + 1
		if i == 0 || !tokens[i-1].Is(lexer.Operator, ",") {
			return "", nil, &Error{Column: place, Message: "a lambda must follow a list", Hint: "write any(list, x -> ...)"}
		}
		elements = append(elements, tokens[i])
		blank(runes, tokens[i].From, tokens[i+2].To)
		depth := 0
		for j := i + 3; j < len(tokens) && depth >= 0; j++ {
			switch t := tokens[j]; {
			case depth == 0 && t.Is(lexer.Operator, ","):
				depth = -1
			case depth > 0 && arrowAt(tokens, j):
				return "", nil, nested(t.From + 1)
			case t.Is(lexer.Bracket, "(", "[", "{"):
				depth++
			case t.Kind == lexer.Bracket:
				depth--
			case t.Is(lexer.Identifier, tokens[i].Value) && !tokens[j-1].Is(lexer.Operator, ".") && !tokens[j+1].Is(lexer.Bracket, "("):
				blank(runes, t.From, t.To)
				runes[t.From] = '#'
			}
		}
	}
	return string(runes), elements, nil
}

func blank(runes []rune, from, to int) {
	for i := from; i < min(to, len(runes)); i++ {
		runes[i] = ' '
	}
}

func nested(column int) *Error {
	return &Error{Column: column, Message: "a lambda within a lambda is not supported", Hint: "introduce a name for one of them with a let step"}
}

// shadows reports an element of a lambda that has the name of something else.
func shadows(elements []lexer.Token, names Names) *Error {
	for _, t := range elements {
		_, slot := names.Slot(t.Value)
		if _, constant := names.Constant(t.Value); slot || constant {
			return &Error{Column: t.From + 1, Message: fmt.Sprintf("%s is introduced already: a pipeline has one namespace, without shadowing", t.Value), Hint: "give the element of the list another name"}
		}
	}
	return nil
}

// Limits of a lambda.
const (
	ItemsMax     = 1000     // elements of its list
	itemsReadMax = 64 << 20 // bytes of text that it reads, for all elements together
)

// lambda is an expression over each element of a list.
type lambda struct {
	of    value.Kind // kind of the elements
	reads []value.Slot
}

// lambda compiles the body of a lambda over a list.
func (c *compiler) lambda(n *ast.PredicateNode, name string, list operand) (operand, *Error) {
	if !list.typ.Kind.IsList() {
		return operand{}, wrong(name, "a list", list)
	}
	if c.within != nil {
		return operand{}, nested(column(n.Node))
	}
	c.within = &lambda{of: list.typ.Kind.Element()}
	defer func() { c.within = nil }()
	body, err := c.present(n.Node)
	body.each, body.literal, body.loose = c.within, false, false
	return body, err
}

// item compiles the element of a lambda.
func (c *compiler) item(n *ast.PointerNode) (operand, *Error) {
	if c.within == nil || n.Name != "" {
		return operand{}, &Error{Column: column(n), Message: "there is no list here"}
	}
	o := ofElement(c.within.of, func(row *value.Row) (value.Element, *Error) { return row.Item, nil })
	o.written = "the element"
	return o, nil
}
