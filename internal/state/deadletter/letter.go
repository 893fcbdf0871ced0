// Package deadletter reads the dead letters of pipelines and settles them: events are
// sent back to where they failed, or dropped. What is settled is the state of a
// group of its own beside the topic of the letters, written in the step that
// sends the events, so that each is sent once whatever crashes.
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

// Topic returns the topic of the dead letters of a group: of a pipeline, a sink or
// the sequencer of a gateway.
func Topic(group string) string { return naming.Of(group, naming.DeadLetters) }

// IsTopic reports whether a topic is one of Topic.
func IsTopic(name string) bool {
	_, ok := naming.Owner(name, naming.DeadLetters)
	return ok
}

// Group returns the group that knows which dead letters of a pipeline are
// settled. No pipeline or sink has such a name.
func Group(pipeline string) string { return naming.Of(pipeline, naming.DeadLetters) }

// IsGroup reports whether a group is one of Group.
func IsGroup(group string) bool {
	_, ok := naming.Owner(group, naming.DeadLetters)
	return ok
}

// SinkTopic returns the topic by which the dead letters of a sink are sent back to
// it, and SinkGroup the group that reads it, beside the sink's own. No other reader
// of what the pipeline wrote so sees them again.
func SinkTopic(group string) string { return naming.Of(group, naming.Redrive) }

// SinkGroup returns the group that reads SinkTopic.
func SinkGroup(group string) string { return naming.Of(group, naming.Redrive) }

// Deliver is where the dead letters of sinks go on: they are handed to their
// service.
const Deliver = "deliver"

// Ending is a failure that is no fault of its event: the pipeline had no room or no
// time for it. Its dead letter has header.Code and header.After. The client of
// the event gets both, and may send the event again.
type Ending struct {
	Code  string        // Expired or TenantQuota
	After time.Duration // how long the client is to wait
	Err   error         // for the letter
}

// The codes of an Ending.
const (
	Expired     = "expired"      // it waited for too long
	TenantQuota = "tenant_quota" // too many events of its tenant wait
)

// Error says what happened.
func (e *Ending) Error() string { return e.Err.Error() }

// Unwrap returns what happened.
func (e *Ending) Unwrap() error { return e.Err }

// Position is where a record stands.
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

// ParsePosition reads what String returned.
func ParsePosition(text string) (Position, error) {
	at, slash := strings.LastIndexByte(text, '@'), strings.LastIndexByte(text, '/')
	if slash < 1 || at < slash {
		return Position{}, fmt.Errorf("%q is no topic/partition@offset", text)
	}
	partition, err := strconv.ParseUint(text[slash+1:at], 10, 31)
	offset, errOffset := strconv.ParseUint(text[at+1:], 10, 63)
	if err != nil || errOffset != nil {
		return Position{}, fmt.Errorf("%q is no topic/partition@offset", text)
	}
	return Position{stream.Partition{Topic: text[:slash], Index: int32(partition)}, stream.Offset(offset)}, nil
}

// Letter is a dead letter.
type Letter struct {
	Record   stream.Record // of its topic: key, value and headers of the event, and those of its failure
	ID       string        // of the event, or of the record that a sink was to deliver
	Stage    string        // where it failed
	Reason   string
	Origin   string // topic/partition@offset where the event was read first: before it was copied
	Attempts int
	Resume   string // where it goes on, as package redrive writes it; "" is nowhere
	Settled  bool   // sent back or dropped
}

// Read returns the dead letter that a record of their topic is.
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

// Is reports whether an id is that of the letter or of its event.
func (l *Letter) Is(id string) bool { return id == l.ID || id == header.Get(&l.Record, header.ID) }

// Place returns where the letter stands.
func (l *Letter) Place() Position { return Position{l.Record.Partition, l.Record.Offset} }

// Refusal returns why the event cannot be sent back; "" where it can.
func (l *Letter) Refusal() string {
	truncated := header.Get(&l.Record, header.Truncated)
	switch {
	case l.Stage == "":
		return "it is no dead letter: it does not say where it failed"
	case l.Resume == "":
		return fmt.Sprintf("what is left of stage %s cannot be done without doing more a second time", l.Stage)
	case strings.Contains(truncated, "value"):
		return "its value was too large to be kept whole"
	case strings.Contains(truncated, "key"):
		return "its id and key were too large to be kept whole"
	case strings.Contains(truncated, "read headers"):
		return "its headers, which the pipeline reads, were too large to be kept: send the event again with smaller ones"
	case l.Resume == Deliver:
		return ""
	case NeedsRow(l.Resume) && header.Get(&l.Record, header.Row) == "":
		return "its row was too large to be kept, and without it the steps before would be done twice"
	}
	if _, err := ParsePosition(l.Origin); err != nil {
		return "it does not say where its event was read: " + err.Error()
	}
	return ""
}

// Again returns the record that sends the event back, to the partition it was
// read from, or what a sink was to deliver back to the sink. The letter must not
// have a Refusal.
func (l *Letter) Again() (stream.Record, error) {
	if l.Resume == Deliver {
		return l.deliverAgain(), nil
	}
	from, err := l.readFrom()
	if err != nil {
		return stream.Record{}, err
	}
	r := stream.Record{Partition: from, Time: l.Record.Time, Key: l.Record.Key, Value: l.Record.Value}
	if l.Stage == "time" { // its time was wrong, or too far past that of the append
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

// deliverAgain returns the record as it was, with how often it was tried.
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

// Return is what the record of an event that was sent back says.
type Return struct {
	Letters  string   // the topic its dead letter is in: that of the pipeline it is for
	Origin   Position // where the event was read first, which decides its names
	Resume   string
	Source   string // of a copy: where it was copied from
	Row      []byte // aliases the headers
	Attempts int    // so far
}

// Returned returns what the headers of an event that was sent back say, and nil
// where they are of another.
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
			r.Origin, _ = ParsePosition(string(h.Value)) // Again has read it
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
