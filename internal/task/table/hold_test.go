package table

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/afterbay/afterbay/internal/log/memory"
	"github.com/afterbay/afterbay/internal/task/clock"
	"github.com/afterbay/afterbay/stream"
)

// holding is a member that holds the records of in for 2 s, in virtual time.
func holding(t *testing.T, test func(t *testing.T, log *memory.Log, member stream.Member)) {
	synctest.Test(t, func(t *testing.T) {
		log := memory.New(memory.Options{})
		if err := log.CreateTopic(t.Context(), stream.Topic{Name: "in", Partitions: 2}); err != nil {
			t.Fatal(err)
		}
		inner, err := log.Join(t.Context(), "g", "in")
		if err != nil {
			t.Fatal(err)
		}
		member := Hold(inner, 2*time.Second, nil, clock.System)
		test(t, log, member)
		if err := member.Close(); err != nil {
			t.Error(err)
		}
		if err := log.Close(); err != nil {
			t.Error(err)
		}
	})
}

func TestRecordsAreHeldFromTheirAppendOn(t *testing.T) {
	for seed := range uint64(20) {
		holding(t, func(t *testing.T, log *memory.Log, member stream.Member) {
			r := rand.New(rand.NewPCG(seed, 1))
			const records = 500
			go func() {
				for i := range records {
					if r.IntN(3) == 0 {
						time.Sleep(time.Duration(r.IntN(1000)) * time.Millisecond)
					}
					record := stream.Record{Partition: stream.Partition{Topic: "in", Index: int32(r.IntN(2))}, Value: []byte(fmt.Sprint(i)), Time: time.Now()}
					if r.IntN(10) == 0 {
						record.Time = record.Time.Add(time.Duration(r.IntN(7200)-3600) * time.Second) // its producer's clock
					}
					if err := log.Append(t.Context(), record); err != nil {
						t.Error(err)
					}
				}
			}()
			next := map[stream.Partition]stream.Offset{}
			for n, polls := 0, 0; n < records; polls++ {
				limit := 1 + r.IntN(20)
				batch, err := member.Poll(t.Context(), limit)
				if err != nil || len(batch.Records) > limit || polls > 50*records {
					t.Fatalf("seed %d: %d records of %d, %d polls, %v", seed, len(batch.Records), limit, polls, err)
				}
				n += len(batch.Records)
				for _, record := range batch.Records {
					if record.Offset != next[record.Partition] {
						t.Fatalf("seed %d: %v@%d, want %d", seed, record.Partition, record.Offset, next[record.Partition])
					}
					next[record.Partition]++
					if age := time.Since(record.Time); age < 2*time.Second && record.Time.Before(time.Now()) {
						t.Fatalf("seed %d: a record is returned after %v", seed, age)
					}
				}
			}
		})
	}
}

// TestHeldRecordsComeWhenTheyAreDue wants no record later than its time, and none of a
// partition that is paused.
func TestHeldRecordsComeWhenTheyAreDue(t *testing.T) {
	holding(t, func(t *testing.T, log *memory.Log, member stream.Member) {
		begun := time.Now()
		for i := range int32(4) {
			if err := log.Append(t.Context(), stream.Record{Partition: stream.Partition{Topic: "in", Index: i % 2}, Time: begun}); err != nil {
				t.Fatal(err)
			}
		}
		read := func(within time.Duration) (ids []string) {
			ctx, stop := context.WithTimeout(t.Context(), within)
			defer stop()
			for ctx.Err() == nil {
				batch, err := member.Poll(ctx, 10)
				for _, r := range batch.Records {
					ids = append(ids, fmt.Sprintf("%d@%d", r.Partition.Index, r.Offset))
				}
				if err != nil {
					break
				}
			}
			slices.Sort(ids)
			return ids
		}
		if got := read(1999 * time.Millisecond); len(got) > 0 {
			t.Errorf("%v came too early", got)
		}
		member.Pause(stream.Partition{Topic: "in", Index: 1})
		if got := read(time.Millisecond * 2); !slices.Equal(got, []string{"0@0", "0@1"}) {
			t.Errorf("%v came, without the partition that is paused", got)
		}
		if got := read(time.Hour); len(got) > 0 {
			t.Errorf("%v came", got)
		}
		member.Resume(stream.Partition{Topic: "in", Index: 1})
		if got := read(time.Millisecond); !slices.Equal(got, []string{"1@0", "1@1"}) {
			t.Errorf("%v came after the pause", got)
		}
	})
}

