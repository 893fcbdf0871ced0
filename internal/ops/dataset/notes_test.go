package dataset_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/afterbay/afterbay/internal/config"
	"github.com/afterbay/afterbay/internal/log/memory"
	"github.com/afterbay/afterbay/internal/ops/dataset"
	"github.com/afterbay/afterbay/internal/pipeline"
	"github.com/afterbay/afterbay/internal/process/builtin"
	"github.com/afterbay/afterbay/stream"
	"github.com/afterbay/afterbay/stream/streamtest"
)

// arriving finds the rows that have arrived: by the key of the input, and by others.
const arriving = `pipeline: payments
input:
  topic: pages
  key: KEY
  partitions: 3
  time: {field: ts, unit: ms, lateness: 5s, late: include}
  fields: {user: string, id: string, shop: string, price: number, ts: int}
steps:
  - lookup: {name: shop_is, table: shops, key: shop, fields: {risk: number}, empty: {risk: -1.0}}
  - lookup: {name: user_is, table: users, key: user, fields: {age: int}, empty: {age: -1}}
  - features: {risky: {value: shop_is.risk + price, windows: [1m], aggregates: [sum, count]}}
  MORE
  - emit: {topic: out, key: user, value: {"meta.id": meta.id, "shop_is.risk": shop_is.risk, "user_is.age": user_is.age, "risky.sum_1m": risky.sum_1m}}
`

// windowed finds rows below a group: they are those that had arrived when the window ended.
const windowed = `pipeline: payments
input:
  topic: pages
  key: KEY
  partitions: 3
  time: {field: ts, unit: ms, lateness: 5s, late: include}
  fields: {user: string, id: string, shop: string, price: number, ts: int}
steps:
  - group: {name: minute, by: KEY, every: 10s, values: {spent: {sum: price}}}
  - lookup: {name: shop_is, table: shops, key: shop, fields: {risk: number}, empty: {risk: -1.0}}
  - emit: {topic: out, value: {"meta.id": meta.id, "minute.spent": minute.spent, "shop_is.risk": shop_is.risk}}
`

// inspectedLog is a log with faults, which is inspected without.
type inspectedLog struct {
	stream.Log
	stream.Inspector
}

// record is a record of a topic by its key.
func record(topic, key, value string) stream.Record {
	return stream.Record{Partition: stream.Partition{Topic: topic, Index: stream.ByKey}, Key: []byte(key), Value: []byte(value)}
}

// arrivals runs p.yaml while events and rows come, and members lose commits and partitions. If
// events are to be forced, one partition after the other is silent for longer than the others
// wait for it, and its events come then.
func arrivals(t testing.TB, seed uint64, n int, forced bool) *memory.Log {
	t.Helper()
	log := memory.New(memory.Options{})
	for topic, partitions := range map[string]int32{"pages": 3, "shops": 2, "users": 3} {
		if err := log.CreateTopic(t.Context(), stream.Topic{Name: topic, Partitions: partitions, Key: "user"}); err != nil {
			t.Fatal(err)
		}
	}
	file, err := config.Load("p.yaml", builtin.Kinds())
	if err != nil {
		t.Fatal(err)
	}
	file.Pipelines[0].Commit.Size = 20
	runners, err := pipeline.NewChain(file.Pipelines, pipeline.Options{Members: 2})
	if err != nil {
		t.Fatal(err)
	}
	if err := pipeline.CreateTopics(t.Context(), log, runners); err != nil {
		t.Fatal(err)
	}
	faulty := streamtest.NewFaulty(log, streamtest.FaultyOptions{Seed: seed, Percent: map[streamtest.Fault]int{streamtest.CommitLost: 3, streamtest.CommitHidden: 3}})
	t.Cleanup(func() { faulty.Close() })
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	done := make(chan error, 1)
	go func() { done <- pipeline.RunChain(ctx, inspectedLog{faulty, log}, runners) }()
	rng := rand.New(rand.NewPCG(seed, 9))
	at := began.UnixMilli()
	var silent []stream.Record
	for i := 0; i < n; {
		var records []stream.Record
		if i/100%2 == 0 && len(silent) > 0 {
			time.Sleep(3 * time.Second)
			records, silent = silent, nil
		}
		for range 1 + rng.IntN(30) {
			at += rng.Int64N(300)
			user, shop := fmt.Sprintf("u%02d", rng.IntN(20)), fmt.Sprintf("s%d", rng.IntN(5))
			switch rng.IntN(4) {
			case 0:
				records = append(records, record("shops", shop, fmt.Sprintf(`{"risk":%d}`, rng.IntN(1000))))
			case 1:
				records = append(records, record("users", user, fmt.Sprintf(`{"age":%d}`, rng.IntN(1000))))
			default:
				i++
				page := record("pages", user, fmt.Sprintf(`{"user":%q,"id":"i%d","shop":%q,"price":%d,"ts":%d}`, user, i, shop, rng.IntN(100), at-rng.Int64N(3000)))
				if page.Partition.Index = stream.Place(page.Key, 3); forced && i/100%2 == 1 && int(page.Partition.Index) == i/200%3 {
					silent = append(silent, page)
					break
				}
				records = append(records, page)
			}
		}
		if err := log.Append(t.Context(), records...); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Duration(rng.IntN(2000)) * time.Microsecond)
	}
	if err := runners[0].WaitIdle(t.Context(), log); err != nil {
		t.Error(err)
	}
	stop()
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	if n := runners[0].Counts().Forced; n > 0 != forced {
		t.Fatalf("seed %d: %d events were forced", seed, n)
	}
	return log
}

