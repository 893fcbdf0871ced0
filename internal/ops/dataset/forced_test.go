package dataset_test

import (
	"bytes"
	"context"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/afterbay/afterbay/internal/ops/dataset"
	"github.com/afterbay/afterbay/internal/ops/inspect"
	"github.com/afterbay/afterbay/stream"
)

// forcible has features by the key and by another field.
const forcible = `pipeline: payments
input:
  topic: pages
  key: shop
  partitions: 3
  repartition: 4
  time: {field: ts, unit: ms, lateness: 5s, late: include, WAIT}
  fields: {user: string, id: string, shop: string, price: number, ts: int}
steps:
  - features:
      past: {value: price, last: 3, aggregates: [mean]}
      spent: {by: user, value: price, last: 3, aggregates: [sum]}
  - emit: {topic: out, key: user, value: {"meta.id": meta.id, "meta.offset": meta.offset, "past.mean": past.mean, "spent.sum": spent.sum}}
`

// trimmed is a log in which a partition of the copies has no record before an offset; -1 is that
// their topic is gone.
type trimmed struct {
	inspect.Directory
	first stream.Offset
	fewer stream.Offset // records of each source partition
	added bool          // a partition of the source, which has no records
}

// List implements inspect.Directory.
func (d *trimmed) List(ctx context.Context) ([]inspect.Topic, error) {
	topics, err := d.Directory.List(ctx)
	at := slices.IndexFunc(topics, func(t inspect.Topic) bool { return t.Name == "payments.repartition" })
	source := slices.IndexFunc(topics, func(t inspect.Topic) bool { return t.Name == "pages" })
	for i := range topics[source].Partitions {
		topics[source].Partitions[i].Next -= d.fewer
	}
	if d.added {
		topics[source].Partitions = append(topics[source].Partitions, inspect.Partition{})
	}
	if d.first < 0 {
		return slices.Delete(topics, at, at+1), err
	}
	topics[at].Partitions[2].First = d.first
	return topics, err
}

// TestForcedEventsAreComputedWhereTheyWereLive has partitions that are silent, and whose events
// come when their turn is over. The copies say to where they were moved, so the rows of a replay
// are the live rows. Where the copies are gone, the command says how many events this is about.
func TestForcedEventsAreComputedWhereTheyWereLive(t *testing.T) {
	of := func(text string, pairs ...string) string {
		return strings.Replace(strings.NewReplacer(pairs...).Replace(text), "\n  MORE", "", 1)
	}
	const merged = "partitions: 3\n  repartition: 4"
	for name, c := range map[string]struct {
		file    string
		columns []string
	}{
		"features":       {strings.Replace(forcible, ", WAIT", "", 1), []string{"meta.id", "meta.offset", "past.mean", "spent.sum"}},
		"features, wait": {strings.Replace(forcible, "WAIT", "wait: 2s", 1), []string{"meta.id", "meta.offset", "past.mean", "spent.sum"}},
		"tables":         {of(arriving, "KEY", "shop", "partitions: 3", merged), []string{"meta.id", "shop_is.risk", "user_is.age", "risky.sum_1m"}},
		"windows":        {of(windowed, "KEY", "shop", "partitions: 3", merged), []string{"meta.id", "minute.spent", "shop_is.risk"}},
	} {
		t.Run(name, func(t *testing.T) {
			for seed := range uint64(2) {
				synctest.Test(t, func(t *testing.T) {
					time.Sleep(time.Until(began.AddDate(1, 0, 0)))
					t.Chdir(t.TempDir())
					save(t, "p.yaml", c.file)
					log := arrivals(t, seed, 1500, true)
					o := fromLog(log, c.columns)
					m := arrived(t, log, seed, o)
					if f := m.Events.Forced; f == nil || !f.Followed || f.Events < 50 || f.Reason != "" {
						t.Fatalf("seed %d: %+v", seed, f)
					}
					for _, o.Parallelism = range []int{1, 4} {
						if again := written(t, o); again.File != m.File {
							t.Errorf("seed %d: %+v, then %+v", seed, m.File, again.File)
						}
					}
					o.Open = func() (inspect.Directory, func() error, error) { // that was asked before the newest copies were made
						return &trimmed{inspect.NewLocal(log, nil, nil, nil), 0, 30, false}, func() error { return nil }, nil
					}
					if rows := written(t, o); rows.Events.Forced == nil || !rows.Events.Forced.Followed || rows.Rows.Count == 0 {
						t.Errorf("seed %d: %+v", seed, rows.Events.Forced)
					}
					for reason, first := range map[string]stream.Offset{"repartition topic payments.repartition was deleted": -1, "payments.repartition/2 of the repartition topic begins at offset 1": 1, "a source got more partitions since": 0} {
						o.Open = func() (inspect.Directory, func() error, error) {
							return &trimmed{inspect.NewLocal(log, nil, nil, nil), first, 0, first == 0}, func() error { return nil }, nil
						}
						var said bytes.Buffer
						if err := dataset.Write(t.Context(), program(&said), o); err != nil || !strings.Contains(said.String(), "warning: the live pipeline forced") || !strings.Contains(said.String(), reason) {
							t.Errorf("%v: %s", err, said.String())
						}
						rows := written(t, o)
						if f := rows.Events.Forced; f.Followed || f.Events != m.Events.Forced.Events || !strings.Contains(f.Reason, reason) || rows.Rows == m.Rows {
							t.Errorf("seed %d: no forced event matters: %+v", seed, rows.Events.Forced)
						}
					}
				})
			}
		})
	}
}
