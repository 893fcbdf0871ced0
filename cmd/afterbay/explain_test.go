package main

import (
	"encoding/csv"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/afterbay/afterbay/internal/lab/demo"
	"github.com/afterbay/afterbay/internal/lab/demo/fraud"
	"github.com/afterbay/afterbay/internal/ops/explain"
)

// tailed is a line of afterbay tail --headers.
type tailed struct {
	Partition int32
	Offset    int64
	Time      time.Time
	Key       json.RawMessage
	Headers   [][2]string
	Value     json.RawMessage
}

func (r *tailed) header(name string) string {
	for _, h := range r.Headers {
		if h[0] == name {
			return h[1]
		}
	}
	return ""
}

func tail(t *testing.T, topic string, args ...string) []tailed {
	t.Helper()
	var list []tailed
	for line := range strings.Lines(must(t, "", append([]string{"tail", topic, "--headers"}, args...)...)) {
		var r tailed
		if err := json.Unmarshal([]byte(line), &r); err != nil {
			t.Fatal(err)
		}
		list = append(list, r)
	}
	return list
}

func explained(t *testing.T, args ...string) *explain.Report {
	t.Helper()
	var report explain.Report
	if err := json.Unmarshal([]byte(must(t, "", append([]string{"explain", "--json"}, args...)...)), &report); err != nil {
		t.Fatal(err)
	}
	return &report
}

// decided leaves the demo's files in the current folder and its decisions of
// some events in ./data.
func decided(t *testing.T, events int) {
	t.Helper()
	t.Chdir(t.TempDir())
	if err := (&demo.Example{Dir: ".", Files: demo.FraudFiles()}).Write(); err != nil {
		t.Fatal(err)
	}
	var lines strings.Builder
	if _, err := fraud.Generate(&lines, fraud.Options{Seed: 1, Events: events}); err != nil {
		t.Fatal(err)
	}
	must(t, lines.String(), "produce", "transactions", "--partitions", "4", "--key", "customer")
	must(t, "", "run", "pipeline.yaml", "--listen", "none", "--until-idle")
}

