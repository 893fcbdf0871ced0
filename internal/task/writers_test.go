package task_test

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/afterbay/afterbay/internal/event/header"
	"github.com/afterbay/afterbay/internal/observe"
	"github.com/afterbay/afterbay/internal/state/deadletter"
	"github.com/afterbay/afterbay/internal/state/order"
	"github.com/afterbay/afterbay/internal/state/statekey"
	"github.com/afterbay/afterbay/internal/task"
	"github.com/afterbay/afterbay/stream"
)

// wrote appends an event that a partition of the pipeline `up` wrote at a second to a partition.
func (l *loop) wrote(writer, second int, w string, part int32) {
	l.Helper()
	l.wroteAt(writer, second, second, w, part)
}

// wroteAt has the field of the time have another second than the record.
func (l *loop) wroteAt(writer, second, field int, w string, part int32) {
	l.Helper()
	l.append(stream.Record{
		Partition: stream.Partition{Topic: "in", Index: part}, Time: time.Unix(int64(second), 0), Key: []byte("a"), Value: fmt.Appendf(nil, `{"k":"a","t":%d,"v":0,"w":%q}`, field, w),
		Headers: []stream.Header{{Key: header.Pipeline, Value: []byte("up sha256:x 1")}, {Key: header.Position, Value: fmt.Appendf(nil, "src/%d@%d", writer, second)}},
	})
}

// followed has the input be written by the pipeline `up`, which reads `src`.
func (l *loop) followed(keyed bool) {
	l.Helper()
	for _, topic := range []string{"src", "up.marks"} {
		if err := l.log.CreateTopic(l.Context(), stream.Topic{Name: topic, Partitions: 2}); err != nil {
			l.Fatal(err)
		}
	}
	l.follow = []task.Upstream{{Pipeline: "up", Topic: "src", Keyed: keyed, Reads: []observe.Read{{Group: "up", Topic: "src"}}}}
}

// watermark has a partition of `up` reach a second.
func (l *loop) watermark(writer int32, second int) {
	l.Helper()
	l.append(order.Marks{{Key: order.Key{Time: int64(second) * 1e6}, Silent: order.NoMark.Silent}}.Record(stream.Partition{Topic: "up.marks", Index: writer}, time.Unix(int64(second), 0)))
}

// sources are the events of turns, without the times.
func sourcesOf(turns []string) (list []string) {
	for _, turn := range turns {
		of, _, _ := strings.Cut(turn, " ")
		list = append(list, of)
	}
	return list
}

// TestAnEventIsLateByItsWriterAlone has two writers and somebody else write one partition. One
// writer is far ahead of the others, also after a restart.
func TestAnEventIsLateByItsWriterAlone(t *testing.T) {
	inLoop(t, func(l *loop) {
		l.repartitioning(0)
		for n, seconds := range [][]int{{100, 1, 101, 2}, {98, 99, 3}} {
			for i, second := range seconds {
				l.wrote([]int{0, 1, 0, 1, 0, 0, 1}[4*n+i], second, "x", 0)
			}
			l.start()
			l.pass(time.Second)
			l.end()
		}
		x := l.partitionOf("x")
		got := slices.DeleteFunc(l.copies(x), func(text string) bool { return strings.HasPrefix(text, "mark") })
		want := []string{
			"x in/0@0 at 100, 0@0", "x in/0@1 at 1, 0@1", "x in/0@2 at 101, 0@2", "x in/0@3 at 2, 0@3",
			"x in/0@4 at 101, 0@4 late", "x in/0@5 at 101, 0@5", "x in/0@6 at 3, 0@6",
		}
		if !slices.Equal(got, want) {
			t.Errorf("got %q, want %q", got, want)
		}
		if marks := l.copies(1 - x); len(marks) == 0 || marks[len(marks)-1] != "mark 3, 0@6" {
			t.Errorf("the marks are %q", marks)
		}
	})
}

