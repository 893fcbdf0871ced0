package order

import (
	"encoding/binary"
	"errors"

	"github.com/afterbay/afterbay/internal/state/packed"
	"github.com/afterbay/afterbay/stream"
)

// A note records facts that decided the rows of events and are not in the sources. A pipeline
// writes it to its own topic, in the transaction of the first event that it concerns. A replay of
// the sources that follows the notes computes the same rows.

// TableRead is a note that says how far tables were read for a partition. The events after Behind
// see the table rows up to there.
type TableRead struct {
	Home   int32 // index of the partition
	Behind Place // place of the last event before the change; in a topic read by its own key, only its offset
	Time   int64 // time that the partition had reached: earlier timers saw the rows before the change
	Whole  bool  // Tables has all partitions of the tables; otherwise only those that moved
	Tables []TableOffset
}

// TableOffset is the next offset to read of a table's partition.
type TableOffset struct {
	stream.Partition
	Next stream.Offset
}

// Kinds of notes. noteOld had a key in place of Behind. If several events were moved back to one
// key, it did not say which one was meant.
const (
	noteOld  = 1
	noteRead = 2
)

// Append appends the value of the note's record: about 10 bytes, plus 5 bytes and a name per
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

// Notes holds the facts that decided the rows of a pipeline and are not in its sources.
type Notes struct {
	Reads  map[int32][]TableRead             // from notes: by Home, in order
	Forced map[string]map[int32][]ForcedTurn // from copies: by name of the pipeline or stage, and by partition
}

var (
	errNote    = errors.New("it cannot be read: only the pipeline writes this topic")
	errOldNote = errors.New("an earlier build wrote it, which did not note the places of events")
)

// Add decodes the value of a record and adds its note.
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

// Whole reports whether the notes about tables begin with the events. If not, it returns a
// partition with missing notes. first has the first offsets of the partitions that are read by
// their own key and have events. It is nil if events are read in the order of several partitions.
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
