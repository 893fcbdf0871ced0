package hub_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand"
	"os"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"

	"github.com/afterbay/afterbay/internal/gateway/hub"
	"github.com/afterbay/afterbay/internal/log/embedded"
	"github.com/afterbay/afterbay/internal/log/kafka"
	"github.com/afterbay/afterbay/internal/log/memory"
	"github.com/afterbay/afterbay/internal/test/seeds"
	"github.com/afterbay/afterbay/stream"
)

// ways counts the ways in which records reached clients, over all seeds.
type ways struct{ queued, slow, pages, scanned, failures uint64 }

func (w *ways) add(m *hub.Metrics) {
	w.queued += m.Queued.Load()
	w.slow += m.Slow.Load()
	w.pages += m.Pages.Load()
	w.scanned += m.Scanned.Load()
	w.failures += m.Failures.Load()
}

func (w *ways) missing() bool { return w.queued == 0 || w.slow == 0 || w.pages == 0 || w.scanned == 0 }

func TestEveryResumeReceivesItsRecordsOnceAndInOrder(t *testing.T) {
	var seen ways
	all := seeds.Run(t, 40, func(t *testing.T, random *rand.Rand) {
		synctest.Test(t, func(t *testing.T) {
			log := memory.New(memory.Options{})
			w := randomResumes(t, log, random, 2000)
			seen.add(w.hub.Metrics())
			w.stop()
		})
	})
	if all && (seen.missing() || seen.failures == 0) {
		t.Errorf("not all ways were taken: %+v", seen)
	}
}

func TestEveryResumeReceivesItsRecordsOnEveryEngine(t *testing.T) {
	t.Run("embedded", func(t *testing.T) {
		seeds.Run(t, 3, func(t *testing.T, random *rand.Rand) {
			log, err := embedded.Open(t.TempDir(), embedded.Options{SegmentBytes: 1 << 20, RingBytes: 64 << 10})
			if err != nil {
				t.Fatal(err)
			}
			randomResumes(t, log, random, 2000).stop()
			if err := log.Close(); err != nil {
				t.Error(err)
			}
		})
	})
	t.Run("kafka", func(t *testing.T) {
		seeds.Run(t, 2, func(t *testing.T, random *rand.Rand) {
			cluster, err := kfake.NewCluster(kfake.NumBrokers(1))
			if err != nil {
				t.Fatal(err)
			}
			defer cluster.Close()
			resumesOnKafka(t, cluster.ListenAddrs(), random)
		})
	})
	t.Run("broker", func(t *testing.T) {
		rounds := int64(1)
		if os.Getenv("AFTERBAY_PROVE") != "" {
			rounds = 20
		}
		cluster := broker.Get(t)
		seeds.Run(t, rounds, func(t *testing.T, random *rand.Rand) {
			cluster.Empty(t)
			resumesOnKafka(t, cluster.Addresses(), random)
		})
	})
}

func resumesOnKafka(t *testing.T, brokers []string, random *rand.Rand) {
	t.Helper()
	log, err := kafka.Open(t.Context(), kafka.Options{Brokers: brokers})
	if err != nil {
		t.Fatal(err)
	}
	randomResumes(t, log, random, 500).stop()
	if err := log.Close(); err != nil {
		t.Error(err)
	}
}

// randomResumes has clients that come, read, stand still, are cut and come again
// where they were or before, while about so many records are published.
func randomResumes(t *testing.T, log engine, random *rand.Rand, records int) *world {
	o := hub.Options{QueueBytes: 1 + random.Intn(8<<10), IndexRecords: 1 + random.Intn(records), Replays: 2}
	w := newWorld(t, log, 2, o)
	if _, ok := log.(*memory.Log); ok {
		w.log.fails.Store(int64(100 + random.Intn(400))) // in virtual time its backoff costs none
	}
	var group sync.WaitGroup
	for n := range 6 {
		key, seed := fmt.Sprint("key ", n%4), random.Int63()
		group.Go(func() { resumes(w, key, rand.New(rand.NewSource(seed)), records/6) })
	}
	group.Wait()
	return w
}

