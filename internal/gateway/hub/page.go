package hub

import (
	"bytes"
	"context"

	"github.com/afterbay/afterbay/stream"
)

const (
	pageRecords = 1024     // maximum number of records in a page
	scanRecords = 64 << 10 // maximum number of records read for a page, of any key
	jumpRecords = 4096     // if the next record is more than this many offsets away, pick seeks instead of reading on
)

// page reads records of key from the log, starting at from and ending before the position of the
// partition's reader. It returns the position where the next page starts. A page may be empty even
// if more pages follow. If page returns an error, next is from.
func (p *partition) page(ctx context.Context, key []byte, from stream.Offset) (records []stream.Record, next stream.Offset, err error) {
	m := &p.hub.metrics
	m.Replaying.Add(1)
	defer m.Replaying.Add(-1)
	if err := p.hub.replays.Acquire(ctx, 1); err != nil {
		return nil, from, err
	}
	defer p.hub.replays.Release(1)
	m.Pages.Add(1)

	p.mu.Lock()
	start, end, view := p.index.start, p.next, p.index.view()
	p.mu.Unlock()
	if from < start {
		return p.scan(ctx, key, from, start)
	}
	offsets := find(view, hash(key), from, pageRecords)
	if len(offsets) == 0 {
		return nil, end, nil
	}
	return p.pick(ctx, key, from, offsets)
}

// scan reads the records of key in the offsets [from, to). There must be a record at or after to.
func (p *partition) scan(ctx context.Context, key []byte, from, to stream.Offset) (records []stream.Record, next stream.Offset, err error) {
	size, read := 0, 0
	next = from
	for r, err := range p.tail(ctx, from, func(k []byte) bool { return bytes.Equal(k, key) }) {
		if err != nil {
			return records, next, unlessRead(err, from, next)
		}
		if r.Offset >= to {
			return records, to, nil
		}
		p.hub.metrics.Scanned.Add(1)
		next = r.Offset + 1
		if bytes.Equal(r.Key, key) {
			size += p.take(&records, &r)
		}
		if read++; next >= to || read == scanRecords || len(records) == pageRecords || size >= p.hub.options.QueueBytes {
			break
		}
	}
	return records, next, nil
}

// pick reads the records at these offsets, and returns those that have the key.
func (p *partition) pick(ctx context.Context, key []byte, from stream.Offset, offsets []stream.Offset) (records []stream.Record, next stream.Offset, err error) {
	size := 0
	next = from
	for len(offsets) > 0 && size < p.hub.options.QueueBytes {
		for r, err := range p.tail(ctx, offsets[0], func(k []byte) bool { return bytes.Equal(k, key) }) {
			if err != nil {
				return records, next, unlessRead(err, from, next)
			}
			p.hub.metrics.Scanned.Add(1)
			for len(offsets) > 0 && offsets[0] <= r.Offset {
				offsets, next = offsets[1:], r.Offset+1
			}
			if next == r.Offset+1 && bytes.Equal(r.Key, key) {
				size += p.take(&records, &r)
			}
			if len(offsets) == 0 || size >= p.hub.options.QueueBytes || offsets[0]-r.Offset > jumpRecords {
				break
			}
		}
	}
	return records, next, nil
}

// unlessRead returns err only if no record was read before it. Otherwise the next page will meet
// the error. So a log with occasional errors can still be read.
func unlessRead(err error, from, next stream.Offset) error {
	if next > from {
		return nil
	}
	return err
}

// take appends a copy of r to records and returns its size.
func (p *partition) take(records *[]stream.Record, r *stream.Record) int {
	*records = append(*records, clone(r))
	return size(r)
}
