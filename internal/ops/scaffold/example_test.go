package scaffold_test

import (
	"fmt"
	"os"
	"strings"

	"github.com/afterbay/afterbay/internal/ops/scaffold"
)

func Example() {
	events := `{"order":"o1","customer":"ann","total":12.50,"placed":"2026-03-01T09:00:00Z"}
{"order":"o2","customer":"bob","total":8.00,"placed":"2026-03-01T09:00:07Z"}
{"order":"o3","customer":"ann","total":99.90,"placed":"2026-03-01T09:00:05Z","coupon":"SPRING"}
`
	found, err := scaffold.Infer(strings.NewReader(events), scaffold.Options{Name: "orders.ndjson"})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(found.Key.Name, found.Time.Field.Name, found.ID.Name, found.Measures[0].Name)
	_, _ = os.Stdout.Write(found.Pipeline())
	// Output:
	// customer placed order total
	// # Written by `afterbay init` from 3 events. It runs as it is, and all of it is
	// # a first guess: change what you know better, then `afterbay lint` it.
	// pipeline: orders
	// input:
	//   topic: orders
	//   key: customer                                      # the events of one customer share features and order
	//   time: {field: placed, unit: rfc3339, lateness: 2s, late: include} # the sample is out of order by up to 2s
	//   # dedupe: {id: order, window: 24h}                 # ends events whose order was seen before
	//   fields:
	//     order: string                                    # the event's id: each has its own
	//     customer: string                                 # the key, 2 values
	//     total: number                                    # 8 to 99.9
	//     placed: time                                     # the event time
	//     coupon: optional string                          # always "SPRING"; in 33.3% of the events
	// steps:
	//   - features:                                        # of the key, up to and with this event
	//       seen: {windows: [1m, 10m, 1h], aggregates: [count]}
	//       gap: {elapsed: true, empty: -1}                # seconds since the key's newest event
	//       recent_total: {value: 'total', decimals: 2, windows: [1m, 10m, 1h], aggregates: [sum, mean, max]}
	//       usual_total: {value: 'total', decimals: 2, last: 20, aggregates: [mean]}
	//   - decide:                                          # the thresholds are passed by 1 in 100 events of the sample, or so: choose your own
	//       action: 'total > 12.5 || seen.count_1m > 2 ? "review" : "allow"'
	//   # With labels, `afterbay dataset` writes the rows to train a model with. Then name it above the steps,
	//   #   models: {risk: {file: risk.ubj, version: 1, outputs: {score: number}}}
	//   # put it before `decide`, and decide by risk.score:
	//   #   - score: {model: risk, inputs: [seen.*, gap, total, recent_total.*]}
	//   - emit: {topic: decisions, value: [order, customer, total, seen.count_1m, action]}
}
