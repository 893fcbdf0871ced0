package config_test

import (
	"fmt"

	"github.com/afterbay/afterbay/internal/config"
	"github.com/afterbay/afterbay/internal/process/builtin"
	"github.com/afterbay/afterbay/internal/spec"
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
	file, err := config.Parse("fraud.yaml", []byte(text), builtin.Kinds())
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, p := range file.Pipelines {
		fmt.Println(p.Name, "reads", p.Input.Topic, "in", len(p.Steps), "steps")
	}

	// A finding of the compiler becomes a place in the file.
	found := spec.Problems{{
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

func ExampleParseWith() {
	text := []byte(`pipeline: fraud
input:
  topic: payments-${STAGE:-test}
  partitions: ${PARTITIONS}
  key: customer
  fields: {customer: string}
steps:
  - emit: {topic: decisions, value: [customer]}
`)
	variables := map[string]string{"PARTITIONS": "8"}
	file, err := config.ParseWith("fraud.yaml", text, func(name string) (string, bool) {
		value, set := variables[name]
		return value, set
	}, builtin.Kinds())
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(file.Pipelines[0].Input.Topic, file.Pipelines[0].Input.Partitions)

	_, err = config.Parse("fraud.yaml", text, builtin.Kinds())
	fmt.Println(err)
	// Output:
	// payments-test 8
	// fraud.yaml:4:15: input.partitions: the environment variable PARTITIONS is not set: export PARTITIONS=... or write ${PARTITIONS:-default}
	//     4 |   partitions: ${PARTITIONS}
	//       |               ^
}
