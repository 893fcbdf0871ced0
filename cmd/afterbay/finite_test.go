package main

import (
	"encoding/json"
	"strings"
	"testing"
)

// TestNumbersThatAreNotFiniteAreDeadLettersOfTryAndFeatures sums amounts of 1e308 per
// customer: the second sum is beyond float64, as long as the window lasts.
func TestNumbersThatAreNotFiniteAreDeadLettersOfTryAndFeatures(t *testing.T) {
	const head = "pipeline: payments\ninput:\n  topic: payments\n  key: customer\n  fields: {customer: string, amount: number, at: int}\n  time: {field: at, unit: s}\nsteps:\n"
	const events = `{"customer":"a","amount":1e308,"at":1750000000}
{"customer":"a","amount":1e308,"at":1750000001}
{"customer":"b","amount":5,"at":1750000002}
{"customer":"a","amount":-1e308,"at":1750000003}
`
	for name, c := range map[string]struct {
		steps, stage string
		dead         int
	}{
		"sum":        {"  - features: {spend: {value: amount, windows: [1h], aggregates: [sum, mean]}}\n", "features", 1},
		"expression": {"  - let: {more: amount * 10.0}\n", "let", 3},
		"NaN":        {"  - let: {odd: amount * 10.0 - amount * 10.0}\n", "let", 3},
	} {
		t.Run(name, func(t *testing.T) {
			t.Chdir(t.TempDir())
			write(t, "p.yaml", head+c.steps+"  - emit: {topic: out, value: [amount]}\n")
			r := command(t, events, "try", "p.yaml")
			if r.code != exitOK || strings.Count(r.stdout, "dead letter  "+c.stage) != c.dead || strings.Count(r.stdout, "-> out") != 4-c.dead {
				t.Errorf("try: %+v", r)
			}
			r = command(t, "customer,amount,at\na,NaN,1750000000\na,-Inf,1750000000\na,1e999,1750000000\n", "try", "p.yaml", "--format", "csv")
			if r.code != exitOK || strings.Count(r.stdout, "dead letter  decode") != 3 {
				t.Errorf("try of CSV: %+v", r)
			}
			r = command(t, events, "try", "p.yaml", "--json")
			for line := range strings.Lines(r.stdout) {
				if !json.Valid([]byte(line)) {
					t.Errorf("try --json: %s", line)
				}
			}
			for _, file := range []string{"rows.ndjson", "rows.csv", "rows.parquet"} {
				r := command(t, events, "dataset", "p.yaml", "--out", file)
				if r.code != exitOK || !strings.Contains(r.stderr+r.stdout, "dead") {
					t.Errorf("features --out %s: %+v", file, r)
				}
				text := read(t, file)
				if lower := strings.ToLower(text); strings.HasSuffix(file, "csv") && (strings.Contains(lower, "inf") || strings.Contains(lower, "nan")) {
					t.Errorf("%s: %s", file, text)
				}
				rows := 0
				for line := range strings.Lines(text) {
					rows++
					if strings.HasSuffix(file, "ndjson") && !json.Valid([]byte(line)) {
						t.Errorf("%s: %s", file, line)
					}
				}
				if strings.HasSuffix(file, "ndjson") && rows != 4-c.dead {
					t.Errorf("%d rows, %d events passed: %s", rows, 4-c.dead, text)
				}
			}
		})
	}
}
