package afterbay_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/afterbay/afterbay"
	"github.com/afterbay/afterbay/generation"
	"github.com/afterbay/afterbay/step"
	"github.com/afterbay/afterbay/stream"
	"github.com/afterbay/afterbay/stream/memory"
)

// printedPipeline has two inputs, a feature, a group and a keyed function.
func printedPipeline() afterbay.Pipeline {
	fields := []afterbay.Field{{Name: "k", Type: "string"}, {Name: "n", Type: "number"}, {Name: "call", Type: "string"}}
	return afterbay.Pipeline{
		Name:   "p",
		Inputs: []afterbay.Input{{Topic: "a", Key: "k", Fields: fields}, {Topic: "b", Key: "k", Fields: fields}},
		Steps: []afterbay.Step{
			{Features: []afterbay.Feature{{Name: "past", Value: "n * 2.0", Windows: []string{"60s"}, Aggregates: []string{"sum"}}, {Name: "seen", Last: 3, Aggregates: []string{"count"}}}},
			{Call: &afterbay.Call{Go: "visits"}},
			{Emit: &afterbay.Emit{Topic: "out", Names: []string{"n", "past.sum_60s"}}},
		},
		Code: afterbay.Code{Functions: map[string]step.Function{"visits": {Version: 1, Keyed: true, Event: func(*step.Context) error { return nil }}}},
	}
}

// TestFingerprintsChangeWithWhatChanges changes a pipeline: how a thing is said changes
// nothing, what decides outputs alone changes their hash, and what decides stored state
// changes that of its part too.
func TestFingerprintsChangeWithWhatChanges(t *testing.T) {
	of := func(change func(*afterbay.Pipeline)) afterbay.Planned {
		p := printedPipeline()
		change(&p)
		plan, err := afterbay.PlanOf(p)
		if err != nil {
			t.Fatal(err)
		}
		return plan
	}
	same := of(func(*afterbay.Pipeline) {})
	feature := func(p *afterbay.Pipeline) *afterbay.Feature { return &p.Steps[0].Features[0] }
	const state, outputs, nothing = "state", "outputs", "nothing"
	for name, c := range map[string]struct {
		affects string
		change  func(*afterbay.Pipeline)
	}{
		"partitions of an input":  {nothing, func(p *afterbay.Pipeline) { p.Inputs[0].Partitions = 8 }},
		"white space":             {nothing, func(p *afterbay.Pipeline) { feature(p).Value = "n*2.0" }},
		"a default written out":   {nothing, func(p *afterbay.Pipeline) { feature(p).Max, feature(p).Overflow = 65536, "pane" }},
		"repartition written out": {nothing, func(p *afterbay.Pipeline) { p.Inputs[1].Repartition = 4 }},
		"an empty list": {nothing, func(p *afterbay.Pipeline) {
			p.Models, p.Constants, p.Inputs[0].Dedupe = []afterbay.Model{}, []afterbay.Constant{}, nil
		}},
		"commits, lag and budget": {nothing, func(p *afterbay.Pipeline) { p.Commit.Size, p.Lag.Warn, p.Budget.P99 = 10, time.Minute, time.Second }},
		"a function of no step":   {nothing, func(p *afterbay.Pipeline) { p.Code.Functions["other"] = step.Function{Version: 7} }},
		"a newer function": {outputs, func(p *afterbay.Pipeline) {
			f := p.Code.Functions["visits"]
			f.Version = 2
			p.Code.Functions["visits"] = f
		}},
		"another emit":              {outputs, func(p *afterbay.Pipeline) { p.Steps[2].Emit.Names = []string{"n"} }},
		"the sum of nothing":        {outputs, func(p *afterbay.Pipeline) { one := 1.0; feature(p).Empty = &one }},
		"lateness":                  {outputs, func(p *afterbay.Pipeline) { p.Inputs[0].Time.Lateness = time.Second }},
		"another repartitioning":    {outputs, func(p *afterbay.Pipeline) { p.Inputs[0].Repartition = 8 }},
		"another value":             {state, func(p *afterbay.Pipeline) { feature(p).Value = "n * 3.0" }},
		"another window":            {state, func(p *afterbay.Pipeline) { feature(p).Windows[0] = "61s"; p.Steps[2].Emit.Names = []string{"n"} }},
		"features in another order": {state, func(p *afterbay.Pipeline) { slices.Reverse(p.Steps[0].Features) }},
		"another key":               {state, func(p *afterbay.Pipeline) { p.Inputs[0].Key, p.Inputs[1].Key = "call", "call" }},
	} {
		got := of(c.change)
		affects := nothing
		switch {
		case !slices.Equal(got.Fingerprint.State, same.Fingerprint.State):
			affects = state
		case got.Fingerprint.Outputs != same.Fingerprint.Outputs:
			affects = outputs
		}
		if affects != c.affects || affects == state && got.Fingerprint.Outputs == same.Fingerprint.Outputs || affects == nothing && got.Text != same.Text {
			t.Errorf("%s: it affects %s, want %s:\n%s", name, affects, c.affects, got.Text)
		}
	}
}

// TestReformattedPipelineGoesOn runs a pipeline, and then files that say the same in
// another form, which go on with its state. Another feature is refused by its name, whether
// its value differs or a let that it reads.
func TestReformattedPipelineGoesOn(t *testing.T) {
	log := memory.New(memory.Options{})
	run := func(eur, value string, more int) error {
		p := afterbay.Pipeline{Name: "p", Input: afterbay.Input{Topic: "in", Key: "k", Fields: []afterbay.Field{{Name: "k", Type: "string"}, {Name: "n", Type: "number"}}},
			Steps: []afterbay.Step{
				{Let: []afterbay.Binding{{Name: "eur", Expr: eur}}},
				{Features: []afterbay.Feature{{Name: "past", Value: value, Windows: []string{"24h"}, Aggregates: []string{"sum"}, Max: more}}},
				{Emit: &afterbay.Emit{Topic: "out", Names: []string{"past.sum_24h"}}},
			}}
		r, err := afterbay.New(p, afterbay.Options{})
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
