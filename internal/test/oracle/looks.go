package oracle

import (
	"cmp"
	"math"
	"math/big"
	"slices"
	"strings"
)

// looks are the aggregates that look at entries.
var looks = map[string]bool{"first_value": true, "last_value": true, "previous": true, "changes": true, "distinct": true, "p50": true, "p95": true, "p99": true, "list": true, "top": true}

// valued reports whether a column is a value of the feature's kind.
func valued(column string) bool {
	for _, a := range []string{".first_value", ".last_value", ".previous"} {
		if strings.Contains(column, a) {
			return true
		}
	}
	return false
}

// look returns an aggregate of entries that are in the order of arrival.
func (f *Feature) look(a string, entries []entry, scale float64) Value {
	in := slices.Clone(entries)
	slices.SortStableFunc(in, func(a, b entry) int { return cmp.Compare(a.at, b.at) })
	different, changes := map[any]bool{}, 0
	same := func(e entry) any {
		if f.AnyKind {
			return [3]any{e.any.Bool, e.any.Int, e.any.String}
		}
		return e.value + 0 // which is of no sign if it is zero
	}
	for k, e := range in {
		different[same(e)] = true
		if k > 0 && same(e) != same(in[k-1]) {
			changes++
		}
	}
	of := func(e entry) Value {
		if f.AnyKind {
			return e.any
		}
		return Value{Kind: Number, Number: e.value / scale}
	}
	switch {
	case a == "changes":
		return Value{Kind: Number, Number: float64(changes)}
	case a == "distinct":
		return Value{Kind: Number, Number: float64(len(different))}
	case a == "list":
		list := Value{Kind: List}
		for _, e := range in[max(0, len(in)-cmp.Or(f.Take, 10)):] {
			list.Items = append(list.Items, of(e))
		}
		return list
	case a == "top":
		return f.top(in)
	case len(in) == 0 && f.AnyKind:
		return Value{Kind: f.Value.Kind, Absent: true}
	case len(in) == 0:
		return Value{Kind: Number, Number: f.Empty}
	case a == "first_value":
		return of(in[0])
	case a == "last_value" || a == "previous":
		return of(in[len(in)-1])
	}
	slices.SortStableFunc(in, func(a, b entry) int { return cmp.Compare(a.value, b.value) })
	at := map[string]int{"p50": 50, "p95": 95, "p99": 99}[a] * len(in)
	return of(in[(at+99)/100-1])
}

// percentiles sets the percentiles of a window in panes. Each value is replaced by the middle of
// all values with the same exponent and the same 64th of the mantissa. With decimals the middle is
// a whole number of units. No pane has more different values than it keeps apart.
func (t *turn) percentiles(f *Feature, suffix string, entries []entry) {
	scale, middles := 1.0, slices.Clone(entries)
	if f.Decimals > 0 {
		scale = math.Pow10(f.Decimals)
	}
	for k := range middles {
		v := &middles[k].value
		if fraction, exponent := math.Frexp(*v); math.Abs(*v) < 0x1p-1022 {
			*v = 0
		} else {
			*v = math.Copysign(math.Ldexp((math.Floor(128*math.Abs(fraction))+0.5)/128, exponent), *v)
		}
		if f.Decimals >= 0 {
			*v = math.Trunc(*v)
		}
	}
	for _, a := range f.Aggregates {
		if a == "p50" || a == "p95" || a == "p99" {
			t.values[f.Name+"."+a+suffix] = f.look(a, middles, scale)
		}
	}
}

// previous reads the value of the previous event, before the addition.
func (t *turn) previous(f *Feature) {
	if !slices.Contains(f.Aggregates, "previous") {
		return
	}
	scale := 1.0
	if f.Decimals > 0 {
		scale = math.Pow10(f.Decimals)
	}
	if f.Keep > 0 {
		t.before(f, "", t.of(f).last, scale)
		return
	}
	for _, w := range f.Windows {
		t.before(f, "_"+w.Label, t.of(f).within(f, w, t.at), scale)
	}
}

func (t *turn) before(f *Feature, suffix string, entries []entry, scale float64) {
	if f.Per != nil {
		t.groups(f, f.Name+".", suffix, entries, true)
		return
	}
	t.values[f.Name+".previous"+suffix] = f.look("previous", entries, scale)
}

// variance returns the variance of integers. The engine's may differ by some units of the last
// place.
func (f *Feature) variance(values []float64, scale float64) Value {
	n, sum, squares := new(big.Rat).SetInt64(int64(len(values))), new(big.Rat), new(big.Rat)
	for _, v := range values {
		x := new(big.Rat).SetFloat64(v)
		sum.Add(sum, x)
		squares.Add(squares, x.Mul(x, x))
	}
	mean := sum.Quo(sum, n)
	of, _ := squares.Sub(squares.Quo(squares, n), mean.Mul(mean, mean)).Float64()
	of /= scale * scale
	return Value{Kind: Number, Number: of, Tolerance: of * 0x1p-50}
}

// looks reports whether the feature looks at entries.
func (f *Feature) looks() bool {
	return f.Per != nil || slices.ContainsFunc(f.Aggregates, func(a string) bool { return looks[a] || a == "ewma" })
}

// many reports whether the feature has lists or maps of values.
func (f *Feature) many() bool {
	return slices.Contains(f.Aggregates, "list") || slices.Contains(f.Aggregates, "top")
}
