// Package ingest is the way in: it turns NDJSON and CSV, from files, standard
// input and HTTP, into records of a topic.
package ingest

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"unsafe"

	"github.com/afterbay/afterbay/internal/event/decode"
	"github.com/afterbay/afterbay/internal/event/expression"
	"github.com/afterbay/afterbay/internal/http/server"
	"github.com/afterbay/afterbay/stream"
)

const (
	// LineBytesMax is the longest line, or CSV row, that is taken.
	LineBytesMax = 1 << 20

	batchRecords = 4096
	batchBytes   = 1 << 20
)

// Format is how the records are written in the source.
type Format string

// The formats. NDJSON is one JSON object a line.
const (
	NDJSON Format = "ndjson"
	CSV    Format = "csv"
)

// Appender is what Publish needs of a stream.Log.
type Appender interface {
	Append(ctx context.Context, records ...stream.Record) error
	AppendOnce(ctx context.Context, producer string, first int64, records ...stream.Record) (repeated int, err error)
}

// Options say what Publish reads and where it goes.
type Options struct {
	Name   string // of the source, for messages; "" is "input"
	Topic  string
	Key    string // JSON field that the records' keys are taken from; "" leaves them without
	Format Format // "" is NDJSON

	// Producer numbers the records from 1, so that those which an earlier run
	// of the same producer appended are left out. "" appends all of them.
	Producer string

	// KeyRequired refuses a source with a *KeyError, before anything is appended, if no record of its
	// first batch has the field Key.
	KeyRequired bool

	// Progress is called after each batch was appended; nil is not.
	Progress func(Progress)
}

// Progress is how far Publish came. A malformed line is a record too: it
// becomes a dead letter of the pipeline that reads it.
type Progress struct {
	Lines    int64 // read, blank ones and the CSV header included
	Bytes    int64 // of the records
	Appended int64 // records
	Repeated int64 // records left out, since the log had them
	Keyless  int64 // records without the field that keys them, if there is one
}

// KeyError says that no record of a source has the field that was named as their key.
type KeyError struct {
	Name    string // of the source
	Key     string
	Records int      // that were looked at
	Fields  []string // of the first record
}

// Near returns the field that is spelled most like the key, "" where none is close.
func (e *KeyError) Near() string { return expression.Nearest(e.Key, e.Fields) }

// Error returns the source, the field and what there is instead.
func (e *KeyError) Error() string {
	if slices.Contains(e.Fields, e.Key) {
		return fmt.Sprintf("%s: the field %q of its first record cannot be read: write the records as JSON in UTF-8, with a string or an int there", e.Name, e.Key)
	}
	text := fmt.Sprintf("%s: none of the first %d records has the field %q", e.Name, e.Records, e.Key)
	if e.Records == 1 {
		text = fmt.Sprintf("%s: its record does not have the field %q", e.Name, e.Key)
	}
	if len(e.Fields) == 0 {
		return text
	}
	return text + "; the first has " + strings.Join(e.Fields, ", ")
}

// Publish appends the records of source in bounded batches until it ends. Blank
// lines are no records and have no number. What was appended before an error
// stays; with the same Producer another run goes on from there.
func Publish(ctx context.Context, log Appender, source io.Reader, o Options) (Progress, error) {
	var done Progress
	reader, err := newReader(source, o.Name, o.Format, &server.Room{})
	if err != nil {
		return done, err
	}
	number := int64(1)
	for batch := newBatch(); ; batch.reset() {
		more, failure := batch.fill(reader, o.Topic, o.Key)
		if err := batch.checkKeys(&o); err != nil && number == 1 {
			return done, err
		}
		if len(batch.records) > 0 {
			repeated, err := appendBatch(ctx, log, o.Producer, number, batch.records)
			if err != nil {
				return done, fmt.Errorf("append to topic %q: %w", o.Topic, err)
			}
			number += int64(len(batch.records))
			done.Lines, done.Bytes = reader.lines(), done.Bytes+int64(len(batch.bytes))
			done.Appended += int64(len(batch.records) - repeated)
			done.Repeated += int64(repeated)
			done.Keyless += int64(batch.keyless)
			if o.Progress != nil {
				o.Progress(done)
			}
		}
		if failure != nil || !more {
			done.Lines = reader.lines()
			return done, failure
		}
	}
}

