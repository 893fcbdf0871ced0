// Package scaffold writes a first pipeline file from a sample of events. It reads their fields and
// types, and guesses which fields are the key, the event time, the id and the measures. Comments in
// the file give the reasons for the guesses.
//
// This package does not check its own output. Tests verify that config.Parse and pipeline.New
// accept every file that it can write.
package scaffold

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"

	"github.com/afterbay/afterbay/internal/event/decode"
	"github.com/afterbay/afterbay/internal/event/envelope"
	"github.com/afterbay/afterbay/internal/event/value"
	"github.com/afterbay/afterbay/internal/http/ingest"
	"github.com/afterbay/afterbay/stream"
)

const (
	columnsMax = 1000 // names to read
	fieldsMax  = 200  // fields in the pipeline file
	nameMax    = 100  // bytes
)

// Options configure Infer. The zero value suits NDJSON.
type Options struct {
	Name   string        // name of the source, for messages and for the topic; "" is "events"
	Format ingest.Format // "" is NDJSON

	// NoHeader means that the first line of CSV is an event. The columns are named c1, c2 and so
	// on, and the pipeline reads the raw lines.
	NoHeader bool

	Lines int    // most events to read; 0 is 10,000
	Bytes int    // most bytes of events to read; 0 is 16 MiB
	Key   string // the key field; "" guesses it
	Time  string // the event time field; "" guesses it
}

// Validate returns an error if the options are not valid.
func (o Options) Validate() error {
	if o.NoHeader && o.Format != ingest.CSV {
		return errors.New("only CSV has a header: leave out --no-header, or add --format csv")
	}
	if o.Lines < 0 || o.Bytes < 0 {
		return fmt.Errorf("a sample of %d lines and %d bytes: use 1 or more, or 0 for 10,000 lines and 16 MiB", o.Lines, o.Bytes)
	}
	return nil
}

// Findings are the results of reading a sample.
type Findings struct {
	Topic     string   // derived from the name of the source; also the name of the pipeline
	Events    int      // events read, without malformed ones
	Partial   bool     // the source has more lines than were read
	Malformed int      // records that are no JSON object or have a duplicate name
	Problem   string   // error of the first malformed record
	Fields    []*Field // in the order of their first occurrence
	More      int      // values under names beyond the first 1,000, which are not read

	Envelope envelope.Kind // envelope of the events
	Key      *Field
	ID       *Field   // nil if no field identifies events
	Time     *Time    // nil if the event time is the time of the append
	Measures []*Field // numbers worth summing, the likeliest first
	Kinds    []*Field // strings with few values
	Texts    []*Field // strings with distinct values that are worth counting

	options Options
	OfTopic
	wrapped bool // change events are wrapped in a payload
	lines   lines
}

// OfTopic has the findings that only records of a topic provide. It is zero for a file.
type OfTopic struct {
	Read    int   // number of records read
	Schemas []int // ids of their schemas, the newest last
	Keyed   bool  // the records have the same key as the pipeline

	topic *Topic   // nil for a file
	from  []origin // of the events
}

// Infer reads the events of source and returns findings about them. It returns a *KeyError if no
// field can be the key, or if the requested field cannot.
func Infer(source io.Reader, o Options) (*Findings, error) {
	if err := o.Validate(); err != nil {
		return nil, err
	}
	o.Name, o.Lines, o.Bytes = cmp.Or(o.Name, "events"), cmp.Or(o.Lines, 10_000), cmp.Or(o.Bytes, 16<<20)
	s := newScan(o)
	if o.NoHeader {
		source = s.withHeader(source)
	}
	_, err := ingest.Publish(context.Background(), s, source, ingest.Options{Name: o.Name, Format: o.Format})
	if err != nil && !errors.Is(err, errEnough) {
		return nil, err
	}
	s.look()
	f := s.findings
	f.Partial = err != nil
	switch {
	case f.Events == 0 && f.Malformed == 0:
		return nil, fmt.Errorf("%s holds no events: give some lines of NDJSON, or of CSV below a header", o.Name)
	case f.Events == 0:
		return nil, fmt.Errorf("%s: none of %d lines is a JSON object (%s): is it another format?", o.Name, f.Malformed, f.Problem)
	}
	return f, f.guess()
}

// errEnough stops the reading of a source.
var errEnough = errors.New("enough was read")

// scan reads a source. It is an ingest.Appender, so that a sample is read in the same way as by
// produce.
type scan struct {
	findings *Findings
	texts    [][]byte                        // of the events
	origins  []origin                        // of the texts; nil for a file
	schema   decode.Schema                   // newest schema of the records; nil if they have none
	declared map[decode.Origin]*declarations // by schema
	bytes    int
	wrapped  bool // change events are wrapped in a payload
	columns  map[string]*Field
	object   *decode.Scanner
	probes   [value.Bytes + 1]probe
	buffer   []byte
}

