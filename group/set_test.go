package group

import (
	"bytes"
	"fmt"
	"iter"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/afterbay/afterbay/step"
	"github.com/afterbay/afterbay/stream"
	"github.com/afterbay/afterbay/value"
)

// state is what is committed beside a partition.
type state map[string][]byte

func (s state) Get(key []byte) ([]byte, error) { return bytes.Clone(s[string(key)]), nil }

func (s state) Scan(prefix []byte) iter.Seq2[stream.Entry, error] {
	return func(yield func(stream.Entry, error) bool) {
		for _, key := range slices.Sorted(maps.Keys(s)) {
			if strings.HasPrefix(key, string(prefix)) && !yield(stream.Entry{Key: []byte(key), Value: bytes.Clone(s[key])}, nil) {
				return
			}
		}
	}
}

var partition = stream.Partition{Topic: "in", Index: 3}

// world is the groups of one partition, and what it takes to feed them.
type world struct {
	*testing.T
	plan  *Plan
	state state
	set   *Set
	slots map[string]value.Slot
}

func newWorld(t *testing.T, change func(*step.Group)) *world {
	t.Helper()
	w := &world{T: t, plan: &Plan{Schema: &value.Schema{}}, state: state{}, slots: map[string]value.Slot{}}
	add := func(name string, kind value.Kind, optional bool) value.Slot {
		slot, err := w.plan.Schema.Add(name, value.Type{Kind: kind, Optional: optional})
		if err != nil {
			t.Fatal(err)
		}
		w.slots[name] = slot
		return slot
	}
	call, part, end, url := add("call", value.String, true), add("part", value.Int, true), add("end", value.Bool, true), add("url", value.String, true)
	sound, level := add("sound", value.Bytes, true), add("level", value.Number, false)
	g := &step.Group{
		At: 1, Name: "parts", By: call, Order: &part, ID: part, End: &end, Idle: time.Minute, Events: 100, Bytes: 1 << 20, Open: 100,
		Key: add("parts.key", value.String, false), Count: add("parts.count", value.Int, false), Complete: add("parts.complete", value.Bool, false),
		Missing: add("parts.missing", value.Int, false), Ended: add("parts.ended", value.String, false),
	}
	g.Lists = []step.GroupList{{Field: url, Slot: add("parts.url", value.Strings, false)}, {Field: sound, Slot: add("parts.sound", value.Bytes, false)}}
	w.plan.Fields = []value.Slot{call, part, end, url, sound, level}
	if change != nil {
		change(g)
	}
	w.plan.Groups = []*step.Group{g}
	w.open()
	return w
}

func (w *world) open() {
	w.Helper()
	w.set.Close()
	var err error
	if w.set, err = Open(w.plan, partition, w.state); err != nil {
		w.Fatal(err)
	}
}

// commit makes what changed durable.
func (w *world) commit() {
	w.set.Changes(func(key, data []byte) {
		if w.state[string(key)] = bytes.Clone(data); data == nil {
			delete(w.state, string(key))
		}
	})
}

// chunk is an event of a group.
type chunk struct {
	key, call string
	part      int64
	end       bool
	at        int64 // seconds
	offset    int64
}

func (c chunk) row(w *world) *value.Row {
	row := &w.plan.Schema.NewRows(1)[0]
	row.SetText(w.slots["call"], c.call)
	row.SetInt(w.slots["part"], c.part)
	row.SetBool(w.slots["end"], c.end)
	row.SetText(w.slots["url"], fmt.Sprint("u", c.part))
	row.SetText(w.slots["sound"], fmt.Sprint("<", c.offset, ">"))
	row.SetNumber(w.slots["level"], float64(c.offset)/2)
	return row
}

