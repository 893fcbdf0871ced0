package expression

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/expr-lang/expr/ast"
	"github.com/expr-lang/expr/file"
	"github.com/expr-lang/expr/parser"
	"github.com/expr-lang/expr/parser/lexer"
	"github.com/expr-lang/expr/parser/utils"
)

// parse parses a source. First it checks the tokens: it refuses words that the evaluation does not
// know, and numbers out of range. It does so before the parser, because the tree does not have the
// exact positions of all of them. elements are the names of the elements of lambdas.
func parse(source string) (tree ast.Node, elements []lexer.Token, err *Error) {
	switch {
	case len(source) > MaxBytes:
		return nil, nil, &Error{Message: fmt.Sprintf("the expression has %d bytes, more than %d", len(source), MaxBytes), Hint: "divide it over several names"}
	case !utf8.ValidString(source):
		return nil, nil, &Error{Message: "the expression is not valid UTF-8"}
	case strings.TrimSpace(source) == "":
		return nil, nil, &Error{Column: 1, Message: "the expression is empty"}
	}
	tokens, fault := lexer.Lex(file.NewSource(source))
	if fault != nil {
		return nil, nil, syntaxError(source, fault)
	}
	if err := refuseComment(source, tokens); err != nil {
		return nil, nil, err
	}
	for i, t := range tokens {
		if err := refuse(tokens, i); err != nil {
			err.Column = t.From + 1
			return nil, nil, err
		}
	}
	plain, elements, err := lambdas(source, tokens)
	if err != nil {
		return nil, nil, err
	}
	parsed, fault := parser.Parse(plain)
	if fault != nil {
		return nil, nil, syntaxError(source, fault)
	}
	return parsed.Node, elements, nil
}

// syntaxError converts an error of expr's lexer or parser.
func syntaxError(source string, err error) *Error {
	e := &Error{Column: 1, Message: err.Error()}
	var fault *file.Error
	if errors.As(err, &fault) {
		e.Column, e.Message = min(fault.From, utf8.RuneCountInString(source))+1, fault.Message
	}
	if kind, rest, found := strings.Cut(strings.TrimPrefix(e.Message, "unexpected token "), "("); found && strings.HasPrefix(e.Message, "unexpected token ") && kind != "" {
		if word, err := strconv.Unquote(strings.TrimSuffix(rest, ")")); err == nil {
			e.Message = "unexpected " + word
		}
	}
	switch {
	case e.Message == "unexpected token EOF":
		e.Column, e.Message = utf8.RuneCountInString(source)+1, "the expression ends too early"
		e.Hint = unfinished(source)
	case e.Message == "unexpected )" || e.Message == "unexpected ]":
		e.Hint = "remove it, or open it before"
	case strings.HasPrefix(e.Message, "unexpected ") && !strings.HasPrefix(e.Message, "unexpected token "):
		e.Hint = "write one operator between two values"
	case strings.HasSuffix(e.Message, "(??) cannot be mixed. Wrap either by parentheses."):
		e.Message = "?? beside another operator needs parentheses"
		e.Hint = "write (a ?? b) + c"
	}
	return e
}

// unfinished returns the text most likely missing at the end of an expression.
func unfinished(source string) string {
	switch {
	case strings.Count(source, "(") > strings.Count(source, ")"):
		return "close the parenthesis"
	case strings.Count(source, "[") > strings.Count(source, "]"):
		return "close the bracket"
	case strings.Contains(source, "?") && !strings.Contains(source, ":"):
		return "write both cases: condition ? a : b"
	}
	return "write a value behind the last operator"
}

// refuseComment reports // outside texts. expr would read a comment up to the end of the line, but
// the author of a // b means a division.
func refuseComment(source string, tokens []lexer.Token) *Error {
	if !strings.Contains(source, "//") {
		return nil
	}
	runes, end := []rune(source), 0
	for _, t := range tokens {
		from := min(t.From, len(runes))
		between := string(runes[min(end, from):from])
		for {
			head, tail, found := strings.Cut(between, "/*")
			if slash := strings.Index(head, "//"); slash >= 0 {
				column := from - utf8.RuneCountInString(between) + utf8.RuneCountInString(head[:slash]) + 1
				return &Error{Column: column, Message: "// begins a comment here, it does not divide", Hint: "write int(a / b), or floor(a / b) to round down; a comment belongs behind # in the YAML"}
			}
			if !found {
				break
			}
			_, between, _ = strings.Cut(tail, "*/")
		}
		end = t.To
	}
	return nil
}

