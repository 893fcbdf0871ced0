package dedupe

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"maps"
	"math"
	"math/rand"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/afterbay/afterbay/internal/test/seeds"
)

// reference is a partition's ids by definition: every one ever remembered.
type reference struct {
	spec Spec
	ids  []remembered
}

type remembered struct {
	id string
	t  int64
}

func (r *reference) seen(id string, t, newest int64) bool {
	edge := newest - r.spec.Window.Microseconds()
	for _, old := range r.ids[max(0, len(r.ids)-r.spec.Max):] {
		if old.id == id && old.t > edge {
			return true
		}
	}
	if t > edge {
		r.ids = append(r.ids, remembered{id, t})
	}
	return false
}

// store is the state beside a partition.
type store map[string]string

func (s store) put(key, value []byte) {
	if _, there := s[string(key)]; value == nil && !there {
		panic(fmt.Sprintf("%x is deleted, but was never written", key))
	} else if value == nil {
		delete(s, string(key))
	} else {
		s[string(key)] = string(value)
	}
}

func (s store) load(t testing.TB, spec Spec) *Set {
	t.Helper()
	set := New(spec)
	for _, key := range slices.Sorted(maps.Keys(s)) {
		if err := set.Add([]byte(key), []byte(s[key])); err != nil {
			t.Fatal(err)
		}
	}
	return set
}

// events makes ids and times: mostly new ids, some again soon, some again long
// after, some far ahead, some late beyond the window.
type events struct {
	random *rand.Rand
	window int64
	recent int // ids come again from so many
	n      int
	newest int64
}

func (e *events) next() (id string, t int64) {
	t = e.newest + e.random.Int63n(e.window/20)
	switch e.random.Intn(20) {
	case 0:
		t = e.newest - e.random.Int63n(2*e.window)
	case 1:
		t = e.newest - e.window + e.random.Int63n(3) - 1
	case 2:
		t = e.newest + e.random.Int63n(max(1, e.window/int64(1+e.random.Intn(20))))
	case 3:
		if e.random.Intn(40) == 0 {
			t = e.newest + 3*e.window
		}
	}
	e.newest = max(e.newest, t)
	if e.random.Intn(3) == 0 {
		return fmt.Sprint("id-", e.n-e.random.Intn(e.recent)), t
	}
	e.n++
	return fmt.Sprint("id-", e.n), t
}

// twin is one of several sets that see the same events.
type twin struct {
	set   *Set
	state store
	saves float64 // share of the events after which it writes its changes
	loads float64 // share of those after which it starts again from the state
}

func (w *twin) afterEvent(t *testing.T, spec Spec, random *rand.Rand) {
	if random.Float64() >= w.saves {
		return
	}
	w.set.Changes(w.state.put)
	if random.Float64() < w.loads {
		w.set = w.state.load(t, spec)
	}
}

// TestAnswersAndStateAreThoseOfEveryIDKept compares each answer with the
// definition, and the stored bytes of sets that were written and restarted at
// different moments.
func TestAnswersAndStateAreThoseOfEveryIDKept(t *testing.T) {
	duplicates, news := 0, 0
	all := seeds.Run(t, 100, func(t *testing.T, random *rand.Rand) {
		spec := Spec{Window: time.Second, Max: []int{1, 2, 63, 64, 65, 200, 5_000}[random.Intn(7)]}
		ref := &reference{spec: spec}
		e := &events{random: random, window: spec.Window.Microseconds(), recent: 1 + random.Intn(2*spec.Max), newest: random.Int63n(2_000_000) - 1_000_000}
		if random.Intn(2) == 0 { // many ids in a window
			e.window /= 1 + random.Int63n(200)
		}
		twins := []*twin{
			{set: New(spec), state: store{}},
			{set: New(spec), state: store{}, saves: 1},
			{set: New(spec), state: store{}, saves: 1, loads: 0.5},
			{set: New(spec), state: store{}, saves: 0.01, loads: 1},
			{set: New(spec), state: store{}, saves: 0.1, loads: 0.1},
		}
		for range 100 + random.Intn(2000) {
			id, at := e.next()
			if random.Intn(200) == 0 { // other events of the partition
				e.newest += random.Int63n(2 * spec.Window.Microseconds())
			}
			want := ref.seen(id, at, e.newest)
			if want {
				duplicates++
			} else {
				news++
			}
			for k, w := range twins {
				if got := w.set.Seen(id, at, e.newest); got != want {
					t.Fatalf("twin %d of %+v: %s at %d, newest %d: duplicate %t, want %t", k, spec, id, at, e.newest, got, want)
				}
				w.afterEvent(t, spec, random)
				if w.set.Len() > spec.Max {
					t.Fatalf("twin %d remembers %d ids of %d", k, w.set.Len(), spec.Max)
				}
			}
			if random.Intn(50) == 0 {
				compareStates(t, twins)
			}
		}
		compareStates(t, twins)
	})
	if all && (duplicates < 1000 || news < 1000) {
		t.Errorf("%d duplicates and %d new ids, want many", duplicates, news)
	}
}

