package remote_test

import (
	"context"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"

	"github.com/afterbay/afterbay/internal/models/remote"
	"github.com/afterbay/afterbay/model"
)

func Example() {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodGet {
			fmt.Fprint(w, `{"name": "fraud", "inputs": [{"name": "input", "datatype": "FP32", "shape": [-1, 2]}]}`)
			return
		}
		body, _ := io.ReadAll(r.Body)
		fmt.Println(r.URL.Path, string(body))
		fmt.Fprint(w, `{"outputs": [{"name": "predict", "datatype": "FP32", "shape": [2, 1], "data": [0.25, 0.75]}]}`)
	}))
	defer server.Close()

	m, err := remote.Load(context.Background(), remote.Options{
		URL: server.URL, JSON: true, Model: "fraud",
		Inputs: []model.Input{{Name: "amount", Type: model.Number}, {Name: "hour", Type: model.Number}},
	})
	if err != nil {
		log.Fatal(err)
	}
	defer m.Close()
	rows := model.Rows{Width: 2, Values: []float64{12, 9, 99.5, 23}}
	scores := make([]float32, rows.Len())
	if err := m.Predict(context.Background(), rows, scores); err != nil {
		log.Fatal(err)
	}
	fmt.Println(scores)
	// Output:
	// /v2/models/fraud/infer {"inputs":[{"name":"input","datatype":"FP32","shape":[2,2],"data":[12,9,99.5,23]}]}
	// [0.25 0.75]
}

func ExampleModel_Answer() {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		for _, word := range []string{"It ", "is ", "late."} {
			fmt.Fprintf(w, "data: {\"choices\": [{\"delta\": {\"content\": %q}}]}\n\n", word)
		}
		fmt.Fprint(w, "data: {\"choices\": [{\"finish_reason\": \"stop\"}]}\n\ndata: [DONE]\n\n")
	}))
	defer server.Close()

	m, err := remote.Load(context.Background(), remote.Options{
		URL: server.URL, API: remote.Chat, Model: "small",
		Inputs:  []model.Input{{Name: "post", Type: model.String}},
		Outputs: []model.Output{{Name: "words", Size: 1, Type: model.String}},
		Chat:    remote.ChatConfig{Prompt: "In three words: {post}"},
	})
	if err != nil {
		log.Fatal(err)
	}
	defer m.Close()
	ctx := model.WithCall(context.Background(), model.Call{Part: func(_ int, part string) { fmt.Printf("%q ", part) }})
	words := make([][]byte, 1)
	if err := m.Answer(ctx, model.Rows{BytesWidth: 1, Bytes: [][]byte{[]byte("Where is my train?")}}, nil, words); err != nil {
		log.Fatal(err)
	}
	fmt.Println(string(words[0]))
	// Output: "It " "is " "late." It is late.
}
