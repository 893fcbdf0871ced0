package compile

import (
	"github.com/afterbay/afterbay/internal/observe"
	"github.com/afterbay/afterbay/internal/state/deadletter"
	"github.com/afterbay/afterbay/internal/task"
)

// Reads returns what the pipeline reads, its own group last; the others copy its
// inputs to the topic it reads.
func (c *Compiled) Reads() []observe.Read {
	return append(c.CopyReads(), observe.Read{Group: c.Plan.Name, Topic: c.Plan.Topic})
}

// CopyReads returns what is read to be copied.
func (c *Compiled) CopyReads() (reads []observe.Read) {
	for _, from := range c.Copies {
		reads = append(reads, observe.Read{Group: from.Name, Topic: from.Topic})
	}
	return reads
}

// StageReads returns what the stages of other keys read. Their lag is that of the pipeline's
// own group: events wait for them there.
func (c *Compiled) StageReads() []observe.Read {
	var reads []observe.Read
	for _, stage := range c.Asked {
		reads = append(reads, observe.Read{Group: stage.Name, Topic: stage.Topic})
	}
	return reads
}

// Keepers returns the plans that keep state by key: that of the pipeline, and those of stages.
func (c *Compiled) Keepers() []*task.Plan { return append([]*task.Plan{c.Plan}, c.Asked...) }

// Keeper returns the one of Keepers with this group; nil if there is none.
func (c *Compiled) Keeper(group string) *task.Plan {
	for _, plan := range c.Keepers() {
		if plan.Name == group {
			return plan
		}
	}
	return nil
}

// SinkReads returns what the sinks read, in their order: for each the topic that
// it is from, and that of its dead letters which were sent back.
func (c *Compiled) SinkReads() []observe.Read {
	var reads []observe.Read
	for i := range c.Sinks {
		group := GroupOf(&c.Sinks[i].Sink, c.Name())
		reads = append(reads, observe.Read{Group: group, Topic: c.Sinks[i].From}, observe.Read{Group: deadletter.SinkGroup(group), Topic: deadletter.SinkTopic(group)})
	}
	return reads
}
