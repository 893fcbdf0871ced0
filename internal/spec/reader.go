package spec

import (
	"fmt"
	"slices"
	"strings"
)

// Reader reads the nodes of one document into a struct. It collects errors, and the position of
// each field.
type Reader struct {
	Source *Source
	Places map[string]Place
	Errors Errors
	Again  func(r *Reader, n *Node, path string, into any) // reads the steps of a case of a route, because a table cannot refer to itself

	Lookup   Lookup
	Folder   string // folder for relative paths of files; "" leaves the paths as written
	expanded int    // size in bytes of the scalars that named variables
}

// Place is the position of a field: of its value if that is a scalar, otherwise of its key or its
// first character.
type Place struct {
	Offset int
	Scalar *Node // nil if the value is no scalar
}

// read reads the node at path into a value. It reports errors to the reader.
type read[T any] func(r *Reader, n *Node, path string, into *T)

// Form reads and prints values of type T.
type Form[T any] struct {
	Read  read[T]
	Print func(p *Printer, path string, value *T) // prints canonical text; nil in files without a fingerprint
	Shape Shape
}

// Shape describes the values that a form reads, for the JSON Schema and the reference page.
type Shape struct {
	Kind      ShapeKind
	Text      string         // for text: its meaning
	Low, High string         // for a number, duration or size: the bounds as written; "" means no bound
	Closed    bool           // for a number: Low itself is allowed
	Allowed   []string       // for a choice: the words
	Of        []Shape        // for a list or names: the shape of an element; for either: the alternatives
	Last      *Shape         // for names: the shape of the one named default
	Words     func() []About // for a mapping: its fields
	Get       any            // func(*T) *U that returns the field to read into; nil if there is no such field
}

// Range returns the bounds of a number as text with a leading space; "" if it has none.
func (s *Shape) Range() string {
	switch {
	case s.Low != "" && s.High != "":
		return " from " + s.Low + " to " + s.High
	case s.Low != "":
		return " from " + s.Low
	case s.High != "":
		return " up to " + s.High
	}
	return ""
}

// ShapeKind is the kind of value that a form reads.
type ShapeKind uint8

const (
	AnyText ShapeKind = iota
	AChoice
	AWhole
	ANumber
	ATrue
	ASwitch
	ADuration
	ASize
	AWindow
	AConstant
	ASecret
	AList
	ANames   // a mapping from names
	AMapping // a mapping with known fields
	AStep    // a mapping with exactly one of its fields
	Either
	TheSteps // a list of steps inside a step
)

// Field is one field of a mapping.
type Field[T any] struct {
	Name     string
	Required bool
	Or       string // alternatives to this field, separated by |; a file has only one of them
	Form[T]
	Affects Affects
	Example string // a value
	Help    string // its meaning; "" uses the comment of the struct field
	Absent  string // what applies without it; "" uses what the comment of the struct field says about the zero value
	Instead string // for a field that is not accepted (Read is nil): what to do
	Refused string // for a field that is not accepted: the reason; "" means that it is not implemented
}

// About is a Field without its type parameter.
type About struct {
	Name, Or, Example, Help, Absent, Instead, Refused string
	Required, Accepted                                bool
	Affects                                           Affects
	Shape                                             Shape
	Try                                               func(r *Reader, n *Node, path string)
	Page                                              string                                      // the reference page that describes the field, for a link; "" is the page itself
	Text                                              func(r *Reader, n *Node, p *Printer) string // returns the text that p prints for the value n, or for an absent field if n is nil
}

// Fail adds an error. It does nothing once MaxErrors is exceeded, which bounds the time spent on a
// faulty file.
func (r *Reader) Fail(offset int, path, message, hint string) {
	if !r.Full() {
		r.Errors = append(r.Errors, r.Source.ErrorAt(offset, path, message, hint))
	}
}

// Full reports whether the reader takes no more errors.
func (r *Reader) Full() bool { return len(r.Errors) > MaxErrors }

func (r *Reader) place(path string, key int, n *Node) {
	p := Place{Offset: key}
	if n.Kind == Scalar {
		p = Place{Offset: n.Offset, Scalar: n}
	}
	r.Places[path] = p
}

