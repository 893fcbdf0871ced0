package admin

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/afterbay/afterbay/internal/control"
	"github.com/afterbay/afterbay/internal/lang"
	"github.com/afterbay/afterbay/internal/lang/steps"
	running "github.com/afterbay/afterbay/internal/pipeline"
	"github.com/afterbay/afterbay/internal/process/builtin"
	"github.com/afterbay/afterbay/internal/task/operator"
	"github.com/afterbay/afterbay/model"
)

// half is a model of one number.
type half struct{}

func (half) Info() model.Info {
	return model.Info{Inputs: []model.Input{{Name: "n", Type: model.Number}}, Outputs: []model.Output{{Name: "half", Size: 1}}}
}

func (half) Check([]float64, [][]byte) error { return nil }

func (half) Predict(_ context.Context, rows model.Rows, scores []float32) error {
	for i, n := range rows.Values {
		scores[i] = float32(n / 2)
	}
	return nil
}

func TestMetricsSayHowEndpointsStand(t *testing.T) {
	runner, err := builtin.New(lang.Pipeline{
		Name: "p", Input: lang.Input{Topic: "in", Key: "k", Fields: []lang.Field{{Name: "k", Type: "string"}, {Name: "n", Type: "number"}}},
		Models: []lang.Model{{Name: "half", Go: "half", Version: 3, Outputs: []lang.Field{{Name: "half", Type: "number"}}, Call: &lang.Calling{Breaker: lang.Breaker{Failures: 1}}}},
		Steps:  []lang.Step{&steps.Score{Model: "half", Inputs: []string{"n"}}, &steps.Emit{Topic: "out", Names: []string{"half.half"}}},
		Code:   lang.Code{Models: map[string]model.Model{"half": half{}}},
	}, running.Options{})
	if err != nil {
		t.Fatal(err)
	}
	registry := prometheus.NewRegistry()
	registry.MustRegister(collector(func() *Snapshot { return &Snapshot{Status: Status{Pipelines: []running.Snapshot{runner.Snapshot()}}} }))
	values := func() (list []string) {
		families, err := registry.Gather()
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range families {
			if !strings.HasPrefix(f.GetName(), "afterbay_endpoint_") {
				continue
			}
			for _, m := range f.Metric {
				list = append(list, fmt.Sprint(f.GetName(), m.Label[0].GetValue(), m.GetGauge().GetValue()+m.GetCounter().GetValue()))
			}
		}
		return list
	}
	endpoint := runner.Plan.Stages[slices.IndexFunc(runner.Plan.Stages, func(s operator.Placed) bool { return s.How() != nil })].How().Calling.Endpoint
	if endpoint.Readiness.Since(t.Context(), time.Now().Add(-time.Second), func(context.Context) error { return model.ErrAway }) {
		t.Error("ready")
	}
	before := values()
	call, _, _ := endpoint.Begin(time.Now(), 0)
	other, _, _ := endpoint.Begin(time.Now(), 0)
	endpoint.Observe(time.Now(), call, control.Faulted)
	after := values()
	endpoint.Observe(time.Now(), other, control.Overloaded)
	lower := values()
	prefix := "afterbay_endpoint_"
	if want := []string{prefix + "calls_totalhalf@30", prefix + "calls_in_flighthalf@30", prefix + "downhalf@30", prefix + "faults_totalhalf@30", prefix + "call_limit_decreases_totalhalf@30", prefix + "call_limithalf@34", prefix + "breaker_opened_totalhalf@30", prefix + "ready_checks_failed_totalhalf@31", prefix + "ready_checks_totalhalf@31"}; !equalSets(before, want) {
		t.Errorf("%v, want %v", before, want)
	}
	if want := []string{prefix + "calls_totalhalf@31", prefix + "calls_in_flighthalf@32", prefix + "downhalf@31", prefix + "faults_totalhalf@31", prefix + "call_limit_decreases_totalhalf@30", prefix + "call_limithalf@34", prefix + "breaker_opened_totalhalf@31", prefix + "ready_checks_failed_totalhalf@31", prefix + "ready_checks_totalhalf@31"}; !equalSets(after, want) {
		t.Errorf("a fault says nothing of the load: %v, want %v", after, want)
	}
	if !slices.Contains(lower, prefix+"call_limit_decreases_totalhalf@31") || !slices.Contains(lower, prefix+"call_limithalf@33") {
		t.Errorf("a refusal by load lowers the limit: %v", lower)
	}
}

// collector collects the metrics of snapshots.
func collector(snapshot func() *Snapshot) prometheus.Collector { return figures.Collector(snapshot) }

func equalSets(a, b []string) bool {
	slices.Sort(a)
	slices.Sort(b)
	return slices.Equal(a, b)
}
