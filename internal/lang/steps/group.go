package steps

import (
	"cmp"
	"slices"
	"time"

	"github.com/afterbay/afterbay/internal/event/expression"
	"github.com/afterbay/afterbay/internal/event/value"
	"github.com/afterbay/afterbay/internal/lang"
	"github.com/afterbay/afterbay/internal/spec"
	"github.com/afterbay/afterbay/internal/state/generation"
	"github.com/afterbay/afterbay/internal/task/operator"
)

// Group collects the events of a key that share a value until the group is complete. Then one
// event, made of them, goes on.
type Group struct {
	Name       string        // prefix of the names that it introduces: .key, .count, .complete, .missing, .ended, and the lists .<field> of the input's fields of type string, joined into one of those of type bytes
	By         string        // a name of kind string or int: the value that the events share
	Order      string        // a name of kind int, from 0 on; "" means event time
	End        string        // a name of kind bool: the event is the last in order; "" if no name tells it
	ID         string        // a name of kind string or int; a second event with the same id is ignored; "" means Order, or else meta.id
	Idle       time.Duration // gap between event times that begins a new group; 0 means no such limit
	Timeout    time.Duration // event time after the first event of a group when the next event begins a new group; 0 means never
	Every      time.Duration // windows end at multiples of it and contain the events before; 0 means no windows
	Size       time.Duration // size of a window, a multiple of Every; 0 means Every
	Values     []GroupValue
	Max        GroupMax
	Late       string // how to handle an event for a group that has ended: dlq (default), drop, or include, which begins a new group
	Incomplete string // how to handle a group that ended without all of its events: dlq (default) or pass
}

// GroupValue is an aggregate of the events of a group. One of its fields is set.
type GroupValue struct {
	Name                string
	Count               string // "count"
	Sum, Mean, Min, Max string // an expression of type int or number
}

// GroupMax limits groups: a group that reaches a limit ends, incomplete.
type GroupMax struct {
	Events int // events in a group; 0 is 1,000
	Bytes  int // stored size of a group's events; 0 is 16 MiB
	Groups int // open groups beside a partition, or panes of windows; beyond this limit an event that would open another becomes a dead letter; 0 is 1,000
}

// StepKind implements Step.
func (*Group) StepKind() *lang.StepKind { return &groupKind }

var groupKind = lang.KindOf("group", spec.State, readGroup,
	"{name: parts, by: call, order: part, end: last, idle: 60s}", "events that are collected until their group is complete, and continue as one event")

var readGroup = spec.MappingOf(groupFields)

