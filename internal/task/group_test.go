package task_test

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/afterbay/afterbay/internal/event/header"
	"github.com/afterbay/afterbay/internal/event/value"
	"github.com/afterbay/afterbay/internal/state/statekey"
	"github.com/afterbay/afterbay/internal/task/operator"
	"github.com/afterbay/afterbay/stream"
)

// collect puts a group `g` of the events of a key with one w, in the order of their time.
// It ends with the event whose v is 9, or after 10 s without an event.
func (l *loop) collect() *operator.Group {
	last := l.let("last", "v == 9")
	g := &operator.Group{
		Name: "g", By: l.of("w"), ID: l.of("meta.id"), End: &last.List[0].Slot, Idle: 10 * time.Second, Events: 100, Bytes: 1 << 20, Open: 100, Pass: true,
		Columns: operator.GroupColumns{
			Key: l.slot("g.key", value.Type{Kind: value.String}), Count: l.slot("g.count", value.Type{Kind: value.Int}), Complete: l.slot("g.complete", value.Type{Kind: value.Bool}),
			Missing: l.slot("g.missing", value.Type{Kind: value.Int}), Ended: l.slot("g.ended", value.Type{Kind: value.String}),
		},
	}
	l.plan.Groups.Groups, l.plan.Groups.Schema = append(l.plan.Groups.Groups, g), l.plan.Schema
	for _, name := range []string{"k", "t", "v", "w"} {
		l.plan.Groups.Fields = append(l.plan.Groups.Fields, l.of(name))
	}
	l.early(last, g)
	return g
}

// collected is what collect's events leave of those of a key, each with what the feature
// of counting says of it.
func (l *loop) collected() *operator.Emit {
	return l.emit(0, "k", "g.key", "g.count", "g.ended", "n")
}

// members counts what the groups keep beside partition 0.
func (l *loop) members() int { return l.stored(statekey.Member) }

// TestGroupsEndAtTheirPlaceInTheLog has groups that end with their last event, and by the
// time of an event of another key: their events come before that one.
func TestGroupsEndAtTheirPlaceInTheLog(t *testing.T) {
	for _, chunk := range []int{0, 1, 2} {
		inLoop(t, func(l *loop) {
			l.options.ChunkEvents = chunk
			l.counting()
			l.collect()
			l.put(l.collected())
			l.run(at{key: "a", t: 1, w: "x"}, at{key: "a", t: 2, w: "y"}, at{key: "b", t: 2, w: "x"}, at{key: "a", t: 3, w: "x", v: 1}, at{key: "a", t: 4, w: "y", v: 9},
				at{key: "c", t: 13, w: "z", v: 9}, at{key: "a", t: 13, w: "x", v: 2})
			l.wants("out",
				`{"k":"a","g.key":"y","g.count":2,"g.ended":"complete","n":2}`,
				`{"k":"b","g.key":"x","g.count":1,"g.ended":"idle","n":1}`, `{"k":"a","g.key":"x","g.count":2,"g.ended":"idle","n":1}`,
				`{"k":"c","g.key":"z","g.count":1,"g.ended":"complete","n":1}`)
			if n := l.members(); n != 1 {
				t.Errorf("%d members are stored, want that of the group that is open", n)
			}
			out := l.records("out")
			if position := header.Get(&out[0], header.Position); position != "in/0@4" {
				t.Errorf("the first output is said to be of %s", position)
			}
			if counts := l.metrics.Counts(); counts.Events != 7 || counts.Outputs != 4 || counts.Dropped != 0 {
				t.Errorf("%+v", counts)
			}
		})
	}
}

// TestGroupsAreFoundAfterARestart has the members of a group in the log alone. An event that
// comes again is left out, also when its group has ended.
func TestGroupsAreFoundAfterARestart(t *testing.T) {
	inLoop(t, func(l *loop) {
		l.counting()
		l.collect().ID = l.of("v")
		l.put(l.collected())
		l.run(at{key: "a", t: 1, w: "x", v: 1})
		l.run(at{key: "a", t: 2, w: "x", v: 2}, at{key: "a", t: 3, w: "x", v: 1})
		l.run(at{key: "a", t: 4, w: "x", v: 9})
		l.wants("out", `{"k":"a","g.key":"x","g.count":3,"g.ended":"complete","n":1}`)
		l.run(at{key: "a", t: 4, w: "x", v: 9}, at{key: "b", t: 20, w: "x", v: 9})
		l.wants("out", `{"k":"a","g.key":"x","g.count":3,"g.ended":"complete","n":1}`, `{"k":"b","g.key":"x","g.count":1,"g.ended":"complete","n":1}`)
		l.wants("dead")
	})
}

