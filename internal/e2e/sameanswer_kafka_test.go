package e2e_test

import (
	"context"
	"maps"
	"slices"
	"testing"

	"github.com/afterbay/afterbay/internal/log/kafka"
	"github.com/afterbay/afterbay/internal/test/kafkatest"
	"github.com/afterbay/afterbay/internal/test/reference"
	"github.com/afterbay/afterbay/stream"
)

// realKafka is the broker of the tests that kill nobody.
var realKafka = kafkatest.Shared{Options: kafkatest.Options{Settings: []string{"add.partitions.to.txn.retry.backoff.ms=1"}}}

// openBroker opens a log on a real broker that holds nothing else.
func openBroker(t testing.TB, dir string) stream.Log {
	t.Helper()
	cluster := realKafka.Get(t)
	cluster.Empty(t)
	log, err := kafka.Open(t.Context(), kafka.Options{Brokers: cluster.Addresses(), Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	return log
}

// chainOnBroker runs the whole chain over the events, and what is behind the
// stored log over that, one after the other.
func chainOnBroker(t *testing.T, v variant, events []reference.Message, between stored, want map[string]*answer) {
	t.Helper()
	compare := func(t *testing.T, got map[string]*answer) {
		t.Helper()
		for _, name := range slices.Sorted(maps.Keys(got)) {
			if d := got[name].chainDifference(want[name]); d != "" {
				t.Fatalf("seed %d: %s: %s", *answerSeed, name, d)
			}
		}
	}
	t.Run("events", func(t *testing.T) {
		whole := newChainRun(t, v)
		err := whole.run(t.Context(), whole.log, wholeChain, func(ctx context.Context) error { return appendMessages(ctx, whole.log, events) })
		if err != nil {
			t.Fatal(err)
		}
		answers := mustBeChain(t, whole.chainRunners, whole.log)
		compare(t, map[string]*answer{"terminals": answers["terminals"], "copies": copies(answers["activity"])})
	})
	t.Run("stored", func(t *testing.T) {
		again := newChainRun(t, v)
		if err := again.replay(t.Context(), between); err != nil {
			t.Fatal(err)
		}
		compare(t, again.replayed(t, between))
	})
}
