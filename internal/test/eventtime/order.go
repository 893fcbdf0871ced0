// Package eventtime is a reference for features by any key, joins, sessions and rows of tables by
// event time. It generates events with different arrival and event times, sorts all sources, and
// scans all events before each one, which is the simplest way. It imports only the standard
// library.
package eventtime

import (
	"cmp"
	"encoding/json"
	"slices"
)

// Units of event time, which is microseconds since 1970.
const (
	Millisecond = 1000
	Second      = 1000 * Millisecond
	Minute      = 60 * Second
	Hour        = 60 * Minute
)

// Event is a record of a source, which is a partition of a topic.
type Event struct {
	Topic     string
	Partition int
	Offset    int64
	Time      int64 // of the event
	Appended  int64 // time of the append; 0 is not before Time
	ID        string
	Text      map[string]string
	Number    map[string]float64
	Deleted   bool // of a row of a table
}

// JSON returns the fields of the event, with its id as id and its time in milliseconds
// as ts.
func (e *Event) JSON() []byte {
	fields := map[string]any{"id": e.ID, "ts": e.Time / Millisecond}
	for name, v := range e.Text {
		fields[name] = v
	}
	for name, v := range e.Number {
		fields[name] = v
	}
	text, err := json.Marshal(fields) // in the order of their names
	if err != nil {
		panic(err)
	}
	return text
}

// Rule is what the pipeline file says about order, in microseconds.
type Rule struct {
	Wait     int64    // for events that are out of order in their own source
	Lateness int64    // behind the newest event of its source, an event is late
	Tables   []string // topics with rows that precede events of the same time
}

// Placed is an event at its place in the order. It is placed at (K, source, offset).
type Placed struct {
	Event
	K      int64 // order time
	Late   bool
	source int
}

// Order sorts the events of all sources. Where an event belongs depends on its own
// source alone: on its time, and on the newest one before it. A clock that is ahead
// counts as the time of the append. Late events stand where their turn is.
func Order(events []Event, rule Rule) []Placed {
	sources := numbers(events, rule.Tables)
	placed := make([]Placed, len(events))
	for i, e := range events {
		placed[i] = Placed{Event: e, source: sources[source{e.Topic, e.Partition}]}
	}
	slices.SortFunc(placed, func(a, b Placed) int { return cmp.Or(a.source-b.source, cmp.Compare(a.Offset, b.Offset)) })
	newest := map[int]int64{}
	for i := range placed {
		p := &placed[i]
		u := p.Time
		if p.Appended != 0 {
			u = min(u, p.Appended)
		}
		r, ok := newest[p.source]
		if !ok {
			r = u
		}
		r = max(r, u)
		newest[p.source] = r
		p.K, p.Late = max(u, r-rule.Wait), u < r-rule.Lateness
	}
	slices.SortFunc(placed, compare)
	return placed
}

// InTime returns the events that are not late.
func InTime(order []Placed) []Placed {
	return slices.DeleteFunc(slices.Clone(order), func(p Placed) bool { return p.Late })
}

func compare(a, b Placed) int {
	return cmp.Or(cmp.Compare(a.K, b.K), a.source-b.source, cmp.Compare(a.Offset, b.Offset))
}

type source struct {
	topic     string
	partition int
}

// numbers numbers the sources: those of tables first, then by topic and partition.
func numbers(events []Event, tables []string) map[source]int {
	numbers := map[source]int{}
	for _, e := range events {
		numbers[source{e.Topic, e.Partition}] = 0
	}
	var list []source
	for s := range numbers {
		list = append(list, s)
	}
	after := func(s source) int {
		if slices.Contains(tables, s.topic) {
			return 0
		}
		return 1
	}
	slices.SortFunc(list, func(a, b source) int {
		return cmp.Or(after(a)-after(b), cmp.Compare(a.topic, b.topic), a.partition-b.partition)
	})
	for i, s := range list {
		numbers[s] = i
	}
	return numbers
}
