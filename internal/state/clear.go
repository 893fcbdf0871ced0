package state

import (
	"context"
	"fmt"
)

// Clear deletes all entries of the space, as of frame seq, without reading its keys on disk. The
// deletion becomes durable like a change, after the changes that an earlier Checkpoint covers. A
// concurrent Get or Scan may see some old entries. The caller must not call Apply meanwhile.
func (s *Space) Clear(ctx context.Context, seq uint64) error {
	raise(&s.store.latest, seq)
	if s.empty() {
		return nil
	}
	s.store.checkpointing.Lock() // no checkpoint is handing cells to Pebble
	defer s.store.checkpointing.Unlock()
	batch := s.store.db.NewBatch()
	err := batch.DeleteRange(s.prefix, after(s.prefix), nil)
	if err == nil {
		err = setSeq(batch, keySeen, s.store.latest.Load())
	}
	if err == nil {
		err = s.store.write(ctx, batch)
	}
	if err != nil {
		return fmt.Errorf("clear a space of state: %w", err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, l := range s.loads {
		l.stale = true
	}
	for id := range s.table.made {
		if s.table.cell(id).flags&live != 0 {
			s.remove(id)
		}
	}
	bytes := s.away.bytes()
	s.store.used.Add(-bytes)
	s.store.filters.Add(-bytes)
	s.dirty, s.pending, s.taken = nil, nil, 0
	s.known, s.away = true, filter{} // Pebble has no entry of the space
	s.store.crowded.Store(false)
	s.store.tellRoom()
	return nil
}

// empty reports whether neither memory nor Pebble has entries of the space.
func (s *Space) empty() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.known && s.away.bytes() == 0 && s.table.count == 0
}
