package control_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/afterbay/afterbay/internal/control"
)

func push(t *testing.T, q *control.FairQueue[int], now time.Time, e control.Entry[int]) {
	t.Helper()
	if err := q.Push(now, e); err != nil {
		t.Fatal(err)
	}
}

var everyClass = []control.Class{control.HighClass, control.NormalClass, control.LowClass}

// shares takes n entries at a time and counts their classes.
func shares(q *control.FairQueue[int], now time.Time, n int) (counts [3]int) {
	for range n {
		e, _ := q.Take(now)
		counts[e.Class-control.HighClass]++
	}
	return counts
}

func TestClassesShareByWeightAndAge(t *testing.T) {
	q := must(control.NewFairQueue[int](control.FairOptions{}))
	for range 1000 {
		for _, class := range everyClass {
			push(t, q, dawn, control.Entry[int]{Class: class})
		}
	}
	for _, c := range []struct {
		after time.Duration
		want  [3]int // of two rounds
	}{
		{0, [3]int{16, 8, 2}},
		{5 * time.Second, [3]int{16, 12, 2}},
		{10 * time.Second, [3]int{16, 16, 4}},
		{30 * time.Second, [3]int{16, 16, 8}},
		{time.Hour, [3]int{16, 16, 16}},
	} {
		n := c.want[0] + c.want[1] + c.want[2]
		if got := shares(q, dawn.Add(c.after), n); got != c.want {
			t.Errorf("after %v: %v of %d, want %v", c.after, got, n, c.want)
		}
	}
}

func TestClassesWithoutWorkLeaveTheirShare(t *testing.T) {
	q := must(control.NewFairQueue[int](control.FairOptions{}))
	for range 100 {
		push(t, q, dawn, control.Entry[int]{Class: control.LowClass})
	}
	if got := shares(q, dawn, 50); got != [3]int{0, 0, 50} {
		t.Fatal(got)
	}
	push(t, q, dawn, control.Entry[int]{Class: control.HighClass})
	if got := shares(q, dawn, 2); got[0] != 1 {
		t.Errorf("urgent work waits for more than one: %v", got)
	}
}

// TestTenantsOfAClassShareWithinATurn lets tenants bring what they like, and
// compares what those got that had work all the time.
func TestTenantsOfAClassShareWithinATurn(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		q := must(control.NewFairQueue[int](control.FairOptions{}))
		costMax := rapid.IntRange(1, 64).Draw(t, "most")
		tenants := rapid.IntRange(2, 5).Draw(t, "tenants")
		cost := rapid.IntRange(1, costMax)
		for tenant := range tenants {
			for range rapid.IntRange(50, 100).Draw(t, "entries") {
				if err := q.Push(dawn, control.Entry[int]{Tenant: fmt.Sprint(tenant), Cost: cost.Draw(t, "cost"), Value: tenant}); err != nil {
					t.Fatal(err)
				}
			}
		}
		got := make([]int, tenants)
		for q.Tenant("0") > 0 && q.Tenant("1") > 0 {
			e, _ := q.Take(dawn)
			got[e.Value] += e.Cost
			if off := got[0] - got[1]; off > 2*costMax || off < -2*costMax {
				t.Fatalf("two tenants got %d and %d in entries of at most %d", got[0], got[1], costMax)
			}
		}
	})
}

func TestTenantsTakeTurns(t *testing.T) {
	q := must(control.NewFairQueue[int](control.FairOptions{}))
	for range 1000 {
		push(t, q, dawn, control.Entry[int]{Tenant: "loud", Value: 0})
	}
	for range 10 {
		q.Take(dawn)
	}
	for range 3 {
		push(t, q, dawn, control.Entry[int]{Tenant: "quiet", Value: 1})
	}
	var order []int
	for range 8 {
		e, _ := q.Take(dawn)
		order = append(order, e.Value)
	}
	if want := []int{1, 0, 1, 0, 1, 0, 0, 0}; !slices.Equal(order, want) {
		t.Errorf("%v, want %v", order, want)
	}
}

// latencies lets one worker serve what arrives, sorted by time, in turns of a
// millisecond, and returns how long the entries of quiet tenants took.
func latencies(arrivals []arrival, tenantOf func(int) string) (took []time.Duration) {
	q := must(control.NewFairQueue[int](control.FairOptions{TenantMax: 1000}))
	for now, next := dawn, 0; next < len(arrivals) || q.Len() > 0; {
		for next < len(arrivals) && !arrivals[next].at.After(now) {
			a := arrivals[next]
			_ = q.Push(a.at, control.Entry[int]{Tenant: tenantOf(a.tenant), Value: next}) // a loud one is turned away
			next++
		}
		e, ok := q.Take(now)
		if !ok {
			now = arrivals[next].at
			continue
		}
		now = now.Add(time.Millisecond)
		if a := arrivals[e.Value]; a.tenant > 0 {
			took = append(took, now.Sub(a.at))
		}
	}
	slices.Sort(took)
	return took
}

type arrival struct {
	at     time.Time
	tenant int // 0 is loud
}

