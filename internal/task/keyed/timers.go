package keyed

import (
	"fmt"

	"github.com/afterbay/afterbay/internal/event/value"
	"github.com/afterbay/afterbay/internal/state/packed"
	"github.com/afterbay/afterbay/internal/state/statekey"
	"github.com/afterbay/afterbay/internal/task/due"
	"github.com/afterbay/afterbay/internal/task/operator"
	"github.com/afterbay/afterbay/internal/task/output"
)

// Call is the state of a function for a key.
type Call struct {
	Keyed *operator.State
	dirty bool
}

// Call returns the state of a function for a key.
func (m *Memory) Call(k *Key, c *operator.Call) (*Call, error) {
	if k.calls == nil {
		k.calls = make([]*Call, len(m.plan.Calls))
	}
	if k.calls[c.Index] == nil {
		data, err := m.view.Get(statekey.AppendCall(nil, k.Name, c.Name))
		if err != nil {
			return nil, err
		}
		keyed, err := operator.ParseState(data)
		if err != nil {
			return nil, fmt.Errorf("key %q of function %s in %v: %w", k.Name, c.Name, m.id, err)
		}
		k.calls[c.Index] = &Call{Keyed: keyed}
		m.decoded.Resize(k, k.bytes())
	}
	return k.calls[c.Index], nil
}

// Keep sets the state of a function for a key to s.
func (m *Memory) Keep(k *Key, c *Call, s *operator.State) {
	c.Keyed, c.dirty = s, true
	if len(s.Timers) > 0 {
		m.Await(k, s.Timers[0].At)
	}
}

// sealCall turns the state of a function for a key into a change of state.
func (m *Memory) sealCall(k *Key, c *operator.Call, kept *Call, to *output.Writer) {
	at := len(to.Bytes)
	to.Bytes = statekey.AppendCall(to.Bytes, k.Name, c.Name)
	key := to.Bytes[at:len(to.Bytes):len(to.Bytes)]
	if kept.Keyed.Empty() {
		to.Change(m.id, key, nil)
		return
	}
	at = len(to.Bytes)
	to.Bytes = kept.Keyed.Append(to.Bytes)
	to.Change(m.id, key, to.Bytes[at:len(to.Bytes):len(to.Bytes)])
}

// Await schedules a key for a timer that may be due at a watermark. A key has one entry, for its
// first timer.
func (m *Memory) Await(k *Key, at int64) {
	if !k.awaited || at < k.timer {
		k.awaited, k.timer = true, at
		m.timers.Push(due.Entry{At: at, Key: k.Name})
	}
}

// AwaitAnyway is Await for a key that may have an earlier entry.
func (m *Memory) AwaitAnyway(e due.Entry) { m.timers.Push(e) }

// Awaited removes and returns the first key with a timer that may be due by a watermark, and the
// time of its entry. It returns nil if there is no such key.
func (m *Memory) Awaited(watermark int64) (*Key, int64, error) {
	for m.timers.Until(watermark) {
		e := m.timers.Pop()
		k, err := m.Get([]byte(e.Key))
		if err != nil {
			return nil, 0, err
		}
		if k.awaited && k.timer < e.At {
			continue // outdated: a sooner entry was added since
		}
		k.awaited = k.awaited && k.timer != e.At // a later entry stays
		return k, e.At, nil
	}
	return nil, 0, nil
}

// loadTimers finds when timers of stored keys may be due.
func (m *Memory) loadTimers() error {
	if !m.plan.Keyed {
		return nil
	}
	for entry, err := range m.view.Scan([]byte{statekey.Call}) {
		if err != nil {
			return err
		}
		keyed, err := operator.ParseState(entry.Value)
		key, ok := statekey.CallKey(entry.Key)
		if err != nil || !ok {
			return fmt.Errorf("function state of %v: %w", m.id, packed.ErrDamaged)
		}
		if len(keyed.Timers) > 0 {
			m.timers.Push(due.Entry{At: keyed.Timers[0].At, Key: value.Text(key)})
		}
	}
	return nil
}
