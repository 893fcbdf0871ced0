package join

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/afterbay/afterbay/internal/task/due"
	"github.com/afterbay/afterbay/internal/task/operator"
	"github.com/afterbay/afterbay/internal/test/eventtime"
)

// TestAFullJoinTakesTheRightsOfItsLefts has rights come while a bound is reached. A left that
// waits has its right. Other events are refused.
func TestAFullJoinTakesTheRightsOfItsLefts(t *testing.T) {
	for match, want := range map[operator.Match]string{
		operator.MatchFirst: `lefts/0@0~click k {"id":"l","on":"x","click":{"matched":true,"id":"r"}} 5000000`,
		operator.MatchLast:  `lefts/0@0~click k {"id":"l","on":"x","click":{"matched":true,"id":"r"}} 10000000 of 1`,
		operator.MatchEach:  `lefts/0@0~click k {"id":"l","on":"x","click":{"matched":true,"id":"r"}} 5000000`,
	} {
		for _, most := range []operator.JoinMax{{Rows: 2, Bytes: 1 << 20, Matches: 9}, {Rows: 9, Bytes: 90, Matches: 9}} {
			for _, watermark := range []int64{0, 5e6} { // at the other it is certain
				w := newWorld(t, operator.Join{Within: 10 * time.Second, Before: 10 * time.Second, Match: match, Most: most})
				for i, l := range []eventtime.Event{left(0, "l", "x"), left(1, "m", "y")} {
					if err := w.add(l, 0); err != nil {
						t.Fatalf("left %d: %v, with %d bytes", i, err, w.set.bytes)
					}
				}
				rows, bytes := w.set.rows, w.set.bytes
				if err := w.add(right(5, "s", "z"), 0); err == nil {
					t.Error("a right that no left takes is taken over a bound")
				}
				if err := w.add(right(5, "r", "x"), watermark); err != nil {
					t.Errorf("%+v at %d: %v", most, watermark, err)
				}
				if w.commit(); w.set.rows > most.Rows || w.set.bytes > 2*most.Bytes || len(w.state) != w.set.rows {
					t.Errorf("%d rows and %d bytes wait, of %+v: there were %d and %d; %d entries", w.set.rows, w.set.bytes, most, rows, bytes, len(w.state))
				}
				w.open()
				w.pass(11e6)
				if len(w.went) == 0 || !strings.HasPrefix(w.went[0], strings.Split(want, " ")[0]) || !slices.ContainsFunc(w.went, func(text string) bool {
					return strings.HasPrefix(text, strings.TrimSuffix(want, " of 1")) || strings.Contains(text, "~click~rights/0@5")
				}) {
					t.Errorf("%v at %d: %q, want %s", match, watermark, w.went, want)
				}
			}
		}
	}
}

// TestALeftThatGoesOnNeedsNoRoom has a left come behind its right while the join is full.
func TestALeftThatGoesOnNeedsNoRoom(t *testing.T) {
	w := newWorld(t, operator.Join{Within: 10 * time.Second, Before: 10 * time.Second, Most: operator.JoinMax{Rows: 1, Bytes: 1 << 20, Matches: 9}})
	w.add(right(5, "r", "x"), 0)
	if err := w.add(left(4, "l", "x"), 6e6); err != nil {
		t.Error(err)
	}
	w.wants(`lefts/0@4~click k {"id":"l","on":"x","click":{"matched":true,"id":"r"}} 5000000`)
	if err := w.add(left(7, "m", "y"), 6e6); err == nil {
		t.Error("a left that waits is taken over the bound")
	}
}

// TestTheQueueForgetsWhatWentOn has very many lefts of one key go on long before their time.
func TestTheQueueForgetsWhatWentOn(t *testing.T) {
	w := newWorld(t, operator.Join{Within: 24 * time.Hour})
	lane, most := &w.due[due.Group], int64(0)
	for i := range int64(50_000) {
		on := fmt.Sprint(i % 100 * (i % 2)) // of many buckets, and of one
		w.add(left(i, "l", on), i*1e6)
		w.add(right(i, "r", on), i*1e6)
		if most = max(most, lane.Bytes()); lane.Len() > 2*len(w.set.buckets)+dueMin {
			t.Fatalf("%d entries for %d buckets, after %d lefts", lane.Len(), len(w.set.buckets), i)
		}
		w.went = nil
	}
	if w.counts.Matched.Load() != 50_000 || most > 256<<10 {
		t.Errorf("%d lefts went on; the queue took up to %d bytes", w.counts.Matched.Load(), most)
	}
}

// TestManyLeftsOfOneKeyEndInParts has more rows be due at one time than Come takes at once.
func TestManyLeftsOfOneKeyEndInParts(t *testing.T) {
	w := newWorld(t, operator.Join{Within: time.Second})
	for i := range int64(3 * comeMax) {
		l := left(0, fmt.Sprint("l", i), "x")
		l.Offset = i
		w.add(l, 0)
	}
	w.watermark = 1e6 + 1
	for lane, times := &w.due[due.Group], 0; lane.Until(w.watermark); times++ {
		if _, err := w.set.Come(lane.Pop()); err != nil {
			t.Fatal(err)
		}
		if n := len(w.set.Ended()); n > comeMax || times > 3 {
			t.Fatalf("%d rows go on at once", n)
		}
	}
	if w.set.rows != 0 || w.counts.Unmatched.Load() != 3*comeMax {
		t.Errorf("%d rows are left", w.set.rows)
	}
}

