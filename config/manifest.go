package config

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

	"github.com/afterbay/afterbay"
	"github.com/afterbay/afterbay/model"
	"github.com/afterbay/afterbay/model/load"
)

// Manifest is the file of a model's manifest.
type Manifest struct {
	model.Manifest // with the paths of files joined with the folder of the manifest

	source *source
	places map[string]place
}

var manifestWords = []word[model.Manifest]{
	{name: "model", required: true, form: field(func(m *model.Manifest) *string { return &m.Name }, readName), example: "fraud"},
	{name: "version", required: true, form: field(func(m *model.Manifest) *int { return &m.Version }, version()), example: "3"},
	{name: "file", form: field(func(m *model.Manifest) *string { return &m.File }, textOf("the path of a model file")), example: "fraud.ubj",
		absent: "required, but with `process` and `remote`"},
	{name: "sha256", form: field(func(m *model.Manifest) *string { return &m.Digest }, digest()),
		example: "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08", absent: "required with `file`"},
	{name: "trees", form: field(func(m *model.Manifest) *string { return &m.Trees }, choice[string]("all", "best")), example: "best", absent: treesAbsent, means: treesMeans},
	{name: "kind", form: field(func(m *model.Manifest) *string { return &m.Kind }, choice[string](load.Kinds()...)), example: "xgboost"},
	{name: "inputs", required: true, form: field(func(m *model.Manifest) *[]model.ManifestInput { return &m.Inputs },
		named(func(in *model.ManifestInput) *string { return &in.Name }, oneOf("write number, string, bytes or {type: ...}",
			scalar, field(inputType, readInputType), mapping, words(manifestInputWords)))),
		example: "{amount: number, country: {type: number, categories: [US, GB]}}", means: "the inputs in the model's order, with their types"},
	{name: "outputs", required: true, form: field(func(m *model.Manifest) *[]model.Output { return &m.Outputs },
		oneOf("write [name], {name: size} or {name: string}", list, listOf(manifestOutput()), mapping, named(outputName, outputKind()))),
		example: "[score]", means: "names of the scores, in the model's order; {embedding: 384} is a name of 384 scores, {words: string} or bytes one of a text"},
	{name: "batch", form: field(func(m *model.Manifest) *model.Policy { return &m.Batch }, words(policyWords)),
		example: "{size: 64}", means: "which rows share a call, where the pipeline does not say; `afterbay model bench` measures and writes it", absent: "as below"},
	{name: "golden", form: field(func(m *model.Manifest) *string { return &m.Golden }, readPath), example: "golden.csv"},
	{name: "limits", form: field(func(m *model.Manifest) *model.Limits { return &m.Limits }, words(limitWords)), example: "{text: 64KiB}", absent: "as below"},
	{name: "onnx", form: optional(func(m *model.Manifest) **model.ONNX { return &m.ONNX }, words(onnxWords)),
		example: "{tokens: {file: tokenizer.json}, pool: mean}", absent: "as below", means: "how a model of kind onnx is computed"},
	{name: "ocr", form: optional(func(m *model.Manifest) **model.OCR { return &m.OCR }, words(ocrWords)),
		example: "{read: {file: read.onnx, sha256: 48fc40f24f6d2a207a2b1091d3437eb3cc3eb6b676dc3ef9c37384005483683b}}", absent: "required with kind ocr", means: "the other models of one of kind ocr"},
	{name: "process", form: optional(func(m *model.Manifest) **model.Process { return &m.Process }, words(processWords)),
		example: "{command: [python3, worker.py, model.py]}", absent: "required with kind process", means: "the program that is a model of kind process"},
	{name: "remote", form: optional(func(m *model.Manifest) **model.Remote { return &m.Remote }, words(remoteWords)),
		example: "{endpoint: grpc://models:8081}", absent: "required with kind remote", means: "the server that has a model of kind remote"},
	{name: "voice", form: optional(func(m *model.Manifest) **model.Voice { return &m.Voice }, words(voiceWords)),
		example: "{seconds: 60}", absent: "as below", means: "how a model of kind voice hears"},
}

func inputType(in *model.ManifestInput) *model.Type { return &in.Type }