func TestExplainIsRightAboutAnOutput(t *testing.T) {
	decided(t, 4000)
	list := tail(t, "decisions", "--partition", "2", "--from", "-20", "--limit", "1")
	want := &list[0]
	id := want.header("afterbay-id")
	got := explained(t, id, "pipeline.yaml")

	o := got.Output
	if o == nil || o.Kind != explain.KindOutput || o.ID != id || o.Position != fmt.Sprintf("decisions/2@%d", want.Offset) || !o.Time.Equal(want.Time) ||
		string(o.Key) != string(want.Key) || string(o.Value) != string(want.Value) {
		t.Fatalf("output %+v, want %+v", o, want)
	}
	digest := regexp.MustCompile(`digest +(\S+)`).FindStringSubmatch(must(t, "", "model", "inspect", "fraud.ubj"))[1]
	words := strings.Fields(want.header("afterbay-pipeline"))
	m := o.Made
	if len(m.Models) != 1 || m.Models[0] != (explain.Model{Name: "fraud@1", Digest: digest}) || m.Attempts != 1 ||
		m.Pipeline != "fraud" || m.Digest != words[1] || m.Generation != 1 || m.From != want.header("afterbay-position") {
		t.Errorf("made %+v", m)
	}

	offset, err := strconv.ParseInt(strings.TrimPrefix(m.From, "transactions/2@"), 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	before := tail(t, "transactions", "--partition", "2", "--limit", strconv.FormatInt(offset+1, 10))
	event := before[offset]
	if got.Event.Position != m.From || got.Event.Kind != explain.KindEvent || string(got.Event.Value) != string(event.Value) || !got.Event.Time.Equal(event.Time) || got.Upstream != nil {
		t.Errorf("event %+v, want %+v", got.Event, event)
	}
	checkReplay(t, got, before)
	checkPhases(t, m.Phases, event.Time)

	text := must(t, "", "explain", id, "pipeline.yaml")
	for _, part := range []string{o.Position, string(o.Value), m.From, string(event.Value), digest, words[1], "attempts     1", "spend.count_60s", "queue", "commit", "the replay gives the same output: yes"} {
		if !strings.Contains(text, part) {
			t.Errorf("no %q in %s", part, text)
		}
	}
	text = must(t, "", "explain", o.Position)
	if !strings.Contains(text, "name the pipeline file") || strings.Contains(text, "spend.count_60s") || !strings.Contains(text, id) {
		t.Error(text)
	}
}

// checkReplay computes what of the row is simple from the events of the
// partition, and the score from the whole row.
func checkReplay(t *testing.T, report *explain.Report, before []tailed) {
	t.Helper()
	r := report.Replays[0]
	if !r.Same || r.Why != nil || r.From != 0 || r.Records != int64(len(before)) {
		t.Errorf("replay %+v", r)
	}
	row := map[string]string{}
	for _, v := range r.Row {
		row[v.Name] = string(v.Value)
	}
	type payment struct {
		Tx, Customer, Country string
		Amount                float64
		TS                    int64
	}
	var newest, previous, last int64 // of the partition, of the customer
	var own payment
	for i := range before {
		var p payment
		if json.Unmarshal(before[i].Value, &p) != nil || p.Customer == "" || p.TS == 0 {
			continue
		}
		if newest = max(newest, p.TS); p.Customer == customerOf(t, report) {
			last, previous = max(last, p.TS), last
		}
		own = p
	}
	gap := -1.0
	if previous > 0 {
		gap = float64(own.TS-previous) / 1000
	}
	watermark := time.UnixMilli(newest).Add(-5 * time.Second)
	if !r.Watermark.Equal(watermark) {
		t.Errorf("watermark %v, want %v", r.Watermark, watermark)
	}
	for name, want := range map[string]string{
		"tx": strconv.Quote(own.Tx), "amount": strconv.FormatFloat(own.Amount, 'f', -1, 64), "country": strconv.Quote(own.Country),
		"gap": strconv.FormatFloat(gap, 'f', -1, 64), "meta.offset": strconv.Itoa(len(before) - 1),
	} {
		if row[name] != want {
			t.Errorf("row: %s is %s, want %s", name, row[name], want)
		}
	}
	names := strings.Split(regexp.MustCompile(`names +(.*)`).FindStringSubmatch(must(t, "", "model", "inspect", "fraud.ubj"))[1], ", ")
	cells := make([]string, len(names))
	for i, name := range names {
		cells[i] = row[name]
	}
	var table strings.Builder
	w := csv.NewWriter(&table)
	if err := w.WriteAll([][]string{names, cells}); err != nil {
		t.Fatal(err)
	}
	scored := strings.Fields(must(t, table.String(), "model", "score", "fraud.ubj"))[1]
	_, predicted, _ := strings.Cut(scored, ",")
	want, _ := strconv.ParseFloat(predicted, 32)
	var value struct {
		Score float64 `json:"fraud_score"`
	}
	if err := json.Unmarshal(report.Output.Value, &value); err != nil || float32(value.Score) != float32(want) {
		t.Errorf("the model gives %v for the row, the output says %v: %v", want, value.Score, err)
	}
}

func customerOf(t *testing.T, report *explain.Report) (key string) {
	t.Helper()
	if err := json.Unmarshal(report.Output.Key, &key); err != nil {
		t.Fatal(err)
	}
	return key
}

// checkPhases sees that the times were kept and reach from the append to now.
func checkPhases(t *testing.T, h *explain.Phases, appended time.Time) {
	t.Helper()
	switch {
	case h == nil:
		t.Error("the process that ended left no times")
	case !h.Known || h.Queue <= 0 || h.Feature <= 0 || h.Model <= 0 || h.Emit <= 0 || h.Commit <= 0 || h.Next <= h.First:
		t.Errorf("phases %+v", h)
	case h.Total() > time.Since(appended):
		t.Errorf("the phases take %v, the event came %v ago", h.Total(), time.Since(appended))
	}
}

func TestExplainOfADeadLetterSaysWhy(t *testing.T) {
	decided(t, 4000)
	dead := tail(t, "fraud.dlq", "--limit", "1")[0]
	got := explained(t, dead.header("afterbay-id"), "pipeline.yaml")
	m := got.Output.Made
	if got.Output.Kind != explain.KindDead || m.Stage != dead.header("afterbay-stage") || m.Error != dead.header("afterbay-error") || m.Stage == "" ||
		string(m.Row) != dead.header("afterbay-row") || m.Attempts != 1 {
		t.Errorf("%+v of %+v", m, dead)
	}
	if r := got.Replays[0]; !r.Same || r.Stage != m.Stage || r.Error != m.Error {
		t.Errorf("replay %+v", r)
	}
	text := must(t, "", "explain", dead.header("afterbay-id"))
	for _, want := range []string{"dead letter    fraud.dlq/", "failed at    " + m.Stage, m.Error} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in %s", want, text)
		}
	}
}

