package compile

import (
	"github.com/afterbay/afterbay/internal/observe"
	"github.com/afterbay/afterbay/internal/state/deadletter"
	"github.com/afterbay/afterbay/internal/task"
)

// Reads returns the consumer groups and topics of the pipeline. Its own group is last; the others
// copy its inputs to the topic it reads.
func (c *Compiled) Reads() []observe.Read {
	return append(c.CopyReads(), observe.Read{Group: c.Plan.Name, Topic: c.Plan.Topic})
}

// CopyReads returns the consumer groups and topics of the repartitioners.
func (c *Compiled) CopyReads() (reads []observe.Read) {
	for _, from := range c.Copies {
		reads = append(reads, observe.Read{Group: from.Name, Topic: from.Topic})
	}
	return reads
}

// StageReads returns the consumer groups and topics of the stages of other keys. Their lag belongs
// to the pipeline's own group, because events wait for them there.
func (c *Compiled) StageReads() []observe.Read {
	var reads []observe.Read
	for _, stage := range c.Asked {
		reads = append(reads, observe.Read{Group: stage.Name, Topic: stage.Topic})
	}
	return reads
}

// Keepers returns the plans that keep keyed state: that of the pipeline, and those of stages.
func (c *Compiled) Keepers() []*task.Plan { return append([]*task.Plan{c.Plan}, c.Asked...) }

// Keeper returns the plan of Keepers with this group, or nil.
func (c *Compiled) Keeper(group string) *task.Plan {
	for _, plan := range c.Keepers() {
		if plan.Name == group {
			return plan
		}
	}
	return nil
}

// SinkReads returns the consumer groups and topics of the sinks, in their order. Each sink reads
// two topics: its source, and its dead letters that were redriven.
func (c *Compiled) SinkReads() []observe.Read {
	var reads []observe.Read
	for i := range c.Sinks {
		group := GroupOf(&c.Sinks[i].Sink, c.Name())
		reads = append(reads, observe.Read{Group: group, Topic: c.Sinks[i].From}, observe.Read{Group: deadletter.SinkGroup(group), Topic: deadletter.SinkTopic(group)})
	}
	return reads
}
