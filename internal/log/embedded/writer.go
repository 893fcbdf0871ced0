package embedded

import (
	"fmt"
	"slices"
	"time"

	"github.com/afterbay/afterbay/internal/sys/vfs"
	"github.com/afterbay/afterbay/stream"
)

// writer is the only goroutine that writes frames.
type writer struct {
	log     *Log
	current *segment
	file    vfs.File
	next    uint64 // seq of the next frame
	epoch   uint32
	began   time.Time // start time of the last frame
	timer   *time.Timer

	// Of the frame being built.
	inputs, outputs []*partition
	producers       map[string]int64 // highest number of each producer in it
	offered         []*partition     // partitions with inputs that may be read early
	buffer          []byte           // memory of the frame; reused for the next one
}

// open opens the current segment.
func (w *writer) open() (err error) {
	w.epoch = w.log.meta.Epochs[len(w.log.meta.Epochs)-1].Epoch
	w.timer = time.NewTimer(0)
	w.producers = map[string]int64{}
	w.file, err = w.log.opts.fs.OpenReadWrite(w.current.path, vfs.WriteCategoryUnspecified)
	return err
}

// run writes frames until the log is closed.
func (w *writer) run() {
	l := w.log
	for w.gather() {
		w.refuseAppends()
		batch, err := w.room(w.take())
		if len(batch) == 0 {
			continue
		}
		if err == nil {
			err = l.checkpoints.room()
		}
		if err == nil {
			w.write(batch)
			continue
		}
		for _, r := range batch {
			r.settle(l, err)
		}
	}
	for _, r := range l.queue.takeIf(func(*request) bool { return true }) {
		r.settle(l, l.queue.refusal())
	}
	if err := w.file.Close(); err != nil {
		l.opts.Logger.Warn("close segment", "segment", w.current.path, "error", err)
	}
}

// take returns the first requests for the next frame. Transactions that must be written at once get
// a separate frame, which does not delay the next one.
func (w *writer) take() []*request {
	q, most := &w.log.queue, w.log.opts.MaxFrameBytes-2*frameHeader
	if _, _, _, hurried := q.size(); hurried {
		return q.takeSteps(most)
	}
	w.began = time.Now()
	return q.take(w.log.opts.GroupBytes, most)
}

// gather waits until a frame is worth a sync. It returns false when the queue accepts no more
// requests.
func (w *writer) gather() bool {
	l := w.log
	for {
		if l.queue.refusal() != nil {
			return false
		}
		requests, events, bytes, hurried := l.queue.size()
		wait := l.opts.GroupInterval - time.Since(w.began)
		if requests > 0 && (wait <= 0 || hurried || events >= l.queue.enough.events || bytes >= l.queue.enough.bytes) {
			return true
		}
		if requests == 0 {
			<-l.queue.signal
			continue
		}
		w.timer.Reset(wait)
		select {
		case <-l.queue.signal:
		case <-w.timer.C:
		}
	}
}

// refuseAppends decides queued appends that have no disk space with ErrFull.
func (w *writer) refuseAppends() {
	if refused, err := w.full(); err != nil {
		w.refuse(w.log.queue.takeIf(refused), err)
	}
}

// keepWithRoom does the same for the requests of a batch and returns the others. Some may have
// arrived after refuseAppends.
func (w *writer) keepWithRoom(batch []*request) []*request {
	refused, err := w.full()
	if err == nil {
		return batch
	}
	var out []*request
	kept := slices.DeleteFunc(batch, func(r *request) bool {
		if refused(r) {
			out = append(out, r)
			return true
		}
		return false
	})
	w.refuse(out, err)
	return kept
}

// full returns why there are no more spares, and a function that reports whether a request has no
// room. Call that function once for each request, in order. The last spare is reserved for
// transactions, so that admitted work can finish.
func (w *writer) full() (refused func(*request) bool, err error) {
	n, err := w.log.spares.count()
	if err == nil {
		return nil, nil
	}
	room := int64(n-1) * w.log.opts.SegmentBytes
	if n > 0 {
		room += w.current.size - w.current.end
	}
	return func(r *request) bool {
		if r.member != nil || int64(r.bytes+2*frameHeader) <= room {
			room -= int64(r.bytes + frameHeader)
			return false
		}
		return true
	}, err
}

