package task_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/afterbay/afterbay/internal/control"
	"github.com/afterbay/afterbay/internal/event/header"
	"github.com/afterbay/afterbay/internal/state/order"
	"github.com/afterbay/afterbay/internal/task"
	"github.com/afterbay/afterbay/stream"
)

// repartitioning has the loop copy its events to `out`, by the field w. The group r reads them.
func (l *loop) repartitioning(idle time.Duration) {
	l.plan.Copy, l.plan.Key, l.plan.Time.Lateness = &task.CopyPlan{Partitions: 2, Group: "r", Idle: idle}, l.of("w"), 2*time.Second
}

// second is the place of a time, as a text.
func second(micros int64) string {
	if micros == order.NoMark.Silent {
		return "never"
	}
	return strconv.FormatFloat(float64(micros)/1e6, 'f', -1, 64)
}

// copies are the records of a partition of `out`, with what their headers say.
func (l *loop) copies(part int32) (list []string) {
	l.Helper()
	for _, r := range l.records("out") {
		if r.Partition.Index != part {
			continue
		}
		if data := header.Value(&r, header.Frontier); data != nil {
			list = append(list, l.marked(data))
			continue
		}
		c, err := order.ParseCopy(header.Value(&r, header.Order))
		if err != nil {
			l.Fatal(err)
		}
		text := fmt.Sprintf("%s %s at %s, %d@%d", r.Key, header.Get(&r, header.Source), second(c.Key.Time), c.Key.Source, c.Key.Offset)
		if c.Late {
			text += " late"
		}
		list = append(list, text)
	}
	return list
}

// marked is the text of marks: of each the time, the offset that it is behind, and until when
// the clock says that the source is silent.
func (l *loop) marked(data []byte) string {
	l.Helper()
	marks, err := order.ParseMarks(nil, data)
	if err != nil {
		l.Fatal(err)
	}
	text := "mark"
	for _, m := range marks {
		text += fmt.Sprintf(" %s, %d@%d", second(m.Key.Time), m.Key.Source, m.Key.Offset)
		if m.Silent != order.NoMark.Silent {
			text += " silent " + second(m.Silent)
		}
	}
	return text
}

// silences are the marks of `out` with a clock, of both partitions.
func (l *loop) silences() (list []string) {
	l.Helper()
	for part := range int32(2) {
		for _, text := range l.copies(part) {
			if strings.Contains(text, "silent") {
				list = append(list, fmt.Sprint(part, " ", text))
			}
		}
	}
	return list
}

// partitionOf is where the log puts a key.
func (l *loop) partitionOf(key string) int32 {
	for _, r := range l.records("out") {
		if string(r.Key) == key {
			return r.Partition.Index
		}
	}
	l.Fatalf("no record has the key %s", key)
	return 0
}

// reader starts a member of r that reads `out` in order, and commits at once or after l.slow,
// until the task ends.
// It notes which events have had their turn, and when, in milliseconds from now.
func (l *loop) reader(sources int32) (turns *[]string) {
	turns = &[]string{}
	ctx, cancel := context.WithCancel(l.Context())
	var numbers []int32
	for i := range sources {
		numbers = append(numbers, order.Number(l.plan.Copy.Rank, i))
	}
	begun := time.Now()
	ended := make(chan error, 1)
	go func() {
		ended <- l.readTurns(ctx, order.NewLog(l.log.Log, "out", order.Options{}, numbers...), func(r *stream.Record) {
			of := header.Get(r, header.Source)
			if of == "" {
				of = fmt.Sprint("cancel ", header.Get(r, header.Cancel), " in ", r.Partition.Index)
			}
			*turns = append(*turns, fmt.Sprint(of, " ", time.Since(begun).Milliseconds()))
		})
	}()
	stop := l.stop
	l.stop = func() error {
		err := stop()
		cancel()
		return errors.Join(err, <-ended)
	}
	return turns
}

