package table

import (
	"encoding/binary"
	"fmt"
	"math"
	"slices"
	"sort"
	"time"

	"github.com/afterbay/afterbay/internal/event/decode"
	"github.com/afterbay/afterbay/internal/event/value"
	"github.com/afterbay/afterbay/internal/state/packed"
	"github.com/afterbay/afterbay/internal/state/statekey"
	"github.com/afterbay/afterbay/internal/task/operator"
	"github.com/afterbay/afterbay/stream"
)

// Versions says how long a table keeps the versions of a row, and when each becomes valid. The zero
// value keeps only the newest row.
type Versions struct {
	History time.Duration // event time before the watermark that versions are kept for
	Wait    time.Duration // time that an event waits after its append before it is computed

	Field  string        // field of the row with its time; "" uses the append time
	Kind   value.Kind    // kind of the field: Int, for a number too, or Time or String
	Unit   time.Duration // unit of an Int
	Layout string        // layout of a String, as in package time
}

// floor returns the earliest time of versions that events after a watermark may need.
func (v Versions) floor(watermark int64) int64 {
	if watermark == never {
		return never
	}
	return watermark - v.History.Microseconds()
}

// Kept reports whether the table keeps more than the newest row.
func (v Versions) Kept() bool { return v.History > 0 }

// The limits of a key's versions.
const (
	blockBytes = 4 << 10 // bytes of versions in an entry or a block, unless one version is larger
	blocksMax  = 4096    // blocks of a key
)

// never is a time before each version.
const never = math.MinInt64

// version is a row that is valid from a time on.
type version struct {
	at   int64 // microseconds
	kind byte
	row  []byte
}

// The kinds of versions.
const (
	isRow     = iota
	isDeleted // there is no row from this time on
	isUntimed // the time of the row cannot be read; at is its append time
)

// list holds versions in the order of their times. Each is encoded as the time in 8 bytes, a
// uvarint of the size of the row and the kind, and the row.
type list []byte

// next returns the first version and the versions after it. ok is false at the end, and if the list
// is damaged.
func (l list) next() (v version, rest list, ok bool) {
	if len(l) < 9 {
		return v, nil, false
	}
	head, n := binary.Uvarint(l[8:])
	if n <= 0 || head>>2 > uint64(len(l)-8-n) {
		return v, nil, false
	}
	end := 8 + n + int(head>>2)
	return version{at: int64(binary.BigEndian.Uint64(l)), kind: byte(head & 3), row: l[8+n : end : end]}, l[end:], true
}

// first returns the time of the first version, or never if the list is empty.
func (l list) first() int64 {
	if len(l) < 8 {
		return never
	}
	return int64(binary.BigEndian.Uint64(l))
}

func (v version) append(to list) list {
	to = binary.BigEndian.AppendUint64(to, uint64(v.at))
	return append(binary.AppendUvarint(to, uint64(len(v.row))<<2|uint64(v.kind)), v.row...)
}

// find returns the newest version at or before a time.
func (l list) find(at int64) (found version, ok bool, err error) {
	for len(l) > 0 {
		v, rest, whole := l.next()
		switch {
		case !whole:
			return v, false, packed.ErrDamaged
		case v.at > at:
			return found, ok, nil
		}
		found, ok, l = v, true, rest
	}
	return found, ok, nil
}

// insert inserts a version in order. It replaces a version of the same time. Only an insert at the
// end appends to the list in place.
func (l list) insert(v version) (list, error) {
	before, after := len(l), len(l)
	for at := l; len(at) > 0; {
		other, rest, whole := at.next()
		switch {
		case !whole:
			return nil, packed.ErrDamaged
		case other.at >= v.at && before == len(l):
			before, after = len(l)-len(at), len(l)-len(at)
		}
		if other.at == v.at {
			after = len(l) - len(rest)
		}
		at = rest
	}
	if before == len(l) {
		return v.append(l), nil
	}
	return append(v.append(slices.Clone(l[:before])), l[after:]...), nil
}

