package keyed

import (
	"bytes"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/afterbay/afterbay/internal/feature"
	"github.com/afterbay/afterbay/internal/log/memory"
	"github.com/afterbay/afterbay/internal/task/async"
	"github.com/afterbay/afterbay/internal/task/due"
	"github.com/afterbay/afterbay/internal/task/operator"
	"github.com/afterbay/afterbay/internal/task/output"
	"github.com/afterbay/afterbay/stream"
)

var partition = stream.Partition{Topic: "in"}

// following is a memory over a state of its own that follows events in steps of one.
type following struct {
	*testing.T
	plan   *Plan
	state  memory.State
	memory *Memory
	events *async.Queue
	step   output.Writer
	dirty  []*Key
}

func follow(t *testing.T, sets [2]*feature.Set) *following {
	t.Helper()
	f := &following{
		T: t, state: memory.State{}, events: async.NewQueue(true), step: output.NewWriter(&output.Form{}),
		plan: &Plan{Terms: Terms{Sets: sets, Retention: time.Minute, Keep: time.Hour}, Calls: []*operator.Call{{Name: "f"}}, Keyed: true},
	}
	f.open()
	return f
}

// setOf returns the set of features with these names: a window, or "gap", or "last".
func setOf(t *testing.T, names ...string) *feature.Set {
	t.Helper()
	var specs []feature.Spec
	for _, name := range names {
		spec := feature.Spec{Name: name, Aggregates: []feature.Aggregate{feature.Count}}
		switch name {
		case "":
			return nil
		case "gap":
			spec.Elapsed, spec.Aggregates = true, nil
		case "last":
			spec.Last = 3
		default:
			w, err := feature.ParseWindow(name)
			if err != nil {
				t.Fatal(err)
			}
			spec.Windows = []feature.Window{w}
		}
		specs = append(specs, spec)
	}
	set, err := feature.NewSet(specs)
	if err != nil {
		t.Fatal(err)
	}
	return set
}

func (f *following) open() {
	f.Helper()
	var err error
	if f.memory, err = Open(f.plan, partition, f.state, &due.Queue{}, f.events, 1<<20); err != nil {
		f.Fatal(err)
	}
}

func (f *following) touch(k *Key) {
	if !k.Dirty {
		k.Dirty = true
		f.dirty = append(f.dirty, k)
	}
}

// event takes an event of a key, which the features of the sets that counts has a
// bit of count, commits, and returns what its features are and which timers are
// awaited.
func (f *following) event(key string, at, watermark int64, counts int) string {
	f.Helper()
	k, err := f.memory.Get([]byte(key))
	if err != nil {
		f.Fatal(err)
	}
	ended := f.memory.Come(k, at, watermark)
	var values []float64
	for i, set := range f.plan.Sets {
		k.Observe(f.plan, i, ended, at)
		for n := 0; set != nil && n < set.Len(); n++ {
			if counts>>i&1 != 0 {
				if err := set.Add(k.Cells[i], n, at, 1); err != nil {
					f.Fatal(err)
				}
			}
			values = append(values, 0)
			set.Read(k.Cells[i], n, at, values[len(values)-1:])
		}
	}
	call, err := f.memory.Call(k, f.plan.Calls[0])
	if err != nil {
		f.Fatal(err)
	}
	if len(call.Keyed.Timers) == 0 {
		f.memory.Keep(k, call, &operator.State{Timers: []operator.Timer{{Name: "t", At: at + 90e6}}})
	}
	f.touch(k)
	fired := f.timers(watermark)
	f.commit(watermark)
	return fmt.Sprint(ended, values, fired)
}

// commit ends silent keys, and applies what changed to the state.
func (f *following) commit(watermark int64) {
	f.Helper()
	if _, err := f.memory.Expire(watermark, 1000, f.touch); err != nil {
		f.Fatal(err)
	}
	for _, k := range f.dirty {
		f.memory.Seal(k, &f.step)
	}
	f.dirty = f.dirty[:0]
	f.state.Apply(f.step.Changes...)
	f.step = f.step.Reset()
}

