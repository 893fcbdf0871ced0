package e2e_test

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/afterbay/afterbay/internal/config"
	"github.com/afterbay/afterbay/internal/log/memory"
	"github.com/afterbay/afterbay/internal/pipeline"
	"github.com/afterbay/afterbay/internal/process/builtin"
	"github.com/afterbay/afterbay/internal/test/eventtime"
	"github.com/afterbay/afterbay/stream"
	"github.com/afterbay/afterbay/udf"
)

var orderedEvents = flag.Int("ordered.events", 2000, "payments whose features by merchant are compared with event-time truth")

// The pipelines of ordered runs. REPARTITION stands for partitions, and IDLE for how long a
// partition is silent before the others do not wait for it.
const (
	orderedMerchants = `pipeline: merchants
input: {topic: payments, partitions: 4, key: merchant, repartition: REPARTITION, time: {field: ts, unit: ms, lateness: 5s, idle: IDLE}, ` + fieldsOfPayments + `}
steps:
  - features: {f: {value: amount, windows: [10m], aggregates: [sum, count]}}
  - emit: {topic: merchants-rows, value: [id, card, merchant, amount, ts, f.*]}
`
	// An event comes here when the pipeline above has waited for silent partitions, for a second
	// in the live runs. So this one has to wait for longer.
	orderedCards = `---
pipeline: cards
input: {topic: merchants-rows, key: card, repartition: REPARTITION, time: {field: ts, unit: ms, lateness: 5s, idle: 3s}, ` + fieldsOfPayments + `}
steps:
  - features: {f: {value: amount, windows: [10m], aggregates: [sum, count]}}
  - emit: {topic: cards-rows, value: [id, f.*]}
`
	orderedTopics = `pipeline: merchants
inputs:
  - {topic: shop, partitions: 3, key: merchant, repartition: REPARTITION, time: {field: ts, unit: ms, lateness: 5s, idle: IDLE}, ` + fieldsOfPayments + `}
  - {topic: web, partitions: 2, key: merchant, time: {field: ts, unit: ms, lateness: 5s, idle: IDLE}, ` + fieldsOfPayments + `}
steps:
  - features: {f: {value: amount, windows: [10m], aggregates: [sum, count]}}
  - emit: {topic: merchants-rows, value: [id, card, merchant, amount, ts, f.*]}
`
)

// orderedRun is pipelines about to run over a log, upstream first.
type orderedRun struct {
	runners  []*pipeline.Runner
	log      stream.Log
	features bool // their state is compared too
}

// orderedSettings say how pipelines run. What they say makes no difference to what is computed.
type orderedSettings struct {
	members, partitions, batch int
	held                       int64 // bytes in memory; 0 is the default
	interval                   time.Duration
	idle                       string
	fault                      func(stage string)
	functions                  map[string]udf.Function
	logger                     *slog.Logger
	features                   bool
}

// newOrdered makes the pipelines of a text, without their topics.
func newOrdered(text string, s orderedSettings) (list []*pipeline.Runner, err error) {
	text = strings.NewReplacer("REPARTITION", fmt.Sprint(s.partitions), "IDLE", s.idle).Replace(text)
	file, err := config.Parse("p.yaml", []byte(text), builtin.Kinds())
	if err != nil {
		return nil, err
	}
	for i, p := range file.Pipelines {
		p.Commit.Interval, p.Commit.Size, p.Code.Functions = s.interval, s.batch, s.functions
		runner, err := builtin.New(p, pipeline.Options{Members: s.members, HeldBytes: s.held, Fault: s.fault, Logger: s.logger})
		if err != nil {
			return nil, file.Explain(i, err)
		}
		list = append(list, runner)
	}
	if _, found := pipeline.Chain(list); len(found) > 0 {
		return nil, fmt.Errorf("%v", found)
	}
	return list, nil
}

func startOrdered(t *testing.T, log stream.Log, text string, s orderedSettings) orderedRun {
	t.Helper()
	runners, err := newOrdered(text, s)
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range runners {
		if err := r.CreateTopics(t.Context(), log); err != nil {
			t.Fatal(err)
		}
	}
	return orderedRun{runners, log, s.features}
}

// while runs the pipelines until do returns. Its context ends with a run.
func (o orderedRun) while(ctx context.Context, do func(ctx context.Context) error) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	group, running := errgroup.WithContext(ctx)
	for _, r := range o.runners {
		group.Go(func() error { return r.Run(running, o.log) })
	}
	err := do(running)
	cancel()
	return errors.Join(group.Wait(), err)
}

