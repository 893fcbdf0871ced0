package main

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

const tiersPipeline = `pipeline: tiers
input:
  topic: in
  partitions: 3
  key: k
  time: {field: t, unit: s, lateness: 10s, late: drop}
  fields: {k: string, t: int, amount: number, note: optional string}
steps:
  - let: {big: 'amount > 10', half: 'amount / 2'}
  - features:
      spend: {value: amount, decimals: 2, windows: [1h], aggregates: [count, sum]}
      gap: {elapsed: true, empty: -1}
  - decide:
      share: '1.0 / (amount - 5)'
      action: 'big ? "review" : "allow"'
  - emit: {topic: out, value: [k, spend.sum_1h, action]}
  - emit: {topic: alerts, when: big, value: [k]}
`

const tiersEvents = `{"k":"a","t":1700000000,"amount":12.5,"note":"x\ny"}
{"k":"b","t":1700000001,"amount":1}
{"k":"a","t":1700000002,"amount":5}
nonsense
{"k":"a","t":1699990000,"amount":7}
{"k":"b","t":1700000009,"amount":3}
`

func TestTryShowsEachEventAndKeepsNothing(t *testing.T) {
	t.Chdir(t.TempDir())
	write(t, "p.yaml", tiersPipeline)
	write(t, "e.ndjson", tiersEvents)
	got := must(t, "", "try", "p.yaml", "e.ndjson")
	want := `event 1  key a  2023-11-14T22:13:20Z  in/1@0
  event     k="a" t=1700000000 amount=12.5 note="x\ny"
  let       big=true half=6.25
  features  spend.count_1h=1 spend.sum_1h=12.5 gap=-1
  decide    share=0.133333 action="review"
  -> alerts  {"k":"a"}
  -> out  {"k":"a","spend_sum_1h":12.5,"action":"review"}

event 2  key b  2023-11-14T22:13:21Z  in/2@0
  event     k="b" t=1700000001 amount=1
  let       big=false half=0.5
  features  spend.count_1h=1 spend.sum_1h=1 gap=-1
  decide    share=-0.25 action="allow"
  -> out  {"k":"b","spend_sum_1h":1,"action":"allow"}

event 3  key a  2023-11-14T22:13:22Z  in/1@1
  event     k="a" t=1700000002 amount=5
  let       big=false half=2.5
  features  spend.count_1h=2 spend.sum_1h=17.5 gap=2
  dead letter  decide: share: column 5: division by zero

event 4  in/2@1
  dead letter  decode: byte 0: unexpected 'n', want a JSON object

event 5  key a  2023-11-14T19:26:40Z  in/1@2  late  dropped
  event     k="a" t=1699990000 amount=7

event 6  key b  2023-11-14T22:13:29Z  in/2@2
  event     k="b" t=1700000009 amount=3
  let       big=false half=1.5
  features  spend.count_1h=2 spend.sum_1h=4 gap=8
  decide    share=-0.5 action="allow"
  -> out  {"k":"b","spend_sum_1h":4,"action":"allow"}

pipeline tiers: 6 events, 1 late, 1 dropped
  out           3 outputs
  alerts        1 outputs
  action        allow 2, review 1
  dead letters  decide 1, decode 1
    decide      event 3: share: column 5: division by zero
    decode      event 4: byte 0: unexpected 'n', want a JSON object
`
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if out := must(t, tiersEvents, "try", "p.yaml", "-", "--limit", "1"); strings.Contains(out, "event 2  ") || !strings.Contains(out, "the first 1 of 6 events are shown") {
		t.Error(out)
	}
	if out := must(t, "k,t,amount\na,1700000000,3\n", "try", "p.yaml", "--format", "csv"); !strings.Contains(out, `"spend_sum_1h":3,`) {
		t.Error(out)
	}
	if r := command(t, "", "topics"); r.code != exitFailure || !strings.Contains(r.stderr, "not a data directory") {
		t.Errorf("something was kept: %+v", r)
	}
}

