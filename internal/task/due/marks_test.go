package due

import "testing"

// TestTimersFindTheirPlaceAmongWhatIsDue has an event at 7 with the watermark 50, and one at
// 8 with 90, before which groups end at 60 and 80.
func TestTimersFindTheirPlaceAmongWhatIsDue(t *testing.T) {
	var m Marks
	for i, mark := range []Mark{{Offset: 7, Watermark: 50, Until: 50}, {Offset: 8, Watermark: 90, Until: 59}, {Offset: 8, Watermark: 90, Until: 79}, {Offset: 8, Watermark: 90, Until: 90}} {
		mark.Item = int32(i)
		m.Add(mark)
	}
	for _, c := range []struct{ at, after, item int64 }{
		{50, 3, 0}, {40, 6, 0}, {51, 3, 1}, {60, 3, 2}, {79, 3, 2}, {80, 3, 3}, {90, 3, 3}, {91, 3, -1},
		{40, 7, 1}, {60, 7, 2}, {40, 8, -1}, // set at the event at 7, or 8: for a time that had passed
	} {
		mark, ok := m.First(c.at, c.after)
		if !ok {
			mark.Item = -1
		}
		if int64(mark.Item) != c.item {
			t.Errorf("a timer for %d set at %d fires before item %d, want %d", c.at, c.after, mark.Item, c.item)
		}
	}
	m.list = m.list[:3] // the groups are cut off from the event
	if _, ok := m.First(85, 7); ok || m.Until() != 90 {
		t.Error("a timer fires before a group that ends later is known")
	}
	if m.Reset(); len(m.list) != 0 {
		t.Error("marks are left")
	}
}
