package e2e_test

import (
	"encoding/json"
	"flag"
	"fmt"
	"testing"
	"time"

	"github.com/afterbay/afterbay/internal/config"
	"github.com/afterbay/afterbay/internal/log/memory"
	"github.com/afterbay/afterbay/internal/pipeline"
	"github.com/afterbay/afterbay/internal/process/builtin"
	"github.com/afterbay/afterbay/internal/test/eventtime"
	"github.com/afterbay/afterbay/stream"
)

var eventTimeEvents = flag.Int("eventtime.events", 10_000, "payments whose features are compared with event-time truth")

const fieldsOfPayments = `fields: {id: string, card: string, merchant: string, amount: number, ts: int}`

// cardsAlone has features by the key of the records. In merchantsFirst and cardsNext, which
// reads its rows, events of several partitions meet.
const (
	cardsAlone = `pipeline: alone
input: {topic: payments, partitions: 4, key: card, time: {field: ts, unit: ms, lateness: 5s, late: include}, ` + fieldsOfPayments + `}
steps:
  - features: {f: {value: amount, windows: [10m], aggregates: [sum, count]}}
  - emit: {topic: alone-rows, value: [id, f.*]}
`
	merchantsFirst = `pipeline: merchants
input: {topic: payments, partitions: 4, key: merchant, repartition: 4, time: {field: ts, unit: ms, lateness: 5s, late: include}, ` + fieldsOfPayments + `}
steps:
  - features: {f: {value: amount, windows: [10m], aggregates: [sum, count]}}
  - emit: {topic: merchants-rows, value: [id, card, merchant, amount, ts, f.*]}
`
	cardsNext = `pipeline: cards
input: {topic: merchants-rows, key: card, repartition: 4, time: {field: ts, unit: ms, lateness: 5s, late: include}, ` + fieldsOfPayments + `}
steps:
  - features: {f: {value: amount, windows: [10m], aggregates: [sum, count]}}
  - emit: {topic: cards-rows, value: [id, f.*]}
`
)

// TestRowsOfOneKeyAreEventTimeTruth has features by the key of the records, and compares
// each row with what a sort of the sources says.
func TestRowsOfOneKeyAreEventTimeTruth(t *testing.T) {
	events := eventtime.Payments(1, *eventTimeEvents, 4)
	for members := 1; members <= 3; members++ {
		log := memory.New(memory.Options{})
		runPayments(t, log, cardsAlone, members, events)
		if n := differentRows(t, log, "alone-rows", "card", events); n != 0 {
			t.Errorf("%d members: %d of %d rows differ from event-time truth", members, n, len(events))
		}
	}
}

// TestRowsOfOtherKeysAgainstEventTimeTruth counts rows that differ. They follow the order
// in which partitions were read, so the test says how many there are and wants each row once.
func TestRowsOfOtherKeysAgainstEventTimeTruth(t *testing.T) {
	events := eventtime.Payments(1, *eventTimeEvents, 4)
	for members := 1; members <= 3; members++ {
		log := memory.New(memory.Options{})
		runPayments(t, log, merchantsFirst, members, events)
		runPayments(t, log, cardsNext, members, nil)
		byMerchant, byCard := differentRows(t, log, "merchants-rows", "merchant", events), differentRows(t, log, "cards-rows", "card", events)
		t.Logf("%d members: of %d rows, %d by merchant and %d by card differ from event-time truth", members, len(events), byMerchant, byCard)
	}
}

// runPayments appends events to their partitions and runs a pipeline until it is idle.
func runPayments(t *testing.T, log stream.Log, text string, members int, events []eventtime.Event) {
	t.Helper()
	file, err := config.Parse("p.yaml", []byte(text), builtin.Kinds())
	if err != nil {
		t.Fatal(err)
	}
	runner, err := builtin.New(file.Pipelines[0], pipeline.Options{Members: members})
	if err != nil {
		t.Fatal(err)
	}
	if err := runner.CreateTopics(t.Context(), log); err != nil {
		t.Fatal(err)
	}
	records := make([]stream.Record, len(events))
	for i, e := range events {
		records[i] = stream.Record{
			Partition: stream.Partition{Topic: e.Topic, Index: int32(e.Partition)},
			Key:       []byte(e.Text["card"]), Value: e.JSON(), Time: time.UnixMicro(e.Time),
		}
	}
	if err := log.Append(t.Context(), records...); err != nil {
		t.Fatal(err)
	}
	runUntilIdle(t, runner, log)
}

// differentRows returns how many rows of a topic differ from event-time truth. Each event
// has to have one.
func differentRows(t *testing.T, log stream.Log, topic, by string, events []eventtime.Event) (different int) {
	t.Helper()
	sum := eventtime.Feature{By: by, Value: "amount", Window: 10 * eventtime.Minute, Aggregate: "sum"}
	count := sum
	count.Aggregate = "count"
	truth := eventtime.Rows(eventtime.Order(events, eventtime.Rule{}), sum, count)
	seen := map[string]bool{}
	for i := range int32(4) {
		for _, r := range readPartition(t, log, stream.Partition{Topic: topic, Index: i}) {
			var row struct {
				ID    string  `json:"id"`
				Sum   float64 `json:"f_sum_10m"`
				Count float64 `json:"f_count_10m"`
			}
			if err := json.Unmarshal(r.Value, &row); err != nil || seen[row.ID] || truth[row.ID] == nil {
				t.Fatalf("%s: %s is there twice, or of no event: %v", topic, r.Value, err)
			}
			seen[row.ID] = true
			if fmt.Sprint([]float64{row.Sum, row.Count}) != fmt.Sprint(truth[row.ID]) {
				different++
			}
		}
	}
	if len(seen) != len(events) {
		t.Fatalf("%s has %d rows of %d events", topic, len(seen), len(events))
	}
	return different
}
