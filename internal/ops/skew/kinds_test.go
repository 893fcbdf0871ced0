package skew_test

import (
	"bytes"
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/afterbay/afterbay/internal/config"
	"github.com/afterbay/afterbay/internal/log/memory"
	"github.com/afterbay/afterbay/internal/pipeline"
	"github.com/afterbay/afterbay/internal/process/builtin"
	"github.com/afterbay/afterbay/internal/state/statekey"
	"github.com/afterbay/afterbay/stream"
)

// runnersOf loads p.yaml, with commits of so many events; 0 is its own. It makes the topics.
func runnersOf(t testing.TB, log *memory.Log, commit int) []*pipeline.Runner {
	t.Helper()
	file, err := config.Load("p.yaml", builtin.Kinds())
	if err != nil {
		t.Fatal(err)
	}
	for i := range file.Pipelines {
		file.Pipelines[i].Commit.Size = commit
	}
	runners, err := pipeline.NewChain(file.Pipelines, pipeline.Options{Members: 2})
	if err != nil {
		t.Fatal(err)
	}
	if err := pipeline.CreateTopics(t.Context(), log, runners); err != nil {
		t.Fatal(err)
	}
	return runners
}

// done runs pipelines over a log until the first has done all of it.
func done(t testing.TB, log stream.Log, runners []*pipeline.Runner) {
	t.Helper()
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	ended := make(chan error, 1)
	go func() { ended <- pipeline.RunChain(ctx, log, runners) }()
	if err := runners[0].WaitIdle(t.Context(), log); err != nil {
		t.Error(err)
	}
	stop()
	if err := <-ended; err != nil {
		t.Fatal(err)
	}
}

// goesOn runs the pipeline of p.yaml over a log until it has done all of it.
func goesOn(t testing.TB, log *memory.Log) {
	t.Helper()
	done(t, log, runnersOf(t, log, 0))
}

// record is a record of a topic by its key.
func record(topic, key, value string) stream.Record {
	return stream.Record{Partition: stream.Partition{Topic: topic, Index: stream.ByKey}, Key: []byte(key), Value: []byte(value)}
}

// newLog is a log with topics, in a folder with a pipeline.
func newLog(t testing.TB, yaml string, topics ...stream.Topic) *memory.Log {
	t.Helper()
	t.Chdir(t.TempDir())
	save(t, "p.yaml", yaml)
	log := memory.New(memory.Options{})
	t.Cleanup(func() { log.Close() })
	for _, topic := range topics {
		if err := log.CreateTopic(t.Context(), topic); err != nil {
			t.Fatal(err)
		}
	}
	return log
}

func appended(t testing.TB, log *memory.Log, records ...stream.Record) {
	t.Helper()
	if err := log.Append(t.Context(), records...); err != nil {
		t.Fatal(err)
	}
}

// nine is when events begin.
var nine = time.Date(2026, 1, 1, 9, 0, 0, 0, time.UTC).UnixMilli()

const asOf = `pipeline: payments
input:
  topic: payments
  key: card
  partitions: 3
  time: {field: at, unit: ms, lateness: 10s, late: include}
  fields: {card: string, shop: string, at: int}
steps:
  - lookup: {name: shop_is, table: shops, key: shop, as_of: event, time: {field: since, unit: ms}, history: HISTORY, fields: {risk: number}, empty: {risk: 0.5}}
  - lookup: {name: owner, table: owners, key: card, as_of: event, history: 1h, fields: {age: int}, empty: {age: 0}}
  - emit: {topic: decisions, value: [card, shop_is.risk, owner.age]}
`

// asOfLog ran with tables as of the event that change all the time.
func asOfLog(t testing.TB, history string) *memory.Log {
	return tablesLog(t, strings.Replace(asOf, "HISTORY", history, 1), 2)
}

// arrivedLog is asOfLog of tables whose newest rows are found, in many runs.
func arrivedLog(t testing.TB) *memory.Log {
	return tablesLog(t, strings.NewReplacer("as_of: event, time: {field: since, unit: ms}, history: HISTORY, ", "", "as_of: event, history: 1h, ", "").Replace(asOf), 20)
}

