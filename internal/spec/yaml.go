package spec

import (
	"errors"
	"fmt"
	"regexp"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/lexer"
	"github.com/goccy/go-yaml/parser"
	"github.com/goccy/go-yaml/token"
)

// The limits of a pipeline file. The parser's time grows with the square of the tokens of a mapping
// and of the nesting depth. Within these limits it stays below a second.
const (
	MaxBytes   = 1 << 20
	MaxTokens  = 30_000
	maxNesting = 32
	maxKey     = 256 // bytes
)

// Content describes a kind of file, for messages about files of other kinds.
type Content struct {
	Name    string // name of a document: "gateway"
	word    string // first word of a document
	begin   string // hint: how to begin a document
	smaller string // hint: what to do with a file that is too large
	apart   string // hint: what to do with a file of several documents; "" if a file may have several
}

var (
	PipelineFiles = Content{"pipeline", "pipeline", "start with `pipeline: <name>`, `input` and `steps`", "split it: a file holds the pipelines of one chain", ""}
	GatewayFiles  = Content{"gateway", "gateway", "start with `gateway: <name>`", "remove the parts that are not a gateway", "give each gateway a separate file"}
	KeysFiles     = Content{"key", "keys", "start with `keys:`, and below it `- {id, secret, audience}`", "publish many keys as a JWKS", "write all keys into one"}
	TokenFiles    = Content{"token", "tokens", "start with `tokens:`, and below it `- {name, sha256, roles}`", "give several clients one token", "write all tokens into one"}
	ManifestFiles = Content{"manifest", "model", "start with `model: <name>`", "a manifest is a page: put rows into the golden file", "write each model's manifest into a separate file"}
)

// Read splits a file into documents and reads each.
func (c *Content) Read(filename string, data []byte) (*Source, []Document, Errors) {
	if is, hint := c.Foreign(filename, data); is != "" {
		return NewSource(filename, ""), nil, Errors{{File: filename, Message: "this is " + is + ", not a " + c.Name + " file", Hint: hint}}
	}
	if len(data) > MaxBytes {
		return nil, nil, Errors{{File: filename, Message: "the file is larger than 1 MiB", Hint: c.smaller}}
	}
	s := NewSource(filename, strings.TrimPrefix(string(data), "\uFEFF"))
	s.kind = c.Name
	documents, found := ReadDocuments(s, c)
	return s, documents, found
}

// ReadOne reads a file with one mapping into a struct. The errors in its fields are in the Errors
// of the reader. The returned error means that the file has no readable fields.
func ReadOne[T any](c *Content, filename string, data []byte, lookup Lookup, ws []Field[T], into *T) (*Reader, *Node, error) {
	return ReadOneIn("", c, filename, data, lookup, ws, into)
}

// ReadOneIn is ReadOne for a file in a folder. Its relative paths are joined with the folder.
func ReadOneIn[T any](folder string, c *Content, filename string, data []byte, lookup Lookup, ws []Field[T], into *T) (*Reader, *Node, error) {
	s, documents, found := c.Read(filename, data)
	if len(documents) > 1 {
		found = append(found, s.ErrorAt(documents[1].Root.Offset, "", fmt.Sprintf("one of %d documents, but the file must have one", len(documents)), c.apart))
	}
	if len(found) > 0 {
		return nil, nil, found.Sorted()
	}
	r := &Reader{Source: s, Places: map[string]Place{}, Lookup: lookup, Folder: folder}
	MappingOf(ws).Read(r, documents[0].Root, "", into)
	return r, documents[0].Root, nil
}

// Document is one YAML document of a file, or the error that made it unreadable.
type Document struct {
	Root *Node // nil if the document has only comments
	err  *Error
}

// ReadDocuments splits the text into documents and reads each. It does not leave the split to the
// parser, because the parser drops the text after an empty document.
func ReadDocuments(s *Source, c *Content) ([]Document, Errors) {
	var documents []Document
	var found Errors
	left := MaxTokens
	marker := -1 // offset of the `---` above the part
	for start := 0; ; {
		end, next, err := partEnd(s, start)
		if err != nil {
			found = append(found, err)
		}
		d := readDocument(s, start, end, &left)
		switch {
		case d.err != nil:
			found = append(found, d.err)
		case d.Root != nil:
			documents = append(documents, d)
		case marker >= 0:
			found = append(found, s.ErrorAt(marker, "", "no "+c.Name+" follows this `---`", "remove it, or write a "+c.Name+" below it"))
		}
		if next < 0 || len(found) > MaxErrors {
			break
		}
		marker, start = end, next
	}
	if len(documents) == 0 && len(found) == 0 {
		found = append(found, s.ErrorAt(0, "", "the file holds no "+c.Name, c.begin))
	}
	return documents, found
}

