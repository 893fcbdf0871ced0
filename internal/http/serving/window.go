package serving

import (
	"bytes"
	"io"
)

const windowBytes = 64 << 10

// record is one of a body's records. What it has aliases the window and holds
// until it is filled again.
type record struct {
	text  []byte
	line  int64  // where it starts, from 1
	fault string // why it is none; ""
	fatal bool   // nothing behind it can be read
	rest  int    // bytes of text behind its first line
}

// splitter finds the records of a body, one behind the other.
type splitter interface {
	// next takes the next whole record off the window. It is false where more
	// bytes are needed or, at the end of the body, no record is left.
	next(w *window) (record, bool)

	// again gives back the lines behind the first of a record that next
	// returned last, so that they are read as records of their own.
	again(w *window, r record)
}

// window is the part of a body that is in memory.
type window struct {
	body   io.Reader
	most   int               // bytes of a record
	more   func(n int) error // charges n bytes before they are allocated; nil does not
	buffer []byte
	start  int
	end    int
	begun  bool // the mark that some programs put before all was looked for
	eof    bool
	err    error // that came behind bytes
}

func newWindow(body io.Reader, recordBytes int) *window {
	return &window{body: body, most: recordBytes, buffer: make([]byte, windowBytes)}
}

// data returns what is not taken yet; nothing before it is known how the body
// begins.
func (w *window) data() []byte {
	if !w.begun {
		return nil
	}
	return w.buffer[w.start:w.end]
}

// large reports whether there is more than a record may have.
func (w *window) large() bool { return w.end-w.start > w.most }

// fill reads once. The error is never io.EOF, and comes behind all bytes before it.
func (w *window) fill() error {
	if w.err != nil {
		return w.err
	}
	if w.start > 0 {
		w.end = copy(w.buffer, w.buffer[w.start:w.end])
		w.start = 0
	}
	if w.end == len(w.buffer) { // most of a record is there: large ends this
		if w.more != nil {
			if err := w.more(len(w.buffer)); err != nil {
				return err
			}
		}
		grown := make([]byte, 2*len(w.buffer))
		copy(grown, w.buffer)
		w.buffer = grown
	}
	n, err := w.body.Read(w.buffer[w.end:])
	w.end += n
	w.eof = err == io.EOF
	if data := w.buffer[w.start:w.end]; !w.begun && (w.eof || !bytes.HasPrefix(byteOrderMark, data)) {
		w.begun = true
		w.start += len(data) - len(bytes.TrimPrefix(data, byteOrderMark))
	}
	switch {
	case w.eof:
		return nil
	case n > 0:
		w.err = err
		return nil
	}
	return err
}

var byteOrderMark = []byte("\xef\xbb\xbf")

// lines splits a body at its newlines. Blank lines are no records.
type lines struct {
	line     int64
	searched int  // bytes of the window without a newline
	skipping bool // of a line that is too long, up to its end
}

func (l *lines) next(w *window) (record, bool) {
	for {
		data := w.data()
		end := bytes.IndexByte(data[l.searched:], '\n')
		switch {
		case end >= 0:
			end += l.searched
			w.start += end + 1
		case l.skipping:
			w.start, l.searched = w.end, 0
			return record{}, false
		case w.large():
			w.start, l.searched, l.skipping = w.end, 0, true
			l.line++
			return record{line: l.line, fault: tooLarge(w.most)}, true
		case !w.eof || len(data) == 0:
			l.searched = len(data)
			return record{}, false
		default:
			end = len(data)
			w.start = w.end
		}
		l.searched = 0
		if l.skipping {
			l.skipping = false
			continue
		}
		l.line++
		text := bytes.TrimSuffix(data[:end], []byte{'\r'})
		if blank(text) {
			continue
		}
		if len(text) > w.most {
			return record{line: l.line, fault: tooLarge(w.most)}, true
		}
		return record{text: text, line: l.line}, true
	}
}