func TestExplainSaysWhatIsNotThere(t *testing.T) {
	decided(t, 200)
	write(t, "counts.yaml", countsPipeline)
	for _, test := range []struct {
		args []string
		code int
		want string
	}{
		{[]string{"fraud:transactions/0@99999:decisions"}, exitFailure, "afterbay tail TOPIC --headers"},
		{[]string{"no such id"}, exitFailure, `id "no such id": not found among the`},
		{[]string{"decisions/0@99999"}, exitFailure, "afterbay topics"},
		{[]string{"decisions/9@0"}, exitFailure, "not found"},
		{[]string{"decisions/0@0", "--data", "gone"}, exitFailure, "is not a data directory"},
		{[]string{"decisions/0@0", "counts.yaml"}, exitUsage, "pipeline fraud reading transactions, they have counts, doubles"},
		{[]string{"decisions/0@0", "gone.yaml"}, exitInvalid, "name a pipeline file that can be read"},
	} {
		if r := command(t, "", append([]string{"explain"}, test.args...)...); r.code != test.code || !strings.Contains(r.stderr, test.want) || r.stdout != "" {
			t.Errorf("%v: %+v, want %q", test.args, r, test.want)
		}
	}
	if err := os.Remove(filepath.Join("data", "timings")); err != nil {
		t.Fatal(err)
	}
	if text := must(t, "", "explain", "decisions/0@0"); !strings.Contains(text, "phases       not available") {
		t.Error(text)
	}
}

func TestExplainFollowsAChainToItsFirstTopic(t *testing.T) {
	t.Chdir(t.TempDir())
	write(t, "counts.yaml", countsPipeline)
	must(t, numbered(300), "produce", "in", "--partitions", "3", "--key", "k")
	must(t, "", "run", "counts.yaml", "--listen", "none", "--until-idle")
	first := tail(t, "in", "--partition", "1", "--from", "-3", "--limit", "1")[0]
	position := fmt.Sprintf("in/1@%d", first.Offset)
	id := fmt.Sprintf("doubles:counts:in/1@%d:mid:out", first.Offset) // of the second pipeline's output
	got := explained(t, id, "counts.yaml")
	if got.Output.Made.Pipeline != "doubles" || got.Event.Made.Pipeline != "counts" || len(got.Upstream) != 1 || got.Upstream[0].Position != position ||
		string(got.Upstream[0].Value) != string(first.Value) || got.Upstream[0].Made != nil {
		t.Errorf("output %+v, event %+v, upstream %+v", got.Output, got.Event, got.Upstream)
	}
	if got.Searched > 100 {
		t.Errorf("%d records were looked at", got.Searched)
	}
	if r := got.Replays; len(r) != 1 || r[0].Pipeline != "doubles" || !r[0].Same {
		t.Errorf("replays %+v", r)
	}
	for _, made := range []*explain.Made{got.Output.Made, got.Event.Made} {
		if made.Phases == nil || !made.Phases.Known || made.Phases.Commit <= 0 {
			t.Errorf("phases of %s: %+v", made.Pipeline, made.Phases)
		}
	}
	event := explained(t, position, "counts.yaml") // which is its id, too
	if event.Output != nil || event.Event.Position != position || len(event.Became) != 1 || event.Became[0].Position != got.Event.Position || !event.Replays[0].Same {
		t.Errorf("%s: %+v", position, event)
	}
}

