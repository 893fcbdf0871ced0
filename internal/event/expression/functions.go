package expression

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/afterbay/afterbay/internal/event/value"
	"github.com/expr-lang/expr/ast"
)

// Function is a function of expressions. The compiler reads these tables, and the reference page is
// generated from them.
type Function struct {
	Name    string
	Forms   []string // signatures: the types of its arguments and of its result
	Is      string   // the result in words
	Fails   string   // when it has no value, which makes the event a dead letter; "" if it always has one
	Example string   // an expression
	Result  string   // the value of Example as JSON

	least, most int // number of arguments; most 0 means no limit
	compile     func(call) (operand, *Error)
}

// Group holds the functions of one subject.
type Group struct {
	Title     string
	Functions []Function
}

// Groups returns all functions by their subjects.
func Groups() []Group { return slices.Clone(groups) }

var groups = []Group{
	{"Numbers", numeric},
	{"Texts", texts},
	{"Patterns", patterns},
	{"Lists and maps", lists},
	{"Times", calendar},
	{"Hashes", hashes},
	{"Conversions", conversions},
}

// functions maps names to functions.
var functions = byName()

func byName() map[string]Function {
	all := map[string]Function{}
	for _, g := range groups {
		for _, f := range g.Functions {
			all[f.Name] = f
		}
	}
	return all
}

// Functions returns the names of all functions.
func Functions() []string {
	var names []string
	for name := range functions {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

const onlyFour = "the functions of lists are any, all, filter, map, sum, mean, min and max"

// refused maps functions of expr that are not supported to the reason.
var refused = map[string]string{
	"now": "its result differs from run to run", "date": "it reads the time zones of the machine", "timezone": "it reads the time zones of the machine",
	"toPairs": "use keys(...) and values(...)",
	"none":    "use !any(...)", "one": onlyFour, "find": "use filter(...)[0]", "findIndex": onlyFour, "findLast": "use filter(...)[-1]",
	"findLastIndex": onlyFour, "count": "use len(filter(...))", "groupBy": onlyFour, "sortBy": onlyFour, "reduce": onlyFour,
}

// call is a function with its arguments.
type call struct {
	node ast.Node
	name string
	args []operand
}

// call compiles a function.
func (c *compiler) call(node ast.Node, name string, arguments []ast.Node) (operand, *Error) {
	if reason, ok := refused[name]; ok {
		return operand{}, at(node, fmt.Sprintf("%s is not supported: %s", name, reason))
	}
	f, ok := functions[name]
	if !ok {
		names := Functions()
		e := at(node, "unknown function "+name)
		e.Hint = "the functions are " + strings.Join(names, ", ")
		if near := Nearest(name, names); near != "" {
			e.Hint = "did you mean " + near + "?"
		}
		return operand{}, e
	}
	if n := len(arguments); n < f.least || f.most > 0 && n > f.most {
		e := at(node, fmt.Sprintf("%s takes %s, not %d", name, f.arity(), n))
		e.Hint = "write " + name + f.Forms[len(f.Forms)-1]
		return operand{}, e
	}
	args := make([]operand, len(arguments))
	for i, argument := range arguments {
		var err *Error
		if body, is := argument.(*ast.PredicateNode); is {
			args[i], err = c.lambda(body, name, args[0])
		} else {
			args[i], err = c.present(argument)
		}
		if err != nil {
			return operand{}, err
		}
	}
	return f.compile(call{node, name, args})
}

// arity describes how many arguments a function takes.
func (f Function) arity() string {
	switch {
	case f.most == 0:
		return fmt.Sprintf("at least %d arguments", f.least)
	case f.least < f.most:
		return fmt.Sprintf("%d or %d arguments", f.least, f.most)
	case f.least == 1:
		return "one argument"
	}
	return fmt.Sprintf("%d arguments", f.least)
}

// wrong returns the error for an argument of the wrong type.
func wrong(name, want string, x operand) *Error {
	return &Error{Column: x.column(), Message: fmt.Sprintf("%s takes %s, not %s", name, want, x.typ.Kind)}
}

// takes reports an argument that has none of the kinds.
func (c call) takes(i int, want string, kinds ...value.Kind) *Error {
	x := c.args[i]
	if slices.Contains(kinds, x.typ.Kind) {
		return nil
	}
	e := wrong(c.name, want, x)
	switch {
	case len(kinds) == 1 && kinds[0] == value.String:
		e.Hint = convert(x, value.String)
		e.mistyped(x, value.String)
	case x.typ.Kind == value.String && slices.Contains(kinds, value.Number):
		e.Hint = "use float(" + x.text() + ")"
		e.mistyped(x, value.Number)
	}
	return e
}

// fault returns an error of an evaluation that names the function and its arguments.
func (c call) fault(reason string, args ...string) *Error {
	return at(c.node, fmt.Sprintf("%s(%s): %s", c.name, strings.Join(args, ", "), reason))
}

func intText(v int64) string { return strconv.FormatInt(v, 10) }

func numberText(v float64) string { return string(appendNumber(nil, v)) }

// quoted returns the beginning of a text for a message.
func quoted(s string) string {
	const runesMax = 40
	n := 0
	for i := range s {
		if n++; n > runesMax {
			return strconv.Quote(s[:i]) + "..."
		}
	}
	return strconv.Quote(s)
}

// known returns the value of an operand that is a literal of a type.
func known[T any](o operand) (v T, ok bool) {
	f, is := o.fn.(eval[T])
	if !is || !o.literal {
		return v, false
	}
	v, err := f(nil)
	return v, err == nil
}

// mapped applies f to x. If f returns false, the evaluation fails with fault.
func mapped[T, R any](kind value.Kind, x operand, f func(T) (R, bool), fault func(T) *Error) (operand, *Error) {
	get := x.fn.(eval[T])
	return derived(kind, func(row *value.Row) (r R, err *Error) {
		v, err := get(row)
		if err != nil {
			return r, err
		}
		r, ok := f(v)
		if !ok {
			return r, fault(v)
		}
		return r, nil
	}, x)
}
