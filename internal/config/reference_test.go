package config

import (
	"encoding/json"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"strings"
	"testing"

	"github.com/afterbay/afterbay/internal/feature"
	"github.com/afterbay/afterbay/internal/process/builtin"
	"github.com/afterbay/afterbay/internal/spec"

	"github.com/google/go-cmp/cmp"
)

// The reference page and the JSON Schema are made here from the tables of words
// and the comments of afterbay's structs.
const (
	referencePage   = "../../docs/reference/pipeline-file.md"
	referenceSchema = "../../docs/reference/pipeline.schema.json"
	manifestPage    = "../../docs/reference/model-file.md"
	keysPage        = "../../docs/reference/keys-file.md"
	tokensPage      = "../../docs/reference/token-file.md"
	tokensStructs   = "../http/access/roles.go"
	gatewayPage     = "../../docs/reference/gateway-file.md"
	gatewayAsSchema = "../../docs/reference/gateway.schema.json"
	keysStructs     = "../gateway/auth/keys.go"
)

// pipelineStructs, manifestStructs and gatewayStructs match the files that have the structs
// of pipelines, of manifests and of gateways.
var (
	pipelineStructs = []string{"../lang/*.go", "../lang/*/*.go", "../log/kafka/settings.go", "../spec/values.go", "../sinks/row/mapping.go", "../sinks/*/kind.go", "../lookups/*/kind.go"}
	manifestStructs = []string{"../../model/manifest.go", "../models/*/kind.go"}
	gatewayStructs  = []string{"gateway.go", "../log/kafka/settings.go"}
)

