package embedded

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"iter"
	"time"

	"github.com/afterbay/afterbay/stream"
)

// reader takes values off the front of bytes. After the first value that is not
// there it yields zeros and bad is set.
type reader struct {
	b   []byte
	bad bool
}

func (r *reader) fail() {
	r.b, r.bad = nil, true
}

func (r *reader) uvarint() uint64 {
	v, n := binary.Uvarint(r.b)
	if n <= 0 {
		r.fail()
		return 0
	}
	r.b = r.b[n:]
	return v
}

func (r *reader) uint64() uint64 {
	if len(r.b) < 8 {
		r.fail()
		return 0
	}
	v := binary.LittleEndian.Uint64(r.b)
	r.b = r.b[8:]
	return v
}

func (r *reader) take(n uint64) []byte {
	if n > uint64(len(r.b)) {
		r.fail()
		return nil
	}
	v := r.b[:n:n]
	r.b = r.b[n:]
	return v
}

// bytes reads a length and as many bytes.
func (r *reader) bytes() []byte { return r.take(r.uvarint()) }

// nullable reads bytes that may be nil: the length is one too large then 0.
func (r *reader) nullable() []byte {
	n := r.uvarint()
	if n == 0 {
		return nil
	}
	return r.take(n - 1)
}

func appendBytes[B []byte | string](b []byte, v B) []byte {
	return append(binary.AppendUvarint(b, uint64(len(v))), v...)
}

func appendNullable(b, v []byte) []byte {
	if v == nil {
		return append(b, 0)
	}
	return append(binary.AppendUvarint(b, uint64(len(v))+1), v...)
}

// appendRecord encodes what a record is beside its partition and offset.
func appendRecord(b []byte, r *stream.Record) []byte {
	b = appendContent(b, r)
	for _, h := range r.Headers {
		b = appendBytes(b, h.Key)
		b = appendNullable(b, h.Value)
	}
	return b
}

// appendContent encodes what comes before the headers of a record.
func appendContent(b []byte, r *stream.Record) []byte {
	b = binary.LittleEndian.AppendUint64(b, uint64(r.Time.UnixMicro()))
	b = appendNullable(b, r.Key)
	b = appendNullable(b, r.Value)
	return binary.AppendUvarint(b, uint64(len(r.Headers)))
}

// How a header of a result is given: whole; by its value, with the key of the
// header at the same place of the record before; or as that header.
const (
	headerWhole = iota
	headerValue
	headerSame
)

// appendResult is appendRecord for what a step wrote after a record with the
// headers before. Most of what a pipeline says about its outputs it says of all
// of them.
func appendResult(b []byte, r *stream.Record, before []stream.Header) []byte {
	b = appendContent(b, r)
	for i := range r.Headers {
		h := &r.Headers[i]
		switch {
		case i >= len(before) || h.Key != before[i].Key:
			b = appendNullable(appendBytes(append(b, headerWhole), h.Key), h.Value)
		case !bytes.Equal(h.Value, before[i].Value) || (h.Value == nil) != (before[i].Value == nil):
			b = appendNullable(append(b, headerValue), h.Value)
		default:
			b = append(b, headerSame)
		}
	}
	return b
}

// recordReader reads records one after the other. Their bytes are its own.
type recordReader struct {
	reader
	packed bool            // by appendResult
	left   int             // records, as far as it is known
	before []stream.Header // of the record before
	room   []stream.Header // for those of the next ones
	passed []stream.Header // room for those of a record that is not kept
}

// record reads the next record. Of one whose key is not to be kept it tells the key;
// a nil keep is to keep all.
func (r *recordReader) record(to *stream.Record, keep func(key []byte) bool) {
	at := r.uint64()
	key, value, n := r.nullable(), r.nullable(), r.uvarint()
	if n > uint64(len(r.b)) {
		r.fail()
		return
	}
	r.left--
	to.Key = key
	kept := keep == nil || keep(key)
	if !kept && !r.packed {
		for range n {
			r.bytes()
			r.nullable()
		}
		return
	}
	headers := r.headers(int(n), kept)
	for i := range headers {
		headers[i] = r.header(i)
	}
	r.before = headers // the next one's may be given by them
	if kept {
		to.Time, to.Value, to.Headers = time.UnixMicro(int64(at)).UTC(), value, headers
	}
}

// headersMost are made at once for the records of a block: one allocation for each
// record would cost more than reading it.
const headersMost = 256

// headers returns room for n headers, nil for none. That of those that are not kept
// is also that of the next.
func (r *recordReader) headers(n int, kept bool) []stream.Header {
	switch {
	case n == 0:
		return nil
	case !kept && n > len(r.passed):
		r.passed = make([]stream.Header, n)
	}
	if !kept {
		return r.passed[:n]
	}
	if n > len(r.room) {
		r.room = make([]stream.Header, max(n, min(n*r.left, headersMost)))
	}
	headers := r.room[:n:n]
	r.room = r.room[n:]
	return headers
}

