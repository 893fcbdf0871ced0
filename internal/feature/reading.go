package feature

import (
	"cmp"
	"math"
	"slices"
)

// reading says how a feature is read: the aggregates of totals of its values.
type reading struct {
	unit
	aggregates []Aggregate
	empty      float64 // mean, max and min without entries
	count      bool    // only counted: values do not matter
	sums       bool    // sums or moments are read
	looks      bool    // reads each entry
	edges      bool    // but only the first and the last one
	before     bool    // previous is read
	many       bool    // a list or map is read, of at most take values
	per        bool    // maps are read, of at most take groups
	take       int
	halfLife   float64 // microseconds
}

// readingOf returns the reading of a checked spec.
func readingOf(spec *Spec) reading {
	r := reading{unit: unitOf(0), aggregates: slices.Clone(spec.Aggregates), empty: spec.Empty}
	r.count = !slices.ContainsFunc(r.aggregates, func(a Aggregate) bool { return a != Count })
	switch {
	case r.count:
	case spec.Kind == Numbers:
		r.unit = unitOf(spec.Decimals)
	default:
		r.values = spec.Kind
	}
	r.edges = !slices.ContainsFunc(r.aggregates, func(a Aggregate) bool { return a.looks() && !a.Valued() || r.values != Numbers && !a.Valued() })
	r.looks, r.before, r.halfLife = spec.Looks(), r.any(Previous), float64(spec.HalfLife.Microseconds())
	r.many, r.take = r.any(List, Top), cmp.Or(spec.Take, defaultTake)
	if r.float && r.any(EWMA) {
		r.limit = weightedFloat
	}
	if r.slopes = r.any(Slope); spec.Per {
		r.splitBy(spec)
		return r
	}
	r.squares = r.any(Variance, Stddev, Slope)
	r.sums = r.any(Sum, Mean) || r.squares
	if r.squares && r.float {
		r.weight = squareWeight
	}
	return r
}

// any reports whether the feature reads any of these aggregates.
func (r *reading) any(of ...Aggregate) bool {
	return slices.ContainsFunc(of, func(a Aggregate) bool { return slices.Contains(r.aggregates, a) })
}

// names appends the names of the aggregates, each with the suffix ending.
func (r *reading) names(to []string, ending string) []string {
	for _, a := range r.aggregates {
		to = append(to, a.String()+ending)
	}
	return to
}

// write writes the aggregates of t to the start of out and returns the rest of out.
func (r *reading) write(t *total, out []float64) []float64 {
	for k, a := range r.aggregates {
		v := r.empty
		switch {
		case a == Count:
			v = float64(t.n)
		case a == Sum:
			v = r.sumNumber(t)
		case a > Min:
			continue
		case t.n == 0:
		case a == Mean:
			v = r.sumNumber(t) / float64(t.n)
		case a == Max:
			v = r.number(t.max)
		case a == Min:
			v = r.number(t.min)
		}
		out[k] = v
	}
	return out[len(r.aggregates):]
}

// readMoments writes the aggregates of the moments of a window to the start of out.
func (f *feature) readMoments(c *Cell, w *window, t int64, out []float64) {
	m := f.windows.moments(c, w, t)
	f.writeMoments(&m, out)
}

// writeMoments writes the aggregates of moments to the start of out.
func (r *reading) writeMoments(m *moments, out []float64) {
	for k, a := range r.aggregates {
		if a < Variance || a > Slope {
			continue
		}
		v, ok := 0.0, m.n > 0
		switch {
		case !ok:
		case a == Slope:
			v, ok = r.slope(m)
		case a == Variance:
			v = r.variance(m)
		default:
			v = math.Sqrt(r.variance(m))
		}
		if out[k] = v; !ok {
			out[k] = r.empty
		}
	}
}
