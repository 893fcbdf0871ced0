package reprocess_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/afterbay/afterbay/internal/lang"
	"github.com/afterbay/afterbay/internal/lang/steps"
	"github.com/afterbay/afterbay/internal/log/memory"
	"github.com/afterbay/afterbay/internal/ops/reprocess"
	"github.com/afterbay/afterbay/internal/pipeline"
	"github.com/afterbay/afterbay/internal/process/builtin"
	"github.com/afterbay/afterbay/internal/state/generation"
	"github.com/afterbay/afterbay/internal/state/statekey"
	"github.com/afterbay/afterbay/stream"
)

// dump returns the whole state of a group by partition, but for what is of its
// generation.
func dump(t *testing.T, log generation.Log, group string) [partitions]map[string]string {
	t.Helper()
	var all [partitions]map[string]string
	for index := range all {
		view, err := log.State(t.Context(), group, stream.Partition{Topic: "in", Index: int32(index)})
		if err != nil {
			t.Fatal(err)
		}
		all[index] = map[string]string{}
		for e, err := range view.Scan(nil) {
			if err != nil {
				t.Fatal(err)
			}
			if e.Key[0] != statekey.Generation {
				all[index][string(e.Key)] = string(e.Value)
			}
		}
	}
	return all
}

// dryRun returns the last that a dry run says.
func dryRun(t *testing.T, log generation.Log, p lang.Pipeline, job reprocess.Job) (last reprocess.Progress) {
	t.Helper()
	dry, err := builtin.New(p, pipeline.Options{DryRun: true, Members: 2})
	if err != nil {
		t.Fatal(err)
	}
	for p, err := range reprocess.DryRun(t.Context(), log, dry, job) {
		if err != nil {
			t.Fatal(err)
		}
		last = p
	}
	if !last.Done {
		t.Fatalf("the dry run ended with %+v", last)
	}
	return last
}

// TestStateOfAnotherGenerationIsBegunWith derives with a state that was ended at a
// time: what is made of the events behind it, and the state in the end, are those of a
// derivation of all.
func TestStateOfAnotherGenerationIsBegunWith(t *testing.T) {
	onEngines(t, beginWithState)
}

func beginWithState(t *testing.T, log generation.Log) {
	old := newRunner(t, payments(20))
	stop := start(t, log, old)
	defer stop()
	mustAppend(t, log, events(0, 600))
	idle(t, log, old)
	until := time.UnixMilli(epoch + 400*1000).Add(time.Minute)
	ended := do(t, log, newRunner(t, payments(30)), reprocess.Job{To: until})
	if ended.Generation != 2 || ended.Events != 400 {
		t.Fatalf("what was ended says %+v", ended)
	}
	job := reprocess.Job{State: "2"}
	if said := dryRun(t, log, payments(40), job); said.Events != 200 || said.Outputs+said.Dead < 200 {
		t.Errorf("a dry run says %+v", said)
	}
	last := do(t, log, newRunner(t, payments(40)), job)
	if last.Generation != 3 || last.Events != 200 || last.Of != 200 || last.Resumed {
		t.Errorf("it says %+v", last)
	}
	mustAppend(t, log, events(600, 100))
	idle(t, log, old)
	if last = do(t, log, newRunner(t, payments(40)), job); last.Generation != 3 || last.Events != 300 || !last.Resumed {
		t.Errorf("the same job again says %+v", last)
	}
	whole := do(t, log, newRunner(t, payments(40)), reprocess.Job{})
	if whole.Generation != 4 || whole.Events != 700 {
		t.Fatalf("a derivation of all says %+v", whole)
	}
	if d := cmp.Diff(dump(t, log, "payments.g4"), dump(t, log, "payments.g3")); d != "" {
		t.Errorf("the state is not that of a derivation of all: %s", d)
	}
	for _, topic := range []string{"out", "shops", "payments.dlq"} {
		var want []output
		for _, o := range outputs(t, log, generation.TopicOf("payments", topic, 4)) {
			if p := position(t, o.Position); p.Offset >= last.First[p.Partition.Index] {
				want = append(want, o)
			}
		}
		if d := cmp.Diff(sorted(want), sorted(outputs(t, log, generation.TopicOf("payments", topic, 3)))); d != "" || len(want) == 0 {
			t.Errorf("%s of %d outputs: %s", topic, len(want), d)
		}
	}
	if again := do(t, log, newRunner(t, payments(30)), reprocess.Job{State: "2", To: until.Add(time.Minute)}); again.Generation != 5 || again.Events != 60 {
		t.Errorf("the ended state taken further by the same pipeline says %+v", again)
	}
}

// TestStateOfTheLiveGenerationIsBegunWith copies the state of a pipeline whose first
// events are forgotten by what derives: their sums are in what is made of later ones.
func TestStateOfTheLiveGenerationIsBegunWith(t *testing.T) {
	onEngines(t, beginWithLive)
}

