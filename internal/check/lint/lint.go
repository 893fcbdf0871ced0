// Package lint checks pipeline files, manifests of models, gateway files and token files.
package lint

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"slices"

	"github.com/afterbay/afterbay/internal/config"
	"github.com/afterbay/afterbay/internal/lang"
	"github.com/afterbay/afterbay/internal/models"
	"github.com/afterbay/afterbay/internal/pipeline"
	"github.com/afterbay/afterbay/internal/process"
	"github.com/afterbay/afterbay/internal/spec"
	"github.com/afterbay/afterbay/internal/sys/term"
	"github.com/afterbay/afterbay/model"
)

// Report is the result of checking files.
type Report struct {
	Findings config.Errors // sorted by file, and by position in each file
	Files    int           // number of files with findings
	Valid    []string      // lines about valid files, and warnings
}

// CheckFiles checks files. If connect is true, it also sends requests to servers.
func CheckFiles(ctx context.Context, loader *process.Loader, files []string, connect bool) *Report {
	l := &linter{loader: loader, ctx: ctx, pipelines: make(map[string]string), engine: &process.Engine{}, reach: connect}
	for _, path := range files {
		switch {
		case config.IsGateway(path):
			l.checkGateway(path)
		case config.IsManifest(path):
			l.checkManifest(path)
		case config.IsTokens(path):
			l.checkTokens(path)
		default:
			l.check(path)
		}
	}
	l.chain()
	l.answered()
	if connect {
		l.connect()
	}
	r, wrong := &Report{}, make(map[string]bool)
	for _, f := range l.files {
		for _, e := range f.sorted() {
			r.Findings = append(r.Findings, e)
			wrong[f.path] = true
		}
	}
	r.Files, r.Valid = len(wrong), l.valid(wrong)
	return r
}

// valid returns the lines about files without findings.
func (l *linter) valid(wrong map[string]bool) (lines []string) {
	say := func(format string, args ...any) { lines = append(lines, fmt.Sprintf(format, args...)) }
	arrivals := l.arrivals()
	for i, p := range l.right {
		if wrong[p.File] {
			continue
		}
		say("%s: pipeline %s is valid: it reads %s", p.File, p.Runner.Name(), p.Describe())
		for _, w := range slices.Concat(p.Runner.Warnings, arrivals[i]) {
			say("%s: pipeline %s: warning: %s", p.File, p.Runner.Name(), w)
		}
	}
	for _, m := range l.manifests {
		say("%s: the manifest of model %s@%d is valid%s", m.path, m.Name, m.Version, m.next())
		if m.open != "" {
			say("%s: model %s@%d: warning: %s", m.path, m.Name, m.Version, m.open)
		}
	}
	for _, t := range l.tokens {
		say("%s: the token file is valid: it has %s", t.Path(), term.Counted(len(t.Tokens), "token"))
	}
	for _, g := range l.gateways {
		if wrong[g.in.path] {
			continue
		}
		say("%s: gateway %s is valid: clients' events go to %s%s", g.in.path, g.file.Name, g.file.Pipeline.Input, g.of)
		for _, w := range g.warnings {
			say("%s: gateway %s: warning: %s", g.in.path, g.file.Name, w)
		}
	}
	return lines
}

// linter collects the errors in files.
type linter struct {
	loader    *process.Loader
	ctx       context.Context
	reach     bool              // servers of models must answer
	pipelines map[string]string // name of a pipeline to the file that has it
	engine    *process.Engine   // the newest one that a pipeline names
	files     []*lintedFile
	right     []lintedPipeline // pipelines without findings
	gateways  []lintedGateway  // gateways without findings
	manifests []lintedManifest // manifests without findings
	tokens    []*config.Tokens // token files without findings
}

// lintedManifest is a model manifest that is valid by itself.
type lintedManifest struct {
	*config.Manifest
	path string
	open string // facts that the model's file does not define
}

// next returns a hint for checks that lint does not do: it runs no program and calls no server.
func (m *lintedManifest) next() string {
	if models.Inside(m.Kind) {
		return ""
	}
	return " (the file alone); to check the model: afterbay model verify " + process.ShellWord(m.path)
}

type lintedFile struct {
	path      string
	file      *config.File
	pipelines bool // the file contains pipelines
	found     config.Errors
}

type lintedPipeline struct {
	process.Pipeline
	in    *lintedFile
	index int // index in its file
}

