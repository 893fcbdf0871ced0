package expression

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/afterbay/afterbay/internal/event/value"
)

var texts = []Function{
	{
		Name: "len", Forms: []string{"(text string) int", "(x bytes) int", "(list any[]) int", "(map map of any) int"}, least: 1, most: 1, compile: length,
		Is: "how many characters a text has, bytes, elements a list, or keys a map", Example: `len("héllo")`, Result: `5`,
	},
	{
		Name: "lower", Forms: []string{"(text string) string"}, least: 1, most: 1, compile: cased(strings.ToLower, unicode.ToLower),
		Is: "the text in lower case", Example: `lower("ABC")`, Result: `"abc"`,
	},
	{
		Name: "upper", Forms: []string{"(text string) string"}, least: 1, most: 1, compile: cased(strings.ToUpper, unicode.ToUpper),
		Is: "the text in upper case", Example: `upper("abc")`, Result: `"ABC"`,
	},
	{
		Name: "trim", Forms: []string{"(text string) string"}, least: 1, most: 1, compile: trim,
		Is: "the text without white space at its ends", Example: `trim("  a b ")`, Result: `"a b"`,
	},
	{
		Name: "substr", Forms: []string{"(text string, from int) string", "(text string, from int, count int) string"}, least: 2, most: 3, compile: substring,
		Is:      "the characters of a text from a position on: all, or the given count. Positions count from 0, and from the end if they are negative: -1 is the last",
		Fails:   "the text ends before the place, or has fewer characters behind it: `substr(text, 0, min(len(text), 10))` is at most 10",
		Example: `substr("DE-4711", 0, 2)`, Result: `"DE"`,
	},
	{
		Name: "replace", Forms: []string{"(text string, part string, with string) string"}, least: 3, most: 3, compile: replace,
		Is: "the text with another in place of each occurrence of a part", Fails: "the part is empty", Example: `replace("1,250,000", ",", "")`, Result: `"1250000"`,
	},
	{
		Name: "split", Forms: []string{"(text string, separator string) string[]"}, least: 2, most: 2, compile: split,
		Is: "the list of the parts of a text: `split(meta.id, \"/\")[0]` is the tenant of an event of a [gateway](../howto/gateway.md)", Example: `split("a/b", "/")`, Result: `["a","b"]`,
	},
	{
		Name: "join", Forms: []string{"(list string[], between string) string"}, least: 2, most: 2, compile: join,
		Is: "the texts of a list as one, with a text between them", Example: `join(split("a/b", "/"), "-")`, Result: `"a-b"`,
	},
}

// length compiles len(x).
func length(c call) (operand, *Error) {
	x := c.args[0]
	switch x.typ.Kind {
	case value.Bytes:
		return mapped(value.Int, x, func(s string) (int64, bool) { return int64(len(s)), true }, nil)
	case value.String:
		return mapped(value.Int, x, func(s string) (int64, bool) { return int64(utf8.RuneCountInString(s)), true }, nil)
	}
	if kind := x.typ.Kind; kind.IsList() || kind.IsMap() {
		return mapped(value.Int, x, func(s string) (int64, bool) { return int64(value.Count(s, kind)), true }, nil)
	}
	return operand{}, wrong("len", "a string, bytes, a list or a map", x)
}

// trim compiles trim(text).
func trim(c call) (operand, *Error) {
	if err := c.takes(0, "a string", value.String); err != nil {
		return operand{}, err
	}
	return mapped(value.String, c.args[0], func(s string) (string, bool) { return strings.TrimSpace(s), true }, nil)
}

// cased compiles lower and upper. f converts a text and each converts one rune. Some runes have
// more bytes in the other case.
func cased(f func(string) string, each func(rune) rune) func(call) (operand, *Error) {
	return func(c call) (operand, *Error) {
		if err := c.takes(0, "a string", value.String); err != nil {
			return operand{}, err
		}
		get, limit := c.args[0].fn.(eval[string]), bound{c.node}
		return derived(value.String, func(row *value.Row) (string, *Error) {
			s, err := get(row)
			if err != nil {
				return "", err
			}
			size := len(s)
			if size > value.TextMax/utf8.UTFMax {
				size = 0
				for _, r := range s {
					size += utf8.RuneLen(each(r))
				}
			}
			if err := limit.take(row, size); err != nil {
				return "", err
			}
			return f(s), nil
		}, c.args...)
	}
}

