package expression

import (
	"fmt"
	"regexp"

	"github.com/afterbay/afterbay/internal/event/value"
)

// Patterns are regular expressions of RE2, as in package regexp: matching takes time linear in the
// length of the text. They are literals, compiled when the file is read.
var patterns = []Function{
	{
		Name: "extract", Forms: []string{"(text string, pattern string) optional string"}, least: 2, most: 2, compile: extract,
		Is:      "the first match of a regular expression (RE2) in a text, or of the first group in parentheses of the expression; absent if nothing matches. The pattern is a literal",
		Example: `extract("GET /v1/users/42", "/users/([0-9]+)") ?? ""`, Result: `"42"`,
	},
	{
		Name: "regexp_replace", Forms: []string{"(text string, pattern string, with string) string"}, least: 3, most: 3, compile: replacePattern,
		Is:      "the text with another in place of each match of a regular expression (RE2). The pattern is a literal; `$1` in the other text is text",
		Example: `regexp_replace("took 35 ms, 2 tries", "[0-9]+", "N")`, Result: `"took N ms, N tries"`,
	},
}

// pattern compiles an operand that is a regular expression.
func pattern(name string, o operand) (*regexp.Regexp, *Error) {
	if o.typ.Kind != value.String {
		return nil, wrong(name, "a string as its regular expression", o)
	}
	text, ok := known[string](o)
	if !ok {
		return nil, &Error{Column: o.column(), Message: fmt.Sprintf("the regular expression of %s is a literal", name)}
	}
	re, err := regexp.Compile(text)
	if err != nil {
		return nil, &Error{Column: o.column(), Message: err.Error()}
	}
	return re, nil
}

// extract compiles extract(text, pattern).
func extract(c call) (operand, *Error) {
	if err := c.takes(0, "a string", value.String); err != nil {
		return operand{}, err
	}
	re, err := pattern(c.name, c.args[1])
	if err != nil {
		return operand{}, err
	}
	get := c.args[0].fn.(eval[string])
	find := func(s string) (from, to int) {
		at := re.FindStringSubmatchIndex(s)
		switch {
		case at == nil:
			return -1, -1
		case len(at) > 2:
			return at[2], at[3]
		}
		return at[0], at[1]
	}
	f := func(row *value.Row) (string, *Error) {
		s, err := get(row)
		if err != nil {
			return "", err
		}
		from, to := find(s)
		if from < 0 {
			return "", absent
		}
		return s[from:to], nil
	}
	return operand{typ: value.Type{Kind: value.String, Optional: true}, fn: eval[string](f)}, nil
}

// replacePattern compiles regexp_replace(text, pattern, with). It stops a result that becomes too
// large. By then the result exceeds the limit by at most the text itself and one replacement.
func replacePattern(c call) (operand, *Error) {
	for _, i := range []int{0, 2} {
		if err := c.takes(i, "strings", value.String); err != nil {
			return operand{}, err
		}
	}
	re, err := pattern(c.name, c.args[1])
	if err != nil {
		return operand{}, err
	}
	get, other, limit := c.args[0].fn.(eval[string]), c.args[2].fn.(eval[string]), bound{c.node}
	return derived(value.String, func(row *value.Row) (string, *Error) {
		s, err := get(row)
		if err != nil {
			return "", err
		}
		with, err := other(row)
		if err != nil || !re.MatchString(s) {
			return s, err
		}
		made := 0
		whole := re.ReplaceAllStringFunc(s, func(match string) string {
			if made > value.TextMax {
				return ""
			}
			made += len(with)
			return with
		})
		return whole, limit.take(row, max(len(whole), made))
	}, c.args...)
}
