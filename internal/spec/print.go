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

// Affects says what a change of a field affects. It has no default: each field of a file with a
// fingerprint sets it.
type Affects uint8

// What a change of a field affects, the least first. A change that affects the meaning of stored
// state affects outputs too.
const (
	Nothing Affects = iota + 1 // neither outputs nor stored state
	Outputs                    // outputs
	State                      // outputs, and the meaning of stored state
)

// String returns the word for a.
func (a Affects) String() string { return [...]string{"unknown", "nothing", "outputs", "state"}[a] }

// Printer writes values as lines of canonical text, with the tables that read them. Two files with
// the same meaning have the same text:
//
//  1. A line is PATH=VALUE, with the paths of the file. The text contains no Go names.
//  2. An absent field has no line, and neither has a field with its default value. An empty
//     list counts as absent.
//  3. Each value has one form: the shortest for durations, sizes and numbers, and the tokens
//     for expressions. The text contains no white space and no comments of the file.
type Printer struct {
	Least Affects                                   // omits fields that affect less
	Again func(p *Printer, path string, values any) // prints the steps of a case of a route, as Reader.Again reads them
	Word  func(name string) string                  // returns the text to print for a name that a field reads; nil prints the name

	lines    []string
	explicit bool // the file contains the next value, so print it even if it is zero
}

// Text returns all lines, each with a line break.
func (p *Printer) Text() string { return strings.Join(p.lines, "") }

// Line adds a line.
func (p *Printer) Line(path, value string) {
	p.lines = append(p.lines, path+"="+value+"\n")
}

// wrote reports whether the file contains the value to print, even if it is zero. It resets the
// flag.
func (p *Printer) wrote() bool {
	was := p.explicit
	p.explicit = false
	return was
}

// printScalar prints a value that is not zero, or that the file contains.
func printScalar[T comparable](p *Printer, path string, v *T) {
	if written := p.wrote(); written || *v != *new(T) {
		p.Line(path, canonical(*v))
	}
}

// canonical returns the canonical text of a scalar.
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

// canonicalName returns a name in the form that paths use.
func canonicalName(name string) string {
	if plainName.MatchString(name) {
		return name
	}
	return strconv.Quote(name)
}

var plainName = regexp.MustCompile(`^[A-Za-z0-9_-]+$`)

// Default returns a form that prints nothing for the value v, so that a file with the default has
// the same text as a file without the field.
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

// Unless returns a form that prints nothing for a value if is returns true: such a value means the
// same as an absent field.
func (f Form[T]) Unless(is func(*T) bool) Form[T] {
	inner := f.Print
	f.Print = func(p *Printer, path string, value *T) {
		if !is(value) {
			inner(p, path, value)
		}
	}
	return f
}

// Reads returns a form for texts that read names. rename returns the canonical form of a text, with
// word(name) in place of each name; a nil word keeps the names.
func Reads(rename func(text string, word func(name string) string) string, f Form[string]) Form[string] {
	inner := f.Print
	f.Print = func(p *Printer, path string, value *string) {
		text := rename(*value, p.Word)
		inner(p, path, &text)
	}
	return f
}

// As returns a form that prints the text that one returns.
func As(one func(string) string, f Form[string]) Form[string] {
	return Reads(func(text string, _ func(string) string) string { return one(text) }, f)
}

// AnyOrder returns a form for a mapping from names in any order: the order has no meaning.
func AnyOrder[T any](name func(*T) *string, f Form[[]T]) Form[[]T] {
	inner := f.Print
	f.Print = func(p *Printer, path string, value *[]T) {
		sorted := slices.Clone(*value)
		slices.SortStableFunc(sorted, func(a, b T) int { return strings.Compare(*name(&a), *name(&b)) })
		inner(p, path, &sorted)
	}
	return f
}

// printFields prints a struct with its table.
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
