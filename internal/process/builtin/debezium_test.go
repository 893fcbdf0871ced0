package builtin_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/afterbay/afterbay/internal/config"
	"github.com/afterbay/afterbay/internal/pipeline"
	"github.com/afterbay/afterbay/internal/process/builtin"
)

// TestPipelinesThatMistakeChangeEventsAreWarnedOf has inputs of Debezium with the pitfalls of change events, and without.
func TestPipelinesThatMistakeChangeEventsAreWarnedOf(t *testing.T) {
	const op, own, deletions, placed = ", op: {from: envelope, type: string}", "who, table: tiers, key: id", "input.envelope: deletions are events too", `Kafka places a record of Debezium by the JSON of its key, such as {"id":7}, and a row of table tiers by its key`
	for _, c := range []struct{ envelope, more, lookup, want string }{
		{"debezium", "", "who, table: tiers, key: city", deletions},
		{"debezium", op, "who, table: tiers, key: city", ""},
		{"debezium", op, own, placed},
		{"debezium, repartition: 2", op, own, ""},
		{"cloudevents", "", own, ""},
	} {
		text := fmt.Sprintf("pipeline: p\ninput: {topic: in, key: id, envelope: %s, fields: {id: string, city: string%s}}\nsteps:\n  - lookup: {name: %s, fields: {tier: optional string}}\n  - emit: {topic: out, value: [id, who.tier]}\n", c.envelope, c.more, c.lookup)
		file, err := config.Parse("p.yaml", []byte(text), builtin.Kinds())
		if err != nil {
			t.Fatal(err)
		}
		runner, err := builtin.New(file.Pipelines[0], pipeline.Options{})
		if err != nil {
			t.Fatal(err)
		}
		got := strings.Join(runner.Warnings, "\n")
		for _, part := range []string{deletions, placed} {
			if strings.Contains(got, part) != (part == c.want) {
				t.Errorf("%s: the warnings are %q, want %q alone", text, got, c.want)
			}
		}
	}
}
