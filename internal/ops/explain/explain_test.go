package explain_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/afterbay/afterbay/internal/event/header"
	"github.com/afterbay/afterbay/internal/lang"
	"github.com/afterbay/afterbay/internal/lang/steps"
	"github.com/afterbay/afterbay/internal/log/memory"
	"github.com/afterbay/afterbay/internal/ops/explain"
	"github.com/afterbay/afterbay/internal/ops/inspect"
	"github.com/afterbay/afterbay/internal/pipeline"
	"github.com/afterbay/afterbay/internal/process/builtin"
	"github.com/afterbay/afterbay/internal/state/deadletter"
	"github.com/afterbay/afterbay/model"
	"github.com/afterbay/afterbay/stream"
	"github.com/afterbay/afterbay/udf"
)

// half is a model in Go: half of its first input, so that feedback shows.
type half struct{ digest string }

// Predict implements model.Model.
func (half) Predict(_ context.Context, rows model.Rows, scores []float32) error {
	for i := range scores {
		scores[i] = float32(rows.Values[i*rows.Width]+rows.Values[i*rows.Width+1]) / 2
	}
	return nil
}

// Check implements model.Model.
func (half) Check([]float64, [][]byte) error { return nil }

// Info implements model.Model.
func (m half) Info() model.Info {
	return model.Info{Kind: "go", Digest: m.digest, Inputs: model.Numbers(2), Outputs: []model.Output{{Name: "half", Size: 1}}}
}

// quiet writes a record when a key was silent for 8 s.
var quiet = udf.Function{
	Version: 1, Keyed: true,
	Event: func(c *udf.Context) error {
		c.Put("last", fmt.Appendf(nil, "%g", c.Number("amount")))
		c.SetTimer("quiet", c.Time.Add(8*time.Second))
		return nil
	},
	Timer: func(c *udf.Context) error {
		c.Emit(udf.Output{Topic: "silences", Value: fmt.Appendf(nil, `{"card":%q,"last":%s}`, c.Key, c.Get("last"))})
		return nil
	},
}

// everything is a pipeline with all that a replay has to do alike.
func everything() lang.Pipeline {
	zero := 0
	return lang.Pipeline{
		Name: "cards",
		Input: lang.Input{
			Topic: "payments", Partitions: 2, Key: "card",
			Time:   lang.EventTime{Field: "at", Unit: "s", Lateness: 5 * time.Second, LateTo: "late"},
			Dedupe: &lang.Dedupe{ID: "tx", Window: time.Hour, Max: 50},
			Fields: []lang.Field{{Name: "tx", Type: "int"}, {Name: "card", Type: "int"}, {Name: "amount", Type: "number"}, {Name: "at", Type: "int"}},
		},
		Models: []lang.Model{{Name: "half", Go: "half", Version: 1, Outputs: []lang.Field{{Name: "score", Type: "number"}}}},
		Steps: []lang.Step{
			&steps.Features{List: []steps.Feature{
				{Name: "spend", Value: "amount", Decimals: &zero, Windows: []string{"60s", "10m/1m"}, Aggregates: []string{"sum", "max"}},
				{Name: "past", Value: "half.score", Last: 3, Aggregates: []string{"mean"}},
			}},
			&steps.Let{List: []lang.Binding{{Name: "odd", Expr: "100 / (tx % 50)"}}}, // a dead letter of each 50th
			&steps.Score{Model: "half", Inputs: []string{"spend.sum_60s", "past.mean"}},
			&steps.Call{Go: "quiet", Inputs: []string{"amount"}, Topics: []string{"silences"}},
			&steps.Emit{Topic: "scores", Names: []string{"tx", "half.score", "spend.*", "odd"}},
			&steps.Emit{Topic: "large", When: "amount > 90", Key: "tx", ID: `"large-" + string(tx)`, Names: []string{"card", "amount"}},
		},
		Code: lang.Code{Functions: map[string]udf.Function{"quiet": quiet}, Models: map[string]model.Model{"half": half{"one"}}},
	}
}

