package expression

import (
	"fmt"
	"math"

	"github.com/afterbay/afterbay/internal/event/value"
)

var lists = []Function{
	{
		Name: "any", Forms: []string{"(list any[], x -> bool) bool"}, least: 2, most: 2, compile: quantified(true),
		Is: "whether the condition is true for at least one element; false for an empty list", Fails: manyItems, Example: `any(["sms", "mail"], x -> x startsWith "s")`, Result: `true`,
	},
	{
		Name: "all", Forms: []string{"(list any[], x -> bool) bool"}, least: 2, most: 2, compile: quantified(false),
		Is: "whether the condition is true for each element; true for an empty list", Fails: manyItems, Example: `all([1.5, 20], x -> x > 1)`, Result: `true`,
	},
	{
		Name: "filter", Forms: []string{"(list any[], x -> bool) any[]"}, least: 2, most: 2, compile: filtered,
		Is: "the elements that make the condition true, in their order", Fails: manyItems, Example: `filter([3, 14, 15], x -> x > 9)`, Result: `[14,15]`,
	},
	{
		Name: "map", Forms: []string{"(list any[], x -> any) any[]"}, least: 2, most: 2, compile: made,
		Is: "the results of the expression for each element, in their order", Fails: manyItems, Example: `map(["A", "bc"], x -> len(x))`, Result: `[1,2]`,
	},
	{
		Name: "sum", Forms: []string{"(list int[]) int", "(list number[]) number"}, least: 1, most: 1, compile: summed,
		Is: "the sum of the elements, 0 of an empty list. Numbers are added in their order, and what each addition rounds off is added in the end", Fails: "the result is out of range", Example: `sum([1, 2, 4])`, Result: `7`,
	},
	{
		Name: "mean", Forms: []string{"(list int[]) number", "(list number[]) number"}, least: 1, most: 1, compile: averaged,
		Is: "the sum of the elements divided by how many there are; absent for an empty list", Fails: "the sum is out of range", Example: `mean([1, 2]) ?? 0`, Result: `1.5`,
	},
	{
		Name: "keys", Forms: []string{"(map map of any) string[]"}, least: 1, most: 1, compile: keys,
		Is: "the keys of a map in their order, that of their bytes", Example: `keys({})`, Result: `[]`,
	},
	{
		Name: "values", Forms: []string{"(map map of any) any[]"}, least: 1, most: 1, compile: values,
		Is: "the values of a map in the order of its keys", Example: `values({})`, Result: `[]`,
	},
}

const manyItems = "the list has more than 1,000 elements, or the expression reads texts of more than 64 MiB for all elements together"

// over returns the list of a lambda, and checks its limits.
func (c call) over() eval[string] {
	get, kind, reads := c.args[0].fn.(eval[string]), c.args[0].typ.Kind, c.args[1].each.reads
	return func(row *value.Row) (string, *Error) {
		list, err := get(row)
		if err != nil {
			return "", err
		}
		n, bytes := value.Count(list, kind), 0
		for i := range reads {
			if row.Has(reads[i]) {
				bytes += len(row.Str[reads[i].Index])
			}
		}
		if n > ItemsMax || n*bytes > itemsReadMax {
			return "", c.fault(fmt.Sprintf("the list has %d elements, at most %d can be; the expression reads %d bytes for each, at most %d for all can be", n, ItemsMax, bytes, itemsReadMax), "...")
		}
		return list, nil
	}
}

// condition reports a lambda that is no condition.
func (c call) condition() *Error {
	if body := c.args[1]; body.typ.Kind != value.Bool {
		return &Error{Column: body.column(), Message: fmt.Sprintf("the lambda of %s is a bool, not %s", c.name, body.typ.Kind)}
	}
	return nil
}

// quantified compiles any and all. It stops at the first decisive element.
func quantified(decisive bool) func(call) (operand, *Error) {
	return func(c call) (operand, *Error) {
		if err := c.condition(); err != nil {
			return operand{}, err
		}
		items, of, body := c.over(), c.args[0].typ.Kind.Element(), c.args[1].fn.(eval[bool])
		f := func(row *value.Row) (bool, *Error) {
			list, err := items(row)
			if err != nil {
				return false, err
			}
			for list != "" {
				row.Item, list, _ = value.NextElement(list, of)
				if v, err := body(row); err != nil || v == decisive {
					return v, err
				}
			}
			return !decisive, nil
		}
		return operand{typ: value.Type{Kind: value.Bool}, fn: eval[bool](f)}, nil
	}
}

// filtered compiles filter.
func filtered(c call) (operand, *Error) {
	if err := c.condition(); err != nil {
		return operand{}, err
	}
	body := c.args[1].fn.(eval[bool])
	return collected(c, c.args[0].typ.Kind.Element(), func(row *value.Row) (value.Element, bool, *Error) {
		keep, err := body(row)
		return row.Item, keep, err
	})
}

// made compiles map.
func made(c call) (operand, *Error) {
	body := c.args[1]
	if !listable(body.typ.Kind) {
		return operand{}, &Error{Column: body.column(), Message: fmt.Sprintf("map makes a list of bools, ints, numbers, times or strings, not of %s", body.typ.Kind)}
	}
	get := body.element()
	return collected(c, body.typ.Kind, func(row *value.Row) (value.Element, bool, *Error) {
		e, err := get(row)
		return e, true, err
	})
}

