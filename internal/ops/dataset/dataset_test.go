package dataset_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/csv"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/afterbay/afterbay/internal/check/dryrun"
	"github.com/afterbay/afterbay/internal/event/hash"
	"github.com/afterbay/afterbay/internal/http/ingest"
	"github.com/afterbay/afterbay/internal/log/memory"
	"github.com/afterbay/afterbay/internal/ops/dataset"
	"github.com/afterbay/afterbay/internal/process"
	"github.com/afterbay/afterbay/internal/process/builtin"
	"github.com/afterbay/afterbay/stream"
)

const payments = `pipeline: payments
input:
  topic: payments
  key: card
  time: {field: at, unit: ms, lateness: 10s, late: include}
  fields: {tx: string, card: string, amount: number, at: int}
steps:
  - features:
      spend: {value: amount, decimals: 2, windows: [1m, 1h], aggregates: [count, sum, max]}
      gap: {elapsed: true, empty: -1}
  - decide: {action: 'spend.sum_1h > 100.0 ? "block" : "allow"'}
  - emit: {topic: decisions, value: [tx, spend.*, gap, action]}
`

// began is the time of the first event.
var began = time.Date(2026, 1, 1, 9, 0, 0, 0, time.UTC)

// payment is an event.
type payment struct {
	TX     string  `json:"tx"`
	Card   string  `json:"card"`
	Amount float64 `json:"amount"`
	At     int64   `json:"at"`
}

func generate(seed uint64, n int) []payment {
	rng := rand.New(rand.NewPCG(seed, 1))
	list := make([]payment, n)
	at := began.UnixMilli()
	for i := range list {
		at += rng.Int64N(2000)
		list[i] = payment{fmt.Sprintf("t%05d", i), fmt.Sprintf("c%02d", rng.IntN(40)), float64(rng.IntN(5000)) / 100, at - rng.Int64N(3000)}
	}
	return list
}

func lines[T any](list []T) string {
	var text bytes.Buffer
	for _, one := range list {
		b, err := json.Marshal(one)
		if err != nil {
			panic(err)
		}
		text.Write(append(b, '\n'))
	}
	return text.String()
}

