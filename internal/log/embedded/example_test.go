package embedded_test

import (
	"context"
	"fmt"
	"os"

	"github.com/afterbay/afterbay/internal/log/embedded"
	"github.com/afterbay/afterbay/stream"
)

// One step answers two events, counts them and moves past them, in one commit.
func Example() {
	dir, err := os.MkdirTemp("", "log")
	if err != nil {
		panic(err)
	}
	defer os.RemoveAll(dir)
	log, err := embedded.Open(dir, embedded.Options{SegmentBytes: 1 << 20})
	if err != nil {
		panic(err)
	}
	defer log.Close()

	ctx := context.Background()
	in, out := stream.Partition{Topic: "events"}, stream.Partition{Topic: "answers"}
	for _, p := range []stream.Partition{in, out} {
		if err := log.CreateTopic(ctx, stream.Topic{Name: p.Topic, Partitions: 1}); err != nil {
			panic(err)
		}
	}
	if err := log.Append(ctx, stream.Record{Partition: in, Value: []byte("a")}, stream.Record{Partition: in, Value: []byte("b")}); err != nil {
		panic(err)
	}
	member, err := log.Join(ctx, "answering", "events")
	if err != nil {
		panic(err)
	}
	batch, err := member.Poll(ctx, 100)
	if err != nil {
		panic(err)
	}
	step := stream.Transaction{
		Outputs: []stream.Record{{Partition: out, Value: fmt.Appendf(nil, "%d events", len(batch.Records))}},
		Changes: []stream.Change{{Partition: in, Key: []byte("count"), Value: []byte("2")}},
		Offsets: map[stream.Partition]stream.Offset{in: 2},
	}
	if err := member.Commit(step).Wait(ctx); err != nil {
		panic(err)
	}
	for record := range log.Tail(ctx, out, 0) {
		fmt.Printf("%v at %d: %s\n", record.Partition, record.Offset, record.Value)
		break
	}
	// Output: answers/0 at 0: 2 events
}