// computed runs pipelines over events, appended to the first one's input in a
// few parts.
func computed(t *testing.T, log *memory.Log, pipelines []lang.Pipeline, parts ...[]stream.Record) []*pipeline.Runner {
	t.Helper()
	runners, err := builtin.NewChain(pipelines, pipeline.Options{Members: 2})
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan error)
	for _, r := range runners {
		if err := r.CreateTopics(ctx, log); err != nil {
			t.Fatal(err)
		}
	}
	for _, r := range runners {
		go func() { done <- r.Run(ctx, log) }()
	}
	for _, records := range parts {
		if err := log.Append(ctx, records...); err != nil {
			t.Fatal(err)
		}
		for _, r := range runners {
			if err := r.WaitIdle(ctx, log); err != nil {
				t.Fatal(err)
			}
		}
	}
	stop()
	for range runners {
		if err := <-done; err != nil {
			t.Fatal(err)
		}
	}
	return runners
}

func payments(n int) []stream.Record {
	const seed = 7
	rng := rand.New(rand.NewPCG(seed, 0))
	var list []stream.Record
	for i := range n {
		card, at := rng.IntN(9), 1_000_000+i/2-rng.IntN(8)
		tx := i
		if rng.IntN(10) == 0 {
			tx = max(0, i-rng.IntN(40))
		}
		list = append(list, stream.Record{
			Partition: stream.Partition{Topic: "payments", Index: stream.ByKey}, Time: time.UnixMilli(int64(1_000_000_000 + i)), Key: fmt.Appendf(nil, "%d", card),
			Value: fmt.Appendf(nil, `{"tx":%d,"card":%d,"amount":%d,"at":%d}`, tx, card, rng.IntN(100), at),
		})
	}
	return list
}

// stored returns what a topic holds.
func stored(t *testing.T, d inspect.Directory, topic string) []stream.Record {
	t.Helper()
	var list []stream.Record
	for r, err := range d.Records(t.Context(), inspect.Query{Topic: topic, Partition: inspect.AllPartitions}) {
		if err != nil {
			t.Fatal(err)
		}
		list = append(list, r)
	}
	return list
}

func position(r *stream.Record) string { return fmt.Sprintf("%v@%d", r.Partition, r.Offset) }

func newLog(t *testing.T) (*memory.Log, *inspect.Local) {
	t.Helper()
	log := memory.New(memory.Options{})
	t.Cleanup(func() { _ = log.Close() })
	return log, &inspect.Local{Log: log}
}

func TestReplayGivesEveryOutputAgain(t *testing.T) {
	log, d := newLog(t)
	events := payments(1500)
	computed(t, log, []lang.Pipeline{everything()}, slices.Clone(events[:700]), slices.Clone(events[700:701]), slices.Clone(events[701:]))
	kinds := map[string]int{}
	for _, topic := range []string{"scores", "silences", "large", "late", "cards.dlq"} {
		all := stored(t, d, topic)
		if len(all) < 10 {
			t.Fatalf("%d records in %s", len(all), topic)
		}
		for i := 0; i < len(all); i += max(1, len(all)/12) {
			r := &all[i]
			report, err := explain.Explain(t.Context(), header.Get(r, header.ID), explain.Options{Directory: d, Pipelines: []lang.Pipeline{everything()}})
			if err != nil {
				t.Fatal(err)
			}
			o := report.Output
			if o == nil || o.Position != position(r) || string(o.Value) != string(r.Value) || o.Made.From != header.Get(r, header.Position) || report.Event.Position != o.Made.From {
				t.Fatalf("%s: %+v", position(r), o)
			}
			kinds[o.Kind]++
			if replay := report.Replays[0]; !replay.Same || replay.Why != nil || replay.Watermark.IsZero() {
				t.Errorf("%s %s: %+v", position(r), r.Value, replay)
			}
		}
	}
	if kinds[explain.KindOutput] < 30 || kinds[explain.KindDead] < 10 || kinds[explain.KindLate] < 10 {
		t.Errorf("kinds %v", kinds)
	}
}

func TestReplayShowsTheRowByStages(t *testing.T) {
	log, d := newLog(t)
	computed(t, log, []lang.Pipeline{everything()}, payments(200))
	all := stored(t, d, "scores")
	last := &all[len(all)-1]
	report, err := explain.Explain(t.Context(), position(last), explain.Options{Directory: d, Pipelines: []lang.Pipeline{everything()}})
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	row := map[string]string{}
	for _, v := range report.Replays[0].Row {
		names = append(names, v.Name)
		row[v.Name] = string(v.Value)
	}
	want := "meta.id meta.key meta.time meta.partition meta.offset tx card amount at spend.sum_60s spend.max_60s spend.sum_10m spend.max_10m past.mean odd half.score"
	if strings.Join(names, " ") != want {
		t.Errorf("names %v, want %s", names, want)
	}
	var value map[string]json.RawMessage
	if err := json.Unmarshal(last.Value, &value); err != nil {
		t.Fatal(err)
	}
	for field, name := range map[string]string{"tx": "tx", "half_score": "half.score", "spend_sum_60s": "spend.sum_60s", "spend_max_10m": "spend.max_10m", "odd": "odd"} {
		if row[name] != string(value[field]) || row[name] == "" {
			t.Errorf("%s is %s, the output says %s", name, row[name], value[field])
		}
	}
}

