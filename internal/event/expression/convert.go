package expression

import (
	"strconv"
	"time"

	"github.com/afterbay/afterbay/internal/event/value"
)

var conversions = []Function{
	{
		Name: "string", Forms: []string{"(x bool) string", "(x int) string", "(x number) string", "(x time) string", "(x string) string"}, least: 1, most: 1, compile: toString,
		Is: "x as text, as JSON writes it", Example: `string(12.50)`, Result: `"12.5"`,
	},
	{
		Name: "int", Forms: []string{"(x number) int", "(x string) int", "(x time) int"}, least: 1, most: 1, compile: toInt,
		Is: "a number without its fraction, the text of an int, or a time in microseconds since 1970, as an int", Fails: "the result is out of the range of int, or the text is not an int",
		Example: `int(-9.9)`, Result: `-9`,
	},
	{
		Name: "float", Forms: []string{"(x int) number", "(x string) number"}, least: 1, most: 1, compile: toFloat,
		Is: "an int, or the text of a number, as a number", Fails: "the text is not a number", Example: `float("1e3")`, Result: `1000`,
	},
}

// toString compiles string(x): the JSON form of x, without quotes.
func toString(c call) (operand, *Error) {
	x := c.args[0]
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

// toInt compiles int(x). It truncates a number towards zero. A time becomes microseconds since 1970
// UTC.
func toInt(c call) (operand, *Error) {
	x := c.args[0]
	switch x.typ.Kind {
	case value.Int:
		return x, nil
	case value.Time:
		return mapped(value.Int, x, func(v int64) (int64, bool) { return v, true }, nil)
	case value.Number:
		// float64 represents -2^63, but not 2^63-1.
		return mapped(value.Int, x, func(v float64) (int64, bool) {
			if v < -1<<63 || v >= 1<<63 {
				return 0, false
			}
			return int64(v), true
		}, func(v float64) *Error { return c.fault(intRange, numberText(v)) })
	case value.String:
		return mapped(value.Int, x, func(s string) (int64, bool) {
			v, err := strconv.ParseInt(s, 10, 64)
			return v, err == nil
		}, func(s string) *Error { return c.fault("the string is not an int", quoted(s)) })
	}
	return operand{}, wrong("int", "an int, number, time or string", x)
}

// toFloat compiles float(x).
func toFloat(c call) (operand, *Error) {
	x := c.args[0]
	switch x.typ.Kind {
	case value.Int, value.Number:
		return x.number(), nil
	case value.String:
		return mapped(value.Number, x, func(s string) (float64, bool) {
			v, err := strconv.ParseFloat(s, 64)
			return v, err == nil && value.Finite(v)
		}, func(s string) *Error { return c.fault("the string is not a number", quoted(s)) })
	}
	return operand{}, wrong("float", "an int, number or string", x)
}
