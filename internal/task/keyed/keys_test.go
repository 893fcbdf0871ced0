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
	"github.com/afterbay/afterbay/internal/task/operator"
	"github.com/afterbay/afterbay/internal/task/output"
	"github.com/afterbay/afterbay/stream"
	"github.com/afterbay/afterbay/udf"
)

var partition = stream.Partition{Topic: "in"}

// following is a memory over a state of its own that follows events in steps of one.
type following struct {
	*testing.T
	plan   *Plan
	state  memory.State
	memory *Memory
	step   output.Writer
	dirty  []*Key
}

func follow(t *testing.T, sets [2]*feature.Set) *following {
	t.Helper()
	f := &following{
		T: t, state: memory.State{}, step: output.NewWriter(&output.Form{}),
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
	if f.memory, err = Open(f.plan, partition, f.state, 1<<20); err != nil {
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
		f.memory.Keep(k, call, &udf.Keyed{Timers: []udf.Timer{{Name: "t", At: at + 90e6}}})
	}
	f.touch(k)
	fired := f.timers(watermark)
	never := func(string) bool { return false }
	if _, err := f.memory.Expire(watermark, 1000, never, f.touch); err != nil {
		f.Fatal(err)
	}
	for _, k := range f.dirty {
		f.memory.Seal(k, &f.step)
	}
	f.dirty = f.dirty[:0]
	f.state.Apply(f.step.Changes...)
	f.step = f.step.Reset()
	return fmt.Sprint(ended, values, fired)
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
			f.memory.Keep(k, call, &udf.Keyed{})
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
