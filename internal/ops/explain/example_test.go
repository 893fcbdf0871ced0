package explain_test

import (
	"context"
	"fmt"
	"time"

	"github.com/afterbay/afterbay/internal/lang"
	"github.com/afterbay/afterbay/internal/lang/steps"
	"github.com/afterbay/afterbay/internal/log/memory"
	"github.com/afterbay/afterbay/internal/ops/explain"
	"github.com/afterbay/afterbay/internal/ops/inspect"
	running "github.com/afterbay/afterbay/internal/pipeline"
	"github.com/afterbay/afterbay/internal/process/builtin"
	"github.com/afterbay/afterbay/internal/test/answers"
	"github.com/afterbay/afterbay/stream"
)

func Example() {
	ctx := context.Background()
	log := memory.New(memory.Options{})
	defer log.Close()
	pipeline := lang.Pipeline{
		Name: "velocity",
		Input: lang.Input{
			Topic: "payments", Key: "card", Partitions: 1,
			Fields: []lang.Field{{Name: "card", Type: "string"}, {Name: "amount", Type: "number"}},
		},
		Steps: []lang.Step{
			&steps.Features{List: []steps.Feature{{Name: "spend", Value: "amount", Windows: []string{"1h"}, Aggregates: []string{"sum"}}}},
			&steps.Decide{List: []lang.Binding{{Name: "action", Expr: `spend.sum_1h > 100 ? "review" : "allow"`}}},
			&steps.Emit{Topic: "decisions", Names: []string{"card", "action"}},
		},
	}
	runner, err := builtin.New(pipeline, running.Options{})
	if err != nil {
		panic(err)
	}
	var events []stream.Record
	for i, amount := range []int{40, 25, 80} {
		events = append(events, stream.Record{
			Partition: stream.Partition{Topic: "payments"}, Time: time.Unix(int64(i), 0),
			Key: []byte("c1"), Value: fmt.Appendf(nil, `{"card":"c1","amount":%d}`, amount),
		})
	}
	if _, err := answers.RunAll(ctx, log, runner, events); err != nil {
		panic(err)
	}

	report, err := explain.Explain(ctx, "velocity:payments/0@2:decisions", explain.Options{
		Directory: &inspect.Local{Log: log}, Pipelines: []lang.Pipeline{pipeline},
	})
	if err != nil {
		panic(err)
	}
	fmt.Println(report.Output.Position, string(report.Output.Value))
	fmt.Println(report.Event.Position, string(report.Event.Value))
	for _, v := range report.Replays[0].Row {
		if v.Name == "spend.sum_1h" || v.Name == "action" {
			fmt.Println(v.Name, string(v.Value))
		}
	}
	fmt.Println("the same again:", report.Replays[0].Same)
	// Output:
	// decisions/0@2 {"card":"c1","action":"review"}
	// payments/0@2 {"card":"c1","amount":80}
	// spend.sum_1h 145
	// action "review"
	// the same again: true
}
