package spec

import (
	"fmt"
	"regexp"
	"strings"
	"unicode/utf8"

	"github.com/goccy/go-yaml/token"
)

// Lookup returns the value of an environment variable, and whether it is set:
// os.LookupEnv, or a function of the same kind.
type Lookup func(name string) (value string, set bool)

// maxExpanded is the most bytes that the scalars of a document that name
// variables may have together once these have become their values.
const maxExpanded = 4 * MaxBytes

// variable is what names a variable in a scalar.
var variable = regexp.MustCompile(`^\$\{([A-Za-z_][A-Za-z0-9_]*)(:-([^}]*))?\}`)

// interpolate replaces the variables in n's text by their values: ${NAME}, or
// ${NAME:-default} where the variable may be unset or empty; $${ is the text
// ${. A value stays text, whatever it holds: it is read by the rules that hold
// for what stands in the file, but cannot add to the file's structure, and ${ in
// it is no variable. It reports whether all have one; a scalar is read once.
func (r *Reader) interpolate(n *Node, path string) bool {
	if !strings.Contains(n.Text, "${") {
		return true
	}
	var text strings.Builder
	var origin []int // of each character of text, its column in what is written
	column, complete := 1, true
	for rest := n.Text; rest != ""; {
		if r.Full() {
			return false
		}
		written := firstPiece(rest)
		value, ok := r.piece(n, path, column, written)
		complete = complete && ok
		if r.expanded += len(value); r.expanded > maxExpanded {
			r.Fail(n.Offset, path, "the variables make the file too large", "shorten them")
			return false
		}
		text.WriteString(value)
		literal := value == written
		for range value {
			origin = append(origin, column)
			if literal {
				column++
			}
		}
		if !literal {
			column += utf8.RuneCountInString(written)
		}
		rest = rest[len(written):]
	}
	if !complete {
		return false
	}
	n.written, n.Text, n.origin = n.Text, text.String(), append(origin, column)
	n.foreign = n.Style == Plain && IsForeign(n.Text)
	return true
}

// Written returns the text of a scalar that was read, from a byte on, with the variables
// that begin there as they are written. It is "" where no variable does.
func (r *Reader) Written(n *Node, from int) string {
	var text strings.Builder
	at, named := 0, false
	quiet := &Reader{Source: r.Source, Lookup: r.Lookup} // what is wrong was said
	for rest := n.written; rest != ""; {
		written := firstPiece(rest)
		value, _ := quiet.piece(n, "", 1, written)
		switch end := at + len(value); {
		case at >= from && variable.MatchString(written):
			named = true
			text.WriteString(written)
		case end > from:
			text.WriteString(value[max(0, from-at):])
		}
		at += len(value)
		rest = rest[len(written):]
	}
	if !named {
		return ""
	}
	return text.String()
}

// firstPiece returns what text starts with: a variable, the sign $${, ${ and all
// behind it where that is neither, or text up to the next dollar sign.
func firstPiece(text string) string {
	switch v := variable.FindString(text); {
	case v != "":
		return v
	case strings.HasPrefix(text, "$${"):
		return "$${"
	case strings.HasPrefix(text, "${"):
		return text
	}
	if end := strings.IndexByte(text[1:], '$'); end >= 0 {
		return text[:1+end]
	}
	return text
}

// piece returns what a piece of n's text, written at a column, stands for.
func (r *Reader) piece(n *Node, path string, column int, written string) (value string, ok bool) {
	switch {
	case written == "$${":
		return "${", true
	case !strings.HasPrefix(written, "${"):
		return written, true
	}
	fail := func(message, hint string) (string, bool) {
		r.Fail(n.OffsetOf(r.Source.Text, column), path, message, hint)
		return "", false
	}
	match := variable.FindStringSubmatch(written)
	if match == nil || strings.Contains(match[3], "${") {
		return fail("`${` starts no variable", "write ${NAME} or ${NAME:-default}; where the text ${ is meant, write $${")
	}
	name, hasDefault, otherwise := match[1], match[2] != "", match[3]
	value, set := r.Lookup(name)
	switch {
	case value == "" && hasDefault:
		return otherwise, true
	case !set:
		return fail("the environment variable "+name+" is not set", fmt.Sprintf("export %s=... or write ${%s:-default}", name, name))
	case !utf8.ValidString(value):
		return fail("the environment variable "+name+" is not UTF-8", fmt.Sprintf("export %s=... again", name))
	}
	return value, true
}

// IsForeign reports whether YAML reads text, written plain, as something else
// than text, true or false.
func IsForeign(text string) bool {
	switch token.New(text, text, &token.Position{}).Type {
	case token.StringType, token.BoolType:
		return false
	}
	return true
}