func (w *writer) refuse(requests []*request, err error) {
	for _, r := range requests {
		w.log.stats.refused.Add(1)
		r.settle(w.log, fmt.Errorf("%w: %w", ErrFull, err))
	}
}

// write makes one frame of requests durable, applies it and decides the requests.
func (w *writer) write(batch []*request) {
	l := w.log
	clear(w.producers)
	taken := w.admit(batch)
	if w.offer(taken) {
		defer w.withdraw()
		taken = append(taken, w.answers(bytesOf(batch))...)
	}
	if len(taken) == 0 {
		return
	}
	b := w.build(taken)
	err := w.sync(b)
	if err == nil {
		at := place{segment: w.current, pos: w.current.end, bytes: len(b), live: true}
		var f frame
		if f, _, err = l.parse(b, w.next); err == nil {
			f.keepRecords()
			err = l.apply(&f, at, true)
		}
	}
	if err != nil {
		err = l.fail(err)
	} else {
		w.next++
	}
	l.stats.requests.Add(uint64(len(taken)))
	for _, r := range taken {
		r.settle(l, err)
	}
	signal(l.spares.grown)
	if l.checkpoints.logged.Add(int64(len(b))) >= l.checkpoints.dueAt.Load() {
		signal(l.checkpoints.due)
	}
}

// bytesOf returns an upper bound of the bytes of requests in a frame.
func bytesOf(requests []*request) (most int) {
	for _, r := range requests {
		most += r.bytes
	}
	return most
}

// admit returns the requests that may be written. It rejects transactions of members that do not
// own all partitions of them. It removes repeated records from appends.
func (w *writer) admit(batch []*request) []*request {
	l := w.log
	taken := batch[:0:0]
	for _, r := range batch {
		err := r.reachable()
		switch {
		case err != nil:
		case r.drop != "":
			err = w.admitDrop(r)
		case r.member != nil:
			err = r.member.admit(r)
		case r.producer != "":
			r, err = w.unrepeated(r)
		}
		if err != nil {
			r.settle(l, err)
			continue
		}
		taken = append(taken, r)
	}
	return taken
}

// unrepeated removes the records that the log already has from r.
func (w *writer) unrepeated(r *request) (*request, error) {
	highest := w.producers[r.producer]
	if highest == 0 {
		highest = w.highest(r.producer)
	}
	if repeated := int(min(highest-r.number+1, int64(len(r.records)))); repeated > 0 {
		rest, err := w.log.appendRequest(r.producer, r.number, repeated, r.records)
		if err != nil {
			return r, err
		}
		if repeated == len(r.records) {
			rest.sections, rest.count = nil, 0
			rest.addProducer(highest)
		}
		rest.decide = r.decide
		*r = *rest
	}
	w.producers[r.producer] = max(highest, r.number+int64(len(r.records))-1)
	return r, nil
}

// highest returns the highest number of a producer.
func (w *writer) highest(producer string) int64 {
	w.log.mu.Lock()
	defer w.log.mu.Unlock()
	return w.log.producers.highest(producer)
}

// build encodes requests as a frame. The records of a partition become one section for inputs and
// one for outputs.
func (w *writer) build(taken []*request) []byte {
	size := 0
	for _, r := range taken {
		size += r.bytes
		for _, p := range r.pieces {
			w.collect(r.kind, p)
		}
	}
	b := newFrame(w.buffer, size)
	h := header{seq: w.next, epoch: w.epoch, durable: w.next - 1}
	h.sections = uint32(len(w.inputs) + len(w.outputs))
	for _, p := range w.inputs {
		b = p.encode(b, sectionInput, &p.inputs, &w.log.buffers.results)
	}
	for _, p := range w.outputs {
		b = p.encode(b, sectionResult, &p.outputs, &w.log.buffers.results)
	}
	w.inputs, w.outputs = w.inputs[:0], w.outputs[:0]
	for _, r := range taken {
		if r.drop != "" {
			w.addDrop(r)
		}
		b = append(b, r.sections...)
		h.sections += uint32(r.count)
		if r.member != nil {
			w.log.buffers.steps.put(r.sections)
			r.sections = nil
		}
	}
	b = sealFrame(b, h, w.log.meta.salt)
	if w.buffer = nil; cap(b) <= 4*w.log.opts.GroupBytes {
		w.buffer = b // enough for most frames; larger ones are rare
	}
	return b
}

