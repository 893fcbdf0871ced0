package spec

import (
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// kind is the kind of a node.
type kind uint8

const (
	NoValue kind = iota // no value: `key:`, null or ~
	Scalar
	List
	Mapping
)

// String returns the name of the kind for messages.
func (k kind) String() string {
	return [...]string{"nothing", "a single value", "a list", "a mapping"}[k]
}

// Style is the quoting of a scalar.
type Style uint8

const (
	Plain        Style = iota
	SingleQuoted       // '' stands for a quote
	DoubleQuoted       // with escapes
	Block              // | or >
)

// Node is one value of the file. The parser's tree is converted to nodes first, so that readers
// handle only four kinds and have exact offsets.
type Node struct {
	Kind    kind
	Style   Style
	Offset  int    // byte offset of the opening quote, bracket, dash or first key; for a block scalar, of the first line of text
	Text    string // text of a scalar
	foreign bool   // plain text that YAML reads as a hexadecimal number, an infinity or the like
	Items   []*Node
	Entries []entry

	// For a scalar that named variables:
	written string // text before the variables were replaced
	origin  []int  // for each character of Text, and for its end, the column in written
}

// entry is a key of a mapping and its value.
type entry struct {
	Key    string
	Offset int // offset of the key
	Value  *Node
}

// OffsetOf returns the offset in source of the character of n's text at a column, counted from
// 1. For a block scalar it returns the start, and for a column past the end it returns the end.
//
// YAML folding changes only blanks and line breaks. OffsetOf therefore counts the other characters,
// and also the blanks within one line. The value of a variable has the position of its name.
func (n *Node) OffsetOf(source string, column int) int {
	if n.Kind != Scalar || n.Style == Block || column < 1 {
		return n.Offset
	}
	at := n.Offset
	if n.Style != Plain {
		at++
	}
	characters := []rune(n.Text)
	if n.origin != nil {
		column = n.origin[min(column, len(n.origin))-1]
		characters = []rune(n.written)
	}
	target := min(column-1, len(characters))
	blanks := 0 // consecutive blanks before the target
	for _, c := range characters[:target] {
		if blanks++; !unicode.IsSpace(c) {
			blanks = 0
			at = n.skipBlanks(source, at)
			width, _ := n.unit(source[at:])
			at += width
		}
	}
	if target < len(characters) && !unicode.IsSpace(characters[target]) {
		return n.skipBlanks(source, at)
	}
	for ; blanks > 0 && strings.HasPrefix(source[at:], " "); blanks-- {
		at++
	}
	return at
}

func (n *Node) skipBlanks(source string, at int) int {
	for at < len(source) {
		width, blank := n.unit(source[at:])
		if !blank {
			break
		}
		at += width
	}
	return at
}

// unit returns the width in bytes of the first character of a scalar's source, and whether the
// character is blank.
func (n *Node) unit(rest string) (width int, blank bool) {
	switch {
	case n.Style == SingleQuoted && strings.HasPrefix(rest, "''"):
		return 2, false
	case n.Style == DoubleQuoted && len(rest) > 1 && rest[0] == '\\':
		return escape(rest)
	}
	c, width := utf8.DecodeRuneInString(rest)
	return width, unicode.IsSpace(c)
}

// escape is unit for an escape of a double-quoted scalar.
func escape(rest string) (width int, blank bool) {
	digits, isHexadecimal := map[byte]int{'x': 2, 'u': 4, 'U': 8}[rest[1]]
	if !isHexadecimal {
		_, width = utf8.DecodeRuneInString(rest[1:])
		return 1 + width, strings.IndexByte("tnvfrNLP_ \r\n", rest[1]) >= 0
	}
	width = min(2+digits, len(rest))
	code, err := strconv.ParseUint(rest[2:width], 16, 32)
	if isPair := digits == 4 && err == nil && code>>10 == 0xD800>>10; isPair {
		return min(12, len(rest)), false
	}
	return width, err == nil && unicode.IsSpace(rune(code))
}