func TestReferenceIsFresh(t *testing.T) {
	comments, said := readComments(t, pipelineStructs...), readComments(t, manifestStructs...)
	clients := readComments(t, gatewayStructs...)
	asText := func(schema object) string {
		text, err := json.MarshalIndent(schema, "", "  ")
		if err != nil {
			t.Fatal(err)
		}
		return string(text) + "\n"
	}
	root, kinds := spec.MappingOf(builtin.Kinds().Fields()).Shape, comments.kindsOfPipelines()
	pages, manifest, ofModels := comments.kindPages(t, kinds, root), spec.MappingOf(builtin.Kinds().ManifestFields()).Shape, said.kindsOfModels()
	maps.Copy(pages, said.kindPages(t, ofModels, manifest))
	maps.Copy(pages, map[string]string{
		referencePage:   comments.page(pipelineHead(kinds), "Fields of a pipeline", root, kinds...),
		functionsPage:   functionsText(),
		referenceSchema: asText(comments.schema()),
		gatewayAsSchema: asText(clients.gatewaySchema()),
		gatewayPage:     clients.page(gatewayHead, "The words of a gateway", spec.MappingOf(fieldsOfGateway(builtin.Kinds())).Shape),
		manifestPage:    said.page(manifestHead+index(ofModels, "models"), "The words of a manifest", manifest, ofModels...),
		tokensPage:      readComments(t, tokensStructs).page(tokensHead, "The words of a token file", spec.MappingOf(tokenFileFields).Shape),
		keysPage:        readComments(t, keysStructs).page(keysHead, "The words of a file of keys", spec.MappingOf(keysFields).Shape),
	})
	for path, want := range pages {
		if *update {
			if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(path, []byte(want), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		got, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, string(got)); diff != "" {
			t.Errorf("%s is stale: run go test ./internal/config -update (-want +got):\n%s", path, diff)
		}
	}
}

// Every word says what it means and has an example that is valid.
func TestEveryWordIsExplained(t *testing.T) {
	comments := readComments(t, pipelineStructs...)
	schema := validator{comments.schema()["$defs"].(object)}
	seen := 0
	comments.sections(spec.MappingOf(builtin.Kinds().Fields()).Shape, func(s spec.Section) {
		for _, w := range s.Words {
			if !w.Accepted {
				if w.Instead == "" {
					t.Errorf("%s: %s says not what to do instead", s.Path, w.Name)
				}
				continue
			}
			seen++
			if w.Help == "" || w.Example == "" || !w.Required && w.Or == "" && w.Absent == "" && !strings.HasSuffix(s.Path, "steps[]") {
				t.Errorf("%s: %s lacks its meaning, example or what holds without it: %+v", s.Path, w.Name, w)
			}
			n, r := exampleNode(t, w)
			if why := schema.check(comments.docs().Schema(w.Shape), spec.Instance(n), w.Name); why != "" {
				t.Errorf("%s: the schema refuses the example of %s: %s", s.Path, w.Name, why)
			}
			if w.Try(r, n, w.Name); len(r.Errors) > 0 {
				t.Errorf("%s: the example of %s is refused: %v", s.Path, w.Name, r.Errors)
			}
		}
	})
	if seen < 60 {
		t.Errorf("only %d words were looked at", seen)
	}
}

// Every field of a pipeline is set by a word, so that what is added to the
// structs is added to the file.
func TestEveryFieldHasAWord(t *testing.T) {
	set := map[string]bool{
		"internal/lang.Pipeline.Code":  true,                                           // is Go
		"internal/lang.Model.Manifest": true, "internal/lang.Candidate.Manifest": true, // is a file
		"internal/lang.Model.Dir": true, // is that of the file

		"internal/lang.Model.Name": true, "internal/spec.Constant.Name": true, "internal/spec.Constant.Value": true, "internal/spec.Constant.Table": true, "internal/lang/steps.Feature.Name": true, "internal/lang/steps.GroupValue.Name": true, "internal/lang.Case.Name": true,
		"internal/lang.Binding.Name": true, "internal/lang.Field.Name": true, "internal/spec.Header.Name": true, "internal/sinks/row.Column.Name": true, "internal/sinks/files.Column.Name": true, "internal/lang/steps.JoinOn.Left": true, "internal/lang/steps.Member.Name": true, // names before a colon
		"internal/lang.Field.Path": true, "internal/lang.Field.From": true, // are of the long form of a field
		"internal/lookups/http.Config.Asked": true, "internal/spec.Header.Written": true, // are texts of other fields, with the names of variables
		"internal/lang/steps.Lookup.Kind": true, "internal/lang/steps.Lookup.Config": true, "internal/lang.Sink.Kind": true, "internal/lang.Sink.Config": true, // are chosen by the name of a kind
	}
	structures := map[string]reflect.Type{}
	note := func(get any) {
		if get != nil {
			structure, field := fieldOf(get)
			set[structure+"."+field.Name] = true
			of := reflect.TypeOf(get).In(0).Elem()
			structures[structOf(of)] = of
			for i := range of.NumField() {
				if inner := of.Field(i); inner.Type.Kind() == reflect.Struct && structOf(inner.Type) == structure {
					set[structOf(of)+"."+inner.Name], structures[structure] = true, inner.Type
				}
			}
		}
	}
	var walk func(s spec.Shape)
	walk = func(s spec.Shape) {
		note(s.Get)
		for _, inner := range s.Of {
			walk(inner)
		}
	}
	readComments(t, pipelineStructs...).sections(spec.MappingOf(builtin.Kinds().Fields()).Shape, func(s spec.Section) {
		for _, w := range s.Words {
			walk(w.Shape)
		}
	})
	if len(structures) < 13 {
		t.Errorf("found %d structs", len(structures))
	}
	for name, structure := range structures {
		for i := range structure.NumField() {
			if field := name + "." + structure.Field(i).Name; !set[field] {
				t.Errorf("no word sets %s", field)
			}
		}
	}
}

// exampleNode returns the value of a word's example, and a reader for it.
func exampleNode(t *testing.T, w spec.About) (*spec.Node, *spec.Reader) {
	t.Helper()
	s := spec.NewSource("example.yaml", w.Name+": "+w.Example+"\n")
	documents, found := spec.ReadDocuments(s, &spec.PipelineFiles)
	if len(found) > 0 {
		t.Fatalf("the example of %s cannot be read: %v", w.Name, found)
	}
	r := &spec.Reader{Source: s, Places: make(map[string]spec.Place), Again: builtin.Kinds().Again(), Lookup: set(map[string]string{"KAFKA_PASSWORD": "x", "KAFKA_TOKEN": "y", "CARD_TOKEN": "z", "USERS_TOKEN": "u", "DATABASE_URL": "postgres://h/d", "GATEWAY_KEY": "g", "CURSOR_KEY": "c", "LEGACY_KEY": "l", "REGISTRY_PASSWORD": "p", "REGISTRY_TOKEN": "t"})}
	return documents[0].Root.Entries[0].Value, r
}

// comments are those of structs, by FOLDER.Type and FOLDER.Type.Field.
type comments map[string]string

func readComments(t *testing.T, patterns ...string) comments {
	t.Helper()
	all := comments{}
	for _, pattern := range patterns {
		paths, err := filepath.Glob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		for _, path := range paths {
			all.read(t, path)
		}
	}
	return all
}

func (c comments) read(t *testing.T, path string) {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.ParseComments)
	if err != nil {
		t.Fatal(err)
	}
	folder := filepath.ToSlash(filepath.Join("internal/config", filepath.Dir(path))) // in the module
	text := func(groups ...*ast.CommentGroup) string {
		var parts []string
		for _, g := range groups {
			parts = append(parts, strings.Fields(g.Text())...)
		}
		return strings.Join(parts, " ")
	}
	for _, decl := range file.Decls {
		d, ok := decl.(*ast.GenDecl)
		if !ok {
			continue
		}
		for _, spec := range d.Specs {
			s, ok := spec.(*ast.TypeSpec)
			if !ok {
				continue
			}
			name := folder + "." + s.Name.Name
			c[name] = text(d.Doc)
			if structure, ok := s.Type.(*ast.StructType); ok {
				for _, f := range structure.Fields.List {
					for _, field := range f.Names {
						c[name+"."+field.Name] = text(f.Doc, f.Comment)
					}
				}
			}
		}
	}
}