func (l *loop) readTurns(ctx context.Context, log stream.Log, turn func(*stream.Record)) error {
	m, err := log.Join(ctx, "r", "out")
	if err != nil {
		return err
	}
	for ctx.Err() == nil {
		batch, err := m.Poll(ctx, 100)
		if err != nil && ctx.Err() == nil {
			return errors.Join(err, m.Close())
		}
		step := stream.Transaction{Offsets: map[stream.Partition]stream.Offset{}}
		for i := range batch.Records {
			r := &batch.Records[i]
			step.Offsets[r.Partition] = r.Offset
			if !header.MovesTime(r) {
				step.Offsets[r.Partition]++
				turn(r)
			}
		}
		if len(step.Offsets) == 0 {
			continue
		}
		time.Sleep(l.slow)
		if err := m.Commit(step).Wait(l.Context()); err != nil {
			return errors.Join(err, m.Close())
		}
	}
	return m.Close()
}

// now is the second of the bubble's clock.
func now() int { return int(time.Now().Unix()) }

// TestCopiesSayWhereTheyComeFrom has each event be copied by its new key, with its source, its
// place and whether it is late there. Behind the copies of a step all partitions have a mark of
// each source that moved, also by events that were not copied.
func TestCopiesSayWhereTheyComeFrom(t *testing.T) {
	inLoop(t, func(l *loop) {
		l.repartitioning(0)
		l.plan.Copy.Wait, l.plan.Copy.Rank = time.Second, 3
		l.run(at{key: "a", t: 1, w: "x"}, at{key: "b", t: 11, w: "x"}, at{key: "a", t: 10, w: "u"}, at{key: "a", t: 9, w: "x"}, at{key: "a", t: 8, w: "x"}, at{key: "a", raw: "{"})
		l.run(at{key: "a", t: 20, w: "u", part: 1}, at{key: "a", t: 11, w: "x"}, at{key: "a", raw: "{", part: 1}) // after a restart
		x, u := l.partitionOf("x"), l.partitionOf("u")
		if x == u {
			t.Fatal("both keys are in one partition")
		}
		of := int(order.Number(3, 0))
		place := func(key string, offset, at, part int, late string) string {
			return fmt.Sprintf("%s in/%d@%d at %d, %d@%d%s", key, part, offset, at, of+part, offset, late)
		}
		first := fmt.Sprintf("mark 10, %d@5", of)
		for part, want := range map[int32][]string{
			x: {place("x", 0, 1, 0, ""), place("x", 1, 11, 0, ""), place("x", 3, 10, 0, ""), place("x", 4, 10, 0, " late"), first, place("x", 6, 11, 0, "")},
			u: {place("u", 2, 10, 0, ""), first, place("u", 0, 20, 1, "")},
		} {
			got := l.copies(part)
			if len(got) != len(want)+1 || !slices.Equal(got[:len(want)], want) {
				t.Errorf("partition %d has\n%q, want\n%q and a mark", part, got, want)
			}
			one, other := fmt.Sprintf("10, %d@6", of), fmt.Sprintf("19, %d@1", of+1)
			if last := got[len(got)-1]; last != "mark "+one+" "+other && last != "mark "+other+" "+one {
				t.Errorf("the last mark is %q", last)
			}
		}
		if letters := l.records("dead"); len(letters) != 2 || header.Get(&letters[0], header.Stage) != "decode" || header.Get(&letters[0], header.Repartition) != "" {
			t.Errorf("%v", letters)
		}
	})
}

// TestMarksOfAStepAreBehindItsCopies looks at each transaction.
func TestMarksOfAStepAreBehindItsCopies(t *testing.T) {
	inLoop(t, func(l *loop) {
		l.options.StepEvents, l.log.most = 2, 2
		l.repartitioning(0)
		for i := range 8 {
			l.send(at{key: "a", t: i, w: string("xu"[i%2])})
		}
		l.run()
		steps := l.log.done()
		for n, step := range steps {
			marks := 0
			for _, r := range step.Outputs {
				if data := header.Value(&r, header.Frontier); data != nil {
					if want := fmt.Sprintf("mark %d, 0@%d", 2*n+1, 2*n+1); l.marked(data) != want || r.Partition.Index != int32(marks) {
						t.Errorf("step %d: %q to %v, want %q", n, l.marked(data), r.Partition, want)
					}
					marks++
				} else if marks > 0 {
					t.Errorf("step %d: a copy is behind a mark", n)
				}
			}
			if marks != 2 || len(step.Outputs) != 4 {
				t.Errorf("step %d: %d marks of %d records", n, marks, len(step.Outputs))
			}
		}
		if len(steps) != 4 {
			t.Errorf("%d steps", len(steps))
		}
	})
}

