package kafka_test

import (
	"context"
	"fmt"

	"github.com/twmb/franz-go/pkg/kfake"

	"github.com/afterbay/afterbay/internal/log/kafka"
	"github.com/afterbay/afterbay/stream"
)

// A step reads a record, and commits its output and its offset as one.
func Example() {
	ctx := context.Background()
	broker := kfake.MustCluster(kfake.NumBrokers(1)) // a real one is named by its host and port
	defer broker.Close()
	log, err := kafka.Open(ctx, kafka.Options{Brokers: broker.ListenAddrs()})
	if err != nil {
		panic(err)
	}
	defer log.Close()

	in, out := stream.Partition{Topic: "in"}, stream.Partition{Topic: "out"}
	for _, p := range []stream.Partition{in, out} {
		if err := log.CreateTopic(ctx, stream.Topic{Name: p.Topic, Partitions: 1}); err != nil {
			panic(err)
		}
	}
	if err := log.Append(ctx, stream.Record{Partition: in, Value: []byte("hello")}); err != nil {
		panic(err)
	}
	member, err := log.Join(ctx, "greeters", "in")
	if err != nil {
		panic(err)
	}
	for done := false; !done; {
		batch, err := member.Poll(ctx, 100)
		if err != nil {
			panic(err)
		}
		for _, r := range batch.Records {
			err := member.Commit(stream.Transaction{
				Outputs: []stream.Record{{Partition: out, Time: r.Time, Value: append(r.Value, " world"...)}},
				Offsets: map[stream.Partition]stream.Offset{in: r.Offset + 1},
			}).Wait(ctx)
			if err != nil {
				panic(err)
			}
			done = true
		}
	}
	for r, err := range log.Tail(ctx, out, 0) {
		fmt.Println(string(r.Value), err)
		break
	}
	// Output: hello world <nil>
}
