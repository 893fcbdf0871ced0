package skew

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/afterbay/afterbay/internal/event/hash"
	"github.com/afterbay/afterbay/internal/observe"
	"github.com/afterbay/afterbay/internal/ops/inspect"
	"github.com/afterbay/afterbay/internal/ops/report"
	"github.com/afterbay/afterbay/internal/state/statekey"
	"github.com/afterbay/afterbay/internal/task"
	"github.com/afterbay/afterbay/internal/task/group"
	"github.com/afterbay/afterbay/internal/task/join"
	"github.com/afterbay/afterbay/internal/task/operator"
	"github.com/afterbay/afterbay/internal/task/table"
	"github.com/afterbay/afterbay/stream"
)

// place identifies a state entry by its partition and its stored key.
type place struct {
	partition int32
	stored    string
}

// entries are the state entries of the sample.
type entries map[place][]byte

// state compares the state entries of the sample that a plan keeps.
func (s *check) state(again inspect.Directory, plan *task.Plan) (list []found, err error) {
	c := &states{check: s, plan: plan, read: observe.Read{Group: plan.Name, Topic: plan.Topic}, described: map[place]bool{}}
	return c.all(again)
}

// all compares all entries of the sample.
func (c *states) all(again inspect.Directory) (list []found, err error) {
	if c.live, err = c.entries(c.check.live); err != nil {
		return nil, err
	}
	if c.computed, err = c.entries(again); err != nil {
		return nil, err
	}
	if c.plan != nil && c.plan.Answers == nil { // a stage reads no tables
		if err := c.findUnread(again); err != nil {
			return nil, err
		}
	}
	all := maps.Clone(c.computed)
	maps.Copy(all, c.live)
	for _, at := range slices.SortedFunc(maps.Keys(all), func(a, b place) int {
		return cmp.Or(cmp.Compare(a.partition, b.partition), strings.Compare(a.stored, b.stored))
	}) {
		list = append(list, c.compare(at)...)
	}
	return list, nil
}

// states holds the state of the sample: the live one and the recomputed one.
type states struct {
	*check
	plan           *task.Plan // plan of the pipeline or of a stage; nil for a repartitioner
	read           observe.Read
	live, computed entries
	described      map[place]bool // keys and rows that were compared by their features or versions
	unread         map[int32]bool // partitions that have read less of a versioned table than others
	apart          map[int32]bool // partitions that have read other tables to another offset than the replay
}

// compare compares one entry.
func (c *states) compare(at place) []found {
	stored := []byte(at.stored)
	if table.IsSwept(stored) {
		return nil
	}
	key, ofKey := c.userKey(at.partition, stored)
	if row, ok := table.StoredOf(stored); ok && stored[0] == statekey.Row && row.Versioned {
		return c.history(at.partition, &row)
	}
	if stored[0] == statekey.Row && c.apart[at.partition] {
		return nil
	}
	c.result.Entries++
	a, inLive := c.live[at]
	b, inAgain := c.computed[at]
	if inLive == inAgain && bytes.Equal(a, b) {
		return nil
	}
	if of := (place{at.partition, string(key)}); ofKey && !c.described[of] {
		c.described[of] = true
		if features := c.features(at.partition, string(key)); len(features) > 0 {
			return features
		}
	}
	d := Difference{Key: string(key), Step: "state", Name: report.Held(at.stored[0]), Live: shown(a, inLive, b), Recomputed: shown(b, inAgain, a)}
	switch stored[0] {
	case statekey.ID, statekey.Watermark, statekey.Released:
		return c.ofPartition(at, d)
	case statekey.Row:
		row, _ := table.StoredOf(stored)
		d.Step, d.Name = "lookup", row.Topic
	case statekey.Call:
		d.Step, d.Name = "call", functionOf(stored)
	case statekey.Group, statekey.Ended, statekey.Pane:
		d.Step, d.Name = "group", groupOf(stored)
		if g := c.group(d.Name); g != nil && inLive && inAgain {
			if name, one, other := group.Difference(g, stored, a, b); name != "" {
				d.Name, d.Live, d.Recomputed = name, one, other
			}
		}
	case statekey.Join:
		one, ok := join.StoredOf(stored, a)
		other, ok1 := join.StoredOf(stored, b)
		d.Step, d.Name = "join", cmp.Or(one.Join, other.Join, d.Name)
		if ok && ok1 {
			if d.Name, d.Live, d.Recomputed = one.Difference(c.plan.Joins.Join, &other); d.Name == "" {
				return nil
			}
		}
		if of := c.events[cmp.Or(one.ID, other.ID)]; of != nil {
			return []found{{of.number, Difference{of.position, of.key, "", d.Step, d.Name, d.Live, d.Recomputed}}}
		}
	case statekey.Member:
		d.Step = "group"
		if of := c.events[c.memberOf(at.partition, stored)]; of != nil {
			return []found{{of.number, Difference{of.position, of.key, "", d.Step, d.Name, d.Live, d.Recomputed}}}
		}
	}
	return []found{c.ofKey(d)}
}

