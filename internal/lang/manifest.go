package lang

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/afterbay/afterbay/internal/models"
	"github.com/afterbay/afterbay/internal/spec"
	"github.com/afterbay/afterbay/model"
)

// Manifest is a parsed model manifest.
type Manifest struct {
	model.Manifest // with file paths joined with the folder of the manifest

	source *spec.Source
	places map[string]spec.Place
}

// manifestFields are the fields that all manifests share, without those of kinds.
var manifestFields = []spec.Field[model.Manifest]{
	{Name: "model", Affects: spec.Outputs, Required: true, Form: spec.Into(func(m *model.Manifest) *string { return &m.Name }, spec.ReadName), Example: "fraud"},
	{Name: "version", Affects: spec.Outputs, Required: true, Form: spec.Into(func(m *model.Manifest) *int { return &m.Version }, spec.Version()), Example: "3"},
	{Name: "file", Affects: spec.Nothing, Form: spec.Into(func(m *model.Manifest) *string { return &m.File }, spec.TextOf("the path of a model file")), Example: "fraud.ubj"},
	{Name: "sha256", Affects: spec.Outputs, Form: spec.Into(func(m *model.Manifest) *string { return &m.Digest }, spec.ReadDigest),
		Example: "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08", Absent: "required with `file`"},
	{Name: "trees", Affects: spec.Outputs, Form: spec.Into(func(m *model.Manifest) *string { return &m.Trees }, spec.Choice[string]("all", "best")), Example: "best", Absent: treesAbsent, Help: treesMeans},
	{Name: "kind", Affects: spec.Outputs, Form: spec.Into(func(m *model.Manifest) *string { return &m.Kind }, spec.ReadName), Example: "xgboost"},
	{Name: "inputs", Affects: spec.Outputs, Required: true, Form: spec.Into(func(m *model.Manifest) *[]model.ManifestInput { return &m.Inputs },
		spec.Named(func(in *model.ManifestInput) *string { return &in.Name }, spec.OneOf("write number, string, bytes or {type: ...}",
			spec.Scalar, spec.Into(inputType, readInputType), spec.Mapping, spec.MappingOf(manifestInputFields)))),
		Example: "{amount: number, country: {type: number, categories: [US, GB]}}", Help: "the inputs in the model's order, with their types"},
	{Name: "outputs", Affects: spec.Outputs, Required: true, Form: spec.Into(func(m *model.Manifest) *[]model.Output { return &m.Outputs },
		spec.OneOf("write [name], {name: size} or {name: string}", spec.List, spec.ListOf(manifestOutput()), spec.Mapping, spec.Named(outputName, outputKind()))),
		Example: "[score]", Help: "names of the scores, in the model's order; {embedding: 384} is a name of 384 scores, {words: string} or bytes one of a text"},
	{Name: "batch", Affects: spec.Nothing, Form: spec.Into(func(m *model.Manifest) *model.Policy { return &m.Batch }, spec.MappingOf(policyFields)),
		Example: "{size: 64}", Help: "which rows share a call, unless the pipeline has its own batch; `afterbay model bench` measures and writes it", Absent: "as below"},
	{Name: "golden", Affects: spec.Nothing, Form: spec.Into(func(m *model.Manifest) *string { return &m.Golden }, spec.ReadPath), Example: "golden.csv"},
	{Name: "limits", Affects: spec.Outputs, Form: spec.Into(func(m *model.Manifest) *model.Limits { return &m.Limits }, spec.MappingOf(limitFields)), Example: "{text: 64KiB}", Absent: "as below"},
}

func inputType(in *model.ManifestInput) *model.Type { return &in.Type }

var readInputType = spec.Choice[model.Type](string(model.Number), string(model.String), string(model.Bytes)).Default(model.Number)

var manifestInputFields = []spec.Field[model.ManifestInput]{
	{Name: "type", Affects: spec.Outputs, Form: spec.Into(inputType, readInputType), Example: "string", Help: "what it holds", Absent: "number"},
	{Name: "shape", Affects: spec.Outputs, Form: spec.Into(func(in *model.ManifestInput) *[]int { return &in.Shape }, spec.ListOf(spec.Whole[int](1, 1<<20))), Example: "[576]", Absent: "a single value"},
	{Name: "categories", Affects: spec.Outputs, Form: spec.Into(func(in *model.ManifestInput) *[]string { return &in.Categories }, spec.ListOf(spec.TextOf("a text"))),
		Example: "[US, GB]", Absent: "what the file says"},
}

