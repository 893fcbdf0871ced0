package group

import (
	"bytes"
	"cmp"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/afterbay/afterbay/internal/event/expression"
	"github.com/afterbay/afterbay/internal/event/value"
	"github.com/afterbay/afterbay/internal/log/memory"
	"github.com/afterbay/afterbay/internal/task/due"
	"github.com/afterbay/afterbay/internal/task/operator"
	"github.com/afterbay/afterbay/internal/test/reference"
)

// aggregated gives the group aggregates of the events' level.
func (w *world) aggregated(g *operator.Group) {
	names := slotNames(w.slots)
	for i, name := range []string{"n", "sum", "mean", "least", "most"} {
		v := operator.GroupValue{Name: name, Aggregate: operator.Aggregate(i)}
		kind := value.Int
		if i > 0 {
			kind = value.Number
			var err *expression.Error
			if v.Value, err = expression.Compile("level", names); err != nil {
				w.Fatal(err)
			}
		}
		slot, err := w.plan.Schema.Add("parts."+name, value.Type{Kind: kind})
		if err != nil {
			w.Fatal(err)
		}
		v.Slot, w.slots["parts."+name] = slot, slot
		g.Values = append(g.Values, v)
	}
}

// slotNames are slots by name, for expressions.
type slotNames map[string]value.Slot

func (s slotNames) Slot(name string) (value.Slot, bool)             { slot, ok := s[name]; return slot, ok }
func (s slotNames) Constant(string) (c expression.Constant, _ bool) { return c, false }
func (s slotNames) Known() []string                                 { return nil }

// windowed is a world whose groups are windows with aggregates.
func windowed(t *testing.T, every, size int64, change func(*operator.Group)) *world {
	t.Helper()
	w := newWorld(t, func(g *operator.Group) {
		g.Order, g.End, g.Idle, g.Lists = nil, nil, 0, nil
		g.Every, g.Size = time.Duration(every)*time.Second, time.Duration(size)*time.Second
	})
	g := w.plan.Groups[0]
	for name, slot := range map[string]*value.Slot{"start": &g.Columns.Start, "end": &g.Columns.End} {
		var err error
		if *slot, err = w.plan.Schema.Add("parts."+name, value.Type{Kind: value.Time}); err != nil {
			t.Fatal(err)
		}
	}
	w.aggregated(g)
	if change != nil {
		change(g)
	}
	w.open()
	return w
}

// aggregates returns the text of the aggregates of a row.
func (w *world) aggregates(row *value.Row) string {
	return fmt.Sprintf("%d events, sum %v, mean %v, %v to %v", row.Int(w.slots["parts.n"]), row.Number(w.slots["parts.sum"]), row.Number(w.slots["parts.mean"]),
		row.Number(w.slots["parts.least"]), row.Number(w.slots["parts.most"]))
}

// reports is a window that ended as text, with the row of its event.
func (w *world) reports(e *Ended) string {
	w.Helper()
	row := &w.plan.Schema.NewRows(1)[0]
	r, err := w.set.Compose(e, row)
	if err != nil {
		w.Fatal(err)
	}
	g := w.plan.Groups[0]
	if e.Reason != Window || !e.Complete || e.Refused() != nil || row.Int(g.Columns.Start) != e.Start || row.Int(g.Columns.End) != e.Time {
		w.Errorf("%+v", e)
	}
	return fmt.Sprintf("%s/%s %d to %d, %s of %s by %d, first %v: %d, %s", r.Key, row.Text(g.Columns.Key), e.Start/1e6, e.Time/1e6, r.Value[bytes.LastIndexByte(r.Value, '{'):],
		r.Headers[0].Value, r.Offset, row.Number(w.slots["level"]), row.Int(g.Columns.Count), w.aggregates(row))
}

