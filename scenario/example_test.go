package scenario_test

import (
	"context"
	"fmt"

	"github.com/afterbay/afterbay/scenario"
)

// A test of a pipeline calls Test with the scenario's file. This is what it
// says where something is not as the scenario expects it.
func Example() {
	s, err := scenario.Parse("visits.txt", []byte(`
pipeline
  pipeline: visits
  input: {topic: visits, key: page, fields: {page: string}}
  steps:
    - features: {seen: {windows: [1h], aggregates: [count]}}
    - emit: {topic: counts, value: [page, seen.count_1h]}

event 10:00:00 {"page": "home"}
  counts {"page": "home", "seen_count_1h": 1}
crash
event 11:00:00 {"page": "home"}
  counts {"page": "home", "seen_count_1h": 2}
`))
	if err != nil {
		fmt.Println(err)
		return
	}
	failures, err := s.Run(context.Background(), scenario.Options{})
	if err != nil {
		fmt.Println(err)
	}
	for _, f := range failures {
		fmt.Println(f)
	}
	// Output:
	// visits.txt:12: event 11:00:00 {"page": "home"}
	// - counts {"page": "home", "seen_count_1h": 2}
	// + counts {"page":"home","seen_count_1h":1}
}

// A file that all ways agree on has no failures.
func ExampleRun() {
	failures, err := scenario.Run(context.Background(), "crash-after.txt", scenario.Options{})
	fmt.Println(failures, err)
	// Output: [] <nil>
}
