package journal_test

import (
	"context"
	"fmt"
	"log"

	"github.com/afterbay/afterbay/internal/log/memory"
	"github.com/afterbay/afterbay/internal/state/journal"
	"github.com/afterbay/afterbay/stream"
)

func Example() {
	ctx, in := context.Background(), stream.Partition{Topic: "questions"}
	questions := memory.New(memory.Options{})
	if err := questions.CreateTopic(ctx, stream.Topic{Name: in.Topic, Partitions: 1}); err != nil {
		log.Fatal(err)
	}
	member, err := questions.Join(ctx, "chat", in.Topic)
	if err != nil {
		log.Fatal(err)
	}
	batch, err := member.Poll(ctx, 1)
	if err != nil {
		log.Fatal(err)
	}
	j, err := journal.Open(in, batch.Assigned[0].State, journal.Spec{})
	if err != nil {
		log.Fatal(err)
	}
	request := journal.Request{Endpoint: "https://models/chat", Version: "2026-01", Body: []byte("why?")}
	for waiter := range uint64(3) {
		state, answer, err := j.Ask(request.Key(), "chat", waiter)
		if err != nil {
			log.Fatal(err)
		}
		fmt.Printf("%d: %v %q\n", waiter, state, answer)
		if waiter != 1 {
			continue
		}
		// The answer comes, and is used when the step that holds it is committed.
		if _, err := j.Record(request.Key(), journal.Answer{Model: "chat", Bytes: []byte("because"), Units: 1}, 0); err != nil {
			log.Fatal(err)
		}
		step := stream.Transaction{Changes: j.Changes(), Offsets: map[stream.Partition]stream.Offset{in: 0}}
		if err := member.Commit(step).Wait(ctx); err != nil {
			log.Fatal(err)
		}
		for _, landed := range j.Committed() {
			fmt.Printf("%s: for %v\n", landed.Answer, landed.Waiters)
		}
	}
	// Output:
	// 0: call ""
	// 1: wait ""
	// because: for [0 1]
	// 2: found "because"
}
