package e2e_test

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/afterbay/afterbay/internal/lang"
	"github.com/afterbay/afterbay/internal/lang/steps"
	"github.com/afterbay/afterbay/internal/state/deadletter"
	"github.com/afterbay/afterbay/stream"
)

// TestSumsThatWouldWrapAreDeadLetters takes 1,025 payments of 9,000,000 with nine
// decimals, in exact windows and in panes: 1,024 of them are within 2^63 units.
func TestSumsThatWouldWrapAreDeadLetters(t *testing.T) {
	for _, window := range []string{"1h", "1h/1m"} {
		p := payments()
		p.Steps = []lang.Step{
			&steps.Features{List: []steps.Feature{
				{Name: "seen", Windows: []string{"1h"}, Aggregates: []string{"count"}},
				{Name: "spend", Value: "amount", Decimals: ptr(9), Windows: []string{window}, Aggregates: []string{"sum", "mean"}},
			}},
			&steps.Decide{List: []lang.Binding{{Name: "action", Expr: `spend.sum_1h > 1000.0 ? "review" : "allow"`}}},
			&steps.Emit{Topic: "out", Names: []string{"seen.*", "spend.*", "action"}},
		}
		var events []stream.Record
		for n := range 1026 {
			e := payment("a", 9_000_000, n)
			if e.Time = time.UnixMilli(epoch).Add(time.Hour); n == 1025 {
				e = payment("a", -9_000_000, n)
			}
			events = append(events, e)
		}
		log := run(t, p, events...)
		out, open := values(t, log, "out"), openLetters(t, log.(deadletter.Log), "payments")
		if len(out) != 1025 || len(open) != 1 || open[0].Stage != "features" || !strings.Contains(open[0].Reason, "feature spend: the sum is out of range") {
			t.Fatalf("%s: %d outputs, dead letters %+v", window, len(out), open)
		}
		for i, text := range out {
			var got struct {
				Seen   int     `json:"seen_count_1h"`
				Sum    float64 `json:"spend_sum_1h"`
				Mean   float64 `json:"spend_mean_1h"`
				Action string
			}
			if err := json.Unmarshal([]byte(text), &got); err != nil {
				t.Fatal(err)
			}
			sum := 9e6 * float64(min(i+1, 1023))
			if i == 1023 {
				sum = 9e6 * 1024
			}
			if got.Seen != i+1 || got.Sum != sum || got.Mean != sum/float64(i+1) || got.Action != "review" {
				t.Fatalf("%s: output %d is %s", window, i, text)
			}
		}
	}
}