// TestLoudTenantLeavesOthersTheirLatency gives nine tenants a quarter of a worker,
// and a tenth one a hundred times as much as each of them.
func TestLoudTenantLeavesOthersTheirLatency(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	const mean = 36 * time.Millisecond // between two of a tenant
	var quiet, all []arrival
	for tenant := range 10 {
		between := float64(mean)
		if tenant == 0 {
			between /= 100
		}
		for at := dawn; at.Before(dawn.Add(time.Minute)); at = at.Add(time.Duration(random.ExpFloat64() * between)) {
			all = append(all, arrival{at, tenant})
			if tenant > 0 {
				quiet = append(quiet, arrival{at, tenant})
			}
		}
	}
	byTime := func(a, b arrival) int { return a.at.Compare(b.at) }
	slices.SortStableFunc(quiet, byTime)
	slices.SortStableFunc(all, byTime)
	p99 := func(took []time.Duration) time.Duration { return took[len(took)*99/100] }
	own := func(tenant int) string { return fmt.Sprint(tenant) }
	alone, beside := p99(latencies(quiet, own)), p99(latencies(all, own))
	together := latencies(all, func(int) string { return "" })
	t.Logf("p99 alone %v, beside the loud one %v, in one queue %v", alone, beside, p99(together))
	if beside > 2*alone {
		t.Errorf("p99 %v beside a loud tenant, %v without", beside, alone)
	}
	if p99(together) < 10*alone {
		t.Errorf("p99 %v in one queue, %v without the loud tenant: this proves nothing", p99(together), alone)
	}
}

func TestUrgentEntryTakesThoseOfItsKeyAlong(t *testing.T) {
	q := must(control.NewFairQueue[int](control.FairOptions{}))
	for i := range 20 {
		push(t, q, dawn, control.Entry[int]{Class: control.LowClass, Tenant: "a", Value: 100 + i})
	}
	push(t, q, dawn, control.Entry[int]{Class: control.LowClass, Tenant: "a", Key: "k", Value: 1})
	push(t, q, dawn, control.Entry[int]{Class: control.NormalClass, Tenant: "a", Key: "k", Value: 2})
	push(t, q, dawn, control.Entry[int]{Class: control.HighClass, Tenant: "a", Key: "k", Value: 3})
	push(t, q, dawn, control.Entry[int]{Class: control.LowClass, Tenant: "b", Key: "k", Value: 4})
	if got := q.Stats().Waiting; got != [3]int{4, 0, 20} {
		t.Fatalf("%v wait", got)
	}
	var order []int
	for range 4 {
		e, _ := q.Take(dawn)
		order = append(order, e.Value)
	}
	if want := []int{1, 2, 3, 4}; !slices.Equal(order, want) {
		t.Errorf("%v, want %v", order, want)
	}
}

func TestEntriesOfAKeyStayTogetherAsSomeLeave(t *testing.T) {
	q := must(control.NewFairQueue[int](control.FairOptions{}))
	k := control.Entry[int]{Class: control.LowClass, Key: "k"}
	for k.Value = range 3 {
		push(t, q, dawn, k)
	}
	q.Take(dawn)
	k.Value = 3
	push(t, q, dawn, k)
	k.Value, k.Class = 4, control.HighClass
	push(t, q, dawn, k)
	for want := 1; want <= 4; want++ {
		if e, _ := q.Take(dawn); e.Value != want {
			t.Errorf("%d left where %d was next", e.Value, want)
		}
	}
}

// TestEveryEntryLeavesOnceInTheOrderOfItsKey pushes and takes at random.
func TestEveryEntryLeavesOnceInTheOrderOfItsKey(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		o := control.FairOptions{Max: rapid.IntRange(1, 40).Draw(t, "max")}
		o.TenantMax = rapid.IntRange(1, o.Max).Draw(t, "of a tenant")
		var (
			q     = must(control.NewFairQueue[int](o))
			now   = dawn
			next  int
			byKey = make(map[string][]int) // that wait
			all   = make(map[int]control.Entry[int])
		)
		take := func(t *rapid.T) {
			e, ok := q.Take(now)
			if want := all[e.Value]; ok != (len(all) > 0) || want != e {
				t.Fatalf("%+v, %v left, want %+v of %d", e, ok, want, len(all))
			}
			if !ok {
				return
			}
			delete(all, e.Value)
			if e.Key != "" {
				if first := byKey[e.Key][0]; e.Value != first {
					t.Fatalf("%d of key %q left before %d", e.Value, e.Key, first)
				}
				byKey[e.Key] = byKey[e.Key][1:]
			}
		}
		push := func(t *rapid.T) {
			e := control.Entry[int]{
				Class: rapid.SampledFrom(everyClass).Draw(t, "class"), Tenant: rapid.SampledFrom([]string{"a", "b", "c", ""}).Draw(t, "tenant"),
				Key: rapid.SampledFrom([]string{"", "x", "y", "z"}).Draw(t, "key"), Cost: rapid.IntRange(1, 100).Draw(t, "cost"), Value: next,
			}
			next++
			err := q.Push(now, e)
			switch {
			case err == nil && len(all) < o.Max:
				all[e.Value] = e
				if e.Key != "" {
					byKey[e.Key] = append(byKey[e.Key], e.Value)
				}
			case errors.Is(err, control.ErrQueueFull) && len(all) == o.Max:
			case errors.Is(err, control.ErrTenantFull) && len(all) >= o.TenantMax:
			default:
				t.Fatalf("%v with %d of %d", err, len(all), o.Max)
			}
		}
		t.Repeat(map[string]func(*rapid.T){
			"": func(t *rapid.T) {
				s, byTenant := q.Stats(), 0
				for _, tenant := range []string{"a", "b", "c", ""} {
					n := q.Tenant(tenant)
					if byTenant += n; n > o.TenantMax {
						t.Fatalf("%d of tenant %q", n, tenant)
					}
				}
				if q.Len() != len(all) || byTenant != len(all) || s.Waiting[0]+s.Waiting[1]+s.Waiting[2] != len(all) {
					t.Fatalf("%d, %d, %v wait, want %d", q.Len(), byTenant, s.Waiting, len(all))
				}
			},
			"push":       push,
			"push more":  push,
			"take":       take,
			"wait":       func(t *rapid.T) { now = now.Add(time.Duration(rapid.IntRange(0, 60).Draw(t, "s")) * time.Second) },
			"take a lot": func(t *rapid.T) { repeat(rapid.IntRange(1, 50).Draw(t, "n"), func() { take(t) }) },
		})
		repeat(len(all)+1, func() { take(t) })
	})
}

