package afterbay_test

import (
	"encoding/json"
	"errors"
	"go/ast"
	"go/parser"
	"go/token"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// layers lists, for each package, what else of the module it may import. An
// event travels down this list; imports only ever point up it.
var layers = map[string][]string{
	"header":            {"stream"},
	"stream":            {},
	"value":             {},
	"observe":           {"stream"},
	"model":             {},
	"stream/memory":     {"stream"},
	"stream/streamtest": {"stream"},
	"state":             {"stream", "internal/vfs"},
	"stream/embedded":   {"stream", "state", "internal/vfs"},
	"stream/kafka":      {"stream", "state"},
	"decode":            {"value"},
	"expression":        {"value"},
	"feature":           {},
	"model/tree":        {"model"},

	"model/tree/internal/kernelgen": {},

	"step":           {"value", "expression", "model"},
	"dedupe":         {},
	"merge":          {},
	"due":            {},
	"silence":        {"due", "feature", "stream"},
	"statekey":       {},
	"task":           {"stream", "value", "decode", "dedupe", "due", "expression", "feature", "header", "internal/circle", "merge", "model", "observe", "silence", "statekey", "step"},
	"":               {"dedupe", "step", "stream", "value", "decode", "expression", "feature", "model", "model/tree", "observe", "task"},
	"config":         {"", "expression"},
	"ingest":         {"stream", "decode"},
	"serve":          {"", "stream", "stream/embedded", "ingest", "observe", "statekey"},
	"examples/fraud": {},

	"bench/peers":             {"examples/baseline", "model", "model/tree"},
	"examples/baseline":       {},
	"examples/fraud/generate": {"examples/fraud"},
	"examples/library":        {"", "config", "step", "stream/embedded"},
	"internal/reference":      {},
	"rows":                    {"value", "expression"},
	"sample":                  {"stream", "value", "decode", "expression", "ingest"},
	"explain":                 {"", "expression", "header", "observe", "serve", "stream", "task"},
	"scenario":                {"", "config", "header", "stream", "stream/embedded", "stream/memory", "task"},
	"internal/vfs":            {},
	"internal/circle":         {},
	"internal/kafkatest":      {},
	"cmd/afterbay": {
		"", "config", "decode", "examples/baseline", "examples/fraud", "explain", "expression", "header", "ingest", "model", "model/tree", "observe", "rows", "sample",
		"scenario", "serve", "stream", "stream/embedded", "stream/kafka", "stream/memory", "task", "value",
	},
}

func TestLayersImportsGoOneWay(t *testing.T) {
	const module = "github.com/afterbay/afterbay"
	out, err := exec.CommandContext(t.Context(), "go", "list", "-json=ImportPath,Imports", "./...").Output()
	if err != nil {
		t.Fatal(err)
	}
	for dec := json.NewDecoder(strings.NewReader(string(out))); ; {
		var pkg struct {
			ImportPath string
			Imports    []string
		}
		if err := dec.Decode(&pkg); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatal(err)
		}
		name := strings.TrimPrefix(strings.TrimPrefix(pkg.ImportPath, module), "/")
		allowed, ok := layers[name]
		if !ok {
			t.Errorf("%s is in no layer: add it to layers", name)
		}
		for _, imported := range pkg.Imports {
			path, inside := strings.CutPrefix(imported, module)
			if path = strings.TrimPrefix(path, "/"); inside && !slices.Contains(allowed, path) {
				t.Errorf("%s imports %s; allowed: %s", name, path, allowed)
			}
		}
	}
}

const (
	functionLinesMax = 70
	fileLinesMax     = 600
	taskLinesMax     = 2500
)

func TestShapeOfFilesFunctionsAndDocs(t *testing.T) {
	taskLines, files := 0, 0
	err := filepath.WalkDir(".", func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if entry.IsDir() && (strings.HasPrefix(entry.Name(), ".") && path != "." || entry.Name() == "testdata") {
			return fs.SkipDir
		}
		if !strings.HasSuffix(path, ".go") {
			return nil
		}
		files++
		set := token.NewFileSet()
		file, err := parser.ParseFile(set, path, nil, parser.ParseComments)
		if err != nil {
			return err
		}
		if ast.IsGenerated(file) {
			return nil
		}
		lines := set.File(file.Pos()).LineCount()
		if lines > fileLinesMax {
			t.Errorf("%s has %d lines; at most %d", path, lines, fileLinesMax)
		}
		if strings.HasPrefix(path, "task/") && !strings.HasSuffix(path, "_test.go") {
			taskLines += lines
		}
		for _, decl := range file.Decls {
			checkDeclaration(t, set, path, decl)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if files < 20 {
		t.Errorf("only %d files were looked at", files)
	}
	if taskLines > taskLinesMax {
		t.Errorf("task has %d lines; at most %d for ever", taskLines, taskLinesMax)
	}
}

// TestShapeOfClaims sees that a figure in docs/performance.md has a file with
// the command that printed it.
func TestShapeOfClaims(t *testing.T) {
	text, err := os.ReadFile("docs/performance.md")
	if err != nil {
		t.Fatal(err)
	}
	links := regexp.MustCompile(`\(results/([a-z-]+\.txt)\)`).FindAllStringSubmatch(string(text), -1)
	if len(links) == 0 {
		t.Fatal("docs/performance.md shows nothing")
	}
	for _, link := range links {
		result, err := os.ReadFile(filepath.Join("docs", "results", link[1]))
		if err != nil || !strings.Contains(string(result), "commit: ") || !strings.Contains(string(result), "command: ") {
			t.Errorf("docs/results/%s lacks its commit or command: %v", link[1], err)
		}
	}
}

func checkDeclaration(t *testing.T, set *token.FileSet, path string, decl ast.Decl) {
	t.Helper()
	test := strings.HasSuffix(path, "_test.go")
	at := set.Position(decl.Pos())
	switch d := decl.(type) {
	case *ast.FuncDecl:
		if n := set.Position(d.End()).Line - at.Line + 1; n > functionLinesMax {
			t.Errorf("%v: %s has %d lines; at most %d", at, d.Name.Name, n, functionLinesMax)
		}
		if !test && d.Name.IsExported() && d.Doc == nil && (d.Recv == nil || exportedReceiver(d)) {
			t.Errorf("%v: %s has no comment", at, d.Name.Name)
		}
		if d.Name.Name == "init" && d.Recv == nil {
			t.Errorf("%v: init has side effects that nobody asked for", at)
		}
	case *ast.GenDecl:
		for _, spec := range d.Specs {
			if s, ok := spec.(*ast.TypeSpec); ok && !test && s.Name.IsExported() && d.Doc == nil && s.Doc == nil {
				t.Errorf("%v: %s has no comment", at, s.Name.Name)
			}
		}
	}
}

func exportedReceiver(d *ast.FuncDecl) bool {
	kind := d.Recv.List[0].Type
	if star, ok := kind.(*ast.StarExpr); ok {
		kind = star.X
	}
	if generic, ok := kind.(*ast.IndexExpr); ok {
		kind = generic.X
	}
	name, ok := kind.(*ast.Ident)
	return ok && name.IsExported()
}