// TestGroupsEndWithTheClock has a partition without another event.
func TestGroupsEndWithTheClock(t *testing.T) {
	inLoop(t, func(l *loop) {
		l.plan.Time.Idle = 5 * time.Second
		l.counting()
		l.collect()
		l.put(l.collected())
		l.send(at{key: "a", t: 1, w: "x"}, at{key: "a", t: 2, w: "x"})
		l.start()
		l.pass(4 * time.Second)
		l.wants("out")
		l.pass(20 * time.Second)
		l.wants("out", `{"k":"a","g.key":"x","g.count":2,"g.ended":"idle","n":1}`)
	})
}

// TestGroupInTheQueueKeepsItsMembers stops the task while a model is asked about the event of
// a group: its members stay stored until its score came.
func TestGroupInTheQueueKeepsItsMembers(t *testing.T) {
	inLoop(t, func(l *loop) {
		hangs := true
		m := &stub{answer: func(ctx context.Context, v float64) (float32, error) {
			if hangs {
				<-ctx.Done()
				return 0, ctx.Err()
			}
			return float32(v), nil
		}}
		l.collect()
		l.put(l.let("count", "g.count * 1.0"))
		l.put(l.queued(m, "count"), l.emit(0, "g.key", "g.count", "m.score"))
		l.run(at{key: "a", t: 1, w: "x"}, at{key: "a", t: 2, w: "x", v: 9})
		if l.wants("out"); l.entries() != 1 || l.members() != 2 {
			t.Fatalf("%d are queued and %d members stored", l.entries(), l.members())
		}
		hangs = false
		l.run()
		l.wants("out", `{"g.key":"x","g.count":2,"m.score":2}`)
		if l.entries() != 0 || l.members() != 0 {
			t.Errorf("%d are queued and %d members stored at the end", l.entries(), l.members())
		}
	})
}

// TestClientsAreToldWhenTheirEventsEnd has members, which are told of when their group ends, and
// an event that a group had before it ended, which is told of at once.
func TestClientsAreToldWhenTheirEventsEnd(t *testing.T) {
	inLoop(t, func(l *loop) {
		l.plan.Ends.Topic = "late"
		l.collect().ID = l.of("v")
		l.put(l.emit(0, "g.count"))
		client := func(id string, e at) at {
			e.headers = []stream.Header{{Key: header.ClientEvent, Value: []byte(id)}}
			return e
		}
		var told []string
		for _, e := range []at{client("c/1", at{key: "a", t: 1, w: "x", v: 1}), client("c/2", at{key: "a", t: 3, w: "x", v: 9}), client("c/3", at{key: "a", t: 3, w: "x", v: 1})} {
			l.run(e)
			text := ""
			for _, r := range l.records("late") {
				text += header.Get(&r, header.ClientEvent) + " "
			}
			told = append(told, text)
		}
		if want := []string{"", "c/2 c/1 ", "c/2 c/1 c/3 "}; !slices.Equal(told, want) {
			t.Errorf("after each event %q are told of, want %q", told, want)
		}
	})
}

// scriptOfGroups is a run of a few transactions with groups and a table.
func scriptOfGroups(l *loop) {
	l.options.StepEvents, l.log.most = 2, 2
	l.rows("u", `{"score":1}`)
	l.look()
	l.counting()
	l.collect()
	l.put(l.emit(0, "k", "g.key", "g.count", "g.ended", "n", "row.score"))
	for i := range 12 {
		l.send(at{key: string("aabc"[i%4]), t: 3 * i, v: i % 10, w: string("xu"[i/2%2]), part: int32(i % 4 / 3)})
	}
	l.start()
	l.pass(time.Second)
	l.end()
	l.rows("u", `{"score":2}`)
	l.start() // what is kept of groups and tables is found again
	l.send(at{key: "a", t: 40, v: 5, w: "u"}, at{key: "b", t: 41, v: 6, w: "x"}, at{key: "c", t: 90, v: 7, w: "x", part: 1}, at{key: "a", t: 91, v: 8, w: "u"})
	l.pass(time.Second)
	l.end()
}