var groupFields = []spec.Field[Group]{
	{Name: "name", Affects: spec.State, Required: true, Form: spec.Into(func(g *Group) *string { return &g.Name }, spec.ReadName), Example: "parts",
		Help: "prefix of the names that it introduces: `.key`, `.count`, `.complete`, `.missing` (how many) and `.ended` (complete, idle, timeout or full). Each input field of type string becomes a list of its values in order; each field of type bytes becomes its values joined. With `every` there are `.start` and `.end` instead of lists, and `.ended` is window"},
	{Name: "by", Affects: spec.State, Required: true, Form: spec.Into(func(g *Group) *string { return &g.By }, lang.ReadReference), Example: "call",
		Help: "a name of type string or int: events of one key with the same value form a group"},
	{Name: "order", Affects: spec.State, Form: spec.Into(func(g *Group) *string { return &g.Order }, lang.ReadReference), Example: "part", Absent: "they are ordered by event time",
		Help: "a name of type int, from 0 on: the position of the event in its group"},
	{Name: "end", Affects: spec.State, Form: spec.Into(func(g *Group) *string { return &g.End }, lang.ReadReference), Example: "last", Absent: "groups end by time",
		Help: "a name of type bool: the event is the last in order. The group is whole when all before it are there"},
	{Name: "id", Affects: spec.State, Form: spec.Into(func(g *Group) *string { return &g.ID }, lang.ReadReference).Unless(func(g *Group) bool { return g.ID == g.Order }), Example: "chunk", Absent: "`order`, or else `meta.id`",
		Help: "a name of type string or int: a second event with the same value is ignored"},
	{Name: "idle", Affects: spec.Outputs, Form: spec.Into(func(g *Group) *time.Duration { return &g.Idle }, spec.Span(time.Millisecond, 30*spec.Day)), Example: "60s", Absent: "never; one of `idle`, `timeout` and `every` is required",
		Help: "the gap between event times that ends a group: an event at least so long after the one before begins another"},
	{Name: "timeout", Affects: spec.Outputs, Form: spec.Into(func(g *Group) *time.Duration { return &g.Timeout }, spec.Span(time.Millisecond, 30*spec.Day)), Example: "10m", Absent: "never",
		Help: "how long a group may last: an event at least so long after its first begins another"},
	{Name: "every", Affects: spec.State, Form: spec.Into(func(g *Group) *time.Duration { return &g.Every }, spec.Span(time.Millisecond, 30*spec.Day)), Example: "1m", Absent: "no windows",
		Help: "groups are windows that end at the multiples of it, since 1970 UTC. A window with events continues as one event when the watermark reaches its end. They are not stored, so there is no `order`, `end`, `id`, `idle`, `timeout`, `incomplete` and no list"},
	{Name: "size", Affects: spec.State, Form: spec.Into(func(g *Group) *time.Duration { return &g.Size }, spec.Span(time.Millisecond, 30*spec.Day)).Unless(func(g *Group) bool { return g.Size == g.Every }), Example: "5m", Absent: "`every`",
		Help: "how long windows are: 1 to 100 times `every`. Longer ones overlap, and an event is in several"},
	{Name: "values", Affects: spec.State, Form: spec.Into(func(g *Group) *[]GroupValue { return &g.Values }, readGroupValues), Example: "{spent: {sum: amount}, events: count}", Absent: "none",
		Help: "names below the group's, as in `parts.spent`: aggregates of its events. Sums are exact: they are rounded once. The events are not stored if the group needs only `values`: no step below reads a list of the group, and it has only `idle` of `order`, `end`, `id`, `idle`, `timeout`, `max.events` and `max.bytes`"},
	{Name: "max", Affects: spec.Outputs, Form: spec.Into(func(g *Group) *GroupMax { return &g.Max }, spec.MappingOf(groupMaxFields)), Example: "{events: 2000, bytes: 64MB}", Absent: "as below"},
	{Name: "late", Affects: spec.Outputs, Form: spec.Into(func(g *Group) *string { return &g.Late }, lang.ReadLate), Example: "drop", Absent: "dlq",
		Help: "how to handle an event within a group that ended; include begins another group with it"},
	{Name: "incomplete", Affects: spec.Outputs, Form: spec.Into(func(g *Group) *string { return &g.Incomplete }, spec.Choice[string]("dlq", "pass").Default("dlq")), Example: "pass", Absent: "dlq",
		Help: "how to handle a group that ended without all of its events. A redriven dead letter continues with the events that are there"},
}

var readGroupValues = spec.Named(func(v *GroupValue) *string { return &v.Name }, spec.OneOf("write count or {sum: expression}", spec.Scalar,
	spec.Into(func(v *GroupValue) *string { return &v.Count }, spec.Choice[string]("count")), spec.Mapping, spec.MappingOf(groupValueFields)))

const oneAggregate = "one of them is required"

var groupValueFields = []spec.Field[GroupValue]{
	{Name: "sum", Affects: spec.State, Form: spec.Into(func(v *GroupValue) *string { return &v.Sum }, spec.ReadExpression), Example: "amount", Absent: oneAggregate, Help: "an expression of type int or number. Like min and max, a sum of ints is an int: beyond 64 bits the group is a dead letter"},
	{Name: "mean", Affects: spec.State, Form: spec.Into(func(v *GroupValue) *string { return &v.Mean }, spec.ReadExpression), Example: "amount", Absent: oneAggregate, Help: "likewise"},
	{Name: "min", Affects: spec.State, Form: spec.Into(func(v *GroupValue) *string { return &v.Min }, spec.ReadExpression), Example: "amount", Absent: oneAggregate, Help: "likewise"},
	{Name: "max", Affects: spec.State, Form: spec.Into(func(v *GroupValue) *string { return &v.Max }, spec.ReadExpression), Example: "amount", Absent: oneAggregate, Help: "likewise"},
}

