package text

import (
	"errors"
	"fmt"
	"io"
	"regexp"
	"regexp/syntax"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/afterbay/afterbay/internal/models/text/internal/runes"
)

// pattern is a token_pattern. If expression is nil, tokens are the longest runs of runes in run.
// They have at least minimum runes and none of bad.
type pattern struct {
	run, bad   func(rune) bool
	minimum    int
	expression *regexp.Regexp
	steps      int // steps per character if expression is not nil
}

// search finds the tokens of a text one after the other. An expression such as "[^"]*"|\w+ may read
// to the end of the text for each token, to look for a longer match. So a search of a long text
// counts the characters that it reads.
type search struct {
	expression *regexp.Regexp
	counted    bool
	rest       []byte
	left       int // how many more characters it may read
}

const (
	searchSteps = 1 << 26 // most steps for a text without counting characters
	searchReads = 16      // how often a search may read a character, on average
)

var errLook = fmt.Errorf("the token_pattern of the model looks too far ahead in this text: it reads each character more than %d times. Limit its repetitions, as in [^\"]{0,50}", searchReads)

func (p *pattern) search(text []byte) *search {
	n := len(text)
	return &search{expression: p.expression, counted: n*n/2 > searchSteps/p.steps, left: searchReads * n}
}

// next returns the position of the next token in the rest of the text, or nil.
func (s *search) next(rest []byte) ([]int, error) {
	if !s.counted {
		return s.expression.FindIndex(rest), nil
	}
	s.rest = rest
	found := s.expression.FindReaderIndex(s)
	if s.left <= 0 {
		return nil, errLook
	}
	return found, nil
}

// ReadRune implements io.RuneReader.
func (s *search) ReadRune() (rune, int, error) {
	if s.left--; s.left <= 0 || len(s.rest) == 0 {
		return 0, 0, io.EOF
	}
	r, n := utf8.DecodeRune(s.rest)
	s.rest = s.rest[n:]
	return r, n, nil
}

// item is a part of a pattern in the syntax of package regexp: a class of characters and its
// quantifier or, with a nil class, another construct.
type item struct {
	class      func(rune) bool
	source     string
	quantifier string
	from       int
	open       bool // the quantifier has no upper limit
}

// parser reads regular expressions of Python. It accepts those that package regexp interprets in
// the same way, given the character classes of Python.
type parser struct {
	text    string
	at      int
	classes []uint8
}

// patternMax bounds the length of a pattern, because each of its classes is written out.
const patternMax = 200

var quantifiers = regexp.MustCompile(`^(?:[*+?]|\{([0-9]{1,3})(,([0-9]{0,3}))?\})`)

func (p *parser) refuse(what string) error {
	return fmt.Errorf("token_pattern %q: %s", clip(p.text), what)
}

// parsePattern compiles a token_pattern. It refuses constructs that Python and Go interpret
// differently. It accepts \b only around a run of word characters.
func parsePattern(text string, classes []uint8) (*pattern, error) {
	if !utf8.ValidString(text) || len(text) > patternMax {
		return nil, fmt.Errorf("token_pattern: longer than %d bytes, or not UTF-8", patternMax)
	}
	p := &parser{text: strings.TrimPrefix(text, "(?u)"), classes: classes}
	before := p.accept(`\b`)
	var items []item
	after := false
	for p.at < len(p.text) {
		if after = p.text[p.at:] == `\b`; after {
			break
		}
		next, err := p.item()
		if err != nil {
			return nil, err
		}
		items = append(items, next)
	}
	if run := p.run(items, before, after); run != nil {
		return run, nil
	}
	if before || after {
		return nil, p.refuse(`\b stands only around one repeated class of word characters, such as \b\w\w+\b or \b[a-z]{3,}\b`)
	}
	var source strings.Builder
	for _, item := range items {
		source.WriteString(item.source + item.quantifier)
	}
	expression, steps, err := compileBounded(source.String())
	if err != nil {
		return nil, p.refuse(err.Error())
	}
	if expression.MatchString("") {
		return nil, p.refuse("it matches the empty text")
	}
	return &pattern{expression: expression, steps: steps}, nil
}

// compileBounded compiles an expression. It also returns the most steps per character of a text:
// the number of its instructions.
func compileBounded(source string) (expression *regexp.Regexp, steps int, err error) {
	const most = 256
	parsed, err := syntax.Parse(source, syntax.Perl)
	if err != nil {
		return nil, 0, errors.New("package regexp does not take it")
	}
	program, err := syntax.Compile(parsed.Simplify())
	if err != nil {
		return nil, 0, errors.New("package regexp does not take it")
	}
	if steps = len(program.Inst); steps > most {
		return nil, 0, fmt.Errorf("a character of a text may take %d steps, more than %d: repeat less often", steps, most)
	}
	expression, err = regexp.Compile(source)
	return expression, steps, err
}

// run returns the pattern of items if they repeat a single class, else nil.
func (p *parser) run(items []item, before, after bool) *pattern {
	minimum, open := 0, false
	for _, item := range items {
		if item.class == nil || item.source != items[0].source || !item.open && item.quantifier != "" {
			return nil
		}
		minimum, open = minimum+item.from, open || item.open
	}
	if !open || minimum == 0 {
		return nil
	}
	class := items[0].class
	word := func(r rune) bool { return p.classes[r]&classWord != 0 }
	same, inside := true, true // the class is that of word characters, or a part of it
	for r := range rune(runes.End) {
		same = same && word(r) == class(r)
		inside = inside && (word(r) || !class(r))
	}
	switch {
	case same || !before && !after:
		// The longest run of word characters has boundaries at both ends.
		return &pattern{run: class, bad: func(rune) bool { return false }, minimum: minimum}
	case before && after && inside:
		// A run of word characters has boundaries only at its ends, so all its characters must be
		// of the class.
		return &pattern{run: word, bad: func(r rune) bool { return !class(r) }, minimum: minimum}
	}
	return nil
}

