package compile

import (
	"slices"
	"strings"

	"github.com/afterbay/afterbay/internal/lang"
	"github.com/afterbay/afterbay/internal/spec"
	"github.com/afterbay/afterbay/internal/task/operator"
)

// Ending is a topic with records that end events of gateway clients.
type Ending struct {
	Topic string
	As    string // the list of the gateway file for the topic: outputs, dead_letters, late
}

// Endings returns the topics that end clients' events. It leaves out the topics of emits if the
// pipeline has no replies.
func (c *Compiled) Endings() []Ending {
	var list []Ending
	if topics := c.Pipeline.Replies; len(topics) > 0 {
		for _, topic := range append(slices.Clone(topics), c.Plan.Ends.Topic) {
			list = append(list, Ending{topic, "outputs"})
		}
	}
	list = append(list, Ending{c.Plan.DeadTopic, "dead_letters"})
	if c.Plan.Time.Late == operator.LateTopic {
		list = append(list, Ending{c.Plan.Outputs[c.Plan.Time.LateOutput], "late"})
	}
	return list
}

// Unanswered returns the places where events of clients may end without an answer: neither a record
// in a topic that answers accepts, nor a dead letter. Such events only expire. A pipeline with
// replies has no such place.
func (c *Compiled) Unanswered(answers func(topic string) bool) spec.Problems {
	p := &c.Pipeline
	if len(p.Replies) > 0 {
		return nil
	}
	ends := Unanswered(p, answers)
	topics := emitted(p.Steps)
	if read := slices.DeleteFunc(slices.Clone(topics), func(topic string) bool { return !answers(topic) }); len(read) > 0 {
		topics = read
	}
	for _, e := range ends {
		e.Message += ": events of clients would only expire"
		e.Hint = "let the pipeline end them in " + Ended(p.Name) + ", which the gateway reads as one of its outputs. Name the topics that reply to clients: replies: [" + strings.Join(topics, ", ") + "]"
	}
	return ends
}

// KeyOf returns the field that must key the records of a topic. It returns "" if the pipeline does
// not read the topic, or copies it with its own key.
func (c *Compiled) KeyOf(topic string) string {
	if in := &c.Pipeline.Input; len(c.Copies) == 0 && in.Topic == topic {
		return in.KeyPath()
	}
	return ""
}

// emitted returns the topics of the emits.
func emitted(steps []lang.Step) (topics []string) {
	for s := range lang.EachStep(steps) {
		for _, write := range s.Effect().Writes {
			if write.Emit {
				topics = append(topics, write.Topic)
			}
		}
	}
	slices.Sort(topics)
	return slices.Compact(topics)
}