// backlog runs the pipelines one after the other, each over all that is there. If they ran at
// once, partitions of a topic between them would be silent until there is something in them.
func (o orderedRun) backlog(ctx context.Context) (err error) {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Minute)
	defer cancel()
	for i := range o.runners {
		alone := orderedRun{runners: o.runners[i : i+1], log: o.log}
		err = errors.Join(err, alone.while(ctx, alone.idle))
	}
	return err
}

// idle waits until all that is in the inputs is committed.
func (o orderedRun) idle(ctx context.Context) error {
	for _, r := range o.runners {
		if err := r.WaitIdle(ctx, o.log); err != nil {
			return err
		}
	}
	return nil
}

// heldBounds are of the events in memory that wait for their turn: the default, which they do
// not reach, a few events and none. Others become state.
var heldBounds = [3]int64{0, 64 << 10, 1}

// spilled returns how many events became state.
func (o orderedRun) spilled() (n uint64) {
	for _, r := range o.runners {
		n += r.Counts().Spilled
	}
	return n
}

// mustSpill sees that events became state where the bound says so. In a backlog of many a few
// are too many, too.
func (o orderedRun) mustSpill(t *testing.T, held int64) {
	t.Helper()
	if n := o.spilled(); (n > 0) != (held == 1) && (held == 0 || held == 1) {
		t.Errorf("%d events became state, with a bound of %d bytes", n, held)
	}
}

// forced returns how many events came when their turn was over.
func (o orderedRun) forced() (n uint64) {
	for _, r := range o.runners {
		n += r.Counts().Forced
	}
	return n
}

// paymentRecords returns the records of events, each in its partition.
func paymentRecords(events []eventtime.Event) (records []stream.Record) {
	for _, e := range events {
		records = append(records, stream.Record{
			Partition: stream.Partition{Topic: e.Topic, Index: int32(e.Partition)}, Key: []byte(e.Text["card"]), Value: e.JSON(), Time: time.UnixMicro(e.Time),
		})
	}
	return records
}

// twoTopics puts a part of the payments into each of two topics with other partitions.
func twoTopics(events []eventtime.Event) []eventtime.Event {
	next := map[string]int64{}
	var list []eventtime.Event
	for i, e := range events {
		e.Topic, e.Partition = "shop", i*7%11%3
		if i%5 < 2 {
			e.Topic, e.Partition = "web", i%2
		}
		of := fmt.Sprint(e.Topic, e.Partition)
		e.Offset = next[of]
		next[of]++
		list = append(list, e)
	}
	return list
}

