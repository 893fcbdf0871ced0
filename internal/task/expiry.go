package task

import "github.com/afterbay/afterbay/internal/task/keyed"

// expiriesMax is how many silent keys a step looks at. Where the watermark jumps
// over more of them, steps of their own follow, so that none is too large.
const expiriesMax = 1024

// expire ends the keys that fell silent before the chunk's end. Events check
// the silence of their own key at their own position, so it makes no difference
// to any result when this runs.
func (tx *committer) expire() error {
	if tx.plan.keys.Featureless() {
		return nil
	}
	for _, p := range tx.building.touched {
		watermark := p.watermark(tx.plan.Time.Lateness)
		n, err := p.keys.Expire(watermark, expiriesMax-tx.building.ended, func(k *keyed.Key) { tx.touch(p, k) })
		if err != nil {
			return err
		}
		tx.building.ended += n
		p.overdue = p.keys.Overdue(watermark)
	}
	return nil
}

// expireRest goes on with the keys that had ended when a step was full.
func (w *worker) expireRest() error {
	overdue := 0
	for _, p := range w.partitions {
		if p.overdue {
			w.building.touch(p)
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

// bound holds what is kept in memory of keys to its limit. No step may be
// outstanding.
func (tx *committer) bound() {
	share := tx.options.KeyBytes / int64(tx.options.Sessions*max(1, len(tx.partitions)))
	decoded, bytes, due := 0, 0, int64(0)
	for _, p := range tx.partitions {
		evicted, loads := p.keys.Bound(tx.options.Keys, share)
		tx.metrics.KeyEvictions.Add(uint64(evicted))
		tx.metrics.KeyLoads.Add(uint64(loads))
		decoded += p.keys.Len()
		bytes += p.keys.Bytes()
		due += p.keys.DueBytes()
	}
	tx.metrics.Keys.Store(int64(decoded))
	tx.metrics.KeyBytes.Store(int64(bytes))
	tx.metrics.DueBytes.Store(due)
}
