package compile

import (
	"slices"

	"github.com/afterbay/afterbay/internal/lang"
)

// placed is a node, or the reading alone of one of its features, in the order of stages.
type placed struct {
	node int
	read int // of features; -1 is the node itself
}

// order is that in which the stages of a pipeline run.
type order struct {
	stages []placed
	waves  int // how many of them run record by record, in log order, before the waves
}

// schedule returns the order of the stages of nodes of which no group is misplaced. It is a
// function of their places alone.
func schedule(nodes []lang.Node) order {
	stages, waves, _ := scheduled(nodes)
	return order{stages, waves}
}

// inWaves reports whether a node runs in the waves, but for what only reads.
func (o *order) inWaves(node int) bool { return slices.Contains(o.stages[o.waves:], placed{node, -1}) }

// scheduled returns the order of the stages and how many of them run record by record,
// in log order, before the waves. It is a function of the nodes alone.
//
// The waves begin with the first node that needs them. From there on the order is that
// of the file. Reading a feature that is fed back cannot fail and depends on nothing, so
// these reads wait until the waves begin, and more nodes run in log order. A group
// collects events in log order: nodes above it that only follow nodes of other cases are
// moved before the waves with it. If one of them cannot be, the group is misplaced below
// that node; misplaced is then its place among the nodes, else -1.
func scheduled(nodes []lang.Node) (order []placed, waves, misplaced int) {
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
