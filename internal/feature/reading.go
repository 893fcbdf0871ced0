package feature

import (
	"math"
	"slices"
)

// reading is what a feature is read as: aggregates of totals of its values.
type reading struct {
	unit
	aggregates []Aggregate
	empty      float64 // mean, max and min of nothing
	count      bool    // only counted: values do not matter
	sums       bool    // sums are read, or moments
}

// readingOf returns the reading of a checked spec.
func readingOf(spec *Spec) reading {
	r := reading{unit: unitOf(0), aggregates: slices.Clone(spec.Aggregates), empty: spec.Empty}
	r.count = !slices.ContainsFunc(r.aggregates, func(a Aggregate) bool { return a != Count })
	if !r.count {
		r.unit = unitOf(spec.Decimals)
	}
	r.squares, r.slopes = r.any(Variance, Stddev, Slope), r.any(Slope)
	r.sums = r.any(Sum, Mean) || r.squares
	return r
}

// any reports whether one of some aggregates is read.
func (r *reading) any(of ...Aggregate) bool {
	return slices.ContainsFunc(of, func(a Aggregate) bool { return slices.Contains(r.aggregates, a) })
}

// names appends the names of the aggregates, with an ending.
func (r *reading) names(to []string, ending string) []string {
	for _, a := range r.aggregates {
		to = append(to, a.String()+ending)
	}
	return to
}

// write puts the aggregates of t and m at the start of out and returns the
// rest of it.
func (r *reading) write(t *total, m *moments, out []float64) []float64 {
	for k, a := range r.aggregates {
		v := r.empty
		switch {
		case a == Count:
			v = float64(t.n)
		case a == Sum:
			v = r.sumNumber(t)
		case t.n == 0:
		case a == Mean:
			v = r.sumNumber(t) / float64(t.n)
		case a == Max:
			v = r.number(t.max)
		case a == Min:
			v = r.number(t.min)
		case a == Slope:
			if slope, ok := r.slope(m); ok {
				v = slope
			}
		case a == Variance:
			v = r.variance(m)
		case a == Stddev:
			v = math.Sqrt(r.variance(m))
		}
		out[k] = v
	}
	return out[len(r.aggregates):]
}
