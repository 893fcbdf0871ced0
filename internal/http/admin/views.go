package admin

import (
	"cmp"
	"fmt"
	"strconv"
	"time"

	"github.com/afterbay/afterbay/internal/control"
	"github.com/afterbay/afterbay/internal/fetch"
	"github.com/afterbay/afterbay/internal/log/embedded"
	"github.com/afterbay/afterbay/internal/models/batch"
	"github.com/afterbay/afterbay/internal/observe"
	"github.com/afterbay/afterbay/internal/observe/metric"
	"github.com/afterbay/afterbay/internal/pipeline"
	"github.com/afterbay/afterbay/stream"
)

// The functions below yield the items of metric families, with their label values.

func eachPipeline(s *Snapshot, show func(p *pipeline.Snapshot, labels ...string)) {
	for i := range s.Pipelines {
		show(&s.Pipelines[i], s.Pipelines[i].Name)
	}
}

// parts yields the parts of each pipeline, with their names.
func parts[T any](of func(p *pipeline.Snapshot) []T, name func(*T) string) func(s *Snapshot, show func(t *T, labels ...string)) {
	return func(s *Snapshot, show func(t *T, labels ...string)) {
		for i := range s.Pipelines {
			list := of(&s.Pipelines[i])
			for j := range list {
				show(&list[j], s.Pipelines[i].Name, name(&list[j]))
			}
		}
	}
}

// eachOrder yields the pipelines that read several source partitions in one order.
func eachOrder(s *Snapshot, show func(o *pipeline.Order, labels ...string)) {
	for i := range s.Pipelines {
		if p := &s.Pipelines[i]; p.Order != nil {
			show(p.Order, p.Name)
		}
	}
}

func eachOrderSource(s *Snapshot, show func(of *pipeline.OrderSource, labels ...string)) {
	eachOrder(s, func(o *pipeline.Order, labels ...string) {
		for i := range o.Sources {
			show(&o.Sources[i], o.Pipeline, o.Sources[i].Source)
		}
	})
}

func eachOrderStage(s *Snapshot, show func(of *pipeline.OrderStage, labels ...string)) {
	eachOrder(s, func(o *pipeline.Order, labels ...string) {
		for i := range o.Stages {
			show(&o.Stages[i], o.Pipeline, o.Stages[i].Stage)
		}
	})
}

// class holds the counts of one priority in a pipeline's async queue.
type class struct {
	waiting    int64
	dispatched uint64
	waited     float64 // seconds
}

func eachClass(s *Snapshot, show func(c class, labels ...string)) {
	for i := range s.Pipelines {
		p := &s.Pipelines[i]
		for j := range p.Counts.Dispatched {
			show(class{p.Memory.Waiting[j], p.Counts.Dispatched[j], p.Counts.WaitSeconds[j]}, p.Name, (control.HighClass + control.Class(j)).String())
		}
	}
}

func eachReason(s *Snapshot, show func(batches uint64, labels ...string)) {
	for i := range s.Pipelines {
		c, name := &s.Pipelines[i].Counts, s.Pipelines[i].Name
		for reason, n := range map[batch.Reason]uint64{batch.Full: c.ModelFull, batch.Idle: c.ModelIdle, batch.Waited: c.ModelWaited, batch.Due: c.ModelDue} {
			show(n, name, reason.String())
		}
	}
}

func eachPhase(s *Snapshot, show func(t pipeline.Times, labels ...string)) {
	for i := range s.Pipelines {
		for phase, t := range s.Pipelines[i].Phases {
			show(t, s.Pipelines[i].Name, phase)
		}
	}
}

// eachPass yields the duration of each compiler pass.
func eachPass(s *Snapshot, show func(took time.Duration, labels ...string)) {
	for i := range s.Pipelines {
		for pass, took := range s.Pipelines[i].Took.All() {
			show(took, s.Pipelines[i].Name, pass)
		}
	}
}

var eachCase = parts(func(p *pipeline.Snapshot) []pipeline.Case { return p.Cases }, func(c *pipeline.Case) string { return c.Case })

// eachLimitedCase yields the cases that have a limit of their own.
func eachLimitedCase(s *Snapshot, show func(c *pipeline.Case, labels ...string)) {
	eachCase(s, func(c *pipeline.Case, labels ...string) {
		if c.Limit > 0 {
			show(c, labels...)
		}
	})
}

func eachGeneration(s *Snapshot, show func(generation uint64, labels ...string)) {
	for i := range s.Pipelines {
		for partition, n := range s.Pipelines[i].Generations {
			show(n, s.Pipelines[i].Name, strconv.Itoa(int(partition)))
		}
	}
}

