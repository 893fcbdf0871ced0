package process

import (
	"compress/gzip"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/afterbay/afterbay/internal/models/tree"
	"github.com/afterbay/afterbay/model"
)

const xgboostModel = `import numpy, xgboost
booster = xgboost.Booster(model_file="fraud.json")

def predict(values):
    return booster.inplace_predict(numpy.asarray(values), missing=numpy.nan)
`

// TestXGBoostInAProcessScoresAsTheEmbeddedModelDoes gives rows with missing values
// to XGBoost itself, which answers with arrays of numpy.
func TestXGBoostInAProcessScoresAsTheEmbeddedModelDoes(t *testing.T) {
	python := os.Getenv("AFTERBAY_PYTHON")
	if python == "" || exec.CommandContext(t.Context(), python, "-c", "import xgboost").Run() != nil {
		const reason = "AFTERBAY_PYTHON names no interpreter that has xgboost (make deps installs it)"
		if os.Getenv("AFTERBAY_FULL") == "1" {
			t.Fatal("AFTERBAY_FULL=1 but " + reason)
		}
		t.Skip("NOT RUN: " + reason)
	}
	packed, err := os.Open("../tree/testdata/fraud.json.gz")
	if err != nil {
		t.Fatal(err)
	}
	defer packed.Close()
	unpacked, err := gzip.NewReader(packed)
	if err != nil {
		t.Fatal(err)
	}
	file, err := io.ReadAll(unpacked)
	if err != nil {
		t.Fatal(err)
	}
	embedded, err := tree.Parse("fraud.json", file)
	if err != nil {
		t.Fatal(err)
	}
	folder := t.TempDir()
	for name, text := range map[string]string{"worker.py": Helper(), "model.py": xgboostModel, "fraud.json": string(file)} {
		if err := os.WriteFile(filepath.Join(folder, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	inputs := slices.Clone(embedded.Info().Inputs)
	for i := range inputs {
		inputs[i].Name = fmt.Sprintf("f%d", i)
	}
	o := Options{Command: []string{python, "worker.py", "model.py"}, Dir: folder, Workers: 1, Inputs: inputs}
	o.StartTimeout = 5 * time.Minute // a busy machine takes one to read the libraries
	m := start(t, o)
	const seed = 20261121
	random := rand.New(rand.NewPCG(seed, 0))
	rows := model.Rows{Width: len(inputs), N: 500}
	for range rows.N * rows.Width {
		value := random.NormFloat64() * math.Exp(4*random.Float64())
		if random.IntN(8) == 0 {
			value = math.NaN()
		}
		rows.Values = append(rows.Values, value)
	}
	got, want := make([]float32, rows.N), make([]float32, rows.N)
	if err := m.Predict(t.Context(), rows, got); err != nil {
		t.Fatal(err)
	}
	if err := embedded.Predict(t.Context(), rows, want); err != nil {
		t.Fatal(err)
	}
	for i := range want { // but for the last bits of exp, which are the C library's there
		if apart := int64(math.Float32bits(got[i])) - int64(math.Float32bits(want[i])); apart < -2 || apart > 2 {
			t.Errorf("row %d scores %g, not %g", i, got[i], want[i])
		}
	}
}