// refuse returns the error for the token with index i, or nil.
func refuse(tokens []lexer.Token, i int) *Error {
	t := tokens[i]
	switch t.Kind {
	case lexer.Number:
		return refuseNumber(t.Value)
	case lexer.Operator:
		switch t.Value {
		case "let", ";":
			return &Error{Message: t.Value + " is not supported: an expression is one value", Hint: "introduce names with a let step"}
		case "if", "else":
			return &Error{Message: t.Value + " is not supported", Hint: "write condition ? a : b"}
		case "|":
			return &Error{Message: "the pipe | is not supported", Hint: "call the function: f(x)"}
		case "#", "=>":
			return &Error{Message: "lambdas are written any(list, x -> ...)"}
		case "..":
			return &Error{Message: "ranges are not supported", Hint: "compare: a >= 1 && a <= 5"}
		case "?.":
			return &Error{Message: "?. is not supported", Hint: "write a default for an absent value: a.b ?? c"}
		case "::":
			return &Error{Message: ":: is not supported"}
		case "=":
			if tokens[i+1].Is(lexer.Operator, ">") {
				return &Error{Message: "lambdas are written any(list, x -> ...)"}
			}
			return &Error{Message: "= is not an operator", Hint: "compare with =="}
		case "&":
			return &Error{Message: "& is not an operator", Hint: "write &&"}
		}
		if i > 0 && tokens[i-1].Is(lexer.Operator, ".") && !utils.IsValidIdentifier(t.Value) {
			return &Error{Message: "want a name after the dot"}
		}
	case lexer.Bracket, lexer.String, lexer.Bytes, lexer.EOF:
		if i > 0 && tokens[i-1].Is(lexer.Operator, ".") {
			return &Error{Message: "want a name after the dot"}
		}
	}
	return nil
}

// refuseNumber returns the error for an invalid number, or nil.
func refuseNumber(text string) *Error {
	plain := strings.ReplaceAll(text, "_", "")
	base := strings.ToLower(plain)
	prefixed := strings.HasPrefix(base, "0x") || strings.HasPrefix(base, "0o") || strings.HasPrefix(base, "0b")
	if !strings.HasPrefix(base, "0x") && strings.ContainsAny(base, ".e") {
		if v, err := strconv.ParseFloat(plain, 64); math.IsInf(v, 0) {
			return &Error{Message: text + " is out of the range of number"}
		} else if err != nil {
			return &Error{Message: text + " is not a number"}
		}
		return nil
	}
	digits := 10
	if prefixed {
		digits = 0
	}
	if _, err := strconv.ParseInt(plain, digits, 64); errors.Is(err, strconv.ErrRange) {
		return &Error{Message: text + " is out of the range of int"}
	} else if err != nil {
		return &Error{Message: text + " is not a number"}
	}
	return nil
}

// column returns the column where the source of a node starts, in characters from 1. It follows the
// left edge of the tree, because binary nodes have the position of their operator and conditional
// nodes have none.
func column(node ast.Node) int {
	start := math.MaxInt
	for node != nil {
		next := ast.Node(nil)
		switch n := node.(type) {
		case *ast.BinaryNode:
			next = n.Left
		case *ast.ConditionalNode:
			node = n.Cond
			continue
		case *ast.MemberNode:
			next = n.Node
		case *ast.ChainNode:
			next = n.Node
		case *ast.SliceNode:
			next = n.Node
		case *ast.CallNode:
			next = n.Callee
		case *ast.UnaryNode:
			next = n.Node // x not in y is a not-node with the position of its in
		}
		start = min(start, node.Location().From)
		node = next
	}
	return start + 1
}

// listedMax limits the known names that Suggest lists.
const listedMax = 8

