package e2e_test

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/afterbay/afterbay/internal/lang"
	"github.com/afterbay/afterbay/internal/lang/steps"
	"github.com/afterbay/afterbay/internal/log/memory"
	"github.com/afterbay/afterbay/internal/pipeline"
	"github.com/afterbay/afterbay/internal/process/builtin"
	"github.com/afterbay/afterbay/internal/spec"
	"github.com/afterbay/afterbay/model"
)

// Events are timed by the case of the first route that they took, those that are
// queued there too; which of a route within it does not matter.
func TestEventsAreTimedByTheCaseOfTheirRoute(t *testing.T) {
	note := []lang.Step{&steps.Let{List: []lang.Binding{{Name: "noted", Expr: "n"}}}}
	within := []lang.Case{{Name: "odd", When: "n % 2 == 1", Steps: note}, {Name: "default", Steps: note}}
	p := lang.Pipeline{
		Name:   "cases",
		Input:  lang.Input{Topic: "in", Partitions: 2, Key: "k", Fields: []lang.Field{{Name: "k", Type: "string"}, {Name: "n", Type: "int"}}},
		Models: []lang.Model{{Name: "writer", Go: "writer", Version: 1, Outputs: writerOutputs}},
		Steps: []lang.Step{
			&steps.Route{Cases: []lang.Case{
				{Name: "slow", When: "n <= 30", Async: true, Budget: time.Nanosecond, Steps: []lang.Step{&steps.Score{Model: "writer", Inputs: []string{"k"}}}},
				{Name: "fast", When: "n <= 50", Budget: time.Hour, Steps: []lang.Step{&steps.Route{Cases: within}}},
				{Name: "bad", When: "n <= 55", Then: "dlq"},
				{Name: "default", Then: "drop"},
			}},
			&steps.Emit{Topic: "out", Names: []string{"n"}},
		},
		Code: lang.Code{Models: map[string]model.Model{"writer": writer{}}},
	}
	_, runner := runQueueing(t, memory.New(memory.Options{}), p, 1, queueEvents(60, 20))
	m, got, missed := runner.Snapshot(), map[string]uint64{}, map[string]uint64{}
	for _, c := range m.Cases {
		got[c.Case], missed[c.Case] = c.Events, c.Missed
	}
	if missed["slow"] != 30 || missed["fast"] != 0 {
		t.Errorf("over their budgets are %v", missed)
	}
	if whole := m.Times.Events; len(got) != 4 || got["slow"] != 30 || got["fast"] != 20 || got["bad"]+got["default"] != 0 || whole != 60 {
		t.Errorf("%v of %d events", got, whole)
	}
}

func TestOnlyCasesOfTheFirstRouteHaveBudgets(t *testing.T) {
	note := []lang.Step{&steps.Let{List: []lang.Binding{{Name: "noted", Expr: "n"}}}}
	other := []lang.Step{&steps.Let{List: []lang.Binding{{Name: "more", Expr: "n"}}}}
	inner := &steps.Route{Cases: []lang.Case{{Name: "small", When: "n < 5", Steps: note}, {Name: "default", Budget: time.Second, Steps: note}}}
	p := lang.Pipeline{
		Name:  "cases",
		Input: lang.Input{Topic: "in", Key: "k", Fields: []lang.Field{{Name: "k", Type: "string"}, {Name: "n", Type: "int"}}},
		Steps: []lang.Step{
			&steps.Route{Cases: []lang.Case{{Name: "odd", When: "n % 2 == 1", Budget: -time.Second, Steps: []lang.Step{inner}}, {Name: "default", Steps: note}}},
			&steps.Route{Cases: []lang.Case{{Name: "big", When: "n > 9", Budget: time.Second, Steps: other}, {Name: "default", Steps: other}}},
			&steps.Emit{Topic: "out", Names: []string{"n"}},
		},
	}
	_, err := builtin.New(p, pipeline.Options{})
	var got []string
	var list spec.Problems
	errors.As(err, &list)
	for _, e := range list {
		got = append(got, e.Path)
	}
	if want := []string{"steps[0].route.odd.budget", "steps[0].route.odd.steps[0].route.default.budget", "steps[1].route.big.budget"}; !slices.Equal(got, want) {
		t.Errorf("%v of %v", got, err)
	}
}
