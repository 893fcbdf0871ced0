package e2e_test

import (
	"cmp"
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

	gocmp "github.com/google/go-cmp/cmp"

	"github.com/afterbay/afterbay/internal/config"
	"github.com/afterbay/afterbay/internal/event/header"
	"github.com/afterbay/afterbay/internal/log/memory"
	"github.com/afterbay/afterbay/internal/pipeline"
	"github.com/afterbay/afterbay/internal/process/builtin"
	"github.com/afterbay/afterbay/stream"
	"github.com/afterbay/afterbay/stream/streamtest"
)

var bySeeds = flag.Uint64("by.seeds", 12, "seeds of TestFeaturesByOtherFieldsAreTheirDefinition")

// byPayments has features of card, merchant and device, and values that come back after a
// delay in ms.
func byPayments(partitions int, late string, delay int64) string {
	return fmt.Sprintf(`pipeline: fraud
input:
  topic: payments
  partitions: 3
  key: card
  repartition: %d
  time: {field: ts, unit: ms, lateness: 10s, late: %s}
  fields: {tx: string, card: string, merchant: string, device: optional string, amount: int, ts: int}
steps:
  - let: {paid: "amount * 200 / (amount == 13 ? 0 : 100)"}
  - features:
      spend: {value: amount, decimals: 0, windows: [1m], aggregates: [count, sum]}
      shop: {by: merchant, value: paid, when: amount > 20, decimals: 0, windows: [1m], aggregates: [count, sum]}
      past: {by: merchant, value: risk, when: risk %% 2 == 0, delay: %dms, decimals: 0, windows: [1m], aggregates: [count, sum]}
      phone: {by: device, windows: [10m], aggregates: [count], empty: -1}
  - decide: {risk: "(int(spend.sum_1m) * 31 + int(shop.sum_1m) * 7 + int(past.sum_1m)) %% 97"}
  - route:
      small: {when: amount < 10, steps: drop}
      default: {steps: [{emit: {topic: decisions, value: {tx: tx, spend: spend.sum_1m, n: shop.count_1m, shop: shop.sum_1m, pastn: past.count_1m, past: past.sum_1m, phone: phone.count_10m, risk: risk}}}]}
`, partitions, late, delay)
}

// byEvent is a payment, and where it stands.
type byEvent struct {
	tx, card, merchant, device string // no device is ""
	amount, ts, appended       int64  // ms
	partition                  int32
	offset                     int64
}

// byRow is what is decided.
type byRow struct {
	Tx                                 string
	Spend, N, Shop, Pastn, Past, Phone int64
	Risk                               int64
}

// byEvents are payments in 3 partitions, which are up to disorder ms out of order in each.
func byEvents(r *rand.Rand, n int, disorder int64) (events []byEvent) {
	now, offsets := int64(946_000_000_000), [3]int64{}
	for i := range n {
		now += r.Int64N(3) * r.Int64N(4000)
		e := byEvent{
			tx: fmt.Sprint("t", i), card: fmt.Sprint("c", r.IntN(5)), merchant: fmt.Sprint("m", r.IntN(3)),
			amount: r.Int64N(60), ts: now - r.Int64N(disorder+1), appended: now, partition: int32(r.IntN(3)),
		}
		if d := r.IntN(4); d > 0 {
			e.device = fmt.Sprint("d", d)
		}
		e.offset = offsets[e.partition]
		offsets[e.partition]++
		events = append(events, e)
	}
	return events
}

// byDefinition computes the rows from all events before each one, by order time, partition
// and offset.
func byDefinition(events []byEvent, late string, delay int64) map[string]byRow {
	type placed struct {
		byEvent
		k    int64
		risk int64
	}
	var all []placed
	newest := [3]int64{}
	for _, e := range events {
		newest[e.partition] = max(newest[e.partition], e.ts)
		if e.ts >= newest[e.partition]-10_000 || late == "include" {
			all = append(all, placed{e, newest[e.partition], 0})
		}
	}
	slices.SortFunc(all, func(a, b placed) int {
		return cmp.Or(cmp.Compare(a.k, b.k), cmp.Compare(a.partition, b.partition), cmp.Compare(a.offset, b.offset))
	})
	rows := map[string]byRow{}
	for i := range all {
		x := &all[i]
		if x.amount == 13 {
			continue
		}
		row := byRow{Tx: x.tx, Phone: -1}
		if x.device != "" {
			row.Phone = 0
		}
		// A feature has the entries within its window of its newest entry.
		sum := func(ms int64, of func(e *placed) bool, add func(e *placed)) {
			newest := int64(0)
			for j := range all[:i+1] {
				if of(&all[j]) {
					newest = max(newest, all[j].ts)
				}
			}
			for j := range all[:i+1] {
				if e := &all[j]; of(e) && e.ts <= x.ts && e.ts > max(x.ts, newest)-ms {
					add(e)
				}
			}
		}
		sum(600_000, func(e *placed) bool { return x.device != "" && e.device == x.device }, func(*placed) { row.Phone++ })
		sum(60_000, func(e *placed) bool { return e.amount != 13 && e.card == x.card }, func(e *placed) { row.Spend += e.amount })
		shop := func(e *placed) bool { return e.amount != 13 && e.merchant == x.merchant }
		sum(60_000, func(e *placed) bool { return shop(e) && e.amount > 20 }, func(e *placed) { row.N, row.Shop = row.N+1, row.Shop+2*e.amount })
		sum(60_000, func(e *placed) bool { return shop(e) && e != x && e.k+delay <= x.k && e.risk%2 == 0 }, func(e *placed) { row.Pastn, row.Past = row.Pastn+1, row.Past+e.risk })
		row.Risk = (row.Spend*31 + row.Shop*7 + row.Past) % 97
		if x.risk = row.Risk; x.amount >= 10 {
			rows[x.tx] = row
		}
	}
	return rows
}