// Suggest returns a hint for an unknown name: the nearest known name. If no name is near, it lists
// the names with the same first part, or all names if they are few. It returns "" if they are many.
func Suggest(name string, known []string) string {
	if near := Nearest(name, known); near != "" {
		return "did you mean " + near + "?"
	}
	part, _, _ := strings.Cut(name, ".")
	var same, all []string
	for _, k := range known {
		switch first, _, dotted := strings.Cut(k, "."); {
		case first == part && dotted:
			same = append(same, k)
		case first != "meta" || !dotted: // every pipeline has meta.*, the position of a record
			all = append(all, k)
		}
	}
	if same == nil {
		same = all
	}
	slices.Sort(same)
	switch n := len(same); {
	case n == 0 || n > listedMax:
		return ""
	case n == 1:
		return "there is " + same[0]
	default:
		return "there are " + strings.Join(same[:n-1], ", ") + " and " + same[n-1]
	}
}

// Nearest returns the known name with the fewest edits from name. It returns "" if none is close:
// the limit is a third of the length of name, at least one, and less than the whole known name.
func Nearest(name string, known []string) string {
	best, limit := "", max(1, utf8.RuneCountInString(name)/3)
	for _, k := range known {
		if d := distance([]rune(name), []rune(k)); d <= limit && d < utf8.RuneCountInString(k) {
			if best == "" || d < limit || k < best {
				best = k
			}
			limit = d
		}
	}
	return best
}

// distance returns the smallest number of edits that make a into b: insertions, deletions,
// replacements, and swaps of neighbours.
func distance(a, b []rune) int {
	rows := make([][]int, len(a)+1)
	for i := range rows {
		rows[i] = make([]int, len(b)+1)
		rows[i][0] = i
	}
	for j := range rows[0] {
		rows[0][j] = j
	}
	for i := 1; i <= len(a); i++ {
		for j := 1; j <= len(b); j++ {
			cost := 1
			if a[i-1] == b[j-1] {
				cost = 0
			}
			d := min(rows[i-1][j]+1, rows[i][j-1]+1, rows[i-1][j-1]+cost)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				d = min(d, rows[i-2][j-2]+1)
			}
			rows[i][j] = d
		}
	}
	return rows[len(a)][len(b)]
}

// Canonical returns the same text for all sources that differ only in white space, comments and
// quotes. The text consists of the tokens with a space between them, except around a dot. It
// returns a text without tokens unchanged.
func Canonical(source string) string { return Rename(source, nil) }

// Rename returns the canonical text of an expression with word(name) in place of each name that it
// reads. It calls word in the order of the text. A nil word keeps the names.
func Rename(source string, word func(name string) string) string {
	if len(source) > MaxBytes || !utf8.ValidString(source) {
		return source
	}
	tokens, err := lexer.Lex(file.NewSource(source))
	if err != nil {
		return source
	}
	var names []string
	if word != nil {
		names = NamesIn(source)
	}
	var text strings.Builder
	dot := true // no space before the first token
	for i := 0; i < len(tokens) && tokens[i].Kind != lexer.EOF; i++ {
		t := tokens[i]
		isDot := t.Is(lexer.Operator, ".")
		if !dot && !isDot {
			text.WriteByte(' ')
		}
		n := 0
		if !dot || i == 0 {
			n = nameAt(tokens[i:], names)
		}
		dot = isDot
		switch {
		case n > 0:
			text.WriteString(word(joined(tokens[i : i+n])))
			i += n - 1
		case t.Kind == lexer.String:
			text.WriteString(strconv.Quote(t.Value))
		case t.Kind == lexer.Bytes:
			text.WriteString("b" + strconv.Quote(t.Value))
		default:
			text.WriteString(t.Value)
		}
	}
	return text.String()
}

// nameAt returns the number of tokens of the longest of names that tokens begin with, or 0. The
// name of a called function does not count.
func nameAt(tokens []lexer.Token, names []string) int {
	longest := 0
	for n := 1; n < len(tokens) && len(names) > 0 && tokens[n-1].Kind == lexer.Identifier; n += 2 {
		if slices.Contains(names, joined(tokens[:n])) && !tokens[n].Is(lexer.Bracket, "(") {
			longest = n
		}
		if !tokens[n].Is(lexer.Operator, ".") {
			break
		}
	}
	return longest
}

// joined concatenates the texts of tokens.
func joined(tokens []lexer.Token) string {
	var text strings.Builder
	for _, t := range tokens {
		text.WriteString(t.Value)
	}
	return text.String()
}
