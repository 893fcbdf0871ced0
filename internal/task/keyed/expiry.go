package keyed

import (
	"fmt"

	"github.com/afterbay/afterbay/internal/state/statekey"
)

// Come records an event of a key at a time and watermark. It returns the state that expired during
// the key's silence before the event.
func (m *Memory) Come(k *Key, at, watermark int64) (ended Ended) {
	if k.Newest == Never {
		m.due.Push(k.Name, at, All)
	}
	if k.Newest, ended = m.plan.Next(k.Newest, at, watermark); !k.queued {
		m.queue(k, Windows)
	}
	return ended
}

// recall finds the newest event of a key that was read from state while events of it are queued.
// The cell of the waves lacks events that wait for an earlier event. The other cell has all events,
// but may expire sooner if only the first cell outlives its windows.
func (m *Memory) recall(k *Key) {
	if m.plan.Featureless() || !m.events.Holds(k.Name) {
		return
	}
	set := 1
	if early := m.plan.Sets[0]; early != nil && (early.KeepsForever() || !m.plan.Outlives()) {
		set = 0
	}
	k.Newest = Never
	if newest, ok := k.Cells[set].Last(); ok {
		k.Newest = newest
	}
	if set == 1 {
		for w := range m.events.Behind(k.Name) {
			k.Newest, _ = m.plan.Next(k.Newest, w.Time, w.Watermark)
		}
	}
}

// queue schedules a check of k, for the end of its windows or of the key.
func (m *Memory) queue(k *Key, end Ended) {
	if at := m.due.Push(k.Name, k.Newest, end); end == Windows {
		k.queued, k.due = true, at
	}
}

// LookAgain schedules the check of a key that was skipped when it was due.
func (m *Memory) LookAgain(k *Key) {
	if k.Newest != Never {
		m.queue(k, All)
		m.queue(k, Windows)
	}
}

// loadExpiry finds when each key may expire. It skips decoded keys, because memory is more recent
// than the state.
func (m *Memory) loadExpiry() error {
	if m.plan.Featureless() {
		return nil
	}
	known := func(key []byte) bool { return m.keys[string(key)] != nil }
	if err := m.due.Load(m.dueBytes, known, m.view.Scan(statekey.Header(m.plan.Longest()))); err != nil {
		return fmt.Errorf("keys of %v: %w", m.id, err)
	}
	for _, k := range m.decoded.All() {
		if k.Newest == Never {
			continue
		}
		if k.queued {
			m.queue(k, Windows)
		}
		m.queue(k, All)
	}
	return nil
}

// Overdue reports whether a check of a key is due by a watermark.
func (m *Memory) Overdue(watermark int64) bool { return m.due.Until(watermark) }

// lookKeys is how many keys are checked at once. It is a few times the number of loads that a
// processor keeps in flight, and small enough that their cells stay in its cache.
const lookKeys = 128

// Expire ends the silent keys that the watermark has reached. It checks at most limit keys and
// returns how many it checked. It calls changed for each key that it ended. It skips keys with
// queued events. It reschedules keys that had an event since.
func (m *Memory) Expire(watermark int64, limit int, changed func(*Key)) (n int, err error) {
	if m.due.Cut(watermark) {
		err = m.loadExpiry()
	}
	var looks [lookKeys]Look
	for err == nil && n < limit && m.due.Until(watermark) {
		at := m.due.Pop(watermark, looks[:min(limit-n, len(looks))])
		n += len(at)
		err = m.look(at, watermark, changed)
	}
	return n, err
}

// look ends the state of keys that expired by a watermark. Like Warm, it waits for the memory of
// all keys at once.
func (m *Memory) look(at []Look, watermark int64, changed func(*Key)) (err error) {
	var list [lookKeys]*Key
	for i := range at {
		list[i] = m.keys[at[i].Key]
	}
	for i, look := range at {
		if m.events.Holds(look.Key) {
			continue // some of its events are still queued
		}
		k := list[i]
		if k == nil {
			if k, err = m.Get([]byte(look.Key)); err != nil {
				return err
			}
		}
		if look.End == Windows {
			if k.due != 0 && k.due != look.At {
				continue // a duplicate entry, because the key left memory in between
			}
			k.queued = false
		}
		if k.Newest == Never {
			continue
		}
		if m.plan.Ended(k.Newest, watermark) < look.End { // it had an event since
			m.queue(k, look.End)
			continue
		}
		m.plan.EndAll(k.Cells, look.End)
		if look.End == All || !m.plan.Outlives() {
			k.Newest = Never
		}
		changed(k)
	}
	return nil
}
