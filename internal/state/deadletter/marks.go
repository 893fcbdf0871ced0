package deadletter

import (
	"encoding/binary"
	"fmt"
	"slices"

	"github.com/afterbay/afterbay/stream"
)

// marks records which dead letters of a partition are settled: all before next, and those with a
// set bit. There is a bit per offset, in blocks that are state entries.
type marks struct {
	next    stream.Offset
	blocks  map[int64][]byte
	changed map[int64]bool
}

const (
	nextKind     = 'n' // key kind of next; brokers forget committed offsets of an idle group
	markKind     = 's' // key kind of blocks: 8 bytes of the block number -> bits
	blockLetters = 4096
)

// readMarks reads the committed marks of the group.
func readMarks(state stream.View) (*marks, error) {
	m := &marks{blocks: map[int64][]byte{}, changed: map[int64]bool{}}
	next, err := state.Get([]byte{nextKind})
	if err != nil {
		return nil, err
	}
	if len(next) == 8 {
		m.next = stream.Offset(binary.BigEndian.Uint64(next))
	}
	for e, err := range state.Scan([]byte{markKind}) {
		if err != nil {
			return nil, err
		}
		if len(e.Key) != 9 || len(e.Value) != blockLetters/8 {
			return nil, fmt.Errorf("the list of settled dead letters is damaged: entry %q", e.Key)
		}
		m.blocks[int64(binary.BigEndian.Uint64(e.Key[1:]))] = e.Value
	}
	return m, nil
}

func (m *marks) has(at stream.Offset) bool {
	if at < m.next {
		return true
	}
	block := m.blocks[int64(at)/blockLetters]
	bit := int64(at) % blockLetters
	return block != nil && block[bit/8]>>(bit%8)&1 != 0
}

func (m *marks) set(at stream.Offset) {
	number, bit := int64(at)/blockLetters, int64(at)%blockLetters
	if m.blocks[number] == nil {
		m.blocks[number] = make([]byte, blockLetters/8)
	}
	m.blocks[number][bit/8] |= 1 << (bit % 8)
	m.changed[number] = true
}

// changes moves next forward and returns the entries to write.
func (m *marks) changes(p stream.Partition, next stream.Offset) []stream.Change {
	var list []stream.Change
	if next > m.next {
		m.next = next
		list = append(list, stream.Change{Partition: p, Key: []byte{nextKind}, Value: binary.BigEndian.AppendUint64(nil, uint64(next))})
	}
	add := func(number int64, value []byte) {
		key := binary.BigEndian.AppendUint64([]byte{markKind}, uint64(number))
		list = append(list, stream.Change{Partition: p, Key: key, Value: slices.Clone(value)})
	}
	for number, block := range m.blocks {
		switch {
		case (number+1)*blockLetters <= int64(m.next):
			delete(m.blocks, number)
			add(number, nil)
		case m.changed[number]:
			add(number, block)
		}
	}
	clear(m.changed)
	slices.SortFunc(list, func(a, b stream.Change) int { return slices.Compare(a.Key, b.Key) })
	return list
}