func TestExplainFollowsAMergedEventToItsTopic(t *testing.T) {
	t.Chdir(t.TempDir())
	write(t, "both.yaml", `pipeline: both
inputs:
  - {topic: chats, key: user, time: {field: ts, unit: ms}, fields: {user: string, ts: int}}
  - {topic: calls, key: user, time: {field: ts, unit: ms}, fields: {user: string, ts: int}}
steps:
  - features:
      seen: {windows: [1h], aggregates: [count]}
  - emit: {topic: all, value: {user: user, from: meta.topic, seen: seen.count_1h}}
`)
	for topic, from := range map[string]int{"chats": 1_000, "calls": 1_500} {
		var lines strings.Builder
		for i := range 50 {
			fmt.Fprintf(&lines, "{\"user\":\"u%d\",\"ts\":%d}\n", i%5, from+i*1000)
		}
		must(t, lines.String()+"{\"user\":\"u1\"}\n", "produce", topic, "--partitions", "2", "--key", "user")
	}
	must(t, "", "run", "both.yaml", "--listen", "none", "--until-idle")
	for _, output := range tail(t, "all", "--limit", "3") {
		got := explained(t, output.header("afterbay-id"), "both.yaml")
		var value struct{ From string }
		if err := json.Unmarshal(output.Value, &value); err != nil {
			t.Fatal(err)
		}
		if got.Event.Kind != explain.KindCopy || got.Event.Made.Pipeline != "both" || len(got.Upstream) != 1 ||
			!strings.HasPrefix(got.Upstream[0].Position, value.From+"/") || string(got.Upstream[0].Value) != string(got.Event.Value) || !got.Replays[0].Same {
			t.Errorf("%s: event %+v, upstream %+v, replay %+v", output.Value, got.Event, got.Upstream, got.Replays[0])
		}
		if h := got.Output.Made.Phases; h == nil || !h.Known || !h.OrderKnown { // the file timings of a process that ended
			t.Errorf("phases %+v", h)
		}
		if h := got.Event.Made.Phases; h == nil || h.Ordered {
			t.Errorf("phases of a copy %+v", h)
		}
		source := explained(t, got.Upstream[0].Position)
		var became []string
		for _, r := range source.Became {
			became = append(became, r.Position)
		}
		if want := []string{got.Output.Position, got.Event.Position}; !slices.Equal(became, want) {
			t.Errorf("became %v, want %v", became, want)
		}
	}
	for _, dead := range tail(t, "both.dlq") {
		got := explained(t, fmt.Sprintf("both.dlq/%d@%d", dead.Partition, dead.Offset), "both.yaml")
		if r := got.Replays[0]; !r.Same || r.Stage != dead.header("afterbay-stage") || r.Row != nil || got.Output.Made.Phases == nil {
			t.Errorf("%+v of %+v", r, got.Output.Made)
		}
	}
}

