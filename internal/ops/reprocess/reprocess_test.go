package reprocess_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/afterbay/afterbay/internal/event/header"
	"github.com/afterbay/afterbay/internal/lang"
	"github.com/afterbay/afterbay/internal/lang/steps"
	"github.com/afterbay/afterbay/internal/log/embedded"
	"github.com/afterbay/afterbay/internal/log/memory"
	"github.com/afterbay/afterbay/internal/ops/reprocess"
	"github.com/afterbay/afterbay/internal/pipeline"
	"github.com/afterbay/afterbay/internal/process/builtin"
	"github.com/afterbay/afterbay/internal/spec"
	"github.com/afterbay/afterbay/internal/state/generation"
	"github.com/afterbay/afterbay/model"
	"github.com/afterbay/afterbay/sink"
	"github.com/afterbay/afterbay/stream"
)

const partitions = 3

// payments is a pipeline with state, whose decision depends on a limit, and which
// writes by its own key and by another one.
func payments(limit float64) lang.Pipeline {
	return lang.Pipeline{
		Name: "payments",
		Input: lang.Input{
			Topic: "in", Key: "card", Partitions: partitions, Time: lang.EventTime{Field: "ts", Unit: "ms", Lateness: 5 * time.Second},
			Fields: []lang.Field{{Name: "card", Type: "string"}, {Name: "amount", Type: "number"}, {Name: "shop", Type: "string"}, {Name: "ts", Type: "int"}},
		},
		Constants: []spec.Constant{{Name: "limit", Value: limit}},
		Steps: []lang.Step{
			&steps.Features{List: []steps.Feature{{Name: "spend", Value: "amount", Windows: []string{"1h"}, Aggregates: []string{"sum", "count"}}}},
			&steps.Decide{List: []lang.Binding{{Name: "action", Expr: `spend.sum_1h > limit ? "review" : "allow"`}}},
			&steps.Emit{Topic: "out", Names: []string{"card", "spend.*", "action"}},
			&steps.Emit{Topic: "shops", Key: "shop", When: `action == "review"`, Names: []string{"shop", "amount"}},
		},
	}
}

const epoch = 1_760_000_000_000 // milliseconds

// events are from, from+1 and so on; each eleventh cannot be decoded.
func events(from, n int) []stream.Record {
	list := make([]stream.Record, n)
	for i := range list {
		k := from + i
		card := fmt.Sprintf("card-%d", k*7%50)
		list[i] = stream.Record{
			Partition: stream.Partition{Topic: "in", Index: stream.ByKey}, Key: []byte(card), Time: time.UnixMilli(epoch + int64(k)*1000).Add(time.Minute),
			Value: fmt.Appendf(nil, `{"card":%q,"amount":%d,"shop":"shop-%d","ts":%d}`, card, k%13, k%5, epoch+k*1000),
		}
		if k%11 == 10 {
			list[i].Value = []byte(`{"card":`)
		}
	}
	return list
}

func newRunner(t *testing.T, p lang.Pipeline) *pipeline.Runner {
	t.Helper()
	r, err := builtin.New(p, pipeline.Options{Members: 2})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// start runs a pipeline until what it returns is called.
func start(t *testing.T, log stream.Log, r *pipeline.Runner) (stop func()) {
	t.Helper()
	if err := r.CreateTopics(t.Context(), log); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- r.Run(ctx, log) }()
	return func() {
		t.Helper()
		cancel()
		if err := <-ended; err != nil {
			t.Fatal(err)
		}
	}
}

// patience is how long something is waited for: a busy machine takes long.
const patience = 5 * time.Minute

func idle(t *testing.T, log stream.Log, r *pipeline.Runner) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	if err := r.WaitIdle(ctx, log); err != nil {
		t.Fatal(err)
	}
}

func mustAppend(t *testing.T, log stream.Log, records []stream.Record) {
	t.Helper()
	for part := range slices.Chunk(records, 100) {
		if err := log.Append(t.Context(), part...); err != nil {
			t.Fatal(err)
		}
	}
}

// do does a job and returns the last that it said.
func do(t *testing.T, log generation.Log, r *pipeline.Runner, job reprocess.Job) (last reprocess.Progress) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	for p, err := range reprocess.Run(ctx, log, r, job) {
		if err != nil {
			t.Fatal(err)
		}
		last = p
	}
	if !last.Done {
		t.Fatalf("it ended with %+v", last)
	}
	return last
}

