package skew_test

import (
	"strings"
	"testing"

	"github.com/afterbay/afterbay/internal/state/deadletter"
)

// ownLow counts below a let that fails for some events.
const ownLow = `pipeline: payments
input: {topic: payments, key: card, partitions: 3, time: {field: at, unit: ms, lateness: 10s}, fields: {card: string, shop: string, amount: int, at: int}}
steps:
  - features: {spend: {value: amount, windows: [1m], aggregates: [count]}}
  - let: {one: 'FAILS'}
  - features: {low: {windows: [1h], aggregates: [count]}}
  - emit: {topic: decisions, value: [card, shop, spend.*, low.*]}
`

// TestKeysOfLettersThatWereSentBackAreLeftOut sends dead letters back, to the file in which they
// failed and to a corrected one. That computes their events later than a replay, in which they do
// not fail. Their keys are left out, and so are events by the value of which a stage counts.
func TestKeysOfLettersThatWereSentBackAreLeftOut(t *testing.T) {
	const fails, mended = `1 / (amount > 35 && shop == "s1" ? 0 : 1)`, `1 / (amount > 35 && shop == "s1" ? 2 : 1)`
	stages := strings.Replace(byShops, "- let: {risk:", "- let: {one: 'FAILS'}\n  - features: {low: {windows: [1h], aggregates: [count]}}\n  - let: {risk:", 1)
	for name, c := range map[string]struct {
		text             string
		keys, out, least int // keys, those of two dead letters, and events of the others
	}{
		"own key": {ownLow, 50, 2, 450},
		"stages":  {stages, 50 + 7 + 5, 3, 400},
	} {
		t.Run(name, func(t *testing.T) {
			log := byLogOf(t, strings.Replace(c.text, "FAILS", fails, 1))
			same := func(what string, out int) {
				t.Helper()
				r := checked(t, log, "100%")
				if r.Differences != 0 || r.Keys != c.keys-out || r.Events < int64(c.least) || r.Outputs < int64(c.least) || len(r.Notes) != min(out, 1) {
					t.Errorf("%s: %+v %+v", what, r, r.First)
				}
				if out > 0 && !strings.Contains(r.Notes[0], "keys not compared: events have settled dead letters") {
					t.Errorf("%s: %q", what, r.Notes)
				}
			}
			same("with dead letters", 0)
			settled := 0
			for p, err := range deadletter.Settle(t.Context(), log, deadletter.Job{Pipeline: "payments"}) {
				if settled = p.Settled; err != nil {
					t.Fatal(err)
				}
			}
			if settled != 2 {
				t.Fatalf("%d dead letters", settled)
			}
			goesOn(t, log)
			same("failed again", c.out)
			save(t, "p.yaml", strings.Replace(c.text, "FAILS", mended, 1))
			for _, err := range deadletter.Settle(t.Context(), log, deadletter.Job{Pipeline: "payments"}) {
				if err != nil {
					t.Fatal(err)
				}
			}
			goesOn(t, log)
			same("corrected", c.out)
		})
	}
}
