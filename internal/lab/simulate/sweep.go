package simulate

import "github.com/afterbay/afterbay/internal/control"

// Gap is the result of a simulation with a distance between its marks.
type Gap struct {
	Gap            int `json:"gap"`
	High           int `json:"high"`
	Low            int `json:"low"`
	Switches       int `json:"switches"`
	PeakDepth      int `json:"peak_depth"`
	Dropped        int `json:"dropped"`
	ThrottledTicks int `json:"throttled_ticks"`
	Scored         int `json:"scored"`
}

// Sweep runs simulations with growing distances between the marks, centred on the marks of the
// options. The distances go from 0 to the largest that fits in the queue, in the given number of
// steps.
func Sweep(o Options, steps int) ([]Gap, error) {
	marks, err := o.Queue.Resolved()
	if err != nil {
		return nil, err
	}
	middle := (marks.High + marks.Low) / 2
	widest := min(middle, marks.Max-middle)
	var gaps []Gap
	for i := range steps + 1 {
		half := widest * i / steps
		if n := len(gaps); n > 0 && gaps[n-1].Gap == 2*half {
			continue // fewer distances than steps: skip duplicates
		}
		o.Queue = control.GateOptions{Max: marks.Max, High: middle + half, Low: middle - half}
		r, err := Run(o, nil)
		if err != nil {
			return nil, err
		}
		gaps = append(gaps, Gap{
			Gap: 2 * half, High: middle + half, Low: middle - half, Switches: r.Switches, PeakDepth: r.PeakDepth,
			Dropped: r.Dropped, ThrottledTicks: r.ThrottledTicks, Scored: r.Scored,
		})
	}
	return gaps, nil
}
