package memory_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/afterbay/afterbay/internal/log/memory"
	"github.com/afterbay/afterbay/stream"
	"github.com/afterbay/afterbay/stream/streamtest"
)

var (
	seeds     = flag.Uint64("streamtest.seeds", 200, "number of seeds of TestSimulation")
	firstSeed = flag.Uint64("streamtest.seed", 0, "first seed of TestSimulation")
)

func newLog(*testing.T) stream.Log {
	return memory.New(memory.Options{RebalanceTimeout: 100 * time.Millisecond})
}

func TestSimulation(t *testing.T) {
	total, last := streamtest.Counts{}, *firstSeed+*seeds
	if testing.Short() {
		last = *firstSeed + *seeds/4 // the race detector takes ten times as long
	}
	for seed := *firstSeed; seed < last; seed++ {
		t.Run(fmt.Sprint("seed=", seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				total.Add(streamtest.Simulate(t, newLog, streamtest.Options{
					Seed:   seed,
					Faults: streamtest.FaultyOptions{Stall: time.Second},
				}))
			})
		})
	}
	t.Log(total)
	if missing := total.Missing(); last-*firstSeed >= 20 && len(missing) > 0 {
		t.Errorf("faults that never happened: %v", missing)
	}
}

func TestConformance(t *testing.T) {
	streamtest.Run(t, func(*testing.T) stream.Log { // seconds, as machines have other things to do
		return memory.New(memory.Options{RebalanceTimeout: 3 * time.Second})
	})
}

var (
	in  = stream.Partition{Topic: "in"}
	out = stream.Partition{Topic: "out"}
)

// open returns a log with topics in, of two partitions, and out, of one.
func open(t testing.TB, o memory.Options) *memory.Log {
	t.Helper()
	log := memory.New(o)
	for _, topic := range []stream.Topic{{Name: "in", Partitions: 2}, {Name: "out", Partitions: 1}} {
		if err := log.CreateTopic(t.Context(), topic); err != nil {
			t.Fatal(err)
		}
	}
	return log
}

func join(t testing.TB, log *memory.Log, group string) stream.Member {
	t.Helper()
	member, err := log.Join(t.Context(), group, "in")
	if err != nil {
		t.Fatal(err)
	}
	return member
}

func poll(t testing.TB, s stream.Member) stream.Batch {
	t.Helper()
	batch, err := s.Poll(t.Context(), 1000)
	if err != nil {
		t.Fatal(err)
	}
	return batch
}

func TestOptionsSayWhatIsWrong(t *testing.T) {
	if err := (memory.Options{}).Validate(); err != nil {
		t.Error(err)
	}
	err := memory.Options{RebalanceTimeout: -1, MaxRecordBytes: -1, MaxProducers: -1}.Validate()
	for _, name := range []string{"RebalanceTimeout", "MaxRecordBytes", "MaxProducers"} {
		if err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%v does not name %s", err, name)
		}
	}
	wantPanic(t, func() { memory.New(memory.Options{MaxProducers: -1}) })
}

func wantPanic(t *testing.T, f func()) {
	t.Helper()
	defer func() {
		if recover() == nil {
			t.Error("no panic")
		}
	}()
	f()
}

func TestRecordOfTheLimitFits(t *testing.T) {
	log := open(t, memory.Options{MaxRecordBytes: 10})
	r := stream.Record{Partition: in, Key: []byte("key"), Value: []byte("val"), Headers: []stream.Header{{Key: "h", Value: []byte("123")}}}
	if err := log.Append(t.Context(), r); err != nil {
		t.Error(err)
	}
	r.Headers[0].Key = "he"
	if err := log.Append(t.Context(), r); !errors.Is(err, stream.ErrTooLarge) {
		t.Errorf("11 bytes: %v", err)
	}
	value := stream.Record{Partition: in, Key: []byte("key"), Value: make([]byte, 1<<20)}
	if err := open(t, memory.Options{}).Append(t.Context(), value); err != nil {
		t.Errorf("1 MiB and a key, by default: %v", err)
	}
}

func TestLeastRecentProducerIsForgotten(t *testing.T) {
	log := open(t, memory.Options{MaxProducers: 2})
	for _, c := range []struct {
		producer string
		repeated int
	}{{"a", 0}, {"b", 0}, {"a", 1}, {"c", 0}, {"a", 1}, {"b", 0}} {
		got, err := log.AppendOnce(t.Context(), c.producer, 1, stream.Record{Partition: in})
		if err != nil || got != c.repeated {
			t.Fatalf("%s: %d repeated, %v; want %d", c.producer, got, err, c.repeated)
		}
	}
}

func TestMembersNameTheSameTopics(t *testing.T) {
	log := open(t, memory.Options{})
	member := join(t, log, "g")
	if _, err := log.Join(t.Context(), "g", "in", "out"); err == nil {
		t.Error("a member with other topics was accepted")
	}
	if err := member.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := log.Join(t.Context(), "g", "out", "in", "out"); err != nil {
		t.Error(err)
	}
}

func TestViewEndsWithItsAssignment(t *testing.T) {
	log := open(t, memory.Options{})
	first := join(t, log, "g")
	views := map[stream.Partition]stream.View{}
	for _, a := range poll(t, first).Assigned {
		views[a.Partition] = a.State
	}
	join(t, log, "g")
	revoked := poll(t, first).Revoked[0]
	if _, err := views[revoked].Get(nil); err != nil {
		t.Errorf("revoked, before the next Poll: %v", err)
	}
	first.Wake()
	poll(t, first)
	for p, view := range views {
		_, err := view.Get(nil)
		if want := p == revoked; errors.Is(err, stream.ErrFenced) != want {
			t.Errorf("%v, of which %v was given up: %v", p, revoked, err)
		}
	}
	if err := log.Close(); err != nil {
		t.Fatal(err)
	}
	for _, err := range views[revoked].Scan(nil) {
		if !errors.Is(err, stream.ErrClosed) {
			t.Errorf("scan of a closed log: %v", err)
		}
	}
}

