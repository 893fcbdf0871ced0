package expression

import "github.com/expr-lang/expr/ast"

// knowing compiles a node that is evaluated only if a condition has an outcome. Names that are
// never absent in that case need no ??.
func (c *compiler) knowing(condition ast.Node, outcome bool, compile func(ast.Node) (operand, *Error), node ast.Node) (operand, *Error) {
	before := len(c.known)
	c.known = c.compared(c.known, condition, outcome)
	o, err := compile(node)
	c.known = c.known[:before]
	return o, err
}

// compared appends the names that are not null if a condition has an outcome.
func (c *compiler) compared(known []string, condition ast.Node, outcome bool) []string {
	switch n := condition.(type) {
	case *ast.UnaryNode:
		if n.Operator == "!" || n.Operator == "not" {
			return c.compared(known, n.Node, !outcome)
		}
	case *ast.BinaryNode:
		switch {
		case outcome && (n.Operator == "&&" || n.Operator == "and"), !outcome && (n.Operator == "||" || n.Operator == "or"):
			return c.compared(c.compared(known, n.Left, outcome), n.Right, outcome)
		case outcome && n.Operator == "!=", !outcome && n.Operator == "==":
			for _, sides := range [][2]ast.Node{{n.Left, n.Right}, {n.Right, n.Left}} {
				if name, ok := dotted(sides[0]); ok && c.isNull(sides[1]) {
					known = append(known, name)
				}
			}
		}
	}
	return known
}
