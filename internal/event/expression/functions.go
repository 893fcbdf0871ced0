package expression

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/afterbay/afterbay/internal/event/value"
	"github.com/expr-lang/expr/ast"
)

// functions are the names that a call may have.
var functions = []string{"abs", "ceil", "exp", "float", "floor", "hash", "int", "join", "len", "log", "lower", "max", "min", "round", "split", "string", "trim", "upper"}

// Functions returns the names that a call may have.
func Functions() []string { return slices.Clone(functions) }

// refused are functions of expr with the reason why they are none of ours.
var refused = map[string]string{
	"now": "its result differs from run to run", "date": "it reads the time zones of the machine", "timezone": "it reads the time zones of the machine",
	"keys": "maps have no order", "values": "maps have no order", "toPairs": "maps have no order",
	"all": "it takes a lambda", "none": "it takes a lambda", "any": "it takes a lambda", "one": "it takes a lambda", "filter": "it takes a lambda",
	"map": "it takes a lambda", "find": "it takes a lambda", "findIndex": "it takes a lambda", "findLast": "it takes a lambda",
	"findLastIndex": "it takes a lambda", "count": "it takes a lambda", "sum": "it takes a lambda", "groupBy": "it takes a lambda",
	"sortBy": "it takes a lambda", "reduce": "it takes a lambda",
}

// call compiles a function.
func (c *compiler) call(node ast.Node, name string, arguments []ast.Node) (operand, *Error) {
	if reason, ok := refused[name]; ok {
		return operand{}, at(node, fmt.Sprintf("%s is not supported: %s", name, reason))
	}
	if !slices.Contains(functions, name) {
		e := at(node, "unknown function "+name)
		e.Hint = "the functions are " + strings.Join(functions, ", ")
		if near := Nearest(name, functions); near != "" {
			e.Hint = "did you mean " + near + "?"
		}
		return operand{}, e
	}
	several, two := name == "min" || name == "max", name == "join" || name == "split"
	switch {
	case several && len(arguments) < 2:
		return operand{}, at(node, fmt.Sprintf("%s takes at least two arguments, not %d", name, len(arguments)))
	case name == "join" && len(arguments) != 2:
		return operand{}, at(node, fmt.Sprintf("join takes a list of strings and what goes between them, not %d arguments", len(arguments)))
	case name == "split" && len(arguments) != 2:
		return operand{}, at(node, fmt.Sprintf("split takes a string and what separates its parts, not %d arguments", len(arguments)))
	case name == "hash" && len(arguments) != 1 && len(arguments) != 2:
		return operand{}, at(node, fmt.Sprintf("hash takes a value and maybe a salt, not %d arguments", len(arguments)))
	case !several && !two && name != "hash" && len(arguments) != 1:
		return operand{}, at(node, fmt.Sprintf("%s takes one argument, not %d", name, len(arguments)))
	}
	xs := make([]operand, len(arguments))
	for i, argument := range arguments {
		var err *Error
		if xs[i], err = c.present(argument); err != nil {
			return operand{}, err
		}
	}
	if several {
		return extreme(name, xs)
	}
	switch name {
	case "hash":
		return hashed(xs)
	case "join":
		return join(node, xs[0], xs[1])
	case "split":
		return split(node, xs[0], xs[1])
	}
	return function(node, name, xs[0])
}

// function compiles a function of one argument.
func function(node ast.Node, name string, x operand) (operand, *Error) {
	kind := x.typ.Kind
	switch name {
	case "string":
		return toString(x)
	case "int":
		return toInt(node, x)
	case "float":
		return toFloat(node, x)
	case "len":
		if kind == value.Bytes {
			return mapped(value.Int, x, func(s string) (int64, bool) { return int64(len(s)), true }, nil)
		}
		if kind == value.String {
			return mapped(value.Int, x, func(s string) (int64, bool) { return int64(utf8.RuneCountInString(s)), true }, nil)
		}
		if kind == value.Strings {
			return mapped(value.Int, x, func(s string) (int64, bool) { return int64(count(s)), true }, nil)
		}
		return operand{}, wrong(name, "a string, bytes or a list of strings", x)
	case "lower", "upper", "trim":
		if kind != value.String {
			e := wrong(name, "a string", x)
			e.Hint = convert(x, value.String)
			return operand{}, e.mistyped(x, value.String)
		}
		switch name {
		case "lower":
			return cased(node, x, strings.ToLower, unicode.ToLower)
		case "upper":
			return cased(node, x, strings.ToUpper, unicode.ToUpper)
		}
		return mapped(value.String, x, func(s string) (string, bool) { return strings.TrimSpace(s), true }, nil)
	}
	if kind != value.Int && kind != value.Number {
		e := wrong(name, "an int or a number", x)
		if x.typ.Kind == value.String {
			e.Hint = "use float(" + x.text() + ")"
			e.mistyped(x, value.Number)
		}
		return operand{}, e
	}
	if name == "abs" && kind == value.Int {
		return mapped(value.Int, x, func(v int64) (int64, bool) { return max(v, -v), v != math.MinInt64 }, at(node, intRange))
	}
	f := map[string]func(float64) float64{"abs": math.Abs, "round": math.Round, "floor": math.Floor, "ceil": math.Ceil, "log": log, "exp": exp}[name]
	fault := at(node, numberRange)
	if name == "log" {
		fault = at(node, "the logarithm of a number that is not above 0")
	}
	return mapped(value.Number, x.number(), func(v float64) (float64, bool) { r := f(v); return r, value.Finite(r) }, fault)
}

