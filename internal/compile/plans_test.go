package compile_test

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/afterbay/afterbay/internal/compile"
	"github.com/afterbay/afterbay/internal/config"
	"github.com/afterbay/afterbay/internal/lang"
	"github.com/afterbay/afterbay/internal/lang/steps"
	"github.com/afterbay/afterbay/internal/process/builtin"
	"github.com/afterbay/afterbay/internal/test/golden"
	"github.com/afterbay/afterbay/udf"
)

const (
	plansFile        = "internal/e2e/testdata/golden/plans.txt"
	fingerprintsFile = "internal/e2e/testdata/golden/fingerprints.txt"
)

// TestPlansAreWhatTheyWere compares the fingerprint and the order of stages of every
// pipeline in the repository with internal/e2e/testdata/golden/plans.txt, and the text of what decides
// outputs with internal/e2e/testdata/golden/fingerprints.txt. `go test -run TestPlansAreWhatTheyWere ./internal/compile
// -update` writes both. Another hash of outputs begins a generation in every directory,
// and directories with another hash of state are refused, so neither may change unseen.
func TestPlansAreWhatTheyWere(t *testing.T) {
	var plans, texts strings.Builder
	planned := 0
	eachPipeline(t, func(name string, p lang.Pipeline) {
		planned++
		plan, err := planOf(p)
		if err != nil {
			fmt.Fprintf(&plans, "%s %s\n  refused: %s\n", name, p.Name, strings.ReplaceAll(err.Error(), "\n", "; "))
			return
		}
		fmt.Fprintf(&plans, "%s %s\n%s", name, p.Name, planText(plan))
		fmt.Fprintf(&texts, "%s %s %s\n  %s\n", name, p.Name, plan.Fingerprint.Outputs, strings.ReplaceAll(strings.TrimSpace(plan.Text), "\n", "\n  "))
	})
	if planned < 100 {
		t.Errorf("%d pipelines were found, of more than 100", planned)
	}
	golden.Check(t, plansFile, plans.String())
	golden.Check(t, fingerprintsFile, texts.String())
}

// eachPipeline calls visit with every pipeline of the repository.
func eachPipeline(t *testing.T, visit func(name string, p lang.Pipeline)) {
	t.Helper()
	for _, source := range pipelineSources(t) {
		for _, name := range variable.FindAllStringSubmatch(source.text, -1) {
			t.Setenv(name[1], "http://127.0.0.1:1")
		}
		read := func(path string, text []byte) (*config.File, error) { return config.Parse(path, text, builtin.Kinds()) }
		if filepath.Ext(source.path) == ".yaml" {
			read = func(path string, _ []byte) (*config.File, error) { return config.Load(path, builtin.Kinds()) }
		}
		file, err := read(source.path, []byte(source.text))
		if err != nil {
			continue // shown to be refused, or a part of a file
		}
		for _, p := range file.Pipelines {
			for i := range p.Models {
				if m := &p.Models[i]; m.File != "" && filepath.Ext(source.path) != ".yaml" {
					m.File = filepath.Join(filepath.Dir(source.path), m.File)
				}
			}
			visit(source.name, p)
		}
	}
}

// planOf compiles p with functions that do nothing.
func planOf(p lang.Pipeline) (compile.Planned, error) {
	withFunctions(&p)
	return compile.PlanOfKinds(p, builtin.Kinds().Models)
}

// withFunctions gives p functions that do nothing.
func withFunctions(p *lang.Pipeline) {
	p.Code.Functions = map[string]udf.Function{}
	for _, name := range functionNames(p.Steps) {
		p.Code.Functions[name] = udf.Function{Version: 1, Keyed: true, Event: func(*udf.Context) error { return nil }, Timer: func(*udf.Context) error { return nil }}
	}
}

func planText(plan compile.Planned) string {
	var b strings.Builder
	f := &plan.Fingerprint
	fmt.Fprintf(&b, "  outputs %s\n  order %s\n", f.Outputs, f.Order)
	for _, kept := range f.State {
		fmt.Fprintf(&b, "  %v %s\n", kept, kept.Hash)
	}
	fmt.Fprintf(&b, "  %s\n", strings.Join(slices.Insert(plan.Stages, plan.Waves, "(waves)"), ", "))
	return b.String()
}

func functionNames(list []lang.Step) (names []string) {
	for _, s := range list {
		switch s := s.(type) {
		case *steps.Call:
			names = append(names, s.Go)
		case *steps.Route:
			for _, c := range s.Cases {
				names = append(names, functionNames(c.Steps)...)
			}
		}
	}
	return names
}

// pipelineSource is a text that may be a pipeline file.
type pipelineSource struct{ name, path, text string }

var (
	inScenario = regexp.MustCompile(`(?m)^pipeline\n((?:(?:  .*)?\n)+)`)
	variable   = regexp.MustCompile(`\$\{(\w+)\}`)
	inPage     = regexp.MustCompile("(?ms)^```yaml[^\n]*\n(.*?)^```")
)

// noPlans are folders of pipelines that are refused (goldens of lint have the findings),
// or need weights that `make weights` lays out.
var noPlans = []string{"internal/lab/demo", "internal/config/testdata/bad", "internal/config/testdata/lint", "examples/support"}

// pipelineSources returns the pipeline files, and those inside of scenarios and pages.
func pipelineSources(t *testing.T) (all []pipelineSource) {
	t.Helper()
	err := filepath.WalkDir(".", func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && (path != "." && strings.HasPrefix(d.Name(), ".") || slices.Contains(noPlans, filepath.ToSlash(path))) {
			return filepath.SkipDir
		}
		within := map[string]*regexp.Regexp{".txt": inScenario, ".md": inPage, ".yaml": nil}
		find, ok := within[filepath.Ext(path)]
		if d.IsDir() || !ok {
			return nil
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		if find == nil {
			all = append(all, pipelineSource{path, path, string(text)})
			return nil
		}
		for i, found := range find.FindAllSubmatch(text, -1) {
			all = append(all, pipelineSource{fmt.Sprintf("%s[%d]", path, i), path, string(found[1])})
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}
