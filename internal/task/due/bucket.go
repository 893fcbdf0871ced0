package due

import (
	"cmp"
	"encoding/binary"
	"slices"
	"unsafe"
)

// buckets holds the entries that are far in the future, by spans of time.
type buckets struct {
	list  []*bucket // by number
	count int       // entries
	bytes int64
}

// bucket holds the entries of one span of time in the order of Push. An entry is encoded as its
// time after the begin of the span, the length of its key, and the key.
type bucket struct {
	number int64 // begin of the span in widths
	count  int
	size   int // bytes of the chunks
	chunks [][]byte
}

const (
	bucketBytes = 64 + 8 // size of a bucket itself
	chunkLeast  = 64
	chunkMost   = 64 << 10
)

// add adds an entry to the bucket of a number.
func (s *buckets) add(number, width int64, e Entry) {
	n := len(s.list)
	if n == 0 || s.list[n-1].number < number { // the entry is often for the last bucket
		s.list = append(s.list, &bucket{number: number})
		s.bytes += bucketBytes
	} else if n--; s.list[n].number != number {
		var found bool
		n, found = slices.BinarySearchFunc(s.list, number, func(b *bucket, number int64) int {
			return cmp.Compare(b.number, number)
		})
		if !found {
			s.list = slices.Insert(s.list, n, &bucket{number: number})
			s.bytes += bucketBytes
		}
	}
	s.bytes += s.list[n].add(uint64(e.At-number*width), e.Key)
	s.count++
}

// add appends an entry and returns by how many bytes memory grew.
func (b *bucket) add(after uint64, key string) (grown int64) {
	last := len(b.chunks) - 1
	if most := len(key) + 2*binary.MaxVarintLen64; last < 0 || cap(b.chunks[last])-len(b.chunks[last]) < most {
		size := max(most, min(max(b.size, chunkLeast), chunkMost))
		b.chunks = append(b.chunks, make([]byte, 0, size))
		b.size += size
		grown = int64(size) + 24
		last++
	}
	data := binary.AppendUvarint(b.chunks[last], after)
	data = binary.AppendUvarint(data, uint64(len(key)))
	b.chunks[last] = append(data, key...)
	b.count++
	return grown
}

// takeFirst removes the first bucket and passes its entries to take. Their keys share memory with
// the bucket.
func (s *buckets) takeFirst(width int64, take func(Entry)) {
	b := s.list[0]
	s.list[0] = nil
	s.list = s.list[1:]
	s.forget(b)
	for _, data := range b.chunks {
		for len(data) > 0 {
			after, n := binary.Uvarint(data)
			size, m := binary.Uvarint(data[n:])
			key := data[n+m:][:size]
			take(Entry{At: b.number*width + int64(after), Key: unsafe.String(unsafe.SliceData(key), len(key))})
			data = data[n+m+int(size):]
		}
	}
}

func (s *buckets) dropLast() {
	n := len(s.list) - 1
	s.forget(s.list[n])
	s.list[n] = nil
	s.list = s.list[:n]
}

// forget subtracts a bucket from the sums.
func (s *buckets) forget(b *bucket) {
	s.count -= b.count
	s.bytes -= bucketBytes + int64(b.size) + 24*int64(len(b.chunks))
}
