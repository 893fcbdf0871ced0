package expression

import (
	"math"

	"github.com/afterbay/afterbay/internal/event/value"
)

var numeric = []Function{
	{
		Name: "abs", Forms: []string{"(x int) int", "(x number) number"}, least: 1, most: 1, compile: absolute,
		Is: "x without its sign", Fails: "x is the least int", Example: `abs(-3)`, Result: `3`,
	},
	{
		Name: "min", Forms: []string{"(x int, y int, ...) int", "(x number, y number, ...) number", "(list int[]) int", "(list number[]) number"}, least: 1, compile: extreme,
		Is: "the smallest; absent for an empty list", Example: `min(3, 1, 2)`, Result: `1`,
	},
	{
		Name: "max", Forms: []string{"(x int, y int, ...) int", "(x number, y number, ...) number", "(list int[]) int", "(list number[]) number"}, least: 1, compile: extreme,
		Is: "the largest; absent for an empty list", Example: `max(3, 4.5)`, Result: `4.5`,
	},
	{
		Name: "clamp", Forms: []string{"(x int, low int, high int) int", "(x number, low number, high number) number"}, least: 3, most: 3, compile: clamp,
		Is: "x, or the nearer bound if x is not between them", Fails: "low is above high", Example: `clamp(130, 0, 100)`, Result: `100`,
	},
	{
		Name: "round", Forms: one, least: 1, most: 1, compile: number(func(x [4]float64) float64 { return math.Round(x[0]) }),
		Is: "the nearest whole number; a half goes away from zero", Example: `round(-2.5)`, Result: `-3`,
	},
	{
		Name: "floor", Forms: one, least: 1, most: 1, compile: number(func(x [4]float64) float64 { return math.Floor(x[0]) }),
		Is: "the largest whole number that is not above x", Example: `floor(-2.5)`, Result: `-3`,
	},
	{
		Name: "ceil", Forms: one, least: 1, most: 1, compile: number(func(x [4]float64) float64 { return math.Ceil(x[0]) }),
		Is: "the least whole number that is not below x", Example: `ceil(2.1)`, Result: `3`,
	},
	{
		Name: "sqrt", Forms: one, least: 1, most: 1, compile: number(func(x [4]float64) float64 { return math.Sqrt(x[0]) }, within("the square root of a number below 0", 0, math.MaxFloat64)),
		Is: "the square root of x", Fails: "x is below 0", Example: `sqrt(2)`, Result: `1.4142135623730951`,
	},
	{
		Name: "exp", Forms: one, least: 1, most: 1, compile: number(func(x [4]float64) float64 { return exp(x[0]) }),
		Is: "e to the power of x", Fails: "the result is out of the range of number", Example: `exp(1)`, Result: `2.718281828459045`,
	},
	{
		Name: "log", Forms: one, least: 1, most: 1,
		compile: number(func(x [4]float64) float64 { return log(x[0]) }, within("the logarithm of a number that is not above 0", math.SmallestNonzeroFloat64, math.MaxFloat64)),
		Is:      "the natural logarithm of x", Fails: "x is not above 0", Example: `log(10)`, Result: `2.302585092994046`,
	},
	{
		Name: "pow", Forms: []string{"(x number, y number) number"}, least: 2, most: 2, compile: number(func(x [4]float64) float64 { return pow(x[0], x[1]) }),
		Is: "x to the power of y, as `x ** y`", Fails: "x is below 0 and y has a fraction, x is 0 and y is below 0, or the result is out of the range of number", Example: `pow(2, 0.5)`, Result: `1.4142135623730951`,
	},
	{
		Name: "sin", Forms: one, least: 1, most: 1, compile: number(func(x [4]float64) float64 { return sin(x[0]) }),
		Is: "the sine of x, which is in radians", Example: `sin(1)`, Result: `0.8414709848078965`,
	},
	{
		Name: "cos", Forms: one, least: 1, most: 1, compile: number(func(x [4]float64) float64 { return cos(x[0]) }),
		Is: "the cosine of x, which is in radians", Example: `cos(1)`, Result: `0.5403023058681398`,
	},
	{
		Name: "asin", Forms: one, least: 1, most: 1,
		compile: number(func(x [4]float64) float64 { return asin(x[0]) }, within("the inverse sine of a number that is not from -1 to 1", -1, 1)),
		Is:      "the inverse sine of x, in radians", Fails: "x is not from -1 to 1", Example: `asin(1)`, Result: `1.5707963267948966`,
	},
	{
		Name: "atan2", Forms: []string{"(y number, x number) number"}, least: 2, most: 2, compile: number(func(x [4]float64) float64 { return atan2(x[0], x[1]) }),
		Is: "the angle of the point (x, y), in radians from -pi to pi; 0 for the point (0, 0)", Example: `atan2(1, -1)`, Result: `2.356194490192345`,
	},
	{
		Name: "geo_km", Forms: []string{"(lat1 number, lon1 number, lat2 number, lon2 number) number"}, least: 4, most: 4,
		compile: number(func(x [4]float64) float64 { return haversine(x[0], x[1], x[2], x[3]) }, places),
		Is:      "the kilometres between two places, along a sphere of radius 6371.0088 km (haversine). Latitudes and longitudes are in degrees. The earth is not a sphere: the error is at most 0.6 %",
		Fails:   "a latitude is not from -90 to 90, or a longitude not from -180 to 180", Example: `round(geo_km(52.52, 13.405, 48.8566, 2.3522))`, Result: `877`,
	},
}

