package group

import (
	"bytes"
	"cmp"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/afterbay/afterbay/internal/event/value"
	"github.com/afterbay/afterbay/internal/log/memory"
	"github.com/afterbay/afterbay/internal/state/statekey"
	"github.com/afterbay/afterbay/internal/task/due"
	"github.com/afterbay/afterbay/internal/task/operator"
	"github.com/afterbay/afterbay/internal/test/reference"
	"github.com/afterbay/afterbay/stream"
)

var partition = stream.Partition{Topic: "in", Index: 3}

// world is the groups of one partition, and what it takes to feed them.
type world struct {
	*testing.T
	plan   *Plan
	counts [1]Counts
	state  memory.State
	due    due.Queue
	set    *Set
	slots  map[string]value.Slot
}

func newWorld(t *testing.T, change func(*operator.Group)) *world {
	t.Helper()
	w := &world{T: t, plan: &Plan{Schema: &value.Schema{}}, state: memory.State{}, slots: map[string]value.Slot{}}
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
	g := &operator.Group{
		Name: "parts", By: call, Order: &part, ID: part, End: &end, Idle: time.Minute, Events: 100, Bytes: 1 << 20, Open: 100,
		Columns: operator.GroupColumns{
			Key: add("parts.key", value.String, false), Count: add("parts.count", value.Int, false), Complete: add("parts.complete", value.Bool, false),
			Missing: add("parts.missing", value.Int, false), Ended: add("parts.ended", value.String, false),
		},
	}
	g.Lists = []operator.GroupList{{Field: url, Slot: add("parts.url", value.List|value.String, false)}, {Field: sound, Slot: add("parts.sound", value.Bytes, false)}}
	w.plan.Fields = []value.Slot{call, part, end, url, sound, level}
	if change != nil {
		change(g)
	}
	w.plan.Groups = []*operator.Group{g}
	w.open()
	return w
}

func (w *world) open() {
	w.Helper()
	w.set.Close()
	var err error
	w.due = due.Queue{}
	if w.set, err = Open(w.plan, w.counts[:], partition, w.state, &w.due); err != nil {
		w.Fatal(err)
	}
}

// come has what is due by a watermark come.
func (w *world) come(watermark int64) {
	w.Helper()
	for lane := &w.due[due.Group]; lane.Until(watermark); {
		if err := w.set.Come(lane.Pop()); err != nil {
			w.Fatal(err)
		}
	}
}

// commit makes what changed durable.
func (w *world) commit() {
	w.set.Changes(func(key, data []byte) {
		w.state.Apply(stream.Change{Key: key, Value: data})
	})
}

// chunk is an event of a group.
type chunk struct {
	key, call string
	part      int64
	end       bool
	at        int64 // seconds
	offset    int64

	source       int   // that it was copied from, at an offset; none where both are 0
	sourceOffset int64 // 0 is offset
}

