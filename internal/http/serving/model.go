// Package serving serves the predictions of models over HTTP. It supports a stream of records, and
// the Open Inference Protocol over REST and gRPC. It also supports the calls of OpenAI's API that a
// model of numbers or texts can answer.
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

// Named is a model and its name in requests.
type Named struct {
	Name    string // letters, digits, '.', '_' and '-'
	Version string // same characters; "" is "1"
	Model   model.Model

	// Scores are the names of a row's scores, in order, as in a manifest. If an output has several
	// scores, they are the names of its classes. nil uses the names of the model's outputs.
	Scores []string
}

// served is a model prepared for requests.
type served struct {
	Named
	kind     string
	shared   *batch.Shared // the model; requests share its calls
	inputs   []input
	outputs  []output
	byName   map[string]int // index of each input
	numbers  int            // numbers in a row
	texts    int            // texts in a row
	width    int            // scores for a row
	words    int            // texts in the answer for a row
	callRows int            // maximum rows in a call
	created  time.Time
}

// input is a column of the model's rows.
type input struct {
	name       string
	kind       model.Type
	column     int // index in the columns of its type
	categories []string
	codes      *category.Codes // codes of the categories of a number
}

// output is a part of the model's answer: scores, or a text.
type output struct {
	name   string
	kind   model.Type
	size   int      // number of scores; 0 for a text
	labels []string // class of each score, if the scores are those of classes
}

// text returns the output as JSON text: bytes become base64.
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
		return nil, fmt.Errorf("model %s: version latest is not fixed: give it a number", n.Name)
	}
	info := n.Model.Info()
	if info.State > 0 {
		return nil, fmt.Errorf("model %s keeps state by key, and requests have no keys: use it in a pipeline", n.Name)
	}
	m := &served{Named: n, kind: info.Kind, byName: map[string]int{}, width: info.Scores(), words: info.Texts(), created: time.Now()}
	policy := info.Batch
	policy.Size = cmp.Or(policy.Size, 64)
	m.shared, m.callRows = batch.NewShared(n.Model, policy, 0), policy.Size
	for i, in := range info.Inputs {
		name := cmp.Or(in.Name, "f"+strconv.Itoa(i)) // the names that XGBoost uses
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

// pinned returns the model's name and version.
func (m *served) pinned() string { return m.Name + "@" + m.Version }

// idName reports whether a field of this name is the id of a record: it is not if the model has an
// input of that name.
func (m *served) idName(name string) bool {
	if name != "id" && name != "custom_id" {
		return false
	}
	_, input := m.byName[name]
	return !input
}

// rowsOf returns empty rows with capacity n.
func (m *served) rowsOf(n int) model.Rows {
	return model.Rows{Width: m.numbers, Values: make([]float64, 0, n*m.numbers), BytesWidth: m.texts, Bytes: make([][]byte, 0, n*m.texts)}
}

// registry finds models by name and version.
type registry struct {
	order  []*served            // in the given order
	byName map[string][]*served // a request without a version gets the last
}

func newRegistry(models []Named) (*registry, error) {
	r := &registry{byName: map[string][]*served{}}
	for _, n := range models {
		m, err := newServed(n)
		if err != nil {
			return nil, err
		}
		if slices.ContainsFunc(r.byName[m.Name], func(o *served) bool { return o.Version == m.Version }) {
			return nil, fmt.Errorf("model %s occurs twice: give them versions", m.pinned())
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

// ask returns a model that the caller of ctx may use; version "" is the last that was given.
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

// names returns the names of the models that the caller may use.
func (r *registry) names(ctx context.Context) string {
	var names []string
	for _, m := range r.order {
		if allowed(ctx, m.Name) == nil {
			names = append(names, m.pinned())
		}
	}
	return cmp.Or(strings.Join(names, ", "), "none")
}
