package process_test

import (
	"context"
	"fmt"
	"os"
	"strings"
	"syscall"
	"testing"

	"github.com/afterbay/afterbay/internal/event/header"
	"github.com/afterbay/afterbay/internal/lang"
	"github.com/afterbay/afterbay/internal/lang/steps"
	"github.com/afterbay/afterbay/internal/log/memory"
	"github.com/afterbay/afterbay/internal/models/process"
	"github.com/afterbay/afterbay/internal/pipeline"
	"github.com/afterbay/afterbay/internal/process/builtin"
	"github.com/afterbay/afterbay/internal/test/answers"
	"github.com/afterbay/afterbay/model"
	"github.com/afterbay/afterbay/stream"
)

// killer kills a worker before each call.
type killer struct {
	*process.Model
	kills int
}

func (k *killer) Predict(ctx context.Context, rows model.Rows, scores []float32) error {
	var pid [1]float32
	if err := k.Model.Predict(ctx, model.Rows{Width: 2, Values: []float64{process.Tells, 0}}, pid[:]); err != nil {
		return err
	}
	if err := syscall.Kill(int(pid[0]), syscall.SIGKILL); err != nil {
		return err
	}
	k.kills++
	return k.Model.Predict(ctx, rows, scores)
}

// TestDeadWorkersLoseNoRecord kills a worker before each call, and has events
// that end whatever worker gets them: those are dead letters, and all others are
// scored.
func TestDeadWorkersLoseNoRecord(t *testing.T) {
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	m, err := process.Start(t.Context(), process.Options{
		Command: []string{program}, Env: []string{process.ModeVariable + "=good"}, Attempts: 3,
		Inputs: []model.Input{{Name: "a", Type: model.Number}, {Name: "b", Type: model.Number}},
	})
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	killer := &killer{Model: m}
	runner, err := builtin.New(lang.Pipeline{
		Name: "scored",
		Input: lang.Input{Topic: "in", Partitions: 1, Key: "k", Fields: []lang.Field{
			{Name: "k", Type: "string"}, {Name: "a", Type: "number"},
		}},
		Models: []lang.Model{{Name: "sum", Go: "sum", Version: 1, Outputs: []lang.Field{{Name: "score", Type: "number"}}}},
		Steps: []lang.Step{
			&steps.Score{Model: "sum", Inputs: []string{"a", "a"}, Batch: steps.Batch{Size: 8}},
			&steps.Emit{Topic: "out", Names: []string{"sum.score"}},
		},
		Code: lang.Code{Models: map[string]model.Model{"sum": killer}},
	}, pipeline.Options{})
	if err != nil {
		t.Fatal(err)
	}
	var events []stream.Record
	var want strings.Builder
	for i := range 60 {
		a := float32(i + 1)
		if i%25 == 3 {
			a = process.Exits
		} else {
			fmt.Fprintf(&want, `{"sum_score":%g}`, 2*a)
		}
		events = append(events, stream.Record{
			Partition: stream.Partition{Topic: "in"}, Key: []byte("ann"), Value: fmt.Appendf(nil, `{"k":"ann","a":%g}`, a),
		})
	}
	answer, err := answers.RunAll(t.Context(), memory.New(memory.Options{}), runner, events)
	if err != nil {
		t.Fatal(err)
	}
	if got := strings.Join(answer.Values("out"), ""); got != want.String() {
		t.Errorf("scores %s, not %s", got, want.String())
	}
	letters := answer[stream.Partition{Topic: "scored.dlq"}]
	if len(letters) != 3 {
		t.Errorf("%d dead letters of 3 events that end workers", len(letters))
	}
	for i := range letters {
		if why := header.Get(&letters[i], header.Error); !strings.Contains(why, "IndexError: boom") {
			t.Errorf("event %d: %.200s", i, why)
		}
	}
	t.Logf("%d workers were killed", killer.kills)
}
