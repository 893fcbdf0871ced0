package e2e_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/afterbay/afterbay/internal/lang"
	"github.com/afterbay/afterbay/internal/lang/steps"
	"github.com/afterbay/afterbay/internal/log/memory"
	"github.com/afterbay/afterbay/internal/pipeline"
	"github.com/afterbay/afterbay/internal/process/builtin"
	"github.com/afterbay/afterbay/internal/state/generation"
	"github.com/afterbay/afterbay/stream"
)

// TestReformattedPipelineGoesOn runs a pipeline, and then files that say the same in
// another form, which go on with its state. Another feature is refused by its name, whether
// its value differs or a let that it reads.
func TestReformattedPipelineGoesOn(t *testing.T) {
	log := memory.New(memory.Options{})
	run := func(eur, value string, more int) error {
		p := lang.Pipeline{Name: "p", Input: lang.Input{Topic: "in", Key: "k", Fields: []lang.Field{{Name: "k", Type: "string"}, {Name: "n", Type: "number"}}},
			Steps: []lang.Step{
				&steps.Let{List: []lang.Binding{{Name: "eur", Expr: eur}}},
				&steps.Features{List: []steps.Feature{{Name: "past", Value: value, Windows: []string{"24h"}, Aggregates: []string{"sum"}, Max: more}}},
				&steps.Emit{Topic: "out", Names: []string{"past.sum_24h"}},
			}}
		r, err := builtin.New(p, pipeline.Options{})
		if err != nil {
			t.Fatal(err)
		}
		defer r.Close()
		ctx, stop := context.WithCancel(t.Context())
		defer stop()
		if err := errors.Join(r.CreateTopics(ctx, log), log.Append(ctx, stream.Record{Partition: stream.Partition{Topic: "in"}, Key: []byte("a"), Value: []byte(`{"k":"a","n":1}`)})); err != nil {
			t.Fatal(err)
		}
		ended, idle := make(chan error, 1), make(chan error, 1)
		go func() { ended <- r.Run(ctx, log) }()
		go func() { idle <- r.WaitIdle(ctx, log) }()
		select {
		case err := <-ended:
			return err
		case err := <-idle:
			if err != nil {
				t.Fatal(err)
			}
			stop()
			return <-ended
		}
	}
	for name, c := range []struct {
		value string
		more  int
	}{{"eur * 2.0", 0}, {"eur * 2.0", 0}, {"eur*2.0", 0}, {"eur * 2.0", 65536}} {
		if err := run("n", c.value, c.more); err != nil {
			t.Fatalf("form %d: %v", name, err)
		}
	}
	for _, c := range []struct{ eur, value string }{{"n", "eur * 3.0"}, {"n * 100.0", "eur * 2.0"}} {
		err := run(c.eur, c.value, 0)
		var other *generation.ErrOtherState
		if !errors.As(err, &other) || !strings.Contains(err.Error(), `the state of pipeline "p" beside in/0 was written with another feature "past": undo the change`) {
			t.Errorf("another feature: %v", err)
		}
	}
	var values []string
	for _, records := range readAll(t, log, "out") {
		for _, r := range records {
			values = append(values, string(r.Value))
		}
	}
	if want := []string{`{"past_sum_24h":2}`, `{"past_sum_24h":4}`, `{"past_sum_24h":6}`, `{"past_sum_24h":8}`}; !slices.Equal(values, want) {
		t.Errorf("%v, want %v", values, want)
	}
}
