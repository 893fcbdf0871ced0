package e2e_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/afterbay/afterbay/internal/lang"
	"github.com/afterbay/afterbay/internal/lang/steps"
	"github.com/afterbay/afterbay/internal/log/memory"
	"github.com/afterbay/afterbay/internal/pipeline"
	"github.com/afterbay/afterbay/internal/process/builtin"
	"github.com/afterbay/afterbay/internal/test/answers"
	"github.com/afterbay/afterbay/model"
	"github.com/afterbay/afterbay/stream"
	"github.com/afterbay/afterbay/stream/streamtest"
)

// historyPipeline writes the texts of each key to a table, and looks up the earlier
// ones.
func historyPipeline(s *service, score *steps.Score) lang.Pipeline {
	p := queueingPipeline(s, steps.Score{}, lang.Calling{Breaker: lang.Breaker{Open: "queue", Probe: time.Millisecond}, Backoff: lang.Backoff{Base: time.Millisecond, Max: 10 * time.Millisecond}})
	p.Steps = []lang.Step{
		&steps.Lookup{
			Name: "past", Table: "history", Key: "k", Fields: []lang.Field{{Name: "turns", Type: "int"}, {Name: "said", Type: "number"}},
			Empty: []lang.Binding{{Name: "turns", Expr: "0"}, {Name: "said", Expr: "0.0"}},
		},
		&steps.Emit{Topic: "history", Value: []steps.Member{{Name: "turns", Expr: "past.turns + 1"}, {Name: "said", Expr: "n"}}},
		&steps.Emit{Topic: "out", Value: []steps.Member{{Name: "turn", Expr: "past.turns"}, {Name: "after", Expr: "past.said"}, {Name: "n", Expr: "n"}}},
	}
	if p.Models = p.Models[:min(len(p.Models), 1)]; score == nil {
		p.Models = nil
	} else {
		score.Model, score.Inputs = "far", []string{"n"}
		p.Steps = slices.Insert(p.Steps, 1, lang.Step(score))
	}
	return p
}

// historyEvents returns events of keys, in the partitions that producers choose.
func historyEvents(from, to, keys int) (events []stream.Record) {
	for i := from; i < to; i++ {
		key := fmt.Sprint("k", i%keys)
		events = append(events, row("in", key, fmt.Sprintf(`{"k":%q,"n":%d}`, key, i+1)))
	}
	return events
}

func checkHistory(t *testing.T, a answers.Answer, events, keys int) {
	t.Helper()
	got := byKey(a, "out")
	for k := range keys {
		var want []string
		for i := k; i < events; i += keys {
			want = append(want, fmt.Sprintf(`{"turn":%d,"after":%d,"n":%d}`, i/keys, max(0, i+1-keys), i+1))
		}
		if key := fmt.Sprint("k", k); !slices.Equal(got[key], want) {
			t.Errorf("key %s\ngot  %s\nwant %s", key, got[key], want)
		}
	}
}

// TestEventsFindTheRowsThatThoseBeforeThemWrote has several events of a key in flight,
// crashes, and a model that is slow or down.
func TestEventsFindTheRowsThatThoseBeforeThemWrote(t *testing.T) {
	const events, keys = 120, 3
	for name, score := range map[string]*steps.Score{"at once": nil, "async": {Async: true, Ordered: true}, "ordered": {Ordered: true}} {
		for _, engine := range []string{"memory", "embedded", "kafka", "faulty"} {
			t.Run(name+"/"+engine, func(t *testing.T) {
				s := &service{instead: func(call int, _ []float64) error {
					if call%5 == 1 {
						return blamed(model.BlameWay)
					}
					return nil
				}}
				var log stream.Log
				if engine == "faulty" {
					sound := memory.New(memory.Options{RebalanceTimeout: time.Second})
					log = inspected{streamtest.NewFaulty(sound, streamtest.FaultyOptions{
						Seed: 1, Percent: map[streamtest.Fault]int{streamtest.CommitLost: 10, streamtest.CommitHidden: 10},
					}), sound}
				} else {
					log = openLog(t, engine, t.TempDir())
					defer closeLog(t, log)
				}
				p := historyPipeline(s, score)
				p.Commit.Size = 10
				runQueueing(t, log, p, 2, historyEvents(0, events/2, keys))
				answer, _ := runQueueing(t, log, p, 1, historyEvents(events/2, events, keys)) // goes on with the stored state
				checkHistory(t, answer, events, keys)
			})
		}
	}
}