func TestTryWritesAnObjectAnEvent(t *testing.T) {
	t.Chdir(t.TempDir())
	write(t, "p.yaml", tiersPipeline)
	write(t, "e.ndjson", tiersEvents)
	r := command(t, "", "try", "p.yaml", "e.ndjson", "--json")
	lines := strings.Split(strings.TrimSpace(r.stdout), "\n")
	if r.code != exitOK || len(lines) != 6 || !strings.Contains(r.stderr, "pipeline tiers: 6 events") {
		t.Fatalf("%+v", r)
	}
	want := `{"event":1,"pipeline":"tiers","position":"in/1@0","key":"a","time":"2023-11-14T22:13:20.000000Z","names":{"event":{"k":"a","t":1700000000,"amount":12.5,"note":"x\ny"},` +
		`"let":{"big":true,"half":6.25},"features":{"spend.count_1h":1,"spend.sum_1h":12.5,"gap":-1},"decide":{"share":0.13333333333333333,"action":"review"}},` +
		`"outputs":[{"topic":"alerts","key":"a","value":{"k":"a"}},{"topic":"out","key":"a","value":{"k":"a","spend_sum_1h":12.5,"action":"review"}}]}`
	if lines[0] != want {
		t.Errorf("%s\nwant %s", lines[0], want)
	}
	if want := `{"event":4,"pipeline":"tiers","position":"in/2@1","key":"","names":{},"dead_letters":[{"stage":"decode","error":"byte 0: unexpected 'n', want a JSON object"}]}`; lines[3] != want {
		t.Errorf("%s\nwant %s", lines[3], want)
	}
	for _, line := range lines {
		if !json.Valid([]byte(line)) {
			t.Error(line)
		}
	}
	if out := must(t, "", "try", "p.yaml", "e.ndjson", "--json", "--limit", "2"); strings.Count(out, "\n") != 2 {
		t.Error(out)
	}
}

const merchantsPipeline = `pipeline: merchants
input: {topic: in, key: m, repartition: 4, fields: {k: string, m: string}}
steps:
  - features: {sold: {windows: [24h], aggregates: [count]}}
  - emit: {topic: by-customer, key: k, value: [k, m, sold.count_24h]}
---
pipeline: customers
input: {topic: by-customer, key: k, fields: {k: string, sold_count_24h: number}}
steps:
  - features: {bought: {windows: [24h], aggregates: [count]}}
  - decide: {both: 'sold_count_24h + bought.count_24h'}
  - emit: {topic: out, value: [k, both]}
`

// TestTryFollowsAnEventThroughAChain has a copied input and a second pipeline
// with another key.
func TestTryFollowsAnEventThroughAChain(t *testing.T) {
	t.Chdir(t.TempDir())
	write(t, "p.yaml", merchantsPipeline)
	var events strings.Builder
	for i := range 9000 { // three batches
		fmt.Fprintf(&events, `{"k":"k%d","m":"m%d"}`+"\n", i%5, i%3)
	}
	events.WriteString("broken\n")
	out := must(t, events.String(), "try", "p.yaml", "--json")
	var order []string
	for line := range strings.Lines(out) {
		var e struct {
			Event    int
			Pipeline string
			Names    struct{ Features map[string]float64 }
			Outputs  []struct{ Topic string }
		}
		if err := json.Unmarshal([]byte(line), &e); err != nil {
			t.Fatal(err)
		}
		order = append(order, fmt.Sprint(e.Pipeline, " ", e.Event))
		if e.Event > 9000 {
			continue
		}
		i := e.Event - 1
		want := map[string]float64{"sold.count_24h": float64(i/3 + 1)}
		if e.Pipeline == "customers" {
			want = map[string]float64{"bought.count_24h": float64(i/5 + 1)} // of its customer, in the order of the events
		}
		if diff := cmp.Diff(want, e.Names.Features); diff != "" || len(e.Outputs) != 1 {
			t.Fatalf("%s%s", line, diff)
		}
	}
	var want []string
	for i := range 9000 {
		want = append(want, fmt.Sprint("merchants ", i+1), fmt.Sprint("customers ", i+1))
	}
	if diff := cmp.Diff(append(want, "merchants 9001"), order); diff != "" {
		t.Error(diff)
	}
	if !strings.Contains(out, `"dead_letters":[{"stage":"decode"`) {
		t.Error("the broken line is not a dead letter")
	}
	if out := must(t, `{"k":"a","sold_count_24h":2}`, "try", "p.yaml", "--topic", "by-customer"); !strings.Contains(out, "pipeline merchants: 0 events") || !strings.Contains(out, `{"k":"a","both":3}`) {
		t.Error(out)
	}
}

