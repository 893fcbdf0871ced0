package e2e_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/afterbay/afterbay/internal/event/header"
	"github.com/afterbay/afterbay/internal/lang"
	"github.com/afterbay/afterbay/internal/lang/steps"
	"github.com/afterbay/afterbay/internal/log/embedded"
	"github.com/afterbay/afterbay/internal/log/memory"
	"github.com/afterbay/afterbay/internal/pipeline"
	"github.com/afterbay/afterbay/internal/process/builtin"
	"github.com/afterbay/afterbay/internal/spec"
	"github.com/afterbay/afterbay/internal/test/answers"
	"github.com/afterbay/afterbay/internal/test/reference"
	"github.com/afterbay/afterbay/stream"
)

// payments is a pipeline without a model, over one partition.
func payments() lang.Pipeline {
	return lang.Pipeline{
		Name: "payments",
		Input: lang.Input{
			Topic: "in", Key: "card", Partitions: 1,
			Time: lang.EventTime{Field: "ts", Unit: "ms", Lateness: 5 * time.Second},
			Fields: []lang.Field{
				{Name: "card", Type: "string"}, {Name: "amount", Type: "number"},
				{Name: "ts", Type: "int"}, {Name: "note", Type: "optional string"},
			},
		},
		Constants: []spec.Constant{{Name: "limit", Value: 100.0}},
		Steps: []lang.Step{
			&steps.Features{List: []steps.Feature{
				{Name: "spend", Value: "amount", Windows: []string{"1h"}, Aggregates: []string{"sum", "count"}},
				{Name: "gap", Elapsed: true, Empty: ptr(-1.0)},
			}},
			&steps.Let{List: []lang.Binding{{Name: "share", Expr: "amount / spend.sum_1h"}}},
			&steps.Decide{List: []lang.Binding{{Name: "action", Expr: `spend.sum_1h > limit ? "review" : "allow"`}}},
			&steps.Emit{Topic: "out", Names: []string{"card", "spend.*", "gap", "action"}},
			&steps.Emit{Topic: "alerts", Key: "card", When: `action == "review"`, ID: `"alert:" + card`, Value: []steps.Member{{Name: "who", Expr: "card"}, {Name: "share", Expr: "share"}}},
		},
	}
}

func ptr[T any](v T) *T { return &v }

const epoch = 1_760_000_000_000 // milliseconds

func payment(card string, amount float64, second int) stream.Record {
	return stream.Record{
		Key: []byte(card), Time: time.UnixMilli(epoch).Add(time.Minute),
		Value: fmt.Appendf(nil, `{"card":%q,"amount":%v,"ts":%d}`, card, amount, epoch+second*1000),
	}
}

// run appends records to the input, in partition 0 where they do not say, runs
// the pipeline over them and returns the log.
func run(t *testing.T, p lang.Pipeline, records ...stream.Record) stream.Log {
	t.Helper()
	log := memory.New(memory.Options{})
	runOn(t, log, p, records...)
	return log
}

