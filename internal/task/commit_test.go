package task_test

import (
	"encoding/binary"
	"fmt"
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/afterbay/afterbay/internal/state/dedupe"
	"github.com/afterbay/afterbay/internal/state/statekey"
	"github.com/afterbay/afterbay/internal/task"
	"github.com/afterbay/afterbay/stream"
)

func in(p int32) stream.Partition { return stream.Partition{Topic: "in", Index: p} }

// TestTransactionHoldsAllOfAnEvent looks at what is handed to the log together: offsets of all
// partitions that were read, the watermark, what is kept of keys and ids, and outputs.
func TestTransactionHoldsAllOfAnEvent(t *testing.T) {
	inLoop(t, func(l *loop) {
		l.plan.Dedupe = &task.DedupePlan{Slot: l.of("v"), Spec: dedupe.Spec{Window: time.Hour, Max: 100}}
		l.counting()
		l.put(l.emit(0, "k", "n"))
		l.run(at{key: "a", t: 1, v: 1}, at{key: "a", t: 3, v: 2}, at{key: "b", t: 2, v: 3, part: 1})
		steps := l.log.done()
		if len(steps) != 1 {
			t.Fatalf("%d transactions", len(steps))
		}
		step := steps[0]
		if want := map[stream.Partition]stream.Offset{in(0): 2, in(1): 1}; !maps.Equal(step.Offsets, want) {
			t.Errorf("offsets %v, want %v", step.Offsets, want)
		}
		kinds := map[string]int{}
		for _, c := range step.Changes {
			kinds[fmt.Sprintf("%d%c", c.Partition.Index, c.Key[0])]++
			if c.Key[0] == statekey.Watermark {
				if at := binary.BigEndian.Uint64(c.Value); at != map[int32]uint64{0: 3e6, 1: 2e6}[c.Partition.Index] {
					t.Errorf("watermark %d of %v", at, c.Partition)
				}
			}
		}
		want := map[string]int{"0g": 1, "1g": 1, "0w": 1, "1w": 1, "0d": 1, "1d": 1, "0e": 1, "1e": 1}
		if !maps.Equal(kinds, want) {
			t.Errorf("changes %v, want %v", kinds, want)
		}
		if n := len(step.Outputs); n != 3 {
			t.Errorf("%d outputs", n)
		}
		l.wants("out", `{"k":"a","n":1}`, `{"k":"a","n":2}`, `{"k":"b","n":1}`)
		counts := l.metrics.Counts()
		if counts.Events != 3 || counts.Outputs != 3 || counts.Steps != 1 {
			t.Errorf("%+v", counts)
		}
	})
}

// TestTransactionsTakeTurns computes events while the transaction before is outstanding. The
// tap fails the test where two are, or one changes meanwhile.
func TestTransactionsTakeTurns(t *testing.T) {
	inLoop(t, func(l *loop) {
		l.log.held = true
		l.counting()
		l.put(l.emit(0, "k", "n"))
		l.start()
		for i := range 3 {
			l.send(at{key: "a", t: i}, at{key: fmt.Sprint("b", i), t: i})
			l.pass(time.Second)
		}
		if n := len(l.log.done()); n != 1 {
			t.Fatalf("%d transactions while the first is outstanding", n)
		}
		if l.wants("out"); l.metrics.Counts().Events != 0 {
			t.Errorf("%d events are counted before they are durable", l.metrics.Counts().Events)
		}
		l.log.release()
		l.pass(time.Second)
		steps := l.log.done()
		if len(steps) != 2 || steps[1].Offsets[in(0)] != 6 || len(steps[1].Outputs) != 4 {
			t.Fatalf("%d transactions, of which the second is %+v", len(steps), steps[len(steps)-1])
		}
		l.wants("out", `{"k":"a","n":1}`, `{"k":"b0","n":1}`)
		l.log.release()
		l.pass(time.Second)
		l.wants("out", `{"k":"a","n":1}`, `{"k":"b0","n":1}`, `{"k":"a","n":2}`, `{"k":"b1","n":1}`, `{"k":"a","n":3}`, `{"k":"b2","n":1}`)
		if n := len(l.log.done()); n != 2 {
			t.Errorf("%d transactions of two", n)
		}
		l.log.held = false
	})
}

// TestKeysAreEvictedBetweenTransactions has room for one key: a key is read again from the
// state of the transaction that changed it last.
func TestKeysAreEvictedBetweenTransactions(t *testing.T) {
	inLoop(t, func(l *loop) {
		l.options.Keys, l.options.StepEvents = 1, 4
		l.counting()
		l.put(l.emit(0, "k", "n"))
		l.log.latency = 30 * time.Millisecond
		l.start()
		var want []string
		for i := range 20 {
			for _, k := range []string{"a", "b", "c", "d"} {
				l.send(at{key: k, t: 1})
				want = append(want, fmt.Sprintf(`{"k":"%s","n":%d}`, k, i+1))
				l.pass(4 * time.Millisecond)
			}
		}
		l.pass(time.Second)
		l.wants("out", want...)
	})
}

// script is a run of a few transactions with state of all kinds.
func script(l *loop) {
	l.options.StepEvents, l.log.most = 2, 2
	l.plan.Dedupe = &task.DedupePlan{Slot: l.of("v"), Spec: dedupe.Spec{Window: time.Hour, Max: 100}}
	l.counting()
	l.visits()
	l.put(l.let("inverse", "1 / (v - 4)"), l.emit(1, "k", "n", "visits", "v"))
	for i := range 12 {
		l.send(at{key: string("aabc"[i%4]), t: 3 * i, v: i % 10, part: int32(i % 4 / 3)})
	}
	l.start()
	l.pass(time.Second)
	l.end()
	l.start() // what is kept of keys is found again
	l.send(at{key: "a", t: 40, v: 40}, at{key: "b", t: 41, v: 41}, at{key: "c", t: 90, v: 42, part: 1})
	l.pass(time.Second)
	l.end()
}