func TestOutputsAreFoundByBisection(t *testing.T) {
	log, d := newLog(t)
	computed(t, log, []lang.Pipeline{everything()}, payments(3000))
	for _, topic := range []string{"scores", "cards.dlq", "late"} {
		for _, r := range stored(t, d, topic) {
			report, err := explain.Explain(t.Context(), header.Get(&r, header.ID), explain.Options{Directory: d})
			if err != nil || report.Output == nil || report.Output.Position != position(&r) {
				t.Fatalf("%s: %+v, %v", position(&r), report, err)
			}
			if report.Searched > 150 {
				t.Fatalf("%s: %d records were looked at", position(&r), report.Searched)
			}
		}
	}
	_, err := explain.Explain(t.Context(), "cards:payments/0@999999:scores", explain.Options{Directory: d})
	if !errors.Is(err, explain.ErrNotFound) {
		t.Error(err)
	}
}

func TestEventsAreFoundByTheirIDs(t *testing.T) {
	log, d := newLog(t)
	records := payments(300)
	records[17].Headers = []stream.Header{{Key: header.ID, Value: []byte("mine")}}
	records[18].Headers = []stream.Header{{Key: header.ID, Value: []byte("0:1:2:3")}}
	computed(t, log, []lang.Pipeline{everything()}, records)
	for id, want := range map[string]string{
		"mine": position(&records[17]), "0:1:2:3": position(&records[18]),
		"payments/0@40": "payments/0@40", "payments/1@3": "payments/1@3",
	} {
		report, err := explain.Explain(t.Context(), id, explain.Options{Directory: d})
		if err != nil || report.Output != nil || report.Event.Position != want || report.Event.Kind != explain.KindEvent {
			t.Errorf("%s: %+v, %v", id, report, err)
			continue
		}
		for _, b := range report.Became {
			if b.Made.From != want {
				t.Errorf("%s became %+v", want, b)
			}
		}
	}
	report, err := explain.Explain(t.Context(), "cards:mine:scores", explain.Options{Directory: d})
	if err != nil || report.Output.Position == "" || report.Event.Position != position(&records[17]) {
		t.Errorf("%+v, %v", report, err)
	}
}

// trimmed is a directory whose first records of a topic retention has removed.
type trimmed struct {
	inspect.Directory
	topic string
	first stream.Offset
}

// List implements inspect.Directory.
func (d *trimmed) List(ctx context.Context) ([]inspect.Topic, error) {
	topics, err := d.Directory.List(ctx)
	for i := range topics {
		if topics[i].Name == d.topic {
			for p := range topics[i].Partitions {
				topics[i].Partitions[p].First = d.first
			}
		}
	}
	return topics, err
}

// Records implements inspect.Directory.
func (d *trimmed) Records(ctx context.Context, q inspect.Query) iter.Seq2[stream.Record, error] {
	if q.Topic == d.topic {
		q.From = max(q.From, int64(d.first))
	}
	return d.Directory.Records(ctx, q)
}

