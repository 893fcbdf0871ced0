package config

import (
	"fmt"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/afterbay/afterbay"
)

// reader reads one document's nodes into a pipeline. It collects what is wrong
// and where every field stands.
type reader struct {
	source *source
	places map[string]place
	errors Errors
}

// place is where a field stands: its value where that is a scalar, otherwise
// its key or its first character.
type place struct {
	offset int
	scalar *node // nil where the value is none
}

// read reads a node, which stands at path, into a value. It reports what is
// wrong to the reader.
type read[T any] func(r *reader, n *node, path string, into *T)

// word is one word of a mapping: what the pipeline file may say there.
type word[T any] struct {
	name     string
	required bool
	read     read[T]
	instead  string // of a word that is not built: what to do until it is; read is nil
}

// fail adds a finding. Past the most that are reported it does nothing, which
// bounds the time that a bad file takes.
func (r *reader) fail(offset int, path, message, hint string) {
	if !r.full() {
		r.errors = append(r.errors, r.source.errorAt(offset, path, message, hint))
	}
}

func (r *reader) full() bool { return len(r.errors) > maxErrors }

func (r *reader) place(path string, key int, n *node) {
	p := place{offset: key}
	if n.kind == scalar {
		p = place{offset: n.offset, scalar: n}
	}
	r.places[path] = p
}

func join(path, key string) string {
	if path == "" {
		return key
	}
	return path + "." + key
}

// expect reports whether n is of kind want, with something in it, and says so
// where it is not.
func (r *reader) expect(n *node, path string, want kind, hint string) bool {
	switch {
	case n.kind == nothing:
		r.fail(n.offset, path, "has no value", hint)
	case n.kind != want:
		r.fail(n.offset, path, fmt.Sprintf("must be %s, is %s", want, n.kind), hint)
	case want == mapping && len(n.entries) == 0, want == list && len(n.items) == 0:
		r.fail(n.offset, path, "is empty", hint)
	default:
		return true
	}
	return false
}

// entries returns the entries of a mapping, each key once.
func (r *reader) entries(n *node, path, hint string) []entry {
	if !r.expect(n, path, mapping, hint) {
		return nil
	}
	lines := make(map[string]int, len(n.entries)) // of each key's first entry
	unique := make([]entry, 0, len(n.entries))
	for _, e := range n.entries {
		here := join(path, e.key)
		if first, twice := lines[e.key]; twice {
			r.fail(e.offset, here, shorten(e.key)+" is written twice", fmt.Sprintf("remove one; the first is on line %d", first))
			continue
		}
		lines[e.key] = r.source.line(e.offset)
		r.place(here, e.offset, e.value)
		unique = append(unique, e)
	}
	return unique
}

// words reads a mapping of known words into the fields of T.
func words[T any](known []word[T]) read[T] {
	return func(r *reader, n *node, path string, into *T) {
		var names []string // of the words that are built
		for _, w := range known {
			if w.read != nil {
				names = append(names, w.name)
			}
		}
		entries := r.entries(n, path, "write "+alternatives(names))
		clean := len(entries) > 0
		for _, e := range entries {
			if r.full() {
				return
			}
			here := join(path, e.key)
			i := slices.IndexFunc(known, func(w word[T]) bool { return w.name == e.key })
			switch {
			case i < 0:
				clean = false
				r.fail(e.offset, here, "unknown word "+shorten(e.key), suggest(e.key, names, known))
			case known[i].read == nil:
				clean = false
				r.fail(e.offset, here, "`"+e.key+"` is not supported yet", known[i].instead)
			default:
				known[i].read(r, e.value, here, into)
			}
		}
		// A word that is wrong is most likely the one that misses.
		for _, w := range known {
			if clean && w.required && !slices.ContainsFunc(entries, func(e entry) bool { return e.key == w.name }) {
				r.missing(n, path, w.name)
			}
		}
	}
}

func (r *reader) missing(n *node, path, name string) {
	offset := n.offset
	if p, ok := r.places[path]; ok {
		offset = p.offset
	}
	r.fail(offset, path, fmt.Sprintf("`%s` is missing", name), fmt.Sprintf("add `%s: ...`", name))
}

// field reads into the field of T that get returns.
func field[T, U any](get func(*T) *U, read read[U]) read[T] {
	return func(r *reader, n *node, path string, into *T) { read(r, n, path, get(into)) }
}