func compareStates(t *testing.T, twins []*twin) {
	t.Helper()
	for k, w := range twins {
		w.set.Changes(w.state.put)
		if diff := cmp.Diff(twins[0].state, w.state); diff != "" {
			t.Fatalf("state of twin %d differs from that of twin 0 (-0 +%d):\n%s", k, k, diff)
		}
		w.set.Changes(func(key, _ []byte) { t.Fatalf("twin %d writes %x without a change", k, key) })
	}
}

// TestManyIDsAreFound has many pages and chains, of which most are given back,
// and compares with a map, in which restarts do not show either.
func TestManyIDsAreFound(t *testing.T) {
	seeds.Run(t, 2, func(t *testing.T, random *rand.Rand) {
		spec := Spec{Window: 100 * time.Second, Max: 30_000}
		set, state, last := New(spec), store{}, map[string]int{}
		n, now := 0, int64(0)
		check := func(id string, want bool) {
			t.Helper()
			if got := set.Seen(id, now, now); got != want {
				t.Fatalf("%s at %d after %d ids: duplicate %t, want %t", id, now, n, got, want)
			}
		}
		for k := range 300_000 {
			now += random.Int63n(1000)
			if k == 150_000 {
				now += spec.Window.Microseconds()
			}
			if k%100_000 == 50_000 {
				set.Changes(state.put)
				set = state.load(t, spec)
			}
			id := fmt.Sprint(random.Intn(100_000))
			at, there := last[id]
			want := there && n-at <= spec.Max && (k < 150_000 || at >= 0)
			if check(id, want); want {
				continue
			}
			last[id] = n
			n++
			if k == 150_000 {
				if len(set.pages) < 8 || set.Len() != 1 {
					t.Fatalf("%d places for pages, %d ids", len(set.pages), set.Len())
				}
				last = map[string]int{id: n - 1}
			}
		}
		used := 0
		for _, p := range set.pages {
			if p != nil {
				used++
			}
		}
		if ids, chains := set.Len(), int(set.chains.n); ids != spec.Max || chains != spec.Max || used > spec.Max/pageLen+2 {
			t.Errorf("%d ids in %d chains and %d pages", ids, chains, used)
		}
	})
}

// TestNumbersComeRound runs over the end of the 32 bits of a link.
func TestNumbersComeRound(t *testing.T) {
	for _, round := range []uint64{1 << 31, 1 << 32, 3 << 32} {
		spec := Spec{Window: time.Second, Max: 500}
		set := New(spec)
		key := binary.BigEndian.AppendUint64(nil, round/blockLen-40)
		if err := set.Add(key, make([]byte, entrySize)); err != nil {
			t.Fatal(err)
		}
		ref := &reference{spec: spec}
		random := rand.New(rand.NewSource(1))
		for n := range 10_000 {
			id := fmt.Sprint(random.Intn(1500))
			if got, want := set.Seen(id, 1, 2), ref.seen(id, 1, 2); got != want {
				t.Fatalf("event %d: duplicate %t, want %t", n, got, want)
			}
		}
		if set.next <= round {
			t.Errorf("number %d is not beyond %d", set.next, round)
		}
	}
}

// TestLinksDieBeforeTheirNumbersComeRound holds that every link is to an entry
// not long gone, or to one that is gone for 2^31 entries more.
func TestLinksDieBeforeTheirNumbersComeRound(t *testing.T) {
	set := New(Spec{Window: time.Second, Max: 100})
	for n := range 400 {
		set.Seen(fmt.Sprint(n), 0, 0)
	}
	for k := range set.chains.n {
		if link := *set.chains.at(k); uint32(set.next)-link > 200 && uint32(set.next)-link < 1<<31 {
			t.Errorf("chain %d ends at a number of %d entries ago", k, uint32(set.next)-link)
		}
	}
	for n := set.first; n < set.next; n++ {
		if older := set.at(n).older; uint32(n)-older > 100 && uint32(n)-older < 1<<31 {
			t.Errorf("entry %d links to one of %d entries ago", n, uint32(set.next)-older)
		}
	}
}

