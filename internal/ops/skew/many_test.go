package skew_test

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/afterbay/afterbay/stream"
)

var (
	skewRows = flag.Int64("skew.rows", 20_000, "rows that are computed again and compared")
	skewRun  = flag.Int("skew.run", 10_000, "events of a run: rows of several runs add up")
	skewSeed = flag.Uint64("skew.seed", 23, "of the events")
)

// many has features of all shapes, a table as of the event, and an expression over both.
const many = `pipeline: payments
input:
  topic: payments
  key: card
  partitions: 3
  time: {field: at, unit: ms, lateness: 10s, late: include}
  fields: {tx: int, card: string, shop: string, amount: number, at: int}
steps:
  - lookup: {name: shop_is, table: shops, key: shop, as_of: event, time: {field: since, unit: ms}, fields: {risk: number}, empty: {risk: 0.5}}
  - features:
      spend: {value: amount, decimals: 2, windows: [1m, 1h], aggregates: [count, sum, mean, max]}
      drift: {value: amount / 3.0, windows: [10m], aggregates: [sum, mean]}
      past: {value: amount, last: 5, aggregates: [mean]}
      gap: {elapsed: true, empty: -1}
  - let: {score: 'spend.mean_1h * shop_is.risk + drift.sum_10m / (1.0 + past.mean)'}
  - emit: {topic: decisions, value: [tx, spend.*, drift.*, past.mean, gap, shop_is.risk, score]}
`

// TestNoRowOfManyDiffers runs pipelines over random events, out of order and late, computes all
// keys again, and compares each output and each entry of state. No bit differs.
func TestNoRowOfManyDiffers(t *testing.T) {
	var rows, entries int64
	for run := 0; rows < *skewRows; run++ {
		r := rand.New(rand.NewPCG(*skewSeed, uint64(run)))
		log := newLog(t, many, stream.Topic{Name: "payments", Partitions: 3, Key: "card"}, stream.Topic{Name: "shops", Partitions: 2, Key: "shop"})
		for batch := []stream.Record{}; len(batch) < *skewRun; {
			i := len(batch)
			at := nine + int64(i)*50 - r.Int64N(12_000)*r.Int64N(2)
			shop := fmt.Sprintf("s%d", r.IntN(200))
			if i%20 == 0 {
				appended(t, log, record("shops", shop, fmt.Sprintf(`{"risk":%v,"since":%d}`, r.Float64(), at)))
			}
			card := fmt.Sprintf("c%d", r.IntN(*skewRun/20))
			batch = append(batch, record("payments", card, fmt.Sprintf(`{"tx":%d,"card":%q,"shop":%q,"amount":%d.%02d,"at":%d}`, i, card, shop, r.IntN(500), r.IntN(100), at)))
			if len(batch) == *skewRun {
				appended(t, log, batch...)
			}
		}
		goesOn(t, log)
		c := checked(t, log, "100%")
		if c.Differences != 0 || len(c.Notes) != 0 || c.Outputs != int64(*skewRun) {
			t.Fatalf("seed %d, run %d: %+v %+v", *skewSeed, run, c, c.First)
		}
		rows, entries = rows+c.Outputs, entries+c.Entries
		if err := log.Close(); err != nil && !strings.Contains(err.Error(), "closed") {
			t.Fatal(err)
		}
	}
	t.Logf("seed %d: %d rows and %d entries of state compared, 0 differ", *skewSeed, rows, entries)
}
