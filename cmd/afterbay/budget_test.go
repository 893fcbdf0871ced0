package main

import (
	"strings"
	"testing"

	"github.com/afterbay/afterbay/internal/http/admin"
	"github.com/afterbay/afterbay/internal/ops/report"
	"github.com/afterbay/afterbay/internal/pipeline"
)

// TestBudgetsOfCasesAreJudgedByThemselves has slow calls that keep the budget of
// their case, and by which the pipeline's is not judged.
func TestBudgetsOfCasesAreJudgedByThemselves(t *testing.T) {
	b := admin.Budget{
		Events: 300, Own: 200, Missed: 1, Limit: 0.1, P50: 0.05, P99: 20, Phases: []admin.BudgetPhase{{Phase: "model", P99: 20, Share: 0.1, Missed: 1}},
		Cases: []pipeline.Case{{Case: "call", Times: pipeline.Times{Events: 100}, Limit: 30, Missed: 1}, {Case: "image", Times: pipeline.Times{Events: 100}, Limit: 1, Missed: 2}},
	}
	var out strings.Builder
	if err := report.WriteBudget(&out, b); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"100 events, 1 took longer than the 100ms of the budget, 1 of them because of model: it is kept;",
		"case call: 100 events, 1 took longer than its 30s: it is kept\n",
		"case image: 100 events, 2 took longer than its 1s: it is not kept\n",
	} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("%s\nlacks %s", out.String(), want)
		}
	}
}