// timers ends those that are due, and names their keys.
func (f *following) timers(watermark int64) (fired []string) {
	f.Helper()
	for {
		k, _, err := f.memory.Awaited(watermark)
		if err != nil {
			f.Fatal(err)
		}
		if k == nil {
			slices.Sort(fired)
			return fired
		}
		call, err := f.memory.Call(k, f.plan.Calls[0])
		if err != nil {
			f.Fatal(err)
		}
		if timers := call.Keyed.Timers; len(timers) > 0 && timers[0].At <= watermark {
			fired = append(fired, k.Name)
			f.memory.Keep(k, call, &operator.State{})
			f.touch(k)
		}
	}
}

// TestEvictedKeysComeBackAsTheyWere follows events with all keys in memory, with
// one of them, and opened again between events: features, silence, timers and
// what is stored are the same.
func TestEvictedKeysComeBackAsTheyWere(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 0))
	sets := [2]*feature.Set{setOf(t, "60s/5s", "gap")}
	all, one, again := follow(t, sets), follow(t, sets), follow(t, sets)
	key, at, watermark := "", int64(0), int64(0)
	for i := range 3000 {
		key = fmt.Sprint("k", rng.IntN(12))
		at += rng.Int64N(20e6)
		if rng.IntN(100) == 0 {
			at += 3000e6
		}
		watermark = max(watermark, at-rng.Int64N(30e6))
		want := all.event(key, at, watermark, 1)
		if got := one.event(key, at, watermark, 1); got != want {
			t.Fatalf("event %d: %s with one key in memory, want %s", i, got, want)
		}
		if got := again.event(key, at, watermark, 1); got != want {
			t.Fatalf("event %d: %s after a restart, want %s", i, got, want)
		}
		one.memory.Bound(1, 1<<20)
		again.open()
		if i%100 == 0 && (!maps.EqualFunc(one.state, all.state, bytes.Equal) || !maps.EqualFunc(again.state, all.state, bytes.Equal)) {
			t.Fatalf("event %d: other entries are stored", i)
		}
	}
	if n := one.memory.Len(); n != 1 || all.memory.Len() != 12 {
		t.Errorf("%d and %d keys in memory", n, all.memory.Len())
	}
	k, err := Read(all.plan, key, all.state.Get) // it was not silent yet
	if want, _ := all.memory.Get([]byte(key)); err != nil || k.Newest == Never || want.Newest != Never && k.Newest != want.Newest {
		t.Errorf("read: %v, %v", k.Newest, err)
	}
}

// TestKeysThatNoFeatureCountsEndAsOthers has features count some events of a key,
// or none, and restarts between events. The state is the same, and is empty once all
// keys were silent for long enough.
func TestKeysThatNoFeatureCountsEndAsOthers(t *testing.T) {
	seed := rand.Uint64()
	for n, names := range [][2][]string{
		{{"60s/5s"}, {""}}, {{"60s"}, {""}}, {{""}, {"60s"}}, {{"60s"}, {"60s/5s"}},
		{{"60s", "last"}, {""}}, {{"60s"}, {"last"}}, {{"gap"}, {"60s"}}, {{"last", "60s/5s"}, {"gap", "60s"}},
	} {
		t.Run(fmt.Sprint(names), func(t *testing.T) {
			t.Logf("seed %d", seed)
			rng := rand.New(rand.NewPCG(seed, uint64(n)))
			sets := [2]*feature.Set{setOf(t, names[0]...), setOf(t, names[1]...)}
			all, one, again := follow(t, sets), follow(t, sets), follow(t, sets)
			at := int64(0)
			same := func() {
				t.Helper()
				if !maps.EqualFunc(one.state, all.state, bytes.Equal) || !maps.EqualFunc(again.state, all.state, bytes.Equal) {
					t.Fatalf("at %d: %d entries with one key in memory, %d after restarts, %d without: not the same", at, len(one.state), len(again.state), len(all.state))
				}
			}
			event := func(key string, counts int) {
				for _, f := range []*following{all, one, again} {
					f.event(key, at, at, counts)
				}
				one.memory.Bound(1, 1<<20)
				if rng.IntN(3) == 0 {
					again.open()
				}
				same()
			}
			for range 500 {
				if at += rng.Int64N(10e6); rng.IntN(50) == 0 {
					at += rng.Int64N(2 * 3600e6)
				}
				event(fmt.Sprint("k", rng.IntN(20)), rng.IntN(4)&rng.IntN(4))
			}
			again.open()
			for range 2 { // the second time ends what the first one of this key left
				at += 4000e6
				event("last", 0)
			}
			if len(all.state) > 4 { // of "last": a header by set, a timer
				t.Errorf("%d entries are left", len(all.state))
			}
		})
	}
}

