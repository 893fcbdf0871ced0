package keys

import (
	"bytes"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/afterbay/afterbay/feature"
	"github.com/afterbay/afterbay/output"
	"github.com/afterbay/afterbay/silence"
	"github.com/afterbay/afterbay/step"
	"github.com/afterbay/afterbay/stream"
	"github.com/afterbay/afterbay/stream/memory"
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

func follow(t *testing.T) *following {
	t.Helper()
	w, err := feature.ParseWindow("60s/5s")
	if err != nil {
		t.Fatal(err)
	}
	set, err := feature.NewSet([]feature.Spec{
		{Name: "n", Windows: []feature.Window{w}, Aggregates: []feature.Aggregate{feature.Count}}, {Name: "gap", Elapsed: true},
	})
	if err != nil {
		t.Fatal(err)
	}
	f := &following{
		T: t, state: memory.State{}, step: output.NewWriter(&output.Form{}),
		plan: &Plan{Terms: silence.Terms{Sets: [2]*feature.Set{set}, Retention: time.Minute, Keep: time.Hour}, Calls: []*step.Call{{Name: "f"}}, Keyed: true},
	}
	f.open()
	return f
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

// event takes an event of a key, commits, and returns what its features are and
// which timers are awaited.
func (f *following) event(key string, at, watermark int64) string {
	f.Helper()
	k, err := f.memory.Get([]byte(key))
	if err != nil {
		f.Fatal(err)
	}
	ended := f.memory.Come(k, at, watermark)
	k.Observe(f.plan, 0, ended, at)
	if err := f.plan.Sets[0].Add(k.Cells[0], 0, at, 1); err != nil {
		f.Fatal(err)
	}
	values := make([]float64, 1)
	f.plan.Sets[0].Read(k.Cells[0], 0, at, values)
	call, err := f.memory.Call(k, f.plan.Calls[0])
	if err != nil {
		f.Fatal(err)
	}
	if len(call.Keyed.Timers) == 0 {
		f.memory.Keep(k, call, &step.Keyed{Timers: []step.Timer{{Name: "t", At: at + 90e6}}})
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
			f.memory.Keep(k, call, &step.Keyed{})
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
	all, one, again := follow(t), follow(t), follow(t)
	key, at, watermark := "", int64(0), int64(0)
	for i := range 3000 {
		key = fmt.Sprint("k", rng.IntN(12))
		at += rng.Int64N(20e6)
		if rng.IntN(100) == 0 {
			at += 3000e6
		}
		watermark = max(watermark, at-rng.Int64N(30e6))
		want := all.event(key, at, watermark)
		if got := one.event(key, at, watermark); got != want {
			t.Fatalf("event %d: %s with one key in memory, want %s", i, got, want)
		}
		if got := again.event(key, at, watermark); got != want {
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