var policyFields = []spec.Field[model.Policy]{
	{Name: "size", Affects: spec.Nothing, Form: spec.Into(func(p *model.Policy) *int { return &p.Size }, spec.Whole[int](1, 4096)), Example: "256"},
	{Name: "wait", Affects: spec.Nothing, Form: spec.Into(func(p *model.Policy) *time.Duration { return &p.Wait }, spec.Span(0, time.Minute)), Example: "2ms"},
	{Name: "sort", Affects: spec.Nothing, Form: spec.Into(func(p *model.Policy) *bool { return &p.ByLength }, spec.OnlyTrue()), Example: "true", Absent: "in the order of the events"},
}

var limitFields = []spec.Field[model.Limits]{
	{Name: "text", Affects: spec.Outputs, Form: spec.Into(func(l *model.Limits) *int { return &l.TextBytes }, spec.Size(1, 64<<20)), Example: "64KiB"},
	{Name: "rows", Affects: spec.Nothing, Form: spec.Into(func(l *model.Limits) *int { return &l.Rows }, spec.Whole[int](1, 4096)), Example: "256"},
}

func outputName(o *model.Output) *string { return &o.Name }

// outputKind reads the size of an output, or that the output is a text.
func outputKind() spec.Form[model.Output] {
	size, kind := spec.Whole[int](1, 1<<20), spec.Choice[model.Type](string(model.String), string(model.Bytes))
	return spec.Form[model.Output]{Read: func(r *spec.Reader, n *spec.Node, path string, into *model.Output) {
		if n.Kind == spec.Scalar && !spec.Decimal.MatchString(n.Text) {
			into.Size = 1
			kind.Read(r, n, path, &into.Type)
		} else {
			size.Read(r, n, path, &into.Size)
		}
	}, Print: func(p *spec.Printer, path string, o *model.Output) {
		if o.Type != "" {
			kind.Print(p, path, &o.Type)
		} else {
			size.Print(p, path, &o.Size)
		}
	}, Shape: spec.Shape{Kind: spec.Either, Of: []spec.Shape{size.Shape, kind.Shape}}}
}

// manifestOutput reads the name of one score.
func manifestOutput() spec.Form[model.Output] {
	return spec.Form[model.Output]{Read: func(r *spec.Reader, n *spec.Node, path string, into *model.Output) {
		into.Size = 1
		spec.ReadName.Read(r, n, path, &into.Name)
	}, Print: func(p *spec.Printer, path string, o *model.Output) { p.Line(path, o.Name) }, Shape: spec.ReadName.Shape}
}

// IsManifest reports whether a file is the manifest of a model, valid or not.
func IsManifest(path string) bool { return spec.IsFile(path, &spec.ManifestFiles) }

// LoadManifest reads the manifest of a model, of at most 1 MiB, and the environment variables that
// its values name. Paths in the manifest are relative to its folder; in the result they are joined
// with it. If the file was read but is invalid, the error is of type Errors.
func LoadManifest(path string, kinds Kinds) (*Manifest, error) {
	f, err := kinds.forms()
	if err != nil {
		return nil, err
	}
	return f.loadManifest(path)
}

func (f *forms) loadManifest(path string) (*Manifest, error) {
	data, err := spec.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("read model manifest: %w", err)
	}
	m, err := f.parseManifest(path, data, os.LookupEnv, filepath.Dir(path))
	if err != nil {
		return nil, err
	}
	spec.Beside(path, &m.File)
	return m, nil
}

// ParseManifest reads the text of a manifest, which may name no environment variables. filename is
// only for messages, and paths stay as written. An error of type Errors lists all errors in the
// order of the file.
func ParseManifest(filename string, data []byte, kinds Kinds) (*Manifest, error) {
	return ParseManifestWith(filename, data, func(string) (string, bool) { return "", false }, kinds)
}

