package oracle

import (
	"math"
	"math/big"
	"strconv"
	"strings"
)

// Expr is an expression: an operator or function over its arguments, the value of a name, or a
// literal.
type Expr struct {
	Kind    Kind
	Op      string // "name", "literal", else the operator or function
	Name    string
	Literal Value
	Args    []*Expr
}

func name(n string, k Kind) *Expr { return &Expr{Kind: k, Op: "name", Name: n} }

// Text returns the expression as a pipeline file writes it.
func (e *Expr) Text() string {
	switch e.Op {
	case "name":
		return e.Name
	case "literal":
		return e.literal()
	case "?:":
		return "(" + e.Args[0].Text() + " ? " + e.Args[1].Text() + " : " + e.Args[2].Text() + ")"
	case "!", "neg":
		return map[string]string{"!": "!(", "neg": "-("}[e.Op] + e.Args[0].Text() + ")"
	}
	args := make([]string, len(e.Args))
	for i, a := range e.Args {
		args[i] = a.Text()
	}
	if letter := e.Op[0]; letter >= 'a' && letter <= 'z' && e.Op != "contains" && e.Op != "startsWith" && e.Op != "endsWith" {
		return e.Op + "(" + strings.Join(args, ", ") + ")"
	}
	return "(" + strings.Join(args, " "+e.Op+" ") + ")"
}

func (e *Expr) literal() string {
	switch v := e.Literal; v.Kind {
	case Bool:
		return strconv.FormatBool(v.Bool)
	case Int:
		return strconv.FormatInt(v.Int, 10)
	case Number:
		text := strconv.FormatFloat(v.Number, 'g', -1, 64)
		if !strings.ContainsAny(text, ".e") {
			text += ".0"
		}
		return text
	default:
		return strconv.Quote(v.String)
	}
}

// eval returns the value. ok is false if it cannot be computed, which makes the event a dead
// letter.
func (e *Expr) eval(names map[string]Value) (v Value, ok bool) {
	switch e.Op {
	case "name":
		return names[e.Name], true
	case "literal":
		return e.Literal, true
	}
	first, ok := e.Args[0].eval(names)
	if !ok {
		return v, false
	}
	switch e.Op { // what does not compute all of its arguments
	case "??":
		if !first.Absent {
			return first, true
		}
		return e.Args[1].eval(names)
	case "?:":
		if first.Bool {
			return e.Args[1].eval(names)
		}
		return e.Args[2].eval(names)
	case "&&", "||":
		if first.Bool == (e.Op == "||") {
			return first, true
		}
		return e.Args[1].eval(names)
	}
	args := []Value{first}
	for _, a := range e.Args[1:] {
		v, ok := a.eval(names)
		if !ok {
			return v, false
		}
		args = append(args, v)
	}
	return e.apply(args)
}

func (e *Expr) apply(args []Value) (Value, bool) {
	switch e.Kind {
	case Bool:
		return Value{Kind: Bool, Bool: e.truth(args)}, true
	case Int:
		return e.whole(args)
	case Number:
		f, ok := e.number(args)
		return Value{Kind: Number, Number: f}, ok && !math.IsNaN(f) && !math.IsInf(f, 0)
	}
	return Value{Kind: String, String: e.words(args)}, true
}

func (e *Expr) truth(args []Value) bool {
	switch e.Op {
	case "!":
		return !args[0].Bool
	case "contains":
		return strings.Contains(args[0].String, args[1].String)
	case "startsWith":
		return strings.HasPrefix(args[0].String, args[1].String)
	case "endsWith":
		return strings.HasSuffix(args[0].String, args[1].String)
	}
	order := compare(args[0], args[1])
	switch e.Op {
	case "==":
		return order == 0
	case "!=":
		return order != 0
	case "<":
		return order < 0
	case "<=":
		return order <= 0
	case ">":
		return order > 0
	}
	return order >= 0
}

func compare(a, b Value) int {
	switch {
	case a.Kind == String:
		return strings.Compare(a.String, b.String)
	case a.Kind == Bool:
		return map[bool]int{true: 0, false: 1}[a.Bool == b.Bool]
	case a.Kind == Int && b.Kind == Int:
		return big.NewInt(a.Int).Cmp(big.NewInt(b.Int))
	}
	return big.NewFloat(a.float()).Cmp(big.NewFloat(b.float()))
}

func (v Value) float() float64 {
	if v.Kind == Int {
		return float64(v.Int)
	}
	return v.Number
}

// whole computes an int in unbounded precision. It fails if the result does not fit.
func (e *Expr) whole(args []Value) (Value, bool) {
	if e.Op == "len" {
		return Value{Kind: Int, Int: int64(len([]rune(args[0].String)))}, true
	}
	if e.Op == "int" {
		f := args[0].float()
		if !(f >= -1<<63 && f < 1<<63) {
			return Value{}, false
		}
		return Value{Kind: Int, Int: int64(f)}, true
	}
	x := big.NewInt(args[0].Int)
	y := new(big.Int)
	if len(args) > 1 {
		y.SetInt64(args[1].Int)
	}
	switch e.Op {
	case "+":
		x.Add(x, y)
	case "-":
		x.Sub(x, y)
	case "*":
		x.Mul(x, y)
	case "%":
		if y.Sign() == 0 {
			return Value{}, false
		}
		x.Rem(x, y)
	case "neg":
		x.Neg(x)
	case "abs":
		x.Abs(x)
	case "min":
		if y.Cmp(x) < 0 {
			x = y
		}
	case "max":
		if y.Cmp(x) > 0 {
			x = y
		}
	}
	return Value{Kind: Int, Int: x.Int64()}, x.IsInt64()
}

func (e *Expr) number(args []Value) (float64, bool) {
	x := args[0].float()
	y := 0.0
	if len(args) > 1 {
		y = args[1].float()
	}
	switch e.Op {
	case "+":
		return x + y, true
	case "-":
		return x - y, true
	case "*":
		return x * y, true
	case "/":
		return x / y, y != 0
	case "neg":
		return -x, true
	case "abs":
		return math.Abs(x), true
	case "floor":
		return math.Floor(x), true
	case "ceil":
		return math.Ceil(x), true
	case "round":
		return math.Round(x), true
	case "min":
		return math.Min(x, y), true
	case "max":
		return math.Max(x, y), true
	}
	return x, true // float
}

func (e *Expr) words(args []Value) string {
	switch e.Op {
	case "+":
		return args[0].String + args[1].String
	case "upper":
		return strings.ToUpper(args[0].String)
	case "lower":
		return strings.ToLower(args[0].String)
	case "trim":
		return strings.TrimSpace(args[0].String)
	}
	return strconv.FormatInt(args[0].Int, 10) // string
}
