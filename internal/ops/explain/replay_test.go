package explain

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/afterbay/afterbay/internal/lang"
	"github.com/afterbay/afterbay/internal/lang/steps"
	"github.com/afterbay/afterbay/internal/log/memory"
	"github.com/afterbay/afterbay/internal/ops/inspect"
	running "github.com/afterbay/afterbay/internal/pipeline"
	"github.com/afterbay/afterbay/internal/process/builtin"
	"github.com/afterbay/afterbay/internal/state/generation"
	"github.com/afterbay/afterbay/internal/test/answers"
	"github.com/afterbay/afterbay/stream"
)

// TestReplayKeepsTheStateThatThePipelineLetsGoOf has more keys than the
// pipeline keeps in memory.
func TestReplayKeepsTheStateThatThePipelineLetsGoOf(t *testing.T) {
	pipeline := lang.Pipeline{
		Name:  "seen",
		Input: lang.Input{Topic: "in", Key: "k", Partitions: 1, Fields: []lang.Field{{Name: "k", Type: "int"}}},
		Steps: []lang.Step{
			&steps.Features{List: []steps.Feature{{Name: "n", Windows: []string{"1h"}, Aggregates: []string{"count"}}}},
			&steps.Emit{Topic: "out", Names: []string{"k", "n.count_1h"}},
		},
	}
	log := memory.New(memory.Options{})
	defer log.Close()
	var events []stream.Record
	for i := range 20_000 {
		key := 100 + i%50
		if i < 200 || i == 19_999 {
			key = i % 100
		}
		events = append(events, stream.Record{
			Partition: stream.Partition{Topic: "in"}, Time: time.UnixMilli(int64(i)), Key: fmt.Appendf(nil, "%d", key), Value: fmt.Appendf(nil, `{"k":%d}`, key),
		})
	}
	newRunner := func(keys int) *running.Runner {
		runner, err := builtin.New(pipeline, running.Options{Keys: keys})
		if err != nil {
			t.Fatal(err)
		}
		return runner
	}
	if _, err := answers.RunAll(t.Context(), log, newRunner(0), events); err != nil {
		t.Fatal(err)
	}
	d := &inspect.Local{Log: log}
	topics, err := d.List(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	play := &player{directory: d, topics: topics, group: "seen", partition: stream.Partition{Topic: "in"}, until: 19_999, event: "in/0@19999", progress: func(int64, int64) {}}
	if err := play.run(t.Context(), newRunner(3), &Record{}); err != nil {
		t.Fatal(err)
	}
	if len(play.outputs) != 1 || cmp.Diff(`{"k":99,"n_count_1h":3}`, string(play.outputs[0].Value)) != "" {
		t.Errorf("%+v", play.outputs)
	}
}

func TestReplayOwnsWhatAStepLeaves(t *testing.T) {
	p := stream.Partition{Topic: "in"}
	s := &playing{Idle: generation.NewIdle(), player: &player{partition: p, until: 7, event: "in/0@7", finish: func() {}}, state: memory.State{"old": {1}}}
	bytes := []byte("in/0@7")
	step := stream.Transaction{
		Outputs: []stream.Record{{Key: bytes, Value: bytes, Headers: []stream.Header{{Key: "afterbay-position", Value: bytes}}}},
		Changes: []stream.Change{{Partition: p, Key: []byte("old")}, {Partition: p, Key: []byte("new"), Value: bytes}},
		Offsets: map[stream.Partition]stream.Offset{p: 8},
	}
	if err := s.Commit(step).Wait(t.Context()); err != nil {
		t.Fatal(err)
	}
	copy(bytes, "xxxxxx")
	o := s.outputs[0]
	if len(s.state) != 1 || string(s.state["new"]) != "in/0@7" || string(o.Key)+string(o.Value)+string(o.Headers[0].Value) != "in/0@7in/0@7in/0@7" {
		t.Errorf("%q, %+v", s.state, o)
	}
}
