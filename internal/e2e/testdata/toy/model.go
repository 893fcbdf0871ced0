package toy

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strings"

	"github.com/afterbay/afterbay/model"
)

// Linear is a kind of models: a weighted sum of the inputs, with the weights in a file of
// JSON.
var Linear = model.Kind{
	Name:    "linear",
	Help:    "how the sum of a model of kind linear becomes its score",
	Example: "{link: logistic}",
	New:     func() model.Config { return &linear{} },
}

// linear is what a manifest says of one model, below the name of the kind.
type linear struct {
	Link string  `field:"link" choice:"identity|logistic" default:"identity" affects:"outputs" example:"logistic" help:"what is made of the sum"`
	Bias float64 `field:"bias" min:"-1000" max:"1000" default:"0" affects:"outputs" example:"0.5" help:"what is added to the sum"`
}

// Check finds what is wrong before anything is opened.
func (l *linear) Check(m *model.Manifest) []error {
	if len(m.Outputs) != 1 || m.Outputs[0].Size != 1 || m.Outputs[0].Text() {
		return []error{errors.New("a model of kind linear has one score")}
	}
	if l.Link == "logistic" && strings.HasSuffix(m.Outputs[0].Name, "_sum") {
		return []error{&model.Mistake{Field: "link", Err: fmt.Errorf("%s is no sum then", m.Outputs[0].Name), Hint: "write link: identity"}}
	}
	return nil
}

// Open reads the weights.
func (l *linear) Open(_ context.Context, m *model.Manifest) (model.Model, error) {
	data, err := model.ReadFile(m.File)
	if err != nil {
		return nil, err
	}
	var weights map[string]float64 // by the names of inputs
	if err := json.Unmarshal(data, &weights); err != nil {
		return nil, fmt.Errorf("%s: %w", m.File, err)
	}
	opened := &sum{info: model.Info{Kind: "linear", Digest: m.Digest, Inputs: m.Described(), Outputs: m.Outputs}, linear: *l}
	for _, in := range opened.info.Inputs {
		weight, ok := weights[in.Name]
		if in.Type != model.Number || in.Shape != nil || !ok {
			return nil, fmt.Errorf("%s has no weight for input %s, or it is not a number", m.File, in.Name)
		}
		opened.weights = append(opened.weights, weight)
	}
	return opened, nil
}

// Describe says where the model is: in the file of the manifest.
func (l *linear) Describe() string { return "" }

// sum scores rows.
type sum struct {
	linear
	info    model.Info
	weights []float64 // of the inputs, in order
}

// Info describes the model.
func (s *sum) Info() model.Info { return s.info }

// Check refuses rows with missing numbers.
func (s *sum) Check(values []float64, _ [][]byte) error {
	for i, value := range values {
		if math.IsNaN(value) {
			return &model.InputError{Name: s.info.Inputs[i].Name, Err: errors.New("a sum needs all numbers")}
		}
	}
	return nil
}

// Predict scores rows.
func (s *sum) Predict(_ context.Context, rows model.Rows, scores []float32) error {
	for i := range rows.Len() {
		values, _ := rows.Row(i)
		total := s.Bias
		for j, value := range values {
			total += s.weights[j] * value
		}
		if s.Link == "logistic" {
			total = 1 / (1 + math.Exp(-total))
		}
		scores[i] = float32(total)
	}
	return nil
}
