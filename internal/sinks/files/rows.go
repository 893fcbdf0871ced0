package files

import (
	"bufio"
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"io"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/afterbay/afterbay/internal/event/decode"
	"github.com/afterbay/afterbay/internal/event/header"
	"github.com/afterbay/afterbay/internal/event/tabular"
	"github.com/afterbay/afterbay/internal/event/value"
	"github.com/afterbay/afterbay/sink"
	"github.com/afterbay/afterbay/stream"
)

// Prefix is the prefix of the columns that describe the origin of a record.
const Prefix = "afterbay_"

// The sink's own columns.
const (
	ID        = Prefix + "id"        // id of the record, or topic/partition@offset if it has none
	Partition = Prefix + "partition" // partition and
	Offset    = Prefix + "offset"    // offset in the topic that the sink reads
	Time      = Prefix + "time"
	Key       = Prefix + "key"
	Value     = Prefix + "value"        // NDJSON: a value that is not a JSON object, as text
	Base64    = Prefix + "value_base64" // NDJSON: a value that is not valid UTF-8, as base64
	Deleted   = Prefix + "deleted"      // true for a record without a value, which deletes its key
)

// provenance lists the headers that become columns, named Prefix plus the header name.
var provenance = [...]string{header.Position, header.Pipeline, header.Models, header.Approximate, header.Fallback, header.Stage, header.Error}

func columnOf(name string) string { return strings.ReplaceAll(name, "-", "_") }

// rowWriter writes records. If write returns an *unfit, the record is invalid and was not written.
type rowWriter interface {
	write(r *stream.Record) error
	close() error
}

type unfit struct{ error }

// typed writes the named members of values into typed columns.
type typed struct {
	schema value.Schema
	err    error // error of building the schema
	out    tabular.Writer
	values *decode.Scanner
	row    value.Row

	id, partition, offset, time, key value.Slot
	headers                          [len(provenance)]value.Slot
	deleted                          *value.Slot // nil if no record deletes
}

func newTyped(columns []Column) (*typed, error) {
	text, optional := value.Type{Kind: value.String}, value.Type{Kind: value.String, Optional: true}
	t := &typed{}
	t.id = t.add(ID, text)
	t.partition = t.add(Partition, value.Type{Kind: value.Int})
	t.offset = t.add(Offset, value.Type{Kind: value.Int})
	t.time = t.add(Time, value.Type{Kind: value.Time})
	t.key = t.add(Key, optional)
	for i, name := range provenance {
		t.headers[i] = t.add(columnOf(name), optional)
	}
	fields := make([]decode.Field, len(columns))
	for i, c := range columns {
		typ, err := value.ReadType(c.Type)
		if err != nil {
			return nil, err
		}
		typ.Optional = true
		if c.Name == Deleted {
			slot := t.add(Deleted, typ)
			t.deleted, fields = &slot, fields[:i]
			continue
		}
		fields[i] = decode.Field{Name: c.Name, Slot: t.add(c.Name, typ)}
	}
	if t.err != nil {
		return nil, t.err
	}
	t.values, t.row = decode.New(fields), t.schema.NewRows(1)[0]
	return t, nil
}

func (t *typed) write(r *stream.Record) error {
	t.row.Reset()
	if r.Value == nil && t.deleted != nil {
		t.row.SetBool(*t.deleted, true)
	} else if err := t.values.Scan(r.Value, &t.row); err != nil {
		return &unfit{err}
	}
	t.row.SetText(t.id, strings.ToValidUTF8(sink.IDOf(r), "\uFFFD"))
	t.row.SetInt(t.partition, int64(r.Partition.Index))
	t.row.SetInt(t.offset, int64(r.Offset))
	t.row.SetInt(t.time, r.Time.UnixMicro())
	if r.Key != nil {
		t.row.SetText(t.key, strings.ToValidUTF8(string(r.Key), "\uFFFD"))
	}
	for i, name := range provenance {
		if text := header.Get(r, name); text != "" {
			t.row.SetText(t.headers[i], strings.ToValidUTF8(text, "\uFFFD"))
		}
	}
	return t.out.Write(&t.row)
}

func (t *typed) close() error { return t.out.Close() }

// add adds a column.
func (t *typed) add(name string, typ value.Type) (slot value.Slot) {
	slot, err := t.schema.Add(name, typ)
	t.err = errors.Join(t.err, err)
	return slot
}

// lines writes one JSON object on each line: the origin of the record, followed by the members of
// its value.
type lines struct {
	out  *bufio.Writer
	zip  io.Closer // nil without compression
	line []byte
}

func newLines(to io.Writer, zip io.Closer) *lines {
	return &lines{out: bufio.NewWriterSize(to, 64<<10), zip: zip}
}

func (l *lines) write(r *stream.Record) error {
	b := append(l.line[:0], '{')
	member := func(name, text string) {
		if len(b) > 1 {
			b = append(b, ',')
		}
		b = appendText(append(append(append(b, 0x22), name...), `":`...), text)
	}
	member(ID, strings.ToValidUTF8(sink.IDOf(r), "\uFFFD"))
	b = strconv.AppendInt(append(b, `,"`+Partition+`":`...), int64(r.Partition.Index), 10)
	b = strconv.AppendInt(append(b, `,"`+Offset+`":`...), int64(r.Offset), 10)
	b = append(r.Time.UTC().AppendFormat(append(b, `,"`+Time+`":"`...), time.RFC3339Nano), '"')
	if r.Key != nil {
		member(Key, string(r.Key))
	}
	for _, name := range provenance {
		if text := header.Get(r, name); text != "" {
			member(columnOf(name), text)
		}
	}
	switch inside, ok := members(r.Value); {
	case r.Value == nil:
		b = append(b, `,"`+Deleted+`":true}`...)
	case ok && len(inside) > 0:
		b = append(append(append(b, ','), inside...), '}')
	case ok:
		b = append(b, '}')
	case utf8.Valid(r.Value):
		member(Value, string(r.Value))
		b = append(b, '}')
	default:
		member(Base64, base64.StdEncoding.EncodeToString(r.Value))
		b = append(b, '}')
	}
	l.line = append(b, '\n')
	_, err := l.out.Write(l.line)
	return err
}

func (l *lines) close() error {
	if err := l.out.Flush(); err != nil || l.zip == nil {
		return err
	}
	return l.zip.Close()
}

// members returns the text between the braces of a JSON object, on one line. ok is false if text is
// not a JSON object or not valid UTF-8.
func members(text []byte) (inside []byte, ok bool) {
	if !utf8.Valid(text) || !json.Valid(text) {
		return nil, false
	}
	text = bytes.TrimSpace(text)
	if text[0] != '{' {
		return nil, false
	}
	if bytes.IndexByte(text, '\n') >= 0 {
		var one bytes.Buffer
		if json.Compact(&one, text) != nil {
			return nil, false
		}
		text = one.Bytes()
	}
	return bytes.TrimSpace(text[1 : len(text)-1]), true
}

// appendText appends a JSON string.
func appendText(dst []byte, text string) []byte {
	if !strings.ContainsFunc(text, func(r rune) bool { return r < ' ' || r > '~' || r == '"' || r == '\\' }) {
		return append(append(append(dst, '"'), text...), '"')
	}
	quoted, err := json.Marshal(text)
	if err != nil {
		panic(err) // a string can always be encoded
	}
	return append(dst, quoted...)
}
