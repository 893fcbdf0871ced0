package serve

import (
	"context"
	"net/http"
	"net/url"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"

	"github.com/afterbay/afterbay"
	"github.com/afterbay/afterbay/ingest"
	"github.com/afterbay/afterbay/observe"
)

// Budget is what the events of a pipeline took of its budget since the process
// began, as JSON. Times are in seconds; Limit and Share are 0 without a budget.
type Budget struct {
	Pipeline string       `json:"pipeline"`
	Events   uint64       `json:"events"`
	Own      uint64       `json:"own_limit,omitempty"` // of these, those of Cases, which the limit is not about
	Missed   uint64       `json:"missed"`              // events that took longer than the limit
	Limit    float64      `json:"limit_seconds"`       // which 99 of 100 events are to keep
	P50      float64      `json:"p50_seconds"`         // from an event's append until its outputs were durable
	P99      float64      `json:"p99_seconds"`         // likewise
	Bound    float64      `json:"sum_of_p99s_seconds"` // of the hops: pessimistic
	Hops     []BudgetHop  `json:"hops"`                // in order
	Cases    []CaseStatus `json:"cases,omitempty"`     // of a route, with limits of their own
}

// BudgetHop is a hop in a Budget.
type BudgetHop struct {
	Hop    string  `json:"hop"`
	P50    float64 `json:"p50_seconds"`
	P99    float64 `json:"p99_seconds"`
	Share  float64 `json:"share_seconds"`
	Missed uint64  `json:"missed"` // events that took too long because of this hop more than of others
}

// NewBudget returns what the events of a pipeline took.
func NewBudget(pipeline string, m *observe.Metrics) Budget {
	s := m.Spent()
	b := Budget{
		Pipeline: pipeline, Events: s.Events, Own: s.Own, Missed: s.Missed(), Limit: s.Budget.P99.Seconds(),
		P50: s.Whole.P50.Seconds(), P99: s.Whole.P99.Seconds(), Bound: s.Bound().Seconds(),
	}
	for _, h := range s.By {
		b.Hops = append(b.Hops, BudgetHop{Hop: h.String(), P50: h.P50.Seconds(), P99: h.P99.Seconds(), Share: h.Share.Seconds(), Missed: h.Missed})
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

// budgetCollector shows whole events, and what the budgets allow.
type budgetCollector struct {
	runners                []*afterbay.Runner
	events, shares, missed *prometheus.Desc
	caseLimit, caseMissed  *prometheus.Desc
}

func newBudgetCollector(runners []*afterbay.Runner) *budgetCollector {
	return &budgetCollector{
		runners,
		prometheus.NewDesc("afterbay_event_seconds", "Time of events from their append until their outputs were durable.", []string{"pipeline"}, nil),
		prometheus.NewDesc("afterbay_budget_seconds", "What the pipeline's budget allows each hop, and all of them together.", []string{"pipeline", "hop"}, nil),
		prometheus.NewDesc("afterbay_budget_missed_total", "Events over the budget, by the hop that took the most beyond its share.", []string{"pipeline", "hop"}, nil),
		prometheus.NewDesc("afterbay_case_budget_seconds", "What the budget of a case of a route allows its events, in place of the pipeline's.", []string{"pipeline", "case"}, nil),
		prometheus.NewDesc("afterbay_case_budget_missed_total", "Events over the budget of the case that they took.", []string{"pipeline", "case"}, nil),
	}
}

// Describe implements prometheus.Collector.
func (c *budgetCollector) Describe(descs chan<- *prometheus.Desc) {
	descs <- c.events
	descs <- c.shares
	descs <- c.missed
	descs <- c.caseLimit
	descs <- c.caseMissed
}

// Collect implements prometheus.Collector.
func (c *budgetCollector) Collect(metrics chan<- prometheus.Metric) {
	for _, r := range c.runners {
		metrics <- &histogram{c.events, []*dto.LabelPair{label("pipeline", r.Name())}, r.Metrics().Whole()}
		for i, name := range r.Metrics().Cases() {
			if limit, missed := r.Metrics().CaseMissed(i); limit > 0 {
				metrics <- prometheus.MustNewConstMetric(c.caseLimit, prometheus.GaugeValue, limit.Seconds(), r.Name(), name)
				metrics <- prometheus.MustNewConstMetric(c.caseMissed, prometheus.CounterValue, float64(missed), r.Name(), name)
			}
		}
		spent := r.Spent()
		if spent.Budget.P99 == 0 {
			continue
		}
		share := func(hop string, d time.Duration) {
			metrics <- prometheus.MustNewConstMetric(c.shares, prometheus.GaugeValue, d.Seconds(), r.Name(), hop)
		}
		share("all", spent.Budget.P99)
		for _, h := range spent.By {
			share(h.String(), h.Share)
			metrics <- prometheus.MustNewConstMetric(c.missed, prometheus.CounterValue, float64(h.Missed), r.Name(), h.String())
		}
	}
}
