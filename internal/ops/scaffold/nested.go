package scaffold

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/afterbay/afterbay/internal/event/decode"
	"github.com/afterbay/afterbay/internal/event/value"
)

const (
	depthMax    = 5   // most names in a path
	elementsMax = 200 // most elements of a list to read
	gatherMax   = 8   // most fields made from a list of objects
	mapMin      = 16  // fewest names of an object that can be a map
)

// leaf is a value of an event. Objects with members are leaves too.
type leaf struct {
	path   []decode.Part
	parent string // path of the object around it; "" for the event itself
	raw    json.RawMessage
}

// members appends the members of an object and, recursively, of its objects.
func members(list []leaf, object []byte, at []decode.Part) ([]leaf, error) {
	seen := map[string]bool{}
	parent := decode.PathText(at)
	d := json.NewDecoder(bytes.NewReader(object))
	if _, err := d.Token(); err != nil {
		return list, err
	}
	for d.More() {
		token, err := d.Token()
		if err != nil {
			return list, err
		}
		name := token.(string)
		if seen[name] {
			return list, fmt.Errorf("the name %s occurs in the event twice", quote(name))
		}
		seen[name] = true
		one := leaf{path: append(slices.Clone(at), decode.Part{Name: name}), parent: parent}
		if err := d.Decode(&one.raw); err != nil {
			return list, err
		}
		list = append(list, one)
		if one.raw[0] == '{' && len(one.path) < depthMax {
			if list, err = members(list, one.raw, one.path); err != nil {
				return list, err
			}
		}
	}
	return list, nil
}

// event records the fields of one event. It accepts the same events as decode, and returns the
// reason if it refuses one.
func (s *scan) event(text []byte) error {
	var row value.Row
	if err := s.object.Scan(text, &row); err != nil {
		return err
	}
	data, around, err := s.open(text)
	if err != nil {
		return err
	}
	list, err := members(nil, data, nil)
	if err != nil {
		return err
	}
	for _, one := range around {
		s.note(one, decode.FromEnvelope)
	}
	for _, one := range list {
		s.note(one, decode.FromData)
	}
	s.findings.Events++
	return nil
}

// note records a value of a field.
func (s *scan) note(one leaf, of decode.Origin) {
	id := fmt.Sprint(of, decode.PathText(one.path))
	c := s.columns[id]
	if c == nil && len(s.columns) == columnsMax {
		s.findings.More++
		return
	}
	parent := s.columns[fmt.Sprint(of, one.parent)]
	if c == nil {
		c = newField(one.path, of)
		if c.parent = parent; parent != nil {
			parent.inner.names++
		}
		s.declare(c)
		s.columns[id] = c
		s.findings.Fields = append(s.findings.Fields, c)
	}
	if parent != nil {
		parent.inner.values++
	}
	s.value(c, plain(c.declared, one.raw))
}

// object decides how to read a field that is an object.
func (f *Field) object() {
	differ := f.inner.names >= mapMin && 4*f.inner.values < f.inner.names*f.kinds[0]
	switch {
	case f.inner.names == 0:
		f.Left = "it is an object; read all of it as raw"
		if len(f.Path) == depthMax {
			f.Left = "it is an object deep inside the event; read a value in it by path, or all of it as raw"
		}
	case differ:
		f.Left = fmt.Sprintf("it has %d names that differ from event to event; read it as raw, or as map of number, string, int or bool", f.inner.names)
	default:
		f.Left, f.group = "it is read by its members", true
	}
}

// elements describes the lists of a field.
type elements struct {
	lists, all int // number of lists, and of elements read
	kinds      [value.Bytes + 1]int
	objects    int
	other      int // nulls, lists, and numbers outside float64
	members    []*Field
	byName     map[string]*Field
}

// list records the elements of a list.
func (s *scan) list(c *Field, raw []byte) {
	if c.items == nil {
		c.items = &elements{byName: map[string]*Field{}}
	}
	l := c.items
	l.lists++
	var all []json.RawMessage
	if json.Unmarshal(raw, &all) != nil {
		return // unreachable: the list was decoded before
	}
	for _, one := range all[:min(len(all), elementsMax)] {
		l.all++
		if one[0] == '{' {
			l.objects++
			s.element(l, c, one)
			continue
		}
		single := newField(nil, c.Origin)
		if one[0] != 'n' && one[0] != '[' {
			s.value(single, one)
		}
		if kind := single.kind(); kind != 0 {
			l.kinds[kind]++
		} else {
			l.other++
		}
	}
}

