package afterbay

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/afterbay/afterbay/step"
)

// Ended returns the topic of the ends of clients' events that nothing in
// Pipeline.Answers answers.
func Ended(pipeline string) string { return pipeline + ".ended" }

// answeredMembersMax bounds the ends of the members of a group, which are in one step.
const answeredMembersMax = 4096

// answers compiles how the events of clients end.
func (c *compiler) answers() {
	topics, ended := c.pipeline.Answers, Ended(c.pipeline.Name)
	if len(topics) == 0 {
		return
	}
	complete := len(c.errs) == 0 && !c.cut // else steps that write may be missing
	if slices.Contains(c.plan.Outputs, ended) {
		c.fail("answers", "the pipeline writes %q, where clients' events end that nothing answers", ended)
		c.hint("give that topic another name")
	}
	for i, topic := range topics {
		path := fmt.Sprintf("answers[%d]", i)
		switch {
		case complete && !slices.Contains(c.plan.Outputs, topic):
			c.fail(path, "the pipeline does not write %q", topic)
			c.hint("it writes " + strings.Join(c.plan.Outputs, ", "))
		case slices.Contains(topics[:i], topic):
			c.fail(path, "%q is named twice", topic)
		}
	}
	c.answered("steps", c.pipeline.Steps, answer{})
	all := &ways{answers: func(topic string) bool { return slices.Contains(topics, topic) }}
	if answered, come := all.through("steps", c.pipeline.Steps, false); come && !answered {
		c.warnings = append(c.warnings, "answers: an event may come to the end without one, by the conditions of the emits: it then ends as ok without payload")
	}
	ends := &c.plan.Ends
	ends.Topic, ends.Answers = ended, topics
	note := func(stages []step.Stage) {
		for i := range stages {
			if e := stages[i].Emit; e != nil && slices.Contains(topics, c.plan.Outputs[e.Output]) {
				ends.Emits |= 1 << e.Index
			}
		}
	}
	note(c.plan.Stages)
	for i := range c.plan.Stages {
		note(c.plan.Stages[i].OnFailure())
	}
	c.output(ended)
}

// answer is where an event was answered on its way to a step.
type answer struct {
	always string // path of an emit without a condition
	ever   string // of one with or without
}

// answered reports steps on whose way an event has more than one answer: of those
// that are sure to come. It returns the way that has most of them.
func (c *compiler) answered(path string, steps []Step, before answer) answer {
	answers := func(topic string) bool { return slices.Contains(c.pipeline.Answers, topic) }
	for i := range steps {
		s, at := &steps[i], fmt.Sprintf("%s[%d]", path, i)
		switch {
		case s.Score != nil:
			c.answered(at+".score.on_failure", s.Score.OnFailure, before)
		case s.Fetch != nil:
			c.answered(at+".fetch.on_failure", s.Fetch.OnFailure, before)
		case s.Call != nil && slices.ContainsFunc(s.Call.Topics, answers):
			before.ever = cmp.Or(before.ever, at+".call")
		case s.Emit != nil && answers(s.Emit.Topic):
			before = c.answeredBy(at+".emit", s.Emit.When != "", before)
		case s.Group != nil:
			if before.ever != "" {
				c.fail(at+".group", "its events were answered by %s, and end when the group does", before.ever)
				c.hint("answer below the group, or leave that topic out of answers")
			}
			if s.Group.Max.Events > answeredMembersMax {
				c.fail(at+".group.max.events", "%d is more than %d, which a pipeline with answers may have: they end in one step", s.Group.Max.Events, answeredMembersMax)
			}
			before = answer{}
		case s.Route != nil:
			var after answer
			for _, way := range s.Route {
				if way.Then != "" {
					continue
				}
				end := c.answered(at+".route."+way.Name+".steps", way.Steps, before)
				after.always, after.ever = cmp.Or(after.always, end.always), cmp.Or(after.ever, end.ever)
			}
			before = after
		}
	}
	return before
}

// answeredBy notes an emit that answers events, perhaps by a condition.
func (c *compiler) answeredBy(at string, perhaps bool, before answer) answer {
	switch {
	case before.always != "" && !perhaps:
		c.fail(at, "events that come here were answered by %s: of two answers clients get the first alone", before.always)
		c.hint("leave one of the topics out of answers, or give the emits conditions that exclude each other")
	case before.ever != "":
		c.warnings = append(c.warnings, fmt.Sprintf("answers: events that come to %s may have been answered by %s: of two answers clients get the first alone; the cases of a route exclude each other", at, before.ever))
	}
	before.ever = cmp.Or(before.ever, at)
	if !perhaps {
		before.always = cmp.Or(before.always, at)
	}
	return before
}