// TestRecordsWaitUntilTheyAreReady holds the records of a partition behind one that is not ready.
// Those of the other partition come, and no more are read of the first.
func TestRecordsWaitUntilTheyAreReady(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := memory.New(memory.Options{})
		if err := log.CreateTopic(t.Context(), stream.Topic{Name: "in", Partitions: 2}); err != nil {
			t.Fatal(err)
		}
		inner, err := log.Join(t.Context(), "g", "in")
		if err != nil {
			t.Fatal(err)
		}
		known := false
		member := Hold(inner, 0, func(r *stream.Record) bool { return known || r.Partition.Index == 1 || r.Offset == 0 }, clock.System)
		read := func() (ids []string) {
			ctx, stop := context.WithTimeout(t.Context(), time.Minute)
			defer stop()
			for ctx.Err() == nil {
				batch, err := member.Poll(ctx, 10)
				if err != nil {
					break
				}
				for _, r := range batch.Records {
					ids = append(ids, fmt.Sprintf("%d@%d", r.Partition.Index, r.Offset))
				}
			}
			slices.Sort(ids)
			return ids
		}
		for range 3 {
			if err := log.Append(t.Context(), make100()...); err != nil {
				t.Fatal(err)
			}
			read()
		}
		waits, others := stream.Partition{Topic: "in", Index: 0}, stream.Partition{Topic: "in", Index: 1}
		h := member.(*holder)
		if !Holds(member, waits) || Holds(member, others) || h.count > 100 {
			t.Errorf("held %v and %v, %d records", Holds(member, waits), Holds(member, others), h.count)
		}
		member.Resume(waits) // by a caller that knows nothing of it
		if got := read(); len(got) > 0 {
			t.Errorf("%v came", got)
		}
		known = true
		member.Wake()
		if got := read(); len(got) != 149 {
			t.Errorf("%d records came when they were ready, want 149", len(got))
		}
		if Holds(member, waits) || h.count != 0 || h.bytes != 0 {
			t.Errorf("%d records of %d bytes are held at the end", h.count, h.bytes)
		}
		if err := member.Close(); err != nil {
			t.Error(err)
		}
	})
}

// TestWhatIsHeldHasABound appends more than is held. Nothing more is read until some is due.
func TestWhatIsHeldHasABound(t *testing.T) {
	holding(t, func(t *testing.T, log *memory.Log, member stream.Member) {
		const records = heldMax + 5000
		for range records / 100 {
			if err := log.Append(t.Context(), make100()...); err != nil {
				t.Fatal(err)
			}
		}
		h, n := member.(*holder), 0
		for n < records/100*100 {
			batch, err := member.Poll(t.Context(), 1000)
			if err != nil {
				t.Fatal(err)
			}
			n += len(batch.Records)
			if h.count > heldMax+1000 {
				t.Fatalf("%d records are held", h.count)
			}
		}
		if h.count != 0 || h.bytes != 0 || h.full {
			t.Errorf("%d records of %d bytes are held at the end", h.count, h.bytes)
		}
	})
}

func make100() []stream.Record {
	records := make([]stream.Record, 100)
	for i := range records {
		records[i] = stream.Record{Partition: stream.Partition{Topic: "in", Index: int32(i % 2)}, Time: time.Now(), Value: []byte("value")}
	}
	return records
}

// TestHeldRecordsOfPartitionsThatLeaveAreDropped has another member take a partition: it
// reads what was held, once.
func TestHeldRecordsOfPartitionsThatLeaveAreDropped(t *testing.T) {
	holding(t, func(t *testing.T, log *memory.Log, member stream.Member) {
		if err := log.Append(t.Context(), make100()...); err != nil {
			t.Fatal(err)
		}
		seen := map[string]int{}
		poll := func(m stream.Member) {
			ctx, stop := context.WithTimeout(t.Context(), 100*time.Millisecond)
			defer stop()
			batch, err := m.Poll(ctx, 1000)
			if err != nil && ctx.Err() == nil {
				t.Fatal(err)
			}
			for _, r := range batch.Records {
				seen[fmt.Sprintf("%d@%d", r.Partition.Index, r.Offset)]++
			}
		}
		poll(member)
		inner, err := log.Join(t.Context(), "g", "in")
		if err != nil {
			t.Fatal(err)
		}
		other := Hold(inner, 2*time.Second, nil, clock.System)
		for range 100 {
			poll(member)
			poll(other)
		}
		if len(seen) != 100 {
			t.Errorf("%d records came of 100", len(seen))
		}
		for id, n := range seen {
			if n != 1 {
				t.Errorf("record %s came %d times", id, n)
			}
		}
		if h := member.(*holder); h.count != 0 || h.bytes != 0 || len(h.parts) != 1 {
			t.Errorf("%d records of %d partitions are held", h.count, len(h.parts))
		}
		if err := other.Close(); err != nil {
			t.Error(err)
		}
	})
}
