package e2e_test

import (
	"context"
	"fmt"

	"github.com/afterbay/afterbay/model"
)

// linear is a model in Go: a weighted sum.
type linear struct{ weights []float64 }

func (m linear) Info() model.Info {
	return model.Info{
		Kind: "linear", Digest: fmt.Sprintf("%064x", len(m.weights)),
		Inputs: model.Numbers(len(m.weights)), Outputs: []model.Output{{Name: "score", Size: 1}},
	}
}

func (m linear) Check([]float64, [][]byte) error { return nil }

func (m linear) Predict(_ context.Context, rows model.Rows, scores []float32) error {
	for i := range rows.Len() {
		scores[i] = 0
		for k, w := range m.weights {
			scores[i] += float32(w * rows.Values[i*rows.Width+k])
		}
	}
	return nil
}
