package e2e_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"hash/fnv"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/afterbay/afterbay/internal/event/header"
	"github.com/afterbay/afterbay/internal/lang"
	"github.com/afterbay/afterbay/internal/lang/steps"
	"github.com/afterbay/afterbay/internal/log/memory"
	running "github.com/afterbay/afterbay/internal/pipeline"
	"github.com/afterbay/afterbay/internal/process/builtin"
	"github.com/afterbay/afterbay/internal/spec"
	"github.com/afterbay/afterbay/internal/state/deadletter"
	"github.com/afterbay/afterbay/stream"
	"github.com/afterbay/afterbay/stream/streamtest"
	"github.com/afterbay/afterbay/udf"
)

// counter is a function that counts the events of a key in a state and an output
// of this name.
func counter(name string) udf.Function {
	return udf.Function{Version: 1, Keyed: true, Event: func(c *udf.Context) error {
		n, _ := strconv.Atoi(string(c.Get("n")))
		c.Put("n", strconv.AppendInt(nil, int64(n+1), 10))
		c.SetInt(name, int64(n+1))
		return nil
	}}
}

// rides is a pipeline with effects before and after a step that fails as the
// test says.
func rides(fails func(id string) error) lang.Pipeline {
	ints := func(name string) []lang.Field { return []lang.Field{{Name: name, Type: "int"}} }
	return lang.Pipeline{
		Name: "rides",
		Input: lang.Input{
			Topic: "in", Key: "card", Partitions: 2,
			Time:   lang.EventTime{Field: "ts", Unit: "ms", Late: "include"},
			Fields: []lang.Field{{Name: "card", Type: "string"}, {Name: "tx", Type: "string"}, {Name: "amount", Type: "number"}, {Name: "ts", Type: "int"}},
			Dedupe: &lang.Dedupe{ID: "tx"},
		},
		Steps: []lang.Step{
			&steps.Features{List: []steps.Feature{{Name: "seen", Windows: []string{"1h"}, Aggregates: []string{"count"}}}},
			&steps.Call{Go: "before", Outputs: ints("nth")},
			&steps.Emit{Topic: "early", Names: []string{"tx", "nth"}},
			&steps.Route{Cases: []lang.Case{
				{Name: "small", When: "amount < 50", Steps: []lang.Step{&steps.Let{List: []lang.Binding{{Name: "size", Expr: `"small"`}}}}},
				{Name: "default", Steps: []lang.Step{
					&steps.Call{Go: "flaky", Inputs: []string{"tx"}},
					&steps.Let{List: []lang.Binding{{Name: "size", Expr: `"big"`}}},
				}},
			}},
			&steps.Call{Go: "after", Outputs: ints("done")},
			&steps.Emit{Topic: "out", Names: []string{"tx", "card", "nth", "seen.count_1h", "size", "done"}},
		},
		Code: lang.Code{Functions: map[string]udf.Function{
			"before": counter("nth"), "after": counter("done"),
			"flaky": {Version: 1, Event: func(c *udf.Context) error { return fails(c.Text("tx")) }},
		}},
	}
}

func rideEvents(n int) []stream.Record {
	var events []stream.Record
	for i := range n {
		card := fmt.Sprint("c", i*i%17)
		events = append(events, stream.Record{
			Partition: stream.Partition{Topic: "in", Index: stream.ByKey}, Key: []byte(card), Time: time.UnixMilli(epoch).Add(time.Hour),
			Value: fmt.Appendf(nil, `{"tx":"t%d","card":%q,"amount":%d,"ts":%d}`, i, card, i%100, epoch+i*1000),
		})
	}
	return events
}

type ride struct {
	Tx, Card, Size string
	Nth, Done      int
	Seen           int `json:"seen_count_1h"`
}

// readRides returns the outputs by id, each of which must be there once, and
// sees that each event was counted once before and after what fails.
func readRides(t *testing.T, log stream.Log) map[string]ride {
	t.Helper()
	found, done := map[string]ride{}, map[string][]int{}
	for i := range int32(2) {
		for _, r := range readPartition(t, log, stream.Partition{Topic: "out", Index: i}) {
			var one ride
			if err := json.Unmarshal(r.Value, &one); err != nil {
				t.Fatal(err)
			}
			id := header.Get(&r, header.ID)
			if _, twice := found[id]; twice {
				t.Fatalf("output %s occurs twice", id)
			}
			done[one.Card] = append(done[one.Card], one.Done)
			one.Done = 0 // the order after the step that fails is another
			found[id] = one
		}
	}
	for card, list := range done {
		slices.Sort(list)
		for i, n := range list {
			if n != i+1 {
				t.Fatalf("events of %s were counted %v", card, list)
			}
		}
	}
	return found
}

