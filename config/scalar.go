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

// scalar returns the text of a scalar, with the variables it names.
func (r *reader) scalar(n *node, path, hint string) (string, bool) {
	if !r.expect(n, path, scalar, hint) || !r.interpolate(n, path) {
		return "", false
	}
	if n.text == "" && n.style == plain {
		r.fail(n.offset, path, "has no value", hint)
		return "", false
	}
	return n.text, true
}

// textOf reads any scalar as the text that stands there: a name or an
// expression. what it is is shown where there is none.
func textOf(what string) form[string] {
	hint := "write " + what
	return form[string]{func(r *reader, n *node, path string, into *string) {
		text, ok := r.scalar(n, path, hint)
		switch text = strings.TrimRight(text, "\n"); {
		case !ok:
		case strings.TrimSpace(text) == "":
			r.fail(n.offset, path, "is empty", hint)
		default:
			*into = text
		}
	}, shape{kind: anyText, text: what}}
}

// secret reads text that a variable of the environment holds: what stands in a
// file is read by all who have the file. instead is the word that names a file
// of it. The line is not shown, since others read what is printed.
func secret(instead string) form[string] {
	hint := fmt.Sprintf("write ${NAME} and export NAME=..., or use `%s`", instead)
	return form[string]{func(r *reader, n *node, path string, into *string) {
		if n.kind == scalar && !aVariable.MatchString(n.text) && !r.full() {
			found := r.source.errorAt(n.offset, path, "a secret has no place in the file", hint)
			found.Excerpt = ""
			r.errors = append(r.errors, found)
			return
		}
		if name := strings.Trim(n.text, "${}"); n.kind == scalar {
			if _, set := r.lookup(name); !set { // with another hint than where a default may stand
				r.fail(n.offsetOf(r.source.text, 1), path, "the environment variable "+name+" is not set", fmt.Sprintf("export %s=..., or use `%s`", name, instead))
				return
			}
		}
		if text, ok := r.scalar(n, path, hint); ok {
			*into = text
		}
	}, shape{kind: aSecret}}
}

var aVariable = regexp.MustCompile(secretText)

const secretText = `^\$\{[A-Za-z_][A-Za-z0-9_]*\}$`

// choice reads one of a few words.
func choice[S ~string](allowed ...string) form[S] {
	return form[S]{func(r *reader, n *node, path string, into *S) {
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
	}, shape{kind: aChoice, allowed: allowed}}
}

// decimal is how a whole number is written: YAML's other forms (010, 0x1F,
// 1_000) mean different numbers to different readers.
var decimal = regexp.MustCompile(`^[-+]?(0|[1-9][0-9]*)$`)

// fractional is how a number with a point or an exponent is written.
var fractional = regexp.MustCompile(`^[-+]?((0|[1-9][0-9]*)(\.[0-9]*)?|\.[0-9]+)([eE][-+]?[0-9]+)?$`)

// whole reads a whole number from low to high.
func whole[I ~int | ~int32](low, high int64) form[I] {
	return form[I]{func(r *reader, n *node, path string, into *I) {
		hint := fmt.Sprintf("write a whole number from %s to %s", thousands(low), thousands(high))
		text, ok := r.scalar(n, path, hint)
		if !ok {
			return
		}
		value, err := strconv.ParseInt(text, 10, 64)
		switch {
		case n.style != plain && decimal.MatchString(text):
			next := "remove the quotes"
			if n.origin != nil { // without them { } cannot hold a variable
				next += ", and write the mapping in lines where it stands in { }"
			}
			r.fail(n.offset, path, "must be a number, is text", next)
		case n.style != plain || !decimal.MatchString(text):
			r.fail(n.offset, path, shorten(text)+" is not a whole number", hint)
		case err != nil || value < low || value > high:
			r.fail(n.offset, path, shorten(text)+" is out of range", hint)
		default:
			*into = I(value)
		}
	}, shape{kind: aWhole, low: thousands(low), high: thousands(high)}}
}

// version reads a model's version.
func version() form[int] {
	f := whole[int](1, math.MaxInt32)
	return form[int]{func(r *reader, n *node, path string, into *int) {
		if n.kind == scalar && n.text == "latest" {
			r.fail(n.offset, path, `"latest" is not a version: the same log would score differently after a new file`,
				"write the number of the version, such as 1, and raise it with the file")
			return
		}
		f.read(r, n, path, into)
	}, f.shape}
}

// number reads a finite number.
func number() form[float64] {
	return form[float64]{func(r *reader, n *node, path string, into *float64) {
		text, ok := r.scalar(n, path, "write a number")
		if !ok {
			return
		}
		value, err := strconv.ParseFloat(text, 64)
		if n.style != plain || !fractional.MatchString(text) || err != nil || math.IsInf(value, 0) {
			r.fail(n.offset, path, shorten(text)+" is not a finite number", "write a number such as 0, -1 or 0.5, without quotes")
			return
		}
		*into = value
	}, shape{kind: aNumber}}
}