// check finds the errors in the form of a pipeline file, and in its pipelines. If the form is
// invalid, it checks the pipelines only above the first error.
func (l *linter) check(path string) {
	file, err := config.LoadPartly(path, l.loader.Kinds)
	f := l.begin(path)
	f.file, f.pipelines = file, true
	f.add(err)
	if file == nil {
		return
	}
	f.found = append(f.found, file.Above(func(p lang.Pipeline) error {
		_, err := l.loader.New(p, pipeline.Options{Reach: l.reach, NoPrograms: true})
		return err
	})...)
	for i, p := range file.Pipelines {
		if other, ok := l.pipelines[p.Name]; ok {
			f.add(file.Explain(i, &spec.Problem{
				Path: "pipeline", Message: fmt.Sprintf("pipeline %q is in %s too", p.Name, other), Hint: "rename one, since its state has its name",
			}))
		} else {
			l.pipelines[p.Name] = path
		}
		here := process.Pipeline{File: path, Source: file, Index: i}
		engine, found := l.engine.Next(here)
		if l.engine = engine; len(found) > 0 {
			f.add(file.Explain(i, found))
		}
		if here.Runner, err = l.loader.New(p, pipeline.Options{Members: 1, Logger: l.loader.Logger, Reach: l.reach, NoPrograms: true}); err != nil {
			f.add(file.Explain(i, err))
			continue
		}
		f.add(here.CheckCandidates(l.loader, pipeline.Options{Members: 1, Logger: l.loader.Logger, Reach: l.reach, NoPrograms: true}))
		l.right = append(l.right, lintedPipeline{here, f, i})
	}
}

// begin adds a file to the checked files.
func (l *linter) begin(path string) *lintedFile {
	f := &lintedFile{path: path}
	l.files = append(l.files, f)
	return f
}

// checkManifest finds the errors in a model's manifest. It runs no program and calls no server.
func (l *linter) checkManifest(path string) {
	f := l.begin(path)
	m, err := config.LoadManifest(path, l.loader.Kinds)
	open := ""
	if err == nil && models.Inside(m.Kind) {
		var loaded model.Model
		if loaded, _, err = models.Verified(l.ctx, &m.Manifest, models.Opening{}); err != nil {
			err = m.Explain(err)
		} else {
			open = loaded.Info().Ambiguous
		}
	}
	if err != nil {
		f.add(err)
		return
	}
	l.manifests = append(l.manifests, lintedManifest{m, path, open})
}

func (l *linter) checkTokens(path string) {
	f := l.begin(path)
	file, err := config.LoadTokens(path)
	if err == nil {
		_, _, err = file.Open()
	}
	if err != nil {
		f.add(err)
		return
	}
	l.tokens = append(l.tokens, file)
}

// runners returns the runners of the valid pipelines.
func (l *linter) runners() []*pipeline.Runner {
	runners := make([]*pipeline.Runner, len(l.right))
	for i, p := range l.right {
		runners[i] = p.Runner
	}
	return runners
}

// arrivals returns why rows depend on the order of arrival, by index in l.right.
func (l *linter) arrivals() map[int][]string { return pipeline.Arrivals(l.runners()) }

// chain finds the errors between pipelines.
func (l *linter) chain() {
	_, found := pipeline.Chain(l.runners())
	for i, errs := range found {
		p := l.right[i]
		p.in.add(p.in.file.Explain(p.index, errs))
	}
}

// connect finds problems in the services that the pipelines use: those of sinks and lookups, and
// the schema registry.
func (l *linter) connect() {
	for _, p := range l.right {
		schemas, warnings := p.Runner.AskRegistry(l.ctx)
		p.Runner.Warnings = append(p.Runner.Warnings, warnings...)
		for _, found := range []spec.Problems{schemas, askLookups(l.ctx, p.Runner.Finds), askSinks(l.ctx, p.Runner)} {
			if len(found) > 0 {
				p.in.add(p.in.file.Explain(p.index, found))
			}
		}
	}
}

// add adds the errors in err to the findings of the file.
func (f *lintedFile) add(err error) {
	var list config.Errors
	var access *fs.PathError
	switch {
	case err == nil:
	case errors.As(err, &list):
		f.found = append(f.found, list...)
	case errors.As(err, &access):
		f.found = append(f.found, &config.Error{File: f.path, Message: access.Err.Error(), Hint: "name a pipeline file that can be read"})
	default:
		f.found = append(f.found, &config.Error{File: f.path, Message: err.Error()})
	}
}

// sorted returns the findings in the order of the file.
func (f *lintedFile) sorted() config.Errors {
	slices.SortStableFunc(f.found, func(a, b *config.Error) int {
		return cmp.Or(cmp.Compare(lineOf(a), lineOf(b)), cmp.Compare(a.Column, b.Column), cmp.Compare(a.Message, b.Message))
	})
	return f.found
}

// lineOf returns the line of a finding. Findings about a whole file come last.
func lineOf(e *config.Error) int {
	if e.Line == 0 {
		return math.MaxInt
	}
	return e.Line
}