// Each calls take with the records of a source until it returns an error: the line at which
// a record begins, and its value, which is valid until take returns. An empty cell of CSV is
// null. A row that is not whole comes as its line: it is no CSV, or has other cells than the
// header.
func Each(source io.Reader, name string, format Format, take func(line int64, value []byte, whole bool) error) error {
	reader, err := newReader(source, name, format, &server.Room{})
	if err != nil {
		return err
	}
	if table, ok := reader.(*csvReader); ok {
		table.nulls = true
	}
	for value := []byte(nil); ; {
		if value, err = reader.next(value[:0]); err == io.EOF {
			return nil
		}
		if err == nil {
			line, whole := reader.last()
			err = take(line, value, whole)
		}
		if err != nil {
			return err
		}
	}
}

func appendBatch(ctx context.Context, log Appender, producer string, first int64, records []stream.Record) (int, error) {
	if producer == "" {
		return 0, log.Append(ctx, records...)
	}
	return log.AppendOnce(ctx, producer, first, records...)
}

// FileProducer names the producer of a file's records: the same content to the
// same topic is the same producer, whatever the file is called.
func FileProducer(sha256 string, topic string, format Format) string {
	if format == "" {
		format = NDJSON
	}
	return strings.Join([]string{"file", sha256, string(format), topic}, ":")
}

// batch is records whose values share one buffer.
type batch struct {
	room    *server.Room // for records
	records []stream.Record
	bytes   []byte
	keyless int // records without the field that keys them
}

func newBatch() *batch {
	return &batch{room: &server.Room{}, records: make([]stream.Record, 0, batchRecords), bytes: make([]byte, 0, batchBytes)}
}

func (b *batch) reset() {
	clear(b.records)
	b.records, b.bytes, b.keyless = b.records[:0], b.bytes[:0], 0
}

// checkKeys returns an error if a key is required and no record has one.
func (b *batch) checkKeys(o *Options) error {
	if !o.KeyRequired || o.Key == "" || len(b.records) == 0 || b.keyless < len(b.records) {
		return nil
	}
	return &KeyError{Name: o.Name, Key: o.Key, Records: len(b.records), Fields: fieldsOf(b.records[0].Value)}
}

const fieldsShown = 20

// fieldsOf returns the names of an object's first fields, sorted.
func fieldsOf(object []byte) []string {
	var members map[string]json.RawMessage
	if err := json.Unmarshal(object, &members); err != nil {
		return nil // it becomes a dead letter
	}
	names := slices.Sorted(maps.Keys(members))
	return names[:min(len(names), fieldsShown)]
}

// fill takes records until the batch is full; more says whether there may be
// others. With an error it holds the records before it.
func (b *batch) fill(r reader, topic, key string) (more bool, err error) {
	for more = true; more && err == nil && len(b.records) < batchRecords && len(b.bytes) < batchBytes; {
		more, err = b.take(r, topic, key)
	}
	return more, err
}

// take adds the next record.
func (b *batch) take(r reader, topic, key string) (more bool, err error) {
	at := len(b.bytes)
	b.bytes, err = r.next(b.bytes)
	if err == io.EOF {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	if err := b.room.Another(len(b.records), cap(b.records), unsafe.Sizeof(stream.Record{})); err != nil {
		return false, err
	}
	record := NewRecord(topic, key, b.bytes[at:len(b.bytes):len(b.bytes)])
	if key != "" && record.Key == nil {
		b.keyless++
	}
	b.records = append(b.records, record)
	return true, nil
}

// NewRecord returns a record of a topic that is placed by its key: the text of
// a JSON field of its value, or nothing where key is "" or the value has no
// such field. The key may alias the value.
func NewRecord(topic, key string, value []byte) stream.Record {
	record := stream.Record{Partition: stream.Partition{Topic: topic, Index: stream.ByKey}, Value: value}
	if key != "" {
		if text, ok := decode.Key(value, key); ok {
			record.Key = text
		}
	}
	return record
}