// TestRowsThatHaveArrivedAreTheLiveRows compares the rows of a replay with the outputs of a run
// in which rows came between events.
func TestRowsThatHaveArrivedAreTheLiveRows(t *testing.T) {
	of := func(text string, pairs ...string) string {
		return strings.Replace(strings.NewReplacer(pairs...).Replace(text), "\n  MORE", "", 1)
	}
	const merged = "partitions: 3\n  repartition: 4"
	columns := []string{"meta.id", "shop_is.risk", "user_is.age", "risky.sum_1m"}
	ended := []string{"meta.id", "minute.spent", "shop_is.risk"}
	for name, c := range map[string]struct {
		file    string
		columns []string
	}{
		"own key":              {of(arriving, "KEY", "user"), columns},
		"another key":          {of(arriving, "KEY", "shop", "partitions: 3", merged), columns},
		"windows":              {of(windowed, "KEY", "user"), ended},
		"windows, another key": {of(windowed, "KEY", "shop", "partitions: 3", merged), ended},
	} {
		t.Run(name, func(t *testing.T) {
			for seed := range uint64(2) {
				synctest.Test(t, func(t *testing.T) { // no clock of the machine forces an event
					time.Sleep(time.Until(began.AddDate(1, 0, 0)))
					likeLive(t, c.file, c.columns, seed)
				})
			}
		})
	}
}

// likeLive runs a pipeline, and compares the rows of replays with its own.
func likeLive(t *testing.T, file string, columns []string, seed uint64) {
	t.Helper()
	t.Chdir(t.TempDir())
	save(t, "p.yaml", file)
	log := arrivals(t, seed, 1500, false)
	if notes := values(t, log, stream.Partition{Topic: "payments.order"}); len(notes) < 50 {
		t.Fatalf("seed %d: %d notes: rows have to come between events", seed, len(notes))
	}
	o := fromLog(log, columns)
	m := arrived(t, log, seed, o)
	for _, o.Parallelism = range []int{1, 4} {
		if again := written(t, o); again.File != m.File {
			t.Errorf("seed %d: %+v, then %+v", seed, m.File, again.File)
		}
	}
}

// arrived compares the rows with the outputs of the run. Windows that have not ended there are
// left out.
func arrived(t testing.TB, log *memory.Log, seed uint64, o dataset.Options) *dataset.Manifest {
	t.Helper()
	m := written(t, o)
	got := map[string]bool{}
	for _, line := range strings.Split(strings.TrimSpace(load(t, o.Out)), "\n") {
		got[line] = true
	}
	n, wrong := 0, 0
	for i := range partitionsOf(t, log, "out") {
		for _, line := range values(t, log, stream.Partition{Topic: "out", Index: i}) {
			if n++; !got[line] {
				wrong++
				if wrong < 5 {
					t.Errorf("seed %d: the live row %s is not among the rows", seed, line)
				}
			}
		}
	}
	if wrong > 0 || n < 100 {
		t.Errorf("seed %d: %d of %d live rows differ", seed, wrong, n)
	}
	return m
}

func partitionsOf(t testing.TB, log *memory.Log, topic string) int32 {
	t.Helper()
	topics, err := log.Topics(t.Context())
	for _, about := range topics {
		if about.Name == topic {
			return about.Partitions
		}
	}
	t.Fatalf("no topic %s: %v", topic, err)
	return 0
}

// TestRowsThatNoNoteTellsAreRefused has a log without notes, and one with a note of the first format.
func TestRowsThatNoNoteTellsAreRefused(t *testing.T) {
	t.Chdir(t.TempDir())
	save(t, "p.yaml", strings.NewReplacer("KEY", "user", "\n  MORE", "").Replace(arriving))
	log := arrivals(t, 1, 50, false)
	o := fromLog(log, nil)
	if err := log.DeleteTopic(t.Context(), "payments.order"); err != nil {
		t.Fatal(err)
	}
	var said bytes.Buffer
	err := dataset.Write(t.Context(), program(&said), o)
	if err == nil || !strings.Contains(err.Error(), "columns shop_is.* of pipeline payments are unknown") || !strings.Contains(err.Error(), "--table shops:KEY=FILE") {
		t.Error(err)
	}
	old := stream.Record{Partition: stream.Partition{Topic: "payments.order"}, Value: []byte{1, 3, 2, 0, 0, 4, 2, 1}}
	if err := errors.Join(log.CreateTopic(t.Context(), stream.Topic{Name: "payments.order", Partitions: 1}), log.Append(t.Context(), old)); err != nil {
		t.Fatal(err)
	}
	err = dataset.Write(t.Context(), program(&said), o)
	if err == nil || !strings.Contains(err.Error(), "an earlier build wrote it") || !strings.Contains(err.Error(), "--table shops:KEY=FILE") {
		t.Error(err)
	}
}
