package serving

import (
	"bytes"
	"io"
)

const windowBytes = 64 << 10

// record is a record of a body. It aliases the window and is valid until the next fill.
type record struct {
	text  []byte
	line  int64  // line where it starts, from 1
	fault string // why it is invalid, or ""
	fatal bool   // the rest of the body cannot be read
	rest  int    // bytes of text after its first line
}

// splitter finds the records of a body, one after the other.
type splitter interface {
	// next removes the next complete record from the window. It returns false if more bytes are
	// needed or, at the end of the body, no record is left.
	next(w *window) (record, bool)

	// again puts back the lines after the first of the record that next returned last, so that they
	// are read as records of their own.
	again(w *window, r record)
}

// window is the part of a body that is in memory.
type window struct {
	body   io.Reader
	most   int               // maximum size of a record
	more   func(n int) error // charges n bytes before they are allocated; may be nil
	buffer []byte
	start  int
	end    int
	begun  bool // the check for a byte order mark is done
	eof    bool
	err    error // error after the bytes in the window
}

func newWindow(body io.Reader, recordBytes int) *window {
	return &window{body: body, most: recordBytes, buffer: make([]byte, windowBytes)}
}

// data returns the unread bytes; none until the start of the body is known.
func (w *window) data() []byte {
	if !w.begun {
		return nil
	}
	return w.buffer[w.start:w.end]
}

// large reports whether there are more bytes than a record may have.
func (w *window) large() bool { return w.end-w.start > w.most }

// fill reads once. It never returns io.EOF, and returns an error only after all bytes before it.
func (w *window) fill() error {
	if w.err != nil {
		return w.err
	}
	if w.start > 0 {
		w.end = copy(w.buffer, w.buffer[w.start:w.end])
		w.start = 0
	}
	if w.end == len(w.buffer) { // the buffer is full of one record; large ends this
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

// lines splits a body at newlines. Blank lines are not records.
type lines struct {
	line     int64
	searched int  // bytes of the window already searched for a newline
	skipping bool // skipping the rest of a line that is too long
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

// again does nothing: a line contains no other records.
func (l *lines) again(*window, record) {}

func blank(text []byte) bool {
	for _, c := range text {
		if c != ' ' && c != '\t' && c != '\r' && c != '\n' {
			return false
		}
	}
	return true
}

// quoting is the splitter's state within a CSV row.
type quoting uint8

const (
	outside quoting = iota
	inside
	closed // directly after a quote that ends a cell or is the first of two
)

// cellLines splits CSV into rows: it splits at newlines, except inside quotes. A quote opens a
// quoted cell only at the start of the cell.
type cellLines struct {
	line     int64 // lines read so far
	at       int   // scan position in the window
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

// row returns a record for text, and counts its lines.
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

// find returns the position after the first row of data, or -1.
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

// oversize removes a row that is too large from the window. It removes the first line of a row with
// a quote that may never close, or everything available of one long line.
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

// again puts back everything after the first line of a record, so that a stray quote costs only one
// line.
func (c *cellLines) again(w *window, r record) {
	if r.rest == 0 {
		return
	}
	w.start -= r.rest
	c.line = r.line
	c.at, c.quote = 0, outside
}
