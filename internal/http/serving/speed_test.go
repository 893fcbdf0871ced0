package serving_test

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/afterbay/afterbay/internal/http/serving"
	"github.com/afterbay/afterbay/internal/models/tree"
	"github.com/afterbay/afterbay/internal/sys/procfs"
	"github.com/afterbay/afterbay/model"
)

var irisNames = []string{"sepal_length", "sepal_width", "petal_length", "petal_width"}

// forest returns a file of an XGBoost model of trees of a depth over four numbers.
func forest(t testing.TB, trees, depth int) []byte {
	t.Helper()
	type object = map[string]any
	random := rand.New(rand.NewPCG(1, 2))
	nodes, inner := 1<<(depth+1)-1, 1<<depth-1
	var list []object
	var info []int
	for id := range trees {
		var left, right, parents, columns, zeros []int
		var conditions []float64
		for i := range nodes {
			parents = append(parents, (i+1)/2-1)
			zeros = append(zeros, 0)
			if i < inner {
				left, right = append(left, 2*i+1), append(right, 2*i+2)
				columns = append(columns, random.IntN(len(irisNames)))
				conditions = append(conditions, math.Round(random.Float64()*80)/10)
				continue
			}
			left, right, columns = append(left, -1), append(right, -1), append(columns, 0)
			conditions = append(conditions, random.NormFloat64()/50)
		}
		parents[0] = math.MaxInt32
		info = append(info, 0)
		list = append(list, object{
			"id": id, "left_children": left, "right_children": right, "parents": parents, "split_indices": columns, "split_conditions": conditions,
			"default_left": zeros, "split_type": zeros, "categories": []int{}, "categories_nodes": []int{}, "categories_segments": []int{}, "categories_sizes": []int{},
			"base_weights": make([]float64, nodes), "loss_changes": make([]float64, nodes), "sum_hessian": make([]float64, nodes),
			"tree_param": object{"num_nodes": strconv.Itoa(nodes), "num_feature": "4", "num_deleted": "0", "size_leaf_vector": "1"},
		})
	}
	data, err := json.Marshal(object{"version": []int{3, 2, 0}, "learner": object{
		"attributes": object{}, "feature_names": irisNames, "feature_types": []string{"float", "float", "float", "float"},
		"gradient_booster": object{"name": "gbtree", "model": object{
			"gbtree_model_param": object{"num_trees": strconv.Itoa(trees), "num_parallel_tree": "1"}, "tree_info": info, "trees": list,
		}},
		"learner_model_param": object{"base_score": "[5E-1]", "num_feature": "4", "num_class": "0", "num_target": "1"},
		"objective":           object{"name": "binary:logistic", "reg_loss_param": object{"scale_pos_weight": "1"}},
	}})
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// irisRow appends row i, of 16 bytes as CSV has it.
func irisRow(dst []byte, contentType string, i int) []byte {
	a, b, c, d := 40+i%40, 20+i/7%20, 10+i/3%60, 1+i/11%24
	if contentType == ndjson {
		return fmt.Appendf(dst, `{"sepal_length":%d.%d,"sepal_width":%d.%d,"petal_length":%d.%d,"petal_width":%d.%d}`+"\n", a/10, a%10, b/10, b%10, c/10, c%10, d/10, d%10)
	}
	return fmt.Appendf(dst, "%d.%d,%d.%d,%d.%d,%d.%d\n", a/10, a%10, b/10, b%10, c/10, c%10, d/10, d%10)
}

// TestServedScoresAreTheModels compares the answers with calls of the model.
func TestServedScoresAreTheModels(t *testing.T) {
	m, err := tree.Parse("forest.json", forest(t, 20, 4))
	if err != nil {
		t.Fatal(err)
	}
	url := start(t, []serving.Named{{Name: "iris", Model: m}}, serving.ServerOptions{})
	const rows = 5000
	var body []byte
	batch := model.Rows{Width: 4}
	for i := range rows {
		line := irisRow(nil, "", i)
		body = append(body, line...)
		for cell := range strings.SplitSeq(strings.TrimSpace(string(line)), ",") {
			v, err := strconv.ParseFloat(cell, 64)
			if err != nil {
				t.Fatal(err)
			}
			batch.Values = append(batch.Values, float64(v))
		}
	}
	scores := make([]float32, rows)
	if err := m.Predict(t.Context(), batch, scores); err != nil {
		t.Fatal(err)
	}
	lines := stream(t, url+"/v1/models/iris:predict-stream", "text/csv; header=absent", string(body))
	for i, want := range scores {
		var got struct{ Prediction float32 }
		if err := json.Unmarshal([]byte(lines[i]), &got); err != nil || got.Prediction != want {
			t.Fatalf("row %d: %s, %v; want %v", i, lines[i], err, want)
		}
	}
}

// BenchmarkServe sends a million rows, and ten, through 200 trees of depth 5 that a
// process of `afterbay serve` has: client and server share the machine.
func BenchmarkServe(b *testing.B) {
	dir := b.TempDir()
	binary, file := filepath.Join(dir, "afterbay"), filepath.Join(dir, "iris.json")
	if out, err := exec.CommandContext(b.Context(), "go", "build", "-o", binary, "github.com/afterbay/afterbay/cmd/afterbay").CombinedOutput(); err != nil {
		b.Fatalf("%v: %s", err, out)
	}
	if err := os.WriteFile(file, forest(b, 200, 5), 0o600); err != nil {
		b.Fatal(err)
	}
	for _, c := range []struct {
		name, contentType string
		rows              int
	}{{"csv", csvType, 1_000_000}, {"ndjson", ndjson, 1_000_000}, {"csv_10m", csvType, 10_000_000}} {
		b.Run(c.name, func(b *testing.B) {
			url, pid := process(b, binary, file)
			var body []byte
			for i := range 1_000_000 {
				body = irisRow(body, c.contentType, i)
			}
			for b.Loop() {
				parts := make([]io.Reader, c.rows/1_000_000)
				for i := range parts {
					parts[i] = bytes.NewReader(body)
				}
				if n := countLines(b, post(b, url, c.contentType, io.MultiReader(parts...))); n != c.rows+1 {
					b.Fatalf("%d lines", n)
				}
			}
			b.ReportMetric(float64(c.rows)*float64(b.N)/b.Elapsed().Seconds(), "rows/s")
			b.ReportMetric(peak(b, pid), "rss_mb")
		})
	}
	b.Run("first_result", func(b *testing.B) { firstResult(b, binary, file) })
	b.Run("stalled", func(b *testing.B) {
		url, pid := process(b, binary, file)
		var body []byte
		for i := range 3_000_000 {
			body = irisRow(body, csvType, i)
		}
		for b.Loop() {
			conn, err := net.Dial("tcp", strings.TrimPrefix(url, "http://"))
			if err != nil {
				b.Fatal(err)
			}
			_, err = fmt.Fprintf(conn, "POST %s HTTP/1.1\r\nHost: localhost\r\nContent-Type: %s\r\nContent-Length: %d\r\n\r\n%s", irisPath, csvType, len(body), body)
			if err != nil {
				b.Fatal(err)
			}
			_ = conn.Close() // nothing was read
		}
		b.ReportMetric(peak(b, pid), "rss_mb")
	})
}

// firstResult sends one record and leaves the body open.
func firstResult(b *testing.B, binary, file string) {
	url, _ := process(b, binary, file)
	var took []time.Duration
	for b.Loop() {
		for range 20 {
			body, client := io.Pipe()
			go func() { _, _ = client.Write(irisRow(nil, csvType, 1)) }() // the body stays open
			start := time.Now()
			answer := post(b, url, csvType, body)
			if _, err := bufio.NewReader(answer).ReadSlice('\n'); err != nil {
				b.Fatal(err)
			}
			took = append(took, time.Since(start))
			_ = client.Close()
			_ = answer.Close()
		}
	}
	slices.Sort(took)
	b.ReportMetric(1000*took[len(took)/2].Seconds(), "ms")
}

const (
	csvType  = "text/csv; header=absent"
	irisPath = "/v1/models/iris:predict-stream"
)

// process starts `afterbay serve` until the test ends.
func process(t testing.TB, binary, file string) (url string, pid int) {
	t.Helper()
	command := exec.CommandContext(t.Context(), binary, "serve", "--model", "iris="+file, "--listen", "127.0.0.1:0")
	out, err := command.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = command.Process.Kill()
		_ = command.Wait() // which says that it was killed
	})
	for lines := bufio.NewScanner(out); lines.Scan(); {
		if text, ok := strings.CutPrefix(lines.Text(), "listening on "); ok {
			url, _, _ = strings.Cut(text, ": ")
			return url, command.Process.Pid
		}
	}
	t.Fatal("it did not listen")
	return "", 0
}

// post sends a stream, and returns the answer's body.
func post(t testing.TB, url, contentType string, body io.Reader) io.ReadCloser {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url+irisPath, body)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Content-Type", contentType)
	r.Header.Set("Accept-Encoding", "identity")
	response, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	if response.StatusCode != http.StatusOK {
		t.Fatal(response.Status)
	}
	return response.Body
}

// peak returns the most memory that a process had, in MB.
func peak(t testing.TB, pid int) float64 {
	t.Helper()
	bytes, err := procfs.Memory(pid, "VmHWM")
	if err != nil {
		t.Fatal(err)
	}
	return float64(bytes) / 1e6
}

func countLines(t testing.TB, body io.ReadCloser) int {
	t.Helper()
	defer body.Close()
	reader, n := bufio.NewReaderSize(body, 64<<10), 0
	for {
		_, err := reader.ReadSlice('\n')
		if err == io.EOF {
			return n
		}
		if err != nil {
			t.Fatal(err)
		}
		n++
	}
}