// settle settles dead letters until that ends without an error, and returns how
// many were settled.
func settle(t *testing.T, log deadletter.Log, job deadletter.Job) (settled int) {
	t.Helper()
	for range 1000 {
		var last deadletter.Progress
		var err error
		for last, err = range deadletter.Settle(t.Context(), log, job) {
			if err != nil {
				break
			}
		}
		settled += last.Settled
		switch {
		case err == nil && last.Done && (job.Limit == 0 || last.Settled < job.Limit):
			return settled
		case err != nil && !errors.Is(err, stream.ErrFenced):
			t.Fatal(err)
		}
	}
	t.Fatal("it does not end")
	return 0
}

func openLetters(t *testing.T, log deadletter.Log, pipeline string) (list []deadletter.Letter) {
	t.Helper()
	for l, err := range deadletter.Letters(t.Context(), log, pipeline, deadletter.Filter{}, false) {
		if err != nil {
			t.Fatal(err)
		}
		list = append(list, l)
	}
	return list
}

// TestRedriveResumesAtTheFailedStepAndDoesNothingTwice lets a step fail for some
// events, once or twice each, and sends their dead letters back until there are
// none, over logs that lose commits and hide that they were done. Then all is as
// if nothing had failed.
func TestRedriveResumesAtTheFailedStepAndDoesNothingTwice(t *testing.T) {
	events := rideEvents(600)
	sound := memory.New(memory.Options{})
	runAll(t, sound, rides(func(string) error { return nil }), events)
	want := readRides(t, sound)
	for _, engine := range []string{"memory", "embedded", "kafka", "kafka broker"} {
		t.Run(engine, func(t *testing.T) {
			log := openLog(t, engine, t.TempDir())
			defer closeLog(t, log)
			var mu sync.Mutex
			failed := map[string]int{}
			p := rides(func(tx string) error {
				mu.Lock()
				defer mu.Unlock()
				h := fnv.New32()
				h.Write([]byte(tx))
				if n := int(h.Sum32() % 4); failed[tx] < n-1 {
					failed[tx]++
					return fmt.Errorf("failure %d of %s", failed[tx], tx)
				}
				return nil
			})
			runAll(t, log, p, events)
			inspector := log.(stream.Inspector)
			faulty := streamtest.NewFaulty(log, streamtest.FaultyOptions{
				Seed: *answerSeed, Percent: map[streamtest.Fault]int{streamtest.CommitLost: 20, streamtest.CommitHidden: 20},
			})
			var letters deadletter.Log = inspected{faulty, inspector}
			limit := 7
			if strings.HasPrefix(engine, "kafka") {
				letters, limit = log.(deadletter.Log), 0 // each call joins a group there
			}
			rounds, sent := 0, 0
			for open := openLetters(t, letters, "rides"); len(open) > 0; open = openLetters(t, letters, "rides") {
				if rounds++; rounds > 10 {
					t.Fatalf("%d are left: %+v", len(open), open[0])
				}
				for _, l := range open {
					if l.Stage != "call" || l.Resume != "from call flaky in default" || l.Attempts != rounds || l.Refusal() != "" {
						t.Fatalf("round %d: %+v: %s", rounds, l, l.Refusal())
					}
				}
				settle(t, letters, deadletter.Job{Pipeline: "rides", Limit: limit})
				sent += len(open)
				runAll(t, log, p, nil)
			}
			if rounds < 2 || sent < 100 {
				t.Errorf("%d dead letters in %d rounds are too few to see anything", sent, rounds)
			}
			if d := cmp.Diff(want, readRides(t, log)); d != "" {
				t.Error(d)
			}
			early := 0
			for i := range int32(2) {
				early += len(readPartition(t, log, stream.Partition{Topic: "early", Index: i}))
			}
			if early != len(events) {
				t.Errorf("%d outputs before the failure, of %d events", early, len(events))
			}
			if n := settle(t, letters, deadletter.Job{Pipeline: "rides"}); n != 0 {
				t.Errorf("%d letters were sent a second time", n)
			}
		})
	}
}