func repeat(n int, f func()) {
	for range n {
		f()
	}
}

// TestLargeCostsLeaveNoTurnsToSmallOnes sees that the turns of a queue are as short
// again after it was empty.
func TestLargeCostsLeaveNoTurnsToSmallOnes(t *testing.T) {
	q := must(control.NewFairQueue[int](control.FairOptions{}))
	push(t, q, dawn, control.Entry[int]{Class: control.HighClass, Tenant: "a", Cost: 1000})
	q.Take(dawn)
	for range 100 {
		push(t, q, dawn, control.Entry[int]{Class: control.HighClass, Tenant: "a", Value: 0})
		push(t, q, dawn, control.Entry[int]{Class: control.HighClass, Tenant: "b", Value: 1})
		push(t, q, dawn, control.Entry[int]{Class: control.LowClass, Tenant: "b"})
	}
	for i := range 8 {
		if e, _ := q.Take(dawn); e.Value != i%2 {
			t.Errorf("entry %d is of tenant %q", i, e.Tenant)
		}
	}
	if e, _ := q.Take(dawn); e.Class != control.LowClass {
		t.Errorf("the ninth is %v", e.Class)
	}
}

func TestQueueOfATenantIsBounded(t *testing.T) {
	q := must(control.NewFairQueue[int](control.FairOptions{Max: 3, TenantMax: 2}))
	a := control.Entry[int]{Tenant: "a"}
	push(t, q, dawn, a)
	push(t, q, dawn, a)
	if err := q.Push(dawn, a); !errors.Is(err, control.ErrTenantFull) {
		t.Errorf("a third: %v", err)
	}
	push(t, q, dawn, control.Entry[int]{Tenant: "b"})
	if err := q.Push(dawn, control.Entry[int]{Tenant: "b"}); !errors.Is(err, control.ErrQueueFull) {
		t.Errorf("a fourth: %v", err)
	}
	q.Take(dawn)
	push(t, q, dawn, a)
}

func TestClassesHaveNames(t *testing.T) {
	if got := fmt.Sprint(control.Class(-7), control.HighClass, control.NormalClass, control.LowClass, control.Class(9)); got != "high high normal low low" {
		t.Error(got)
	}
}

func BenchmarkFairQueue(b *testing.B) {
	q := must(control.NewFairQueue[int](control.FairOptions{Max: 200_000}))
	names := make([]string, 1000)
	for i := range names {
		names[i] = fmt.Sprint(i)
	}
	entry := func(i int) control.Entry[int] {
		return control.Entry[int]{Class: everyClass[i%3], Tenant: names[i%1000], Key: names[i*7%1000]}
	}
	for i := range 100_000 {
		_ = q.Push(dawn, entry(i))
	}
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		q.Take(dawn)
		_ = q.Push(dawn, entry(i))
	}
}

func ExampleFairQueue() {
	queue, err := control.NewFairQueue[string](control.FairOptions{})
	if err != nil {
		panic(err)
	}
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	for n := range 3 {
		_ = queue.Push(now, control.Entry[string]{Tenant: "loud", Value: fmt.Sprint("loud ", n)})
	}
	_ = queue.Push(now, control.Entry[string]{Tenant: "quiet", Value: "quiet"})
	_ = queue.Push(now, control.Entry[string]{Tenant: "loud", Class: control.HighClass, Value: "urgent"})
	for queue.Len() > 0 {
		entry, _ := queue.Take(now)
		fmt.Println(entry.Value)
	}
	// Output:
	// urgent
	// loud 0
	// quiet
	// loud 1
	// loud 2
}