// since returns the list from the newest version at or before a time on.
func (l list) since(at int64) (kept list, err error) {
	for kept = l; len(l) > 0; {
		v, rest, whole := l.next()
		switch {
		case !whole:
			return nil, packed.ErrDamaged
		case v.at > at:
			return kept, nil
		}
		kept, l = l, rest
	}
	return kept, nil
}

// halves splits a list about in the middle. The right half of a single version is empty.
func (l list) halves() (left, right list, err error) {
	_, rest, whole := l.next()
	for whole && len(rest) > len(l)/2 {
		_, after, ok := rest.next()
		if whole = ok; len(after) == 0 {
			break
		}
		rest = after
	}
	if !whole {
		return nil, nil, packed.ErrDamaged
	}
	return l[:len(l)-len(rest)], rest, nil
}

// entry is the stored form of a key: its newest versions, and references to blocks of older ones.
// It begins with from, number and the number of blocks.
type entry struct {
	from   int64 // versions before this time were removed; never if none was removed
	number uint32
	blocks []block // older versions, in the order of their times
	newest list
}

// block refers to a list of versions with its own entry in the state.
type block struct {
	first  int64 // time of the first version
	number uint32
}

const headSize, blockSize = 16, 12

// newestIn returns the list in a stored entry.
func newestIn(data []byte) (list, error) {
	if len(data) < headSize || uint64(binary.BigEndian.Uint32(data[12:])) > uint64(len(data)-headSize)/blockSize {
		return nil, packed.ErrDamaged
	}
	return data[headSize+blockSize*int(binary.BigEndian.Uint32(data[12:])):], nil
}

// fromIn returns the from of a stored entry.
func fromIn(data []byte) int64 { return int64(binary.BigEndian.Uint64(data)) }

func parseEntry(data []byte) (e entry, err error) {
	e.from = never
	if data == nil {
		return e, nil
	}
	if e.newest, err = newestIn(data); err != nil {
		return e, err
	}
	e.from, e.number = fromIn(data), binary.BigEndian.Uint32(data[8:])
	for at := data[headSize : len(data)-len(e.newest)]; len(at) > 0; at = at[blockSize:] {
		e.blocks = append(e.blocks, block{int64(binary.BigEndian.Uint64(at)), binary.BigEndian.Uint32(at[8:])})
	}
	return e, nil
}

func (e *entry) append(to []byte) []byte {
	to = binary.BigEndian.AppendUint32(binary.BigEndian.AppendUint64(to, uint64(e.from)), e.number)
	to = binary.BigEndian.AppendUint32(to, uint32(len(e.blocks)))
	for _, b := range e.blocks {
		to = binary.BigEndian.AppendUint32(binary.BigEndian.AppendUint64(to, uint64(b.first)), b.number)
	}
	return append(to, e.newest...)
}

// place returns the index of the block that covers a time, or -1 if the time is before all blocks.
func (e *entry) place(at int64) int {
	return sort.Search(len(e.blocks), func(i int) bool { return e.blocks[i].first > at }) - 1
}

// oldest returns the time of the oldest version, or math.MaxInt64 without a version.
func (e *entry) oldest() int64 {
	switch {
	case len(e.blocks) > 0:
		return e.blocks[0].first
	case len(e.newest) > 0:
		return e.newest.first()
	}
	return math.MaxInt64
}

// second returns the time of the first version after block i.
func (e *entry) second(i int) int64 {
	if i+1 < len(e.blocks) {
		return e.blocks[i+1].first
	}
	return e.newest.first()
}