// add ends what is due at the chunk's place, and then adds it. It returns what ended.
func (w *world) add(c chunk, watermark int64) (ended []*Ended, failure error) {
	w.Helper()
	for done := false; !done && w.set.Due(watermark); {
		var err error
		if done, err = w.set.Expire(watermark, 0); err != nil {
			w.Fatal(err)
		}
	}
	_, failure, fatal := w.set.Add(Event{Group: w.plan.Groups[0], Key: []byte(c.key), Offset: c.offset, Time: c.at * 1e6, Row: c.row(w), ID: fmt.Sprint("in:3:", c.offset)})
	if fatal != nil {
		w.Fatal(fatal)
	}
	return w.set.Ended(), failure
}

// told is an ended group as text, with the row of its event.
func (w *world) told(e *Ended) string {
	w.Helper()
	row := &w.plan.Schema.NewRows(1)[0]
	r, err := w.set.Compose(e, row)
	if err != nil {
		w.Fatal(err)
	}
	var urls []string
	for u := range value.EachString(row.Text(w.slots["parts.url"])) {
		urls = append(urls, u)
	}
	return fmt.Sprintf("%s/%s %v %s at %d by %d: %d missing, complete %v, %d of them %v %s level %v", r.Key, row.Text(w.slots["parts.key"]), e.Reason, r.Headers[0].Value,
		e.Time/1e6, r.Offset, e.Missing, e.Complete, row.Int(w.slots["parts.count"]), urls, row.Text(w.slots["parts.sound"]), row.Number(w.slots["level"]))
}

// naive is groups as lists of chunks, without anything remembered that can be
// counted again.
type naive struct {
	spec *step.Group
	open map[string][]chunk
	over map[string]naiveEnd
}

type naiveEnd struct {
	parts []int64
	until int64
}

func (n *naive) deadline(list []chunk) (at int64) {
	for _, c := range list {
		at = max(at, c.at+int64(n.spec.Idle/time.Second))
	}
	if n.spec.Within > 0 {
		at = min(at, list[0].at+int64(n.spec.Within/time.Second))
	}
	return at
}

func (n *naive) tell(name string, reason Reason, at int64) string {
	list := slices.Clone(n.open[name])
	first, newest := list[0].offset, list[len(list)-1].offset
	var parts []int64
	for _, c := range list {
		parts = append(parts, c.part)
	}
	n.over[name] = naiveEnd{parts, at + int64(n.spec.Idle/time.Second)}
	delete(n.open, name)
	slices.SortFunc(list, func(a, b chunk) int { return int(a.part - b.part) })
	last := list[len(list)-1].part
	for _, c := range list {
		if c.end {
			last = c.part
			break
		}
	}
	missing := 0
	for p := range last + 1 {
		if !slices.Contains(parts, p) {
			missing++
		}
	}
	var urls []string
	sound := ""
	for _, c := range list {
		urls, sound = append(urls, fmt.Sprint("u", c.part)), sound+fmt.Sprint("<", c.offset, ">")
	}
	return fmt.Sprintf("%s %v in:3:%d:parts at %d by %d: %d missing, complete %v, %d of them %v %s level %v", name, reason, first, at, newest, missing, reason == Complete,
		len(list), urls, sound, float64(list[0].offset)/2)
}

// expire returns what a watermark ends.
func (n *naive) expire(watermark int64) (ended []string) {
	for {
		due, at := "", int64(math.MaxInt64)
		for name, list := range n.open {
			if d := n.deadline(list); d <= watermark && (d < at || d == at && name < due) {
				due, at = name, d
			}
		}
		if due == "" {
			return ended
		}
		reason := Timeout
		newest := int64(0)
		for _, c := range n.open[due] {
			newest = max(newest, c.at)
		}
		if newest+int64(n.spec.Idle/time.Second) == at {
			reason = Idle
		}
		ended = append(ended, n.tell(due, reason, at))
	}
}

