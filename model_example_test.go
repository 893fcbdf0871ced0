package afterbay_test

import (
	"context"
	"fmt"

	"github.com/afterbay/afterbay"
	"github.com/afterbay/afterbay/model"
	"github.com/afterbay/afterbay/stream"
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

const posts = `pipeline: posts
input: {topic: posts, key: user, partitions: 1, fields: {user: string, text: string}}
models:
  risk: {go: linear, version: 1, outputs: {score: number}}
steps:
  - call: {go: length, inputs: [text], outputs: {length: int}}
  - features: {posts: {windows: [1h], aggregates: [count]}}
  - score: {model: risk, inputs: [length, posts.count_1h]}
  - emit: {topic: scores, value: [user, length, risk.score]}
`

// A model and a feature of a program's own: length is a function in Go, whose
// result the model takes beside a window of the pipeline's.
func Example_customModelAndFeature() {
	ctx, stop := context.WithCancel(context.Background())
	code := afterbay.Code{
		Models: map[string]model.Model{"linear": linear{weights: []float64{0.5, 10}}},
		Functions: map[string]udf.Function{"length": {Version: 1, Event: func(c *udf.Context) error {
			c.SetInt("length", int64(len(c.Text("text"))))
			return nil
		}}},
	}
	pipelines, err := afterbay.Parse("posts.yaml", []byte(posts), code)
	if err != nil {
		panic(err)
	}
	engine, err := afterbay.Open(ctx, "memory:", afterbay.Options{})
	if err != nil {
		panic(err)
	}
	defer engine.Close()
	ended := make(chan error)
	go func() { ended <- engine.Run(ctx, pipelines) }()
	if err := engine.Ready(ctx); err != nil {
		panic(err)
	}
	post := stream.Record{Key: []byte("ann"), Value: []byte(`{"user":"ann","text":"hello"}`)}
	if err := engine.Append(ctx, "posts", post, post); err != nil {
		panic(err)
	}
	for score, err := range engine.Tail(ctx, "scores", 0) {
		if err != nil {
			panic(err)
		}
		fmt.Println(string(score.Value))
		if score.Offset == 1 {
			break
		}
	}
	stop()
	if err := <-ended; err != nil {
		panic(err)
	}
	// Output:
	// {"user":"ann","length":5,"risk_score":12.5}
	// {"user":"ann","length":5,"risk_score":22.5}
}
