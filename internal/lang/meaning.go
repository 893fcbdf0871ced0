package lang

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/afterbay/afterbay/internal/spec"
)

// Meaning prints the fingerprint texts of stored state. A text holds the fields that affect one
// part of the state, and the values that these fields read by name. In a text
//
//  1. numbers replace the names of lets, decides and constants, in the order of
//     their reading; each has a line with its definition, as do the names that the definition reads;
//  2. a let in a case of a route includes the conditions of the case, unless the reader is in
//     the same case;
//  3. any other name has a line with its type, which does not say whether the value may be
//     absent.
type Meaning struct {
	constants map[string]*spec.Constant
	lets      map[string][]let
	at        map[Step]*place
	types     func(name string) string
}

// let is the expression of a name, and the case that it stands in.
type let struct {
	expr string
	at   *place
}

// place is the case of a route that a step stands in; nil is outside all routes.
type place struct {
	around *place
	cases  []Case // all cases of the route
	index  int
}

// within reports whether p is o, or a case inside it.
func (p *place) within(o *place) bool {
	for ; p != o; p = p.around {
		if p == nil {
			return false
		}
	}
	return true
}

// excludes reports whether no event can reach both places.
func (p *place) excludes(o *place) bool {
	for ; p != nil; p = p.around {
		for other := o; other != nil; other = other.around {
			if &p.cases[0] == &other.cases[0] && p.index != other.index {
				return true
			}
		}
	}
	return false
}

// Meaning prepares the fingerprint texts of a pipeline. types returns the type of a name that is
// neither a let nor a constant, or "" if the name has none.
func (p *Pipeline) Meaning(types func(name string) string) *Meaning {
	m := &Meaning{constants: map[string]*spec.Constant{}, lets: map[string][]let{}, at: map[Step]*place{}, types: types}
	for i := range p.Constants {
		m.constants[p.Constants[i].Name] = &p.Constants[i]
	}
	m.steps(p.Steps, nil)
	return m
}

func (m *Meaning) steps(steps []Step, at *place) {
	for i := range steps {
		s := steps[i]
		if s == nil {
			continue
		}
		m.at[s] = at
		if names, ok := s.(interface{ Bindings() []Binding }); ok {
			for _, b := range names.Bindings() {
				m.lets[b.Name] = append(m.lets[b.Name], let{b.Expr, at})
			}
		}
		cases := s.Effect().Cases
		for k := range cases {
			m.steps(cases[k].Steps, &place{at, cases, k})
		}
	}
}

// Part is state that a step keeps beside a partition: its kind, its name, and its fingerprint text.
type Part struct{ Kind, Name, Text string }

// Keeper is a step that keeps state beside a partition.
type Keeper interface{ Keeps(*Meaning) []Part }

// PartOf returns the fingerprint text of a step's state, from the fields of v.
func PartOf[T any](m *Meaning, s Step, fields []spec.Field[T], v *T) string {
	return meaning(m, m.at[s], fields, v)
}

// Meaning returns the fingerprint text of keys and times.
func (in *Input) Meaning() string { return meaning(in.names(), nil, inputFields, in) }

// DedupeMeaning returns the fingerprint text of the ids that deduplication remembers.
func (in *Input) DedupeMeaning() string { return meaning(in.names(), nil, dedupeFields, in.Dedupe) }

// names returns a Meaning that knows only the fields of the input.
func (in *Input) names() *Meaning {
	return &Meaning{types: func(name string) string {
		at := slices.IndexFunc(in.Fields, func(f Field) bool { return f.Name == name })
		if at < 0 {
			return ""
		}
		return strings.TrimPrefix(spec.OneSpace(in.Fields[at].Type), "optional ")
	}}
}

// meaning returns the fingerprint text of state that belongs to a step at a place.
func meaning[T any](m *Meaning, at *place, fields []spec.Field[T], v *T) string {
	r := &reading{Meaning: m, numbers: map[read]int{}, typed: map[string]string{}}
	made := &spec.Printer{Least: spec.State, Again: PrintAgain, Word: r.from(at)}
	spec.MappingOf(fields).Print(made, "", v)
	for i := 0; i < len(r.order); i++ { // printing appends to r.order
		r.print(made, fmt.Sprintf("$%d", i+1), r.order[i])
	}
	for _, name := range slices.Sorted(maps.Keys(r.typed)) {
		made.Line(name, r.typed[name])
	}
	return made.Text()
}

// read is a name, and the place that reads it.
type read struct {
	name string
	at   *place
}

// reading is the state of printing one text.
type reading struct {
	*Meaning
	numbers map[read]int
	order   []read
	typed   map[string]string // types of names that are neither lets nor constants
}

// from returns a function that replaces a name read at a place with its number.
func (r *reading) from(at *place) func(name string) string {
	return func(name string) string {
		if r.constants[name] == nil && r.lets[name] == nil {
			if is := r.types(name); is != "" {
				r.typed[name] = is
			}
			return name
		}
		this := read{name, at}
		if r.constants[name] != nil {
			this.at = nil // a constant is the same everywhere
		}
		if r.numbers[this] == 0 {
			r.order = append(r.order, this)
			r.numbers[this] = len(r.order)
		}
		return fmt.Sprintf("$%d", r.numbers[this])
	}
}

// print prints the definition of a name, as seen from the place that reads it.
func (r *reading) print(p *spec.Printer, path string, this read) {
	if c := r.constants[this.name]; c != nil {
		spec.ConstantForm().Print(p, path, c)
		return
	}
	for _, l := range r.lets[this.name] {
		if l.at.excludes(this.at) {
			continue
		}
		p.Word = r.from(l.at)
		spec.ReadExpression.Print(p, path, &l.expr)
		for c := l.at; !this.at.within(c); c = c.around {
			p.Word = r.from(c.around)
			for i := range c.cases[:c.index+1] {
				ReadBool.Print(p, path+".when", &c.cases[i].When)
			}
		}
	}
}