// TestJoinsAreBounded has an event beyond a bound be refused, with nothing done.
func TestJoinsAreBounded(t *testing.T) {
	w := newWorld(t, operator.Join{Within: 10 * time.Second, Match: operator.MatchEach, Most: operator.JoinMax{Rows: 3, Bytes: 1 << 20, Matches: 2}})
	for i := range int64(3) {
		if err := w.add(left(i, fmt.Sprint("l", i), "x"), 0); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct {
		event eventtime.Event
		want  string
	}{
		{left(4, "l", "y"), "join click has 3 events that wait"},
		{right(4, "r", "x"), "makes 3 pairs, more than max.matches (2)"},
		{right(4, "r", strings.Repeat("x", 1025)), "more than 1024 bytes"},
	} {
		if err := w.add(c.event, 0); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v", c.want, err)
		}
	}
	w.wants()
	w.commit()
	if len(w.state) != 3 {
		t.Errorf("%d entries of state", len(w.state))
	}
	w.pass(11e6 + 1)
	w.commit()
	if w.set.rows != 1 || len(w.state) != 1 {
		t.Errorf("%d rows and %d entries wait, want that of the last left", w.set.rows, len(w.state))
	}
	if w.plan.Join.Most = (operator.JoinMax{Rows: 9, Bytes: 60, Matches: 9}); w.add(left(12, "l", "x"), 11e6) == nil {
		t.Error("more than max.bytes is kept")
	}
}

// interleaved returns the events of the sources, each in its order.
func interleaved(rng *rand.Rand, sources [4][]eventtime.Event) (events []eventtime.Event) {
	for at := [4]int{}; len(events) < len(slices.Concat(sources[:]...)); {
		if s := rng.IntN(4); at[s] < len(sources[s]) {
			events = append(events, sources[s][at[s]])
			at[s]++
		}
	}
	return events
}

// TestKillsLeaveTheSameStateOfAFullJoin has steps be lost at random while events wait, with
// bounds that are often reached: the same is refused, goes on and is stored as in a run with
// one step.
func TestKillsLeaveTheSameStateOfAFullJoin(t *testing.T) {
	refused := 0
	for seed := range uint64(100) {
		rng := rand.New(rand.NewPCG(seed, 3))
		j := operator.Join{
			Match: operator.Match(rng.IntN(3)), Within: time.Duration(rng.IntN(20)) * time.Millisecond, Before: time.Duration(rng.IntN(10)) * time.Millisecond,
			Most: operator.JoinMax{Rows: 4 + rng.IntN(20), Bytes: 200 + rng.IntN(2000), Matches: 1 + rng.IntN(9)},
		}
		lateness := int64(rng.IntN(4)) * 4000
		events := interleaved(rng, sourcesOf(rng, 150, lateness))
		calm, killed := newWorld(t, j), newWorld(t, j)
		type place struct {
			at, watermark int64
			went          []string
			newest        [4]int64
		}
		failures := [2][]string{make([]string, len(events)), make([]string, len(events))}
		run := func(w *world, run int, kills bool) {
			now := place{watermark: start, newest: [4]int64{start, start, start, start}}
			durable := now
			for now.at < int64(len(events)) {
				e := events[now.at]
				s := slices.Index([]string{"lefts0", "lefts1", "rights0", "rights1"}, fmt.Sprint(e.Topic, e.Partition))
				now.newest[s] = max(now.newest[s], e.Time-lateness)
				w.ties(now.newest)
				failures[run][now.at] = fmt.Sprint(w.add(e, slices.Min(now.newest[:])))
				now.at++
				now.watermark, now.went = w.watermark, slices.Clone(w.went)
				switch {
				case kills && rng.IntN(5) == 0:
					w.commit()
					durable = now
				case kills && rng.IntN(8) == 0: // what is not durable is lost
					now = durable
					w.open()
					w.offset, w.watermark, w.went = now.at, now.watermark, slices.Clone(now.went)
				}
				if w.set.rows > j.Most.Rows || w.set.bytes > 2*j.Most.Bytes {
					t.Fatalf("seed %d: %d rows, %d bytes wait, of %+v", seed, w.set.rows, w.set.bytes, j.Most)
				}
			}
			w.commit()
		}
		run(calm, 0, false)
		run(killed, 1, true)
		for _, failure := range failures[0] {
			if failure != "<nil>" {
				refused++
			}
		}
		if d := cmp.Diff(failures[0], failures[1]); d != "" {
			t.Fatalf("seed %d, %+v: what is refused (-without kills +with)\n%s", seed, j, d)
		}
		if d := cmp.Diff(calm.went, killed.went); d != "" {
			t.Fatalf("seed %d, %+v: what goes on (-without kills +with)\n%s", seed, j, d)
		}
		if d := cmp.Diff(calm.state, killed.state); d != "" {
			t.Fatalf("seed %d, %+v: state (-without kills +with)\n%s", seed, j, d)
		}
	}
	if refused < 1000 {
		t.Errorf("only %d events are refused", refused)
	}
}