func save(t testing.TB, name, text string) {
	t.Helper()
	if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func load(t testing.TB, name string) string {
	t.Helper()
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func program(out io.Writer) *dryrun.Program {
	return &dryrun.Program{
		Loader: &process.Loader{Kinds: builtin.Kinds(), Logger: slog.New(slog.DiscardHandler)},
		Events: func(path, format string) (*ingest.Source, error) {
			return ingest.Open(path, ingest.Format(format), nil)
		},
		Out: out, Err: out,
	}
}

// written writes a dataset and returns its manifest.
func written(t testing.TB, o dataset.Options) *dataset.Manifest {
	t.Helper()
	var said bytes.Buffer
	if err := dataset.Write(t.Context(), program(&said), o); err != nil {
		t.Fatalf("%v\n%s", err, said.String())
	}
	m := &dataset.Manifest{}
	if err := json.Unmarshal([]byte(load(t, o.Out+".manifest.json")), m); err != nil {
		t.Fatal(err)
	}
	digest := sha256.Sum256([]byte(load(t, o.Out)))
	if got := hex.EncodeToString(digest[:]); got != m.File.SHA256 {
		t.Errorf("%s has the digest %s, its manifest says %s", o.Out, got, m.File.SHA256)
	}
	return m
}

// options are those of rows of a file of events.
func options(out string) dataset.Options {
	return dataset.Options{RowsOptions: dryrun.RowsOptions{File: "p.yaml", Events: "e.ndjson", Parallelism: 1}, Out: out}
}

// folder is a folder with the pipeline and events.
func folder(t testing.TB, events []payment) {
	t.Helper()
	t.Chdir(t.TempDir())
	save(t, "p.yaml", payments)
	save(t, "e.ndjson", lines(events))
}

// live runs the pipeline as in production over a log in memory, and returns it.
func live(t testing.TB, file, topic string, partitions int32, events []payment) *memory.Log {
	t.Helper()
	log := memory.New(memory.Options{})
	t.Cleanup(func() { log.Close() })
	if err := log.CreateTopic(t.Context(), stream.Topic{Name: topic, Partitions: partitions, Key: "card"}); err != nil {
		t.Fatal(err)
	}
	var records []stream.Record
	for _, e := range events {
		records = append(records, stream.Record{Partition: stream.Partition{Topic: topic, Index: stream.ByKey}, Key: []byte(e.Card), Value: []byte(strings.TrimSpace(lines([]payment{e})))})
	}
	if err := log.Append(t.Context(), records...); err != nil {
		t.Fatal(err)
	}
	running(t, log, file)
	return log
}

// TestSameEventsSameBytes compares digests over the parallelism, the format of the source and
// a log that a pipeline ran on.
func TestSameEventsSameBytes(t *testing.T) {
	events := generate(7, 20_000)
	folder(t, events)
	log := live(t, "p.yaml", "payments", 4, events)
	for _, format := range []string{"csv", "ndjson", "parquet"} {
		var first *dataset.Manifest
		for parallelism := range 4 {
			for _, from := range []string{"file", "log"} {
				o := options("rows." + format)
				if o.Parallelism = parallelism + 1; from == "log" {
					o.FromLog, o.Open = true, opens(log)
				}
				m := written(t, o)
				if first == nil {
					first = m
				}
				if m.File != first.File || m.Rows != first.Rows || m.Rows.Count != 20_000 {
					t.Errorf("%s, parallelism %d, %s: %+v, %+v, want %+v", format, parallelism+1, from, m.File, m.Rows, first.File)
				}
				if diff := cmp.Diff(first.Sources, m.Sources); diff != "" {
					t.Errorf("%s: offsets %s", from, diff)
				}
			}
		}
	}
}

// TestRowsAreTheLiveRows compares all rows with what the pipeline wrote when it ran.
func TestRowsAreTheLiveRows(t *testing.T) {
	events := generate(11, 20_000)
	folder(t, events)
	log := live(t, "p.yaml", "payments", 4, events)
	o := options("rows.ndjson")
	o.RowsOptions.Columns = []string{"tx", "spend.*", "gap", "action"}
	o.FromLog, o.Open, o.Parallelism = true, opens(log), 3
	written(t, o)
	var want []string
	for i := range int32(4) {
		want = append(want, values(t, log, stream.Partition{Topic: "decisions", Index: i})...)
	}
	got := strings.Split(strings.TrimSpace(strings.ReplaceAll(load(t, "rows.ndjson"), `"spend.`, `"spend_`)), "\n")
	slices.Sort(got)
	slices.Sort(want)
	if diff := cmp.Diff(want, got); diff != "" || len(got) != 20_000 {
		t.Errorf("%d rows: %.2000s", len(got), diff)
	}
}

// verdict is a label.
type verdict struct {
	TX    string `json:"tx"`
	Fraud any    `json:"fraud"`
	Known string `json:"known"`
}

func (v *verdict) at() time.Time {
	at, err := time.Parse(time.RFC3339Nano, v.Known)
	if err != nil {
		panic(err)
	}
	return at
}

const horizon = 10 * time.Minute

// judge makes labels: some events have none, some several, some at one time.
func judge(seed uint64, events []payment) (labels []verdict, newest time.Time) {
	rng := rand.New(rand.NewPCG(seed, 2))
	for range 2 * len(events) {
		e := events[rng.IntN(len(events))]
		offset := time.Duration(rng.Int64N(int64(3*horizon))) - horizon
		switch rng.IntN(6) {
		case 0:
			offset = 0
		case 1:
			offset = horizon
		case 2:
			offset = horizon + time.Microsecond
		case 3:
			offset = -time.Microsecond
		}
		v := verdict{e.TX, rng.IntN(2), time.UnixMilli(e.At).UTC().Add(offset).Format(time.RFC3339Nano)}
		if rng.IntN(20) == 0 {
			v.TX = "nowhere"
		}
		if v.at().After(time.UnixMilli(events[len(events)-1].At).Add(horizon / 2)) {
			continue // the newest events have no label yet
		}
		labels = append(labels, v)
		if v.at().After(newest) {
			newest = v.at()
		}
	}
	return labels, newest
}

// TestLabelsAreThoseKnownInTime compares labels and chosen rows with a search of all labels
// for each event.
func TestLabelsAreThoseKnownInTime(t *testing.T) {
	const seed = 3
	events := generate(seed, 3000)
	folder(t, events)
	labels, newest := judge(seed, events)
	save(t, "labels.ndjson", lines(labels))
	o := options("rows.csv")
	o.RowsOptions.Columns = []string{"tx"}
	o.Labels = dataset.Labels{Source: "labels.ndjson", On: "tx", Label: "fraud", Time: "known", Horizon: horizon}
	o.Negatives = "30%"
	m := written(t, o)
	var want []string
	young, negatives := int64(0), int64(0)
	for _, e := range events {
		at := time.UnixMilli(e.At)
		if at.Add(horizon).After(newest) {
			young++
			continue
		}
		label, known := "", time.Time{}
		for _, l := range labels {
			if l.TX == e.TX && !l.at().Before(at) && !l.at().After(at.Add(horizon)) && !l.at().Before(known) {
				label, known = fmt.Sprint(l.Fraud), l.at()
			}
		}
		if label != "1" && float64(hash.Of(e.TX, "afterbay.dataset.negatives")) >= 0.3*(1<<53) {
			negatives++
			continue
		}
		want = append(want, fmt.Sprintf("%q,%s", e.TX, label))
	}
	got := strings.Split(strings.TrimSpace(load(t, "rows.csv")), "\n")[1:]
	slices.Sort(got)
	slices.Sort(want)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("seed %d: %.2000s", seed, diff)
	}
	if m.Labels.Young != young || m.Kept.Negatives != negatives || young == 0 || m.Labels.Labelled == 0 || m.Labels.Unlabelled == 0 {
		t.Errorf("%+v, %+v, want %d young, %d negatives", m.Labels, m.Kept, young, negatives)
	}
	o.Negatives, o.Keep = "", `(fraud ?? 0.0) == 1.0 || hash(tx, "afterbay.dataset.negatives") * 10 < 3 * 2 ** 53`
	written(t, o)
	again := strings.Split(strings.TrimSpace(load(t, "rows.csv")), "\n")[1:]
	slices.Sort(again)
	if diff := cmp.Diff(want, again); diff != "" {
		t.Errorf("--keep: %.2000s", diff)
	}
}

// TestHostileLabels has labels that cannot be read, none at all, and a horizon beyond what is
// known.
func TestHostileLabels(t *testing.T) {
	events := generate(5, 50)
	folder(t, events)
	o := options("rows.csv")
	o.Labels = dataset.Labels{Source: "labels.ndjson", On: "tx", Label: "fraud", Time: "known", Horizon: time.Hour, AsOf: "2027-01-01T00:00:00Z"}
	save(t, "labels.ndjson", `{"tx":"t00001","fraud":1,"known":"2026-01-01T09:10:00Z"}
{"tx":7,"fraud":1,"known":"2026-01-01T09:10:00Z"}
{"tx":"t00002","known":"2026-01-01T09:10:00Z"}
{"tx":"t00002","fraud":null,"known":"2026-01-01T09:10:00Z"}
{"tx":"t00002","fraud":1}
{"tx":"t00002","fraud":1,"known":"yesterday"}
not JSON
{"tx":"t00001","fraud":0,"known":"2026-01-01T09:10:00Z"}
`)
	m := written(t, o)
	if m.Labels.Records != 8 || m.Labels.Unreadable != 4 || !strings.Contains(m.Labels.First, "labels.ndjson:3:46: ") || m.Labels.Labelled != 1 || m.Labels.Unlabelled != 49 || m.Labels.Retracted != 1 || m.Labels.Unused != 2 {
		t.Errorf("%+v", m.Labels)
	}
	if got := load(t, "rows.csv"); !strings.Contains(got, `"t00001"`) || strings.Contains(got, ",1\n") {
		t.Errorf("the later label of two that were known at one time counts: %s", got)
	}
	o.Labels.AsOf = "2026-01-01T09:30:00Z"
	if m := written(t, o); m.Rows.Count != 0 || m.Labels.Young != 50 {
		t.Errorf("rows are younger than the horizon: %+v %+v", m.Rows, m.Labels)
	}
	save(t, "labels.ndjson", "")
	o.Labels.AsOf = "2027-01-01T00:00:00Z"
	if m := written(t, o); m.Rows.Count != 50 || m.Labels.Unlabelled != 50 {
		t.Errorf("no labels: %+v", m.Labels)
	}
	for name, c := range map[string]struct {
		change func(*dataset.Options)
		want   string
	}{
		"as of":    {func(o *dataset.Options) { o.Labels.AsOf = "" }, "say with --as-of"},
		"bad time": {func(o *dataset.Options) { o.Labels.AsOf = "today" }, "--as-of today: write a time"},
		"on":       {func(o *dataset.Options) { o.Labels.On = "nothing" }, "--on nothing: the rows have no such name"},
		"number":   {func(o *dataset.Options) { o.Labels.On = "amount" }, "by a string or an int"},
		"time":     {func(o *dataset.Options) { o.Labels.Time = "" }, "--label-time FIELD"},
		"unit":     {func(o *dataset.Options) { o.Labels.Time = "known:days" }, "the unit is one of"},
		"label":    {func(o *dataset.Options) { o.Labels.Label = "amount" }, "the rows have a value of that name"},
		"type":     {func(o *dataset.Options) { o.Labels.Label = "fraud:boolean" }, "the type is one of"},
		"same":     {func(o *dataset.Options) { o.Labels.Time = "tx" }, "different fields"},
		"topic":    {func(o *dataset.Options) { o.Labels.Source = "topic:x" }, "a topic is in a log"},
		"horizon":  {func(o *dataset.Options) { o.Labels.Horizon = 0 }, "--horizon"},
		"none":     {func(o *dataset.Options) { o.Labels.Source = "" }, "name the labels with --labels"},
		"share":    {func(o *dataset.Options) { o.Negatives = "120%" }, "write a share from 0% to 100%"},
		"keep":     {func(o *dataset.Options) { o.Keep = "tx" }, "--keep"},
		"unknown":  {func(o *dataset.Options) { o.Keep = "txx == 1" }, "--keep"},
		"divide":   {func(o *dataset.Options) { o.Keep = "1 / (at - at) > 0.0" }, "--keep"},
	} {
		o := o
		c.change(&o)
		var said bytes.Buffer
		if err := dataset.Write(t.Context(), program(&said), o); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %s", name, err, c.want)
		}
	}
	if left, _ := filepath.Glob("rows.csv.*"); len(left) != 1 {
		t.Errorf("%v is left over", left)
	}
}

