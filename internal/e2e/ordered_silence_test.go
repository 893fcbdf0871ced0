package e2e_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/afterbay/afterbay/internal/event/header"
	"github.com/afterbay/afterbay/internal/log/memory"
	"github.com/afterbay/afterbay/internal/pipeline"
	"github.com/afterbay/afterbay/internal/state/order"
	"github.com/afterbay/afterbay/internal/test/eventtime"
	"github.com/afterbay/afterbay/stream"
)

// sparse are payments of which some partitions have few: they are silent for most of the time.
func sparse(seed uint64, n int) []eventtime.Event {
	random := rand.New(rand.NewPCG(seed, 5))
	next := [4]int64{}
	events := eventtime.Payments(seed, n, 4)
	for i := range events {
		e := &events[i]
		e.Text["merchant"] = "m" + e.Text["merchant"][len(e.Text["merchant"])-1:] // few, so that their events meet
		if e.Partition = 0; random.IntN(20) == 0 {
			e.Partition = 1 + random.IntN(3)
		}
		e.Offset = next[e.Partition]
		next[e.Partition]++
	}
	return events
}

// TestSilenceForcesNothingThatComesInTime has partitions that are silent for long. An event that
// comes up to idle after it happened is in its order. The commits of the repartitioner and of
// what reads are in it.
func TestSilenceForcesNothingThatComesInTime(t *testing.T) {
	for seed := range uint64(6) {
		s := orderedSettings{members: 1 + int(seed%4), partitions: []int{1, 4, 7}[seed%3], interval: 5 * time.Millisecond, idle: "400ms"}
		t.Run(fmt.Sprint("seed=", seed), func(t *testing.T) {
			livePayments(t, orderedMerchants, s, sparse(seed, *orderedEvents/4))
		})
	}
}

// TestForcedEventsAreThereOnceAndTheSameAgain has events that come long after the silence of
// their partition was over. Each is there once, those that were moved back are counted, and
// the same repartition topic in other steps gives the same bytes.
func TestForcedEventsAreThereOnceAndTheSameAgain(t *testing.T) {
	total := uint64(0)
	for seed := range uint64(6) {
		synctest.Test(t, func(t *testing.T) {
			log := memory.New(memory.Options{})
			s := orderedSettings{members: 1 + int(seed%4), partitions: 4, interval: 5 * time.Millisecond, idle: "200ms"}
			text := strings.ReplaceAll(orderedMerchants, "lateness: 5s", "lateness: 5s, late: include")
			o := startOrdered(t, log, text, s)
			events := sparse(seed, *orderedEvents/4)
			events = shifted(events, time.Now().UnixMilli()*1000-events[0].Time)
			err := o.while(t.Context(), func(ctx context.Context) error {
				return errors.Join(arrive(ctx, log, events, seed, 2*time.Second), o.idle(ctx))
			})
			if err != nil {
				t.Fatalf("seed %d: %v", seed, err)
			}
			different := untrue(t, log, "merchants-rows", "merchant", events) // which sees that each event is there once
			if total += o.forced(); different > 0 && o.forced() == 0 {
				t.Errorf("seed %d: %d rows differ from event-time truth, and no event was forced", seed, different)
			}
			for _, batch := range []int{1, 7, 1000} {
				s.batch, s.members = batch, 1+batch%3
				if d := replayed(t, log, text, s).difference(o.answer(t)); d != "" {
					t.Fatalf("seed %d, steps of %d: %s", seed, batch, d)
				}
			}
			t.Logf("seed %d: %d events forced, %d rows differ from event-time truth", seed, o.forced(), different)
			if err := log.Close(); err != nil {
				t.Fatal(err)
			}
		})
	}
	if total == 0 {
		t.Error("no event was forced")
	}
}

