package task

import (
	"testing"
	"time"

	"github.com/afterbay/afterbay/internal/state/order"
	"github.com/afterbay/afterbay/stream"
)

// TestAnUnawaitedEventHidesWhatWaits has the first event of a partition be unawaited, and before
// what its sources have told. Others behind it may wait where there are stages: for a source that
// was silent, until it is told again. No other source is waited for.
func TestAnUnawaitedEventHidesWhatWaits(t *testing.T) {
	at := time.Unix(100, 0)
	key := func(second int64) order.Key { return order.Key{Time: second * 1e6, Source: 1} }
	stages := &CopyPlan{Idle: time.Second, Stages: []string{"by"}}
	for name, c := range map[string]struct {
		plan      *CopyPlan
		unawaited bool
		told      order.Mark
		holds     bool
		from      time.Time
	}{
		"silent beyond its events":  {stages, true, order.Mark{Key: key(50), Silent: at.UnixMicro()}, true, at.Add(time.Second + lookRarely)},
		"silent, and went on":       {stages, true, order.Mark{Key: key(200), Silent: at.UnixMicro()}, false, time.Time{}},
		"never silent":              {stages, true, order.Mark{Key: key(50), Silent: order.NoMark.Silent}, false, time.Time{}},
		"an awaited event":          {stages, false, order.Mark{Key: key(50), Silent: at.UnixMicro()}, false, time.Time{}},
		"an event that waits":       {stages, false, order.Mark{Key: key(10), Silent: at.UnixMicro()}, true, at.Add(time.Second + lookRarely)},
		"without stages none hides": {&CopyPlan{Idle: time.Second}, true, order.Mark{Key: key(50), Silent: at.UnixMicro()}, false, time.Time{}},
		"without stages it is told": {&CopyPlan{Idle: time.Second}, false, order.Mark{Key: key(10), Silent: at.UnixMicro()}, true, time.Time{}},
	} {
		w := waiting{first: []head{{offset: 3, key: key(20), unawaited: c.unawaited, event: true}}}
		holds, from := w.holds(&source{told: c.told, ends: []stream.Offset{4}}, c.plan)
		if holds != c.holds || !from.Equal(c.from) {
			t.Errorf("%s: %v from %v, want %v from %v", name, holds, from, c.holds, c.from)
		}
	}
}
