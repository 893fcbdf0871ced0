package task

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/afterbay/afterbay/internal/state/statekey"
	"github.com/afterbay/afterbay/stream"
)

// idleMark is the watermark of a source partition that the others do not wait for, and
// idleText what its broadcast says.
const (
	idleMark = math.MaxInt64
	idleText = "idle"
)

// sourceMark is what a copy or a broadcast says of its source partition. It has two
// headers: source, the text "topic/partition@offset", in a broadcast without "@offset",
// and watermark, RFC 3339 or, in a broadcast, "idle".
type sourceMark struct {
	topic     int  // index of the source
	event     bool // a copy, not a broadcast
	at        int
	watermark int64
}

// watermarks are those of the source partitions, as a partition of the repartition topic
// knows them from the headers of its records. They decide its own watermark.
type watermarks struct {
	sources    []Source
	partitions []int32 // of each source
	marks      []int64 // by source and partition, microseconds
	dirty      []bool
}

// newWatermarks returns the watermarks before the first record.
func newWatermarks(sources []Source, partitions []int32) *watermarks {
	s := &watermarks{sources: sources, partitions: partitions}
	for i := range sources {
		for range partitions[i] {
			s.marks, s.dirty = append(s.marks, never), append(s.dirty, false)
		}
	}
	return s
}

// restoreWatermarks returns those of a state.
func restoreWatermarks(view stream.View, sources []Source, partitions []int32) (*watermarks, error) {
	s := newWatermarks(sources, partitions)
	for entry, err := range view.Scan([]byte{statekey.Source}) {
		if err != nil {
			return nil, err
		}
		if err := s.load(string(entry.Key[1:]), entry.Value); err != nil {
			return nil, err
		}
	}
	return s, nil
}

var errHeaders = errors.New("the record does not say where it was copied from: only the pipeline writes this topic")

// read reads the headers of a record. The error makes it a dead letter.
func (s *watermarks) read(source, watermark string) (sourceMark, error) {
	var h sourceMark
	var position string
	position, _, h.event = strings.Cut(source, "@")
	var err error
	if h.topic, h.at, err = s.find(position); err != nil {
		return h, err
	}
	if watermark == idleText && !h.event {
		h.watermark = idleMark
		return h, nil
	}
	at, err := time.Parse(time.RFC3339Nano, watermark)
	if err != nil {
		return h, errHeaders
	}
	h.watermark = at.UnixMicro()
	return h, nil
}

// topic returns the index of the source that a copy's header names.
func (s *watermarks) topic(source string) (int, error) {
	position, _, _ := strings.Cut(source, "@")
	topic, _, err := s.find(position)
	return topic, err
}

// find returns the place of a source partition, written "topic/partition".
func (s *watermarks) find(position string) (topic, at int, err error) {
	slash := strings.LastIndexByte(position, '/')
	if slash < 0 {
		return 0, 0, errHeaders
	}
	partition, err := strconv.ParseInt(position[slash+1:], 10, 32)
	if err != nil {
		return 0, 0, errHeaders
	}
	for i, source := range s.sources {
		if source.Topic == position[:slash] && partition >= 0 && partition < int64(s.partitions[i]) {
			return i, at + int(partition), nil
		}
		at += int(s.partitions[i])
	}
	return 0, 0, fmt.Errorf("%s is not one of the pipeline's inputs", position)
}

// take takes in what was read and returns the watermark: the least over the source
// partitions that are not idle; never if one of them had none, or if all are idle. It
// may be below the one before.
func (s *watermarks) take(h sourceMark) int64 {
	if s.marks[h.at] != h.watermark {
		s.marks[h.at], s.dirty[h.at] = h.watermark, true
	}
	least := int64(idleMark)
	for _, mark := range s.marks {
		least = min(least, mark)
	}
	if least == idleMark {
		return never
	}
	return least
}

// tied returns the least partition of a source from which an event of a watermark's time may
// come; math.MaxInt32 for none.
func (s *watermarks) tied(topic int, watermark int64) int32 {
	at := 0
	for i := range topic {
		at += int(s.partitions[i])
	}
	for i := range s.partitions[topic] {
		if s.marks[at+int(i)] <= watermark {
			return i
		}
	}
	return math.MaxInt32
}

// changes calls write with each source partition, "topic/partition", whose
// watermark changed since the last call, and the 8 bytes to store.
func (s *watermarks) changes(write func(position string, data []byte)) {
	at := 0
	for of, source := range s.sources {
		for i := range s.partitions[of] {
			if s.dirty[at] {
				s.dirty[at] = false
				write(source.Topic+"/"+strconv.Itoa(int(i)), binary.BigEndian.AppendUint64(nil, uint64(s.marks[at])))
			}
			at++
		}
	}
}

// load restores what changes wrote.
func (s *watermarks) load(position string, data []byte) error {
	_, at, err := s.find(position)
	if err != nil || len(data) != 8 {
		return fmt.Errorf("source %q: stored state is damaged or of other inputs", position)
	}
	s.marks[at] = int64(binary.BigEndian.Uint64(data))
	return nil
}

// watermarkText writes a watermark as read reads it.
func watermarkText(micros int64) string { return time.UnixMicro(micros).UTC().Format(time.RFC3339Nano) }

// broadcastEvery is how often, in event time, a source partition broadcasts its
// watermark to all partitions of the repartition topic, in microseconds.
const broadcastEvery = int64(10 * time.Second / time.Microsecond)

// broadcasts reports whether a watermark reached the next multiple of 10 s, when it is
// broadcast.
func broadcasts(before, after int64) bool {
	return after != never && (before == never || broadcastFloor(after) > broadcastFloor(before))
}

func broadcastFloor(t int64) int64 {
	if t < 0 {
		t -= broadcastEvery - 1
	}
	return t / broadcastEvery
}
