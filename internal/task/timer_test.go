package task_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/afterbay/afterbay/internal/event/value"
	"github.com/afterbay/afterbay/internal/task/operator"
	"github.com/afterbay/afterbay/udf"
)

// visits counts the events of a key, and writes the count ten seconds after the first.
func (l *loop) visits() {
	l.plan.Calls = []*operator.Call{{
		Name: "visits", ID: l.plan.Meta.ID, Topics: []string{"out"}, Outputs: []value.Slot{l.slot("visits", value.Type{Kind: value.Int})},
		Function: &udf.Function{
			Version: 1, Keyed: true,
			Event: func(c *udf.Context) error {
				n := len(c.Get("n")) + 1
				if c.SetInt("visits", int64(n)); n == 1 {
					c.SetTimer("end", c.Time.Add(10*time.Second))
				}
				c.Put("n", make([]byte, n))
				return nil
			},
			Timer: func(c *udf.Context) error {
				c.Emit(udf.Output{Topic: "out", Value: fmt.Appendf(nil, "%s had %d", c.Key, len(c.Get("n")))})
				c.Put("n", nil)
				return nil
			},
		},
	}}
	l.put(l.plan.Calls[0], l.emit(0, "k", "visits"))
}

// TestTimersComeBeforeTheNextEvent is of keys with and without an event at which they are due.
func TestTimersComeBeforeTheNextEvent(t *testing.T) {
	for _, chunk := range []int{0, 1, 2} {
		inLoop(t, func(l *loop) {
			l.options.ChunkEvents = chunk
			l.visits()
			l.run(at{key: "a", t: 1}, at{key: "b", t: 2}, at{key: "a", t: 5}, at{key: "a", t: 11}, at{key: "c", t: 20}, at{key: "b", t: 20})
			l.wants("out", `{"k":"a","visits":1}`, `{"k":"b","visits":1}`, `{"k":"a","visits":2}`, "a had 2", `{"k":"a","visits":1}`, "b had 1", `{"k":"c","visits":1}`, `{"k":"b","visits":1}`)
		})
	}
}

// TestTimersAreFoundAfterARestart has the function's state and timers in the log alone.
func TestTimersAreFoundAfterARestart(t *testing.T) {
	inLoop(t, func(l *loop) {
		l.visits()
		l.run(at{key: "a", t: 1}, at{key: "a", t: 2})
		l.run(at{key: "a", t: 3})
		l.run(at{key: "b", t: 60})
		l.run(at{key: "a", t: 61})
		l.wants("out", `{"k":"a","visits":1}`, `{"k":"a","visits":2}`, `{"k":"a","visits":3}`, "a had 3", `{"k":"b","visits":1}`, `{"k":"a","visits":1}`)
	})
}

// TestTimeMovesOnWithTheClock has an idle partition: its timers fire without another event.
func TestTimeMovesOnWithTheClock(t *testing.T) {
	inLoop(t, func(l *loop) {
		l.plan.Time.Idle = 5 * time.Second
		l.visits()
		l.send(at{key: "a", t: 1})
		l.start()
		l.pass(4 * time.Second)
		l.wants("out", `{"k":"a","visits":1}`)
		l.pass(20 * time.Second)
		l.wants("out", `{"k":"a","visits":1}`, "a had 1")
	})
}
