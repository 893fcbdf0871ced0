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
				default:
					seen["dead letter of "+r.Stage]++
				}
			}
		}
	}
	for _, want := range []string{
		"output", "group", "late topic", "dead letter of decode", "dead letter of key", "dead letter of time", "dead letter of late", "dead letter of let",
		"dead letter of decide", "dead letter of features", "dead letter of route", "dead letter of emit", "dead letter of group",
	} {
		if seen[want] < 10 {
			t.Errorf("%s: %d of the generated events, want 10", want, seen[want])
		}
	}
	t.Log(seen)
}
