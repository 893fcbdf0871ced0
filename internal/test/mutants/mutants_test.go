package mutants

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// TestTestsSeeAMutation breaks a package of this test, which has one test.
func TestTestsSeeAMutation(t *testing.T) {
	root := t.TempDir()
	for name, text := range map[string]string{
		"go.mod":      "module m\n\ngo 1.24\n",
		"p/p.go":      "package p\n\nfunc Less(a, b int) bool {\n\treturn a < b\n}\n\nfunc Unused() int {\n\treturn 1\n}\n",
		"p/p_test.go": "package p\n\nimport \"testing\"\n\nfunc TestLess(t *testing.T) {\n\tif !Less(1, 2) {\n\t\tt.Fatal(\"1 is not less\")\n\t}\n}\n",
	} {
		path := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o750); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for text, want := range map[string]string{
		"== more\np/p.go\n-\treturn a < b\n+\treturn a > b\n":                        "TestLess",
		"== one is two\np/p.go\n-\treturn 1\n+\treturn 2\n":                          "error: no test is red: ./p",
		"== no code\np/p.go\n-\treturn 1\n+\treturn\n":                               "error: go test ./p: ",
		"== elsewhere\np/p.go\n-\treturn a < b\n+\treturn a > b\n? -run Other ./p\n": "error: no test is red: -run Other ./p",
		"== gone\np/p.go\n-\treturn 3\n+\treturn 2\n":                                "error: p/p.go has the lines with - 0 times",
	} {
		list, err := Parse(text)
		if err != nil {
			t.Fatal(err)
		}
		var got string
		mutated, err := list[0].apply(root)
		if err == nil {
			got, err = list[0].test(t.Context(), root, t.TempDir(), mutated, time.Minute)
		}
		if err != nil {
			got = "error: " + err.Error()
		}
		if !strings.HasPrefix(got, want) {
			t.Errorf("%s: %s, want %s", list[0].Name, got, want)
		}
	}
}

func TestMutationsAreText(t *testing.T) {
	list, err := Parse("# a comment\n== a\np/p.go\n-x\n-y\n+\n? ./p\n? -run A ./q\n\n== b\np/q.go\n-x\n")
	if err != nil || len(list) != 2 || list[0].from != "x\ny\n" || list[0].to != "\n" || len(list[0].Tests) != 2 || list[1].to != "" || list[1].Tests != nil {
		t.Errorf("%+v, %v", list, err)
	}
	for text, want := range map[string]string{
		"p/p.go\n":                      "line 1: begin",
		"== a\np/p.go\nx\n":             "line 3: \"x\"",
		"== a\n-x\n+y\n":                "a: it names no file",
		"== a\np/p.go\n-x\n+x\n":        "a: it names no file, or changes nothing",
		"== a\np/p.go\n+x\n== b\np\n-y": "a: it names no file, or changes nothing",
	} {
		if _, err := Parse(text); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%q: %v, want %s", text, err, want)
		}
	}
}
