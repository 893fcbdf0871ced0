package config

import (
	"time"

	"github.com/afterbay/afterbay"
)

var groupWords = []word[afterbay.Group]{
	{name: "name", required: true, form: field(func(g *afterbay.Group) *string { return &g.Name }, readName), example: "parts",
		means: "prefix of the names that it introduces: `.key`, `.count`, `.complete`, `.missing` (how many), `.ended` (complete, idle, timeout or full) and, of each input field of type string, a list of them in order, or of type bytes, all of them joined"},
	{name: "by", required: true, form: field(func(g *afterbay.Group) *string { return &g.By }, readName), example: "call",
		means: "a name of type string or int: events of one key that have it in common are a group"},
	{name: "order", form: field(func(g *afterbay.Group) *string { return &g.Order }, readName), example: "part", absent: "they are ordered by event time",
		means: "a name of type int, from 0 on: where the event stands in its group"},
	{name: "end", form: field(func(g *afterbay.Group) *string { return &g.End }, readName), example: "last", absent: "groups end by time",
		means: "a name of type bool: the event is the last in order. The group is whole when all before it are there"},
	{name: "id", form: field(func(g *afterbay.Group) *string { return &g.ID }, readName), example: "chunk", absent: "`order`, or else `meta.id`",
		means: "a name of type string or int: a second event of it is left out"},
	{name: "idle", form: field(func(g *afterbay.Group) *time.Duration { return &g.Idle }, span(time.Millisecond, 30*day)), example: "60s", absent: "never; `idle` or `timeout` is required",
		means: "the gap between event times that ends a group: an event at least so long after the one before begins another"},
	{name: "timeout", form: field(func(g *afterbay.Group) *time.Duration { return &g.Timeout }, span(time.Millisecond, 30*day)), example: "10m", absent: "never",
		means: "how long a group may last: an event at least so long after its first begins another"},
	{name: "max", form: field(func(g *afterbay.Group) *afterbay.GroupMax { return &g.Max }, words(groupMaxWords)), example: "{events: 2000, bytes: 64MB}", absent: "as below"},
	{name: "late", form: field(func(g *afterbay.Group) *string { return &g.Late }, readLate), example: "drop", absent: "dlq",
		means: "what becomes of an event that is within a group that ended; include begins another group with it"},
	{name: "incomplete", form: field(func(g *afterbay.Group) *string { return &g.Incomplete }, choice[string]("dlq", "pass")), example: "pass", absent: "dlq",
		means: "what becomes of a group that ended without all of its events; one that is a dead letter goes on with what is there when it is sent back"},
}

var groupMaxWords = []word[afterbay.GroupMax]{
	{name: "events", form: field(func(m *afterbay.GroupMax) *int { return &m.Events }, whole[int](1, 1<<20)), example: "2000"},
	{name: "bytes", form: field(func(m *afterbay.GroupMax) *int { return &m.Bytes }, size(1, 1<<30)), example: "64MB"},
	{name: "groups", form: field(func(m *afterbay.GroupMax) *int { return &m.Groups }, whole[int](1, 1<<20)), example: "5000"},
}
