package main

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"testing"

	"github.com/afterbay/afterbay/internal/http/serving"
	"github.com/afterbay/afterbay/internal/models/remote"
	"github.com/afterbay/afterbay/model"
)

func TestServeAnswersForAModelFile(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	out, in := io.Pipe()
	done := make(chan int, 1)
	go func() {
		done <- run(ctx, []string{"serve", "--model", "stump@2=testdata/stump.ubj", "--listen", "127.0.0.1:0"}, strings.NewReader(""), in, io.Discard)
		_ = in.Close()
	}()
	lines := bufio.NewScanner(out)
	url := ""
	for url == "" && lines.Scan() {
		if text, ok := strings.CutPrefix(lines.Text(), "listening on "); ok {
			url, _, _ = strings.Cut(text, ": ")
		}
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, url+"/v1/models/stump/versions/2:predict-stream", strings.NewReader("1,2,3,4,5,6\n"))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Content-Type", "text/csv; header=absent")
	response, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil || !strings.Contains(string(text), `{"index":0,"prediction":`) || !strings.HasSuffix(string(text), `{"done":true,"records":1,"ok":1,"errors":0,"model":"stump@2"}`+"\n") {
		t.Errorf("%s: %s, %v", response.Status, text, err)
	}
	cancel()
	if code := <-done; code != exitOK {
		t.Errorf("exit code %d", code)
	}
}

func TestServeRefusesWhatItCannotDo(t *testing.T) {
	for line, code := range map[string]int{
		"serve":                        exitUsage,
		"serve --model stump":          exitUsage,
		"serve --model stump=none.ubj": exitInvalid,
		"serve --model a=testdata/stump.ubj --listen 0.0.0.0:0": exitUsage,
	} {
		if got := command(t, "", strings.Fields(line)...); got.code != code {
			t.Errorf("%s: exit code %d, want %d: %s", line, got.code, code, got.stderr)
		}
	}
}

func TestRunningEngineServesItsModels(t *testing.T) {
	stump, err := os.ReadFile("testdata/stump.ubj")
	if err != nil {
		t.Fatal(err)
	}
	t.Chdir(t.TempDir())
	write(t, "stump.ubj", string(stump))
	write(t, "pipeline.yaml", scoringFile("stump.ubj", "[a, b, a, b, a, b]"))
	out, end := background(t, "run", "pipeline.yaml", "--listen", "127.0.0.1:0", "--token", "secret")
	out.wait(t, "afterbay tail")
	_, url, _ := strings.Cut(out.String(), "listening on ")
	url, _, _ = strings.Cut(url, ": ")
	const path = "/v1/models/m:predict-stream"
	if status, text := ask(t, http.MethodPost, url+path, "secret", "1,2,3,4,5,6\n"); status != 200 || !strings.Contains(text, `{"index":0,"prediction":`) || !strings.Contains(text, `"model":"m@1"`) {
		t.Errorf("%d %s", status, text)
	}
	if status, text := ask(t, http.MethodPost, url+path, "other", ""); status != 401 {
		t.Errorf("without the token: %d %s", status, text)
	}
	if _, text := ask(t, http.MethodGet, url+"/metrics", "secret", ""); !strings.Contains(text, "afterbay_serve_predictions_total 1\n") {
		t.Error("the metrics lack the prediction")
	}
	asked := remote.Options{URL: "grpc" + strings.TrimPrefix(url, "http"), Model: "m", Bearer: "secret", Inputs: model.Numbers(6)}
	for i := range asked.Inputs {
		asked.Inputs[i].Name = string(rune('a' + i))
	}
	m, err := remote.Load(t.Context(), asked)
	if err != nil {
		t.Fatal(err)
	}
	if err := m.Predict(t.Context(), model.Rows{Width: 6, Values: make([]float64, 6), N: 1}, make([]float32, 1)); err != nil {
		t.Error(err)
	}
	if err := m.Close(); err != nil {
		t.Error(err)
	}
	if code := end(); code != exitOK {
		t.Errorf("exit code %d", code)
	}
}

// talking answers a number with a text, and with a vector where it has a size.
type talking int

func (m talking) Info() model.Info {
	info := model.Info{Kind: "test", Inputs: []model.Input{{Name: "a", Type: model.Number}}, Outputs: []model.Output{{Name: "said", Size: 1, Type: model.String}}}
	if m > 0 {
		info.Outputs = []model.Output{{Name: "vector", Size: int(m)}}
	}
	return info
}

func (talking) Check([]float64, [][]byte) error { return nil }

func (talking) Predict(context.Context, model.Rows, []float32) error { return nil }

func (talking) Answer(_ context.Context, rows model.Rows, _ []float32, texts [][]byte) error {
	for i := range texts {
		texts[i] = fmt.Append(nil, "heard ", rows.Values[i])
	}
	return nil
}

// TestRunningEngineServesModelsOfTextsAndVectors has a pipeline ask a server for
// them, and answers with them itself.
func TestRunningEngineServesModelsOfTextsAndVectors(t *testing.T) {
	endpoint := strings.Replace(placementEndpoint(t, "", serving.Named{Name: "words", Model: talking(0)}, serving.Named{Name: "vectors", Model: talking(3)})[1], "grpc", "http", 1)
	t.Chdir(t.TempDir())
	write(t, "pipeline.yaml", fmt.Sprintf(`
pipeline: talk
input: {topic: in, key: k, fields: {k: string, a: number}}
models:
  words: {url: "%[1]s/words", version: 1, outputs: {said: string}}
  vectors: {url: "%[1]s/vectors", version: 1, outputs: {vector: "number[3]"}}
steps:
  - score: {model: words, inputs: [a]}
  - score: {model: vectors, inputs: [a]}
  - emit: {topic: out, value: [k, words.said, vectors.vector]}
`, endpoint))
	out, end := background(t, "run", "pipeline.yaml", "--listen", "127.0.0.1:0", "--token", "secret")
	out.wait(t, "afterbay tail")
	must(t, `{"k":"x","a":7}`, "produce", "in")
	follow, _ := background(t, "tail", "out", "--follow", "--limit", "1")
	follow.wait(t, `{"k":"x","words_said":"heard 7","vectors_vector":[0,0,0]}`)
	_, url, _ := strings.Cut(out.String(), "listening on ")
	url, _, _ = strings.Cut(url, ": ")
	for name, want := range map[string]string{"words": `"prediction":"heard 2"}`, "vectors": `"prediction":[0,0,0]}`} {
		if status, text := ask(t, http.MethodPost, url+"/v1/models/"+name+":predict-stream", "secret", "2\n"); status != 200 || !strings.Contains(text, want) {
			t.Errorf("%s: %d %s", name, status, text)
		}
	}
	if code := end(); code != exitOK {
		t.Errorf("exit code %d", code)
	}
}

// ask sends rows.
func ask(t *testing.T, method, url, token, body string) (int, string) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Content-Type", "text/csv; header=absent")
	r.Header.Set("Authorization", "Bearer "+token)
	response, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return response.StatusCode, string(text)
}