// wrong is the error of an argument.
func wrong(name, want string, x operand) *Error {
	return &Error{Column: x.column(), Message: fmt.Sprintf("%s takes %s, not %s", name, want, x.typ.Kind)}
}

// mapped applies f, which is not ok at the fault.
func mapped[T, R any](kind value.Kind, x operand, f func(T) (R, bool), fault *Error) (operand, *Error) {
	get := x.fn.(eval[T])
	return derived(kind, func(row *value.Row) (r R, err *Error) {
		v, err := get(row)
		if err != nil {
			return r, err
		}
		r, ok := f(v)
		if !ok {
			return r, fault
		}
		return r, nil
	}, x)
}

// toString compiles string(x): as JSON writes it, without quotes.
func toString(x operand) (operand, *Error) {
	switch x.typ.Kind {
	case value.String:
		return x, nil
	case value.Bool:
		return mapped(value.String, x, func(v bool) (string, bool) { return strconv.FormatBool(v), true }, nil)
	case value.Int:
		return mapped(value.String, x, func(v int64) (string, bool) { return strconv.FormatInt(v, 10), true }, nil)
	case value.Number:
		return mapped(value.String, x, func(v float64) (string, bool) { return string(appendNumber(nil, v)), true }, nil)
	case value.Time:
		return mapped(value.String, x, func(v int64) (string, bool) { return time.UnixMicro(v).UTC().Format(timeLayout), true }, nil)
	}
	return operand{}, wrong("string", "a bool, int, number, time or string", x)
}

// toInt compiles int(x): a number is cut towards zero, a time becomes
// microseconds since 1970 UTC.
func toInt(node ast.Node, x operand) (operand, *Error) {
	switch x.typ.Kind {
	case value.Int:
		return x, nil
	case value.Time:
		return mapped(value.Int, x, func(v int64) (int64, bool) { return v, true }, nil)
	case value.Number:
		// -2^63 is a float64 and 2^63-1 is not.
		return mapped(value.Int, x, func(v float64) (int64, bool) {
			if v < -1<<63 || v >= 1<<63 {
				return 0, false
			}
			return int64(v), true
		}, at(node, intRange))
	case value.String:
		return mapped(value.Int, x, func(s string) (int64, bool) {
			v, err := strconv.ParseInt(s, 10, 64)
			return v, err == nil
		}, at(node, "the string is not an int"))
	}
	return operand{}, wrong("int", "an int, number, time or string", x)
}

// toFloat compiles float(x).
func toFloat(node ast.Node, x operand) (operand, *Error) {
	switch x.typ.Kind {
	case value.Int, value.Number:
		return x.number(), nil
	case value.String:
		return mapped(value.Number, x, func(s string) (float64, bool) {
			v, err := strconv.ParseFloat(s, 64)
			return v, err == nil && value.Finite(v)
		}, at(node, "the string is not a number"))
	}
	return operand{}, wrong("float", "an int, number or string", x)
}

// extreme compiles min and max.
func extreme(name string, xs []operand) (operand, *Error) {
	kind := value.Int
	for _, x := range xs {
		switch x.typ.Kind {
		case value.Int:
		case value.Number:
			kind = value.Number
		default:
			e := wrong(name, "ints or numbers", x)
			if x.typ.Kind == value.String {
				e.Hint = "use float(" + x.text() + ")"
				e.mistyped(x, value.Number)
			}
			return operand{}, e
		}
	}
	if kind == value.Int {
		return extremeOf[int64](name, kind, xs)
	}
	for i := range xs {
		xs[i] = xs[i].number()
	}
	return extremeOf[float64](name, kind, xs)
}

func extremeOf[T int64 | float64](name string, kind value.Kind, xs []operand) (operand, *Error) {
	largest := name == "max"
	fs := make([]eval[T], len(xs))
	for i, x := range xs {
		fs[i] = x.fn.(eval[T])
	}
	return derived(kind, func(row *value.Row) (T, *Error) {
		best, err := fs[0](row)
		for _, f := range fs[1:] {
			if err != nil {
				return best, err
			}
			var v T
			if v, err = f(row); v != best && (v > best) == largest {
				best = v
			}
		}
		return best, err
	}, xs...)
}