// TestFilesThatAreReadAreNotReplaced names each of them with --out.
func TestFilesThatAreReadAreNotReplaced(t *testing.T) {
	folder(t, generate(5, 50))
	save(t, "labels.ndjson", "")
	save(t, "table.csv", "")
	for _, out := range []string{"e.ndjson", "labels.ndjson", "table.csv"} {
		if err := os.Symlink(out, "link-"+out); err != nil {
			t.Fatal(err)
		}
		for _, out := range []string{out, "./" + out, "link-" + out} {
			before := load(t, out)
			o := options(out)
			o.Labels.Source, o.Tables = "labels.ndjson", []string{"rates:id=table.csv"}
			err := dataset.Write(t.Context(), program(io.Discard), o)
			if err == nil || !strings.Contains(err.Error(), "which is read: name another file") {
				t.Errorf("%s: %v", out, err)
			}
			if load(t, out) != before {
				t.Errorf("%s has changed", out)
			}
		}
	}
}

// TestALeakProbeIsEmpty has a feature that would be the label of an event, from an event a
// second later.
func TestALeakProbeIsEmpty(t *testing.T) {
	t.Chdir(t.TempDir())
	save(t, "p.yaml", `pipeline: probe
input: {topic: all, key: tx, time: {field: at, unit: ms, lateness: 10s}, fields: {tx: string, fraud: optional number, at: int}}
steps:
  - features: {label: {value: 'fraud ?? 0.0', when: '(fraud ?? -1.0) >= 0.0', last: 1, empty: -1, aggregates: [max]}, seen: {windows: [1h], aggregates: [count]}}
  - emit: {topic: out, value: [tx, label.max]}
`)
	var text, labels strings.Builder
	for i := range 500 {
		at := began.Add(time.Duration(i) * time.Minute).UnixMilli()
		fmt.Fprintf(&text, `{"tx":"t%d","at":%d}`+"\n"+`{"tx":"t%d","fraud":%d,"at":%d}`+"\n", i, at, i, i%2, at+1000)
		fmt.Fprintf(&labels, `{"tx":"t%d","fraud_":%d,"known":%d}`+"\n", i, i%2, at+1000)
	}
	save(t, "e.ndjson", text.String())
	save(t, "labels.ndjson", labels.String())
	o := options("rows.csv")
	o.RowsOptions.Columns = []string{"tx", "label.max", "seen.*"}
	o.Labels = dataset.Labels{Source: "labels.ndjson", On: "tx", Label: "fraud_", Time: "known:ms", Horizon: time.Minute, AsOf: "2027-01-01T00:00:00Z"}
	o.Keep = "seen.count_1h == 1"
	m := written(t, o)
	rows, err := csv.NewReader(strings.NewReader(load(t, "rows.csv"))).ReadAll()
	if err != nil || len(rows) != 501 || m.Labels.Labelled < 500 {
		t.Fatal(len(rows), err)
	}
	for _, row := range rows[1:] {
		if row[1] != "-1" || row[3] == "" {
			t.Errorf("row %q: the feature knows the label, or the label is not there", row)
		}
	}
}

