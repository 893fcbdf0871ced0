package dataset_test

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/afterbay/afterbay/internal/ops/dataset"
	"github.com/afterbay/afterbay/stream"
)

const byShop = `pipeline: shops
input:
  topic: pages
  key: price
  partitions: 3
  repartition: 4
  time: {field: ts, unit: ms, lateness: 5s, WAIT}
  fields: {user: string, id: string, price: number, ts: int}
steps:
  - features:
      spend: {value: bid, windows: [1m], aggregates: [sum, count]}
      past:  {value: bid, last: 3, aggregates: [mean]}
  - emit: {topic: out, key: user, value: {"meta.id": meta.id, "meta.offset": meta.offset, id: id, "spend.sum_1m": spend.sum_1m, "spend.count_1m": spend.count_1m, "past.mean": past.mean}}
`

const together = `pipeline: contacts
inputs:
  - topic: impressions
    key: user
    partitions: 3
    repartition: 2
    time: {field: ts, unit: ms, lateness: 5s}
    fields: {user: string, id: string, bid: number, ts: int}
  - topic: clicks
    key: user
    partitions: 2
    time: {field: ts, unit: ms, lateness: 5s}
    fields: {user: string, imp: string, price: number, ts: int}
steps:
  - features:
      seen: {windows: [1m], aggregates: [count]}
      last: {value: "price ?? 0.0", last: 2, aggregates: [sum]}
  - emit: {topic: out, value: {"meta.id": meta.id, "meta.topic": meta.topic, "seen.count_1m": seen.count_1m, "last.sum": last.sum}}
`

// TestRowsOfSeveralPartitionsAreTheLiveRows compares the rows of pipelines that read in the order
// of several partitions with the outputs of those that ran, byte for byte, and the files of two
// runs and parallelisms.
func TestRowsOfSeveralPartitionsAreTheLiveRows(t *testing.T) {
	const seed = 23
	both := map[string]int32{"impressions": 3, "clicks": 2}
	join := strings.NewReplacer("key: user\n    partitions: 1\n    repartition: 1", "key: user\n    partitions: 3\n    repartition: 4", "partitions: 1", "partitions: 2", "MATCH", "first", "TYPE", "left").Replace(joined)
	shop := strings.NewReplacer("key: price", "key: shop", "price: number, ts", "shop: string, bid: number, ts").Replace(byShop)
	shopColumns := []string{"meta.id", "meta.offset", "id", "spend.sum_1m", "spend.count_1m", "past.mean"}
	for name, c := range map[string]struct {
		file    string
		columns []string
		topics  map[string]int32
	}{
		"another key":       {strings.Replace(shop, ", WAIT", "", 1), shopColumns, map[string]int32{"pages": 3}},
		"another key, wait": {strings.Replace(shop, "WAIT", "wait: 3s, late: drop", 1), shopColumns, map[string]int32{"pages": 3}},
		"two inputs":        {together, []string{"meta.id", "meta.topic", "seen.count_1m", "last.sum"}, both},
		"join":              {join, []string{"meta.id", "id", "bid", "twice", "click.matched", "click.price", "worth"}, both},
	} {
		t.Run(name, func(t *testing.T) {
			t.Chdir(t.TempDir())
			save(t, "p.yaml", c.file)
			log := sourced(t, seed, 2000, c.topics)
			running(t, log, "p.yaml")
			o := fromLog(log, c.columns)
			m := mustBeLive(t, log, seed, o, 1000)
			for _, o.Parallelism = range []int{1, 4} {
				if again := written(t, o); again.File != m.File {
					t.Errorf("seed %d: %+v, then %+v", seed, m.File, again.File)
				}
			}
			var said bytes.Buffer
			if err := dataset.Write(t.Context(), program(&said), o); err != nil || strings.Contains(said.String(), "warning") {
				t.Errorf("%v: %s", err, said.String())
			}
		})
	}
}

// TestEventsOfAFileArePlacedAsTheirTopicHasThem has many events at one time, in several
// partitions by another key. The rows of a file are those of the log if the file is placed as the
// topic is.
func TestEventsOfAFileArePlacedAsTheirTopicHasThem(t *testing.T) {
	const seed = 29
	shop := strings.NewReplacer("key: price", "key: shop", "price: number, ts", "shop: string, bid: number, ts", ", WAIT", "").Replace(byShop)
	t.Chdir(t.TempDir())
	save(t, "p.yaml", shop)
	log := sourced(t, seed, 0, map[string]int32{"pages": 5})
	var events strings.Builder
	var records []stream.Record
	rng := rand.New(rand.NewPCG(seed, 8))
	for i := range 2000 {
		value := fmt.Sprintf(`{"user":"u%d","id":"i%d","shop":"s%d","bid":%d.5,"ts":%d}`, rng.IntN(20), i, rng.IntN(5), rng.IntN(100), began.UnixMilli()+int64(i/100)*1000)
		events.WriteString(value + "\n")
		user, _, _ := strings.Cut(value[len(`{"user":"`):], `"`)
		records = append(records, stream.Record{Partition: stream.Partition{Topic: "pages", Index: stream.ByKey}, Key: []byte(user), Value: []byte(value)})
	}
	if err := log.Append(t.Context(), records...); err != nil {
		t.Fatal(err)
	}
	save(t, "e.ndjson", events.String())
	running(t, log, "p.yaml")
	columns := []string{"meta.id", "meta.offset", "id", "spend.sum_1m", "spend.count_1m", "past.mean"}
	want := mustBeLive(t, log, seed, fromLog(log, columns), 2000)
	o := options("rows.ndjson")
	o.RowsOptions.Columns = columns
	if other := written(t, o); other.Rows == want.Rows {
		t.Errorf("seed %d: no place matters", seed)
	}
	o.Partitions, o.Key = 5, "user"
	if m := written(t, o); m.Rows != want.Rows {
		t.Errorf("seed %d: %+v, of the log %+v", seed, m.Rows, want.Rows)
	}
	o.FromLog, o.Open = true, opens(log)
	if err := dataset.Write(t.Context(), program(&bytes.Buffer{}), o); err == nil || !strings.Contains(err.Error(), "for events of a file") {
		t.Error(err)
	}
}