// again has nothing to give back: a line has no others.
func (l *lines) again(*window, record) {}

func blank(text []byte) bool {
	for _, c := range text {
		if c != ' ' && c != '\t' && c != '\r' && c != '\n' {
			return false
		}
	}
	return true
}

// quoting is where in a row of CSV a splitter is.
type quoting uint8

const (
	outside quoting = iota
	inside
	closed // just behind the quote that ends a cell, or the first of two
)

// cellLines splits CSV into rows: lines, but for newlines inside of quotes. A
// quote opens a cell only where the cell starts.
type cellLines struct {
	line     int64 // lines that are taken
	at       int   // what of the window was looked at
	quote    quoting
	skipping bool
}

func (c *cellLines) next(w *window) (record, bool) {
	for {
		data := w.data()
		if c.skipping {
			newline := bytes.IndexByte(data, '\n')
			if newline < 0 {
				w.start = w.end
				return record{}, false
			}
			w.start += newline + 1
			c.line++
			c.skipping = false
			continue
		}
		end := c.find(data)
		if end < 0 && w.large() {
			return c.oversize(w, data), true
		}
		if end < 0 && (!w.eof || len(data) == 0) {
			return record{}, false
		}
		unclosed := end < 0 && c.quote == inside
		if end < 0 {
			end = len(data)
		}
		w.start += end
		r := c.row(data[:end])
		if blank(r.text) {
			continue
		}
		switch {
		case unclosed:
			r.fault = "a quote is not closed"
		case len(r.text) > w.most:
			r.fault, r.rest = tooLarge(w.most), 0
		}
		return r, true
	}
}

// row returns the row that text is, and counts its lines.
func (c *cellLines) row(text []byte) record {
	c.at, c.quote = 0, outside
	r := record{line: c.line + 1, text: bytes.TrimSuffix(bytes.TrimSuffix(text, []byte{'\n'}), []byte{'\r'})}
	c.line += int64(bytes.Count(text, []byte{'\n'}))
	if text[len(text)-1] != '\n' {
		c.line++
	}
	if newline := bytes.IndexByte(text, '\n'); newline >= 0 {
		r.rest = len(text) - newline - 1
	}
	return r
}

// find returns the place behind the row that data starts with, or -1.
func (c *cellLines) find(data []byte) int {
	if c.at == 0 && c.quote == outside {
		end := bytes.IndexByte(data, '\n')
		if end >= 0 && bytes.IndexByte(data[:end], '"') < 0 {
			return end + 1
		}
	}
	for ; c.at < len(data); c.at++ {
		if c.quote == inside {
			end := bytes.IndexByte(data[c.at:], '"')
			if end < 0 {
				c.at = len(data)
				return -1
			}
			c.at += end
			c.quote = closed
			continue
		}
		switch at := c.at; {
		case data[at] == '\n':
			return at + 1
		case data[at] == '"' && (c.quote == closed || at == 0 || data[at-1] == ','):
			c.quote = inside
		default:
			c.quote = outside
		}
	}
	return -1
}

// oversize takes a row that is too large off the window: the first line of one
// whose quote may never close, or all that is there of one long line.
func (c *cellLines) oversize(w *window, data []byte) record {
	r := record{line: c.line + 1, fault: tooLarge(w.most)}
	newline := bytes.IndexByte(data, '\n')
	if c.quote == inside && newline >= 0 {
		r.fault = "a quote is not closed within " + sizeText(w.most)
		c.line++
		w.start += newline + 1
	} else {
		w.start = w.end
		c.skipping = true
	}
	c.at, c.quote = 0, outside
	return r
}

// again gives back what stands behind the first line of a record, so that a
// stray quote costs one line.
func (c *cellLines) again(w *window, r record) {
	if r.rest == 0 {
		return
	}
	w.start -= r.rest
	c.line = r.line
	c.at, c.quote = 0, outside
}