// scriptOfCopies is a run of a few transactions of a repartitioner, with a restart.
func scriptOfCopies(l *loop) {
	l.options.StepEvents, l.log.most = 2, 2
	l.repartitioning(0)
	l.plan.Dedupe = &task.DedupePlan{Slot: l.of("v")}
	l.plan.Dedupe.Spec.Window, l.plan.Dedupe.Spec.Max = time.Hour, 100
	for i := range 12 {
		l.send(at{key: "a", t: 5*i - 7*(i%5), v: i - i%4/3, w: string("xu"[i%3/2])})
	}
	l.start()
	l.pass(time.Second)
	l.end()
	l.start()
	l.send(at{key: "a", t: 50, v: 3, w: "x"}, at{key: "a", t: 53, v: 20, w: "x"}, at{key: "a", t: 51, v: 21, w: "u"}, at{key: "a", raw: "{"})
	l.pass(time.Second)
	l.end()
}

func TestFailedCommitsChangeNothingOfCopies(t *testing.T) { eachCommitFails(t, scriptOfCopies) }

// TestSilentSourceIsToldByTheClock has one source partition have an event, and the other none.
// The event waits for Idle, and then for nothing; and no more is written.
func TestSilentSourceIsToldByTheClock(t *testing.T) {
	inLoop(t, func(l *loop) {
		l.repartitioning(time.Second)
		l.start()
		l.pass(10 * time.Second)
		if len(l.records("out")) != 0 {
			t.Errorf("an idle system wrote %q", l.copies(0))
		}
		at0 := now()
		l.send(at{key: "a", t: at0, w: "x"})
		l.pass(990 * time.Millisecond)
		if list := l.silences(); len(list) != 0 || len(l.records("out")) != 3 {
			t.Errorf("after 990 ms %q", list)
		}
		l.pass(20 * time.Millisecond)
		list := l.silences()
		if len(list) != 2 || list[0][1:] != list[1][1:] || !strings.Contains(list[0], fmt.Sprintf("never, 1@-1 silent %d", at0)) {
			t.Errorf("after 1,010 ms %q", list)
		}
		l.pass(time.Hour)
		if n := len(l.records("out")); n != 5 {
			t.Errorf("%d records an hour later: %q", n, l.silences())
		}
	})
}

// TestSourceIsSilentOnlyAtItsEnd has a source partition have records that are not yet read.
func TestSourceIsSilentOnlyAtItsEnd(t *testing.T) {
	inLoop(t, func(l *loop) {
		l.repartitioning(time.Second)
		l.start()
		turns := l.reader(2)
		l.log.stalled = true
		l.pass(time.Second) // so that the next Poll knows
		at0 := now()
		l.send(at{key: "a", t: at0, w: "x"}, at{key: "a", t: at0, w: "u", part: 1})
		l.pass(time.Minute)
		if list := l.silences(); len(list) != 0 || len(*turns) != 0 {
			t.Errorf("%q is said of a source that has more; turns %q", list, *turns)
		}
		l.log.stalled = false
		l.pass(2 * time.Second)
		if list := l.silences(); len(list) != 2 || !strings.Contains(list[0], " 0@0 silent") || len(*turns) != 2 {
			t.Errorf("%q is said when it goes on, turns %q", list, *turns) // of the other one, which was silent meanwhile
		}
	})
}

// TestSourceWhoseEndIsHiddenIsNotSilent has a transaction of a producer hide what a source
// partition has, for a minute. It is not silent, and the other one is copied meanwhile. When the
// transaction ends without a record, it is.
func TestSourceWhoseEndIsHiddenIsNotSilent(t *testing.T) {
	inLoop(t, func(l *loop) {
		l.repartitioning(time.Second)
		l.log.hidden.Store(true)
		l.start()
		turns := l.reader(2)
		for range 20 {
			l.send(at{key: "a", t: now(), w: "x"})
			l.pass(3 * time.Second)
		}
		if list := l.silences(); len(list) != 0 || len(*turns) != 0 || len(l.copies(l.partitionOf("x"))) != 40 {
			t.Errorf("%q is said of a source whose end is hidden, turns %q, copies %q", list, *turns, l.copies(l.partitionOf("x")))
		}
		l.log.hidden.Store(false)
		if l.pass(2 * time.Second); len(l.silences()) == 0 || len(*turns) != 20 {
			t.Errorf("%q is said when the transaction is over, turns %q", l.silences(), *turns)
		}
	})
}