// TestWatermarksAreToldWithTheOutputsOfTheirStep looks at each transaction.
func TestWatermarksAreToldWithTheOutputsOfTheirStep(t *testing.T) {
	inLoop(t, func(l *loop) {
		if err := l.log.CreateTopic(t.Context(), stream.Topic{Name: "p.marks", Partitions: 2}); err != nil {
			t.Fatal(err)
		}
		l.tells, l.plan.Time.Lateness, l.options.StepEvents, l.log.most = true, 2*time.Second, 1, 1
		l.early(l.emit(0, "v"))
		l.run(at{key: "a", t: 10}, at{key: "a", t: 9}, at{key: "a", t: 11}, at{key: "b", t: 5, part: 1})
		var got []string
		for _, step := range l.log.done() {
			for _, r := range step.Outputs {
				text := fmt.Sprint(r.Partition, " ", r.Time.Unix())
				if data := header.Value(&r, header.Frontier); data != nil {
					text += " " + l.marked(data)
				}
				got = append(got, text)
			}
		}
		slices.Sort(got)
		want := []string{"out/0 10", "out/0 11", "out/0 9", "out/1 5", "p.marks/0 8 mark 8, 0@0", "p.marks/0 9 mark 9, 0@0", "p.marks/1 3 mark 3, 0@0"}
		if !slices.Equal(got, want) {
			t.Errorf("got %q, want %q", got, want)
		}
		if n := l.metrics.Counts().Outputs; n != 4 {
			t.Errorf("%d outputs are counted", n)
		}
	})
}

// TestAWatermarkIsToldBehindWhatIsDueByIt has silence fire more timers than a step takes.
func TestAWatermarkIsToldBehindWhatIsDueByIt(t *testing.T) {
	inLoop(t, func(l *loop) {
		if err := l.log.CreateTopic(t.Context(), stream.Topic{Name: "p.marks", Partitions: 2}); err != nil {
			t.Fatal(err)
		}
		l.visits()
		l.tells, l.plan.Time.Idle, l.options.ChunkEvents = true, 20*time.Second, 1
		for i := range 20 {
			l.send(at{key: fmt.Sprint("k", i), t: 1})
		}
		l.start()
		l.pass(30 * time.Second)
		l.end()
		timers, steps, told := 0, 0, int64(0)
		for _, step := range l.log.done() {
			before := timers
			for _, r := range step.Outputs {
				if at := r.Time.Unix(); r.Partition.Topic == "p.marks" {
					told = at
				} else if at < told {
					t.Errorf("an output is of %d, and %d was told before", at, told)
				} else if at > 1 {
					timers++
				}
			}
			if timers > before {
				steps++
			}
		}
		if timers != 20 || steps < 2 || told != 21 {
			t.Errorf("%d timers fired in %d steps, and %d was told last", timers, steps, told)
		}
	})
}

// TestAnEventWaitsForTheWatermarksOfWriters has no clock, and an event that waits for three
// parts of its topic.
func TestAnEventWaitsForTheWatermarksOfWriters(t *testing.T) {
	inLoop(t, func(l *loop) {
		l.repartitioning(0)
		l.followed(true)
		l.start()
		turns := l.reader(2)
		l.wrote(0, 100, "x", 1)
		l.pass(time.Minute)
		l.watermark(0, 100)
		if l.pass(time.Minute); len(*turns) != 0 {
			t.Errorf("%q have had their turn before the other writer was there", *turns)
		}
		l.watermark(1, 99)
		if l.pass(time.Minute); len(*turns) != 0 {
			t.Errorf("%q have had their turn a second too soon", *turns)
		}
		l.watermark(0, 101)
		if l.pass(time.Second); len(*turns) != 0 {
			t.Errorf("%q have had their turn: an older event may come from the other writer", *turns)
		}
		l.watermark(1, 100)
		if l.pass(time.Second); len(*turns) != 0 {
			t.Errorf("%q have had their turn: an event of the same time may come from the other writer", *turns)
		}
		l.watermark(1, 101)
		if l.pass(time.Second); !slices.Equal(sourcesOf(*turns), []string{"in/1@0"}) {
			t.Errorf("%q have had their turn", *turns)
		}
	})
}

