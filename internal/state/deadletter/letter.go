// Package deadletter reads the dead letters of pipelines and settles them: it sends their events
// back to where they failed, or drops them. Each pipeline has a group for its dead letter topic,
// with the settled letters as state. The transaction that sends the events also updates this state.
// So each event is sent exactly once, even after a crash.
package deadletter

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/afterbay/afterbay/internal/event/header"
	"github.com/afterbay/afterbay/internal/naming"
	"github.com/afterbay/afterbay/stream"
)

// Topic returns the dead letter topic of a group: of a pipeline, a sink or the sequencer of a
// gateway.
func Topic(group string) string { return naming.Of(group, naming.DeadLetters) }

// IsTopic reports whether name is a dead letter topic.
func IsTopic(name string) bool {
	_, ok := naming.Owner(name, naming.DeadLetters)
	return ok
}

// Group returns the group that stores which dead letters of a pipeline are settled. No pipeline or
// sink can have this name.
func Group(pipeline string) string { return naming.Of(pipeline, naming.DeadLetters) }

// IsGroup reports whether group is a group for settled dead letters.
func IsGroup(group string) bool {
	_, ok := naming.Owner(group, naming.DeadLetters)
	return ok
}

// SinkTopic returns the topic that sends dead letters of a sink back to it. The sink reads it with
// SinkGroup, beside its own group. So other readers of the pipeline's output do not see these
// records again.
func SinkTopic(group string) string { return naming.Of(group, naming.Redrive) }

// SinkGroup returns the group that reads SinkTopic.
func SinkGroup(group string) string { return naming.Of(group, naming.Redrive) }

// Deliver is the resume position of a sink's dead letters: the sink delivers them again.
const Deliver = "deliver"

// Ending is a failure without a fault of the event: the pipeline had no room or no time for it. Its
// dead letter has header.Code and header.After. The client of the event gets both and may send the
// event again.
type Ending struct {
	Code  string        // Expired or TenantQuota
	After time.Duration // how long the client should wait
	Err   error         // for the dead letter
}

// The codes of an Ending.
const (
	Expired     = "expired"      // the event waited too long
	TenantQuota = "tenant_quota" // too many events of its tenant are waiting
)

// Error returns the text of Err.
func (e *Ending) Error() string { return e.Err.Error() }

// Unwrap returns Err.
func (e *Ending) Unwrap() error { return e.Err }

// Position is the position of a record in a log.
type Position struct {
	stream.Partition
	Offset stream.Offset
}

// String returns topic/partition@offset.
func (p Position) String() string { return fmt.Sprintf("%v@%d", p.Partition, p.Offset) }

// Compare compares by (topic, partition, offset).
func (p Position) Compare(o Position) int {
	return cmp.Or(strings.Compare(p.Topic, o.Topic), cmp.Compare(p.Index, o.Index), cmp.Compare(p.Offset, o.Offset))
}

// ParsePosition decodes the result of String.
func ParsePosition(text string) (Position, error) {
	at, slash := strings.LastIndexByte(text, '@'), strings.LastIndexByte(text, '/')
	if slash < 1 || at < slash {
		return Position{}, fmt.Errorf("%q is not a topic/partition@offset", text)
	}
	partition, err := strconv.ParseUint(text[slash+1:at], 10, 31)
	offset, errOffset := strconv.ParseUint(text[at+1:], 10, 63)
	if err != nil || errOffset != nil {
		return Position{}, fmt.Errorf("%q is not a topic/partition@offset", text)
	}
	return Position{stream.Partition{Topic: text[:slash], Index: int32(partition)}, stream.Offset(offset)}, nil
}

// Letter is a dead letter.
type Letter struct {
	Record   stream.Record // in the dead letter topic: key, value and headers of the event, and headers of its failure
	ID       string        // id of the event, or of the record that a sink could not deliver
	Stage    string        // stage that failed
	Reason   string
	Origin   string // topic/partition@offset where the event was first read, before any copy
	Attempts int
	Resume   string // where the event continues, in the format of package redrive; "" if it cannot
	Settled  bool   // sent back or dropped
}

// Read decodes a record of a dead letter topic.
func Read(r stream.Record) Letter {
	l := Letter{
		Record: r, ID: header.Get(&r, header.Event), Stage: header.Get(&r, header.Stage), Reason: header.Get(&r, header.Error),
		Origin: header.Get(&r, header.Position), Resume: header.Get(&r, header.Resume), Attempts: 1,
	}
	if n, err := strconv.Atoi(header.Get(&r, header.Attempts)); err == nil {
		l.Attempts = n
	}
	return l
}

// Is reports whether id is the id of the dead letter or of its event.
func (l *Letter) Is(id string) bool { return id == l.ID || id == header.Get(&l.Record, header.ID) }

// Place returns the position of the dead letter.
func (l *Letter) Place() Position { return Position{l.Record.Partition, l.Record.Offset} }

