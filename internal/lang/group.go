package lang

import (
	"time"

	"github.com/afterbay/afterbay/internal/spec"
	"github.com/afterbay/afterbay/internal/state/generation"
)

// Group collects the events of a key that have a name in common until they are whole,
// and goes on with one event made of them.
type Group struct {
	Name       string        // prefix of the names that it introduces: .key, .count, .complete, .missing, .ended, and the lists .<field> of the input's fields of type string, joined into one of those of type bytes
	By         string        // a name of kind string or int: what the events have in common
	Order      string        // a name of kind int, from 0 on; "" orders by event time
	End        string        // a name of kind bool: the event is the last in order; "" where nothing says so
	ID         string        // a name of kind string or int, a second event of which is left out; "" is Order, or else meta.id
	Idle       time.Duration // gap between event times that begins another group; 0 is none
	Timeout    time.Duration // event time since its first event from which on an event begins another group; 0 is never
	Max        GroupMax
	Late       string // how to handle an event within a group that ended: dlq (default), drop, or include, which begins another
	Incomplete string // how to handle a group that ended without all of its events: dlq (default) or pass
}

// GroupMax bounds groups: one that takes no more ends, incomplete.
type GroupMax struct {
	Events int // of a group; 0 is 1,000
	Bytes  int // of a group's events as they are stored; 0 is 16 MiB
	Groups int // open beside a partition, beyond which an event that would open another is a dead letter; 0 is 1,000
}

// StepKind implements Step.
func (*Group) StepKind() *StepKind { return &groupKind }

var groupKind = stepKind("group", spec.State, readGroup,
	"{name: parts, by: call, order: part, end: last, idle: 60s}", "events that are collected until they are whole, and go on as one")

var readGroup = spec.MappingOf(groupFields)

var groupFields = []spec.Field[Group]{
	{Name: "name", Affects: spec.State, Required: true, Form: spec.Into(func(g *Group) *string { return &g.Name }, spec.ReadName), Example: "parts",
		Help: "prefix of the names that it introduces: `.key`, `.count`, `.complete`, `.missing` (how many), `.ended` (complete, idle, timeout or full) and, of each input field of type string, a list of them in order, or of type bytes, all of them joined"},
	{Name: "by", Affects: spec.State, Required: true, Form: spec.Into(func(g *Group) *string { return &g.By }, readReference), Example: "call",
		Help: "a name of type string or int: events of one key that have it in common are a group"},
	{Name: "order", Affects: spec.State, Form: spec.Into(func(g *Group) *string { return &g.Order }, readReference), Example: "part", Absent: "they are ordered by event time",
		Help: "a name of type int, from 0 on: where the event stands in its group"},
	{Name: "end", Affects: spec.State, Form: spec.Into(func(g *Group) *string { return &g.End }, readReference), Example: "last", Absent: "groups end by time",
		Help: "a name of type bool: the event is the last in order. The group is whole when all before it are there"},
	{Name: "id", Affects: spec.State, Form: spec.Into(func(g *Group) *string { return &g.ID }, readReference).Unless(func(g *Group) bool { return g.ID == g.Order }), Example: "chunk", Absent: "`order`, or else `meta.id`",
		Help: "a name of type string or int: a second event of it is left out"},
	{Name: "idle", Affects: spec.Outputs, Form: spec.Into(func(g *Group) *time.Duration { return &g.Idle }, spec.Span(time.Millisecond, 30*spec.Day)), Example: "60s", Absent: "never; `idle` or `timeout` is required",
		Help: "the gap between event times that ends a group: an event at least so long after the one before begins another"},
	{Name: "timeout", Affects: spec.Outputs, Form: spec.Into(func(g *Group) *time.Duration { return &g.Timeout }, spec.Span(time.Millisecond, 30*spec.Day)), Example: "10m", Absent: "never",
		Help: "how long a group may last: an event at least so long after its first begins another"},
	{Name: "max", Affects: spec.Outputs, Form: spec.Into(func(g *Group) *GroupMax { return &g.Max }, spec.MappingOf(groupMaxFields)), Example: "{events: 2000, bytes: 64MB}", Absent: "as below"},
	{Name: "late", Affects: spec.Outputs, Form: spec.Into(func(g *Group) *string { return &g.Late }, readLate), Example: "drop", Absent: "dlq",
		Help: "how to handle an event within a group that ended; include begins another group with it"},
	{Name: "incomplete", Affects: spec.Outputs, Form: spec.Into(func(g *Group) *string { return &g.Incomplete }, spec.Choice[string]("dlq", "pass").Default("dlq")), Example: "pass", Absent: "dlq",
		Help: "how to handle a group that ended without all of its events. A redriven dead letter goes on with the events that are there"},
}

var groupMaxFields = []spec.Field[GroupMax]{
	{Name: "events", Affects: spec.Outputs, Form: spec.Into(func(m *GroupMax) *int { return &m.Events }, spec.Whole[int](1, 1<<20).Default(DefaultGroupEvents)), Example: "2000"},
	{Name: "bytes", Affects: spec.Outputs, Form: spec.Into(func(m *GroupMax) *int { return &m.Bytes }, spec.Size(1, 1<<30).Default(DefaultGroupBytes)), Example: "64MB"},
	{Name: "groups", Affects: spec.Outputs, Form: spec.Into(func(m *GroupMax) *int { return &m.Groups }, spec.Whole[int](1, 1<<20).Default(DefaultGroups)), Example: "5000"},
}

// Declare implements Step: what stands above a group is of its members.
func (*Group) Declare(*Declared) {}

// Effect implements Step.
func (*Group) Effect() Effects { return Effects{Collects: true} }

// Keeps implements Keeper.
func (g *Group) Keeps(m *Meaning) []Part {
	return []Part{{generation.KindGroup, g.Name, PartOf(m, g, groupFields, g)}}
}
