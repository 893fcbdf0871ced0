package table

import (
	"bytes"
	"encoding/binary"
	"strings"
	"time"

	"github.com/afterbay/afterbay/internal/state/packed"
	"github.com/afterbay/afterbay/internal/state/statekey"
	"github.com/afterbay/afterbay/stream"
)

// The suffixes of ids: of a table with versions, and of the blocks of versions.
const versioned, inBlocks = "/event", "/blocks"

// Stored identifies the row of an entry of kind Row in package statekey.
type Stored struct {
	Topic     string
	ID        string // id of the table in the state
	Key       string // key of the row
	Versioned bool   // the entry holds versions of the row, or a block of them
}

// StoredOf parses a state key. ok is false for keys of another form.
func StoredOf(stored []byte) (s Stored, ok bool) {
	id, key, ok := statekey.RowOf(stored)
	if !ok {
		return s, false
	}
	if of, isBlock := strings.CutSuffix(id, inBlocks); isBlock {
		size, n := binary.Uvarint(key)
		if n <= 0 || size > uint64(len(key)-n) {
			return s, false
		}
		id, key = of, key[n:][:size]
	}
	topic, kind, _ := strings.Cut(id, "/")
	if strings.HasSuffix(kind, inDue) || strings.HasSuffix(kind, inSwept) {
		return s, false // an entry without a row
	}
	return Stored{topic, id, string(key), strings.HasSuffix(id, versioned)}, true
}

// IsSwept reports whether an entry holds the earliest time that versions are known for if a key has
// no entry. History reads it.
func IsSwept(stored []byte) bool {
	id, _, ok := statekey.RowOf(stored)
	return ok && stored[0] == statekey.Row && strings.HasSuffix(id, versioned+inSwept)
}

// ReadOf parses an entry of kind Read. It returns a table partition, the next offset to read there,
// and whether the entry is for a table with versions. ok is false for other entries.
func ReadOf(stored, value []byte) (at stream.Partition, next stream.Offset, versions, ok bool) {
	id, partition, ok := statekey.ReadOf(stored)
	if !ok || len(value) != 8 {
		return at, 0, false, false
	}
	topic, _, _ := strings.Cut(id, "/")
	return stream.Partition{Topic: topic, Index: partition}, stream.Offset(binary.BigEndian.Uint64(value)), strings.HasSuffix(id, versioned), true
}

// History holds the stored versions of a row.
type History struct {
	from     int64 // versions before this time were removed
	versions list
}

// History returns the versions of a row from its entries. get returns the entry of a state key.
func (s *Stored) History(get func(stored []byte) []byte) (h History, err error) {
	data := get(statekey.AppendRow(nil, s.ID, []byte(s.Key)))
	e, err := parseEntry(data)
	if swept := get(sweptKey(s.ID)); data == nil && len(swept) == 8 {
		e.from = int64(binary.BigEndian.Uint64(swept))
	}
	if err != nil {
		return h, err
	}
	h.from = e.from
	for _, b := range e.blocks {
		l := list(get(blockKey(s.ID, []byte(s.Key), b.number)))
		if l.first() != b.first || len(l) == 0 {
			return h, packed.ErrDamaged
		}
		h.versions = append(h.versions, l...)
	}
	h.versions = append(h.versions, e.newest...)
	return h, nil
}

// Difference returns the first versions of two histories that differ, each with its time. It
// returns "" if there is no difference. It compares only times that both histories cover.
func (h History) Difference(o History) (mine, other string, err error) {
	from := max(h.from, o.from)
	a, err := h.versions.since(from)
	if err != nil {
		return "", "", err
	}
	b, err := o.versions.since(from)
	if err != nil {
		return "", "", err
	}
	a, b = a.without(from), b.without(from)
	for len(a)+len(b) > 0 {
		v, restA, okA := a.next()
		w, restB, okB := b.next()
		if len(a) > 0 && !okA || len(b) > 0 && !okB {
			return "", "", packed.ErrDamaged
		}
		if okA != okB || v.at != w.at || v.kind != w.kind || !bytes.Equal(v.row, w.row) {
			return v.text(okA), w.text(okB), nil
		}
		a, b = restA, restB
	}
	return "", "", nil
}

// without returns the list without a first version that says that there was no row at a time. Such
// a version means the same as no version.
func (l list) without(at int64) list {
	if v, rest, ok := l.next(); ok && v.kind == isDeleted && v.at <= at {
		return rest
	}
	return l
}

// text returns a version in readable form, or "" if it is not there.
func (v version) text(there bool) string {
	if !there {
		return ""
	}
	row := string(v.row)
	if v.kind == isDeleted {
		row = "no row"
	}
	return time.UnixMicro(v.at).UTC().Format(time.RFC3339Nano) + " " + row
}
