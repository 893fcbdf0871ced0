package task

import (
	"fmt"
	"unsafe"

	"github.com/afterbay/afterbay/due"
	"github.com/afterbay/afterbay/silence"
	"github.com/afterbay/afterbay/statekey"
)

// expiriesMax is how many silent keys a step looks at. Where the watermark jumps
// over more of them, steps of their own follow, so that none is too large.
const expiriesMax = 1024

// loadExpiry finds when each key may end. Of decoded keys memory knows it better
// than the state.
func (p *partition) loadExpiry(plan *Plan) error {
	if plan.featureless() {
		return nil
	}
	p.due.Reset()
	known := func(key []byte) bool { return p.keys[string(key)] != nil }
	scan := p.view.Scan(statekey.Header(plan.terms.Longest()))
	if err := plan.terms.Load(&p.due, p.dueBytes, p.watermark(plan.Time.Lateness), known, scan); err != nil {
		return fmt.Errorf("keys of %v: %w", p.id, err)
	}
	for _, k := range p.decoded.All() {
		if k.newest != never {
			p.queue(plan, k, silence.Nothing)
		}
	}
	return nil
}

// expire ends the silent keys that the watermark has reached, looking at most at
// limit of them, calls changed for each, and returns how many it looked at. A
// key that had an event since it was queued is queued again.
func (p *partition) expire(plan *Plan, limit int, changed func(*keyState)) (n int, err error) {
	watermark := p.watermark(plan.Time.Lateness)
	if horizon, cut := p.due.Horizon(); cut && watermark >= horizon {
		if err := p.loadExpiry(plan); err != nil {
			return 0, err
		}
	}
	var last due.Entry
	for ; n < limit && p.due.Until(watermark); n++ {
		entry := p.due.Pop()
		if entry == last {
			continue // queued twice, as a key that was not remembered is
		}
		last = entry
		k, err := p.lookup(plan, []byte(entry.Key))
		if err != nil {
			return n, err
		}
		if k.due != 0 && k.due != entry.At {
			continue // it was queued again since, for sooner
		}
		k.queued = false
		if k.newest == never {
			continue
		}
		what := plan.terms.Ended(k.newest, watermark)
		for set, cell := range k.cells {
			plan.terms.End(set, cell, what)
		}
		if what != silence.Nothing {
			changed(k)
		}
		if what == silence.All || what == silence.Windows && !plan.terms.Outlives() {
			k.newest = never
			continue
		}
		p.queue(plan, k, what)
	}
	p.overdue = p.due.Until(watermark)
	return n, nil
}

// queue notes when k is to be looked at next.
func (p *partition) queue(plan *Plan, k *keyState, after silence.Ended) {
	k.queued, k.due = true, plan.terms.Next(k.newest, after)
	p.due.Push(due.Entry{At: k.due, Key: k.key})
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