// structOf returns the name of a struct as comments have it.
func structOf(t reflect.Type) string {
	return strings.TrimPrefix(t.PkgPath(), "github.com/afterbay/afterbay/") + "." + t.Name()
}

// fieldOf returns the struct and the field that get, a func(*T) *U, returns.
func fieldOf(get any) (structure string, field reflect.StructField) {
	call := reflect.ValueOf(get)
	value := reflect.New(call.Type().In(0).Elem())
	result := call.Call([]reflect.Value{value})[0]
	structure, field, ok := fieldAt(value.Elem(), result)
	if !ok {
		panic(fmt.Sprintf("%T returns no field", get))
	}
	return structure, field
}

// fieldAt returns the field of a struct, or of a struct in it, that a pointer points to.
func fieldAt(of, pointer reflect.Value) (structure string, field reflect.StructField, ok bool) {
	for i := range of.NumField() {
		f := of.Field(i)
		if at := f.Addr(); at.Pointer() == pointer.Pointer() && at.Type() == pointer.Type() {
			return structOf(of.Type()), of.Type().Field(i), true
		}
		if f.Kind() == reflect.Struct {
			if structure, field, ok = fieldAt(f, pointer); ok {
				return structure, field, true
			}
		}
	}
	return "", field, false
}

// typeName returns the name of the struct below pointers and slices.
func typeName(t reflect.Type) string {
	for t.Kind() == reflect.Pointer || t.Kind() == reflect.Slice {
		t = t.Elem()
	}
	return structOf(t)
}

