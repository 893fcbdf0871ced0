package e2e_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/afterbay/afterbay/internal/event/header"
	"github.com/afterbay/afterbay/internal/naming"
	"github.com/afterbay/afterbay/internal/state/order"
	"github.com/afterbay/afterbay/internal/test/eventtime"
	"github.com/afterbay/afterbay/stream"
)

// openTransaction begins a transaction of a producer that writes records and does not end it.
// End commits it, or aborts it.
func openTransaction(t *testing.T, records []stream.Record) (end func(kgo.TransactionEndTry)) {
	t.Helper()
	client, err := kgo.NewClient(kgo.SeedBrokers(realKafka.Get(t).Addresses()...), kgo.TransactionalID(t.Name()),
		kgo.TransactionTimeout(10*time.Minute), kgo.RecordPartitioner(kgo.ManualPartitioner()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	err = client.BeginTransaction()
	for _, r := range records {
		err = errors.Join(err, client.ProduceSync(t.Context(), &kgo.Record{Topic: r.Partition.Topic, Partition: r.Partition.Index, Key: r.Key, Value: r.Value, Timestamp: r.Time}).FirstErr())
	}
	if err != nil {
		t.Fatal(err)
	}
	return func(how kgo.TransactionEndTry) {
		t.Helper()
		if err := client.EndTransaction(t.Context(), how); err != nil {
			t.Error(err)
		}
	}
}

// TestAHungTransactionOfAProducerIsWaitedFor has a producer that does not end its transaction on
// a source partition of a real broker. What is behind it cannot be read. So that partition is
// not silent: the order waits for it, however short idle is, and forces nothing. The other
// partitions are copied meanwhile. What an aborted transaction wrote is not there.
func TestAHungTransactionOfAProducerIsWaitedFor(t *testing.T) {
	for how, name := range map[kgo.TransactionEndTry]string{kgo.TryCommit: "committed", kgo.TryAbort: "aborted"} {
		t.Run(name, func(t *testing.T) {
			log := openLog(t, "kafka broker", t.TempDir())
			defer closeLog(t, log)
			o := startOrdered(t, log, orderedMerchants, orderedSettings{members: 1, partitions: 4, interval: 20 * time.Millisecond, idle: "200ms"})
			events := eventtime.Payments(11, 400, 4)
			events = shifted(events, time.Now().Add(-time.Hour).UnixMilli()*1000-events[0].Time)
			var open, others []eventtime.Event
			for i, e := range events {
				if e.Partition == 2 && i >= 150 && len(open) < 30 {
					open = append(open, e)
				} else {
					others = append(others, e)
				}
			}
			ctx, cancel := context.WithTimeout(t.Context(), crashPatience)
			defer cancel()
			err := o.while(ctx, func(ctx context.Context) error {
				if err := log.Append(ctx, paymentRecords(others[:150])...); err != nil {
					return err
				}
				end := openTransaction(t, paymentRecords(open))
				for _, part := range [][]eventtime.Event{others[150:250], others[250:]} {
					if err := errors.Join(log.Append(ctx, paymentRecords(part)...), o.copied(ctx, part, 2)); err != nil {
						return err
					}
					time.Sleep(time.Second) // so that each partition is silent
				}
				o.mustBeBefore(t, open[0].Time)
				end(how)
				return o.idle(ctx)
			})
			if err != nil {
				t.Fatal(err)
			}
			if how == kgo.TryCommit {
				others = events
			}
			o.mustBeTrue(t, others)
		})
	}
}

// copied waits until the repartitioner of payments has read the newest of some events of each
// partition but one.
func (o orderedRun) copied(ctx context.Context, events []eventtime.Event, but int) error {
	for _, e := range events {
		if e.Partition == but {
			continue
		}
		p := stream.Partition{Topic: e.Topic, Index: int32(e.Partition)}
		for next := stream.Offset(0); next <= stream.Offset(e.Offset); {
			var err error
			if next, err = o.log.(stream.Inspector).Committed(ctx, naming.Repartitioner(o.runners[0].Name(), e.Topic), p); err != nil {
				return fmt.Errorf("%v is read up to %d, want behind %d: %w", p, next, e.Offset, err)
			}
			time.Sleep(time.Millisecond)
		}
	}
	return nil
}

// mustBeBefore fails if there is a row of a time or later.
func (o orderedRun) mustBeBefore(t *testing.T, at int64) {
	t.Helper()
	for _, r := range recordsIn(t, o.log, "merchants-rows") {
		if r.Time.UnixMicro() >= at {
			t.Fatalf("the row of %v was there before what comes at %v", r.Time, time.UnixMicro(at))
		}
	}
}

// TestProducersWithWrongClocksMakeNobodyElseLate has topics of a real broker whose times, of the
// event and of the append, are those of producers (CreateTime). The clock of one is half an hour
// ahead, that of another a year, and that of a third is an hour behind. The repartitioner's clock
// bounds the first, and its copy has the judgement: so the rows are a sort of the sources, and the
// same when the copies are read again. The second is a dead letter. The third is late, alone.
func TestProducersWithWrongClocksMakeNobodyElseLate(t *testing.T) {
	log := openLog(t, "kafka broker", t.TempDir())
	defer closeLog(t, log)
	text := strings.Replace(orderedMerchants, "lateness: 5s", "lateness: 30m", 1)
	s := orderedSettings{members: 2, partitions: 4, interval: 20 * time.Millisecond, idle: "never"}
	o := startOrdered(t, log, text, s)
	events := eventtime.Payments(12, 400, 4)
	ahead, far, behind := events[150].ID, events[170].ID, events[200].ID
	events[150].Text["merchant"] = "of half an hour later" // its windows are of its own time
	var records []stream.Record
	ctx, cancel := context.WithTimeout(t.Context(), crashPatience)
	defer cancel()
	begun := time.Now()
	err := o.while(ctx, func(ctx context.Context) error {
		for i := range events {
			e := &events[i]
			e.Time = time.Now().UnixMilli() * eventtime.Millisecond
			switch e.ID {
			case ahead:
				e.Time += eventtime.Hour / 2
			case far:
				e.Time += 365 * 24 * eventtime.Hour
			case behind:
				e.Time -= eventtime.Hour
			}
			records = append(records, paymentRecords(events[i:i+1])...)
			if err := log.Append(ctx, records[i]); err != nil {
				return err
			}
		}
		known := slices.DeleteFunc(records, func(r stream.Record) bool { return r.Time.After(time.Now().Add(time.Hour)) })
		end := closedAfter(known, 4, 10*time.Minute)[len(known):]
		return errors.Join(log.Append(ctx, end...), o.until(ctx, t, &orderedAnswer{total: len(events)}))
	})
	if err != nil {
		t.Fatal(err)
	}
	if c := o.runners[0].Counts(); c.Late != 1 || c.DeadLetters != 2 || o.forced() != 0 {
		t.Errorf("%d late events, %d dead letters, %d forced; want 1, 2, 0", c.Late, c.DeadLetters, o.forced())
	}
	for _, r := range recordsIn(t, log, o.runners[0].Plan.Topic) {
		if c, err := order.ParseCopy(header.Value(&r, header.Order)); err == nil && strings.Contains(string(r.Value), `"`+ahead+`"`) {
			if at := time.UnixMicro(c.Appended); at.Before(begun) || at.After(time.Now()) {
				t.Errorf("the clock says that it was appended at %v", at)
			}
			events[150].Appended = c.Appended
		}
	}
	events = slices.DeleteFunc(events, func(e eventtime.Event) bool { return e.ID == behind || e.ID == far })
	if n := untrue(t, log, "merchants-rows", "merchant", events); n != 0 {
		t.Errorf("%d of %d rows differ from event-time truth", n, len(events))
	}
	s.batch, s.members = 7, 1
	want := o.answer(t)
	for id, text := range want.outputs {
		if strings.Contains(text, "max_ahead") { // its event has no copy
			delete(want.outputs, id)
			want.total--
			maps.DeleteFunc(want.keys, func(_ string, ids []string) bool { return slices.Equal(ids, []string{id}) })
		}
	}
	if d := replayed(t, log, text, s).difference(want); d != "" {
		t.Error(d)
	}
}

// TestSpilledEventsAreReleasedInOrderAfterRestarts has events of three partitions wait for the
// fourth, which are many times what memory may hold. So they become state. Members of a real
// broker cannot leave records out: after a restart they read again from the first event that
// waits.
func TestSpilledEventsAreReleasedInOrderAfterRestarts(t *testing.T) {
	log := openLog(t, "kafka broker", t.TempDir())
	defer closeLog(t, log)
	s := orderedSettings{members: 2, partitions: 4, held: 64 << 10, batch: 200, interval: 20 * time.Millisecond, idle: "never"}
	events := eventtime.Payments(14, 8000, 4)
	var first, last []stream.Record
	for i, r := range paymentRecords(events) {
		if events[i].Partition < 3 {
			first = append(first, r)
		} else {
			last = append(last, r)
		}
	}
	end := closed(slices.Concat(first, last), 4)[len(events):]
	ctx, cancel := context.WithTimeout(t.Context(), crashPatience)
	defer cancel()
	spilled := uint64(0)
	for i, records := range [][]stream.Record{first, last[:len(last)/2], slices.Concat(last[len(last)/2:], end)} {
		o := startOrdered(t, log, orderedMerchants, s)
		err := o.while(ctx, func(ctx context.Context) error {
			if err := log.Append(ctx, records...); err != nil {
				return err
			}
			if i > 0 {
				return o.until(ctx, t, &orderedAnswer{total: []int{0, len(events) / 3, len(events)}[i]})
			}
			for ; o.spilled() < uint64(len(first)*3/4); time.Sleep(10 * time.Millisecond) {
				if ctx.Err() != nil {
					return fmt.Errorf("%d events of %d became state: %w", o.spilled(), len(first), ctx.Err())
				}
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		spilled += o.spilled()
		if n := o.forced(); n > 0 {
			t.Errorf("%d events were forced", n)
		}
	}
	if n := untrue(t, log, "merchants-rows", "merchant", events); n != 0 {
		t.Errorf("%d of %d rows differ from event-time truth", n, len(events))
	}
	if t.Logf("%d events became state", spilled); spilled > uint64(len(events)) {
		t.Error("events became state again after a restart")
	}
}
