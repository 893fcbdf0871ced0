package e2e_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/afterbay/afterbay/internal/log/memory"
	"github.com/afterbay/afterbay/internal/pipeline"
	"github.com/afterbay/afterbay/internal/test/eventtime"
	"github.com/afterbay/afterbay/stream"
)

// TestWhatWaitsForAStageIsBounded has a stage that does not run, and more events than may wait for
// it. Repartitioners stop at their bound, memory has what it may have, and the order names the
// stage. When the stage runs, each event has its row.
func TestWhatWaitsForAStageIsBounded(t *testing.T) {
	const (
		file = `pipeline: p
input: {topic: payments, partitions: 4, key: card, repartition: REPARTITION, time: {field: ts, unit: ms, idle: IDLE}, ` + fieldsOfPayments + `}
steps:
  - features: {f: {by: merchant, value: amount, windows: [10m], aggregates: [sum, count]}}
  - emit: {topic: merchants-rows, value: [id, f.*]}
`
		held = 1 << 20 // bytes in memory
		most = 1 << 15 // records that may wait
		step = 1 << 13
	)
	events := eventtime.Payments(3, 60_000, 4)
	synctest.Test(t, func(t *testing.T) {
		untilEventsAreOver()
		log := standing{memory.New(memory.Options{}), "p.by-merchant", make(chan struct{})}
		o := startOrdered(t, log, file, orderedSettings{members: 1, partitions: 4, held: held, interval: 5 * time.Millisecond, idle: "1s"})
		if err := log.Append(t.Context(), paymentRecords(events)...); err != nil {
			t.Fatal(err)
		}
		err := o.while(t.Context(), func(ctx context.Context) error {
			copies := 0
			for range 2 {
				time.Sleep(time.Minute)
				n := len(recordsIn(t, log, o.runners[0].Plan.Topic))
				if n < most || n > most+2*step || copies > 0 && n != copies {
					t.Errorf("%d records wait, and %d a minute before: want %d to %d", n, copies, most, most+2*step)
				}
				copies = n
			}
			s := o.runners[0].Snapshot()
			if name, seconds := s.Order.WaitsFor(); name != log.group || seconds < 100 {
				t.Errorf("events wait for %q, for %v s", name, seconds)
			}
			if m := s.Memory; m.HeldBytes < held/2 || m.HeldBytes > 3*held || m.SpilledBytes < 2*held || s.Counts.Spilled == 0 {
				t.Errorf("%d bytes in memory, %d in state", m.HeldBytes, m.SpilledBytes)
			}
			close(log.runs)
			return o.idle(ctx)
		})
		if err != nil {
			t.Fatal(err)
		}
		o.mustBeTrue(t, events)
		_ = log.Close()
	})
}

// standing is a log on which nobody joins a group until it runs.
type standing struct {
	*memory.Log
	group string
	runs  chan struct{}
}

