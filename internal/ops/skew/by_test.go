package skew_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/afterbay/afterbay/internal/log/memory"
	"github.com/afterbay/afterbay/internal/ops/inspect"
	"github.com/afterbay/afterbay/internal/state/statekey"
	"github.com/afterbay/afterbay/stream"
)

const byShops = `pipeline: payments
input:
  topic: payments
  key: card
  partitions: 3
  repartition: 2
  time: {field: at, unit: ms, lateness: 10s}
  fields: {card: string, shop: string, device: optional string, amount: int, at: int}
steps:
  - features:
      spend: {value: amount, windows: [1m], aggregates: [count, sum]}
      seen: {by: shop, value: amount, windows: [1h], aggregates: [count, sum]}
      past: {by: shop, value: risk, delay: 2s, windows: [1h], aggregates: [sum]}
      phone: {by: device, windows: [1h], aggregates: [count]}
  - let: {risk: spend.sum_1m + seen.count_1h}
  - emit: {topic: decisions, value: [card, shop, spend.*, seen.*, past.*, phone.*]}
`

// byLog is a log with payments whose shops and devices are counted by stages.
func byLog(t testing.TB) *memory.Log { return byLogOf(t, byShops) }

// byLogOf is byLog of another pipeline.
func byLogOf(t testing.TB, text string) *memory.Log {
	t.Helper()
	log := newLog(t, text, stream.Topic{Name: "payments", Partitions: 3, Key: "card"})
	for i := range 500 {
		card, device := fmt.Sprintf("c%02d", i*7919%101%50), ""
		if i%3 > 0 {
			device = fmt.Sprintf(`,"device":"d%d"`, i%5)
		}
		appended(t, log, record("payments", card, fmt.Sprintf(`{"card":%q,"shop":"s%d","amount":%d,"at":%d%s}`, card, i%7, i%37, nine+int64(i)*300, device)))
	}
	goesOn(t, log)
	return log
}

// TestStagesOfOtherFieldsAreCompared flips bits of what the stage of shops keeps, and of the
// state of cards: each is found, and named by its feature and key.
func TestStagesOfOtherFieldsAreCompared(t *testing.T) {
	log := byLog(t)
	if r := checked(t, log, "100%"); r.Differences != 0 || r.Keys != 50+7+5 || r.Events != 500 || r.Outputs != 500 || r.Entries < 62 || len(r.Notes) != 0 {
		t.Fatalf("%+v %+v", r, r.First)
	}
	if r := checked(t, log, "20%"); r.Differences != 0 || r.Keys < 3 || r.Keys > 30 {
		t.Errorf("%+v %+v", r, r.First)
	}
	for _, c := range []struct{ topic, key, names string }{
		{"payments.by-shop", "s3", "seen.count_1h seen.sum_1h past.sum_1h"}, {"payments.by-device", "d2", "phone.count_1h"}, {"payments.repartition", "c07", "spend.count_1m spend.sum_1m"},
	} {
		t.Run(c.topic, func(t *testing.T) {
			named := false
			for at := range 6 {
				bit := byte(1) << (at % 8)
				stored := flipOne(t, log, append(statekey.Header(0), c.key...), c.topic, at, bit)
				r := checked(t, log, "100%")
				if r.Differences == 0 || r.First.Key != c.key || r.First.ID != "" || !strings.HasPrefix(r.First.Event, "payments/") {
					t.Fatalf("byte %d of %q: %+v", at, stored, r.First)
				}
				for name := range r.Names {
					named = named || strings.Contains(c.names, name)
				}
				flipOne(t, log, stored, c.topic, at, bit)
			}
			if !named {
				t.Errorf("no bit was named by one of %s", c.names)
			}
		})
	}
}

// TestForcedEventsAreComputedWhereTheyWereLive has the events of a partition come when the others
// had their turn. Nothing differs, of the pipeline or of its stages. Without the copies events
// differ, and a note says why.
func TestForcedEventsAreComputedWhereTheyWereLive(t *testing.T) {
	log := newLog(t, strings.Replace(byShops, "lateness: 10s", "lateness: 10s, late: include, idle: 100ms", 1), stream.Topic{Name: "payments", Partitions: 3, Key: "card"})
	for _, silent := range []bool{false, true} {
		for i := range 500 {
			card := fmt.Sprintf("c%02d", i*7919%101%50)
			if stream.Place([]byte(card), 3) == 1 == silent {
				appended(t, log, record("payments", card, fmt.Sprintf(`{"card":%q,"shop":"s%d","device":"d%d","amount":%d,"at":%d}`, card, i%7, i%5, i%37, nine+int64(i)*300)))
			}
		}
		goesOn(t, log)
	}
	directory := inspect.NewLocal(log, nil, nil, nil)
	for _, name := range []string{"payments", "payments.by-shop", "payments.by-device"} {
		if n, err := inspect.ForcedEvents(t.Context(), directory, name); err != nil || n < 100 {
			t.Errorf("%s: %d events were forced, %v", name, n, err)
		}
	}
	if r := checked(t, log, "100%"); r.Differences != 0 || r.Events != 500 || r.Outputs != 500 || r.Entries < 62 || len(r.Notes) != 0 {
		t.Errorf("%+v %+v", r, r.First)
	}
	copies := goneTopic{directory, "payments.by-shop"}
	if r := checkedIn(t, copies, "100%"); r.Differences == 0 || len(r.Notes) != 1 || !strings.Contains(r.Notes[0], "events were forced") || !strings.Contains(r.Notes[0], "repartition topic payments.by-shop was deleted") {
		t.Errorf("%+v", r)
	}
}

// goneTopic is a directory that lacks a topic.
type goneTopic struct {
	inspect.Directory
	name string
}

// List implements inspect.Directory.
func (g goneTopic) List(ctx context.Context) ([]inspect.Topic, error) {
	topics, err := g.Directory.List(ctx)
	return slices.DeleteFunc(topics, func(t inspect.Topic) bool { return t.Name == g.name }), err
}