// collected makes a list of a kind from the values that choose returns for elements.
func collected(c call, kind value.Kind, choose func(row *value.Row) (value.Element, bool, *Error)) (operand, *Error) {
	items, of, limit := c.over(), c.args[0].typ.Kind.Element(), bound{c.node}
	f := func(row *value.Row) (string, *Error) {
		list, err := items(row)
		if err != nil {
			return "", err
		}
		var made []byte
		for list != "" {
			row.Item, list, _ = value.NextElement(list, of)
			e, ok, err := choose(row)
			if err != nil {
				return "", err
			}
			if !ok {
				continue
			}
			if made, err = limit.grow(row, made, kind, e); err != nil {
				return "", err
			}
		}
		return value.Text(made), nil
	}
	return operand{typ: value.Type{Kind: value.List | kind}, fn: eval[string](f)}, nil
}

// ofNumbers reports an argument that is no list of ints or numbers.
func (c call) ofNumbers() *Error {
	return c.takes(0, "a list of ints or numbers", value.List|value.Int, value.List|value.Number)
}

// summed compiles sum.
func summed(c call) (operand, *Error) {
	if err := c.ofNumbers(); err != nil {
		return operand{}, err
	}
	list := c.args[0]
	if list.typ.Kind.Element() == value.Int {
		return mapped(value.Int, list, sumOfInts, func(string) *Error { return c.fault(intRange, "...") })
	}
	return mapped(value.Number, list, func(text string) (float64, bool) {
		sum := sumOf(text, value.Number)
		return sum, value.Finite(sum)
	}, func(string) *Error { return c.fault(numberRange, "...") })
}

func sumOfInts(text string) (sum int64, ok bool) {
	for e := range value.Elements(text, value.Int) {
		if sum, ok = plus(sum, int64(e.Num)); !ok {
			return 0, false
		}
	}
	return sum, true
}

// sumOf adds ints or numbers in their order with Neumaier's method: it keeps the rounding error of
// each addition separately.
func sumOf(text string, of value.Kind) float64 {
	sum, rest := 0.0, 0.0
	for e := range value.Elements(text, of) {
		if of == value.Int {
			e = asNumber(e)
		}
		v := math.Float64frombits(e.Num)
		next := sum + v
		if math.Abs(sum) >= math.Abs(v) {
			rest += (sum - next) + v
		} else {
			rest += (v - next) + sum
		}
		sum = next
	}
	return sum + rest
}

// averaged compiles mean.
func averaged(c call) (operand, *Error) {
	if err := c.ofNumbers(); err != nil {
		return operand{}, err
	}
	list := c.args[0]
	get, kind := list.fn.(eval[string]), list.typ.Kind
	f := func(row *value.Row) (float64, *Error) {
		text, err := get(row)
		if err != nil {
			return 0, err
		}
		n := value.Count(text, kind)
		if n == 0 {
			return 0, absent
		}
		sum := sumOf(text, kind.Element())
		if !value.Finite(sum) {
			return 0, c.fault(numberRange, "...")
		}
		return sum / float64(n), nil
	}
	return operand{typ: value.Type{Kind: value.Number, Optional: true}, fn: eval[float64](f)}, nil
}

// extremeIn compiles min and max of a list.
func extremeIn(c call) (operand, *Error) {
	if err := c.takes(0, "a list of ints or numbers, or at least two ints or numbers", value.List|value.Int, value.List|value.Number); err != nil {
		return operand{}, err
	}
	get, of, largest := c.args[0].fn.(eval[string]), c.args[0].typ.Kind.Element(), c.name == "max"
	o := ofElement(of, func(row *value.Row) (best value.Element, _ *Error) {
		text, err := get(row)
		if err == nil && text == "" {
			err = absent
		}
		if err != nil {
			return best, err
		}
		best, text, _ = value.NextElement(text, of)
		for e := range value.Elements(text, of) {
			less := int64(e.Num) < int64(best.Num)
			if of == value.Number {
				less = math.Float64frombits(e.Num) < math.Float64frombits(best.Num)
			}
			if e != best && less != largest {
				best = e
			}
		}
		return best, nil
	})
	o.typ.Optional = true
	return o, nil
}

// keys compiles keys(map).
func keys(c call) (operand, *Error) {
	return c.ofMap(func(value.Kind) value.Kind { return value.String }, func(e value.Entry) value.Element { return value.Element{Str: e.Key} })
}

// values compiles values(map).
func values(c call) (operand, *Error) {
	return c.ofMap(func(of value.Kind) value.Kind { return of }, func(e value.Entry) value.Element { return e.Element })
}

// ofMap makes a list of the values that one returns for the entries of a map.
func (c call) ofMap(kindOf func(of value.Kind) value.Kind, one func(value.Entry) value.Element) (operand, *Error) {
	from := c.args[0]
	if !from.typ.Kind.IsMap() {
		return operand{}, wrong(c.name, "a map", from)
	}
	get, of, limit := from.fn.(eval[string]), from.typ.Kind.Element(), bound{c.node}
	kind := kindOf(of)
	return derived(value.List|kind, func(row *value.Row) (string, *Error) {
		text, err := get(row)
		if err != nil {
			return "", err
		}
		var list []byte
		for e := range value.Entries(text, of) {
			if list, err = limit.grow(row, list, kind, one(e)); err != nil {
				return "", err
			}
		}
		return value.Text(list), nil
	}, from)
}
