package lang

import (
	"fmt"
	"slices"

	"github.com/afterbay/afterbay/internal/event/encode"
	"github.com/afterbay/afterbay/internal/feature"
	"github.com/afterbay/afterbay/internal/task/operator"
	"github.com/afterbay/afterbay/internal/task/table"
)

// Bound is a step whose names are resolved and whose expressions have types. It does not
// change.
type Bound interface {
	// Place returns what decides its place in the order of execution.
	Place() Place

	// Lower returns what is done for an event. The steps of a pipeline are lowered in the
	// order of its file.
	Lower(*Plan, At) operator.Operator
}

// Place is what decides the place of a step in the order of execution.
type Place struct {
	Waves    bool   // it needs what only the waves know: what a call answers, or a feature that is fed back
	Log      bool   // it takes events in log order, before the waves, as a group does
	Several  bool   // it may make several events of one, which have one offset: none of them is queued
	Adds     bool   // it writes something, or counts an event: events are collected before that
	Reads    []int  // parts of it that only read a feature that is fed back, which may wait until the waves begin
	Rest     bool   // something of it is none of these
	Keeps    []Kept // of each key: what is done for an event changes it
	Behind   bool   // these are features that are fed back: it stands behind the names that they use
	Queues   Queueing
	Singly   bool   // the events of a key come to it one behind the other
	OwnTable string // path of the table that it reads, if the pipeline writes it; "" is none
	Ordered  bool   // events of a key are queued behind one of it that is
	Failure  []Node // what is done for events that it gives up
}

// Kept is something that a step keeps of each key.
type Kept struct {
	Path   string
	What   string // that keeps it; "" is a feature
	Timers bool   // it has timers of event time
}

// Queueing says whether a step queues events.
type Queueing uint8

// A step queues events as its file says, or those whose call fails, or none.
const (
	QueuesNone Queueing = iota
	QueuesFailed
	QueuesSaid
)

// At says what of a step is lowered, and where that is done.
type At struct {
	Waves bool
	Read  int // the one part that only reads; -1 is the step
}

// Plan is what the operators of a pipeline share.
type Plan struct {
	Calls    []*operator.Call  // of functions, and of what models keep of a key
	Features [2][]feature.Spec // early and late, by the index in their set
	Tables   []table.Spec      // that lookups read, by the index that operators have

	Encoders map[int]encode.Encoder // of emits, by index; others write JSON
}

// Feature returns the index of a feature in its set.
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

// Writes returns which of the tables, from 1, a topic that the pipeline writes has rows
// of; 0 is none.
func (p *Plan) Writes(topic string) int {
	return 1 + slices.IndexFunc(p.Tables, func(t table.Spec) bool { return t.Written && t.Topic == topic })
}

// Call numbers a call.
func (p *Plan) Call(of operator.Call) *operator.Call {
	of.Index, p.Calls = len(p.Calls), append(p.Calls, &of)
	return &of
}

// State returns what keeps the state of a model of a name. Two cases of a route share one.
func (p *Plan) State(name string) *operator.Call {
	for _, call := range p.Calls {
		if call.Name == name {
			return call
		}
	}
	return p.Call(*operator.NewState(0, name))
}

// Node is a bound step where it stands.
type Node struct {
	Bound
	Step   Step
	Path   string
	Guards operator.Guards // of the cases around it, the innermost last
}

// Ready is a step that is lowered already: nothing of it depends on other steps.
func Ready(op operator.Operator, place Place) Bound { return ready{op, place} }

type ready struct {
	op    operator.Operator
	place Place
}

func (r ready) Place() Place { return r.place }

func (r ready) Lower(*Plan, At) operator.Operator { return r.op }

// Deferred is a part of a step that uses names which later steps introduce.
type Deferred interface {
	// Waits returns these names.
	Waits() []string

	// Joins reports whether another one may be bound together with it.
	Joins(other Deferred) bool

	// BindLate binds it, and others that join it, behind the step that introduced the last
	// of the names that they use.
	BindLate(s *Scope, with []Deferred) Bound
}

// walk is where the binding of steps has come to.
type walk struct {
	waiting []waiting
	depth   int  // of cases
	Async   bool // the case is
	Ended   bool // there is no more to bind: see Scope.Until
}

// waiting is what waits for later steps.
type waiting struct {
	Deferred
	step  Step
	path  string
	depth int
}

// Add adds what a step is bound to, for the events of the case that it stands in.
func (s *Scope) Add(step Step, path string, b Bound) {
	s.Nodes = append(s.Nodes, Node{Bound: b, Step: step, Path: path, Guards: slices.Clone(s.Guards)})
}

// Defer adds a part of a step that is bound behind a later one.
func (s *Scope) Defer(step Step, path string, d Deferred) {
	s.walk.waiting = append(s.walk.waiting, waiting{d, step, path, s.walk.depth})
}

// Steps binds steps. What waits for later steps is bound at the end, if the path is that of
// the steps of a pipeline or case.
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
		s.Fail(path, "a step is exactly one of the kinds of steps: this one names none")
		return
	}
	step.Bind(s, path+"."+step.StepKind().Name)
}

// resolve binds what waits among the steps that are bound, if its names are there or these
// steps end.
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

// Within binds steps that only some events take, at a path, and returns the names that
// they introduce, which are out of scope after it.
func (s *Scope) Within(at, path string, steps []Step) []string {
	before := len(s.Names.Introduced)
	s.Steps(path, steps)
	return s.Names.Leave(at, before)
}

// Inside does what binds the cases of a route, or what is done for events that are given
// up.
func (s *Scope) Inside(path string, bind func()) {
	s.Names.Routes = append(s.Names.Routes, path)
	s.walk.depth++
	bind()
	s.walk.depth--
	s.Names.Routes = s.Names.Routes[:len(s.Names.Routes)-1]
}

// Elements binds what is done for each element of a list. Its steps are no nodes of the
// pipeline, and the names that bind introduces are out of scope behind it.
func (s *Scope) Elements(path string, bind func()) []Node {
	nodes, names := len(s.Nodes), len(s.Names.Introduced)
	s.Inside(path, func() {
		s.Names.elements = true
		bind()
		s.Names.elements = false
		s.Names.leave(caseAt{At: path, Element: true, Instead: "elements have it, and events do not: give it a place in the value of gather"}, names)
	})
	made := slices.Clone(s.Nodes[nodes:])
	s.Nodes = s.Nodes[:nodes]
	return made
}

// OnFailure binds what is done for an event that is given up. It comes before the names of
// its step, which such an event has none of.
func (s *Scope) OnFailure(path string, steps []Step) []Node {
	for i := range steps {
		if steps[i] != nil && !steps[i].Effect().InFailure {
			s.Fail(fmt.Sprintf("%s[%d]", path, i), "only let, decide, call and emit can be done for an event that is given up")
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

// Lowered returns what is done for an event that is given up.
func (p *Plan) Lowered(nodes []Node) (list []operator.Placed) {
	for _, n := range nodes {
		list = append(list, operator.Placed{Operator: n.Lower(p, At{Read: -1}), Guard: n.Guards.Innermost()})
	}
	return list
}
