package compile

import (
	"fmt"
	"slices"
	"strings"

	"github.com/afterbay/afterbay/internal/task/operator"
	"github.com/afterbay/afterbay/internal/task/table"
)

// byArrival is the end of the warnings about outputs that depend on the order of arrival.
const byArrival = "a later run may read them in another order, so its rows may differ from live and training rows: see docs/guide/order-and-time.md, What depends on arrival"

// Arrivals returns, for each pipeline, the reasons why its rows depend on the order of arrival. The
// reasons are copied inputs, tables, and input topics that other pipelines write with another key,
// or that several pipelines write.
func Arrivals(all []*Compiled) map[int][]string {
	found := map[int][]string{}
	for i, c := range all {
		list := c.arrivals()
		if len(c.Copies) == 0 && !c.Plan.Stateless() {
			list = append(list, c.rekeyed(all)...)
		}
		if len(list) > 0 {
			found[i] = list
		}
	}
	return found
}

// Ordering says which records of a topic are in the order of their events.
type Ordering uint8

// The orderings of the records that a pipeline writes to a topic.
const (
	OrderedByPartition Ordering = iota // all records for the events of one partition
	OrderedByKey                       // records for the events of one key: events of other keys may be queued meanwhile
	OrderedByEvent                     // records for one event
)

// Ordering returns the order that the records of a topic keep. With `ordered` this is the order of
// each key. If a step above the queue also writes the topic, only the records of one event are in
// order, because that step does not wait for queued events.
func (c *Compiled) Ordering(topic string) Ordering {
	p := c.Plan
	if !p.Queues() {
		return OrderedByPartition
	}
	above := slices.ContainsFunc(p.Stages[:p.Waves], func(s operator.Placed) bool {
		call, ok := s.Operator.(*operator.Call)
		return ok && slices.Contains(call.Topics, topic) ||
			slices.ContainsFunc(operator.EmitsOf(s.Operator), func(e *operator.Emit) bool { return e.Topic == topic })
	})
	late := p.Time.Late == operator.LateTopic && p.Outputs[p.Time.LateOutput] == topic
	if above || late || !p.Ordered || topic == p.DeadTopic || topic == p.Ends.Topic {
		return OrderedByEvent
	}
	return OrderedByKey
}

// arrivals returns the findings about the pipeline alone.
func (c *Compiled) arrivals() (list []string) {
	stateless := c.Plan.Stateless()
	switch {
	case len(c.Copies) == 0 || !c.Plan.Arrival || stateless && c.Plan.Dedupe == nil:
	case len(c.Pipeline.Inputs) > 0:
		list = append(list, fmt.Sprintf("inputs: the events of %s are merged in the order of their copies: %s", strings.Join(c.Inputs(), ", "), byArrival))
	default:
		list = append(list, fmt.Sprintf("input.repartition: events of several partitions of %s are merged in the order of their copies: %s", c.Input(), byArrival))
	}
	for _, topic := range c.Tables() {
		if c.AsOfEvent(topic) {
			continue
		}
		list = append(list, NewestRows(topic))
	}
	return list
}

// NewestRows returns the finding about a lookup that finds the newest rows of a table.
func NewestRows(topic string) string {
	return fmt.Sprintf("lookup: an event reads the rows of table %s that have arrived when it is computed, not the rows of its event time: %s", topic, byArrival)
}

// AsOfEvent reports whether all lookups in a table find the rows that were valid at the time of the
// event. Then the arrival time of rows does not matter.
func (c *Compiled) AsOfEvent(topic string) bool {
	return !slices.ContainsFunc(c.Plan.Tables, func(t table.Spec) bool { return t.Topic == topic && !t.Versions.Kept() })
}

// AsOfAppend reports whether lookups find rows that become valid when their record is appended.
func (c *Compiled) AsOfAppend(topic string) bool {
	return slices.ContainsFunc(c.Plan.Tables, func(t table.Spec) bool { return t.Topic == topic && t.Versions.Kept() && t.Versions.Field == "" })
}

// rekeyed returns the findings about an input that another pipeline writes with another key than
// its own, or that several pipelines write.
func (c *Compiled) rekeyed(all []*Compiled) (list []string) {
	var writers []string
	for _, writer := range all {
		for _, e := range writer.emits() {
			if e.Topic != c.Input() {
				continue
			}
			if !slices.Contains(writers, writer.Name()) {
				writers = append(writers, writer.Name())
			}
			if e.Key != nil && e.Key.Name != writer.Pipeline.Input.Key {
				list = append(list, fmt.Sprintf("input.topic: pipeline %s writes %s by the key %s: events of its partitions are merged there in the order of their computation: %s", writer.Name(), c.Input(), e.Key.Name, byArrival))
			}
		}
	}
	if len(writers) > 1 {
		list = append(list, fmt.Sprintf("input.topic: pipelines %s write %s: their events are merged there in the order of their computation: %s", strings.Join(writers, ", "), c.Input(), byArrival))
	}
	slices.Sort(list)
	return slices.Compact(list)
}
