package embedded

import (
	"encoding/binary"
	"fmt"
	"maps"
	"slices"
	"sync"

	"github.com/afterbay/afterbay/stream"
)

// request is what one Append, Commit, CreateTopic or DeleteTopic adds to a frame. Its
// caller encodes all parts that do not depend on the place in the frame.
type request struct {
	kind     uint16   // of the sections of its records
	pieces   []*piece // its records by partition
	of       []*piece // of each record
	sections []byte   // that the writer copies as they are
	count    int      // of them
	bytes    int      // bound of what it adds to a frame
	decide   func(error)

	member   *member  // of a step; nil is an append
	shares   []*share // that the step touches
	admitted bool     // they are marked as being written
	ahead    bool     // it was made of records that were read early
	drop     string   // the topic to be deleted

	records  []stream.Record // of an append
	producer string          // of AppendOnce
	number   int64           // of records[0]
	repeated int             // records left out at the front
}

// piece is the records of a request for one partition.
type piece struct {
	part   *partition
	count  int
	size   int // bound of body's length
	body   []byte
	before []stream.Header // of the last record in it
	first  stream.Offset   // set by the writer
}

// bodies are buffers for what steps write, which the writer copies and gives
// back. Those of inputs it does not: who reads early keeps them.
type bodies struct{ pool sync.Pool }

// get returns an empty buffer with room for size bytes.
func (b *bodies) get(size int) []byte {
	if body, ok := b.pool.Get().(*[]byte); ok && cap(*body) >= size {
		return (*body)[:0]
	}
	return make([]byte, 0, size)
}

// put takes a buffer back.
func (b *bodies) put(body []byte) { b.pool.Put(&body) }

// addRecords encodes records into pieces.
func (r *request) addRecords(l *Log, records []stream.Record) error {
	r.pieces, r.of = nil, make([]*piece, 0, len(records))
	l.mu.Lock()
	err := r.place(l, records)
	l.mu.Unlock()
	if err != nil {
		return err
	}
	for _, p := range r.pieces {
		if r.kind == sectionResult {
			p.body = l.buffers.results.get(p.size)
		} else {
			p.body = make([]byte, 0, p.size)
		}
	}
	for i, p := range r.of {
		if rec := &records[i]; r.kind == sectionResult {
			p.body = appendResult(p.body, rec, p.before)
			p.before = rec.Headers
		} else {
			p.body = appendRecord(p.body, rec)
		}
	}
	for _, p := range r.pieces {
		r.bytes += sectionHeader + recordsHeadBytes(p.part.Partition) + len(p.body)
	}
	return nil
}

// place checks records and finds the piece of each.
func (r *request) place(l *Log, records []stream.Record) error {
	if err := l.usable(); err != nil {
		return err
	}
	var last *piece
	var t *topic
	name := ""
	for i := range records {
		rec := &records[i]
		if rec.Partition.Topic != name || t == nil {
			name = rec.Partition.Topic
			t = l.topic(name)
		}
		index := rec.Partition.Index
		if t == nil || index < stream.ByKey || index >= t.Partitions {
			return fmt.Errorf("%v: %w", rec.Partition, stream.ErrUnknownTopic)
		}
		if n := contentBytes(rec); n > l.opts.MaxRecordBytes {
			return fmt.Errorf("a record of %d bytes to %v, the limit is %d: %w", n, rec.Partition, l.opts.MaxRecordBytes, stream.ErrTooLarge)
		}
		if index == stream.ByKey {
			index = stream.PlaceRecord(rec, t.Partitions)
		}
		if part := t.parts[index]; last == nil || last.part != part {
			last = r.pieceOf(part)
		}
		last.count++
		last.size += recordBytes(rec)
		r.of = append(r.of, last)
	}
	return nil
}

func (r *request) pieceOf(part *partition) *piece {
	for _, p := range r.pieces {
		if p.part == part {
			return p
		}
	}
	p := &piece{part: part}
	r.pieces = append(r.pieces, p)
	return p
}

func contentBytes(r *stream.Record) int {
	n := len(r.Key) + len(r.Value)
	for _, h := range r.Headers {
		n += len(h.Key) + len(h.Value)
	}
	return n
}

// fits returns ErrTooLarge where r cannot be one frame.
func (r *request) fits(l *Log) error {
	if n := frameHeader + align(r.bytes); n > l.opts.MaxFrameBytes {
		return fmt.Errorf("%d bytes in one frame, the limit is %d: %w", n, l.opts.MaxFrameBytes, stream.ErrTooLarge)
	}
	return nil
}

