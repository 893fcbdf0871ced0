// Package statekey builds and parses the keys of a pipeline's state in a partition. A key is a kind
// byte and a name.
package statekey

import (
	"encoding/binary"
	"errors"
)

// Kinds of state keys: the first byte of each key. A user key has an entry and blocks in each of a
// plan's two sets of features, early and late.
const (
	Generation = 'g' // -> generation number, fingerprint
	Watermark  = 'w' // -> newest event time
	Source     = 's' // number of a source partition -> its frontier; in the state of a source partition: a writer -> its newest time
	Released   = 'O' // -> progress of the release in an ordered partition
	Run        = 'x' // run number in an ordered partition -> places of its pages in the order
	Page       = 'X' // run, page, piece -> its events
	Early      = 'a' // event, field of a stage -> an answer to an event in a page
	Unplaced   = 'u' // event, piece -> an event without a place in an ordered partition that waits for answers
	ID         = 'd' // number -> remembered ids
	Call       = 'c' // user key, function -> its state and timers
	Journal    = 'j' // request, number -> its answer
	// JournalHead is one entry with the counters of the journal.
	JournalHead = 'J'
	Queued      = 'p' // offset -> a queued event
	Row         = 'r' // table, key -> the newest record of the key
	Read        = 'R' // table, partition -> its next offset
	Group       = 'G' // group, user key, grouping values -> when the first of its groups ends by time
	Ended       = 'H' // the same and the offset of an event -> a group that ended
	Member      = 'M' // start offset of its series, its own offset -> an event of a group
	Join        = 'Q' // join, user key, common values of its pairs, side, offset -> an event that waits for its pair
	Pane        = 'V' // group, user key, grouping values, start -> aggregates of the events of a pane
	Object      = 'o' // of a file sink -> its newest object
)

const (
	headers = "el" // user key -> header of the early, late cell
	blocks  = "EL" // user key, block -> entries of an exact window
)

// Header returns the key prefix of the cell headers of a set.
func Header(set int) []byte { return []byte{headers[set]} }

// AppendCell appends the key of a cell's header if sub is empty, or else of one of its blocks.
func AppendCell(dst []byte, set int, key string, sub []byte) []byte {
	if len(sub) == 0 {
		return append(append(dst, headers[set]), key...)
	}
	return append(appendSized(dst, blocks[set], key), sub...)
}

// AppendCall appends the key of a function's state for a user key.
func AppendCall(dst []byte, key, function string) []byte {
	return append(appendSized(dst, Call, key), function...)
}

// AppendRow appends the key of a table's row.
func AppendRow(dst []byte, table string, key []byte) []byte {
	return append(appendSized(dst, Row, table), key...)
}

// AppendRead appends the key prefix for the read offsets of a table's partitions. The partition
// number follows, in 4 bytes.
func AppendRead(dst []byte, table string) []byte { return appendSized(dst, Read, table) }

// RowOf returns the table and the key in a key from AppendRow. ok is false for other keys.
func RowOf(stored []byte) (table string, key []byte, ok bool) {
	of, ok := CallKey(stored)
	if !ok {
		return "", nil, false
	}
	_, n := binary.Uvarint(stored[1:])
	return string(of), stored[1+n+len(of):], true
}

// ReadOf returns the table and the partition in a key that starts with AppendRead. ok is false for
// other keys.
func ReadOf(stored []byte) (table string, partition int32, ok bool) {
	table, number, ok := RowOf(stored)
	if !ok || len(number) != 4 {
		return "", 0, false
	}
	return table, int32(binary.BigEndian.Uint32(number)), true
}

// CallKey returns the user key in a key from AppendCall. ok is false for other keys.
func CallKey(stored []byte) (key []byte, ok bool) {
	size, n := binary.Uvarint(stored[1:])
	if n <= 0 || size > uint64(len(stored)-1-n) {
		return nil, false
	}
	return stored[1+n:][:size], true
}

func appendSized(dst []byte, kind byte, key string) []byte {
	return append(binary.AppendUvarint(append(dst, kind), uint64(len(key))), key...)
}

// Prefixes returns the prefixes of a user key's cells, in key order. Owns tells which of the keys
// with a prefix really belong to the user key.
func Prefixes(key string) [][]byte {
	var list [][]byte
	for _, kind := range []byte(blocks) {
		list = append(list, appendSized(nil, kind, key))
	}
	for _, kind := range []byte(headers) {
		list = append(list, append([]byte{kind}, key...))
	}
	return list
}

// Owns reports whether a state key with one of Prefixes(key) belongs to that user key, and not to a
// longer one.
func Owns(stored []byte, key string) bool {
	header := stored[0] == headers[0] || stored[0] == headers[1]
	return !header || string(stored[1:]) == key
}

