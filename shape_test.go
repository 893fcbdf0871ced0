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
	"observe":           {"header", "stream"},
	"observe/otlp":      {"observe"},
	"model":             {},
	"stream/memory":     {"stream", "stream/internal/balance"},
	"stream/streamtest": {"stream"},
	"state":             {"stream", "internal/vfs"},
	"stream/embedded":   {"stream", "state", "internal/vfs", "stream/internal/balance"},
	"stream/kafka":      {"internal/naming", "stream", "state", "internal/vfs"},
	"decode":            {"value"},
	"expression":        {"value"},
	"feature":           {"value"},
	"model/tree":        {"model"},
	"verdict":           {"observe"},
	"model/process":     {"internal/inference", "internal/procfs", "model"},
	"model/remote":      {"internal/client", "internal/inference", "model"},
	"model/load":        {"model", "model/text", "model/tree"},
	"model/outside":     {"model", "model/load", "model/ocr", "model/onnx", "model/process", "model/remote", "model/text/wordpiece", "model/voice"},
	"batch":             {"model"},
	"model/text":        {"model", "model/text/internal/runes", "model/text/internal/terms"},

	"model/text/wordpiece":      {"model/text/internal/runes", "model/text/internal/terms"},
	"model/text/internal/runes": {},
	"model/text/internal/terms": {},

	"model/ocr":                {"model", "model/onnx"},
	"model/voice":              {"model", "model/onnx"},
	"model/onnx":               {"model", "model/onnx/internal/wire", "model/text/wordpiece"},
	"model/onnx/worker":        {"model/onnx/internal/ort", "model/onnx/internal/wire"},
	"model/onnx/internal/ort":  {"model/onnx/internal/wire"},
	"model/onnx/internal/wire": {},
	"cmd/afterbay-onnx":        {"model/onnx/worker"},

	"model/tree/internal/kernelgen": {},

	"control":               {},
	"step":                  {"control", "value", "decode", "expression", "internal/packed", "model"},
	"table":                 {"header", "statekey", "stream"},
	"park":                  {"batch", "control", "dead", "header", "journal", "model", "observe", "statekey", "step", "stream", "value"},
	"generation":            {"header", "internal/naming", "journal", "statekey", "stream"},
	"group":                 {"dead", "due", "expression", "header", "internal/packed", "statekey", "step", "stream", "value"},
	"output":                {"stream", "value", "observe", "dead", "expression", "header", "step"},
	"simulate":              {"control"},
	"internal/packed":       {},
	"internal/memnet":       {},
	"internal/naming":       {},
	"internal/plot":         {},
	"internal/procfs":       {},
	"internal/seeds":        {},
	"dedupe":                {"statekey", "stream"},
	"lookup":                {"model"},
	"fetch":                 {"control", "internal/client", "internal/s3", "model", "value"},
	"lookup/postgres":       {"internal/postgres", "lookup"},
	"lookup/redis":          {"lookup"},
	"lookup/rest":           {"internal/client", "lookup"},
	"lookup/services":       {"", "lookup", "lookup/postgres", "lookup/redis", "lookup/rest", "value"},
	"merge":                 {"statekey", "stream"},
	"gateway/wire":          {"header", "stream"},
	"gateway/sequence":      {"dead", "decode", "gateway/wire", "header", "internal/naming", "internal/packed", "stream"},
	"gateway/hub":           {"control", "stream"},
	"gateway":               {"gateway/contract", "gateway/hub", "gateway/limit", "gateway/wire", "header", "ingest", "internal/http/access", "internal/http/reload", "internal/http/server", "observe", "stream"},
	"due":                   {},
	"silence":               {"due", "feature", "stream"},
	"statekey":              {},
	"keys":                  {"due", "feature", "internal/circle", "output", "silence", "statekey", "step", "stream", "value"},
	"resume":                {"decode", "step", "value"},
	"dead":                  {"header", "internal/naming", "resume", "stream"},
	"journal":               {"internal/packed", "statekey", "stream"},
	"task":                  {"stream", "value", "batch", "decode", "dedupe", "due", "expression", "feature", "header", "keys", "control", "dead", "generation", "group", "journal", "merge", "observe", "output", "resume", "park", "silence", "statekey", "step", "table"},
	"internal/spec":         {"expression"},
	"internal/lang":         {"deliver/row", "expression", "internal/spec", "lookup", "model", "model/load", "step"},
	"":                      {"batch", "control", "dead", "dedupe", "deliver", "deliver/row", "fetch", "generation", "internal/client", "internal/lang", "internal/naming", "internal/s3", "internal/spec", "journal", "lookup", "park", "step", "stream", "table", "value", "decode", "expression", "feature", "model", "model/load", "observe", "task"},
	"rederive":              {"", "dead", "generation", "header", "internal/naming", "journal", "park", "statekey", "stream", "stream/memory"},
	"config":                {"gateway/sequence", "internal/http/access", "internal/lang", "internal/naming", "internal/spec", "token"},
	"ingest":                {"stream", "decode", "header", "internal/http/access", "internal/http/server"},
	"deliver":               {"control", "dead", "dedupe", "header", "observe", "statekey", "stream"},
	"serve":                 {"", "batch", "internal/naming", "lookup", "deliver", "fetch", "control", "dead", "gateway", "gateway/hub", "gateway/limit", "gateway/sequence", "generation", "group", "stream", "stream/embedded", "ingest", "internal/http/access", "internal/http/reload", "internal/http/server", "internal/metric", "journal", "observe", "park", "rederive", "statekey", "token"},
	"deliver/row":           {"decode", "expression", "value"},
	"deliver/sink/postgres": {"deliver", "deliver/row", "internal/postgres", "stream", "value", "decode"},
	"deliver/sink/redis":    {"deliver", "deliver/row", "expression", "stream", "value", "decode"},
	"deliver/sink/http":     {"deliver", "header", "internal/client", "stream"},
	"deliver/sink/files":    {"decode", "deliver", "header", "internal/client", "internal/s3", "internal/vfs", "rows", "stream", "value"},
	"scoring":               {"batch", "decode", "internal/http/access", "internal/http/reload", "internal/http/server", "internal/inference", "internal/metric", "model"},
	"examples/fraud":        {},

	"deliver/sink/kafka": {"deliver", "header", "stream"},

	"stream/internal/balance": {},

	"bench/gateway":                 {"gateway/wire", "internal/plot", "internal/procfs", "token"},
	"bench/peers":                   {"examples/baseline", "internal/procfs", "model", "model/tree"},
	"examples/baseline":             {},
	"examples/fraud/generate":       {"examples/fraud"},
	"examples/support":              {},
	"examples/support/generate":     {"examples/support"},
	"examples/moderation":           {},
	"examples/moderation/generate":  {"examples/moderation"},
	"examples/library":              {"", "config", "step", "stream/embedded"},
	"internal/oracle":               {},
	"internal/reference":            {},
	"rows":                          {"value", "expression"},
	"sample":                        {"stream", "value", "decode", "expression", "ingest"},
	"explain":                       {"", "expression", "generation", "header", "internal/naming", "observe", "serve", "stream", "stream/memory", "task"},
	"scenario":                      {"", "config", "header", "internal/naming", "stream", "stream/embedded", "stream/memory", "task"},
	"token":                         {"internal/client"},
	"gateway/limit":                 {},
	"client":                        {"gateway/wire"},
	"clients/typescript":            {},
	"examples/chat":                 {"clients/typescript", "config", "token"},
	"internal/http/access":          {"internal/http/server", "internal/metric", "internal/naming"},
	"internal/http/reload":          {},
	"internal/http/server":          {"internal/metric"},
	"internal/metric":               {},
	"internal/client":               {},
	"internal/postgres":             {},
	"internal/inference":            {"model"},
	"internal/vfs":                  {},
	"internal/circle":               {},
	"internal/crashtest":            {"dead", "stream", "stream/embedded", "stream/kafka"},
	"internal/clean":                {},
	"internal/kafkatest":            {},
	"internal/servertest":           {},
	"internal/s3":                   {},
	"internal/faultserver":          {},
	"gateway/contract":              {"gateway/wire"},
	"gateway/contract/contracttest": {"gateway/contract"},
	"cmd/afterbay": {
		"", "config", "control", "dead", "decode", "deliver", "deliver/sink/files", "deliver/sink/http", "deliver/sink/kafka", "deliver/sink/postgres", "deliver/sink/redis", "examples/baseline", "examples/fraud", "examples/moderation", "explain", "expression", "gateway", "gateway/limit", "gateway/sequence", "generation", "header", "ingest", "internal/clean", "internal/client", "internal/http/access", "internal/http/reload", "internal/http/server", "internal/plot", "internal/procfs", "journal", "lookup/services", "model", "model/load",
		"", "config", "control", "dead", "decode", "deliver", "deliver/sink/files", "deliver/sink/http", "deliver/sink/kafka", "deliver/sink/postgres", "deliver/sink/redis", "examples/baseline", "examples/fraud", "examples/moderation", "explain", "expression", "gateway", "gateway/limit", "gateway/sequence", "gateway/wire", "generation", "header", "ingest", "internal/lang", "internal/naming", "internal/plot", "internal/spec", "journal", "lookup/services", "model", "model/load",
		"model/onnx", "model/outside", "model/process", "model/remote", "model/tree", "observe", "observe/otlp", "park", "rederive", "rows", "sample", "scenario", "scoring", "serve", "simulate", "statekey", "stream", "stream/embedded", "stream/kafka", "stream/memory", "task", "token", "value", "verdict",
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
	taskLinesMax     = 2600
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
		t.Errorf("task has %d lines; at most %d", taskLines, taskLinesMax)
	}
}

// TestShapeOfDesign sees that the design names every folder of packages.
func TestShapeOfDesign(t *testing.T) {
	text, err := os.ReadFile("docs/design/README.md")
	if err != nil {
		t.Fatal(err)
	}
	for name := range layers {
		folder, _, _ := strings.Cut(name, "/")
		if name != "" && !strings.Contains(string(text), "\n"+folder+"/") && !strings.Contains(string(text), " "+folder+"/") {
			t.Errorf("docs/design/README.md says nothing of %s/", folder)
		}
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