// waiting is an event in a queue.
type waiting struct {
	offset, at int64
	ended      Ended
}

// arrive takes an event of a key, which is queued, and returns what silence before it
// ended. If others of the key are queued it waits behind them.
func (f *following) arrive(key string, offset, at, watermark int64) waiting {
	f.Helper()
	k, err := f.memory.Get([]byte(key))
	if err != nil {
		f.Fatal(err)
	}
	event := waiting{offset, at, f.memory.Come(k, at, watermark)}
	k.Observe(f.plan, 0, event.ended, at)
	behind := f.events.Holds(key)
	if !behind {
		k.Observe(f.plan, 1, event.ended, at)
	}
	f.events.Add(offset, []byte(key), async.Head{Behind: behind, Time: at, Watermark: watermark}, 0)
	f.touch(k)
	f.commit(watermark)
	return event
}

// leave ends the first of the queued events of a key, and the next one has its turn.
func (f *following) leave(key string, list []waiting, watermark int64) {
	f.Helper()
	k, err := f.memory.Get([]byte(key))
	if err != nil {
		f.Fatal(err)
	}
	if f.events.Remove(list[0].offset); len(list) == 1 {
		f.memory.LookAgain(k)
	} else {
		next := list[1]
		k.Observe(f.plan, 1, next.ended, next.at)
		f.events.Add(next.offset, []byte(key), async.Head{}, 0)
	}
	f.touch(k)
	f.commit(watermark)
}

// TestKeysThatComeBackKnowTheirQueuedEvents queues events of keys that are read again
// meanwhile: what silence ended before each event is the same.
func TestKeysThatComeBackKnowTheirQueuedEvents(t *testing.T) {
	seed := rand.Uint64()
	for n, names := range [][2][]string{
		{{""}, {"60s"}}, {{""}, {"last", "60s"}}, {{""}, {"last"}}, {{"60s"}, {"60s/5s"}}, {{"60s"}, {"last"}}, {{"last"}, {"60s"}},
	} {
		t.Run(fmt.Sprint(names), func(t *testing.T) {
			t.Logf("seed %d", seed)
			rng := rand.New(rand.NewPCG(seed, uint64(n)))
			sets := [2]*feature.Set{setOf(t, names[0]...), setOf(t, names[1]...)}
			all, one, again := follow(t, sets), follow(t, sets), follow(t, sets)
			queues := map[string][]waiting{}
			newest, watermark := int64(0), int64(0)
			for offset := range int64(4000) {
				key := fmt.Sprint("k", rng.IntN(8))
				if queue := queues[key]; len(queue) > rng.IntN(4) {
					for _, f := range []*following{all, one, again} {
						f.leave(key, queue, watermark)
					}
					queues[key] = queue[1:]
				} else {
					if newest += rng.Int64N(20e6); rng.IntN(50) == 0 {
						newest += 2000e6
					}
					watermark = max(watermark, newest-10e6)
					at := newest - rng.Int64N(200e6) // some are late, and far
					event := all.arrive(key, offset, at, watermark)
					if got := one.arrive(key, offset, at, watermark); got != event {
						t.Fatalf("event %d: %v with one key in memory, want %v", offset, got, event)
					}
					if got := again.arrive(key, offset, at, watermark); got != event {
						t.Fatalf("event %d: %v after a restart, want %v", offset, got, event)
					}
					queues[key] = append(queue, event)
				}
				one.memory.Bound(1, 1<<20)
				again.open()
				if !maps.EqualFunc(one.state, all.state, bytes.Equal) || !maps.EqualFunc(again.state, all.state, bytes.Equal) {
					t.Fatalf("event %d: other entries are stored", offset)
				}
			}
		})
	}
}
