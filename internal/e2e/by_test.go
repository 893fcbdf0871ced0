package e2e_test

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/afterbay/afterbay/internal/config"
	"github.com/afterbay/afterbay/internal/event/header"
	"github.com/afterbay/afterbay/internal/log/memory"
	"github.com/afterbay/afterbay/internal/ops/explain"
	"github.com/afterbay/afterbay/internal/ops/inspect"
	"github.com/afterbay/afterbay/internal/pipeline"
	"github.com/afterbay/afterbay/internal/process/builtin"
	"github.com/afterbay/afterbay/internal/test/eventtime"
	"github.com/afterbay/afterbay/stream"
	"github.com/afterbay/afterbay/stream/streamtest"
)

var (
	bySeeds = flag.Uint64("by.seeds", 12, "seeds of TestFeaturesByOtherFieldsAreTheirDefinition")
	byFirst = flag.Uint64("by.first", 0, "the first of these seeds")
)

// TestFeaturesByOtherFieldsAreTheirDefinition compares rows of random pipelines with all events
// before each one. Members lose commits, partitions and time meanwhile.
func TestFeaturesByOtherFieldsAreTheirDefinition(t *testing.T) {
	t.Parallel()
	for n := range *bySeeds {
		seed := *byFirst + n
		t.Run(fmt.Sprint("seed=", seed), func(t *testing.T) {
			r := rand.New(rand.NewPCG(seed, 1))
			p, partitions, members := randomBy(r), []int{1, 4, 7}[r.IntN(3)], 1+r.IntN(4)
			events := p.events(r, 120, 946_000_000*eventtime.Second)
			text := strings.NewReplacer("REPARTITION", fmt.Sprint(partitions), "IDLE", "1s").Replace(p.text())
			synctest.Test(t, func(t *testing.T) {
				inner := memory.New(memory.Options{RebalanceTimeout: time.Second})
				faulty := streamtest.NewFaulty(inner, streamtest.FaultyOptions{Seed: seed})
				runByFile(t, text, byRecords(events), members, inner, inspected{faulty, inner})
				p.mustBeRows(t, inner, events, fmt.Sprintf("%d partitions, %d members", partitions, members))
				if err := faulty.Close(); err != nil {
					t.Fatal(err)
				}
			})
		})
	}
}

// runByFile appends events to a log, and runs a pipeline on another one around it until it has
// decided them.
func runByFile(t *testing.T, file string, records []stream.Record, members int, to *memory.Log, log stream.Log) {
	t.Helper()
	parsed, err := config.Parse("p.yaml", []byte(file), builtin.Kinds())
	if err != nil {
		t.Fatal(err)
	}
	runner, err := builtin.New(parsed.Pipelines[0], pipeline.Options{Members: members})
	if err != nil {
		t.Fatal(err)
	}
	if err := runner.CreateTopics(t.Context(), to); err != nil {
		t.Fatal(err)
	}
	if err := to.Append(t.Context(), records...); err != nil {
		t.Fatal(err)
	}
	// Each value is waited for, and members that are disturbed take a second for it.
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Hour)
	defer cancel()
	done := make(chan error, 1)
	go func() { done <- runner.Run(ctx, log) }()
	err = runner.WaitIdle(ctx, log)
	if err != nil {
		lags, failed := inspect.NewLocal(to, nil, nil, nil).Lag(t.Context(), runner.Name())
		t.Log(lags, failed)
	}
	cancel()
	if err := errors.Join(err, <-done); err != nil {
		t.Fatal(err)
	}
}

// TestAnswersAreCommittedWithTheirStep has a log that may lose what is handed over before the
// commit, or repeat it. Events wait for what stages say and hear: none of it is handed over.
func TestAnswersAreCommittedWithTheirStep(t *testing.T) {
	text := strings.Replace(orderedMerchants, "features: {", "features: {card: {by: card, value: f.count_10m, delay: 1s, windows: [10m], aggregates: [sum]}, ", 1)
	synctest.Test(t, func(t *testing.T) {
		untilEventsAreOver()
		taken, log := 0, memory.New(memory.Options{})
		o := startOrdered(t, log, text, orderedSettings{members: 1, partitions: 2, interval: 5 * time.Millisecond, idle: "100ms"})
		o.log = delivering{log, &taken}
		if err := errors.Join(log.Append(t.Context(), paymentRecords(eventtime.Payments(1, 50, 4))...), o.while(t.Context(), o.idle)); err != nil {
			t.Fatal(err)
		}
		if n := len(recordsIn(t, log, "merchants-rows")); n != 50 || taken > 0 {
			t.Errorf("%d rows of 50; %d outputs were handed over before their commit", n, taken)
		}
	})
}

