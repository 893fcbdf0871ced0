package oracle

import (
	"fmt"
	"slices"
	"strings"
)

// Pipeline is a pipeline file.
type Pipeline struct {
	Name       string
	Partitions int
	Fields     []Field
	Key        string // a field
	Unit       string // of the field ts: s, ms or us
	Lateness   int64  // microseconds
	Late       string // dlq, drop, include or topic
	LateTopic  string
	Dedupe     *Dedupe
	Steps      []Step
}

// Field is a field of the input.
type Field struct {
	Name     string
	Kind     Kind
	Optional bool
	Wild     bool // a number of any size
}

// Dedupe says which ids are remembered.
type Dedupe struct {
	ID     string
	Window int64 // microseconds
	Max    int
}

// Step is one step: one of its fields is set.
type Step struct {
	Features []*Feature
	Let      []Binding
	Decide   bool // Let is a `decide`
	Route    []Case
	Emit     *Emit
	Group    *Group
}

// Group collects events of a key until the group ends. Without Timeout it ends by Idle alone. Both
// are in microseconds.
type Group struct {
	Name, By      string
	Idle, Timeout int64
}

// Binding is a name and its expression.
type Binding struct {
	Name string
	Expr *Expr
}

// Case is a case of a route. Without When it is the default.
type Case struct {
	Name  string
	When  *Expr
	Then  string // drop, dlq, or "" for Steps
	Steps []Step
}

// Emit is an output: its fields are names.
type Emit struct {
	Topic string
	Name  string // "" is none
	When  *Expr
	Names []string
}

// YAML returns the pipeline file.
func (p *Pipeline) YAML() string {
	var b strings.Builder
	fmt.Fprintf(&b, "pipeline: %s\ninput:\n  topic: events\n  partitions: %d\n  key: %s\n", p.Name, p.Partitions, p.Key)
	policy := p.Late
	if policy == "topic" {
		policy = "{topic: " + p.LateTopic + "}"
	}
	fmt.Fprintf(&b, "  time: {field: ts, unit: %s, lateness: %s, late: %s}\n  fields:\n", p.Unit, duration(p.Lateness), policy)
	for _, f := range p.Fields {
		kind := f.Kind.String()
		if f.Optional {
			kind = "optional " + kind
		}
		fmt.Fprintf(&b, "    %s: %s\n", f.Name, kind)
	}
	if d := p.Dedupe; d != nil {
		fmt.Fprintf(&b, "  dedupe: {id: %s, window: %s, max: %d}\n", d.ID, duration(d.Window), d.Max)
	}
	b.WriteString("steps:\n")
	writeSteps(&b, "  ", p.Steps)
	return b.String()
}

func duration(us int64) string { return fmt.Sprintf("%dms", us/1000) }

func writeSteps(b *strings.Builder, in string, steps []Step) {
	for _, s := range steps {
		switch {
		case s.Features != nil:
			fmt.Fprintf(b, "%s- features:\n", in)
			for _, f := range s.Features {
				fmt.Fprintf(b, "%s    %s: {%s}\n", in, f.Name, strings.Join(f.words(), ", "))
			}
		case s.Let != nil:
			fmt.Fprintf(b, "%s- %s:\n", in, map[bool]string{false: "let", true: "decide"}[s.Decide])
			for _, l := range s.Let {
				fmt.Fprintf(b, "%s    %s: %s\n", in, l.Name, quote(l.Expr))
			}
		case s.Route != nil:
			fmt.Fprintf(b, "%s- route:\n", in)
			for _, c := range s.Route {
				c.write(b, in+"    ")
			}
		case s.Group != nil:
			words := []string{"name: " + s.Group.Name, "by: " + s.Group.By}
			if s.Group.Idle > 0 {
				words = append(words, "idle: "+duration(s.Group.Idle))
			}
			if s.Group.Timeout > 0 {
				words = append(words, "timeout: "+duration(s.Group.Timeout))
			}
			fmt.Fprintf(b, "%s- group: {%s}\n", in, strings.Join(words, ", "))
		case s.Emit != nil:
			when := ""
			if s.Emit.When != nil {
				when = ", when: " + quote(s.Emit.When)
			}
			if s.Emit.Name != "" {
				when += ", name: " + s.Emit.Name
			}
			fmt.Fprintf(b, "%s- emit: {topic: %s%s, value: [%s]}\n", in, s.Emit.Topic, when, strings.Join(s.Emit.Names, ", "))
		}
	}
}

func (c *Case) write(b *strings.Builder, in string) {
	fmt.Fprintf(b, "%s%s:\n", in, c.Name)
	if c.When != nil {
		fmt.Fprintf(b, "%s  when: %s\n", in, quote(c.When))
	}
	if c.Then != "" {
		fmt.Fprintf(b, "%s  steps: %s\n", in, c.Then)
		return
	}
	fmt.Fprintf(b, "%s  steps:\n", in)
	writeSteps(b, in+"    ", c.Steps)
}

func quote(e *Expr) string { return "'" + strings.ReplaceAll(e.Text(), "'", "''") + "'" }

// words returns the feature as the pipeline file writes it.
func (f *Feature) words() (list []string) {
	if f.Value != nil {
		list = append(list, "value: "+quote(f.Value))
	}
	if f.When != nil {
		list = append(list, "when: "+quote(f.When))
	}
	switch {
	case f.Elapsed:
		list = append(list, "elapsed: true")
	case f.Keep > 0:
		list = append(list, fmt.Sprintf("last: %d", f.Keep))
	default:
		var windows []string
		for _, w := range f.Windows {
			windows = append(windows, w.Text)
		}
		list = append(list, "windows: ["+strings.Join(windows, ", ")+"]")
	}
	if len(f.Aggregates) > 0 {
		list = append(list, "aggregates: ["+strings.Join(f.Aggregates, ", ")+"]")
	}
	if f.AnyKind && f.Last != "" {
		list = append(list, "type: "+f.Value.Kind.String())
	}
	if f.Per != nil {
		list = append(list, "per: "+quote(f.Per))
	}
	if f.Take > 0 {
		list = append(list, fmt.Sprintf("take: %d", f.Take))
	}
	if f.HalfLife > 0 {
		list = append(list, "half_life: "+duration(f.HalfLife))
	}
	if f.looks() && slices.ContainsFunc(f.Windows, func(w Window) bool { return w.Pane == 0 }) {
		list = append(list, "max: 2048") // no list of generated events is full
	}
	if f.Decimals >= 0 {
		list = append(list, fmt.Sprintf("decimals: %d", f.Decimals))
	}
	if f.Empty != 0 {
		list = append(list, fmt.Sprintf("empty: %v", f.Empty))
	}
	return list
}

// columns returns the names that a feature introduces. Those of kind Number have no
// tolerance only where exact says so.
func (f *Feature) columns() (names []string) {
	switch {
	case f.Elapsed:
		return []string{f.Name}
	case f.Keep > 0:
		for _, a := range f.Aggregates {
			names = append(names, f.Name+"."+a)
		}
		return names
	}
	for _, w := range f.Windows {
		for _, a := range f.Aggregates {
			names = append(names, f.Name+"."+a+"_"+w.Label)
		}
	}
	return names
}
