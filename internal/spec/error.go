package spec

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode"
)

// MaxErrors limits the errors reported for one file.
const MaxErrors = 100

// ExcerptWidth limits the characters of a source line in an excerpt.
const ExcerptWidth = 120

// Error is one error in a pipeline file.
type Error struct {
	File    string // as the caller gave it to Load or Parse
	Line    int    // from 1; 0 if the error is about the whole file
	Column  int    // in characters, from 1; 0 if Line is 0
	Field   string // path in the pipeline: "steps[1].score.inputs[2]"; empty if the YAML itself is unreadable
	Message string // what is wrong
	Hint    string // what to do next; may be empty
	Excerpt string // the source line and a caret under the position; may be empty
	Err     error  // the cause, or nil
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// Error returns position, field, message and hint on one line, and the excerpt
// below it.
func (e *Error) Error() string {
	var text strings.Builder
	text.WriteString(e.File)
	if e.Line > 0 {
		fmt.Fprintf(&text, ":%d:%d", e.Line, e.Column)
	}
	for _, part := range []string{e.Field, e.Message, e.Hint} {
		if part != "" {
			text.WriteString(": " + part)
		}
	}
	if e.Excerpt != "" {
		text.WriteString("\n" + e.Excerpt)
	}
	return text.String()
}

// Errors lists all errors in a pipeline file, in the order of the file.
type Errors []*Error

// Error returns the texts of the errors, one below the other.
func (es Errors) Error() string {
	texts := make([]string, len(es))
	for i, e := range es {
		texts[i] = e.Error()
	}
	return strings.Join(texts, "\n")
}

// Unwrap returns the errors one by one, for errors.As.
func (es Errors) Unwrap() []error {
	list := make([]error, len(es))
	for i, e := range es {
		list[i] = e
	}
	return list
}

// Sorted returns the errors in file order, or nil for an empty list. It cuts the list to MaxErrors.
func (es Errors) Sorted() error {
	if len(es) == 0 {
		return nil
	}
	slices.SortStableFunc(es, func(a, b *Error) int {
		if a.Line != b.Line {
			return a.Line - b.Line
		}
		return a.Column - b.Column
	})
	if len(es) > MaxErrors {
		more := &Error{File: es[0].File, Message: "there is more than these errors", Hint: "correct them first"}
		return append(es[:MaxErrors:MaxErrors], more)
	}
	return es
}

// Shorten returns text quoted, and truncated if it is long.
func Shorten(text string) string {
	if runes := []rune(text); len(runes) > 60 {
		return strconv.Quote(string(runes[:60])) + "..."
	}
	return strconv.Quote(text)
}

// Source is the text of a file, with the offsets of its lines.
type Source struct {
	name  string
	kind  string // the expected kind of file: "pipeline"
	Text  string
	lines []int // offset of each line's first byte
}

// NewSource returns the source of a file with a name and a text.
func NewSource(name, text string) *Source {
	s := &Source{name: name, Text: text, lines: []int{0}}
	for i := range len(text) {
		if text[i] == '\n' {
			s.lines = append(s.lines, i+1)
		}
	}
	return s
}

// Line returns the line of a byte offset, from 1.
func (s *Source) Line(offset int) int {
	line, found := slices.BinarySearch(s.lines, offset)
	if found {
		line++
	}
	return line
}

// ErrorAt returns an error at a byte offset of the source.
func (s *Source) ErrorAt(offset int, field, message, hint string) *Error {
	offset = min(max(offset, 0), len(s.Text))
	line := s.Line(offset)
	start := s.lines[line-1]
	row, _, _ := strings.Cut(s.Text[start:], "\n")
	before := []rune(s.Text[start:offset])
	return &Error{
		File: s.name, Line: line, Column: len(before) + 1,
		Field: field, Message: message, Hint: hint,
		Excerpt: excerpt(line, len(before), []rune(strings.TrimRight(row, "\r"))),
	}
}

// errorOf is ErrorAt for a problem of a pipeline.
func (s *Source) errorOf(offset int, e *Problem) *Error {
	found := s.ErrorAt(offset, e.Path, e.Message, e.Hint)
	found.Err = e.Err
	return found
}

// Explain returns a problem with its position in the file. If the file does not have the path of
// the problem, the position is that of its nearest parent.
func (s *Source) Explain(places map[string]Place, e *Problem) *Error {
	for path := e.Path; path != ""; path = path[:max(0, strings.LastIndexAny(path, ".["))] {
		p, ok := places[path]
		if !ok {
			continue
		}
		offset := p.Offset
		if p.Scalar != nil && path == e.Path {
			offset = p.Scalar.OffsetOf(s.Text, e.Column)
		}
		return s.errorOf(offset, e)
	}
	return s.errorOf(places["pipeline"].Offset, e)
}

// excerpt renders a source line with a caret under the character at index caret. It cuts a long
// line to the surroundings of the caret. It shows unprintable characters as question marks, so that
// no file can send control codes to a terminal.
func excerpt(line, caret int, row []rune) string {
	if strings.TrimSpace(string(row)) == "" {
		return ""
	}
	from := 0
	if len(row) > ExcerptWidth {
		from = min(max(caret-ExcerptWidth/2, 0), len(row)-ExcerptWidth)
	}
	shown := slices.Clone(row[from:min(len(row), from+ExcerptWidth)])
	for i, c := range shown {
		switch {
		case c == '\t':
			shown[i] = ' '
		case !unicode.IsPrint(c):
			shown[i] = '?'
		}
	}
	lead, trail := "", ""
	if from > 0 {
		lead = "..."
	}
	if from+len(shown) < len(row) {
		trail = "..."
	}
	pad := strings.Repeat(" ", len(lead)+caret-from)
	return fmt.Sprintf("%5d | %s%s%s\n      | %s^", line, lead, string(shown), trail, pad)
}
