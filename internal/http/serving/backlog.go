package serving

import (
	"errors"
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"time"
)

const (
	memoryBytes = 128 << 10               // answers of one stream that wait in memory; as many again are being written
	pieceBytes  = 32 << 10                // size of one write
	spillAfter  = 50 * time.Millisecond   // time without the client reading a byte
	giveUpAfter = 2000 * time.Millisecond // the same, if the file is full
)

// errNotRead means that a client keeps sending but reads nothing.
var errNotRead = errors.New("the response is not read: its backlog is full")

// backlog holds the answers of a stream that its client has not read yet: first in memory, then in
// a file, both of limited size. So a client that reads only after it has sent everything does not
// deadlock. For a client that reads slowly, the stream waits instead. Once the file has data, all
// new answers go to the file until it is empty, which keeps the order.
type backlog struct {
	mu       sync.Mutex
	readable sync.Cond
	memory   []byte // older than the data in file
	file     spill
	written  int64 // bytes written to the connection
	ended    bool
	err      error // error of the connection
	progress chan struct{}
}

func newBacklog(pool *spillPool) *backlog {
	b := &backlog{file: spill{pool: pool}, progress: make(chan struct{}, 1)}
	b.readable.L = &b.mu
	return b
}

// put adds answers. It returns errNotRead if there is no room and the client reads nothing, or the
// error that ended the connection.
func (b *backlog) put(p []byte) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	for {
		if b.err != nil {
			return b.err
		}
		spilling := b.file.pending() > 0
		if !spilling && (len(b.memory) == 0 || len(b.memory)+len(p) <= memoryBytes) {
			b.memory = append(b.memory, p...)
			b.readable.Signal()
			return nil
		}
		if spilling && b.file.put(p) {
			return nil
		}
		patience := spillAfter
		if spilling {
			patience = giveUpAfter
		}
		if b.wait(patience) {
			continue
		}
		switch {
		case b.err != nil:
			return b.err
		case spilling:
			return errNotRead
		case b.file.put(p):
			b.readable.Signal()
			return nil
		case !b.wait(giveUpAfter): // the spill pool has no room
			return errNotRead
		}
	}
}

// wait reports whether the connection accepts more bytes within patience. The caller holds the
// mutex; wait releases it meanwhile.
func (b *backlog) wait(patience time.Duration) bool {
	before := b.written
	timer := time.NewTimer(patience)
	defer timer.Stop()
	for b.written == before && b.err == nil {
		b.mu.Unlock()
		late := false
		select {
		case <-b.progress:
		case <-timer.C:
			late = true
		}
		b.mu.Lock()
		if late {
			break
		}
	}
	return b.written != before
}

// last adds the final answers, even if the backlog is full, and ends it.
func (b *backlog) last(p []byte) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.file.pending() > 0 {
		if !b.file.force(p) {
			b.err = errNotRead
		}
	} else {
		b.memory = append(b.memory, p...)
	}
	b.ended = true
	b.readable.Signal()
}

// take returns the oldest answers and reuses spare for others. If block is true, it waits for
// answers. It returns none at the end.
func (b *backlog) take(spare []byte, block bool) ([]byte, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for {
		switch {
		case b.err != nil:
			return nil, b.err
		case len(b.memory) > 0:
			p := b.memory
			b.memory = spare[:0]
			return p, nil
		case b.file.pending() > 0:
			return b.file.take(spare)
		case b.ended || !block:
			return nil, nil
		}
		b.readable.Wait()
	}
}

// advance counts the bytes written to the connection, and stores the error that ended it.
func (b *backlog) advance(n int, err error) {
	b.mu.Lock()
	b.written += int64(n)
	if err != nil && b.err == nil {
		b.err = err
	}
	b.readable.Signal()
	b.mu.Unlock()
	select {
	case b.progress <- struct{}{}:
	default:
	}
}

// taken returns the number of bytes written to the connection so far.
func (b *backlog) taken() int64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.written
}

// close releases the file.
func (b *backlog) close() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.file.close()
}

// spillPool limits the files of all streams.
type spillPool struct {
	dir  string
	each int64
	all  int64
	used atomic.Int64
}

func (p *spillPool) reserve(n int64) bool {
	if p.used.Add(n) > p.all {
		p.used.Add(-n)
		return false
	}
	return true
}

// spill is an unlinked file used as a first-in, first-out buffer. When all bytes are read, it
// starts again at its beginning.
type spill struct {
	pool     *spillPool
	file     *os.File
	from, to int64
	reserved int64
	broken   bool
}

func (s *spill) pending() int64 { return s.to - s.from }

// put appends bytes and reports whether there was room.
func (s *spill) put(p []byte) bool {
	return s.to+int64(len(p)) <= s.pool.each && s.force(p)
}

// force is like put, but ignores the limit of one stream.
func (s *spill) force(p []byte) bool {
	if s.broken || !s.open() {
		return false
	}
	if more := s.to + int64(len(p)) - s.reserved; more > 0 {
		if !s.pool.reserve(more) {
			return false
		}
		s.reserved += more
	}
	if _, err := s.file.WriteAt(p, s.to); err != nil {
		s.broken = true // the disk is full; the existing data is still readable
		return false
	}
	s.to += int64(len(p))
	return true
}

// open creates the file and unlinks it, so that it disappears with the process.
func (s *spill) open() bool {
	if s.file != nil {
		return true
	}
	file, err := os.CreateTemp(s.pool.dir, "afterbay-answers-*")
	if err != nil {
		s.broken = true
		return false
	}
	if err := os.Remove(file.Name()); err != nil {
		s.broken = true
		_ = file.Close()
		return false
	}
	s.file = file
	return true
}

func (s *spill) take(spare []byte) ([]byte, error) {
	n := min(s.pending(), pieceBytes)
	if int64(cap(spare)) < n {
		spare = make([]byte, n)
	}
	spare = spare[:n]
	if _, err := s.file.ReadAt(spare, s.from); err != nil {
		return nil, fmt.Errorf("read answers back: %w", err)
	}
	if s.from += n; s.from == s.to {
		s.from, s.to = 0, 0
	}
	return spare, nil
}

func (s *spill) close() {
	if s.file != nil {
		_ = s.file.Close() // the file is unlinked, so closing deletes it
	}
	s.pool.used.Add(-s.reserved)
	s.reserved, s.file, s.broken = 0, nil, true
}