var (
	whenZero  = regexp.MustCompile(`^(?:0|""|nil) (?:(?:is|takes) )?(.*)$`)
	isDefault = regexp.MustCompile(`(\S+) \(default\)`)
	insteadOf = regexp.MustCompile(`^instead of \w+: `)
	unit      = regexp.MustCompile(`^(\d+) (ms|s|h|KiB|MiB)$`)
	bounds    = regexp.MustCompile(`, [\d,]+ to [\d,]+`) // which the column of values has
	breaks    = regexp.MustCompile(`(?:; |\. |\.$)`)
)

// getsOf returns the functions that return the fields which a value is read into.
func getsOf(s spec.Shape) (gets []any) {
	all := []spec.Shape{s}
	if s.Kind == spec.Either {
		all = s.Of
	}
	for _, s := range all {
		if s.Get != nil {
			gets = append(gets, s.Get)
		}
	}
	return gets
}

// explain fills in what the comments say of a word.
func (c comments) explain(w *spec.About) {
	var means []string
	for _, get := range getsOf(w.Shape) {
		structure, field := fieldOf(get)
		said, absent := c.said(structure + "." + field.Name)
		if doc := c[typeName(field.Type)]; said == "" && doc != "" && structure != typeName(field.Type) {
			said, _ = c.said(typeName(field.Type))
			_, said, _ = strings.Cut(said, " ") // without the name of the type
			said = strings.TrimPrefix(strings.TrimPrefix(said, "is "), "says ")
		}
		if said != "" {
			means = append(means, said)
		}
		if w.Absent == "" {
			w.Absent = absent
		}
	}
	if w.Help == "" {
		w.Help = strings.Join(means, "; or ")
	}
}

// said returns what a comment says, and what it says of the zero value.
func (c comments) said(name string) (means, absent string) {
	var kept []string
	for _, clause := range breaks.Split(c[name], -1) {
		if m := whenZero.FindStringSubmatch(clause); m != nil {
			absent = unit.ReplaceAllString(m[1], "$1$2")
			continue
		}
		if m := isDefault.FindStringSubmatch(clause); m != nil {
			absent = m[1]
		}
		clause = bounds.ReplaceAllString(isDefault.ReplaceAllString(clause, "$1"), "")
		if clause = insteadOf.ReplaceAllString(clause, ""); clause != "" {
			kept = append(kept, clause)
		}
	}
	return strings.Join(kept, "; "), absent
}

// nameByWord writes the words for the fields that the comments of their struct
// name.
func nameByWord(words []spec.About) {
	var pairs []string
	for _, w := range words {
		if w.Shape.Get != nil {
			_, field := fieldOf(w.Shape.Get)
			for _, end := range []string{" ", ":", ","} {
				pairs = append(pairs, " "+field.Name+end, " `"+w.Name+"`"+end)
			}
		}
	}
	names := strings.NewReplacer(pairs...)
	for i := range words {
		words[i].Help = names.Replace(words[i].Help)
		words[i].Absent = strings.TrimSuffix(names.Replace(words[i].Absent+" "), " ")
	}
}

const manifestHead = `# The manifest of a model, word by word

Generated by ` + "`go test ./internal/config -update`" + ` from the tables of package lang and the comments of ` + "`model/manifest.go`" + `; a test fails where this page is stale. What a manifest is for is in
the [guide](../guide/models.md); values are written as in the [pipeline file](pipeline-file.md#values), but without variables of the environment.

## Kinds

Each kind of model has a page with its fields and an example.
`

const keysHead = `# The file of keys, word by word

Generated by ` + "`go test ./internal/config -update`" + ` from the tables of package config and the comments of ` + "`internal/gateway/auth/keys.go`" + `; a test fails where this page is stale. What it is for is in
[the howto](../howto/tokens.md); values are written as in the [pipeline file](pipeline-file.md#values).
`

