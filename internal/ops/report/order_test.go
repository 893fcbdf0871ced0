package report_test

import (
	"strings"
	"testing"
	"time"

	"github.com/afterbay/afterbay/internal/ops/report"
	"github.com/afterbay/afterbay/internal/pipeline"
)

// TestWhatTheEarliestEventWaitsForIsNamed has a stage wait for a source with its newest event, and
// the pipeline or another stage wait with an earlier one.
func TestWhatTheEarliestEventWaitsForIsNamed(t *testing.T) {
	at := func(seconds int64) *time.Time { first := time.Unix(seconds, 0); return &first }
	const home, shops, phones, source = "fraud.repartition", "fraud.by-merchant", "fraud.by-device", "payments/2"
	order := func(list ...pipeline.OrderPartition) *pipeline.Order {
		last := pipeline.OrderPartition{Topic: phones, Held: 1, First: at(100), WaitsFor: source, Seconds: 9}
		return &pipeline.Order{
			Pipeline: "fraud", Order: "time", Partitions: append(list, last, pipeline.OrderPartition{Topic: phones, Partition: 1}),
			Sources: []pipeline.OrderSource{{Source: source, Holds: 1, For: 9, Idle: 1}}, Stages: []pipeline.OrderStage{{Stage: shops}, {Stage: phones}},
		}
	}
	for _, c := range []struct {
		*pipeline.Order
		name string
		says string
	}{
		{order(), source, "waits for payments/2, "},
		{order(pipeline.OrderPartition{Topic: home, First: at(50), WaitsFor: shops, Seconds: 2}), shops, "waits for answers of fraud.by-merchant, for 2s: "},
		{order(pipeline.OrderPartition{Topic: home, First: at(100), WaitsFor: phones}), source, "waits for payments/2, "},
		{order(pipeline.OrderPartition{Topic: home, First: at(50), WaitsFor: shops}, pipeline.OrderPartition{Topic: shops, First: at(40), WaitsFor: home, Seconds: 3}), shops, "fraud.by-merchant waits for the answer of fraud about an event, for 3s: "},
	} {
		var out strings.Builder
		if err := report.WriteOrder(&out, c.Order); err != nil {
			t.Fatal(err)
		}
		if name, _ := c.WaitsFor(); name != c.name || !strings.Contains(out.String(), "\n"+c.says) {
			t.Errorf("waits for %s, want %s, and %q in\n%s", name, c.name, c.says, &out)
		}
	}
}
