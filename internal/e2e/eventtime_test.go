package e2e_test

import (
	"flag"
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

// cardsAlone has features by the key of the records.
const cardsAlone = `pipeline: alone
input: {topic: payments, partitions: 4, key: card, time: {field: ts, unit: ms, lateness: 5s, late: include}, ` + fieldsOfPayments + `}
steps:
  - features: {f: {value: amount, windows: [10m], aggregates: [sum, count]}}
  - emit: {topic: alone-rows, value: [id, f.*]}
`

// TestRowsOfOneKeyAreEventTimeTruth has features by the key of the records, and compares
// each row with what a sort of the sources says.
func TestRowsOfOneKeyAreEventTimeTruth(t *testing.T) {
	events := eventtime.Payments(1, *eventTimeEvents, 4)
	for members := 1; members <= 3; members++ {
		log := memory.New(memory.Options{})
		runPayments(t, log, cardsAlone, members, events)
		if n := untrue(t, log, "alone-rows", "card", events); n != 0 {
			t.Errorf("%d members: %d of %d rows differ from event-time truth", members, n, len(events))
		}
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