// addSection encodes a section that the writer will only copy.
func (r *request) addSection(kind uint16, encode func([]byte) []byte) {
	start := len(r.sections)
	r.sections = encode(beginSection(r.sections, kind, flagCritical))
	endSection(r.sections, start)
	r.count++
}

// appendRequest makes the request of an append, from records that keep until it
// is decided, without the first repeated of them.
func (l *Log) appendRequest(producer string, number int64, repeated int, records []stream.Record) (*request, error) {
	r := &request{kind: sectionInput, records: records, producer: producer, number: number, repeated: repeated}
	if err := r.addRecords(l, records[repeated:]); err != nil {
		return nil, err
	}
	if producer != "" {
		r.addProducer(number + int64(len(records)) - 1)
		r.bytes += len(r.sections)
	}
	return r, r.fits(l)
}

// addProducer encodes the highest number of the producer of r.
func (r *request) addProducer(highest int64) {
	r.addSection(sectionProducer, func(b []byte) []byte {
		return binary.AppendUvarint(appendBytes(b, r.producer), uint64(highest))
	})
}

// settle decides r.
func (r *request) settle(l *Log, err error) {
	if r.member == nil {
		r.decide(err)
		return
	}
	// In this order: who waits for the outcome may commit again at once, and
	// a Poll that returns early finds the outcome.
	r.member.decided(r, err)
	r.decide(err)
	r.member.Wake()
}

// setOffsets tells the records of an append where they stand.
func (r *request) setOffsets() {
	for i := range r.records[:r.repeated] {
		r.records[i].Offset = -1
	}
	for i, p := range r.of {
		rec := &r.records[r.repeated+i]
		rec.Partition, rec.Offset = p.part.Partition, p.first
		p.first++
	}
}

// topicRequest makes the request of a topic.
func topicRequest(t stream.Topic) *request {
	r := &request{}
	r.addSection(sectionTopic, func(b []byte) []byte {
		return appendBytes(binary.AppendUvarint(appendBytes(b, t.Name), uint64(t.Partitions)), t.Key)
	})
	r.bytes = len(r.sections)
	return r
}

// stepRequest makes the request of a step of s.
func (l *Log) stepRequest(s *member, step *stream.Transaction) (*request, error) {
	r := &request{kind: sectionResult, member: s}
	l.mu.Lock()
	for p := range step.Offsets {
		sh := s.group.find(p)
		if sh == nil {
			l.mu.Unlock()
			return nil, fmt.Errorf("%v: %w", p, stream.ErrFenced)
		}
		r.shares = append(r.shares, sh)
	}
	l.mu.Unlock()
	slices.SortFunc(r.shares, func(a, b *share) int { return comparePartitions(a.part.Partition, b.part.Partition) })
	if err := r.addChanges(&l.buffers.steps, s.group.name, step); err != nil {
		return nil, err
	}
	if len(r.shares) > 0 {
		r.addSection(sectionOffsets, func(b []byte) []byte {
			b = appendBytes(b, s.group.name)
			for _, sh := range r.shares {
				p := sh.part.Partition
				b = binary.AppendUvarint(appendPartition(b, p), uint64(step.Offsets[p]))
			}
			return b
		})
	}
	r.bytes = len(r.sections)
	if err := r.addRecords(l, step.Outputs); err != nil {
		return nil, err
	}
	return r, r.fits(l)
}

// addChanges encodes the changes of a step, a section for each partition.
func (r *request) addChanges(buffers *bodies, group string, step *stream.Transaction) error {
	size := 0
	bodies := map[stream.Partition]int{} // bytes
	for i := range step.Changes {
		c := &step.Changes[i]
		if _, touched := step.Offsets[c.Partition]; !touched {
			return fmt.Errorf("a step changes state beside %v without its offset", c.Partition)
		}
		n := 2*binary.MaxVarintLen32 + len(c.Key) + len(c.Value)
		bodies[c.Partition] += n
		size += n
	}
	for p, next := range step.Offsets {
		if next < 0 {
			return fmt.Errorf("a step moves %v to offset %d", p, next)
		}
	}
	r.sections = buffers.get(size + 64*len(step.Offsets))
	for _, p := range slices.SortedFunc(maps.Keys(bodies), comparePartitions) {
		r.addSection(sectionState, func(b []byte) []byte {
			b = appendEditsHead(b, group, p)
			for i := range step.Changes {
				if c := &step.Changes[i]; c.Partition == p {
					b = appendNullable(appendBytes(b, c.Key), c.Value)
				}
			}
			return b
		})
	}
	return nil
}

