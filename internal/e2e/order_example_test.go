package e2e_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/afterbay/afterbay/internal/config"
	"github.com/afterbay/afterbay/internal/log/memory"
	"github.com/afterbay/afterbay/internal/pipeline"
	"github.com/afterbay/afterbay/internal/process/builtin"
	"github.com/afterbay/afterbay/internal/test/eventtime"
	"github.com/afterbay/afterbay/stream"
)

// orderTopics are the topics of examples/order, each with the field that keys it and the field
// of its time.
var orderTopics = map[string][2]string{
	"messages": {"customer", "at"}, "orders": {"customer", "at"}, "plans": {"customer", "since"},
	"impressions": {"user", "ts"}, "clicks": {"user", "ts"}, "payments": {"card", "ts"}, "merchants": {"merchant", "since"},
}

// orderEvents generates the events of examples/order, in four partitions a topic. Each
// partition ends with an event two days later, so that all windows, visits and pairs end.
func orderEvents(t *testing.T, seed uint64) (events []eventtime.Event, values map[string][]byte) {
	t.Helper()
	dir := t.TempDir()
	generate := exec.CommandContext(t.Context(), "go", "-C", "examples", "run", "./order/generate", "--out", dir, "--visits", "400", "--seed", fmt.Sprint(seed))
	if out, err := generate.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	values = map[string][]byte{}
	for topic, names := range orderTopics {
		text, err := os.ReadFile(filepath.Join(dir, topic+".ndjson"))
		if err != nil {
			t.Fatal(err)
		}
		var next [4]int64
		add := func(partition int, line []byte) {
			e := orderEvent(t, topic, names, line)
			e.Partition, e.Offset = partition, next[partition]
			e.ID = fmt.Sprintf("%s/%d@%d", topic, partition, e.Offset)
			next[partition]++
			events, values[e.ID] = append(events, e), line
		}
		for line := range bytes.Lines(text) {
			line = bytes.TrimSpace(line)
			add(int(stream.Place([]byte(orderEvent(t, topic, names, line).Text[names[0]]), 4)), line)
		}
		for partition := range 4 {
			line := fmt.Sprintf(`{"customer":"last%d","user":"last%[1]d","queue":"last","id":"last","tx":"last","card":"last%[1]d","merchant":"last","risk":0,"amount":0,"imp":"none","ad":"","tier":"","total":0,"bid":0,"mood":0,"at":"2026-01-08T00:00:00Z","since":%s,"ts":1767830400000}`, partition, map[bool]string{true: "1767830400000", false: `"2026-01-08T00:00:00Z"`}[topic == "merchants"])
			add(partition, []byte(line))
		}
	}
	return events, values
}

func orderEvent(t *testing.T, topic string, names [2]string, line []byte) eventtime.Event {
	t.Helper()
	e := eventtime.Event{Topic: topic, Text: map[string]string{}, Number: map[string]float64{}}
	fields := map[string]any{}
	if err := json.Unmarshal(line, &fields); err != nil {
		t.Fatal(err)
	}
	for name, v := range fields {
		switch v := v.(type) {
		case string:
			e.Text[name] = v
		case float64:
			e.Number[name] = v
		}
	}
	if e.Time = int64(e.Number[names[1]]) * eventtime.Millisecond; e.Text[names[1]] != "" {
		at, err := time.Parse(time.RFC3339Nano, e.Text[names[1]])
		if err != nil {
			t.Fatal(err)
		}
		e.Time = at.UnixMicro()
	}
	return e
}

// interleaved returns events in a random order that keeps the order of each partition.
func interleaved(random *rand.Rand, events []eventtime.Event) []eventtime.Event {
	partitions := map[stream.Partition][]eventtime.Event{}
	var turns []stream.Partition
	for _, e := range events {
		p := stream.Partition{Topic: e.Topic, Index: int32(e.Partition)}
		partitions[p], turns = append(partitions[p], e), append(turns, p)
	}
	random.Shuffle(len(turns), func(i, j int) { turns[i], turns[j] = turns[j], turns[i] })
	mixed := make([]eventtime.Event, len(events))
	for i, p := range turns {
		mixed[i], partitions[p] = partitions[p][0], partitions[p][1:]
	}
	return mixed
}

