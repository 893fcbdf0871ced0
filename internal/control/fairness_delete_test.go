package control_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/afterbay/afterbay/internal/control"
)

// TestEntriesThatAreGoneTakeNoTurn deletes some of what waits. The others leave as
// often as they came, those of a key in their order, and there is room again.
func TestEntriesThatAreGoneTakeNoTurn(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	for range 200 {
		const count = 60
		q := must(control.NewFairQueue[int](control.FairOptions{Max: count}))
		keys := make([]string, count)
		for i := range count {
			if key := random.IntN(8); key > 0 {
				keys[i] = fmt.Sprint(key)
			}
			push(t, q, dawn, control.Entry[int]{
				Class: control.Class(random.IntN(3) - 1), Tenant: fmt.Sprint(random.IntN(3)), Key: keys[i], Cost: random.IntN(3), Value: i,
			})
		}
		gone := map[int]bool{}
		for range random.IntN(3) {
			some := random.IntN(count)
			for range some {
				gone[random.IntN(count)] = true
			}
			q.DeleteFunc(func(i int) bool { return gone[i] })
			if q.Len() != count-len(gone) {
				t.Fatalf("%d wait, of %d without %d", q.Len(), count, len(gone))
			}
		}
		for i := range gone {
			push(t, q, dawn, control.Entry[int]{Key: "0", Value: count + i})
		}
		if err := q.Push(dawn, control.Entry[int]{}); !errors.Is(err, control.ErrQueueFull) {
			t.Fatal(err)
		}
		newest, left := map[string]int{}, 0
		for e, ok := q.Take(dawn); ok; e, ok = q.Take(dawn) {
			if left++; e.Value < count && (gone[e.Value] || e.Key != keys[e.Value]) {
				t.Fatalf("entry %d of key %q, which was of %q, gone: %t", e.Value, e.Key, keys[e.Value], gone[e.Value])
			}
			if e.Key != "" && e.Key != "0" && newest[e.Key] > e.Value {
				t.Fatalf("key %s: %d before %d", e.Key, newest[e.Key], e.Value)
			}
			newest[e.Key] = e.Value
		}
		if taken := q.Stats().Taken; left != count || taken[0]+taken[1]+taken[2] != count {
			t.Fatalf("%d were taken, %v by class", left, taken)
		}
	}
}

func TestDeletedEntriesLeaveNoDebt(t *testing.T) {
	q := must(control.NewFairQueue[int](control.FairOptions{}))
	push(t, q, dawn, control.Entry[int]{Tenant: "loud", Cost: 64, Value: -1})
	q.DeleteFunc(func(i int) bool { return i < 0 })
	var order []int
	for i := range 4 {
		push(t, q, dawn, control.Entry[int]{Tenant: fmt.Sprint(i / 2), Value: i})
	}
	for e, ok := q.Take(dawn); ok; e, ok = q.Take(dawn) {
		order = append(order, e.Value)
	}
	if !slices.Equal(order, []int{0, 2, 1, 3}) {
		t.Error(order)
	}
}