// AppendGroup appends the key of a group.
func AppendGroup(dst []byte, group string, key []byte, by string) []byte {
	dst = appendSized(dst, Group, group)
	dst = append(binary.AppendUvarint(dst, uint64(len(key))), key...)
	return append(dst, by...)
}

// GroupOf returns the parts of a key from AppendGroup. ok is false for other keys.
func GroupOf(stored []byte) (group string, key []byte, by string, ok bool) {
	rest := stored[1:]
	var parts [2][]byte
	for i := range parts {
		size, n := binary.Uvarint(rest)
		if n <= 0 || size > uint64(len(rest)-n) {
			return "", nil, "", false
		}
		parts[i], rest = rest[n:][:size:size], rest[n+int(size):]
	}
	return string(parts[0]), parts[1], string(rest), true
}

// AppendEnded appends the key of a group that ended. group is a key from AppendGroup, and offset
// that of one of its events.
func AppendEnded(dst []byte, group string, offset int64) []byte {
	return binary.BigEndian.AppendUint64(append(append(dst, Ended), group[1:]...), uint64(offset))
}

// EndedOf returns the AppendGroup key in a key from AppendEnded. ok is false for other keys.
func EndedOf(stored []byte) (group string, ok bool) {
	if len(stored) < 9 {
		return "", false
	}
	return string(append([]byte{Group}, stored[1:len(stored)-8]...)), true
}

// AppendPane appends the key of a window pane. group is a key from AppendGroup, and start the time
// at which the pane begins.
func AppendPane(dst []byte, group string, start int64) []byte {
	return binary.BigEndian.AppendUint64(append(append(dst, Pane), group[1:]...), uint64(start))
}

// PaneOf returns the AppendGroup key in a key from AppendPane, and the start of the pane. ok is
// false for other keys.
func PaneOf(stored []byte) (group string, start int64, ok bool) {
	group, ok = EndedOf(stored)
	if ok {
		start = int64(binary.BigEndian.Uint64(stored[len(stored)-8:]))
	}
	return group, start, ok
}

// AppendMembers appends the key prefix of the events of groups with an anchor, the start offset of
// their series. The offset of an event follows, in 8 bytes.
func AppendMembers(dst []byte, anchor int64) []byte {
	return binary.BigEndian.AppendUint64(append(dst, Member), uint64(anchor))
}

// AppendMember appends the key of an event of a group.
func AppendMember(dst []byte, anchor, offset int64) []byte {
	return binary.BigEndian.AppendUint64(AppendMembers(dst, anchor), uint64(offset))
}

// AppendJoin appends the key prefix of the events that a join stores for a user key and the common
// values of a pair.
func AppendJoin(dst []byte, join string, key []byte, on string) []byte {
	dst = appendSized(dst, Join, join)
	dst = append(binary.AppendUvarint(dst, uint64(len(key))), key...)
	return append(binary.AppendUvarint(dst, uint64(len(on))), on...)
}

// AppendJoinRow appends the key of an event of a join. of is a prefix from AppendJoin. The side and
// the offset of the event follow.
func AppendJoinRow(dst []byte, of string, right bool, offset int64) []byte {
	side := byte(0)
	if right {
		side = 1
	}
	return binary.BigEndian.AppendUint64(append(append(dst, of...), side), uint64(offset))
}

// JoinOf returns the parts of a key from AppendJoinRow. ok is false for other keys.
func JoinOf(stored []byte) (join, of string, key []byte, right bool, offset int64, ok bool) {
	n := len(stored) - 9
	if n < 1 {
		return "", "", nil, false, 0, false
	}
	join, key, on, ok := GroupOf(stored[:n])
	size, m := binary.Uvarint([]byte(on))
	ok = ok && m > 0 && size == uint64(len(on)-m) && stored[n] <= 1
	return join, string(stored[:n]), key, stored[n] == 1, int64(binary.BigEndian.Uint64(stored[n+1:])), ok
}

// AppendQueued appends the key of a queued event, by its offset.
func AppendQueued(dst []byte, offset int64) []byte {
	return binary.BigEndian.AppendUint64(append(dst, Queued), uint64(offset))
}

// QueuedOffset returns the offset in a key from AppendQueued. ok is false for other keys.
func QueuedOffset(stored []byte) (offset int64, ok bool) {
	if len(stored) != 9 || stored[0] != Queued {
		return 0, false
	}
	return int64(binary.BigEndian.Uint64(stored[1:])), true
}

// ReleasedNext returns the number of the next event of an ordered partition. It is at the beginning
// of the value of Released.
func ReleasedNext(value []byte) (uint64, error) {
	next, n := binary.Uvarint(value)
	if n <= 0 {
		return 0, errors.New("the released offset cannot be read: the state is damaged")
	}
	return next, nil
}