func TestChangeWithoutOffsetPanics(t *testing.T) {
	member := join(t, open(t, memory.Options{}), "g")
	poll(t, member)
	wantPanic(t, func() {
		member.Commit(stream.Transaction{Changes: []stream.Change{{Partition: in, Key: []byte("a")}}})
	})
}

// The time of a slow step counts from when another began to wait, and the wait
// ends by itself.
func TestMemberIsFencedAfterTheTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := open(t, memory.Options{RebalanceTimeout: time.Second})
		defer log.Close()
		slow := join(t, log, "g")
		poll(t, slow)
		time.Sleep(time.Hour) // nobody waits
		heir := join(t, log, "g")
		began := time.Now()
		short, cancel := context.WithTimeout(t.Context(), 999*time.Millisecond)
		defer cancel()
		if _, err := heir.Poll(short, 1); !errors.Is(err, context.DeadlineExceeded) {
			t.Fatal(err)
		}
		if batch := poll(t, heir); len(batch.Assigned) != 2 || time.Since(began) != time.Second {
			t.Errorf("the heir owns %d partitions after %v", len(batch.Assigned), time.Since(began))
		}
		if err := slow.Commit(stream.Transaction{}).Wait(t.Context()); !errors.Is(err, stream.ErrFenced) {
			t.Errorf("commit: %v", err)
		}
	})
}

// The owner of a revoked partition has the timeout from when it was told.
func TestTimeoutCountsFromTheLastPoll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := open(t, memory.Options{RebalanceTimeout: time.Second})
		defer log.Close()
		owner := join(t, log, "g")
		poll(t, owner)
		heir := join(t, log, "g")
		done := make(chan struct{})
		go func() {
			defer close(done)
			if batch, err := heir.Poll(context.Background(), 1); err != nil || len(batch.Assigned) != 1 {
				t.Errorf("%+v, %v", batch, err)
			}
		}()
		time.Sleep(900 * time.Millisecond)
		revoked := poll(t, owner).Revoked[0]
		time.Sleep(900 * time.Millisecond)
		step := stream.Transaction{Offsets: map[stream.Partition]stream.Offset{revoked: 0}}
		if err := owner.Commit(step).Wait(t.Context()); err != nil {
			t.Error(err)
		}
		poll(t, owner)
		<-done
	})
}

func TestRebalanceMovesNoMoreThanItHasTo(t *testing.T) {
	log := memory.New(memory.Options{})
	if err := log.CreateTopic(t.Context(), stream.Topic{Name: "in", Partitions: 6}); err != nil {
		t.Fatal(err)
	}
	var members []stream.Member
	for n, want := range []int{0, 3, 2, 1} { // of 6, as the first, second, third and fourth joins
		members = append(members, join(t, log, "g"))
		revoked, assigned := 0, 0
		for range 2 { // to be told, and to give up
			for _, m := range members {
				m.Wake()
				batch := poll(t, m)
				revoked += len(batch.Revoked)
				assigned += len(batch.Assigned)
			}
		}
		members[n].Wake()
		assigned += len(poll(t, members[n]).Assigned)
		if n > 0 && assigned != want || revoked != want {
			t.Errorf("member %d: %d revoked, %d assigned, want %d", n+1, revoked, assigned, want)
		}
	}
}

// A member that waits in Poll is not slow, even for hours.
func TestMemberInPollIsNotFenced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := open(t, memory.Options{RebalanceTimeout: time.Second})
		first := join(t, log, "g")
		poll(t, first)
		revoked := make(chan stream.Batch)
		go func() {
			batch, err := first.Poll(context.Background(), 1)
			if err != nil {
				t.Error(err)
			}
			revoked <- batch
		}()
		time.Sleep(time.Hour)
		join(t, log, "g")
		if batch := <-revoked; len(batch.Revoked) != 1 {
			t.Errorf("%+v", batch)
		}
	})
}

// An event in and its output, in steps of 1,000.
func BenchmarkStep(b *testing.B) {
	log := open(b, memory.Options{})
	member := join(b, log, "g")
	poll(b, member)
	records := make([]stream.Record, 1000)
	b.ReportAllocs()
	for b.Loop() {
		for i := range records {
			records[i] = stream.Record{Partition: stream.Partition{Topic: "in", Index: int32(i % 2)}, Key: []byte("key"), Value: []byte("value")}
		}
		if err := log.Append(b.Context(), records...); err != nil {
			b.Fatal(err)
		}
		step := stream.Transaction{Offsets: map[stream.Partition]stream.Offset{}}
		for len(step.Outputs) < len(records) {
			for _, r := range poll(b, member).Records {
				step.Offsets[r.Partition] = r.Offset + 1
				step.Outputs = append(step.Outputs, stream.Record{Partition: out, Time: r.Time, Key: r.Key, Value: r.Value})
				step.Changes = append(step.Changes, stream.Change{Partition: r.Partition, Key: r.Key, Value: r.Value})
			}
		}
		if err := member.Commit(step).Wait(b.Context()); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(b.N*len(records))/b.Elapsed().Seconds(), "events/s")
}