// Refusal returns why the event cannot be sent back, or "" if it can.
func (l *Letter) Refusal() string {
	truncated := header.Get(&l.Record, header.Truncated)
	switch {
	case l.Stage == "":
		return "it is not a dead letter: it does not name the stage that failed"
	case l.Resume == "":
		return fmt.Sprintf("the rest of stage %s cannot run without repeating other steps", l.Stage)
	case strings.Contains(truncated, "value"):
		return "its value was too large to store"
	case strings.Contains(truncated, "key"):
		return "its id and key were too large to store"
	case strings.Contains(truncated, "read headers"):
		return "its headers, which the pipeline reads, were too large to store: send the event again with smaller headers"
	case l.Resume == Deliver:
		return ""
	case NeedsRow(l.Resume) && header.Get(&l.Record, header.Row) == "":
		return "its row was too large to store, and without it the earlier steps would run twice"
	}
	if _, err := ParsePosition(l.Origin); err != nil {
		return "it does not name the offset of its event: " + err.Error()
	}
	return ""
}

// Again returns the record that sends the event back to the partition it was read from. For a
// sink's dead letter it returns the record for SinkTopic. The letter must not have a Refusal.
func (l *Letter) Again() (stream.Record, error) {
	if l.Resume == Deliver {
		return l.deliverAgain(), nil
	}
	from, err := l.readFrom()
	if err != nil {
		return stream.Record{}, err
	}
	r := stream.Record{Partition: from, Time: l.Record.Time, Key: l.Record.Key, Value: l.Record.Value}
	if l.Stage == "time" { // its time was wrong, or too far after the append time
		r.Time = time.Now()
	}
	add := func(key, text string) { r.Headers = append(r.Headers, stream.Header{Key: key, Value: []byte(text)}) }
	add(header.ID, l.ID)
	add(header.Position, l.Origin)
	add(header.Redrive, l.Place().String())
	add(header.Resume, l.Resume)
	add(header.Attempts, strconv.Itoa(l.Attempts))
	if source := header.Get(&l.Record, header.Copied); source != "" {
		add(header.Copied, source)
	}
	if NeedsRow(l.Resume) {
		add(header.Row, header.Get(&l.Record, header.Row))
	}
	r.Headers = header.AppendForeign(r.Headers, l.Record.Headers)
	return r, nil
}

// readFrom returns the partition that the event was read from.
func (l *Letter) readFrom() (stream.Partition, error) {
	number := header.Get(&l.Record, header.Repartition)
	if number == "" {
		origin, err := ParsePosition(l.Origin)
		return origin.Partition, err
	}
	pipeline, _ := naming.Owner(l.Record.Partition.Topic, naming.DeadLetters)
	at, err := ParsePosition(naming.Of(pipeline, naming.Repartition) + "/" + number)
	return at.Partition, err
}

// deliverAgain returns the original record, with the number of attempts.
func (l *Letter) deliverAgain() stream.Record {
	r := l.Record
	group, _ := naming.Owner(r.Partition.Topic, naming.DeadLetters)
	r.Partition.Topic, r.Offset = SinkTopic(group), 0
	r.Headers = slices.DeleteFunc(slices.Clone(r.Headers), func(h stream.Header) bool {
		return h.Key == header.ID || h.Key == header.Event || h.Key == header.Stage || h.Key == header.Error || h.Key == header.Resume || h.Key == header.Redrive
	})
	r.Headers = append(r.Headers, stream.Header{Key: header.ID, Value: []byte(l.ID)}, stream.Header{Key: header.Redrive, Value: []byte(l.Place().String())})
	return r
}

// Return holds the headers of a redriven event.
type Return struct {
	Letters  string   // topic of its dead letter; it belongs to the pipeline that the event is for
	Origin   Position // where the event was first read, which decides its names
	Resume   string
	Source   string // for a copy: position of the original
	Row      []byte // aliases the headers
	Attempts int    // so far
}

// Returned decodes the headers of a redriven event. It returns nil for other events.
func Returned(headers []stream.Header) *Return {
	i := slices.IndexFunc(headers, func(h stream.Header) bool { return h.Key == header.Redrive })
	if i < 0 {
		return nil
	}
	letter, err := ParsePosition(string(headers[i].Value))
	if err != nil {
		return nil
	}
	r := &Return{Letters: letter.Topic}
	for i := range headers {
		switch h := &headers[i]; h.Key {
		case header.Position:
			r.Origin, _ = ParsePosition(string(h.Value)) // Again has already parsed it
		case header.Resume:
			r.Resume = string(h.Value)
		case header.Copied:
			r.Source = string(h.Value)
		case header.Row:
			r.Row = h.Value
		case header.Attempts:
			r.Attempts, _ = strconv.Atoi(string(h.Value)) // Again wrote it
		}
	}
	return r
}