// history compares the versions of a table row, once for all of its entries.
func (c *states) history(partition int32, row *table.Stored) []found {
	of := place{partition, row.ID + "/" + row.Key}
	if c.described[of] || c.unread[partition] {
		return nil
	}
	c.described[of] = true
	c.result.Entries++
	from := func(all entries) (table.History, error) {
		return row.History(func(stored []byte) []byte { return all[place{partition, string(stored)}] })
	}
	d := Difference{Key: row.Key, Step: "lookup", Name: row.Topic}
	a, err := from(c.live)
	b, err1 := from(c.computed)
	if err == nil && err1 == nil {
		d.Live, d.Recomputed, err = a.Difference(b)
	}
	switch err := cmp.Or(err, err1); {
	case err != nil:
		d.Live, d.Recomputed = err.Error(), "versions that can be read"
	case d.Live == d.Recomputed:
		return nil
	}
	d.Live, d.Recomputed = cmp.Or(d.Live, none), cmp.Or(d.Recomputed, none)
	return []found{c.ofKey(d)}
}

// findUnread finds the partitions that have read less of a table than the replay. The replay has
// read as much as the partition that has read the most.
func (c *states) findUnread(again inspect.Directory) error {
	read, err := inspect.TablesRead(c.ctx, c.check.live, c.result.Pipeline, true)
	newest, err1 := inspect.TablesRead(c.ctx, c.check.live, c.result.Pipeline, false)
	replayed, err2 := inspect.TablesRead(c.ctx, again, c.result.Pipeline, false)
	if err := cmp.Or(err, err1, err2); err != nil {
		return err
	}
	c.unread, c.apart = map[int32]bool{}, map[int32]bool{}
	for _, all := range []entries{c.live, c.computed} {
		for at := range all {
			c.unread[at.partition] = !maps.Equal(read[at.partition], c.rows.TablesRead)
			c.apart[at.partition] = c.rows.FollowsNotes() && !maps.Equal(newest[at.partition], replayed[at.partition])
		}
	}
	n := 0
	for partition, unread := range c.unread {
		if unread || c.apart[partition] {
			n++
		}
	}
	if n > 0 {
		c.result.Notes = append(c.result.Notes, fmt.Sprintf("in %d partitions the rows of tables were not compared: these partitions have read fewer rows than others, or than the replay", n))
	}
	return nil
}

// ofKey adds to a difference the newest event of its key.
func (c *states) ofKey(d Difference) found {
	if newest := c.newest[owner{c.read.Group, d.Key}]; newest != nil {
		d.Event = newest.position
	}
	return found{math.MaxInt64, d}
}

// features compares the features of a key at the time of its newest event.
func (c *states) features(partition int32, key string) (list []found) {
	from := func(all entries) func([]byte) ([]byte, error) {
		return func(stored []byte) ([]byte, error) { return all[place{partition, string(stored)}], nil }
	}
	a, _, err := c.plan.Describe(key, from(c.live))
	b, _, err1 := c.plan.Describe(key, from(c.computed))
	if err != nil || err1 != nil || len(a) != len(b) {
		return nil // the comparison of the entries shows the difference
	}
	for i := range a {
		if a[i].Value != b[i].Value {
			list = append(list, c.ofKey(Difference{Key: key, Step: "features", Name: a[i].Name, Live: a[i].Value, Recomputed: b[i].Value}))
		}
	}
	return list
}