// named reads a mapping from names to values, in its order. name returns where
// an element keeps its name.
func named[T any](name func(*T) *string, read read[T]) read[[]T] {
	return func(r *reader, n *node, path string, into *[]T) {
		for _, e := range r.entries(n, path, "write `<name>: <value>`") {
			var element T
			*name(&element) = e.key
			if e.key == "" {
				r.fail(e.offset, path, "a name is empty", "write a name")
			}
			read(r, e.value, join(path, e.key), &element)
			*into = append(*into, element)
		}
	}
}

// listOf reads a list.
func listOf[T any](read read[T]) read[[]T] {
	return func(r *reader, n *node, path string, into *[]T) {
		if !r.expect(n, path, list, "write `[...]`, or one `- ...` a line") {
			return
		}
		for i, item := range n.items {
			here := fmt.Sprintf("%s[%d]", path, i)
			r.place(here, item.offset, item)
			var element T
			read(r, item, here, &element)
			*into = append(*into, element)
		}
	}
}

// listOr reads a list by one, a mapping by the other.
func listOr[T any](list_, mapping_ read[T]) read[T] {
	return func(r *reader, n *node, path string, into *T) {
		switch {
		case n.kind == mapping:
			mapping_(r, n, path, into)
		case n.kind == scalar:
			r.fail(n.offset, path, "must be a list or a mapping, is a single value", "write `[name]` or `{name: expression}`")
		default:
			list_(r, n, path, into)
		}
	}
}

// scalar returns the text of a scalar.
func (r *reader) scalar(n *node, path, hint string) (string, bool) {
	if !r.expect(n, path, scalar, hint) {
		return "", false
	}
	if i := strings.Index(n.text, "${"); i >= 0 {
		at := n.offsetOf(r.source.text, len([]rune(n.text[:i]))+1)
		r.fail(at, path, "`${...}` is not supported yet", "write the value itself")
		return "", false
	}
	return n.text, true
}

// textOf reads any scalar as the text that stands there: a name or an
// expression. example is shown where there is none.
func textOf(example string) read[string] {
	return func(r *reader, n *node, path string, into *string) {
		hint := "write " + example
		text, ok := r.scalar(n, path, hint)
		switch text = strings.TrimRight(text, "\n"); {
		case !ok:
		case strings.TrimSpace(text) == "":
			r.fail(n.offset, path, "is empty", hint)
		default:
			*into = text
		}
	}
}

// choice reads one of a few words.
func choice[S ~string](allowed ...string) read[S] {
	return func(r *reader, n *node, path string, into *S) {
		hint := "write " + alternatives(allowed)
		text, ok := r.scalar(n, path, hint)
		switch {
		case !ok:
		case slices.Contains(allowed, text):
			*into = S(text)
		default:
			if near := nearest(text, allowed); near != "" {
				hint = fmt.Sprintf("did you mean %q?", near)
			}
			r.fail(n.offset, path, shorten(text)+" is none of "+alternatives(allowed), hint)
		}
	}
}

// decimal is how a whole number is written: YAML's other forms (010, 0x1F,
// 1_000) mean different numbers to different readers.
var decimal = regexp.MustCompile(`^[-+]?(0|[1-9][0-9]*)$`)

// fractional is how a number with a point or an exponent is written.
var fractional = regexp.MustCompile(`^[-+]?((0|[1-9][0-9]*)(\.[0-9]*)?|\.[0-9]+)([eE][-+]?[0-9]+)?$`)

// whole reads a whole number from low to high.
func whole[I ~int | ~int32](low, high int64) read[I] {
	return func(r *reader, n *node, path string, into *I) {
		hint := fmt.Sprintf("write a whole number from %s to %s", thousands(low), thousands(high))
		text, ok := r.scalar(n, path, hint)
		if !ok {
			return
		}
		value, err := strconv.ParseInt(text, 10, 64)
		switch {
		case n.style != plain && decimal.MatchString(text):
			r.fail(n.offset, path, "must be a number, is text", "remove the quotes")
		case n.style != plain || !decimal.MatchString(text):
			r.fail(n.offset, path, shorten(text)+" is not a whole number", hint)
		case err != nil || value < low || value > high:
			r.fail(n.offset, path, shorten(text)+" is out of range", hint)
		default:
			*into = I(value)
		}
	}
}

// number reads a finite number.
func number(r *reader, n *node, path string, into **float64) {
	text, ok := r.scalar(n, path, "write a number")
	if !ok {
		return
	}
	value, err := strconv.ParseFloat(text, 64)
	if n.style != plain || !fractional.MatchString(text) || err != nil || math.IsInf(value, 0) {
		r.fail(n.offset, path, shorten(text)+" is not a finite number", "write a number such as 0, -1 or 0.5, without quotes")
		return
	}
	*into = &value
}

