package e2e_test

import (
	"context"
	"fmt"
	"sync"
	"testing"

	"github.com/afterbay/afterbay/internal/lang"
	"github.com/afterbay/afterbay/internal/lang/steps"
	"github.com/afterbay/afterbay/internal/log/memory"
	"github.com/afterbay/afterbay/internal/pipeline"
	"github.com/afterbay/afterbay/internal/process/builtin"
	"github.com/afterbay/afterbay/internal/task"
	"github.com/afterbay/afterbay/internal/test/answers"
	"github.com/afterbay/afterbay/model"
	"github.com/afterbay/afterbay/stream"
	"github.com/afterbay/afterbay/udf"
)

// askedLog notes which of its members were asked to read early.
type askedLog struct {
	stream.Log
	stream.Inspector
	mu        sync.Mutex      // guards the rest
	asked     []string        // groups
	delivered map[string]bool // topics
}

func (l *askedLog) Join(ctx context.Context, group string, topics ...string) (stream.Member, error) {
	s, err := l.Log.Join(ctx, group, topics...)
	return &askedMember{s, l, group}, err
}

type askedMember struct {
	stream.Member
	log   *askedLog
	group string
}

func (s *askedMember) ReadEarly(on bool) {
	s.log.mu.Lock()
	defer s.log.mu.Unlock()
	if on {
		s.log.asked = append(s.log.asked, s.group)
	}
}

// Deliver implements stream.Deliverer. What was delivered may be written.
func (s *askedMember) Deliver(outputs []stream.Record) {
	s.log.mu.Lock()
	defer s.log.mu.Unlock()
	for i := range outputs {
		s.log.delivered[outputs[i].Partition.Topic] = true
	}
}

// remote is a linear model that says it is elsewhere.
type remote struct{ linear }

func (m remote) Info() model.Info {
	info := m.linear.Info()
	info.Remote = true
	return info
}

// TestOnlyWhatTellsNobodyOutsideReadsEarly runs pipelines that may and may not
// compute events before they are durable.
func TestOnlyWhatTellsNobodyOutsideReadsEarly(t *testing.T) {
	local := linear{weights: []float64{2}}
	for _, c := range []struct {
		name    string
		model   model.Model
		options pipeline.Options
		early   bool
	}{
		{"model and function in the process", local, pipeline.Options{}, true},
		{"remote model", remote{local}, pipeline.Options{}, false},
		{"observer", local, pipeline.Options{Observe: func(*task.Observed) {}}, false},
	} {
		runner, err := builtin.New(lang.Pipeline{
			Name:   "early",
			Input:  lang.Input{Topic: "numbers", Partitions: 1, Key: "n", Fields: []lang.Field{{Name: "n", Type: "int"}}},
			Models: []lang.Model{{Name: "twice", Go: "model", Version: 1, Outputs: []lang.Field{{Name: "score", Type: "number"}}}},
			Steps: []lang.Step{
				&steps.Call{Go: "same", Inputs: []string{"n"}, Outputs: []lang.Field{{Name: "m", Type: "int"}}},
				&steps.Score{Model: "twice", Inputs: []string{"m"}},
				&steps.Emit{Topic: "scores", Names: []string{"twice.score"}},
			},
			Code: lang.Code{
				Models: map[string]model.Model{"model": c.model},
				Functions: map[string]udf.Function{"same": {Version: 1, Event: func(c *udf.Context) error {
					c.SetInt("m", c.Int("n"))
					return nil
				}}},
			},
		}, c.options)
		if err != nil {
			t.Fatal(err)
		}
		engine := memory.New(memory.Options{})
		log := &askedLog{Log: engine, Inspector: engine, delivered: map[string]bool{}}
		answer, err := answers.RunAll(t.Context(), log, runner, []stream.Record{{Partition: stream.Partition{Topic: "numbers"}, Key: []byte("4"), Value: []byte(`{"n":4}`)}})
		if err != nil {
			t.Fatal(err)
		}
		if got := answer.Values("scores"); len(got) != 1 {
			t.Fatalf("%s: %v", c.name, answer)
		}
		want := []string{}
		if c.early {
			want = append(want, "early")
		}
		if fmt.Sprint(log.asked) != fmt.Sprint(want) {
			t.Errorf("%s: asked to read early: %q, want %q", c.name, log.asked, want)
		}
		if err := log.Close(); err != nil {
			t.Error(err)
		}
	}
}

// TestCopiesOfInputsAreNotDelivered runs a pipeline that copies its input: a copy
// that came twice would count twice.
func TestCopiesOfInputsAreNotDelivered(t *testing.T) {
	runner, err := builtin.New(lang.Pipeline{
		Name:  "copying",
		Input: lang.Input{Topic: "numbers", Partitions: 2, Repartition: 2, Key: "n", Fields: []lang.Field{{Name: "n", Type: "int"}}},
		Steps: []lang.Step{&steps.Emit{Topic: "same", Names: []string{"n"}}},
	}, pipeline.Options{})
	if err != nil {
		t.Fatal(err)
	}
	engine := memory.New(memory.Options{})
	log := &askedLog{Log: engine, Inspector: engine, delivered: map[string]bool{}}
	defer closeLog(t, log)
	answer, err := answers.RunAll(t.Context(), log, runner, []stream.Record{{Partition: stream.Partition{Topic: "numbers"}, Key: []byte("other"), Value: []byte(`{"n":4}`)}})
	if err != nil {
		t.Fatal(err)
	}
	if got := answer.Values("same"); len(got) != 1 {
		t.Fatal(answer)
	}
	if len(log.delivered) != 1 || !log.delivered["same"] {
		t.Errorf("delivered to %v, want only to the output", log.delivered)
	}
}
