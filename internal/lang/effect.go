package lang

import (
	"iter"
	"maps"
	"strings"
	"time"
)

// Declared collects the names that steps make. It needs only the pipeline file.
type Declared struct {
	models []Model
	names  map[string]bool // name to whether a feature above the step may read it as feedback
}

// DeclaredIn returns the names made by the steps of a pipeline that features above those steps may
// read.
func DeclaredIn(p *Pipeline) map[string]bool {
	d := &Declared{p.Models, map[string]bool{}}
	for s := range EachStep(p.Steps) {
		s.Declare(d)
	}
	maps.DeleteFunc(d.names, func(_ string, feedback bool) bool { return !feedback })
	return d.names
}

// DeclaredBy yields the names that a step of a pipeline makes. It yields prefix.* once for all
// names with the same prefix.
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

// Add adds names that features above may read.
func (d *Declared) Add(names ...string) {
	for _, name := range names {
		d.names[name] = true
	}
}

// AddColumns adds name and name.*. Features above may not read them.
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

// AddFields adds the names of fields, each with a prefix.
func (d *Declared) AddFields(prefix string, fields []Field) {
	for _, f := range fields {
		d.Add(prefix + f.Name)
	}
}

// AddOutputs adds the outputs of a model, each with a prefix.
func (d *Declared) AddOutputs(prefix, model string) {
	for _, m := range d.models {
		if m.Name == model {
			d.AddFields(prefix, m.Outputs)
		}
	}
}

// Effects describes what a step may do with an event. The analysis of replies, tables and sinks
// uses only this of a step.
type Effects struct {
	Writes    []Write
	Collects  bool   // events end here as members of a group, and one event of the group goes on
	Fails     bool   // the step may give up events and run OnFailure for them
	OnFailure []Step // if these steps write nothing, the event becomes a dead letter
	InFailure bool   // the step may stand in an OnFailure
	Cases     []Case // an event takes one of them
	Elements  []Step // steps that run for each element of a list
}

// Case is one case of a route. An event takes the first case with a true condition.
type Case struct {
	Name  string
	When  string // expression of type bool; "" only for the last case, named default
	Steps []Step
	Then  string // instead of Steps: dlq (what happens without a default) or drop

	Async bool // compute its scores off the loop, as with Score.Async

	// Budget is the p99 limit for the time from the append of an event of this case until its
	// outputs are durable. 0 means the budget of the pipeline. Only cases of the first route have
	// one.
	Budget time.Duration
}

// Write describes one topic that a step writes.
type Write struct {
	Topic   string
	Emit    bool   // an emit writes it
	Always  bool   // every event writes it
	Key     string // name of the value that keys the records; "" is the key of the input
	Silent  bool   // its records are no replies to clients
	By      string // for messages: the writer, if its records cannot be rows of a table
	Instead string // for messages: the alternative to By
}

// EachStep yields each step in the order of the file. The steps in cases of a route, and for
// elements of a list, follow the step that contains them.
func EachStep(steps []Step) iter.Seq[Step] {
	return func(yield func(Step) bool) { eachStep(steps, yield) }
}

func eachStep(steps []Step, yield func(Step) bool) bool {
	for _, s := range steps {
		if s == nil { // the step is invalid in the file
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