// onlyTrue reads the word true: what is not wanted is left out.
func onlyTrue(r *reader, n *node, path string, into *bool) {
	text, ok := r.scalar(n, path, "write `true`")
	if *into = ok && text == "true" && n.style == plain; ok && !*into {
		r.fail(n.offset, path, shorten(text)+" is not `true`", "write `true`, or remove the word")
	}
}

// span reads a duration from low to high.
func span(low, high time.Duration) read[time.Duration] {
	return func(r *reader, n *node, path string, into *time.Duration) {
		hint := fmt.Sprintf("write a duration from %s to %s, such as 20ms or 5s", formatDuration(low), formatDuration(high))
		text, ok := r.scalar(n, path, hint)
		if !ok {
			return
		}
		value, ok := parseDuration(text)
		switch {
		case !ok:
			r.fail(n.offset, path, shorten(text)+" is not a duration", hint)
		case value < low || value > high:
			r.fail(n.offset, path, shorten(text)+" is out of range", hint)
		default:
			*into = value
		}
	}
}

// window reads a window, a size or size/pane, as it is written: features are
// named after it.
func window(r *reader, n *node, path string, into *string) {
	const hint = "write a size such as 60s or 24h, or size/pane such as 60s/5s"
	text, ok := r.scalar(n, path, hint)
	if !ok {
		return
	}
	size, pane, paned := strings.Cut(text, "/")
	if !paned {
		pane = size
	}
	sizeValue, sizeOK := parseDuration(size)
	paneValue, paneOK := parseDuration(pane)
	if !sizeOK || !paneOK || sizeValue <= 0 || paneValue <= 0 {
		r.fail(n.offset, path, shorten(text)+" is not a window", hint)
		return
	}
	*into = text
}

// size reads a number of bytes from low to high.
func size(low, high int64) read[int] {
	return func(r *reader, n *node, path string, into *int) {
		hint := fmt.Sprintf("write a size from %s to %s, such as 64KiB or 1MB", formatSize(low), formatSize(high))
		text, ok := r.scalar(n, path, hint)
		if !ok {
			return
		}
		value, ok := parseSize(text)
		switch {
		case !ok:
			r.fail(n.offset, path, shorten(text)+" is not a size", hint)
		case value < low || value > high:
			r.fail(n.offset, path, shorten(text)+" is out of range", hint)
		default:
			*into = int(value)
		}
	}
}

// constant reads a scalar, or a table of scalars of one kind.
func constant(r *reader, n *node, path string, into *afterbay.Constant) {
	if n.kind != mapping {
		into.Value = r.constantScalar(n, path)
		return
	}
	entries := r.entries(n, path, "write `<key>: <value>`")
	into.Table = make(map[string]any, len(entries))
	var first any
	for _, e := range entries {
		here := join(path, e.key)
		value := r.constantScalar(e.value, here)
		if value == nil {
			continue
		}
		if first == nil {
			first = value
		}
		if is, was := kindOf(value), kindOf(first); is != was {
			r.fail(e.value.offset, here, fmt.Sprintf("is %s, but the table's first value is %s", is, was),
				"write all values of a table as one kind; 1.0 is a number, 1 an int, '1' a string")
			continue
		}
		into.Table[e.key] = value
	}
}

// constantScalar returns a bool, int64, float64 or string; nil where it is
// none.
func (r *reader) constantScalar(n *node, path string) any {
	const hint = "write true, false, a decimal number or text"
	text, ok := r.scalar(n, path, hint)
	switch {
	case !ok:
		return nil
	case n.style != plain:
		return text
	case text == "true", text == "false":
		return text == "true"
	case decimal.MatchString(text):
		value, err := strconv.ParseInt(text, 10, 64)
		if err != nil {
			r.fail(n.offset, path, shorten(text)+" does not fit into 64 bits", "write it as a number, such as 1e20, or quote it")
			return nil
		}
		return value
	case fractional.MatchString(text):
		value, err := strconv.ParseFloat(text, 64)
		if err != nil || math.IsInf(value, 0) {
			r.fail(n.offset, path, shorten(text)+" is out of range", "write a finite number, or quote it")
			return nil
		}
		return value
	case n.foreign || strings.Trim(text, "0123456789") == "" || strings.EqualFold(text, "true") || strings.EqualFold(text, "false"):
		r.fail(n.offset, path, shorten(text)+" reads differently to different YAML readers", hint+"; quote it where it is text")
		return nil
	}
	return text
}

func kindOf(value any) string {
	switch value.(type) {
	case bool:
		return "a bool"
	case int64:
		return "an int"
	case float64:
		return "a number"
	}
	return "a string"
}
