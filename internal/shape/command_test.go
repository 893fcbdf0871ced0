package shape_test

import (
	"go/scanner"
	"go/token"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Lines are of code: without blank lines, comments and tests.
const (
	commandLinesMax     = 4500 // of the program
	commandFileLinesMax = 100  // of a file, which has a command or a few that belong together
)

// TestTheProgramIsFlagsPrintingAndExitCodes counts the code lines of cmd/afterbay and of its files. What commands compute is in the package of its
// subject.
func TestTheProgramIsFlagsPrintingAndExitCodes(t *testing.T) {
	files, err := filepath.Glob(filepath.Join(root, "cmd/afterbay/*.go"))
	if err != nil || len(files) == 0 {
		t.Fatalf("%d files, %v", len(files), err)
	}
	lines := 0
	for _, name := range files {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		n := codeLines(text)
		if lines += n; n > commandFileLinesMax {
			t.Errorf("%s has %d lines of code, more than %d: move what is not flags, printing and exit codes to the package of its subject", name, n, commandFileLinesMax)
		}
	}
	if lines > commandLinesMax {
		t.Errorf("cmd/afterbay has %d lines of code, more than %d: move what is not flags, printing and exit codes to the package of its subject", lines, commandLinesMax)
	}
	for _, p := range packages(t) {
		if p.folder != "cmd/afterbay" {
			continue
		}
		for _, imported := range p.imports {
			for _, wing := range []string{"internal/event", "internal/state", "internal/task"} {
				if imported == wing || strings.HasPrefix(imported, wing+"/") {
					t.Errorf("cmd/afterbay imports %s: use it in the package of its subject", imported)
				}
			}
		}
	}
}

// exampleLinesMax bounds the service of examples/library, without its step in Go.
const exampleLinesMax = 60

// TestAServiceThatEmbedsAnEngineIsShort counts the code lines of the example. If it grows, the API is what to mend.
func TestAServiceThatEmbedsAnEngineIsShort(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(root, "examples/library/main.go"))
	if err != nil {
		t.Fatal(err)
	}
	if n := codeLines(text); n > exampleLinesMax {
		t.Errorf("examples/library/main.go has %d lines of code, more than %d", n, exampleLinesMax)
	}
}

// codeLines counts the lines that have a token.
func codeLines(text []byte) int {
	set := token.NewFileSet()
	file := set.AddFile("", -1, len(text))
	var s scanner.Scanner
	s.Init(file, text, nil, 0)
	n, last := 0, 0
	for {
		pos, tok, literal := s.Scan()
		if tok == token.EOF {
			return n
		}
		if tok == token.SEMICOLON && literal == "\n" {
			continue
		}
		first := file.Line(pos)
		end := first + strings.Count(literal, "\n")
		n += max(0, end-max(first-1, last))
		last = max(last, end)
	}
}