// resumes has a client of key come again and again while it publishes so many
// records, of its key and others, and at last receive all that there are.
func resumes(w *world, key string, random *rand.Rand, records int) {
	ctx := patience(w.t)
	for cursor, last := stream.Offset(0), false; !last; {
		last = records <= 0
		from := cursor
		if random.Intn(3) == 0 {
			from = stream.Offset(random.Int63n(int64(cursor) + 1))
		}
		c := w.subscribe(key, from)
		var got []stream.Record
		for reads := random.Intn(10); reads >= 0; reads-- {
			for records > 0 && random.Intn(4) > 0 { // it stands still, and its queue fills
				batch := make([]string, 1+random.Intn(60))
				for i := range batch {
					batch[i] = fmt.Sprint("key ", random.Intn(9))
				}
				w.publish(batch...)
				records -= len(batch)
			}
			want := 0
			if all := len(w.of(key, from)); last {
				want = all - len(got)
			} else if all > len(got) {
				want = random.Intn(all - len(got))
			}
			more, err := c.read(ctx, want)
			if got = append(got, more...); err != nil {
				w.t.Errorf("read of %s from %d after %d records: %v", key, from, len(got), err)
				return
			}
		}
		c.Close()
		same(w.t, fmt.Sprintf("%s from %d", key, from), got, w.of(key, from))
		if len(got) > 0 {
			cursor = max(cursor, got[len(got)-1].Offset+1)
		}
	}
}

func TestSubscriptionsBeginWhereTheyAreAskedTo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, memory.New(memory.Options{}), 1, hub.Options{})
		defer func() { w.stop() }()
		w.publish("a", "b", "a", "a")
		latest, earliest, second := w.subscribe("a", hub.Latest), w.subscribe("a", hub.Earliest), w.subscribe("a", 1)
		if latest.Start() != 4 || earliest.Start() != 0 || second.Start() != 1 {
			t.Errorf("they begin at %d, %d and %d", latest.Start(), earliest.Start(), second.Start())
		}
		w.publish("b", "a")
		for c, want := range map[*client]int{latest: 1, earliest: 4, second: 3} {
			got, err := c.read(patience(t), want)
			if err != nil || len(got) != want {
				t.Errorf("%d records (%v), want %d", len(got), err, want)
			}
			same(t, fmt.Sprint("from ", c.Start()), got, w.of("a", c.Start()))
			if more, err := c.Read(t.Context()); err != nil || len(more) > 0 {
				t.Errorf("then %d more (%v)", len(more), err)
			}
			c.Close()
			c.Close()
			if _, err := c.Read(t.Context()); !errors.Is(err, stream.ErrClosed) {
				t.Errorf("a closed one says %v", err)
			}
		}
		if n := w.hub.Metrics().Subscribers.Load(); n != 0 {
			t.Errorf("%d subscribers are left", n)
		}
	})
}

func TestWhatIsNotInTheLogIsAGapAndReadingGoesOnBehindIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, memory.New(memory.Options{}), 1, hub.Options{IndexRecords: 64})
		defer func() { w.stop() }()
		for range 500 {
			w.publish("a", "b")
		}
		gap := func(c *client, requested, earliest stream.Offset) {
			t.Helper()
			var gap *hub.Gap
			if got, err := c.read(patience(t), 1); len(got) > 0 || !errors.As(err, &gap) || gap.Requested != requested || gap.Earliest != earliest {
				t.Errorf("%d records and %v, want a gap from %d to %d", len(got), err, requested, earliest)
			}
			want := len(w.of("a", earliest))
			got, err := c.read(patience(t), want)
			if err != nil || len(got) != want {
				t.Errorf("after the gap %d records (%v), want %d", len(got), err, want)
			}
			same(t, "after the gap", got, w.of("a", earliest))
			c.Close()
		}
		gap(w.subscribe("a", 2000), 2000, 0) // of a log that was lost
		live, standing := w.subscribe("a", 1000), w.subscribe("a", 5)
		if got, err := live.Read(t.Context()); err != nil || len(got) > 0 {
			t.Fatalf("%d records, %v", len(got), err)
		}
		w.log.first.Store(300)
		gap(w.subscribe("a", 10), 10, 300)
		gap(standing, 5, 300)

		// One that is up to date asks for nothing that is gone, until its hub cannot
		// read while retention goes on.
		w.publish("a")
		if got, err := live.read(patience(t), 1); err != nil || len(got) != 1 {
			t.Errorf("%d records, %v", len(got), err)
		}
		w.log.broken.Store(true)
		w.publish("b", "b", "a", "a")
		synctest.Wait()
		w.log.first.Store(1003)
		w.log.broken.Store(false)
		gap(live, 1001, 1003)
		if n := w.hub.Metrics().Gaps.Load(); n != 4 {
			t.Errorf("%d gaps were counted, want 4", n)
		}
	})
}

func TestSubscriberThatStandsStillHoldsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const limit = 16 << 10
		w := newWorld(t, memory.New(memory.Options{}), 1, hub.Options{QueueBytes: limit})
		defer func() { w.stop() }()
		c := w.subscribe("a", hub.Earliest)
		synctest.Wait() // the reader is there
		if got, err := c.Read(t.Context()); len(got) > 0 || err != nil {
			t.Fatal(got, err)
		}
		for range 1000 {
			w.publish("a", "b", "b")
			synctest.Wait()
		}
		m := w.hub.Metrics()
		if m.Slow.Load() != 1 || m.Queued.Load() > limit/128 {
			t.Errorf("%d queues were full, %d records were queued: it holds what the log holds", m.Slow.Load(), m.Queued.Load())
		}
		got, err := c.read(patience(t), 1000)
		if err != nil {
			t.Error(err)
		}
		same(t, "a", got, w.of("a", 0))
		if n := m.Replaying.Load(); n != 0 {
			t.Errorf("%d are still replaying", n)
		}
		w.publish("a")
		if got, err := c.read(patience(t), 1); err != nil || len(got) != 1 || m.Slow.Load() != 1 {
			t.Errorf("it is not live again: %d records, %v", len(got), err)
		}
	})
}

func TestSubscriberThatKeepsUpReadsTheLogNoMore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, memory.New(memory.Options{}), 1, hub.Options{})
		defer func() { w.stop() }()
		c := w.subscribe("a", hub.Earliest)
		synctest.Wait() // the reader is there
		if got, err := c.Read(t.Context()); len(got) > 0 || err != nil {
			t.Fatal(got, err)
		}
		for i := range 10 {
			w.publish("b", "a", "b")
			synctest.Wait()
			if got, err := c.read(patience(t), 1); err != nil || len(got) != 1 || got[0].Offset != stream.Offset(3*i+1) {
				t.Fatalf("%v, %v", got, err)
			}
			if got, err := c.Read(t.Context()); err != nil || len(got) > 0 || c.Behind() != 0 {
				t.Fatalf("%d records, %v, %d behind: all was read", len(got), err, c.Behind())
			}
		}
		if n := w.hub.Metrics().Pages.Load(); n != 0 {
			t.Errorf("%d pages were read", n)
		}
	})
}

func TestResumeReadsItsOwnRecordsOnly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, memory.New(memory.Options{}), 1, hub.Options{})
		defer func() { w.stop() }()
		others := make([]string, 9_999)
		for i := range others {
			others[i] = "other"
		}
		for range 10 {
			w.publish(append(others, "a")...)
		}
		w.subscribe("warm", hub.Latest)
		synctest.Wait() // the index is there
		m := w.hub.Metrics()
		c := w.subscribe("a", 0)
		got, err := c.read(patience(t), 10)
		if err != nil {
			t.Error(err)
		}
		same(t, "a", got, w.of("a", 0))
		if n := m.Scanned.Load(); n > 20 {
			t.Errorf("%d records were read for 10 of 100,000", n)
		}
		idle, before := w.subscribe("a", 99_999+1), w.log.tails.Load()
		if got, err := idle.Read(t.Context()); err != nil || len(got) > 0 || w.log.tails.Load() != before {
			t.Errorf("%d records, %v, the log was read %d times", len(got), err, w.log.tails.Load()-before)
		}
	})
}

// TestRecordOfWhichOnlyTheKeyWasReadIsReadAgain has a client subscribe to a key when
// the log has decided that nobody wants its record, which is still to be passed.
func TestRecordOfWhichOnlyTheKeyWasReadIsReadAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, memory.New(memory.Options{}), 1, hub.Options{})
		defer w.stop()
		other := w.subscribe("other", 0)
		w.publish("other")
		if _, err := other.read(t.Context(), 1); err != nil {
			t.Fatal(err)
		}
		var late *client
		w.log.decided = func(r stream.Record) {
			if late != nil {
				return
			}
			if !r.Time.IsZero() {
				t.Error("the record was kept, although nobody wants it")
			}
			late = w.subscribe("late", r.Offset)
			if got, err := late.Read(t.Context()); len(got) > 0 || err != nil {
				t.Errorf("%v, %v before the record has passed", got, err)
			}
		}
		w.publish("late")
		synctest.Wait()
		got, err := late.read(t.Context(), 1)
		if err != nil {
			t.Fatal(err)
		}
		same(t, "late", got, w.of("late", 0))
		w.publish("late")
		next, err := late.read(t.Context(), 1)
		if err != nil {
			t.Fatal(err)
		}
		same(t, "late", append(got, next...), w.of("late", 0))
	})
}