// runAll appends events and runs a pipeline until it is idle.
func runAll(t *testing.T, log stream.Log, p lang.Pipeline, events []stream.Record) {
	t.Helper()
	runner, err := builtin.New(p, running.Options{Members: 2})
	if err != nil {
		t.Fatal(err)
	}
	if err := runner.CreateTopics(t.Context(), log); err != nil {
		t.Fatal(err)
	}
	if len(events) > 0 {
		if err := log.Append(t.Context(), slices.Clone(events)...); err != nil {
			t.Fatal(err)
		}
	}
	runUntilIdle(t, runner, log)
}

// divided is payments with a step that fails for an amount of 0, or not.
func divided(corrected bool) lang.Pipeline {
	p := payments()
	p.Steps[1].(*steps.Let).List[0].Expr = "100.0 / amount"
	if corrected {
		p.Steps[1].(*steps.Let).List[0].Expr = "amount == 0.0 ? 0.0 : 100.0 / amount"
	}
	return p
}

func redriveAll(t *testing.T, log stream.Log, pipeline string) int {
	t.Helper()
	return settle(t, log.(deadletter.Log), deadletter.Job{Pipeline: pipeline})
}

func TestRedriveGoesOnInACorrectedPipelineWithTheSameIDAndRow(t *testing.T) {
	log := run(t, divided(false), payment("a", 40, 0), payment("a", 0, 10), payment("a", 5, 20))
	if n := redriveAll(t, log, "payments"); n != 1 {
		t.Fatalf("%d letters were sent back", n)
	}
	runOn(t, log, divided(true), payment("a", 60, 30))
	want := []string{
		`{"card":"a","spend_sum_1h":40,"spend_count_1h":1,"gap":-1,"action":"allow"}`,
		`{"card":"a","spend_sum_1h":45,"spend_count_1h":3,"gap":10,"action":"allow"}`,
		`{"card":"a","spend_sum_1h":40,"spend_count_1h":2,"gap":10,"action":"allow"}`,
		`{"card":"a","spend_sum_1h":105,"spend_count_1h":4,"gap":10,"action":"review"}`,
	}
	if d := cmp.Diff(want, values(t, log, "out")); d != "" {
		t.Error(d)
	}
	out := readPartition(t, log, stream.Partition{Topic: "out"})
	for key, want := range map[string]string{header.ID: "payments:in/0@1:out", header.Position: "in/0@1"} {
		if got := header.Get(&out[2], key); got != want {
			t.Errorf("%s is %q, want %q", key, got, want)
		}
	}
	if !out[2].Time.Equal(time.UnixMilli(epoch + 10_000)) {
		t.Errorf("its time is %v", out[2].Time)
	}
}

func TestRedriveThatFailsAgainIsADeadLetterWithOneAttemptMore(t *testing.T) {
	log := run(t, divided(false), payment("a", 0, 0))
	for attempt := 2; attempt <= 3; attempt++ {
		redriveAll(t, log, "payments")
		runOn(t, log, divided(false))
		open := openLetters(t, log.(deadletter.Log), "payments")
		if len(open) != 1 || open[0].Attempts != attempt || open[0].ID != "in/0@0" || open[0].Origin != "in/0@0" || open[0].Resume != "from let share" {
			t.Fatalf("attempt %d: %+v", attempt, open)
		}
	}
}

func TestRedriveRefusesAStepThatWasNotThere(t *testing.T) {
	log := run(t, divided(false), payment("a", 0, 0))
	redriveAll(t, log, "payments")
	p := divided(true)
	p.Steps = slices.Insert(p.Steps, 1, lang.Step(&steps.Call{Go: "nth", Outputs: []lang.Field{{Name: "nth", Type: "int"}}}))
	p.Code.Functions = map[string]udf.Function{"nth": counter("nth")}
	runOn(t, log, p)
	open := openLetters(t, log.(deadletter.Log), "payments")
	if len(open) != 1 || open[0].Stage != "redrive" || !strings.Contains(open[0].Reason, "step `call nth` is new and above the step that failed") || open[0].Resume != "from let share" {
		t.Fatalf("%+v", open)
	}
	redriveAll(t, log, "payments")
	runOn(t, log, divided(true))
	if got := values(t, log, "out"); len(got) != 1 {
		t.Errorf("once the step is gone: %v", got)
	}
}

