package serving

import "bytes"

// elements splits one JSON array into its elements, or takes JSON objects that
// stand one behind the other. It counts brackets and quotes only, so that an
// element that is no JSON costs no other.
type elements struct {
	line     int64
	begun    bool
	array    bool
	ended    bool // behind the array
	comma    bool // the last element was followed by one
	skipping bool // of an element that is too large
	at       int  // what of the window was looked at
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

// again has nothing to give back.
func (e *elements) again(*window, record) {}

// cut counts the lines of what is taken.
func (e *elements) cut(text []byte) { e.line += int64(bytes.Count(text, []byte{'\n'})) }

// space takes white space off the window.
func (e *elements) space(w *window) {
	data := w.data()
	rest := bytes.TrimLeft(data, " \t\r\n")
	e.cut(data[:len(data)-len(rest)])
	w.start += len(data) - len(rest)
}

// between looks at what stands where an element can start: more is false where
// none does, and ok where that is the end of all.
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
		e.comma = false // so that the array ends behind this
		return record{line: e.line + 1, fault: "an element is missing behind a comma"}, true, false
	case e.array && data[0] == ']':
		w.start++
		e.ended = true
		e.space(w)
		return e.between(w)
	case e.array && data[0] == '}':
		r.fault = "a bracket closes what is not open"
	case !e.array && data[0] != '{':
		r.fault = "want JSON objects, or one array of records"
	default:
		return record{}, false, true
	}
	r.line, r.fatal = e.line+1, true
	return r, true, false
}

// truncated says that the body ends within an element or array.
func (e *elements) truncated(w *window) (record, bool) {
	if !w.eof {
		return record{}, false
	}
	e.ended, e.array = true, true
	return record{line: e.line + 1, fault: "the body ends too early", fatal: true}, true
}

// find returns the place behind the element that data starts with, or -1.
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
