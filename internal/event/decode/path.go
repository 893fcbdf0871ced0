package decode

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/afterbay/afterbay/internal/event/value"
)

// pathMax is the largest number of parts in a path.
const pathMax = 16

// Part is one part of a path. It leads to a member of an object, to an element of a list, or to all
// elements of a list.
type Part struct {
	Name  string
	Index int  // index of the element; Name is then unused
	List  bool // the part leads to one element, or to all
	All   bool
}

// ParsePath reads a path as the pipeline file writes it: device.os, "user-id".os,
// items[0].price, items[].price.
func ParsePath(text string) ([]Part, error) {
	var parts []Part
	all := 0
	for rest := text; ; {
		name, after, err := partName(rest)
		if err != nil {
			return nil, fmt.Errorf("path %q: %w", text, err)
		}
		parts = append(parts, Part{Name: name})
		for rest = after; strings.HasPrefix(rest, "["); {
			index, after, closed := strings.Cut(rest[1:], "]")
			n, err := strconv.Atoi(index)
			switch {
			case closed && index == "":
				all++
				parts = append(parts, Part{List: true, All: true})
			case !closed || err != nil || n < 0 || strconv.Itoa(n) != index:
				return nil, fmt.Errorf("path %q: write [0] for the first element of a list, or [] for all", text)
			default:
				parts = append(parts, Part{List: true, Index: n})
			}
			rest = after
		}
		switch {
		case rest == "" && parts[len(parts)-1].All:
			return nil, fmt.Errorf("path %q: write [] only before a further part: write %s for the list itself", text, strings.TrimSuffix(text, "[]"))
		case all > 1:
			return nil, fmt.Errorf("path %q: a path can have [] only once", text)
		case len(parts) > pathMax:
			return nil, fmt.Errorf("path %q: a path has at most %d parts", text, pathMax)
		case rest == "":
			return parts, nil
		case rest[0] != '.':
			return nil, fmt.Errorf("path %q: write a dot before %q", text, rest)
		}
		rest = rest[1:]
	}
}

// partName reads the name at the beginning of a path.
func partName(text string) (name, rest string, err error) {
	if !strings.HasPrefix(text, `"`) {
		end := strings.IndexAny(text, `."[]`)
		if end < 0 {
			end = len(text)
		}
		if end == 0 || strings.TrimSpace(text[:end]) != text[:end] {
			return "", "", errors.New(`a name is missing, or needs quotes: "user id".os`)
		}
		return text[:end], text[end:], nil
	}
	quoted, err := strconv.QuotedPrefix(text)
	if err == nil {
		name, err = strconv.Unquote(quoted)
	}
	if err != nil {
		return "", "", errors.New("a quote is not closed, or its content is not valid text")
	}
	return name, text[len(quoted):], nil
}

// Gathers reports whether a path leads to all elements of a list.
func Gathers(path []Part) bool {
	return slices.ContainsFunc(path, func(p Part) bool { return p.All })
}

// PathText returns the text of a path for ParsePath, with as few quotes as possible.
func PathText(path []Part) (text string) {
	for i, p := range path {
		switch {
		case p.All:
			text += "[]"
		case p.List:
			text += "[" + strconv.Itoa(p.Index) + "]"
		default:
			name := p.Name
			if again, rest, err := partName(name); err != nil || rest != "" || again != name {
				name = strconv.Quote(name)
			}
			if i > 0 {
				text += "."
			}
			text += name
		}
	}
	return text
}

// At returns the path of the field as text. For a field without a path it is the name.
func (f *Field) At() string { return PathText(f.path()) }

// Members returns the names on the path of the field. If the path leads to elements of a list, ok
// is false and the names end at the list.
func (f *Field) Members() (names []string, ok bool) {
	for _, part := range f.path() {
		if part.List {
			return names, false
		}
		names = append(names, part.Name)
	}
	return names, true
}

// path returns the path of a field.
func (f *Field) path() []Part {
	if f.Path == nil {
		return []Part{{Name: f.Name}}
	}
	return f.Path
}

// object holds the wanted members of an object.
type object struct {
	members []wanted
	byName  map[string]int
}