// ParseManifestWith is ParseManifest with the environment variables that lookup returns.
func ParseManifestWith(filename string, data []byte, lookup spec.Lookup, kinds Kinds) (*Manifest, error) {
	f, err := kinds.forms()
	if err != nil {
		return nil, err
	}
	return f.parseManifest(filename, data, lookup, "")
}

// parseManifest is ParseManifestWith. Unless folder is empty, it joins folder with the paths of
// files in the mappings of kinds, and with the path of golden vectors.
func (f *forms) parseManifest(filename string, data []byte, lookup spec.Lookup, folder string) (*Manifest, error) {
	m := &Manifest{}
	r, root, err := spec.ReadOneIn(folder, &spec.ManifestFiles, filename, data, lookup, f.manifest, &m.Manifest)
	if err != nil {
		return nil, err
	}
	m.source, m.places = r.Source, r.Places
	if err := r.Errors.Sorted(); err != nil {
		return nil, err
	}
	for i := range m.Inputs {
		m.Inputs[i].Type = cmp.Or(m.Inputs[i].Type, model.Number)
	}
	f.kinds.ownMapping(r, root, &m.Manifest)
	switch {
	case m.File == "" && !f.kinds.noFile(&m.Manifest):
		r.Missing(root, "", "file", "")
	case (m.File == "") != (m.Digest == ""):
		r.Fail(root.Offset, "", "`file` and `sha256` belong together", "write both")
	}
	if err := r.Errors.Sorted(); err != nil {
		return nil, err
	}
	m.Dir = folder
	m.Config = models.ConfigOf(&m.Manifest, f.kinds.Models)
	return m, nil
}

// Explain converts models.Errors in err into Errors with positions in the manifest. It returns any
// other error unchanged.
func (m *Manifest) Explain(err error) error {
	var found models.Errors
	if !errors.As(err, &found) {
		return err
	}
	var explained spec.Errors
	for _, e := range found {
		explained = append(explained, m.source.Explain(m.places, &spec.Problem{Path: e.Path, Message: e.Message, Hint: e.Hint, Err: e.Err}))
	}
	return explained.Sorted()
}

// readManifests reads the manifests that a pipeline's models name. It skips a manifest that cannot
// be read at all: the code that loads the model reports it.
func (f *forms) readManifests(p *Pipeline) (map[string]*Manifest, spec.Errors) {
	var all spec.Errors
	manifests := map[string]*Manifest{}
	read := func(path, file string, into **model.Manifest) {
		if !NamesManifest(file) {
			return
		}
		m, err := f.loadManifest(file)
		var found spec.Errors
		switch {
		case err == nil:
			manifests[path], *into = m, &m.Manifest
		case errors.As(err, &found):
			all = append(all, found...)
		}
	}
	for i := range p.Models {
		named := &p.Models[i]
		read("models."+named.Name, named.File, &named.Manifest)
		for n := range named.Candidates {
			read(CandidatePath(named.Name, n), named.Candidates[n].File, &named.Candidates[n].Manifest)
		}
	}
	return manifests, all
}

// ofManifest explains an error in the manifest of a model. It returns nil if the error is in no
// manifest.
func (f *File) ofManifest(pipeline int, e *spec.Problem) *spec.Error {
	if pipeline >= len(f.models) {
		return nil
	}
	for of, m := range f.models[pipeline] {
		if path, inside := strings.CutPrefix(e.Path, of+".manifest."); inside {
			return m.source.Explain(m.places, &spec.Problem{Path: path, Message: e.Message, Hint: e.Hint, Err: e.Err})
		}
	}
	return nil
}