// checkText reports bytes that YAML readers treat differently and pipeline files do not need:
// invalid UTF-8, tabs and control characters between start and end.
func checkText(s *Source, start, end int) *Error {
	for i, c := range s.Text[start:end] {
		i += start
		switch {
		case c == utf8.RuneError && !strings.HasPrefix(s.Text[i:], "\uFFFD"):
			return s.ErrorAt(i, "", fmt.Sprintf("the byte 0x%02x is not UTF-8", s.Text[i]), "save the file as UTF-8")
		case c == '\t':
			return s.ErrorAt(i, "", "a tab", `indent and separate with spaces; in double quotes, \t is a tab`)
		case c == '\n' || c == '\r' && strings.HasPrefix(s.Text[i:], "\r\n"):
		case unicode.IsControl(c):
			return s.ErrorAt(i, "", fmt.Sprintf("the control character %U", c), "remove it")
		}
	}
	return nil
}

// partEnd returns where the document at start ends and where the next one starts, or -1 if it is
// the last.
func partEnd(s *Source, start int) (end, next int, err *Error) {
	for at := start; at < len(s.Text); {
		line, _, broken := strings.Cut(s.Text[at:], "\n")
		after := at + len(line)
		if broken {
			after++
		}
		if rest, isMarker := strings.CutPrefix(line, "---"); isMarker && (rest == "" || strings.ContainsAny(rest[:1], " \r")) {
			if rest = strings.TrimSpace(rest); rest != "" && rest[0] != '#' {
				err = s.ErrorAt(at+strings.Index(line, rest), "", "text behind `---`", "start on the line below")
			}
			return at, after, err
		}
		at = after
	}
	return len(s.Text), -1, nil
}

// readDocument parses the text between start and end. It subtracts its tokens from left.
func readDocument(s *Source, start, end int, left *int) (d Document) {
	defer func() {
		// The parser is a library and its input comes from users: a panic in the parser becomes an
		// error of the file, and does not end the process.
		if recover() != nil {
			d = Document{err: s.ErrorAt(start, "", "this YAML cannot be read", "simplify it: mappings, lists and quoted text are enough")}
		}
	}()
	if d.err = checkText(s, start, end); d.err != nil {
		return d
	}
	tokens := lexer.Tokenize(s.Text[start:end])
	if *left -= len(tokens); *left < 0 {
		d.err = s.ErrorAt(start, "", fmt.Sprintf("the file has more than %d words and signs", MaxTokens), "move large tables out of it")
		return d
	}
	at, stray := locate(s.Text[:end], start, tokens)
	t := &tree{source: s, start: start, at: at, seen: make(map[*token.Token]bool, len(tokens))}
	if d.err = t.check(tokens); d.err != nil {
		return d
	}
	if stray != nil {
		d.err = t.invalid(stray, "unexpected text")
		return d
	}
	file, err := parser.Parse(tokens, 0, parser.AllowDuplicateMapKey())
	if err != nil {
		d.err = t.unreadable(err)
		return d
	}
	for _, doc := range file.Docs {
		if doc.Body == nil {
			continue
		}
		if d.Root != nil {
			d.err = s.ErrorAt(t.offset(doc.Body.GetToken(), start), "", "a second document", "separate pipelines by a line `---`")
			return d
		}
		d.Root = t.node(doc.Body, start)
	}
	if d.err = t.lost(tokens); d.err != nil {
		d.Root = nil
	}
	return d
}

// locate returns the offset of every token. The scanner's own positions are wrong after trailing
// blanks and for block scalars. locate therefore searches each token in the text, from the end of
// the previous one. If the text does not match a token, locate returns it as stray; the tokens
// after it have no offset.
func locate(text string, at int, tokens token.Tokens) (found map[*token.Token]int, stray *token.Token) {
	found = make(map[*token.Token]int, len(tokens))
	for _, tk := range tokens {
		at = skipBlank(text, at)
		found[tk] = at
		switch tk.Type {
		case token.SingleQuoteType, token.DoubleQuoteType:
			at = quoteEnd(text, at)
		case token.CommentType:
			if i := strings.IndexByte(text[at:], '\n'); i >= 0 {
				at += i
			} else {
				at = len(text)
			}
		default:
			for i, word := range strings.Fields(tk.Value) {
				at = skipBlank(text, at)
				if i == 0 {
					found[tk] = at
				}
				if !strings.HasPrefix(text[at:], word) {
					return found, tk
				}
				at += len(word)
			}
		}
	}
	return found, nil
}

func skipBlank(text string, at int) int {
	return len(text) - len(strings.TrimLeftFunc(text[at:], unicode.IsSpace))
}