// queue is what waits for the writer.
type queue struct {
	mu      sync.Mutex
	waiting []*request
	events  int
	bytes   int
	most    int                         // bytes that may wait
	enough  struct{ events, bytes int } // begin a frame before its time
	freed   chan struct{}               // closed when there is room; nil where nobody waits for it
	refused error                       // why nothing is accepted any more
	hurried bool                        // the steps are to be written at once
	signal  chan struct{}               // one token: there is something, or enough
}

// add queues r. Where there is no room for an append it returns what is closed
// when there may be; a step, of which each member has one, always has room.
func (q *queue) add(r *request) (freed <-chan struct{}, err error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.refused != nil {
		return nil, q.refused
	}
	if r.member == nil && len(q.waiting) > 0 && q.bytes+r.bytes > q.most {
		if q.freed == nil {
			q.freed = make(chan struct{})
		}
		return q.freed, nil
	}
	q.waiting = append(q.waiting, r)
	q.events += len(r.of) + 1
	q.bytes += r.bytes
	if len(q.waiting) == 1 || q.events >= q.enough.events || q.bytes >= q.enough.bytes {
		signal(q.signal) // else the writer, which has a timer, would only go on waiting
	}
	return nil, nil
}

// free tells those who wait for room.
func (q *queue) free() {
	if q.freed != nil {
		close(q.freed)
		q.freed = nil
	}
}

// remove takes r back, unless the writer has it.
func (q *queue) remove(r *request) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	i := slices.Index(q.waiting, r)
	if i < 0 {
		return false
	}
	q.waiting = slices.Delete(q.waiting, i, i+1)
	q.events -= len(r.of) + 1
	q.bytes -= r.bytes
	q.free()
	return true
}

// size returns how much waits, and whether steps are to be written at once.
func (q *queue) size() (requests, events, bytes int, hurried bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	return len(q.waiting), q.events, q.bytes, q.hurried
}

// take returns the requests at the front, at least one and as many as make
// enough bytes, but not more than most.
func (q *queue) take(enough, most int) []*request {
	q.mu.Lock()
	defer q.mu.Unlock()
	n, bytes := 0, 0
	for n < len(q.waiting) && (n == 0 || bytes < enough && bytes+q.waiting[n].bytes <= most) {
		bytes += q.waiting[n].bytes
		q.events -= len(q.waiting[n].of) + 1
		n++
	}
	q.bytes -= bytes
	taken := slices.Clone(q.waiting[:n])
	q.waiting = slices.Delete(q.waiting, 0, n)
	q.free()
	return taken
}

// takeIf takes the requests that match.
func (q *queue) takeIf(match func(*request) bool) (taken []*request) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.waiting = slices.DeleteFunc(q.waiting, func(r *request) bool {
		if !match(r) {
			return false
		}
		taken = append(taken, r)
		q.events -= len(r.of) + 1
		q.bytes -= r.bytes
		return true
	})
	q.free()
	return taken
}

// hurry has the steps that wait written at once, without the appends, if there
// is one of s that read early.
func (q *queue) hurry(s *member) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if slices.ContainsFunc(q.waiting, func(r *request) bool { return r.member == s && r.ahead }) {
		q.hurried = true
		signal(q.signal)
	}
}

// takeSteps returns the steps that fit into most bytes.
func (q *queue) takeSteps(most int) []*request {
	bytes := 0
	taken := q.takeIf(func(r *request) bool {
		if r.member == nil || bytes+r.bytes > most {
			return false
		}
		bytes += r.bytes
		return true
	})
	q.mu.Lock()
	q.hurried = false
	q.mu.Unlock()
	return taken
}

// refuse decides what waits, and what will be added, with err.
func (q *queue) refuse(err error) {
	q.mu.Lock()
	if q.refused == nil {
		q.refused = err
	}
	q.free()
	q.mu.Unlock()
	signal(q.signal)
}

// refusal returns why nothing is accepted any more.
func (q *queue) refusal() error {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.refused
}

// signal puts a token into a channel that holds one.
func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}