// output is a record as readers see it.
type output struct {
	ID, Position, Key, Value, Stage string
	Index                           int32
	Generation                      string
}

// outputs returns the records of a topic by partition.
func outputs(t *testing.T, log generation.Log, topic string) (all []output) {
	t.Helper()
	for index := range int32(partitions) {
		p := stream.Partition{Topic: topic, Index: index}
		for next := stream.Offset(0); ; {
			r, found, err := log.Peek(t.Context(), p, next)
			if err != nil {
				t.Fatal(err)
			}
			if !found {
				break
			}
			next = r.Offset + 1
			made := strings.Fields(header.Get(&r, header.Pipeline))
			all = append(all, output{header.Get(&r, header.ID), header.Get(&r, header.Position), string(r.Key), string(r.Value), header.Get(&r, header.Stage), index, made[2]})
		}
	}
	return all
}

// sorted returns outputs without their generation, in an order that does not depend
// on timing.
func sorted(list ...[]output) []output {
	all := slices.Concat(list...)
	for i := range all {
		all[i].Generation = ""
	}
	slices.SortFunc(all, func(a, b output) int { return strings.Compare(a.Position+a.ID, b.Position+b.ID) })
	return all
}

// fresh returns what a pipeline makes of records where it alone ever ran.
func fresh(t *testing.T, p lang.Pipeline, records []stream.Record) map[string][]output {
	t.Helper()
	log := memory.New(memory.Options{})
	r := newRunner(t, p)
	stop := start(t, log, r)
	mustAppend(t, log, records)
	idle(t, log, r)
	stop()
	made := map[string][]output{}
	for _, topic := range r.Outputs() {
		made[topic] = outputs(t, log, topic)
	}
	return made
}

// onEngines runs a test on each engine that needs no server.
func onEngines(t *testing.T, test func(t *testing.T, log generation.Log)) {
	t.Run("memory", func(t *testing.T) { test(t, memory.New(memory.Options{})) })
	t.Run("embedded", func(t *testing.T) {
		log, err := embedded.Open(t.TempDir(), embedded.Options{})
		if err != nil {
			t.Fatal(err)
		}
		defer log.Close()
		test(t, log)
	})
}

func TestGenerationIsWhatTheChangedPipelineWouldHaveMade(t *testing.T) {
	onEngines(t, func(t *testing.T, log generation.Log) {
		old, changed := newRunner(t, payments(20)), newRunner(t, payments(40))
		stop := start(t, log, old)
		mustAppend(t, log, events(0, 2000))
		idle(t, log, old)
		before := outputs(t, log, "out")
		last := do(t, log, changed, reprocess.Job{})
		if last.Generation != 2 || last.Events != 2000 || last.Of != 2000 || !last.CaughtUp || last.Resumed {
			t.Errorf("it says %+v", last)
		}
		for topic, want := range fresh(t, payments(40), events(0, 2000)) {
			got := outputs(t, log, generation.TopicOf("payments", topic, 2))
			if d := cmp.Diff(sorted(want), sorted(got)); d != "" {
				t.Errorf("%s: %s", topic, d)
			}
		}
		if d := cmp.Diff(before, outputs(t, log, "out")); d != "" {
			t.Errorf("the live topic changed: %s", d)
		}
		mustAppend(t, log, events(2000, 500))
		idle(t, log, old)
		if last = do(t, log, newRunner(t, payments(40)), reprocess.Job{}); !last.Resumed || last.Generation != 2 || last.Events != 2500 {
			t.Errorf("the same job again says %+v", last)
		}
		if n := len(outputs(t, log, "payments.g2.out")) + len(outputs(t, log, "payments.g2.payments.dlq")); n != 2500 {
			t.Errorf("%d outputs of 2500 events", n)
		}
		stop()
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		defer cancel()
		for _, err := range reprocess.Run(ctx, log, newRunner(t, payments(20)), reprocess.Job{}) {
			if !errors.Is(err, reprocess.ErrUnchanged) {
				t.Errorf("of an unchanged pipeline: %v", err)
			}
		}
	})
}

