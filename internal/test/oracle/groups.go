package oracle

import (
	"cmp"
	"maps"
	"math"
	"math/big"
	"slices"
)

// ranked returns the names of groups of entries, at most this many. The largest group is first;
// groups of equal size are ordered by less.
func ranked(of map[string][]entry, most int, less func(a, b string) int) []string {
	names := slices.SortedFunc(maps.Keys(of), func(a, b string) int { return cmp.Or(len(of[b])-len(of[a]), less(a, b)) })
	return names[:min(most, len(names))]
}

// groups sets the columns of entries in groups. It computes each aggregate of each group as if
// there were no other group. With before, it sets the columns that are read before the addition.
func (t *turn) groups(f *Feature, prefix, suffix string, entries []entry, before bool) {
	of := map[string][]entry{}
	for _, e := range entries {
		of[e.group] = append(of[e.group], e)
	}
	columns := map[string]map[string]Value{}
	for _, a := range f.Aggregates {
		if first := a == "previous" && f.Last == ""; first == before {
			columns[a] = map[string]Value{}
		}
	}
	for _, name := range ranked(of, cmp.Or(f.Take, 100), cmp.Compare[string]) {
		alone, sub := *f, *t
		alone.Per, sub.values = nil, map[string]Value{}
		if before {
			alone.Aggregates, alone.Last = []string{"previous"}, "read with others"
		}
		sub.aggregate(&alone, "", "", of[name])
		for a := range columns {
			columns[a][name] = sub.values[a]
		}
	}
	for a, column := range columns {
		t.values[prefix+a+suffix] = Value{Kind: Map, Entries: column}
	}
}

// grouped reports whether a group accepts a value. Larger values are refused, because their sums or
// squares may be out of range.
func (f *Feature) grouped(value float64) bool {
	switch {
	case f.AnyKind || f.counts():
		return true
	case f.Decimals >= 0:
		return math.Abs(value) <= 1<<48
	}
	return math.Abs(value) <= 0x1p500
}

// top returns the most frequent values, with the number of entries of each.
func (f *Feature) top(entries []entry) Value {
	of, values := map[string][]entry{}, map[string]Value{}
	for _, e := range entries {
		of[e.any.text()] = append(of[e.any.text()], e)
		values[e.any.text()] = e.any
	}
	less := func(a, b string) int {
		x, y := values[a], values[b]
		return cmp.Or(cmp.Compare(x.Int, y.Int), cmp.Compare(x.String, y.String), cmp.Compare(a, b)) // false is before true
	}
	top := Value{Kind: Map, Entries: map[string]Value{}}
	for _, name := range ranked(of, cmp.Or(f.Take, 10), less) {
		top.Entries[name] = Value{Kind: Int, Int: int64(len(of[name]))}
	}
	return top
}

// ewma returns the mean of values, each with a weight of 2^-(age/half-life).
func (f *Feature) ewma(entries []entry, at int64, scale float64) Value {
	var sum, size, weights float64
	for _, e := range entries {
		w := math.Exp2(-float64(at-e.at) / float64(f.HalfLife))
		sum, size, weights = sum+w*e.value, size+w*math.Abs(e.value), weights+w
	}
	return Value{Kind: Number, Number: sum / weights / scale, Tolerance: size / weights / scale * 1e-12}
}

// slope returns the slope of integers by least squares: the change per second.
func (f *Feature) slope(entries []entry, scale float64) Value {
	of := func(v float64) *big.Rat { return new(big.Rat).SetFloat64(v) }
	n, t, v, tt, vv, tv := of(float64(len(entries))), of(0), of(0), of(0), of(0), of(0)
	add := func(to, a, b *big.Rat) { to.Add(to, new(big.Rat).Mul(a, b)) }
	for _, e := range entries {
		x, y := new(big.Rat).SetInt64(e.at), of(e.value)
		add(t, x, of(1))
		add(v, y, of(1))
		add(tt, x, x)
		add(vv, y, y)
		add(tv, x, y)
	}
	about := func(products, a, b *big.Rat) float64 { // n times the sum of products about the means
		x := new(big.Rat).Mul(n, products)
		out, _ := x.Sub(x, new(big.Rat).Mul(a, b)).Float64()
		return out
	}
	times := about(tt, t, t)
	if times == 0 {
		return Value{Kind: Number, Number: f.Empty}
	}
	return Value{
		Kind: Number, Number: about(tv, t, v) / times * 1e6 / scale,
		Tolerance: math.Sqrt(about(vv, v, v)/times) * 1e6 / scale * 0x1p-40,
	}
}
