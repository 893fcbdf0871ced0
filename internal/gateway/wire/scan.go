package wire

import (
	"bytes"
	"encoding/json"
	"slices"
)

// scanner scans JSON, one token at a time. It supports the JSON of event frames. It accepts less
// than encoding/json, never more. If it fails, the caller must use encoding/json, which also
// returns the error.
type scanner struct {
	src    []byte
	i      int
	failed bool
	untidy bool // json.Marshal would write other bytes: there is white space, or one of <>& or the first byte of U+2028
}

const scanDepth = 64 // maximum nesting of values

// Classes of the bytes in a string.
const (
	plain   = iota // ASCII without special meaning
	other          // part of a non-ASCII character
	altered        // json.Marshal may escape it
	ending         // quote, backslash or control character
)

var classes = func() (c [256]byte) {
	for i := range c {
		switch {
		case i < ' ' || i == '"' || i == '\\':
			c[i] = ending
		case i == '<' || i == '>' || i == '&' || i == 0xe2:
			c[i] = altered
		case i >= 0x80:
			c[i] = other
		}
	}
	return c
}()

// scanEvent parses an event frame in the form that clients usually write: each field at most once,
// and only ASCII without escapes outside the payload. ok is false for every other frame.
func scanEvent(data []byte) (e *Submission, ok bool) {
	s := scanner{src: data}
	e = new(Submission)
	fields := 0
	for more := s.open('{', '}'); more; more = s.next('}') {
		name := s.text()
		s.take(':')
		field := e.scan(&s, name)
		if s.failed || fields&field != 0 {
			return nil, false
		}
		fields |= field
	}
	return e, fields&fieldType != 0 && s.end()
}

// Flags for the fields of a Submission that scan found.
const (
	fieldType = 1 << iota
	fieldEvent
	fieldSequence
	fieldCausal
	fieldTimestamp
	fieldPriority
	fieldTrace
	fieldCorrelation
	fieldPayload
)

// scan parses the value of a field.
func (e *Submission) scan(s *scanner, name []byte) (field int) {
	switch string(name) {
	case "type":
		s.failed = string(s.text()) != "event" || s.failed
		return fieldType
	case "eventId":
		e.EventID = string(s.text())
		return fieldEvent
	case "sequence":
		e.Sequence = s.integer()
		return fieldSequence
	case "causalId":
		e.CausalID = string(s.text())
		return fieldCausal
	case "timestamp":
		s.failed = e.Timestamp.UnmarshalJSON(s.raw()) != nil || s.failed
		return fieldTimestamp
	case "priority":
		n := s.integer()
		e.Priority = int(n)
		s.failed = int64(e.Priority) != n || s.failed
		return fieldPriority
	case "traceparent":
		e.TraceParent = string(s.text())
		return fieldTrace
	case "correlationId":
		e.CorrelationID = string(s.text())
		return fieldCorrelation
	case "payload":
		e.Payload = slices.Clone(s.raw())
		return fieldPayload
	}
	s.failed = true
	return 0
}

// validJSON is a faster json.Valid.
func validJSON(text []byte) bool {
	s := scanner{src: text}
	s.raw()
	return s.end() || json.Valid(text)
}

// appendJSON appends a value in the form that json.Marshal writes.
func appendJSON(b []byte, text json.RawMessage) ([]byte, error) {
	s := scanner{src: text}
	if s.raw(); s.end() && !s.untidy {
		return append(b, text...), nil
	}
	tidy, err := json.Marshal(text)
	return append(b, tidy...), err
}

// appendText appends a string in the form that json.Marshal writes.
func appendText(b []byte, text string) []byte {
	for i := range len(text) {
		if classes[text[i]] != plain {
			quoted, _ := json.Marshal(text) // json.Marshal never fails for a string
			return append(b, quoted...)
		}
	}
	return append(append(append(b, '"'), text...), '"')
}

// peek skips white space and returns the next byte; 0 at the end and after a failure.
func (s *scanner) peek() byte {
	for ; !s.failed && s.i < len(s.src); s.i++ {
		switch c := s.src[s.i]; c {
		case ' ', '\t', '\n', '\r':
			s.untidy = true
		default:
			return c
		}
	}
	return 0
}

func (s *scanner) take(c byte) {
	s.failed = s.peek() != c || s.failed
	s.i++
}

// end reports whether the scan succeeded and only white space is left.
func (s *scanner) end() bool {
	s.peek()
	return !s.failed && s.i == len(s.src)
}