// TestFeaturesByOtherFieldsAreTheirDefinition compares rows with all events before each one.
// Members lose commits, partitions and time meanwhile.
func TestFeaturesByOtherFieldsAreTheirDefinition(t *testing.T) {
	for seed := range *bySeeds {
		r := rand.New(rand.NewPCG(seed, 1))
		disorder, late, delay := r.Int64N(3)*8000, []string{"dlq", "include"}[r.IntN(2)], []int64{1, 2000, 30_000}[r.IntN(3)]
		if late == "include" {
			disorder = min(disorder, 8000) // windows do not reach further back
		}
		partitions, members := []int{1, 4, 7}[r.IntN(3)], 1+r.IntN(4)
		events := byEvents(r, 120, disorder)
		synctest.Test(t, func(t *testing.T) {
			got := byRun(t, byPayments(partitions, late, delay), events, members, seed)
			if diff := gocmp.Diff(byDefinition(events, late, delay), got); diff != "" {
				t.Fatalf("seed %d: disorder %d, late %s, delay %d, %d partitions, %d members: %s", seed, disorder, late, delay, partitions, members, diff)
			}
		})
	}
}

// byRun runs a pipeline over events and returns what it decides.
func byRun(t *testing.T, file string, events []byEvent, members int, seed uint64) map[string]byRow {
	t.Helper()
	inner := memory.New(memory.Options{RebalanceTimeout: time.Second})
	faulty := streamtest.NewFaulty(inner, streamtest.FaultyOptions{Seed: seed})
	runByFile(t, file, events, members, inner, inspected{faulty, inner})
	rows := byRows(t, inner)
	if err := faulty.Close(); err != nil {
		t.Fatal(err)
	}
	return rows
}

// runByFile appends events to a log, and runs a pipeline on another one around it until it has
// decided them.
func runByFile(t *testing.T, file string, events []byEvent, members int, to, log stream.Log) {
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
	for _, e := range events {
		if err := to.Append(t.Context(), e.record(t)); err != nil {
			t.Fatal(err)
		}
	}
	// Each value is waited for, and members that are disturbed take a second for it.
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Hour)
	defer cancel()
	done := make(chan error, 1)
	go func() { done <- runner.Run(ctx, log) }()
	err = runner.WaitIdle(ctx, log)
	cancel()
	if err := errors.Join(err, <-done); err != nil {
		t.Fatal(err)
	}
}

// byRows reads what was decided.
func byRows(t *testing.T, log stream.Log) map[string]byRow {
	t.Helper()
	rows := map[string]byRow{}
	topics, err := log.Topics(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	at := slices.IndexFunc(topics, func(topic stream.Topic) bool { return topic.Name == "decisions" })
	for partition := range topics[at].Partitions {
		for _, r := range readPartition(t, log, stream.Partition{Topic: "decisions", Index: partition}) {
			var row byRow
			if err := json.Unmarshal(r.Value, &row); err != nil {
				t.Fatal(err)
			}
			if _, twice := rows[row.Tx]; twice || header.Get(&r, header.ID) == "" {
				t.Fatalf("%s is there twice, or has no id", row.Tx)
			}
			rows[row.Tx] = row
		}
	}
	return rows
}

// record returns the record of an event.
func (e *byEvent) record(t *testing.T) stream.Record {
	t.Helper()
	fields := map[string]any{"tx": e.tx, "card": e.card, "merchant": e.merchant, "amount": e.amount, "ts": e.ts}
	if e.device != "" {
		fields["device"] = e.device
	}
	value, err := json.Marshal(fields)
	if err != nil {
		t.Fatal(err)
	}
	return stream.Record{Partition: stream.Partition{Topic: "payments", Index: e.partition}, Key: []byte(e.card), Value: value, Time: time.UnixMilli(e.appended)}
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
  fields: {tx: string, card: string, merchant: string, device: optional string, amount: int, ts: int}
steps:
  - features: {shop: {by: merchant, windows: [1h], aggregates: [count], max: 64, overflow: dlq}}
  - emit: {topic: decisions, value: {tx: tx, n: shop.count_1h}}
`
	var events []byEvent
	for i := range int64(70) {
		events = append(events, byEvent{tx: fmt.Sprint("t", i), card: fmt.Sprint("c", i%5), merchant: "m", ts: 946_000_000_000 + i, appended: 946_000_000_000 + i, partition: int32(i % 3), offset: i / 3})
	}
	synctest.Test(t, func(t *testing.T) {
		log := memory.New(memory.Options{RebalanceTimeout: time.Second})
		runByFile(t, file, events, 2, log, log)
		if rows := byRows(t, log); len(rows) != 64 || rows["t63"].N != 64 {
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
