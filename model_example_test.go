package afterbay_test

import (
	"context"
	"fmt"

	"github.com/afterbay/afterbay"
	"github.com/afterbay/afterbay/internal/log/memory"
	"github.com/afterbay/afterbay/model"
	"github.com/afterbay/afterbay/stream"
	"github.com/afterbay/afterbay/stream/streamtest"
	"github.com/afterbay/afterbay/udf"
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

// A model and a feature of a program's own: length is a function in Go, whose
// result the model takes beside a window of the pipeline's.
func Example_customModelAndFeature() {
	ctx := context.Background()
	runner, err := afterbay.New(afterbay.Pipeline{
		Name: "posts",
		Input: afterbay.Input{
			Topic: "posts", Key: "user", Partitions: 1,
			Fields: []afterbay.Field{{Name: "user", Type: "string"}, {Name: "text", Type: "string"}},
		},
		Models: []afterbay.Model{{Name: "risk", Go: "linear", Version: 1, Outputs: []afterbay.Field{{Name: "score", Type: "number"}}}},
		Steps: []afterbay.Step{
			&afterbay.Call{Go: "length", Inputs: []string{"text"}, Outputs: []afterbay.Field{{Name: "length", Type: "int"}}},
			&afterbay.Features{List: []afterbay.Feature{{Name: "posts", Windows: []string{"1h"}, Aggregates: []string{"count"}}}},
			&afterbay.Score{Model: "risk", Inputs: []string{"length", "posts.count_1h"}},
			&afterbay.Emit{Topic: "scores", Names: []string{"user", "length", "risk.score"}},
		},
		Code: afterbay.Code{
			Models: map[string]model.Model{"linear": linear{weights: []float64{0.5, 10}}},
			Functions: map[string]udf.Function{"length": {Version: 1, Event: func(c *udf.Context) error {
				c.SetInt("length", int64(len(c.Text("text"))))
				return nil
			}}},
		},
	}, afterbay.Options{})
	if err != nil {
		panic(err)
	}
	post := stream.Record{Partition: stream.Partition{Topic: "posts"}, Key: []byte("ann"), Value: []byte(`{"user":"ann","text":"hello"}`)}
	answer, err := streamtest.RunAll(ctx, memory.New(memory.Options{}), runner, []stream.Record{post, post})
	if err != nil {
		panic(err)
	}
	for _, value := range answer.Values("scores") {
		fmt.Println(value)
	}
	// Output:
	// {"user":"ann","length":5,"risk_score":12.5}
	// {"user":"ann","length":5,"risk_score":22.5}
}
