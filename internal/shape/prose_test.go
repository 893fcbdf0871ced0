package shape_test

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// unclear matches constructions that plain technical English avoids: a clause as subject ("who",
// "what is"), "nobody", "of which", "there is none".
var unclear = regexp.MustCompile(`(?i)\b(who|whom|whose|nobody|somebody|of which|in which|to which|by which|for which|from which|is theirs|is none|are none|what is|what was|what came|what they|what it|which is what|that is what|for ever|likewise|besides)\b`)

// longSentence is the number of words above which a sentence must be read twice.
const longSentence = 30

// prose counts the words of texts, and the constructions to avoid.
type prose struct {
	words, sentences, unclear, long int
	found                           []string // the places
}

var (
	aWord       = regexp.MustCompile(`[A-Za-z']+`)
	endSentence = regexp.MustCompile(`[.!?:;]\s+`)
)

// add reads a paragraph.
func (p *prose) add(place, text string) {
	p.words += len(aWord.FindAllString(text, -1))
	for _, s := range unclear.FindAllString(text, -1) {
		p.unclear++
		p.found = append(p.found, fmt.Sprintf("%s: %q", place, s))
	}
	for _, s := range endSentence.Split(text, -1) {
		switch n := len(aWord.FindAllString(s, -1)); {
		case n > longSentence:
			p.long++
			p.found = append(p.found, fmt.Sprintf("%s: a sentence of %d words: %.60q", place, n, s))
			fallthrough
		case n >= 3:
			p.sentences++
		}
	}
}

// check sees that at most so many constructions stand in 1,000 words, and that at most 1 % of
// sentences are long.
func (p *prose) check(t *testing.T, name string, most float64) {
	t.Helper()
	index, long := 1000*float64(p.unclear)/float64(p.words), 100*float64(p.long)/float64(p.sentences)
	t.Logf("%s: %d words, %.2f unclear constructions in 1,000 words, %.2f %% of sentences over %d words", name, p.words, index, long, longSentence)
	if index > most || long > 1 {
		slices.Sort(p.found)
		t.Errorf("%s: %.2f unclear constructions in 1,000 words, at most %.1f; %.2f %% of sentences over %d words, at most 1:\n%s",
			name, index, most, long, longSentence, strings.Join(p.found, "\n"))
	}
}

// TestCommentsAreInPlainEnglish reads the comments of all code but tests.
func TestCommentsAreInPlainEnglish(t *testing.T) {
	var all prose
	walkCode(t, func(set *token.FileSet, file *ast.File) {
		for _, group := range file.Comments {
			all.add(fmt.Sprint(set.Position(group.Pos())), group.Text())
		}
	})
	all.check(t, "comments", 1.5)
}

// messageWords is the number of words from which a string is read as a message.
const messageWords = 4

// TestMessagesAreInPlainEnglish reads the strings of all code but tests: errors, findings of lint,
// log lines, help and descriptions.
func TestMessagesAreInPlainEnglish(t *testing.T) {
	var all prose
	walkCode(t, func(set *token.FileSet, file *ast.File) {
		ast.Inspect(file, func(n ast.Node) bool {
			if s, ok := n.(*ast.BasicLit); ok && s.Kind == token.STRING {
				if text, err := strconv.Unquote(s.Value); err == nil && len(aWord.FindAllString(text, -1)) >= messageWords {
					all.add(fmt.Sprint(set.Position(s.Pos())), text)
				}
			}
			return true
		})
	})
	all.check(t, "messages", 1.5)
}

// walkCode calls f for each Go file but tests and generated ones.
func walkCode(t *testing.T, f func(set *token.FileSet, file *ast.File)) {
	t.Helper()
	walkFiles(t, ".go", func(path string) {
		set := token.NewFileSet()
		file, err := parser.ParseFile(set, path, nil, parser.ParseComments|parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		if !ast.IsGenerated(file) && !strings.HasSuffix(path, "_test.go") {
			f(set, file)
		}
	})
}

var (
	codeBlock = regexp.MustCompile("(?s)```.*?```")
	linkTo    = regexp.MustCompile(`\]\([^)]*\)`)
	paragraph = regexp.MustCompile(`\n\s*\n|\n\s*[-*|#0-9]`)
)

// TestPagesAreInPlainEnglish reads the documentation without the CHANGELOG and the results.
func TestPagesAreInPlainEnglish(t *testing.T) {
	var all prose
	walkFiles(t, ".md", func(path string) {
		if filepath.Base(path) == "CHANGELOG.md" {
			return
		}
		data, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		text := linkTo.ReplaceAllString(codeBlock.ReplaceAllString(string(data), " "), "]")
		for _, p := range paragraph.Split(text, -1) {
			all.add(path, strings.NewReplacer("|", " . ", "\n", " ").Replace(p))
		}
	})
	all.check(t, "pages", 1.5)
}

// walkFiles calls f for each file of the repository with an extension, without those that tests
// read and those that commands wrote.
func walkFiles(t *testing.T, ext string, f func(path string)) {
	t.Helper()
	err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		switch name := entry.Name(); {
		case err != nil:
			return err
		case entry.IsDir() && (strings.HasPrefix(name, ".") && path != root || slices.Contains([]string{"testdata", "node_modules", "results"}, name)):
			return fs.SkipDir
		case !entry.IsDir() && filepath.Ext(path) == ext:
			f(path)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}