var readInputType = choice[model.Type](string(model.Number), string(model.String), string(model.Bytes))

var manifestInputWords = []word[model.ManifestInput]{
	{name: "type", form: field(inputType, readInputType), example: "number", means: "what it holds", absent: "number"},
	{name: "shape", form: field(func(in *model.ManifestInput) *[]int { return &in.Shape }, listOf(whole[int](1, 1<<20))), example: "[576]", absent: "a single value"},
	{name: "categories", form: field(func(in *model.ManifestInput) *[]string { return &in.Categories }, listOf(textOf("a text"))),
		example: "[US, GB]", absent: "what the file says"},
}

var policyWords = []word[model.Policy]{
	{name: "size", form: field(func(p *model.Policy) *int { return &p.Size }, whole[int](1, 4096)), example: "256"},
	{name: "wait", form: field(func(p *model.Policy) *time.Duration { return &p.Wait }, span(0, time.Minute)), example: "2ms"},
	{name: "sort", form: field(func(p *model.Policy) *bool { return &p.ByLength }, onlyTrue()), example: "true", absent: "in the order of the events"},
}

var limitWords = []word[model.Limits]{
	{name: "text", form: field(func(l *model.Limits) *int { return &l.TextBytes }, size(1, 64<<20)), example: "64KiB"},
	{name: "rows", form: field(func(l *model.Limits) *int { return &l.Rows }, whole[int](1, 4096)), example: "256"},
}

func outputName(o *model.Output) *string { return &o.Name }

// outputKind reads how many scores an output has, or that it is a text.
func outputKind() form[model.Output] {
	size, kind := whole[int](1, 1<<20), choice[model.Type](string(model.String), string(model.Bytes))
	return form[model.Output]{func(r *reader, n *node, path string, into *model.Output) {
		if n.kind == scalar && !decimal.MatchString(n.text) {
			into.Size = 1
			kind.read(r, n, path, &into.Type)
		} else {
			size.read(r, n, path, &into.Size)
		}
	}, shape{kind: either, of: []shape{size.shape, kind.shape}}}
}

// manifestOutput reads the name of one score.
func manifestOutput() form[model.Output] {
	return form[model.Output]{func(r *reader, n *node, path string, into *model.Output) {
		into.Size = 1
		readName.read(r, n, path, &into.Name)
	}, readName.shape}
}

var hexDigest = regexp.MustCompile(`^(sha256:)?[0-9a-f]{64}$`)

// digest reads a sha256.
func digest() form[string] {
	f := textOf("the sha256 of the file, 64 hex digits")
	return form[string]{func(r *reader, n *node, path string, into *string) {
		f.read(r, n, path, into)
		if *into != "" && !hexDigest.MatchString(*into) {
			r.fail(n.offset, path, shorten(*into)+" is not a sha256", "write the 64 hex digits that sha256sum prints of the file")
		}
		*into = strings.TrimPrefix(*into, "sha256:")
	}, f.shape}
}

// IsManifest reports whether a file is the manifest of a model, valid or not.
func IsManifest(path string) bool { return isFile(path, &manifestFiles) }

// LoadManifest reads the manifest of a model, of at most 1 MiB, and the environment
// variables that its values name. The paths in it
// are relative to its folder: in the result they are joined with it. An error is
// Errors where the file was read but is not valid.
func LoadManifest(path string) (*Manifest, error) {
	data, err := readFile(path)
	if err != nil {
		return nil, fmt.Errorf("read model manifest: %w", err)
	}
	m, err := parseManifest(path, data, os.LookupEnv)
	if err != nil {
		return nil, err
	}
	files := []*string{&m.File, &m.Golden}
	if m.ONNX != nil && m.ONNX.Tokens != nil {
		files = append(files, &m.ONNX.Tokens.File)
	}
	if m.OCR != nil {
		files = append(files, &m.OCR.Read.File)
		if m.OCR.Turn != nil {
			files = append(files, &m.OCR.Turn.File)
		}
	}
	if m.Remote != nil {
		files = append(files, &m.Remote.TokenFile)
	}
	beside(path, files...)
	if m.Process != nil {
		m.Process.Dir = filepath.Dir(path)
	}
	return m, nil
}