// TestTheNextEventDoesNotFindARowThatWasDeleted deletes a row in the step of the next event of its
// key, and in a step before it.
func TestTheNextEventDoesNotFindARowThatWasDeleted(t *testing.T) {
	for _, size := range []int{1, 10} {
		log := memory.New(memory.Options{})
		p := historyPipeline(&service{}, nil)
		p.Commit.Size = size
		p.Steps[1].(*steps.Emit).Delete = "n == 3"
		answer, _ := runQueueing(t, log, p, 1, historyEvents(0, 5, 1))
		want := []string{`{"turn":0,"after":0,"n":1}`, `{"turn":1,"after":1,"n":2}`, `{"turn":2,"after":2,"n":3}`, `{"turn":0,"after":0,"n":4}`, `{"turn":1,"after":4,"n":5}`}
		if got := byKey(answer, "out")["k0"]; !slices.Equal(got, want) {
			t.Errorf("commits of %d\ngot  %s\nwant %s", size, got, want)
		}
		if got := byKey(answer, "history")["k0"]; len(got) != 5 || got[2] != "" {
			t.Errorf("rows %q", got)
		}
	}
}

// TestRowsOfOthersComeBetween has a person correct the history of a key.
func TestRowsOfOthersComeBetween(t *testing.T) {
	log := memory.New(memory.Options{})
	p := historyPipeline(&service{}, nil)
	runQueueing(t, log, p, 1, historyEvents(0, 3, 1))
	if err := log.Append(t.Context(), row("history", "k0", `{"turns":40,"said":4}`)); err != nil {
		t.Fatal(err)
	}
	answer, _ := runQueueing(t, log, p, 1, historyEvents(3, 5, 1))
	want := []string{`{"turn":40,"after":4,"n":4}`, `{"turn":41,"after":4,"n":5}`}
	if got := byKey(answer, "out")["k0"]; !slices.Equal(got[3:], want) {
		t.Errorf("got %s, want %s", got[3:], want)
	}
}

// TestTablesThatCannotTakeTurnsAreRefused compiles pipelines that would miss rows.
func TestTablesThatCannotTakeTurnsAreRefused(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*lang.Pipeline)
		word   string
	}{
		"queues": {func(p *lang.Pipeline) { p.Steps[1].(*steps.Score).Ordered = false }, "write ordered: true at the step that queues"},
		"emit": {func(p *lang.Pipeline) {
			p.Input.Fields = append(p.Input.Fields, lang.Field{Name: "other", Type: "string"})
			p.Steps[2].(*steps.Emit).Key = "other"
		}, "by key other"},
		"lookup": {func(p *lang.Pipeline) {
			p.Input.Fields = append(p.Input.Fields, lang.Field{Name: "other", Type: "string"})
			p.Steps[0].(*steps.Lookup).Key = "other"
		}, "find them by the input's key"},
		"partial": {func(p *lang.Pipeline) {
			p.Steps[1].(*steps.Score).Partial = &steps.Partial{Topic: "history"}
		}, "give partial another topic"},
		"late": {func(p *lang.Pipeline) { p.Input.Time.LateTo = "history" }, "give late another topic"},
		"on_failure": {func(p *lang.Pipeline) {
			p.Input.Fields = append(p.Input.Fields, lang.Field{Name: "other", Type: "string"})
			p.Steps[1].(*steps.Score).OnFailure, p.Steps[2].(*steps.Emit).Topic = []lang.Step{&steps.Emit{Topic: "history", Key: "other", Names: []string{"n"}}}, "elsewhere"
		}, "by key other"},
	} {
		p := historyPipeline(&service{}, &steps.Score{Async: true, Ordered: true})
		c.change(&p)
		if _, err := builtin.New(p, pipeline.Options{}); err == nil || !strings.Contains(err.Error(), c.word) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestRowThatTheLogRefusesIsNotThere has a record of the table that is too large for the
// log with its key, between two that are not. Its event is a dead letter.
func TestRowThatTheLogRefusesIsNotThere(t *testing.T) {
	key := strings.Repeat("k", 300<<10)
	for _, size := range []int{1, 10} { // events of a step
		log := memory.New(memory.Options{})
		p := historyPipeline(&service{}, nil)
		p.Commit.Size = size
		p.Input.Fields = append(p.Input.Fields, lang.Field{Name: "text", Type: "string"})
		emit := p.Steps[1].(*steps.Emit)
		emit.Value = append(emit.Value, steps.Member{Name: "text", Expr: "text"}, steps.Member{Name: "again", Expr: "text"})
		var events []stream.Record
		for i, text := range []string{"a", strings.Repeat("b", 450<<10), "c"} {
			events = append(events, row("in", key, fmt.Sprintf(`{"k":%q,"n":%d,"text":%q}`, key, i+1, text)))
		}
		answer, runner := runQueueing(t, log, p, 1, events)
		if got := runner.Counts().DeadLetters; got != 1 {
			t.Errorf("%d dead letters", got)
		}
		want := []string{`{"turn":0,"after":0,"n":1}`, `{"turn":1,"after":1,"n":2}`, `{"turn":1,"after":1,"n":3}`}
		if got := byKey(answer, "out")[key]; !slices.Equal(got, want) {
			t.Errorf("steps of %d\ngot  %s\nwant %s", size, got, want)
		}
		if got := byKey(answer, "history")[key]; len(got) != 2 {
			t.Errorf("%d records of the table", len(got))
		}
	}
}