// asOf returns the row that is valid at a time.
func (s *State) asOf(table int, key []byte, at int64) (row []byte, failure, fatal error) {
	spec := &s.specs[table]
	s.key = statekey.AppendRow(s.key[:0], s.ids[table], key)
	data, err := s.get(s.key)
	from, l := s.sweepers[table].swept, list(nil)
	if err == nil && data != nil {
		if l, err = newestIn(data); err == nil {
			from = fromIn(data)
		}
	}
	if err != nil {
		return nil, nil, err
	}
	if at < from {
		return nil, fmt.Errorf("the version of row %.60q of table %s that was valid at %s is no longer kept: the event waited for longer than history, which is %v, or the row has more versions than %d blocks hold",
			key, spec.Topic, time.UnixMicro(at).UTC().Format(time.RFC3339Nano), spec.Versions.History, blocksMax), nil
	}
	if data != nil && at < l.first() {
		if l, err = s.older(s.ids[table], key, data, at); err != nil {
			return nil, nil, err
		}
	}
	v, ok, err := l.find(at)
	switch {
	case err != nil || !ok || v.kind == isDeleted:
		return nil, nil, err
	case v.kind == isUntimed:
		return nil, fmt.Errorf("row %.60q of table %s: its field %s does not have the time format of the lookup, so the start of its validity is unknown", key, spec.Topic, spec.Versions.Field), nil
	}
	return v.row, nil, nil
}

// older returns the versions of the block that covers a time. The list is empty if the time is
// before all blocks.
func (s *State) older(id string, key, data []byte, at int64) (list, error) {
	e, err := parseEntry(data)
	if err != nil {
		return nil, err
	}
	i := e.place(at)
	if i < 0 {
		return nil, nil
	}
	stored, err := s.get(blockKey(id, key, e.blocks[i].number))
	if err == nil && stored == nil {
		err = packed.ErrDamaged
	}
	return stored, err
}

// add adds a version of a key's row, and returns how many bytes that adds to a transaction.
func (s *State) add(table int, key []byte, v version) (bytes int, err error) {
	e, err := s.entry(table, key)
	if err != nil {
		return 0, err
	}
	before, err := e.due()
	if err != nil {
		return 0, err
	}
	if oldest := e.oldest(); v.at < oldest && oldest <= e.from {
		return 0, nil // the oldest version answers all lookups before it
	}
	h := history{State: s, table: table, id: s.ids[table], key: key, entry: &e}
	if at := e.place(v.at); len(e.blocks) > 0 && v.at < e.newest.first() {
		err = h.into(max(at, 0), v)
	} else {
		e.newest, err = e.newest.insert(v)
	}
	if err == nil {
		err = h.finish(s.specs[table].Versions.floor(s.watermark), before)
	}
	return h.bytes, err
}

// entry returns the entry of a key.
func (s *State) entry(table int, key []byte) (e entry, err error) {
	data, err := s.get(statekey.AppendRow(nil, s.ids[table], key))
	if err == nil {
		e, err = parseEntry(data)
	}
	if data == nil {
		e.from = s.sweepers[table].swept
	}
	return e, err
}

// history holds the versions of a key while they change.
type history struct {
	*State
	table int
	id    string // id of the table
	key   []byte
	*entry
	bytes int // bytes that changed
}

// block returns the state key of a block.
func (h *history) block(number uint32) []byte { return blockKey(h.id, h.key, number) }

func blockKey(id string, key []byte, number uint32) []byte {
	name := binary.AppendUvarint(statekey.AppendRow(nil, id+inBlocks, nil), uint64(len(key)))
	return binary.BigEndian.AppendUint32(append(name, key...), number)
}

// into adds a version to a block, and splits the block if it is too large.
func (h *history) into(i int, v version) error {
	b := &h.blocks[i]
	data, err := h.get(h.block(b.number))
	if err == nil && data == nil {
		err = packed.ErrDamaged
	}
	if err != nil {
		return err
	}
	l, err := list(data).insert(v)
	if err != nil {
		return err
	}
	b.first = l.first()
	if len(l) > 2*blockBytes {
		left, right, err := l.halves()
		if err != nil {
			return err
		}
		if len(right) > 0 {
			h.blocks = slices.Insert(h.blocks, i+1, h.store(right))
		}
		l = left
	}
	h.bytes += h.put(string(h.block(h.blocks[i].number)), slices.Clone(l))
	return nil
}

