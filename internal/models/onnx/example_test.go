package onnx_test

import (
	"context"
	"fmt"
	"log"

	"github.com/afterbay/afterbay/internal/models/onnx"
	"github.com/afterbay/afterbay/model"
)

// Voices in frames of 32 ms: the model's state and the end of the frame before
// come with each frame of a key.
func ExampleLoad() {
	ctx := context.Background()
	m, err := onnx.Load(ctx, "silero_vad_16k_op15.onnx", onnx.Options{
		Inputs: []onnx.Input{{Name: "input", Carry: 64}, {Name: "sr", Kind: onnx.Constant, Constant: []float64{16000}}},
		States: []onnx.State{{Input: "state", Output: "stateN", Shape: []int{2, -1, 128}}},
	})
	if err != nil {
		log.Fatal(err)
	}
	defer m.Close()
	var state []byte // of the key
	scores := make([]float32, m.Info().Scores())
	for _, frame := range [][]byte{make([]byte, 4*512), make([]byte, 4*512)} {
		if err := m.Predict(ctx, model.Rows{BytesWidth: 2, Bytes: [][]byte{frame, state}, N: 1}, scores); err != nil {
			log.Fatal(err)
		}
		state = model.AppendState(nil, scores[1:])
		fmt.Println("speech", scores[0])
	}
}

func ExampleOptions_Validate() {
	fmt.Println(onnx.Options{Batch: -1, Session: onnx.SessionOptions{Threads: 1000}}.Validate())
	// Output:
	// threads are 0 to 256, not 1000
	// a batch has 1 to 4096 rows, not -1
}
