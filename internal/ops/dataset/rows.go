package dataset

import (
	"encoding/binary"
	"errors"
	"time"

	"github.com/afterbay/afterbay/internal/check/dryrun"
	"github.com/afterbay/afterbay/internal/event/header"
	"github.com/afterbay/afterbay/internal/event/value"
	"github.com/afterbay/afterbay/internal/state/deadletter"
)

// appendPlace appends the place of an event in the order of the rows: its time, and its
// partition and offset. For a copy that is those of the event copied; for what a group or
// join made of others, those of its first event or left, and its id. Neither the processes
// that ran nor their parallelism change it.
func appendPlace(dst []byte, at time.Time, e *dryrun.Event) []byte {
	r := e.Record
	partition, offset := r.Partition, r.Offset
	if from := header.SourceOf(r); from != "" {
		if p, err := deadletter.ParsePosition(from); err == nil {
			partition, offset = p.Partition, p.Offset
		}
	}
	dst = appendTime(dst, at.UnixMicro())
	dst = append(append(dst, partition.Topic...), 0)
	dst = binary.BigEndian.AppendUint32(dst, uint32(partition.Index))
	dst = binary.BigEndian.AppendUint64(dst, uint64(offset))
	if e.Made {
		dst = append(dst, header.Value(r, header.ID)...)
	}
	return dst
}

// appendTime appends a time in microseconds so that bytes are ordered as times are.
func appendTime(dst []byte, us int64) []byte {
	return binary.BigEndian.AppendUint64(dst, uint64(us)^1<<63)
}

// timeOf reads what appendTime appended.
func timeOf(key []byte) int64 { return int64(binary.BigEndian.Uint64(key) ^ 1<<63) }

// appendRow appends a row as it is kept in a run: whether each slot has a value, numbers in
// 8 bytes, and texts behind their sizes.
func appendRow(dst []byte, row *value.Row) []byte {
	for _, words := range [][]uint64{row.Present, row.Num} {
		for _, word := range words {
			dst = binary.LittleEndian.AppendUint64(dst, word)
		}
	}
	for _, text := range row.Str {
		dst = append(binary.AppendUvarint(dst, uint64(len(text))), text...)
	}
	return dst
}

// errRun says that a run is not what was written.
var errRun = errors.New("a temporary file was changed while it was read")

// readRow reads what appendRow appended of a row with at most as many slots. The texts alias
// the bytes.
func readRow(src []byte, row *value.Row, slots, numbers, texts int) error {
	row.Reset()
	words := (slots + 63) / 64
	if len(src) < 8*(words+numbers) {
		return errRun
	}
	for i := range words {
		row.Present[i], src = binary.LittleEndian.Uint64(src), src[8:]
	}
	for i := range numbers {
		row.Num[i], src = binary.LittleEndian.Uint64(src), src[8:]
	}
	for i := range texts {
		size, n := binary.Uvarint(src)
		if n <= 0 || size > uint64(len(src)-n) {
			return errRun
		}
		row.Str[i], src = value.Text(src[n:][:size]), src[n+int(size):]
	}
	return nil
}