var groupMaxFields = []spec.Field[GroupMax]{
	{Name: "events", Affects: spec.Outputs, Form: spec.Into(func(m *GroupMax) *int { return &m.Events }, spec.Whole[int](1, 1<<20).Default(lang.DefaultGroupEvents)), Example: "2000"},
	{Name: "bytes", Affects: spec.Outputs, Form: spec.Into(func(m *GroupMax) *int { return &m.Bytes }, spec.Size(1, 1<<30).Default(lang.DefaultGroupBytes)), Example: "64MB"},
	{Name: "groups", Affects: spec.Outputs, Form: spec.Into(func(m *GroupMax) *int { return &m.Groups }, spec.Whole[int](1, 1<<20).Default(lang.DefaultGroups)), Example: "5000"},
}

// Declare implements Step. It adds no names: steps above a group see its members.
func (*Group) Declare(*lang.Declared) {}

// Effect implements Step.
func (*Group) Effect() lang.Effects { return lang.Effects{Collects: true} }

// Keeps implements Keeper.
func (g *Group) Keeps(m *lang.Meaning) []lang.Part {
	return []lang.Part{{Kind: generation.KindGroup, Name: g.Name, Text: lang.PartOf(m, g, groupFields, g)}}
}

// answeredMembersMax limits the members of a group in a pipeline with replies, because one
// transaction ends them all.
const answeredMembersMax = 4096

// Bind implements Step. A group collects events in log order, before the waves, even if steps above
// it run in the waves for other events.
func (g *Group) Bind(s *lang.Scope, path string) {
	before := len(s.Errs)
	s.Identifier(path+".name", g.Name)
	if s.IsField(g.Name) {
		s.Fail(path+".name", "%q is a field: a group's own name starts those that it introduces", g.Name)
	}
	stage := &operator.Group{
		Index: len(s.Groups), Name: g.Name, Idle: g.Idle, Within: g.Timeout, Every: g.Every, Size: cmp.Or(g.Size, g.Every), Pass: g.Incomplete == "pass",
		Events: cmp.Or(g.Max.Events, lang.DefaultGroupEvents), Bytes: cmp.Or(g.Max.Bytes, lang.DefaultGroupBytes), Open: cmp.Or(g.Max.Groups, lang.DefaultGroups),
	}
	late, known := lang.LatePolicies[g.Late]
	switch {
	case !known:
		s.Fail(path+".late", "unknown policy %q: use dlq, drop or include", g.Late)
	case g.Incomplete != "" && g.Incomplete != "dlq" && g.Incomplete != "pass":
		s.Fail(path+".incomplete", "unknown policy %q: use dlq or pass", g.Incomplete)
	case slices.ContainsFunc(s.Nodes, func(n lang.Node) bool { o, is := n.Step.(*Group); return is && o.Name == g.Name }):
		s.Fail(path+".name", "two groups are named %q: the name identifies the state of a group", g.Name)
	}
	stage.Late = late
	g.bindBounds(s, path)
	g.bindWindows(s, path)
	g.bindSlots(s, path, stage)
	g.bindValues(s, path, stage)
	groupNames(s, path, stage)
	for i := range stage.Values {
		v := &stage.Values[i]
		v.Slot, _ = s.Make(path+".values."+v.Name, g.Name+"."+v.Name, value.Type{Kind: v.Kind()})
	}
	if s.BelowGroup() {
		s.Fail(path, "an event goes through one group: this one is below another")
	}
	if len(s.Errs) > before {
		return
	}
	s.Add(g, path, &boundGroup{stage: stage, used: s.Names.Used, folds: g.folds(), place: lang.Place{Waves: s.FedSlots(groupReads(stage)...) || s.Fed(programsOf(stage)...), Log: true, Several: stage.Size > stage.Every}})
	s.Groups = append(s.Groups, s.Guards.Innermost())
}

