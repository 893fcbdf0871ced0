package e2e_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/afterbay/afterbay/internal/log/memory"
	"github.com/afterbay/afterbay/internal/test/eventtime"
)

// chains are two pipelines of which the second has another key. In the topic between them the
// first has partitions of its own, or all write to all.
var chains = map[string]string{
	"copied":        orderedMerchants + chainedCards,
	"copied by key": strings.Replace(orderedMerchants, "topic: merchants-rows,", "topic: merchants-rows, key: card,", 1) + chainedCards,
	"by key": `pipeline: cards
input: {topic: payments, partitions: 4, key: card, time: {field: ts, unit: ms}, ` + fieldsOfPayments + `}
steps:
  - features: {f: {value: amount, windows: [10m], aggregates: [sum, count]}}
  - emit: {topic: cards-rows, key: merchant, value: [id, card, merchant, amount, ts, f.*]}
---
pipeline: merchants
input: {topic: cards-rows, key: merchant, repartition: REPARTITION, time: {field: ts, unit: ms, idle: IDLE}, ` + fieldsOfPayments + `}
steps:
  - features: {f: {value: amount, windows: [10m], aggregates: [sum, count]}}
  - emit: {topic: merchants-rows, value: [id, f.*]}
`,
}

const chainedCards = `---
pipeline: cards
input: {topic: merchants-rows, key: card, repartition: REPARTITION, time: {field: ts, unit: ms, idle: IDLE}, ` + fieldsOfPayments + `}
steps:
  - features: {f: {value: amount, windows: [10m], aggregates: [sum, count]}}
  - emit: {topic: cards-rows, value: [id, f.*]}
`

// TestChainsAreEventTimeTruth has pipelines read what others write, by another key and without
// lateness. Each row is that of a sort of the sources, whatever the members and partitions, of a
// backlog and of events that come as they happen.
func TestChainsAreEventTimeTruth(t *testing.T) {
	events := eventtime.Payments(2, *orderedEvents, 4)
	for name, text := range chains {
		for members := 1; members <= 4; members++ {
			s := orderedSettings{members: members, partitions: []int{1, 4, 7}[(members+len(name))%3], interval: 5 * time.Millisecond, idle: "100ms"}
			run := fmt.Sprintf("%s/members=%d/partitions=%d", name, members, s.partitions)
			t.Run("backlog/"+run, func(t *testing.T) { backlogOfChain(t, text, s, events) })
			if members%3 == 1 {
				s.idle = "1s"
				t.Run("live/"+run, func(t *testing.T) { livePayments(t, text, s, events[:len(events)/2]) })
			}
		}
	}
}

// backlogOfChain has all payments be there at the beginning, and all pipelines run at once.
func backlogOfChain(t *testing.T, text string, s orderedSettings, events []eventtime.Event) {
	synctest.Test(t, func(t *testing.T) {
		log := memory.New(memory.Options{})
		o := startOrdered(t, log, text, s)
		events := shifted(events, time.Now().UnixMilli()*1000-events[len(events)-1].Time)
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
		defer cancel()
		if err := errors.Join(log.Append(ctx, paymentRecords(events)...), o.while(ctx, o.idle)); err != nil {
			t.Fatal(err)
		}
		o.mustBeTrue(t, events)
		if err := log.Close(); err != nil {
			t.Fatal(err)
		}
	})
}
