package state

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"

	"github.com/cockroachdb/pebble/v2"

	"github.com/afterbay/afterbay/internal/sys/vfs"
)

// checkManifest returns a *DamageError where Pebble would take damage of its
// MANIFEST for the end of it. The file is a list of records, each of which
// changes the database; Pebble stops at the first that is not whole, which is
// what an interrupted write leaves, and goes on with the database as it was
// before it, whatever follows.
//
// A record is synced before the next is begun, and a MANIFEST becomes the
// current one when its first two are, or one that lists no tables. Hence
//
//  1. no record begins behind one that is not whole;
//  2. behind a first record that lists tables there is another. The first does
//     not say which sequence numbers were given out: with it alone Pebble hides
//     what was written under them, gives them out again, and ends the process
//     with a panic in a goroutine of its own when it merges the two.
//
// What is left is a MANIFEST that ends with an earlier record. That is the
// database of an earlier moment, as after a crash: the log redoes what it
// lacks, or refuses where frames are gone.
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
		return bad(pos, "it has %d whole records, and more were durable", records)
	}
	return nil
}

// Records lie in chunks, and chunks in blocks, whose end stays empty where no
// header fits. A chunk is a checksum (4 bytes), a length (2), its kind and bytes
// of its record.
const (
	manifestBlock = 32 << 10
	chunkHeader   = 7

	fullChunk  = 1 // all of a record
	firstChunk = 2
	lastChunk  = 4 // 3 is one in between
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// manifestChunk returns the chunk at pos; kind 0 is one that is not whole.
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

// manifestRecord returns the record at pos and where the next one begins; 0 is
// where this one is not whole.
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

// listsTables reports whether a record has other fields than the numbers and the
// name of an order that one of an empty database has.
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
