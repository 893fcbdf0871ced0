package main

import (
	"encoding/json"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/afterbay/afterbay/internal/http/admin"
)

// waitingChain is two pipelines that wait without end for a partition that stops. The second
// reads what the first one writes, by another key.
const waitingChain = `pipeline: shops
input: {topic: payments, partitions: 2, key: shop, repartition: 2, time: {field: at, unit: rfc3339, lateness: 30s, idle: never}, fields: {card: string, shop: string, at: time}}
steps:
  - features: {seen: {windows: [1m], aggregates: [count]}}
  - emit: {topic: seen, key: card, value: [card, shop, at, seen.*]}
---
pipeline: cards
input: {topic: seen, partitions: 2, key: card, repartition: 2, time: {field: at, unit: rfc3339, lateness: 30s, idle: never}, fields: {card: string, shop: string, at: time, seen_count_1m: int}}
steps:
  - features: {own: {windows: [1m], aggregates: [count]}}
  - emit: {topic: rows, value: [card, at, own.*]}
`

// TestASourceThatAPipelineWritesIsSkipped has both pipelines of a chain wait without end, in a data
// directory and on Kafka. Each source partition that they wait for is skipped. Each event has one
// row then, those that come later too.
func TestASourceThatAPipelineWritesIsSkipped(t *testing.T) {
	if apart(t) {
		return
	}
	for name, engine := range map[string]func(t *testing.T) []string{
		"embedded":    func(t *testing.T) []string { return []string{"--data", t.TempDir()} },
		"kafka":       func(t *testing.T) []string { return []string{"--engine", fakeEngine(t)} },
		"real broker": func(t *testing.T) []string { return []string{"--engine", realEngine(t)} },
	} {
		t.Run(name, func(t *testing.T) { skipChain(t, engine(t)) })
	}
}

func skipChain(t *testing.T, engine []string) {
	t.Chdir(t.TempDir())
	const token = "boss-0123456789abcdef0123456789abcdef"
	write(t, "chain.yaml", waitingChain)
	write(t, "tokens.yaml", "tokens:\n"+tokenLine("boss", token, "{admin: true}"))
	on := func(stdin string, args ...string) string { return must(t, stdin, append(args, engine...)...) }
	on(`{"card":"ann","shop":"s","at":"2026-01-01T10:00:02Z"}
{"card":"ann","shop":"s","at":"2026-01-01T10:00:22Z"}
{"card":"ann","shop":"s","at":"2026-01-01T10:00:50Z"}
{"card":"dan","shop":"s","at":"2026-01-01T10:00:12Z"}
`, "produce", "payments", "--key", "card", "--partitions", "2")
	out, end := background(t, append([]string{"run", "chain.yaml", "--listen", "127.0.0.1:0", "--token-file", "tokens.yaml"}, engine...)...)
	out.wait(t, "afterbay tail seen --follow")
	at := []string{"--url", regexp.MustCompile(`http://127.0.0.1:[0-9]+`).FindString(out.String()), "--token", token}

	skipped := map[string]bool{}
	rows := func() (lines []string) { return strings.Fields(strings.ReplaceAll(on("", "tail", "rows"), " ", "")) }
	skipUntil := func(n int) {
		t.Helper()
		until(t, func() bool {
			var all admin.Orders
			if err := json.Unmarshal([]byte(must(t, "", append([]string{"order", "status", "--json"}, at...)...)), &all); err != nil {
				t.Fatal(err)
			}
			for i := range all.Pipelines {
				// A source of payments is skipped after its events were read: those that come later count as forced.
				if o := &all.Pipelines[i]; o.Holder() != nil && o.Holder().For > 1.1 && (o.Pipeline == "cards" || o.Holder().Frontier != nil && o.Holder().Frontier.Year() == 2026) {
					source := o.Holder().Source
					switch r := command(t, "", append([]string{"order", "skip", o.Pipeline, "--source", source}, at...)...); {
					case r.code == exitOK:
						skipped[o.Pipeline+" "+source] = true
					case !strings.Contains(r.stderr, "no event waits for "+source) && !strings.Contains(r.stderr, "try again after that time"): // it waits for another one since, or anew
						t.Fatal(r.stderr)
					}
				}
			}
			return len(rows()) >= n
		})
	}
	skipUntil(4)
	if !skipped["shops payments/1"] || !skipped["cards seen/0"] && !skipped["cards seen/1"] {
		t.Errorf("skipped are %v", skipped)
	}
	on(`{"card":"dan","shop":"s","at":"2026-01-01T10:00:35Z"}`+"\n", "produce", "payments", "--key", "card")
	skipUntil(5)
	want := []string{
		`{"card":"ann","at":"2026-01-01T10:00:02.000000Z","own_count_1m":1}`, `{"card":"ann","at":"2026-01-01T10:00:22.000000Z","own_count_1m":2}`,
		`{"card":"ann","at":"2026-01-01T10:00:50.000000Z","own_count_1m":3}`,
		`{"card":"dan","at":"2026-01-01T10:00:12.000000Z","own_count_1m":1}`, `{"card":"dan","at":"2026-01-01T10:00:35.000000Z","own_count_1m":2}`,
	}
	got := rows()
	if slices.Sort(got); !slices.Equal(got, want) {
		t.Errorf("the rows are %q", got)
	}
	var all admin.Orders
	if err := json.Unmarshal([]byte(must(t, "", append([]string{"order", "status", "shops", "--json"}, at...)...)), &all); err != nil || all.Pipelines[0].Forced != 1 || all.Pipelines[0].Late != 0 {
		t.Errorf("%+v %v", all, err)
	}
	for topic, source := range map[string]string{"shops.repartition": "payments/1", "cards.repartition": "seen/"} {
		if copies := on("", "tail", topic); !strings.Contains(copies, `{"skip":"`+source) || !strings.Contains(copies, `"by":"boss"`) {
			t.Errorf("%s does not say who skipped: %s", topic, copies)
		}
	}
	if code := end(); code != exitOK {
		t.Errorf("exit %d: %s", code, out)
	}
}