// collect adds a piece to those of its partition in the frame being built.
func (w *writer) collect(kind uint16, p *piece) {
	if kind == sectionInput {
		if len(p.part.inputs) == 0 {
			w.inputs = append(w.inputs, p.part)
		}
		p.part.inputs = append(p.part.inputs, p)
		return
	}
	if len(p.part.outputs) == 0 {
		w.outputs = append(w.outputs, p.part)
	}
	p.part.outputs = append(p.part.outputs, p)
}

// encode appends pieces as one section and sets their offsets. It returns the buffers of results to
// bodies.
func (p *partition) encode(b []byte, kind uint16, pieces *[]*piece, bodies *bodies) []byte {
	count := 0
	first := p.built
	for _, piece := range *pieces {
		piece.first = p.built
		p.built += stream.Offset(piece.count)
		count += piece.count
	}
	start := len(b)
	b = beginSection(b, kind, flagCritical)
	b = appendRecordsHead(b, p.Partition, first, count)
	for _, piece := range *pieces {
		b = append(b, piece.body...)
		if kind == sectionResult {
			bodies.put(piece.body)
			piece.body = nil
		}
	}
	endSection(b, start)
	clear(*pieces)
	*pieces = (*pieces)[:0]
	return b
}

// sync writes a frame and makes it durable.
func (w *writer) sync(b []byte) error {
	start := time.Now()
	if _, err := w.file.WriteAt(b, w.current.end); err != nil {
		return fmt.Errorf("write frame %d: %w", w.next, err)
	}
	if err := w.file.SyncData(); err != nil {
		return fmt.Errorf("sync frame %d: %w", w.next, err)
	}
	w.log.stats.frame(len(b), time.Since(start))
	return nil
}

// room makes sure that the current segment has room for a batch. It returns the batch without
// appends that it refused for lack of disk space. Transactions wait for space until Close, since
// admitted work must be able to finish.
func (w *writer) room(batch []*request) ([]*request, error) {
	l := w.log
	for {
		batch = w.keepWithRoom(batch)
		if w.current.end+int64(frameHeader+align(bytesOf(batch))) <= w.current.size {
			return batch, nil
		}
		if path := l.spares.next(); path != "" {
			return batch, w.rotate(path)
		}
		signal(l.spares.grown)
		select {
		case <-l.spares.changed:
		case <-l.closing:
			return batch, stream.ErrClosed
		}
		w.refuseAppends()
	}
}

// room waits until the checkpoint has enough of the changed state, so that the rest can leave
// memory.
func (c *checkpointer) room() error {
	for c.log.store.Full() {
		signal(c.due)
		select {
		case <-c.log.store.Room():
		case <-c.log.store.Failed():
			return c.log.fail(c.log.store.Err())
		case <-c.log.closing:
			return stream.ErrClosed
		}
	}
	return nil
}

// rotate seals the current segment and continues in the file at path.
func (w *writer) rotate(path string) error {
	l := w.log
	s := &segment{path: l.path("log", segmentName(w.next)), first: w.next, last: w.next - 1, index: newIndex()}
	err := w.use(s, path)
	if err != nil {
		return l.fail(fmt.Errorf("begin segment %s: %w", s.path, err))
	}
	l.mu.Lock()
	w.current.sealed = time.Now()
	l.segments = append(l.segments, s)
	l.mu.Unlock()
	l.spares.used()
	signal(l.kick)
	w.current = s
	return nil
}

// use turns the file at path into the segment s. The change is durable before the first frame is
// written to it.
func (w *writer) use(s *segment, path string) error {
	fs := w.log.opts.fs
	if err := fs.Rename(path, s.path); err != nil {
		return err
	}
	if err := syncDir(fs, w.log.path("log")); err != nil {
		return err
	}
	file, err := fs.OpenReadWrite(s.path, vfs.WriteCategoryUnspecified)
	if err != nil {
		return err
	}
	info, err := file.Stat()
	if err != nil {
		return err
	}
	s.size = info.Size()
	err = w.file.Close()
	w.file = file
	return err
}
