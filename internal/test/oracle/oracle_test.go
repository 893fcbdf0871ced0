package oracle_test

import (
	"strings"
	"testing"

	"github.com/afterbay/afterbay/internal/test/oracle"
)

// TestGeneratedPipelinesMeetEachRule counts what becomes of generated events, so that no
// rule is compared by the random pipelines in name alone.
func TestGeneratedPipelinesMeetEachRule(t *testing.T) {
	seen := map[string]int{}
	for seed := range uint64(300) {
		p, parts := oracle.Generate(seed)
		for i, events := range parts {
			for _, r := range p.Run(i, events) {
				switch {
				case strings.Contains(r.ID, "~grouped"):
					seen["group"]++
				case r.Topic == p.LateTopic:
					seen["late topic"]++
				case r.Row != nil:
					seen["output"]++
					for _, cell := range r.Row {
						seen[columnOf(cell)]++
					}
				default:
					seen["dead letter of "+r.Stage]++
				}
			}
		}
	}
	for _, want := range []string{
		"output", "group", "late topic", "dead letter of decode", "dead letter of key", "dead letter of time", "dead letter of late", "dead letter of let",
		"dead letter of decide", "dead letter of features", "dead letter of route", "dead letter of emit", "dead letter of group",
		"list", "top", "map of a group", "slope", "stddev", "ewma", "p99", "previous", "distinct", "changes",
	} {
		if seen[want] < 10 {
			t.Errorf("%s: %d of the generated events, want 10", want, seen[want])
		}
	}
	t.Log(seen)
}

// columnOf names what a column of a feature is: that of a group if it has two or more.
func columnOf(cell oracle.Cell) string {
	_, column, _ := strings.Cut(cell.Name, ".")
	aggregate, _, _ := strings.Cut(column, "_")
	if len(cell.Value.Entries) > 1 && aggregate != "top" {
		return "map of a group"
	}
	return aggregate
}