// folds reports whether only the lists of the group need its stored events.
func (g *Group) folds() bool {
	return g.Every == 0 && len(g.Values) > 0 && g.Order == "" && g.End == "" && g.ID == "" && g.Timeout == 0 && g.Max.Events == 0 && g.Max.Bytes == 0
}

// boundGroup is a group with its names in scope.
type boundGroup struct {
	stage *operator.Group
	place lang.Place
	used  map[string]bool // names that steps read; complete when all steps are bound
	folds bool
}

// Place implements Bound.
func (b *boundGroup) Place() lang.Place { return b.place }

// Lower implements Bound. If no step reads a list of the events, the group need not store them.
func (b *boundGroup) Lower(*lang.Plan, lang.At) operator.Operator {
	if b.folds && !slices.ContainsFunc(b.stage.Lists, func(l operator.GroupList) bool { return b.used[l.Slot.Name] }) {
		folded := *b.stage
		folded.Folded, folded.Lists = true, nil
		return &folded
	}
	return b.stage
}

func (g *Group) bindBounds(s *lang.Scope, path string) {
	for _, d := range []struct {
		word string
		time.Duration
	}{{"idle", g.Idle}, {"timeout", g.Timeout}, {"every", g.Every}, {"size", g.Size}} {
		if d.Duration < 0 || d.Duration > 30*24*time.Hour {
			s.Fail(path+"."+d.word, "%v is out of range: use up to 720h", d.Duration)
		}
	}
	if len(s.Pipeline.Replies) > 0 && g.Max.Events > answeredMembersMax {
		s.Fail(path+".max.events", "%d is above %d, the limit for a pipeline with replies: the events of a group end in one transaction", g.Max.Events, answeredMembersMax)
	}
	if g.Idle == 0 && g.Timeout == 0 && g.Every == 0 {
		s.Fail(path, "neither idle nor timeout nor every: a group without its last event would be kept without limit")
		s.Hint("write idle: 60s; a group then ends after 60 s of event time without another of its events")
	}
	for _, b := range []struct {
		word   string
		n, max int
	}{{"events", g.Max.Events, 1 << 20}, {"bytes", g.Max.Bytes, 1 << 30}, {"groups", g.Max.Groups, 1 << 20}} {
		if b.n < 0 || b.n > b.max {
			s.Fail(path+".max."+b.word, "%d is out of range: use 1 to %d", b.n, b.max)
		}
	}
}

// panesMax limits how many windows an event is in.
const panesMax = 100

// bindWindows checks the fields of windows. Windows store no events.
func (g *Group) bindWindows(s *lang.Scope, path string) {
	if g.Every == 0 {
		if g.Size > 0 {
			s.Fail(path+".size", "size applies to windows, and every is missing")
			s.Hint("write every, how far apart windows begin")
		}
		return
	}
	for _, word := range []struct {
		name    string
		written bool
	}{
		{"order", g.Order != ""}, {"end", g.End != ""}, {"id", g.ID != ""}, {"idle", g.Idle > 0}, {"timeout", g.Timeout > 0}, {"incomplete", g.Incomplete != "" && g.Incomplete != "dlq"},
		{"max.events", g.Max.Events > 0}, {"max.bytes", g.Max.Bytes > 0},
	} {
		if word.written {
			s.Fail(path+"."+word.name, "%s needs stored events, and windows with every keep only aggregates", word.name)
			s.Hint("remove it, or every")
		}
	}
	if g.Late == "include" {
		s.Fail(path+".late", "a window reports once: an event that comes after it ended cannot be included")
		s.Hint("write dlq or drop, or a longer lateness of the input")
	}
	if n := g.Size / g.Every; g.Size > 0 && (g.Size%g.Every != 0 || n > panesMax) {
		s.Fail(path+".size", "%v is not 1 to %d times every, which is %v", g.Size, panesMax, g.Every)
	}
}