// Join returns the path of a field inside another.
func Join(path, key string) string {
	if path == "" {
		return key
	}
	return path + "." + key
}

// expect reports whether n has kind want and is not empty. It adds an error if not.
func (r *Reader) expect(n *Node, path string, want kind, hint string) bool {
	switch {
	case n.Kind == NoValue:
		r.Fail(n.Offset, path, "has no value", hint)
	case n.Kind != want:
		r.Fail(n.Offset, path, fmt.Sprintf("must be %s, is %s", want, n.Kind), hint)
	case want == Mapping && len(n.Entries) == 0, want == List && len(n.Items) == 0:
		r.Fail(n.Offset, path, "is empty", hint)
	default:
		return true
	}
	return false
}

// entries returns the entries of a mapping without duplicate keys.
func (r *Reader) entries(n *Node, path, hint string) []entry {
	if !r.expect(n, path, Mapping, hint) {
		return nil
	}
	lines := make(map[string]int, len(n.Entries)) // line of the first entry of each key
	unique := make([]entry, 0, len(n.Entries))
	for _, e := range n.Entries {
		here := Join(path, e.Key)
		if first, twice := lines[e.Key]; twice {
			r.Fail(e.Offset, here, Shorten(e.Key)+" is written twice", fmt.Sprintf("remove one; the first is on line %d", first))
			continue
		}
		lines[e.Key] = r.Source.Line(e.Offset)
		r.place(here, e.Offset, e.Value)
		unique = append(unique, e)
	}
	return unique
}

// MappingOf reads a mapping with known fields into the fields of T.
func MappingOf[T any](known []Field[T]) Form[T] {
	return Form[T]{
		Shape: Shape{Kind: AMapping, Words: func() []About {
			all := make([]About, len(known))
			for i, w := range known {
				all[i] = w.about()
			}
			return all
		}},
		Read:  func(r *Reader, n *Node, path string, into *T) { readFields(r, known, n, path, into) },
		Print: func(p *Printer, path string, value *T) { printFields(p, known, path, value) },
	}
}

func (w *Field[T]) about() About {
	return About{
		Name: w.Name, Or: w.Or, Example: w.Example, Help: w.Help, Absent: w.Absent, Instead: w.Instead, Refused: w.Refused,
		Required: w.Required, Accepted: w.Read != nil, Affects: w.Affects, Shape: w.Shape,
		Try: func(r *Reader, n *Node, path string) { w.Read(r, n, path, new(T)) },
		Text: func(r *Reader, n *Node, p *Printer) string {
			v := new(T)
			if n != nil {
				w.Read(r, n, w.Name, v)
			}
			printFields(p, []Field[T]{*w}, "", v)
			return p.Text()
		},
	}
}

func readFields[T any](r *Reader, known []Field[T], n *Node, path string, into *T) {
	var names []string // names of the accepted fields
	for _, w := range known {
		if w.Read != nil {
			names = append(names, w.Name)
		}
	}
	entries := r.entries(n, path, "write "+alternatives(names))
	clean := len(entries) > 0
	for _, e := range entries {
		if r.Full() {
			return
		}
		here := Join(path, e.Key)
		i := slices.IndexFunc(known, func(w Field[T]) bool { return w.Name == e.Key })
		switch {
		case i < 0 && r.renamed(e.Offset, here, ""):
			clean = false
		case i < 0:
			clean = false
			r.Fail(e.Offset, here, "unknown word "+Shorten(e.Key), suggest(e.Key, names, known))
		case known[i].Read != nil:
			known[i].Read(r, e.Value, here, into)
		case known[i].Refused != "":
			clean = false
			r.Fail(e.Offset, here, known[i].Refused, known[i].Instead)
		default:
			clean = false
			r.Fail(e.Offset, here, "`"+e.Key+"` is not supported yet", known[i].Instead)
		}
	}
	for _, w := range known {
		written := func(name string) int { return slices.IndexFunc(entries, func(e entry) bool { return e.Key == name }) }
		this, there := written(w.Name), false
		for or := range strings.SplitSeq(w.Or, "|") {
			other := written(or)
			if there = there || other >= 0; this >= 0 && other >= 0 {
				second := entries[max(this, other)]
				r.Fail(second.Offset, Join(path, second.Key), fmt.Sprintf("`%s` and `%s` exclude each other", w.Name, or), "remove one of them")
			}
		}
		if clean && w.Required && this < 0 && !there { // an unknown field is most likely the missing one, misspelled
			r.Missing(n, path, w.Name, w.Or)
		}
	}
}

