package remote

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/afterbay/afterbay/internal/models/tree"
	"github.com/afterbay/afterbay/internal/test/servertest"
	"github.com/afterbay/afterbay/model"
)

// startMLServer starts the MLServer that AFTERBAY_MLSERVER names with a model of
// XGBoost, and returns the addresses of HTTP and gRPC.
func startMLServer(t *testing.T, file []byte) (rest, grpc string) {
	t.Helper()
	program := os.Getenv("AFTERBAY_MLSERVER")
	if program == "" {
		const reason = "AFTERBAY_MLSERVER names no mlserver 1.7.1 with mlserver-xgboost"
		if os.Getenv("AFTERBAY_FULL") == "1" {
			t.Fatal("AFTERBAY_FULL=1 but " + reason)
		}
		t.Skip("NOT RUN: " + reason)
	}
	ports := servertest.FreePorts(t, 3)
	folder := t.TempDir()
	for name, text := range map[string]string{
		"model.json": string(file),
		"model-settings.json": `{"name": "fraud", "implementation": "mlserver_xgboost.XGBoostModel",
			"parameters": {"uri": "./model.json", "version": "v1"}}`,
		"settings.json": fmt.Sprintf(`{"host": "127.0.0.1", "http_port": %d, "grpc_port": %d, "metrics_port": %d, "parallel_workers": 0}`,
			ports[0], ports[1], ports[2]),
	} {
		if err := os.WriteFile(filepath.Join(folder, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	var output bytes.Buffer
	command := exec.Command(program, "start", folder)
	command.Dir, command.Stdout, command.Stderr = folder, &output, &output
	command.WaitDelay = time.Second
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = command.Process.Signal(syscall.SIGTERM)
		stop := time.AfterFunc(10*time.Second, func() { _ = command.Process.Kill() })
		_ = command.Wait()
		stop.Stop()
		if t.Failed() {
			t.Logf("%s", output.Bytes())
		}
	})
	return fmt.Sprintf("127.0.0.1:%d", ports[0]), fmt.Sprintf("127.0.0.1:%d", ports[1])
}

// loadReady loads a model as soon as its server has it.
func loadReady(t *testing.T, o Options) *Model {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	for {
		m, err := Load(ctx, o)
		if err == nil {
			t.Cleanup(func() { m.Close() })
			return m
		}
		select {
		case <-ctx.Done():
			t.Fatal(err)
		case <-time.After(200 * time.Millisecond):
		}
	}
}

func TestMLServerScoresAsTheEmbeddedModelDoes(t *testing.T) {
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
	rest, grpc := startMLServer(t, file)

	const seed = 20261121
	random := rand.New(rand.NewPCG(seed, 0))
	inputs := slices.Clone(embedded.Info().Inputs)
	for i := range inputs {
		if inputs[i].Name == "" {
			inputs[i].Name = fmt.Sprintf("f%d", i)
		}
	}
	rows := model.Rows{Width: len(inputs), N: 500}
	for range rows.N * rows.Width {
		rows.Values = append(rows.Values, random.NormFloat64()*math.Exp(4*random.Float64()))
	}
	missing := model.Rows{Width: rows.Width, N: rows.N}
	for _, value := range rows.Values {
		if random.IntN(8) == 0 {
			value = math.NaN()
		}
		missing.Values = append(missing.Values, value)
	}
	for name, o := range map[string]Options{
		"grpc":   {URL: "grpc://" + grpc},
		"json":   {URL: "http://" + rest, JSON: true},
		"binary": {URL: "http://" + rest},
	} {
		t.Run(name, func(t *testing.T) {
			o.Model, o.Version, o.Inputs = "fraud", "v1", inputs
			o.Outputs = []model.Output{{Name: "predict", Size: 1}}
			m := loadReady(t, o)
			if name == "binary" { // which MLServer 1.7.1 does not have
				_, err := m.scoreAll(t, rows)
				var fault *Error
				if !errors.As(err, &fault) {
					t.Errorf("binary tensors: %v", err)
				}
				t.Logf("binary tensors: %v", err)
				return
			}
			compare(t, m, embedded, rows)
			if name == "grpc" {
				compare(t, m, embedded, missing)
			}
		})
	}
}

func (m *Model) scoreAll(t *testing.T, rows model.Rows) ([]float32, error) {
	scores := make([]float32, rows.Len())
	return scores, m.Predict(t.Context(), rows, scores)
}

// compare sees that probabilities are those of the embedded model but for the
// last bits of exp, which are the C library's there.
func compare(t *testing.T, m *Model, embedded model.Model, rows model.Rows) {
	t.Helper()
	got, err := m.scoreAll(t, rows)
	if err != nil {
		t.Fatal(err)
	}
	want := make([]float32, rows.Len())
	if err := embedded.Predict(t.Context(), rows, want); err != nil {
		t.Fatal(err)
	}
	equal := 0
	for i := range want {
		if apart := int64(math.Float32bits(got[i])) - int64(math.Float32bits(want[i])); apart < -2 || apart > 2 {
			t.Errorf("row %d scores %g, not %g", i, got[i], want[i])
		}
		if got[i] == want[i] {
			equal++
		}
	}
	t.Logf("%d of %d scores are equal to the bit", equal, len(want))
}