func beginWithLive(t *testing.T, log generation.Log) {
	old := newRunner(t, payments(20))
	stop := start(t, log, old)
	mustAppend(t, log, events(0, 300))
	idle(t, log, old)
	job := reprocess.Job{State: "live"}
	running := job
	running.HandOver = func(context.Context, generation.Begun, func(generation.Live)) error { return errors.New("no switch") }
	for _, err := range reprocess.Run(t.Context(), log, newRunner(t, payments(40)), running) {
		if err == nil || !strings.Contains(err.Error(), "Stop the process") {
			t.Errorf("of a pipeline that runs: %v", err)
		}
	}
	stop()
	before := dump(t, log, "payments")
	if said := dryRun(t, log, payments(40), job); said.Events != 0 {
		t.Errorf("a dry run without events says %+v", said)
	}
	if last := do(t, log, newRunner(t, payments(40)), job); last.Generation != 2 || last.Events != 0 {
		t.Errorf("it says %+v", last)
	}
	if d := cmp.Diff(before, dump(t, log, "payments.g2")); d != "" {
		t.Errorf("the copy: %s", d)
	}
	if d := cmp.Diff(before, dump(t, log, "payments")); d != "" {
		t.Errorf("what was copied changed: %s", d)
	}
	stop = start(t, log, old)
	mustAppend(t, log, events(300, 100))
	idle(t, log, old)
	last := do(t, log, newRunner(t, payments(40)), running)
	if !last.Resumed || last.Generation != 2 || last.Events != 100 {
		t.Errorf("beside the pipeline it says %+v", last)
	}
	stop()
	if d := cmp.Diff(dump(t, log, "payments"), dump(t, log, "payments.g2")); d != "" {
		t.Errorf("the states differ in the end: %s", d)
	}
	var want []output
	for _, o := range fresh(t, payments(40), events(0, 400))["out"] {
		if p := position(t, o.Position); p.Offset >= last.First[p.Partition.Index] {
			want = append(want, o)
		}
	}
	if d := cmp.Diff(sorted(want), sorted(outputs(t, log, "payments.g2.out"))); d != "" || len(want) == 0 {
		t.Errorf("%d outputs: %s", len(want), d)
	}
}

// unjoined is a log whose groups cannot be joined once.
type unjoined struct {
	generation.Log
	group string
}

var errUnjoined = errors.New("not joined")

func (l *unjoined) Join(ctx context.Context, group string, topics ...string) (stream.Member, error) {
	if group == l.group {
		return nil, errUnjoined
	}
	return l.Log.Join(ctx, group, topics...)
}

// TestCopyThatEndedEarlyGoesOnOrBeginsAnew ends between the record of a generation and
// the copy of its state: the same job goes on, or begins another generation where the
// state to be copied went on meanwhile.
func TestCopyThatEndedEarlyGoesOnOrBeginsAnew(t *testing.T) {
	log := memory.New(memory.Options{})
	live := func(from, n int) {
		r := newRunner(t, payments(20))
		stop := start(t, log, r)
		defer stop()
		mustAppend(t, log, events(from, n))
		idle(t, log, r)
	}
	end := func(limit float64, group string, job reprocess.Job) {
		for p, err := range reprocess.Run(t.Context(), &unjoined{log, group}, newRunner(t, payments(limit)), job) {
			if !errors.Is(err, errUnjoined) {
				t.Fatalf("%+v: %v", p, err)
			}
		}
	}
	job := reprocess.Job{State: "live"}
	live(0, 300)
	end(40, "payments.g2", job)
	if last := do(t, log, newRunner(t, payments(40)), job); last.Generation != 2 || !last.Resumed {
		t.Errorf("it says %+v", last)
	}
	end(50, "payments.g3", job)
	live(300, 100)
	if last := do(t, log, newRunner(t, payments(50)), job); last.Generation != 4 || last.Resumed || last.Events != 0 {
		t.Errorf("of a state that went on it says %+v", last)
	}
	for _, group := range []string{"payments.g2", "payments.g4"} {
		do(t, log, newRunner(t, payments(map[string]float64{"payments.g2": 40, "payments.g4": 50}[group])), job)
		if d := cmp.Diff(dump(t, log, "payments"), dump(t, log, group)); d != "" {
			t.Errorf("%s: %s", group, d)
		}
	}
}

func TestStatesThatCannotBeBegunWithAreRefused(t *testing.T) {
	log := memory.New(memory.Options{})
	old := newRunner(t, payments(20))
	stop := start(t, log, old)
	mustAppend(t, log, events(0, 100))
	idle(t, log, old)
	stop()
	do(t, log, newRunner(t, payments(40)), reprocess.Job{Switch: true})
	do(t, log, newRunner(t, payments(60)), reprocess.Job{Switch: true})
	other := payments(80)
	other.Steps[0].(*steps.Features).List[0].Windows = []string{"1h", "2h"}
	for want, of := range map[string]struct {
		lang.Pipeline
		reprocess.Job
	}{
		"no generation has that number": {payments(80), reprocess.Job{State: "7"}},
		"use live, or":                  {payments(80), reprocess.Job{State: "newest"}},
		"leave out switch":              {payments(80), reprocess.Job{State: "live", Switch: true}},
		"was handed over":               {payments(80), reprocess.Job{State: "2"}},
		`was written with another feature "spend": undo the change, or reprocess`: {other, reprocess.Job{State: "live"}},
		"nothing needs reprocessing": {payments(60), reprocess.Job{}},
	} {
		failed := false
		for _, err := range reprocess.Run(t.Context(), log, newRunner(t, of.Pipeline), of.Job) {
			if failed = err != nil; failed && !strings.Contains(err.Error(), want) {
				t.Errorf("%v, want %q", err, want)
			}
		}
		if !failed {
			t.Errorf("what is refused by %q was done", want)
		}
	}
}
