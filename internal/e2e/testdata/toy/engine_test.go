package toy

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/afterbay/afterbay"
	"github.com/afterbay/afterbay/lookup"
	"github.com/afterbay/afterbay/model"
	"github.com/afterbay/afterbay/sink"
	"github.com/afterbay/afterbay/stream"
)

// all are the kinds of this module.
var all = afterbay.Code{
	Sinks: []sink.Kind{Lines}, Lookups: []lookup.Kind{Book}, ModelKinds: []model.Kind{Linear}, Logs: []stream.Kind{Memory},
}

// everything is a pipeline that has one of each kind.
const everything = `pipeline: everything
input: {topic: payments, key: card, fields: {card: string, amount: number, age: number}}
models: {risk: {file: '%s', version: 1, outputs: {score: number}}}
steps:
  - lookup: {name: of, key: card, fields: {owner: string}, empty: {owner: '"nobody"'}, book: {path: '%s', chapter: cards}}
  - score: {model: risk, inputs: [amount, age]}
  - emit: {topic: decisions, value: [card, of.owner, risk.score]}
sinks:
  - {from: decisions, lines: {path: '%s'}}
`

// TestAnEngineRunsAllKinds appends an event to an engine on a log of this module, and sees its
// decision in the log, in the sink, in the status and explained.
func TestAnEngineRunsAllKinds(t *testing.T) {
	dir := t.TempDir()
	cards, lines := filepath.Join(dir, "cards.json"), filepath.Join(dir, "decisions.ndjson")
	if err := os.WriteFile(cards, []byte(`{"cards": {"c0": {"owner": "ann"}}}`), 0o600); err != nil {
		t.Fatal(err)
	}
	text := fmt.Sprintf(everything, manifest(t, "outputs: [score]\nlinear: {bias: 0.5}\n"), cards, lines)
	path := filepath.Join(dir, "everything.yaml")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	pipelines, err := afterbay.Load(all, path)
	if err != nil {
		t.Fatal(err)
	}
	if warnings, err := pipelines.Check(t.Context(), afterbay.Options{}); err != nil || len(warnings) != 0 {
		t.Errorf("warnings %v, %v", warnings, err)
	}
	ctx, stop := context.WithTimeout(t.Context(), 5*time.Minute)
	defer stop()
	engine, err := afterbay.Open(ctx, "toy:tests", afterbay.Options{Code: all, Parallelism: 2})
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- engine.Run(ctx, pipelines) }()
	if err := engine.Ready(ctx); err != nil {
		t.Fatal(err)
	}
	if err := engine.Append(ctx, "payments", stream.Record{Key: []byte("c0"), Value: []byte(`{"card":"c0","amount":4,"age":0}`)}); err != nil {
		t.Fatal(err)
	}
	if err := engine.WaitIdle(ctx); err != nil {
		t.Fatal(err)
	}
	const want = `{"card":"c0","of_owner":"ann","risk_score":2.5}`
	var id string
	for decision, err := range engine.Tail(ctx, "decisions", 0) {
		if err != nil || string(decision.Value) != want {
			t.Errorf("%s, %v, want %s", decision.Value, err, want)
		}
		for _, h := range decision.Headers {
			if h.Key == "afterbay-id" {
				id = string(h.Value)
			}
		}
		break
	}
	if file, err := os.ReadFile(lines); err != nil || strings.Count(string(file), want) != 1 {
		t.Errorf("the sink has %s, %v", file, err)
	}
	if status, err := engine.Status(ctx); err != nil || len(status.Pipelines) != 1 || status.Pipelines[0].Name != "everything" {
		t.Errorf("status %+v, %v", status, err)
	}
	if report, err := engine.Explain(ctx, id); err != nil || report.Event == nil || !strings.Contains(string(report.Event.Value), `"amount":4`) {
		t.Errorf("%q is explained by %+v, %v", id, report, err)
	}
	stop()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	if err := engine.Close(); err != nil {
		t.Error(err)
	}
}
