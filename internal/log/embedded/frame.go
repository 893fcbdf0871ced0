package embedded

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
)

// Sizes in a frame, in bytes. docs/format/log.md describes the layout.
const (
	frameHeader   = 32
	sectionHeader = 8
	frameAlign    = 8
)

// Kinds of sections.
const (
	sectionTopic    uint16 = 1
	sectionInput    uint16 = 2
	sectionOutput   uint16 = 3
	sectionState    uint16 = 4
	sectionOffsets  uint16 = 5
	sectionProducer uint16 = 6
	sectionResult   uint16 = 7 // replaces sectionOutput, which is only read
	sectionDelete   uint16 = 8
)

// hasRecords reports whether the section holds records.
func (s *section) hasRecords() bool {
	return s.kind == sectionInput || s.kind == sectionOutput || s.kind == sectionResult
}

// flagCritical means that a reader that does not know the section's kind must stop.
const flagCritical uint16 = 1

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// header is the header of a frame.
type header struct {
	length   int // of the frame, without padding
	crc      uint32
	seq      uint64
	epoch    uint32
	sections uint32
	durable  uint64 // newest frame known to be durable when this frame was written
}

// frame is one write of the log. Its sections alias the bytes that it was parsed from.
type frame struct {
	header
	body []section
}

type section struct {
	kind, flags uint16
	payload     []byte
}

func parseHeader(b []byte) header {
	return header{
		length:   int(binary.LittleEndian.Uint32(b)),
		crc:      binary.LittleEndian.Uint32(b[4:]),
		seq:      binary.LittleEndian.Uint64(b[8:]),
		epoch:    binary.LittleEndian.Uint32(b[16:]),
		sections: binary.LittleEndian.Uint32(b[20:]),
		durable:  binary.LittleEndian.Uint64(b[24:]),
	}
}

// errFrame means that the bytes are not a whole frame of this log.
var errFrame = errors.New("not a valid frame")

// parseFrame reads the frame at the start of b. It returns the size of the frame with padding. salt
// is the log's salt.
func parseFrame(b []byte, salt uint32) (frame, int, error) {
	if len(b) < frameHeader {
		return frame{}, 0, errFrame
	}
	h := parseHeader(b)
	if h.length < frameHeader || h.length > len(b) || h.crc != frameSum(b[:h.length], salt) {
		return frame{}, 0, errFrame
	}
	f := frame{header: h}
	rest := b[frameHeader:h.length]
	if uint64(h.sections) > uint64(len(rest)/sectionHeader) {
		return frame{}, 0, fmt.Errorf("frame %d: %d sections do not fit into it: %w", h.seq, h.sections, errFormat)
	}
	f.body = make([]section, h.sections)
	for i := range f.body {
		if len(rest) < sectionHeader {
			return frame{}, 0, fmt.Errorf("frame %d: section %d of %d is missing: %w", h.seq, i, h.sections, errFormat)
		}
		size := uint64(binary.LittleEndian.Uint32(rest[4:]))
		if size > uint64(len(rest)-sectionHeader) {
			return frame{}, 0, fmt.Errorf("frame %d: section %d is longer than the frame: %w", h.seq, i, errFormat)
		}
		end := sectionHeader + int(size)
		f.body[i] = section{
			kind:    binary.LittleEndian.Uint16(rest),
			flags:   binary.LittleEndian.Uint16(rest[2:]),
			payload: rest[sectionHeader:end:end],
		}
		rest = rest[end:]
	}
	if len(rest) > 0 {
		return frame{}, 0, fmt.Errorf("frame %d: %d bytes after its sections: %w", h.seq, len(rest), errFormat)
	}
	return f, min(align(h.length), len(b)), nil
}

// errFormat means that bytes with a valid checksum have an unexpected content. A newer or a faulty
// version wrote them.
var errFormat = errors.New("not the format this version reads")

func align(n int) int { return (n + frameAlign - 1) &^ (frameAlign - 1) }

// frameSum returns the checksum of a whole frame: over the salt, the length and all bytes after the
// checksum.
func frameSum(b []byte, salt uint32) uint32 {
	return crc32.Update(crc32.Update(salt, castagnoli, b[:4]), castagnoli, b[8:])
}

// newFrame returns an empty frame with capacity for size bytes after its header. It reuses b if b
// is large enough.
func newFrame(b []byte, size int) []byte {
	if n := align(frameHeader + size); cap(b) < n {
		b = make([]byte, n)
	}
	return b[:frameHeader]
}

// keepRecords copies the records of f, so that they stay valid when the parsed bytes are reused.
func (f *frame) keepRecords() {
	for i := range f.body {
		if s := &f.body[i]; s.hasRecords() {
			s.payload = bytes.Clone(s.payload)
		}
	}
}

// sealFrame writes the header of b and pads it. All sections of b must be complete.
func sealFrame(b []byte, h header, salt uint32) []byte {
	binary.LittleEndian.PutUint32(b, uint32(len(b)))
	binary.LittleEndian.PutUint64(b[8:], h.seq)
	binary.LittleEndian.PutUint32(b[16:], h.epoch)
	binary.LittleEndian.PutUint32(b[20:], h.sections)
	binary.LittleEndian.PutUint64(b[24:], h.durable)
	binary.LittleEndian.PutUint32(b[4:], frameSum(b, salt))
	for len(b)%frameAlign != 0 {
		b = append(b, 0)
	}
	return b
}

// beginSection appends a section's header. endSection sets its length.
func beginSection(b []byte, kind, flags uint16) []byte {
	b = binary.LittleEndian.AppendUint16(b, kind)
	b = binary.LittleEndian.AppendUint16(b, flags)
	return append(b, 0, 0, 0, 0)
}

func endSection(b []byte, start int) {
	binary.LittleEndian.PutUint32(b[start+4:], uint32(len(b)-start-sectionHeader))
}