// wanted says what to read from a value: the value itself, parts of it, or both.
type wanted struct {
	start string // for a member: its beginning in compact JSON, `"name":`; empty if JSON must escape the name
	leaf  *Field // the field that the value fills, if nothing else is wanted
	bit   int    // its seen bit
	field int    // index of the field that the value fills; -1 if none
	label string // name of the first wanted field, for errors
	index int    // index of an element

	object *object
	places []wanted
	all    *gather
}

// gather says what to read from all elements of a list.
type gather struct {
	element wanted
	fields  []int
	bits    []int // seen bits of one element
}

// gathering holds the lists made of the elements of a list.
type gathering struct {
	*gather
	lists  [][]byte
	counts []int
}

// add adds a field to the wanted values.
func (s *Scanner) add(i int) {
	f := &s.fields[i]
	var at *wanted
	var all *gather
	for _, part := range f.path() {
		if at != nil {
			at.leaf = nil
			s.mark(at)
		}
		switch {
		case part.All:
			if at.all == nil {
				at.all = &gather{element: wanted{field: -1, bit: -1, label: f.Name}}
			}
			all, at = at.all, &at.all.element
			continue
		case part.List:
			at = s.element(at, part.Index, f.Name)
		default:
			of := &s.root
			if at != nil {
				if at.object == nil {
					at.object = &object{}
				}
				of = at.object
			}
			at = s.member(of, part.Name, f.Name)
		}
		if all != nil {
			all.bits = append(all.bits, s.mark(at))
		}
	}
	if at.field >= 0 {
		panic(fmt.Sprintf("decode: field %q is named twice", f.Name))
	}
	if at.field = i; all == nil && at.object == nil && at.places == nil && at.all == nil {
		at.leaf = f
	}
	if at.bit < 0 {
		at.bit = i
	}
	if all != nil {
		all.fields = append(all.fields, i)
	}
}

// mark assigns a seen bit to a wanted value.
func (s *Scanner) mark(w *wanted) int {
	if w.bit < 0 {
		w.bit = s.bits
		s.bits++
	}
	return w.bit
}

// member returns the wanted member with a name. It adds the member if it is new.
func (s *Scanner) member(o *object, name, label string) *wanted {
	if n, ok := o.byName[name]; ok {
		return &o.members[n]
	}
	if o.byName == nil {
		o.byName = map[string]int{}
	}
	m := wanted{label: label, bit: -1, field: -1}
	if !strings.ContainsFunc(name, func(r rune) bool { return r < ' ' || r == '"' || r == '\\' }) {
		m.start = `"` + name + `":`
	}
	o.byName[name] = len(o.members)
	o.members = append(o.members, m)
	return &o.members[len(o.members)-1]
}

// element returns the wanted element with an index. It adds the element if it is new.
func (s *Scanner) element(of *wanted, index int, label string) *wanted {
	for n := range of.places {
		if of.places[n].index == index {
			return &of.places[n]
		}
	}
	of.places = append(of.places, wanted{label: label, bit: -1, field: -1, index: index})
	return &of.places[len(of.places)-1]
}

// find reads the key at src[i:] and its colon. It returns the member with that name, or -1, and the
// start of the value. It tries the member with number next first.
func (o *object) find(src []byte, i, next int) (int, int, string) {
	if next < len(o.members) {
		start := o.members[next].start
		if end := i + len(start); start != "" && end <= len(src) && string(src[i:end]) == start {
			return next, space(src, end), ""
		}
	}
	name, escaped, i, reason := key(src, i)
	if reason != "" {
		return 0, i, reason
	}
	var n int
	var ok bool
	if escaped {
		n, ok = o.byName[unescape(name)]
	} else {
		n, ok = o.byName[string(name)]
	}
	if !ok {
		n = -1
	}
	return n, i, ""
}

// value reads the value at src[i:] if more is wanted than to fill one field.
func (s *Scanner) value(at *scan, w *wanted, i, depth int) (end int, err *Error) {
	if w.field >= 0 {
		if end, err = s.fill(at, w, i, depth); err != nil {
			return end, err
		}
		if w.object == nil && w.places == nil && w.all == nil {
			return end, nil
		}
	}
	src := at.src
	if i >= len(src) {
		return i, &Error{Field: w.label, Offset: len(src), Reason: EndOfRecord}
	}
	c := src[i]
	switch {
	case c == '{' && w.object != nil:
		if i = space(src, i+1); i < len(src) && src[i] == '}' {
			return i + 1, nil
		}
		return s.members(at, w.object, i, depth+1)
	case c == '[' && (w.places != nil || w.all != nil):
		if w.all == nil {
			return s.elements(at, w, i, depth+1)
		}
		return s.gather(at, w, i, depth+1)
	case c == 'n':
		end, reason := scalar(src, i)
		if reason != "" {
			return end, &Error{Field: w.label, Offset: end, Reason: reason}
		}
		return end, nil
	}
	want := "an object"
	if w.object == nil {
		want = "an array"
	}
	reason := unexpected(src, i, "a value")
	if got := typeOf(c); got != "" {
		reason = "want " + want + " on the way to it, got " + got
	}
	return i, &Error{Field: w.label, Offset: i, Reason: reason}
}

