package compile

import (
	"fmt"
	"slices"

	"github.com/afterbay/afterbay/internal/event/expression"
	"github.com/afterbay/afterbay/internal/event/value"
	"github.com/afterbay/afterbay/internal/feature"
	"github.com/afterbay/afterbay/internal/lang"
	"github.com/afterbay/afterbay/internal/task/operator"
)

// step compiles one step, and appends its stages to the plan.
func (c *compiler) step(path string, s lang.Step) {
	if isEmpty(s) {
		c.Fail(path, "a step is exactly one of let, features, lookup, fetch, score, call, route, group, decide and emit")
		return
	}
	path += "." + s.StepKind().Name
	switch s := s.(type) {
	case lang.Binder:
		for _, b := range s.Bind(c.Scope, path) {
			c.add(node{op: b.Operator, waves: b.Waves})
		}
		c.plan.Outputs = c.Outputs.Topics
	case *lang.Features:
		c.features(path+".", s.List)
	case *lang.Lookup:
		c.lookup(path, s)
	case *lang.Fetch:
		c.fetch(path, s)
	case *lang.Score:
		c.score(path, s)
	case *lang.Route:
		c.route(path, s.Cases)
	case *lang.Group:
		c.group(path, s)
	}
}

// isEmpty reports whether a step says nothing.
func isEmpty(s lang.Step) bool {
	switch s := s.(type) {
	case nil:
		return true
	case *lang.Let:
		return s.List == nil
	case *lang.Decide:
		return s.List == nil
	case *lang.Features:
		return s.List == nil
	case *lang.Route:
		return s.Cases == nil
	}
	return false
}

// waitingFeature is a feedback feature until the names it uses are there.
type waitingFeature struct {
	*madeFeature
	depth int // of the cases around it
}

// features compiles the features of a step, which count an event together.
func (c *compiler) features(path string, list []lang.Feature) {
	var made []*madeFeature
	waves := false
	for i := range list {
		m := c.feature(path+list[i].Name, &list[i])
		if m == nil {
			c.Names.Broken[list[i].Name], c.Names.Broken[list[i].Name+".*"] = true, true
			continue
		}
		made = append(made, m)
		if m.waitsFor != nil {
			c.waiting = append(c.waiting, &waitingFeature{m, c.depth})
		} else {
			waves = waves || c.Fed(m.value, m.when)
		}
	}
	if len(made) > 0 {
		c.add(node{features: made, waves: waves})
	}
}

// madeFeature is a feature of a step until the order of the stages is known.
type madeFeature struct {
	path        string
	feature     *lang.Feature
	spec        feature.Spec
	value, when *expression.Program
	columns     []value.Slot
	waitsFor    []string // names that come later: the feature is fed back
	late        bool     // it is kept in the waves
	index       int      // among those kept there, or among the others
}

// stage returns what is done for an event: both, or apart the reading and the adding of
// a feature that is fed back.
func (m *madeFeature) stage(read, add bool) operator.Feature {
	f := operator.Feature{Name: m.feature.Name, Late: m.late, Index: m.index, Read: read, Add: add}
	f.Refuses = m.feature.Value != "" || m.feature.When != "" || m.spec.Overflow == feature.OverflowDead
	if read {
		f.Columns, f.ReadFirst = m.columns, m.feature.Elapsed && add
	}
	if add {
		f.Value, f.When = m.value, m.when
	}
	return f
}

// feature compiles a feature and introduces its columns; nil where it is wrong.
func (c *compiler) feature(path string, f *lang.Feature) *madeFeature {
	if !c.Identifier(path, f.Name) {
		return nil
	}
	spec, ok := c.spec(path, f)
	if !ok || !c.AboveGroup(path) {
		return nil
	}
	m := &madeFeature{path: path, feature: f, spec: spec}
	for _, name := range slices.Concat(expression.NamesIn(f.Value), expression.NamesIn(f.When)) {
		if _, known := c.Names.Lookup(name); !known && (c.Names.Later[name] || c.Names.IsBroken(name)) {
			m.waitsFor = append(m.waitsFor, name)
		}
	}
	if m.waitsFor == nil && !c.contribution(m) {
		return nil
	}
	one, err := feature.NewSet([]feature.Spec{spec})
	if err != nil {
		c.Fail(path, "%v", err)
		return nil
	}
	for _, column := range one.Columns(0) {
		name := f.Name
		if column != "" {
			name += "." + column
		}
		if where, over := c.Names.Cases[name]; over {
			c.Fail(path, "%s has a feature of this name: a feature stands in one place", where.At)
			c.Hint("write it above the route, or give it another name")
			return nil
		}
		slot, ok := c.Make(path, name, value.Type{Kind: value.Number})
		if !ok {
			return nil
		}
		m.columns = append(m.columns, slot)
		c.FedBack[name] = m.waitsFor != nil
	}
	return m
}

