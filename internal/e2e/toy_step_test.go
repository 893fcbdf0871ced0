package e2e_test

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kfake"
)

// toyStep is a kind of steps with an operator of its own: a file each, and the word that is
// put in front of another in the list of kinds.
var toyStep = map[string]string{
	"internal/lang/steps/upper.go":    "internal/e2e/testdata/step/kind.go",
	"internal/task/operator/upper.go": "internal/e2e/testdata/step/operator.go",
}

const (
	toyList = "internal/lang/steps/kinds.go"
	toyNext = "&letKind,"
	toyWord = "&upperKind, "
)

// toyPipeline uses the kind. What waits for its name is fed back.
const toyPipeline = `pipeline: shouts
input: {topic: posts, key: user, partitions: 2, fields: {user: string, text: string}}
steps:
  - features: {same: {value: 'loud == "HI" ? 1.0 : 0.0', last: 3, aggregates: [sum]}}
  - upper: {name: loud, of: text}
  - emit: {topic: shouted, value: [user, loud, same.sum]}
`

// toyPosts are its events, and toyShouted what it makes of them.
const (
	toyPosts   = `{"user":"ann","text":"hi"}` + "\n" + `{"user":"ann","text":"you"}` + "\n"
	toyShouted = `{"user":"ann","loud":"HI","same_sum":0}` + "\n" + `{"user":"ann","loud":"YOU","same_sum":1}` + "\n"
)

// toyScenario has a crash between the events, so that a process goes on with what another
// left.
var toyScenario = "# The toy.\n\npipeline\n  " + strings.TrimSpace(strings.ReplaceAll(toyPipeline, "\n", "\n  ")) + "\n\n" +
	`event 10:00:00 {"user":"ann","text":"hi"}
  shouted {"user":"ann","loud":"HI","same_sum":0}
crash sync
event 10:00:01 {"user":"ann","text":"you"}
  shouted {"user":"ann","loud":"YOU","same_sum":1}
`

// TestNewKindOfStepsIsFourFiles adds testdata/step to a copy of the repository: a kind of
// steps, its operator, one word in the list of kinds and an example. Reference page, schema and
// lint have the kind then, and every way of running a pipeline does it.
func TestNewKindOfStepsIsFourFiles(t *testing.T) {
	if testing.Short() {
		t.Skip("it builds the program anew")
	}
	t.Parallel()
	toy := buildToy(t)
	for path, want := range map[string]string{
		"docs/reference/steps/upper.md":       "## `steps[].upper`",
		"docs/reference/pipeline-file.md":     "[`upper`](steps/upper.md)",
		"docs/reference/pipeline.schema.json": `"upper": {`,
	} {
		if text := readText(t, filepath.Join(toy.source, path)); !strings.Contains(text, want) {
			t.Errorf("%s says nothing of the kind", path)
		}
	}
	toy.write(t, "shouts.yaml", toyPipeline)
	toy.write(t, "wrong.yaml", strings.ReplaceAll(toyPipeline, "of: text", "of: texd"))
	toy.write(t, "shorter.yaml", strings.ReplaceAll(toyPipeline, "[user, loud, same.sum]", "[loud]"))
	toy.write(t, "posts.ndjson", toyPosts)
	toy.write(t, "shouts.txt", toyScenario)
	broker, err := kfake.NewCluster(kfake.NumBrokers(1))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(broker.Close)
	engine := "--engine=kafka://" + strings.Join(broker.ListenAddrs(), ",")

	toy.says(t, "lint", "is valid", "lint", "shouts.yaml")
	toy.says(t, "lint of a wrong file", "wrong.yaml:5:29: steps[1].upper.of: unknown name \"texd\": did you mean text?", "lint", "wrong.yaml")
	toy.says(t, "scenario", "1 scenario passed", "test", "shouts.txt")
	toy.says(t, "try", "upper     loud=\"HI\"", "try", "shouts.yaml", "posts.ndjson")
	toy.says(t, "dataset", "wrote 2 rows", "dataset", "shouts.yaml", "posts.ndjson", "--out", "rows.csv")
	if rows := readText(t, filepath.Join(toy.dir, "rows.csv")); !strings.Contains(rows, ",same.sum,loud\n") || !strings.Contains(rows, `"HI"`) {
		t.Errorf("dataset: the rows lack the name of the kind:\n%s", rows)
	}
	for name, where := range map[string][]string{"embedded": {"--data=data"}, "kafka": {engine}} {
		toy.says(t, name, "appended 2 records", append([]string{"produce", "posts", "posts.ndjson", "--key=user", "--partitions=2"}, where...)...)
		toy.says(t, name, "2 events, 2 outputs, 0 dead letters", append([]string{"run", "shouts.yaml", "--until-idle", "--listen=none"}, where...)...)
		toy.says(t, name, toyShouted, append([]string{"tail", "shouted"}, where...)...)
	}
	toy.says(t, "reprocess", "2 events reprocessed", "reprocess", "shorter.yaml", "--data=data")
	toy.says(t, "reprocess", `{"loud":"HI"}`+"\n"+`{"loud":"YOU"}`, "tail", "shouts.g2.shouted", "--data=data")
}