// ParseManifest reads the text of a manifest; filename is for messages only. The
// paths in it stay as they are written, and it may name no environment variables.
// An error is Errors: all that is wrong, in the order of the file.
func ParseManifest(filename string, data []byte) (*Manifest, error) {
	return parseManifest(filename, data, func(string) (string, bool) { return "", false })
}

func parseManifest(filename string, data []byte, lookup Lookup) (*Manifest, error) {
	m := &Manifest{}
	r, root, err := readOne(&manifestFiles, filename, data, lookup, manifestWords, &m.Manifest)
	if err != nil {
		return nil, err
	}
	m.source, m.places = r.source, r.places
	if err := r.errors.sorted(); err != nil {
		return nil, err
	}
	for i := range m.Inputs {
		m.Inputs[i].Type = cmp.Or(m.Inputs[i].Type, model.Number)
	}
	switch {
	case m.File == "" && m.Process == nil && m.Remote == nil:
		r.missing(root, "", "file", "")
	case (m.File == "") != (m.Digest == ""):
		r.fail(root.offset, "", "`file` and `sha256` belong together", "write both")
	}
	if err := r.errors.sorted(); err != nil {
		return nil, err
	}
	return m, nil
}

// Explain turns load.Errors in err into Errors with positions in the manifest.
// Any other error is returned as it is.
func (m *Manifest) Explain(err error) error {
	var found load.Errors
	if !errors.As(err, &found) {
		return err
	}
	var explained Errors
	for _, e := range found {
		explained = append(explained, m.source.explain(m.places, &afterbay.Error{Path: e.Path, Message: e.Message, Hint: e.Hint, Err: e.Err}))
	}
	return explained.sorted()
}

// readManifests reads the manifests that a pipeline's models name. One that
// cannot be read at all is left to who loads the model.
func readManifests(p *afterbay.Pipeline) (map[string]*Manifest, Errors) {
	var all Errors
	manifests := map[string]*Manifest{}
	for i := range p.Models {
		named := &p.Models[i]
		if !model.IsManifest(named.File) {
			continue
		}
		m, err := LoadManifest(named.File)
		var found Errors
		switch {
		case err == nil:
			manifests[named.Name], named.Manifest = m, &m.Manifest
		case errors.As(err, &found):
			all = append(all, found...)
		}
	}
	return manifests, all
}

// ofManifest explains an error in the manifest of a model; nil where it is in
// none.
func (f *File) ofManifest(pipeline int, e *afterbay.Error) *Error {
	if pipeline >= len(f.models) {
		return nil
	}
	for name, m := range f.models[pipeline] {
		if path, inside := strings.CutPrefix(e.Path, "models."+name+".manifest."); inside {
			return m.source.explain(m.places, &afterbay.Error{Path: path, Message: e.Message, Hint: e.Hint, Err: e.Err})
		}
	}
	return nil
}

// FormatManifest writes a manifest as LoadManifest reads it, but for what belongs
// to models outside of the process.
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
		parts = append(parts, "wait: "+formatDuration(p.Wait))
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

// quoteManifest writes text that reads the same to every YAML reader, and names no
// variable.
func quoteManifest(text string) string {
	if plainWord.MatchString(text) && !isForeign(text) && !slices.Contains([]string{"true", "false", "null", "yes", "no", "on", "off", "y", "n"}, strings.ToLower(text)) {
		return text
	}
	return strconv.QuoteToASCII(strings.ReplaceAll(text, "${", "$${"))
}

// listOutputs writes names, or names with their sizes where one is not 1.
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

// batchLines is the batch of a manifest, with the lines that are indented below it.
var batchLines = regexp.MustCompile(`(?m)^batch:.*\n?(?:[ \t]+.*\n?)*`)

// WithPolicy returns the text of a manifest with another batch policy. All else
// stays as it is written.
func WithPolicy(manifest []byte, p model.Policy) []byte {
	line := "batch: " + formatPolicy(p) + "\n"
	if at := batchLines.FindIndex(manifest); at != nil {
		return slices.Concat(manifest[:at[0]], []byte(line), manifest[at[1]:])
	}
	text := strings.TrimRight(string(manifest), "\n") + "\n"
	return []byte(text + line)
}