const tokensHead = `# The token file, word by word

Generated by ` + "`go test ./internal/config -update`" + ` from the tables of package config and the comments of ` + "`internal/http/access/roles.go`" + `; a test fails where this page is stale. What it is for is in
[the howto](../howto/secure-servers.md); values are written as in the [pipeline file](pipeline-file.md#values).
`

const gatewayHead = `# The gateway file, word by word

Generated by ` + "`go test ./internal/config -update`" + ` from the tables of package config and the comments of ` + "`internal/config/gateway.go`" + `; a test fails where this page is stale. What it is for is in
[the howto](../howto/gateway.md); values are written as in the [pipeline file](pipeline-file.md#values). An editor checks it by [gateway.schema.json](gateway.schema.json).
`

const pageHead = `# Pipeline file reference

Generated by ` + "`go test ./internal/config -update`" + ` from the tables and comments of ` + "`internal/lang`" + `; a test fails where this page is stale.
The [guide](../guide/pipeline-file.md) explains how the fields work together.

An editor with a YAML language server completes and checks a pipeline file by [pipeline.schema.json](pipeline.schema.json), if the file's first line says where that is, absolute or relative to
the file:

` + "```yaml\n# yaml-language-server: $schema=docs/reference/pipeline.schema.json\n```" + `

` + "`afterbay lint`" + ` finds more: names, types, models, and what a schema cannot say.

## Values

| value | how it is written |
|---|---|
| a name | text; of an event's field, of a constant, or what a step above introduced: ` + "`amount`, `spend.sum_60s`, `fraud.score`, `meta.key`" + ` |
| an expression | expr-lang over the names that stand above: ` + "`amount > 100 && country != \"US\"`" + ` |
| a type | ` + "`bool`, `int`, `number`, `string`, `bytes`, `time`" + `, each with ` + "`optional`" + ` before it where it may be absent; ` + "`number[384]`" + ` is so many numbers, a vector; fields of events have these, lists ` + "`string[]`, `int[]`, `number[]`, `bool[]`, `time[]` and `raw[]`, maps such as `map of int` (of `int`, `number`, `bool` or `string`: an object with any keys), and `raw`" + `, the JSON text of any value, with spaces in place of line breaks, that is passed on as it is: expressions do not look into it |
| a whole number, a number | decimal, without quotes: ` + "`64`, `-0.5`, `1e6`" + `; not ` + "`010`, `0x1F`, `1_000`" + ` |
| a duration | ` + "`20ms`, `5s`, `1h30m`, `1d12h`" + ` |
| a size | ` + "`512`, `64KiB`, `1MB`" + ` |
| a window | a duration, or size/pane: ` + "`60s`, `24h/1h`" + ` |
| a constant | ` + "`true`" + `, a number, text, or a table from text to values of one of these kinds |

Environment variables are read in every value: ` + "`${NAME}`" + ` is what the variable holds, and an error where it is not set; ` + "`${NAME:-default}`" + ` is the default where it is not set or empty;
` + "`$${`" + ` is the text ` + "`${`" + `. What a variable holds is one value, read by the same rules as if it stood in the file, and adds no words. Inside ` + "`{ }` and `[ ]`" + ` such a value is quoted, and so is text.
Names before a colon are not replaced.
`

const expressionsHead = `
## Expressions

` + "`+ - * / % **`" + `, comparisons, ` + "`&& || !`, `c ? a : b`, `a ?? b`, `a == null`, `a != null`" + ` where a may be absent, ` + "`a != null && a > 5` and `a == null ? 0 : a`, which need no `??`, `contains`, `startsWith`, `endsWith`, `matches`" + ` (a regular expression of RE2, which is a literal) between texts, ` + "`x in [a, b]`, `x in list`, `[a, b]` of strings, `table[key]`, `list[0]`, `list[-1]`, and `vector[0]`, a number of an output such as `number[3]`" + `.
There are no conversions but by functions, no loops, no clock: the same event has the same result everywhere. What cannot be computed, a division by zero or a place beyond the end of a list, makes the event a dead letter.
So does a text of more than 1 MiB (1,048,576 bytes), and texts of more than 4 MiB that the steps of an event make together. An expression computes the size before it composes a text. What the texts of one evaluation take on the way counts too. The strings of a list count with their lengths, 1 to 3 bytes each.

The functions are on a [page of their own](functions.md).
`