// add returns what ended, and what became of the chunk.
func (n *naive) add(c chunk, watermark int64) (ended []string, fate string) {
	ended = n.expire(watermark)
	for name, over := range n.over {
		if over.until <= watermark {
			delete(n.over, name)
		}
	}
	name := c.key + "/" + c.call
	for {
		if over, ok := n.over[name]; ok {
			if slices.Contains(over.parts, c.part) {
				return ended, "duplicate"
			}
			if n.spec.Late != step.LateInclude {
				return ended, "late"
			}
			delete(n.over, name)
		}
		list := n.open[name]
		newest := c.at
		for _, o := range list {
			if newest = max(newest, o.at); o.part == c.part {
				return ended, "duplicate"
			}
		}
		if len(list) == n.spec.Events {
			newest = 0
			for _, o := range list {
				newest = max(newest, o.at)
			}
			ended = append(ended, n.tell(name, Full, newest))
			continue
		}
		n.open[name] = append(list, c)
		end := int64(math.MaxInt64)
		for _, o := range n.open[name] {
			if o.end {
				end = min(end, o.part)
			}
		}
		there := map[int64]bool{}
		for _, o := range n.open[name] {
			if o.part <= end {
				there[o.part] = true
			}
		}
		if int64(len(there)) == end+1 && end != math.MaxInt64 {
			ended = append(ended, n.tell(name, Complete, newest))
		}
		return ended, "joined"
	}
}

// TestGroupsEndAsListsOfTheirChunksDo feeds shuffled, duplicated, late and missing
// chunks to groups that are restored now and then, and to lists.
func TestGroupsEndAsListsOfTheirChunksDo(t *testing.T) {
	for round := range 60 {
		seed := rand.Uint64()
		rng := rand.New(rand.NewPCG(seed, uint64(round)))
		events, late, within := 3+rng.IntN(6), []step.LatePolicy{step.LateDead, step.LateInclude}[rng.IntN(2)], time.Duration(rng.IntN(2)*(30+rng.IntN(90)))*time.Second
		change := func(g *step.Group) { g.Events, g.Late, g.Within = events, late, within }
		w, other := newWorld(t, change), newWorld(t, change)
		n := &naive{spec: w.plan.Groups[0], open: map[string][]chunk{}, over: map[string]naiveEnd{}}
		watermark, at := int64(0), int64(1000)
		for i := range 400 {
			at += int64(rng.IntN(8))
			if rng.IntN(60) == 0 {
				at += 100
			}
			c := chunk{
				key: fmt.Sprint("k", rng.IntN(2)), call: fmt.Sprint("c", rng.IntN(4)), part: int64(rng.IntN(6)), end: rng.IntN(5) == 0,
				at: at - int64(rng.IntN(20)), offset: int64(i),
			}
			watermark = max(watermark, c.at-5)
			want, fate := n.add(c, watermark)
			for k, w := range []*world{w, other} {
				ended, failure := w.add(c, watermark*1e6)
				var got []string
				for _, e := range ended {
					got = append(got, w.told(e))
					if err := w.set.Release(e, 0, nil); err != nil {
						t.Fatal(err)
					}
				}
				if !slices.Equal(got, want) || (failure != nil) != (fate == "late") {
					t.Fatalf("seed %d, world %d, %+v at watermark %d:\ngot  %q, %v\nwant %q, %s", seed, k, c, watermark, got, failure, want, fate)
				}
			}
			if w.commit(); rng.IntN(10) == 0 {
				w.open()
			}
			if rng.IntN(20) == 0 {
				other.commit()
			}
		}
		other.commit()
		for key := range maps.Keys(w.state) {
			if !bytes.Equal(w.state[key], other.state[key]) || len(w.state) != len(other.state) {
				t.Fatalf("seed %d: %d entries are stored after steps of one, %d after steps of many, %q: %x and %x", seed, len(w.state), len(other.state), key, w.state[key], other.state[key])
			}
		}
		w.set.Close()
		if open, stored := w.plan.Groups[0].Counts.Open.Load(), w.plan.Groups[0].Counts.Bytes.Load(); open != 0 || stored != 0 {
			t.Fatalf("seed %d: %d groups of %d bytes are counted as open when all is closed", seed, open, stored)
		}
	}
}

