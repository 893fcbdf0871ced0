package admin_test

import (
	"fmt"
	"strings"
	"testing"

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

// TestMetricsSayWhatAJournalSaved asks 20 times for 5 answers.
func TestMetricsSayWhatAJournalSaved(t *testing.T) {
	score := &steps.Score{Model: "picky", Inputs: []string{"n"}}
	runner, err := builtin.New(lang.Pipeline{
		Name:  "p",
		Input: lang.Input{Topic: "in", Key: "k", Fields: []lang.Field{{Name: "k", Type: "string"}, {Name: "n", Type: "number"}}},
		Models: []lang.Model{{Name: "picky", Go: "picky", Version: 3, Outputs: []lang.Field{{Name: "half", Type: "number"}},
			Call: &lang.Calling{}, Journal: &lang.Journal{}}},
		Steps: []lang.Step{score, &steps.Emit{Topic: "out", Names: []string{"picky.half"}}},
		Code:  lang.Code{Models: map[string]model.Model{"picky": picky{}}},
	}, running.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer runner.Close()
	log := memory.New(memory.Options{})
	defer log.Close()
	var events []stream.Record
	for n := range 20 {
		events = append(events, stream.Record{Partition: stream.Partition{Topic: "in", Index: stream.ByKey}, Key: []byte("a"), Value: fmt.Appendf(nil, `{"k":"a","n":%d}`, n%5+1)})
	}
	if _, err := answers.RunAll(t.Context(), log, runner, events); err != nil {
		t.Fatal(err)
	}
	_, url := start(t, log, admin.Options{Runners: []*running.Runner{runner}})
	_, metrics := get(t, url+"/metrics")
	for name, want := range map[string]int{"calls": 5, "hits": 15, "repeated_calls": 0, "units_paid": 5, "units_saved": 15} {
		if line := fmt.Sprintf(`afterbay_journal_%s_total{model="picky@3",pipeline="p"} %d`, name, want); !strings.Contains(metrics, line+"\n") {
			t.Errorf("metrics lack %s", line)
		}
	}
}
