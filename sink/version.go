package sink

import (
	"strconv"
	"strings"

	"github.com/afterbay/afterbay/internal/event/header"
	"github.com/afterbay/afterbay/stream"
)

// IDOf returns the id of a record, as a pipeline that reads it does. A record without an id gets
// its position as id.
func IDOf(r *stream.Record) string {
	if id := header.IDOf(r); id != nil {
		return string(id)
	}
	return string(header.AppendPosition(nil, r.Partition, r.Offset))
}

// Version identifies the event that produced a record. A service that holds a row for the record's
// key compares versions. So a record that arrives again or late does not overwrite a newer one.
// Versions of one source are ordered by generation, offset and record.
type Version struct {
	Source     string // topic/partition of the event; versions of different sources cannot be compared
	Generation int64  // generation of the pipeline that wrote the record; 0 if no pipeline wrote it
	Offset     int64  // offset of the event
	Record     int64  // offset of the record in its topic, because one event can write several; -1 for a redriven record, which later records have overtaken
}

// VersionOf returns the version of a record. If no pipeline wrote the record, its own position is
// the version.
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

// Compare returns -1 if v is older than other, 0 if they are equal, and 1 if v is newer. Both must
// have the same source.
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