// TestAWatermarkHoldsBehindWhatWasWrittenBefore has a watermark be known before the events are
// read that are older.
func TestAWatermarkHoldsBehindWhatWasWrittenBefore(t *testing.T) {
	inLoop(t, func(l *loop) {
		l.repartitioning(0)
		l.followed(false)
		l.start()
		turns := l.reader(2)
		l.wrote(0, 100, "x", 0)
		l.pass(time.Second)
		l.log.stalled = true
		l.pass(time.Second) // so that the next Poll knows
		l.wrote(1, 50, "x", 1)
		l.watermark(1, 200)
		if l.pass(time.Minute); len(*turns) != 0 {
			t.Errorf("%q have had their turn before all is read", *turns)
		}
		l.log.stalled = false
		if l.pass(time.Second); !slices.Equal(sourcesOf(*turns), []string{"in/1@0", "in/0@0"}) {
			t.Errorf("%q have had their turn", *turns)
		}
	})
}

// TestWhereAPartitionEndsIsAskedAfterTheWatermark has the pipeline write an event, and then a
// watermark, while the repartitioner asks.
func TestWhereAPartitionEndsIsAskedAfterTheWatermark(t *testing.T) {
	inLoop(t, func(l *loop) {
		l.repartitioning(0)
		l.followed(false)
		var once sync.Once
		l.log.stalled, l.log.looking = true, func(p stream.Partition) {
			if p == (stream.Partition{Topic: "up.marks", Index: 1}) {
				once.Do(func() { l.wrote(1, 50, "x", 1); l.watermark(1, 200) })
			}
		}
		l.start()
		turns := l.reader(2)
		l.wrote(0, 100, "x", 0)
		if l.pass(time.Minute); len(*turns) != 0 {
			t.Errorf("%q have had their turn before all is read", *turns)
		}
		l.log.stalled = false
		if l.pass(time.Second); !slices.Equal(sourcesOf(*turns), []string{"in/1@0", "in/0@0"}) {
			t.Errorf("%q have had their turn", *turns)
		}
	})
}

// TestAWatermarkHoldsForPartitionsWhoseEndWasAsked has an event wait for another partition when
// the watermarks are there than when they were asked for.
func TestAWatermarkHoldsForPartitionsWhoseEndWasAsked(t *testing.T) {
	inLoop(t, func(l *loop) {
		l.repartitioning(0)
		l.followed(false)
		var answers atomic.Bool
		l.log.looking = func(p stream.Partition) {
			for p.Topic == "up.marks" && !answers.Load() {
				time.Sleep(time.Millisecond)
			}
		}
		l.start()
		turns := l.reader(2)
		l.wrote(1, 100, "x", 1) // waits for in/0
		l.pass(time.Second)
		l.log.stalled = true
		l.pass(time.Second)     // so that the next Poll knows
		l.wrote(0, 150, "x", 0) // waits for in/1
		l.pass(time.Second)
		l.wrote(1, 120, "x", 1)
		l.watermark(1, 200)
		answers.Store(true)
		if l.pass(time.Minute); !slices.Equal(sourcesOf(*turns), []string{"in/1@0"}) {
			t.Errorf("%q have had their turn before all is read", *turns)
		}
		l.log.stalled = false
		if l.pass(time.Second); !slices.Equal(sourcesOf(*turns), []string{"in/1@0", "in/1@1", "in/0@0"}) {
			t.Errorf("%q have had their turn", *turns)
		}
	})
}

// TestAWriterIsNotSilentWhileItsPipelineHasMore has the pipeline not have read an event of one
// of its partitions: of the topic whose partitions are the writers, or of another one before it.
func TestAWriterIsNotSilentWhileItsPipelineHasMore(t *testing.T) {
	for _, before := range [][]observe.Read{nil, {{Group: "up.in", Topic: "late"}}} {
		inLoop(t, func(l *loop) {
			l.repartitioning(time.Second)
			l.followed(false)
			l.follow[0].Reads = append(before, l.follow[0].Reads...)
			first := l.follow[0].Reads[0]
			for part := range int32(2) {
				l.append(stream.Record{Partition: stream.Partition{Topic: first.Topic, Index: part}})
			}
			m, err := l.log.Log.Join(t.Context(), first.Group, first.Topic)
			if err != nil {
				t.Fatal(err)
			}
			read := func(part int32) {
				step := stream.Transaction{Offsets: map[stream.Partition]stream.Offset{{Topic: first.Topic, Index: part}: 1}}
				if err := m.Commit(step).Wait(t.Context()); err != nil {
					t.Fatal(err)
				}
			}
			if _, err := m.Poll(t.Context(), 10); err != nil {
				t.Fatal(err)
			}
			l.start()
			turns := l.reader(2)
			l.wrote(0, now(), "x", 0)
			read(0)
			if l.pass(time.Minute); len(*turns) != 0 || len(l.silences()) != 0 {
				t.Errorf("%v: %q have had their turn, %q", l.follow[0].Reads, *turns, l.silences())
			}
			read(1)
			if l.pass(2 * time.Second); len(*turns) != 1 || len(l.silences()) != 2 {
				t.Errorf("%v: %q have had their turn, %q", l.follow[0].Reads, *turns, l.silences())
			}
			if err := m.Close(); err != nil {
				t.Fatal(err)
			}
		})
	}
}

