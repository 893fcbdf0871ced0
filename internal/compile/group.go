package compile

import (
	"cmp"
	"slices"
	"time"

	"github.com/afterbay/afterbay/internal/event/value"
	"github.com/afterbay/afterbay/internal/lang"
	"github.com/afterbay/afterbay/internal/task/operator"
)

// answeredMembersMax bounds the ends of the members of a group, which are in one step.
const answeredMembersMax = 4096

// group compiles the collecting of events. It is done in log order, before the
// waves, whatever stands above it for other events.
func (c *compiler) group(path string, s *lang.Group) {
	before := len(c.Errs)
	c.Identifier(path+".name", s.Name)
	if c.IsField(s.Name) {
		c.Fail(path+".name", "%q is a field: a group's own name starts those that it introduces", s.Name)
	}
	stage := &operator.Group{
		Index: len(c.plan.Groups.Groups), Name: s.Name, Idle: s.Idle, Within: s.Timeout, Pass: s.Incomplete == "pass",
		Events: cmp.Or(s.Max.Events, lang.DefaultGroupEvents), Bytes: cmp.Or(s.Max.Bytes, lang.DefaultGroupBytes), Open: cmp.Or(s.Max.Groups, lang.DefaultGroups),
	}
	late, known := latePolicies[s.Late]
	switch {
	case !known:
		c.Fail(path+".late", "unknown policy %q: use dlq, drop or include", s.Late)
	case s.Incomplete != "" && s.Incomplete != "dlq" && s.Incomplete != "pass":
		c.Fail(path+".incomplete", "unknown policy %q: use dlq or pass", s.Incomplete)
	case slices.ContainsFunc(c.plan.Groups.Groups, func(o *operator.Group) bool { return o.Name == s.Name }):
		c.Fail(path+".name", "two groups are named %q: what is stored of one is known by its name", s.Name)
	}
	stage.Late = late
	c.groupBounds(path, s)
	c.groupSlots(path, s, stage)
	c.groupNames(path, stage)
	n := node{op: stage, waves: c.FedSlots(c.groupReads(stage)...), guards: slices.Clone(c.Guards)}
	c.belowWaves(path, n)
	if len(c.Errs) > before {
		return
	}
	c.plan.Groups.Groups = append(c.plan.Groups.Groups, stage)
	c.add(n)
	c.Groups = append(c.Groups, c.Guards.Innermost())
}

func (c *compiler) groupBounds(path string, s *lang.Group) {
	for _, d := range []struct {
		word string
		time.Duration
	}{{"idle", s.Idle}, {"timeout", s.Timeout}} {
		if d.Duration < 0 || d.Duration > 30*24*time.Hour {
			c.Fail(path+"."+d.word, "%v is out of range: use up to 720h", d.Duration)
		}
	}
	if len(c.Pipeline.Replies) > 0 && s.Max.Events > answeredMembersMax {
		c.Fail(path+".max.events", "%d is more than %d, which a pipeline with answers may have: they end in one step", s.Max.Events, answeredMembersMax)
	}
	if s.Idle == 0 && s.Timeout == 0 {
		c.Fail(path, "neither idle nor timeout: a group whose last event never comes would be kept for ever")
		c.Hint("write idle: 60s, the event time without another of its events after which it ends")
	}
	for _, b := range []struct {
		word   string
		n, max int
	}{{"events", s.Max.Events, 1 << 20}, {"bytes", s.Max.Bytes, 1 << 30}, {"groups", s.Max.Groups, 1 << 20}} {
		if b.n < 0 || b.n > b.max {
			c.Fail(path+".max."+b.word, "%d is out of range: use 1 to %d", b.n, b.max)
		}
	}
}

// groupSlots finds the names that a group reads of its events.
func (c *compiler) groupSlots(path string, s *lang.Group, stage *operator.Group) {
	stage.ID = c.plan.Meta.ID
	for _, name := range []struct {
		word, name string
		required   bool
		kinds      []value.Kind
		found      func(value.Slot)
	}{
		{"by", s.By, true, []value.Kind{value.String, value.Int}, func(slot value.Slot) { stage.By = slot }},
		{"order", s.Order, false, []value.Kind{value.Int}, func(slot value.Slot) { stage.Order, stage.ID = &slot, slot }},
		{"end", s.End, false, []value.Kind{value.Bool}, func(slot value.Slot) { stage.End = &slot }},
		{"id", s.ID, false, []value.Kind{value.String, value.Int}, func(slot value.Slot) { stage.ID = slot }},
	} {
		at := path + "." + name.word
		if name.name == "" {
			if name.required {
				c.Fail(at, "missing: name what events of a group have in common")
			}
			continue
		}
		slots := c.Slots(at, name.name)
		if len(slots) == 0 {
			continue
		}
		if slot := slots[0]; len(slots) > 1 || !slices.Contains(name.kinds, slot.Type.Kind) {
			c.Fail(at, "%q is of type %v: %s is of type %s", name.name, slot.Type, name.word, lang.KindsText(name.kinds))
		} else {
			name.found(slot)
		}
	}
}

// groupReads returns the names that a group reads of its events.
func (c *compiler) groupReads(stage *operator.Group) []value.Slot {
	reads := []value.Slot{stage.By, stage.ID}
	for _, slot := range []*value.Slot{stage.Order, stage.End} {
		if slot != nil {
			reads = append(reads, *slot)
		}
	}
	return reads
}

// groupNames introduces the names of the event that a group becomes.
func (c *compiler) groupNames(path string, stage *operator.Group) {
	for _, n := range []struct {
		name string
		kind value.Kind
		slot *value.Slot
	}{
		{"key", value.String, &stage.Key}, {"count", value.Int, &stage.Count}, {"complete", value.Bool, &stage.Complete},
		{"missing", value.Int, &stage.Missing}, {"ended", value.String, &stage.Ended},
	} {
		*n.slot, _ = c.Make(path, stage.Name+"."+n.name, value.Type{Kind: n.kind})
	}
	for _, name := range c.Fields {
		field, ok := c.Names.Schema.Lookup(name)
		list := map[value.Kind]value.Kind{value.String: value.Strings, value.Bytes: value.Bytes}[field.Type.Kind]
		if !ok || list == 0 || slices.Contains([]string{"key", "count", "complete", "missing", "ended"}, name) {
			continue
		}
		if slot, ok := c.Make(path, stage.Name+"."+name, value.Type{Kind: list}); ok {
			stage.Lists = append(stage.Lists, operator.GroupList{Field: field, Slot: slot})
		}
	}
}

// belowWaves refuses a group below what its events need the waves for.
func (c *compiler) belowWaves(path string, group node) {
	if c.BelowGroup() {
		c.Fail(path, "an event goes through one group: this one is below another")
	}
	if _, _, at := schedule(append(slices.Clone(c.nodes), group)); at >= 0 {
		c.Fail(path, "below %s: a group is made of events in log order, before anything is scored or written for them", c.nodes[at].kind())
		c.Hint("write the group above it; what is below it is done for the group as one")
	}
}
