package config

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/afterbay/afterbay/internal/process/builtin"
	"github.com/afterbay/afterbay/internal/spec"
)

// TestFormDoesNotChangeFingerprints writes the pipelines of the repository in another
// form: other white space, quotes, comments and line breaks, and the fields of each
// mapping in another order. Their canonical text stays.
func TestFormDoesNotChangeFingerprints(t *testing.T) {
	seed := rand.Uint64()
	random := rand.New(rand.NewPCG(seed, 1))
	n := 0
	for path, text := range pipelineTexts(t) {
		variables := func(string) (string, bool) { return "http://127.0.0.1:1", true }
		file, err := ParseWith(path, []byte(text), variables, builtin.Kinds())
		if err != nil {
			continue // a part of a file, or shown to be refused
		}
		documents, _ := spec.ReadDocuments(spec.NewSource(path, text), &spec.PipelineFiles)
		var again strings.Builder
		for i, d := range documents {
			if i > 0 {
				again.WriteString("\n---\n")
			}
			w := &rewriter{random: random, out: &again}
			w.write(d.Root, spec.MappingOf(builtin.Kinds().Fields()).Shape)
			again.WriteString(" # the end\n")
		}
		other, err := ParseWith(path, []byte(again.String()), variables, builtin.Kinds())
		if err != nil {
			t.Fatalf("seed %d, %s: %v\n%s", seed, path, err, again.String())
		}
		for i := range file.Pipelines {
			n++
			if got, want := other.Pipelines[i].Canonical(), file.Pipelines[i].Canonical(); got != want {
				t.Errorf("seed %d, %s: %s\nwant %s\nof %s", seed, path, got, want, again.String())
			}
		}
	}
	if n < 100 {
		t.Errorf("only %d pipelines were found", n)
	}
}

var (
	ofScenario = regexp.MustCompile(`(?m)^pipeline\n((?:(?:  .*)?\n)+)`)
	ofPage     = regexp.MustCompile("(?ms)^```yaml[^\n]*\n(.*?)^```")
)

// pipelineTexts returns the texts in the repository that may be pipeline files, by name.
func pipelineTexts(t *testing.T) map[string]string {
	t.Helper()
	all := map[string]string{}
	for pattern, find := range map[string]*regexp.Regexp{
		"testdata/good/*.yaml": nil, "../../examples/*/*.yaml": nil, "../../scenario/*.txt": ofScenario, "../../scenario/*/*.txt": ofScenario,
		"../../docs/*/*.md": ofPage, "../../README.md": ofPage,
	} {
		paths, err := filepath.Glob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		for _, path := range paths {
			text, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			if find == nil {
				all[path] = string(text)
				continue
			}
			for i, found := range find.FindAllSubmatch(text, -1) {
				all[fmt.Sprintf("%s[%d]", path, i)] = string(found[1])
			}
		}
	}
	return all
}

// rewriter writes nodes in another form.
type rewriter struct {
	random *rand.Rand
	out    *strings.Builder
}

// space writes what may stand between two parts of a mapping or a list.
func (w *rewriter) space() {
	w.out.WriteString([]string{" ", "\n  ", " # a remark\n    ", "\n\n      "}[w.random.IntN(4)])
}

func (w *rewriter) write(n *spec.Node, s spec.Shape) {
	switch n.Kind {
	case spec.Mapping:
		entries := slices.Clone(n.Entries)
		fields := fieldsOf(s)
		if fields != nil {
			w.random.Shuffle(len(entries), func(i, k int) { entries[i], entries[k] = entries[k], entries[i] })
		}
		w.out.WriteString("{")
		for i, e := range entries {
			if i > 0 {
				w.out.WriteString(",")
			}
			w.space()
			w.out.WriteString(strconv.Quote(e.Key) + ": ")
			w.write(e.Value, within(s, fields, e.Key))
		}
		w.space()
		w.out.WriteString("}")
	case spec.List:
		of := within(s, nil, "")
		w.out.WriteString("[")
		for i, item := range n.Items {
			if i > 0 {
				w.out.WriteString(",")
			}
			w.space()
			w.write(item, of)
		}
		w.space()
		w.out.WriteString("]")
	default:
		w.scalar(n, s)
	}
}

// scalar writes a scalar with other quotes, an expression with more white space.
func (w *rewriter) scalar(n *spec.Node, s spec.Shape) {
	text := n.Text
	if expressions(s) && !strings.Contains(text, "${") {
		text = " " + strings.ReplaceAll(text, " ", "\t  ") + "  "
		if strings.ContainsAny(n.Text, `"'`+"`") { // white space in a text counts
			text = n.Text + " "
		}
	}
	switch {
	case n.Style == spec.Plain && text == n.Text && (spec.Fractional.MatchString(text) || text == "true" || text == "false"):
		w.out.WriteString(text)
	case strings.ContainsAny(text, "'\n\t"):
		w.out.WriteString(strconv.Quote(text))
	default:
		w.out.WriteString("'" + text + "'")
	}
}

// expressions reports whether text is read as an expression.
func expressions(s spec.Shape) bool {
	return s.Kind == spec.AnyText && strings.HasPrefix(s.Text, "an expression")
}

// fieldsOf returns the fields of a mapping, nil where it is one from names.
func fieldsOf(s spec.Shape) []spec.About {
	switch s.Kind {
	case spec.AMapping, spec.AStep:
		return s.Words()
	case spec.Either:
		for _, of := range s.Of {
			if fields := fieldsOf(of); fields != nil {
				return fields
			}
		}
	}
	return nil
}

// within returns the shape of a field or an element.
func within(s spec.Shape, fields []spec.About, key string) spec.Shape {
	for _, f := range fields {
		if f.Name == key {
			return f.Shape
		}
	}
	switch s.Kind {
	case spec.AList:
		return s.Of[0]
	case spec.ANames:
		if key == "default" && s.Last != nil {
			return *s.Last
		}
		return s.Of[0]
	case spec.TheSteps:
		return builtin.Kinds().StepForm().Shape
	case spec.Either:
		for _, of := range s.Of {
			if of.Kind == spec.AList || of.Kind == spec.ANames || of.Kind == spec.TheSteps {
				if key == "" || of.Kind == spec.ANames {
					return within(of, nil, key)
				}
			}
		}
	}
	return spec.Shape{Kind: spec.AConstant}
}
