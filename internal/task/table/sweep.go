package table

import (
	"cmp"
	"encoding/binary"
	"errors"
	"math"
	"slices"
	"sort"
	"time"

	"github.com/afterbay/afterbay/internal/state/packed"
	"github.com/afterbay/afterbay/internal/state/statekey"
	"github.com/afterbay/afterbay/internal/task/due"
)

// A sweep removes versions that no later event needs, even if no more rows of their key come. The
// state has an index with one entry for each key with more than one version. It is sorted by the
// time when the oldest version of a key is no longer needed. Memory has the first entries of the
// index.
const (
	sweepEvery   = int64(time.Minute / time.Microsecond) // the times of the index are multiples of it
	sweepMin     = 256                                   // keys per sweep, or twice the number of new rows if that is more
	sweepBlocks  = 64                                    // most blocks of a key to remove at once
	agendaMax    = 8192                                  // most entries of the index in memory
	agendaReads  = agendaMax / 2                         // entries in memory after the index was read or cut
	inDue        = "/due"                                // suffix of the id of the index
	inSwept      = "/swept"                              // suffix of the id of sweeper.swept
	indexKeySize = 8                                     // bytes before the key of a row
)

// sweeper holds the index of a table that is relevant for sweeps.
type sweeper struct {
	first   []due.Entry // first entries of the index, in order
	horizon int64       // entries from this time on may be only in the state
	swept   int64       // before this time, a key without an entry may have had a row
	rows    int         // number of rows since the last sweep
}

// newSweeper restores the sweeper of a table.
func (s *State) newSweeper(id string) (sweeper, error) {
	w := sweeper{horizon: never, swept: never}
	data, err := s.view.Get(sweptKey(id))
	if err == nil && data != nil && len(data) != 8 {
		err = packed.ErrDamaged
	}
	if err == nil && data != nil {
		w.swept = int64(binary.BigEndian.Uint64(data))
	}
	return w, err
}

func sweptKey(id string) []byte { return statekey.AppendRow(nil, id+inSwept, nil) }

func indexKey(id string, at int64, key []byte) []byte {
	name := statekey.AppendRow(nil, id+inDue, nil)
	return append(binary.BigEndian.AppendUint64(name, uint64(at)^1<<63), key...)
}

// push adds an entry of the index, unless it is beyond the horizon.
func (w *sweeper) push(e due.Entry) {
	if e.At >= w.horizon {
		return
	}
	i := sort.Search(len(w.first), func(i int) bool {
		return cmp.Or(cmp.Compare(w.first[i].At, e.At), cmp.Compare(w.first[i].Key, e.Key)) >= 0
	})
	if w.first = slices.Insert(w.first, i, e); len(w.first) > agendaMax {
		w.horizon = w.first[agendaReads].At
		clear(w.first[agendaReads:])
		w.first = w.first[:agendaReads]
	}
}

// due returns the time, rounded for the index, when a version of a key is no longer needed. It
// returns math.MaxInt64 if there is no such time.
func (e *entry) due() (int64, error) {
	v, rest, ok := e.newest.next()
	at := int64(math.MaxInt64)
	switch {
	case len(e.newest) > 0 && !ok:
		return at, packed.ErrDamaged
	case len(e.blocks) > 0:
		at = e.second(0)
	case len(rest) > 0:
		at = rest.first()
	case ok && v.kind == isDeleted:
		at = v.at
	}
	if at > math.MaxInt64-sweepEvery {
		return math.MaxInt64, nil
	}
	over := at % sweepEvery
	if over < 0 {
		over += sweepEvery
	}
	if over > 0 {
		at += sweepEvery - over
	}
	return at, nil
}

// move moves a key in the index.
func (h *history) move(from, to int64) {
	if from == to {
		return
	}
	if from != math.MaxInt64 {
		h.bytes += h.put(string(indexKey(h.id, from, h.key)), nil)
	}
	if to != math.MaxInt64 {
		h.bytes += h.put(string(indexKey(h.id, to, h.key)), []byte{1})
		h.sweepers[h.table].push(due.Entry{At: to, Key: string(h.key)})
	}
}