// replayed runs a pipeline over the repartition topic of a log, whose sources are empty. Events
// that closed adds are left out: nothing is behind them.
func replayed(t *testing.T, log stream.Log, text string, s orderedSettings) *orderedAnswer {
	t.Helper()
	s.idle = "never"
	again := memory.New(memory.Options{})
	o := startOrdered(t, again, text, s)
	topic := o.runners[0].Plan.Topic
	records := slices.DeleteFunc(recordsIn(t, log, topic), func(r stream.Record) bool { return isClosing(&r) })
	for i := range records {
		records[i].Offset = 0
	}
	read := func(ctx context.Context) error {
		for {
			left := stream.Offset(0)
			for i := range int32(s.partitions) {
				p := stream.Partition{Topic: topic, Index: i}
				_, next, err := again.Offsets(ctx, p)
				committed, errCommitted := again.Committed(ctx, o.runners[0].Name(), p)
				if err := errors.Join(err, errCommitted); err != nil {
					return err
				}
				left += next - committed
			}
			if left == 0 {
				return nil
			}
			select {
			case <-time.After(time.Millisecond):
			case <-ctx.Done():
				return ctx.Err()
			}
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Hour) // virtual
	defer cancel()
	if err := errors.Join(again.Append(ctx, records...), o.while(ctx, read)); err != nil {
		t.Fatal(err)
	}
	a := o.answer(t)
	if err := again.Close(); err != nil {
		t.Fatal(err)
	}
	return a
}

// skewed are payments of which 20 of 21 are in one partition.
func skewed(n int) []eventtime.Event {
	events := eventtime.Payments(3, n, 4)
	next := [4]int64{}
	for i := range events {
		e := &events[i]
		if e.Partition = 0; i%21 == 0 {
			e.Partition = 1 + i/21%3
		}
		e.Offset = next[e.Partition]
		next[e.Partition]++
	}
	return events
}

// heldMax bounds how many records of a repartition topic wait, with marks and what steps add.
const heldMax = 1<<16 + 1<<14

// readEvents counts the events of a repartition topic that a pipeline read.
type readEvents struct {
	stream.Log
	stream.Inspector
	topic string
	count atomic.Int64
}

func (l *readEvents) Join(ctx context.Context, group string, topics ...string) (stream.Member, error) {
	m, err := l.Log.Join(ctx, group, topics...)
	if err != nil || !slices.Contains(topics, l.topic) {
		return m, err
	}
	return &eventsReader{m, l}, nil
}

type eventsReader struct {
	stream.Member
	log *readEvents
}

func (m *eventsReader) Poll(ctx context.Context, limit int) (stream.Batch, error) {
	batch, err := m.Member.Poll(ctx, limit)
	for i := range batch.Records {
		if _, ok := order.KeyOf(&batch.Records[i]); ok {
			m.log.count.Add(1)
		}
	}
	return batch, err
}

// held returns how many events were read and are not in a step.
func (l *readEvents) held(ctx context.Context, r *pipeline.Runner, partitions int32) (n int, err error) {
	released := stream.Offset(0)
	for i := range partitions {
		state, errState := l.State(ctx, r.Name(), stream.Partition{Topic: l.topic, Index: i})
		if errState != nil {
			return 0, errState
		}
		next, errNext := order.Committed(state)
		released, err = released+next, errors.Join(err, errNext)
	}
	return int(l.count.Load()) - int(released), err
}

// TestSkewedSourcesHoldLittle has a partition with 20 times the events of the others, which are
// ahead of it. What is held of them is bounded, and nothing is forced.
func TestSkewedSourcesHoldLittle(t *testing.T) {
	events := skewed(min(20**orderedEvents, 400_000))
	inner := memory.New(memory.Options{})
	o := startOrdered(t, inner, orderedMerchants, orderedSettings{members: 1, partitions: 4, interval: 5 * time.Millisecond, idle: "100ms"})
	log := &readEvents{Log: inner, Inspector: inner, topic: o.runners[0].Plan.Topic}
	o.log = log
	var records []stream.Record
	for p := 3; p >= 0; p-- { // so that the partition with most is read last
		for _, r := range paymentRecords(events) {
			if int(r.Partition.Index) == p {
				records = append(records, r)
			}
		}
	}
	if err := inner.Append(t.Context(), records...); err != nil {
		t.Fatal(err)
	}
	waiting, held := 0, 0
	err := o.while(t.Context(), func(ctx context.Context) error {
		watching, stop := context.WithCancel(ctx)
		done := make(chan error, 2)
		go func() { done <- watchHeld(watching, inner, o.runners[0], 4, &waiting) }()
		go func() {
			for watching.Err() == nil {
				n, err := log.held(context.WithoutCancel(watching), o.runners[0], 4)
				if err != nil {
					done <- err
					return
				}
				held = max(held, n)
				time.Sleep(5 * time.Millisecond)
			}
			done <- nil
		}()
		err := o.idle(ctx)
		stop()
		return errors.Join(err, <-done, <-done)
	})
	if err != nil {
		t.Fatal(err)
	}
	if got := len(recordsIn(t, inner, "merchants-rows")); got != len(events) {
		t.Errorf("%d rows of %d events", got, len(events))
	}
	t.Logf("%d events: at most %d were read and in no step, and %d records behind the oldest of them", len(events), held, waiting)
	if held > heldMax {
		t.Errorf("%d events were held, want at most %d", held, heldMax)
	}
	if n := o.forced(); n != 0 {
		t.Errorf("%d events were forced", n)
	}
}

// watchHeld notes how many records of the repartition topic were not committed, at most.
func watchHeld(ctx context.Context, log *memory.Log, r *pipeline.Runner, partitions int32, most *int) error {
	for ctx.Err() == nil {
		left := stream.Offset(0)
		for i := range partitions {
			p := stream.Partition{Topic: r.Plan.Topic, Index: i}
			committed, err := log.Committed(ctx, r.Name(), p) // before the end, so that no more are seen than wait
			_, next, errNext := log.Offsets(ctx, p)
			if err := errors.Join(err, errNext); err != nil && ctx.Err() == nil {
				return err
			}
			left += next - committed
		}
		*most = max(*most, int(left))
		time.Sleep(2 * time.Millisecond)
	}
	return nil
}

// TestASourceThatStandsStillIsWaitedFor has a partition whose events come a minute after those
// of the others, although it is not silent: `idle` is never. What waits is bounded, and then
// all rows are event-time truth.
func TestASourceThatStandsStillIsWaitedFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		events := eventtime.Payments(4, min(30**orderedEvents, 300_000), 4)
		events = shifted(events, time.Now().Add(-25*time.Hour).UnixMilli()*1000-events[len(events)-1].Time)
		records := closed(paymentRecords(events), 4)
		log := memory.New(memory.Options{})
		o := startOrdered(t, log, orderedMerchants, orderedSettings{members: 2, partitions: 4, interval: 5 * time.Millisecond, idle: "never"})
		var late, soon []stream.Record
		for _, r := range records {
			if r.Partition.Index == 2 {
				late = append(late, r)
			} else {
				soon = append(soon, r)
			}
		}
		virtual, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		err := o.while(virtual, func(ctx context.Context) error {
			if err := log.Append(ctx, soon...); err != nil {
				return err
			}
			time.Sleep(time.Minute) // virtual
			if n := len(recordsIn(t, log, "merchants-rows")); n != 0 {
				t.Errorf("%d rows before the last partition said anything", n)
			}
			most := 0
			watching, stop := context.WithTimeout(ctx, 5*time.Millisecond)
			defer stop()
			if err := watchHeld(watching, log, o.runners[0], 4, &most); err != nil {
				return err
			}
			if t.Logf("%d records wait", most); most > heldMax {
				t.Errorf("%d records wait, want at most %d", most, heldMax)
			}
			if err := log.Append(ctx, late...); err != nil {
				return err
			}
			for o.answer(t).total < len(events) && ctx.Err() == nil {
				time.Sleep(time.Second)
			}
			return ctx.Err()
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

// rowsOf are the values of the rows of each merchant, in their order.
func rowsOf(t *testing.T, log stream.Log, topic string) map[string][]string {
	t.Helper()
	rows := map[string][]string{}
	for _, r := range recordsIn(t, log, topic) {
		rows[string(r.Key)] = append(rows[string(r.Key)], string(r.Value))
	}
	return rows
}

// elsewhere puts events into other partitions of their topics, at random.
func elsewhere(seed uint64, events []eventtime.Event, partitions int) []eventtime.Event {
	random := rand.New(rand.NewPCG(seed, 12))
	events = slices.Clone(events)
	for i := range events {
		events[i].Partition = random.IntN(partitions)
	}
	return events
}

// TestWhatMeansTheSameChangesNothing changes what has no meaning: the order of the inputs in
// the file, the hour, partitions that are added, and the partition of an event, where no other
// one has its time.
func TestWhatMeansTheSameChangesNothing(t *testing.T) {
	events := twoTopics(eventtime.Payments(6, *orderedEvents/2, 4))
	for i := range events[1:] {
		events[i+1].Time = max(events[i+1].Time, events[i].Time+eventtime.Millisecond)
	}
	rows := func(text string, events []eventtime.Event) map[string][]string {
		var found map[string][]string
		synctest.Test(t, func(t *testing.T) {
			log := memory.New(memory.Options{})
			events := shifted(events, time.Now().UnixMilli()/3_600_000*3_600_000*1000-events[len(events)-1].Time/eventtime.Hour*eventtime.Hour)
			o := startOrdered(t, log, text, orderedSettings{members: 2, partitions: 4, interval: 5 * time.Millisecond, idle: "100ms"})
			time.Sleep(3 * time.Hour) // so that no event is ahead of the clock
			if err := errors.Join(log.Append(t.Context(), paymentRecords(events)...), o.backlog(t.Context())); err != nil {
				t.Fatal(err)
			}
			if n := o.forced(); n != 0 {
				t.Errorf("%d events were forced", n)
			}
			found = rowsOf(t, log, "merchants-rows")
			_ = log.Close()
		})
		return found
	}
	values := strings.Replace(orderedTopics, "amount, ts, f.*", "f.*", 1)
	want := rows(values, events)
	lines := strings.SplitAfter(values, "\n")
	lines[2], lines[3] = strings.Replace(lines[3], "key: merchant", "key: merchant, repartition: REPARTITION", 1), strings.Replace(lines[2], " repartition: REPARTITION,", "", 1)
	more := strings.NewReplacer("partitions: 3", "partitions: 5", "partitions: 2", "partitions: 6").Replace(values)
	for name, got := range map[string]map[string][]string{
		"inputs in another order": rows(strings.Join(lines, ""), events),
		"an hour later":           rows(values, shifted(events, eventtime.Hour)),
		"empty partitions":        rows(more, events),
		"more partitions":         rows(more, elsewhere(1, events, 5)),
		"other partitions":        rows(values, elsewhere(2, events, 2)),
	} {
		for _, merchant := range slices.Sorted(maps.Keys(want)) {
			if !slices.Equal(got[merchant], want[merchant]) {
				t.Errorf("%s: the rows of %s are\n%s, want\n%s", name, merchant, got[merchant], want[merchant])
				break
			}
		}
	}
}

// TestLateIsWhatItsOwnPartitionSays has a partition far ahead of another one. An event is late
// behind those of its own partition alone.
func TestLateIsWhatItsOwnPartitionSays(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := memory.New(memory.Options{})
		o := startOrdered(t, log, orderedMerchants, orderedSettings{members: 1, partitions: 1, interval: 5 * time.Millisecond, idle: "100ms"})
		now := time.Now().Add(-time.Hour)
		var records []stream.Record
		for i, c := range []struct{ partition, second int }{{0, 600}, {1, 0}, {1, 7}, {1, 1}, {1, 2}, {0, 595}, {0, 594}} {
			at := now.Add(time.Duration(c.second) * time.Second)
			e := eventtime.Event{ID: fmt.Sprint("t", i), Time: at.UnixMicro(), Text: map[string]string{"card": "c", "merchant": "m"}, Number: map[string]float64{"amount": 1}}
			records = append(records, stream.Record{Partition: stream.Partition{Topic: "payments", Index: int32(c.partition)}, Key: []byte("c"), Value: e.JSON(), Time: at})
		}
		if err := errors.Join(log.Append(t.Context(), records...), o.while(t.Context(), o.idle)); err != nil {
			t.Fatal(err)
		}
		var ids, letters []string
		for _, r := range recordsIn(t, log, "merchants-rows") {
			ids = append(ids, header.Get(&r, header.Position))
		}
		for _, r := range recordsIn(t, log, "merchants.dlq") {
			letters = append(letters, header.Get(&r, header.Position)+" "+header.Get(&r, header.Stage))
		}
		want := "[payments/1@0 payments/1@1 payments/1@3 payments/0@0 payments/0@1] [payments/1@2 late payments/0@2 late]"
		if got := fmt.Sprint(ids, " ", letters); got != want {
			t.Errorf("got %s, want %s", got, want)
		}
		_ = log.Close()
	})
}

// TestAClockAYearAheadHoldsNothing has producers with wrong clocks, which say the time of the event
// and of the append. An event that is ahead by less than max_ahead is where the repartitioner's
// clock is. One of a year later is a dead letter: in the windows of its key, it would end those of
// all later events. No other one is late, none is forced, and nothing stands still.
func TestAClockAYearAheadHoldsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		events := shifted(eventtime.Payments(8, 400, 4), 0)
		for i := range events {
			events[i].Text["merchant"] = "m"
		}
		log := memory.New(memory.Options{})
		o := startOrdered(t, log, orderedMerchants, orderedSettings{members: 2, partitions: 4, interval: 5 * time.Millisecond, idle: "1s"})
		events = shifted(events, time.Now().UnixMilli()*1000-events[0].Time)
		err := o.while(t.Context(), func(ctx context.Context) error {
			if err := arrive(ctx, log, events[:200], 1, 300*time.Millisecond); err != nil {
				return err
			}
			events[200].Text["merchant"] = "of the next hour" // its windows are of its own time
			wrong := append(shifted(events[200:201], 50*eventtime.Minute), shifted(events[201:202], 365*24*eventtime.Hour)...)
			if err := log.Append(ctx, paymentRecords(wrong)...); err != nil {
				return err
			}
			return errors.Join(arrive(ctx, log, events[202:], 2, 300*time.Millisecond), o.idle(ctx))
		})
		if err != nil {
			t.Fatal(err)
		}
		if c := o.runners[0].Counts(); c.Late != 0 || c.DeadLetters != 1 || c.Outputs != 399 || o.forced() != 0 {
			t.Errorf("%d late events, %d dead letters, %d forced, %d rows of 399", c.Late, c.DeadLetters, o.forced(), c.Outputs)
		}
		for _, r := range recordsIn(t, log, "merchants.dlq") {
			if text := header.Get(&r, header.Error); !strings.Contains(text, "max_ahead is 1h") || header.Get(&r, header.Stage) != "time" {
				t.Errorf("the letter says %q", text)
			}
		}
		in := slices.DeleteFunc(events, func(e eventtime.Event) bool { return e.ID == events[201].ID })
		if n := untrue(t, log, "merchants-rows", "merchant", in); n != 0 {
			t.Errorf("%d rows differ from event-time truth", n)
		}
		_ = log.Close()
	})
}

