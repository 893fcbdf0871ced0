package journal

import (
	"encoding/binary"
	"fmt"

	"github.com/afterbay/afterbay/internal/state/packed"
	"github.com/afterbay/afterbay/internal/state/statekey"
)

// Second byte of the state keys of kind statekey.Journal.
const (
	byKey    = 'a' // key -> units, answer
	byNumber = 'o' // number -> key, time, size
)

func answerKey(b []byte, key Key) []byte {
	return append(append(b, statekey.Journal, byKey), key[:]...)
}

func orderKey(b []byte, number uint64) []byte {
	return binary.BigEndian.AppendUint64(append(b, statekey.Journal, byNumber), number)
}

// IsAnswer reports whether a state key is the key of an answer.
func IsAnswer(stored []byte) bool {
	return len(stored) == 2+len(Key{}) && stored[0] == statekey.Journal && stored[1] == byKey
}

// read returns the durable answer to a request and its cost. The answer is nil if the state has
// none.
func (j *Journal) read(key Key) (units uint64, answer []byte, err error) {
	j.keyBuf = answerKey(j.keyBuf[:0], key)
	stored, err := j.view.Get(j.keyBuf)
	if err != nil {
		return 0, nil, fmt.Errorf("journal beside %v: %w", j.partition, err)
	}
	if stored == nil {
		return 0, nil, nil
	}
	units, n := binary.Uvarint(stored)
	if n <= 0 {
		return 0, nil, fmt.Errorf("answer in the journal beside %v: %w", j.partition, packed.ErrDamaged)
	}
	return units, stored[n:], nil
}

func appendAnswer(b []byte, a *Answer) []byte {
	return append(binary.AppendUvarint(b, a.Units), a.Bytes...)
}

// place returns the place of a live answer by its number.
func (j *Journal) place(number uint64) (place, error) {
	if durable := j.head.next - uint64(len(j.tail)); number >= durable {
		return j.tail[number-durable], nil
	}
	j.keyBuf = orderKey(j.keyBuf[:0], number)
	stored, err := j.view.Get(j.keyBuf)
	if err != nil {
		return place{}, fmt.Errorf("journal beside %v: %w", j.partition, err)
	}
	p, ok := readPlace(stored)
	if !ok {
		return place{}, fmt.Errorf("answer %d of the journal beside %v: %w", number, j.partition, packed.ErrDamaged)
	}
	return p, nil
}

func (p *place) append(b []byte) []byte {
	b = binary.BigEndian.AppendUint64(append(b, p.key[:]...), uint64(p.time))
	return binary.AppendUvarint(b, p.size)
}

// readPlace decodes the result of append.
func readPlace(stored []byte) (p place, ok bool) {
	if len(stored) <= len(p.key)+8 {
		return p, false
	}
	p.key, stored = Key(stored[:len(p.key)]), stored[len(p.key):]
	p.time = int64(binary.BigEndian.Uint64(stored))
	r := packed.Reader{Rest: stored[8:]}
	p.size = r.Number()
	return p, r.Whole()
}
