package kafka

import (
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"

	"github.com/afterbay/afterbay/stream"
)

// An event in and its output and a change of state, in steps of 1,000, on a broker of
// this process: allocations and time are those of both.
func BenchmarkStep(b *testing.B) {
	cluster, err := kfake.NewCluster(kfake.NumBrokers(1))
	if err != nil {
		b.Fatal(err)
	}
	defer cluster.Close()
	l, err := Open(b.Context(), conforming(cluster.ListenAddrs()))
	if err != nil {
		b.Fatal(err)
	}
	defer l.Close()
	for _, topic := range []stream.Topic{{Name: "in", Partitions: 2}, {Name: "out", Partitions: 1}} {
		if err := l.CreateTopic(b.Context(), topic); err != nil {
			b.Fatal(err)
		}
	}
	m, err := l.Join(b.Context(), "g", "in")
	if err != nil {
		b.Fatal(err)
	}
	records := make([]stream.Record, 1000)
	b.ReportAllocs()
	for b.Loop() {
		for i := range records {
			records[i] = stream.Record{Partition: stream.Partition{Topic: "in", Index: int32(i % 2)}, Key: []byte("key"), Value: []byte("value")}
		}
		if err := l.Append(b.Context(), records...); err != nil {
			b.Fatal(err)
		}
		step := stream.Transaction{Offsets: map[stream.Partition]stream.Offset{}}
		for len(step.Outputs) < len(records) {
			batch, err := m.Poll(b.Context(), len(records))
			if err != nil {
				b.Fatal(err)
			}
			for i := range batch.Records {
				r := &batch.Records[i]
				step.Offsets[r.Partition] = r.Offset + 1
				step.Outputs = append(step.Outputs, stream.Record{Partition: stream.Partition{Topic: "out"}, Time: time.UnixMilli(1), Key: r.Key, Value: r.Value})
				step.Changes = append(step.Changes, stream.Change{Partition: r.Partition, Key: r.Key, Value: r.Value})
			}
		}
		if err := m.Commit(step).Wait(b.Context()); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(b.N*len(records))/b.Elapsed().Seconds(), "events/s")
}
