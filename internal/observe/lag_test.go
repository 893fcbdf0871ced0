package observe_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/afterbay/afterbay/internal/log/memory"
	"github.com/afterbay/afterbay/internal/observe"
	"github.com/afterbay/afterbay/stream"
)

// bench is a log with a topic in of three partitions, a member of group g that
// owns them, and a meter.
type bench struct {
	*testing.T
	*memory.Log
	member stream.Member
	meter  observe.LagMeter
}

var reads = []observe.Read{{Group: "g", Topic: "in"}}

func newBench(t *testing.T) *bench {
	t.Helper()
	b := &bench{T: t, Log: memory.New(memory.Options{})}
	t.Cleanup(func() { _ = b.Close() })
	b.ok(b.CreateTopic(t.Context(), stream.Topic{Name: "in", Partitions: 3}))
	var err error
	b.member, err = b.Join(t.Context(), "g", "in")
	b.ok(err)
	for owned := 0; owned < 3; {
		batch, err := b.member.Poll(t.Context(), 1)
		b.ok(err)
		owned += len(batch.Assigned)
	}
	return b
}

func (b *bench) ok(err error) {
	b.Helper()
	if err != nil {
		b.Fatal(err)
	}
}

func in(index int32) stream.Partition { return stream.Partition{Topic: "in", Index: index} }

// write appends n records; a zero time is that of the append.
func (b *bench) write(index int32, n int, at time.Time) {
	b.Helper()
	for range n {
		b.ok(b.Append(b.Context(), stream.Record{Partition: in(index), Time: at, Value: []byte("v")}))
	}
}

func (b *bench) commit(index int32, next stream.Offset) {
	b.Helper()
	b.ok(b.member.Commit(stream.Transaction{Offsets: map[stream.Partition]stream.Offset{in(index): next}}).Wait(b.Context()))
}

func (b *bench) measure() []observe.Lag {
	b.Helper()
	list, err := b.meter.Measure(b.Context(), b, reads...)
	b.ok(err)
	return list
}

// of returns the lag in one partition.
func (b *bench) of(index int32) observe.Lag {
	b.Helper()
	for _, l := range b.measure() {
		if l.Partition == index {
			return l
		}
	}
	b.Fatalf("nothing of partition %d", index)
	return observe.Lag{}
}

func (b *bench) want(index int32, records int64, age time.Duration) {
	b.Helper()
	if l := b.of(index); l.Records != records || l.Age() != age {
		b.Fatalf("%d records, %v old; want %d, %v", l.Records, l.Age(), records, age)
	}
}

func TestIdleGroupHasNoLagAndAStoppedOneGrowsOld(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		b.want(0, 0, 0)
		time.Sleep(time.Hour)
		b.want(0, 0, 0)
		b.write(0, 5, time.Time{})
		b.want(0, 5, 0)
		time.Sleep(10 * time.Second)
		b.want(0, 5, 10*time.Second)
		b.write(0, 5, time.Time{}) // younger ones do not count
		time.Sleep(10 * time.Second)
		b.want(0, 10, 20*time.Second)
		b.commit(0, 5)
		b.want(0, 5, 10*time.Second)
		time.Sleep(time.Minute)
		b.commit(0, 10)
		time.Sleep(time.Minute)
		b.want(0, 0, 0)
	})
}

func TestWorstPartitionIsFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		b.write(2, 1, time.Time{})
		time.Sleep(time.Second)
		b.write(0, 100, time.Time{})
		b.write(1, 200, time.Time{})
		time.Sleep(time.Second)
		want := []observe.Lag{
			{Group: "g", Topic: "in", Partition: 2, Next: 1, Records: 1, Seconds: 2},
			{Group: "g", Topic: "in", Partition: 1, Next: 200, Records: 200, Seconds: 1},
			{Group: "g", Topic: "in", Partition: 0, Next: 100, Records: 100, Seconds: 1},
		}
		if diff := cmp.Diff(want, b.measure()); diff != "" {
			t.Error(diff)
		}
		b.commit(2, 1)
		if last := b.measure()[2]; last.Partition != 2 || last.Committed != 1 || last.Seconds != 0 {
			t.Errorf("the last is %+v", last)
		}
	})
}

// TestAgeIsThatOfTheAppendWhateverTheTimeSays writes records with the times of
// their events, as pipelines do, while somebody measures.
func TestAgeIsThatOfTheAppendWhateverTheTimeSays(t *testing.T) {
	for _, ahead := range []time.Duration{-365 * 24 * time.Hour, 0, time.Hour} {
		synctest.Test(t, func(t *testing.T) {
			b := newBench(t)
			b.measure()
			time.Sleep(time.Second)
			b.write(0, 3, time.Now().Add(ahead))
			b.want(0, 3, map[bool]time.Duration{true: time.Second}[ahead < 0]) // since the look before
			for range 300 {
				time.Sleep(time.Second)
				b.write(0, 1, time.Now().Add(ahead))
				b.measure()
			}
			near := func(want time.Duration) {
				t.Helper()
				off := b.of(0).Age() - want
				if off.Abs() > want/10 || ahead == 0 && off != 0 {
					t.Errorf("times %v ahead: off by %v of %v", ahead, off, want)
				}
			}
			near(300 * time.Second)
			b.commit(0, 203)
			near(99 * time.Second)
		})
	}
}