// naiveWindows are windows as lists of events. Each is given what has not ended.
type naiveWindows struct {
	every, size int64 // seconds
	events      map[string][]reference.Member
	after       map[string]int64 // windows that end later have not ended
}

// come returns what ends by a watermark.
func (n *naiveWindows) come(watermark int64) (ended []string) {
	type end struct {
		name string
		reference.Window
	}
	var list []end
	for name, events := range n.events {
		for _, w := range reference.Windows(events, n.every, n.size) {
			if w.End > n.after[name] && w.End <= watermark {
				list = append(list, end{name, w})
			}
		}
	}
	slices.SortFunc(list, func(a, b end) int { return cmp.Or(cmp.Compare(a.End, b.End), strings.Compare(a.name, b.name)) })
	for _, e := range list {
		n.after[e.name] = e.End
		ended = append(ended, reportOf(e.name, e.Window))
	}
	return ended
}

func levelOf(offset int64) float64 { return float64(offset)/3 - 20 }

func reportOf(name string, w reference.Window) string {
	newest, levels := int64(0), []float64(nil)
	for _, m := range w.Members {
		newest, levels = max(newest, m.Offset), append(levels, levelOf(m.Offset))
	}
	first, sum := w.Members[0].Offset, reference.Sum(levels...)
	_, by, _ := strings.Cut(name, "/")
	return fmt.Sprintf(`%s %d to %d, {"key":%q,"ended":"window","count":%d}} of in:3:%d~parts@%s by %d, first %v: %d, %d events, sum %v, mean %v, %v to %v`, name, w.Start, w.End, by, len(levels), first,
		time.Unix(w.Start, 0).UTC().Format(time.RFC3339Nano), newest, levelOf(first), len(levels), len(levels), sum, sum/float64(len(levels)), slices.Min(levels), slices.Max(levels))
}