func (c chunk) from() string {
	if c.source == 0 && c.sourceOffset == 0 {
		return ""
	}
	return fmt.Sprintf("src/%d@%d", c.source, cmp.Or(c.sourceOffset, c.offset))
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
	w.come(watermark)
	_, failure, fatal := w.set.Add(Event{Group: w.plan.Groups[0], Key: []byte(c.key), Offset: c.offset, Time: c.at * 1e6, Row: c.row(w), Identity: operator.Identity{ID: fmt.Sprint("in:3:", c.offset), Source: c.from()}})
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

// TestGroupsEndAsListsOfTheirChunksDo feeds shuffled, duplicated, late and missing
// chunks of several sources to groups that are restored now and then, and to lists.
func TestGroupsEndAsListsOfTheirChunksDo(t *testing.T) {
	told := map[Reason]int{}
	for round := range 60 {
		seed := rand.Uint64()
		rng := rand.New(rand.NewPCG(seed, uint64(round)))
		idle, within := time.Duration(10+rng.IntN(60))*time.Second, time.Duration(rng.IntN(2)*(20+rng.IntN(90)))*time.Second
		if within > 0 && rng.IntN(3) == 0 {
			idle = 0
		}
		events, late, lateness := 3+rng.IntN(6), []operator.LatePolicy{operator.LateDead, operator.LateInclude}[rng.IntN(2)], int64(rng.IntN(4)*40)
		change := func(g *operator.Group) { g.Events, g.Late, g.Idle, g.Within = events, late, idle, within }
		w, other := newWorld(t, change), newWorld(t, change)
		n := &naive{
			idle: int64(idle / time.Second), timeout: int64(within / time.Second), events: int64(events), include: late == operator.LateInclude,
			open: map[string][]reference.Member{}, over: map[string][]naiveEnd{},
		}
		watermark, at, ends, parts := int64(0), int64(1000), 1+rng.IntN(30), 3+rng.IntN(30)
		for i := range 400 {
			at += int64(rng.IntN(8))
			if rng.IntN(60) == 0 {
				at += 100
			}
			c := chunk{
				key: fmt.Sprint("k", rng.IntN(2)), call: fmt.Sprint("c", rng.IntN(3)), part: int64(rng.IntN(parts)), end: rng.IntN(ends) == 0,
				at: at - int64(rng.IntN(20+int(lateness))), offset: int64(i), source: rng.IntN(3),
			}
			watermark = max(watermark, c.at-lateness)
			want, isLate := n.add(c.key+"/"+c.call, reference.Member{Time: c.at, Source: int64(c.source), Offset: c.offset, ID: fmt.Sprint(c.part), Order: c.part, End: c.end}, watermark)
			for k, w := range []*world{w, other} {
				ended, failure := w.add(c, watermark*1e6)
				var got []string
				for _, e := range ended {
					told[e.Reason]++
					got = append(got, w.told(e))
					if err := w.set.Release(e, 0, nil); err != nil {
						t.Fatal(err)
					}
				}
				if !slices.Equal(got, want) || (failure != nil) != isLate {
					t.Fatalf("seed %d, round %d, world %d, idle %v, timeout %v, %+v at watermark %d:\ngot  %q, %v\nwant %q, %v", seed, round, k, idle, within, c, watermark, got, failure, want, isLate)
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
		if open, stored := w.counts[0].Open.Load(), w.counts[0].Bytes.Load(); open != 0 || stored != 0 {
			t.Fatalf("seed %d: %d groups of %d bytes are counted as open when all is closed", seed, open, stored)
		}
	}
	for _, reason := range []Reason{Complete, Idle, Timeout, Full} {
		if told[reason] < 100 {
			t.Errorf("only %d groups ended as %v", told[reason], reason)
		}
	}
}

// TestGroupsAreAFunctionOfTheirTimes feeds the same events in orders that differ within
// lateness: the groups that end by time are those that their times make.
func TestGroupsAreAFunctionOfTheirTimes(t *testing.T) {
	for range 100 {
		seed := rand.Uint64()
		rng := rand.New(rand.NewPCG(seed, 0))
		idle, within, lateness := int64(10+rng.IntN(40)), int64(rng.IntN(2)*(10+rng.IntN(60))), int64(rng.IntN(100))
		var chunks []chunk
		var members []reference.Member
		at := int64(1000)
		for i := range 60 + rng.IntN(60) {
			at += int64(rng.IntN(2) * rng.IntN(2*int(idle)))
			c := chunk{key: "k", call: "c", part: int64(rng.IntN(100)), at: at, source: rng.IntN(2), sourceOffset: int64(i + 1)}
			chunks, members = append(chunks, c), append(members, reference.Member{Time: at, Source: int64(c.source), Offset: int64(i + 1), ID: fmt.Sprint(c.part)})
		}
		var want []string
		for _, g := range reference.CutGroups(members, idle, within) {
			text := fmt.Sprint(reference.GroupEnd(g, idle, within))
			for _, m := range reference.KeptOf(g) {
				text += " " + m.ID
			}
			want = append(want, text)
		}
		for range 5 {
			w := newWorld(t, func(g *operator.Group) {
				g.Order, g.End, g.Idle, g.Within = nil, nil, time.Duration(idle)*time.Second, time.Duration(within)*time.Second
			})
			arrival := map[int64]int64{}
			for _, c := range chunks {
				arrival[c.sourceOffset] = c.at + rng.Int64N(lateness+1)
			}
			shuffled := slices.Clone(chunks)
			slices.SortStableFunc(shuffled, func(a, b chunk) int { return int(arrival[a.sourceOffset] - arrival[b.sourceOffset]) })
			var got []string
			watermark := int64(math.MinInt64)
			for i, c := range append(shuffled, chunk{key: "another", call: "c", at: at + 1000 + lateness, sourceOffset: 1000}) {
				c.offset = int64(i)
				watermark = max(watermark, (c.at-lateness)*1e6)
				ended, err := w.add(c, watermark)
				if err != nil {
					t.Fatalf("seed %d: %v", seed, err)
				}
				for _, e := range ended {
					text := fmt.Sprint(e.Time / 1e6)
					for _, m := range e.members {
						text += " " + m.id
					}
					got = append(got, text)
					if err := w.set.Release(e, 0, nil); err != nil {
						t.Fatal(err)
					}
				}
				if w.commit(); rng.IntN(9) == 0 {
					w.open()
				}
			}
			if !slices.Equal(got, want) {
				t.Fatalf("seed %d, idle %d, timeout %d, lateness %d:\ngot  %q\nwant %q", seed, idle, within, lateness, got, want)
			}
		}
	}
}

// TestEventIsInOneGroup has a group complete, and an older event in time begin one that
// would take its events too. One of them is sent again.
func TestEventIsInOneGroup(t *testing.T) {
	w := newWorld(t, nil)
	for i, c := range []chunk{{part: 0, at: 1000}, {part: 1, end: true, at: 1005}, {part: 7, at: 990}, {part: 0, at: 1000}} {
		c.key, c.call, c.offset = "k", "c", int64(i)
		ended, err := w.add(c, math.MinInt64)
		if err != nil || (len(ended) == 1) != c.end {
			t.Fatalf("event %d: %d groups ended, %v", i, len(ended), err)
		}
		w.commit()
		w.open()
	}
	ended, _ := w.add(chunk{key: "another", call: "c", offset: 10, at: 2000}, 2000e6)
	if len(ended) != 1 || len(ended[0].members) != 1 || w.counts[0].Duplicates.Load() != 1 {
		t.Errorf("%d groups ended, %d events left out; want one of one event, and one left out", len(ended), w.counts[0].Duplicates.Load())
	}
}

// TestGroupsAndWhatIsKnownOfThemAreBounded opens more groups than there may be, ends
// more than are known, and fills one by bytes.
func TestGroupsAndWhatIsKnownOfThemAreBounded(t *testing.T) {
	w := newWorld(t, func(g *operator.Group) { g.Open, g.Bytes = 3, 400 })
	for i := range 4 {
		_, err := w.add(chunk{key: "k", call: fmt.Sprint("c", i), part: 0, at: 100, offset: int64(i)}, math.MinInt64)
		if (err != nil) != (i == 3) || i == 3 && !strings.Contains(err.Error(), "would open more than max.groups (3) groups of parts") {
			t.Errorf("group %d: %v", i, err)
		}
	}
	if w.counts[0].Open.Load() != 3 {
		t.Errorf("%d groups are open", w.counts[0].Open.Load())
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
		if key[0] == statekey.Ended {
			known++
		}
	}
	if known != 3 {
		t.Errorf("%d groups are known that ended", known)
	}
	if _, err := w.add(chunk{key: "k", call: "d19", part: 0, at: 120, offset: 90}, math.MinInt64); err != nil || w.counts[0].Duplicates.Load() == 0 {
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
	w := newWorld(t, func(g *operator.Group) { g.Order = nil })
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
			set, err := Open(w.plan, w.counts[:], partition, w.state, &due.Queue{})
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

// TestQueuedGroupIsApartFromOthersOfItsSeries queues one of two members that were open
// at once: its members are not those of the other, before a restart and after it.
func TestQueuedGroupIsApartFromOthersOfItsSeries(t *testing.T) {
	w := newWorld(t, func(g *operator.Group) { g.Order, g.End, g.Idle = nil, nil, time.Minute })
	feed := func(at, offset, part, watermark int64) *Ended {
		t.Helper()
		ended, err := w.add(chunk{key: "k", call: "c", part: part, at: at, offset: offset}, watermark*1e6)
		if err != nil || len(ended) > 1 {
			t.Fatal(ended, err)
		}
		if len(ended) == 1 {
			return ended[0]
		}
		return nil
	}
	feed(100, 1, 1, 0)
	feed(130, 2, 2, 0)
	w.commit()
	feed(90, 3, 2, 0) // an earlier one of an id
	feed(200, 4, 4, 0)
	feed(210, 5, 5, 0)
	w.commit()
	first := feed(220, 6, 6, 195)
	row := &w.plan.Schema.NewRows(1)[0]
	if got, want := w.told(first), "k/c idle in:3:3~parts at 190 by 3: 0 missing, complete true, 2 of them [u2 u1] <3><1> level 1.5"; got != want {
		t.Errorf("the first is %s, want %s", got, want)
	}
	if _, err := w.set.Compose(first, row); err != nil {
		t.Fatal(err)
	}
	ref, err := w.set.Detach(first, row)
	if err != nil {
		t.Fatal(err)
	}
	w.commit()
	w.open()
	if err := w.plan.Attach(w.state, partition, ref, row); err != nil || row.Text(w.slots["parts.sound"]) != "<3><1>" {
		t.Errorf("queued with %q: %v", row.Text(w.slots["parts.sound"]), err)
	}
	second := feed(400, 7, 7, 300)
	if got := w.told(second); !strings.Contains(got, "<4><5><6>") {
		t.Errorf("the second is %s", got)
	}
	for _, e := range []*Ended{second, w.plan.Attached(ref)} {
		if err := w.set.Release(e, 0, nil); err != nil {
			t.Fatal(err)
		}
	}
	w.commit()
	for key := range w.state {
		if key[0] == statekey.Member && key[len(key)-1] != 7 {
			t.Errorf("kept: %q", key)
		}
	}
}

func BenchmarkAdd(b *testing.B) {
	t := &testing.T{}
	w := newWorld(t, func(g *operator.Group) { g.Order, g.End, g.Idle, g.Late = nil, nil, time.Minute, operator.LateInclude })
	row := chunk{call: "c"}.row(w)
	for i := 0; b.Loop(); i++ {
		at := int64(i+i/100*100) * 1e6
		w.come(at)
		row.SetInt(w.slots["part"], int64(i))
		if _, failure, fatal := w.set.Add(Event{Group: w.plan.Groups[0], Key: []byte("k"), Offset: int64(i), Time: at, Row: row, Identity: operator.Identity{ID: "id"}}); failure != nil || fatal != nil {
			b.Fatal(failure, fatal)
		}
		for _, e := range w.set.Ended() {
			if err := w.set.Release(e, 0, nil); err != nil {
				b.Fatal(err)
			}
		}
		if i%50 == 0 {
			w.commit()
		}
	}
}

// TestTheQueueForgetsGroupsThatEnded has very many groups of one key, and of many keys, end by
// their own last event, long before their time.
func TestTheQueueForgetsGroupsThatEnded(t *testing.T) {
	w := newWorld(t, func(g *operator.Group) {
		g.Idle, g.Open, g.Order, g.Late = 24*time.Hour, 100, nil, operator.LateInclude
	})
	lane, most := &w.due[due.Group], int64(0)
	for i := range int64(20_000) {
		call := fmt.Sprint("c", i*(i%2))
		for part := range int64(2) {
			ended, err := w.add(chunk{key: "k", call: call, part: 2*i + part, end: part == 1, at: 1000 + i, offset: 2*i + part}, (1000+i)*1e6)
			if len(ended) != int(part) {
				t.Fatalf("%d groups ended at part %d: %v", len(ended), part, err)
			}
			for _, e := range ended {
				if err := w.set.Release(e, 0, nil); err != nil {
					t.Fatal(err)
				}
			}
		}
		if w.commit(); lane.Len() > 2*2*101+dueMin { // 100 groups are known, and one more while another ends
			t.Fatalf("%d entries for %d series and %d groups that ended, after %d", lane.Len(), len(w.set.series), len(w.set.past), i)
		}
		most = max(most, lane.Bytes())
	}
	if most > 256<<10 || w.counts[0].Ended[Complete].Load() != 20_000 {
		t.Errorf("%d groups ended; the queue took up to %d bytes", w.counts[0].Ended[Complete].Load(), most)
	}
	w.come(1 << 40 * 1000)
	if w.commit(); len(w.state) != 0 || lane.Len() != 0 {
		t.Errorf("%d entries are left, and %d in the queue", len(w.state), lane.Len())
	}
}
