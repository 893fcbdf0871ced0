package spec

import (
	"fmt"
	"maps"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"
)

// Affects says what a change of a field changes. It has no default: each field of a
// file that has a fingerprint says it.
type Affects uint8

// What a change of a field changes, the least first. What changes the meaning of stored
// state changes outputs too.
const (
	Nothing Affects = iota + 1 // neither outputs nor stored state
	Outputs                    // outputs
	State                      // outputs, and what stored state means
)

// String returns the word for it.
func (a Affects) String() string { return [...]string{"unknown", "nothing", "outputs", "state"}[a] }

// Printer writes values as lines of canonical text, by the tables that read them. Two
// files that mean the same have the same text:
//
//  1. A line is PATH=VALUE, and paths are those of the file. So Go names are in no text.
//  2. A field that is absent has no line, and neither has one whose value is its default.
//     An empty list is absent.
//  3. Values have one form: durations, sizes and numbers their shortest, expressions
//     their tokens. White space and comments of the file are in no text.
type Printer struct {
	Least Affects                                   // fields that affect less are left out
	Again func(p *Printer, path string, values any) // prints the steps of a case of a route, as Reader.Again reads them
	Word  func(name string) string                  // what is printed in place of a name that a field reads; nil prints the name

	lines    []string
	explicit bool // the value that is printed next was written, even where it is zero
}

// Text returns the lines, each with its end.
func (p *Printer) Text() string { return strings.Join(p.lines, "") }

// Line adds a line.
func (p *Printer) Line(path, value string) {
	p.lines = append(p.lines, path+"="+value+"\n")
}

// wrote reports whether the value that is printed was written, even where it is zero.
func (p *Printer) wrote() bool {
	was := p.explicit
	p.explicit = false
	return was
}

// printScalar prints a value that is not zero.
func printScalar[T comparable](p *Printer, path string, v *T) {
	if written := p.wrote(); written || *v != *new(T) {
		p.Line(path, canonical(*v))
	}
}

// canonical returns the one form of a scalar.
func canonical(v any) string {
	switch v := v.(type) {
	case time.Duration:
		return FormatDuration(v)
	case float64:
		return strconv.FormatFloat(v, 'g', -1, 64)
	}
	value := reflect.ValueOf(v)
	if value.Kind() != reflect.String {
		return fmt.Sprint(v)
	}
	text := value.String()
	if text == "" || text[0] == '"' || strings.ContainsFunc(text, func(r rune) bool { return !strconv.IsPrint(r) || r == utf8.RuneError }) {
		return strconv.Quote(text)
	}
	return text
}

// canonicalName returns a name as paths have it.
func canonicalName(name string) string {
	if plainName.MatchString(name) {
		return name
	}
	return strconv.Quote(name)
}

var plainName = regexp.MustCompile(`^[A-Za-z0-9_-]+$`)

// Default is a form whose values may be left out where they are v. Their text is the
// same then.
func (f Form[T]) Default(v T) Form[T] {
	inner := f.Print
	f.Print = func(p *Printer, path string, value *T) {
		if reflect.DeepEqual(*value, v) {
			p.wrote()
			return
		}
		inner(p, path, value)
	}
	return f
}

// Unless is a form of values that have no text where is holds: what they say holds
// without them too.
func (f Form[T]) Unless(is func(*T) bool) Form[T] {
	inner := f.Print
	f.Print = func(p *Printer, path string, value *T) {
		if !is(value) {
			inner(p, path, value)
		}
	}
	return f
}

// Reads is a form of texts that read names. rename returns the one form of a text, with
// word(name) in place of each name; a nil word keeps the names.
func Reads(rename func(text string, word func(name string) string) string, f Form[string]) Form[string] {
	inner := f.Print
	f.Print = func(p *Printer, path string, value *string) {
		text := rename(*value, p.Word)
		inner(p, path, &text)
	}
	return f
}

// As is a form whose texts have the form that one returns of them.
func As(one func(string) string, f Form[string]) Form[string] {
	return Reads(func(text string, _ func(string) string) string { return one(text) }, f)
}

// AnyOrder is a form of a mapping from names whose order says nothing.
func AnyOrder[T any](name func(*T) *string, f Form[[]T]) Form[[]T] {
	inner := f.Print
	f.Print = func(p *Printer, path string, value *[]T) {
		sorted := slices.Clone(*value)
		slices.SortStableFunc(sorted, func(a, b T) int { return strings.Compare(*name(&a), *name(&b)) })
		inner(p, path, &sorted)
	}
	return f
}

// printFields prints a struct by its table.
func printFields[T any](p *Printer, fields []Field[T], path string, v *T) {
	written, before := p.wrote(), len(p.lines)
	for i := range fields {
		if f := &fields[i]; f.Read != nil && f.Affects >= p.Least {
			f.Print(p, Join(path, f.Name), v)
		}
	}
	if written && len(p.lines) == before {
		p.Line(path, "{}")
	}
}

// printItems prints a list.
func printItems[T any](p *Printer, path string, list []T, print func(*Printer, string, *T)) {
	p.wrote()
	for i := range list {
		p.explicit = true
		print(p, fmt.Sprintf("%s[%d]", path, i), &list[i])
	}
}

func typed(v any) string {
	_, kind, _ := strings.Cut(kindOf(v), " ")
	return kind + " " + canonical(v)
}

// printConstant prints a scalar with its type, or a table in the order of its keys.
func printConstant(p *Printer, path string, c *Constant) {
	p.wrote()
	if c.Table == nil {
		p.Line(path, typed(c.Value))
		return
	}
	for _, key := range slices.Sorted(maps.Keys(c.Table)) {
		p.Line(path+"["+strconv.Quote(key)+"]", typed(c.Table[key]))
	}
}
