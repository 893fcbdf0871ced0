package compile

import (
	"fmt"
	"slices"

	"github.com/afterbay/afterbay/internal/lang"
	"github.com/afterbay/afterbay/internal/task/operator"
)

// keptInOrder reports keyed state below a step that queues events without order. If the events of a
// key wait for each other, it reports only timers, because timers do not wait.
func keptInOrder(found *lang.Findings, nodes []lang.Node, ordered bool) {
	for i := range nodes {
		n := &nodes[i]
		place := n.Place()
		if ordered {
			withoutTimers(found, place)
			continue
		}
		queue := queueAbove(nodes[:i], n.Guards)
		if queue != nil {
			refuseKept(found, place, queue)
		}
		if queue == nil && place.Queues != lang.QueuesNone {
			queue = n
		}
		for _, f := range place.Failure {
			for _, kept := range f.Place().Keeps {
				if queue != nil {
					found.Fail(kept.Path, "%s keeps state of each key, and %s may queue events: events of a key that are given up would reach it in any order", kept.What, queue.Path)
					found.Hint(orderHint(queue, "call a function that is not keyed"))
				}
			}
		}
	}
}

// queuedSeveral reports steps that queue events below a step that makes several events of one: the
// offset of its event identifies a queued event.
func queuedSeveral(found *lang.Findings, nodes []lang.Node) {
	var several *lang.Node
	for i := range nodes {
		n := &nodes[i]
		if several != nil && n.Place().Queues != lang.QueuesNone && !n.Guards.Exclude(several.Guards) {
			what, instead := "a join with match: each, which makes", "use match: first or last, or score"
			if several.Step.StepKind().Name == "group" {
				what, instead = "a group with windows that overlap, which make", "remove size of the group, or score"
			}
			found.Fail(n.Path, "it may queue events, and it is below %s several events of one", what)
			found.Hint(instead + " in a pipeline that reads what this one emits")
		}
		if n.Place().Several {
			several = n
		}
	}
}

// queueAbove returns the first node that may queue events of the given cases, or nil.
func queueAbove(nodes []lang.Node, guards operator.Guards) *lang.Node {
	at := slices.IndexFunc(nodes, func(o lang.Node) bool { return o.Place().Queues != lang.QueuesNone && !o.Guards.Exclude(guards) })
	if at < 0 {
		return nil
	}
	return &nodes[at]
}

// refuseKept reports keyed state below queue.
func refuseKept(found *lang.Findings, place lang.Place, queue *lang.Node) {
	for _, kept := range place.Keeps {
		switch {
		case place.Behind:
			found.Fail(kept.Path, "its value or when needs %s, which may queue events, so events of a key would be added in any order", queue.Path)
			found.Hint(orderHint(queue, "remove async of that step, and call of its model"))
		case kept.What == "":
			found.Fail(kept.Path, "%s above it may queue events, so events of a key would be counted in any order", queue.Path)
			found.Hint(orderHint(queue, "write the features above it"))
		default:
			found.Fail(kept.Path, "%s keeps state of each key, and %s above it may queue events: events of a key would reach it in any order", kept.What, queue.Path)
			if found.Hint(orderHint(queue, "write this step above it")); kept.Timers {
				found.Hint("write this step above it")
			}
		}
	}
}

// withoutTimers reports timers in a place, and in its steps for events that are given up.
func withoutTimers(found *lang.Findings, place lang.Place) {
	for _, kept := range place.Keeps {
		if kept.Timers {
			found.Fail(kept.Path, "%s has timers, which do not wait for the events that are queued", kept.What)
			found.Hint("remove ordered and the features that need it, or " + kept.What)
		}
	}
	for _, f := range place.Failure {
		withoutTimers(found, f.Place())
	}
}

// orderHint returns a hint about keeping the events of a key in order below a step that queues
// them.
func orderHint(queue *lang.Node, instead string) string {
	hint := fmt.Sprintf("write ordered: true at %s, or %s", queue.Path, instead)
	if queue.Place().Queues == lang.QueuesFailed {
		hint = "an event is queued if its call fails: " + hint
	}
	return hint
}