func TestRedriveOfATooLargeOutputWritesNothingElse(t *testing.T) {
	p := payments()
	p.Input.Fields[3].Type = "string"
	p.Steps = []lang.Step{
		&steps.Emit{Topic: "huge", Value: []steps.Member{{Name: "text", Expr: "note + note + note"}, {Name: "rest", Expr: "note"}}},
		&steps.Emit{Topic: "out", Names: []string{"card"}},
	}
	event := payment("a", 1, 0)
	event.Value = fmt.Appendf(nil, `{"card":"a","amount":1,"ts":%d,"note":%q}`, epoch, strings.Repeat("x", 300<<10))
	log := run(t, p, event)
	open := openLetters(t, log.(deadletter.Log), "payments")
	if len(open) != 1 || open[0].Resume != "only; emit huge" {
		t.Fatalf("%+v", stages(t, log, "payments.dlq"))
	}
	redriveAll(t, log, "payments")
	p.Steps[0].(*steps.Emit).Value[0].Expr = "note"
	runOn(t, log, p)
	if huge, out := values(t, log, "huge"), values(t, log, "out"); len(huge) != 1 || len(out) != 1 {
		t.Errorf("%d huge outputs, %d others: want 1 of each", len(huge), len(out))
	}
}

func TestRedriveIsNoEventOfAnotherPipelineOfTheTopic(t *testing.T) {
	log := run(t, divided(false), payment("a", 0, 0))
	other := payments()
	other.Name, other.Steps = "other", []lang.Step{
		&steps.Features{List: []steps.Feature{{Name: "seen", Windows: []string{"1h"}, Aggregates: []string{"count"}}}},
		&steps.Emit{Topic: "seen", Names: []string{"seen.count_1h"}},
	}
	redriveAll(t, log, "payments")
	runOn(t, log, other, payment("a", 5, 10))
	if d := cmp.Diff([]string{`{"seen_count_1h":1}`, `{"seen_count_1h":2}`}, values(t, log, "seen")); d != "" {
		t.Error(d)
	}
	if got := stages(t, log, "other.dlq"); len(got) > 0 {
		t.Errorf("its dead letters: %v", got)
	}
}

func TestRedriveOfALateEventIsJudgedAgain(t *testing.T) {
	p := payments()
	p.Input.Dedupe = &lang.Dedupe{ID: "note"}
	p.Input.Fields[3].Type = "string"
	with := func(note string, second int) stream.Record {
		r := payment("a", 5, second)
		r.Value = fmt.Appendf(nil, `{"card":"a","amount":5,"ts":%d,"note":%q}`, epoch+second*1000, note)
		return r
	}
	log := run(t, p, with("first", 100), with("late", 10))
	redriveAll(t, log, "payments")
	runOn(t, log, p)
	if got := stages(t, log, "payments.dlq"); len(got) != 2 {
		t.Fatalf("%v", got)
	}
	p.Input.Time.Late = "include"
	redriveAll(t, log, "payments")
	runOn(t, log, p)
	want := []string{
		`{"card":"a","spend_sum_1h":5,"spend_count_1h":1,"gap":-1,"action":"allow"}`,
		`{"card":"a","spend_sum_1h":5,"spend_count_1h":1,"gap":0,"action":"allow"}`,
	}
	if d := cmp.Diff(want, values(t, log, "out")); d != "" {
		t.Error(d)
	}
}

func TestRedriveOfCopiedInputs(t *testing.T) {
	bad := payment("a", 0, 5)
	bad.Value = fmt.Appendf(nil, `{"card":"a","amount":"five","ts":%d}`, epoch)
	p := divided(false)
	p.Input.Repartition = 1
	log := run(t, p, payment("a", 0, 0), bad, payment("a", 5, 10))
	if n := redriveAll(t, log, "payments"); n != 2 {
		t.Fatalf("%d were sent back, of %v", n, stages(t, log, "payments.dlq"))
	}
	p = divided(true)
	p.Input.Repartition = 1
	runOn(t, log, p)
	open := openLetters(t, log.(deadletter.Log), "payments")
	if len(open) != 1 || open[0].Stage != "decode" || open[0].Attempts != 2 || open[0].Origin != "in/0@1" {
		t.Errorf("%+v", open)
	}
	if got := values(t, log, "out"); len(got) != 2 || !strings.Contains(got[1], `"spend_count_1h":1,`) {
		t.Errorf("outputs %v", got)
	}
}

