package afterbay_test

import (
	"context"
	"fmt"
	"time"

	"github.com/afterbay/afterbay"
	"github.com/afterbay/afterbay/stream"
)

func Example() {
	ctx, stop := context.WithTimeout(context.Background(), time.Minute)
	log, err := afterbay.OpenLog(ctx, "memory:", afterbay.Code{}, stream.Process{}) // or "embedded", which is in stream.Process.Dir
	if err != nil {
		panic(err)
	}
	runner, err := afterbay.New(afterbay.Pipeline{
		Name:  "velocity",
		Input: afterbay.Input{Topic: "payments", Key: "card", Fields: []afterbay.Field{{Name: "card", Type: "string"}, {Name: "amount", Type: "number"}}},
		Steps: []afterbay.Step{
			&afterbay.Features{List: []afterbay.Feature{{Name: "spend", Value: "amount", Windows: []string{"1h"}, Aggregates: []string{"sum", "count"}}}},
			&afterbay.Decide{List: []afterbay.Binding{{Name: "action", Expr: `spend.sum_1h > 100 ? "review" : "allow"`}}},
			&afterbay.Emit{Topic: "decisions", Names: []string{"card", "spend.sum_1h", "action"}},
		},
	}, afterbay.Options{})
	if err != nil {
		panic(err)
	}
	if err := runner.CreateTopics(ctx, log); err != nil {
		panic(err)
	}
	ended := make(chan error)
	go func() { ended <- runner.Run(ctx, log) }()
	for _, amount := range []int{40, 70} {
		payment := stream.Record{
			Partition: stream.Partition{Topic: "payments", Index: stream.ByKey},
			Key:       []byte("4711"), Value: fmt.Appendf(nil, `{"card":"4711","amount":%d}`, amount),
		}
		if err := log.Append(ctx, payment); err != nil {
			panic(err)
		}
	}
	decisions := stream.Partition{Topic: "decisions", Index: stream.Place([]byte("4711"), afterbay.DefaultPartitions)}
	for decision, err := range log.Tail(ctx, decisions, 0) {
		fmt.Println(string(decision.Value), err)
		if decision.Offset == 1 {
			break
		}
	}
	stop()
	fmt.Println(<-ended)
	// Output:
	// {"card":"4711","spend_sum_1h":40,"action":"allow"} <nil>
	// {"card":"4711","spend_sum_1h":110,"action":"review"} <nil>
	// <nil>
}