// byRows reads what was decided.
func byRows(t *testing.T, log stream.Log) map[string]byRow {
	t.Helper()
	rows := map[string]byRow{}
	for _, r := range recordsIn(t, log, "decisions") {
		var row map[string]any
		if err := json.Unmarshal(r.Value, &row); err != nil {
			t.Fatal(err)
		}
		id := row["id"].(string)
		if _, twice := rows[id]; twice || header.Get(&r, header.ID) == "" {
			t.Fatalf("%s occurs twice, or has no id", id)
		}
		rows[id] = byRow{}
		for name, v := range row {
			if name != "id" {
				rows[id][name] = v
			}
		}
	}
	return rows
}

// TestStageRefusesAnEvent counts too many events of a merchant: each one more is a dead letter
// of the event, at its home, and is not counted.
func TestStageRefusesAnEvent(t *testing.T) {
	const file = `pipeline: fraud
input:
  topic: payments
  partitions: 3
  key: card
  time: {field: ts, unit: ms}
  fields: {id: string, card: string, merchant: string, ts: int}
steps:
  - features: {shop: {by: merchant, windows: [1h], aggregates: [count], max: 64, overflow: dlq}}
  - emit: {topic: decisions, value: {id: id, n: shop.count_1h}}
`
	var events []eventtime.Event
	for i := range 70 {
		at := 946_000_000*eventtime.Second + int64(i)*eventtime.Millisecond
		events = append(events, eventtime.Event{Topic: "payments", Partition: i % 3, ID: fmt.Sprint("t", i), Time: at, Appended: at, Text: map[string]string{"card": fmt.Sprint("c", i%5), "merchant": "m"}})
	}
	synctest.Test(t, func(t *testing.T) {
		log := memory.New(memory.Options{RebalanceTimeout: time.Second})
		runByFile(t, file, byRecords(events), 2, log, log)
		if rows := byRows(t, log); len(rows) != 64 || rows["t63"]["n"] != 64.0 {
			t.Errorf("%d rows, %+v", len(rows), rows["t63"])
		}
		var letters []string
		for partition := range int32(4) {
			for _, r := range readPartition(t, log, stream.Partition{Topic: "fraud.dlq", Index: partition}) {
				letters = append(letters, header.Get(&r, header.Event)+" "+header.Get(&r, header.Stage)+": "+header.Get(&r, header.Error))
			}
		}
		slices.Sort(letters)
		if len(letters) != 6 || !strings.HasPrefix(letters[0], "payments/0@22 features: feature shop: ") {
			t.Errorf("letters %q", letters)
		}
		if err := log.Close(); err != nil {
			t.Fatal(err)
		}
	})
}

// TestALetFailsOnce has a let fail that a stage computes too. What the event says later has its
// turn in the stage, and is no second dead letter.
func TestALetFailsOnce(t *testing.T) {
	const file = `pipeline: fraud
input:
  topic: payments
  partitions: 1
  key: card
  time: {field: ts, unit: ms}
  fields: {id: string, card: string, merchant: string, amount: int, ts: int}
steps:
  - let: {paid: 'amount * 200 / (amount == 13 ? 0 : 100)'}
  - features:
      shop: {by: merchant, value: paid, windows: [1h], aggregates: [count]}
      bad: {by: merchant, when: risk > 0, delay: 1s, windows: [1h], aggregates: [count]}
  - features: {own: {windows: [1h], aggregates: [count]}}
  - decide: {risk: own.count_1h}
  - emit: {topic: decisions, value: {id: id, n: shop.count_1h, bad: bad.count_1h}}
`
	var events []eventtime.Event
	for i := range 20 {
		at := 946_000_000*eventtime.Second + int64(i)*2*eventtime.Second
		events = append(events, eventtime.Event{Topic: "payments", ID: fmt.Sprint("t", i), Time: at, Appended: at, Text: map[string]string{"card": "c", "merchant": "m"}, Number: map[string]float64{"amount": float64(10 + i)}})
	}
	synctest.Test(t, func(t *testing.T) {
		log := memory.New(memory.Options{RebalanceTimeout: time.Second})
		runByFile(t, file, byRecords(events), 1, log, log)
		rows := byRows(t, log)
		if last := rows["t19"]; len(rows) != 19 || last["n"] != 19.0 || last["bad"] != 18.0 {
			t.Errorf("%d rows, the last %v", len(rows), last)
		}
		letters := recordsIn(t, log, "fraud.dlq")
		if len(letters) != 1 || header.Get(&letters[0], header.Event) != "payments/0@3" {
			t.Errorf("%d letters", len(letters))
		}
		if err := log.Close(); err != nil {
			t.Fatal(err)
		}
	})
}

