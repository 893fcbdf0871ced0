package dataset_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/afterbay/afterbay/internal/log/memory"
	"github.com/afterbay/afterbay/internal/ops/dataset"
	"github.com/afterbay/afterbay/stream"
)

const joined = `pipeline: ads
inputs:
  - topic: impressions
    key: user
    partitions: 1
    repartition: 1
    time: {field: ts, unit: ms, lateness: 5s}
    fields: {user: string, id: string, bid: number, ts: int}
  - topic: clicks
    key: user
    partitions: 1
    time: {field: ts, unit: ms, lateness: 5s}
    fields: {user: string, imp: string, price: optional number, ts: int}
steps:
  - let: {twice: '(bid ?? 0.0) * 2.0'}
  - join: {name: click, left: impressions, right: clicks, on: {id: imp}, within: 1m, before: 10s, match: MATCH, type: TYPE}
  - let: {worth: 'click.price ?? 0.0'}
  - emit: {topic: out, value: {"meta.id": meta.id, id: id, bid: bid, twice: twice, "click.matched": click.matched, "click.price": click.price, worth: worth}}
`

const grouped = `pipeline: visits
input:
  topic: pages
  key: user
  time: {field: ts, unit: ms, lateness: 5s, late: include}
  fields: {user: string, id: string, price: number, ts: int}
steps:
  - let: {dear: 'price > 5.0'}
  - group: {name: visit, by: user, GROUP}
  - let: {mean: 'visit.spent / visit.count'}
  - emit: {topic: out, value: {"meta.id": meta.id, id: id, dear: dear, "visit.count": visit.count, "visit.spent": visit.spent, mean: mean}}
`

// sourced is a log with generated records by topic.
func sourced(t testing.TB, seed uint64, n int, topics map[string]int32) *memory.Log {
	t.Helper()
	log := memory.New(memory.Options{})
	t.Cleanup(func() { log.Close() })
	rng := rand.New(rand.NewPCG(seed, 7))
	for topic, partitions := range topics {
		if err := log.CreateTopic(t.Context(), stream.Topic{Name: topic, Partitions: partitions, Key: "user"}); err != nil {
			t.Fatal(err)
		}
	}
	at := began.UnixMilli()
	var records []stream.Record
	add := func(topic, user, value string) {
		records = append(records, stream.Record{Partition: stream.Partition{Topic: topic, Index: stream.ByKey}, Key: []byte(user), Value: []byte(value)})
	}
	for i := range n {
		at += rng.Int64N(3000)
		user, price := fmt.Sprintf("u%02d", rng.IntN(20)), float64(rng.IntN(1000))/100
		for _, topic := range []string{"impressions", "pages"} {
			if topics[topic] > 0 {
				add(topic, user, fmt.Sprintf(`{"user":%q,"id":"i%d","shop":"s%d","bid":%v,"price":%v,"ts":%d}`, user, i, i*7%13, price, price, at-rng.Int64N(3000)))
			}
		}
		for range rng.IntN(3) * min(1, int(topics["clicks"])) {
			add("clicks", user, fmt.Sprintf(`{"user":%q,"imp":"i%d","price":%v,"ts":%d}`, user, i, price, at+rng.Int64N(4000)))
		}
	}
	if err := log.Append(t.Context(), records...); err != nil {
		t.Fatal(err)
	}
	return log
}

// TestRowsBehindJoinsAndGroupsAreTheLiveRows compares the rows of what joins and groups make
// with the outputs of a pipeline that ran, and their bytes at two parallelisms.
func TestRowsBehindJoinsAndGroupsAreTheLiveRows(t *testing.T) {
	const seed = 5
	joinColumns := []string{"meta.id", "id", "bid", "twice", "click.matched", "click.price", "worth"}
	groupColumns := []string{"meta.id", "id", "dear", "visit.count", "visit.spent", "mean"}
	of := func(text string, pairs ...string) string { return strings.NewReplacer(pairs...).Replace(text) }
	for name, c := range map[string]struct {
		file    string
		columns []string
		topics  map[string]int32
	}{
		"first":    {of(joined, "MATCH", "first", "TYPE", "left"), joinColumns, map[string]int32{"impressions": 1, "clicks": 1}},
		"last":     {of(joined, "MATCH", "last", "TYPE", "left"), joinColumns, map[string]int32{"impressions": 1, "clicks": 1}},
		"each":     {of(joined, "MATCH", "each", "TYPE", "inner"), joinColumns, map[string]int32{"impressions": 1, "clicks": 1}},
		"windows":  {of(grouped, "GROUP", "every: 1m, values: {spent: {sum: price}}"), groupColumns, map[string]int32{"pages": 3}},
		"hopping":  {of(grouped, "GROUP", "every: 1m, size: 5m, values: {spent: {sum: price}}"), groupColumns, map[string]int32{"pages": 3}},
		"sessions": {of(grouped, "GROUP", "idle: 20s, values: {spent: {sum: price}}"), groupColumns, map[string]int32{"pages": 3}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Chdir(t.TempDir())
			save(t, "p.yaml", c.file)
			log := sourced(t, seed, 2000, c.topics)
			running(t, log, "p.yaml")
			o := fromLog(log, c.columns)
			m := mustBeLive(t, log, seed, o, 100)
			if m.Events.Collected == 0 {
				t.Errorf("%+v", m.Events)
			}
			o.Parallelism = 3
			if again := written(t, o); again.File != m.File {
				t.Errorf("%+v, then %+v", m.File, again.File)
			}
			o.RowsOptions.Columns = nil // all, of which none is missing
			for _, format := range []string{"rows.parquet", "rows.csv"} {
				o.Out = format
				all := written(t, o)
				if all.Rows.Count != m.Rows.Count {
					t.Errorf("%+v", all.Rows)
				}
				for _, name := range c.columns {
					if !slices.ContainsFunc(all.Schema.Columns, func(c dataset.Column) bool { return c.Name == name }) {
						t.Errorf("column %s is missing", name)
					}
				}
			}
		})
	}
}

// TestLabelsOfWhatIsMadeAreThoseAfterItsTime labels the rows of windows, which are those of
// their ends.
func TestLabelsOfWhatIsMadeAreThoseAfterItsTime(t *testing.T) {
	t.Chdir(t.TempDir())
	save(t, "p.yaml", strings.Replace(grouped, "GROUP", "every: 1m, values: {spent: {sum: price}}", 1))
	var events strings.Builder
	for i := range 4 {
		fmt.Fprintf(&events, `{"user":"u","id":"i%d","price":1,"ts":%d}`+"\n", i, began.Add(time.Duration(i)*time.Minute+time.Second).UnixMilli())
	}
	save(t, "e.ndjson", events.String())
	save(t, "l.ndjson", fmt.Sprintf(`{"id":"i0","fraud":1,"known":%q}
{"id":"i1","fraud":2,"known":%q}
`, began.Add(59*time.Second).Format(time.RFC3339), began.Add(2*time.Minute).Format(time.RFC3339)))
	o := labelled("l.ndjson")
	o.RowsOptions.Columns, o.Labels.On = []string{"id", "meta.time"}, "id"
	written(t, o)
	want := `id,meta.time,fraud
"i0",2026-01-01T09:01:00.000000Z,
"i1",2026-01-01T09:02:00.000000Z,2
`
	if diff := cmp.Diff(want, load(t, "rows.csv")); diff != "" {
		t.Error(diff)
	}
}