// eachShare yields the time that budgets allow each phase.
func eachShare(s *Snapshot, show func(share time.Duration, labels ...string)) {
	for i := range s.Pipelines {
		if p := &s.Pipelines[i]; p.Spent.Budget.P99 > 0 {
			show(p.Spent.Budget.P99, p.Name, "all")
		}
	}
	eachCulprit(s, func(h observe.PhaseSpent, labels ...string) { show(h.Share, labels...) })
}

// eachCulprit yields the phases of the pipelines that have a budget.
func eachCulprit(s *Snapshot, show func(h observe.PhaseSpent, labels ...string)) {
	for i := range s.Pipelines {
		if p := &s.Pipelines[i]; p.Spent.Budget.P99 > 0 {
			for _, h := range p.Spent.By {
				show(h, p.Name, h.String())
			}
		}
	}
}

func eachFetcher(s *Snapshot, show func(f *fetch.Stats, labels ...string)) {
	for i := range s.Pipelines {
		if p := &s.Pipelines[i]; p.Fetched != nil {
			show(p.Fetched, p.Name)
		}
	}
}

func eachRegistry(s *Snapshot, show func(r *pipeline.SchemaStats, labels ...string)) {
	for i := range s.Pipelines {
		if p := &s.Pipelines[i]; p.Schemas != nil {
			show(p.Schemas, p.Name)
		}
	}
}

func eachGroupEnd(s *Snapshot, show func(ended uint64, labels ...string)) {
	for i := range s.Pipelines {
		for _, g := range s.Pipelines[i].Groups {
			for reason, n := range g.Ended {
				show(n, s.Pipelines[i].Name, g.Group, reason)
			}
		}
	}
}

// backlogQueue is the Queue of a Source that refuses records while too many wait.
const backlogQueue = "backlog"

func eachBacklog(s *Snapshot, show func(of *pipeline.Source, labels ...string)) {
	for i := range s.Pipelines {
		for j := range s.Pipelines[i].Sources {
			if of := &s.Pipelines[i].Sources[j]; of.Queue == backlogQueue {
				show(of, of.Pipeline, of.Topic)
			}
		}
	}
}

func eachLag(s *Snapshot, show func(l observe.Lag, labels ...string)) {
	for _, l := range s.lags {
		show(l, l.Group, l.Topic, fmt.Sprint(l.Partition))
	}
}

func eachBound(s *Snapshot, show func(above bool, labels ...string)) {
	for _, b := range s.bounds {
		show(b.above, b.pipeline, b.name)
	}
}

func eachRestore(s *Snapshot, show func(r stream.Restoring, labels ...string)) {
	for _, r := range s.restores {
		show(r, r.Group, r.Partition.Topic, fmt.Sprint(r.Partition.Index))
	}
}

func eachStandby(s *Snapshot, show func(copied stream.Standby, labels ...string)) {
	for _, c := range s.standbys {
		show(c, c.Group, c.Partition.Topic, fmt.Sprint(c.Partition.Index))
	}
}

func eachLog(s *Snapshot, show func(of *embedded.Stats, labels ...string)) {
	if s.log != nil {
		show(s.log)
	}
}

// buckets converts a histogram snapshot for metrics.
func buckets(t pipeline.Times) metric.Times {
	return metric.Times{Count: t.Histogram.Count, Sum: t.Histogram.Sum, Each: t.Histogram.Each}
}

// bucketsOf converts a live histogram for metrics.
func bucketsOf(h *observe.Histogram) metric.Times {
	s := &observe.Snapshot{}
	s.Add(h)
	return metric.Times{Count: s.Count, Sum: s.Sum, Each: s.Each}
}

// The functions below return the texts of columns.

func digits(seconds float64) string { return metric.Rounded(seconds).String() }

func rate(of, all uint64) string {
	return fmt.Sprintf("%.1f%%", 100*float64(of)/max(1, float64(all)))
}

func note(p *pipeline.Snapshot) string {
	switch {
	case p.Ended != "":
		return "ended: " + p.Ended
	case p.Stopped != nil:
		return "stopped: afterbay dlq stats " + p.Name
	case p.Schemas != nil && p.Schemas.Away != "":
		return "the schema registry does not respond: " + p.Schemas.Away
	}
	return ""
}

func waitsFor(o *pipeline.Order) string {
	of, _ := o.WaitsFor()
	return cmp.Or(of, "-")
}

func waitsSince(o *pipeline.Order) string {
	of, seconds := o.WaitsFor()
	if of == "" {
		return "-"
	}
	return digits(seconds)
}

func resting(s *pipeline.Sink) string {
	if s.Resting {
		return "failing: the sink only probes it"
	}
	return ""
}

func caseLimit(c *pipeline.Case) string {
	if c.Limit > 0 {
		return digits(c.Limit)
	}
	return "-"
}
