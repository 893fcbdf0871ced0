package embedded

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"iter"
	"time"

	"github.com/afterbay/afterbay/stream"
)

// reader decodes values from the front of a byte slice. If a value is incomplete, reader sets bad
// and returns zeros from then on.
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

// bytes reads a length and that many bytes.
func (r *reader) bytes() []byte { return r.take(r.uvarint()) }

// nullable reads bytes that may be nil. Length 0 means nil; any other length is stored plus one.
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

// appendRecord encodes a record without its partition and offset.
func appendRecord(b []byte, r *stream.Record) []byte {
	b = appendContent(b, r)
	for _, h := range r.Headers {
		b = appendBytes(b, h.Key)
		b = appendNullable(b, h.Value)
	}
	return b
}

// appendContent encodes the part of a record that precedes its headers.
func appendContent(b []byte, r *stream.Record) []byte {
	b = binary.LittleEndian.AppendUint64(b, uint64(r.Time.UnixMicro()))
	b = appendNullable(b, r.Key)
	b = appendNullable(b, r.Value)
	return binary.AppendUvarint(b, uint64(len(r.Headers)))
}

// Encodings of a header of a result: complete; only its value, with the key of the header at the
// same index of the previous record; or equal to that header.
const (
	headerWhole = iota
	headerValue
	headerSame
)

// appendResult is appendRecord for an output. before are the headers of the previous record. Most
// headers of a pipeline are the same on all outputs.
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

// recordReader reads records one after the other. Their bytes alias its buffer.
type recordReader struct {
	reader
	packed bool            // encoded by appendResult
	left   int             // number of remaining records, as far as known
	before []stream.Header // headers of the previous record
	room   []stream.Header // free slots for headers of the next records
	passed []stream.Header // scratch slots for headers of records that are not kept
}

// record reads the next record. If keep returns false for the key, it sets only the key. A nil keep
// keeps every record.
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
	r.before = headers // the next record may refer to these headers
	if kept {
		to.Time, to.Value, to.Headers = time.UnixMicro(int64(at)).UTC(), value, headers
	}
}

// headersMost is the number of headers allocated at once for the records of a block. One allocation
// per record would cost more than reading the record.
const headersMost = 256

// headers returns n header slots, or nil if n is 0. Records that are not kept share the same slots.
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

// header reads the header at index i of a record.
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

// headerKey reads the key of the header at index i. The key usually equals that of the previous
// record.
func (r *recordReader) headerKey(i int) string {
	key := r.bytes()
	if i < len(r.before) && r.before[i].Key == string(key) {
		return r.before[i].Key
	}
	return string(key)
}

// recordBytes returns an upper bound of the encoded size of a record.
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
	packed bool   // encoded by appendResult
}

func appendRecordsHead(b []byte, p stream.Partition, first stream.Offset, count int) []byte {
	b = appendPartition(b, p)
	b = binary.LittleEndian.AppendUint64(b, uint64(first))
	return binary.AppendUvarint(b, uint64(count))
}

// recordsHeadBytes returns an upper bound of the length that appendRecordsHead appends.
func recordsHeadBytes(p stream.Partition) int {
	return 2*binary.MaxVarintLen32 + len(p.Topic) + 8 + binary.MaxVarintLen64
}

// block returns the records as a block of frame seq.
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
	body         []byte // keys and values; a nil value deletes
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

// move is the next offset of a group in a partition.
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