// quoteEnd returns the offset after the quoted scalar that starts at at.
func quoteEnd(text string, at int) int {
	if at >= len(text) {
		return at
	}
	quote := text[at]
	for i := at + 1; i < len(text); i++ {
		switch {
		case quote == '"' && text[i] == '\\':
			i++
		case text[i] != quote:
		case quote == '\'' && i+1 < len(text) && text[i+1] == quote:
			i++
		default:
			return i + 1
		}
	}
	return len(text)
}

// tree converts the parser's tree of one document into nodes.
type tree struct {
	source *Source
	start  int
	at     map[*token.Token]int
	seen   map[*token.Token]bool // tokens that are part of a node
}

// offset returns the offset of a token, or otherwise if the parser made the token up.
func (t *tree) offset(tk *token.Token, otherwise int) int {
	t.seen[tk] = true
	if at, ok := t.at[tk]; ok {
		return at
	}
	return otherwise
}

// place returns the offset of a token for a message. If the token was not located, it uses the
// position of the scanner.
func (t *tree) place(tk *token.Token) int {
	if at, ok := t.at[tk]; ok {
		return at
	}
	return t.counted(tk.Position)
}

// refused holds a message and a hint for each YAML feature that pipeline files do not allow.
var refused = map[token.Type][2]string{
	token.AnchorType:      {"`&` starts a YAML anchor, which a pipeline file does not have", "write the value out; quote text that starts with &"},
	token.AliasType:       {"`*` starts a YAML alias, which a pipeline file does not have", "write the value out; quote text that starts with *"},
	token.MergeKeyType:    {"`<<` is a YAML merge key, which a pipeline file does not have", "write the words out"},
	token.TagType:         {"`!` starts a YAML tag, which a pipeline file does not have", "quote text that starts with !, such as '!trusted'"},
	token.MappingKeyType:  {"`?` starts a complex YAML key, which a pipeline file does not have", "write `key: value`; quote text that starts with ?"},
	token.DirectiveType:   {"`%` starts a YAML directive, which a pipeline file does not have", "remove the line; quote text that starts with %"},
	token.DocumentEndType: {"`...` ends a YAML document, which a pipeline file does not need", "separate pipelines by a line `---`"},
}

// escaped matches a double-quoted scalar with complete \x, \u and \U escapes. The scanner takes any
// character for a digit, even the closing quote.
var escaped = regexp.MustCompile(`(?s)^"(?:[^\\]|\\[^xuU]|\\x[[:xdigit:]]{2}|\\u[[:xdigit:]]{4}|\\U[[:xdigit:]]{8})*"$`)

// check refuses tokens that the parser must not see: YAML features that pipeline files do not
// allow, and names and nesting beyond their limits.
func (t *tree) check(tokens token.Tokens) *Error {
	var flow int      // open brackets
	var columns []int // columns of the open block mappings and lists
	var previous *token.Token
	for _, tk := range tokens {
		if why, ok := refused[tk.Type]; ok {
			return t.source.ErrorAt(t.place(tk), "", why[0], why[1])
		}
		opener := tk
		switch tk.Type {
		case token.InvalidType:
			return t.invalid(tk, tk.Error)
		case token.DoubleQuoteType:
			at := t.place(tk)
			if text := t.source.Text; !escaped.MatchString(text[at:quoteEnd(text, at)]) {
				return t.source.ErrorAt(at, "", "an escape without its hexadecimal digits", hintFor("escape"))
			}
		case token.MappingStartType, token.SequenceStartType:
			flow++
		case token.MappingEndType, token.SequenceEndType:
			flow--
		case token.MappingValueType:
			opener = previous
			if opener != nil && len(opener.Value) > maxKey {
				return t.source.ErrorAt(t.place(opener), "", fmt.Sprintf("the name %s is longer than %d bytes", Shorten(opener.Value), maxKey), "shorten it")
			}
			fallthrough
		case token.SequenceEntryType:
			if opener == nil || flow > 0 {
				break
			}
			column := opener.Position.Column
			for len(columns) > 0 && columns[len(columns)-1] >= column {
				columns = columns[:len(columns)-1]
			}
			columns = append(columns, column)
		}
		if flow+len(columns) > maxNesting {
			return t.source.ErrorAt(t.place(tk), "", fmt.Sprintf("nested deeper than %d levels", maxNesting), "a pipeline needs fewer than ten")
		}
		previous = tk
	}
	return nil
}

