package compile

import (
	"fmt"
	"slices"
	"strings"

	"github.com/afterbay/afterbay/internal/naming"
	"github.com/afterbay/afterbay/internal/task/operator"
)

// Ended returns the topic of the ends of clients' events that nothing in
// Pipeline.Replies answers.
func Ended(pipeline string) string { return naming.Of(pipeline, naming.Ended) }

// answers compiles how the events of clients end.
func (c *compiler) answers() {
	topics, ended := c.Pipeline.Replies, Ended(c.Pipeline.Name)
	if len(topics) == 0 {
		return
	}
	complete := len(c.Errs) == 0 && !c.Ended // else steps that write may be missing
	for i, topic := range topics {
		path := fmt.Sprintf("replies[%d]", i)
		switch {
		case complete && !slices.Contains(c.plan.Outputs, topic):
			c.Fail(path, "the pipeline does not write %q", topic)
			c.Hint("it writes " + strings.Join(c.plan.Outputs, ", "))
		case slices.Contains(topics[:i], topic):
			c.Fail(path, "%q is named twice", topic)
		}
	}
	w := &ways{answers: func(topic string) bool { return slices.Contains(topics, topic) }}
	after, come := w.through("steps", c.Pipeline.Steps, answered{})
	c.Errs, c.Warnings = append(c.Errs, w.twice...), append(c.Warnings, w.maybe...)
	if come && !after.all {
		c.Warnings = append(c.Warnings, "replies: an event may come to the end without one, by the conditions of the emits: it then ends as ok without payload")
	}
	ends := &c.plan.Ends
	ends.Topic, ends.Answers = ended, topics
	note := func(stages []operator.Placed) {
		for i := range stages {
			if e, ok := stages[i].Operator.(*operator.Emit); ok && slices.Contains(topics, c.plan.Outputs[e.Output]) {
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

// output returns the index of a topic that the pipeline writes.
func (c *compiler) output(topic string) int {
	i := c.Outputs.Index(topic)
	c.plan.Outputs = c.Outputs.Topics
	return i
}
