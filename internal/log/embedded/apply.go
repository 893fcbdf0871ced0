package embedded

import (
	"encoding/binary"
	"fmt"
	"iter"

	"github.com/afterbay/afterbay/stream"
)

// place is the position of a durable frame.
type place struct {
	segment *segment
	pos     int64
	bytes   int // including padding
	live    bool
}

// parse reads a frame. It checks that the frame belongs to this log and has number seq; seq 0
// accepts any number.
func (l *Log) parse(b []byte, seq uint64) (frame, int, error) {
	f, n, err := parseFrame(b, l.meta.salt)
	switch {
	case err != nil:
		return f, 0, err
	case seq != 0 && f.seq != seq:
		return f, 0, fmt.Errorf("frame %d in the place of %d: %w", f.seq, seq, errFrame)
	case !l.meta.has(f.seq, f.epoch):
		return f, 0, fmt.Errorf("frame %d is of epoch %08x: %w", f.seq, f.epoch, errFrame)
	}
	return f, n, nil
}

// apply makes the changes of a durable frame. It changes state first, since publish makes the frame
// visible. If redo is false, the state and offsets already contain the frame.
func (l *Log) apply(f *frame, at place, redo bool) error {
	var metas pairs
	if redo {
		if err := l.applyState(f); err != nil {
			return err
		}
	}
	l.mu.Lock()
	err := l.publish(f, at, redo, &metas)
	l.mu.Unlock()
	if err != nil {
		return fmt.Errorf("frame %d: %w", f.seq, err)
	}
	if redo {
		l.cells.Apply(f.seq, metas.all())
		l.applied.Store(f.seq)
	}
	return nil
}

// applyState writes the STATE sections into their spaces.
func (l *Log) applyState(f *frame) error {
	for i := range f.body {
		if f.body[i].kind != sectionState {
			continue
		}
		e, err := parseEdits(f.body[i].payload)
		if err != nil {
			return fmt.Errorf("frame %d: %w", f.seq, err)
		}
		l.store.Space(e.space()).Apply(f.seq, e.changes())
	}
	return nil
}

// publish makes a frame visible. The caller must hold mu.
func (l *Log) publish(f *frame, at place, redo bool, metas *pairs) error {
	at.segment.index.frame(at.pos)
	at.segment.last, at.segment.end = f.seq, at.pos+int64(at.bytes)
	hot := ringFrame{seq: f.seq}
	for i := range f.body {
		s := &f.body[i]
		var err error
		switch s.kind {
		case sectionInput, sectionOutput, sectionResult:
			err = l.publishRecords(f.seq, s, at, redo, metas, &hot)
		case sectionTopic:
			err = l.publishTopic(s.payload, redo, metas)
		case sectionDelete:
			if redo {
				err = l.publishDelete(s.payload, metas)
			}
		case sectionOffsets:
			if redo {
				err = l.publishOffsets(s.payload, metas)
			}
		case sectionProducer:
			if redo {
				err = l.publishProducer(f.seq, i, s.payload, metas)
			}
		case sectionState:
		default:
			if s.flags&flagCritical != 0 {
				err = fmt.Errorf("section of kind %d, which this version must not skip: %w", s.kind, errFormat)
			}
		}
		if err != nil {
			return err
		}
	}
	for _, name := range l.producers.trim() {
		metas.add(producerKey(name), nil)
	}
	if len(hot.parts) > 0 {
		l.ring.add(hot, l.opts.RingBytes)
	}
	return nil
}

func (l *Log) publishRecords(seq uint64, s *section, at place, redo bool, metas *pairs, hot *ringFrame) error {
	v, err := parseRecords(s)
	if err != nil {
		return err
	}
	p, err := l.anyPart(string(v.topic), v.index)
	if err != nil {
		return fmt.Errorf("records of %s/%d, which does not exist: %w", v.topic, v.index, errFormat)
	}
	if n := len(p.spans); n > 0 && p.spans[n-1].next != v.first {
		return fmt.Errorf("%v continues at offset %d, not %d: %w", p.Partition, v.first, p.spans[n-1].next, errFormat)
	}
	next := v.first + stream.Offset(v.count)
	if next > p.base { // otherwise the records were deleted with their topic
		p.note(at.segment, &v)
		at.segment.index.note(p.Partition, &v)
	}
	if redo {
		p.next = next
		metas.add(nextKey(p.Partition), binary.AppendUvarint(nil, uint64(p.next)))
	}
	if at.live {
		p.blocks = append(p.blocks, v.block(seq))
		hot.parts = append(hot.parts, p)
		hot.bytes += blockBytes + int64(len(s.payload))
		for _, c := range p.readers {
			signal(c.ready)
		}
	}
	return nil
}