// TestSilenceBeyondTheBudgetIsAWarning has pipelines whose events may wait for a silent partition
// longer, and not longer, than they may take.
func TestSilenceBeyondTheBudgetIsAWarning(t *testing.T) {
	for words, want := range map[string]string{
		"":                                    "input.time.idle: events wait up to 1s (idle), 0s (wait)",
		"idle: 100ms":                         "",
		"idle: 400ms, lateness: 1s, wait: 1s": "input.time.idle: events wait up to 400ms (idle), 1s (wait)",
		"idle: never":                         "input.time.idle: with never, events wait without limit",
		"order: arrival":                      "",
	} {
		runner, err := builtinOf("pipeline: p\ninput: {topic: payments, key: shop, repartition: 2, time: {field: at, unit: rfc3339, " + words + "}, fields: {shop: string, at: time}}\n" +
			"steps: [features: {seen: {windows: [1m], aggregates: [count]}}, emit: {topic: counts, value: [seen.*]}]\nbudget: {p99: 500ms}\n")
		if err != nil {
			t.Fatal(err)
		}
		list := slices.DeleteFunc(slices.Clone(runner.Warnings), func(w string) bool { return !strings.Contains(w, ".idle") })
		if (want == "") != (len(list) == 0) || want != "" && !strings.HasPrefix(list[0], want) {
			t.Errorf("%q: warnings %q, want %q", words, list, want)
		}
	}
}
