package e2e_test

import (
	"context"
	"encoding/json"
	"testing"
	"testing/synctest"
	"time"

	"github.com/afterbay/afterbay/internal/log/memory"
	"github.com/afterbay/afterbay/internal/test/eventtime"
)

// TestUnawaitedEventsThatWaitForAStageAreBounded has a stage that does not run, and a backlog come
// to a partition that was silent. All of it is unawaited, so repartitioners do not stop, and no event
// has a place before its answer is there. Memory has what it may have. When the stage runs, each
// event has one row.
func TestUnawaitedEventsThatWaitForAStageAreBounded(t *testing.T) {
	const (
		file = `pipeline: p
input: {topic: payments, partitions: 4, key: card, repartition: REPARTITION, time: {field: ts, unit: ms, idle: IDLE}, fields: {id: string, card: string, merchant: {type: string, optional: true}, amount: number, ts: int}}
steps:
  - features: {f: {by: merchant, value: amount, windows: [10m], aggregates: [sum, count]}}
  - emit: {topic: rows, value: [id, f.*]}
`
		held = 1 << 20 // bytes in memory; while much is read, twice as much, and a MiB for each partition
		most = 1 << 15 // records that may wait, if they are awaited
	)
	events := eventtime.Payments(3, 60_000, 1)
	synctest.Test(t, func(t *testing.T) {
		untilEventsAreOver()
		log := standing{memory.New(memory.Options{}), "p.by-merchant", make(chan struct{})}
		o := startOrdered(t, log, file, orderedSettings{members: 1, partitions: 4, held: held, interval: 5 * time.Millisecond, idle: "1s"})
		newest := events[len(events)-1]
		newest.Partition, newest.ID, newest.Time = 1, "newest", newest.Time+eventtime.Minute
		newest.Text = map[string]string{"card": "c"} // the stage is not asked for it
		if err := log.Append(t.Context(), paymentRecords([]eventtime.Event{newest})...); err != nil {
			t.Fatal(err)
		}
		err := o.while(t.Context(), func(ctx context.Context) error {
			time.Sleep(time.Minute) // the other partitions are silent
			if err := log.Append(ctx, paymentRecords(events)...); err != nil {
				return err
			}
			time.Sleep(time.Minute)
			if n := len(recordsIn(t, log, o.runners[0].Plan.Topic)); n < len(events) {
				t.Errorf("%d records were copied, want all %d: they do not wait in the order", n, len(events))
			}
			s := o.runners[0].Snapshot()
			if name, seconds := s.Order.WaitsFor(); name != log.group || seconds < 10 {
				t.Errorf("events wait for %q, for %v s", name, seconds)
			}
			if m := s.Memory; m.HeldBytes < held/2 || m.HeldBytes > 6*held+held/2 || m.SpilledBytes < most*100 || s.Counts.Spilled < most {
				t.Errorf("%d bytes in memory, %d in state", m.HeldBytes, m.SpilledBytes)
			}
			close(log.runs)
			return o.idle(ctx)
		})
		if err != nil {
			t.Fatal(err)
		}
		seen := map[string]bool{}
		for _, r := range recordsIn(t, log, "rows") {
			var row struct {
				ID    string   `json:"id"`
				Count *float64 `json:"f_count_10m"`
			}
			if err := json.Unmarshal(r.Value, &row); err != nil || seen[row.ID] || row.Count == nil && row.ID != "newest" {
				t.Fatalf("%s occurs twice, or has no answer: %v", r.Value, err)
			}
			seen[row.ID] = true
		}
		if m := o.runners[0].Snapshot().Memory; len(seen) != len(events)+1 || m.SpilledBytes != 0 {
			t.Errorf("%d rows of %d events, %d bytes are left in state", len(seen), len(events)+1, m.SpilledBytes)
		}
		_ = log.Close()
	})
}
