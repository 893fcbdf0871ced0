package task

import (
	"math"
	"testing"
	"time"

	"github.com/afterbay/afterbay/internal/event/header"
	"github.com/afterbay/afterbay/internal/state/order"
	"github.com/afterbay/afterbay/internal/task/operator"
	"github.com/afterbay/afterbay/internal/task/output"
	"github.com/afterbay/afterbay/stream"
)

// TestEventsOfTheWatermarksTimeComeInTheOrderOfTheirSources asks which partitions of a topic may
// still bring an event of the time of the event whose turn it is.
func TestEventsOfTheWatermarksTimeComeInTheOrderOfTheirSources(t *testing.T) {
	const logins, clicks = 0, 1 // as they stand in the plan; by name clicks are first
	for _, c := range []struct {
		turn   int32
		slack  time.Duration
		source int
		want   int32
	}{
		{order.Number(0, 1), 0, clicks, 1},
		{order.Number(0, 1), 0, logins, 0},
		{order.Number(1, 3), 0, logins, 3},
		{order.Number(1, 3), 0, clicks, math.MaxInt32},
		{order.Number(1, 3), time.Second, clicks, 0},
		{-1, 0, clicks, 0},
		{-1, 0, logins, 0},
	} {
		plan := &Plan{Input: Input{Sources: []Source{{Topic: "logins", Rank: 1}, {Topic: "clicks"}}, Slack: c.slack}}
		p := &partition{chunk: &chunk{admission: admission{committer: &committer{plan: plan}}}, turns: turns{turn: c.turn}}
		if got := p.tied(c.source); got != c.want {
			t.Errorf("%+v: %d", c, got)
		}
	}
}

// TestTurnIsOfTheSourceUnlessTheEventIsMoved reads copies, of which some have no place of their own.
func TestTurnIsOfTheSourceUnlessTheEventIsMoved(t *testing.T) {
	for _, c := range []struct {
		forced, arrival bool
		want            int32
	}{{false, false, order.Number(1, 3)}, {true, false, -1}, {false, true, -1}} {
		plan := &Plan{Input: Input{Sources: []Source{{Topic: "logins", Rank: 1}, {Topic: "clicks"}}, Arrival: c.arrival}}
		a := &admission{committer: &committer{plan: plan, building: &transaction{}}}
		place := order.Copy{Placed: order.Placed{Key: order.Key{Time: 7e6, Source: order.Number(1, 3), Offset: 5}}, Forced: c.forced}
		it := &item{partition: &partition{reached: reached{newest: never}}, Event: output.Event{Event: operator.Event{Record: &stream.Record{Headers: []stream.Header{
			{Key: header.Source, Value: []byte("logins/3@5")}, {Key: header.Order, Value: place.Append(nil)},
		}}}}}
		if !a.read(it) || it.partition.turn != c.want || it.Watermark != 7e6 || it.source != 0 {
			t.Errorf("%+v: turn of %d, watermark %d, source %d", c, it.partition.turn, it.Watermark, it.source)
		}
	}
}