func TestWindowAndMaxHoldToTheEdge(t *testing.T) {
	type event struct {
		id        string
		t, newest int64
		duplicate bool
	}
	const second = 1_000_000
	for what, events := range map[string][]event{
		"the window's edge is out": {{"a", 0, 0, false}, {"a", second - 1, second - 1, true}, {"a", second, second, false}},
		"a duplicate is not remembered again": {
			{"a", 0, 0, false}, {"a", second - 1, second - 1, true}, {"a", second, second, false}, {"a", second, second, true},
		},
		"an event out of the window is not remembered": {{"b", 9 * second, 9 * second, false}, {"a", 8 * second, 9 * second, false}, {"a", 8 * second, 9 * second, false}},
		"the fourth id forgets the first": {
			{"a", 0, 0, false}, {"b", 0, 0, false}, {"c", 0, 0, false}, {"a", 0, 0, true}, {"d", 0, 0, false}, {"b", 0, 0, true}, {"a", 0, 0, false},
		},
		"one out of the window behind one in it counts": {
			{"a", second, second, false}, {"b", 1, second, false}, {"b", 1, second + 1, false}, {"b", 2, second + 1, false},
			{"c", second, second + 1, false}, {"b", 2, second + 1, true}, {"d", second, second + 1, false}, {"a", second, second + 1, false},
		},
		"extreme times": {
			{"a", math.MinInt64, math.MinInt64, false}, {"b", math.MinInt64 + 1, math.MinInt64 + 1, false}, {"b", math.MinInt64, math.MinInt64 + 1, true},
			{"c", math.MaxInt64, math.MaxInt64, false}, {"c", math.MaxInt64, math.MaxInt64, true}, {"b", 0, math.MaxInt64, false},
		},
	} {
		set := New(Spec{Window: time.Second, Max: 3})
		for k, e := range events {
			if got := set.Seen(e.id, e.t, e.newest); got != e.duplicate {
				t.Errorf("%s: event %d %+v: duplicate %t", what, k, e, got)
			}
		}
	}
	set := New(Spec{Window: time.Second, Max: 3})
	set.Seen("a", 0, 0)
	if set.Seen("b", second, second); set.Len() != 1 {
		t.Errorf("%d ids are remembered, of which one is in the window", set.Len())
	}
}

func TestStepWritesOneBlock(t *testing.T) {
	set := New(Spec{Window: time.Second, Max: 1000})
	deleted := 0
	for n := range 5000 {
		set.Seen(fmt.Sprint(n), 0, 0)
		written := 0
		set.Changes(func(key, value []byte) {
			if value == nil {
				deleted++
			} else if written++; len(value) != (n%64+1)*24 || binary.BigEndian.Uint64(key) != uint64(n/64) {
				t.Errorf("event %d writes %d bytes to block %x", n, len(value), key)
			}
		})
		if written != 1 {
			t.Errorf("event %d writes %d blocks", n, written)
		}
	}
	if deleted != (5000-1000)/64 {
		t.Errorf("%d blocks are deleted", deleted)
	}
}

func TestLoadingWithOtherBoundsKeepsWhatTheyAllow(t *testing.T) {
	set, state := New(Spec{Window: time.Minute, Max: 1000}), store{}
	for n := range int64(900) {
		set.Seen(fmt.Sprint(n), n, n)
	}
	set.Changes(state.put)
	fewer := state.load(t, Spec{Window: time.Minute, Max: 100})
	if fewer.Len() != 100 || !fewer.Seen("800", 0, 900) || fewer.Seen("799", 0, 900) {
		t.Errorf("%d ids are left of 100", fewer.Len())
	}
	fewer.Changes(state.put)
	if len(state) != 3 {
		t.Errorf("%d blocks are left", len(state))
	}
	if again := state.load(t, Spec{Window: time.Minute, Max: 2000}); !again.Seen("800", 0, 900) || !again.Seen("799", 0, 900) {
		t.Error("an id is forgotten with more room")
	}
}