// entries returns the entries of the sample.
func (c *states) entries(d inspect.Directory) (entries, error) {
	list := entries{}
	kinds := c.ofPartitions(c.read.Group)
	for e, err := range d.Entries(c.ctx, c.read.Group, nil) {
		if err != nil {
			return nil, err
		}
		stored, err := e.Stored()
		if err != nil {
			return nil, err
		}
		if len(stored) > 0 && bytes.IndexByte(kinds, stored[0]) >= 0 {
			list[place{e.Partition, string(stored)}] = decided(stored[0], e.Value)
		} else if key, ok := c.userKey(e.Partition, stored); ok && c.takes(key, stored[0]) || table.IsSwept(stored) {
			list[place{e.Partition, string(canonical(stored, e.Value))}] = bytes.Clone(e.Value)
		}
	}
	return list, nil
}

// takes reports whether entries with a kind and a key are compared.
func (c *states) takes(key []byte, kind byte) bool {
	return c.sampled(key) && (kind == statekey.Row || !c.leftOut[owner{c.read.Group, string(key)}])
}

// canonical returns the key of an entry in a form that is the same in a replay. For an event of a
// join it replaces the offset of the event's copy with a number made from the event's id.
func canonical(stored, value []byte) []byte {
	if stored[0] != statekey.Join {
		return stored
	}
	event, ok := join.StoredOf(stored, value)
	if !ok {
		return stored
	}
	return binary.BigEndian.AppendUint64(bytes.Clone(stored[:len(stored)-8]), uint64(hash.Of(event.ID, salt)))
}

// userKey returns the key of the events or of the table row that an entry belongs to. ok is false
// for other entries.
func (s *check) userKey(partition int32, stored []byte) (key []byte, ok bool) {
	if len(stored) == 0 {
		return nil, false
	}
	switch stored[0] {
	case statekey.Header(0)[0], statekey.Header(1)[0]:
		return stored[1:], true
	case 'E', 'L', statekey.Call:
		return statekey.CallKey(stored)
	case statekey.Row:
		row, ok := table.StoredOf(stored)
		return []byte(row.Key), ok
	case statekey.Pane, statekey.Ended:
		group, ok := statekey.EndedOf(stored)
		if !ok {
			return nil, false
		}
		stored = []byte(group)
		fallthrough
	case statekey.Group:
		_, key, _, ok = statekey.GroupOf(stored)
		return key, ok
	case statekey.Join:
		_, _, key, _, _, ok = statekey.JoinOf(stored)
		return key, ok
	case statekey.Member:
		of := s.events[s.memberOf(partition, stored)]
		if of == nil {
			return nil, false
		}
		return []byte(of.key), true
	}
	return nil, false
}

// memberOf returns the position of an event in a group.
func (s *check) memberOf(partition int32, stored []byte) string {
	if len(stored) != 17 {
		return ""
	}
	reads := s.rows.Runner().Reads()
	p := stream.Partition{Topic: reads[len(reads)-1].Topic, Index: partition}
	return fmt.Sprintf("%v@%d", p, binary.BigEndian.Uint64(stored[9:]))
}

// functionOf returns the name of the function that keeps an entry.
func functionOf(stored []byte) string {
	_, function, _ := statekey.RowOf(stored)
	return string(function)
}

// groupOf returns the name of the group that keeps an entry.
func groupOf(stored []byte) string {
	if stored[0] != statekey.Group {
		group, _ := statekey.EndedOf(stored)
		stored = []byte(group)
	}
	name, _, _, _ := statekey.GroupOf(stored)
	return name
}

// group returns a group of the pipeline, or nil if the name is unknown.
func (s *check) group(name string) *operator.Group {
	for _, g := range s.rows.Runner().Plan.Groups.Groups {
		if g.Name == name {
			return g
		}
	}
	return nil
}

// shown formats a value for comparison with another one. It starts a few bytes before the first
// difference.
func shown(value []byte, there bool, other []byte) string {
	if !there {
		return none
	}
	at := 0
	for at < min(len(value), len(other)) && value[at] == other[at] {
		at++
	}
	from, to := max(0, at-32), min(len(value), at+32)
	return fmt.Sprintf("%d bytes, byte %d: %q", len(value), at, value[from:to])
}
