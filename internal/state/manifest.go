package state

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"

	"github.com/cockroachdb/pebble/v2"

	"github.com/afterbay/afterbay/internal/sys/vfs"
)

// checkManifest returns a *DamageError if Pebble would mistake damage of its MANIFEST for the end
// of the file. The MANIFEST is a list of records, and each record changes the database. Pebble
// stops at the first incomplete record, as after an interrupted write. It then continues with the
// database before that record, whatever follows.
//
// A record is synced before the next one begins. A MANIFEST becomes current when its first two
// records are synced, or its first if that lists no tables. Therefore:
//
//  1. No record follows an incomplete one.
//  2. A first record that lists tables is followed by another. The first record
//     does not say which sequence numbers are in use. With it alone, Pebble
//     hides the data with these numbers and reuses the numbers. When it merges
//     both, it ends the process with a panic in its own goroutine.
//
// One case remains: a MANIFEST that ends with an earlier record. This is the database of an earlier
// time, as after a crash. The log redoes the missing frames, or refuses if they are gone.
func checkManifest(files vfs.FS, dir string) error {
	desc, err := pebble.Peek(dir, files)
	if err != nil || !desc.Exists {
		return err
	}
	b, err := vfs.ReadFile(files, desc.ManifestFilename)
	if err != nil {
		return err
	}
	bad := func(pos int, format string, args ...any) error {
		return &DamageError{Path: desc.ManifestFilename, Offset: int64(pos), Reason: fmt.Sprintf(format, args...)}
	}
	records, pos, tables := 0, 0, false
	for pos < len(b) {
		edit, next := manifestRecord(b, pos)
		if next == 0 {
			break
		}
		tables = tables || records == 0 && listsTables(edit)
		records, pos = records+1, next
	}
	for later := pos + 1; later < len(b); later++ {
		if kind, _ := manifestChunk(b, later); kind == fullChunk || kind == firstChunk {
			return bad(pos, "the record there is not whole, and one behind, at byte %d, is", later)
		}
	}
	if records == 0 || records == 1 && tables {
		return bad(pos, "it has %d complete records, but more were durable", records)
	}
	return nil
}

// Records consist of chunks, and chunks are in blocks. If no header fits, the end of a block is
// empty. A chunk is a checksum (4 bytes), a length (2), a kind (1) and bytes of the record.
const (
	manifestBlock = 32 << 10
	chunkHeader   = 7

	fullChunk  = 1 // a whole record
	firstChunk = 2
	lastChunk  = 4 // 3 is a middle chunk
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// manifestChunk returns the chunk at pos, with kind 0 if the chunk is incomplete.
func manifestChunk(b []byte, pos int) (kind byte, payload []byte) {
	if pos > len(b) {
		return 0, nil
	}
	b = b[pos:min(len(b), pos-pos%manifestBlock+manifestBlock)]
	if len(b) < chunkHeader || b[6] < fullChunk || b[6] > lastChunk {
		return 0, nil
	}
	end := chunkHeader + int(binary.LittleEndian.Uint16(b[4:]))
	if end > len(b) {
		return 0, nil
	}
	sum := crc32.Checksum(b[6:end], castagnoli)
	if binary.LittleEndian.Uint32(b) != (sum>>15|sum<<17)+0xa282ead8 {
		return 0, nil
	}
	return b[6], b[chunkHeader:end]
}

// manifestRecord returns the record at pos and the position of the next one. The position is 0 if
// the record is incomplete.
func manifestRecord(b []byte, pos int) (edit []byte, next int) {
	for begun := false; ; begun = true {
		if left := manifestBlock - pos%manifestBlock; left < chunkHeader {
			pos += left
		}
		kind, payload := manifestChunk(b, pos)
		if begins := kind == fullChunk || kind == firstChunk; kind == 0 || begins == begun {
			return nil, 0
		}
		edit = append(edit, payload...)
		pos += chunkHeader + len(payload)
		if kind == fullChunk || kind == lastChunk {
			return edit, pos
		}
	}
}

// listsTables reports whether a record has fields that the record of an empty database lacks. That
// one has only numbers and the name of an order.
func listsTables(edit []byte) bool {
	const order, log, nextFile, lastSequence, previousLog = 1, 2, 3, 4, 9
	for len(edit) > 0 {
		field, n := binary.Uvarint(edit)
		value, m := binary.Uvarint(edit[max(n, 0):])
		if n <= 0 || m <= 0 {
			return true
		}
		edit = edit[n+m:]
		switch field {
		case order:
			edit = edit[min(value, uint64(len(edit))):]
		case log, nextFile, lastSequence, previousLog:
		default:
			return true
		}
	}
	return false
}