// Missing adds the error that a field, or one of its alternatives, is missing.
func (r *Reader) Missing(n *Node, path, name, or string) {
	offset := n.Offset
	if p, ok := r.Places[path]; ok {
		offset = p.Offset
	}
	hint := fmt.Sprintf("add `%s: ...`", name)
	if or != "" {
		hint += " or `" + strings.ReplaceAll(or, "|", ": ...` or `") + ": ...`"
	}
	r.Fail(offset, path, fmt.Sprintf("`%s` is missing", name), hint)
}

// Into reads into the field of T that get returns.
func Into[T, U any](get func(*T) *U, f Form[U]) Form[T] {
	f.Shape.Get = get
	return Form[T]{func(r *Reader, n *Node, path string, into *T) { f.Read(r, n, path, get(into)) }, func(p *Printer, path string, value *T) { f.Print(p, path, get(value)) }, f.Shape}
}

// Optional reads into a field that is nil if the file does not have it.
func Optional[T, U any](get func(*T) **U, f Form[U]) Form[T] {
	f.Shape.Get = get
	return Form[T]{func(r *Reader, n *Node, path string, into *T) {
		value := new(U)
		*get(into) = value
		f.Read(r, n, path, value)
	}, func(p *Printer, path string, of *T) {
		if p.explicit = *get(of) != nil; p.explicit {
			f.Print(p, path, *get(of))
		}
	}, f.Shape}
}

// Named reads a mapping from names to values, in its order. name returns where an element keeps its
// name.
func Named[T any](name func(*T) *string, f Form[T]) Form[[]T] {
	return Form[[]T]{func(r *Reader, n *Node, path string, into *[]T) {
		for _, e := range r.entries(n, path, "write `<name>: <value>`") {
			var element T
			*name(&element) = e.Key
			if e.Key == "" {
				r.Fail(e.Offset, path, "a name is empty", "write a name")
			}
			f.Read(r, e.Value, Join(path, e.Key), &element)
			*into = append(*into, element)
		}
	}, func(p *Printer, path string, list *[]T) {
		printItems(p, path, *list, func(p *Printer, at string, element *T) {
			at, before := at+"."+canonicalName(*name(element)), len(p.lines)
			if f.Print(p, at, element); len(p.lines) == before { // the name alone has a meaning
				p.Line(at, "{}")
			}
		})
	}, Shape{Kind: ANames, Of: []Shape{f.Shape}}}
}

// ListOf reads a list.
func ListOf[T any](f Form[T]) Form[[]T] {
	return Form[[]T]{func(r *Reader, n *Node, path string, into *[]T) {
		if !r.expect(n, path, List, "write `[...]`, or one `- ...` a line") {
			return
		}
		for i, item := range n.Items {
			here := fmt.Sprintf("%s[%d]", path, i)
			r.place(here, item.Offset, item)
			var element T
			f.Read(r, item, here, &element)
			*into = append(*into, element)
		}
	}, func(p *Printer, path string, list *[]T) { printItems(p, path, *list, f.Print) }, Shape{Kind: AList, Of: []Shape{f.Shape}}}
}

// OneOf reads a node with the form for its kind. hint says what to write if the node has neither
// kind.
func OneOf[T any](hint string, a kind, formA Form[T], b kind, formB Form[T]) Form[T] {
	return Form[T]{func(r *Reader, n *Node, path string, into *T) {
		switch n.Kind {
		case a:
			formA.Read(r, n, path, into)
		case b:
			formB.Read(r, n, path, into)
		case NoValue:
			r.Fail(n.Offset, path, "has no value", hint)
		default:
			r.Fail(n.Offset, path, fmt.Sprintf("must be %s or %s, is %s", a, b, n.Kind), hint)
		}
	}, func(p *Printer, path string, value *T) {
		p.wrote()
		formA.Print(p, path, value)
		formB.Print(p, path, value)
	}, Shape{Kind: Either, Of: []Shape{formA.Shape, formB.Shape}}}
}
