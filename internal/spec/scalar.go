package spec

import (
	"fmt"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// scalar returns the text of a scalar with its variables replaced.
func (r *Reader) scalar(n *Node, path, hint string) (string, bool) {
	if !r.expect(n, path, Scalar, hint) || !r.interpolate(n, path) {
		return "", false
	}
	if n.Text == "" && n.Style == Plain {
		r.Fail(n.Offset, path, "has no value", hint)
		return "", false
	}
	return n.Text, true
}

// TextOf reads any scalar as text, such as a name or an expression. The hint of an error names
// what.
func TextOf(what string) Form[string] {
	hint := "write " + what
	return Form[string]{func(r *Reader, n *Node, path string, into *string) {
		text, ok := r.scalar(n, path, hint)
		switch text = strings.TrimRight(text, "\n"); {
		case !ok:
		case strings.TrimSpace(text) == "":
			r.Fail(n.Offset, path, "is empty", hint)
		default:
			*into = text
		}
	}, printScalar[string], Shape{Kind: AnyText, Text: what}}
}

// Secret reads text that must come from an environment variable, because everyone with access to
// the file can read it. instead is the field that names a file with the secret, or "". The error
// shows no excerpt, because others may read printed output.
func Secret(instead string) Form[string] {
	or := ""
	if instead != "" {
		or = ", or use `" + instead + "`"
	}
	hint := "write ${NAME} and export NAME=..." + or
	return Form[string]{func(r *Reader, n *Node, path string, into *string) {
		if n.Kind == Scalar && !AVariable.MatchString(n.Text) && !r.Full() {
			found := r.Source.ErrorAt(n.Offset, path, "a secret has no place in the file", hint)
			found.Excerpt = ""
			r.Errors = append(r.Errors, found)
			return
		}
		if name := strings.Trim(n.Text, "${}"); n.Kind == Scalar {
			if _, set := r.Lookup(name); !set { // the hint differs from that of interpolate: no default is allowed here
				r.Fail(n.OffsetOf(r.Source.Text, 1), path, "the environment variable "+name+" is not set", "export "+name+"=..."+or)
				return
			}
		}
		if text, ok := r.scalar(n, path, hint); ok {
			*into = text
		}
	}, printScalar[string], Shape{Kind: ASecret}}
}

var AVariable = regexp.MustCompile(SecretText)

const SecretText = `^\$\{[A-Za-z_][A-Za-z0-9_]*\}$`

// Choice reads one of a few words.
func Choice[S ~string](allowed ...string) Form[S] {
	return Form[S]{func(r *Reader, n *Node, path string, into *S) {
		hint := "write " + alternatives(allowed)
		text, ok := r.scalar(n, path, hint)
		switch {
		case !ok:
		case slices.Contains(allowed, text):
			*into = S(text)
		case r.renamed(n.Offset, path, text):
		default:
			if near := Nearest(text, allowed); near != "" {
				hint = fmt.Sprintf("did you mean %q?", near)
			}
			r.Fail(n.Offset, path, Shorten(text)+" is not one of "+alternatives(allowed), hint)
		}
	}, printScalar[S], Shape{Kind: AChoice, Allowed: allowed}}
}

// Decimal matches a whole number. Other YAML forms (010, 0x1F, 1_000) mean different numbers to
// different readers.
var Decimal = regexp.MustCompile(`^[-+]?(0|[1-9][0-9]*)$`)

// Fractional matches a number with a decimal point or an exponent.
var Fractional = regexp.MustCompile(`^[-+]?((0|[1-9][0-9]*)(\.[0-9]*)?|\.[0-9]+)([eE][-+]?[0-9]+)?$`)

// Whole reads a whole number from low to high.
func Whole[I ~int | ~int32](low, high int64) Form[I] {
	return Form[I]{func(r *Reader, n *Node, path string, into *I) {
		hint := fmt.Sprintf("write a whole number from %s to %s", Thousands(low), Thousands(high))
		text, ok := r.scalar(n, path, hint)
		if !ok {
			return
		}
		value, err := strconv.ParseInt(text, 10, 64)
		switch {
		case n.Style != Plain && Decimal.MatchString(text):
			next := "remove the quotes"
			if n.origin != nil { // without the quotes, a variable inside { } is invalid YAML
				next += "; if the mapping is written in { }, write it in lines"
			}
			r.Fail(n.Offset, path, "must be a number, is text", next)
		case n.Style != Plain || !Decimal.MatchString(text):
			r.Fail(n.Offset, path, Shorten(text)+" is not a whole number", hint)
		case err != nil || value < low || value > high:
			r.Fail(n.Offset, path, Shorten(text)+" is out of range", hint)
		default:
			*into = I(value)
		}
	}, printScalar[I], Shape{Kind: AWhole, Low: Thousands(low), High: Thousands(high)}}
}

// Version reads a model's version.
func Version() Form[int] {
	f := Whole[int](1, math.MaxInt32)
	return Form[int]{func(r *Reader, n *Node, path string, into *int) {
		if n.Kind == Scalar && n.Text == "latest" {
			r.Fail(n.Offset, path, `"latest" is not a version: the same log would score differently after a new file`,
				"write the number of the version, such as 1, and raise it with the file")
			return
		}
		f.Read(r, n, path, into)
	}, f.Print, f.Shape}
}

// Number reads a finite number.
func Number() Form[float64] {
	return Form[float64]{func(r *Reader, n *Node, path string, into *float64) {
		text, ok := r.scalar(n, path, "write a number")
		if !ok {
			return
		}
		value, err := strconv.ParseFloat(text, 64)
		if n.Style != Plain || !Fractional.MatchString(text) || err != nil || math.IsInf(value, 0) {
			r.Fail(n.Offset, path, Shorten(text)+" is not a finite number", "write a number such as 0, -1 or 0.5, without quotes")
			return
		}
		*into = value
	}, printScalar[float64], Shape{Kind: ANumber}}
}

// Fraction reads a number above 0, up to 1.
func Fraction() Form[float64] {
	f := Number()
	return Form[float64]{func(r *Reader, n *Node, path string, into *float64) {
		before := len(r.Errors)
		if f.Read(r, n, path, into); len(r.Errors) == before && !(*into > 0 && *into <= 1) {
			r.Fail(n.Offset, path, Shorten(n.Text)+" is out of range", "write a number above 0, up to 1, such as 0.5")
		}
	}, f.Print, Shape{Kind: ANumber, Low: "0", High: "1"}}
}

// OrWord reads a word that turns a switch on, or a value of another form.
func OrWord[T any](word string, get func(*T) *bool, other Form[T]) Form[T] {
	return Form[T]{func(r *Reader, n *Node, path string, into *T) {
		before := len(r.Errors)
		switch other.Read(r, n, path, into); {
		case n.Kind == Scalar && n.Text == word: // the value of a variable may be the word
			*get(into), r.Errors = true, r.Errors[:before]
		case len(r.Errors) > before:
			r.Errors[before].Hint += ", or `" + word + "`"
		}
	}, func(p *Printer, path string, v *T) {
		if *get(v) {
			p.wrote()
			p.Line(path, word)
			return
		}
		other.Print(p, path, v)
	}, Shape{Kind: Either, Of: []Shape{other.Shape, {Kind: AChoice, Allowed: []string{word}, Get: get}}}}
}

// OnlyTrue reads the word true. To turn the option off, omit the field.
func OnlyTrue() Form[bool] {
	return Form[bool]{func(r *Reader, n *Node, path string, into *bool) {
		text, ok := r.scalar(n, path, "write `true`")
		if *into = ok && text == "true" && n.Style == Plain; ok && !*into {
			r.Fail(n.Offset, path, Shorten(text)+" is not `true`", "write `true`, or remove the word")
		}
	}, printScalar[bool], Shape{Kind: ATrue}}
}

// NumberFrom reads a finite number from low to high.
func NumberFrom(low, high float64) Form[float64] {
	f := Number()
	shape := Shape{Kind: ANumber, Closed: true}
	for _, bound := range []struct {
		v    float64
		into *string
	}{{low, &shape.Low}, {high, &shape.High}} {
		if !math.IsInf(bound.v, 0) {
			*bound.into = strconv.FormatFloat(bound.v, 'g', -1, 64)
		}
	}
	return Form[float64]{func(r *Reader, n *Node, path string, into *float64) {
		before := len(r.Errors)
		if f.Read(r, n, path, into); len(r.Errors) == before && (*into < low || *into > high) {
			r.Fail(n.Offset, path, Shorten(n.Text)+" is out of range", "write a number"+shape.Range())
		}
	}, f.Print, shape}
}

// Switch reads true or false.
func Switch() Form[bool] {
	f := Not()
	return Form[bool]{func(r *Reader, n *Node, path string, into *bool) {
		var off bool
		before := len(r.Errors)
		if f.Read(r, n, path, &off); len(r.Errors) == before {
			*into = !off
		}
	}, printScalar[bool], f.Shape}
}

// Not reads true or false, and stores the opposite.
func Not() Form[bool] {
	return Form[bool]{func(r *Reader, n *Node, path string, into *bool) {
		const hint = "write `true` or `false`"
		text, ok := r.scalar(n, path, hint)
		if *into = ok && text == "false"; ok && (n.Style != Plain || text != "true" && text != "false") {
			r.Fail(n.Offset, path, Shorten(text)+" is not `true` or `false`", hint)
		}
	}, func(p *Printer, path string, off *bool) {
		if p.wrote(); *off {
			p.Line(path, "false")
		}
	}, Shape{Kind: ASwitch}}
}

// Span reads a duration from low to high.
func Span(low, high time.Duration) Form[time.Duration] {
	return bounded(ADuration, "duration", "20ms 5s 10m 1h", ParseDuration, FormatDuration, low, high)
}

// Size reads a number of bytes from low to high.
func Size(low, high int) Form[int] {
	return bounded(ASize, "size", "64KiB 1MB 64MiB 1GiB", ParseSize, formatSize, low, high)
}

// bounded reads a quantity with a unit, from low to high. An error names the first two examples
// inside this range.
func bounded[T time.Duration | int](kind ShapeKind, what, examples string, parse func(string) (T, bool), format func(T) string, low, high T) Form[T] {
	return Form[T]{func(r *Reader, n *Node, path string, into *T) {
		such := slices.DeleteFunc(strings.Fields(examples), func(example string) bool {
			value, _ := parse(example)
			return value < low || value > high
		})
		hint := fmt.Sprintf("write a %s from %s to %s, such as %s", what, format(low), format(high), strings.Join(such[:min(2, len(such))], " or "))
		text, ok := r.scalar(n, path, hint)
		if !ok {
			return
		}
		value, ok := parse(text)
		switch {
		case !ok:
			r.Fail(n.Offset, path, Shorten(text)+" is not a "+what, hint)
		case value < low || value > high:
			r.Fail(n.Offset, path, Shorten(text)+" is out of range", hint)
		default:
			*into = value
		}
	}, printScalar[T], Shape{Kind: kind, Low: format(low), High: format(high)}}
}

// ShareForm reads a share of the events within a time.
func ShareForm() Form[Share] {
	const hint = "write a share of the events and a time from 1s to 1h, such as 5%/1m"
	return Form[Share]{func(r *Reader, n *Node, path string, into *Share) {
		text, ok := r.scalar(n, path, hint)
		if !ok {
			return
		}
		of, per, paned := strings.Cut(text, "/")
		of, percent := strings.CutSuffix(of, "%")
		part, err := strconv.ParseFloat(of, 64)
		within, timed := ParseDuration(per)
		switch {
		case !paned || !percent || !timed || err != nil || !Fractional.MatchString(of):
			r.Fail(n.Offset, path, Shorten(text)+" is not a share", hint)
		case part <= 0 || part >= 100 || within < time.Second || within > time.Hour:
			r.Fail(n.Offset, path, Shorten(text)+" is out of range", hint+"; above 0% and below 100%")
		default:
			*into = Share{Of: part / 100, Per: within}
		}
	}, printScalar[Share], Shape{Kind: AnyText, Text: "a share of the events within a time, such as 5%/1m"}}
}

// Window reads a window, a size or size/pane, and keeps its text: columns of features are named
// after it.
func Window() Form[string] {
	const hint = "write a size such as 60s or 24h, or size/pane such as 60s/5s"
	return Form[string]{func(r *Reader, n *Node, path string, into *string) {
		text, ok := r.scalar(n, path, hint)
		if !ok {
			return
		}
		size, pane, paned := strings.Cut(text, "/")
		if !paned {
			pane = size
		}
		sizeValue, sizeOK := ParseDuration(size)
		paneValue, paneOK := ParseDuration(pane)
		if !sizeOK || !paneOK || sizeValue <= 0 || paneValue <= 0 {
			r.Fail(n.Offset, path, Shorten(text)+" is not a window", hint)
			return
		}
		*into = text
	}, printScalar[string], Shape{Kind: AWindow}}
}

// ConstantForm reads a scalar, or a table of scalars of one kind.
func ConstantForm() Form[Constant] {
	return Form[Constant]{func(r *Reader, n *Node, path string, into *Constant) {
		if n.Kind != Mapping {
			into.Value = r.constantScalar(n, path)
			return
		}
		into.Table = r.table(n, path)
	}, printConstant, Shape{Kind: AConstant}}
}

func (r *Reader) table(n *Node, path string) map[string]any {
	entries := r.entries(n, path, "write `<key>: <value>`")
	table := make(map[string]any, len(entries))
	var first any
	for _, e := range entries {
		here := Join(path, e.Key)
		value := r.constantScalar(e.Value, here)
		if value == nil {
			continue
		}
		if first == nil {
			first = value
		}
		if is, was := kindOf(value), kindOf(first); is != was {
			r.Fail(e.Value.Offset, here, fmt.Sprintf("is %s, but the table's first value is %s", is, was),
				"write all values of a table as one kind; 1.0 is a number, 1 an int, '1' a string")
			continue
		}
		table[e.Key] = value
	}
	return table
}

// constantScalar returns a bool, int64, float64 or string, or nil for any other node.
func (r *Reader) constantScalar(n *Node, path string) any {
	const hint = "write true, false, a decimal number or text"
	text, ok := r.scalar(n, path, hint)
	switch {
	case !ok:
		return nil
	case n.Style != Plain:
		return text
	case text == "true", text == "false":
		return text == "true"
	case Decimal.MatchString(text):
		value, err := strconv.ParseInt(text, 10, 64)
		if err != nil {
			r.Fail(n.Offset, path, Shorten(text)+" does not fit into 64 bits", "write it as a number, such as 1e20, or quote it")
			return nil
		}
		return value
	case Fractional.MatchString(text):
		value, err := strconv.ParseFloat(text, 64)
		if err != nil || math.IsInf(value, 0) {
			r.Fail(n.Offset, path, Shorten(text)+" is out of range", "write a finite number, or quote it")
			return nil
		}
		return value
	case n.foreign || strings.Trim(text, "0123456789") == "" || strings.EqualFold(text, "true") || strings.EqualFold(text, "false"):
		r.Fail(n.Offset, path, Shorten(text)+" reads differently to different YAML readers", hint+"; quote it if it is text")
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
