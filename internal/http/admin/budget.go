package admin

import (
	"cmp"
	"context"
	"net/http"
	"net/url"
	"slices"

	"github.com/afterbay/afterbay/internal/http/ingest"
	"github.com/afterbay/afterbay/internal/ops/inspect"
	"github.com/afterbay/afterbay/internal/pipeline"
)

// Budget compares the times of a pipeline's events since the process began with the pipeline's
// budget, as JSON. Times are in seconds; Limit and Share are 0 without a budget.
type Budget struct {
	Pipeline string          `json:"pipeline"`
	Events   uint64          `json:"events"`
	Own      uint64          `json:"own_limit,omitempty"` // of these, events of Cases, which have limits of their own
	Missed   uint64          `json:"missed"`              // events that took longer than the limit
	Limit    float64         `json:"limit_seconds"`       // for the 99th percentile
	P50      float64         `json:"p50_seconds"`         // from an event's append until its outputs are durable
	P99      float64         `json:"p99_seconds"`         // the same time
	Bound    float64         `json:"sum_of_p99s_seconds"` // sum over the phases: a pessimistic estimate
	Phases   []BudgetPhase   `json:"phases"`              // in processing order
	Cases    []pipeline.Case `json:"cases,omitempty"`     // cases of a route that have limits of their own
	Held     []BudgetHolder  `json:"held,omitempty"`      // what events waited for in the phase order, longest wait first
}

// BudgetHolder is a source partition, or the topic of a stage, that events waited for.
type BudgetHolder struct {
	Source  string  `json:"source"`
	Seconds float64 `json:"seconds"` // summed over all partitions
}

// BudgetPhase is a phase in a Budget.
type BudgetPhase struct {
	Phase  string  `json:"phase"`
	P50    float64 `json:"p50_seconds"`
	P99    float64 `json:"p99_seconds"`
	Share  float64 `json:"share_seconds"`
	Missed uint64  `json:"missed"` // events over the limit mostly because of this phase
}

// NewBudget returns the Budget of a pipeline.
func NewBudget(of *pipeline.Snapshot) Budget {
	s := &of.Spent
	b := Budget{
		Pipeline: of.Name, Events: s.Events, Own: s.Own, Missed: s.Missed(), Limit: s.Budget.P99.Seconds(),
		P50: s.Whole.P50.Seconds(), P99: s.Whole.P99.Seconds(), Bound: s.Bound().Seconds(),
	}
	for _, h := range s.By {
		b.Phases = append(b.Phases, BudgetPhase{Phase: h.String(), P50: h.P50.Seconds(), P99: h.P99.Seconds(), Share: h.Share.Seconds(), Missed: h.Missed})
	}
	if of.Order != nil {
		b.Held = heldBy(of.Order)
	}
	for _, c := range of.Cases {
		if c.Limit > 0 {
			b.Cases = append(b.Cases, c)
		}
	}
	return b
}

// heldBy returns the source partitions and stages that events waited for, longest wait first.
func heldBy(o *pipeline.Order) (list []BudgetHolder) {
	for _, s := range o.Sources {
		list = append(list, BudgetHolder{s.Source, s.Waited})
	}
	for _, s := range o.Stages {
		list = append(list, BudgetHolder{s.Stage, s.Waited})
	}
	list = slices.DeleteFunc(list, func(h BudgetHolder) bool { return h.Seconds == 0 })
	slices.SortStableFunc(list, func(a, b BudgetHolder) int { return cmp.Compare(b.Seconds, a.Seconds) })
	return list
}

// budget replies with the Budget of a pipeline of this process.
func (s *Server) budget(w http.ResponseWriter, r *http.Request) {
	runner, err := inspect.FindRunner(s.options.Runners, r.PathValue("pipeline"))
	if err != nil {
		refuse(w, err)
		return
	}
	of := runner.Snapshot()
	ingest.WriteJSON(w, http.StatusOK, NewBudget(&of))
}

// Budget returns the Budget of a pipeline of the process.
func (c *Client) Budget(ctx context.Context, pipeline string) (b Budget, err error) {
	return b, c.call(ctx, http.MethodGet, "/v1/budget/"+url.PathEscape(pipeline), nil, &b)
}