// TestGroupsAndWhatIsKnownOfThemAreBounded opens more groups than there may be, ends
// more than are known, and fills one by bytes.
func TestGroupsAndWhatIsKnownOfThemAreBounded(t *testing.T) {
	w := newWorld(t, func(g *step.Group) { g.Open, g.Bytes = 3, 400 })
	g := w.plan.Groups[0]
	for i := range 4 {
		_, err := w.add(chunk{key: "k", call: fmt.Sprint("c", i), part: 0, at: 100, offset: int64(i)}, math.MinInt64)
		if (err != nil) != (i == 3) || i == 3 && !strings.Contains(err.Error(), "would open group 4 of parts beside the partition: max.groups is 3") {
			t.Errorf("group %d: %v", i, err)
		}
	}
	if g.Counts.Open.Load() != 3 {
		t.Errorf("%d groups are open", g.Counts.Open.Load())
	}
	for i := range 20 { // each ends at once
		call := fmt.Sprint("d", i)
		if i < 3 {
			call = fmt.Sprint("c", i)
		}
		c := chunk{key: "k", call: call, part: 1, end: true, at: int64(100 + i), offset: int64(10 + 2*i)}
		if _, err := w.add(c, math.MinInt64); err != nil {
			t.Fatal(err)
		}
		c.part, c.end, c.offset = 0, false, c.offset+1
		if _, err := w.add(c, math.MinInt64); err != nil && i >= 3 {
			t.Fatal(err)
		}
		if w.commit(); i%5 == 4 {
			w.open()
		}
	}
	known := 0
	for key := range w.state {
		if key[0] == 'G' {
			known++
		}
	}
	if known != 3 {
		t.Errorf("%d groups are known that ended", known)
	}
	if _, err := w.add(chunk{key: "k", call: "d19", part: 0, at: 120, offset: 90}, math.MinInt64); err != nil || g.Counts.Duplicates.Load() == 0 {
		t.Errorf("the newest is not known: %v", err)
	}
	large, sizes := 0, 0
	for i := range 9 {
		ended, err := w.add(chunk{key: "k", call: "large", part: int64(i), at: 130, offset: int64(100 + i)}, math.MinInt64)
		for _, e := range ended {
			if e.Reason != Full || e.Bytes > 400 || e.Refused() == nil {
				t.Errorf("%+v", e)
			}
			sizes = len(e.members)
		}
		if err != nil {
			large++
		}
	}
	if sizes < 2 || large != 9-sizes {
		t.Errorf("%d in the group, %d late", sizes, large)
	}
}

// TestGroupsOrderedByTimeEndAtTheirLast has no order but that of event times.
func TestGroupsOrderedByTimeEndAtTheirLast(t *testing.T) {
	w := newWorld(t, func(g *step.Group) { g.Order = nil })
	for i, at := range []int64{103, 101, 102} {
		ended, err := w.add(chunk{key: "k", call: "c", part: at, at: at, offset: int64(i), end: i == 2}, math.MinInt64)
		if err != nil || (len(ended) > 0) != (i == 2) {
			t.Fatalf("%d: %v, %v", i, ended, err)
		}
		for _, e := range ended {
			if got := w.told(e); !strings.Contains(got, "[u101 u102 u103] <1><2><0>") || !e.Complete || e.Missing != 0 {
				t.Error(got)
			}
		}
	}
}

func TestDamagedGroupsAreRefused(t *testing.T) {
	w := newWorld(t, nil)
	if _, err := w.add(chunk{key: "k", call: "c", part: 0, at: 100}, math.MinInt64); err != nil {
		t.Fatal(err)
	}
	w.commit()
	for key, whole := range w.state {
		for cut := range whole {
			w.state[key] = whole[:cut]
			set, err := Open(w.plan, partition, w.state)
			if err == nil {
				_, _, err = set.Add(Event{Group: w.plan.Groups[0], Key: []byte("k"), Row: chunk{call: "c", part: 1, end: true}.row(w)})
				for _, e := range set.Ended() {
					_, err = set.Compose(e, &w.plan.Schema.NewRows(1)[0])
				}
				if err == nil && key[0] == 'G' {
					t.Errorf("%q cut to %d of %d bytes goes unseen", key, cut, len(whole))
				}
			}
		}
		w.state[key] = whole
	}
}
