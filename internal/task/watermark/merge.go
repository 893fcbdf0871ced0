// Package watermark decides the watermark of a topic that several source partitions
// are copied to. It is pure: what it knows comes from the copies' headers.
package watermark

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

// Never is the watermark of a source partition before its first record.
const Never = math.MinInt64

// idle is the watermark of a source partition that the others do not wait for.
const idle = math.MaxInt64

const idleText = "idle"

// Source is a topic whose events are copied.
type Source struct {
	Topic      string
	Partitions int32
}

// Heard is what a copy or announcement says: the headers source, the text
// "topic/partition@offset" without "@offset" in an announcement, and watermark,
// RFC 3339 or, in an announcement, "idle".
type Heard struct {
	Topic     int  // index of the source
	Event     bool // a copy, not an announcement
	at        int
	watermark int64
}

// State is what a merged partition knows of the source partitions.
type State struct {
	sources []Source
	marks   []int64 // by source and partition, microseconds
	dirty   []bool
}

// New returns the state before the first record.
func New(sources []Source) *State {
	s := &State{sources: sources}
	for _, source := range sources {
		for range source.Partitions {
			s.marks, s.dirty = append(s.marks, Never), append(s.dirty, false)
		}
	}
	return s
}

// Restore returns what a state has of the sources.
func Restore(view stream.View, sources []Source) (*State, error) {
	s := New(sources)
	for entry, err := range view.Scan([]byte{statekey.Source}) {
		if err != nil {
			return nil, err
		}
		if err := s.Load(string(entry.Key[1:]), entry.Value); err != nil {
			return nil, err
		}
	}
	return s, nil
}

var errHeaders = errors.New("the record does not say where it was copied from: only the pipeline writes this topic")

// Read reads the headers of a record. The error makes it a dead letter.
func (s *State) Read(source, watermark string) (Heard, error) {
	var h Heard
	var position string
	position, _, h.Event = strings.Cut(source, "@")
	var err error
	if h.Topic, h.at, err = s.find(position); err != nil {
		return h, err
	}
	if watermark == idleText && !h.Event {
		h.watermark = idle
		return h, nil
	}
	at, err := time.Parse(time.RFC3339Nano, watermark)
	if err != nil {
		return h, errHeaders
	}
	h.watermark = at.UnixMicro()
	return h, nil
}

// Topic returns the index of the source that a copy's header names.
func (s *State) Topic(source string) (int, error) {
	position, _, _ := strings.Cut(source, "@")
	topic, _, err := s.find(position)
	return topic, err
}

// find returns the place of a source partition, written "topic/partition".
func (s *State) find(position string) (topic, at int, err error) {
	slash := strings.LastIndexByte(position, '/')
	if slash < 0 {
		return 0, 0, errHeaders
	}
	partition, err := strconv.ParseInt(position[slash+1:], 10, 32)
	if err != nil {
		return 0, 0, errHeaders
	}
	for i, source := range s.sources {
		if source.Topic == position[:slash] && partition >= 0 && partition < int64(source.Partitions) {
			return i, at + int(partition), nil
		}
		at += int(source.Partitions)
	}
	return 0, 0, fmt.Errorf("%s is not one of the pipeline's inputs", position)
}

// Take takes in what was read and returns the watermark: the least over the
// source partitions that are not idle; Never where one of them had none, or all
// are idle. It may be below the one before.
func (s *State) Take(h Heard) int64 {
	if s.marks[h.at] != h.watermark {
		s.marks[h.at], s.dirty[h.at] = h.watermark, true
	}
	least := int64(idle)
	for _, mark := range s.marks {
		least = min(least, mark)
	}
	if least == idle {
		return Never
	}
	return least
}

// Changes calls write with each source partition, "topic/partition", whose
// watermark changed since the last call, and the 8 bytes to store.
func (s *State) Changes(write func(position string, data []byte)) {
	at := 0
	for _, source := range s.sources {
		for i := range source.Partitions {
			if s.dirty[at] {
				s.dirty[at] = false
				write(source.Topic+"/"+strconv.Itoa(int(i)), binary.BigEndian.AppendUint64(nil, uint64(s.marks[at])))
			}
			at++
		}
	}
}

// Load restores what Changes wrote.
func (s *State) Load(position string, data []byte) error {
	_, at, err := s.find(position)
	if err != nil || len(data) != 8 {
		return fmt.Errorf("source %q: stored state is damaged or of other inputs", position)
	}
	s.marks[at] = int64(binary.BigEndian.Uint64(data))
	return nil
}

// Idle is the watermark of an announcement that the others need not wait.
func Idle() string { return idleText }

// Text writes a watermark as Read reads it.
func Text(micros int64) string { return time.UnixMicro(micros).UTC().Format(time.RFC3339Nano) }

// announceEvery is how often, in event time, a source partition announces its
// watermark to all merged partitions, in microseconds.
const announceEvery = int64(10 * time.Second / time.Microsecond)

// Passes reports whether a watermark came to the next moment of announcement: a
// multiple of 10 s.
func Passes(before, after int64) bool {
	return after != Never && (before == Never || floor(after) > floor(before))
}

func floor(t int64) int64 {
	if t < 0 {
		t -= announceEvery - 1
	}
	return t / announceEvery
}
