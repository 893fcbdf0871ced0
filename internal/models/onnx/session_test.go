package onnx

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/afterbay/afterbay/internal/models/oip"
	"github.com/afterbay/afterbay/internal/models/onnx/internal/wire"
	"github.com/afterbay/afterbay/internal/models/onnx/worker"
	"github.com/afterbay/afterbay/model"
)

// The test binary is its own worker: of ONNX Runtime, or one that behaves as a
// test wants.
func TestMain(m *testing.M) {
	if len(os.Args) > 2 && os.Args[1] == "-library" {
		if os.Args[2] == strangeLibrary {
			os.Exit(strangeWorker(argument("-model"), os.Stdin, os.Stdout))
		}
		os.Exit(worker.Main(os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
	}
	os.Exit(m.Run())
}

func argument(name string) string { return os.Args[slices.Index(os.Args, name)+1] }

const strangeLibrary = "strange"

// What the first number of a call makes a strange worker do; else it doubles
// numbers.
const (
	dies = 13 + iota
	diesOnce
	hangs
	refuses
	stammers
	tellsPID
)

func strangeWorker(path string, in io.Reader, out io.Writer) int {
	column := []int64{-1, 1}
	graph := Graph{Runtime: "strange", Inputs: []Tensor{{Name: "x", Datatype: "FP32", Shape: column}}, Outputs: []Tensor{{Name: "y", Datatype: "FP32", Shape: column}}}
	if left, err := os.ReadFile(path + ".starts"); err == nil && len(left) > 0 { // bytes: starts that fail
		_ = os.WriteFile(path+".starts", left[1:], 0o600)
		return 5
	}
	if strings.HasSuffix(path, "unreadable") {
		frame, _ := wire.End(wire.AppendNoGraph(wire.Begin(nil), "no model at all"))
		_, _ = out.Write(frame)
		return 1
	}
	frame, _ := wire.End(wire.AppendGraph(wire.Begin(nil), graph))
	_, _ = out.Write(frame)
	for {
		request, err := wire.ReadFrame(in, nil, 1<<30)
		if err != nil {
			return 0
		}
		inputs, _, err := wire.ParseRequest(request)
		if err != nil {
			return 4
		}
		x := inputs[0]
		y := Tensor{Name: "y", Datatype: "FP32", Shape: x.Shape}
		for i := range len(x.Raw) / 4 {
			y.Raw = oip.AppendNumber(y.Raw, "FP32", 2*oip.Number("FP32", x.Raw, i))
		}
		answer := wire.AppendAnswer(wire.Begin(nil), []Tensor{y})
		switch oip.Number("FP32", x.Raw, 0) {
		case diesOnce:
			file, err := os.OpenFile(path+".died", os.O_CREATE|os.O_EXCL, 0o600)
			if err != nil {
				break
			}
			_ = file.Close()
			fallthrough
		case dies:
			fmt.Fprintln(os.Stderr, "terminate called after throwing an instance of 'std::bad_alloc'")
			return 3
		case hangs:
			_, _ = io.Copy(io.Discard, in)
		case refuses:
			answer = wire.AppendError(wire.Begin(nil), "invalid dimensions")
		case stammers:
			_, _ = out.Write(bytes.Repeat([]byte{0xff}, 64))
			continue
		case tellsPID:
			y.Raw = oip.AppendNumber(nil, "FP32", float64(os.Getpid()))
			answer = wire.AppendAnswer(wire.Begin(nil), []Tensor{y})
		}
		answer, _ = wire.End(answer)
		_, _ = out.Write(answer)
	}
}

func strangeOptions() Options {
	return Options{Session: SessionOptions{
		Worker: os.Args[0], Library: strangeLibrary, LibraryDigest: strings.Repeat("0", 64), Processes: 1,
	}}
}

func modelFile(t testing.TB, name string, content []byte) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, content, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func load(t testing.TB, path string, o Options) *Model {
	t.Helper()
	m, err := Load(t.Context(), path, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(m.Close)
	return m
}

func strange(t testing.TB) *Model {
	t.Helper()
	return load(t, modelFile(t, "model.onnx", []byte("x")), strangeOptions())
}

// score scores rows of one number.
func score(ctx context.Context, m *Model, values ...float64) ([]float32, error) {
	scores := make([]float32, len(values))
	err := m.Predict(ctx, model.Rows{Width: 1, Values: values, N: len(values)}, scores)
	return scores, err
}

func TestCallThatAProcessDiedInIsMadeOnceMore(t *testing.T) {
	m := strange(t)
	scores, err := score(t.Context(), m, 1, 2, diesOnce, 4, 5)
	if want := []float32{2, 4, 2 * diesOnce, 8, 10}; err != nil || !slices.Equal(scores, want) {
		t.Errorf("%v %v, expected %v", scores, err, want)
	}
}

func TestProcessThatDiesAgainCostsTheCallAlone(t *testing.T) {
	m := strange(t)
	_, err := score(t.Context(), m, 1, dies, 3)
	if err == nil || !strings.Contains(err.Error(), "bad_alloc") || !strings.Contains(err.Error(), "exit status 3") {
		t.Fatalf("%v, expected what the process said when it died", err)
	}
	if scores, err := score(t.Context(), m, 7); err != nil || scores[0] != 14 {
		t.Errorf("the call after it: %v %v", scores, err)
	}
}

func TestCallWaitsForAProcessThatCannotBeStartedForAWhile(t *testing.T) {
	path := modelFile(t, "model.onnx", []byte("x"))
	m := load(t, path, strangeOptions())
	for _, c := range []struct {
		starts   int
		patience time.Duration
		score    float32 // 0 is none
	}{{3, time.Minute, 2 * diesOnce}, {100, time.Second, 0}} {
		m.session.slots[0].patience = c.patience
		_ = os.Remove(path + ".died")
		if err := os.WriteFile(path+".starts", make([]byte, c.starts), 0o600); err != nil {
			t.Fatal(err)
		}
		if scores, err := score(t.Context(), m, diesOnce); (err == nil) != (c.score > 0) || scores[0] != c.score {
			t.Errorf("%d starts fail: %v %v", c.starts, scores, err)
		}
	}
}

func TestProcessWithoutAnswerIsEnded(t *testing.T) {
	m := strange(t)
	m.session.slots[0].process.timeout = 300 * time.Millisecond // the one after it has longer
	if _, err := score(t.Context(), m, hangs); err == nil || !strings.Contains(err.Error(), "in time") {
		t.Fatalf("%v, expected a timeout", err)
	}
	if scores, err := score(t.Context(), m, 7); err != nil || scores[0] != 14 {
		t.Errorf("the call after it: %v %v", scores, err)
	}
}

func TestRefusedCallLeavesTheProcess(t *testing.T) {
	m := strange(t)
	before, err := score(t.Context(), m, tellsPID)
	if err != nil {
		t.Fatal(err)
	}
	for range 3 {
		if _, err := score(t.Context(), m, 1, refuses, 3, 4); err == nil || !strings.Contains(err.Error(), "invalid dimensions") {
			t.Errorf("%v, expected what the model said", err)
		}
	}
	after, err := score(t.Context(), m, tellsPID)
	if err != nil || after[0] != before[0] {
		t.Errorf("process %v, before %v: %v", after, before, err)
	}
}

func TestBrokenAnswerEndsTheProcess(t *testing.T) {
	m := strange(t)
	if _, err := score(t.Context(), m, stammers); err == nil || !strings.Contains(err.Error(), "the limit is") {
		t.Errorf("%v, expected a message that is too long", err)
	}
	if scores, err := score(t.Context(), m, 7); err != nil || scores[0] != 14 {
		t.Errorf("the call after it: %v %v", scores, err)
	}
}

func TestModelThatCannotBeReadSaysWhy(t *testing.T) {
	if _, err := Load(t.Context(), modelFile(t, "unreadable", nil), strangeOptions()); err == nil || !strings.Contains(err.Error(), "no model at all") {
		t.Errorf("%v", err)
	}
}

func TestFileOfAnotherDigestIsRefused(t *testing.T) {
	o := strangeOptions()
	o.Session.Digest = strings.Repeat("ab", 32)
	if _, err := Load(t.Context(), modelFile(t, "model.onnx", []byte("x")), o); err == nil || !strings.Contains(err.Error(), "sha256") {
		t.Errorf("%v", err)
	}
}

func TestClosedModelLeavesNoProcessAndRefuses(t *testing.T) {
	m := strange(t)
	pid, err := score(t.Context(), m, tellsPID)
	if err != nil {
		t.Fatal(err)
	}
	m.Close()
	m.Close()
	if err := syscall.Kill(int(pid[0]), 0); err == nil {
		t.Errorf("process %v is still there", pid[0])
	}
	if _, err := score(t.Context(), m, 1); err == nil {
		t.Error("a closed model scored")
	}
}

// Requests and answers are both much longer than what a pipe holds, and there
// are always two under way.
func TestLongCallsBothWaysDoNotBlockEachOther(t *testing.T) {
	o := strangeOptions()
	o.Batch = 4096
	o.Session.Processes = 2
	m := load(t, modelFile(t, "model.onnx", []byte("x")), o)
	values := make([]float64, 40*4096)
	for i := range values {
		values[i] = float64(i + 100)
	}
	var group sync.WaitGroup
	for range 4 {
		group.Go(func() {
			scores, err := score(t.Context(), m, values...)
			for i := range values {
				if err != nil || float64(scores[i]) != 2*values[i] {
					t.Errorf("row %d: %v %v", i, scores[i], err)
					return
				}
			}
		})
	}
	group.Wait()
}

func TestEndedContextEndsTheWait(t *testing.T) {
	m := strange(t)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := score(ctx, m, 1); err == nil {
		t.Error("scored after the end")
	}
}

func TestCallsBeyondTheLimitAreRefused(t *testing.T) {
	o := strangeOptions()
	o.Session.TensorBytes = 64
	m := load(t, modelFile(t, "model.onnx", []byte("x")), o)
	big := Tensor{Name: "x", Datatype: "FP32", Shape: []int64{17, 1}, Raw: make([]byte, 68)}
	if _, err := m.Session().Run(t.Context(), []Tensor{big}); err == nil || !strings.Contains(err.Error(), "limit is 64") {
		t.Errorf("%v", err)
	}
	big.Raw = big.Raw[:64]
	if _, err := m.Session().Run(t.Context(), []Tensor{big}); err == nil || !strings.Contains(err.Error(), "shape [17 1]") {
		t.Errorf("%v", err)
	}
	binary.LittleEndian.PutUint32(big.Raw, 0)
	big.Shape = []int64{16, 1}
	if out, err := m.Session().Run(t.Context(), []Tensor{big}, "y"); err != nil || len(out) != 1 || len(out[0].Raw) != 64 {
		t.Errorf("%v %v", out, err)
	}
}

func TestOptionsThatAreWrongAreAllNamed(t *testing.T) {
	o := Options{
		Session: SessionOptions{Processes: -1, Threads: 999, TensorBytes: 2 << 30, MemoryBytes: 1, Digest: "x", LibraryDigest: "y"},
		Batch:   -1,
		Inputs:  []Input{{}, {Name: "a", Kind: "odd"}, {Name: "a", Kind: TokenIDs}, {Name: "b", Kind: Constant}, {Name: "c", Kind: Numbers, Carry: 1}},
		Outputs: []Output{{Size: -1, Pool: "max"}},
		States:  []State{{Input: "a"}},
	}
	err := o.Validate()
	for _, part := range []string{
		"processes are", "threads are", "1 GiB", "64 MiB", "digest \"x\"", "digest \"y\"", "without a library", "a batch", "input 0", `"odd"`, "occurs twice",
		"a tokenizer", "elements are what", "only raw", "output 0", "-1 scores", "pools by", "name both", "input and a state",
	} {
		if err == nil || !strings.Contains(err.Error(), part) {
			t.Errorf("%q is not in\n%v", part, err)
		}
	}
	if err := (Options{}).Validate(); err != nil {
		t.Error(err)
	}
}