func TestReplayFromALaterBeginningSaysSo(t *testing.T) {
	log, d := newLog(t)
	computed(t, log, []lang.Pipeline{everything()}, payments(600))
	pipelines := []lang.Pipeline{everything()}
	var early, late string // positions of outputs
	for _, r := range stored(t, d, "scores") {
		if r.Partition.Index != 0 {
			continue
		}
		var offset int
		if _, err := fmt.Sscanf(header.Get(&r, header.Position), "payments/0@%d", &offset); err != nil {
			t.Fatal(err)
		}
		if offset < 100 {
			early = position(&r)
		} else if late == "" {
			late = position(&r)
		}
	}
	from := &trimmed{d, "payments", 100}
	report, err := explain.Explain(t.Context(), late, explain.Options{Directory: from, Pipelines: pipelines})
	if err != nil {
		t.Fatal(err)
	}
	if r := report.Replays[0]; r.Same || r.From != 100 || !strings.Contains(strings.Join(r.Why, "\n"), "payments/0 begins at offset 100: the state before it is unknown") || len(r.Row) == 0 {
		t.Errorf("%+v", r)
	}
	report, err = explain.Explain(t.Context(), early, explain.Options{Directory: from, Pipelines: pipelines})
	if err != nil {
		t.Fatal(err)
	}
	var text strings.Builder
	if err := report.Write(&text); err != nil {
		t.Fatal(err)
	}
	if report.Event.Value != nil || !strings.Contains(text.String(), "no longer retained: payments/0 begins at offset 100") || !strings.Contains(text.String(), "replay         none: the event is no longer retained") {
		t.Error(text.String())
	}
}

func TestReplayWithAnotherModelNamesItsDigest(t *testing.T) {
	log, d := newLog(t)
	computed(t, log, []lang.Pipeline{everything()}, payments(100))
	other := everything()
	other.Code.Models = map[string]model.Model{"half": half{"two"}}
	report, err := explain.Explain(t.Context(), "scores/0@5", explain.Options{Directory: d, Pipelines: []lang.Pipeline{other}})
	if err != nil {
		t.Fatal(err)
	}
	if r := report.Replays[0]; !r.Same || len(r.Why) != 2 || r.Why[0] != "model half@1 was sha256:one, but the file has half@1 sha256:two" {
		t.Errorf("%+v", r)
	}
	other.Name = "others"
	if _, err = explain.Explain(t.Context(), "scores/0@5", explain.Options{Directory: d, Pipelines: []lang.Pipeline{other}}); !errors.Is(err, explain.ErrOtherPipeline) {
		t.Error(err)
	}
}

// stopping is a directory that calls stop when a replay begins.
type stopping struct {
	inspect.Directory
	stop func()
}

// Records implements inspect.Directory.
func (d *stopping) Records(ctx context.Context, q inspect.Query) iter.Seq2[stream.Record, error] {
	if q.Limit > 1 {
		d.stop()
	}
	return d.Directory.Records(context.WithoutCancel(ctx), q)
}

