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

// File is a pipeline file that was read.
type File struct {
	Name      string     // as it was given to Load or Parse
	Pipelines []Pipeline // one a document; a chain works through the log

	source *spec.Source
	forms  *forms
	Places []map[string]spec.Place // of each pipeline's fields
	models []map[string]*Manifest  // of each pipeline, by the model's name
	wrong  []wrongPipeline
}

// Load reads a pipeline file of at most 1 MiB, and the environment variables
// that it names. The paths of files are relative to its folder: in the result
// they are joined with it. An error is Errors where the file was read but
// is not valid.
func Load(path string, kinds Kinds) (*File, error) {
	file, err := LoadPartly(path, kinds)
	if err != nil {
		return nil, err
	}
	return file, nil
}

// LoadPartly is Load, but with an error of type Errors it also returns the file, with
// the pipelines that are valid. Lint uses it to find further faults in them.
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

// ReadModels makes the paths of models relative to the folder of the pipeline file, and
// reads the manifests among them. It is called once, by who did not Load the file.
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
	}
}

// Parse reads the text of a pipeline file in which no environment variable is
// set; filename is for messages only. The paths of files stay as they are
// written. An error is Errors: all that is wrong, in the order of the file.
func Parse(filename string, data []byte, kinds Kinds) (*File, error) {
	return ParseWith(filename, data, func(string) (string, bool) { return "", false }, kinds)
}

// ParseBeside is Load of a text that is not in a file, but whose paths are relative to the
// folder of filename. lookup knows environment variables; nil knows none.
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

// ParseWith is Parse with the environment variables that lookup knows.
func ParseWith(filename string, data []byte, lookup spec.Lookup, kinds Kinds) (*File, error) {
	file, err := ParsePartly(filename, data, lookup, kinds)
	if err != nil {
		return nil, err
	}
	return file, nil
}

// ParsePartly returns all that is wrong, and the pipelines in which nothing is.
// Kinds that cannot be are an error, and nothing is read.
func ParsePartly(filename string, data []byte, lookup spec.Lookup, kinds Kinds) (*File, error) {
	return parse(filename, data, lookup, kinds, "")
}

// parse is ParsePartly. Paths of files are joined with folder, if there is one.
func parse(filename string, data []byte, lookup spec.Lookup, kinds Kinds, folder string) (*File, error) {
	forms, err := kinds.forms()
	if err != nil {
		return nil, err
	}
	fields, again := spec.MappingOf(forms.pipeline), forms.again()
	file := &File{Name: filename, forms: forms}
	s, documents, found := spec.PipelineFiles.Read(filename, data)
	file.source = s
	lines := make(map[string]int) // of each pipeline's name
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

// wrongPipeline is what could be read of a pipeline that is not valid.
type wrongPipeline struct {
	pipeline Pipeline
	places   map[string]spec.Place
	found    spec.Errors
}

// Above returns what check finds in the pipelines that are not right as they are
// written, as far as it stands above the first mistake there and in another
// part, such as a step: the rest may be wrong only because of the mistake.
func (f *File) Above(check func(Pipeline) error) spec.Errors {
	var above spec.Errors
	for _, w := range f.wrong {
		var meaning spec.Problems
		if !errors.As(check(w.pipeline), &meaning) {
			continue
		}
		first := w.found.Sorted().(spec.Errors)[0]
		for _, e := range meaning {
			// A feature may use names that are introduced below.
			_, written := w.places[part(e.Path)] // what is not may be written under the wrong word
			below := !written || e.Path == "steps" || part(e.Path) == part(first.Field) || strings.Contains(e.Path, ".features.") && (strings.HasSuffix(e.Path, ".value") || strings.HasSuffix(e.Path, ".when"))
			if found := f.source.Explain(w.places, e); !below && (found.Line < first.Line || found.Line == first.Line && found.Column < first.Column) {
				above = append(above, found)
			}
		}
	}
	return above
}

// part is the first part of a path: input, models, steps[2].
func part(path string) string {
	first, _, _ := strings.Cut(path, ".")
	return first
}

// Explain turns an afterbay.Errors or *afterbay.Error in err, found in the
// pipeline of that index, into Errors with positions in the file. Where the
// path of one is not in the file, its nearest parent is shown. Any other error
// is returned as it is.
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
