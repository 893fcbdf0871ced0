package models

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"

	"github.com/afterbay/afterbay/internal/models/calling"
	"github.com/afterbay/afterbay/internal/models/category"
	"github.com/afterbay/afterbay/internal/spec"
	"github.com/afterbay/afterbay/model"
)

const rowsMax = 4096 // most rows per call

// Error is one statement of a manifest that does not hold.
type Error struct {
	Path    string // where in the manifest: "inputs.amount"
	Message string
	Hint    string // what to do next
	Err     error  // the cause, or nil
}

// Error returns path, message and hint.
func (e *Error) Error() string {
	text := e.Path + ": " + e.Message
	if e.Hint != "" {
		text += " (" + e.Hint + ")"
	}
	return text
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// Errors holds all errors of a manifest.
type Errors []*Error

// Error returns the errors, one per line.
func (es Errors) Error() string {
	lines := make([]string, len(es))
	for i, e := range es {
		lines[i] = e.Error()
	}
	return strings.Join(lines, "\n")
}

// Unwrap returns the errors one by one.
func (es Errors) Unwrap() []error {
	list := make([]error, len(es))
	for i, e := range es {
		list[i] = e
	}
	return list
}

// Report is the result of a verification.
type Report struct {
	Rows  int     // number of golden vectors
	Exact string  // the scores that were compared exactly: "margin"; "" if there were none
	Worst float64 // the largest difference from an expected score
	Away  error   // set by Started: why the server or program of the model cannot be reached; nil if it was reached
}

// Opening says how models of manifests are opened.
type Opening struct {
	Kinds    []model.Kind      // kinds in addition to those detected from a file
	Announce func(text string) // called with the name of a program before it runs; may be nil
}

// ConfigOf returns the Config of a manifest's kind. It has the defaults of its fields if the
// manifest has no mapping of the kind. It is nil if the kind is not among kinds.
func ConfigOf(m *model.Manifest, kinds []model.Kind) model.Config {
	if m.Config != nil {
		return m.Config
	}
	if i := slices.IndexFunc(kinds, func(k model.Kind) bool { return k.Name == m.Kind }); i >= 0 {
		config := kinds[i].New()
		spec.SetDefaults(config, m.Dir)
		return config
	}
	return nil
}

// Verified loads the model of a manifest. The paths in it must be openable. It returns the model only if
// everything in the manifest holds: the file's digest, its kind, the names, types and number of
// inputs and outputs, and its golden vectors. It scores the golden vectors alone, together, in
// other orders and between others, which also warms up the model. For models of the kinds in o,
// scores must agree to 1e-5; for others, to the bit. The caller must call Close of the model. An
// error is Errors.
func Verified(ctx context.Context, m *model.Manifest, o Opening) (model.Model, Report, error) {
	v := &verifier{manifest: m, opening: o}
	loaded := v.load(ctx)
	return loaded, v.report, v.err()
}

// Started does what Verified does, for a process that may start before the model's server or
// program (model.ErrAway). In that case it returns the model with Report.Away set, and the first
// calls verify it. Until the model is verified, calls fail, and the errors do not blame rows.
func Started(ctx context.Context, m *model.Manifest, o Opening) (model.Model, Report, error) {
	v := &verifier{manifest: m, opening: o, waits: true}
	loaded := v.load(ctx)
	return loaded, v.report, v.err()
}

// Declared returns the model of a manifest as the manifest and its file describe it. It runs no
// program, reaches no server and scores no golden vectors. So for a model outside the process, only
// Info may be used. An error is Errors.
func Declared(ctx context.Context, m *model.Manifest, o Opening) (model.Model, error) {
	v := &verifier{manifest: m, opening: o}
	loaded := v.open(ctx)
	if loaded == nil {
		return nil, v.err()
	}
	if v.declared(loaded.Info().WithoutState()); v.errs != nil {
		Close(loaded)
		return nil, v.err()
	}
	return v.described(loaded), nil
}

// load returns the verified model, or nil after an error.
func (v *verifier) load(ctx context.Context) model.Model {
	loaded := v.open(ctx)
	if loaded == nil {
		return nil
	}
	v.declared(loaded.Info().WithoutState())
	if v.errs == nil {
		v.connect(ctx, loaded)
	}
	if v.errs == nil {
		loaded = v.described(loaded)
		v.warm(ctx, First(loaded))
	}
	switch {
	case v.errs != nil:
	case v.report.Away != nil && v.manifest.Golden != "":
		return newUnverified(v.manifest, loaded)
	default:
		v.golden(ctx, First(loaded))
	}
	if v.errs != nil {
		Close(loaded)
		return nil
	}
	return loaded
}

// connect connects to the server or program of the model.
func (v *verifier) connect(ctx context.Context, loaded model.Model) {
	c, ok := loaded.(model.Connector)
	if !ok {
		return
	}
	if _, runs := v.config.(model.Program); runs && v.opening.Announce != nil {
		v.opening.Announce(fmt.Sprintf("model %s@%d runs the program %s", v.manifest.Name, v.manifest.Version, loaded.Info().Request))
	}
	switch err := c.Connect(ctx); {
	case err == nil:
	case v.waits && errors.Is(err, model.ErrAway):
		v.report.Away = err
	default:
		v.fail(v.manifest.Kind, err, "", "%v", err)
	}
}

// Close releases the resources of a model outside the process. It does nothing for other models.
func Close(m model.Model) {
	if c, ok := m.(io.Closer); ok {
		_ = c.Close() // the model is not used any more, so its error does not matter
	}
}

// open checks the file and loads the model. It returns nil after an error.
func (v *verifier) open(ctx context.Context) model.Model {
	m := v.manifest
	v.config = ConfigOf(m, v.opening.Kinds)
	v.outside = v.config != nil
	if !v.outside && !Inside(m.Kind) {
		v.fail("kind", nil, "a Go program brings kinds through Code.ModelKinds", "this program cannot open models of kind %s", m.Kind)
		return nil
	}
	if m.Trees != "" && v.outside {
		v.fail("trees", nil, "remove it", "belongs to models of trees, not to kind %s", m.Kind)
	}
	var data []byte
	if m.File != "" || !v.outside {
		data = v.read()
	}
	if v.errs != nil {
		return nil
	}
	if v.outside {
		return v.openConfig(ctx)
	}
	loaded, err := parse(filepath.Base(m.File), data, Options{Trees: m.Trees, TextBytesMax: m.Limits.TextBytes})
	if err != nil {
		v.fail("file", err, "", "%v", err)
		return nil
	}
	return loaded
}

// openConfig opens the model with its Config. It returns nil after an error.
func (v *verifier) openConfig(ctx context.Context) model.Model {
	m := v.manifest
	for _, err := range v.config.Check(m) {
		if err != nil {
			v.mistake(err)
		}
	}
	if v.errs != nil {
		return nil
	}
	loaded, err := v.config.Open(ctx, m)
	if err == nil && loaded == nil {
		err = errors.New("it opened nothing")
	}
	if err != nil {
		v.mistake(err)
		return nil
	}
	return loaded
}

// mistake adds an error of a kind.
func (v *verifier) mistake(err error) {
	path, hint := v.manifest.Kind, ""
	var found *model.Mistake
	if errors.As(err, &found) {
		if hint = found.Hint; found.Field != "" {
			path += "." + found.Field
		}
	}
	v.fail(path, err, hint, "%v", err)
}

// read returns the content of the file, if it has the digest.
func (v *verifier) read() []byte {
	m := v.manifest
	data, err := model.ReadFile(m.File)
	if err != nil {
		v.fail("file", err, "name the model's file, by its path from the manifest", "%v", err)
		return nil
	}
	sum := sha256.Sum256(data)
	if got := hex.EncodeToString(sum[:]); got != m.Digest {
		v.fail("sha256", nil, "restore the original file, or add a new version with `afterbay model add`", "%s has sha256 %s, not %s", filepath.Base(m.File), got, m.Digest)
	}
	return data
}

// warm scores generated rows, if the model accepts such rows and has no golden vectors to warm it
// up.
func (v *verifier) warm(ctx context.Context, m model.Model) {
	if v.manifest.Golden != "" || v.outside {
		return
	}
	rows, err := Generate(m, 1)
	if err != nil {
		return
	}
	if _, err := scoreRows(ctx, m, rows); err != nil {
		v.fail("file", err, "", "%v", err)
	}
}

type verifier struct {
	manifest *model.Manifest
	opening  Opening
	config   model.Config // nil if the kind is detected from the file
	outside  bool         // the kind is not detected from the file
	waits    bool         // waits for the server or program of the model
	report   Report
	errs     Errors
}

// err returns all errors joined, or nil.
func (v *verifier) err() error {
	if v.errs == nil {
		return nil
	}
	return v.errs
}

func (v *verifier) fail(path string, err error, hint, format string, args ...any) {
	v.errs = append(v.errs, &Error{path, fmt.Sprintf(format, args...), hint, err})
}

// declared compares the inputs and outputs of the manifest with the model.
func (v *verifier) declared(info model.Info) {
	m := v.manifest
	if m.Version < 1 {
		v.fail("version", nil, `write a number from 1 and raise it when the file changes; "latest" is not a version`, "%d is not a version", m.Version)
	}
	if m.Kind != "" && m.Kind != info.Kind {
		v.fail("kind", nil, "", "the file is of kind %s", info.Kind)
	}
	if len(m.Inputs) != len(info.Inputs) {
		v.fail("inputs", nil, v.inputsHint(info), "the file has %d inputs, %d are named", len(info.Inputs), len(m.Inputs))
	} else {
		for i, in := range m.Inputs {
			v.input(i, in, info)
		}
	}
	said := model.Info{Outputs: m.Outputs}
	if n, named := info.Scores(), said.Scores(); n != named {
		v.fail("outputs", nil, "name them in the model's order, those of classes by their number", "the model has %d outputs, %d are named", n, named)
	}
	if n, named := info.Texts(), said.Texts(); n != named {
		v.fail("outputs", nil, "give them the type string or bytes in the model's order, or none", "the model answers with %d texts, %d are named", n, named)
	}
	if m.Limits.Rows > 0 && m.Batch.Size > m.Limits.Rows {
		v.fail("batch.size", nil, "write it smaller, or raise limits.rows", "%d is above limits.rows, %d", m.Batch.Size, m.Limits.Rows)
	}
}

func (v *verifier) inputsHint(info model.Info) string {
	if names := info.Names(); names != nil {
		return "it has, in order: " + strings.Join(names, ", ")
	}
	return "the file has no names of them: write them in the order of training"
}

func (v *verifier) input(i int, in model.ManifestInput, info model.Info) {
	has, path := info.Inputs[i], "inputs."+in.Name
	kind := in.Type
	if kind == "" {
		kind = model.Number
	}
	switch {
	case has.Name != "" && has.Name != in.Name:
		v.fail(path, nil, v.inputsHint(info), "the file's input %d is %q", i, has.Name)
	case kind != has.Type && (kind == model.Number || has.Type == model.Number):
		v.fail(path, nil, "", "is of type %s, in the file %s", kind, has.Type)
	case in.Shape != nil && !slices.Equal(in.Shape, has.Shape):
		v.fail(path, nil, "", "has the shape %v, in the file %v", in.Shape, has.Shape)
	case in.Categories == nil:
	case has.Type != model.Number:
		v.fail(path, nil, "remove them", "categories are of numbers")
	case has.Categories != nil && !slices.Equal(in.Categories, has.Categories):
		v.fail(path, nil, "remove them, or train again", "the file has other categories: %s", strings.Join(has.Categories, ", "))
	}
	if err := category.Check(in.Categories); err != nil {
		v.fail(path, nil, "", "%v", err)
	}
}

// limited is a model with the limits of its manifest.
type limited struct {
	model.Model
	info      model.Info
	textBytes int
	rows      int
}

// Unwrap returns the model without the limits.
func (l *limited) Unwrap() model.Model { return l.Model }

// exactLimited is a limited model that is exact.
type exactLimited struct {
	limited
	exact model.Exact
}

func (v *verifier) described(loaded model.Model) model.Model {
	info := loaded.Info()
	info.Inputs = slices.Clone(info.Inputs)
	for i, in := range v.manifest.Inputs {
		info.Inputs[i].Name = in.Name
		if in.Categories != nil {
			info.Inputs[i].Categories = in.Categories
		}
	}
	state := info.Outputs[len(info.WithoutState().Outputs):]
	info.Outputs = slices.Concat(v.manifest.Outputs, state)
	info.Batch = v.manifest.Batch
	limits := v.manifest.Limits
	rows := cmp.Or(limits.Rows, rowsMax)
	info.Batch.Size = min(info.Batch.Size, rows)
	l := limited{loaded, info, limits.TextBytes, rows}
	if exact, ok := loaded.(model.Exact); ok {
		return &exactLimited{l, exact}
	}
	return &l
}

// Info implements model.Model.
func (l *limited) Info() model.Info { return l.info }

// Check implements model.Model.
func (l *limited) Check(values []float64, bytes [][]byte) error {
	if l.textBytes > 0 {
		for _, text := range bytes {
			if len(text) > l.textBytes {
				return fmt.Errorf("a text of %d bytes, the manifest's limit is %d", len(text), l.textBytes)
			}
		}
	}
	return l.Model.Check(values, bytes)
}

// Predict implements model.Model. Each call has at most as many rows as the manifest says.
func (l *limited) Predict(ctx context.Context, rows model.Rows, scores []float32) error {
	return l.Answer(ctx, rows, scores, nil)
}

// Answer implements model.Answerer. Each call has at most as many rows as the manifest says.
func (l *limited) Answer(ctx context.Context, rows model.Rows, scores []float32, texts [][]byte) error {
	n, outputs := rows.Len(), l.info.Scores()
	if n <= l.rows {
		return calling.Ask(ctx, l.Model, rows, scores, texts)
	}
	var failed model.RowErrors
	for lo := 0; lo < n; lo += l.rows {
		hi := min(lo+l.rows, n)
		err := calling.Ask(ctx, l.Model, rows.Slice(lo, hi), scores[lo*outputs:], texts[lo*len(texts)/n:hi*len(texts)/n])
		var some model.RowErrors
		switch {
		case err == nil:
		case errors.As(err, &some):
			for _, f := range some {
				failed = append(failed, model.RowError{Row: lo + f.Row, Err: f.Err})
			}
		default:
			return err
		}
	}
	if failed != nil {
		return failed
	}
	return nil
}

// Close implements io.Closer.
func (l *limited) Close() error {
	Close(l.Model)
	return nil
}

// Exactness implements model.Exact.
func (l *exactLimited) Exactness() model.Exactness { return l.exact.Exactness() }

// ScoreExactly implements model.Exact.
func (l *exactLimited) ScoreExactly(ctx context.Context, rows model.Rows, out []float64) error {
	return l.exact.ScoreExactly(ctx, rows, out)
}
