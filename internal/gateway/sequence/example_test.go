package sequence_test

import (
	"context"
	"fmt"

	"github.com/afterbay/afterbay/internal/gateway/sequence"
	"github.com/afterbay/afterbay/internal/gateway/wire"
	"github.com/afterbay/afterbay/internal/log/memory"
	"github.com/afterbay/afterbay/stream"
)

func Example() {
	ctx, stop := context.WithCancel(context.Background())
	log := memory.New(memory.Options{})
	for _, topic := range []string{"messages", "decisions"} { // of a pipeline
		if err := log.CreateTopic(ctx, stream.Topic{Name: topic, Partitions: 1}); err != nil {
			panic(err)
		}
	}
	s, err := sequence.New(log, sequence.Options{Name: "chat", Input: "messages", Sources: []sequence.Source{{Topic: "decisions"}}})
	if err != nil {
		panic(err)
	}
	if err := s.MakeTopics(ctx); err != nil {
		panic(err)
	}
	ended := make(chan error)
	go func() { ended <- s.Run(ctx) }()

	// A gateway appends an event; whoever answers keeps the header of its client.
	event := wire.Event{Tenant: "acme", Client: "c42", ID: "01J", Sequence: 1, Payload: []byte(`{"text":"hi"}`)}
	if err := log.Append(ctx, wire.Submit(sequence.Inbox("chat"), &event)); err != nil {
		panic(err)
	}
	for message := range log.Tail(ctx, stream.Partition{Topic: "messages"}, 0) {
		answer := stream.Record{Partition: stream.Partition{Topic: "decisions"}, Value: []byte(`{"flag":false}`), Headers: message.Headers}
		if err := log.Append(ctx, answer); err != nil {
			panic(err)
		}
		break
	}
	own := stream.Partition{Topic: sequence.Results("chat"), Index: wire.PartitionOf("acme", "c42", sequence.DefaultPartitions)}
	for record := range log.Tail(ctx, own, 0) {
		result, err := wire.ParseResult(&record)
		fmt.Println(result.Seq, result.Event, result.Status, string(result.Payload), err)
		break
	}
	stop()
	fmt.Println(<-ended)
	// Output:
	// 1 01J ok {"flag":false} <nil>
	// <nil>
}
