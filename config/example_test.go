package config_test

import (
	"fmt"

	"github.com/afterbay/afterbay"
	"github.com/afterbay/afterbay/config"
)

func ExampleParse() {
	text := `pipeline: fraud
input:
  topic: payments
  key: customer
  fields: {tx: string, customer: string, amount: number}
models:
  fraud: {file: fraud.ubj, version: 3, outputs: {score: number}}
steps:
  - features:
      spend: {value: amount, windows: [60s], aggregates: [sum]}
  - score: {model: fraud, inputs: [spend.sum_60, amount]}
  - emit: {topic: decisions, value: [tx, fraud.score]}
`
	file, err := config.Parse("fraud.yaml", []byte(text))
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, p := range file.Pipelines {
		fmt.Println(p.Name, "reads", p.Input.Topic, "in", len(p.Steps), "steps")
	}

	// A finding of the compiler becomes a place in the file.
	found := afterbay.Errors{{
		Path: "steps[1].score.inputs[0]", Column: 1,
		Message: `unknown name "spend.sum_60"`, Hint: `did you mean "spend.sum_60s"?`,
	}}
	fmt.Println(file.Explain(0, found))
	// Output:
	// fraud reads payments in 3 steps
	// fraud.yaml:11:36: steps[1].score.inputs[0]: unknown name "spend.sum_60": did you mean "spend.sum_60s"?
	//    11 |   - score: {model: fraud, inputs: [spend.sum_60, amount]}
	//       |                                    ^
}