// one lists the signature of functions of one number.
var one = []string{"(x number) number"}

// check returns the reason why a function has no value for numbers, or "".
type check func(x [4]float64) string

// within returns a check that refuses a first number outside least to most.
func within(reason string, least, most float64) check {
	return func(x [4]float64) string {
		if x[0] < least || x[0] > most {
			return reason
		}
		return ""
	}
}

// places refuses invalid latitudes and longitudes.
func places(x [4]float64) string {
	switch {
	case math.Abs(x[0]) > 90 || math.Abs(x[2]) > 90:
		return "a latitude is not from -90 to 90"
	case math.Abs(x[1]) > 180 || math.Abs(x[3]) > 180:
		return "a longitude is not from -180 to 180"
	}
	return ""
}

// number compiles a function of up to four numbers. Its result must be finite.
func number(f func(x [4]float64) float64, checks ...check) func(call) (operand, *Error) {
	return func(c call) (operand, *Error) {
		n := len(c.args)
		var get [4]eval[float64]
		for i := range c.args {
			if err := c.takes(i, "an int or a number", value.Int, value.Number); err != nil {
				return operand{}, err
			}
			get[i] = c.args[i].number().fn.(eval[float64])
		}
		return derived(value.Number, func(row *value.Row) (r float64, err *Error) {
			var x [4]float64
			for i := range n {
				if x[i], err = get[i](row); err != nil {
					return 0, err
				}
			}
			for _, check := range checks {
				if reason := check(x); reason != "" {
					return 0, c.numbers(reason, x)
				}
			}
			if r = f(x); !value.Finite(r) {
				reason := numberRange
				if math.IsNaN(r) {
					reason = notANumber
				}
				return 0, c.numbers(reason, x)
			}
			return r, nil
		}, c.args...)
	}
}

// numbers returns the fault of a call with numbers. It takes them by value, so that they stay on
// the stack if there is no fault.
func (c call) numbers(reason string, x [4]float64) *Error {
	var texts []string
	for _, v := range x[:len(c.args)] {
		texts = append(texts, numberText(v))
	}
	return c.fault(reason, texts...)
}

// absolute compiles abs(x).
func absolute(c call) (operand, *Error) {
	if c.args[0].typ.Kind != value.Int {
		return number(func(x [4]float64) float64 { return math.Abs(x[0]) })(c)
	}
	return mapped(value.Int, c.args[0], func(v int64) (int64, bool) { return max(v, -v), v != math.MinInt64 }, func(v int64) *Error { return c.fault(intRange, intText(v)) })
}

// clamp compiles clamp(x, low, high).
func clamp(c call) (operand, *Error) {
	ints := true
	for i := range c.args {
		if err := c.takes(i, "ints or numbers", value.Int, value.Number); err != nil {
			return operand{}, err
		}
		ints = ints && c.args[i].typ.Kind == value.Int
	}
	if ints {
		return clampOf(c, value.Int, intText)
	}
	for i := range c.args {
		c.args[i] = c.args[i].number()
	}
	return clampOf(c, value.Number, numberText)
}

func clampOf[T int64 | float64](c call, kind value.Kind, text func(T) string) (operand, *Error) {
	get, low, high := c.args[0].fn.(eval[T]), c.args[1].fn.(eval[T]), c.args[2].fn.(eval[T])
	bounds := func(row *value.Row) (least, most T, err *Error) {
		if least, err = low(row); err == nil {
			most, err = high(row)
		}
		if err == nil && least > most {
			err = c.fault("the lower bound is above the upper one", "...", text(least), text(most))
		}
		return least, most, err
	}
	if c.args[1].literal && c.args[2].literal {
		if _, _, err := bounds(nil); err != nil {
			return operand{}, err
		}
	}
	return derived(kind, func(row *value.Row) (T, *Error) {
		v, err := get(row)
		if err != nil {
			return v, err
		}
		least, most, err := bounds(row)
		return max(least, min(v, most)), err
	}, c.args...)
}

// extreme compiles min and max.
func extreme(c call) (operand, *Error) {
	if len(c.args) == 1 {
		return extremeIn(c)
	}
	name, xs := c.name, c.args
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
