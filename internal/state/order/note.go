package order

import (
	"encoding/binary"
	"errors"

	"github.com/afterbay/afterbay/internal/state/packed"
	"github.com/afterbay/afterbay/stream"
)

// A note says what decided the rows of events, and is not in their sources. A pipeline writes
// it to a topic of its own, in the transaction of the first event that it is about. A replay of
// the sources that follows the notes computes the same rows.

// TableRead is a note: up to where tables were read beside a partition. The events behind it
// find these rows.
type TableRead struct {
	Home   int32 // index of the partition
	Behind Place // the event before; in a topic that is read by its own key, its offset alone
	Time   int64 // that the partition had reached: what was due by then found the rows before
	Whole  bool  // Tables has all partitions of the tables; else those that moved
	Tables []TableOffset
}

// TableOffset is up to where a partition of a table was read.
type TableOffset struct {
	stream.Partition
	Next stream.Offset
}

// The kinds of notes. The first one had a key in place of Behind: of several events that were moved
// back to one key it did not say which one.
const (
	noteOld  = 1
	noteRead = 2
)

// Append appends the value of the record of the note: about 10 bytes, and 5 and a name for each
// partition that moved.
func (n *TableRead) Append(to []byte) []byte {
	to = binary.AppendUvarint(append(to, noteRead), uint64(n.Home))
	to = binary.AppendVarint(n.Behind.append(to), n.Time)
	whole := uint64(0)
	if n.Whole {
		whole = 1
	}
	to = binary.AppendUvarint(to, whole)
	before := ""
	for _, t := range n.Tables {
		name := t.Topic
		if name == before {
			name = ""
		}
		before = t.Topic
		to = packed.AppendText(to, name)
		to = binary.AppendUvarint(binary.AppendUvarint(to, uint64(t.Index)), uint64(t.Next))
	}
	return to
}

// Notes is what decided the rows of a pipeline, and is not in its sources.
type Notes struct {
	Reads  map[int32][]TableRead             // what its notes say, by Home, in their order
	Forced map[string]map[int32][]ForcedTurn // what its copies say, by the name of the pipeline or stage, and by partition
}

var (
	errNote    = errors.New("it cannot be read: only the pipeline writes this topic")
	errOldNote = errors.New("an earlier build wrote it, which did not note the places of events")
)

// Add adds the value of a record.
func (n *Notes) Add(value []byte) error {
	r := read(value)
	switch r.Number() {
	case noteRead:
	case noteOld:
		return errOldNote
	default:
		return errNote
	}
	note := TableRead{Home: int32(r.Number()), Behind: r.place(), Time: r.Signed(), Whole: r.Number() == 1}
	for before := ""; len(r.Rest) > 0; {
		if name := string(r.Text()); name != "" {
			before = name
		}
		note.Tables = append(note.Tables, TableOffset{stream.Partition{Topic: before, Index: int32(r.Number())}, stream.Offset(r.Number())})
	}
	if r.end(true) != nil {
		return errNote
	}
	if n.Reads == nil {
		n.Reads = map[int32][]TableRead{}
	}
	n.Reads[note.Home] = append(n.Reads[note.Home], note)
	return nil
}

// Whole reports whether the notes about tables begin with the events; else it returns a partition
// of which they do not. first has the first offsets of partitions that are read by their own key
// and have events; nil is that events are read in the order of several partitions.
func (n *Notes) Whole(first map[int32]stream.Offset) (home int32, ok bool) {
	begins := map[int32]Place{}
	for home, offset := range first {
		begins[home] = PlaceAt(Key{Offset: int64(offset) - 1})
	}
	for home := range n.Reads {
		if first == nil {
			begins[home] = PlaceAt(First)
		}
	}
	for home, at := range begins {
		if reads := n.Reads[home]; len(reads) == 0 || !reads[0].Whole || at.Before(reads[0].Behind) {
			return home, false
		}
	}
	return 0, true
}