// open enters an object or array, and reports whether it has a member.
func (s *scanner) open(begin, end byte) (more bool) {
	s.take(begin)
	if s.peek() == end {
		s.i++
		return false
	}
	return !s.failed
}

// next skips the separator after a member, and reports whether another member follows.
func (s *scanner) next(end byte) (more bool) {
	c := s.peek()
	s.i++
	s.failed = c != ',' && c != end || s.failed
	return c == ','
}

// text scans a string of plain characters and returns its content.
func (s *scanner) text() []byte {
	s.take('"')
	if s.failed {
		return nil
	}
	rest := s.src[s.i:]
	n := 0
	for n < len(rest) && classes[rest[n]] == plain {
		n++
	}
	s.failed = n == len(rest) || rest[n] != '"'
	s.i += n + 1
	return rest[:n]
}

// integer scans a number of at most 18 digits.
func (s *scanner) integer() (n int64) {
	negative := s.peek() == '-'
	if negative {
		s.i++
	}
	digits := s.digits()
	for _, c := range digits {
		n = n*10 + int64(c-'0')
	}
	s.failed = len(digits) == 0 || len(digits) > 18 || len(digits) > 1 && digits[0] == '0' || s.failed
	if negative {
		return -n
	}
	return n
}

func (s *scanner) digits() []byte {
	n := 0
	for !s.failed && s.i+n < len(s.src) && '0' <= s.src[s.i+n] && s.src[s.i+n] <= '9' {
		n++
	}
	if n == 0 {
		return nil
	}
	s.i += n
	return s.src[s.i-n : s.i]
}

// raw scans any value and returns it without surrounding white space.
func (s *scanner) raw() []byte {
	s.peek()
	begin := s.i
	if s.value(0); s.failed {
		return nil
	}
	return s.src[begin:s.i]
}

func (s *scanner) value(depth int) {
	switch c := s.peek(); {
	case depth == scanDepth:
		s.failed = true
	case c == '{':
		for more := s.open('{', '}'); more; more = s.next('}') {
			s.string()
			s.take(':')
			s.value(depth + 1)
		}
	case c == '[':
		for more := s.open('[', ']'); more; more = s.next(']') {
			s.value(depth + 1)
		}
	case c == '"':
		s.string()
	case c == 't':
		s.word("true")
	case c == 'f':
		s.word("false")
	case c == 'n':
		s.word("null")
	default:
		s.number()
	}
}

func (s *scanner) word(word string) {
	s.failed = !bytes.HasPrefix(s.src[s.i:], []byte(word)) || s.failed
	s.i += len(word)
}

// string scans a string.
func (s *scanner) string() {
	s.take('"')
	for !s.failed {
		rest := s.src[s.i:]
		n := 0
		for n < len(rest) && classes[rest[n]] <= other {
			n++
		}
		s.i += n + 1
		switch {
		case n == len(rest):
			s.failed = true
		case rest[n] == '"':
			return
		case classes[rest[n]] == altered:
			s.untidy = true
		default:
			s.escape(rest[n], rest[n+1:])
		}
	}
}

// escape scans the escape that starts with the backslash c and continues with rest.
func (s *scanner) escape(c byte, rest []byte) {
	if c != '\\' || len(rest) == 0 {
		s.failed = true
		return
	}
	s.i++
	switch rest[0] {
	case '"', '\\', '/', 'b', 'f', 'n', 'r', 't':
	case 'u':
		s.i += 4
		s.failed = len(rest) < 5 || bytes.ContainsFunc(rest[1:5], notHex)
	default:
		s.failed = true
	}
}

func notHex(r rune) bool {
	return !('0' <= r && r <= '9' || 'a' <= r && r <= 'f' || 'A' <= r && r <= 'F')
}

// number scans a number.
func (s *scanner) number() {
	if s.peek() == '-' {
		s.i++
	}
	whole := s.digits()
	s.failed = len(whole) == 0 || len(whole) > 1 && whole[0] == '0' || s.failed
	if s.i < len(s.src) && s.src[s.i] == '.' {
		s.i++
		s.failed = len(s.digits()) == 0 || s.failed
	}
	if s.i < len(s.src) && s.src[s.i]|' ' == 'e' {
		if s.i++; s.i < len(s.src) && (s.src[s.i] == '+' || s.src[s.i] == '-') {
			s.i++
		}
		s.failed = len(s.digits()) == 0 || s.failed
	}
}