// TestALeakProbeOfATableIsEmpty has the label of each event in a table, valid from a second
// after the event on.
func TestALeakProbeOfATableIsEmpty(t *testing.T) {
	t.Chdir(t.TempDir())
	save(t, "p.yaml", `pipeline: probe
input: {topic: all, key: tx, time: {field: at, unit: ms, lateness: 10s}, fields: {tx: string, at: int}}
steps:
  - lookup: {name: verdict, table: verdicts, key: tx, as_of: event, time: {field: known, unit: ms}, history: 1h, fields: {fraud: number}, empty: {fraud: -1.0}}
  - emit: {topic: out, value: [tx, verdict.fraud]}
`)
	var events, labels strings.Builder
	for i := range 500 {
		at := began.Add(time.Duration(i) * time.Minute).UnixMilli()
		fmt.Fprintf(&events, `{"tx":"t%d","at":%d}`+"\n", i, at)
		fmt.Fprintf(&labels, `{"tx":"t%d","fraud":%d,"known":%d}`+"\n", i, i%2, at+1000)
	}
	save(t, "e.ndjson", events.String())
	save(t, "labels.ndjson", labels.String())
	o := options("rows.csv")
	o.RowsOptions.Columns, o.Tables = []string{"tx", "verdict.*"}, []string{"verdicts:tx=labels.ndjson"}
	o.Labels = dataset.Labels{Source: "labels.ndjson", On: "tx", Label: "fraud", Time: "known:ms", Horizon: time.Minute, AsOf: "2027-01-01T00:00:00Z"}
	m := written(t, o)
	rows, err := csv.NewReader(strings.NewReader(load(t, "rows.csv"))).ReadAll()
	if err != nil || len(rows) != 501 || m.Labels.Labelled != 500 {
		t.Fatal(len(rows), m.Labels, err)
	}
	for i, row := range rows[1:] {
		if want := fmt.Sprint(i % 2); row[len(row)-2] != "-1" || row[len(row)-1] != want {
			t.Errorf("row %q: the table knows the label, or the label is not %s", row, want)
		}
	}
}
