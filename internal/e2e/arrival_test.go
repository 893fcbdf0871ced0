package e2e_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/afterbay/afterbay/internal/config"
	"github.com/afterbay/afterbay/internal/pipeline"
	"github.com/afterbay/afterbay/internal/process/builtin"
)

// TestRowsThatDependOnArrivalAreSaid has pipelines with rows that depend on the order of
// arrival, and others without.
func TestRowsThatDependOnArrivalAreSaid(t *testing.T) {
	const features = "\nsteps:\n  - features: {seen: {windows: [1h], aggregates: [count]}}\n  - emit: {topic: out, value: [k, seen.*]}\n"
	const input = "input: {topic: a, key: k, fields: {k: string, m: string}}"
	for name, c := range map[string]struct {
		file string
		want []string // what the warnings of the last pipeline begin with
	}{
		"one topic by its key":      {"pipeline: p\n" + input + features, nil},
		"repartition by time":       {"pipeline: p\ninput: {topic: a, key: k, repartition: 4, fields: {k: string}}" + features, nil},
		"repartition":               {"pipeline: p\ninput: {topic: a, key: k, repartition: 4, time: {order: arrival}, fields: {k: string}}" + features, []string{"input.repartition: events of several partitions of a are merged in the order of their copies"}},
		"repartition without state": {"pipeline: p\ninput: {topic: a, key: k, repartition: 4, fields: {k: string}}\nsteps:\n  - emit: {topic: out, value: [k]}\n", nil},
		"inputs":                    {"pipeline: p\ninputs:\n  - {topic: a, key: k, time: {order: arrival}, fields: {k: string}}\n  - {topic: b, key: k, time: {order: arrival}, fields: {k: string}}" + features, []string{"inputs: the events of a, b are merged in the order of their copies"}},
		"table": {"pipeline: p\n" + input + "\nsteps:\n  - lookup: {name: shop, table: shops, key: m, fields: {risk: number}, empty: {risk: 0.0}}\n  - emit: {topic: out, value: [k, shop.risk]}\n",
			[]string{"lookup: an event reads the rows of table shops that have arrived"}},
		"chain by another key": {"pipeline: w\n" + input + "\nsteps:\n  - emit: {topic: b, key: m, value: [k, m]}\n---\npipeline: p\ninput: {topic: b, key: m, fields: {k: string, m: string}}" + features,
			[]string{"input.topic: pipeline w writes b by the key m"}},
		"chain by the same key": {"pipeline: w\n" + input + "\nsteps:\n  - emit: {topic: b, value: [k]}\n---\npipeline: p\ninput: {topic: b, key: k, fields: {k: string}}" + features, nil},
		"two writers": {"pipeline: w\n" + input + "\nsteps:\n  - emit: {topic: b, value: [k]}\n---\npipeline: v\n" + strings.Replace(input, "topic: a", "topic: c", 1) + "\nsteps:\n  - emit: {topic: b, value: [k]}\n---\npipeline: p\ninput: {topic: b, key: k, fields: {k: string}}" + features,
			[]string{"input.topic: pipelines w, v write b"}},
	} {
		t.Run(name, func(t *testing.T) {
			file, err := config.Parse("p.yaml", []byte(c.file), builtin.Kinds())
			if err != nil {
				t.Fatal(err)
			}
			var runners []*pipeline.Runner
			for i, p := range file.Pipelines {
				runner, err := builtin.New(p, pipeline.Options{})
				if err != nil {
					t.Fatal(file.Explain(i, err))
				}
				runners = append(runners, runner)
			}
			got := pipeline.Arrivals(runners)[len(runners)-1]
			if !slices.EqualFunc(got, c.want, strings.HasPrefix) {
				t.Errorf("%q, want %q", got, c.want)
			}
		})
	}
}