// substring compiles substr(text, from) and substr(text, from, count).
func substring(c call) (operand, *Error) {
	if err := c.takes(0, "a string", value.String); err != nil {
		return operand{}, err
	}
	for i := range c.args[1:] {
		if err := c.takes(i+1, "an int as a place", value.Int); err != nil {
			return operand{}, err
		}
	}
	text, place, amount := c.args[0].fn.(eval[string]), c.args[1].fn.(eval[int64]), eval[int64](nil)
	if len(c.args) == 3 {
		amount = c.args[2].fn.(eval[int64])
		if n, ok := known[int64](c.args[2]); ok && n < 0 {
			return operand{}, c.fault("the count is below 0", "...", intText(n))
		}
	}
	return derived(value.String, func(row *value.Row) (string, *Error) {
		s, err := text(row)
		if err != nil {
			return "", err
		}
		from, err := place(row)
		if err != nil {
			return "", err
		}
		characters := utf8.RuneCountInString(s)
		start, ok := fromStart(from, characters)
		ok = ok || from == int64(characters)
		rest := int64(characters - start)
		if amount != nil {
			if rest, err = amount(row); err != nil {
				return "", err
			}
		}
		if !ok || rest < 0 || rest > int64(characters-start) {
			return "", c.outside(s, from, rest, characters)
		}
		return cut(s, start, int(rest)), nil
	}, c.args...)
}

// outside returns the fault of a substring outside the text.
func (c call) outside(s string, from, amount int64, characters int) *Error {
	args := []string{quoted(s), intText(from)}
	if len(c.args) == 3 {
		args = append(args, intText(amount))
	}
	return c.fault(fmt.Sprintf("the text has %d characters", characters), args...)
}

// cut returns amount characters of a text, starting at a position.
func cut(s string, start, amount int) string {
	from := skip(s, start)
	return s[from : from+skip(s[from:], amount)]
}

// skip returns the byte offset of the nth character of a text.
func skip(s string, n int) int {
	for i := range s {
		if n == 0 {
			return i
		}
		n--
	}
	return len(s)
}

// replace compiles replace(text, part, with).
func replace(c call) (operand, *Error) {
	var get [3]eval[string]
	for i := range c.args {
		if err := c.takes(i, "strings", value.String); err != nil {
			return operand{}, err
		}
		get[i] = c.args[i].fn.(eval[string])
	}
	limit := bound{c.node}
	if part, ok := known[string](c.args[1]); ok && part == "" {
		return operand{}, c.fault("the part is empty", "...", quoted(part), "...")
	}
	return derived(value.String, func(row *value.Row) (_ string, err *Error) {
		var s [3]string
		for i, f := range get {
			if s[i], err = f(row); err != nil {
				return "", err
			}
		}
		if s[1] == "" {
			return "", c.fault("the part is empty", quoted(s[0]), quoted(s[1]), quoted(s[2]))
		}
		n := strings.Count(s[0], s[1])
		if n == 0 {
			return s[0], nil
		}
		if err := limit.take(row, len(s[0])+n*(len(s[2])-len(s[1]))); err != nil {
			return "", err
		}
		return strings.ReplaceAll(s[0], s[1], s[2]), nil
	}, c.args...)
}

// join compiles join(list, between): it concatenates the strings.
func join(c call) (operand, *Error) {
	list, between := c.args[0], c.args[1]
	if list.typ.Kind != value.List|value.String {
		return operand{}, wrong("join", "a list of strings", list)
	}
	if between.typ.Kind != value.String {
		return operand{}, wrong("join", "a string between those of its list", between)
	}
	get, separator, limit := list.fn.(eval[string]), between.fn.(eval[string]), bound{c.node}
	return derived(value.String, func(row *value.Row) (string, *Error) {
		text, err := get(row)
		if err != nil {
			return "", err
		}
		with, err := separator(row)
		if err != nil {
			return "", err
		}
		size := -len(with) // no separator before the first
		for s := range value.EachString(text) {
			size += len(with) + len(s)
		}
		if err := limit.take(row, max(size, 0)); err != nil || size <= 0 {
			return "", err
		}
		whole, between := make([]byte, 0, size), ""
		for s := range value.EachString(text) {
			whole, between = append(append(whole, between...), s...), with
		}
		return value.Text(whole), nil
	}, list, between)
}

// split compiles split(text, separator): the list of its parts.
func split(c call) (operand, *Error) {
	text, separator := c.args[0], c.args[1]
	for _, x := range []operand{text, separator} {
		if x.typ.Kind != value.String {
			return operand{}, wrong("split", "a string and a string that separates its parts", x)
		}
	}
	get, by, limit := text.fn.(eval[string]), separator.fn.(eval[string]), bound{c.node}
	return derived(value.List|value.String, func(row *value.Row) (string, *Error) {
		whole, err := get(row)
		if err != nil {
			return "", err
		}
		with, err := by(row)
		if err != nil {
			return "", err
		}
		size := 0
		for part := range strings.SplitSeq(whole, with) {
			size += value.StringBytes(part)
		}
		if err := limit.take(row, size); err != nil {
			return "", err
		}
		list := make([]byte, 0, size)
		for part := range strings.SplitSeq(whole, with) {
			list = value.AppendString(list, part)
		}
		return value.Text(list), nil
	}, text, separator)
}
