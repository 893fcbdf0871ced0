package ingest

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"

	"github.com/afterbay/afterbay/internal/http/server"
)

// LineError is a line that Publish cannot accept.
type LineError struct {
	Name      string // name of the source
	Line      int64  // from 1
	Reason    string
	Oversized bool // the line is longer than LineBytesMax
}

// Error returns the source, line and reason.
func (e *LineError) Error() string { return fmt.Sprintf("%s:%d: %s", e.Name, e.Line, e.Reason) }

// reader reads the values of records.
type reader interface {
	// next appends the value of the next record to dst. After the last one it returns io.EOF.
	next(dst []byte) ([]byte, error)
	// lines returns the number of lines read.
	lines() int64
	// last returns the first line of the last record, and whether the record is valid. A CSV row is
	// not if its syntax or its number of cells is wrong.
	last() (line int64, whole bool)
}

// newReader returns a reader of a source. It charges its buffers to room.
func newReader(source io.Reader, name string, format Format, room *server.Room) (reader, error) {
	if name == "" {
		name = "input"
	}
	if err := room.Take(sourceBytes); err != nil {
		return nil, err
	}
	lines := &lineReader{source: bufio.NewReaderSize(source, sourceBytes), name: name, room: room}
	switch format {
	case NDJSON, "":
		return lines, nil
	case CSV:
		return newCSVReader(lines)
	}
	return nil, fmt.Errorf("unknown format %q: use ndjson or csv", format)
}

const sourceBytes = 64 << 10 // size of the read buffer

// lineReader reads the lines that are not blank.
type lineReader struct {
	room   *server.Room
	source *bufio.Reader
	name   string
	line   int64 // lines read so far
}

func (r *lineReader) lines() int64 { return r.line }

func (r *lineReader) last() (line int64, whole bool) { return r.line, true }

func (r *lineReader) next(dst []byte) ([]byte, error) {
	for {
		at := len(dst)
		var err error
		if dst, err = r.read(dst); err != nil {
			return dst, err
		}
		if !blank(dst[at:]) {
			return dst, nil
		}
		dst = dst[:at]
	}
}

func blank(line []byte) bool { return len(bytes.TrimLeft(line, " \t\r")) == 0 }

// read appends the next line, without its line end, to dst. It removes a byte order mark before the
// first line.
func (r *lineReader) read(dst []byte) ([]byte, error) {
	at := len(dst)
	for {
		part, err := r.source.ReadSlice('\n')
		if len(part) == 0 && len(dst) == at && err != nil {
			return dst, r.failure(err)
		}
		var full error
		if dst, full = r.room.Add(dst, part); full != nil {
			return dst[:at], full
		}
		if len(dst)-at > LineBytesMax+len("\r\n") {
			r.line++
			return dst[:at], r.tooLong(r.line)
		}
		if err == nil || err == io.EOF {
			break
		}
		if !errors.Is(err, bufio.ErrBufferFull) {
			return dst[:at], r.failure(err)
		}
	}
	r.line++
	line := bytes.TrimSuffix(bytes.TrimSuffix(dst[at:], []byte("\n")), []byte("\r"))
	dst = dst[:at+len(line)]
	if r.line == 1 {
		line = bytes.TrimPrefix(line, []byte("\uFEFF"))
		dst = append(dst[:at], line...)
	}
	if len(line) > LineBytesMax {
		return dst[:at], r.tooLong(r.line)
	}
	return dst, nil
}

func (r *lineReader) failure(err error) error {
	if err == io.EOF {
		return err
	}
	return fmt.Errorf("read %s after line %d: %w", r.name, r.line, err)
}

func (r *lineReader) tooLong(line int64) error {
	return &LineError{r.name, line, "the line is longer than 1 MiB, the most that a record may have", true}
}

func (r *lineReader) refuse(line int64, reason string) error {
	return &LineError{r.name, line, reason, false}
}