// store stores a list as a new block.
func (h *history) store(l list) block {
	b := block{l.first(), h.number}
	h.number++
	h.bytes += h.put(string(h.block(b.number)), slices.Clone(l))
	return b
}

// prune removes the versions before the one that is valid at a time. Later events of the partition
// do not need them.
func (h *history) prune(floor int64) error {
	for n := 0; len(h.blocks) > 0 && h.second(0) <= floor && n < sweepBlocks; n++ {
		h.drop()
	}
	if len(h.blocks) > 0 || floor == never {
		return nil
	}
	kept, err := h.newest.since(floor)
	if len(kept) < len(h.newest) {
		h.newest, h.from = kept, kept.first()
	}
	return err
}

func (h *history) drop() {
	h.bytes += h.put(string(h.block(h.blocks[0].number)), nil)
	h.from, h.blocks = h.second(0), h.blocks[1:]
}

// cut moves all newest versions but one into a block if they are too large.
func (h *history) cut() error {
	if len(h.newest) <= blockBytes {
		return nil
	}
	older := len(h.newest)
	for at := h.newest; len(at) > 0; {
		_, rest, whole := at.next()
		if !whole {
			return packed.ErrDamaged
		}
		if len(rest) > 0 {
			older = len(rest)
		}
		at = rest
	}
	if older == len(h.newest) {
		return nil // a single large version
	}
	h.blocks = append(h.blocks, h.store(h.newest[:len(h.newest)-older]))
	h.newest = h.newest[len(h.newest)-older:]
	return nil
}

// bound removes the oldest blocks if there are too many.
func (h *history) bound() {
	for len(h.blocks) > blocksMax {
		h.drop()
		h.metrics.TableVersionsLost.Add(1)
	}
}

// times reads the times of rows.
type times []rowTime

type rowTime struct {
	scanner *decode.Scanner
	row     value.Row
	time    operator.EventTime
}

// newTimes returns a reader of the times of a table's rows, or nil if the table uses append times.
// It reads a number as an int if it is one, because that is exact.
func newTimes(v Versions) (all times) {
	if v.Field == "" {
		return nil
	}
	kinds := []value.Kind{v.Kind}
	if v.Kind == value.Int {
		kinds = append(kinds, value.Number)
	}
	for _, kind := range kinds {
		schema := &value.Schema{}
		slot, err := schema.Add(v.Field, value.Type{Kind: kind})
		if err != nil {
			panic(err) // it is the only name
		}
		all = append(all, rowTime{
			decode.New([]decode.Field{{Name: v.Field, Slot: slot}}), schema.NewRows(1)[0],
			operator.EventTime{FromField: true, Slot: slot, Unit: v.Unit, Layout: v.Layout, MaxAhead: math.MaxInt64},
		})
	}
	return all
}

// of returns the earliest time that a row is valid at. ok is false if its field has no valid time.
func (t times) of(row []byte, appended time.Time) (at int64, ok bool) {
	for i := range t {
		r := &t[i]
		r.row.Reset()
		if r.scanner.Scan(row, &r.row) != nil {
			continue
		}
		if at, err := r.time.Of(&r.row, appended, nil); err == nil {
			return at, true
		}
	}
	return appended.UnixMicro(), t == nil
}

// version returns the version that a record makes.
func (s *State) version(table int, r *stream.Record) version {
	if len(r.Value) == 0 {
		return version{at: r.Time.UnixMicro(), kind: isDeleted}
	}
	at, ok := s.times[table].of(r.Value, r.Time)
	if !ok {
		return version{at, isUntimed, r.Value}
	}
	if r.Time.UnixMicro()-at > s.specs[table].Versions.Wait.Microseconds() {
		s.metrics.TableLateRows.Add(1)
	}
	return version{at, isRow, r.Value}
}