func TestReplayEndsWithItsContext(t *testing.T) {
	log, d := newLog(t)
	computed(t, log, []lang.Pipeline{everything()}, payments(100))
	ctx, stop := context.WithCancel(t.Context())
	options := explain.Options{Directory: &stopping{d, stop}, Pipelines: []lang.Pipeline{everything()}}
	if _, err := explain.Explain(ctx, "scores/0@5", options); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

func TestReplayDoesNotWaitForTheCommitInterval(t *testing.T) {
	log, d := newLog(t)
	computed(t, log, []lang.Pipeline{everything()}, payments(400))
	slow := everything()
	slow.Commit = lang.Commit{Interval: time.Minute, Size: 20}
	report, err := explain.Explain(t.Context(), "scores/0@150", explain.Options{Directory: d, Pipelines: []lang.Pipeline{slow}})
	if err != nil || !report.Replays[0].Same || report.Replays[0].Took > 20*time.Second {
		t.Errorf("%+v, %v", report, err)
	}
}

func TestAnEventAndItsDeadLetterAreFoundApart(t *testing.T) {
	log, d := newLog(t)
	records := payments(100)
	records[17].Headers = []stream.Header{{Key: header.ID, Value: []byte("mine")}}
	records[17].Value = []byte("broken")
	computed(t, log, []lang.Pipeline{everything()}, records)
	report, err := explain.Explain(t.Context(), "mine", explain.Options{Directory: d})
	if err != nil || report.Output != nil || report.Event.Position != position(&records[17]) || len(report.Became) != 1 {
		t.Fatalf("%+v, %v", report, err)
	}
	letter, err := explain.Explain(t.Context(), "cards:mine:cards.dlq", explain.Options{Directory: d})
	if err != nil || letter.Output == nil || letter.Output.Kind != explain.KindDead || letter.Output.Position != report.Became[0].Position || letter.Event.Position != report.Event.Position {
		t.Errorf("%+v, %v", letter, err)
	}
}

// TestSeveralRecordsWithAnIDAreNamed has a dead letter that failed again when it was sent
// back, of an event with an id of its own.
func TestSeveralRecordsWithAnIDAreNamed(t *testing.T) {
	log, d := newLog(t)
	records := payments(100)
	records[17].Headers = []stream.Header{{Key: header.ID, Value: []byte("mine")}}
	records[17].Value = []byte("broken")
	computed(t, log, []lang.Pipeline{everything()}, records)
	const id = "cards:mine:cards.dlq"
	once, err := explain.Explain(t.Context(), id, explain.Options{Directory: d})
	if err != nil || once.Output == nil || len(once.Also) != 0 {
		t.Fatalf("%+v, %v", once, err)
	}
	at, err := deadletter.ParsePosition(once.Output.Position)
	if err != nil {
		t.Fatal(err)
	}
	r, found, err := log.Peek(t.Context(), at.Partition, at.Offset)
	if err != nil || !found {
		t.Fatal(found, err)
	}
	if err := log.Append(t.Context(), r); err != nil {
		t.Fatal(err)
	}
	report, err := explain.Explain(t.Context(), id, explain.Options{Directory: d})
	if err != nil || report.Output == nil || report.Output.Position != once.Output.Position || len(report.Also) != 1 || report.Also[0] == once.Output.Position {
		t.Errorf("%+v, %v", report, err)
	}
}

func TestAnIDThatOnlyStartsAlikeIsNotTaken(t *testing.T) {
	log, d := newLog(t)
	for _, topic := range []string{"in", "silences"} {
		if err := log.CreateTopic(t.Context(), stream.Topic{Name: topic, Partitions: 1}); err != nil {
			t.Fatal(err)
		}
	}
	timer := stream.Record{Partition: stream.Partition{Topic: "silences"}, Headers: []stream.Header{
		{Key: header.ID, Value: []byte("p:in/0@3~quiet:silences")}, {Key: header.Position, Value: []byte("in/0@0")},
	}}
	if err := log.Append(t.Context(), stream.Record{Partition: stream.Partition{Topic: "in"}}, timer); err != nil {
		t.Fatal(err)
	}
	if report, err := explain.Explain(t.Context(), "p:in/0@3:silences", explain.Options{Directory: d}); !errors.Is(err, explain.ErrNotFound) {
		t.Errorf("%+v, %v", report, err)
	}
}

func TestKeysAndValuesThatAreNoTextAreShown(t *testing.T) {
	log, d := newLog(t)
	if err := log.CreateTopic(t.Context(), stream.Topic{Name: "raw", Partitions: 1}); err != nil {
		t.Fatal(err)
	}
	raw := stream.Record{Partition: stream.Partition{Topic: "raw"}, Key: []byte{0xff}, Value: []byte("no \x1b[31mJSON\n")}
	if err := log.Append(t.Context(), raw); err != nil {
		t.Fatal(err)
	}
	report, err := explain.Explain(t.Context(), "raw/0@0", explain.Options{Directory: d})
	if err != nil {
		t.Fatal(err)
	}
	var text strings.Builder
	if err := report.Write(&text); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(text.String(), `{"base64":"bm8gG1szMW1KU09OCg=="}`) || strings.Contains(text.String(), "\x1b") || !strings.Contains(text.String(), "no retained output") {
		t.Error(text.String())
	}
}

func TestHeadersOfADeadLetterAreRead(t *testing.T) {
	log, d := newLog(t)
	if err := log.CreateTopic(t.Context(), stream.Topic{Name: "p.dlq", Partitions: 1}); err != nil {
		t.Fatal(err)
	}
	dead := stream.Record{Partition: stream.Partition{Topic: "p.dlq"}, Value: []byte("{}")}
	for key, text := range map[string]string{
		header.ID: "p:gone/0@4:p.dlq", header.Event: "gone/0@4", header.Position: "gone/0@4", header.Models: "a@1 sha256:aa, b@22 sha256:bb", header.Pipeline: "p sha256:cc 12",
		header.Stage: "score", header.Error: "it \x1b[31mfailed\nbadly", header.Attempts: "3", header.Watermark: "2026-01-02T03:04:05.000006Z",
		header.Row: `{"a":1}`, header.Truncated: "headers",
	} {
		dead.Headers = append(dead.Headers, stream.Header{Key: key, Value: []byte(text)})
	}
	if err := log.Append(t.Context(), dead); err != nil {
		t.Fatal(err)
	}
	report, err := explain.Explain(t.Context(), "p:gone/0@4:p.dlq", explain.Options{Directory: d})
	if err != nil {
		t.Fatal(err)
	}
	want := &explain.Made{
		From: "gone/0@4", Pipeline: "p", Digest: "sha256:cc", Generation: 12, Models: []explain.Model{{Name: "a@1", Digest: "sha256:aa"}, {Name: "b@22", Digest: "sha256:bb"}},
		Attempts: 3, Watermark: time.Date(2026, 1, 2, 3, 4, 5, 6000, time.UTC), Stage: "score", Error: "it \x1b[31mfailed\nbadly", Row: json.RawMessage(`{"a":1}`), Truncated: "headers",
	}
	if diff := cmp.Diff(want, report.Output.Made); diff != "" {
		t.Error(diff)
	}
	if report.Event.Missing != "the log has no such topic" {
		t.Errorf("%+v", report.Event)
	}
	var text strings.Builder
	if err := report.Write(&text); err != nil {
		t.Fatal(err)
	}
	for _, part := range []string{"it  [31mfailed badly", "model        b@22 sha256:bb", "attempts     3", "headers did not fit", "2026-01-02T03:04:05.000006Z", "the log has no such topic"} {
		if !strings.Contains(text.String(), part) {
			t.Errorf("no %q in %s", part, text.String())
		}
	}
}

func TestLongSearchesAndReplaysShowProgress(t *testing.T) {
	log, d := newLog(t)
	records := payments(12_000)
	computed(t, log, []lang.Pipeline{everything()}, records)
	told := map[string]bool{}
	_, err := explain.Explain(t.Context(), "payments/1@5000", explain.Options{
		Directory: d, Pipelines: []lang.Pipeline{everything()},
		Progress: func(what string, n, of int64) {
			if n <= 0 || n > of {
				t.Errorf("%s: %d of %d", what, n, of)
			}
			told[what] = true
		},
	})
	if err != nil || !told["replaying payments/1"] || !told["looking for the outputs of payments/1@5000"] {
		t.Errorf("%v, %v", told, err)
	}
}

func TestTimingsAreKeptInTheDirectory(t *testing.T) {
	dir := t.TempDir()
	if list := explain.ReadTimings(dir); list != nil {
		t.Error(list)
	}
	log, _ := newLog(t)
	runners := computed(t, log, []lang.Pipeline{everything()}, payments(100))
	path := filepath.Join(dir, "timings")
	for range 3 { // the last one finds nothing new
		if err := explain.WriteTimings(dir, runners); err != nil {
			t.Fatal(err)
		}
		runners = computed(t, log, []lang.Pipeline{everything()})
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, append([]byte("broken\n{}\n"), text...), 0o600); err != nil {
			t.Fatal(err)
		}
		list := explain.ReadTimings(dir)
		for offset := range stream.Offset(30) {
			p, found := list.Find("cards", stream.Partition{Topic: "payments", Index: 1}, offset)
			if !found || p.Feature <= 0 || !p.Committed.After(p.Begun) || int64(offset) < p.First || int64(offset) >= p.Next {
				t.Fatalf("%d: %+v, %v", offset, p, found)
			}
		}
		if _, found := list.Find("others", stream.Partition{Topic: "payments", Index: 1}, 0); found {
			t.Error("found for another pipeline")
		}
	}
	if files, err := os.ReadDir(dir); err != nil || len(files) != 1 {
		t.Error(files, err)
	}
	var old strings.Builder
	for i := range 20_000 {
		fmt.Fprintf(&old, "{\"pipeline\":\"old\",\"first\":%d}\n", i)
	}
	if err := os.WriteFile(path, []byte(old.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := explain.WriteTimings(dir, computed(t, log, []lang.Pipeline{everything()}, payments(10))); err != nil {
		t.Fatal(err)
	}
	in := stream.Partition{Topic: "payments", Index: 1}
	_, next, err := log.Offsets(t.Context(), in)
	if err != nil {
		t.Fatal(err)
	}
	if _, found := explain.ReadTimings(dir).Find("cards", in, next-1); !found {
		t.Error("the newest are not kept")
	}
	if text, err := os.ReadFile(path); err != nil || strings.Count(string(text), "\n") > 16_384 {
		t.Errorf("%d lines, %v", strings.Count(string(text), "\n"), err)
	}
}
