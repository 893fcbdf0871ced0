package sink

import (
	"strconv"
	"strings"

	"github.com/afterbay/afterbay/internal/event/header"
	"github.com/afterbay/afterbay/stream"
)

// IDOf returns the id of a record, as a pipeline that reads it does: its position if it
// brought none.
func IDOf(r *stream.Record) string {
	if id := header.IDOf(r); id != nil {
		return string(id)
	}
	return string(header.AppendPosition(nil, r.Partition, r.Offset))
}

// Version says which event a record is of: what a service compares that holds a
// row of its key, so that a record that comes again, or late, overwrites nothing
// newer. Two of one source are in the order of generation, offset and record.
type Version struct {
	Source     string // topic/partition of the event; those of different sources cannot be compared
	Generation int64  // of the pipeline when it wrote the record; 0 where no pipeline did
	Offset     int64  // of the event
	Record     int64  // of the record in its topic, of several that an event wrote; -1 of one that was sent back, which others have overtaken
}

// VersionOf returns the version of a record: by its own place where no pipeline
// wrote it.
func VersionOf(r *stream.Record) Version {
	v := Version{Source: r.Partition.String(), Offset: int64(r.Offset), Record: int64(r.Offset)}
	for i := range r.Headers {
		text := string(r.Headers[i].Value)
		switch r.Headers[i].Key {
		case header.Position:
			if at := strings.LastIndexByte(text, '@'); at > 0 {
				if offset, err := strconv.ParseInt(text[at+1:], 10, 64); err == nil {
					v.Source, v.Offset = text[:at], offset
				}
			}
		case header.Pipeline:
			if generation, err := strconv.ParseInt(text[strings.LastIndexByte(text, ' ')+1:], 10, 64); err == nil {
				v.Generation = generation
			}
		case header.Redrive:
			v.Record = -1
		}
	}
	return v
}

// Compare returns -1, 0 or 1 as v is older than another version of the same
// source, the same, or newer.
func (v Version) Compare(other Version) int {
	for _, pair := range [][2]int64{{v.Generation, other.Generation}, {v.Offset, other.Offset}, {v.Record, other.Record}} {
		switch {
		case pair[0] < pair[1]:
			return -1
		case pair[0] > pair[1]:
			return 1
		}
	}
	return 0
}