// finish removes the versions of a key that no event at or after floor needs, and stores the rest.
// before is the previous time of the key in the index.
func (h *history) finish(floor, before int64) error {
	if err := errors.Join(h.prune(floor), h.cut()); err != nil {
		return err
	}
	h.bound()
	after, err := h.due()
	if err != nil {
		return err
	}
	name := string(statekey.AppendRow(nil, h.id, h.key))
	if len(h.blocks) == 0 && after <= floor && h.alone() {
		w := &h.sweepers[h.table]
		w.swept = max(w.swept, h.newest.first())
		h.bytes += h.put(string(sweptKey(h.id)), binary.BigEndian.AppendUint64(nil, uint64(w.swept)))
		h.bytes += h.put(name, nil)
		after = math.MaxInt64
	} else {
		h.bytes += h.put(name, h.append(nil))
	}
	h.move(before, after)
	return nil
}

// alone reports whether the newest version is the only one of its list.
func (e *entry) alone() bool {
	_, rest, ok := e.newest.next()
	return ok && len(rest) == 0
}

// sweep removes versions that no later event needs, for a bounded number of keys. After each key it
// calls took with about how many bytes that adds to the next transaction. took may commit the
// transaction.
func (s *State) sweep(took func(bytes int) error) error {
	for table := range s.sweepers {
		w, floor := &s.sweepers[table], s.specs[table].Versions.floor(s.watermark)
		left := max(sweepMin, 2*w.rows)
		if w.rows = 0; !s.specs[table].Versions.Kept() || floor == never {
			continue
		}
		for ; left > 0; left-- {
			if len(w.first) == 0 && w.horizon <= floor {
				if err := s.readIndex(table); err != nil {
					return err
				}
			}
			if len(w.first) == 0 || w.first[0].At > floor {
				break
			}
			key := w.first[0].Key
			w.first = slices.Delete(w.first, 0, 1)
			n, err := s.sweepKey(table, []byte(key), floor)
			if err == nil && n > 0 {
				err = took(n)
			}
			if err != nil {
				return err
			}
		}
	}
	return nil
}

// sweepKey removes versions of a key. The entry of the index may be outdated.
func (s *State) sweepKey(table int, key []byte, floor int64) (bytes int, err error) {
	e, err := s.entry(table, key)
	if err != nil {
		return 0, err
	}
	at, err := e.due()
	if err != nil || at > floor {
		return 0, err
	}
	h := history{State: s, table: table, id: s.ids[table], key: key, entry: &e}
	err = h.finish(floor, at)
	if after, _ := h.due(); err == nil && after == at && len(h.blocks) > 0 {
		s.sweepers[table].push(due.Entry{At: at, Key: string(key)})
	}
	return h.bytes, err
}

// readIndex reads the first entries of the index into memory.
func (s *State) readIndex(table int) error {
	w, prefix := &s.sweepers[table], statekey.AppendRow(nil, s.ids[table]+inDue, nil)
	w.first, w.horizon = nil, math.MaxInt64
	take := func(stored string) error {
		if len(stored) < len(prefix)+indexKeySize {
			return packed.ErrDamaged
		}
		at := int64(binary.BigEndian.Uint64([]byte(stored[len(prefix):])) ^ 1<<63)
		w.push(due.Entry{At: at, Key: stored[len(prefix)+indexKeySize:]})
		return nil
	}
	n := 0
	for stored, err := range s.view.Scan(prefix) {
		if err != nil {
			return err
		}
		if s.changed(stored.Key) {
			continue
		}
		if err := take(string(stored.Key)); err != nil {
			return err
		}
		if n++; n == agendaReads {
			w.horizon = w.first[len(w.first)-1].At
			break
		}
	}
	for _, made := range []map[string][]byte{s.flying, s.made} {
		for stored, data := range made {
			if data == nil || len(stored) < len(prefix) || stored[:len(prefix)] != string(prefix) {
				continue
			}
			if err := take(stored); err != nil {
				return err
			}
		}
	}
	return nil
}

// changed reports whether a transaction that may not be durable yet has an entry.
func (s *State) changed(key []byte) bool {
	_, made := s.made[string(key)]
	_, flying := s.flying[string(key)]
	return made || flying
}
