package onnx

import (
	"bytes"
	"os"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/afterbay/afterbay/internal/models/oip"
	"github.com/afterbay/afterbay/model"
)

// library returns a library of ONNX Runtime: that of the user's cache, or of
// the Python that tests compare with.
func library(t testing.TB) (path, digest string) {
	t.Helper()
	if path, err := Installed(); err == nil {
		digest, err := digestOf(path, "")
		if err != nil {
			t.Fatal(err)
		}
		return path, digest
	}
	out, err := exec.CommandContext(t.Context(), python(t), "-c", "import glob, importlib.util, os\n"+
		"print(glob.glob(os.path.dirname(importlib.util.find_spec('onnxruntime').origin) + '/capi/libonnxruntime.*')[0])").Output()
	if err != nil {
		t.Fatalf("find ONNX Runtime of Python: %v", err)
	}
	path = strings.TrimSpace(string(out))
	if digest, err = digestOf(path, ""); err != nil {
		t.Fatal(err)
	}
	return path, digest
}

func python(t testing.TB) string {
	t.Helper()
	path := os.Getenv("AFTERBAY_PYTHON")
	if path == "" {
		if os.Getenv("AFTERBAY_FULL") == "1" {
			t.Fatal("AFTERBAY_FULL=1 but AFTERBAY_PYTHON names no interpreter that has onnxruntime 1.31.1 and packages with models")
		}
		t.Skip("NOT RUN: ONNX Runtime is neither installed (afterbay model runtime) nor in a Python that AFTERBAY_PYTHON names")
	}
	return path
}

// onRuntime returns options that run a model in ONNX Runtime.
func onRuntime(t testing.TB, o Options) Options {
	t.Helper()
	o.Session.Worker = os.Args[0]
	o.Session.Library, o.Session.LibraryDigest = library(t)
	if o.Session.Processes == 0 {
		o.Session.Processes = 1
	}
	return o
}

func predict(t testing.TB, m *Model, rows model.Rows) []float32 {
	t.Helper()
	for i := range rows.Len() {
		if err := m.Check(rows.Row(i)); err != nil {
			t.Fatal(err)
		}
	}
	scores := make([]float32, rows.Len()*m.Info().Scores())
	if err := m.Predict(t.Context(), rows, scores); err != nil {
		t.Fatal(err)
	}
	return scores
}

func TestRuntimeMultipliesRowsAloneAndTogether(t *testing.T) {
	var g graph
	g.in("x", float32s, -1, 3)
	g.out("y", float32s, -1, 2)
	g.constant("w", []int64{3, 2}, 1, 10, 100, 1000, 10000, 100000)
	g.node("MatMul", []string{"x", "w"}, []string{"y"})
	path := modelFile(t, "matmul.onnx", g.file())
	rows := model.Rows{Width: 3, Values: []float64{1, 2, 3, 4, 5, 6, 7, 8, 9}, N: 3}
	want := []float32{30201, 302010, 60504, 605040, 90807, 908070}
	for _, batch := range []int{1, 2, 8} {
		m := load(t, path, onRuntime(t, Options{Batch: batch}))
		if got := predict(t, m, rows); !slices.Equal(got, want) {
			t.Errorf("batch %d: %v, expected %v", batch, got, want)
		}
		info := m.Info()
		if info.Kind != "onnx" || info.Width() != 3 || info.Scores() != 2 || !strings.Contains(info.Describe, "ONNX Runtime 1.") {
			t.Errorf("%+v", info)
		}
	}
}

func TestRuntimeTakesScalarsAndStrings(t *testing.T) {
	var g graph
	g.in("x", float32s, -1, 2)
	g.in("times", float32s)
	g.in("s", strings8, -1, -1)
	g.in("n", int64s, -1)
	g.out("y", float32s, -1, 2)
	g.out("same", strings8, -1, -1)
	g.out("m", int64s, -1)
	g.node("Mul", []string{"x", "times"}, []string{"y"})
	g.node("Identity", []string{"s"}, []string{"same"})
	g.node("Neg", []string{"n"}, []string{"m"})
	path := modelFile(t, "mixed.onnx", g.file())
	m := load(t, path, onRuntime(t, Options{
		Inputs: []Input{
			{Name: "x"}, {Name: "times", Kind: Constant, Constant: []float64{2.5}}, {Name: "s", Kind: Text, Shape: []int{1}}, {Name: "n"},
		},
		Outputs: []Output{{Name: "m", Size: 1}, {Name: "y"}},
	}))
	got := predict(t, m, model.Rows{
		Width: 3, BytesWidth: 1, N: 2, Values: []float64{1, 2, 3, 4, 5, -6}, Bytes: [][]byte{[]byte("äb"), {}},
	})
	if want := []float32{-3, 2.5, 5, 6, 10, 12.5}; !slices.Equal(got, want) {
		t.Errorf("%v, expected %v", got, want)
	}
	var list []byte
	for _, s := range []string{"äb", "", "the third", "4"} {
		list = oip.AppendBytes(list, []byte(s))
	}
	out, err := m.Session().Run(t.Context(), []Tensor{
		{Name: "s", Datatype: "BYTES", Shape: []int64{2, 2}, Raw: list},
		{Name: "n", Datatype: "INT64", Shape: []int64{0}},
		{Name: "times", Datatype: "FP32", Raw: floats(1)},
		{Name: "x", Datatype: "FP32", Shape: []int64{1, 2}, Raw: floats(7, 8)},
	})
	if err != nil {
		t.Fatal(err)
	}
	if out[1].Name != "same" || !bytes.Equal(out[1].Raw, list) || !slices.Equal(out[1].Shape, []int64{2, 2}) || len(out[2].Raw) != 0 {
		t.Errorf("%+v", out)
	}
	if _, err := m.Session().Run(t.Context(), []Tensor{{Name: "x", Datatype: "FP32", Shape: []int64{1, 2}, Raw: floats(7, 8)}}); err == nil || !strings.Contains(err.Error(), "1 inputs for a model of 4") {
		t.Errorf("%v", err)
	}
}

