package embedded

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"syscall"
	"testing"
	"time"

	"github.com/afterbay/afterbay/stream"
)

// cpu returns the processor time that this process used.
func cpu(b *testing.B) time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

func report(b *testing.B, l *Log, events int, used time.Duration) {
	st := l.Stats()
	b.ReportMetric(float64(events)/b.Elapsed().Seconds(), "events/s")
	b.ReportMetric(float64(used.Nanoseconds())/1000/float64(events), "cpu-us/event")
	b.ReportMetric(float64(st.Bytes)/float64(events), "B-log/event")
	b.ReportMetric(float64(st.SyncP50.Microseconds()), "sync-p50-us")
	b.ReportMetric(float64(st.SyncP99.Microseconds()), "sync-p99-us")
}

// load is n events of 300 bytes over 100,000 keys.
func load(n int) []stream.Record {
	records := make([]stream.Record, n)
	value := bytes.Repeat([]byte("x"), 300)
	for i := range records {
		key := fmt.Appendf(nil, "user-%d", i*7919%100_000)
		records[i] = stream.Record{Partition: stream.Partition{Topic: "events", Index: stream.ByKey}, Time: time.UnixMicro(1), Key: key, Value: value}
	}
	return records
}

func benchLog(b *testing.B) *Log {
	l, err := Open(b.TempDir(), Options{Logger: quiet, RetainBytes: 512 << 20, ReleaseUnread: true})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { l.Close() })
	create(b, l, 4)
	eventually(b, "spares", func() bool { return l.Stats().Spares == spareFiles })
	return l
}

// BenchmarkAppend appends 1,000 events at a time, from two goroutines.
func BenchmarkAppend(b *testing.B) {
	l := benchLog(b)
	b.ReportAllocs()
	b.SetParallelism(1)
	before := cpu(b)
	b.ResetTimer()
	b.RunParallel(func(pb *testing.PB) {
		records := load(1000)
		for pb.Next() {
			for i := range records {
				records[i].Partition.Index = stream.ByKey
			}
			if err := l.Append(context.Background(), records...); err != nil {
				b.Error(err)
				return
			}
		}
	})
	report(b, l, b.N*1000, cpu(b)-before)
}

// BenchmarkCycle appends, polls and commits: 2,048 events a step, each with an
// output of 100 bytes and a change of 64, pipelined by one.
func BenchmarkCycle(b *testing.B) {
	const n = 2048
	l := benchLog(b)
	s, err := l.Join(b.Context(), "g", "events")
	if err != nil {
		b.Fatal(err)
	}
	done := make(chan error, 1)
	go func() { done <- feed(l, b.N, n) }()
	b.ReportAllocs()
	before := cpu(b)
	b.ResetTimer()
	var pending *stream.Pending
	offsets := map[stream.Partition]stream.Offset{}
	for got := 0; got < b.N*n; {
		batch, err := s.Poll(b.Context(), n)
		if err != nil {
			b.Fatal(err)
		}
		got += len(batch.Records)
		if len(batch.Records) == 0 {
			continue
		}
		st := work(batch.Records)
		for _, r := range batch.Records {
			offsets[r.Partition] = r.Offset + 1
		}
		st.Offsets = make(map[stream.Partition]stream.Offset, len(offsets))
		for p, o := range offsets {
			st.Offsets[p] = o
		}
		if pending != nil {
			if err := pending.Wait(b.Context()); err != nil {
				b.Fatal(err)
			}
		}
		pending = s.Commit(st)
	}
	if err := pending.Wait(b.Context()); err != nil {
		b.Fatal(err)
	}
	if err := <-done; err != nil {
		b.Fatal(err)
	}
	report(b, l, b.N*n, cpu(b)-before)
}

// feed appends times n events.
func feed(l *Log, times, n int) error {
	records := load(n)
	for range times {
		for i := range records {
			records[i].Partition.Index = stream.ByKey
		}
		if err := l.Append(context.Background(), records...); err != nil {
			return err
		}
	}
	return nil
}

// work makes a step of records.
func work(records []stream.Record) stream.Transaction {
	arena := make([]byte, 0, 164*len(records))
	st := stream.Transaction{
		Outputs: make([]stream.Record, len(records)),
		Changes: make([]stream.Change, len(records)),
	}
	for i, r := range records {
		out := arena[len(arena) : len(arena)+100]
		arena = arena[:len(arena)+100]
		binary.LittleEndian.PutUint64(out, uint64(r.Offset))
		value := arena[len(arena) : len(arena)+64]
		arena = arena[:len(arena)+64]
		st.Outputs[i] = stream.Record{Partition: stream.Partition{Topic: "scores", Index: r.Partition.Index}, Time: r.Time, Key: r.Key, Value: out}
		st.Changes[i] = stream.Change{Partition: r.Partition, Key: r.Key, Value: value}
	}
	return st
}

// BenchmarkColdRead reads a log from its segments.
func BenchmarkColdRead(b *testing.B) {
	l, err := Open(b.TempDir(), Options{Logger: quiet, RingBytes: 1})
	if err != nil {
		b.Fatal(err)
	}
	defer l.Close()
	create(b, l, 4)
	if err := feed(l, 100, 2000); err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	before, n := cpu(b), 0
	for b.Loop() {
		for i := range int32(4) {
			p := stream.Partition{Topic: "events", Index: i}
			c, err := l.newCursor(p, 0, make(chan struct{}, 1))
			if err != nil {
				b.Fatal(err)
			}
			var records [1000]stream.Record
			for {
				got, err := c.read(records[:0], len(records))
				if err != nil {
					b.Fatal(err)
				}
				if n += len(got); len(got) == 0 {
					break
				}
			}
			c.close()
		}
	}
	report(b, l, n, cpu(b)-before)
}
