package compile

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/afterbay/afterbay/internal/control"
	"github.com/afterbay/afterbay/internal/lang"
	"github.com/afterbay/afterbay/internal/task/operator"
	"github.com/afterbay/afterbay/model"
)

// defaultQueueMax bounds the events that are queued.
const defaultQueueMax = 10_000

// modelCalling compiles how a model is called; nil where it is called at once.
func (c *compiler) modelCalling(path string, m *lang.Model, loaded model.Model) *operator.Calling {
	info := loaded.Info()
	call, outside := m.Call, info.Remote && (info.Kind == "remote" || info.Kind == "process")
	if call == nil && (m.Journal != nil && !m.Journal.Off || outside && info.State == 0) {
		call = &lang.Calling{}
	}
	calling := c.res.CallModel(path+".call", c.callsOf(path+".call", call, info), m.Name, lang.TimeoutOf(info))
	if calling == nil {
		return nil
	}
	if info.Timeout > 0 && calling.Timeout > info.Timeout {
		c.Warnings = append(c.Warnings, fmt.Sprintf("%s.call.timeout: %v is of no use: calls of model %s end after %v by themselves, as its manifest says", path, calling.Timeout, m.Name, info.Timeout))
	}
	calling.Implied, calling.Ready = m.Call == nil && m.Journal == nil, lang.ReadyOf(loaded)
	kept, by := m.Journal, operator.JournalByRequest
	if kept == nil && outside {
		kept = &lang.Journal{}
	}
	if calling.Generative = info.Generative; info.Generative {
		by = operator.JournalByEvent
	}
	c.res.KeepAnswers(path+".journal", kept, by, calling)
	calling.Always = m.Journal != nil && calling.Journal != operator.JournalNone
	return calling
}

// callsOf returns a calling with as many calls as the model takes at a time.
func (c *compiler) callsOf(path string, call *lang.Calling, info model.Info) *lang.Calling {
	if call == nil || info.CallsMax == 0 {
		return call
	}
	bounded := *call
	if call.Concurrency > info.CallsMax {
		c.Warnings = append(c.Warnings, fmt.Sprintf("%s.concurrency: %d is more than the manifest's remote.calls, which bounds the calls at a time to %d: raise calls, or remove it", path, call.Concurrency, info.CallsMax))
		bounded.Concurrency = info.CallsMax
	}
	bounded.Concurrency = cmp.Or(bounded.Concurrency, info.CallsMax)
	bounded.Start = min(bounded.Start, bounded.Concurrency)
	return &bounded
}

// parking compiles what concerns all that is parked.
func (c *compiler) parking() {
	var err error
	p := c.Pipeline.Queue
	if c.plan.Queue, err = (control.GateOptions{Max: cmp.Or(p.Max, defaultQueueMax), High: p.High, Low: p.Low}).Resolved(); err != nil {
		c.Fail("queue", "%v", err)
	}
	c.ownTables()
	if !c.plan.Ordered {
		c.countedInOrder()
		return
	}
	for _, call := range c.plan.Calls {
		if call.Function.Timer != nil {
			c.Fail("steps", "%s sets timers, which do not wait for the events that are queued", call.Name)
			c.Hint("remove ordered, or the timers")
		}
	}
}

// countedInOrder refuses features that are below a step which queues events in any order.
func (c *compiler) countedInOrder() {
	for i := range c.Nodes {
		n := &c.Nodes[i]
		place := n.Place()
		above := slices.ContainsFunc(c.Nodes[:i], func(o lang.Node) bool { return o.Place().Queues == lang.QueuesSaid && !o.Guards.Exclude(n.Guards) })
		if place.Behind || !above {
			continue
		}
		for _, path := range place.Counts {
			c.Fail(path, "a step above it may queue events, so those of a key would be counted in any order")
			c.Hint("write ordered: true at the step that queues, or write the features above it")
		}
	}
}

// queueing has the events of a key take turns where a step says so, or features that are
// fed back cost nothing more then. It refuses such features below a step that queues
// events in any order.
func (c *compiler) queueing() {
	said, failed, ordered := false, false, false
	for i := range c.Nodes {
		place := c.Nodes[i].Place()
		said, failed, ordered = said || place.Queues == lang.QueuesSaid, failed || place.Queues == lang.QueuesFailed, ordered || place.Ordered
		c.plan.Feedback = c.plan.Feedback || place.Singly
		if !place.Behind {
			continue
		}
		c.plan.Feedback = true
		if ordered = ordered || failed && !said; ordered || !said { // their order costs nothing more here
			continue
		}
		for _, path := range place.Counts {
			c.Fail(path, "its value or when needs a step that may queue events, so those of a key would be added in any order")
			c.Hint("write ordered: true at the score that queues, or remove what queues: async, and call of the model")
		}
	}
	c.plan.Ordered, c.plan.Feedback = ordered, c.plan.Feedback || ordered
}

// queues reports whether a step queues events, as the file says.
func (c *compiler) queues() bool {
	return slices.ContainsFunc(c.Nodes, func(n lang.Node) bool { return n.Place().Queues == lang.QueuesSaid })
}
