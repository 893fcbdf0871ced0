package task_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/afterbay/afterbay/internal/event/header"
	"github.com/afterbay/afterbay/internal/task"
	"github.com/afterbay/afterbay/internal/task/operator"
	"github.com/afterbay/afterbay/stream"
)

// merging has the input be a repartition topic of two sources, of two partitions and of one.
func (l *loop) merging() {
	l.plan.Sources, l.sources = []task.Source{{Topic: "clicks", Fields: l.plan.Fields}, {Topic: "logins", Fields: l.plan.Fields}}, []int32{2, 1}
	topic := l.slot("meta.topic", l.of("k").Type)
	l.plan.Meta.Topic = &topic
}

// from has a source and a watermark in seconds be those of an event; below 0 it is idle.
// Without an offset there is no event, but a broadcast.
func from(source string, watermark int, e at) at {
	text := time.Unix(int64(watermark), 0).UTC().Format(time.RFC3339Nano)
	if watermark < 0 {
		text = "idle"
	}
	e.headers = append(e.headers, stream.Header{Key: header.Source, Value: []byte(source)}, stream.Header{Key: header.Watermark, Value: []byte(text)})
	return e
}

// TestWatermarkIsThatOfTheSlowestSource has events of two topics: which ones are late is
// decided by the watermarks of all sources, also after a restart.
func TestWatermarkIsThatOfTheSlowestSource(t *testing.T) {
	for _, chunk := range []int{0, 1} {
		inLoop(t, func(l *loop) {
			l.options.ChunkEvents = chunk
			l.plan.Time.Late = operator.LateTopic
			l.merging()
			l.put(l.emit(0, "meta.topic", "v"))
			l.run(
				from("clicks/0@1", 50, at{key: "a", t: 50, v: 1}), from("logins/0@1", 20, at{key: "a", t: 20, v: 2}),
				from("clicks/0@2", 50, at{key: "a", t: 5, v: 3}), // the second partition of clicks said nothing
				from("clicks/1", 40, at{}),
				from("clicks/0@3", 60, at{key: "a", t: 19, v: 4}), from("clicks/0@4", 60, at{key: "a", t: 20, v: 5}))
			l.wants("out", `{"meta.topic":"clicks","v":1}`, `{"meta.topic":"logins","v":2}`, `{"meta.topic":"clicks","v":3}`, `{"meta.topic":"clicks","v":5}`)
			l.wants("late", `{"k":"a","t":19,"v":4}`)
			if counts := l.metrics.Counts(); counts.Events != 5 || counts.Late != 1 || counts.DeadLetters != 0 {
				t.Errorf("%+v", counts)
			}
			l.run(from("logins/0", -1, at{}), from("clicks/0@5", 61, at{key: "a", t: 39, v: 6}), from("clicks/0@6", 61, at{key: "a", t: 40, v: 7}))
			l.wants("late", `{"k":"a","t":19,"v":4}`, `{"k":"a","t":39,"v":6}`)
			l.run(from("logins/0@2", 30, at{key: "a", t: 39, v: 8})) // it is no longer idle, and behind
			l.wants("late", `{"k":"a","t":19,"v":4}`, `{"k":"a","t":39,"v":6}`, `{"k":"a","t":39,"v":8}`)
		})
	}
}

// TestRecordsThatAreNoCopiesAreDeadLetters sends records of others to a repartition topic.
func TestRecordsThatAreNoCopiesAreDeadLetters(t *testing.T) {
	inLoop(t, func(l *loop) {
		l.merging()
		l.put(l.emit(0, "v"))
		l.run(at{key: "a", t: 1, v: 1}, from("orders/0@1", 1, at{key: "a", t: 1, v: 2}), from("clicks/2@1", 1, at{key: "a", t: 1, v: 3}), from("clicks/1@1", 1, at{key: "a", t: 1, v: 4}))
		l.wants("out", `{"v":4}`)
		letters := l.records("dead")
		if len(letters) != 3 {
			t.Fatalf("%d dead letters", len(letters))
		}
		for _, r := range letters {
			if stage, resume := header.Get(&r, header.Stage), header.Get(&r, header.Resume); stage != "source" || resume != "" {
				t.Errorf("a dead letter of %s goes on at %q", stage, resume)
			}
		}
	})
}