// TestWindowsReportOnceWhatTheirEventsAre feeds shuffled and late events of several sources
// to windows that are restored now and then, and to lists.
func TestWindowsReportOnceWhatTheirEventsAre(t *testing.T) {
	told, lates := 0, 0
	for round := range 60 {
		seed := rand.Uint64()
		rng := rand.New(rand.NewPCG(seed, uint64(round)))
		every, lateness := int64(1+rng.IntN(40)), int64(rng.IntN(4)*30)
		size := every * int64(1+rng.IntN(2)*rng.IntN(6))
		w, other := windowed(t, every, size, nil), windowed(t, every, size, nil)
		n := &naiveWindows{every: every, size: size, events: map[string][]reference.Member{}, after: map[string]int64{}}
		watermark, at := int64(-1<<40), int64(1000)
		for i := range 400 {
			if at += int64(rng.IntN(8)); rng.IntN(60) == 0 {
				at += 500
			}
			c := chunk{key: fmt.Sprint("k", rng.IntN(2)), call: fmt.Sprint("c", rng.IntN(3)), part: int64(i), at: at - int64(rng.IntN(20+int(lateness))), offset: int64(i), source: rng.IntN(3)}
			watermark = max(watermark, c.at-lateness)
			want := n.come(watermark)
			name, late := c.key+"/"+c.call, true
			for end := c.at + 1; end <= c.at+size; end++ {
				late = late && (end%every != 0 || end <= watermark)
			}
			if n.after[name] = max(n.after[name], watermark); !late {
				n.events[name] = append(n.events[name], reference.Member{Time: c.at, Source: int64(c.source), Offset: c.offset})
			} else {
				lates++
			}
			for k, w := range []*world{w, other} {
				got, failure := w.put(c, watermark)
				if told += len(got); !slices.Equal(got, want) || (failure != nil) != late {
					t.Fatalf("seed %d, round %d, world %d, every %d, size %d, %+v at watermark %d:\ngot  %q, %v\nwant %q, %v", seed, round, k, every, size, c, watermark, got, failure, want, late)
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
		if d := differentState(w.state, other.state); d != "" {
			t.Fatalf("seed %d: after steps of one and of many: %s", seed, d)
		}
		last := w.ends(1 << 40)
		if want := n.come(1 << 40); !slices.Equal(last, want) {
			t.Fatalf("seed %d: at the end %q, want %q", seed, last, want)
		}
		w.commit()
		if open, stored := w.counts[0].Open.Load(), w.counts[0].Bytes.Load(); open != 0 || stored != 0 || len(w.state) > 0 {
			t.Fatalf("seed %d: %d panes of %d bytes are counted as open, and %d entries stored, when all have ended", seed, open, stored, len(w.state))
		}
	}
	if told < 5000 || lates < 100 {
		t.Errorf("only %d windows ended and %d events were late", told, lates)
	}
}

// ends returns what ended by a watermark in seconds.
func (w *world) ends(watermark int64) (list []string) {
	w.Helper()
	w.come(watermark * 1e6)
	for _, e := range w.set.Ended() {
		list = append(list, w.reports(e))
		if err := w.set.Release(e, 0, nil); err != nil {
			w.Fatal(err)
		}
	}
	return list
}

// put ends what is due at an event's place, and then adds it.
func (w *world) put(c chunk, watermark int64) (ended []string, failure error) {
	w.Helper()
	ended = w.ends(watermark)
	row := c.row(w)
	row.SetNumber(w.slots["level"], levelOf(c.offset))
	_, failure, fatal := w.set.Add(Event{
		Group: w.plan.Groups[0], Key: []byte(c.key), Offset: c.offset, Time: c.at * 1e6, Watermark: watermark * 1e6, Row: row,
		Identity: operator.Identity{ID: fmt.Sprint("in:3:", c.offset), Source: c.from()},
	})
	if fatal != nil {
		w.Fatal(fatal)
	}
	return ended, failure
}

// TestWindowsHaveABound opens more panes than max.groups, and drops what is late.
func TestWindowsHaveABound(t *testing.T) {
	w := windowed(t, 10, 10, func(g *operator.Group) { g.Open, g.Late = 2, operator.LateDrop })
	var got []string
	for i, c := range []chunk{{call: "a", at: 1}, {call: "b", at: 1}, {call: "c", at: 1}, {call: "a", at: 9}, {call: "a", at: 10}} {
		c.key, c.offset = "k", int64(i)
		ended, failure := w.put(c, c.at)
		got = append(got, fmt.Sprint(len(ended), failure))
	}
	if want := []string{"0 <nil>", "0 <nil>", "0 would open more than max.groups (2) windows of parts", "0 <nil>", "2 <nil>"}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
	if _, failure := w.put(chunk{key: "k", call: "a", at: 5, offset: 9}, 10); failure != nil || w.counts[0].Late.Load() != 1 {
		t.Error(failure, w.counts[0].Late.Load())
	}
}

func TestDamagedWindowsAreRefused(t *testing.T) {
	w := windowed(t, 10, 30, nil)
	if _, err := w.put(chunk{key: "k", call: "c", at: 100}, 0); err != nil || len(w.state) != 0 {
		t.Fatal(err, w.state)
	}
	w.commit()
	if len(w.state) != 2 {
		t.Fatalf("%d entries are stored of a window", len(w.state))
	}
	for key, whole := range w.state {
		for cut := range whole {
			w.state[key] = whole[:cut]
			if _, err := Open(w.plan, w.counts[:], partition, w.state, &due.Queue{}); err == nil {
				t.Errorf("%q cut to %d of %d bytes goes unseen", key, cut, len(whole))
			}
		}
		w.state[key] = whole
	}
	w.plan.Groups[0].Name = "others"
	if _, err := Open(w.plan, w.counts[:], partition, w.state, &due.Queue{}); err == nil || !strings.Contains(err.Error(), "has no such step") {
		t.Error(err)
	}
}

// TestGroupsHaveAggregatesOfTheirEvents has those of a group whose events are stored, of
// which one repeats another, before and after a restart.
func TestGroupsHaveAggregatesOfTheirEvents(t *testing.T) {
	w := newWorld(t, func(g *operator.Group) { g.Order, g.End = nil, nil })
	w.aggregated(w.plan.Groups[0])
	w.open()
	for i, part := range []int64{7, 8, 7, 9} {
		if _, failure := w.put(chunk{key: "k", call: "c", part: part, at: 100 + int64(i), offset: int64(30 * i)}, 0); failure != nil {
			t.Fatal(failure)
		}
		if i == 1 {
			w.commit()
			w.open()
		}
	}
	w.come(1e9)
	ended := w.set.Ended()
	row := &w.plan.Schema.NewRows(1)[0]
	if len(ended) != 1 {
		t.Fatal(ended)
	}
	if _, err := w.set.Compose(ended[0], row); err != nil {
		t.Fatal(err)
	}
	if got, want := w.aggregates(row), "3 events, sum -20, mean -6.666666666666667, -20 to 10"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
}

func TestValuesThatAreTooLargeAreRefused(t *testing.T) {
	w := windowed(t, 10, 10, nil)
	row := chunk{call: "c"}.row(w)
	row.SetNumber(w.slots["level"], 1e291)
	_, failure, fatal := w.set.Add(Event{Group: w.plan.Groups[0], Key: []byte("k"), Row: row, Identity: operator.Identity{ID: "id"}})
	if want := "sum: is 1e+291: a group aggregates numbers up to 1e+290"; failure == nil || failure.Error() != want || fatal != nil {
		t.Error(failure, fatal)
	}
}

// TestGroupsWithoutEventsAreThoseWithThem feeds the same shuffled and late events to groups
// whose events are stored and to groups that keep aggregates alone, which are restored now
// and then: they end alike.
func TestGroupsWithoutEventsAreThoseWithThem(t *testing.T) {
	told := 0
	for round := range 60 {
		seed := rand.Uint64()
		rng := rand.New(rand.NewPCG(seed, uint64(round)))
		idle, lateness := time.Duration(5+rng.IntN(30))*time.Second, int64(rng.IntN(4)*40)
		change := func(g *operator.Group) {
			g.Order, g.End, g.Lists, g.Idle, g.Events = nil, nil, nil, idle, 1<<20
			g.Late = []operator.LatePolicy{operator.LateDead, operator.LateInclude, operator.LateDrop}[round%3]
		}
		var worlds [3]*world // the last is that of the second after other steps
		for i := range worlds {
			worlds[i] = newWorld(t, change)
			g := worlds[i].plan.Groups[0]
			worlds[i].aggregated(g)
			g.Folded = i > 0
			worlds[i].open()
		}
		watermark, at := int64(0), int64(1000)
		for i := range 400 {
			if at += int64(rng.IntN(8)); rng.IntN(60) == 0 {
				at += 100
			}
			c := chunk{key: fmt.Sprint("k", rng.IntN(2)), call: fmt.Sprint("c", rng.IntN(3)), part: int64(i), at: at - int64(rng.IntN(20+int(lateness))), offset: int64(i), source: rng.IntN(3)}
			watermark = max(watermark, c.at-lateness)
			var want []string
			for k, w := range worlds {
				got := w.folded(watermark)
				if k == 0 {
					told += len(got)
				}
				_, failure := w.put(c, watermark)
				if got = append(got, fmt.Sprint(failure != nil, w.counts[0].Late.Load(), w.counts[0].Open.Load())); k == 0 {
					want = got
				} else if !slices.Equal(got, want) {
					t.Fatalf("seed %d, round %d, world %d, idle %v, %+v at watermark %d:\ngot  %q\nwant %q", seed, round, k, idle, c, watermark, got, want)
				}
			}
			if worlds[1].commit(); rng.IntN(10) == 0 {
				worlds[1].open()
			}
			if rng.IntN(20) == 0 {
				worlds[2].commit()
			}
		}
		worlds[2].commit()
		if d := differentState(worlds[1].state, worlds[2].state); d != "" {
			t.Fatalf("seed %d: after steps of one and of many: %s", seed, d)
		}
		for key := range worlds[1].state {
			if key[0] == 'M' {
				t.Fatalf("an event is stored: %q", key)
			}
		}
		for _, w := range worlds {
			if w.set.Close(); w.counts[0].Open.Load() != 0 || w.counts[0].Bytes.Load() != 0 {
				t.Fatalf("seed %d: %d groups of %d bytes are counted as open when all is closed", seed, w.counts[0].Open.Load(), w.counts[0].Bytes.Load())
			}
		}
	}
	if told < 1000 {
		t.Errorf("only %d groups ended", told)
	}
}

// folded returns the groups that end by a watermark in seconds, but for their lists.
func (w *world) folded(watermark int64) (list []string) {
	w.Helper()
	w.come(watermark * 1e6)
	for _, e := range w.set.Ended() {
		row := &w.plan.Schema.NewRows(1)[0]
		r, err := w.set.Compose(e, row)
		if err != nil {
			w.Fatal(err)
		}
		list = append(list, fmt.Sprint(r.Time, r.Offset, string(r.Key), r.Headers, e.Reason, e.Complete, row.Number(w.slots["level"]), row.Int(w.plan.Groups[0].Columns.Count), w.aggregates(row)))
		if err := w.set.Release(e, 0, nil); err != nil {
			w.Fatal(err)
		}
	}
	return list
}

func differentState(a, b memory.State) string {
	for key := range a {
		if !bytes.Equal(a[key], b[key]) {
			return fmt.Sprintf("%q: %x and %x", key, a[key], b[key])
		}
	}
	if len(a) != len(b) {
		return fmt.Sprintf("%d entries and %d", len(a), len(b))
	}
	return ""
}

// TestStoredEventsAreFolded opens groups whose events are stored as one that keeps none, and
// the other way round.
func TestStoredEventsAreFolded(t *testing.T) {
	w := newWorld(t, func(g *operator.Group) { g.Order, g.End, g.Lists = nil, nil, nil })
	g := w.plan.Groups[0]
	w.aggregated(g)
	w.open()
	for i := range int64(3) {
		if _, failure := w.put(chunk{key: "k", call: "c", part: i, at: 100 - i, offset: i}, 0); failure != nil {
			t.Fatal(failure)
		}
	}
	w.commit()
	g.Folded = true
	for range 2 {
		w.open()
		w.commit()
		if len(w.state) != 1 {
			t.Fatalf("%d entries are stored: %q", len(w.state), slices.Sorted(maps.Keys(w.state)))
		}
	}
	g.Folded = false
	if _, err := Open(w.plan, w.counts[:], partition, w.state, &due.Queue{}); err == nil || !strings.Contains(err.Error(), "run the earlier file until they have ended") {
		t.Error(err)
	}
	g.Folded = true
	w.open()
	w.come(160e6)
	ended := w.set.Ended()
	row := &w.plan.Schema.NewRows(1)[0]
	if len(ended) != 1 {
		t.Fatal(ended)
	}
	if _, err := w.set.Compose(ended[0], row); err != nil {
		t.Fatal(err)
	}
	if got, want := w.aggregates(row), "3 events, sum -59, mean -19.666666666666668, -20 to -19.333333333333332"; got != want || ended[0].Offset != 2 {
		t.Errorf("%s, want %s, newest %d", got, want, ended[0].Offset)
	}
	if _, failure := w.put(chunk{key: "k", call: "c", part: 2, at: 98, offset: 9}, 160); failure == nil {
		t.Error("an event that comes after its group ended is not late, as the first of the group has its id")
	}
}
