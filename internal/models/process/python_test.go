package process

import (
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/afterbay/afterbay/model"
)

const pythonModel = `import math, os
inputs = ["amount", "hour", "text"]
print("loading")
os.write(1, b"native code prints, too\n")

def predict(values, text):
    print("scoring")
    if text[0] == b"exit":
        os._exit(7)
    if text[0] == b"crash":
        import ctypes
        ctypes.string_at(0)
    if text[0] == b"raise":
        raise ValueError("no such text")
    if text[0] == b"short":
        return [1.0] * (len(text) + 1)
    rows = values.tolist()
    return {
        "size": [[amount + hour, len(words)] for (amount, hour), words in zip(rows, text)],
        "missing": [math.isnan(amount) for amount, hour in rows],
    }
`

func startPython(t testing.TB) *Model {
	t.Helper()
	python, err := exec.LookPath("python3")
	if err != nil {
		if os.Getenv("AFTERBAY_FULL") == "1" {
			t.Fatal("AFTERBAY_FULL=1 but there is no python3")
		}
		t.Skip("no python3")
	}
	folder := t.TempDir()
	for name, text := range map[string]string{"worker.py": Helper(), "model.py": pythonModel} {
		if err := os.WriteFile(filepath.Join(folder, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return start(t, Options{
		Command: []string{python, "worker.py", "model.py"}, Dir: folder, Workers: 1,
		Env: []string{"PYTHONUNBUFFERED="}, // the tests' own may have it
		Inputs: []model.Input{
			{Name: "amount", Type: model.Number}, {Name: "hour", Type: model.Number}, {Name: "text", Type: model.String},
		},
		Outputs: []model.Output{{Name: "missing", Size: 1}, {Name: "size", Size: 2}},
	})
}

func TestPythonScoresWithTheHelperAlone(t *testing.T) {
	m := startPython(t)
	rows := model.Rows{Width: 2, BytesWidth: 1}
	for i := range 300 {
		rows.Append([]float64{float64(i) / 8, 2}, [][]byte{make([]byte, i)})
	}
	rows.Values[2*299] = float64(math.NaN())
	rows.Values[2*299+1] = 0
	scores := make([]float32, 900)
	err := m.Predict(t.Context(), rows, scores)
	wantError(t, err, "output size is not a number for row 299")
	rows = rows.Slice(0, 299)
	if err := m.Predict(t.Context(), rows, scores[:3*299]); err != nil {
		t.Fatal(err)
	}
	for i := range 299 {
		if got := [3]float32(scores[3*i:]); got != [3]float32{0, float32(i)/8 + 2, float32(i)} {
			t.Errorf("row %d has scores %v", i, got)
		}
	}
	if err := m.Check([]float64{1, 2}, [][]byte{nil}); err == nil {
		t.Error("a missing text passes")
	}
}

func TestPythonThatFailsSaysWhy(t *testing.T) {
	m := startPython(t)
	for text, words := range map[string][]string{
		"raise": {"ValueError: no such text"},
		"short": {"ValueError: output scores has 3 values for 2 rows"},
		"exit":  {"exit status 7", "last words: loading\nnative code prints, too\nscoring"},
		"crash": {"segmentation fault", "Fatal Python error", "model.py"},
	} {
		rows := model.Rows{Width: 2, BytesWidth: 1}
		rows.Append([]float64{1, 2}, [][]byte{[]byte(text)})
		rows.Append([]float64{3, 4}, [][]byte{[]byte("text")})
		wantError(t, m.Predict(t.Context(), rows, make([]float32, 6)), words...)
	}
}

// TestPythonScoresNoHalfRequest ends the process that writes a request, as a crash
// does: what is there of it is no request.
func TestPythonScoresNoHalfRequest(t *testing.T) {
	o := startPython(t).options
	if err := os.WriteFile(filepath.Join(o.Dir, "model.py"), []byte(`
def predict(text):
    open("called", "w").close()
    return [1.0] * len(text)
`), 0o600); err != nil {
		t.Fatal(err)
	}
	field := func(number byte, value string) string {
		return string([]byte{number<<3 | 2, byte(len(value))}) + value
	}
	text := "\x40\x00\x00\x00" + strings.Repeat("a", 64)
	request := field(3, "1") + field(5, field(1, "text")+field(2, "BYTES")+field(3, "\x01\x01")) + field(7, text)
	request = string([]byte{byte(len(request)), 0, 0, 0}) + request
	for _, size := range []int{2, 4, len(request) / 2, len(request) - 1, len(request)} {
		worker := exec.CommandContext(t.Context(), o.Command[0], o.Command[1:]...)
		worker.Dir, worker.Stdin = o.Dir, strings.NewReader(request[:size])
		out, err := worker.Output()
		if err != nil {
			t.Fatalf("%d bytes: %v", size, err)
		}
		_, err = os.Stat(filepath.Join(o.Dir, "called"))
		if called := err == nil; called != (size == len(request)) {
			t.Errorf("%d of %d bytes: scored: %v, answer %q", size, len(request), called, out)
		}
	}
}

// BenchmarkPython is a call of 64 rows of two numbers and a text, one at a time.
func BenchmarkPython(b *testing.B) {
	m := startPython(b)
	rows := model.Rows{Width: 2, BytesWidth: 1}
	for i := range 64 {
		rows.Append([]float64{float64(i), 2}, [][]byte{[]byte("text")})
	}
	scores := make([]float32, 3*64)
	for b.Loop() {
		if err := m.Predict(b.Context(), rows, scores); err != nil {
			b.Fatal(err)
		}
	}
}

func TestPythonAnswersWithTexts(t *testing.T) {
	m := startPython(t)
	o := m.options
	o.Inputs, o.Outputs = o.Inputs[2:], []model.Output{{Name: "words", Size: 1, Type: model.String}, {Name: "size", Size: 2}, {Name: "raw", Size: 1, Type: model.Bytes}}
	if err := os.WriteFile(filepath.Join(o.Dir, "model.py"), []byte(`
def predict(text):
    return {"words": [t.decode().upper() for t in text], "size": [[len(t), 1] for t in text], "raw": [b"\0" + t for t in text]}
`), 0o600); err != nil {
		t.Fatal(err)
	}
	m = start(t, o)
	rows := model.Rows{BytesWidth: 1}
	rows.Append(nil, [][]byte{[]byte("caf\u00e9")})
	rows.Append(nil, [][]byte{{}})
	scores, texts := make([]float32, 4), make([][]byte, 4)
	if err := m.Answer(t.Context(), rows, scores, texts); err != nil {
		t.Fatal(err)
	}
	if got := fmt.Sprintf("%v %q", scores, texts); got != `[5 1 0 1] ["CAFÉ" "\x00café" "" "\x00"]` {
		t.Error(got)
	}
	wantError(t, m.Predict(t.Context(), rows, scores), "Answerer")
}