// TestSourceIsSilentSinceItsNewestRecord loads events of long ago: a source is silent when it
// had no record for Idle, whatever their times are.
func TestSourceIsSilentSinceItsNewestRecord(t *testing.T) {
	inLoop(t, func(l *loop) {
		l.repartitioning(time.Second)
		l.start()
		turns := l.reader(2)
		l.pass(9 * time.Second)
		l.send(at{key: "a", t: 100, w: "x"}, at{key: "a", t: 50, w: "x", part: 1})
		l.pass(900 * time.Millisecond)
		l.send(at{key: "a", t: 70, w: "x", part: 1})
		l.pass(990 * time.Millisecond)
		if list := l.silences(); len(list) != 0 || len(*turns) != 2 {
			t.Errorf("%q of sources that are read; turns %q", list, *turns)
		}
		if l.pass(20 * time.Millisecond); len(l.silences()) != 2 || len(*turns) != 3 {
			t.Errorf("%q, turns %q", l.silences(), *turns)
		}
	})
}

// TestEventWaitsForASilentSourceForIdle has an event in one of two partitions, and go to one of
// two, at a time of the clock to the microsecond: it has its turn after Idle, and two commits.
func TestEventWaitsForASilentSourceForIdle(t *testing.T) {
	for i := range int32(4) {
		inLoop(t, func(l *loop) {
			part := i % 2
			l.repartitioning(time.Second)
			l.start()
			turns := l.reader(2)
			l.pass(10 * time.Second)
			l.send(at{key: "a", t: now(), w: string("xu"[i/2]), part: part})
			l.pass(time.Minute)
			if want := []string{fmt.Sprintf("in/%d@0 11002", part)}; !slices.Equal(*turns, want) {
				t.Errorf("turns %q, want %q", *turns, want)
			}
		})
	}
}

// TestEachEventBesideASilentSourceWaitsForIdle has an event each 10 ms in one of two partitions:
// each of them has its turn after Idle, two commits, and the time until it is looked again, also
// if the reader of the copies takes long to commit.
func TestEachEventBesideASilentSourceWaitsForIdle(t *testing.T) {
	waitsForIdle(t, 0, 30)
	waitsForIdle(t, 60*time.Millisecond, 200)
}

// waitsForIdle has each event wait for so many milliseconds more than Idle at most.
func waitsForIdle(t *testing.T, slow time.Duration, more int) {
	t.Helper()
	inLoop(t, func(l *loop) {
		l.slow = slow
		l.repartitioning(time.Second)
		l.plan.Time.FromField, l.plan.Time.Appended = false, true
		l.start()
		turns := l.reader(2)
		const events, apart = 500, 10
		for range events {
			l.send(at{key: "a", w: "x"})
			l.pass(apart * time.Millisecond)
		}
		l.pass(2 * time.Second)
		if len(*turns) != events {
			t.Fatalf("%d of %d events had their turn", len(*turns), events)
		}
		for i, turn := range *turns {
			var n, at int
			if _, err := fmt.Sscanf(turn, "in/0@%d %d", &n, &at); err != nil || n != i || at < n*apart+1000 || at > n*apart+1000+more {
				t.Fatalf("turn %d of an event of %d ms: %s", i, i*apart, turn)
			}
		}
		if n := len(l.silences()); n > 2*(events*apart+2000)/20 {
			t.Errorf("%d marks with a clock", n)
		}
	})
}