const aggregatesHead = `
## Aggregates

An aggregate is computed from the entries of a window, or from the newest values (` + "`last`" + `). It depends on these entries alone: order of arrival, restarts and batches change no bit of it.
With ` + "`per`" + ` an aggregate is that of the entries of each group, and the column is a map from group to aggregate: of int for ` + "`count`" + `, ` + "`changes`" + ` and ` + "`distinct`" + `, of the type of the value for ` + "`first_value`" + `, ` + "`last_value`" + ` and
` + "`previous`" + `, and of number else. All aggregates but ` + "`list`" + ` and ` + "`top`" + ` can be read so, of exact windows and of ` + "`last`" + ` up to 63.
An entry of an exact window takes 16 bytes, 8 if only counted, whatever the aggregates are. ` + "`per`" + ` adds 8 bytes and the text of the group. [Performance](../performance.md#aggregates) has their costs.

| aggregate | what it is | without entries | 64-bit words a pane | cost of a read | error | method |
|---|---|---|---|---|---|---|
`

const lintHead = `
## What lint says

` + "`afterbay lint FILE...`" + ` prints each finding as ` + "`file:line:column: path: message: hint`" + ` and an excerpt below it, and ends with code 3 where there is one. With ` + "`--json`" + ` each finding is a line of JSON on
standard output:

| field | what it is |
|---|---|
| ` + "`file`" + ` | the file, as it was named |
| ` + "`line`, `column`" + ` | where, from 1, the column in characters; 0 where the finding is about the file as a whole |
| ` + "`path`" + ` | the field: ` + "`steps[1].score.inputs[2]`, `steps[2].route.chat.when`" + `; empty where the YAML is unreadable |
| ` + "`message`" + ` | what is wrong |
| ` + "`hint`" + ` | what to do next; may be empty where the message says it |
| ` + "`excerpt`" + ` | the line, and on a second line a caret under the place; empty where there is none |
`

const kindsHead = `
## Kinds

Each kind of step, sink and lookup has a page with its fields and an example.
`

// pipelineHead returns the head of the page of the pipeline file.
func pipelineHead(kinds []kind) string {
	page := strings.Builder{}
	page.WriteString(pageHead + expressionsHead)
	page.WriteString(aggregatesHead)
	for _, a := range feature.Aggregates() {
		fmt.Fprintf(&page, "| `%s` | %s | %s | %s | %s | %s | %s |\n", a.Name, a.Of, a.Empty, a.Panes, a.Cost, a.Error, a.Source)
	}
	page.WriteString(lintHead + kindsHead)
	for _, folder := range []string{"steps", "sinks", "lookups"} {
		page.WriteString(index(kinds, folder))
	}
	return page.String()
}

// page returns a reference page. The fields of kinds are on pages of their own.
func (c comments) page(head, first string, root spec.Shape, kinds ...kind) string {
	var page strings.Builder
	page.WriteString(head)
	c.sections(root, func(s spec.Section) {
		if of(kinds, s.Path) == nil {
			page.WriteString(linked(kinds, "", s).Page(first))
		}
	})
	return page.String()
}

// docs write what the tables and the comments say.
func (c comments) docs() spec.Docs { return spec.Docs{Explain: c.explain} }

// sections calls visit for every mapping, in the order of the file.
func (c comments) sections(root spec.Shape, visit func(spec.Section)) {
	c.docs().Sections(root, func(s spec.Section) {
		nameByWord(s.Words)
		visit(s)
	})
}
