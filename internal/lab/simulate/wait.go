package simulate

// arrivals counts waiting events by the tick of their arrival, the oldest first.
type arrivals struct {
	list []arrived
	head int // index of the oldest waiting events
}

type arrived struct{ tick, events int }

func (a *arrivals) add(tick, events int) {
	if events > 0 {
		a.list = append(a.list, arrived{tick, events})
	}
}

// take removes the oldest events and records how long they waited. There must be at least that
// many.
func (a *arrivals) take(tick, events int, w *waits) {
	for events > 0 {
		oldest := &a.list[a.head]
		n := min(events, oldest.events)
		w.add(tick-oldest.tick, n)
		events -= n
		if oldest.events -= n; oldest.events == 0 {
			a.head++
		}
	}
	if a.head > 4096 && a.head > len(a.list)/2 {
		a.list = append(a.list[:0], a.list[a.head:]...)
		a.head = 0
	}
}

// waits counts events by the number of ticks that they waited.
type waits struct {
	events []int
	total  int
}

func (w *waits) add(ticks, events int) {
	for len(w.events) <= ticks {
		w.events = append(w.events, 0)
	}
	w.events[ticks] += events
	w.total += events
}

// mean returns the mean wait in ticks, or 0 if there are no events.
func (w *waits) mean() float64 {
	sum := 0.0
	for ticks, events := range w.events {
		sum += float64(ticks) * float64(events)
	}
	return sum / float64(max(1, w.total))
}

// quantile returns the number of ticks that a share of the events did not exceed.
func (w *waits) quantile(share float64) int {
	count := 0
	for ticks, events := range w.events {
		if count += events; float64(count) >= share*float64(w.total) {
			return ticks
		}
	}
	return 0
}