// TestAWatermarkIsOfTheTimeOfRecords has a field whose time is 5 s before that of its record.
// After a restart a watermark still holds for less than it says.
func TestAWatermarkIsOfTheTimeOfRecords(t *testing.T) {
	inLoop(t, func(l *loop) {
		l.repartitioning(0)
		l.followed(false)
		l.wroteAt(0, 100, 95, "x", 0)
		l.start()
		l.pass(time.Second)
		l.end()
		l.start()
		turns := l.reader(2)
		l.wrote(1, 197, "x", 1)
		l.watermark(0, 200)
		if l.pass(time.Second); !slices.Equal(sourcesOf(*turns), []string{"in/0@0"}) {
			t.Errorf("%q have had their turn, and an event of second 195 may come", *turns)
		}
		l.watermark(0, 203)
		if l.pass(time.Second); !slices.Equal(sourcesOf(*turns), []string{"in/0@0", "in/1@0"}) {
			t.Errorf("%q have had their turn", *turns)
		}
	})
}

// TestWritersOfAPartitionAreBounded has more writers than a partition may have. Events of those
// that are too many count as events of the first one.
func TestWritersOfAPartitionAreBounded(t *testing.T) {
	inLoop(t, func(l *loop) {
		l.repartitioning(0)
		for writer := range 4100 {
			l.wrote(writer, 100, "x", 0)
		}
		l.start()
		l.pass(time.Second)
		l.end()
		if n := l.stored(statekey.Source); n != 4096 {
			t.Errorf("%d writers are remembered", n)
		}
		if n := len(slices.DeleteFunc(l.copies(l.partitionOf("x")), func(text string) bool { return strings.HasPrefix(text, "mark") })); n != 4100 {
			t.Errorf("%d events are copied", n)
		}
	})
}

// TestHeadersThatNoPipelineWroteNameNoWriter has somebody write headers that no pipeline has, of any
// size. Nothing of them is state.
func TestHeadersThatNoPipelineWroteNameNoWriter(t *testing.T) {
	inLoop(t, func(l *loop) {
		l.repartitioning(0)
		for _, name := range []string{strings.Repeat("p", 500_000), "a/b sha256:x 1", "", " sha256:x 1"} {
			l.send(at{key: "a", t: 100, w: "x", headers: []stream.Header{{Key: header.Pipeline, Value: []byte(name)}, {Key: header.Position, Value: []byte("src/1@1")}}})
		}
		l.start()
		l.pass(time.Second)
		l.end()
		if n := l.stored(statekey.Source); n != 0 {
			t.Errorf("%d writers are remembered", n)
		}
	})
}

// TestAWriterThatTellsWatermarksIsNotSilent has a writer tell a watermark more often than idle,
// which an event that waits is behind, and then stop.
func TestAWriterThatTellsWatermarksIsNotSilent(t *testing.T) {
	inLoop(t, func(l *loop) {
		l.repartitioning(time.Second)
		l.followed(false)
		l.start()
		turns := l.reader(2)
		l.wrote(0, now(), "x", 0)
		for second := range 20 {
			l.watermark(1, 100+second)
			l.pass(500 * time.Millisecond)
		}
		if len(*turns) != 0 || len(l.silences()) != 0 {
			t.Errorf("%q have had their turn, %q", *turns, l.silences())
		}
		if l.pass(2 * time.Second); len(*turns) != 1 {
			t.Errorf("%q have had their turn", *turns)
		}
	})
}

