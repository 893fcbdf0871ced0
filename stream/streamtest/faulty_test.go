package streamtest_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/afterbay/afterbay/internal/log/memory"
	"github.com/afterbay/afterbay/stream"
	"github.com/afterbay/afterbay/stream/streamtest"
)

var in, out = stream.Partition{Topic: "in"}, stream.Partition{Topic: "out"}

// always returns a log that has the fault in every call, and a member of it
// that owns both partitions of topic in.
func always(t *testing.T, fault streamtest.Fault) (*memory.Log, *streamtest.Faulty, stream.Member) {
	t.Helper()
	log := memory.New(memory.Options{RebalanceTimeout: 100 * time.Millisecond})
	ctx := t.Context()
	for _, topic := range []stream.Topic{{Name: "in", Partitions: 2}, {Name: "out", Partitions: 1}} {
		if err := log.CreateTopic(ctx, topic); err != nil {
			t.Fatal(err)
		}
	}
	faulty := streamtest.NewFaulty(log, streamtest.FaultyOptions{
		Percent: map[streamtest.Fault]int{fault: 100},
		Stall:   time.Second,
	})
	member, err := faulty.Join(ctx, "g", "in")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := errors.Join(member.Close(), faulty.Close()); err != nil {
			t.Error(err)
		}
	})
	return log, faulty, member
}

func poll(t *testing.T, s stream.Member) stream.Batch {
	t.Helper()
	batch, err := s.Poll(t.Context(), 10)
	if err != nil {
		t.Fatal(err)
	}
	return batch
}

func oneStep() stream.Transaction {
	return stream.Transaction{Outputs: []stream.Record{{Partition: out}}, Offsets: map[stream.Partition]stream.Offset{in: 1}}
}

// wantOutputs checks what was committed and what was counted.
func wantOutputs(t *testing.T, log *memory.Log, want stream.Offset, f *streamtest.Faulty, fault streamtest.Fault) {
	t.Helper()
	if _, next, err := log.Offsets(context.WithoutCancel(t.Context()), out); err != nil || next != want {
		t.Errorf("%d outputs, %v; want %d", next, err, want)
	}
	if got := f.Counts(); got[fault] == 0 || len(got) != 1 {
		t.Errorf("counted %v, want only: %v", got, fault)
	}
}

func TestLostCommitDidNothing(t *testing.T) {
	log, faulty, s := always(t, streamtest.CommitLost)
	poll(t, s)
	if err := s.Commit(oneStep()).Wait(t.Context()); !errors.Is(err, stream.ErrFenced) {
		t.Fatalf("commit: %v", err)
	}
	if _, err := s.Poll(t.Context(), 1); !errors.Is(err, stream.ErrFenced) {
		t.Errorf("poll of a dead member: %v", err)
	}
	if err := s.Commit(oneStep()).Wait(t.Context()); !errors.Is(err, stream.ErrFenced) {
		t.Errorf("commit of a dead member: %v", err)
	}
	wantOutputs(t, log, 0, faulty, streamtest.CommitLost)
}

func TestHiddenCommitWasDone(t *testing.T) {
	log, faulty, s := always(t, streamtest.CommitHidden)
	poll(t, s)
	if err := s.Commit(oneStep()).Wait(t.Context()); !errors.Is(err, stream.ErrFenced) {
		t.Fatalf("commit: %v", err)
	}
	if err := s.Commit(oneStep()).Wait(t.Context()); !errors.Is(err, stream.ErrFenced) {
		t.Errorf("commit of a dead member: %v", err)
	}
	wantOutputs(t, log, 1, faulty, streamtest.CommitHidden)
}

func TestTakeoverIsRefusedByTheLog(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log, faulty, s := always(t, streamtest.Takeover)
		if batch := poll(t, s); len(batch.Assigned) != 2 {
			t.Fatalf("%d partitions", len(batch.Assigned))
		}
		if err := s.Commit(oneStep()).Wait(t.Context()); !errors.Is(err, stream.ErrFenced) {
			t.Fatalf("commit: %v", err)
		}
		wantOutputs(t, log, 0, faulty, streamtest.Takeover)
	})
}

func TestRebalanceTakesPartitionsAndGivesThemBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log, faulty, s := always(t, streamtest.Rebalance)
		owned, revoked := 0, 0
		for revoked == 0 || owned < 2 {
			batch := poll(t, s)
			owned += len(batch.Assigned) - len(batch.Revoked)
			revoked += len(batch.Revoked)
		}
		wantOutputs(t, log, 0, faulty, streamtest.Rebalance)
	})
}

func TestDelayedCommitIsDecidedLaterAndEndsPoll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log, faulty, s := always(t, streamtest.Delay)
		poll(t, s)
		pending := s.Commit(oneStep())
		select {
		case <-pending.Done():
			t.Fatal("decided at once")
		default:
		}
		for decided := false; !decided; {
			poll(t, s)
			select {
			case <-pending.Done():
				decided = true
			default:
			}
		}
		if err := pending.Wait(t.Context()); err != nil {
			t.Fatal(err)
		}
		wantOutputs(t, log, 1, faulty, streamtest.Delay)
	})
}

func TestShortPollsReturnEverythingInTheEnd(t *testing.T) {
	log, faulty, s := always(t, streamtest.ShortPoll)
	if err := log.Append(t.Context(), slices.Repeat([]stream.Record{{Partition: in}}, 50)...); err != nil {
		t.Fatal(err)
	}
	polls, n := 0, 0
	for ; n < 50; polls++ {
		n += len(poll(t, s).Records)
	}
	if n != 50 || polls <= 5 {
		t.Errorf("%d records in %d polls of at most 10", n, polls)
	}
	wantOutputs(t, log, 0, faulty, streamtest.ShortPoll)
}

func TestCountsNameMissingFaults(t *testing.T) {
	counts := streamtest.Counts{streamtest.Delay: 2}
	counts.Add(streamtest.Counts{streamtest.Delay: 1, streamtest.Takeover: 4})
	if got, want := counts.String(), "commit lost 0, commit hidden 0, takeover 4, rebalance 0, delay 3, short poll 0"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	want := []streamtest.Fault{streamtest.CommitLost, streamtest.CommitHidden, streamtest.Rebalance, streamtest.ShortPoll}
	if got := counts.Missing(); !slices.Equal(got, want) {
		t.Errorf("missing %v, want %v", got, want)
	}
}