// bindValues binds the aggregates.
func (g *Group) bindValues(s *lang.Scope, path string, stage *operator.Group) {
	for i := range g.Values {
		v := &g.Values[i]
		at := path + ".values." + v.Name
		if !s.Identifier(at, v.Name) {
			continue
		}
		made, written := operator.GroupValue{Name: v.Name}, 0
		if v.Count != "" {
			written++
		}
		for _, a := range []struct {
			word, source string
			operator.Aggregate
		}{{"sum", v.Sum, operator.AggregateSum}, {"mean", v.Mean, operator.AggregateMean}, {"min", v.Min, operator.AggregateMin}, {"max", v.Max, operator.AggregateMax}} {
			if a.source == "" {
				continue
			}
			written++
			made.Aggregate = a.Aggregate
			made.Value = s.Expr(at+"."+a.word, a.source, value.Int, value.Number)
		}
		if written != 1 {
			s.Fail(at, "an aggregate is one of count, sum, mean, min and max")
			continue
		}
		stage.Values = append(stage.Values, made)
	}
}

// programsOf returns the expressions that a group computes for its events.
func programsOf(stage *operator.Group) (list []*expression.Program) {
	for i := range stage.Values {
		list = append(list, stage.Values[i].Value)
	}
	return list
}

// bindSlots resolves the names that a group reads from its events.
func (g *Group) bindSlots(s *lang.Scope, path string, stage *operator.Group) {
	stage.ID = s.ID
	for _, name := range []struct {
		word, name string
		required   bool
		kinds      []value.Kind
		found      func(value.Slot)
	}{
		{"by", g.By, true, []value.Kind{value.String, value.Int}, func(slot value.Slot) { stage.By = slot }},
		{"order", g.Order, false, []value.Kind{value.Int}, func(slot value.Slot) { stage.Order, stage.ID = &slot, slot }},
		{"end", g.End, false, []value.Kind{value.Bool}, func(slot value.Slot) { stage.End = &slot }},
		{"id", g.ID, false, []value.Kind{value.String, value.Int}, func(slot value.Slot) { stage.ID = slot }},
	} {
		at := path + "." + name.word
		if name.name == "" {
			if name.required {
				s.Fail(at, "missing: name the value that the events of a group share")
			}
			continue
		}
		slots := s.Slots(at, name.name)
		if len(slots) == 0 {
			continue
		}
		if slot := slots[0]; len(slots) > 1 || !slices.Contains(name.kinds, slot.Type.Kind) {
			s.Fail(at, "%q is of type %v: %s is of type %s", name.name, slot.Type, name.word, lang.KindsText(name.kinds))
		} else {
			name.found(slot)
		}
	}
}

// groupReads returns the slots that a group reads from its events.
func groupReads(stage *operator.Group) []value.Slot {
	reads := []value.Slot{stage.By, stage.ID}
	for _, slot := range []*value.Slot{stage.Order, stage.End} {
		if slot != nil {
			reads = append(reads, *slot)
		}
	}
	return reads
}

// groupNames introduces the names of the event that a group becomes.
func groupNames(s *lang.Scope, path string, stage *operator.Group) {
	for _, n := range []struct {
		name string
		kind value.Kind
		slot *value.Slot
	}{
		{"key", value.String, &stage.Columns.Key}, {"count", value.Int, &stage.Columns.Count}, {"complete", value.Bool, &stage.Columns.Complete},
		{"missing", value.Int, &stage.Columns.Missing}, {"ended", value.String, &stage.Columns.Ended},
	} {
		*n.slot, _ = s.Make(path, stage.Name+"."+n.name, value.Type{Kind: n.kind})
	}
	if stage.Windows() {
		stage.Columns.Start, _ = s.Make(path, stage.Name+".start", value.Type{Kind: value.Time})
		stage.Columns.End, _ = s.Make(path, stage.Name+".end", value.Type{Kind: value.Time})
		return
	}
	for _, name := range s.Fields {
		field, ok := s.Names.Schema.Lookup(name)
		list := map[value.Kind]value.Kind{value.String: value.List | value.String, value.Bytes: value.Bytes}[field.Type.Kind]
		if !ok || list == 0 || slices.Contains([]string{"key", "count", "complete", "missing", "ended"}, name) {
			continue
		}
		if slot, ok := s.Make(path, stage.Name+"."+name, value.Type{Kind: list}); ok {
			stage.Lists = append(stage.Lists, operator.GroupList{Field: field, Slot: slot})
		}
	}
}