// fraction reads a number above 0, up to 1.
func fraction() form[float64] {
	f := number()
	return form[float64]{func(r *reader, n *node, path string, into *float64) {
		before := len(r.errors)
		if f.read(r, n, path, into); len(r.errors) == before && !(*into > 0 && *into <= 1) {
			r.fail(n.offset, path, shorten(n.text)+" is out of range", "write a number above 0, up to 1, such as 0.5")
		}
	}, shape{kind: aNumber, low: "0", high: "1"}}
}

// orWord reads a word, which turns a switch on, or what another form reads.
func orWord[T any](word string, get func(*T) *bool, other form[T]) form[T] {
	return form[T]{func(r *reader, n *node, path string, into *T) {
		before := len(r.errors)
		switch other.read(r, n, path, into); {
		case n.kind == scalar && n.text == word: // perhaps that of a variable
			*get(into), r.errors = true, r.errors[:before]
		case len(r.errors) > before:
			r.errors[before].Hint += ", or `" + word + "`"
		}
	}, shape{kind: either, of: []shape{other.shape, {kind: aChoice, allowed: []string{word}, get: get}}}}
}

// onlyTrue reads the word true: what is not wanted is left out.
func onlyTrue() form[bool] {
	return form[bool]{func(r *reader, n *node, path string, into *bool) {
		text, ok := r.scalar(n, path, "write `true`")
		if *into = ok && text == "true" && n.style == plain; ok && !*into {
			r.fail(n.offset, path, shorten(text)+" is not `true`", "write `true`, or remove the word")
		}
	}, shape{kind: aTrue}}
}

// not reads true or false, and keeps the opposite.
func not() form[bool] {
	return form[bool]{func(r *reader, n *node, path string, into *bool) {
		const hint = "write `true` or `false`"
		text, ok := r.scalar(n, path, hint)
		if *into = ok && text == "false"; ok && (n.style != plain || text != "true" && text != "false") {
			r.fail(n.offset, path, shorten(text)+" is not `true` or `false`", hint)
		}
	}, shape{kind: aSwitch}}
}

// span reads a duration from low to high.
func span(low, high time.Duration) form[time.Duration] {
	return bounded(aDuration, "duration", "20ms or 5s", parseDuration, formatDuration, low, high)
}

// size reads a number of bytes from low to high.
func size(low, high int) form[int] {
	return bounded(aSize, "size", "64KiB or 1MB", parseSize, formatSize, low, high)
}

// bounded reads a quantity, a number with its unit, from low to high.
func bounded[T time.Duration | int](kind shapeKind, what, such string, parse func(string) (T, bool), format func(T) string, low, high T) form[T] {
	return form[T]{func(r *reader, n *node, path string, into *T) {
		hint := fmt.Sprintf("write a %s from %s to %s, such as %s", what, format(low), format(high), such)
		text, ok := r.scalar(n, path, hint)
		if !ok {
			return
		}
		value, ok := parse(text)
		switch {
		case !ok:
			r.fail(n.offset, path, shorten(text)+" is not a "+what, hint)
		case value < low || value > high:
			r.fail(n.offset, path, shorten(text)+" is out of range", hint)
		default:
			*into = value
		}
	}, shape{kind: kind, low: format(low), high: format(high)}}
}

// share reads a part of the events within a time.
func share() form[afterbay.Share] {
	const hint = "write a share of the events and a time from 1s to 1h, such as 5%/1m"
	return form[afterbay.Share]{func(r *reader, n *node, path string, into *afterbay.Share) {
		text, ok := r.scalar(n, path, hint)
		if !ok {
			return
		}
		of, per, paned := strings.Cut(text, "/")
		of, percent := strings.CutSuffix(of, "%")
		part, err := strconv.ParseFloat(of, 64)
		within, timed := parseDuration(per)
		switch {
		case !paned || !percent || !timed || err != nil || !fractional.MatchString(of):
			r.fail(n.offset, path, shorten(text)+" is not a share", hint)
		case part <= 0 || part >= 100 || within < time.Second || within > time.Hour:
			r.fail(n.offset, path, shorten(text)+" is out of range", hint+"; above 0% and below 100%")
		default:
			*into = afterbay.Share{Of: part / 100, Per: within}
		}
	}, shape{kind: anyText, text: "a share of the events within a time, such as 5%/1m"}}
}

// window reads a window, a size or size/pane, as it is written: features are
// named after it.
func window() form[string] {
	const hint = "write a size such as 60s or 24h, or size/pane such as 60s/5s"
	return form[string]{func(r *reader, n *node, path string, into *string) {
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
	}, shape{kind: aWindow}}
}

// constant reads a scalar, or a table of scalars of one kind.
func constant() form[afterbay.Constant] {
	return form[afterbay.Constant]{func(r *reader, n *node, path string, into *afterbay.Constant) {
		if n.kind != mapping {
			into.Value = r.constantScalar(n, path)
			return
		}
		into.Table = r.table(n, path)
	}, shape{kind: aConstant}}
}

func (r *reader) table(n *node, path string) map[string]any {
	entries := r.entries(n, path, "write `<key>: <value>`")
	table := make(map[string]any, len(entries))
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
		table[e.key] = value
	}
	return table
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
