package task

import (
	"fmt"
	"unsafe"

	"github.com/afterbay/afterbay/silence"
	"github.com/afterbay/afterbay/statekey"
)

// expiriesMax is how many silent keys a step looks at. Where the watermark jumps
// over more of them, steps of their own follow, so that none is too large.
const expiriesMax = 1024

// loadExpiry finds when each key may end. Of decoded keys memory knows it better
// than the state.
func (p *partition) loadExpiry(plan *Plan) error {
	p.due = plan.terms.NewQueue()
	if plan.featureless() {
		return nil
	}
	known := func(key []byte) bool { return p.keys[string(key)] != nil }
	if err := p.due.Load(p.dueBytes, known, p.view.Scan(statekey.Header(plan.terms.Longest()))); err != nil {
		return fmt.Errorf("keys of %v: %w", p.id, err)
	}
	for _, k := range p.decoded.All() {
		if k.newest == never {
			continue
		}
		if k.queued {
			p.queue(k, silence.Windows)
		}
		p.queue(k, silence.All)
	}
	return nil
}

// queue notes when k is to be looked at, for the end of its windows or its own.
func (p *partition) queue(k *keyState, end silence.Ended) {
	if at := p.due.Push(k.key, k.newest, end); end == silence.Windows {
		k.queued, k.due = true, at
	}
}

// expire ends the silent keys that the watermark has reached, looking at most at
// limit of them, calls changed for each, and returns how many it looked at. A
// key that had an event since it was queued is queued again.
func (p *partition) expire(plan *Plan, limit int, changed func(*keyState)) (n int, err error) {
	watermark := p.watermark(plan.Time.Lateness)
	if p.due.Cut(watermark) {
		err = p.loadExpiry(plan)
	}
	var looks [warmKeys]silence.Look
	for err == nil && n < limit && p.due.Until(watermark) {
		at := p.due.Pop(watermark, looks[:min(limit-n, len(looks))])
		n += len(at)
		err = p.look(plan, at, watermark, changed)
	}
	p.overdue = p.due.Until(watermark)
	return n, err
}

// look ends what silence up to a watermark ended of keys. As in warm, it waits
// for memory for all of them at once.
func (p *partition) look(plan *Plan, at []silence.Look, watermark int64, changed func(*keyState)) (err error) {
	var keys [warmKeys]*keyState
	for i := range at {
		keys[i] = p.keys[at[i].Key]
	}
	for i, look := range at {
		k := keys[i]
		if k == nil {
			if k, err = p.lookup(plan, []byte(look.Key)); err != nil {
				return err
			}
		}
		if look.End == silence.Windows {
			if k.due != 0 && k.due != look.At {
				continue // it is queued twice, as a key that was not remembered is
			}
			k.queued = false
		}
		if k.newest == never {
			continue
		}
		if plan.terms.Ended(k.newest, watermark) < look.End { // it had an event since
			p.queue(k, look.End)
			continue
		}
		plan.terms.EndAll(k.cells, look.End)
		if look.End == silence.All || !plan.terms.Outlives() {
			k.newest = never
		}
		changed(k)
	}
	return nil
}

// expireRest goes on with the keys that had ended when a step was full.
func (w *worker) expireRest() error {
	overdue := 0
	for _, p := range w.partitions {
		if p.overdue {
			w.step.touch(p)
			overdue++
		}
	}
	if overdue == 0 {
		return nil
	}
	if err := w.expire(); err != nil {
		return err
	}
	w.session.Wake()
	return nil
}

// Used and Held are what a circle.Circle asks of a key.
func (k *keyState) Used() uint64 { return k.chunk }
func (k *keyState) Held() bool   { return k.dirty }

// bytes returns about how much memory k takes, with its places in the map and
// the circle.
func (k *keyState) bytes() int {
	n := int(unsafe.Sizeof(*k)) + 56 + len(k.key)
	for _, c := range k.cells {
		if c != nil {
			n += c.Bytes() - int(unsafe.Sizeof(*c)) // which is in k
		}
	}
	for _, c := range k.calls {
		if c != nil {
			n += c.keyed.Bytes()
		}
	}
	return n
}

// Of evicted keys the memory of a few small ones is used again, so that keys
// that come and go leave little garbage.
const (
	spareKeys  = 1024
	spareBytes = 4 << 10
)

// bound holds what is kept in memory of keys to its limit: decoded keys, which
// are read again from the committed state, so that no step may be outstanding,
// and when keys fall silent.
func (w *worker) bound() {
	share := w.options.KeyBytes / int64(w.options.Sessions*max(1, len(w.partitions)))
	keys, bytes, due := 0, 0, int64(0)
	for _, p := range w.partitions {
		p.dueBytes = share / 4 * 3
		p.due.Trim(p.dueBytes)
		p.decoded.Evict(w.options.Keys, int(share/4), func(k *keyState, bytes int) {
			delete(p.keys, k.key)
			w.metrics.KeyEvictions.Add(1)
			if len(p.spare) < spareKeys && bytes < spareBytes {
				p.spare = append(p.spare, k)
			}
		})
		w.metrics.KeyLoads.Add(p.loads)
		p.loads = 0
		keys += len(p.keys)
		bytes += p.decoded.Bytes()
		due += p.due.Bytes() + p.timers.Bytes()
	}
	w.metrics.Keys.Store(int64(keys))
	w.metrics.KeyBytes.Store(int64(bytes))
	w.metrics.DueBytes.Store(due)
}
