package memory_test

import (
	"context"
	"fmt"

	"github.com/afterbay/afterbay/internal/log/memory"
	"github.com/afterbay/afterbay/stream"
)

func Example() {
	ctx := context.Background()
	log := memory.New(memory.Options{})
	defer log.Close()
	must := func(err error) {
		if err != nil {
			panic(err)
		}
	}
	words, counts := stream.Partition{Topic: "words"}, stream.Partition{Topic: "counts"}
	must(log.CreateTopic(ctx, stream.Topic{Name: "words", Partitions: 1}))
	must(log.CreateTopic(ctx, stream.Topic{Name: "counts", Partitions: 1}))
	must(log.Append(ctx,
		stream.Record{Partition: words, Value: []byte("water")},
		stream.Record{Partition: words, Value: []byte("falls")},
	))

	member, err := log.Join(ctx, "counter", "words")
	must(err)
	defer member.Close()
	batch, err := member.Poll(ctx, 100)
	must(err)
	step := stream.Transaction{Offsets: map[stream.Partition]stream.Offset{}}
	for _, r := range batch.Records {
		step.Outputs = append(step.Outputs, stream.Record{Partition: counts, Value: fmt.Appendf(nil, "%s: %d", r.Value, len(r.Value))})
		step.Offsets[r.Partition] = r.Offset + 1
	}
	must(member.Commit(step).Wait(ctx))

	for r, err := range log.Tail(ctx, counts, 0) {
		must(err)
		fmt.Printf("%v@%d %s\n", r.Partition, r.Offset, r.Value)
		if r.Offset == 1 {
			break
		}
	}
	// Output:
	// counts/0@0 water: 5
	// counts/0@1 falls: 5
}