// probe decodes one field of one kind.
type probe struct {
	*decode.Scanner
	slot value.Slot
	row  value.Row
}

func newScan(o Options) *scan {
	s := &scan{findings: &Findings{Topic: topicOf(o.Name), options: o}, columns: map[string]*Field{}, object: decode.New(nil), declared: map[decode.Origin]*declarations{}}
	for _, kind := range []value.Kind{value.Int, value.Number, value.Time, value.String} {
		var schema value.Schema
		slot, err := schema.Add("v", value.Type{Kind: kind})
		if err != nil {
			panic(err) // cannot fail: there is only one name
		}
		s.probes[kind] = probe{decode.New([]decode.Field{{Name: "v", Slot: slot}}), slot, schema.NewRows(1)[0]}
	}
	return s
}

// topicOf derives the name of a topic from the name of a file.
func topicOf(source string) string {
	name, _, _ := strings.Cut(filepath.Base(source), ".")
	name = strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '_' || r == '-' {
			return r
		}
		return '-'
	}, name)
	return cmp.Or(strings.Trim(name[:min(len(name), nameMax)], "-_"), "events")
}

// Append implements ingest.Appender. It stores the values of the records.
func (s *scan) Append(_ context.Context, records ...stream.Record) error {
	o := &s.findings.options
	for i := range records {
		if len(s.texts) >= o.Lines || s.bytes >= o.Bytes {
			return errEnough
		}
		s.bytes += len(records[i].Value)
		s.texts = append(s.texts, bytes.Clone(records[i].Value))
	}
	return nil
}

// AppendOnce implements ingest.Appender.
func (s *scan) AppendOnce(ctx context.Context, _ string, _ int64, records ...stream.Record) (int, error) {
	return 0, s.Append(ctx, records...)
}

// look records the fields of all events and decides their types.
func (s *scan) look() {
	f := s.findings
	if f.Envelope, s.wrapped = envelopeOf(s.texts); s.schema != nil && !s.changes() {
		f.Envelope, s.wrapped = envelope.None, false
	}
	for i, text := range s.texts {
		if s.origins != nil && len(text) == 0 && s.origins[i].problem == nil && f.Envelope == envelope.Debezium {
			continue // a deletion, which is no event
		}
		if err := s.take(i, text); err != nil {
			if f.Malformed++; f.Problem == "" {
				f.Problem = fmt.Sprintf("%s: %v", s.at(i), err)
			}
		}
	}
	f.wrapped = s.wrapped
	for _, c := range f.Fields {
		if c.inner.open == '[' && !c.typed() {
			f.Fields = append(f.Fields, c.gathered()...)
		}
	}
	s.declareOthers()
	f.name()
	for _, c := range f.Fields {
		c.decide(f.Events)
	}
	f.Fields = slices.DeleteFunc(f.Fields, func(c *Field) bool { return c.group })
}

// take records the fields of an event.
func (s *scan) take(i int, text []byte) error {
	if s.origins == nil {
		return s.event(text)
	}
	if err := s.origins[i].problem; err != nil {
		return err
	}
	err := s.event(text)
	if err == nil {
		s.findings.from = append(s.findings.from, s.origins[i])
	}
	return err
}

// value records one value of a field.
func (s *scan) value(c *Field, raw []byte) {
	found := cell{event: int32(s.findings.Events), text: string(raw)}
	switch raw[0] {
	case 'n':
		return
	case 't', 'f':
		found.kind = value.Bool
	case '"':
		found.kind = value.String
		if p := s.probe(raw, value.String); p != nil {
			found.text = strings.Clone(p.row.Text(p.slot))
		}
		if p := s.probe(raw, value.Time); p != nil {
			found.kind, found.int = value.Time, p.row.Int(p.slot)
		}
	case '{', '[':
		if c.inner.open == 0 {
			c.inner.open = raw[0]
		}
		if c.inner.open != raw[0] {
			c.inner.open = '?' // objects and arrays
		}
		found.text = string(raw[:1])
		if raw[0] == '[' {
			c.Example = cmp.Or(c.Example, cut(strings.ToValidUTF8(string(raw), "?")))
			s.list(c, raw)
		}
	default:
		if p := s.probe(raw, value.Number); p != nil {
			found.kind, found.number = value.Number, p.row.Number(p.slot)
		}
		if p := s.probe(raw, value.Int); p != nil {
			found.kind, found.int = value.Int, p.row.Int(p.slot)
		}
	}
	c.add(found)
}

// probe decodes a value as a kind, in the same way as the pipeline. It returns nil if the pipeline
// would reject the value.
func (s *scan) probe(raw []byte, kind value.Kind) *probe {
	s.buffer = append(append(append(s.buffer[:0], `{"v":`...), raw...), '}')
	p := &s.probes[kind]
	if p.Scan(s.buffer, &p.row) != nil {
		return nil
	}
	return p
}