// header reads the header at place i of a record.
func (r *recordReader) header(i int) stream.Header {
	form := uint64(headerWhole)
	if r.packed {
		form = r.uvarint()
	}
	switch {
	case form == headerWhole:
		return stream.Header{Key: r.headerKey(i), Value: r.nullable()}
	case form > headerSame || i >= len(r.before):
		r.fail()
		return stream.Header{}
	case form == headerValue:
		return stream.Header{Key: r.before[i].Key, Value: r.nullable()}
	}
	return r.before[i]
}

// headerKey reads the key of the header at place i, which most often is that of the
// record before.
func (r *recordReader) headerKey(i int) string {
	key := r.bytes()
	if i < len(r.before) && r.before[i].Key == string(key) {
		return r.before[i].Key
	}
	return string(key)
}

// recordBytes bounds the encoded size of a record.
func recordBytes(r *stream.Record) int {
	n := 8 + 3*binary.MaxVarintLen32 + len(r.Key) + len(r.Value)
	for _, h := range r.Headers {
		n += 2*binary.MaxVarintLen32 + len(h.Key) + len(h.Value)
	}
	return n
}

// appendPartition encodes a partition.
func appendPartition(b []byte, p stream.Partition) []byte {
	return binary.AppendUvarint(appendBytes(b, p.Topic), uint64(p.Index))
}

// records is the payload of an INPUT or OUTPUT section.
type records struct {
	topic  []byte
	index  int32
	first  stream.Offset
	count  int
	body   []byte // the records, encoded
	packed bool   // by appendResult
}

func appendRecordsHead(b []byte, p stream.Partition, first stream.Offset, count int) []byte {
	b = appendPartition(b, p)
	b = binary.LittleEndian.AppendUint64(b, uint64(first))
	return binary.AppendUvarint(b, uint64(count))
}

// recordsHeadBytes bounds what appendRecordsHead appends.
func recordsHeadBytes(p stream.Partition) int {
	return 2*binary.MaxVarintLen32 + len(p.Topic) + 8 + binary.MaxVarintLen64
}

// block returns the records as those of frame seq.
func (v *records) block(seq uint64) block { return block{seq, v.first, v.count, v.body, v.packed} }

// parseRecords reads a section of records.
func parseRecords(s *section) (records, error) {
	r := reader{b: s.payload}
	v := records{topic: r.bytes(), index: int32(r.uvarint()), first: stream.Offset(r.uint64()), count: int(r.uvarint())}
	v.body = r.b
	v.packed = s.kind == sectionResult
	if r.bad || v.count < 0 || v.count > len(v.body) || v.first < 0 {
		return v, fmt.Errorf("section of records: %w", errFormat)
	}
	return v, nil
}

// edits is the payload of a STATE section.
type edits struct {
	group, topic []byte
	index        int32
	body         []byte // keys and values, nil to delete
}

func appendEditsHead(b []byte, group string, p stream.Partition) []byte {
	return appendPartition(appendBytes(b, group), p)
}

func parseEdits(payload []byte) (edits, error) {
	r := reader{b: payload}
	v := edits{group: r.bytes(), topic: r.bytes(), index: int32(r.uvarint()), body: r.b}
	for check := (reader{b: v.body}); len(check.b) > 0; {
		check.bytes()
		check.nullable()
		r.bad = r.bad || check.bad
	}
	if r.bad {
		return v, fmt.Errorf("section of state: %w", errFormat)
	}
	return v, nil
}

// changes yields keys and values.
func (e *edits) changes() iter.Seq2[[]byte, []byte] {
	return func(yield func(key, value []byte) bool) {
		for r := (reader{b: e.body}); len(r.b) > 0; {
			if !yield(r.bytes(), r.nullable()) {
				return
			}
		}
	}
}

// moves is the payload of an OFFSETS section.
type moves struct {
	group []byte
	body  []byte // partitions and next offsets
}

func parseMoves(payload []byte) (moves, error) {
	r := reader{b: payload}
	v := moves{group: r.bytes(), body: r.b}
	check := reader{b: v.body}
	for len(check.b) > 0 {
		check.move()
	}
	if r.bad || check.bad {
		return v, fmt.Errorf("section of offsets: %w", errFormat)
	}
	return v, nil
}

// move is where a group goes on in a partition.
type move struct {
	topic []byte
	index int32
	next  stream.Offset
}

func (r *reader) move() move {
	return move{topic: r.bytes(), index: int32(r.uvarint()), next: stream.Offset(r.uvarint())}
}

func (m *moves) all() iter.Seq[move] {
	return func(yield func(move) bool) {
		for r := (reader{b: m.body}); len(r.b) > 0; {
			if !yield(r.move()) {
				return
			}
		}
	}
}
