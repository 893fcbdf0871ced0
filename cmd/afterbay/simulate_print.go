package main

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/afterbay/afterbay/internal/failure"
	"github.com/afterbay/afterbay/internal/lab/plot"
	"github.com/afterbay/afterbay/internal/lab/simulate"
)

// title says what is simulated.
func (c *simulateCommand) title(o *simulate.Options) string {
	source := fmt.Sprintf("%v source of %g/s", o.Arrivals, o.Peak)
	if o.Recorded != nil {
		source = fmt.Sprintf("%s that were recorded", counted(len(o.Recorded), "event"))
	} else if o.Burst.Off > 0 {
		source += fmt.Sprintf(", for %v of %v, else %g/s", o.Burst.On, o.Burst.On+o.Burst.Off, o.Burst.Rest)
	}
	switch {
	case !o.Backlog:
		source += fmt.Sprintf(", %g/s while throttled", o.Throttled)
	case o.Throttled > 0:
		source += fmt.Sprintf(", a log before the queue, read at %g/s while throttled", o.Throttled)
	default:
		source += ", a log before the queue"
	}
	calls := fmt.Sprintf("calls of %v", o.Service.Mean())
	if o.Service.Kind != simulate.Fixed {
		calls += " on average"
	}
	if o.Batch > 1 {
		calls += fmt.Sprintf(" for up to %d events", o.Batch)
	}
	return fmt.Sprintf("%s; queue of %d, marks %d and %d; %s, %s", source, o.Queue.Max, o.Queue.High, o.Queue.Low, counted(o.Workers, "worker"), calls)
}

const barWidth = 40 // of the depth, in letters

func bar(depth, limit int) string {
	filled := min(barWidth, (depth*barWidth+limit-1)/limit)
	return strings.Repeat("#", filled) + strings.Repeat(".", barWidth-filled)
}

func sourceState(throttled bool) string {
	if throttled {
		return "throttled"
	}
	return "full-rate"
}

func (c *simulateCommand) print(a *app, o *simulate.Options, r *simulate.Result) {
	fmt.Fprintf(a.stdout, "%s\n%d ticks of %v, seed %d\n\n", c.title(o), r.Ticks, o.Tick, o.Seed)
	fmt.Fprintf(a.stdout, "%9s %7s %-*s  %-9s %9s %9s %8s", "tick", "depth", barWidth, "", "source", "produced", "scored", "dropped")
	if o.Backlog {
		fmt.Fprintf(a.stdout, " %9s", "backlog")
	}
	fmt.Fprintln(a.stdout)
	for _, s := range r.Samples {
		fmt.Fprintf(a.stdout, "%9d %7d %s  %-9s %9d %9d %8d", s.Tick, s.Depth, bar(s.Depth, o.Queue.Max), sourceState(s.Throttled), s.Produced, s.Scored, s.Dropped)
		if o.Backlog {
			fmt.Fprintf(a.stdout, " %9d", s.Backlog)
		}
		fmt.Fprintln(a.stdout)
	}
	fmt.Fprintf(a.stdout, "\nproduced   %d\nscored     %d\ndropped    %d\nwaiting    %d in the queue", r.Produced, r.Scored, r.Dropped, r.Depth)
	if o.Backlog {
		fmt.Fprintf(a.stdout, ", %d in the log, %d at most", r.Backlog, r.PeakBacklog)
	}
	fmt.Fprintf(a.stdout, "\npeak       %d of %d\nthrottled  %d of %d ticks (%.0f %%), %s, %s at the end\nwait       %s on average, p99 %s\n",
		r.PeakDepth, o.Queue.Max, r.ThrottledTicks, r.Ticks, 100*r.ThrottledShare(), switches(r.Switches), sourceState(r.Throttled), waited(r.WaitMeanMs), waited(r.WaitP99Ms))
}

func switches(n int) string {
	if n == 1 {
		return "1 switch"
	}
	return fmt.Sprintf("%d switches", n)
}

// waited writes milliseconds, as a time to a thousandth of a millisecond.
func waited(ms float64) string {
	return time.Duration(ms * float64(time.Millisecond)).Round(time.Microsecond).String()
}

// sweep tries marks ever farther apart.
func (c *simulateCommand) sweep(a *app, o simulate.Options) error {
	gaps, err := simulate.Sweep(o, sweepSteps)
	if err != nil {
		return failure.As(failure.OfUsage, err)
	}
	if c.Plot != "" {
		if err := plot.WriteFile(c.Plot, sweepCharts(gaps)...); err != nil {
			return err
		}
	}
	if c.JSON {
		return json.NewEncoder(a.stdout).Encode(struct {
			Gaps []simulate.Gap `json:"gaps"`
		}{gaps})
	}
	return printSweep(a.stdout, gaps)
}

func printSweep(out io.Writer, gaps []simulate.Gap) error {
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(table, "gap\thigh\tlow\tswitches\tpeak\tdropped\tthrottled\tscored\t")
	for _, g := range gaps {
		fmt.Fprintf(table, "%d\t%d\t%d\t%d\t%d\t%d\t%d\t%d\t\n", g.Gap, g.High, g.Low, g.Switches, g.PeakDepth, g.Dropped, g.ThrottledTicks, g.Scored)
	}
	return table.Flush()
}

func sweepCharts(gaps []simulate.Gap) []plot.Chart {
	charts := []plot.Chart{
		{Title: "switches of the source, by how far the marks are apart", Y: "switches"},
		{Title: "deepest queue", Y: "events"},
		{Title: "events dropped", Y: "events"},
	}
	for i, of := range []func(*simulate.Gap) int{
		func(g *simulate.Gap) int { return g.Switches }, func(g *simulate.Gap) int { return g.PeakDepth }, func(g *simulate.Gap) int { return g.Dropped },
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

// drawing gathers what is drawn of a simulation, the lowest and the highest depth
// of several ticks where there are many.
type drawing struct {
	options   *simulate.Options
	grain     int // ticks that share two points
	low, high plot.Point
	depth     []plot.Point
	backlog   []plot.Point
	bands     []plot.Band
}

const drawingPoints = 4000

func newDrawing(o *simulate.Options) *drawing {
	return &drawing{options: o, grain: max(1, o.Ticks/drawingPoints)}
}

func (d *drawing) add(s *simulate.Sample) {
	at := plot.Point{X: float64(s.Tick) * d.options.Tick.Seconds(), Y: float64(s.Depth)}
	if s.Throttled {
		end := at.X + d.options.Tick.Seconds()
		last := len(d.bands) - 1
		gap := float64(d.grain) * d.options.Tick.Seconds() / 2 // bands that are nearer than that are one
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

func (d *drawing) charts(r *simulate.Result) []plot.Chart {
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
