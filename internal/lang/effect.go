package lang

import (
	"iter"
	"maps"
	"strings"
	"time"
)

// Declared collects the names that steps make, by the pipeline file alone.
type Declared struct {
	models []Model
	names  map[string]bool // whether a feature above the step may read one, as feedback
}

// DeclaredIn returns the names of all steps of a pipeline which features above them may read.
func DeclaredIn(p *Pipeline) map[string]bool {
	d := &Declared{p.Models, map[string]bool{}}
	for s := range EachStep(p.Steps) {
		s.Declare(d)
	}
	maps.DeleteFunc(d.names, func(_ string, feedback bool) bool { return !feedback })
	return d.names
}

// DeclaredBy yields the names that a step of a pipeline makes: prefix.* for all that begin with a prefix.
func DeclaredBy(p *Pipeline, s Step) iter.Seq[string] {
	d := &Declared{p.Models, map[string]bool{}}
	s.Declare(d)
	all := map[string]bool{}
	for name := range d.names {
		if prefix, _, several := strings.Cut(name, "."); several {
			name = prefix + ".*"
		}
		all[name] = true
	}
	return maps.Keys(all)
}

// Add adds names.
func (d *Declared) Add(names ...string) {
	for _, name := range names {
		d.names[name] = true
	}
}

// AddColumns adds a name and all that begin with it and a dot, which no feature above may
// read.
func (d *Declared) AddColumns(name string) {
	for _, name := range []string{name, name + ".*"} {
		if _, known := d.names[name]; !known {
			d.names[name] = false
		}
	}
}

// AddBindings adds the names of a list.
func (d *Declared) AddBindings(list []Binding) {
	for _, b := range list {
		d.Add(b.Name)
	}
}

// AddFields adds the names of fields behind a prefix.
func (d *Declared) AddFields(prefix string, fields []Field) {
	for _, f := range fields {
		d.Add(prefix + f.Name)
	}
}

// AddOutputs adds the outputs of a model behind a prefix.
func (d *Declared) AddOutputs(prefix, model string) {
	for _, m := range d.models {
		if m.Name == model {
			d.AddFields(prefix, m.Outputs)
		}
	}
}

// Effects is what may become of an event at a step. Who waits for a reply, a table or a
// sink needs no more of a step.
type Effects struct {
	Writes    []Write
	Collects  bool   // events end here as members of a group, which goes on as one
	Fails     bool   // events may be given up here: OnFailure is done for them
	OnFailure []Step // they are dead letters if it writes nothing
	InFailure bool   // it may stand in an OnFailure
	Cases     []Case // of which an event takes one
	Elements  []Step // are done for each element of a list
}

// Case is one way of a route: an event takes the first whose condition holds.
type Case struct {
	Name  string
	When  string // expression of type bool; "" only of the last one, named default
	Steps []Step
	Then  string // instead of Steps: dlq (what happens without a default) or drop

	Async bool // its scores are computed off the loop, as those of Score.Async

	// Budget is how long 99 of 100 of its events may take, from their append until
	// their outputs are durable; 0 is what the pipeline's budget says. Only cases of
	// the first route have one.
	Budget time.Duration
}

// Write is what a step writes to a topic.
type Write struct {
	Topic   string
	Emit    bool   // by an emit
	Always  bool   // for every event
	Key     string // a name by which the records are keyed; "" is the key of the input
	Silent  bool   // it replies to nobody
	By      string // what writes it if that makes no rows of a table
	Instead string // what to write then
}

// EachStep yields each step, those in cases of routes and for elements of lists behind the
// step that they are in.
func EachStep(steps []Step) iter.Seq[Step] {
	return func(yield func(Step) bool) { eachStep(steps, yield) }
}

func eachStep(steps []Step, yield func(Step) bool) bool {
	for _, s := range steps {
		if s == nil { // it is wrong as it is written
			continue
		}
		if !yield(s) {
			return false
		}
		effect := s.Effect()
		for _, way := range effect.Cases {
			if !eachStep(way.Steps, yield) {
				return false
			}
		}
		if !eachStep(effect.Elements, yield) {
			return false
		}
	}
	return true
}
