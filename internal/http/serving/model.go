// Package serving answers HTTP with the predictions of models: a stream of
// records line by line, the Open Inference Protocol by REST and gRPC, and those
// calls of OpenAI's API that a model of numbers or texts can answer.
package serving

import (
	"cmp"
	"context"
	"encoding/base64"
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/afterbay/afterbay/internal/models/batch"
	"github.com/afterbay/afterbay/internal/models/category"
	"github.com/afterbay/afterbay/model"
)

// Named is a model and what requests call it.
type Named struct {
	Name    string // letters, digits, '.', '_' and '-'
	Version string // the same; "" is "1"
	Model   model.Model

	// Scores are the names of the scores of a row, in order, as a manifest has
	// them: of the classes, where an output has several. nil is what the model
	// calls its outputs.
	Scores []string
}

// served is a model with what requests need to know of it.
type served struct {
	Named
	kind     string
	shared   *batch.Shared // the model, whose calls requests share
	inputs   []input
	outputs  []output
	byName   map[string]int // of inputs
	numbers  int            // of a row
	texts    int            // of a row
	width    int            // scores of a row
	words    int            // texts that a row is answered with
	callRows int            // most rows of a call
	created  time.Time
}

// input is one column of the model's rows.
type input struct {
	name       string
	kind       model.Type
	column     int // among those of its kind
	categories []string
	codes      *category.Codes // of categories of a number
}

// output is a part of what the model answers: scores, or a text.
type output struct {
	name   string
	kind   model.Type
	size   int      // scores; 0 of a text
	labels []string // of the scores, where each is that of a class
}

// text returns the output as JSON has it: bytes as base64.
func (o *output) text(text []byte) []byte {
	if o.kind == model.Bytes {
		return base64.StdEncoding.AppendEncode(nil, text)
	}
	return text
}

var nameRule = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,127}$`)

func newServed(n Named) (*served, error) {
	n.Version = cmp.Or(n.Version, "1")
	if !nameRule.MatchString(n.Name) || !nameRule.MatchString(n.Version) {
		return nil, fmt.Errorf("model %q, version %q: use letters, digits, '.', '_' and '-'", n.Name, n.Version)
	}
	if n.Version == "latest" {
		return nil, fmt.Errorf("model %s: version latest means another model tomorrow: give it a number", n.Name)
	}
	info := n.Model.Info()
	if info.State > 0 {
		return nil, fmt.Errorf("model %s keeps state by key, which pipelines have and requests have not", n.Name)
	}
	m := &served{Named: n, kind: info.Kind, byName: map[string]int{}, width: info.Scores(), words: info.Texts(), created: time.Now()}
	policy := info.Batch
	policy.Size = cmp.Or(policy.Size, 64)
	m.shared, m.callRows = batch.NewShared(n.Model, policy, 0), policy.Size
	for i, in := range info.Inputs {
		name := cmp.Or(in.Name, "f"+strconv.Itoa(i)) // as XGBoost calls them
		if in.Size() == 1 {
			m.addInput(name, in)
			continue
		}
		for column := range in.Size() {
			m.addInput(name+"_"+strconv.Itoa(column), model.Input{Type: in.Type})
		}
	}
	m.addOutputs(info.Outputs)
	switch {
	case len(m.inputs) == 0 || m.width+m.words == 0:
		return nil, fmt.Errorf("model %s has no inputs or no outputs", n.Name)
	case len(m.byName) < len(m.inputs):
		return nil, fmt.Errorf("model %s: two inputs have one name", n.Name)
	case n.Scores != nil && len(n.Scores) != m.width:
		return nil, fmt.Errorf("model %s: %d names of %d scores", n.Name, len(n.Scores), m.width)
	}
	return m, nil
}

func (m *served) addInput(name string, in model.Input) {
	one := input{name: name, kind: in.Type, column: m.texts}
	if in.Type != model.Number {
		m.texts++
	} else {
		one.column, one.categories = m.numbers, in.Categories
		m.numbers++
	}
	if in.Type == model.Number {
		one.codes = category.NewCodes(one.categories)
	}
	m.byName[name] = len(m.inputs)
	m.inputs = append(m.inputs, one)
}

func (m *served) addOutputs(list []model.Output) {
	from := 0
	for i, out := range list {
		one := output{name: cmp.Or(out.Name, "output_"+strconv.Itoa(i)), kind: out.Type, size: out.Size}
		switch {
		case out.Text():
			one.size = 0
		case len(m.Scores) != m.width:
		case out.Size == 1:
			one.name = m.Scores[from]
		default:
			one.labels = m.Scores[from : from+out.Size]
		}
		from += one.size
		m.outputs = append(m.outputs, one)
	}
}

// pinned names the model and its version.
func (m *served) pinned() string { return m.Name + "@" + m.Version }

// idName reports whether a field of this name is the id of a record: one that is
// no input of the model.
func (m *served) idName(name string) bool {
	if name != "id" && name != "custom_id" {
		return false
	}
	_, input := m.byName[name]
	return !input
}

// rowsOf returns room for n rows.
func (m *served) rowsOf(n int) model.Rows {
	return model.Rows{Width: m.numbers, Values: make([]float64, 0, n*m.numbers), BytesWidth: m.texts, Bytes: make([][]byte, 0, n*m.texts)}
}

// registry finds models by name and version.
type registry struct {
	order  []*served            // as they were given
	byName map[string][]*served // the last is what a request without a version gets
}

func newRegistry(models []Named) (*registry, error) {
	r := &registry{byName: map[string][]*served{}}
	for _, n := range models {
		m, err := newServed(n)
		if err != nil {
			return nil, err
		}
		if slices.ContainsFunc(r.byName[m.Name], func(o *served) bool { return o.Version == m.Version }) {
			return nil, fmt.Errorf("model %s is there twice: give them versions", m.pinned())
		}
		r.byName[m.Name] = append(r.byName[m.Name], m)
		r.order = append(r.order, m)
	}
	return r, nil
}

// find returns a model; version "" is the last that was given.
func (r *registry) find(name, version string) (*served, bool) {
	list := r.byName[name]
	if len(list) == 0 {
		return nil, false
	}
	if version == "" {
		return list[len(list)-1], true
	}
	i := slices.IndexFunc(list, func(m *served) bool { return m.Version == version })
	if i < 0 {
		return nil, false
	}
	return list[i], true
}

// ask finds a model for the caller of ctx; version "" is the last that was given.
func (r *registry) ask(ctx context.Context, name, version string) (*served, error) {
	if bad := allowed(ctx, name); bad != nil {
		return nil, bad
	}
	m, ok := r.find(name, version)
	if !ok {
		return nil, refuse(http.StatusNotFound, "model_not_found", "no model %q, version %q: there are %s", name, cmp.Or(version, "any"), r.names(ctx))
	}
	asks(ctx, m)
	return m, nil
}

// names are the models that the caller may ask.
func (r *registry) names(ctx context.Context) string {
	var names []string
	for _, m := range r.order {
		if allowed(ctx, m.Name) == nil {
			names = append(names, m.pinned())
		}
	}
	return cmp.Or(strings.Join(names, ", "), "none")
}