// fill reads a value into its field, or adds it to a gathered list.
func (s *Scanner) fill(at *scan, w *wanted, i, depth int) (int, *Error) {
	f := &s.fields[w.field]
	if g := at.gather; g != nil {
		n := g.place(w.field)
		e := elementOf(f.Slot.Type.Kind)
		v, end, reason := e.read(at.src, i, depth)
		if reason != "" {
			return end, &Error{Field: f.Name, Offset: end, Reason: reason}
		}
		g.lists[n] = value.AppendElement(g.lists[n], f.Slot.Type.Kind.Element(), v)
		g.counts[n]++
		return end, nil
	}
	end, reason := f.read(at.src, i, depth, at.row)
	if reason != "" {
		return end, &Error{Field: f.Name, Offset: end, Reason: reason}
	}
	*at.word(w.field) |= 1 << (w.field & 63)
	return end, nil
}

// place returns the index of a field among the gathered fields.
func (g *gather) place(field int) int {
	for n := range g.fields {
		if g.fields[n] == field {
			return n
		}
	}
	return 0
}

// gather reads a list and gathers values from its elements. A field gets one value of each element.
func (s *Scanner) gather(at *scan, w *wanted, i, depth int) (int, *Error) {
	before, g := at.gather, &gathering{gather: w.all, lists: make([][]byte, len(w.all.fields)), counts: make([]int, len(w.all.fields))}
	at.gather = g
	end, err := s.elements(at, w, i, depth)
	if at.gather = before; err != nil {
		return end, err
	}
	for n, field := range g.fields {
		at.row.SetText(s.fields[field].Slot, value.Text(g.lists[n]))
		*at.word(field) |= 1 << (field & 63)
	}
	return end, nil
}

// elements reads the wanted elements of the list at src[i:].
func (s *Scanner) elements(at *scan, w *wanted, i, depth int) (_ int, err *Error) {
	src := at.src
	if i = space(src, i+1); i < len(src) && src[i] == ']' {
		return i + 1, nil
	}
	for n := 0; ; n++ {
		if i, err = s.one(at, w, n, i, depth); err != nil {
			return i, err
		}
		if i = space(src, i); i < len(src) && src[i] == ']' {
			return i + 1, nil
		}
		if i >= len(src) || src[i] != ',' {
			return i, &Error{Offset: i, Reason: unexpected(src, i, "',' or ']'")}
		}
		i = space(src, i+1)
	}
}

// one reads the wanted values of the element at src[i:], the nth of its list.
func (s *Scanner) one(at *scan, w *wanted, n, i, depth int) (int, *Error) {
	start, end, of := i, -1, at.gather
	if w.all != nil {
		for _, bit := range of.bits {
			*at.word(bit) &^= 1 << (bit & 63)
		}
		var err *Error
		if end, err = s.value(at, &w.all.element, start, depth); err != nil {
			return end, err
		}
		for k, count := range of.counts {
			if count != n+1 {
				f := &s.fields[of.fields[k]]
				return start, &Error{Field: f.Name, Offset: start, Reason: fmt.Sprintf("element %d of the list has none: want %s", n, f.Slot.Type.Kind.Element())}
			}
		}
	}
	for p := range w.places {
		place := &w.places[p]
		if place.index != n {
			continue
		}
		if w.all != nil {
			at.gather = nil
		}
		var err *Error
		end, err = s.value(at, place, start, depth)
		if at.gather = of; err != nil {
			return end, err
		}
	}
	if end >= 0 {
		return end, nil
	}
	end, reason := skip(at.src, start, depth)
	if reason != "" {
		return end, &Error{Offset: end, Reason: reason}
	}
	return end, nil
}
