package e2e_test

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/afterbay/afterbay/internal/lang"
	"github.com/afterbay/afterbay/internal/lang/steps"
	"github.com/afterbay/afterbay/internal/state/deadletter"
)

// halves is a pipeline with two features in a step. The second one refuses a value of
// the let above, or its own expression fails.
func halves(let, value string) lang.Pipeline {
	p := payments()
	p.Steps = []lang.Step{
		&steps.Let{List: []lang.Binding{{Name: "units", Expr: let}}},
		&steps.Features{List: []steps.Feature{
			{Name: "seen", Windows: []string{"1h"}, Aggregates: []string{"count"}},
			{Name: "spend", Value: value, Decimals: ptr(2), Windows: []string{"1h"}, Aggregates: []string{"sum", "mean"}},
			{Name: "share", Value: "spend.sum_1h / units", Last: 2, Aggregates: []string{"max"}},
		}},
		&steps.Emit{Topic: "out", Names: []string{"units", "seen.count_1h", "spend.sum_1h", "share.max"}},
	}
	return p
}

// TestAnEventThatAFeatureRefusesIsCountedByNone has the features of a step refuse
// events one after the other: by their own expression, by one over a feature above,
// and by their range.
func TestAnEventThatAFeatureRefusesIsCountedByNone(t *testing.T) {
	log := run(t, halves("amount", "10.0 / (amount - 3.0)"),
		payment("a", 5, 0), payment("a", 3, 1), payment("a", 0, 2), payment("a", 3.0000000000000004, 3), payment("a", 8, 4))
	want := []string{
		`{"units":5,"seen_count_1h":1,"spend_sum_1h":5,"share_max":1}`,
		`{"units":8,"seen_count_1h":2,"spend_sum_1h":7,"share_max":1}`,
	}
	if d := cmp.Diff(want, values(t, log, "out")); d != "" {
		t.Error(d)
	}
	open := openLetters(t, log.(deadletter.Log), "payments")
	if len(open) != 3 {
		t.Fatalf("%d dead letters: %+v", len(open), open)
	}
	for _, l := range open {
		if l.Stage != "features" || l.Resume != "from features seen" {
			t.Errorf("%+v", l)
		}
	}
}

// TestRedriveOfAFeatureComputesTheLetsAboveAgain changes a let above the step that
// refused an event. The features do not read it: with another meaning of theirs the state
// would be refused. The step takes the event now because an earlier event came late.
func TestRedriveOfAFeatureComputesTheLetsAboveAgain(t *testing.T) {
	of := func(units string) lang.Pipeline {
		p := payments()
		p.Steps = []lang.Step{
			&steps.Let{List: []lang.Binding{{Name: "units", Expr: units}}},
			&steps.Features{List: []steps.Feature{
				{Name: "seen", Windows: []string{"1h"}, Aggregates: []string{"count"}},
				{Name: "share", Value: "1.0 / (seen.count_1h - amount)", Last: 3, Aggregates: []string{"max"}},
			}},
			&steps.Emit{Topic: "out", Names: []string{"units", "seen.count_1h"}},
		}
		return p
	}
	log := run(t, of("amount"), payment("a", 5, 0), payment("a", 2, 10), payment("a", 7, 8))
	if n := redriveAll(t, log, "payments"); n != 1 {
		t.Fatalf("%d letters were sent back", n)
	}
	runOn(t, log, of("min(amount, 1.5)"))
	want := []string{
		`{"units":5,"seen_count_1h":1}`,
		`{"units":7,"seen_count_1h":2}`,
		`{"units":1.5,"seen_count_1h":3}`,
	}
	if d := cmp.Diff(want, values(t, log, "out")); d != "" {
		t.Error(d)
	}
	if got := openLetters(t, log.(deadletter.Log), "payments"); len(got) > 0 {
		t.Errorf("%+v", got)
	}
}

// TestFeaturesThatReadPastPredictionsAreWrittenTogether has one of two features that
// are written behind a step refuse an event.
func TestFeaturesThatReadPastPredictionsAreWrittenTogether(t *testing.T) {
	p := payments()
	p.Steps = []lang.Step{
		&steps.Features{List: []steps.Feature{
			{Name: "doubled", Value: "twice", Last: 5, Aggregates: []string{"count"}},
			{Name: "inverse", Value: "1.0 / twice", Last: 5, Aggregates: []string{"count"}},
			{Name: "seen", Value: "doubled.count", Windows: []string{"1h"}, Aggregates: []string{"count", "max"}},
		}},
		&steps.Decide{List: []lang.Binding{{Name: "twice", Expr: "2.0 * amount"}}},
		&steps.Emit{Topic: "out", Names: []string{"doubled.count", "inverse.count", "seen.*"}},
	}
	log := run(t, p, payment("a", 1, 0), payment("a", 0, 1), payment("a", 2, 2))
	got := slices.Clone(values(t, log, "out"))
	want := []string{
		`{"doubled_count":0,"inverse_count":0,"seen_count_1h":1,"seen_max_1h":0}`,
		`{"doubled_count":1,"inverse_count":1,"seen_count_1h":3,"seen_max_1h":1}`,
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
	if got := openLetters(t, log.(deadletter.Log), "payments"); len(got) != 1 || got[0].Resume != "from features doubled write" {
		t.Errorf("%+v", got)
	}
}
