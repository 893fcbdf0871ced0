package admin

import (
	"context"
	"net/http"
	"net/url"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/afterbay/afterbay/internal/http/ingest"
	"github.com/afterbay/afterbay/internal/observe"
	"github.com/afterbay/afterbay/internal/observe/metric"
	"github.com/afterbay/afterbay/internal/pipeline"
)

// Budget is what the events of a pipeline took of its budget since the process
// began, as JSON. Times are in seconds; Limit and Share are 0 without a budget.
type Budget struct {
	Pipeline string        `json:"pipeline"`
	Events   uint64        `json:"events"`
	Own      uint64        `json:"own_limit,omitempty"` // of these, those of Cases, which the limit is not about
	Missed   uint64        `json:"missed"`              // events that took longer than the limit
	Limit    float64       `json:"limit_seconds"`       // which 99 of 100 events are to keep
	P50      float64       `json:"p50_seconds"`         // from an event's append until its outputs were durable
	P99      float64       `json:"p99_seconds"`         // likewise
	Bound    float64       `json:"sum_of_p99s_seconds"` // of the phases: pessimistic
	Phases   []BudgetPhase `json:"phases"`              // in order
	Cases    []CaseStatus  `json:"cases,omitempty"`     // of a route, with limits of their own
}

// BudgetPhase is a phase in a Budget.
type BudgetPhase struct {
	Phase  string  `json:"phase"`
	P50    float64 `json:"p50_seconds"`
	P99    float64 `json:"p99_seconds"`
	Share  float64 `json:"share_seconds"`
	Missed uint64  `json:"missed"` // events that took too long because of this phase more than of others
}

// NewBudget returns what the events of a pipeline took.
func NewBudget(pipeline string, m *observe.Metrics) Budget {
	s := m.Spent()
	b := Budget{
		Pipeline: pipeline, Events: s.Events, Own: s.Own, Missed: s.Missed(), Limit: s.Budget.P99.Seconds(),
		P50: s.Whole.P50.Seconds(), P99: s.Whole.P99.Seconds(), Bound: s.Bound().Seconds(),
	}
	for _, h := range s.By {
		b.Phases = append(b.Phases, BudgetPhase{Phase: h.String(), P50: h.P50.Seconds(), P99: h.P99.Seconds(), Share: h.Share.Seconds(), Missed: h.Missed})
	}
	for i := range m.Cases() {
		if c := caseStatus(m, i); c.Limit > 0 {
			b.Cases = append(b.Cases, c)
		}
	}
	return b
}

// budget replies with what a pipeline of this process spent.
func (s *Server) budget(w http.ResponseWriter, r *http.Request) {
	runner, err := find(s.options.Runners, r.PathValue("pipeline"))
	if err != nil {
		refuse(w, err)
		return
	}
	ingest.WriteJSON(w, http.StatusOK, NewBudget(runner.Name(), runner.Metrics()))
}

// Budget returns what the events of a pipeline of the process took.
func (c *Client) Budget(ctx context.Context, pipeline string) (b Budget, err error) {
	return b, c.call(ctx, http.MethodGet, "/v1/budget/"+url.PathEscape(pipeline), nil, &b)
}

var budgetTable = metric.NewTable("", []string{"pipeline", "phase"},
	metric.Gauge("budget", metric.Seconds, "Time that the pipeline's budget allows each phase. The phase all is the whole budget.", func(share time.Duration) time.Duration { return share }),
)

var budgetMissedTable = metric.NewTable("", []string{"pipeline", "phase"},
	metric.Counter("budget_missed", metric.None, "Events over the budget, by the phase that exceeded its share the most.", func(h observe.PhaseSpent) uint64 { return h.Missed }),
)

type caseBudget struct {
	limit  time.Duration
	missed uint64
}

var caseBudgetTable = metric.NewTable("", []string{"pipeline", "case"},
	metric.Gauge("case_budget", metric.Seconds, "Time that the budget of a case of a route allows its events, in place of the pipeline's budget.", func(c caseBudget) time.Duration { return c.limit }),
	metric.Counter("case_budget_missed", metric.None, "Events over the budget of the case that they took.", func(c caseBudget) uint64 { return c.missed }),
)

// newBudgetCollector shows what the budgets allow, and the events that exceed them.
func newBudgetCollector(runners []*pipeline.Runner) prometheus.Collector {
	return metric.NewCollector(func(out chan<- prometheus.Metric) {
		for _, r := range runners {
			for i, name := range r.Metrics().Cases() {
				if limit, missed := r.Metrics().CaseMissed(i); limit > 0 {
					caseBudgetTable.Show(out, caseBudget{limit, missed}, r.Name(), name)
				}
			}
			spent := r.Spent()
			if spent.Budget.P99 == 0 {
				continue
			}
			budgetTable.Show(out, spent.Budget.P99, r.Name(), "all")
			for _, h := range spent.By {
				budgetTable.Show(out, h.Share, r.Name(), h.String())
				budgetMissedTable.Show(out, h, r.Name(), h.String())
			}
		}
	}, budgetTable, budgetMissedTable, caseBudgetTable)
}