// toyProgram is the program with the toy.
type toyProgram struct {
	source string // a copy of the repository
	binary string
	dir    string // that it runs in
}

// buildToy adds the toy to a copy of the repository, and builds the program and the
// generated part of the documentation there.
func buildToy(t *testing.T) toyProgram {
	t.Helper()
	toy := toyProgram{source: t.TempDir(), dir: t.TempDir()}
	toy.binary = filepath.Join(toy.dir, "afterbay")
	copyRepository(t, toy.source)
	for to, from := range toyStep {
		toy.put(t, to, readText(t, from))
	}
	toy.put(t, "docs/reference/steps/upper.txt", toyScenario)
	list := readText(t, toyList)
	if strings.Count(list, toyNext) != 1 {
		t.Fatalf("%s does not have %s once", toyList, toyNext)
	}
	toy.put(t, toyList, strings.Replace(list, toyNext, toyWord+toyNext, 1))
	for _, arguments := range [][]string{
		{"build", "-buildvcs=false", "-o", toy.binary, "./cmd/afterbay"},
		{"test", "-vet=off", "-count=1", "-run=TestReferenceIsFresh", "./internal/config", "-update"},
		{"test", "-vet=off", "-count=1", "-run=Reference|Every|Schema", "./internal/config"},
	} {
		command := exec.CommandContext(t.Context(), "go", arguments...)
		command.Dir, command.Env = toy.source, append(os.Environ(), "CGO_ENABLED=0", "GOPROXY=off", "GOWORK=off", "GOFLAGS=-trimpath -pgo=off")
		if out, err := command.CombinedOutput(); err != nil {
			t.Fatalf("go %s: %v\n%s", strings.Join(arguments, " "), err, out)
		}
	}
	return toy
}

// copyRepository copies what the program and the documentation are made of.
func copyRepository(t *testing.T, to string) {
	t.Helper()
	err := filepath.WalkDir(".", func(path string, e fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case e.IsDir() && path != "." && (strings.HasPrefix(e.Name(), ".") || slices.Contains([]string{"bin", "node_modules", "results"}, e.Name())):
			return fs.SkipDir
		case !e.Type().IsRegular():
			return nil
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		path = filepath.Join(to, path)
		return errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, text, 0o600))
	})
	if err != nil {
		t.Fatal(err)
	}
}

func (p toyProgram) put(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(p.source, path), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func (p toyProgram) write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(p.dir, path), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// says runs a command, which has to print a text.
func (p toyProgram) says(t *testing.T, way, want string, arguments ...string) {
	t.Helper()
	command := exec.CommandContext(t.Context(), p.binary, arguments...)
	var out bytes.Buffer
	command.Dir, command.Stdout, command.Stderr = p.dir, &out, &out
	if err := command.Run(); !strings.Contains(out.String(), want) {
		t.Errorf("%s: afterbay %s: %v: no %q in\n%s", way, strings.Join(arguments, " "), err, want, out.String())
	}
}