// switched hands all partitions over to a changed pipeline while events come, in all 3,000.
func switched(t *testing.T, log generation.Log, old, changed *pipeline.Runner) (names *generation.Names, last reprocess.Progress) {
	t.Helper()
	stop := start(t, log, old)
	mustAppend(t, log, events(0, 1000))
	idle(t, log, old)
	appended := make(chan error, 1)
	go func() {
		var err error
		for part := range slices.Chunk(events(1000, 2000), 5) {
			err = errors.Join(err, log.Append(t.Context(), part...))
			time.Sleep(time.Millisecond / 2) // so that they come while the job works
		}
		appended <- err
	}()
	last = do(t, log, changed, reprocess.Job{Switch: true, HandOver: func(ctx context.Context, begun generation.Begun, given func(generation.Live)) error {
		stop()
		return generation.HandOver(ctx, log, "payments", changed.Plan.Topic, begun, given)
	}})
	if len(last.Live) != partitions {
		t.Fatalf("handed over: %v", last.Live)
	}
	names, err := generation.Open(t.Context(), log)
	if err != nil {
		t.Fatal(err)
	}
	stop = start(t, names, changed)
	if err := <-appended; err != nil {
		t.Fatal(err)
	}
	idle(t, names, changed)
	stop()
	return names, last
}

// TestSwitchIsAtOneOffsetOfEachPartition hands over while events come, and looks at
// every output.
func TestSwitchIsAtOneOffsetOfEachPartition(t *testing.T) {
	onEngines(t, func(t *testing.T, log generation.Log) {
		old, changed := newRunner(t, payments(20)), newRunner(t, payments(40))
		names, last := switched(t, log, old, changed)
		checkSwitched(t, log, last.Live, 3000)

		stop := start(t, names, changed) // all is settled: records are read early where the log can
		mustAppend(t, log, events(3000, 500))
		idle(t, names, changed)
		have, deadline := changed.Snapshot().Generations, time.Now().Add(patience)
		for len(have) < partitions && time.Now().Before(deadline) { // one is on its way from member to member
			time.Sleep(time.Millisecond)
			have = changed.Snapshot().Generations
		}
		if d := cmp.Diff(map[int32]uint64{0: 2, 1: 2, 2: 2}, have); d != "" {
			t.Errorf("the generations of partitions: %s", d)
		}
		stop()
		checkSwitched(t, log, last.Live, 3500)
		var older *generation.ErrOlder
		if err := names.Check("payments", old.Plan.Fingerprint.Outputs); !errors.As(err, &older) || names.Check("payments", changed.Plan.Fingerprint.Outputs) != nil {
			t.Errorf("the file of before: %v", err)
		}
		var handed *generation.ErrHandedOver
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		defer cancel()
		if err := old.Run(ctx, log); !errors.As(err, &handed) {
			t.Errorf("a process of before: %v", err)
		}
	})
}

// checkSwitched sees that what is of events before the switch was made by both
// generations, in topics of their own, and each later one by the new one alone.
func checkSwitched(t *testing.T, log generation.Log, lives []generation.Live, n int) {
	t.Helper()
	at := map[int32]stream.Offset{}
	for _, l := range lives {
		at[l.Partition] = l.Offset
	}
	was, is := fresh(t, payments(20), events(0, n)), fresh(t, payments(40), events(0, n))
	for _, topic := range slices.Sorted(maps.Keys(is)) {
		live, derived := outputs(t, log, topic), outputs(t, log, generation.TopicOf("payments", topic, 2))
		var old, later []output
		for _, o := range live {
			before := position(t, o.Position).Offset < at[position(t, o.Position).Partition.Index]
			if want := map[bool]string{true: "1", false: "2"}[before]; o.Generation != want {
				t.Fatalf("%s has %+v of generation %s: the switch is at %v", topic, o, o.Generation, at)
			}
			if before {
				old = append(old, o)
			} else {
				later = append(later, o)
			}
		}
		keep := func(list []output, before bool) (kept []output) {
			for _, o := range list {
				if p := position(t, o.Position); p.Offset < at[p.Partition.Index] == before {
					kept = append(kept, o)
				}
			}
			return kept
		}
		if d := cmp.Diff(sorted(keep(was[topic], true)), sorted(old)); d != "" {
			t.Errorf("%s before the switch: %s", topic, d)
		}
		if d := cmp.Diff(sorted(keep(is[topic], true)), sorted(derived)); d != "" {
			t.Errorf("%s derived again: %s", topic, d)
		}
		if d := cmp.Diff(sorted(keep(is[topic], false)), sorted(later)); d != "" {
			t.Errorf("%s after the switch: %s", topic, d)
		}
	}
}

