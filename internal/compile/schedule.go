package compile

import (
	"cmp"
	"slices"

	"github.com/afterbay/afterbay/internal/lang"
	"github.com/afterbay/afterbay/internal/task/operator"
)

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
func schedule(nodes []lang.Node) (order []placed, waves, misplaced int) {
	var before, after, reads []placed
	begun := false
	for i := range nodes {
		n := &nodes[i]
		place := n.Place()
		if place.Waves && !begun {
			begun, after = true, reads
		}
		switch {
		case place.Log:
			var rest []placed
			for _, p := range after {
				above := &nodes[p.node]
				switch of := above.Place(); {
				case p.read >= 0 || onlyReads(of) || !n.Guards.Within(above.Guards.Innermost()):
					rest = append(rest, p)
				case of.Waves || of.Adds:
					return nil, 0, p.node
				default:
					before = append(before, p)
				}
			}
			before, after = append(before, placed{i, -1}), rest
		case begun:
			after = append(after, placed{i, -1})
		default:
			for _, read := range place.Reads {
				reads = append(reads, placed{i, read})
			}
			if !onlyReads(place) {
				before = append(before, placed{i, -1})
			}
		}
	}
	return slices.Concat(before, after), len(before), -1
}

// onlyReads reports whether a step does nothing but read features that are fed back.
func onlyReads(p lang.Place) bool { return p.Reads != nil && !p.Rest }

// misplaced refuses groups below what their events need the waves for.
func (c *compiler) misplaced() {
	var nodes []lang.Node
	for _, n := range c.Nodes {
		nodes = append(nodes, n)
		if !n.Place().Log {
			continue
		}
		if _, _, at := schedule(nodes); at >= 0 {
			c.Fail(n.Path, "below %s: a group is made of events in log order, before anything is scored or written for them", nodes[at].Step.StepKind().Name)
			c.Hint("write the group above it; what is below it is done for the group as one")
			nodes = nodes[:len(nodes)-1]
		}
	}
}

// arrange makes the stages of the plan from the nodes.
func (c *compiler) arrange() {
	order, waves, at := schedule(c.Nodes)
	if at >= 0 {
		return // which misplaced reports
	}
	c.plan.Waves = waves
	inWaves := make([]bool, len(c.Nodes))
	for _, p := range order[waves:] {
		inWaves[p.node] = inWaves[p.node] || p.read < 0
	}
	ops := map[placed]operator.Operator{}
	for _, p := range slices.SortedFunc(slices.Values(order), func(a, b placed) int { return cmp.Or(a.node-b.node, a.read-b.read) }) {
		ops[p] = c.Nodes[p.node].Lower(&c.lowered, lang.At{Waves: p.read >= 0 || inWaves[p.node], Read: p.read})
		if g, ok := ops[p].(*operator.Group); ok {
			c.plan.Groups.Groups = append(c.plan.Groups.Groups, g)
		}
	}
	c.plan.Calls = c.lowered.Calls
	for _, p := range order {
		c.plan.Stages = append(c.plan.Stages, operator.Placed{Operator: ops[p], Guard: c.Nodes[p.node].Guards.Innermost()})
	}
}
