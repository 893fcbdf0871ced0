package keyed

import (
	"fmt"

	"github.com/afterbay/afterbay/internal/state/statekey"
)

// Come notes an event of a key at a time and watermark, and returns what the
// key's silence before it ended.
func (m *Memory) Come(k *Key, at, watermark int64) (ended Ended) {
	if k.Newest == Never {
		m.due.Push(k.Name, at, All)
	}
	if k.Newest, ended = m.plan.Next(k.Newest, at, watermark); !k.queued {
		m.queue(k, Windows)
	}
	return ended
}

// recall finds the newest event of a key that was read while events of it are queued. The
// cell of the waves lacks those that wait for an earlier event; the other cell has all
// events, but is emptied sooner if only the first outlives its windows.
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

// queue notes when k is to be looked at, for the end of its windows or its own.
func (m *Memory) queue(k *Key, end Ended) {
	if at := m.due.Push(k.Name, k.Newest, end); end == Windows {
		k.queued, k.due = true, at
	}
}

// LookAgain notes a key whose silence was not looked at when it was due.
func (m *Memory) LookAgain(k *Key) {
	if k.Newest != Never {
		m.queue(k, All)
		m.queue(k, Windows)
	}
}

// loadExpiry finds when each key may end. Of decoded keys memory knows it better
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

// Overdue reports whether a key is to be looked at by a watermark.
func (m *Memory) Overdue(watermark int64) bool { return m.due.Until(watermark) }

// lookKeys are looked at at once: a few times what a processor has loads under
// way, and few enough that their cells stay in its cache.
const lookKeys = 128

// Expire ends the silent keys that the watermark has reached, looking at most at
// limit of them, and returns how many it looked at. It leaves alone those of which
// events are queued, calls changed for each that it ended, and looks again later at
// those that had an event since.
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

// look ends what silence up to a watermark ended of keys. As Warm, it waits for
// memory for all of them at once.
func (m *Memory) look(at []Look, watermark int64, changed func(*Key)) (err error) {
	var list [lookKeys]*Key
	for i := range at {
		list[i] = m.keys[at[i].Key]
	}
	for i, look := range at {
		if m.events.Holds(look.Key) {
			continue // its events are not all there yet
		}
		k := list[i]
		if k == nil {
			if k, err = m.Get([]byte(look.Key)); err != nil {
				return err
			}
		}
		if look.End == Windows {
			if k.due != 0 && k.due != look.At {
				continue // it is queued twice, as a key that was not remembered is
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
