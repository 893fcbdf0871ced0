package task_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/afterbay/afterbay/internal/event/header"
	"github.com/afterbay/afterbay/internal/task"
)

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
