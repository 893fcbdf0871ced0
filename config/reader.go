package config

import (
	"fmt"
	"slices"
	"strings"
)

// reader reads one document's nodes into a pipeline. It collects what is wrong
// and where every field stands.
type reader struct {
	source *source
	places map[string]place
	errors Errors
	again  func(r *reader, n *node, path string, into any) // reads the steps of a case of a route: a table cannot name itself

	lookup   Lookup
	expanded int // bytes of the scalars that named variables
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

// form is how values of type T are written.
type form[T any] struct {
	read  read[T]
	shape shape
}

// shape says what a form reads, for the JSON Schema and the reference page.
type shape struct {
	kind      shapeKind
	text      string         // of text: what it stands for
	low, high string         // of a number, duration or size: as they are written
	allowed   []string       // of a choice
	of        []shape        // of a list or names: the element's; of either: the alternatives'
	last      *shape         // of names: that of the one named default
	words     func() []about // of a mapping
	get       any            // func(*T) *U: the field that is read into; nil where it is not one
}

type shapeKind uint8

const (
	anyText shapeKind = iota
	aChoice
	aWhole
	aNumber
	aTrue
	aSwitch
	aDuration
	aSize
	aWindow
	aConstant
	aSecret
	aList
	aNames   // a mapping from names
	aMapping // of words
	aStep    // a mapping of one of its words
	either
	theSteps // of the pipeline, again
)

// word is one word of a mapping: what the pipeline file may say there.
type word[T any] struct {
	name     string
	required bool
	or       string // words that may be written instead of this one, and not beside it, with | between
	form[T]
	example string // of a value
	means   string // what it says; "" is the comment of the field
	absent  string // what holds without it; "" is what the comment of the field says of the zero value
	instead string // of a word that is not accepted: what to do; read is nil
	refused string // of a word that is not accepted: why; "" is that it is not built
}

// about is a word without its type.
type about struct {
	name, or, example, means, absent, instead, refused string
	required, accepted                                 bool
	shape                                              shape
	try                                                func(r *reader, n *node, path string)
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
func words[T any](known []word[T]) form[T] {
	return form[T]{
		shape: shape{kind: aMapping, words: func() []about {
			all := make([]about, len(known))
			for i, w := range known {
				all[i] = w.about()
			}
			return all
		}},
		read: func(r *reader, n *node, path string, into *T) { readWords(r, known, n, path, into) },
	}
}

func (w *word[T]) about() about {
	return about{
		name: w.name, or: w.or, example: w.example, means: w.means, absent: w.absent, instead: w.instead, refused: w.refused,
		required: w.required, accepted: w.read != nil, shape: w.shape,
		try: func(r *reader, n *node, path string) { w.read(r, n, path, new(T)) },
	}
}

func readWords[T any](r *reader, known []word[T], n *node, path string, into *T) {
	var names []string // of the words that are accepted
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
		case known[i].read != nil:
			known[i].read(r, e.value, here, into)
		case known[i].refused != "":
			clean = false
			r.fail(e.offset, here, known[i].refused, known[i].instead)
		default:
			clean = false
			r.fail(e.offset, here, "`"+e.key+"` is not supported yet", known[i].instead)
		}
	}
	for _, w := range known {
		written := func(name string) int { return slices.IndexFunc(entries, func(e entry) bool { return e.key == name }) }
		this, there := written(w.name), false
		for or := range strings.SplitSeq(w.or, "|") {
			other := written(or)
			if there = there || other >= 0; this >= 0 && other >= 0 {
				second := entries[max(this, other)]
				r.fail(second.offset, join(path, second.key), fmt.Sprintf("`%s` and `%s` exclude each other", w.name, or), "remove one of them")
			}
		}
		if clean && w.required && this < 0 && !there { // a word that is wrong is most likely the one that misses
			r.missing(n, path, w.name, w.or)
		}
	}
}

func (r *reader) missing(n *node, path, name, or string) {
	offset := n.offset
	if p, ok := r.places[path]; ok {
		offset = p.offset
	}
	hint := fmt.Sprintf("add `%s: ...`", name)
	if or != "" {
		hint += " or `" + strings.ReplaceAll(or, "|", ": ...` or `") + ": ...`"
	}
	r.fail(offset, path, fmt.Sprintf("`%s` is missing", name), hint)
}

// field reads into the field of T that get returns.
func field[T, U any](get func(*T) *U, f form[U]) form[T] {
	f.shape.get = get
	return form[T]{func(r *reader, n *node, path string, into *T) { f.read(r, n, path, get(into)) }, f.shape}
}

// optional reads into a field that is nil where its word is absent.
func optional[T, U any](get func(*T) **U, f form[U]) form[T] {
	f.shape.get = get
	return form[T]{func(r *reader, n *node, path string, into *T) {
		value := new(U)
		*get(into) = value
		f.read(r, n, path, value)
	}, f.shape}
}

// named reads a mapping from names to values, in its order. name returns where
// an element keeps its name.
func named[T any](name func(*T) *string, f form[T]) form[[]T] {
	return form[[]T]{func(r *reader, n *node, path string, into *[]T) {
		for _, e := range r.entries(n, path, "write `<name>: <value>`") {
			var element T
			*name(&element) = e.key
			if e.key == "" {
				r.fail(e.offset, path, "a name is empty", "write a name")
			}
			f.read(r, e.value, join(path, e.key), &element)
			*into = append(*into, element)
		}
	}, shape{kind: aNames, of: []shape{f.shape}}}
}

// listOf reads a list.
func listOf[T any](f form[T]) form[[]T] {
	return form[[]T]{func(r *reader, n *node, path string, into *[]T) {
		if !r.expect(n, path, list, "write `[...]`, or one `- ...` a line") {
			return
		}
		for i, item := range n.items {
			here := fmt.Sprintf("%s[%d]", path, i)
			r.place(here, item.offset, item)
			var element T
			f.read(r, item, here, &element)
			*into = append(*into, element)
		}
	}, shape{kind: aList, of: []shape{f.shape}}}
}

// oneOf reads a node by the form that is for its kind. hint says what to write
// where none is.
func oneOf[T any](hint string, a kind, formA form[T], b kind, formB form[T]) form[T] {
	return form[T]{func(r *reader, n *node, path string, into *T) {
		switch n.kind {
		case a:
			formA.read(r, n, path, into)
		case b:
			formB.read(r, n, path, into)
		case nothing:
			r.fail(n.offset, path, "has no value", hint)
		default:
			r.fail(n.offset, path, fmt.Sprintf("must be %s or %s, is %s", a, b, n.kind), hint)
		}
	}, shape{kind: either, of: []shape{formA.shape, formB.shape}}}
}
