package steps

import (
	"cmp"
	"slices"
	"time"

	"github.com/afterbay/afterbay/internal/event/value"
	"github.com/afterbay/afterbay/internal/lang"
	"github.com/afterbay/afterbay/internal/spec"
	"github.com/afterbay/afterbay/internal/state/generation"
	"github.com/afterbay/afterbay/internal/task/operator"
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
func (*Group) StepKind() *lang.StepKind { return &groupKind }

var groupKind = lang.KindOf("group", spec.State, readGroup,
	"{name: parts, by: call, order: part, end: last, idle: 60s}", "events that are collected until they are whole, and go on as one")

var readGroup = spec.MappingOf(groupFields)

var groupFields = []spec.Field[Group]{
	{Name: "name", Affects: spec.State, Required: true, Form: spec.Into(func(g *Group) *string { return &g.Name }, spec.ReadName), Example: "parts",
		Help: "prefix of the names that it introduces: `.key`, `.count`, `.complete`, `.missing` (how many), `.ended` (complete, idle, timeout or full) and, of each input field of type string, a list of them in order, or of type bytes, all of them joined"},
	{Name: "by", Affects: spec.State, Required: true, Form: spec.Into(func(g *Group) *string { return &g.By }, lang.ReadReference), Example: "call",
		Help: "a name of type string or int: events of one key that have it in common are a group"},
	{Name: "order", Affects: spec.State, Form: spec.Into(func(g *Group) *string { return &g.Order }, lang.ReadReference), Example: "part", Absent: "they are ordered by event time",
		Help: "a name of type int, from 0 on: where the event stands in its group"},
	{Name: "end", Affects: spec.State, Form: spec.Into(func(g *Group) *string { return &g.End }, lang.ReadReference), Example: "last", Absent: "groups end by time",
		Help: "a name of type bool: the event is the last in order. The group is whole when all before it are there"},
	{Name: "id", Affects: spec.State, Form: spec.Into(func(g *Group) *string { return &g.ID }, lang.ReadReference).Unless(func(g *Group) bool { return g.ID == g.Order }), Example: "chunk", Absent: "`order`, or else `meta.id`",
		Help: "a name of type string or int: a second event of it is left out"},
	{Name: "idle", Affects: spec.Outputs, Form: spec.Into(func(g *Group) *time.Duration { return &g.Idle }, spec.Span(time.Millisecond, 30*spec.Day)), Example: "60s", Absent: "never; `idle` or `timeout` is required",
		Help: "the gap between event times that ends a group: an event at least so long after the one before begins another"},
	{Name: "timeout", Affects: spec.Outputs, Form: spec.Into(func(g *Group) *time.Duration { return &g.Timeout }, spec.Span(time.Millisecond, 30*spec.Day)), Example: "10m", Absent: "never",
		Help: "how long a group may last: an event at least so long after its first begins another"},
	{Name: "max", Affects: spec.Outputs, Form: spec.Into(func(g *Group) *GroupMax { return &g.Max }, spec.MappingOf(groupMaxFields)), Example: "{events: 2000, bytes: 64MB}", Absent: "as below"},
	{Name: "late", Affects: spec.Outputs, Form: spec.Into(func(g *Group) *string { return &g.Late }, lang.ReadLate), Example: "drop", Absent: "dlq",
		Help: "how to handle an event within a group that ended; include begins another group with it"},
	{Name: "incomplete", Affects: spec.Outputs, Form: spec.Into(func(g *Group) *string { return &g.Incomplete }, spec.Choice[string]("dlq", "pass").Default("dlq")), Example: "pass", Absent: "dlq",
		Help: "how to handle a group that ended without all of its events. A redriven dead letter goes on with the events that are there"},
}

var groupMaxFields = []spec.Field[GroupMax]{
	{Name: "events", Affects: spec.Outputs, Form: spec.Into(func(m *GroupMax) *int { return &m.Events }, spec.Whole[int](1, 1<<20).Default(lang.DefaultGroupEvents)), Example: "2000"},
	{Name: "bytes", Affects: spec.Outputs, Form: spec.Into(func(m *GroupMax) *int { return &m.Bytes }, spec.Size(1, 1<<30).Default(lang.DefaultGroupBytes)), Example: "64MB"},
	{Name: "groups", Affects: spec.Outputs, Form: spec.Into(func(m *GroupMax) *int { return &m.Groups }, spec.Whole[int](1, 1<<20).Default(lang.DefaultGroups)), Example: "5000"},
}

// Declare implements Step: what stands above a group is of its members.
func (*Group) Declare(*lang.Declared) {}

// Effect implements Step.
func (*Group) Effect() lang.Effects { return lang.Effects{Collects: true} }

// Keeps implements Keeper.
func (g *Group) Keeps(m *lang.Meaning) []lang.Part {
	return []lang.Part{{Kind: generation.KindGroup, Name: g.Name, Text: lang.PartOf(m, g, groupFields, g)}}
}

// answeredMembersMax bounds the ends of the members of a group, which are in one step.
const answeredMembersMax = 4096

// Bind implements Step. Events are collected in log order, before the waves, whatever
// stands above the group for other events.
func (g *Group) Bind(s *lang.Scope, path string) {
	before := len(s.Errs)
	s.Identifier(path+".name", g.Name)
	if s.IsField(g.Name) {
		s.Fail(path+".name", "%q is a field: a group's own name starts those that it introduces", g.Name)
	}
	stage := &operator.Group{
		Index: len(s.Groups), Name: g.Name, Idle: g.Idle, Within: g.Timeout, Pass: g.Incomplete == "pass",
		Events: cmp.Or(g.Max.Events, lang.DefaultGroupEvents), Bytes: cmp.Or(g.Max.Bytes, lang.DefaultGroupBytes), Open: cmp.Or(g.Max.Groups, lang.DefaultGroups),
	}
	late, known := lang.LatePolicies[g.Late]
	switch {
	case !known:
		s.Fail(path+".late", "unknown policy %q: use dlq, drop or include", g.Late)
	case g.Incomplete != "" && g.Incomplete != "dlq" && g.Incomplete != "pass":
		s.Fail(path+".incomplete", "unknown policy %q: use dlq or pass", g.Incomplete)
	case slices.ContainsFunc(s.Nodes, func(n lang.Node) bool { o, is := n.Step.(*Group); return is && o.Name == g.Name }):
		s.Fail(path+".name", "two groups are named %q: what is stored of one is known by its name", g.Name)
	}
	stage.Late = late
	g.bindBounds(s, path)
	g.bindSlots(s, path, stage)
	groupNames(s, path, stage)
	if s.BelowGroup() {
		s.Fail(path, "an event goes through one group: this one is below another")
	}
	if len(s.Errs) > before {
		return
	}
	s.Add(g, path, lang.Ready(stage, lang.Place{Waves: s.FedSlots(groupReads(stage)...), Log: true}))
	s.Groups = append(s.Groups, s.Guards.Innermost())
}

func (g *Group) bindBounds(s *lang.Scope, path string) {
	for _, d := range []struct {
		word string
		time.Duration
	}{{"idle", g.Idle}, {"timeout", g.Timeout}} {
		if d.Duration < 0 || d.Duration > 30*24*time.Hour {
			s.Fail(path+"."+d.word, "%v is out of range: use up to 720h", d.Duration)
		}
	}
	if len(s.Pipeline.Replies) > 0 && g.Max.Events > answeredMembersMax {
		s.Fail(path+".max.events", "%d is more than %d, which a pipeline with answers may have: they end in one step", g.Max.Events, answeredMembersMax)
	}
	if g.Idle == 0 && g.Timeout == 0 {
		s.Fail(path, "neither idle nor timeout: a group whose last event never comes would be kept for ever")
		s.Hint("write idle: 60s, the event time without another of its events after which it ends")
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

// bindSlots finds the names that a group reads of its events.
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
				s.Fail(at, "missing: name what events of a group have in common")
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

// groupReads returns the names that a group reads of its events.
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
		{"key", value.String, &stage.Key}, {"count", value.Int, &stage.Count}, {"complete", value.Bool, &stage.Complete},
		{"missing", value.Int, &stage.Missing}, {"ended", value.String, &stage.Ended},
	} {
		*n.slot, _ = s.Make(path, stage.Name+"."+n.name, value.Type{Kind: n.kind})
	}
	for _, name := range s.Fields {
		field, ok := s.Names.Schema.Lookup(name)
		list := map[value.Kind]value.Kind{value.String: value.Strings, value.Bytes: value.Bytes}[field.Type.Kind]
		if !ok || list == 0 || slices.Contains([]string{"key", "count", "complete", "missing", "ended"}, name) {
			continue
		}
		if slot, ok := s.Make(path, stage.Name+"."+name, value.Type{Kind: list}); ok {
			stage.Lists = append(stage.Lists, operator.GroupList{Field: field, Slot: slot})
		}
	}
}