// orderOutputs runs a pipeline of examples/order over events in the order of their arrival,
// and returns its outputs, sorted.
func orderOutputs(t *testing.T, name string, members int, events []eventtime.Event, values map[string][]byte) (outputs []string) {
	t.Helper()
	file, err := config.Load("examples/order/"+name+".yaml", builtin.Kinds())
	if err != nil {
		t.Fatal(err)
	}
	runner, err := builtin.New(file.Pipelines[0], pipeline.Options{Members: members})
	if err != nil {
		t.Fatal(file.Explain(0, err))
	}
	log := memory.New(memory.Options{})
	if err := runner.CreateTopics(t.Context(), log); err != nil {
		t.Fatal(err)
	}
	topics, err := log.Topics(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var records []stream.Record
	for _, e := range events {
		if slices.ContainsFunc(topics, func(topic stream.Topic) bool { return topic.Name == e.Topic }) {
			records = append(records, stream.Record{Partition: stream.Partition{Topic: e.Topic, Index: int32(e.Partition)}, Key: []byte(e.Text[orderTopics[e.Topic][0]]), Value: values[e.ID], Time: time.UnixMicro(e.Time)})
		}
	}
	if err := log.Append(t.Context(), records...); err != nil {
		t.Fatal(err)
	}
	runUntilIdle(t, runner, log)
	if c := runner.Counts(); c.DeadLetters != 0 || c.Late != 0 {
		t.Fatalf("%d dead letters, %d late events", c.DeadLetters, c.Late)
	}
	topic := runner.Outputs()[0]
	for i := range int32(4) {
		for _, r := range readPartition(t, log, stream.Partition{Topic: topic, Index: i}) {
			if !strings.Contains(string(r.Value), "last") {
				outputs = append(outputs, string(r.Value))
			}
		}
	}
	slices.Sort(outputs)
	return outputs
}

// number writes a number as an output has it.
func number(v float64) string {
	text, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return string(text)
}

// minutesOf returns the outputs of queue-minutes.yaml by a look at all messages.
func minutesOf(events []eventtime.Event) (outputs []string) {
	type minute struct {
		queue string
		start int64
	}
	moods := map[minute][]float64{}
	for _, e := range events {
		if e.Topic == "messages" && e.Text["queue"] != "last" {
			m := minute{e.Text["queue"], e.Time - e.Time%eventtime.Minute}
			moods[m] = append(moods[m], e.Number["mood"])
		}
	}
	for m, list := range moods {
		outputs = append(outputs, fmt.Sprintf(`{"queue":%q,"minute_start":%q,"minute_messages":%d,"minute_worst":%s}`,
			m.queue, time.UnixMicro(m.start).UTC().Format("2006-01-02T15:04:05.000000Z"), len(list), number(slices.Min(list))))
	}
	return outputs
}

// examplesOf returns the outputs of ads.yaml by a look at all impressions and clicks before
// each of them in time.
func examplesOf(events []eventtime.Event) (outputs []string) {
	order := eventtime.Order(events, eventtime.Rule{Wait: eventtime.Minute, Lateness: eventtime.Minute})
	byID := map[string]*eventtime.Event{}
	for i := range order {
		e := &order[i].Event
		if byID[e.ID] = e; e.Topic == "clicks" {
			e.Text["id"] = e.Text["imp"]
		}
	}
	shown := eventtime.Feature{By: "user", From: "impressions", Value: "bid", Window: eventtime.Hour, Aggregate: "count"}
	highest, clicked := shown, shown
	highest.Aggregate, clicked.From = "max", "clicks"
	rivals, dearest := shown, highest
	rivals.By, dearest.By = "ad", "ad"
	rows := eventtime.Rows(order, shown, highest, clicked, rivals, dearest)
	for _, pair := range (eventtime.Join{Left: "impressions", Right: "clicks", On: "id", Within: 10 * eventtime.Minute, Match: "first"}).Pairs(order) {
		e, row, price, label := byID[pair.Left], rows[pair.Left], "null", 0
		if e.Text["id"] == "last" {
			continue
		}
		if click := byID[pair.Right]; click != nil {
			label = 1
			if v, ok := click.Number["price"]; ok {
				price = number(v)
			}
		}
		outputs = append(outputs, fmt.Sprintf(`{"id":%q,"bid":%s,"shown_count_1h":%s,"shown_max_1h":%s,"clicked_count_1h":%s,"rivals_count_1h":%s,"rivals_max_1h":%s,"click_price":%s,"label":%d}`,
			e.Text["id"], number(e.Number["bid"]), number(row[0]), number(row[1]), number(row[2]), number(row[3]), number(row[4]), price, label))
	}
	return outputs
}

// visitsOf returns the outputs of visits.yaml by a look at all messages, orders and plans.
func visitsOf(events []eventtime.Event) (outputs []string) {
	order := eventtime.Order(events, eventtime.Rule{Wait: eventtime.Minute, Lateness: eventtime.Minute})
	plans, byID := eventtime.ValidAt(events, "plans", "customer"), map[string]*eventtime.Event{}
	var messages []eventtime.Placed
	for i := range order {
		if e := &order[i]; e.Topic == "messages" && e.Text["queue"] != "last" {
			byID[e.ID], messages = &e.Event, append(messages, *e)
		}
	}
	count := eventtime.Feature{By: "customer", From: "orders", Value: "total", Window: 24 * eventtime.Hour, Aggregate: "count"}
	sum := count
	sum.Aggregate = "sum"
	rows := eventtime.Rows(order, count, sum)
	for _, s := range eventtime.Sessions(messages, "customer", 30*eventtime.Minute, 0) {
		worst, tier, row := math.Inf(1), "free", rows[s.IDs[0]]
		for _, id := range s.IDs {
			worst = min(worst, byID[id].Number["mood"])
		}
		if plan := plans[s.IDs[0]]; plan.Found {
			tier = plan.Row.Text["tier"]
		}
		outputs = append(outputs, fmt.Sprintf(`{"customer":%q,"visit_messages":%d,"visit_worst":%s,"plan_tier":%q,"bought_count_24h":%s,"bought_sum_24h":%s}`,
			s.Key, len(s.IDs), number(worst), tier, number(row[0]), number(math.Round(row[1]*100)/100)))
	}
	return outputs
}

// decisionsOf returns the outputs of fraud.yaml by a look at all payments and rows of merchants.
func decisionsOf(events []eventtime.Event) (outputs []string) {
	shops := eventtime.ValidAt(events, "merchants", "merchant")
	order := slices.DeleteFunc(eventtime.Order(events, eventtime.Rule{Wait: eventtime.Minute, Lateness: eventtime.Minute}), func(e eventtime.Placed) bool { return e.Topic != "payments" })
	spend := eventtime.Feature{By: "card", Value: "amount", Window: eventtime.Hour, Aggregate: "count"}
	most, seen, dearest := spend, spend, spend
	most.Aggregate, seen.By, dearest.By, dearest.Aggregate = "max", "merchant", "merchant", "max"
	rows := eventtime.Rows(order, spend, most, seen, dearest, eventtime.Feature{By: "device", Window: 10 * eventtime.Minute, Aggregate: "count"})
	blocked := map[string][]int64{} // times, by merchant
	for i := range order {
		e, shop, row, risk := &order[i], order[i].Text["merchant"], rows[order[i].ID], 20.0
		if found := shops[e.ID]; found.Found {
			risk = found.Row.Number["risk"]
		}
		if math.IsNaN(row[4]) {
			row[4] = -1
		}
		known := 0
		for _, at := range blocked[shop] {
			if at+2*eventtime.Second <= e.Time && at > e.Time-eventtime.Hour {
				known++
			}
		}
		score, action := risk, "allow"
		add := func(points float64, is bool) {
			if is {
				score += points
			}
		}
		add(10, e.Number["amount"] >= row[3])
		add(20, row[0] > 3)
		add(20, row[4] > 2)
		add(20, known > 0)
		if score >= 50 {
			action, blocked[shop] = "block", append(blocked[shop], e.Time)
		}
		if e.Text["tx"] != "last" {
			outputs = append(outputs, fmt.Sprintf(`{"tx":%q,"shop_risk":%s,"spend_count_1h":%s,"spend_max_1h":%s,"seen_count_1h":%s,"seen_max_1h":%s,"blocked_count_1h":%d,"phone_count_10m":%s,"score":%s,"action":%q}`,
				e.Text["tx"], number(risk), number(row[0]), number(row[1]), number(row[2]), number(row[3]), known, number(row[4]), number(score), action))
		}
	}
	return outputs
}

// TestOrderExamplesAreEventTimeTruth runs the pipelines of examples/order over events that
// arrive out of order, and compares their outputs with a look at all events.
func TestOrderExamplesAreEventTimeTruth(t *testing.T) {
	t.Parallel()
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	events, values := orderEvents(t, seed)
	random := rand.New(rand.NewPCG(seed, 0))
	for name, truth := range map[string]func([]eventtime.Event) []string{"queue-minutes": minutesOf, "ads": examplesOf, "visits": visitsOf, "fraud": decisionsOf} {
		want := truth(events)
		if slices.Sort(want); len(want) < 200 {
			t.Fatalf("%s: %d outputs", name, len(want))
		}
		for members := 1; members <= 3; members++ {
			arrived := events // one partition after the other
			if members > 1 {
				arrived = interleaved(random, events)
			}
			got := orderOutputs(t, name, members, arrived, values)
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("%s, %d members: of %d outputs (-want +got)\n%.2000s", name, members, len(want), diff)
			}
		}
	}
}