// TestAWriterThatIsGoneHoldsNothing has a writer of an unknown pipeline have no more records,
// while another one goes on.
func TestAWriterThatIsGoneHoldsNothing(t *testing.T) {
	inLoop(t, func(l *loop) {
		l.repartitioning(time.Second)
		l.start()
		turns := l.reader(2)
		for i := range 100 {
			if i < 10 {
				l.wrote(1, now(), "x", 0)
			}
			l.wrote(0, now(), "x", 0)
			l.wrote(0, now(), "u", 1)
			l.pass(100 * time.Millisecond)
		}
		if n := len(*turns); n < 180 {
			t.Errorf("%d events of 210 have had their turn", n)
		}
	})
}

// TestRestartsChangeNoPlaceBesideWriters has pipelines and others write one partition, and some of
// the records be dead letters. A restart behind any of them changes neither the place of an event
// nor whether it is late.
func TestRestartsChangeNoPlaceBesideWriters(t *testing.T) {
	bad := func(l *loop, by int) {
		l.append(stream.Record{Partition: stream.Partition{Topic: "in"}, Value: []byte("{"), Headers: []stream.Header{
			{Key: header.Pipeline, Value: []byte("up sha256:x 1")}, {Key: header.Position, Value: fmt.Appendf(nil, "src/%d@1", by)},
		}})
	}
	script := []func(l *loop){
		func(l *loop) { l.send(at{key: "a", t: 150, w: "x"}) },
		func(l *loop) { bad(l, 0) },
		func(l *loop) { l.send(at{key: "a", t: 120, w: "x"}) },
		func(l *loop) { l.wrote(0, 140, "x", 0) },
		func(l *loop) { bad(l, 1) },
		func(l *loop) { l.wrote(1, 100, "x", 0) },
		func(l *loop) { l.send(at{key: "a", t: 200, w: "x"}) },
		func(l *loop) { l.send(at{key: "a", t: 160, w: "x"}) },
		func(l *loop) { l.wrote(1, 90, "x", 0) },
		func(l *loop) { l.wrote(0, 150, "x", 0) },
	}
	run := func(restart int) (got []string) {
		inLoop(t, func(l *loop) {
			l.repartitioning(0)
			l.start()
			for i, do := range script {
				do(l)
				l.pass(time.Second)
				if i == restart {
					l.end()
					l.start()
				}
			}
			l.end()
			got = slices.DeleteFunc(l.copies(l.partitionOf("x")), func(text string) bool { return strings.HasPrefix(text, "mark") })
		})
		return got
	}
	want := run(-1)
	if late := strings.Count(strings.Join(want, " "), "late"); len(want) != 8 || late != 3 {
		t.Errorf("%d of %q are late", late, want)
	}
	for restart := range script {
		if got := run(restart); !slices.Equal(got, want) {
			t.Errorf("with a restart behind record %d\n%q, want\n%q", restart, got, want)
		}
	}
}

// TestALetterThatIsSentBackIsNoWriter has a dead letter of the repartitioner be sent back to a topic
// that a pipeline writes. No event waits for another one of its kind.
func TestALetterThatIsSentBackIsNoWriter(t *testing.T) {
	inLoop(t, func(l *loop) {
		l.repartitioning(0)
		l.followed(false)
		l.start()
		turns := l.reader(2)
		both := func(second int) {
			l.wrote(0, second, "x", 0)
			l.wrote(1, second, "x", 1)
			for writer := range int32(2) {
				l.watermark(writer, second+1)
			}
			l.pass(time.Second)
		}
		both(100)
		l.send(at{key: "a", t: 50, w: "x", headers: []stream.Header{
			{Key: header.Position, Value: []byte("in/0@0")}, {Key: header.Redrive, Value: []byte("dead/0@0")}, {Key: header.Resume, Value: []byte(deadletter.Start)},
		}})
		l.pass(time.Second)
		both(110)
		both(120)
		want := []string{"in/0@0", "in/1@0", "in/0@1", "in/0@2", "in/1@1", "in/0@3", "in/1@2"}
		if got := sourcesOf(*turns); !slices.Equal(got, want) {
			t.Errorf("turns %q, want %q", got, want)
		}
		l.end()
		if n := l.stored(statekey.Source); n != 1 {
			t.Errorf("%d writers are remembered", n)
		}
	})
}