// element records the members of an object in a list.
func (s *scan) element(l *elements, c *Field, object []byte) {
	list, err := members(nil, object, slices.Repeat([]decode.Part{{}}, depthMax-1))
	if err != nil {
		l.other++ // duplicate name
		return
	}
	for _, one := range list {
		name := one.path[depthMax-1].Name
		m := l.byName[name]
		if m == nil {
			if len(l.members) == columnsMax {
				continue
			}
			m = newField(append(slices.Clone(c.Path), decode.Part{List: true, All: true}, decode.Part{Name: name}), c.Origin)
			l.byName[name] = m
			l.members = append(l.members, m)
		}
		if one.raw[0] != '[' {
			s.value(m, one.raw)
		}
	}
}

// kind returns the common kind of the values of a field, or 0 if there are several.
func (f *Field) kind() value.Kind { return theOne(f.kinds[:]) }

// theOne returns the common kind of all values, or 0 if there are several. Ints mixed with numbers
// count as numbers, and times count as strings.
func theOne(kinds []int) value.Kind {
	found := value.Kind(0)
	for k, n := range kinds {
		kind := value.Kind(k)
		switch {
		case n == 0 || found == kind:
		case kind == 0 || kind == value.Bytes:
			return 0
		case found == 0:
			found = kind
		case found == value.Int && kind == value.Number, found == value.Time && kind == value.String:
			found = kind
		default:
			return 0
		}
	}
	if found == value.Time {
		return value.String
	}
	return found
}

// gathered returns fields that collect one member of each object of a list.
func (f *Field) gathered() (list []*Field) {
	if l := f.items; l == nil || l.all == 0 || l.objects != l.all || l.other > 0 || float64(l.lists) < fits*float64(f.Present) {
		return nil
	}
	for _, m := range f.items.members {
		kind := m.kind()
		if m.Present != f.items.objects || kind == 0 || len(list) == gatherMax {
			continue
		}
		m.of, m.Present, m.Example, m.parent = &kind, f.Present, "["+m.Example+", ...]", f.parent
		list = append(list, m)
	}
	return list
}

// list decides how to read a field that is a list.
func (f *Field) list() {
	l := f.items
	kind := theOne(l.kinds[:])
	at := f.At()
	switch {
	case l.all == 0:
		f.Left = "its lists are empty"
	case l.objects == l.all && l.other == 0:
		f.Left = fmt.Sprintf("a list of objects. To compute something for each of them, read %s: {path: %s, type: 'raw[]'}, and add a step `each`", f.Name, scalar(at))
	case l.objects > 0 || l.other > 0 || kind == 0:
		f.Left = fmt.Sprintf("a list of different types. Read it as %s: {path: %s, type: 'raw[]'}", f.Name, scalar(at))
	default:
		f.Type.Kind = value.List | kind
	}
}

// name gives the fields their names. Fields of the data keep their own names if a pipeline can use
// them.
func (f *Findings) name() {
	taken := map[string]bool{"meta_id": true} // the name of meta.id in outputs
	for _, c := range f.Fields {
		if len(c.Path) == 1 && c.Origin == decode.FromData && identifier(c.Path[0].Name) {
			c.Name = c.Path[0].Name
			taken[c.Name] = true
		}
	}
	for _, c := range f.Fields {
		if c.Name != "" || !written(c.Path) {
			continue
		}
		base := plainName(c.Path)
		if base != "" && c.Origin == decode.FromEnvelope && taken[base] {
			base = "envelope_" + base
		}
		if slices.Contains(reserved, base) {
			base += "_"
		}
		name := base
		for i := 2; taken[name]; i++ {
			name = fmt.Sprintf("%s_%d", base, i)
		}
		if identifier(name) {
			c.Name = name
			taken[name] = true
		}
	}
}

// written reports whether a pipeline file can contain the path.
func written(path []decode.Part) bool {
	text := decode.PathText(path)
	_, err := decode.ParsePath(text)
	return err == nil && !strings.ContainsAny(text, "$\uFFFD")
}

// plainName returns a name that a pipeline can use for a path, or "" if it finds none.
func plainName(path []decode.Part) string {
	var names []string
	for _, part := range path {
		plain := strings.Trim(strings.Map(func(r rune) rune {
			if r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' {
				return r
			}
			return '_'
		}, part.Name), "_")
		if plain != "" {
			names = append(names, plain)
		}
	}
	name := strings.Join(names, "_")
	if name != "" && name[0] >= '0' && name[0] <= '9' {
		name = "_" + name
	}
	return name
}