// TestLettersOfPipelinesWithStagesAreSentBack sends back the dead letters of a pipeline, to one
// that does not refuse them. Their rows have the columns of the stages as of the event's own
// turn. Those of late events, which no stage was asked for, are dead letters again.
func TestLettersOfPipelinesWithStagesAreSentBack(t *testing.T) {
	sent, late := 0, 0
	for seed := uint64(0); seed < 40 && (sent < 100 || late < 5); seed++ {
		r := rand.New(rand.NewPCG(seed, 4))
		p := randomBy(r)
		p.small, p.late = "dlq", "dlq"
		events := p.events(r, 100, 946_000_000*eventtime.Second)
		ready := strings.NewReplacer("REPARTITION", "4", "IDLE", "1s")
		synctest.Test(t, func(t *testing.T) {
			log := memory.New(memory.Options{})
			runByFile(t, ready.Replace(p.text()), byRecords(events), 2, log, log)
			all := redriveAll(t, log, "fraud")
			p.small = byEmit
			runByFile(t, ready.Replace(p.text()), nil, 2, log, log)
			p.mustBeRows(t, log, events, fmt.Sprint("seed ", seed))
			reasons := map[string]int{}
			for _, l := range openLetters(t, log, "fraud") {
				reasons[l.Stage]++
			}
			if lost := all - reasons["let"] - reasons["features"]; lost < 1 || len(reasons) > 2 {
				t.Fatalf("seed %d: of %d letters these are there again: %v", seed, all, reasons)
			} else {
				sent, late = sent+lost, late+reasons["features"]
			}
			if err := log.Close(); err != nil {
				t.Fatal(err)
			}
		})
	}
	if sent < 100 || late < 5 {
		t.Errorf("%d letters went on, %d of late events did not", sent, late)
	}
}

// TestOutputsOfPipelinesWithStagesAreExplained has rows and dead letters be computed again from the
// copies and from what the stages answered: the bytes are the same.
func TestOutputsOfPipelinesWithStagesAreExplained(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 5))
	p := randomBy(r)
	p.small = "dlq"
	text := strings.NewReplacer("REPARTITION", "4", "IDLE", "1s").Replace(p.text())
	parsed, err := config.Parse("p.yaml", []byte(text), builtin.Kinds())
	if err != nil {
		t.Fatal(err)
	}
	synctest.Test(t, func(t *testing.T) {
		log := memory.New(memory.Options{})
		runByFile(t, text, byRecords(p.events(r, 120, 946_000_000*eventtime.Second)), 2, log, log)
		explained := map[string]int{}
		for _, topic := range []string{"decisions", "fraud.dlq"} {
			for _, of := range recordsIn(t, log, topic) {
				id := fmt.Sprintf("%v@%d", of.Partition, of.Offset)
				report, err := explain.Explain(t.Context(), id, explain.Options{Directory: inspect.NewLocal(log, nil, nil, nil), Pipelines: parsed.Pipelines})
				if err != nil {
					t.Fatal(err)
				}
				again := report.Replays[0]
				columns := 0
				for _, v := range again.Row {
					if slices.ContainsFunc(p.features, func(f byFeature) bool { return f.by != "" && slices.Contains(f.columns(), v.Name) }) {
						columns++
					}
				}
				if !again.Same {
					t.Errorf("%s: %s %q", id, again.Missing, again.Why)
				}
				if columns > 0 { // else it was late, or failed before
					explained[topic]++
				}
			}
		}
		if explained["decisions"] < 50 || explained["fraud.dlq"] < 5 {
			t.Errorf("explained: %v", explained)
		}
		_ = log.Close()
	})
}

// TestStagesHaveFieldsByTheirNames has features by a field that stands deep in a change event: what a
// stage is asked with has neither the envelope nor the path.
func TestStagesHaveFieldsByTheirNames(t *testing.T) {
	const file = `pipeline: fraud
input:
  topic: payments
  partitions: 3
  key: card
  envelope: debezium
  time: {field: ts, unit: ms}
  fields: {id: string, card: string, merchant: {path: shop.merchant, type: string}, risk: {path: device.risk, type: int, optional: true}, ts: int, op: {from: envelope, type: string}}
steps:
  - features: {shop: {by: merchant, value: risk ?? 0, windows: [1h], aggregates: [count, sum]}}
  - emit: {topic: decisions, value: {id: id, n: shop.count_1h, sum: shop.sum_1h}}
`
	var records []stream.Record
	for i := range 20 {
		at := time.UnixMilli(946_000_000_000 + int64(i))
		value := fmt.Sprintf(`{"op": "c", "before": null, "after": {"id": "t%d", "card": "c%d", "shop": {"merchant": "m"}, "device": {"risk": 2}, "ts": %d}}`, i, i%5, at.UnixMilli())
		records = append(records, stream.Record{Partition: stream.Partition{Topic: "payments", Index: int32(i % 3)}, Key: fmt.Append(nil, "c", i%5), Value: []byte(value), Time: at})
	}
	synctest.Test(t, func(t *testing.T) {
		log := memory.New(memory.Options{RebalanceTimeout: time.Second})
		runByFile(t, file, records, 2, log, log)
		if rows := byRows(t, log); len(rows) != 20 || rows["t19"]["n"] != 20.0 || rows["t19"]["sum"] != 40.0 {
			t.Errorf("%d rows, %+v", len(rows), rows["t19"])
		}
		if err := log.Close(); err != nil {
			t.Fatal(err)
		}
	})
}
