package ingest

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"

	"github.com/afterbay/afterbay/internal/http/server"
)

// LineError is a line that Publish cannot take.
type LineError struct {
	Name      string // of the source
	Line      int64  // from 1
	Reason    string
	Oversized bool // it is longer than LineBytesMax
}

// Error returns source, line and reason.
func (e *LineError) Error() string { return fmt.Sprintf("%s:%d: %s", e.Name, e.Line, e.Reason) }

// reader yields the values of records.
type reader interface {
	// next appends the value of the next record to dst. It returns io.EOF
	// after the last one.
	next(dst []byte) ([]byte, error)
	// lines returns how many lines were read.
	lines() int64
	// last returns the line at which the last record begins, and whether the record is
	// whole: a row of CSV that is none, or has other cells than the header, is not.
	last() (line int64, whole bool)
}

// newReader returns a reader of a source. Room grows its buffers.
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

const sourceBytes = 64 << 10 // that are read at once

// lineReader yields the lines that are not blank.
type lineReader struct {
	room   *server.Room
	source *bufio.Reader
	name   string
	line   int64 // read so far
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

// read appends the next line, without its end, to dst. A byte order mark before
// the first is not part of it.
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