// Join implements stream.Log.
func (l standing) Join(ctx context.Context, group string, topics ...string) (stream.Member, error) {
	if group == l.group {
		select {
		case <-l.runs:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	return l.Log.Join(ctx, group, topics...)
}

// TestStagesTakeThreeCommitsWhateverTheirNumber has each commit take a second. The row of an event
// is there after as many seconds as lint says that it takes commits.
func TestStagesTakeThreeCommitsWhateverTheirNumber(t *testing.T) {
	const file = `pipeline: p
input: {topic: payments, partitions: 1, key: card, repartition: REPARTITION, time: {field: ts, unit: ms, idle: IDLE}, fields: {id: string, card: string, merchant: string, device: string, country: string, ts: int}}
steps:
  - features: {f: {windows: [10m], aggregates: [count]}STAGES}
  - emit: {topic: rows, value: [id, f.*]}
`
	stages, want := "", "2"
	for n, by := range []string{"", "merchant", "device", "country"} {
		if n > 0 {
			stages, want = stages+fmt.Sprintf(", f%d: {by: %s, windows: [10m], aggregates: [count]}", n, by), "3"
		}
		synctest.Test(t, func(t *testing.T) {
			log := slow{memory.New(memory.Options{})}
			o := startOrdered(t, log, strings.Replace(file, "STAGES", stages, 1), orderedSettings{members: 1, partitions: 2, idle: "1s"})
			if way := o.runners[0].Way(); n > 0 && !strings.HasSuffix(way, ": "+want+" commits") || n == 0 && way != "" {
				t.Errorf("lint says %q with %d stages", way, n)
			}
			err := o.while(t.Context(), func(ctx context.Context) error {
				time.Sleep(time.Minute) // all have joined
				begun := time.Now()
				e := eventtime.Event{Topic: "payments", ID: "t", Time: begun.UnixMicro(), Text: map[string]string{"card": "c", "merchant": "m", "device": "d", "country": "x"}}
				if err := log.Append(ctx, paymentRecords([]eventtime.Event{e})...); err != nil {
					return err
				}
				for len(recordsIn(t, log, "rows")) == 0 {
					if time.Sleep(10 * time.Millisecond); time.Since(begun) > time.Hour {
						return errors.New("no row after an hour")
					}
				}
				if took := time.Since(begun); fmt.Sprint(int(took/commitTakes)) != want {
					t.Errorf("%d stages: the row took %v, want %s commits of %v", n, took, want, commitTakes)
				}
				return o.idle(ctx)
			})
			if err != nil {
				t.Fatal(err)
			}
			_ = log.Close()
		})
	}
}

const commitTakes = time.Second

// slow is a log whose commits take commitTakes.
type slow struct{ *memory.Log }

// Join implements stream.Log.
func (l slow) Join(ctx context.Context, group string, topics ...string) (stream.Member, error) {
	s, err := l.Log.Join(ctx, group, topics...)
	return slowMember{s}, err
}

type slowMember struct{ stream.Member }

// Commit implements stream.Member.
func (s slowMember) Commit(step stream.Transaction) *stream.Pending {
	pending := stream.NewPending()
	go func() {
		time.Sleep(commitTakes)
		pending.Decide(s.Member.Commit(step).Wait(context.Background()))
		s.Wake()
	}()
	return pending
}

// TestEventsThatAStageForcesAreCounted has an event that is forced in a stage, and not at home. A
// silent partition is where the events of a topic's partition are, and only the stage's has one
// so new.
func TestEventsThatAStageForcesAreCounted(t *testing.T) {
	const file = `pipeline: p
input: {topic: payments, partitions: 2, key: card, repartition: REPARTITION, time: {field: ts, unit: ms, lateness: 10s, wait: 5s, idle: IDLE}, ` + fieldsOfPayments + `}
steps:
  - features: {f: {by: merchant, value: amount, windows: [10m], aggregates: [count]}}
  - emit: {topic: rows, value: [id, f.*]}
`
	cards := []string{"c0", "c1"}
	for i := 1; stream.Place([]byte(cards[0]), 4) == stream.Place([]byte(cards[1]), 4); i++ {
		cards[1] = fmt.Sprint("c", i)
	}
	synctest.Test(t, func(t *testing.T) {
		log := memory.New(memory.Options{})
		o := startOrdered(t, log, file, orderedSettings{members: 1, partitions: 4, interval: 5 * time.Millisecond, idle: "1s"})
		begun := time.Now().UnixMicro()
		pay := func(partition int, at int64) []stream.Record {
			e := eventtime.Event{Topic: "payments", Partition: partition, ID: fmt.Sprint("t", partition), Time: begun + at, Text: map[string]string{"card": cards[partition], "merchant": "m"}, Number: map[string]float64{"amount": 1}}
			return paymentRecords([]eventtime.Event{e})
		}
		err := o.while(t.Context(), func(ctx context.Context) error {
			time.Sleep(10 * time.Second)
			err := errors.Join(log.Append(ctx, pay(0, 10*eventtime.Second)...), o.idle(ctx))
			time.Sleep(10 * time.Second)
			return errors.Join(err, log.Append(ctx, pay(1, 7*eventtime.Second)...), o.idle(ctx))
		})
		if err != nil {
			t.Fatal(err)
		}
		rows := recordsIn(t, log, "rows")
		if n := o.runners[0].Order(time.Now()).Forced; n != 1 || o.forced() != 1 || len(rows) != 2 {
			t.Errorf("%d and %d forced, rows %v", n, o.forced(), rows)
		}
		_ = log.Close()
	})
}

// payer makes payments, so long after it has begun.
type payer struct {
	begun time.Time
	n     int // payments so far
}

func (p *payer) record(partition int, card, merchant string, at time.Duration) []stream.Record {
	p.n++
	e := eventtime.Event{
		Topic: "payments", Partition: partition, ID: fmt.Sprint("t", p.n), Time: p.begun.Add(at).UnixMicro(),
		Text: map[string]string{"card": card, "merchant": merchant}, Number: map[string]float64{"amount": 1},
	}
	return paymentRecords([]eventtime.Event{e})
}

// TestAForcedEventHoldsNoStage has an event come after its source was silent. The stage is past its
// place, and home is not: there it is in front of an event that the stage waits for before it
// answers. If home waited for the answer, and the stage for the event, both would for good.
func TestAForcedEventHoldsNoStage(t *testing.T) {
	const file = `pipeline: p
input: {topic: payments, partitions: 3, key: card, repartition: REPARTITION, time: {field: ts, unit: ms, lateness: 10s, wait: 5s, idle: IDLE}, ` + fieldsOfPayments + `}
steps:
  - features: {f: {by: merchant, windows: [10m], aggregates: [count]}, g: {by: merchant, value: f.count_10m, delay: 1s, windows: [10m], aggregates: [count]}}
  - emit: {topic: rows, value: [id, f.*, g.*]}
`
	other := "c1"
	for i := 2; stream.Place([]byte("c"), 4) == stream.Place([]byte(other), 4); i++ {
		other = fmt.Sprint("c", i)
	}
	synctest.Test(t, func(t *testing.T) {
		log := memory.New(memory.Options{})
		o := startOrdered(t, log, file, orderedSettings{members: 1, partitions: 4, interval: 5 * time.Millisecond, idle: "1s"})
		paid := payer{begun: time.Now()}
		pay := func(partition int, card string, at time.Duration) []stream.Record {
			return paid.record(partition, card, "m", at)
		}
		err := o.while(t.Context(), func(ctx context.Context) error {
			time.Sleep(13 * time.Second)
			err := log.Append(ctx, pay(0, other, 10*time.Second)...)
			for range 35 { // partition 2 is at 7.9 s, and not silent
				err = errors.Join(err, log.Append(ctx, pay(2, other, 12900*time.Millisecond)...))
				time.Sleep(200 * time.Millisecond)
			}
			err = errors.Join(err, log.Append(ctx, append(pay(2, "c", 8*time.Second), pay(2, other, 17*time.Second)...)...))
			time.Sleep(30 * time.Millisecond) // the stage is behind 9 s, where it waits for what the event of 8 s says
			err = errors.Join(err, log.Append(ctx, pay(1, "c", 7950*time.Millisecond)...))
			if _, refused := o.runners[0].Skip(ctx, log, pipeline.Skip{Source: "payments/1", At: time.Now()}); refused == nil || !strings.Contains(refused.Error(), "with a delay") {
				t.Errorf("a skip that the stage would not know of: %v", refused)
			}
			limited, cancel := context.WithTimeout(ctx, time.Hour)
			defer cancel()
			return errors.Join(err, o.idle(limited))
		})
		if err != nil {
			t.Fatal(err)
		}
		if rows := recordsIn(t, log, "rows"); len(rows) != paid.n || o.forced() == 0 {
			t.Errorf("%d rows of %d, %d forced", len(rows), paid.n, o.forced())
		}
		_ = log.Close()
	})
}

// TestAStageReadsBehindASilentMark has a silent partition, and one that is behind the third. After
// the mark of the silence, the one that is behind has an event older than the event that the mark
// was written for. The pipeline does not wait for the silent partition. Its stage does, until the
// mark is written again, as it read no event of that time before the mark.
func TestAStageReadsBehindASilentMark(t *testing.T) {
	const file = `pipeline: p
input: {topic: payments, partitions: 3, key: card, repartition: REPARTITION, time: {field: ts, unit: ms, lateness: 10s, wait: 5s, idle: IDLE}, ` + fieldsOfPayments + `}
steps:
  - features: {f: {by: merchant, windows: [10m], aggregates: [count]}}
  - emit: {topic: rows, value: [id, f.*]}
`
	other := "m1"
	for i := 2; stream.Place([]byte("m"), 4) == stream.Place([]byte(other), 4); i++ {
		other = fmt.Sprint("m", i)
	}
	synctest.Test(t, func(t *testing.T) {
		log := memory.New(memory.Options{})
		o := startOrdered(t, log, file, orderedSettings{members: 1, partitions: 4, interval: 5 * time.Millisecond, idle: "1s"})
		paid := payer{begun: time.Now()}
		pay := func(partition int, merchant string, at time.Duration) []stream.Record {
			return paid.record(partition, "c", merchant, at)
		}
		err := o.while(t.Context(), func(ctx context.Context) error {
			time.Sleep(13 * time.Second)
			err := log.Append(ctx, pay(0, "m", 10*time.Second)...) // partition 1 is silent
			for range 20 {
				err = errors.Join(err, log.Append(ctx, pay(2, "m", 8*time.Second)...))
				time.Sleep(200 * time.Millisecond)
			}
			err = errors.Join(err, log.Append(ctx, append(pay(2, other, 7*time.Second), pay(2, "m", 17*time.Second)...)...))
			limited, cancel := context.WithTimeout(ctx, time.Hour)
			defer cancel()
			return errors.Join(err, o.idle(limited))
		})
		if err != nil {
			t.Fatal(err)
		}
		if rows := recordsIn(t, log, "rows"); len(rows) != paid.n || o.forced() != 0 {
			t.Errorf("%d rows of %d, %d forced", len(rows), paid.n, o.forced())
		}
		_ = log.Close()
	})
}