func TestTrySaysWhatIsWrong(t *testing.T) {
	t.Chdir(t.TempDir())
	write(t, "p.yaml", tiersPipeline)
	write(t, "bad.yaml", strings.Replace(tiersPipeline, "amount > 10", "amuont > 10", 1))
	write(t, "e.ndjson", tiersEvents)
	write(t, "long.ndjson", tiersEvents+strings.Repeat("x", 1<<21))
	for _, test := range []struct {
		args string
		code int
		want string
	}{
		{"bad.yaml e.ndjson", exitInvalid, "did you mean amount?"},
		{"none.yaml e.ndjson", exitInvalid, "name a pipeline file"},
		{"p.yaml none.ndjson", exitFailure, "name a file that can be read"},
		{"p.yaml long.ndjson", exitFailure, "long.ndjson:7: the line is longer than 1 MiB"},
		{"p.yaml - --topic other", exitUsage, "no pipeline reads topic other"},
		{"p.yaml - --limit -1", exitUsage, "use 0 or more"},
	} {
		if r := command(t, "", append([]string{"try"}, strings.Fields(test.args)...)...); r.code != test.code || !strings.Contains(r.stderr, test.want) {
			t.Errorf("%s: %+v, want %d, %s", test.args, r, test.code, test.want)
		}
	}
}

func TestApproximateFeaturesAreShown(t *testing.T) {
	t.Chdir(t.TempDir())
	write(t, "p.yaml", strings.Replace(tiersPipeline, "aggregates: [count, sum]", "aggregates: [count, sum], max: 64", 1))
	var events strings.Builder
	for i := range 68 {
		fmt.Fprintf(&events, "{\"k\":\"a\",\"t\":%d,\"amount\":1}\n", 1700000000+i)
	}
	write(t, "e.ndjson", events.String())
	got := must(t, "", "try", "p.yaml", "e.ndjson", "--limit", "100")
	if !strings.Contains(got, "approximate spend\n") || !strings.Contains(got, "approximate   spend 4 events: their windows hold more than max") {
		t.Error(got)
	}
	if got := must(t, "", "try", "p.yaml", "e.ndjson", "--json"); strings.Count(got, `"approximate":["spend"]`) != 4 {
		t.Error(got)
	}
	if r := command(t, "", "dataset", "p.yaml", "e.ndjson", "--out", "rows.csv"); !strings.Contains(r.stderr, "approximate   spend 4 events") {
		t.Error(r.stderr)
	}
}

// TestTimesInAnotherUnitAreSaid has epoch seconds that the pipeline reads as
// milliseconds: all are events of January 1970.
func TestTimesInAnotherUnitAreSaid(t *testing.T) {
	t.Chdir(t.TempDir())
	write(t, "p.yaml", `pipeline: p
input:
  topic: in
  key: k
  time: {field: ts, unit: ms}
  fields: {k: string, ts: int}
steps:
  - features: {seen: {windows: [1h], aggregates: [count]}}
  - emit: {topic: out, value: [k, seen.*]}
`)
	events := ""
	for i := range 20 {
		events += fmt.Sprintf(`{"k":"a","ts":%d}`+"\n", 1_760_000_000+i)
	}
	write(t, "e.ndjson", events)
	want := "of the first 3 event times are before 2000 or after 2100, such as ts: 1760000000 in ms is 1970-01-21T08:53:20Z; in s it is 2025-10-09T08:53:20Z: write unit: s"
	if got := must(t, "", "try", "p.yaml", "e.ndjson"); strings.Count(got, want) != 1 {
		t.Error(got)
	}
	if got := command(t, "", "dataset", "p.yaml", "e.ndjson", "--out", "rows.csv"); got.code != 0 || strings.Count(got.stderr, want) != 1 {
		t.Errorf("%+v", got)
	}
	must(t, "", "produce", "in", "e.ndjson", "--key", "k", "--partitions", "2")
	if got := command(t, "", "run", "p.yaml", "--until-idle"); got.code != 0 || strings.Count(got.stderr, want) != 1 || !strings.Contains(got.stderr, "event times look wrong") {
		t.Errorf("%+v", got)
	}
	write(t, "odd.ndjson", `{"user":"a","ts":17}`+"\n"+`{"user":"b","ts":18}`+"\n"+`{"user":"a","ts":19}`+"\n")
	if got := must(t, "", "init", "--sample", "odd.ndjson"); !strings.Contains(got, "warning: ts is not an event time: 17 is 1970-01-01T00:00:17Z in s") {
		t.Error(got)
	}
}