// TestFailedCommitsChangeNothing has state of keys, functions and ids.
func TestFailedCommitsChangeNothing(t *testing.T) { eachCommitFails(t, script) }

// eachCommitFails fails each transaction of a run in turn, whether it was written or not: the
// task joins again, and the log has what a run without failures leaves.
func eachCommitFails(t *testing.T, script func(*loop)) {
	t.Helper()
	var want string
	transactions := 0
	inLoop(t, func(l *loop) {
		script(l)
		want, transactions = l.everything(), len(l.log.done())
	})
	if transactions < 6 || strings.Count(want, "\n") < 20 {
		t.Fatalf("%d transactions left\n%s", transactions, want)
	}
	for n := 1; n <= transactions; n++ {
		for _, becomes := range []outcome{lost, unknown} {
			inLoop(t, func(l *loop) {
				l.log.fail = func(i int) outcome {
					if i == n {
						return becomes
					}
					return committed
				}
				script(l)
				if got := l.everything(); got != want {
					t.Errorf("transaction %d of %d (%d) failed: the log has\n%swant\n%s", n, transactions, becomes, got, want)
				}
			})
		}
	}
}

// TestTransactionsOfAnySizeLeaveTheSame compares a run of many transactions with one of few.
func TestTransactionsOfAnySizeLeaveTheSame(t *testing.T) {
	left := map[int]string{}
	for _, size := range []int{1, 2, 5, 100} {
		inLoop(t, func(l *loop) {
			l.options.StepEvents = size
			l.counting()
			l.visits()
			for i := range 40 {
				l.send(at{key: string("aabc"[i%4]), t: 3 * i, v: i})
			}
			l.run()
			left[size] = l.everything()
		})
		if left[size] != left[1] {
			t.Errorf("transactions of %d events left\n%s, those of one\n%s", size, left[size], left[1])
		}
	}
}

// TestStopCommitsWhatIsComputed ends a task whose transactions are far apart.
func TestStopCommitsWhatIsComputed(t *testing.T) {
	inLoop(t, func(l *loop) {
		l.options.CommitInterval, l.log.latency = time.Hour, time.Minute
		l.counting()
		l.put(l.emit(0, "n"))
		l.run(at{key: "a", t: 1})
		l.wants("out", `{"n":1}`)
		if _, next := l.state(0); next != 1 {
			t.Errorf("goes on at %d", next)
		}
	})
}

// TestPartitionsThatLeaveAreCommitted starts a second member while a transaction is open.
func TestPartitionsThatLeaveAreCommitted(t *testing.T) {
	inLoop(t, func(l *loop) {
		l.options.CommitInterval = time.Hour
		l.counting()
		l.put(l.emit(0, "k", "n"))
		l.send(at{key: "a", t: 1}, at{key: "b", t: 1, part: 1})
		l.start()
		l.pass(time.Second)
		first := l.stop
		l.start()
		l.pass(time.Second)
		l.send(at{key: "a", t: 2}, at{key: "b", t: 2, part: 1})
		l.pass(time.Second)
		if err := first(); err != nil {
			t.Error(err)
		}
		l.end()
		l.wants("out", `{"k":"a","n":1}`, `{"k":"a","n":2}`, `{"k":"b","n":1}`, `{"k":"b","n":2}`)
	})
}

// TestTransactionThatIsTooLargeIsSplit has a log that takes two outputs at once.
func TestTransactionThatIsTooLargeIsSplit(t *testing.T) {
	inLoop(t, func(l *loop) {
		l.log.outputsMax = 2
		l.options.ChunkEvents = 8
		l.counting()
		l.put(l.emit(0, "n"))
		l.run(at{key: "a", t: 1}, at{key: "a", t: 1}, at{key: "a", t: 1}, at{key: "a", t: 1}, at{key: "a", t: 1})
		l.wants("out", `{"n":1}`, `{"n":2}`, `{"n":3}`, `{"n":4}`, `{"n":5}`)
	})
}

// TestSilentKeysEndOnce has more keys fall silent than one transaction looks at.
func TestSilentKeysEndOnce(t *testing.T) {
	inLoop(t, func(l *loop) {
		l.counting()
		l.put(l.emit(0, "n"))
		var events []at
		for i := range 1100 {
			events = append(events, at{key: fmt.Sprint(i), t: 1})
		}
		l.run(append(events, at{key: "last", t: 100})...)
		entries, next := l.state(0)
		cells := 0
		for key := range entries {
			if key[0] == 'e' {
				cells++
			}
		}
		if cells != 1 || next != 1101 {
			t.Errorf("%d entries of keys are left at %d", cells, next)
		}
	})
}

// TestOutputsMayBeDeliveredEarly has a log that writes outputs before their commit.
func TestOutputsMayBeDeliveredEarly(t *testing.T) {
	inLoop(t, func(l *loop) {
		l.log.early, l.log.held = true, true
		l.counting()
		l.put(l.emit(0, "n"))
		l.send(at{key: "a", t: 1}, at{key: "a", t: 1})
		l.start()
		l.pass(time.Second)
		if got := strings.Join(l.log.delivered, " "); got != `{"n":1} {"n":2}` {
			t.Errorf("%s is delivered", got)
		}
		l.log.release()
		l.log.held = false
	})
}