func TestExplainSeesThatTheFileOrModelChanged(t *testing.T) {
	decided(t, 2000)
	id := tail(t, "decisions", "--partition", "0", "--from", "-1")[0].header("afterbay-id")
	file, err := os.ReadFile("pipeline.yaml")
	if err != nil {
		t.Fatal(err)
	}
	change := func(same bool, old, with string) string {
		t.Helper()
		text := strings.Replace(string(file), old, with, 1)
		if text == string(file) {
			t.Fatal(old)
		}
		write(t, "changed.yaml", text)
		r := explained(t, id, "changed.yaml").Replays[0]
		if r.Same != same {
			t.Errorf("%s: same is %v: %s", with, r.Same, r.Why)
		}
		return strings.Join(r.Why, "\n")
	}
	if why := change(true, "delivery: exactly-once", "delivery: exactly-once\ncommit: {interval: 59s}"); why != "" {
		t.Errorf("how often is committed is no difference: %s", why)
	}
	why := change(false, `: "allow"'`, `: "pass"'`)
	if !strings.Contains(why, "the value of decisions/0@") || !strings.Contains(why, `"action":"pass"`) || !strings.Contains(why, "the pipeline was sha256:") || strings.Contains(why, "model") {
		t.Error(why)
	}
	if why := change(true, "file: fraud.ubj, version: 1", "file: fraud.ubj, version: 2"); !strings.Contains(why, "model fraud@1 was sha256:") || !strings.Contains(why, "but the file has fraud@2 sha256:") {
		t.Error(why)
	}
	if why := change(false, "topic: decisions", "topic: verdicts"); !strings.Contains(why, "the replay does not write decisions/0@") {
		t.Error(why)
	}
}

func TestExplainAsksTheProcessThatHoldsTheDirectory(t *testing.T) {
	t.Chdir(t.TempDir())
	write(t, "counts.yaml", countsPipeline)
	out, end := background(t, "run", "counts.yaml", "--listen", "127.0.0.1:0", "--token", "secret")
	out.wait(t, "afterbay tail mid --follow")
	follow, _ := background(t, "tail", "out", "--follow", "--limit", "70")
	must(t, numbered(70), "produce", "in")
	follow.wait(t, `{"k":"key 6","twice":20}`)
	_, url, _ := strings.Cut(out.String(), "listening on ")
	url, _, _ = strings.Cut(url, ": POST")
	id := tail(t, "out", "--limit", "1")[0].header("afterbay-id")
	held := must(t, "", "explain", id, "counts.yaml")
	for range 100 { // the times are noted shortly after the output is there
		if !strings.Contains(held, "not kept") {
			break
		}
		held = must(t, "", "explain", id, "counts.yaml")
	}
	asked := must(t, "", "explain", id, "counts.yaml", "--url", url, "--token", "secret")
	end()
	left := must(t, "", "explain", id, "counts.yaml")
	timing := regexp.MustCompile(`(?m)^replay .*$`)
	if held = timing.ReplaceAllString(held, ""); held != timing.ReplaceAllString(asked, "") || held != timing.ReplaceAllString(left, "") || !strings.Contains(held, "together") || strings.Contains(held, "not kept") {
		t.Errorf("held:\n%s\nby --url:\n%s\nafter the end:\n%s", held, asked, left)
	}
}

// TestExplainPageIsRight runs the commands of the page and compares what it
// shows, times, durations and digests aside.
func TestExplainPageIsRight(t *testing.T) {
	page, err := os.ReadFile("../../docs/reference/explain.md")
	if err != nil {
		t.Fatal(err)
	}
	var blocks []string
	for i, part := range strings.Split(string(page), "```") {
		if i%2 == 1 {
			_, text, _ := strings.Cut(part, "\n")
			blocks = append(blocks, text)
		}
	}
	t.Chdir(t.TempDir())
	write(t, "velocity.yaml", blocks[0])
	write(t, "events.ndjson", blocks[1])
	var got string
	for line := range strings.Lines(blocks[2]) {
		got = must(t, "", strings.Fields(line)[1:]...)
	}
	varies := regexp.MustCompile(`202[6-9]-\d\d-\d\dT[0-9:.]+Z| +[0-9.]+ ms( +\d+ %)?|in [0-9.]+ s|of \d+ events? computed|sha256:[0-9a-f]+`)
	if diff := cmp.Diff(varies.ReplaceAllString(blocks[3], "_"), varies.ReplaceAllString(got, "_")); diff != "" {
		t.Errorf("the page is stale: %s\n%s", diff, got)
	}
}
