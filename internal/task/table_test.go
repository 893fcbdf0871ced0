package task_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/afterbay/afterbay/internal/event/decode"
	"github.com/afterbay/afterbay/internal/event/expression"
	"github.com/afterbay/afterbay/internal/event/value"
	"github.com/afterbay/afterbay/internal/state/statekey"
	"github.com/afterbay/afterbay/internal/task/operator"
	"github.com/afterbay/afterbay/internal/task/table"
	"github.com/afterbay/afterbay/stream"
)

// look finds the row of w in the table `rows`: its score, or -1.
func (l *loop) look() {
	l.plan.Tables = []table.Spec{{Topic: "rows"}}
	score := l.number("row.score")
	l.early(operator.NewLookup(operator.Lookup{
		Topic: "rows", Key: l.of("w"), Fields: []decode.Field{{Name: "score", Slot: score}}, Empty: []*expression.Program{l.program("-1.0")},
	}))
}

// rows appends rows to the table, of keys and values one behind the other. Without a value
// it deletes the row of the key.
func (l *loop) rows(pairs ...string) {
	l.Helper()
	var records []stream.Record
	for i := 0; i < len(pairs); i += 2 {
		r := stream.Record{Partition: stream.Partition{Topic: "rows"}, Key: []byte(pairs[i])}
		if pairs[i+1] != "" {
			r.Value = []byte(pairs[i+1])
		}
		records = append(records, r)
	}
	l.append(records...)
}

// scored are the outputs of keys and the scores of their rows.
func scored(pairs ...any) (list []string) {
	for i := 0; i < len(pairs); i += 2 {
		list = append(list, fmt.Sprintf(`{"k":"%v","row.score":%v}`, pairs[i], pairs[i+1]))
	}
	return list
}

// TestEventsSeeTheRowsBeforeThem appends rows between events, deletes one, and restarts.
func TestEventsSeeTheRowsBeforeThem(t *testing.T) {
	inLoop(t, func(l *loop) {
		l.look()
		l.put(l.emit(0, "k", "row.score"))
		l.rows("u", `{"score":1}`, "v", `{"score":5}`)
		l.run(at{key: "a", t: 1, w: "u"}, at{key: "b", t: 1, w: "w"})
		l.start()
		for _, value := range []string{`{"score":2}`, "", `{"score":3}`} {
			l.rows("u", value)
			l.send(at{key: "a", t: 1, w: "u"})
			l.pass(time.Second)
		}
		l.end()
		l.run(at{key: "a", t: 1, w: "u"}, at{key: "a", t: 1, w: "v"})
		l.wants("out", scored("a", 1, "b", -1, "a", 2, "a", -1, "a", 3, "a", 3, "a", 5)...)
	})
}

// TestRowsAreOfTheTransactionOfTheirEvents fails the commit of the first events: until there
// is one, nothing is stored of the rows that they saw.
func TestRowsAreOfTheTransactionOfTheirEvents(t *testing.T) {
	inLoop(t, func(l *loop) {
		l.look()
		l.put(l.emit(0, "row.score"))
		l.log.fail = func(n int) outcome {
			if n == 1 {
				return lost
			}
			return committed
		}
		l.log.held = true
		l.rows("u", `{"score":1}`)
		l.send(at{key: "a", t: 1, w: "u"})
		l.start()
		l.pass(time.Second)
		l.rows("u", `{"score":2}`)
		if state, next := l.state(0); len(state) != 0 || next != 0 {
			t.Errorf("%q is stored at %d before the commit", state, next)
		}
		l.log.held = false
		l.log.release()
		l.pass(time.Second)
		l.wants("out", `{"row.score":2}`)
		if l.stored(statekey.Row) == 0 {
			t.Error("no row is stored")
		}
	})
}

// TestRowsAreStoredWithoutAnEvent has partitions be assigned, and no event.
func TestRowsAreStoredWithoutAnEvent(t *testing.T) {
	inLoop(t, func(l *loop) {
		l.look()
		l.put(l.emit(0, "row.score"))
		l.rows("u", `{"score":1}`, "v", `{"score":2}`)
		if l.run(); l.stored(statekey.Row) != 2 {
			t.Errorf("%d rows are stored of 2", l.stored(statekey.Row))
		}
	})
}

// TestEventsSeeTheRowsThatThoseBeforeThemWrote has a pipeline that writes its own table.
func TestEventsSeeTheRowsThatThoseBeforeThemWrote(t *testing.T) {
	for _, chunk := range []int{0, 1} {
		inLoop(t, func(l *loop) {
			l.options.ChunkEvents = chunk
			l.plan.Tables = []table.Spec{{Topic: "out", Own: true, Written: true}}
			sum := l.slot("sum", value.Type{Kind: value.Int})
			l.early(operator.NewLookup(operator.Lookup{
				Topic: "out", Key: l.of("k"), Fields: []decode.Field{{Name: "next", Slot: sum}}, Empty: []*expression.Program{l.program("0")},
			}))
			next := l.let("next", "sum + v")
			e := l.emit(0, "next")
			e.Table = 1
			l.early(next, e)
			l.run(at{key: "a", t: 1, v: 1}, at{key: "a", t: 1, v: 2})
			l.run(at{key: "a", t: 1, v: 3}, at{key: "a", t: 1, v: 4})
			l.wants("out", `{"next":1}`, `{"next":3}`, `{"next":6}`, `{"next":10}`)
		})
	}
}

func TestFailedCommitsChangeNothingOfGroupsAndTables(t *testing.T) {
	eachCommitFails(t, scriptOfGroups)
}
