package lang

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/afterbay/afterbay/internal/spec"
)

// File is a parsed pipeline file.
type File struct {
	Name      string     // as the caller gave it to Load or Parse
	Pipelines []Pipeline // one for each document; pipelines form a chain through the log

	source *spec.Source
	forms  *forms
	Places []map[string]spec.Place // positions of the fields of each pipeline
	models []map[string]*Manifest  // manifests of each pipeline, by path of the model or candidate
	wrong  []wrongPipeline
}

// Load reads a pipeline file of at most 1 MiB, and the environment variables that it names. Paths
// in the file are relative to its folder; in the result they are joined with it. If the file was
// read but is invalid, the error is of type Errors.
func Load(path string, kinds Kinds) (*File, error) {
	file, err := LoadPartly(path, kinds)
	if err != nil {
		return nil, err
	}
	return file, nil
}

// LoadPartly is Load, but with an error of type Errors it also returns the file with its valid
// pipelines. Lint uses it to find further errors in them.
func LoadPartly(path string, kinds Kinds) (*File, error) {
	data, err := spec.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("read pipeline file: %w", err)
	}
	file, err := parse(path, data, os.LookupEnv, kinds, filepath.Dir(path))
	if file == nil {
		return nil, err
	}
	more := file.ReadModels(path)
	for i := range file.wrong {
		joinPaths(path, &file.wrong[i].pipeline)
	}
	if more != nil {
		var found spec.Errors
		errors.As(err, &found)
		err = append(found, more...)
	}
	return file, err
}

// ReadModels makes the paths of models relative to the folder of the pipeline file, and reads the
// manifests among them. A caller that did not use Load calls it once.
func (f *File) ReadModels(path string) (all spec.Errors) {
	for i := range f.Pipelines {
		joinPaths(path, &f.Pipelines[i])
		manifests, found := f.forms.readManifests(&f.Pipelines[i])
		f.models, all = append(f.models, manifests), append(all, found...)
	}
	return all
}

// joinPaths makes the paths of models relative to the folder of the pipeline file.
func joinPaths(path string, p *Pipeline) {
	for i := range p.Models {
		spec.Beside(path, &p.Models[i].File)
		p.Models[i].Dir = filepath.Dir(path)
		for n := range p.Models[i].Candidates {
			spec.Beside(path, &p.Models[i].Candidates[n].File)
		}
	}
}

// Parse reads the text of a pipeline file. No environment variable is set. filename is only for
// messages, and the paths of files stay as written. An error of type Errors lists all errors in the
// order of the file.
func Parse(filename string, data []byte, kinds Kinds) (*File, error) {
	return ParseWith(filename, data, func(string) (string, bool) { return "", false }, kinds)
}

// ParseBeside is Load for a text in memory. Paths are relative to the folder of filename. lookup
// returns environment variables; nil means that none is set.
func ParseBeside(filename string, data []byte, lookup spec.Lookup, kinds Kinds) (*File, error) {
	if lookup == nil {
		lookup = func(string) (string, bool) { return "", false }
	}
	file, err := parse(filename, data, lookup, kinds, filepath.Dir(filename))
	if err != nil {
		return nil, err
	}
	if found := file.ReadModels(filename); found != nil {
		return nil, found.Sorted()
	}
	return file, nil
}

// ParseWith is Parse with the environment variables that lookup returns.
func ParseWith(filename string, data []byte, lookup spec.Lookup, kinds Kinds) (*File, error) {
	file, err := ParsePartly(filename, data, lookup, kinds)
	if err != nil {
		return nil, err
	}
	return file, nil
}

// ParsePartly returns all errors together with the valid pipelines. If the kinds are invalid, it
// returns that error and no file.
func ParsePartly(filename string, data []byte, lookup spec.Lookup, kinds Kinds) (*File, error) {
	return parse(filename, data, lookup, kinds, "")
}

// parse is ParsePartly. It joins the paths of files with folder, unless folder is empty.
func parse(filename string, data []byte, lookup spec.Lookup, kinds Kinds, folder string) (*File, error) {
	forms, err := kinds.forms()
	if err != nil {
		return nil, err
	}
	fields, again := spec.MappingOf(forms.pipeline), forms.again()
	file := &File{Name: filename, forms: forms}
	s, documents, found := spec.PipelineFiles.Read(filename, data)
	file.source = s
	lines := make(map[string]int) // line of each pipeline's name
	for _, d := range documents {
		before := len(found)
		r := &spec.Reader{Source: s, Places: make(map[string]spec.Place), Errors: found, Again: again, Lookup: lookup, Folder: folder}
		var p Pipeline
		fields.Read(r, d.Root, "", &p)
		if len(r.Errors) == before {
			kinds.oneKind(r, d.Root)
		}
		if at := r.Places["pipeline"]; p.Name != "" && lines[p.Name] > 0 {
			r.Fail(at.Offset, "pipeline", "two pipelines are named "+spec.Shorten(p.Name),
				fmt.Sprintf("rename one: its state and group have its name; the first is on line %d", lines[p.Name]))
		} else {
			lines[p.Name] = s.Line(at.Offset)
		}
		found = r.Errors
		switch {
		case r.Full():
		case len(found) == before:
			file.Pipelines = append(file.Pipelines, p)
			file.Places = append(file.Places, r.Places)
		default:
			file.wrong = append(file.wrong, wrongPipeline{p, r.Places, slices.Clone(found[before:])})
		}
	}
	return file, found.Sorted()
}

// wrongPipeline holds the readable part of an invalid pipeline.
type wrongPipeline struct {
	pipeline Pipeline
	places   map[string]spec.Place
	found    spec.Errors
}

// Above runs check on the invalid pipelines. It returns the findings that stand above the first
// error of the file and in another part, such as another step. The other findings may be
// consequences of that error.
func (f *File) Above(check func(Pipeline) error) spec.Errors {
	var above spec.Errors
	for _, w := range f.wrong {
		var meaning spec.Problems
		if !errors.As(check(w.pipeline), &meaning) {
			continue
		}
		first := w.found.Sorted().(spec.Errors)[0]
		for _, e := range meaning {
			// A feature may use names that steps below it introduce.
			_, written := w.places[part(e.Path)] // a part that is missing may stand in the file under a misspelled name
			below := !written || e.Path == "steps" || part(e.Path) == part(first.Field) || strings.Contains(e.Path, ".features.") && (strings.HasSuffix(e.Path, ".value") || strings.HasSuffix(e.Path, ".when"))
			if found := f.source.Explain(w.places, e); !below && (found.Line < first.Line || found.Line == first.Line && found.Column < first.Column) {
				above = append(above, found)
			}
		}
	}
	return above
}

// part returns the first part of a path: input, models, steps[2].
func part(path string) string {
	first, _, _ := strings.Cut(path, ".")
	return first
}

// Explain converts spec.Problems or a *spec.Problem in err into Errors with positions in the file.
// pipeline is the index of the pipeline that they were found in. If a path is not in the file, the
// position is that of its nearest parent. Explain returns any other error unchanged.
func (f *File) Explain(pipeline int, err error) error {
	var found spec.Problems
	var single *spec.Problem
	switch {
	case pipeline < 0 || pipeline >= len(f.Places):
		return err
	case errors.As(err, &found):
	case errors.As(err, &single):
		found = spec.Problems{single}
	default:
		return err
	}
	var explained spec.Errors
	for _, e := range found {
		if said := f.ofManifest(pipeline, e); said != nil {
			explained = append(explained, said)
			continue
		}
		explained = append(explained, f.source.Explain(f.Places[pipeline], e))
	}
	return explained.Sorted()
}