// TestCancelHasItsTurnBehindItsEvent has a client give up an event that waits for another source:
// what gives it up waits too, in each partition, since it is known nowhere which one the event is in.
func TestCancelHasItsTurnBehindItsEvent(t *testing.T) {
	inLoop(t, func(l *loop) {
		l.repartitioning(time.Second)
		l.plan.Copy.Wait = time.Second
		l.start()
		turns := l.reader(2)
		cancel := []stream.Header{{Key: header.Cancel, Value: []byte("c/7")}}
		l.send(at{key: "a", headers: cancel}, at{key: "a", t: now(), w: "x"}, at{key: "a", headers: cancel})
		l.pass(500 * time.Millisecond)
		if len(*turns) != 0 {
			t.Errorf("turns %q", *turns)
		}
		l.pass(time.Minute)
		l.end()
		x := l.partitionOf("x")
		for part := range int32(2) {
			var of []string
			for _, text := range *turns {
				if strings.HasPrefix(text, "in/0@1 ") && part == x || strings.HasPrefix(text, fmt.Sprintf("cancel c/7 in %d ", part)) {
					of = append(of, strings.Fields(text)[0])
				}
			}
			want := []string{"cancel", "cancel"}
			if part == x {
				want = []string{"cancel", "in/0@1", "cancel"}
			}
			if !slices.Equal(of, want) {
				t.Errorf("partition %d: %q, want %q", part, of, want)
			}
		}
	})
}

// TestDuplicatesAreNotCopied has an event come again. It moves its source on, and is no copy.
func TestDuplicatesAreNotCopied(t *testing.T) {
	inLoop(t, func(l *loop) {
		l.repartitioning(0)
		l.plan.Dedupe = &task.DedupePlan{Slot: l.of("v")}
		l.plan.Dedupe.Spec.Window, l.plan.Dedupe.Spec.Max = time.Hour, 100
		l.run(at{key: "a", t: 1, v: 1, w: "x"}, at{key: "a", t: 2, v: 1, w: "x"})
		want := []string{"x in/0@0 at 1, 0@0", "mark 2, 0@1"}
		if got := l.copies(l.partitionOf("x")); !slices.Equal(got, want) || l.metrics.Counts().Duplicates != 1 {
			t.Errorf("%q, want %q", got, want)
		}
	})
}

// TestSourceThatHelpsNobodyIsNotToldByTheClock has an event that waits for nothing: its source and
// the others are there, and only its reader is not.
func TestSourceThatHelpsNobodyIsNotToldByTheClock(t *testing.T) {
	inLoop(t, func(l *loop) {
		l.repartitioning(time.Second)
		at0 := now()
		l.send(at{key: "a", t: at0 - 2, w: "x"}, at{key: "b", t: at0 - 1, w: "u", part: 1}, at{key: "a", t: at0, w: "x"})
		l.start()
		l.pass(time.Minute)
		if list := l.silences(); len(list) != 0 {
			t.Errorf("%q", list)
		}
	})
}

// TestSourcesThatAreNeverIdleAreWaitedFor has no clock say anything.
func TestSourcesThatAreNeverIdleAreWaitedFor(t *testing.T) {
	inLoop(t, func(l *loop) {
		l.repartitioning(0)
		l.send(at{key: "a", t: now(), w: "x"})
		l.start()
		l.pass(time.Hour)
		if n := len(l.records("out")); n != 3 {
			t.Errorf("%d records: %q", n, l.silences())
		}
	})
}

// TestClockThatIsAheadMakesNoEventLate has producers whose clocks are ahead, both by their events
// and by the times of their records. Events of more than MaxAhead are dead letters.
func TestClockThatIsAheadMakesNoEventLate(t *testing.T) {
	for _, ahead := range []time.Duration{30 * time.Minute, 365 * 24 * time.Hour} {
		inLoop(t, func(l *loop) {
			l.repartitioning(0)
			l.plan.Time.MaxAhead = time.Hour
			at0 := now()
			wrong := func(part int32) {
				when := time.Now().Add(ahead)
				l.append(stream.Record{Partition: stream.Partition{Topic: "in", Index: part}, Key: []byte("a"), Time: when, Value: fmt.Appendf(nil, `{"k":"a","t":%d,"v":1,"w":"x"}`, when.Unix())})
			}
			wrong(0)
			l.run(at{key: "a", t: at0, w: "x"}, at{key: "a", t: at0 + 1, w: "x"})
			wrong(0)
			l.run(at{key: "a", t: at0 + 1, w: "x"})
			at1 := at0 + 1 // the second run is at that time
			want := []string{
				fmt.Sprintf("x in/0@0 at %d, 0@0", at0), fmt.Sprintf("x in/0@1 at %d, 0@1", at0), fmt.Sprintf("x in/0@2 at %d, 0@2", at0),
				fmt.Sprintf("x in/0@3 at %d, 0@3", at1), fmt.Sprintf("x in/0@4 at %d, 0@4", at1),
			}
			letters := l.records(l.plan.DeadTopic)
			if ahead > l.plan.Time.MaxAhead {
				want = []string{want[1], want[2], want[4]}
			}
			if n := len(letters); n != 5-len(want) || n > 0 && header.Get(&letters[0], header.Stage) != "time" {
				t.Errorf("%v ahead: %d dead letters", ahead, n)
			}
			got := slices.DeleteFunc(l.copies(l.partitionOf("x")), func(text string) bool { return strings.HasPrefix(text, "mark") })
			if !slices.Equal(got, want) {
				t.Errorf("%v ahead: copies\n%q, want\n%q", ahead, got, want)
			}
		})
	}
}