func runOn(t *testing.T, log stream.Log, p lang.Pipeline, records ...stream.Record) {
	t.Helper()
	runner, err := builtin.New(p, pipeline.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if err := runner.CreateTopics(t.Context(), log); err != nil {
		t.Fatal(err)
	}
	appendInput(t, log, p, records...)
	if err := runIdle(t.Context(), runner, log); err != nil {
		t.Fatal(err)
	}
}

// appendInput appends records to the input of a pipeline.
func appendInput(t *testing.T, log stream.Log, p lang.Pipeline, records ...stream.Record) {
	t.Helper()
	for _, r := range records {
		r.Partition.Topic = p.Input.Topic
		if err := log.Append(t.Context(), r); err != nil {
			t.Fatal(err)
		}
	}
}

func values(t *testing.T, log stream.Log, topic string) []string {
	t.Helper()
	var texts []string
	for _, r := range readPartition(t, log, stream.Partition{Topic: topic}) {
		texts = append(texts, string(r.Value))
	}
	return texts
}

func stages(t *testing.T, log stream.Log, topic string) []string {
	t.Helper()
	var texts []string
	for _, r := range readPartition(t, log, stream.Partition{Topic: topic}) {
		texts = append(texts, header.Get(&r, "afterbay-stage")+": "+header.Get(&r, "afterbay-error"))
	}
	return texts
}

func TestOutputsCarryValuesIDsAndProvenance(t *testing.T) {
	log := run(t, payments(), payment("a", 40, 0), payment("a", 70, 10))
	want := []string{
		`{"card":"a","spend_sum_1h":40,"spend_count_1h":1,"gap":-1,"action":"allow"}`,
		`{"card":"a","spend_sum_1h":110,"spend_count_1h":2,"gap":10,"action":"review"}`,
	}
	if d := cmp.Diff(want, values(t, log, "out")); d != "" {
		t.Error(d)
	}
	out := readPartition(t, log, stream.Partition{Topic: "out"})
	for key, want := range map[string]string{"afterbay-id": "payments:in/0@1:out", "afterbay-position": "in/0@1"} {
		if got := header.Get(&out[1], key); got != want {
			t.Errorf("%s is %q, want %q", key, got, want)
		}
	}
	if got := header.Get(&out[0], "afterbay-pipeline"); !strings.HasPrefix(got, "payments sha256:") || !strings.HasSuffix(got, " 1") {
		t.Errorf("afterbay-pipeline is %q", got)
	}
	if !out[1].Time.Equal(time.UnixMilli(epoch + 10_000)) {
		t.Errorf("time of the output is %v", out[1].Time)
	}
	alerts := readPartition(t, log, stream.Partition{Topic: "alerts"})
	if len(alerts) != 1 || header.Get(&alerts[0], "afterbay-id") != "alert:a" || string(alerts[0].Value) != `{"who":"a","share":0.6363636363636364}` {
		t.Errorf("alerts: %v", alerts)
	}
}

func TestBadRecordsCostOneDeadLetterEach(t *testing.T) {
	bad := []struct {
		name, value, stage string
	}{
		{"truncated", `{"card":"a","amount":1,"ts":17600000`, "decode"},
		{"empty", ``, "decode"},
		{"not an object", `[1]`, "decode"},
		{"deep", `{"card":"a","amount":1,"ts":1760000000000,"x":` + strings.Repeat("[", 200) + strings.Repeat("]", 200) + `}`, "decode"},
		{"huge", `{"card":"a","amount":1,"ts":1760000000000,"x":"` + strings.Repeat("y", 1<<20) + `"}`, "decode"},
		{"invalid UTF-8", "{\"card\":\"a\",\"amount\":1,\"ts\":1760000000000,\"x\":\"\xff\"}", "decode"},
		{"duplicate key", `{"card":"a","card":"a","amount":1,"ts":1760000000000}`, "decode"},
		{"wrong type", `{"card":"a","amount":"1","ts":1760000000000}`, "decode"},
		{"number out of range", `{"card":"a","amount":1e999,"ts":1760000000000}`, "decode"},
		{"time is not an integer", `{"card":"a","amount":1,"ts":1.5}`, "decode"},
		{"missing key", `{"amount":1,"ts":1760000000000}`, "decode"},
		{"null key", `{"card":null,"amount":1,"ts":1760000000000}`, "decode"},
		{"missing time", `{"card":"a","amount":1}`, "decode"},
		{"other key", `{"card":"b","amount":1,"ts":1760000000000}`, "key"},
		{"far in the future", `{"card":"a","amount":1,"ts":1860000000000}`, "time"},
		{"beyond all time", `{"card":"a","amount":1,"ts":9223372036854775807}`, "time"},
		{"far in the past", `{"card":"a","amount":1,"ts":0}`, "late"},
		{"division by zero", `{"card":"z","amount":0,"ts":1760000001000}`, "let"},
	}
	records := []stream.Record{payment("a", 40, 0)}
	for _, b := range bad {
		key := "a"
		if b.stage == "let" {
			key = "z"
		}
		records = append(records, stream.Record{Key: []byte(key), Time: time.UnixMilli(epoch), Value: []byte(b.value), Headers: []stream.Header{{Key: "trace", Value: []byte("t1")}}})
	}
	records = append(records, payment("a", 70, 10))
	log := run(t, payments(), records...)
	if got := values(t, log, "out"); len(got) != 2 || !strings.Contains(got[1], `"spend_sum_1h":110`) {
		t.Errorf("the good records became %v", got)
	}
	dead := readPartition(t, log, stream.Partition{Topic: "payments.dlq"})
	if len(dead) != len(bad) {
		t.Fatalf("%d dead letters, want %d: %v", len(dead), len(bad), stages(t, log, "payments.dlq"))
	}
	for i, b := range bad {
		if got := header.Get(&dead[i], "afterbay-stage"); got != b.stage {
			t.Errorf("%s: stage %q (%s), want %q", b.name, got, header.Get(&dead[i], "afterbay-error"), b.stage)
		}
		if string(dead[i].Value) != b.value || header.Get(&dead[i], "trace") != "t1" || header.Get(&dead[i], "afterbay-error") == "" {
			t.Errorf("%s: the dead letter lost its value, headers or error", b.name)
		}
		if got, want := header.Get(&dead[i], "afterbay-position"), fmt.Sprintf("in/0@%d", i+1); got != want {
			t.Errorf("%s: position %s, want %s", b.name, got, want)
		}
	}
	if got := header.Get(&dead[len(dead)-1], "afterbay-row"); !strings.Contains(got, `"spend.sum_1h":0`) {
		t.Errorf("the row of the last dead letter is %s", got)
	}
}

func TestLatePolicies(t *testing.T) {
	late := payment("b", 2, 0)
	late.Value = fmt.Appendf(nil, `{"card":"b","amount":2,"ts":%d}`, epoch+95_000-1)
	records := []stream.Record{payment("a", 1, 100), late, payment("b", 4, 95)}
	for late, want := range map[string][2]int{"dlq": {2, 1}, "": {2, 1}, "drop": {2, 0}, "include": {3, 0}} {
		p := payments()
		p.Input.Time.Late = late
		log := run(t, p, records...)
		if got := [2]int{len(values(t, log, "out")), len(values(t, log, "payments.dlq"))}; got != want {
			t.Errorf("late: %q: outputs and dead letters %v, want %v", late, got, want)
		}
	}
}

// TestAppendedInAnotherOrderIsOnTime has records whose times of append are not in
// the order of the log, as those of producers at once: nothing says that one is late,
// unless the file does, or a pipeline wrote it, whose time is the event's.
func TestAppendedInAnotherOrderIsOnTime(t *testing.T) {
	written := payment("b", 4, 0)
	written.Headers = []stream.Header{{Key: header.Position, Value: []byte("other/0@7")}}
	records := []stream.Record{payment("a", 1, 0), payment("b", 2, 0), written}
	for i := range records {
		records[i].Time = time.UnixMilli(epoch).Add(time.Duration(-i) * time.Millisecond)
	}
	for late, want := range map[string][2]int{"": {2, 1}, "dlq": {1, 2}} {
		p := payments()
		p.Input.Time = lang.EventTime{Late: late}
		log := run(t, p, records...)
		if got := [2]int{len(values(t, log, "out")), len(values(t, log, "payments.dlq"))}; got != want {
			t.Errorf("late: %q: outputs and dead letters %v, want %v", late, got, want)
		}
	}
}

// TestCopiedInAnotherOrderIsOnTime has the same of records that are copied by a field:
// there is nothing to tell whose time is the event's.
func TestCopiedInAnotherOrderIsOnTime(t *testing.T) {
	records := []stream.Record{payment("a", 1, 0), payment("b", 2, 0), payment("a", 4, 0), payment("b", 8, 0)}
	for i := range records {
		records[i].Time = time.UnixMilli(epoch).Add(time.Duration(-i) * time.Millisecond)
	}
	for late, want := range map[string][2]int{"": {4, 0}, "dlq": {1, 3}} {
		p := payments()
		p.Input.Time, p.Input.Repartition = lang.EventTime{Late: late}, 1
		log := run(t, p, records...)
		if got := [2]int{len(values(t, log, "out")), len(values(t, log, "payments.dlq"))}; got != want {
			t.Errorf("late: %q: outputs and dead letters %v, want %v", late, got, want)
		}
	}
}

func TestSilentKeyIsForgottenByEventTime(t *testing.T) {
	p := payments()
	p.Steps[0].(*steps.Features).List = p.Steps[0].(*steps.Features).List[:1] // windows alone
	p.Steps[3].(*steps.Emit).Names = []string{"card", "spend.*", "action"}
	log := run(t, p, payment("a", 40, -3595), payment("b", 1, 0))
	if got := stateKeys(t, log); !cmp.Equal(got, []string{"ea", "eb", "g", "w"}) {
		t.Errorf("a second before: %v", got)
	}
	log = run(t, p, payment("a", 40, -3605), payment("b", 1, 0))
	if got := stateKeys(t, log); !cmp.Equal(got, []string{"eb", "g", "w"}) {
		t.Errorf("when the watermark is an hour past its newest event: %v", got)
	}
}

func stateKeys(t *testing.T, log stream.Log) []string {
	t.Helper()
	view, err := log.(stream.Inspector).State(t.Context(), "payments", stream.Partition{Topic: "in"})
	if err != nil {
		t.Fatal(err)
	}
	var keys []string
	for entry, err := range view.Scan(nil) {
		if err != nil {
			t.Fatal(err)
		}
		keys = append(keys, string(entry.Key))
	}
	return keys
}

func TestOutputThatIsTooLargeIsADeadLetter(t *testing.T) {
	p := payments()
	p.Steps[3].(*steps.Emit).Names = nil
	p.Steps[3].(*steps.Emit).Value = []steps.Member{{Name: "a", Expr: `note ?? ""`}, {Name: "b", Expr: `note ?? ""`}}
	big := payment("a", 40, 0)
	big.Value = fmt.Appendf(nil, `{"card":"a","amount":1,"ts":%d,"note":%q}`, epoch, strings.Repeat("n", 600<<10))
	log := run(t, p, big, payment("a", 70, 10))
	if got := stages(t, log, "payments.dlq"); len(got) != 1 || !strings.HasPrefix(got[0], "emit: output of") {
		t.Errorf("dead letters: %v", got)
	}
	if got := values(t, log, "out"); len(got) != 1 {
		t.Errorf("outputs: %v", got)
	}
}

// A step whose outputs are many times its input is over the log's largest frame:
// fewer events are taken at once until it fits.
func TestStepThatIsTooLargeIsTakenInPieces(t *testing.T) {
	p := payments()
	p.Steps[3].(*steps.Emit).Names = nil
	for i := range 40 {
		p.Steps[3].(*steps.Emit).Value = append(p.Steps[3].(*steps.Emit).Value, steps.Member{Name: fmt.Sprint("n", i), Expr: `note ?? ""`})
	}
	var records []stream.Record
	for i := range 60 {
		r := payment("a", 1, i)
		r.Value = fmt.Appendf(nil, `{"card":"a","amount":1,"ts":%d,"note":%q}`, epoch+i*1000, strings.Repeat("n", 15<<10))
		records = append(records, r)
	}
	log := openLog(t, "embedded", t.TempDir())
	defer closeLog(t, log)
	runOn(t, log, p, records...)
	if got := values(t, log, "out"); len(got) != 60 || len(got[59]) < 40*15<<10 {
		t.Errorf("%d outputs", len(got))
	}
}

func TestRecordIDComesFromItsHeader(t *testing.T) {
	r := payment("a", 40, 0)
	r.Headers = []stream.Header{{Key: "afterbay-id", Value: []byte("order-7")}}
	out := readPartition(t, run(t, payments(), r), stream.Partition{Topic: "out"})
	if got := header.Get(&out[0], "afterbay-id"); got != "payments:order-7:out" {
		t.Errorf("id %q", got)
	}
}

func TestChangedPipelineRaisesTheGeneration(t *testing.T) {
	log := memory.New(memory.Options{})
	runOn(t, log, payments(), payment("a", 40, 0))
	p := payments()
	p.Constants[0].Value = 1.0
	runOn(t, log, p, payment("a", 40, 1))
	out := readPartition(t, log, stream.Partition{Topic: "out"})
	for i, want := range []string{" 1", " 2"} {
		if got := header.Get(&out[i], "afterbay-pipeline"); !strings.HasSuffix(got, want) {
			t.Errorf("output %d: %q, want generation%s", i, got, want)
		}
	}
}

func TestStateOfOtherFeaturesIsRefused(t *testing.T) {
	log := memory.New(memory.Options{})
	runOn(t, log, payments(), payment("a", 40, 0))
	p := payments()
	p.Steps[0].(*steps.Features).List[0].Windows = []string{"2h"}
	p.Steps[1].(*steps.Let).List, p.Steps[2].(*steps.Decide).List[0].Expr = []lang.Binding{{Name: "share", Expr: "amount"}}, `"allow"`
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	if err := builtin.Run(ctx, log, p); err == nil || !strings.Contains(err.Error(), `written with another feature "spend": undo the change, or give the pipeline another name`) {
		t.Errorf("run: %v", err)
	}
}

func TestPipelineWithoutPredictionFeedbackTakesManyOfAKeyAtOnce(t *testing.T) {
	var records []stream.Record
	for i := range 3000 {
		records = append(records, payment("a", 1, i/10))
	}
	got := values(t, run(t, payments(), records...), "out")
	if len(got) != 3000 || !strings.Contains(got[2999], `"spend_count_1h":3000`) {
		t.Fatalf("%d outputs, the last %s", len(got), got[len(got)-1])
	}
}

// TestCancelledRunCommitsWhatItBegan cancels in the middle of computing: the
// chunk is finished and committed, and Run returns nil.
func TestCancelledRunCommitsWhatItBegan(t *testing.T) {
	p := answerPipeline(t)
	log := memory.New(memory.Options{})
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	turns := 0
	runner, err := builtin.New(p, pipeline.Options{Fault: func(stage string) {
		if turns++; stage == "model" && turns > 3 {
			cancel()
		}
	}})
	if err != nil {
		t.Fatal(err)
	}
	if err := runner.CreateTopics(t.Context(), log); err != nil {
		t.Fatal(err)
	}
	appendEvents(t, log, p.Input.Topic, reference.Generate(1, 20_000))
	if err := runner.Run(ctx, log); err != nil {
		t.Fatal(err)
	}
	committed := stream.Offset(0)
	for i := range int32(answerPartitions) {
		next, err := log.Committed(t.Context(), "reference", stream.Partition{Topic: p.Input.Topic, Index: i})
		if err != nil {
			t.Fatal(err)
		}
		committed += next
	}
	if counts := runner.Counts(); committed == 0 || uint64(committed) != counts.Events || committed == 20_000 {
		t.Errorf("committed %d, counted %d", committed, counts.Events)
	}
}

// TestStepTooLargeForSmallSegmentsIsTakenInPieces commits by time: the member
// is found dead by its next poll, not by its next commit.
func TestStepTooLargeForSmallSegmentsIsTakenInPieces(t *testing.T) {
	p := payments()
	p.Commit = lang.Commit{Interval: time.Millisecond}
	var records []stream.Record
	for i := range 600 {
		records = append(records, payment("a", 1, i))
	}
	log, err := embedded.Open(t.TempDir(), embedded.Options{SegmentBytes: 64 << 10})
	if err != nil {
		t.Fatal(err)
	}
	defer closeLog(t, log)
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	runner, err := builtin.New(p, pipeline.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if err := runner.CreateTopics(ctx, log); err != nil {
		t.Fatal(err)
	}
	for _, r := range records {
		r.Partition = stream.Partition{Topic: p.Input.Topic, Index: stream.ByKey}
		if err := log.Append(ctx, r); err != nil {
			t.Fatal(err)
		}
	}
	if err := runIdle(ctx, runner, log); err != nil {
		t.Fatal(err)
	}
	if got := values(t, log, "out"); len(got) != len(records) {
		t.Errorf("%d outputs", len(got))
	}
}

// TestBadEventsOfCopiedTopicsAreDeadLetters reads a topic of more partitions
// than those the pipeline writes.
func TestBadEventsOfCopiedTopicsAreDeadLetters(t *testing.T) {
	p := payments()
	p.Input.Partitions, p.Input.Repartition = 8, 2
	var bad []stream.Record
	for i := range int32(8) {
		bad = append(bad, stream.Record{Partition: stream.Partition{Topic: p.Input.Topic, Index: i}, Value: fmt.Appendf(nil, "broken %d", i)})
	}
	log := memory.New(memory.Options{})
	defer closeLog(t, log)
	runner, err := builtin.New(p, pipeline.Options{})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	answer, err := answers.RunAll(ctx, log, runner, bad)
	if err != nil {
		t.Fatal(err)
	}
	if got := answer.Values(p.Name + ".dlq"); len(got) != 8 {
		t.Errorf("dead letters: %q", got)
	}
	if got := runner.Counts().DeadLetters; got != 8 {
		t.Errorf("%d dead letters are counted", got)
	}
}

// starting is a log that is asked for its topics when the context ends.
type starting struct {
	stream.Log
	stop context.CancelFunc
}

func (s *starting) Topics(ctx context.Context) ([]stream.Topic, error) {
	s.stop()
	return nil, ctx.Err()
}

func TestRunThatIsEndedWhileItStartsIsNoFailure(t *testing.T) {
	runner, err := builtin.New(payments(), pipeline.Options{})
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	if err := runner.Run(ctx, &starting{memory.New(memory.Options{}), stop}); err != nil {
		t.Error(err)
	}
}
