package compile

import (
	"slices"

	"github.com/afterbay/afterbay/internal/task/operator"
)

// node is an operator that was compiled, with what decides its place: exactly one of op,
// features and writes is set.
type node struct {
	op       operator.Operator
	features []*madeFeature  // of a step
	writes   []*madeFeature  // features that are fed back, behind the names they use
	waves    bool            // it needs what only the waves know: what a call answers, or a feature that is fed back
	guards   operator.Guards // of the cases around it, the innermost last
}

// kind returns the kind of the step that a node is made of.
func (n *node) kind() string {
	if n.op == nil {
		return "features"
	}
	kind, _ := n.op.Label()
	return kind
}

// within reports whether the events of other go through n where they pass it.
func (n *node) within(other *node) bool { return other.guards.Within(n.guards.Innermost()) }

// placed is a node, or the reading alone of one of its features, in the order of stages.
type placed struct {
	node int
	read int // of features; -1 is the node itself
}

// schedule returns the order of the stages and how many of them run record by record,
// in log order, before the waves. It is a function of the nodes alone.
//
// The waves begin with the first node that needs them. From there on the order is that
// of the file. Reading a feature that is fed back cannot fail and depends on nothing, so
// these reads wait until the waves begin, and more nodes run in log order. A group
// collects events in log order: nodes above it that only follow nodes of other cases are
// moved before the waves with it. If one of them cannot be, the group is misplaced below
// that node; misplaced is then its place among the nodes, else -1.
func schedule(nodes []node) (order []placed, waves, misplaced int) {
	var before, after, reads []placed
	begun := false
	for i := range nodes {
		n := &nodes[i]
		if n.waves && !begun {
			begun, after = true, reads
		}
		switch {
		case isGroup(n.op):
			var rest []placed
			for _, p := range after {
				above := &nodes[p.node]
				switch {
				case p.read >= 0 || above.reads() || !above.within(n):
					rest = append(rest, p)
				case above.waves || above.adds():
					return nil, 0, p.node
				default:
					before = append(before, p)
				}
			}
			before, after = append(before, placed{i, -1}), rest
		case begun:
			after = append(after, placed{i, -1})
		default:
			own := 0
			for k, m := range n.features {
				if m.waitsFor != nil {
					reads = append(reads, placed{i, k})
				} else {
					own++
				}
			}
			if n.features == nil || own > 0 {
				before = append(before, placed{i, -1})
			}
		}
	}
	return slices.Concat(before, after), len(before), -1
}

// reads reports whether a node only reads features, all of them fed back.
func (n *node) reads() bool {
	return n.features != nil && !slices.ContainsFunc(n.features, func(m *madeFeature) bool { return m.waitsFor == nil })
}

// queues reports whether a node queues events, as its file says.
func (n *node) queues() bool {
	op, ok := n.op.(operator.Batched)
	return ok && op.How().Calling != nil && (!op.How().Calling.Implied || op.How().Async)
}

// adds reports whether a node writes something, or counts an event: a group is made of
// events before that.
func (n *node) adds() bool {
	switch n.op.(type) {
	case *operator.Emit, *operator.Call:
		return true
	}
	return n.features != nil || n.writes != nil
}

func isGroup(op operator.Operator) bool {
	_, group := op.(*operator.Group)
	return group
}

// add appends a node, for the events of the case that is being compiled.
func (c *compiler) add(n node) {
	n.guards = slices.Clone(c.Guards)
	c.nodes = append(c.nodes, n)
}

// arrange makes the stages of the plan from the nodes.
func (c *compiler) arrange() {
	order, waves, _ := schedule(c.nodes)
	c.plan.Waves = waves
	inWaves := make([]bool, len(c.nodes))
	for _, p := range order[waves:] {
		inWaves[p.node] = inWaves[p.node] || p.read < 0
	}
	for i := range c.nodes {
		for _, m := range c.nodes[i].features {
			m.late = m.waitsFor != nil || inWaves[i]
			set := 0
			if m.late {
				set = 1
			}
			m.index, c.specs[set] = len(c.specs[set]), append(c.specs[set], m.spec)
		}
	}
	for _, p := range order {
		n := &c.nodes[p.node]
		op := n.op
		switch {
		case p.read >= 0:
			op = operator.NewFeatures([]operator.Feature{n.features[p.read].stage(true, false)})
		case n.features != nil:
			var list []operator.Feature
			for _, m := range n.features {
				if m.waitsFor == nil || inWaves[p.node] {
					list = append(list, m.stage(true, m.waitsFor == nil))
				}
			}
			op = operator.NewFeatures(list)
		case n.writes != nil:
			var list []operator.Feature
			for _, m := range n.writes {
				list = append(list, m.stage(false, true))
			}
			op = operator.NewFeatures(list)
		}
		c.plan.Stages = append(c.plan.Stages, operator.Placed{Operator: op, Guard: n.guards.Innermost()})
	}
}
