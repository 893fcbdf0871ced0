package lang

import (
	"fmt"
	"slices"

	"github.com/afterbay/afterbay/internal/event/encode"
	"github.com/afterbay/afterbay/internal/feature"
	"github.com/afterbay/afterbay/internal/task/operator"
	"github.com/afterbay/afterbay/internal/task/table"
)

// Bound is a step with resolved names and typed expressions. It is immutable.
type Bound interface {
	// Place returns the properties that decide where the step runs in the order of execution.
	Place() Place

	// Lower returns the operator that processes events. The compiler lowers the steps of a pipeline
	// in the order of its file.
	Lower(*Plan, At) operator.Operator
}

// Place holds the properties that decide where a step runs in the order of execution.
type Place struct {
	Waves    bool   // the step needs values that exist only in the waves: the answer of a call, or a fed-back feature
	Log      bool   // the step takes events in log order, before the waves, as a group does
	Several  bool   // the step may make several events of one; they share one offset, so none of them can be queued
	Adds     bool   // the step writes a record or counts an event: a group below must collect events before it
	Reads    []int  // parts that only read a fed-back feature; they may wait until the waves begin
	Rest     bool   // the step also does something other than the Reads
	Keeps    []Kept // keyed state that the step changes when it processes an event
	Behind   bool   // the step counts fed-back features: it runs after the steps that make the names it uses
	Queues   Queueing
	Singly   bool   // the step takes the events of a key one after the other
	OwnTable string // path of the table that the step reads, if the pipeline writes that table; "" if not
	Ordered  bool   // an event is queued if an earlier event of its key is queued
	Failure  []Node // steps for events that the step gives up
}

// Kept is one piece of keyed state of a step.
type Kept struct {
	Path   string
	What   string // name of the state for messages; "" for a feature
	Timers bool   // the state has event-time timers
}

// Queueing says which events a step queues.
type Queueing uint8

// A step queues no events, only the events of failed calls, or the events that its file says.
const (
	QueuesNone Queueing = iota
	QueuesFailed
	QueuesSaid
)

// At says which part of a step to lower, and whether it runs in the waves.
type At struct {
	Waves bool
	Read  int // index of a part that only reads; -1 for the whole step
}

// Plan holds what the operators of a pipeline share.
type Plan struct {
	Calls    []*operator.Call  // calls of functions, and the keyed state of models
	Features [2][]feature.Spec // features in log order and in waves, by index in their set
	Tables   []table.Spec      // tables that lookups read, by the index that operators use

	Encoders map[int]encode.Encoder // encoders of emits, by index of the emit; emits without one write JSON
}

// Feature returns the index of a feature in its set. It adds the feature if it is new.
func (p *Plan) Feature(spec feature.Spec, late bool) int {
	set := &p.Features[0]
	if late {
		set = &p.Features[1]
	}
	for i := range *set {
		if (*set)[i].Name == spec.Name {
			return i
		}
	}
	*set = append(*set, spec)
	return len(*set) - 1
}

// Writes returns the number, counted from 1, of the table that stores the records of a topic as
// rows, if the pipeline writes this topic. Otherwise it returns 0.
func (p *Plan) Writes(topic string) int {
	return 1 + slices.IndexFunc(p.Tables, func(t table.Spec) bool { return t.Written && t.Topic == topic })
}

// Call adds a call to the plan and gives it the next index.
func (p *Plan) Call(of operator.Call) *operator.Call {
	of.Index, p.Calls = len(p.Calls), append(p.Calls, &of)
	return &of
}

// State returns the call that keeps the state of the named model. Two cases of a route share one
// state.
func (p *Plan) State(name string) *operator.Call {
	for _, call := range p.Calls {
		if call.Name == name {
			return call
		}
	}
	return p.Call(*operator.NewState(0, name))
}

// Node is a bound step with its position in the pipeline.
type Node struct {
	Bound
	Step   Step
	Path   string
	Guards operator.Guards // guards of the enclosing cases, the innermost last
}

// Ready returns a Bound for an operator that depends on no other step.
func Ready(op operator.Operator, place Place) Bound { return ready{op, place} }

type ready struct {
	op    operator.Operator
	place Place
}

func (r ready) Place() Place { return r.place }

func (r ready) Lower(*Plan, At) operator.Operator { return r.op }

// Deferred is a part of a step that uses names which later steps introduce.
type Deferred interface {
	// Waits returns the names that the part needs from later steps.
	Waits() []string

	// Joins reports whether other may be bound together with this part.
	Joins(other Deferred) bool

	// BindLate binds the part and those that join it. The result runs after the step that
	// introduces the last of the names that they use.
	BindLate(s *Scope, with []Deferred) Bound
}

