package compile

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"
	"strconv"
	"time"

	"github.com/afterbay/afterbay/internal/control"
	"github.com/afterbay/afterbay/internal/event/expression"
	"github.com/afterbay/afterbay/internal/event/value"
	"github.com/afterbay/afterbay/internal/lang"
	"github.com/afterbay/afterbay/internal/observe"
	"github.com/afterbay/afterbay/internal/state/journal"
	"github.com/afterbay/afterbay/internal/task/operator"
	"github.com/afterbay/afterbay/model"
)

// Defaults of calls.
const (
	defaultTimeout  = 3 * time.Second
	defaultQueueMax = 10_000
	partialEvery    = 250 * time.Millisecond // from a record of an event to the next
)

var openWays = map[string]operator.Open{"": operator.OpenPause, "pause": operator.OpenPause, "queue": operator.OpenQueue, "fallback": operator.OpenFallback}

// modelCalling compiles how a model is called; nil where it is called at once.
func (c *compiler) modelCalling(path string, m *lang.Model, loaded model.Model) *operator.Calling {
	info := loaded.Info()
	call, outside := m.Call, info.Remote && (info.Kind == "remote" || info.Kind == "process")
	if call == nil && (m.Journal != nil && !m.Journal.Off || outside && info.State == 0) {
		call = &lang.Calling{}
	}
	calling := c.calling(path+".call", c.callsOf(path+".call", call, info), m.Name, timeoutOf(info))
	if calling == nil {
		return nil
	}
	if info.Timeout > 0 && calling.Timeout > info.Timeout {
		c.Warnings = append(c.Warnings, fmt.Sprintf("%s.call.timeout: %v is of no use: calls of model %s end after %v by themselves, as its manifest says", path, calling.Timeout, m.Name, info.Timeout))
	}
	calling.Implied, calling.Ready = m.Call == nil && m.Journal == nil, readyOf(loaded)
	kept, by := m.Journal, operator.JournalByRequest
	if kept == nil && outside {
		kept = &lang.Journal{}
	}
	if calling.Generative = info.Generative; info.Generative {
		by = operator.JournalByEvent
	}
	c.journal(path+".journal", kept, by, calling)
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

// journal compiles which answers are kept, and by what where that is not said.
func (c *compiler) journal(path string, j *lang.Journal, by operator.Journal, calling *operator.Calling) {
	if j == nil || j.Off {
		return
	}
	spec := journal.Spec{Retention: j.Retention, BytesMax: int64(j.Max)}
	if err := spec.Validate(); err != nil {
		c.Fail(path, "%v", err)
	}
	if c.plan.Journal != nil {
		spec = spec.Widest(*c.plan.Journal)
	}
	c.plan.Journal = &spec
	if !(j.Price >= 0) || math.IsInf(j.Price, 0) {
		c.Fail(path+".price", "%v is no price: use 0 or more", j.Price)
	}
	by, ok := map[string]operator.Journal{"": by, "request": operator.JournalByRequest, "event": operator.JournalByEvent}[j.By]
	if !ok {
		c.Fail(path+".by", "unknown word %q: use request or event", j.By)
	}
	calling.Journal, calling.Price = by, j.Price
}

// calling compiles how a model is called; nil where it is called at once. A model
// may have a timeout of its own.
func (c *compiler) calling(path string, s *lang.Calling, of string, timeout time.Duration) *operator.Calling {
	if s == nil {
		return nil
	}
	url, service := c.service(of)
	call := *s
	call.Timeout = cmp.Or(call.Timeout, timeout)
	return c.callingAt(path, &call, url, service)
}

// timeoutOf returns how long a call may take where a pipeline does not say; 0 is
// defaultTimeout. What computes here is no server that may be down: it takes as long
// as it takes, and its processes are watched.
func timeoutOf(info model.Info) time.Duration {
	if info.Timeout == 0 && !info.Remote {
		return impliedTimeout
	}
	return info.Timeout
}

// timeout returns how long a call may take; 0 where that is not said.
func (c *compiler) timeout(s *lang.Calling) time.Duration {
	if s.Budget {
		return c.allowed.Phases[observe.Model]
	}
	return s.Timeout
}

// share checks that the budget has a share for calls, where they are to keep one.
func (c *compiler) share(path string, s *lang.Calling) {
	if s == nil || !s.Budget {
		return
	}
	path += ".call.timeout"
	switch share := c.timeout(s); {
	case s.Timeout != 0:
		c.Fail(path, "%v and the share of the budget are two", s.Timeout)
		c.Hint("set Timeout or Budget")
	case c.Pipeline.Budget.P99 == 0:
		c.Fail(path, "the pipeline has no budget that calls could have a share of")
		c.Hint("write `budget: {p99: ...}` in the pipeline, or a duration here")
	case share < time.Millisecond && c.allowed.P99 > 0:
		c.Fail(path, "calls have %v of the budget, which is below 1ms", share)
		c.Hint("raise `model` or `p99` of the budget, or write a duration here")
	}
}

// callingAt compiles how what is at a URL is called.
func (c *compiler) callingAt(path string, s *lang.Calling, url, service string) *operator.Calling {
	if s.Timeout < 0 || s.Expire < 0 {
		c.Fail(path, "timeout and expire are not negative")
	}
	open, ok := openWays[s.Breaker.Open]
	if !ok {
		c.Fail(path+".breaker.open", "unknown word %q: use pause, queue or fallback", s.Breaker.Open)
	}
	calling := &operator.Calling{Timeout: cmp.Or(c.timeout(s), defaultTimeout), Expire: s.Expire, Open: open}
	var err error
	if calling.Backoff, err = (control.Backoff{Base: s.Backoff.Base, Max: s.Backoff.Max, Attempts: s.Attempts}).Resolved(); err != nil {
		c.Fail(path+".backoff", "%v", err)
	}
	calling.Endpoint, err = c.endpoints.Of(url, service, control.EndpointOptions{
		Breaker:     control.BreakerOptions{Failures: s.Breaker.Failures, Rate: s.Breaker.Rate, Probe: s.Breaker.Probe},
		Concurrency: control.ConcurrencyOptions{Max: s.Concurrency, Start: s.Start, Target: calling.Timeout / 2},
	})
	if err != nil {
		c.Fail(path, "%v", err)
	}
	return calling
}

// service returns what is called for the scores of a model: the URL of a server and
// what the model is there. What runs in the process is the pipeline's own.
func (c *compiler) service(name string) (url, service string) {
	for _, m := range c.Pipeline.Models {
		if m.Name == name && m.URL != "" {
			return m.URL, "@" + strconv.Itoa(m.Version)
		}
		if m.Name == name && m.Manifest != nil {
			if server, ok := m.Manifest.Config.(model.Server); ok {
				return server.Service(m.Manifest)
			}
		}
	}
	return "pipeline:" + c.Pipeline.Name, name
}

// readyOf returns the question whether a model is ready, nil if it cannot say.
func readyOf(m model.Model) func(context.Context) error {
	if r := model.ReadierOf(m); r != nil {
		return r.Ready
	}
	return nil
}

// scoreCalling compiles where and how a score is computed.
func (c *compiler) scoreCalling(path string, s *lang.Score, m loadedModel, stage *operator.Score) {
	stage.Calling = m.calling
	switch {
	case stage.Calling != nil:
	case stage.Async:
		stage.Calling = c.calling(path, &lang.Calling{}, s.Model, timeoutOf(m.Info()))
		stage.Calling.Ready = readyOf(m.Model)
	case stage.Contents: // that may have to be fetched again
		stage.Calling = c.calling(path, &lang.Calling{Timeout: impliedTimeout}, s.Model, 0)
		stage.Calling.Implied, stage.Calling.Ready = true, readyOf(m.Model)
	}
	switch {
	case stage.Calling == nil:
		if s.Ordered {
			c.Fail(path+".ordered", "the events of a key are in order: nothing is queued here")
			c.Hint("remove it, or write async: true, or call: {} at the model")
		}
		return
	case m.Info().State > 0:
		c.Fail(path+".model", "model %s keeps something of each key, so it is called in the place of an event, and not off the loop", m.name)
		c.Hint("remove call, of the model, and async")
	case stage.Calling.Open == operator.OpenFallback && s.When == "" && slices.ContainsFunc(stage.Fallback, func(p *expression.Program) bool { return p == nil }):
		c.Fail(path+".fallback", "missing: the breaker of model %s has open: fallback", m.name)
	}
}

// onFailure compiles what is done for an event that is given up. It comes before
// the names of the scores, which such an event has none of.
func (c *compiler) onFailure(path string, steps []lang.Step, stage *operator.Score) {
	for i := range steps {
		if steps[i] != nil && !steps[i].Effect().InFailure {
			c.Fail(fmt.Sprintf("%s[%d]", path, i), "only let, decide, call and emit can be done for an event that is given up")
			return
		}
	}
	if steps == nil {
		return
	}
	for _, n := range c.Aside(path, steps) {
		stage.OnFailure = append(stage.OnFailure, operator.Placed{Operator: n.Lower(&c.lowered, lang.At{Read: -1}), Guard: n.Guards.Innermost()})
	}
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

// partial compiles the records of what a model has said so far.
func (c *compiler) partial(path string, s *lang.Score, m loadedModel, stage *operator.Score) {
	if s.Partial == nil {
		return
	}
	switch {
	case len(m.types) != 1 || m.types[0].Kind != value.String:
		c.Fail(path, "model %s has other outputs than one string: there are no words of it to show", m.name)
	case !stage.Async:
		c.Fail(path, "words come while an event is queued")
		c.Hint("write async: true in the score")
	case s.Partial.Interval < 0 || s.Partial.Interval > time.Minute:
		c.Fail(path+".interval", "%v is out of range: use 1ms to 1m", s.Partial.Interval)
	}
	c.Writable(path+".topic", s.Partial.Topic)
	c.output(s.Partial.Topic)
	stage.Size = 1 // a call for each event
	stage.Partial = &operator.Partial{Topic: s.Partial.Topic, Every: cmp.Or(s.Partial.Interval, partialEvery)}
	if len(stage.Outputs) > 0 {
		stage.Partial.Slot = stage.Outputs[0]
	}
}
