package embedded

import (
	"encoding/binary"
	"fmt"
	"maps"
	"slices"
	"sync"

	"github.com/afterbay/afterbay/stream"
)

// request is the contribution of one Append, Commit, CreateTopic or DeleteTopic to a frame. The
// caller encodes all parts that do not depend on the position in the frame.
type request struct {
	kind     uint16   // section kind of its records
	pieces   []*piece // records by partition
	of       []*piece // piece of each record
	sections []byte   // encoded; the writer copies them unchanged
	count    int      // number of sections
	bytes    int      // upper bound of its bytes in a frame
	decide   func(error)

	member   *member  // of a transaction; nil for an append
	shares   []*share // shares of the transaction
	admitted bool     // the shares are marked as being written
	ahead    bool     // it was computed from records that were read early
	drop     string   // the topic to delete

	records  []stream.Record // of an append
	producer string          // of AppendOnce
	number   int64           // of records[0]
	repeated int             // number of records skipped at the front
}

// piece holds the records of a request for one partition.
type piece struct {
	part   *partition
	count  int
	size   int // upper bound of the length of body
	body   []byte
	before []stream.Header // of the last record in body
	first  stream.Offset   // set by the writer
}

// bodies pools buffers for encoded transactions. The writer copies their content and returns them.
// Buffers of inputs are not pooled, because members that read early keep them.
type bodies struct{ pool sync.Pool }

// get returns an empty buffer with capacity for size bytes.
func (b *bodies) get(size int) []byte {
	if body, ok := b.pool.Get().(*[]byte); ok && cap(*body) >= size {
		return (*body)[:0]
	}
	return make([]byte, 0, size)
}

// put returns a buffer to the pool.
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

// fits returns ErrTooLarge if r does not fit into one frame.
func (r *request) fits(l *Log) error {
	if n := frameHeader + align(r.bytes); n > l.opts.MaxFrameBytes {
		return fmt.Errorf("%d bytes in one frame, the limit is %d: %w", n, l.opts.MaxFrameBytes, stream.ErrTooLarge)
	}
	return nil
}

// addSection encodes a section that the writer copies unchanged.
func (r *request) addSection(kind uint16, encode func([]byte) []byte) {
	start := len(r.sections)
	r.sections = encode(beginSection(r.sections, kind, flagCritical))
	endSection(r.sections, start)
	r.count++
}

// appendRequest returns the request of an append, without the first repeated records. The records
// must stay unchanged until the request is decided.
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

// addProducer encodes the highest number of r's producer.
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
	// The order matters. A caller that waits for the outcome may commit again at once. A Poll that
	// Wake interrupts finds the outcome.
	r.member.decided(r, err)
	r.decide(err)
	r.member.Wake()
}

// setOffsets sets the positions in the records of an append.
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

// topicRequest returns the request that creates a topic.
func topicRequest(t stream.Topic) *request {
	r := &request{}
	r.addSection(sectionTopic, func(b []byte) []byte {
		return appendBytes(binary.AppendUvarint(appendBytes(b, t.Name), uint64(t.Partitions)), t.Key)
	})
	r.bytes = len(r.sections)
	return r
}

// stepRequest returns the request of a transaction of s.
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

// addChanges encodes the changes of a transaction, one section per partition.
func (r *request) addChanges(buffers *bodies, group string, step *stream.Transaction) error {
	size := 0
	bodies := map[stream.Partition]int{} // size in bytes
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

// queue holds the requests that wait for the writer.
type queue struct {
	mu      sync.Mutex
	waiting []*request
	events  int
	bytes   int
	most    int                         // bytes that may wait
	enough  struct{ events, bytes int } // start a frame before its time
	freed   chan struct{}               // closed when there is room; nil if no append waits for it
	refused error                       // why the queue accepts no requests
	hurried bool                        // write the waiting transactions at once
	signal  chan struct{}               // one token: the queue has a request, or enough requests
}

// add queues r. If there is no room for an append, it returns a channel that is closed when there
// may be room. A transaction always has room, since each member has at most one.
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
		signal(q.signal) // otherwise the writer waits for its timer
	}
	return nil, nil
}

// free wakes the appends that wait for room.
func (q *queue) free() {
	if q.freed != nil {
		close(q.freed)
		q.freed = nil
	}
}

// remove withdraws r, unless the writer has taken it.
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

// size returns the amount of waiting work, and whether to write the transactions at once.
func (q *queue) size() (requests, events, bytes int, hurried bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	return len(q.waiting), q.events, q.bytes, q.hurried
}

// take returns requests from the front of the queue: at least one, until they have enough bytes,
// but not more than most bytes.
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

// takeIf takes the matching requests.
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

// hurry makes the writer write the waiting transactions at once, without the appends, if s has one
// that was read early.
func (q *queue) hurry(s *member) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if slices.ContainsFunc(q.waiting, func(r *request) bool { return r.member == s && r.ahead }) {
		q.hurried = true
		signal(q.signal)
	}
}

// takeSteps returns the transactions that fit into most bytes.
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

// refuse decides the waiting requests, and all later ones, with err.
func (q *queue) refuse(err error) {
	q.mu.Lock()
	if q.refused == nil {
		q.refused = err
	}
	q.free()
	q.mu.Unlock()
	signal(q.signal)
}

// refusal returns why the queue accepts no requests, or nil.
func (q *queue) refusal() error {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.refused
}

// signal puts a token into a channel with room for one.
func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}
