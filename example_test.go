package afterbay_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/afterbay/afterbay"
	"github.com/afterbay/afterbay/stream"
)

const velocity = `pipeline: velocity
input: {topic: payments, key: card, fields: {card: string, amount: number}}
steps:
  - features: {spend: {value: amount, windows: [1h], aggregates: [sum, count]}}
  - decide: {action: 'spend.sum_1h > 100 ? "review" : "allow"'}
  - emit: {topic: decisions, value: [card, spend.sum_1h, action]}
`

func Example() {
	ctx, stop := context.WithTimeout(context.Background(), time.Minute)
	pipelines, err := afterbay.Parse("velocity.yaml", []byte(velocity), afterbay.Code{}) // functions, models, sinks, lookups and logs in Go
	if err != nil {
		panic(err)
	}
	engine, err := afterbay.Open(ctx, "memory:", afterbay.Options{}) // or the folder of a data directory, or kafka://HOST:PORT
	if err != nil {
		panic(err)
	}
	defer engine.Close()
	ended := make(chan error)
	go func() { ended <- engine.Run(ctx, pipelines) }()
	if err := engine.Ready(ctx); err != nil {
		panic(err)
	}
	for _, amount := range []int{40, 70} {
		payment := stream.Record{Key: []byte("4711"), Value: fmt.Appendf(nil, `{"card":"4711","amount":%d}`, amount)}
		if err := engine.Append(ctx, "payments", payment); err != nil {
			panic(err)
		}
	}
	for decision, err := range engine.Tail(ctx, "decisions", 0) {
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

// All that is wrong with a file, each with its place and what to do next.
func ExampleErrors() {
	_, err := afterbay.Parse("velocity.yaml", []byte(`pipeline: velocity
input: {topic: payments, kye: card}
steps: []
`), afterbay.Code{})
	var all afterbay.Errors
	if !errors.As(err, &all) {
		panic(err)
	}
	show := func(e *afterbay.Error) {
		fmt.Printf("%s:%d:%d %s: %s: %s\n", e.File, e.Line, e.Column, e.Field, e.Message, e.Hint)
	}
	for _, one := range all {
		show(one)
	}
	// Output:
	// velocity.yaml:2:26 input.kye: unknown word "kye": did you mean "key"?
	// velocity.yaml:3:8 steps: is empty: write `[...]`, or one `- ...` a line
}
