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

// appendPlace appends the sort key of an event: its time, partition and offset. A repartitioned
// event has the partition and offset of the original event. An event that a group or join made has
// those of its first or left event, and its own id. The key is therefore the same with any
// parallelism.
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

// appendTime appends a time in microseconds in an encoding that sorts by time.
func appendTime(dst []byte, us int64) []byte {
	return binary.BigEndian.AppendUint64(dst, uint64(us)^1<<63)
}

// timeOf decodes a time of appendTime.
func timeOf(key []byte) int64 { return int64(binary.BigEndian.Uint64(key) ^ 1<<63) }

// appendRow appends a row in the encoding of a run: a bit for each slot with a value, numbers in 8
// bytes, and texts after their sizes.
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

// errRun means that the contents of a temporary file changed after it was written.
var errRun = errors.New("a temporary file was changed while it was read")

// readRow decodes a row of appendRow with at most the given numbers of slots. Its texts alias src.
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
