package config

import (
	"errors"
	"flag"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/afterbay/afterbay/internal/lang"
	running "github.com/afterbay/afterbay/internal/pipeline"
	"github.com/afterbay/afterbay/internal/process/builtin"
	"github.com/afterbay/afterbay/internal/spec"

	"github.com/google/go-cmp/cmp"
)

var update = flag.Bool("update", false, "write the expected texts of testdata, and docs/reference")

// TestBadFilesAreExplained compares what is said about each bad file with the
// text beside it: file, line, column, field, excerpt and next step.
func TestBadFilesAreExplained(t *testing.T) {
	paths, err := filepath.Glob("testdata/bad/*.yaml")
	if err != nil || len(paths) < 100 {
		t.Fatalf("found %d bad files (%v), want 100 at least", len(paths), err)
	}
	for _, path := range paths {
		name := filepath.Base(path)
		t.Run(strings.TrimSuffix(name, ".yaml"), func(t *testing.T) {
			data, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			file, err := lang.Parse(name, data, builtin.Kinds())
			found, ok := err.(spec.Errors)
			if !ok || file != nil {
				t.Fatalf("Parse returned %v, %v, want Errors", file, err)
			}
			checkErrors(t, name, string(data), found)
			checkGolden(t, path, err)
		})
	}
}

// TestFilesWithoutMeaningAreExplained does the same for files whose mistakes
// only compiling shows: names, types, models, cases. They are what lint says of
// them.
func TestFilesWithoutMeaningAreExplained(t *testing.T) {
	t.Chdir("testdata/lint")
	paths, err := filepath.Glob("*.yaml")
	if err != nil || len(paths) < 25 {
		t.Fatalf("found %d files (%v), want 25 at least", len(paths), err)
	}
	for _, path := range paths {
		t.Run(strings.TrimSuffix(path, ".yaml"), func(t *testing.T) {
			file, err := lang.Load(path, builtin.Kinds())
			if err != nil {
				t.Fatal(err)
			}
			found := compiled(t, file)
			if len(found) == 0 {
				t.Fatal("nothing is wrong")
			}
			for _, e := range found {
				if e.File != path || e.Line == 0 || e.Field == "" || e.Message == "" || !strings.Contains(e.Excerpt, "^") {
					t.Errorf("%+v: a part is missing", e)
				}
			}
			checkGolden(t, path, found)
		})
	}
}

// compiled returns what is wrong with the pipelines of a file and between them.
func compiled(t *testing.T, file *lang.File) (found spec.Errors) {
	t.Helper()
	explain := func(pipeline int, err error) {
		var here spec.Errors
		if errors.As(file.Explain(pipeline, err), &here) {
			found = append(found, here...)
		} else if err != nil {
			t.Fatal(err)
		}
	}
	var right []int
	var runners []*running.Runner
	for i, p := range file.Pipelines {
		runner, err := builtin.New(p, running.Options{})
		explain(i, err)
		if err == nil {
			right, runners = append(right, i), append(runners, runner)
		}
	}
	_, between := running.Chain(runners)
	for _, i := range slices.Sorted(maps.Keys(between)) {
		explain(right[i], between[i])
	}
	return found
}

func checkGolden(t *testing.T, path string, found error) {
	t.Helper()
	golden := strings.TrimSuffix(path, ".yaml") + ".txt"
	if *update {
		if err := os.WriteFile(golden, []byte(found.Error()+"\n"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), found.Error()+"\n"); diff != "" {
		t.Errorf("explanation (-want +got):\n%s", diff)
	}
}

// checkErrors checks what holds for every finding: it stands in the file, in
// order, says what to do next, and its caret stands under its column.
func checkErrors(t *testing.T, name, text string, found spec.Errors) {
	t.Helper()
	lines := strings.Split(strings.TrimPrefix(text, "\uFEFF"), "\n")
	before := &spec.Error{}
	for _, e := range found {
		switch {
		case e.File != name || e.Message == "" || e.Hint == "":
			t.Errorf("%+v: a part is missing", e)
		case e.Line == 0: // about the file
			continue
		case e.Line < 1 || e.Line > len(lines):
			t.Errorf("%v: not a line of the file", e)
		case e.Column < 1 || e.Column > len([]rune(lines[e.Line-1]))+1:
			t.Errorf("%v: not a column of the line", e)
		case e.Line < before.Line || e.Line == before.Line && e.Column < before.Column:
			t.Errorf("%v: not in the order of the file", e)
		case e.Excerpt != "":
			row := []rune(strings.TrimRight(lines[e.Line-1], "\r"))
			shown, carets, _ := strings.Cut(e.Excerpt, "\n")
			caret := len([]rune(carets)) - 1
			if at := []rune(shown); len(row) <= spec.ExcerptWidth && caret != len("      | ")+e.Column-1 ||
				caret < len(at) && e.Column <= len(row) && at[caret] != row[e.Column-1] && at[caret] != '?' && at[caret] != ' ' {
				t.Errorf("%v: the caret is not under the column", e)
			}
		}
		before = e
	}
}

// TestFilesThatHoldNothingAreExplained names what each kind of file is to hold, also
// where there are only comments.
func TestFilesThatHoldNothingAreExplained(t *testing.T) {
	none := set(nil)
	for name, parse := range map[string]func(data []byte) error{
		"gateway": func(data []byte) error { _, err := parseGateway("f.yaml", data, none, builtin.Kinds(), ""); return err },
		"key":     func(data []byte) error { _, err := parseKeys("f.yaml", data, none); return err },
		"manifest": func(data []byte) error {
			_, err := lang.ParseManifestWith("f.yaml", data, none, builtin.Kinds())
			return err
		},
		"pipeline": func(data []byte) error { _, err := lang.ParsePartly("f.yaml", data, none, builtin.Kinds()); return err },
	} {
		for text, want := range map[string]string{
			"": "f.yaml:1:1: the file holds no " + name + ": start with ", "# nothing yet\n": "f.yaml:1:1: the file holds no " + name + ": start with ",
			"a: 1\n---\n": "f.yaml:2:1: no " + name + " follows this `---`", strings.Repeat(" ", spec.MaxBytes+1): "f.yaml: the file is larger than 1 MiB: ",
		} {
			if err := parse([]byte(text)); err == nil || !strings.HasPrefix(err.Error(), want) && !strings.Contains(err.Error(), "\n"+want) {
				t.Errorf("%s, %.20q: %v, want %s", name, text, err, want)
			}
		}
	}
}