// TestAppendOfNoTimeIsADeadLetter has a producer say times of the append that are so long ago that
// arithmetic with them overflows. They move nothing.
func TestAppendOfNoTimeIsADeadLetter(t *testing.T) {
	for _, micros := range []int64{math.MinInt64, math.MinInt64 + 1000, math.MinInt64 / 100} {
		for _, field := range []bool{false, true} {
			inLoop(t, func(l *loop) {
				l.repartitioning(0)
				l.plan.Copy.Wait = time.Second
				l.plan.Time.FromField, l.plan.Time.Appended, l.plan.Time.MaxAhead = field, !field, time.Hour
				at0 := now()
				l.append(stream.Record{Partition: stream.Partition{Topic: "in"}, Key: []byte("a"), Time: time.UnixMicro(micros), Value: fmt.Appendf(nil, `{"k":"a","t":%d,"v":1,"w":"x"}`, at0)})
				l.run(at{key: "a", t: at0, w: "x"})
				if letters := l.records("dead"); len(letters) != 1 || header.Get(&letters[0], header.Stage) != "time" {
					t.Errorf("%d, %v: %d dead letters", micros, field, len(letters))
				}
				want := []string{fmt.Sprintf("x in/0@1 at %d, 0@1", at0), fmt.Sprintf("mark %d, 0@1", at0-1)}
				if got := l.copies(l.partitionOf("x")); !slices.Equal(got[len(got)-2:], want) || len(got) > 3 {
					t.Errorf("%d, %v: copies %q, want %q", micros, field, got, want)
				}
			})
		}
	}
}

// TestEventsWithTheTimeOfTheirAppendAreNotLate has no field say the time, so that producers who
// append at once come in another order than their clocks.
func TestEventsWithTheTimeOfTheirAppendAreNotLate(t *testing.T) {
	for _, appended := range []bool{true, false} {
		inLoop(t, func(l *loop) {
			l.repartitioning(0)
			l.plan.Time.FromField, l.plan.Time.Appended = false, appended
			for _, before := range []time.Duration{0, time.Minute} {
				l.append(stream.Record{Partition: stream.Partition{Topic: "in"}, Key: []byte("a"), Time: time.Now().Add(-before), Value: []byte(`{"k":"a","t":1,"v":1,"w":"x"}`)})
			}
			l.run()
			got, want := l.copies(l.partitionOf("x")), fmt.Sprintf("x in/0@1 at %d, 0@1", now()-1)
			if !appended {
				want += " late"
			}
			if got[1] != want {
				t.Errorf("%q, want %q", got, want)
			}
		})
	}
}

// TestStandingRepartitionerLooksOnceASecond has it stand still.
func TestStandingRepartitionerLooksOnceASecond(t *testing.T) {
	inLoop(t, func(l *loop) {
		l.repartitioning(time.Second)
		l.options.Abort = control.NewAbort(0.1, time.Minute)
		l.send(at{key: "a", t: now(), w: "x"})
		for range 200 {
			l.send(at{key: "a", raw: "{"})
		}
		l.start()
		l.pass(time.Second)
		if l.options.Abort.Stopped() == nil {
			t.Fatal("it does not stand still")
		}
		polls := l.log.polls
		if l.pass(time.Minute); l.log.polls-polls > 70 || len(l.silences()) != 0 {
			t.Errorf("%d polls in a minute, %q", l.log.polls-polls, l.silences())
		}
		l.options.Abort.Resume()
		if l.pass(3 * time.Second); len(l.silences()) != 2 {
			t.Errorf("%q once it goes on", l.silences())
		}
	})
}