// walk is the progress of binding.
type walk struct {
	waiting []waiting
	depth   int  // nesting depth of cases
	Async   bool // the current case is async
	Ended   bool // binding ended early: see Scope.Absent
}

// waiting is a deferred part with the step that it belongs to.
type waiting struct {
	Deferred
	step  Step
	path  string
	depth int
}

// Add adds a bound step. It applies to the events of the case that the step stands in.
func (s *Scope) Add(step Step, path string, b Bound) {
	s.Nodes = append(s.Nodes, Node{Bound: b, Step: step, Path: path, Guards: slices.Clone(s.Guards)})
}

// Defer adds a part of a step that must be bound after a later step.
func (s *Scope) Defer(step Step, path string, d Deferred) {
	s.walk.waiting = append(s.walk.waiting, waiting{d, step, path, s.walk.depth})
}

// Steps binds a list of steps. At the end of the list it also binds the deferred parts that stand
// at this depth, even if their names are missing.
func (s *Scope) Steps(path string, steps []Step) {
	for i := range steps {
		if s.step(fmt.Sprintf("%s[%d]", path, i), steps[i]); s.walk.Ended {
			return
		}
		s.resolve(false)
	}
	s.resolve(true)
}

func (s *Scope) step(path string, step Step) {
	if empty, ok := step.(interface{ Empty() bool }); step == nil || ok && empty.Empty() {
		s.Fail(path, "a step names exactly one kind of step, and this one names none")
		return
	}
	step.Bind(s, path+"."+step.StepKind().Name)
}

// resolve binds the deferred parts of the current depth if their names exist. If last is true, it
// binds all of that depth.
func (s *Scope) resolve(last bool) {
	var still, ready []waiting
	for _, w := range s.walk.waiting {
		absent := slices.ContainsFunc(w.Waits(), func(name string) bool {
			_, ok := s.Names.Lookup(name)
			return !ok
		})
		if w.depth != s.walk.depth || absent && !last {
			still = append(still, w)
		} else {
			ready = append(ready, w)
		}
	}
	s.walk.waiting = still
	for len(ready) > 0 {
		first, with, rest := ready[0], []Deferred(nil), []waiting(nil)
		for _, w := range ready[1:] {
			if first.Joins(w.Deferred) {
				with = append(with, w.Deferred)
			} else {
				rest = append(rest, w)
			}
		}
		s.Add(first.step, first.path, first.BindLate(s, with))
		ready = rest
	}
}

// Within binds steps that only some events take. It returns the names that these steps introduce
// and removes the names from the scope.
func (s *Scope) Within(at, path string, steps []Step) []string {
	before := len(s.Names.Introduced)
	s.Steps(path, steps)
	return s.Names.Leave(at, before)
}

// Inside runs bind one level deeper: for the cases of a route, or for the steps of events that are
// given up.
func (s *Scope) Inside(path string, bind func()) {
	s.Names.Routes = append(s.Names.Routes, path)
	s.walk.depth++
	bind()
	s.walk.depth--
	s.Names.Routes = s.Names.Routes[:len(s.Names.Routes)-1]
}

// Elements binds the steps that run for each element of a list and returns their nodes. The
// pipeline does not get these nodes, and the names that bind introduces leave the scope.
func (s *Scope) Elements(path string, bind func()) []Node {
	nodes, names := len(s.Nodes), len(s.Names.Introduced)
	s.Inside(path, func() {
		s.Names.elements = true
		bind()
		s.Names.elements = false
		s.Names.leave(caseAt{At: path, Element: true, Instead: "it belongs to elements, not to events: add it to the value of gather"}, names)
	})
	made := slices.Clone(s.Nodes[nodes:])
	s.Nodes = s.Nodes[:nodes]
	return made
}

// OnFailure binds the steps that run for an event that is given up. Call it before the step
// introduces its own names: such an event does not have them.
func (s *Scope) OnFailure(path string, steps []Step) []Node {
	for i := range steps {
		if steps[i] != nil && !steps[i].Effect().InFailure {
			s.Fail(fmt.Sprintf("%s[%d]", path, i), "only let, decide, call and emit can run for an event that is given up")
			return nil
		}
	}
	if steps == nil {
		return nil
	}
	before := len(s.Nodes)
	s.Inside(path, func() { s.Within(path, path, steps) })
	nodes := slices.Clone(s.Nodes[before:])
	s.Nodes = s.Nodes[:before]
	return nodes
}

// Lowered returns the operators that run for an event that is given up.
func (p *Plan) Lowered(nodes []Node) (list []operator.Placed) {
	for _, n := range nodes {
		list = append(list, operator.Placed{Operator: n.Lower(p, At{Read: -1}), Guard: n.Guards.Innermost()})
	}
	return list
}