func position(t *testing.T, text string) stream.Record {
	t.Helper()
	var r stream.Record
	text = strings.NewReplacer("/", " ", "@", " ").Replace(text)
	if _, err := fmt.Sscan(text, &r.Partition.Topic, &r.Partition.Index, &r.Offset); err != nil {
		t.Fatalf("%q: %v", text, err)
	}
	return r
}

// service is a model that is paid for: it says how long a text is, plus its version.
type service struct {
	version float32
	calls   atomic.Int64
}

func (s *service) Predict(_ context.Context, rows model.Rows, scores []float32) error {
	for i := range rows.Len() {
		s.calls.Add(1)
		scores[i] = s.version + float32(rows.Values[i])
	}
	return nil
}

func (s *service) Check([]float64, [][]byte) error { return nil }

func (s *service) Info() model.Info {
	return model.Info{Kind: "remote", Inputs: model.Numbers(1), Outputs: []model.Output{{Size: 1}}, Remote: true, Digest: fmt.Sprint("v", s.version)}
}

// paid is a pipeline that asks two services about each event, and keeps answers.
func paid(version int, models map[string]model.Model) lang.Pipeline {
	call := func(name string, version int) lang.Model {
		return lang.Model{
			Name: name, Go: name, Version: version, Outputs: []lang.Field{{Name: "score", Type: "number"}},
			Call: &lang.Calling{}, Journal: &lang.Journal{Price: 0.5},
		}
	}
	return lang.Pipeline{
		Name:   "paid",
		Input:  lang.Input{Topic: "in", Key: "card", Partitions: partitions, Fields: []lang.Field{{Name: "card", Type: "string"}, {Name: "amount", Type: "number"}}},
		Models: []lang.Model{call("read", 1), call("judge", version)},
		Steps: []lang.Step{
			&steps.Score{Model: "read", Inputs: []string{"amount"}, Async: true},
			&steps.Score{Model: "judge", Inputs: []string{"read.score"}, Async: true},
			&steps.Emit{Topic: "out", Names: []string{"card", "read.score", "judge.score"}},
		},
		Code: lang.Code{Models: models},
	}
}

// TestAnswersOfModelsThatDidNotChangeAreNotPaidAgain derives again with one of two
// models changed, after a dry run that says what it will cost.
func TestAnswersOfModelsThatDidNotChangeAreNotPaidAgain(t *testing.T) {
	onEngines(t, func(t *testing.T, log generation.Log) {
		read, judge, judge2 := &service{version: 1}, &service{version: 1}, &service{version: 2}
		old := newRunner(t, paid(1, map[string]model.Model{"read": read, "judge": judge}))
		stop := start(t, log, old)
		mustAppend(t, log, events(0, 300))
		idle(t, log, old)
		stop()
		asked, bad := read.calls.Load(), int64(300/11)
		if dead := int64(len(outputs(t, log, "paid.dlq"))); asked != judge.calls.Load() || asked == 0 || dead != bad {
			t.Fatalf("%d and %d calls, %d dead letters", asked, judge.calls.Load(), dead)
		}
		now := paid(2, map[string]model.Model{"read": read, "judge": judge2})
		dry, err := builtin.New(now, pipeline.Options{DryRun: true, Members: 2})
		if err != nil {
			t.Fatal(err)
		}
		var said reprocess.Progress
		for p, err := range reprocess.DryRun(t.Context(), log, dry, reprocess.Job{}) {
			if err != nil {
				t.Fatal(err)
			}
			said = p
		}
		if said.Events != 300 || said.Outputs != 300-bad || said.Dead != bad || !said.Done || judge2.calls.Load() != 0 {
			t.Errorf("the dry run says %+v, and made %d calls", said, judge2.calls.Load())
		}
		if h, err := generation.Read(t.Context(), log, "paid"); err != nil || len(h.Begun) != 0 {
			t.Errorf("the dry run began %+v: %v", h.Begun, err)
		}
		last := do(t, log, newRunner(t, now), reprocess.Job{})
		if read.calls.Load() != asked {
			t.Errorf("%d calls of the model that did not change", read.calls.Load()-asked)
		}
		for _, c := range said.Models {
			want := map[string]int64{"read@1": 0, "judge@2": judge2.calls.Load()}[c.Model]
			if int64(c.Calls) != want || c.Price != 0.5 || c.Model == "read@1" && c.Hits == 0 {
				t.Errorf("the dry run says %+v, and there were %d calls", c, want)
			}
		}
		if n := len(outputs(t, log, "paid.g2.out")); int64(n) != 300-bad || len(last.Models) != 2 {
			t.Errorf("%d outputs, models %+v", n, last.Models)
		}
	})
}