// scriptOfSources is a run of a few transactions over a repartition topic.
func scriptOfSources(l *loop) {
	l.options.StepEvents, l.log.most = 2, 2
	l.plan.Time.Late = operator.LateDead
	l.merging()
	l.counting()
	l.put(l.emit(0, "k", "n"))
	for i := range 12 {
		l.send(from([]string{"clicks/0@1", "logins/0@1", "clicks/1"}[i%3], 5*i, at{key: string("ab"[i%2]), t: 5*i - 7*(i%5), v: i, part: int32(i % 2)}))
	}
	l.start()
	l.pass(time.Second)
	l.end()
	l.start() // what is kept of the sources is found again
	l.send(from("clicks/1", -1, at{}), from("logins/0@1", 300, at{key: "a", t: 57}), from("clicks/1", 70, at{part: 1}), from("clicks/0@1", 90, at{key: "b", t: 60, part: 1}))
	l.pass(time.Second)
	l.end()
}

func TestFailedCommitsChangeNothingOfSources(t *testing.T) { eachCommitFails(t, scriptOfSources) }

// repartitioning has the loop copy its events to `out`, by the field w.
func (l *loop) repartitioning() {
	l.plan.Copy, l.plan.Key, l.plan.Time.Lateness = &task.CopyPlan{Partitions: 2}, l.of("w"), 2*time.Second
}

// copies are the records of `out` with what their headers say of a source.
func (l *loop) copies() (list []string) {
	for _, r := range l.records("out") {
		at, err := time.Parse(time.RFC3339Nano, header.Get(&r, header.Watermark))
		text := header.Get(&r, header.Watermark)
		if err == nil {
			text = fmt.Sprint(at.Unix())
		}
		list = append(list, fmt.Sprintf("%d %s%s %s", r.Partition.Index, r.Key, header.Get(&r, header.Source), text))
	}
	slices.Sort(list)
	return list
}

// TestCopiesSayWhereTheyComeFrom has each event be copied by its new key, and the watermark be
// broadcast to all partitions when it reaches the next 10 seconds.
func TestCopiesSayWhereTheyComeFrom(t *testing.T) {
	inLoop(t, func(l *loop) {
		l.repartitioning()
		l.run(at{key: "a", t: 1, w: "x"}, at{key: "b", t: 11, w: "x"}, at{key: "a", t: 13, w: "u"}, at{key: "a", t: 14, w: "x"}, at{key: "a", raw: "{"})
		x, u := l.partitionOf("x"), l.partitionOf("u")
		if x == u {
			t.Fatal("both keys are in one partition")
		}
		want := []string{
			fmt.Sprintf("%d xin/0@0 -1", x), fmt.Sprintf("%d xin/0@1 9", x), fmt.Sprintf("%d uin/0@2 11", u), fmt.Sprintf("%d xin/0@3 12", x),
			"0 in/0 -1", "1 in/0 -1", "0 in/0 9", "1 in/0 9", "0 in/0 11", "1 in/0 11",
		}
		slices.Sort(want)
		if got := l.copies(); !slices.Equal(got, want) {
			t.Errorf("copies\n%q, want\n%q", got, want)
		}
		if letters := l.records("dead"); len(letters) != 1 || header.Get(&letters[0], header.Stage) != "decode" {
			t.Errorf("%v", letters)
		}
	})
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

// TestIdleSourcesAreBroadcastOnce has one partition fall silent, and then go on.
func TestIdleSourcesAreBroadcastOnce(t *testing.T) {
	inLoop(t, func(l *loop) {
		l.repartitioning()
		l.send(at{key: "a", t: 1, w: "x"})
		l.start()
		l.pass(9 * time.Second)
		idle := func() (n int) {
			for _, text := range l.copies() {
				if text == "0 in/0 idle" || text == "1 in/0 idle" {
					n++
				}
			}
			return n
		}
		if n := idle(); n != 0 {
			t.Errorf("%d broadcasts after 9 s", n)
		}
		if l.pass(30 * time.Second); idle() != 2 {
			t.Errorf("%d broadcasts that partition 0 is idle, want one to each partition: %q", idle(), l.copies())
		}
		l.send(at{key: "a", t: 2, w: "x"})
		if l.pass(30 * time.Second); idle() != 4 {
			t.Errorf("%d broadcasts once it was idle again: %q", idle(), l.copies())
		}
	})
}
