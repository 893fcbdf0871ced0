package profile

import (
	"errors"
	"math"
)

var errEmpty = errors.New("a profile without values has no distance")

// shares returns the counts as shares of their sum.
func shares(counts []uint64) ([]float64, error) {
	var sum uint64
	for _, n := range counts {
		sum += n
	}
	if sum == 0 {
		return nil, errEmpty
	}
	out := make([]float64, len(counts))
	for i, n := range counts {
		out[i] = float64(n) / float64(sum)
	}
	return out, nil
}

func both(reference, current *Profile) (p, q []float64, err error) {
	if !reference.equal(current.Bins) {
		return nil, nil, errBins
	}
	if p, err = shares(reference.counts); err != nil {
		return nil, nil, err
	}
	q, err = shares(current.counts)
	return p, q, err
}

// filled gives empty bins a share, so that a logarithm exists: 0.0001, or a millionth of the least other share if that
// is 0.0001 or less. Shares then sum to a little more than 1. It is the rule of Evidently (get_binned_data, feel_zeroes).
func filled(shares []float64) []float64 {
	least := math.Inf(1)
	for _, s := range shares {
		if s > 0 {
			least = min(least, s)
		}
	}
	fill := 0.0001
	if least <= fill {
		fill = least / 1e6
	}
	for i, s := range shares {
		if s == 0 {
			shares[i] = fill
		}
	}
	return shares
}

// PSI is the population stability index: the sum over bins of (q-p)*ln(q/p), where p is the share of the reference and
// q that of the current values. A bin empty in one is filled; one empty in both adds 0. Missing values are not in it.
// Source: Evidently, calculate_psi; Siddiqi, Credit Risk Scorecards, 2006.
func PSI(reference, current *Profile) (float64, error) {
	p, q, err := both(reference, current)
	if err != nil {
		return 0, err
	}
	p, q = filled(p), filled(q)
	sum := 0.0
	for i := range p {
		if reference.counts[i] == 0 && current.counts[i] == 0 {
			continue
		}
		sum += float64((q[i] - p[i]) * math.Log(q[i]/p[i]))
	}
	return sum, nil
}

// KS is the statistic of Kolmogorov and Smirnov on bins: the largest difference of the cumulative shares. It is at most
// that of the values themselves. Empty bins add 0. Categories have no order, so it refuses them.
// Source: scipy.stats.ks_2samp of bin numbers.
func KS(reference, current *Profile) (float64, error) {
	largest := 0.0
	err := cumulate(reference, current, func(_ int, difference float64) { largest = max(largest, math.Abs(difference)) })
	return largest, err
}

// Wasserstein is the Wasserstein-1 distance, in the unit of the values: the area between the cumulative shares. The
// values of a bin count at its middle, those of the first and last bin at its only edge. Empty bins add 0.
// Categories have no order, so it refuses them. Source: scipy.stats.wasserstein_distance of these places.
func Wasserstein(reference, current *Profile) (float64, error) {
	area := 0.0
	err := cumulate(reference, current, func(i int, difference float64) {
		area += float64(math.Abs(difference) * (reference.place(i+1) - reference.place(i)))
	})
	return area, err
}

// place returns where the values of a bin count.
func (b Bins) place(bin int) float64 {
	last := len(b.Edges) - 1
	below, above := b.Edges[max(bin-1, 0)], b.Edges[min(bin, last)]
	return below + (above-below)/2
}

// cumulate calls see with the difference of the cumulative shares after each bin but the last.
func cumulate(reference, current *Profile, see func(bin int, difference float64)) error {
	p, q, err := both(reference, current)
	if err != nil {
		return err
	}
	if len(reference.Edges) == 0 {
		return errors.New("categories have no order: use PSI or JensenShannon")
	}
	difference := 0.0
	for i := range len(p) - 1 {
		difference += q[i] - p[i]
		see(i, difference)
	}
	return nil
}

// JensenShannon is the Jensen-Shannon distance to base 2, from 0 to 1: the square root of the divergence
// (KL(p|m) + KL(q|m)) / 2 with m = (p+q)/2. An empty bin adds 0 to its own KL. Missing values are not in it.
// Source: scipy.spatial.distance.jensenshannon(p, q, base=2); Lin, 1991.
func JensenShannon(reference, current *Profile) (float64, error) {
	p, q, err := both(reference, current)
	if err != nil {
		return 0, err
	}
	sum := 0.0
	for i := range p {
		m := (p[i] + q[i]) / 2
		for _, s := range []float64{p[i], q[i]} {
			if s > 0 {
				sum += float64(s * math.Log2(s/m))
			}
		}
	}
	return math.Sqrt(max(sum, 0) / 2), nil
}

const (
	DefaultAlarmPSI = 0.2 // a usual threshold of PSI: a large change
	DefaultSlack    = 1.0 // of CUSUM, in standard errors of a pane
	DefaultAlarm    = 5.0 // of CUSUM, in standard errors of a pane
)

// CUSUM is the two-sided cumulative sum of the means of panes, in event-time order. Each pane adds its distance z from
// the mean of the reference, in standard errors of both means, less Slack: up = max(0, up+z-Slack) and
// down = max(0, down-z-Slack). It alarms while one exceeds Alarm. A pane without values, and a reference without
// variance, add nothing. Source: Page, Biometrika 41, 1954; Montgomery, Statistical Quality Control, chapter 9.
type CUSUM struct {
	Slack, Alarm float64
	up, down     float64
}

// Add adds a pane and says whether the sum alarms. Sums start again at 0 after Reset.
func (c *CUSUM) Add(reference, pane *Profile) (bool, error) {
	if !reference.equal(pane.Bins) {
		return false, errBins
	}
	n, mean, variance := reference.Moments()
	m, paneMean, _ := pane.Moments()
	if n > 0 && m > 0 && variance > 0 {
		z := (paneMean - mean) / math.Sqrt(variance*(1/float64(n)+1/float64(m)))
		c.up, c.down = max(0, c.up+z-c.Slack), max(0, c.down-z-c.Slack)
	}
	return max(c.up, c.down) > c.Alarm, nil
}

// Reset forgets the panes.
func (c *CUSUM) Reset() { c.up, c.down = 0, 0 }