func (l *Log) publishOffsets(payload []byte, metas *pairs) error {
	m, err := parseMoves(payload)
	if err != nil {
		return err
	}
	g := l.group(string(m.group))
	for v := range m.all() {
		p, err := l.anyPart(string(v.topic), v.index)
		if err != nil {
			return fmt.Errorf("offset of group %s: %w", m.group, errFormat)
		}
		g.share(p).committed = v.next
		g.everCommitted = true
		metas.add(groupKey(g.name, p.Partition), binary.AppendUvarint(nil, uint64(v.next)))
	}
	return nil
}

func (c *catalog) publishProducer(seq uint64, section int, payload []byte, metas *pairs) error {
	r := reader{b: payload}
	name, highest := string(r.bytes()), int64(r.uvarint())
	if r.bad || highest < 0 {
		return fmt.Errorf("section of a producer: %w", errFormat)
	}
	p := c.producers.set(name, producer{highest, seq, section})
	metas.add(producerKey(name), p.encode())
	return nil
}

// space returns the name of the space that a STATE section changes.
func (e *edits) space() string {
	return string(appendEditsHead(nil, string(e.group), stream.Partition{Topic: string(e.topic), Index: e.index}))
}

// The log's own cells: one byte for the kind, then a name. No group can have the name of their
// space.
const (
	metaSpace         = "\x00"
	cellTopic    byte = 't'
	cellDeleted  byte = 'd' // of a topic that was deleted at least once; must come after cellTopic
	cellNext     byte = 'n'
	cellGroup    byte = 'g'
	cellProducer byte = 'p'
)

func nextKey(p stream.Partition) []byte { return appendPartition([]byte{cellNext}, p) }

func groupKey(group string, p stream.Partition) []byte {
	return appendPartition(appendBytes([]byte{cellGroup}, group), p)
}

func producerKey(name string) []byte { return append([]byte{cellProducer}, name...) }

// pairs collects changes of the log's own cells.
type pairs struct{ list [][2][]byte }

func (p *pairs) add(key, value []byte) { p.list = append(p.list, [2][]byte{key, value}) }

func (p *pairs) all() iter.Seq2[[]byte, []byte] {
	return func(yield func(key, value []byte) bool) {
		for _, pair := range p.list {
			if !yield(pair[0], pair[1]) {
				return
			}
		}
	}
}

// loadCells reads topics, offsets and producers as of the last checkpoint.
func (o *opener) loadCells() error {
	o.cells = o.store.Space(metaSpace)
	for _, kind := range []byte{cellTopic, cellDeleted, cellNext, cellGroup, cellProducer} {
		for e, err := range o.cells.Scan([]byte{kind}) {
			if err != nil {
				return err
			}
			if err := o.loadCell(kind, e); err != nil {
				return fmt.Errorf("cell %q: %w", e.Key, err)
			}
		}
	}
	return nil
}

func (o *opener) loadCell(kind byte, e stream.Entry) error {
	key, value := reader{b: e.Key[1:]}, reader{b: e.Value}
	switch kind {
	case cellTopic:
		t, err := parseTopic(e.Value)
		if err != nil {
			return err
		}
		o.addTopic(t)
	case cellDeleted:
		return o.loadDeleted(string(key.b), &value)
	case cellNext:
		p, err := o.anyPart(string(key.bytes()), int32(key.uvarint()))
		if err != nil {
			return err
		}
		p.next = stream.Offset(value.uvarint())
	case cellGroup:
		g := o.group(string(key.bytes()))
		p, err := o.anyPart(string(key.bytes()), int32(key.uvarint()))
		if err != nil {
			return err
		}
		g.share(p).committed = stream.Offset(value.uvarint())
		g.everCommitted = true
	case cellProducer:
		o.producers.load(string(key.b), &value)
	}
	if key.bad || value.bad {
		return errFormat
	}
	return nil
}
