package compile

import (
	"fmt"
	"slices"
	"strings"

	"github.com/afterbay/afterbay/internal/lang"
	"github.com/afterbay/afterbay/internal/naming"
	"github.com/afterbay/afterbay/internal/task/operator"
	"github.com/afterbay/afterbay/internal/task/output"
)

// Ended returns the topic of end records: it ends clients' events that get no record in the topics
// of Pipeline.Replies.
func Ended(pipeline string) string { return naming.Of(pipeline, naming.Ended) }

// checkReplies checks how the events of clients end.
func checkReplies(b *bound, found *lang.Findings) {
	topics := b.Pipeline.Replies
	if len(topics) == 0 {
		return
	}
	complete := len(found.Errs) == 0 && !b.Ended // after an error, steps that write may be missing
	for i, topic := range topics {
		path := fmt.Sprintf("replies[%d]", i)
		switch {
		case complete && !slices.Contains(b.Outputs.Topics, topic):
			found.Fail(path, "the pipeline does not write %q", topic)
			found.Hint("it writes " + strings.Join(b.Outputs.Topics, ", "))
		case slices.Contains(topics[:i], topic):
			found.Fail(path, "%q is named twice", topic)
		}
	}
	w := &ways{answers: func(topic string) bool { return slices.Contains(topics, topic) }}
	after, come := w.through("steps", b.Pipeline.Steps, answered{})
	found.Errs, found.Warnings = append(found.Errs, w.twice...), append(found.Warnings, w.maybe...)
	if come && !after.all {
		found.Warnings = append(found.Warnings, "replies: an event can reach the end of the steps without a reply, if no condition of an emit is true: it then ends as ok without payload")
	}
}

// endsOf returns how the events of clients end, for the stages of a plan.
func endsOf(p *lang.Pipeline, stages []operator.Placed) (ends output.Ends) {
	if len(p.Replies) == 0 {
		return ends
	}
	ends.Topic, ends.Answers = Ended(p.Name), p.Replies
	note := func(stages []operator.Placed) {
		for i := range stages {
			if e, ok := stages[i].Operator.(*operator.Emit); ok && slices.Contains(p.Replies, e.Topic) {
				ends.Emits |= 1 << e.Index
			}
		}
	}
	note(stages)
	for i := range stages {
		note(stages[i].OnFailure())
	}
	return ends
}
