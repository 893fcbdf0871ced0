package admin_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/afterbay/afterbay/internal/http/admin"
	"github.com/afterbay/afterbay/internal/lang"
	"github.com/afterbay/afterbay/internal/lang/steps"
	"github.com/afterbay/afterbay/internal/log/memory"
	running "github.com/afterbay/afterbay/internal/pipeline"
	"github.com/afterbay/afterbay/internal/process/builtin"
	"github.com/afterbay/afterbay/internal/test/answers"
	"github.com/afterbay/afterbay/model"
	"github.com/afterbay/afterbay/stream"
)

// picky is a model of one number that takes no multiple of ten, and does not answer
// for more than 90.
type picky struct{}

func (picky) Info() model.Info {
	return model.Info{Inputs: []model.Input{{Name: "n", Type: model.Number}}, Outputs: []model.Output{{Name: "half", Size: 1}}}
}

func (picky) Check([]float64, [][]byte) error { return nil }

func (picky) Predict(_ context.Context, rows model.Rows, scores []float32) error {
	for i, n := range rows.Values {
		switch {
		case n > 90:
			return context.DeadlineExceeded
		case int(n)%10 == 0:
			return errors.New("a multiple of ten")
		}
		scores[i] = float32(n / 2)
	}
	return nil
}

// TestErrorsOfModelsInTheProcessAreCounted: the rate of errors of a model does not
// depend on where it is computed.
func TestErrorsOfModelsInTheProcessAreCounted(t *testing.T) {
	score := &steps.Score{Model: "picky", Inputs: []string{"n"}, Batch: steps.Batch{Size: 1}}
	runner, err := builtin.New(lang.Pipeline{
		Name:   "p",
		Input:  lang.Input{Topic: "in", Key: "k", Fields: []lang.Field{{Name: "k", Type: "string"}, {Name: "n", Type: "number"}}},
		Models: []lang.Model{{Name: "picky", Go: "picky", Version: 3, Outputs: []lang.Field{{Name: "half", Type: "number"}}}},
		Steps:  []lang.Step{score, &steps.Emit{Topic: "out", Names: []string{"picky.half"}}},
		Code:   lang.Code{Models: map[string]model.Model{"picky": picky{}}},
	}, running.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer runner.Close()
	log := memory.New(memory.Options{})
	defer log.Close()
	var events []stream.Record
	for n := 1; n <= 95; n++ {
		events = append(events, stream.Record{Partition: stream.Partition{Topic: "in", Index: stream.ByKey}, Key: []byte("a"), Value: fmt.Appendf(nil, `{"k":"a","n":%d}`, n)})
	}
	if _, err := answers.RunAll(t.Context(), log, runner, events); err != nil {
		t.Fatal(err)
	}
	_, url := start(t, log, admin.Options{Runners: []*running.Runner{runner}})
	_, metrics := get(t, url+"/metrics")
	for _, want := range []string{
		`afterbay_scored_rows_total{model="picky@3",pipeline="p"} 95`, `afterbay_scored_rows_refused_total{model="picky@3",pipeline="p"} 9`,
		`afterbay_scored_rows_faulted_total{model="picky@3",pipeline="p"} 5`,
	} {
		if !strings.Contains(metrics, want+"\n") {
			t.Errorf("metrics lack %s", want)
		}
	}
	status, err := (&admin.Client{URL: url}).Status(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]running.Scored{{Model: "picky@3", Rows: 95, Refused: 9, Faults: 5}}, status.Pipelines[0].Scored); diff != "" {
		t.Error(diff)
	}
}
