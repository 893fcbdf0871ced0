package streamtest_test

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/afterbay/afterbay/internal/log/memory"
	"github.com/afterbay/afterbay/stream"
	"github.com/afterbay/afterbay/stream/streamtest"
)

// A commit that reports a failure may have happened: only a new member, which
// starts from what was really committed, can tell.
func ExampleFaulty() {
	ctx := context.Background()
	log := streamtest.NewFaulty(memory.New(memory.Options{}), streamtest.FaultyOptions{
		Percent: map[streamtest.Fault]int{streamtest.CommitLost: 30, streamtest.CommitHidden: 30},
		Seed:    5,
	})
	defer log.Close()
	must := func(err error) {
		if err != nil {
			panic(err)
		}
	}
	clicks := stream.Partition{Topic: "clicks"}
	must(log.CreateTopic(ctx, stream.Topic{Name: "clicks", Partitions: 1}))
	must(log.Append(ctx, slices.Repeat([]stream.Record{{Partition: clicks}}, 3)...))
	for next := stream.Offset(0); next < 3; {
		member, err := log.Join(ctx, "counters", "clicks")
		must(err)
		batch, err := member.Poll(ctx, 1)
		must(err)
		next = batch.Assigned[0].Next
		if next < 3 {
			err = member.Commit(stream.Transaction{Offsets: map[stream.Partition]stream.Offset{clicks: next + 1}}).Wait(ctx)
			fmt.Printf("event %d: %v\n", next, err)
		}
		must(member.Close())
	}
	fmt.Println(log.Counts())
	// Output:
	// event 0: injected, commit lost: member fenced
	// event 0: <nil>
	// event 1: <nil>
	// event 2: injected, commit hidden: member fenced
	// commit lost 1, commit hidden 1, takeover 0, rebalance 0, delay 0, short poll 0
}

// Engines call Run and Simulate from their tests.
func ExampleRun() {
	newLog := func(*testing.T) stream.Log {
		return memory.New(memory.Options{RebalanceTimeout: 100 * time.Millisecond})
	}
	_ = func(t *testing.T) { streamtest.Run(t, newLog) } // TestConformance
	_ = func(t *testing.T) {                             // TestSimulation
		synctest.Test(t, func(t *testing.T) { streamtest.Simulate(t, newLog, streamtest.Options{Seed: 1}) })
	}
}
