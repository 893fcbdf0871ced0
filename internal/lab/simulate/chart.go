package simulate

import (
	"fmt"

	"github.com/afterbay/afterbay/internal/sys/plot"
)

// Drawing collects the points of a simulation's charts. For long simulations it keeps only the
// lowest and the highest depth of several ticks.
type Drawing struct {
	options   *Options
	grain     int // ticks per two points
	low, high plot.Point
	depth     []plot.Point
	backlog   []plot.Point
	bands     []plot.Band
}

const drawingPoints = 4000

// NewDrawing returns a drawing of a simulation with options.
func NewDrawing(o *Options) *Drawing {
	return &Drawing{options: o, grain: max(1, o.Ticks/drawingPoints)}
}

// Add adds a tick.
func (d *Drawing) Add(s *Sample) {
	at := plot.Point{X: float64(s.Tick) * d.options.Tick.Seconds(), Y: float64(s.Depth)}
	if s.Throttled {
		end := at.X + d.options.Tick.Seconds()
		last := len(d.bands) - 1
		gap := float64(d.grain) * d.options.Tick.Seconds() / 2 // bands that are closer together are merged
		if last >= 0 && at.X <= d.bands[last].To+gap {
			d.bands[last].To = end
		} else {
			d.bands = append(d.bands, plot.Band{From: at.X, To: end})
		}
	}
	if s.Tick%d.grain == 0 {
		d.low, d.high = at, at
	}
	if at.Y < d.low.Y {
		d.low = at
	}
	if at.Y > d.high.Y {
		d.high = at
	}
	if (s.Tick+1)%d.grain != 0 {
		return
	}
	first, second := d.low, d.high
	if first.X > second.X {
		first, second = second, first
	}
	d.depth = append(d.depth, first)
	if second != first {
		d.depth = append(d.depth, second)
	}
	d.backlog = append(d.backlog, plot.Point{X: at.X, Y: float64(s.Backlog)})
}

// Charts returns charts of the ticks and their result.
func (d *Drawing) Charts(r *Result) []plot.Chart {
	o := d.options
	title := fmt.Sprintf("queue of %d, marks %d/%d: peak %d, %s, %.0f %% throttled", o.Queue.Max, o.Queue.High, o.Queue.Low, r.PeakDepth, switches(r.Switches), 100*r.ThrottledShare())
	charts := []plot.Chart{{
		Title: title, X: "seconds", Y: "depth of the queue", Lines: []plot.Line{{Points: d.depth}}, Bands: d.bands, BandName: "throttled",
		Levels: []plot.Level{{Name: fmt.Sprintf("high %d", o.Queue.High), Y: float64(o.Queue.High)}, {Name: fmt.Sprintf("low %d", o.Queue.Low), Y: float64(o.Queue.Low)}},
	}}
	if o.Backlog {
		charts = append(charts, plot.Chart{Title: "log before the queue", X: "seconds", Y: "events", Lines: []plot.Line{{Points: d.backlog}}})
	}
	return charts
}

// GapCharts returns charts of the effect of gaps.
func GapCharts(gaps []Gap) []plot.Chart {
	charts := []plot.Chart{
		{Title: "switches of the source, by how far the marks are apart", Y: "switches"},
		{Title: "deepest queue", Y: "events"},
		{Title: "events dropped", Y: "events"},
	}
	for i, of := range []func(*Gap) int{
		func(g *Gap) int { return g.Switches }, func(g *Gap) int { return g.PeakDepth }, func(g *Gap) int { return g.Dropped },
	} {
		charts[i].X = "high mark less low mark"
		line := plot.Line{}
		for j := range gaps {
			line.Points = append(line.Points, plot.Point{X: float64(gaps[j].Gap), Y: float64(of(&gaps[j]))})
		}
		charts[i].Lines = []plot.Line{line}
	}
	return charts
}