func TestRuntimeTakesRowsOfOpenLength(t *testing.T) {
	var g graph
	g.in("x", float32s, -1, 2, -1)
	g.out("y", float32s, -1)
	g.node("ReduceMean", []string{"x"}, []string{"y"}, ints("axes", 1, 2), flag("keepdims", 0))
	m := load(t, modelFile(t, "mean.onnx", g.file()), onRuntime(t, Options{Batch: 4}))
	got := predict(t, m, model.Rows{BytesWidth: 1, N: 4, Bytes: [][]byte{floats(1, 3), floats(5, 7), floats(1, 2, 3, 4, 5, 9), floats(0, 1)}})
	if want := []float32{2, 6, 4, 0.5}; !slices.Equal(got, want) {
		t.Errorf("%v, expected %v", got, want)
	}
}

func TestRuntimeCarriesStateByTheRowOfTheKey(t *testing.T) {
	var g graph
	g.in("x", float32s, -1, 3)
	g.in("state", float32s, 2, -1, 3)
	g.out("y", float32s, -1, 3)
	g.out("next", float32s, 2, -1, 3)
	g.node("Add", []string{"state", "x"}, []string{"next"})
	g.node("ReduceSum", []string{"next", "axis"}, []string{"y"}, flag("keepdims", 0))
	// An initializer of int64 for the axes.
	g.body = append(g.body, message(5, integer(1, 1), integer(2, int64s), text(8, "axis"), message(9, make([]byte, 8)))...)
	path := modelFile(t, "sum.onnx", g.file())
	for _, batch := range []int{1, 4} {
		m := load(t, path, onRuntime(t, Options{Batch: batch, States: []State{{Input: "state", Output: "next"}}}))
		if m.Info().State != 6 {
			t.Fatalf("state of %d", m.Info().State)
		}
		states := make([][]byte, 2) // of two keys
		var last []float32
		for range 3 {
			last = predict(t, m, model.Rows{Width: 3, N: 2, Values: []float64{1, 2, 3, 10, 20, 30}, BytesWidth: 1, Bytes: states})
			for i := range states {
				states[i] = model.AppendState(nil, last[9*i+3:9*i+9])
			}
		}
		if want := []float32{6, 12, 18, 3, 6, 9, 3, 6, 9, 60, 120, 180, 30, 60, 90, 30, 60, 90}; !slices.Equal(last, want) {
			t.Errorf("batch %d: %v, expected %v", batch, last, want)
		}
	}
}

// huge makes as many zeros as a number says.
func huge(t *testing.T, o Options) *Model {
	t.Helper()
	var g graph
	g.in("n", int64s, 1)
	g.out("y", float32s, -1)
	g.node("ConstantOfShape", []string{"n"}, []string{"y"})
	return load(t, modelFile(t, "huge.onnx", g.file()), onRuntime(t, o))
}

func TestAnswersAndMemoryAreBounded(t *testing.T) {
	o := Options{Session: SessionOptions{TensorBytes: 1 << 20, MemoryBytes: 512 << 20}}
	m := huge(t, o)
	run := func(n float64) error {
		_, err := m.Session().Run(t.Context(), []Tensor{{Name: "n", Datatype: "INT64", Shape: []int64{1}, Raw: oip.AppendNumber(nil, "INT64", n)}})
		return err
	}
	if err := run(1 << 18); err != nil {
		t.Error(err)
	}
	if err := run(1<<18 + 1); err == nil || !strings.Contains(err.Error(), "beyond the limit of a call") {
		t.Errorf("%v, expected the limit of a call", err)
	}
	if err := run(1 << 30); err == nil {
		t.Error("4 GiB were had within 512 MiB")
	} else {
		t.Log(err)
	}
	if err := run(10); err != nil {
		t.Errorf("the call after it: %v", err)
	}
}

func TestKilledRuntimeCostsNoCall(t *testing.T) {
	m := huge(t, Options{})
	pid := m.session.slots[0].process.command.Process.Pid
	rows := model.Rows{Width: 1, Values: []float64{1}, N: 1}
	predict(t, m, rows)
	for range 3 {
		if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
		predict(t, m, rows)
		pid = m.session.slots[0].process.command.Process.Pid
	}
}

func TestRuntimeRefusesWhatIsNoModel(t *testing.T) {
	for name, content := range map[string][]byte{"empty": nil, "text": []byte("hello"), "zeros": make([]byte, 1000)} {
		started := time.Now()
		if _, err := Load(t.Context(), modelFile(t, name, content), onRuntime(t, Options{})); err == nil {
			t.Errorf("%s was read", name)
		} else if strings.Contains(err.Error(), "the process of") {
			t.Errorf("%s ended the process: %v", name, err)
		} else {
			t.Logf("%s after %v: %v", name, time.Since(started), err)
		}
	}
}

func TestLibraryOfAnotherDigestIsNotLoaded(t *testing.T) {
	o := onRuntime(t, Options{})
	o.Session.LibraryDigest = strings.Repeat("12", 32)
	if _, err := Load(t.Context(), modelFile(t, "x", nil), o); err == nil || !strings.Contains(err.Error(), "has the sha256") {
		t.Errorf("%v", err)
	}
}
