package due

import (
	"math/rand/v2"
	"slices"
	"strconv"
	"testing"
)

func TestLaneGivesKeysByTimeThenKey(t *testing.T) {
	const seed = 3
	rng := rand.New(rand.NewPCG(seed, 0))
	for round := range 50 {
		var want []Entry
		e := Lane{Width: []int64{1, 3, 1000, 0}[round%4]}
		for i := range rng.IntN(200) {
			entry := Entry{rng.Int64N(20) - 10, strconv.Itoa(i)}
			want = append(want, entry)
			e.Push(entry)
			if round%3 == 0 && i == 20 { // later entries come before and after where the watermark is
				e.Until(2)
			}
		}
		slices.SortFunc(want, func(a, b Entry) int {
			switch {
			case a.At < b.At || a.At == b.At && a.Key < b.Key:
				return -1
			}
			return 1
		})
		for limit := range 30 {
			due := 0
			for _, w := range want {
				if w.At <= 3 {
					due++
				}
			}
			if got := e.Over(3, limit); got != (due > limit) {
				t.Fatalf("seed %d, round %d: %d are due, over %d: %v", seed, round, due, limit, got)
			}
		}
		for i, w := range want {
			if e.Len() != len(want)-i || e.Until(w.At-1) || !e.Until(w.At) {
				t.Fatalf("seed %d, round %d: entry %d, %v, of %d is not the next of %d", seed, round, i, w, len(want), e.Len())
			}
			if got := e.Pop(); got != w {
				t.Fatalf("seed %d, round %d: entry %d is %v, want %v", seed, round, i, got, w)
			}
		}
	}
}

func TestLaneLetsGoOfTheLastEntriesOnly(t *testing.T) {
	q := Lane{Width: 10}
	const keys = 100_000
	push := func(from int64) {
		for i := range int64(keys) {
			if at := i * 7 % 1000; at >= from {
				q.Push(Entry{at, "key" + strconv.FormatInt(i, 10)})
			}
		}
	}
	push(0)
	whole := q.Bytes()
	if _, cut := q.Horizon(); cut || q.Len() != keys || whole > 18*keys || whole < 10*keys {
		t.Fatalf("%d of %d entries take %d bytes, cut: %t", q.Len(), keys, whole, cut)
	}
	q.Trim(whole / 3)
	if q.Bytes() > whole/3 {
		t.Fatalf("%d bytes after a cut to a third of %d", q.Bytes(), whole)
	}
	if at, cut := q.Horizon(); !cut || q.Len() == 0 {
		t.Fatalf("cut: %t, %d entries are left", cut, q.Len())
	} else {
		kept := q.Len()
		q.Push(Entry{at, "late"})
		if q.Len() != kept {
			t.Fatal("an entry at the horizon was taken, though others there are gone")
		}
	}
	popped := 0
	for from := int64(0); ; popped++ {
		horizon, cut := q.Horizon()
		if cut && !q.Until(horizon-1) {
			q.Reset()
			push(horizon) // as from a scan
			q.Trim(whole / 3)
			from = horizon
		}
		if q.Len() == 0 {
			break
		}
		at := q.Pop().At
		if horizon, cut = q.Horizon(); at < from || cut && at >= horizon {
			t.Fatalf("an entry for %d after %d, the horizon is %d", at, from, horizon)
		}
		from = at
	}
	if popped != keys {
		t.Fatalf("%d of %d entries came", popped, keys)
	}
	if q.Bytes() > 1<<20 {
		t.Errorf("an empty queue takes %d bytes", q.Bytes())
	}
}