// TestQuietPartitionForgetsNoLook keeps the age of the only record that came to
// a second, for an hour.
func TestQuietPartitionForgetsNoLook(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		for range 100 {
			b.measure()
			time.Sleep(time.Second)
		}
		b.write(0, 1, time.Unix(1, 0))
		b.write(1, 1, time.Now().Add(24*time.Hour))
		for range 3600 {
			b.measure()
			time.Sleep(time.Second)
		}
		b.want(0, 1, 3601*time.Second) // the look before it
		b.want(1, 1, 3600*time.Second) // the first that found it
	})
}

// TestAgeOfWhatCameBeforeTheMeterIsByItsTime has only that to go by.
func TestAgeOfWhatCameBeforeTheMeterIsByItsTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		b.write(0, 1, time.Now().Add(-time.Hour))
		b.write(1, 1, time.Now().Add(time.Hour))
		b.want(0, 1, time.Hour)
		b.want(1, 1, 0)
		time.Sleep(time.Minute)
		b.want(0, 1, time.Hour+time.Minute)
		b.want(1, 1, time.Minute) // it was there a minute ago
	})
}

// TestAgeIsRightToASmallPartOfIt measures at odd moments what random appends
// and commits leave, and knows the truth.
func TestAgeIsRightToASmallPartOfIt(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		b.measure()
		var appended []time.Time
		committed := 0
		for range 3000 {
			time.Sleep(time.Duration(random.IntN(2000)) * time.Millisecond)
			switch random.IntN(4) {
			case 0, 1:
				b.write(0, 1, time.Unix(1, 0))
				appended = append(appended, time.Now())
			case 2:
				committed += random.IntN(len(appended) - committed + 1)
				if random.IntN(20) > 0 { // now and then all of it
					committed = min(committed, max(0, len(appended)-100))
				}
				b.commit(0, stream.Offset(committed))
			}
			l := b.of(0)
			if int(l.Records) != len(appended)-committed {
				t.Fatalf("%d records, want %d", l.Records, len(appended)-committed)
			}
			if committed == len(appended) {
				if l.Seconds != 0 {
					t.Fatalf("caught up, and %v old", l.Age())
				}
				continue
			}
			want := time.Since(appended[committed])
			if off := l.Age() - want; off < 0 || off > 2*time.Second+want/4 {
				t.Fatalf("%v old, want %v", l.Age(), want)
			}
		}
	})
}

// gaps is a log that gives offsets to what is no record, as markers of
// transactions are, and counts what it is asked.
type gaps struct {
	*memory.Log
	markers             stream.Offset // behind the last record
	asking, most, peeks atomic.Int32
	fail                error
	wait                func()
	mu                  sync.Mutex
}

func (g *gaps) Offsets(ctx context.Context, p stream.Partition) (first, next stream.Offset, err error) {
	defer g.asking.Add(-1)
	n := g.asking.Add(1)
	g.mu.Lock()
	g.most.Store(max(g.most.Load(), n))
	g.mu.Unlock()
	if g.wait != nil {
		g.wait()
	}
	if first, next, err = g.Log.Offsets(ctx, p); next > 0 {
		next += g.markers
	}
	return first, next, errors.Join(err, g.fail)
}

func (g *gaps) Peek(ctx context.Context, p stream.Partition, from stream.Offset) (stream.Record, bool, error) {
	g.peeks.Add(1)
	return g.Log.Peek(ctx, p, from)
}

func TestOffsetsThatAreNoRecordsAreNobodysLag(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		log := &gaps{Log: b.Log, markers: 3}
		b.write(0, 5, time.Time{})
		b.commit(0, 5)
		time.Sleep(time.Hour)
		list, err := b.meter.Measure(t.Context(), log, reads...)
		b.ok(err)
		for _, l := range list {
			if l.Records != 0 || l.Seconds != 0 {
				t.Errorf("%+v", l)
			}
		}
	})
}

func TestMeasuringIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		log := &gaps{Log: b.Log, wait: func() { time.Sleep(time.Millisecond) }}
		b.ok(b.CreateTopic(t.Context(), stream.Topic{Name: "wide", Partitions: 100}))
		for i := range int32(100) {
			b.ok(b.Append(t.Context(), stream.Record{Partition: stream.Partition{Topic: "wide", Index: i}}))
		}
		for range 3 { // a group that stands still is read once
			list, err := b.meter.Measure(t.Context(), log, observe.Read{Group: "g", Topic: "wide"})
			b.ok(err)
			if len(list) != 100 || list[99].Records != 1 {
				t.Fatalf("%d partitions: %+v", len(list), list[99])
			}
		}
		if most := log.most.Load(); most != 8 {
			t.Errorf("%d partitions were asked about at once, want 8", most)
		}
		if n := log.peeks.Load(); n != 100 {
			t.Errorf("%d records were read, want 100", n)
		}
	})
}

func TestLagThatCannotBeMeasuredSaysWhere(t *testing.T) {
	b := newBench(t)
	broken := errors.New("broken")
	if list, err := b.meter.Measure(t.Context(), &gaps{Log: b.Log, fail: broken}, reads...); !errors.Is(err, broken) || list != nil {
		t.Errorf("%v, %v", list, err)
	}
	if _, err := b.meter.Measure(t.Context(), b, observe.Read{Group: "g", Topic: "none"}); !errors.Is(err, stream.ErrUnknownTopic) {
		t.Errorf("%v", err)
	}
}
