package lang

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/afterbay/afterbay/internal/spec"
	"github.com/afterbay/afterbay/model"
)

// MaxCandidates is how many candidates a pipeline may have. Each costs as much as the pipeline.
const MaxCandidates = 4

// Shadow is the mode of a candidate that decides nothing: its outputs go to topics of its own.
const Shadow = "shadow"

// Candidate is a model that runs beside a model of the pipeline, over the same events.
type Candidate struct {
	File    string // as Model.File
	Version int    // at least 1, and different from that of the model and of its other candidates
	Mode    string // Shadow

	Manifest *model.Manifest // as Model.Manifest
}

var candidateFields = []spec.Field[Candidate]{
	{Name: "file", Affects: spec.Nothing, Required: true, Form: spec.Into(func(c *Candidate) *string { return &c.File }, spec.TextOf("the path of a model file")),
		Example: "fraud-4.ubj", Help: "a model file, or the manifest of a model, as the `file` of the model"},
	{Name: "version", Affects: spec.Nothing, Required: true, Form: spec.Into(func(c *Candidate) *int { return &c.Version }, spec.Version()), Example: "4"},
	{Name: "mode", Affects: spec.Nothing, Required: true, Form: spec.Into(func(c *Candidate) *string { return &c.Mode }, spec.Choice[string](Shadow)), Example: "shadow",
		Help: "`shadow`: the candidate decides nothing, and its outputs go to topics of its own"},
}

// Replace makes the model another version of itself, in another file. The caller reads the manifest
// if the file is one.
func (m *Model) Replace(file string, version int, manifest *model.Manifest) {
	m.File, m.Version, m.Manifest = file, version, manifest
	m.Go, m.URL, m.Process, m.Candidates, m.Profile = "", "", nil, nil, nil
}

// Alternative is a pipeline with a candidate in place of one of its models.
type Alternative struct {
	Pipeline Pipeline // without candidates
	Model    string   // name@version of the candidate
	Mode     string
	Path     string // path of the candidate in the pipeline file

	of string // path of the model that it replaces
}

// Alternatives returns the pipeline with each of its candidates.
func (p *Pipeline) Alternatives() (list []Alternative) {
	for i := range p.Models {
		of := &p.Models[i]
		for n, c := range of.Candidates {
			a := Alternative{Pipeline: *p, Model: fmt.Sprintf("%s@%d", of.Name, c.Version), Mode: c.Mode, of: "models." + of.Name}
			a.Path = CandidatePath(of.Name, n)
			a.Pipeline.Models = slices.Clone(p.Models)
			for k := range a.Pipeline.Models {
				a.Pipeline.Models[k].Candidates = nil
			}
			a.Pipeline.Models[i].Replace(c.File, c.Version, c.Manifest)
			list = append(list, a)
		}
	}
	return list
}

// CandidatePath returns the path of a candidate in a pipeline file.
func CandidatePath(model string, n int) string {
	return fmt.Sprintf("models.%s.candidates[%d]", model, n)
}

// Explain moves problems of the alternative to the candidate that causes them.
func (a *Alternative) Explain(err error) error {
	var found spec.Problems
	if !errors.As(err, &found) {
		return err
	}
	moved := make(spec.Problems, len(found))
	for i, e := range found {
		at := *e
		if field, own := strings.CutPrefix(e.Path, a.of+"."); own && !strings.HasPrefix(field, "outputs") {
			at.Path = a.Path + "." + field
		} else {
			at.Path, at.Message = a.Path, fmt.Sprintf("with this model, %s: %s", e.Path, e.Message)
		}
		moved[i] = &at
	}
	return moved
}
