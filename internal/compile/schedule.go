package compile

import (
	"slices"

	"github.com/afterbay/afterbay/internal/lang"
)

// placed is an entry in the order of stages: a node, or the reading of one of its features.
type placed struct {
	node int
	read int // index of the feature; -1 for the node itself
}

// order is the execution order of the stages of a pipeline.
type order struct {
	stages []placed
	waves  int // number of stages that run record by record, in log order, before the waves
}

// schedule returns the order of the stages. It depends only on the places of the nodes. No group
// may be misplaced.
func schedule(nodes []lang.Node) order {
	stages, waves, _ := scheduled(nodes)
	return order{stages, waves}
}

// inWaves reports whether a node runs in the waves. It ignores parts that only read.
func (o *order) inWaves(node int) bool { return slices.Contains(o.stages[o.waves:], placed{node, -1}) }

// scheduled returns the order of the stages, and how many of them run record by record, in log
// order, before the waves. It depends only on the nodes.
//
// The waves begin with the first node that needs them. From there on, stages keep the order of the
// file. Reading a fed-back feature cannot fail and depends on nothing. These reads therefore wait
// until the waves begin, and more nodes run in log order.
//
// A group collects events in log order. Nodes above it that follow only nodes of other cases move
// before the waves with it. If one of them cannot move, the group is misplaced below that node;
// misplaced is then the index of that node, otherwise -1.
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

// onlyReads reports whether a step only reads fed-back features.
func onlyReads(p lang.Place) bool { return p.Reads != nil && !p.Rest }