// recordsIn returns the records of all partitions of a topic.
func recordsIn(t *testing.T, log stream.Log, topic string) (records []stream.Record) {
	t.Helper()
	topics, err := log.Topics(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, known := range topics {
		for i := int32(0); i < known.Partitions && known.Name == topic; i++ {
			records = append(records, readPartition(t, log, stream.Partition{Topic: topic, Index: i})...)
		}
	}
	return records
}

// untrue returns how many rows of a topic differ from event-time truth.
func untrue(t *testing.T, log stream.Log, topic, by string, events []eventtime.Event) (different int) {
	t.Helper()
	return untrueOf(t, log, topic, by, eventtime.Order(events, eventtime.Rule{}))
}

// untrueOf is untrue of events in an order. Each has to have one row.
func untrueOf(t *testing.T, log stream.Log, topic, by string, order []eventtime.Placed) (different int) {
	t.Helper()
	sum := eventtime.Feature{By: by, Value: "amount", Window: 10 * eventtime.Minute, Aggregate: "sum"}
	count := sum
	count.Aggregate = "count"
	truth, seen := eventtime.Rows(order, sum, count), map[string]bool{}
	for _, r := range recordsIn(t, log, topic) {
		var row struct {
			ID    string  `json:"id"`
			Sum   float64 `json:"f_sum_10m"`
			Count float64 `json:"f_count_10m"`
		}
		if isClosing(&r) {
			continue
		}
		if err := json.Unmarshal(r.Value, &row); err != nil || seen[row.ID] || truth[row.ID] == nil {
			t.Fatalf("%s: %s occurs twice, or of no event: %v", topic, r.Value, err)
		}
		seen[row.ID] = true
		if fmt.Sprint([]float64{row.Sum, row.Count}) != fmt.Sprint(truth[row.ID]) {
			different++
		}
	}
	if len(seen) != len(order) {
		t.Fatalf("%s has %d rows of %d events", topic, len(seen), len(order))
	}
	return different
}

// mustBeTrue compares what pipelines made of payments with a sort of the sources.
func (o orderedRun) mustBeTrue(t *testing.T, events []eventtime.Event) {
	t.Helper()
	if n := untrue(t, o.log, "merchants-rows", "merchant", events); n != 0 {
		t.Errorf("%d of %d rows by merchant differ from event-time truth", n, len(events))
	}
	if len(o.runners) > 1 {
		if n := untrue(t, o.log, "cards-rows", "card", events); n != 0 {
			t.Errorf("%d of %d rows by card differ from event-time truth", n, len(events))
		}
	}
	if n := o.forced(); n != 0 {
		t.Errorf("%d events were forced", n)
	}
	for _, r := range o.runners {
		if c := r.Counts(); c.Late != 0 || c.DeadLetters != 0 {
			t.Errorf("%s: %d late events, %d dead letters", r.Name(), c.Late, c.DeadLetters)
		}
	}
}

// TestOrderedRowsAreEventTimeTruth has features by another key than that of the records, of one
// topic and of two, and a chain by a third key. Each row is that of a sort of the sources,
// whatever the members and partitions, of a backlog and of events that come as they happen.
func TestOrderedRowsAreEventTimeTruth(t *testing.T) {
	const seed = 1
	one := eventtime.Payments(seed, *orderedEvents, 4)
	two := twoTopics(one)
	for members := 1; members <= 4; members++ {
		for i, partitions := range []int{1, 4, 7} {
			text, events := orderedMerchants+orderedCards, one
			if (members+i)%3 == 0 {
				text, events = orderedTopics+orderedCards, two
			}
			s := orderedSettings{members: members, partitions: partitions, held: heldBounds[(members+i)%3], interval: 5 * time.Millisecond, idle: "100ms"}
			name := fmt.Sprintf("members=%d/partitions=%d/%s", members, partitions, events[0].Topic)
			t.Run("backlog/"+name, func(t *testing.T) {
				backlogOfPayments(t, text, s, events)
			})
			t.Run("live/"+name, func(t *testing.T) {
				s := s
				s.idle = "1s"
				livePayments(t, text, s, events)
			})
		}
	}
}

// backlogOfPayments has all payments be there at the beginning.
func backlogOfPayments(t *testing.T, text string, s orderedSettings, events []eventtime.Event) {
	synctest.Test(t, func(t *testing.T) {
		log := memory.New(memory.Options{})
		o := startOrdered(t, log, text, s)
		events := shifted(events, time.Now().UnixMilli()*1000-events[len(events)-1].Time)
		if err := errors.Join(log.Append(t.Context(), paymentRecords(events)...), o.backlog(t.Context())); err != nil {
			t.Fatal(err)
		}
		o.mustBeTrue(t, events)
		o.mustSpill(t, s.held)
		if err := log.Close(); err != nil {
			t.Fatal(err)
		}
	})
}

// livePayments appends payments when they happen, each up to 300 ms later, in virtual time.
func livePayments(t *testing.T, text string, s orderedSettings, events []eventtime.Event) {
	synctest.Test(t, func(t *testing.T) {
		log := memory.New(memory.Options{})
		o := startOrdered(t, log, text, s)
		events := shifted(events, time.Now().UnixMilli()*1000-events[0].Time)
		err := o.while(t.Context(), func(ctx context.Context) error {
			return errors.Join(arrive(ctx, log, events, 1, 300*time.Millisecond), o.idle(ctx))
		})
		if err != nil {
			t.Fatal(err)
		}
		o.mustBeTrue(t, events)
		if err := log.Close(); err != nil {
			t.Fatal(err)
		}
	})
}

// shifted moves the times of events.
func shifted(events []eventtime.Event, by int64) []eventtime.Event {
	events = slices.Clone(events)
	for i := range events {
		if events[i].Time += by; events[i].Appended != 0 {
			events[i].Appended += by
		}
	}
	return events
}

// arrive appends each event at its time and up to a transit later. Those of a partition stay
// in their order.
func arrive(ctx context.Context, log stream.Log, events []eventtime.Event, seed uint64, transit time.Duration) error {
	type arrival struct {
		record stream.Record
		at     time.Time
	}
	random, last := rand.New(rand.NewPCG(seed, 9)), map[stream.Partition]time.Time{}
	var list []arrival
	for _, r := range paymentRecords(events) {
		at := r.Time.Add(time.Duration(random.Int64N(int64(transit))))
		if at.Before(last[r.Partition]) {
			at = last[r.Partition]
		}
		last[r.Partition] = at
		r.Time = at
		list = append(list, arrival{r, at})
	}
	slices.SortStableFunc(list, func(a, b arrival) int { return a.at.Compare(b.at) })
	for _, a := range list {
		time.Sleep(time.Until(a.at))
		if err := log.Append(ctx, a.record); err != nil {
			return err
		}
	}
	return nil
}