// TestLogThatStandsStillIsNotWaitedFor reads and subscribes while the log answers
// nothing: both come back, and all records are read when it answers again.
func TestLogThatStandsStillIsNotWaitedFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, memory.New(memory.Options{}), 1, hub.Options{IndexRecords: 64})
		defer w.stop()
		for range 200 {
			w.publish("a")
		}
		c := w.subscribe("a", 0)
		synctest.Wait() // the reader is there
		ctx, cancel := context.WithCancel(t.Context())
		w.log.stands.Store(true)
		defer time.AfterFunc(10*time.Minute, cancel).Stop()
		const most = 5 * time.Second
		for range 3 {
			began := time.Now()
			if got, err := c.Read(ctx); len(got) > 0 || err != nil || time.Since(began) > most || c.State() != hub.Behind || c.Next() != 0 {
				t.Fatalf("after %v: %d records, %v, state %v, next %d", time.Since(began), len(got), err, c.State(), c.Next())
			}
		}
		began := time.Now()
		if _, err := w.hub.Subscribe(ctx, []byte("a"), hub.Latest, func() {}); err == nil || time.Since(began) > most {
			t.Errorf("after %v: %v", time.Since(began), err)
		}
		if n := w.hub.Metrics().Failures.Load(); n != 3 {
			t.Errorf("%d reads are counted, want 3", n)
		}
		w.log.stands.Store(false)
		got, err := c.read(patience(t), 200)
		if err != nil || c.Next() != 200 {
			t.Errorf("%v, next %d", err, c.Next())
		}
		same(t, "a", got, w.of("a", 0))
	})
}

// TestSubscriptionGoesOnAtNext ends subscriptions, which have read something of what
// comes or nothing, and goes on by others: no record is given twice, or none.
func TestSubscriptionGoesOnAtNext(t *testing.T) {
	seeds.Run(t, 20, func(t *testing.T, random *rand.Rand) {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t, memory.New(memory.Options{}), 1, hub.Options{IndexRecords: 1 + random.Intn(200), QueueBytes: 1 + random.Intn(2<<10)})
			defer w.stop()
			var got []stream.Record
			next := stream.Offset(0)
			for range 100 {
				c := w.subscribe("a", next)
				for range random.Intn(4) {
					for range random.Intn(20) {
						w.publish([]string{"a", "b"}[random.Intn(2)])
					}
					if random.Intn(2) == 0 {
						synctest.Wait()
					}
					records, err := c.Read(t.Context())
					if got = append(got, records...); err != nil {
						t.Fatal(err)
					}
				}
				next = c.Next()
				c.Close()
			}
			last := w.subscribe("a", next)
			defer last.Close()
			more, err := last.read(patience(t), len(w.of("a", next)))
			if err != nil {
				t.Fatal(err)
			}
			got = append(got, more...)
			if same(t, "a", got, w.of("a", 0)); len(got) != len(w.of("a", 0)) {
				t.Errorf("%d records, want %d", len(got), len(w.of("a", 0)))
			}
		})
	})
}

func TestHubsSayWhatIsWrong(t *testing.T) {
	log := memory.New(memory.Options{})
	if _, err := hub.New(t.Context(), log, "nothing", hub.Options{}); !errors.Is(err, stream.ErrUnknownTopic) {
		t.Errorf("of no topic: %v", err)
	}
	err := hub.Options{QueueBytes: -1, IndexRecords: -1, Replays: -1}.Validate()
	if joined, ok := err.(interface{ Unwrap() []error }); !ok || len(joined.Unwrap()) != 3 {
		t.Errorf("three mistakes are %v", err)
	}
	w := newWorld(t, log, 1, hub.Options{})
	w.subscribe("a", hub.Latest)
	if err := log.Close(); err != nil {
		t.Fatal(err)
	}
	w.stop = nil // Run has ended by itself
}

func TestSubscriberAheadOfItsReaderGetsNothingTwice(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, memory.New(memory.Options{}), 1, hub.Options{})
		defer func() { w.stop() }()
		for range 100 {
			w.publish("a")
		}
		w.log.broken.Store(true) // the reader stays where it begins
		c := w.subscribe("a", 60)
		synctest.Wait()
		if got, err := c.Read(t.Context()); err != nil || len(got) > 0 {
			t.Errorf("%d records, %v", len(got), err)
		}
		w.log.broken.Store(false)
		got, err := c.read(patience(t), 40)
		if err != nil || len(got) != 40 {
			t.Errorf("%d records, %v", len(got), err)
		}
		same(t, "a", got, w.of("a", 60))
		if n := w.hub.Metrics().Pages.Load(); n != 0 {
			t.Errorf("it read %d pages, which its reader was to pass", n)
		}
	})
}
