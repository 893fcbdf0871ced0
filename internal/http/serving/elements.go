package serving

import "bytes"

// elements splits a JSON array into its elements, or a sequence of JSON objects. It only counts
// brackets and quotes, so an invalid element does not affect the others.
type elements struct {
	line     int64
	begun    bool
	array    bool
	ended    bool // the array has ended
	comma    bool // a comma followed the last element
	skipping bool // the current element is too large
	at       int  // scan position in the window
	depth    int
	quoted   bool
	escaped  bool
}

func (e *elements) next(w *window) (record, bool) {
	for {
		if e.at == 0 && !e.skipping {
			e.space(w)
			if r, ok, more := e.between(w); ok || !more {
				return r, ok
			}
		}
		data := w.data()
		end := e.find(data)
		switch {
		case end >= 0:
		case e.skipping:
			e.cut(data)
			w.start, e.at = w.end, 0
			return e.truncated(w)
		case w.large():
			r := record{line: e.line + 1, fault: tooLarge(w.most)}
			e.cut(data)
			w.start, e.at, e.skipping = w.end, 0, true
			return r, true
		case w.eof:
			w.start = w.end
			return e.truncated(w)
		default:
			return record{}, false
		}
		r := record{text: bytes.TrimRight(data[:end], " \t\r\n"), line: e.line + 1}
		e.cut(data[:end])
		w.start += end
		e.at, e.comma = 0, false
		if e.array && end < len(data) && data[end] == ',' {
			w.start++
			e.comma = true
		}
		if e.skipping {
			e.skipping = false
			continue
		}
		if len(r.text) > w.most {
			r = record{line: r.line, fault: tooLarge(w.most)}
		} else if len(r.text) == 0 {
			r.fault = "an element is missing before a comma"
		}
		return r, true
	}
}

// again does nothing: an element contains no other records.
func (e *elements) again(*window, record) {}

// cut counts the lines of text that is removed from the window.
func (e *elements) cut(text []byte) { e.line += int64(bytes.Count(text, []byte{'\n'})) }

// space removes white space from the window.
func (e *elements) space(w *window) {
	data := w.data()
	rest := bytes.TrimLeft(data, " \t\r\n")
	e.cut(data[:len(data)-len(rest)])
	w.start += len(data) - len(rest)
}

// between scans the position where an element can start. more is false if no element starts there;
// ok is then true at the end of the input.
func (e *elements) between(w *window) (r record, ok, more bool) {
	data := w.data()
	if len(data) == 0 {
		if w.eof && e.array && !e.ended {
			r, ok = e.truncated(w)
		}
		return r, ok, false
	}
	if !e.begun {
		e.begun = true
		if e.array = data[0] == '['; e.array {
			w.start++
			e.space(w)
			return e.between(w)
		}
	}
	switch {
	case e.ended:
		r.fault = "something follows the array"
	case e.array && data[0] == ']' && e.comma:
		e.comma = false // so that the array can end here
		return record{line: e.line + 1, fault: "an element is missing behind a comma"}, true, false
	case e.array && data[0] == ']':
		w.start++
		e.ended = true
		e.space(w)
		return e.between(w)
	case e.array && data[0] == '}':
		r.fault = "a closing bracket has no opening bracket"
	case !e.array && data[0] != '{':
		r.fault = "want JSON objects, or one array of records"
	default:
		return record{}, false, true
	}
	r.line, r.fatal = e.line+1, true
	return r, true, false
}

// truncated returns an error record if the body ends within an element or array.
func (e *elements) truncated(w *window) (record, bool) {
	if !w.eof {
		return record{}, false
	}
	e.ended, e.array = true, true
	return record{line: e.line + 1, fault: "the body ends too early", fatal: true}, true
}

// find returns the position after the first element of data, or -1.
func (e *elements) find(data []byte) int {
	for ; e.at < len(data); e.at++ {
		c := data[e.at]
		if e.quoted {
			switch {
			case e.escaped:
				e.escaped = false
			case c == '\\':
				e.escaped = true
			case c == '"':
				e.quoted = false
			}
			continue
		}
		switch c {
		case '"':
			e.quoted = true
		case '{', '[':
			e.depth++
		case '}', ']':
			if e.depth == 0 {
				return e.at
			}
			if e.depth--; e.depth == 0 && !e.array {
				return e.at + 1
			}
		case ',':
			if e.depth == 0 {
				return e.at
			}
		}
	}
	return -1
}