// TestOrderExampleCommandsWork runs the commands of examples/order as typed.
func TestOrderExampleCommandsWork(t *testing.T) {
	t.Parallel() // it waits more than it computes
	const page = "examples/order/README.md"
	out := runOrderScript(t, block(t, page, "order/ads.yaml --data")+block(t, page, "order/visits.yaml --data")+block(t, page, "order/fraud.yaml --data"))
	for _, want := range []string{"appended 10000 records", `"shown_count_1h":`, "ads ", `"minute_messages":`, `"plan_tier":`, "-> by-merchant (seen, blocked), by-device (phone) -> repartition (spend): 3 commits", `"blocked_count_1h":`, "fraud, in the order of time: ", "fraud.by-merchant/0 ", "events waited for their turn: ", "\nfraud.by-device "} {
		if !strings.Contains(out, want) {
			t.Errorf("no %q in\n%s", want, out)
		}
	}
	if hours := regexp.MustCompile(`\n.*\d+h\d+m.*`).FindString(out); hours != "" { // since the times of the events
		t.Errorf("what was appended a moment ago is behind by%s", hours)
	}
}

// runOrderScript runs commands as typed, in a folder of the test. The next command is typed when
// a pipeline runs.
func runOrderScript(t *testing.T, script string) string {
	t.Helper()
	root, err := filepath.Abs(".")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	script = strings.NewReplacer(
		"go build -o bin/", "go -C "+root+" build -o "+dir+"/bin/", "go -C examples run ./order/generate", "go -C "+root+"/examples run ./order/generate --visits 1000",
		"examples/order/", root+"/examples/order/", "bin/afterbay run ", "rm -f log\nbin/afterbay run ", "kill %1", "kill $!\nwait $!",
		".yaml --data data &", ".yaml --data data --listen 127.0.0.1:0 > log 2>&1 &\nuntil grep -s 'listening on' log; do kill -0 $!; sleep 0.05; done",
	).Replace(script)
	command := exec.CommandContext(t.Context(), "bash", "-e", "-c", "trap 'kill $(jobs -p) 2> /dev/null || true' EXIT\n"+script)
	command.Dir, command.WaitDelay = dir, time.Minute
	out, err := command.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s\n%s", err, script, out)
	}
	return string(out)
}
