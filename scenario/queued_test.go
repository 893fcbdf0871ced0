package scenario_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"path"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/afterbay/afterbay/scenario"
)

// owners serves the owner of each card: none of the card none. It refuses the card bad.
func owners(t *testing.T) string {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch card := path.Base(r.URL.Path); card {
		case "none":
			w.WriteHeader(http.StatusNotFound)
		case "bad":
			w.WriteHeader(http.StatusBadRequest)
		default:
			_ = json.NewEncoder(w).Encode(map[string]string{"owner": "of " + card})
		}
	}))
	t.Cleanup(server.Close)
	return server.URL
}

// queued are the ways to have events queued at a lookup.
var queued = []string{"async: true", "journal: true", "journal: {by: request}"}

// cards is a scenario of events of some cards, and what a pipeline makes of each. In the
// steps LOOKUP is replaced by a lookup of the owner, which has the words of more too.
func cards(t *testing.T, url, more, time, steps string, events ...string) {
	t.Helper()
	steps = strings.ReplaceAll(steps, "LOOKUP", fmt.Sprintf(`lookup: {name: of, http: {url: '%s/{key}'}, key: card, fields: {owner: string}, empty: {owner: '"nobody"'}, %s}`, url, more))
	text := "pipeline\n  pipeline: owners\n  input: {topic: payments, key: card, time: {field: at, unit: rfc3339, " + time + "}, fields: {card: string, n: number, at: time}}\n  steps:\n" +
		"    " + strings.ReplaceAll(strings.TrimSpace(steps), "\n", "\n    ") + "\n\n" + strings.Join(events, "\n") + "\n"
	s, err := scenario.Parse("queued.txt", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	failures, err := s.Run(t.Context(), scenario.Options{})
	if err != nil {
		t.Fatalf("%s: %v", more, err)
	}
	for _, f := range failures {
		t.Errorf("%s: %v", more, f)
	}
}

// TestQueuedEventsLeaveTheSameInEveryWay has each event queued: those of different keys
// may leave the queue in any order, with ordered those of a key may not.
func TestQueuedEventsLeaveTheSameInEveryWay(t *testing.T) {
	url := owners(t)
	var events []string
	for i := range 40 {
		card := []string{"a", "b", "none", "bad"}[i*i%7%4]
		owner := map[string]string{"a": "of a", "b": "of b", "none": "nobody"}[card]
		result := fmt.Sprintf("  decisions {\"card\":%q,\"n\":%d,\"of_owner\":%q}", card, i, owner)
		if card == "bad" {
			result = "  owners.dlq lookup: ..."
		}
		events = append(events, fmt.Sprintf("event 10:00:%02d {\"card\": %q, \"n\": %d}\n  early {\"card\":%q}\n%s", i, card, i, card, result))
	}
	for _, more := range slices.Concat(queued, []string{"async: true, ordered: true", "journal: true, ordered: true"}) {
		cards(t, url, more, "lateness: 5s", "- emit: {topic: early, value: [card]}\n- LOOKUP\n- emit: {topic: decisions, value: [card, n, of.owner]}", events...)
	}
}

// TestDeadLettersAndLatenessAreTheSameBehindTheQueue compares calls in the place of the
// event with those for queued events: what is said of an event is the same.
func TestDeadLettersAndLatenessAreTheSameBehindTheQueue(t *testing.T) {
	url := owners(t)
	events := []string{
		`event 10:00:00 {"card": "a", "n": 1}`, `  decisions {"card":"a","n":1,"of_owner":"of a"}`,
		`event 10:00:20 {"card": "b", "n": 2}`, `  decisions {"card":"b","n":2,"of_owner":"of b"}`,
		`event 10:00:01 {"card": "a", "n": 3}`, `  late`, `  decisions {"card":"a","n":3,"of_owner":"of a"}`,
		`event 10:00:20 {"card": "bad", "n": 4}`, `  owners.dlq lookup: of: 400 Bad Request...`,
		`counts`, `  events=4 late=1 dropped=0 dead=1`,
	}
	for _, more := range append([]string{"batch: {size: 1}"}, queued...) {
		cards(t, url, more, "lateness: 5s, late: include", "- LOOKUP\n- emit: {topic: decisions, value: [card, n, of.owner]}", events...)
	}
}

// TestKeysThatComeBackKnowTheirQueuedEvents counts events below the queue, with times in
// which windows end, at events that are dropped above it. Some ways of running it end the process while events are queued.
func TestKeysThatComeBackKnowTheirQueuedEvents(t *testing.T) {
	url := owners(t)
	var events []string
	at, newest, counts := time.Date(2026, 1, 1, 10, 0, 0, 0, time.UTC), map[string]time.Time{}, map[string]int{}
	for i := range 60 {
		card := []string{"a", "b", "none", "c"}[i*i%11%4]
		if at = at.Add(time.Second); i%9 == 8 {
			at = at.Add(25 * time.Minute)
		}
		if at.Sub(newest[card]) > 10*time.Minute {
			counts[card] = 0
		}
		event := fmt.Sprintf("event %s {\"card\": %q, \"n\": %d}\n", at.Format(time.TimeOnly), card, i)
		if i%9 == 8 {
			events = append(events, event+"  dropped")
			continue
		}
		newest[card] = at
		counts[card]++
		events = append(events, fmt.Sprintf("%s  decisions {\"card\":%q,\"n\":%d,\"seen_count_10m\":%d}", event, card, i, counts[card]))
	}
	for _, more := range queued {
		cards(t, url, more+", ordered: true", "lateness: 5s", `
- route: {gone: {when: "int(n) % 9 == 8", steps: drop}, default: {steps: [let: {kept: n}]}}
- LOOKUP
- let: {score: 'of.owner == "of a" ? n : 1.0'}
- features:
    seen: {value: score, windows: [10m], aggregates: [count]}
- emit: {topic: decisions, value: [card, n, seen.*]}`, events...)
	}
}