// rows is a service that keeps what it takes, by id.
type rows struct {
	mu    sync.Mutex // guards taken
	taken map[string][]string
}

func (s *rows) Deliver(_ context.Context, id string, r *stream.Record) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.taken[id] = append(s.taken[id], string(r.Value))
	return nil
}

func (s *rows) Check(sink.Topic) []error { return nil }

func (s *rows) Open(context.Context, sink.Topic) (sink.Service, error) {
	return sink.Service{Each: s}, nil
}

func (s *rows) Describe() string { return "rows" }

// TestSinkIsHandedWhatWasDerived hands a sink what a generation derived, before the
// switch and, for what came in between, after it: each output once.
func TestSinkIsHandedWhatWasDerived(t *testing.T) {
	onEngines(t, func(t *testing.T, log generation.Log) {
		service := &rows{taken: map[string][]string{}}
		withSink := payments(40)
		withSink.Sinks = []lang.Sink{{From: "out", Name: "rows", Config: service}}
		old, changed := newRunner(t, payments(20)), newRunner(t, withSink)
		stop := start(t, log, old)
		mustAppend(t, log, events(0, 500))
		idle(t, log, old)
		into := reprocess.Job{Into: []string{"rows"}}
		if last := do(t, log, changed, into); last.Delivered != 500-500/11 {
			t.Errorf("handed over: %+v", last)
		}
		mustAppend(t, log, events(500, 100))
		idle(t, log, old)
		stop()
		do(t, log, newRunner(t, withSink), reprocess.Job{Switch: true})
		if last := do(t, log, newRunner(t, withSink), into); last.Generation != 2 || last.Delivered != 100-600/11+500/11 {
			t.Errorf("after the switch: %+v", last)
		}
		derived := outputs(t, log, "payments.g2.out")
		for _, o := range derived {
			if got := service.taken[o.ID]; len(got) != 1 || got[0] != o.Value {
				t.Errorf("%s was handed over as %q, it is %s", o.ID, got, o.Value)
			}
		}
		if len(service.taken) != len(derived) || len(derived) != 600-600/11 {
			t.Errorf("%d handed over of %d", len(service.taken), len(derived))
		}
	})
}

// TestGenerationOfAPipelineThatWasChangedMeanwhileIsNotSwitchedTo changes the live
// pipeline in place after a derivation: its number is taken.
func TestGenerationOfAPipelineThatWasChangedMeanwhileIsNotSwitchedTo(t *testing.T) {
	log := memory.New(memory.Options{})
	for _, limit := range []float64{20, 30} {
		r := newRunner(t, payments(limit))
		stop := start(t, log, r)
		mustAppend(t, log, events(int(limit)*10, 100))
		idle(t, log, r)
		stop()
		if limit == 20 {
			do(t, log, newRunner(t, payments(40)), reprocess.Job{})
		}
	}
	h, err := generation.Read(t.Context(), log, "payments")
	if err != nil {
		t.Fatal(err)
	}
	err = generation.HandOver(t.Context(), log, "payments", "in", h.Begun[0], func(generation.Live) {})
	if !errors.Is(err, generation.ErrChanged) {
		t.Errorf("handed over: %v", err)
	}
	if last := do(t, log, newRunner(t, payments(40)), reprocess.Job{Switch: true}); last.Generation != 3 || last.Resumed || len(last.Live) != partitions {
		t.Errorf("derived again: %+v", last)
	}
	if again := do(t, log, newRunner(t, payments(40)), reprocess.Job{Switch: true}); again.Generation != 3 || again.Group == "" || len(again.Topics) == 0 || len(again.Live) != partitions {
		t.Errorf("a switch that is done says %+v", again)
	}
}