func (p *parser) accept(token string) bool {
	if strings.HasPrefix(p.text[p.at:], token) {
		p.at += len(token)
		return true
	}
	return false
}

// item reads the next part.
func (p *parser) item() (item, error) {
	var next item
	switch c := p.text[p.at]; {
	case p.accept("(?:"):
		return item{source: "(?:"}, nil
	case p.accept("|"):
		return item{source: "|"}, nil
	case p.accept(")"):
		next.source = ")"
	case strings.IndexByte("(^$*+?{}]", c) >= 0:
		return next, p.refuse(fmt.Sprintf("%q at byte %d is not supported", c, p.at))
	case p.accept("["):
		class, err := p.set()
		if err != nil {
			return next, err
		}
		next.class = class
	case p.accept("."):
		next.class = func(r rune) bool { return r != '\n' }
	default:
		class, _, err := p.character()
		if err != nil {
			return next, err
		}
		next.class = class
	}
	if next.class != nil {
		next.source = spell(next.class)
	}
	return p.quantify(next)
}

// quantify reads the quantifier after a part.
func (p *parser) quantify(next item) (item, error) {
	next.from = 1
	found := quantifiers.FindStringSubmatch(p.text[p.at:])
	if found == nil {
		return next, nil
	}
	next.quantifier = found[0]
	p.at += len(found[0])
	next.open = found[0] == "*" || found[0] == "+" || found[2] == ","
	switch {
	case found[0] == "*" || found[0] == "?":
		next.from = 0
	case found[1] != "":
		next.from, _ = strconv.Atoi(found[1])
	}
	if p.accept("?") { // a lazy quantifier: package regexp must handle it
		next.quantifier += "?"
		next.class = nil
	}
	if p.at < len(p.text) && strings.IndexByte("*+?{", p.text[p.at]) >= 0 {
		return next, p.refuse("a quantifier follows another quantifier")
	}
	return next, nil
}

// character reads a literal or an escape. If the escape is a class, the rune is -1.
func (p *parser) character() (func(rune) bool, rune, error) {
	r, n := utf8.DecodeRuneInString(p.text[p.at:])
	p.at += n
	if r != '\\' {
		return literal(r), r, nil
	}
	r, n = utf8.DecodeRuneInString(p.text[p.at:])
	p.at += n
	class := func(flag, want uint8) (func(rune) bool, rune, error) {
		classes := p.classes
		return func(r rune) bool { return classes[r]&flag == want }, -1, nil
	}
	switch r {
	case 'w':
		return class(classWord, classWord)
	case 'W':
		return class(classWord, 0)
	case 's':
		return class(classSpace, classSpace)
	case 'S':
		return class(classSpace, 0)
	case 'd':
		return class(classDecimal, classDecimal)
	case 'D':
		return class(classDecimal, 0)
	}
	if at := strings.IndexRune("tnrfv", r); at >= 0 && n == 1 {
		r = rune("\t\n\r\f\v"[at])
		return literal(r), r, nil
	}
	if n == 0 || r >= utf8.RuneSelf || r >= '0' && r <= '9' || r|0x20 >= 'a' && r|0x20 <= 'z' {
		return nil, 0, p.refuse(fmt.Sprintf(`\%c is not supported`, r))
	}
	return literal(r), r, nil
}

func literal(want rune) func(rune) bool { return func(r rune) bool { return r == want } }

// set reads a class in brackets, after the opening bracket.
func (p *parser) set() (func(rune) bool, error) {
	negated := p.accept("^")
	var parts []func(rune) bool
	for first := true; ; first = false {
		if p.at >= len(p.text) {
			return nil, p.refuse("] is missing")
		}
		if !first && p.accept("]") {
			break
		}
		if p.text[p.at] == '[' || first && p.text[p.at] == ']' || len(p.text) > p.at+1 && p.text[p.at] == p.text[p.at+1] && strings.IndexByte("-&~|", p.text[p.at]) >= 0 {
			return nil, p.refuse("inside of brackets, [ and a first ] are written with a backslash, and -- && ~~ || are not supported")
		}
		part, low, err := p.character()
		if err != nil {
			return nil, err
		}
		if rest := p.text[p.at:]; len(rest) > 1 && rest[0] == '-' && rest[1] != ']' {
			p.at++
			_, high, err := p.character()
			if err != nil {
				return nil, err
			}
			if low < 0 || high < low {
				return nil, p.refuse("a range in brackets is not a valid range")
			}
			part = func(r rune) bool { return low <= r && r <= high }
		}
		parts = append(parts, part)
	}
	return func(r rune) bool {
		for _, part := range parts {
			if part(r) {
				return !negated
			}
		}
		return negated
	}, nil
}

// spell writes a class in the syntax of package regexp.
func spell(class func(rune) bool) string {
	text := strings.Builder{}
	text.WriteByte('[')
	from := rune(-1)
	for r := range rune(runes.End + 1) {
		has := r < runes.End && class(r)
		if has && from < 0 {
			from = r
		}
		if !has && from >= 0 {
			fmt.Fprintf(&text, `\x{%x}-\x{%x}`, from, r-1)
			from = -1
		}
	}
	text.WriteByte(']')
	return text.String()
}
