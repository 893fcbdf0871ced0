package process

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"github.com/afterbay/afterbay/internal/config"
	"github.com/afterbay/afterbay/internal/control"
	"github.com/afterbay/afterbay/internal/failure"
	"github.com/afterbay/afterbay/internal/lang"
	"github.com/afterbay/afterbay/internal/pipeline"
)

// Pipeline is a pipeline that is ready to run, and its file.
type Pipeline struct {
	File   string
	Source *lang.File
	Index  int // index in the file
	Runner *pipeline.Runner
}

// Describe returns a text that says what the pipeline reads, writes and loads.
func (p Pipeline) Describe() string {
	text := fmt.Sprintf("%s and writes %s", strings.Join(p.Runner.Inputs(), ", "), strings.Join(p.Runner.Outputs(), ", "))
	if way := p.Runner.Way(); way != "" {
		text += "\n  " + way
	}
	for _, m := range p.Runner.Plan.Models {
		text += "\n  model " + m
	}
	for _, a := range p.Source.Pipelines[p.Index].Alternatives() {
		text += fmt.Sprintf("\n  candidate %s (%s)", a.Model, a.Mode)
	}
	for _, s := range p.Runner.Sinks {
		text += fmt.Sprintf("\n  sink %s: %s to %s", s.Name, s.From, s.Config.Describe())
	}
	return text
}

// Loader loads pipelines, with the options that all pipelines of a program share.
type Loader struct {
	Kinds    lang.Kinds         // kinds that files may name
	Code     lang.Code          // code that files may name
	Logger   *slog.Logger       // nil discards
	Announce func(text string)  // as in pipeline.Options
	Fault    func(stage string) // as in pipeline.Options

	endpoints control.Endpoints // endpoints of all pipelines
	keyBytes  int64             // as in pipeline.Options, for each pipeline and candidate
	ends      []func()          // functions that close the pipelines
}

// New checks a pipeline, with models of any kind. The loader owns the runner: Close closes it, and
// ends what its models run outside of the process.
func (l *Loader) New(p lang.Pipeline, o pipeline.Options) (*pipeline.Runner, error) {
	o.Announce, o.Endpoints = l.Announce, cmp.Or(o.Endpoints, &l.endpoints)
	if o.ModelKinds == nil {
		o.ModelKinds = l.Kinds.Models
	}
	runner, err := pipeline.New(p, o)
	if err == nil {
		l.Own(runner)
	}
	return runner, err
}

// Own makes Close close a pipeline that another caller made.
func (l *Loader) Own(runner *pipeline.Runner) { l.ends = append(l.ends, runner.Close) }

// Close closes the pipelines. They must have ended.
func (l *Loader) Close() {
	for _, end := range l.ends {
		end()
	}
	l.ends = nil
}

// Load loads and checks the pipelines of files, and returns them upstream first. The error has all
// problems. keys returns KeyBytes of each pipeline for a number of pipelines. If keys is nil, the
// value of the options is used.
func (l *Loader) Load(files []string, o pipeline.Options, keys func(pipelines int) int64) ([]Pipeline, error) {
	var loaded []*lang.File
	var found []error
	for _, path := range files {
		if config.IsGateway(path) {
			return nil, failure.Usage("%s is a gateway file: name the pipelines, and it by --gateway %s", path, path)
		}
		file, err := lang.Load(path, l.Kinds)
		if errors.As(err, new(*fs.PathError)) {
			err = fmt.Errorf("%w: name a pipeline file that can be read", err)
		}
		if err != nil {
			found = append(found, err)
			continue
		}
		loaded = append(loaded, file)
	}
	all, errs, err := l.make(loaded, o, keys)
	if found = append(found, errs...); len(found) > 0 {
		return nil, failure.CannotRun(found...)
	}
	return all, err
}

// Make is Load for files that were already read.
func (l *Loader) Make(files []*lang.File, o pipeline.Options, keys func(pipelines int) int64) ([]Pipeline, error) {
	all, found, err := l.make(files, o, keys)
	if len(found) > 0 {
		return nil, failure.CannotRun(found...)
	}
	return all, err
}

// make is Make, but returns the problems of single pipelines in found. err has the problems between
// pipelines.
func (l *Loader) make(files []*lang.File, o pipeline.Options, keys func(pipelines int) int64) (all []Pipeline, found []error, err error) {
	names, count := map[string]string{}, 0
	for _, file := range files {
		for i := range file.Pipelines {
			count += 1 + len(file.Pipelines[i].Alternatives())
		}
	}
	o.Logger, o.Fault = l.Logger, l.Fault
	if keys != nil {
		o.KeyBytes = keys(count)
	}
	l.keyBytes = o.KeyBytes
	for _, file := range files {
		path := file.Name
		for i, p := range file.Pipelines {
			if other, ok := names[p.Name]; ok {
				found = append(found, fmt.Errorf("%s: pipeline %q is in %s too: rename one, since its state has its name", path, p.Name, other))
				continue
			}
			names[p.Name], p.Code = path, l.Code
			runner, err := l.New(p, o)
			if err != nil {
				found = append(found, file.Explain(i, err))
				continue
			}
			all = append(all, Pipeline{path, file, i, runner})
		}
	}
	if len(found) > 0 {
		return nil, found, nil
	}
	all, err = UpstreamFirst(all)
	return all, nil, err
}

// UpstreamFirst sorts pipelines so that the writer of a topic comes before its readers. It returns
// an error if they do not fit together.
func UpstreamFirst(pipelines []Pipeline) ([]Pipeline, error) {
	order, found := pipeline.Chain(Runners(pipelines))
	var ordered []Pipeline
	var errs []error
	for _, i := range order {
		ordered = append(ordered, pipelines[i])
	}
	for i, p := range pipelines {
		if err, ok := found[i]; ok {
			errs = append(errs, p.Source.Explain(p.Index, err))
		}
	}
	if len(errs) > 0 {
		return nil, failure.CannotRun(errs...)
	}
	return ordered, nil
}

// Runners returns the runners of the pipelines.
func Runners(pipelines []Pipeline) []*pipeline.Runner {
	runners := make([]*pipeline.Runner, len(pipelines))
	for i, p := range pipelines {
		runners[i] = p.Runner
	}
	return runners
}

// Members returns the number of members of a pipeline's group: n, or one per core if n is 0.
func Members(n int) int {
	if n == 0 {
		return runtime.GOMAXPROCS(0)
	}
	return n
}

// FilesOf returns the pipeline files in a folder that have a pipeline with the name.
func (l *Loader) FilesOf(name, folder string) (found []string) {
	for _, ending := range []string{"*.yaml", "*.yml"} {
		paths, err := filepath.Glob(filepath.Join(folder, ending))
		if err != nil {
			return nil // cannot happen: the patterns are valid
		}
		for _, path := range paths {
			file, err := config.Load(path, l.Kinds)
			if err == nil && slices.ContainsFunc(file.Pipelines, func(p lang.Pipeline) bool { return p.Name == name }) {
				found = append(found, path)
			}
		}
	}
	return found
}
