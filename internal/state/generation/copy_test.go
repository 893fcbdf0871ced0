package generation_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/afterbay/afterbay/internal/log/embedded"
	"github.com/afterbay/afterbay/internal/log/memory"
	"github.com/afterbay/afterbay/internal/state/generation"
	"github.com/afterbay/afterbay/internal/state/statekey"
	"github.com/afterbay/afterbay/stream"
)

// failing is a log on which the commits of a group fail from a number on, 1 being the
// first, with an error.
type failing struct {
	generation.Log
	group string
	from  int
	err   error
}

func (l *failing) Join(ctx context.Context, group string, topics ...string) (stream.Member, error) {
	s, err := l.Log.Join(ctx, group, topics...)
	if err == nil && group == l.group {
		s = &failingMember{s, l}
	}
	return s, err
}

type failingMember struct {
	stream.Member
	of *failing
}

func (s *failingMember) Commit(step stream.Transaction) *stream.Pending {
	if s.of.from--; s.of.from > 0 {
		return s.Member.Commit(step)
	}
	p := stream.NewPending()
	p.Decide(s.of.err)
	return p
}

var source = stream.Partition{Topic: "in"}

// fill gives a group 3 MB of state at offset 5.
func fill(t *testing.T, log generation.Log, group string, more ...stream.Change) map[string]string {
	t.Helper()
	if err := log.CreateTopic(t.Context(), stream.Topic{Name: "in", Partitions: 1}); err != nil {
		t.Fatal(err)
	}
	for range 8 {
		if err := log.Append(t.Context(), stream.Record{Partition: source, Value: []byte("event")}); err != nil {
			t.Fatal(err)
		}
	}
	want := map[string]string{}
	step := stream.Transaction{Offsets: map[stream.Partition]stream.Offset{source: 5}, Changes: more}
	for i := range 3000 {
		key, value := fmt.Appendf(nil, "ecard-%d", i), make([]byte, 1000)
		copy(value, key)
		want[string(key)] = string(value)
		step.Changes = append(step.Changes, stream.Change{Partition: source, Key: key, Value: value})
	}
	s, err := log.Join(t.Context(), group, "in")
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if batch, err := s.Poll(t.Context(), 1); err != nil || len(batch.Assigned) != 1 {
		t.Fatalf("%+v, %v", batch, err)
	}
	if err := s.Commit(step).Wait(t.Context()); err != nil {
		t.Fatal(err)
	}
	return want
}

func entry(key byte, value string) stream.Change {
	return stream.Change{Partition: source, Key: []byte{key}, Value: []byte(value)}
}

// TestStateIsCopiedWholeAfterFailures fails at each commit of the copy, and then goes
// on: the generation has nothing, as far as its offset says, or all.
func TestStateIsCopiedWholeAfterFailures(t *testing.T) {
	for _, engine := range []struct {
		name string
		open func(t *testing.T) generation.Log
	}{
		{"memory", func(*testing.T) generation.Log { return memory.New(memory.Options{}) }},
		{"embedded", func(t *testing.T) generation.Log {
			log, err := embedded.Open(t.TempDir(), embedded.Options{})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = log.Close() })
			return log
		}},
	} {
		t.Run(engine.name, func(t *testing.T) {
			log := engine.open(t)
			cells := generation.Fingerprint{Pipeline: "fraud", Outputs: "one", Order: "order"}
			want := fill(t, log, "fraud", entry(statekey.Generation, string(cells.Append(nil, 1))), entry(statekey.JournalHead, "answers"))
			begun := generation.Begun{Pipeline: "fraud", Generation: 7, Input: "in", Group: "fraud", State: "fraud", Start: []stream.Offset{5}}
			broken := errors.New("broken")
			steps := 0
			for ; ; steps++ {
				err := generation.Copy(t.Context(), &failing{log, "fraud.g7", steps + 1, broken}, "fraud", begun)
				if err == nil {
					break
				}
				if !errors.Is(err, broken) {
					t.Fatal(err)
				}
				if at, err := log.Committed(t.Context(), "fraud.g7", source); err != nil || at >= 5 {
					t.Fatalf("after %d steps it is at %d: %v", steps, at, err)
				}
			}
			if steps < 3 {
				t.Fatalf("3 MB were copied in %d steps", steps)
			}
			view, err := log.State(t.Context(), "fraud.g7", source)
			if err != nil {
				t.Fatal(err)
			}
			got := map[string]string{}
			for e, err := range view.Scan(nil) {
				if err != nil {
					t.Fatal(err)
				}
				if e.Key[0] != statekey.Generation {
					got[string(e.Key)] = string(e.Value)
				}
			}
			if d := cmp.Diff(want, got); d != "" {
				t.Error(d)
			}
			cells.Outputs = "two"
			if n, change, err := cells.Load(source, view); n != 7 || change != generation.NewOutputs || err != nil {
				t.Errorf("it is of generation %d, %v, %v", n, change, err)
			}
			if at, err := log.Committed(t.Context(), "fraud.g7", source); err != nil || at != 5 {
				t.Errorf("it is at %d: %v", at, err)
			}
		})
	}
}

// TestStateThatAnotherMemberTookIsNotCopied has the group that is copied from lose its
// partition, its events queued, or another offset than was planned.
func TestStateThatAnotherMemberTookIsNotCopied(t *testing.T) {
	cells := generation.Fingerprint{Pipeline: "fraud", Outputs: "one", Order: "order"}
	number := entry(statekey.Generation, string(cells.Append(nil, 1)))
	begun := generation.Begun{Pipeline: "fraud", Generation: 2, Input: "in", Group: "fraud", State: "fraud", Start: []stream.Offset{5}}
	for name, of := range map[string]struct {
		more  []stream.Change
		fence int
		start stream.Offset
		want  error
	}{
		"fenced": {[]stream.Change{number}, 1, 5, generation.ErrRuns},
		"queued": {[]stream.Change{number, entry(statekey.Queued, "event")}, 2, 5, generation.ErrQueued},
		"gone":   {[]stream.Change{number}, 2, 4, nil},
	} {
		t.Run(name, func(t *testing.T) {
			log := memory.New(memory.Options{})
			fill(t, log, "fraud", of.more...)
			b := begun
			b.Start = []stream.Offset{of.start}
			err := generation.Copy(t.Context(), &failing{log, "fraud", of.fence, stream.ErrFenced}, "fraud", b)
			if err == nil || of.want != nil && !errors.Is(err, of.want) {
				t.Errorf("copied: %v", err)
			}
			if at, err := log.Committed(t.Context(), "fraud.g2", source); err != nil || at != 0 {
				t.Errorf("it is at %d: %v", at, err)
			}
		})
	}
}