// tablesLog ran so many times over payments while tables changed. Then both tables got rows that
// the pipeline has not read.
func tablesLog(t testing.TB, text string, runs int) *memory.Log {
	log := newLog(t, text, stream.Topic{Name: "payments", Partitions: 3, Key: "card"}, stream.Topic{Name: "shops", Partitions: 2, Key: "shop"}, stream.Topic{Name: "owners", Partitions: 3, Key: "card"})
	shop := func(i int) stream.Record {
		return record("shops", fmt.Sprintf("s%d", i%4), fmt.Sprintf(`{"risk":0.%d,"since":%d,"more":%q}`, i%10, nine+int64(i)*1000, strings.Repeat("x", 100)))
	}
	owner := func(i int) stream.Record {
		return record("owners", fmt.Sprintf("c%02d", i%50), fmt.Sprintf(`{"age":%d}`, i))
	}
	rows, events := 800/runs, 1200/runs
	for run := range runs {
		for i := run * rows; i < run*rows+rows; i++ {
			appended(t, log, shop(i), owner(i))
		}
		for i := run * events; i < run*events+events; i++ {
			card := fmt.Sprintf("c%02d", i*7919%101%50)
			appended(t, log, record("payments", card, fmt.Sprintf(`{"card":%q,"shop":"s%d","at":%d}`, card, i%4, nine+int64(i)*600)))
		}
		goesOn(t, log)
	}
	for i := range 50 {
		appended(t, log, shop(i), owner(i))
	}
	return log
}

const visits = `pipeline: payments
input:
  topic: payments
  key: card
  partitions: 3
  time: {field: at, unit: ms, lateness: 10s, late: include}
  fields: {card: string, shop: string, amount: number, at: int}
steps:
  - group: {name: visit, by: shop, GROUP}
  - emit: {topic: decisions, value: [card, visit.count, visit.spent]}
`

// visitsLog ran with a group.
func visitsLog(t testing.TB, group string) *memory.Log {
	log := newLog(t, strings.Replace(visits, "GROUP", group, 1), stream.Topic{Name: "payments", Partitions: 3, Key: "card"})
	for i := range 1200 {
		card := fmt.Sprintf("c%02d", i*7919%101%50)
		appended(t, log, record("payments", card, fmt.Sprintf(`{"card":%q,"shop":"s%d","amount":%d.1,"at":%d}`, card, i%4, i%37, nine+int64(i)*400-int64(i*31%5000))))
	}
	goesOn(t, log)
	return log
}

const ads = `pipeline: payments
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
  - join: {name: click, left: impressions, right: clicks, on: {id: imp}, within: 5m, before: 5m, match: last}
  - emit: {topic: decisions, value: {id: id, bid: bid, matched: click.matched, price: click.price}}
`

// adsLog ran with a join, whose inputs were copied in an order of their own.
func adsLog(t testing.TB) *memory.Log {
	log := newLog(t, ads, stream.Topic{Name: "impressions", Partitions: 1, Key: "user"}, stream.Topic{Name: "clicks", Partitions: 1, Key: "user"})
	for i := range 800 {
		user := fmt.Sprintf("u%02d", i%50)
		appended(t, log, record("impressions", user, fmt.Sprintf(`{"user":%q,"id":"i%d","bid":%d.5,"ts":%d}`, user, i, i%7, nine+int64(i)*1000)))
	}
	for i := range 800 {
		if user := fmt.Sprintf("u%02d", i%50); i%3 > 0 {
			appended(t, log, record("clicks", user, fmt.Sprintf(`{"user":%q,"imp":"i%d","price":%d.5,"ts":%d}`, user, i, i%9, nine+int64(i)*1000)))
		}
	}
	goesOn(t, log)
	return log
}

// flipOne changes a bit of the first entry of the state beside any partition that has a
// prefix and at least so many bytes, and returns its key. Below 0 it is so many from the end.
func flipOne(t testing.TB, log *memory.Log, prefix []byte, topic string, at int, bit byte) (stored []byte) {
	t.Helper()
	return changeOne(t, log, prefix, topic, at, func(value []byte) { value[(at+len(value))%len(value)] ^= bit })
}

// changeOne is flipOne with another change.
func changeOne(t testing.TB, log *memory.Log, prefix []byte, topic string, at int, change func(value []byte)) (stored []byte) {
	t.Helper()
	group := "payments"
	if strings.Contains(topic, ".by-") { // a stage has a group of the name of its topic
		group = topic
	}
	return changeIn(t, log, group, prefix, topic, at, change)
}

// changeIn is changeOne of a group.
func changeIn(t testing.TB, log *memory.Log, group string, prefix []byte, topic string, at int, change func(value []byte)) (stored []byte) {
	t.Helper()
	member, err := log.Join(t.Context(), group, topic)
	if err != nil {
		t.Fatal(err)
	}
	defer member.Close()
	for {
		batch, err := member.Poll(t.Context(), 1)
		if err != nil {
			t.Fatal(err)
		}
		for _, a := range batch.Assigned {
			for entry, err := range a.State.Scan(prefix) {
				if err != nil {
					t.Fatal(err)
				}
				if at >= len(entry.Value) || -at > len(entry.Value) {
					continue
				}
				value := bytes.Clone(entry.Value)
				change(value)
				step := stream.Transaction{Changes: []stream.Change{{Partition: a.Partition, Key: bytes.Clone(entry.Key), Value: value}}, Offsets: map[stream.Partition]stream.Offset{a.Partition: a.Next}}
				if err := member.Commit(step).Wait(t.Context()); err != nil {
					t.Fatal(err)
				}
				return bytes.Clone(entry.Key)
			}
		}
		if len(batch.Assigned) == 0 {
			t.Fatalf("no entry %q has %d bytes", prefix, at+1)
		}
	}
}

