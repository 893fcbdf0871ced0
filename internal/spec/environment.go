package spec

import (
	"fmt"
	"regexp"
	"strings"
	"unicode/utf8"

	"github.com/goccy/go-yaml/token"
)

// Lookup returns the value of an environment variable, and whether it is set: os.LookupEnv, or a
// function with the same behaviour.
type Lookup func(name string) (value string, set bool)

// maxExpanded limits, in bytes, the total size of the scalars of a document that name variables,
// after the variables are replaced.
const maxExpanded = 4 * MaxBytes

// variable matches a reference to a variable at the beginning of a text.
var variable = regexp.MustCompile(`^\$\{([A-Za-z_][A-Za-z0-9_]*)(:-([^}]*))?\}`)

// interpolate replaces the variables in n's text with their values: ${NAME}, or ${NAME:-default} if
// the variable may be unset or empty. $${ stands for the text ${. A value is read by the same rules
// as text of the file, but cannot add to the file's structure, and ${ in it is not a variable.
// interpolate reports whether all variables have a value. It is called once for each scalar.
func (r *Reader) interpolate(n *Node, path string) bool {
	if !strings.Contains(n.Text, "${") {
		return true
	}
	var text strings.Builder
	var origin []int // for each character of text, its column in the file
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

// Written returns the text of a scalar from byte from on. It writes the variables that begin there
// as the file has them. It returns "" if no variable begins there. n must have been read.
func (r *Reader) Written(n *Node, from int) string {
	var text strings.Builder
	at, named := 0, false
	quiet := &Reader{Source: r.Source, Lookup: r.Lookup} // errors were reported before
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

// firstPiece returns the first piece of text: a variable, the sign $${, or text up to the next
// dollar sign. If text begins with ${ but not with a variable, it returns all of it.
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

// piece returns the value of a piece of n's text. The piece stands at a column.
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
		return fail("`${` starts no variable", "write ${NAME} or ${NAME:-default}; for the text ${, write $${")
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

// IsForeign reports whether YAML reads unquoted text as something other than a string, true or
// false.
func IsForeign(text string) bool {
	switch token.New(text, text, &token.Position{}).Type {
	case token.StringType, token.BoolType:
		return false
	}
	return true
}