// FormatManifest writes a manifest that LoadManifest can read. It omits the fields of models
// outside the process.
func FormatManifest(m *model.Manifest) []byte {
	var text strings.Builder
	line := func(word, value string) {
		if value != "" {
			fmt.Fprintf(&text, "%s: %s\n", word, value)
		}
	}
	line("model", quoteManifest(m.Name))
	line("version", strconv.Itoa(m.Version))
	line("kind", m.Kind)
	line("file", quoteManifest(m.File))
	line("sha256", m.Digest)
	line("trees", m.Trees)
	text.WriteString("inputs:\n")
	for _, in := range m.Inputs {
		kind := string(cmp.Or(in.Type, model.Number))
		if in.Shape != nil || in.Categories != nil {
			parts := []string{"type: " + kind}
			if in.Shape != nil {
				parts = append(parts, "shape: ["+strings.Trim(strings.Join(strings.Fields(fmt.Sprint(in.Shape)), ", "), "[]")+"]")
			}
			if in.Categories != nil {
				parts = append(parts, "categories: "+listManifest(in.Categories))
			}
			kind = "{" + strings.Join(parts, ", ") + "}"
		}
		fmt.Fprintf(&text, "  %s: %s\n", strings.ReplaceAll(quoteManifest(in.Name), "$${", "${"), kind)
	}
	line("outputs", listOutputs(m.Outputs))
	line("batch", formatPolicy(m.Batch))
	if m.Golden != "" {
		line("golden", quoteManifest(m.Golden))
	}
	var limits []string
	if m.Limits.TextBytes > 0 {
		limits = append(limits, "text: "+strconv.Itoa(m.Limits.TextBytes))
	}
	if m.Limits.Rows > 0 {
		limits = append(limits, "rows: "+strconv.Itoa(m.Limits.Rows))
	}
	if limits != nil {
		line("limits", "{"+strings.Join(limits, ", ")+"}")
	}
	return []byte(text.String())
}

func formatPolicy(p model.Policy) string {
	var parts []string
	if p.Size > 0 {
		parts = append(parts, "size: "+strconv.Itoa(p.Size))
	}
	if p.Wait > 0 {
		parts = append(parts, "wait: "+spec.FormatDuration(p.Wait))
	}
	if p.ByLength {
		parts = append(parts, "sort: true")
	}
	if parts == nil {
		return ""
	}
	return "{" + strings.Join(parts, ", ") + "}"
}

var plainWord = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_./-]*$`)

// quoteManifest quotes text so that every YAML reader reads the same text, and so that the text
// names no environment variable.
func quoteManifest(text string) string {
	if plainWord.MatchString(text) && !spec.IsForeign(text) && !slices.Contains([]string{"true", "false", "null", "yes", "no", "on", "off", "y", "n"}, strings.ToLower(text)) {
		return text
	}
	return strconv.QuoteToASCII(strings.ReplaceAll(text, "${", "$${"))
}

// listOutputs writes the names of outputs. It adds the sizes if one of them is not 1.
func listOutputs(outputs []model.Output) string {
	var names, sized []string
	for _, out := range outputs {
		name := quoteManifest(out.Name)
		size := strconv.Itoa(out.Size)
		if out.Text() {
			size = string(out.Type)
		}
		names, sized = append(names, name), append(sized, strings.ReplaceAll(name, "$${", "${")+": "+size)
	}
	if slices.ContainsFunc(outputs, func(out model.Output) bool { return out.Size != 1 || out.Text() }) {
		return "{" + strings.Join(sized, ", ") + "}"
	}
	return "[" + strings.Join(names, ", ") + "]"
}

func listManifest(list []string) string {
	quoted := make([]string, len(list))
	for i, text := range list {
		quoted[i] = quoteManifest(text)
	}
	return "[" + strings.Join(quoted, ", ") + "]"
}

// batchLines matches the batch mapping of a manifest with the lines indented below it.
var batchLines = regexp.MustCompile(`(?m)^batch:.*\n?(?:[ \t]+.*\n?)*`)

// WithPolicy returns the text of a manifest with its batch policy replaced. All other text stays
// unchanged.
func WithPolicy(manifest []byte, p model.Policy) []byte {
	line := "batch: " + formatPolicy(p) + "\n"
	if at := batchLines.FindIndex(manifest); at != nil {
		return slices.Concat(manifest[:at[0]], []byte(line), manifest[at[1]:])
	}
	text := strings.TrimRight(string(manifest), "\n") + "\n"
	return []byte(text + line)
}

// NamesManifest reports whether a path names a manifest and not a model: it ends with .yaml or
// .yml.
func NamesManifest(path string) bool {
	return strings.HasSuffix(path, ".yaml") || strings.HasSuffix(path, ".yml")
}