// lost reports text that the parser dropped. No word of the file may be ignored silently.
func (t *tree) lost(tokens token.Tokens) *Error {
	for _, tk := range tokens {
		isText := tk.CharacterType == token.CharacterTypeMiscellaneous && tk.Type != token.CommentType ||
			tk.Type == token.SingleQuoteType || tk.Type == token.DoubleQuoteType
		if isText && !t.seen[tk] && strings.TrimSpace(tk.Value) != "" {
			return t.source.ErrorAt(t.place(tk), "", "this YAML cannot be read: "+Shorten(tk.Value)+" belongs nowhere", hintFor(""))
		}
	}
	return nil
}

// unreadable converts the parser's error into an Error.
func (t *tree) unreadable(err error) *Error {
	var syntax interface {
		GetToken() *token.Token
		GetMessage() string
	}
	if !errors.As(err, &syntax) || syntax.GetToken() == nil {
		return t.source.ErrorAt(t.start, "", "this YAML cannot be read: "+err.Error(), hintFor(""))
	}
	tk := syntax.GetToken()
	if colon := tk.Next; colon != nil && colon.Type == token.MappingValueType && tk.Type == token.StringType {
		tk = colon // the value before the colon is valid; the colon is the error
	}
	return t.invalid(tk, syntax.GetMessage())
}

// invalid reports a token in a place where it is not allowed.
func (t *tree) invalid(tk *token.Token, message string) *Error {
	offset := t.place(tk)
	if tk.Type == token.InvalidType {
		offset = t.counted(tk.Position)
	}
	return t.source.ErrorAt(offset, "", "this YAML cannot be read: "+message, hintFor(message))
}

// counted returns the offset of a position from the scanner.
func (t *tree) counted(p *token.Position) int {
	text := t.source.Text
	at := t.start
	for line := 1; line < p.Line; line++ {
		i := strings.IndexByte(text[at:], '\n')
		if i < 0 {
			return at
		}
		at += i + 1
	}
	for column := 1; column < p.Column && at < len(text) && text[at] != '\n'; column++ {
		_, width := utf8.DecodeRuneInString(text[at:])
		at += width
	}
	return at
}

// hintFor returns the usual fix for a message of the scanner or parser.
func hintFor(message string) string {
	for _, h := range [][2]string{
		{"mapping value is not allowed", "quote a value that contains `: `, and indent the words of one mapping alike"},
		{"end character", "close the quote"},
		{"reserved character", "quote the value"},
		{"escape", `in double quotes write \\ for a backslash, or use single quotes`},
		{"must be specified", "close the bracket, and quote a value that contains [ ] { } or ,"},
		{"flow map", "close the bracket, and quote a value that contains [ ] { } or ,"},
		{"end token", "close the bracket"},
		{"corresponding to", "open the bracket, or quote the value"},
		{"multi-line", "indent the text below | or >"},
	} {
		if strings.Contains(message, h[0]) {
			return h[1]
		}
	}
	return "check the indentation, and quote a value with characters such as : # [ ] { } , & * ! | > ' \" % @"
}

// node converts n. A value that the parser made up gets the offset otherwise.
func (t *tree) node(n ast.Node, otherwise int) *Node {
	tk := n.GetToken()
	at := t.offset(tk, otherwise)
	switch n := n.(type) {
	case *ast.MappingNode:
		result := &Node{Kind: Mapping, Offset: t.offset(n.Start, otherwise)}
		for _, pair := range n.Values {
			key := pair.Key.GetToken()
			offset := t.offset(key, otherwise)
			result.Entries = append(result.Entries, entry{Key: key.Value, Offset: offset, Value: t.node(pair.Value, offset)})
		}
		if !n.IsFlowStyle && len(result.Entries) > 0 {
			result.Offset = result.Entries[0].Offset
		}
		return result
	case *ast.SequenceNode:
		result := &Node{Kind: List, Offset: t.offset(n.Start, otherwise)}
		for i, item := range n.Values {
			offset := result.Offset
			if i < len(n.Entries) {
				offset = t.offset(n.Entries[i].Start, offset)
			}
			result.Items = append(result.Items, t.node(item, offset))
		}
		return result
	case *ast.NullNode:
		return &Node{Kind: NoValue, Offset: at}
	case *ast.LiteralNode:
		if text := n.Value.Value; strings.TrimSpace(text) != "" {
			return &Node{Kind: Scalar, Style: Block, Offset: t.offset(n.Value.GetToken(), at), Text: text}
		}
		return &Node{Kind: NoValue, Offset: at}
	}
	result := &Node{Kind: Scalar, Offset: at, Text: tk.Value}
	switch tk.Type {
	case token.SingleQuoteType:
		result.Style = SingleQuoted
	case token.DoubleQuoteType:
		result.Style = DoubleQuoted
	case token.StringType, token.BoolType:
	default:
		result.foreign = true // except a decimal number, which the reader of the field detects
	}
	return result
}
