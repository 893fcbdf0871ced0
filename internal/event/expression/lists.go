package expression

import (
	"fmt"

	"github.com/afterbay/afterbay/internal/event/value"
)

var lists = []Function{
	{
		Name: "any", Forms: []string{"(list string[], x -> bool) bool"}, least: 2, most: 2, compile: quantified(true),
		Is: "whether the condition is true for at least one element; false for an empty list", Fails: manyItems, Example: `any(["sms", "mail"], x -> x startsWith "s")`, Result: `true`,
	},
	{
		Name: "all", Forms: []string{"(list string[], x -> bool) bool"}, least: 2, most: 2, compile: quantified(false),
		Is: "whether the condition is true for each element; true for an empty list", Fails: manyItems, Example: `all(["sms", "mail"], x -> len(x) == 3)`, Result: `false`,
	},
	{
		Name: "filter", Forms: []string{"(list string[], x -> bool) string[]"}, least: 2, most: 2, compile: filtered,
		Is: "the elements for which the condition is true, in their order", Fails: manyItems, Example: `filter(["a", "bc", "d"], x -> len(x) == 1)`, Result: `["a","d"]`,
	},
	{
		Name: "map", Forms: []string{"(list string[], x -> string) string[]"}, least: 2, most: 2, compile: made,
		Is: "the results of the expression for each element, in their order", Fails: manyItems, Example: `map(["A", "b"], x -> lower(x))`, Result: `["a","b"]`,
	},
}

const manyItems = "the list has more than 1,000 elements, or the expression reads texts of more than 64 MiB for all elements together"

// over returns the list of a lambda, within its bounds.
func (c call) over() eval[string] {
	get, reads := c.args[0].fn.(eval[string]), c.args[1].each.reads
	return func(row *value.Row) (string, *Error) {
		list, err := get(row)
		if err != nil {
			return "", err
		}
		n, bytes := count(list), 0
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

// condition refuses a lambda that is no condition.
func (c call) condition() *Error {
	if body := c.args[1]; body.typ.Kind != value.Bool {
		return &Error{Column: body.column(), Message: fmt.Sprintf("the lambda of %s is a bool, not %s", c.name, body.typ.Kind)}
	}
	return nil
}

// quantified compiles any and all. The first element that decides ends it.
func quantified(decisive bool) func(call) (operand, *Error) {
	return func(c call) (operand, *Error) {
		if err := c.condition(); err != nil {
			return operand{}, err
		}
		items, body := c.over(), c.args[1].fn.(eval[bool])
		f := func(row *value.Row) (bool, *Error) {
			list, err := items(row)
			if err != nil {
				return false, err
			}
			for list != "" {
				row.Item, list, _ = value.NextString(list)
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
	return collected(c, func(item string, keep bool) (string, bool) { return item, keep })
}

// made compiles map.
func made(c call) (operand, *Error) {
	if body := c.args[1]; body.typ.Kind != value.String {
		return operand{}, &Error{Column: body.column(), Message: fmt.Sprintf("map makes a list of strings, not of %s", body.typ.Kind), Hint: convert(body, value.String)}
	}
	return collected(c, func(_, made string) (string, bool) { return made, true })
}

// collected makes a list of what choose returns for elements.
func collected[T any](c call, choose func(item string, v T) (string, bool)) (operand, *Error) {
	items, body, limit := c.over(), c.args[1].fn.(eval[T]), bound{c.node}
	f := func(row *value.Row) (string, *Error) {
		list, err := items(row)
		if err != nil {
			return "", err
		}
		var made []byte
		for list != "" {
			row.Item, list, _ = value.NextString(list)
			v, err := body(row)
			if err != nil {
				return "", err
			}
			s, ok := choose(row.Item, v)
			if !ok {
				continue
			}
			if made, err = limit.grow(row, made, s); err != nil {
				return "", err
			}
		}
		return value.Text(made), nil
	}
	return operand{typ: value.Type{Kind: value.List | value.String}, fn: eval[string](f)}, nil
}