func TestLoadRefusesWhatChangesCannotHaveWritten(t *testing.T) {
	key := func(n uint64) []byte { return binary.BigEndian.AppendUint64(nil, n) }
	full := make([]byte, blockLen*entrySize)
	for why, add := range map[string]func(set *Set) error{
		"a key of 7 bytes":          func(set *Set) error { return set.Add(key(0)[:7], full) },
		"block 2: it follows":       func(set *Set) error { return set.Add(key(2), full) },
		"block 0: it follows":       func(set *Set) error { return set.Add(key(0), full) },
		"0 bytes are not":           func(set *Set) error { return set.Add(key(1), nil) },
		"1535 bytes are not":        func(set *Set) error { return set.Add(key(1), full[1:]) },
		"1560 bytes are not":        func(set *Set) error { return set.Add(key(1), append(full, full[:entrySize]...)) },
		"the number is out":         func(set *Set) error { return set.Add(key(1<<50), full) },
		"ids were remembered":       func(set *Set) error { set.Seen("a", 1, 1); return set.Add(key(1), full) },
		"block 2: it follows entry": func(set *Set) error { set.Add(key(1), full[entrySize:]); return set.Add(key(2), full) },
	} {
		set := New(Spec{Window: time.Second, Max: 1000})
		if err := set.Add(key(0), full); err != nil {
			t.Fatal(err)
		}
		if err := add(set); err == nil || !strings.Contains(err.Error(), why) {
			t.Errorf("%v, want an error with %q", err, why)
		}
	}
}

func TestWrongSpecsAreRefusedWithTheArithmetic(t *testing.T) {
	for why, spec := range map[string]Spec{
		"window is 999ms":  {Window: 999 * time.Millisecond, Max: 1},
		"use 1s to 366":    {Window: 367 * 24 * time.Hour, Max: 1},
		"use whole ones":   {Window: time.Second + 1, Max: 1},
		"max is 0":         {Window: time.Second},
		"max is -1":        {Window: time.Second, Max: -1},
		"use at most 40,0": {Window: time.Second, Max: 40_000_001},
		"max is 4320000000 ids, which 50000 events a second reach in 24h0m0s: with 32 bytes each, 138.2 GB of memory in a partition": {Window: 24 * time.Hour, Max: 4_320_000_000},
	} {
		if err := spec.Validate(); err == nil || !strings.Contains(err.Error(), why) {
			t.Errorf("%+v: %v, want an error with %q", spec, err, why)
		}
	}
	for _, spec := range []Spec{{time.Second, 1}, {366 * 24 * time.Hour, 40_000_000}} {
		if err := spec.Validate(); err != nil {
			t.Error(err)
		}
	}
}

func TestSteadySetAllocatesNothing(t *testing.T) {
	set, n := New(Spec{Window: time.Second, Max: 20_000}), int64(0)
	ids := make([]string, 200_000)
	for k := range ids {
		ids[k] = fmt.Sprint(k)
	}
	discard := func(_, _ []byte) {}
	event := func() {
		set.Seen(ids[n%int64(len(ids))], n, n)
		if n++; n%10 == 0 {
			set.Changes(discard)
		}
	}
	for range 50_000 {
		event()
	}
	if allocations := testing.AllocsPerRun(100_000, event); allocations != 0 {
		t.Errorf("%v allocations an event", allocations)
	}
}

// FuzzSeen reads events, restarts and moments of writing from the bytes, and
// compares with the definition and with a set that never restarts.
func FuzzSeen(f *testing.F) {
	f.Add([]byte("abcabcabc"), uint8(3))
	f.Add([]byte{0, 1, 2, 250, 3, 4, 255, 0, 1, 2, 251, 0, 254, 1}, uint8(70))
	f.Add(bytes.Repeat([]byte{1, 2, 3, 4, 254, 5, 6, 7, 200, 190}, 40), uint8(66))
	f.Fuzz(func(t *testing.T, events []byte, most uint8) {
		spec := Spec{Window: time.Second, Max: 1 + int(most)}
		ref, newest := &reference{spec: spec}, int64(0)
		steady, again := &twin{set: New(spec), state: store{}}, &twin{set: New(spec), state: store{}}
		for k, b := range events {
			switch {
			case b == 255:
				again.set.Changes(again.state.put)
				again.set = again.state.load(t, spec)
			case b >= 250:
				steady.set.Changes(steady.state.put)
			case b >= 240:
				newest += int64(b-239) * 150_000
			default:
				at := newest + int64(b%16-12)*80_000
				newest = max(newest, at)
				id := string('a' + rune(b/16))
				if k%3 == 0 {
					id = fmt.Sprint(k) // fills blocks
				}
				want := ref.seen(id, at, newest)
				if steady.set.Seen(id, at, newest) != want || again.set.Seen(id, at, newest) != want {
					t.Fatalf("event %d: %s at %d, newest %d: want duplicate %t", k, id, at, newest, want)
				}
			}
		}
		compareStates(t, []*twin{steady, again})
	})
}
