package compile

import (
	"cmp"
	"slices"

	"github.com/afterbay/afterbay/internal/control"
	"github.com/afterbay/afterbay/internal/lang"
	"github.com/afterbay/afterbay/internal/spec"
)

// defaultQueueMax limits the queued events.
const defaultQueueMax = 10_000

// checked holds the properties that depend on all steps together.
type checked struct {
	ordered  bool // an event is queued if an earlier event of its key is queued
	feedback bool // the events of a key go through the waves one after the other
	queue    control.GateOptions
	sinks    []Sunk
	errs     spec.Problems
	warnings []string
}

// check validates a pipeline as a whole. It returns all errors and all warnings.
func check(b *bound, nodes []lang.Node, options Options, open *opened) *checked {
	c, found := &checked{}, open.Findings.Plus(lang.NewFindings())
	checkFormats(b, open.formats, found)
	checkEncoded(b, found)
	misplaced(nodes, found)
	queues := c.queueing(nodes)
	c.ownTables(nodes, queues, found)
	c.checkQueue(b.Pipeline.Queue, nodes, found)
	if !queues && !b.Ended {
		checkTurns(b.Pipeline, found)
	}
	if b.Outputs.Writers == 0 && !options.Rows && len(found.Errs) == 0 {
		found.Fail("steps", "nothing is emitted, so the pipeline would have no effect")
		found.Hint("add an emit step")
	}
	checkReplies(b, found)
	checkAskings(b, nodes, found)
	c.sinks = checkSinks(b, found)
	if c.feedback {
		found.Warnings = append(found.Warnings, "features read past predictions, or lookups read rows that the pipeline writes, so the events of one key are scored one after the other: throughput is at most 1 / (share of the hottest key x time of a model call)")
	}
	c.errs, c.warnings = declarations(b, found), found.Warnings
	return c
}

// misplaced reports groups below steps that run in the waves.
func misplaced(all []lang.Node, found *lang.Findings) {
	var nodes []lang.Node
	for _, n := range all {
		nodes = append(nodes, n)
		if !n.Place().Log {
			continue
		}
		if _, _, at := scheduled(nodes); at >= 0 {
			found.Fail(n.Path, "below %s: a %s reads events in log order, before the pipeline scores or writes anything for them", nodes[at].Step.StepKind().Name, n.Step.StepKind().Name)
			found.Hint("write the " + n.Step.StepKind().Name + " above it; the steps below it run for the event that it makes")
			nodes = nodes[:len(nodes)-1]
		}
	}
}

// queueing decides whether the events of a key run in order. They do if a step says so, or if
// fed-back features make the order cost nothing extra. It reports whether a step queues events as
// its file says.
func (c *checked) queueing(nodes []lang.Node) (said bool) {
	failed := false
	for i := range nodes {
		place := nodes[i].Place()
		said, failed = said || place.Queues == lang.QueuesSaid, failed || place.Queues == lang.QueuesFailed
		c.ordered = c.ordered || place.Ordered || place.Behind && failed && !said // the events of a key run one after the other anyway, so order costs nothing extra
		c.feedback = c.feedback || place.Singly || place.Behind
	}
	c.feedback = c.feedback || c.ordered
	return said
}

// ownTables makes the events of a key run one after the other if the pipeline looks up rows that it
// writes.
func (c *checked) ownTables(nodes []lang.Node, queues bool, found *lang.Findings) {
	at := slices.IndexFunc(nodes, func(n lang.Node) bool { return n.Place().OwnTable != "" })
	if at < 0 {
		return
	}
	if queues && !c.ordered {
		found.Fail(nodes[at].Place().OwnTable, "the pipeline writes its rows, and events of a key may be queued: the lookup would miss rows of events in flight")
		found.Hint("write ordered: true at the step that queues events, or remove its async and the call of its model")
	}
	c.ordered, c.feedback = true, true
}

// checkQueue checks the settings for all queued events.
func (c *checked) checkQueue(q lang.Queue, nodes []lang.Node, found *lang.Findings) {
	var err error
	if c.queue, err = (control.GateOptions{Max: cmp.Or(q.Max, defaultQueueMax), High: q.High, Low: q.Low}).Resolved(); err != nil {
		found.Fail("queue", "%v", err)
	}
	keptInOrder(found, nodes, c.ordered)
	queuedSeveral(found, nodes)
	if c.ordered && slices.ContainsFunc(nodes, func(n lang.Node) bool { return n.Place().Log }) {
		found.Fail("steps", "events of a key are queued behind each other, and the events that a group makes have no place in that order")
		found.Hint("remove ordered: true, and features that read outputs of a model that may be down")
	}
}

// checkTurns reports priority and tenant if no step queues events.
func checkTurns(p *lang.Pipeline, found *lang.Findings) {
	for _, word := range [][2]string{{"priority", p.Priority.High + p.Priority.Low}, {"tenant", p.Tenant.By}} {
		if word[1] != "" {
			found.Fail(word[0], "no event waits for its turn: the pipeline has no async score")
			found.Hint("remove it, or write async: true at a score, or a call at its model")
		}
	}
}
