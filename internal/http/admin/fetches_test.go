package admin

import (
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/afterbay/afterbay"
)

func TestFetchesAreCountedForPipelinesThatFetch(t *testing.T) {
	p := afterbay.Pipeline{
		Name:  "seeing",
		Input: afterbay.Input{Topic: "in", Key: "k", Fields: []afterbay.Field{{Name: "k", Type: "string"}}},
		Steps: []afterbay.Step{&afterbay.Fetch{Name: "shot", URL: "k"}, &afterbay.Emit{Topic: "out", Names: []string{"shot.sha256"}}},
	}
	plain := p
	plain.Name, plain.Steps = "plain", []afterbay.Step{&afterbay.Emit{Topic: "out", Names: []string{"k"}}}
	var runners []*afterbay.Runner
	for _, p := range []afterbay.Pipeline{p, plain} {
		runner, err := afterbay.New(p, afterbay.Options{})
		if err != nil {
			t.Fatal(err)
		}
		defer runner.Close()
		runners = append(runners, runner)
	}
	registry := prometheus.NewRegistry()
	registry.MustRegister(newFetchCollector(runners))
	families, err := registry.Gather()
	if err != nil || len(families) != 11 {
		t.Fatalf("%d families: %v", len(families), err)
	}
	for _, family := range families {
		if m := family.GetMetric(); len(m) != 1 || m[0].GetLabel()[0].GetValue() != "seeing" {
			t.Errorf("%s: %v", family.GetName(), m)
		}
	}
}
