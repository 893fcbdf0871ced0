package spec

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode"
)

// MaxErrors is the most errors that are reported of one file.
const MaxErrors = 100

// ExcerptWidth is the most characters of a source line in an excerpt.
const ExcerptWidth = 120

// Error is one thing wrong with a pipeline file.
type Error struct {
	File    string // as it was given to Load or Parse
	Line    int    // from 1; 0 where the error is about the file as a whole
	Column  int    // in characters, from 1; 0 with Line
	Field   string // where in the pipeline: "steps[1].score.inputs[2]"; empty where YAML itself is unreadable
	Message string // what is wrong
	Hint    string // what to do next; may be empty
	Excerpt string // the source line and a caret under the place; empty where there is none
	Err     error  // behind it, or nil
}

// Unwrap returns what is behind it.
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

// Errors is every thing wrong with a pipeline file, in the order of the file.
type Errors []*Error

// Error returns the errors below each other.
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

// Sorted returns the errors in file order as an error, nil where there is none.
// It is cut where there are more than maxErrors.
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

// Shorten returns text quoted, and cut where it is long.
func Shorten(text string) string {
	if runes := []rune(text); len(runes) > 60 {
		return strconv.Quote(string(runes[:60])) + "..."
	}
	return strconv.Quote(text)
}

// Source is the text of a file and where its lines start.
type Source struct {
	name  string
	kind  string // what the file is to be: "pipeline"
	Text  string
	lines []int // offset of each line's first byte
}

// NewSource returns the source of a file of that name and text.
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

// ErrorAt makes an error at a byte offset of the source.
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

// errorOf is errorAt of what is wrong with a pipeline.
func (s *Source) errorOf(offset int, e *Problem) *Error {
	found := s.ErrorAt(offset, e.Path, e.Message, e.Hint)
	found.Err = e.Err
	return found
}

// Explain returns a problem with its place in the file. If the path of the problem is not
// there, its nearest parent is shown.
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

// excerpt renders a source line with a caret under its character at index
// caret. A long line is cut to what surrounds the caret, and what does not
// print is shown as a question mark, so that no file can drive a terminal.
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