func TestTimersAreNotSentBack(t *testing.T) {
	p := visitPipeline()
	failing := visits
	failing.Timer = func(*udf.Context) error { return errors.New("no") }
	p.Code.Functions = map[string]udf.Function{"visits": failing}
	log := run(t, p, click("ann", 100), click("ann", 300))
	open := openLetters(t, log.(deadletter.Log), "visits")
	if len(open) != 1 || open[0].Refusal() == "" {
		t.Fatalf("%+v", open)
	}
	var last deadletter.Progress
	for p, err := range deadletter.Settle(t.Context(), log.(deadletter.Log), deadletter.Job{Pipeline: "visits"}) {
		if err != nil {
			t.Fatal(err)
		}
		last = p
	}
	if last.Settled != 0 || last.Refused != 1 || len(last.Refusals) != 1 || !last.Done {
		t.Errorf("%+v", last)
	}
	if n := settle(t, log.(deadletter.Log), deadletter.Job{Pipeline: "visits", Drop: true}); n != 1 || len(openLetters(t, log.(deadletter.Log), "visits")) != 0 {
		t.Errorf("%d were dropped", n)
	}
}

// TestPipelineThatDeadLettersEverythingStandsStillUntilToldToGoOn also sees that
// nothing is read meanwhile.
func TestPipelineThatDeadLettersEverythingStandsStillUntilToldToGoOn(t *testing.T) {
	for _, repartition := range []int32{0, 1} {
		t.Run(fmt.Sprint("repartition=", repartition), func(t *testing.T) {
			p := payments()
			p.DeadLetters.StopAbove = spec.Share{Of: 0.05, Per: time.Minute}
			p.Input.Repartition = repartition
			log := memory.New(memory.Options{})
			runner, err := builtin.New(p, running.Options{})
			if err != nil {
				t.Fatal(err)
			}
			if err := runner.CreateTopics(t.Context(), log); err != nil {
				t.Fatal(err)
			}
			send := func(n int, amount string) {
				t.Helper()
				for i := range n {
					r := payment("a", 1, i)
					r.Partition.Topic, r.Value = "in", fmt.Appendf(nil, `{"card":"a","amount":%s,"ts":%d}`, amount, epoch)
					if err := log.Append(t.Context(), r); err != nil {
						t.Fatal(err)
					}
				}
			}
			ctx, cancel := context.WithCancel(t.Context())
			done := make(chan error, 1)
			go func() { done <- runner.Run(ctx, log) }()
			send(9, `"x"`)
			if err := runner.WaitIdle(ctx, log); err != nil || runner.Snapshot().Stopped != nil {
				t.Fatalf("after 9 dead letters: %v, %+v", err, runner.Snapshot().Stopped)
			}
			send(20, `"x"`)
			if err := runner.WaitIdle(ctx, log); err != nil && !errors.Is(err, running.ErrStopped) || runner.Snapshot().Stopped == nil {
				t.Fatalf("after 29 dead letters: %v", err)
			}
			send(5, "1")
			if err := runner.WaitIdle(ctx, log); !errors.Is(err, running.ErrStopped) || len(values(t, log, "out")) > 0 {
				t.Errorf("while it stands still: %v, outputs %v", err, values(t, log, "out"))
			}
			if !runner.Resume() || runner.Resume() {
				t.Error("it does not go on once")
			}
			if err := runner.WaitIdle(ctx, log); err != nil && !errors.Is(err, running.ErrStopped) {
				t.Error(err)
			}
			for runner.Resume() { // what was not read yet is as bad
				_ = runner.WaitIdle(ctx, log)
			}
			if got, dead := values(t, log, "out"), stages(t, log, "payments.dlq"); len(got) != 5 || len(dead) != 29 {
				t.Errorf("outputs %v after %d dead letters", got, len(dead))
			}
			cancel()
			if err := <-done; err != nil {
				t.Error(err)
			}
		})
	}
}
