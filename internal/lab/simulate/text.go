package simulate

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/afterbay/afterbay/internal/sys/term"
)

// Write writes the result of a simulation as text.
func (r *Result) Write(out io.Writer, o *Options) {
	fmt.Fprintf(out, "%s\n%d ticks of %v, seed %d\n\n", o.title(), r.Ticks, o.Tick, o.Seed)
	fmt.Fprintf(out, "%9s %7s %-*s  %-9s %9s %9s %8s", "tick", "depth", barWidth, "", "source", "produced", "scored", "dropped")
	if o.Backlog {
		fmt.Fprintf(out, " %9s", "backlog")
	}
	fmt.Fprintln(out)
	for _, s := range r.Samples {
		fmt.Fprintf(out, "%9d %7d %s  %-9s %9d %9d %8d", s.Tick, s.Depth, bar(s.Depth, o.Queue.Max), sourceState(s.Throttled), s.Produced, s.Scored, s.Dropped)
		if o.Backlog {
			fmt.Fprintf(out, " %9d", s.Backlog)
		}
		fmt.Fprintln(out)
	}
	fmt.Fprintf(out, "\nproduced   %d\nscored     %d\ndropped    %d\nwaiting    %d in the queue", r.Produced, r.Scored, r.Dropped, r.Depth)
	if o.Backlog {
		fmt.Fprintf(out, ", %d in the log, %d at most", r.Backlog, r.PeakBacklog)
	}
	fmt.Fprintf(out, "\npeak       %d of %d\nthrottled  %d of %d ticks (%.0f %%), %s, %s at the end\nwait       %s on average, p99 %s\n",
		r.PeakDepth, o.Queue.Max, r.ThrottledTicks, r.Ticks, 100*r.ThrottledShare(), switches(r.Switches), sourceState(r.Throttled), waited(r.WaitMeanMs), waited(r.WaitP99Ms))
}

// title describes the simulation.
func (o *Options) title() string {
	source := fmt.Sprintf("%v source of %g/s", o.Arrivals, o.Peak)
	if o.Recorded != nil {
		source = fmt.Sprintf("%s that were recorded", term.Counted(len(o.Recorded), "event"))
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
	if o.Service.Kind != Fixed {
		calls += " on average"
	}
	if o.Batch > 1 {
		calls += fmt.Sprintf(" for up to %d events", o.Batch)
	}
	return fmt.Sprintf("%s; queue of %d, marks %d and %d; %s, %s", source, o.Queue.Max, o.Queue.High, o.Queue.Low, term.Counted(o.Workers, "worker"), calls)
}

const barWidth = 40 // width of the depth bar, in characters

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

func switches(n int) string {
	if n == 1 {
		return "1 switch"
	}
	return fmt.Sprintf("%d switches", n)
}

// waited formats milliseconds as a duration, rounded to a microsecond.
func waited(ms float64) string {
	return time.Duration(ms * float64(time.Millisecond)).Round(time.Microsecond).String()
}

// WriteGaps writes gaps as a table.
func WriteGaps(out io.Writer, gaps []Gap) error {
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(table, "gap\thigh\tlow\tswitches\tpeak\tdropped\tthrottled\tscored\t")
	for _, g := range gaps {
		fmt.Fprintf(table, "%d\t%d\t%d\t%d\t%d\t%d\t%d\t%d\t\n", g.Gap, g.High, g.Low, g.Switches, g.PeakDepth, g.Dropped, g.ThrottledTicks, g.Scored)
	}
	return table.Flush()
}

// Write writes the plan of a load as text.
func (p *Plan) Write(out io.Writer, load *Load) {
	fmt.Fprintf(out, "a worker     %.0f events/s: %d in calls of %v\n", p.PerWorker, load.Batch, load.BatchTime)
	fmt.Fprintf(out, "workers      %d at least for %g events/s", p.Least.Workers, p.Rate)
	if load.Redundancy > 1 {
		fmt.Fprintf(out, ", %d with redundancy %d", p.Redundant.Workers, load.Redundancy)
	}
	fmt.Fprintf(out, "\npartitions   %d at least, one a worker; %d spread evenly over twice the workers, too\n\n", p.Partitions, p.PartitionsFor)
	fmt.Fprintf(out, "workers  utilisation  wait mean        p99\n")
	row := func(s *Staff) {
		mean, p99 := "no end", "no end"
		if s.WaitMeanMs >= 0 {
			mean, p99 = waited(s.WaitMeanMs), waited(s.WaitP99Ms)
		}
		fmt.Fprintf(out, "%7d %10.1f %%  %9s  %9s\n", s.Workers, 100*s.Utilisation, mean, p99)
	}
	row(&p.Least)
	if load.Redundancy > 1 {
		row(&p.Redundant)
	}
	fmt.Fprintln(out)
	if p.Least.WaitMeanMs < 0 {
		fmt.Fprintf(out, "At full use a queue that grew never shrinks: plan for %d workers.\n", p.Least.Workers+1)
	}
	if !p.OneMachine {
		fmt.Fprintf(out, "One machine of %s is not enough: use Apache Kafka and %s.\n", term.Counted(load.Cores, "core"), term.Counted(p.Machines, "machine"))
		return
	}
	fmt.Fprintf(out, "One machine of %s is enough: the embedded engine does it, without a broker.\n", term.Counted(load.Cores, "core"))
	if load.Redundancy > 1 {
		fmt.Fprintf(out, "To survive its loss, use Apache Kafka and %s.\n", term.Counted(p.Machines, "machine"))
	}
}
