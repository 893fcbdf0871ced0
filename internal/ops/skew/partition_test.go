package skew_test

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/afterbay/afterbay/internal/log/memory"
	"github.com/afterbay/afterbay/stream"
)

const scored = `pipeline: payments
input:
  topic: payments
  key: card
  partitions: 2
  dedupe: {id: tx, window: 10m, max: 1000}
  time: {field: at, unit: ms, lateness: 10s}
  fields: {tx: string, card: string, amount: number, at: int}
models:
  memory: {file: memory.json, version: 1, outputs: {score: number}}
steps:
  - features:
      spend: {value: amount, decimals: 2, windows: [1h], aggregates: [sum]}
      past: {value: memory.score, last: 3, aggregates: [mean]}
      scores: {value: memory.score, windows: [1h], aggregates: [sum]}
  - score: {model: memory, inputs: [amount, past.mean]}
  - emit: {topic: decisions, value: [tx, spend.*, memory.score]}
`

// scoredLog ran with features of scores, windows that need blocks, and ids that come twice.
func scoredLog(t testing.TB, change ...string) *memory.Log {
	t.Helper()
	model, err := os.ReadFile("../../../scenario/testdata/memory.json")
	if err != nil {
		t.Fatal(err)
	}
	log := newLog(t, strings.NewReplacer(change...).Replace(scored), stream.Topic{Name: "payments", Partitions: 2, Key: "card"})
	save(t, "memory.json", string(model))
	for i := range 1000 {
		card := fmt.Sprintf("c%d", i%5)
		appended(t, log, record("payments", card, fmt.Sprintf(`{"tx":"t%d","card":%q,"amount":%d.25,"at":%d}`, i-i%4/3*5, card, i%300, nine+int64(i)*1000)))
	}
	goesOn(t, log)
	return log
}

// TestOneFlippedBitOfAnyKindIsFound flips a bit of the first and of the last byte of an entry of each
// kind that TestEachKindOfStateIsCompared has not. What is kept of partitions is compared with any
// sample.
func TestOneFlippedBitOfAnyKindIsFound(t *testing.T) {
	straight := func(t testing.TB) *memory.Log { return scoredLog(t) }
	copied := func(t testing.TB) *memory.Log { return scoredLog(t, "  partitions: 2\n", "  repartition: 3\n") }
	const copier = "payments.repartition.payments"
	for _, c := range []struct {
		name                       string
		log                        func(testing.TB) *memory.Log
		group, topic, prefix       string
		wantKey, wantStep, wantHas string
	}{
		{"features", straight, "payments", "payments", "e", "c", "features", "spend.sum_1h"},
		{"blocks of features", straight, "payments", "payments", "E", "c", "", "spend.sum_1h"},
		{"features of scores", straight, "payments", "payments", "l", "c", "features", "scores.sum_1h"},
		{"blocks of features of scores", straight, "payments", "payments", "L", "c", "", "scores.sum_1h"},
		{"ids", straight, "payments", "payments", "d", "payments/", "state", "ids of events"},
		{"newest time", straight, "payments", "payments", "w", "payments/", "state", "newest time"},
		{"ids of a source", copied, copier, "payments", "d", "payments/", "state", "ids of events"},
		{"newest time of a source", copied, copier, "payments", "w", "payments/", "state", "newest time"},
		{"order", copied, "payments", "payments.repartition", "O", "payments.repartition/", "state", "order of events"},
	} {
		t.Run(c.name, func(t *testing.T) {
			log := c.log(t)
			if r := checked(t, log, "100%"); r.Differences != 0 || len(r.Notes) != 0 || r.Outputs != 751 {
				t.Fatalf("%+v %+v", r, r.First)
			}
			names, last := map[string]int64{}, -1
			if c.prefix == "O" {
				last = 3 // of the place: marks decide what is behind it
			}
			for _, at := range []int{0, last} {
				flip := func(value []byte) { value[(at+len(value))%len(value)] ^= 1 }
				stored := changeIn(t, log, c.group, []byte(c.prefix), c.topic, 0, flip)
				r := checked(t, log, "100%")
				if r.Differences == 0 || !strings.HasPrefix(r.First.Key, c.wantKey) || r.First.Live == r.First.Recomputed || r.First.ID != "" || c.wantStep == "state" && r.First.Step != "state" {
					t.Errorf("byte %d: %+v %+v", at, r, r.First)
				}
				for name, n := range r.Names {
					names[name] += n
				}
				if c.wantStep == "state" {
					if r := checked(t, log, "1%"); r.Differences == 0 || r.Keys > 1 {
						t.Errorf("byte %d is not compared with a sample of keys: %+v", at, r)
					}
				}
				changeIn(t, log, c.group, stored, c.topic, 0, flip)
			}
			if names[c.wantHas] == 0 {
				t.Errorf("no bit was named %s: %v", c.wantHas, names)
			}
		})
	}
}
