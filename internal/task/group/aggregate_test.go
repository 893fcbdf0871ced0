package group

import (
	"bytes"
	"math"
	"math/big"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/afterbay/afterbay/internal/event/expression"
	"github.com/afterbay/afterbay/internal/event/value"
	"github.com/afterbay/afterbay/internal/state/packed"
	"github.com/afterbay/afterbay/internal/task/operator"
	"github.com/afterbay/afterbay/internal/test/reference"
)

// TestSumsAreExact adds numbers of very different sizes, in several orders and in parts.
func TestSumsAreExact(t *testing.T) {
	seed := rand.Uint64()
	rng := rand.New(rand.NewPCG(seed, 0))
	g := &operator.Group{Values: []operator.GroupValue{{Aggregate: operator.AggregateSum}}}
	for round := range 2000 {
		var numbers []float64
		for range 1 + rng.IntN(40) {
			x := (rng.Float64() - 0.5) * math.Pow(2, float64(rng.IntN(4)*rng.IntN(200)-200))
			if numbers = append(numbers, x); rng.IntN(3) == 0 {
				numbers = append(numbers, -x) // of which nothing is left
			}
			if rng.IntN(4) == 0 {
				numbers = append(numbers, float64(rng.IntN(100))/10, math.Ldexp(1, rng.IntN(110)-55), 0)
			}
		}
		want := reference.Sum(numbers...)
		for range 3 {
			rng.Shuffle(len(numbers), func(i, j int) { numbers[i], numbers[j] = numbers[j], numbers[i] })
			lists, cut := [2][]aggregate{{{}}, {{}}}, rng.IntN(len(numbers)+1)
			for i, x := range numbers {
				of := &lists[min(i/max(cut, 1), 1)][0]
				of.n++
				of.take(operator.AggregateSum, []float64{x})
			}
			r := packed.Reader{Rest: appendAggregates(nil, lists[1])}
			second := aggregatesFrom(&r)
			if merge(g, lists[0], second); !r.Whole() || lists[0][0].n != int64(len(numbers)) {
				t.Fatalf("seed %d, round %d: %+v of %d numbers", seed, round, lists, len(numbers))
			}
			again := []aggregate{{}}
			if merge(g, again, lists[0]); !bytes.Equal(appendAggregates(nil, again), appendAggregates(nil, lists[0])) {
				t.Fatalf("seed %d, round %d: %v is restored as %v", seed, round, lists[0], again)
			}
			if got := lists[0][0].sum(); got != want {
				t.Fatalf("seed %d, round %d: the sum of %v is %v, want %v", seed, round, numbers, got, want)
			}
		}
	}
}

// TestHalvesAreRoundedToEven has sums that are half way between two numbers, and next to it.
func TestHalvesAreRoundedToEven(t *testing.T) {
	const half, tiny = 0x1p-53, 0x1p-120
	for _, numbers := range [][]float64{{1, half}, {1, half, tiny}, {1, half, -tiny}, {1 + 2*half, half}, {1 + 2*half, half, -tiny}, {-1, -half, -tiny}, {-1, -half, tiny}, {1, half, half}, nil} {
		var a aggregate
		for _, x := range slices.Backward(numbers) {
			a.take(operator.AggregateSum, []float64{x})
		}
		if got, want := a.sum(), reference.Sum(numbers...); got != want {
			t.Errorf("the sum of %v is %x, want %x", numbers, got, want)
		}
	}
}

// TestAggregatesOfIntsAreInts aggregates ints of all sizes, in several orders and in parts.
func TestAggregatesOfIntsAreInts(t *testing.T) {
	seed := rand.Uint64()
	rng := rand.New(rand.NewPCG(seed, 0))
	schema := &value.Schema{}
	slot, err := schema.Add("x", value.Type{Kind: value.Int})
	if err != nil {
		t.Fatal(err)
	}
	program, failure := expression.Compile("x", slotNames{"x": slot})
	if failure != nil {
		t.Fatal(failure)
	}
	g := &operator.Group{Values: []operator.GroupValue{
		{Aggregate: operator.AggregateSum, Value: program}, {Aggregate: operator.AggregateMin, Value: program}, {Aggregate: operator.AggregateMax, Value: program},
	}}
	row := &schema.NewRows(1)[0]
	beyond := 0
	for round := range 2000 {
		var ints []int64
		sum := new(big.Int)
		for range 1 + rng.IntN(8) {
			n := int64(rng.Uint64()) >> rng.IntN(64)
			switch rng.IntN(8) {
			case 0:
				n = math.MinInt64
			case 1:
				n = math.MaxInt64 - rng.Int64N(3)
			case 2:
				n = 1<<53 + 1 - rng.Int64N(3)
			}
			ints = append(ints, n)
			sum.Add(sum, big.NewInt(n))
		}
		for range 3 {
			rng.Shuffle(len(ints), func(i, j int) { ints[i], ints[j] = ints[j], ints[i] })
			into := make([]aggregate, len(g.Values))
			for _, n := range ints {
				row.SetInt(slot, n)
				of, err := aggregatesOf(g, row)
				if err != nil {
					t.Fatal(err)
				}
				r := packed.Reader{Rest: appendAggregates(nil, of)}
				merge(g, into, aggregatesFrom(&r))
			}
			got, ok := into[0].int()
			if ok != sum.IsInt64() || ok && got != sum.Int64() {
				t.Fatalf("seed %d, round %d: the sum of %v is %d, %v, want %v", seed, round, ints, got, ok, sum)
			}
			if !ok {
				beyond++
			}
			least, _ := into[1].int()
			most, _ := into[2].int()
			if least != slices.Min(ints) || most != slices.Max(ints) {
				t.Fatalf("seed %d, round %d: %v are from %d to %d", seed, round, ints, least, most)
			}
		}
	}
	if beyond < 100 {
		t.Errorf("only %d sums are beyond an int", beyond)
	}
}
