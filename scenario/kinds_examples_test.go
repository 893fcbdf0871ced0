package scenario_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/afterbay/afterbay"
	"github.com/afterbay/afterbay/internal/test/servertest"
	"github.com/afterbay/afterbay/scenario"
	"github.com/afterbay/afterbay/udf"
)

// TestExamplesOfTheReferenceHappen runs the example on the page of each kind of step, sink, lookup
// and model.
func TestExamplesOfTheReferenceHappen(t *testing.T) {
	const folder = "../docs/reference/"
	files, err := filepath.Glob(folder + "*/*.txt")
	if err != nil || len(files) < 20 {
		t.Fatalf("examples: %v, %v", files, err)
	}
	for _, file := range files {
		name := strings.TrimSuffix(strings.TrimPrefix(file, folder), ".txt")
		if slices.Contains(onRuntime, name) {
			continue
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if _, err := exec.LookPath("python3"); err != nil && name == "models/process" {
				t.Skip("NOT RUN: there is no python3")
			}
			o := scenario.Options{Update: *update, Code: exampleCode}
			if start, ok := exampleServers[name]; ok {
				file, o.Update = beside(t, file, start), false
			}
			scenario.Test(t, file, o)
		})
	}
}

// onRuntime are the examples that need ONNX Runtime: a test of cmd/afterbay runs them.
var onRuntime = []string{"models/onnx", "models/ocr", "models/voice"}

// beside copies an example with its manifests, with the URL of a server that was started.
func beside(t *testing.T, file string, start func(*testing.T) (url, written string)) string {
	url, written := start(t)
	dir := t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, "files"), 0o755); err != nil {
		t.Fatal(err)
	}
	manifests, _ := filepath.Glob(filepath.Join(filepath.Dir(file), "files/*.yaml"))
	replaced := false
	for _, path := range append(manifests, file) {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		replaced = replaced || bytes.Contains(text, []byte(written))
		to := filepath.Join(dir, strings.TrimPrefix(path, filepath.Dir(file)))
		if err := os.WriteFile(to, bytes.ReplaceAll(text, []byte(written), []byte(url)), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if !replaced {
		t.Fatalf("%s does not name %s", file, written)
	}
	return filepath.Join(dir, filepath.Base(file))
}

// exampleCode is the Go code that examples name. initials returns the first letters of words.
var exampleCode = afterbay.Code{Functions: map[string]udf.Function{"initials": {
	Version: 1,
	Event: func(c *udf.Context) error {
		short := ""
		for word := range strings.FieldsSeq(c.Text("name")) {
			short += word[:1]
		}
		c.SetText("short", short)
		return nil
	},
}}}

// exampleServers start what examples reach beside the log. They return its URL, and the one that
// stands in its place in the example.
var exampleServers = map[string]func(*testing.T) (url, written string){
	"steps/fetch":      uploads,
	"lookups/redis":    cache,
	"lookups/postgres": users,
	"lookups/http":     profiles,
	"models/remote":    inference,
}

// uploads makes a folder with a file.
func uploads(t *testing.T) (folder, written string) {
	folder = t.TempDir()
	if err := os.WriteFile(filepath.Join(folder, "hello.txt"), []byte("Hello, world!"), 0o600); err != nil {
		t.Fatal(err)
	}
	return folder, "/data/uploads"
}

// users starts a server of PostgreSQL with a table of one user.
func users(t *testing.T) (url, written string) {
	server := servertest.Postgres(t)
	if _, err := server.Postgres(t).Exec(t.Context(), `create table users as select 'ann' as name, true as trusted`); err != nil {
		t.Fatal(err)
	}
	return server.URL, "postgres://localhost:5432/shop"
}

// profiles starts a service that knows one user.
func profiles(t *testing.T) (url, written string) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/users/ann" {
			http.NotFound(w, r)
			return
		}
		fmt.Fprint(w, `{"trusted": true}`)
	}))
	t.Cleanup(server.Close)
	return server.URL, "http://localhost:9000"
}

// inference starts a server of the Open Inference Protocol. It scores an amount above 100 with 0.75.
func inference(t *testing.T) (url, written string) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodGet {
			fmt.Fprint(w, `{"name": "fraud", "inputs": [{"name": "amount", "datatype": "FP32", "shape": [-1, 1]}, {"name": "hour", "datatype": "FP32", "shape": [-1, 1]}], "outputs": [{"name": "score", "datatype": "FP32", "shape": [-1, 1]}]}`)
			return
		}
		var request struct {
			Inputs []struct {
				Name string
				Data []float64
			}
		}
		if err := json.NewDecoder(r.Body).Decode(&request); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		var scores []float64
		for _, input := range request.Inputs {
			for _, amount := range input.Data {
				if input.Name == "amount" {
					scores = append(scores, 0.25+0.5*min(1, max(0, amount-100)))
				}
			}
		}
		data, _ := json.Marshal(scores)
		fmt.Fprintf(w, `{"outputs": [{"name": "score", "datatype": "FP32", "shape": [%d, 1], "data": %s}]}`, len(scores), data)
	}))
	t.Cleanup(server.Close)
	return server.URL, "http://localhost:8000"
}
