package explain_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/afterbay/afterbay/internal/config"
	"github.com/afterbay/afterbay/internal/ops/explain"
	"github.com/afterbay/afterbay/internal/ops/inspect"
	"github.com/afterbay/afterbay/internal/pipeline"
	"github.com/afterbay/afterbay/internal/process/builtin"
	"github.com/afterbay/afterbay/stream"
)

// looking finds the risk of a shop twice, and adds up what the events of a user found. SOURCE and IDLE are how
// its input is read, and AS_OF is which rows are found.
const looking = `pipeline: looking
input:
  topic: pages
  key: user
  partitions: 2
  SOURCE
  time: {field: ts, unit: ms, lateness: 0sIDLE}
  fields: {user: string, shop: string, ts: int}
steps:
  - lookup: {name: shop_is, table: shops, key: shop, fields: {risk: number}, empty: {risk: -1.0}AS_OF}
  - lookup: {name: again, table: shops, key: shop, fields: {risk: number}, empty: {risk: -1.0}AS_OF}
  - features: {risky: {value: shop_is.risk + again.risk, windows: [1h], aggregates: [sum]}}
  - emit: {topic: out, value: {"shop_is.risk": shop_is.risk, "risky.sum_1h": risky.sum_1h}}
`

// looked runs the pipeline while a row of the shop comes between each two events of it. It
// returns the file and what tools read of the log.
func looked(t *testing.T, source, idle, asOf string, events int) (*config.File, *inspect.Local) {
	t.Helper()
	file, err := config.Parse("looking.yaml", []byte(strings.NewReplacer("SOURCE", source, "IDLE", idle, "AS_OF", asOf).Replace(looking)), builtin.Kinds())
	if err != nil {
		t.Fatal(err)
	}
	log, d := newLog(t)
	for _, topic := range []string{"pages", "shops"} {
		if err := log.CreateTopic(t.Context(), stream.Topic{Name: topic, Partitions: 2, Key: "user"}); err != nil {
			t.Fatal(err)
		}
	}
	runners, err := pipeline.NewChain(file.Pipelines, pipeline.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if err := pipeline.CreateTopics(t.Context(), log, runners); err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	done := make(chan error, 1)
	go func() { done <- pipeline.RunChain(ctx, log, runners) }()
	for i := range events {
		for _, r := range []func() stream.Record{
			func() stream.Record {
				return stream.Record{Partition: stream.Partition{Topic: "shops", Index: stream.ByKey}, Key: []byte("s"), Value: fmt.Appendf(nil, `{"risk":%d}`, i)}
			},
			func() stream.Record {
				return stream.Record{Partition: stream.Partition{Topic: "pages", Index: int32(i % 2)}, Key: []byte("u"), Value: fmt.Appendf(nil, `{"user":"u","shop":"s","ts":%d}`, time.Now().UnixMilli())}
			},
		} {
			if err := log.Append(t.Context(), r()); err != nil {
				t.Fatal(err)
			}
			if err := runners[0].WaitIdle(t.Context(), log); err != nil {
				t.Fatal(err)
			}
			time.Sleep(2 * time.Millisecond) // the next one has a later time
		}
	}
	stop()
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	return file, d
}

// An event is computed again with the rows that it found, whatever rows came since.
func TestReplayFindsTheRowsThatTheEventFound(t *testing.T) {
	const events = 6
	for name, c := range map[string]struct{ source, idle, asOf string }{
		"as they arrived":                         {},
		"as they arrived, in order of partitions": {"repartition: 2", ", idle: 100ms", ""},
		"as of the event":                         {"", "", ", as_of: event"},
	} {
		t.Run(name, func(t *testing.T) {
			file, d := looked(t, c.source, c.idle, c.asOf, events)
			outputs := stored(t, d, "out")
			if len(outputs) != events {
				t.Fatalf("%d outputs", len(outputs))
			}
			found := map[string]bool{}
			for i := range outputs {
				report, err := explain.Explain(t.Context(), position(&outputs[i]), explain.Options{Directory: d, Pipelines: file.Pipelines})
				if err != nil {
					t.Fatal(err)
				}
				if r := report.Replays[0]; !r.Same {
					t.Errorf("%s: %v", position(&outputs[i]), r.Why)
				}
				for _, v := range report.Replays[0].Row {
					if v.Name == "shop_is.risk" {
						found[string(v.Value)] = true
					}
				}
			}
			if len(found) != events {
				t.Errorf("the events found %d rows", len(found))
			}
		})
	}
}

// Without the notes of what was found, a replay reads tables as they are, and says so.
func TestReplayWithoutNotesSaysSo(t *testing.T) {
	file, d := looked(t, "", "", "", 4)
	if err := d.DeleteTopic(t.Context(), "looking.order"); err != nil {
		t.Fatal(err)
	}
	outputs := stored(t, d, "out")
	report, err := explain.Explain(t.Context(), position(&outputs[0]), explain.Options{Directory: d, Pipelines: file.Pipelines})
	if err != nil {
		t.Fatal(err)
	}
	r := report.Replays[0]
	if r.Same || !slices.ContainsFunc(r.Why, func(why string) bool { return strings.Contains(why, "tables are read in their current state") }) {
		t.Errorf("same: %v, %v", r.Same, r.Why)
	}
}
