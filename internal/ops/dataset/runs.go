package dataset

import (
	"bufio"
	"bytes"
	"container/heap"
	"encoding/binary"
	"errors"
	"io"
	"iter"
	"os"
	"slices"
)

// runBytes is the approximate size of a sorter in memory.
const runBytes = 64 << 20

// entry is a sort key with its value.
type entry struct{ key, value []byte }

// sorter sorts entries by their keys, which are unique. Entries that do not fit in memory are
// written to files of a folder as sorted runs, and merged later.
type sorter struct {
	folder string
	room   int // bytes; 0 is runBytes
	bytes  int
	list   []entry
	runs   []*os.File
}

// add copies an entry.
func (s *sorter) add(key, value []byte) error {
	both := append(append(make([]byte, 0, len(key)+len(value)), key...), value...)
	s.list = append(s.list, entry{both[:len(key):len(key)], both[len(key):]})
	room := s.room
	if room == 0 {
		room = runBytes
	}
	if s.bytes += len(both) + 64; s.bytes < room {
		return nil
	}
	return s.spill()
}

func (s *sorter) sort() {
	slices.SortFunc(s.list, func(a, b entry) int { return bytes.Compare(a.key, b.key) })
}

// spill writes the entries in memory to a file, as a run.
func (s *sorter) spill() error {
	s.sort()
	file, err := os.CreateTemp(s.folder, "run.*")
	if err != nil {
		return err
	}
	s.runs = append(s.runs, file)
	out := bufio.NewWriterSize(file, 1<<20)
	var sizes []byte
	for _, e := range s.list {
		sizes = binary.AppendUvarint(binary.AppendUvarint(sizes[:0], uint64(len(e.key))), uint64(len(e.value)))
		for _, part := range [][]byte{sizes, e.key, e.value} {
			if _, err := out.Write(part); err != nil {
				return err
			}
		}
	}
	clear(s.list)
	s.list, s.bytes = s.list[:0], 0
	if err := out.Flush(); err != nil {
		return err
	}
	_, err = file.Seek(0, io.SeekStart)
	return err
}

// all yields the entries in order. It can be used once. The caller owns the bytes of the entries.
func (s *sorter) all() iter.Seq2[entry, error] {
	return func(yield func(entry, error) bool) {
		s.sort()
		m := merge{{rest: s.list}}
		for _, file := range s.runs {
			m = append(m, &run{file: bufio.NewReaderSize(file, 256<<10)})
		}
		for i := 0; i < len(m); {
			switch more, err := m[i].advance(); {
			case err != nil:
				yield(entry{}, err)
				return
			case more:
				i++
			default:
				m = slices.Delete(m, i, i+1)
			}
		}
		heap.Init(&m)
		for len(m) > 0 {
			if !yield(m[0].head, nil) {
				return
			}
			switch more, err := m[0].advance(); {
			case err != nil:
				yield(entry{}, err)
				return
			case more:
				heap.Fix(&m, 0)
			default:
				heap.Pop(&m)
			}
		}
	}
}

// close removes the runs.
func (s *sorter) close() error {
	var errs []error
	for _, file := range s.runs {
		errs = append(errs, file.Close(), os.Remove(file.Name()))
	}
	s.runs, s.list = nil, nil
	return errors.Join(errs...)
}

// run is a sorted list of entries, in memory or in a file.
type run struct {
	head entry
	rest []entry
	file *bufio.Reader
}

func (r *run) advance() (more bool, err error) {
	if r.file == nil {
		if len(r.rest) == 0 {
			return false, nil
		}
		r.head, r.rest = r.rest[0], r.rest[1:]
		return true, nil
	}
	key, err := binary.ReadUvarint(r.file)
	if errors.Is(err, io.EOF) {
		return false, nil
	}
	value, err1 := binary.ReadUvarint(r.file)
	if err := errors.Join(err, err1); err != nil {
		return false, err
	}
	both := make([]byte, key+value)
	_, err = io.ReadFull(r.file, both)
	r.head = entry{both[:key:key], both[key:]}
	return true, err
}

// merge is a heap of runs.
type merge []*run

func (m merge) Len() int           { return len(m) }
func (m merge) Less(i, k int) bool { return bytes.Compare(m[i].head.key, m[k].head.key) < 0 }
func (m merge) Swap(i, k int)      { m[i], m[k] = m[k], m[i] }
func (m *merge) Push(x any)        { *m = append(*m, x.(*run)) }

// Pop implements heap.Interface.
func (m *merge) Pop() any {
	last := (*m)[len(*m)-1]
	*m = (*m)[:len(*m)-1]
	return last
}