// TestEachKindOfStateIsCompared has nothing differ, then one bit of each kind of state.
func TestEachKindOfStateIsCompared(t *testing.T) {
	swept := func(t testing.TB) *memory.Log { return asOfLog(t, "1m") } // both sides have removed versions, not the same ones
	for name, c := range map[string]struct {
		log    func(testing.TB) *memory.Log
		prefix []byte
		want   string // among the names that differ, of some bit
	}{
		"table as of the event":         {swept, statekey.AppendRow(nil, "shops/all/event", nil), "shops"},
		"its blocks":                    {func(t testing.TB) *memory.Log { return asOfLog(t, "1h") }, statekey.AppendRow(nil, "shops/all/event/blocks", nil), "shops"},
		"table by the key of the input": {swept, statekey.AppendRow(nil, "owners/own/event", nil), "owners"},
		"table by arrival":              {arrivedLog, statekey.AppendRow(nil, "shops/all", nil), "shops"},
		"windows":                       {func(t testing.TB) *memory.Log { return visitsLog(t, "every: 1m, values: {spent: {sum: amount}}") }, []byte{statekey.Pane}, "visit.spent"},
		"hopping": {func(t testing.TB) *memory.Log {
			return visitsLog(t, "every: 1m, size: 5m, values: {spent: {sum: amount}}")
		}, []byte{statekey.Pane}, "visit.spent"},
		"sessions": {func(t testing.TB) *memory.Log { return visitsLog(t, "idle: 20s, values: {spent: {sum: amount}}") }, []byte{statekey.Group}, "visit.spent"},
		"members": {func(t testing.TB) *memory.Log {
			return visitsLog(t, "idle: 20s, timeout: 1h, values: {spent: {sum: amount}}")
		}, []byte{statekey.Member}, "event of a group"},
		"join": {adsLog, []byte{statekey.Join}, "click.price"},
	} {
		t.Run(name, func(t *testing.T) {
			log := c.log(t)
			topic := "payments"
			if name == "join" {
				topic = "payments.repartition"
			}
			if r := checked(t, log, "100%"); r.Differences != 0 || len(r.Notes) != 0 || r.Outputs == 0 || r.Entries == 0 {
				t.Fatalf("%+v %+v", r, r.First)
			}
			named := false
			for i := range 16 {
				at, bit := i*9, byte(1)<<(i%8)
				if i >= 5 {
					at = 2*(i-16) + 1 // from the end
				}
				stored := flipOne(t, log, c.prefix, topic, at, bit)
				r := checked(t, log, "100%")
				if r.Differences == 0 {
					// a version from before the history of both is no difference
					if name != "table as of the event" && name != "table by the key of the input" || at >= 16 || at < 0 {
						t.Errorf("byte %d of %q is not compared", at, stored)
					}
				} else {
					if r.First.Key == "" || r.First.Live == r.First.Recomputed || r.First.ID != "" || c.prefix[0] != statekey.Row && !strings.Contains(r.First.Event, "/0@") && !strings.HasPrefix(r.First.Event, "payments/") {
						t.Errorf("byte %d of %q: %+v", at, stored, r.First)
					}
					named = named || r.Names[c.want] > 0
				}
				if flipOne(t, log, stored, topic, at, bit); t.Failed() {
					return
				}
			}
			if !named {
				t.Errorf("no bit was named %s", c.want)
			}
		})
	}
}

// TestAPartitionThatHasReadLessIsNoDifference has a pipeline whose members stopped at rows of
// their own: one partition has an event after the newest rows, the others have not.
func TestAPartitionThatHasReadLessIsNoDifference(t *testing.T) {
	log := asOfLog(t, "1h")
	if r := checked(t, log, "100%"); r.Differences != 0 || len(r.Notes) != 0 {
		t.Fatalf("%+v %+v", r, r.First)
	}
	readBack(t, log)
	r := checked(t, log, "100%")
	if r.Differences != 0 || len(r.Notes) != 1 || !strings.Contains(r.Notes[0], "in 1 partitions the rows of tables were not compared") {
		t.Errorf("%+v %+v", r, r.First)
	}
}

// readBack has one partition of the pipeline know no rows of a partition of a table.
func readBack(t testing.TB, log *memory.Log) {
	t.Helper()
	changeOne(t, log, statekey.AppendRead(nil, "shops/all/event"), "payments", 0, func(value []byte) { clear(value) })
}
