package admin

import (
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"

	"github.com/afterbay/afterbay/internal/lang"
	"github.com/afterbay/afterbay/internal/lang/steps"
	running "github.com/afterbay/afterbay/internal/pipeline"
	"github.com/afterbay/afterbay/internal/process/builtin"
)

func TestFetchesAreCountedForPipelinesThatFetch(t *testing.T) {
	p := lang.Pipeline{
		Name:  "seeing",
		Input: lang.Input{Topic: "in", Key: "k", Fields: []lang.Field{{Name: "k", Type: "string"}}},
		Steps: []lang.Step{&steps.Fetch{Name: "shot", URL: "k"}, &steps.Emit{Topic: "out", Names: []string{"shot.sha256"}}},
	}
	plain := p
	plain.Name, plain.Steps = "plain", []lang.Step{&steps.Emit{Topic: "out", Names: []string{"k"}}}
	var all Snapshot
	for _, p := range []lang.Pipeline{p, plain} {
		runner, err := builtin.New(p, running.Options{})
		if err != nil {
			t.Fatal(err)
		}
		defer runner.Close()
		all.Pipelines = append(all.Pipelines, runner.Snapshot())
	}
	registry := prometheus.NewRegistry()
	registry.MustRegister(collector(func() *Snapshot { return &all }))
	families, err := registry.Gather()
	families = slices.DeleteFunc(families, func(f *dto.MetricFamily) bool { return !strings.HasPrefix(f.GetName(), "afterbay_fetch_") })
	if err != nil || len(families) != 11 {
		t.Fatalf("%d families: %v", len(families), err)
	}
	for _, family := range families {
		if m := family.GetMetric(); len(m) != 1 || m[0].GetLabel()[0].GetValue() != "seeing" {
			t.Errorf("%s: %v", family.GetName(), m)
		}
	}
}
