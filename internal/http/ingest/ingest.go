// Package ingest converts NDJSON and CSV, from files, standard input and HTTP, to records of a
// topic.
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
	// LineBytesMax is the maximum length of a line or a CSV row.
	LineBytesMax = 1 << 20

	batchRecords = 4096
	batchBytes   = 1 << 20
)

// Format is the format of a source.
type Format string

// The values of Format. NDJSON has one JSON object on each line.
const (
	NDJSON Format = "ndjson"
	CSV    Format = "csv"
)

// Appender is the part of stream.Log that Publish needs.
type Appender interface {
	Append(ctx context.Context, records ...stream.Record) error
	AppendOnce(ctx context.Context, producer string, first int64, records ...stream.Record) (repeated int, err error)
}

// Options configures Publish.
type Options struct {
	Name   string // name of the source in messages; "" is "input"
	Topic  string
	Key    string // JSON field with the keys of records; "" appends records without keys
	Format Format // "" is NDJSON

	// Producer numbers the records from 1. Records that an earlier run of the same producer
	// appended are skipped. "" appends all records.
	Producer string

	// KeyRequired makes Publish return a *KeyError, before it appends anything, if no record of the
	// first batch has the field Key.
	KeyRequired bool

	// Progress is called after each appended batch; nil disables it.
	Progress func(Progress)
}

// Progress is the progress of Publish. A malformed line counts as a record: it becomes a dead
// letter of the pipeline that reads it.
type Progress struct {
	Lines    int64 // lines read, including blank ones and the CSV header
	Bytes    int64 // size of the records
	Appended int64 // appended records
	Repeated int64 // records skipped because the log had them
	Keyless  int64 // records without the key field, if there is one
}

// KeyError means that no record of a source has the key field.
type KeyError struct {
	Name    string // name of the source
	Key     string
	Records int      // number of examined records
	Fields  []string // fields of the first record
}

// Near returns the field with the most similar spelling, "" if none is similar.
func (e *KeyError) Near() string { return expression.Nearest(e.Key, e.Fields) }

// Error names the source, the key field and the fields of the first record.
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

// Publish appends the records of source in bounded batches until it ends. Blank lines are not
// records and have no number. Records that were appended before an error stay in the log. Another
// run with the same Producer continues from there.
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

// Each calls take with each record of a source until take returns an error. line is the first line
// of the record. value is valid until take returns. An empty CSV cell is null. If a row is not
// valid CSV or has another number of cells than the header, whole is false and value is its line.
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

// FileProducer returns the producer id for a file. It depends on the content, format and topic, not
// on the file name.
func FileProducer(sha256 string, topic string, format Format) string {
	if format == "" {
		format = NDJSON
	}
	return strings.Join([]string{"file", sha256, string(format), topic}, ":")
}

// batch holds records; their values share one buffer.
type batch struct {
	room    *server.Room // memory budget for records
	records []stream.Record
	bytes   []byte
	keyless int // records without the key field
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

// fieldsOf returns the first field names of an object in sorted order.
func fieldsOf(object []byte) []string {
	var members map[string]json.RawMessage
	if err := json.Unmarshal(object, &members); err != nil {
		return nil // the record becomes a dead letter
	}
	names := slices.Sorted(maps.Keys(members))
	return names[:min(len(names), fieldsShown)]
}

// fill reads records until the batch is full. more reports whether there may be others. If it
// returns an error, the batch holds the records before it.
func (b *batch) fill(r reader, topic, key string) (more bool, err error) {
	for more = true; more && err == nil && len(b.records) < batchRecords && len(b.bytes) < batchBytes; {
		more, err = b.take(r, topic, key)
	}
	return more, err
}

// take reads the next record.
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

// NewRecord returns a record of a topic with the partition chosen by its key. The key is the text
// of a JSON field of its value, or nil if key is "" or the value has no such field. The key may
// alias the value.
func NewRecord(topic, key string, value []byte) stream.Record {
	record := stream.Record{Partition: stream.Partition{Topic: topic, Index: stream.ByKey}, Value: value}
	if key != "" {
		if text, ok := decode.Key(value, key); ok {
			record.Key = text
		}
	}
	return record
}