// contribution compiles what a feature adds and when.
func (c *compiler) contribution(m *madeFeature) (ok bool) {
	before := len(c.Errs)
	if m.feature.Value != "" {
		m.value = c.Expr(m.path+".value", m.feature.Value, value.Number, value.Int)
	}
	if m.feature.When != "" {
		m.when = c.Expr(m.path+".when", m.feature.When, value.Bool)
	}
	return len(c.Errs) == before
}

// resolveWaiting adds the writing of feedback features after the step that
// introduced the last name they use, among the steps that they stand among.
func (c *compiler) resolveWaiting(last bool) {
	var still []*waitingFeature
	var writes []*madeFeature
	for _, w := range c.waiting {
		absent := slices.ContainsFunc(w.waitsFor, func(name string) bool {
			_, ok := c.Names.Lookup(name)
			return !ok
		})
		if c.cut || w.depth != c.depth || absent && !last {
			still = append(still, w)
			continue
		}
		c.plan.Ordered = c.plan.Ordered || c.mayPark && !c.parkable // its order costs nothing more here
		if c.parkable && !c.plan.Ordered {
			c.Fail(w.path, "its value or when needs a step that may queue events, so those of a key would be added in any order")
			c.Hint("write ordered: true at the score that queues, or remove what queues: async, and call of the model")
		}
		c.AboveGroup(w.path)
		c.contribution(w.madeFeature)
		writes = append(writes, w.madeFeature)
	}
	c.waiting = still
	if len(writes) > 0 {
		c.add(node{writes: writes, waves: true})
		c.plan.Feedback = true
	}
}

// spec checks a feature's shape.
func (c *compiler) spec(path string, f *lang.Feature) (feature.Spec, bool) {
	before := len(c.Errs)
	spec := feature.Spec{Name: f.Name, Last: f.Last, Elapsed: f.Elapsed, Decimals: -1}
	shapes := 0
	for _, there := range []bool{len(f.Windows) > 0, f.Last != 0, f.Elapsed} {
		if there {
			shapes++
		}
	}
	if shapes != 1 {
		c.Fail(path, "a feature has exactly one of windows, last and elapsed")
	}
	for i, text := range f.Windows {
		window, err := feature.ParseWindow(text)
		if err != nil {
			c.Fail(fmt.Sprintf("%s.windows[%d]", path, i), "%v", err)
		}
		spec.Windows = append(spec.Windows, window)
	}
	counts := true
	for i, text := range f.Aggregates {
		aggregate, err := feature.ParseAggregate(text)
		if err != nil {
			c.Fail(fmt.Sprintf("%s.aggregates[%d]", path, i), "%v", err)
		}
		counts = counts && aggregate == feature.Count
		spec.Aggregates = append(spec.Aggregates, aggregate)
	}
	switch {
	case f.Elapsed && (len(f.Aggregates) > 0 || f.Value != "" || f.Decimals != nil):
		c.Fail(path, "elapsed takes no value, aggregates or decimals: it is the seconds since the key's newest event")
	case !f.Elapsed && len(f.Aggregates) == 0:
		c.Fail(path, "missing aggregates: use count, sum, mean, max and min")
	case !f.Elapsed && f.Value == "" && !counts:
		c.Fail(path, "missing value: only count needs none")
	}
	if f.Decimals != nil {
		spec.Decimals = *f.Decimals
	}
	if f.Empty != nil {
		spec.Empty = *f.Empty
	}
	spec.Max = f.Max
	var err error
	if spec.Overflow, err = feature.ParseOverflow(f.Overflow); err != nil {
		c.Fail(path+".overflow", "%v", err)
	}
	return spec, len(c.Errs) == before
}

// output returns the index of a topic that the pipeline writes.
func (c *compiler) output(topic string) int {
	i := c.Outputs.Index(topic)
	c.plan.Outputs = c.Outputs.Topics
	return i
}
