package process

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/afterbay/afterbay/internal/models/oip"
	"github.com/afterbay/afterbay/model"
)

// What a worker of these tests does is the first number of the first row; other
// numbers are added up.
const (
	exits    = -1 - iota // also as any other number
	hangs                // and never answers
	prints               // to stdout
	refuses              // the rows
	misfits              // the shape
	grows                // in memory
	diesOnce             // in all
	undefined
	confuses // the id
	naps     // before it answers
	tells    // its number
)

const environmentVariable = "AFTERBAY_TEST_FILE"

const modeVariable, folderVariable = "AFTERBAY_TEST_WORKER", "AFTERBAY_TEST_FOLDER"

// What tests outside the package ask for.
const (
	Exits, Tells = exits, tells
	ModeVariable = modeVariable
)

// TestMain makes a worker of the test's own binary.
func TestMain(m *testing.M) {
	if mode := os.Getenv(modeVariable); mode != "" {
		work(mode)
		return
	}
	os.Exit(m.Run())
}

func work(mode string) {
	hello := oip.Metadata{}
	switch mode {
	case "dies":
		fmt.Fprintln(os.Stderr, "ModuleNotFoundError: no xgboost")
		os.Exit(1)
	case "chatty":
		fmt.Println("Hello, world: loading")
	case "tells environment":
		file := os.Getenv(environmentVariable)
		if err := errors.Join(os.WriteFile(file+"."+strconv.Itoa(os.Getpid()), []byte(strings.Join(os.Environ(), "\n")), 0o600), os.Rename(file+"."+strconv.Itoa(os.Getpid()), file)); err != nil {
			panic(err)
		}
	case "silent":
		time.Sleep(time.Hour)
	case "names":
		hello.Inputs = []oip.Tensor{{Name: "b"}, {Name: "a"}}
	case "right":
		hello.Inputs = []oip.Tensor{{Name: "a"}, {Name: "b"}}
	}
	put(hello.Append(make([]byte, 4)))
	in := bufio.NewReader(os.Stdin)
	for {
		data, err := readFrame(in)
		if err != nil {
			return
		}
		request, err := oip.ParseRequest(data)
		if err != nil {
			panic(err)
		}
		response := respond(&request)
		put(response.Append(make([]byte, 4)))
	}
}

func put(frame []byte) {
	setLength(frame)
	if _, err := os.Stdout.Write(frame); err != nil {
		panic(err)
	}
}

func respond(request *oip.Request) *oip.Response {
	t := &request.Inputs[0]
	rows, width := int(t.Shape[0]), int(t.Shape[1])
	values := make([]float32, rows*width)
	if err := oip.Floats(t, values); err != nil {
		panic(err)
	}
	sums := make([]float32, rows)
	for i, value := range values {
		sums[i/width] += value
	}
	response := &oip.Response{ID: request.ID}
	does := values[0]
	if slices.Contains(values, exits) {
		does = exits
	}
	switch does {
	case exits:
		fmt.Fprint(os.Stderr, strings.Repeat("noise ", 10_000), "IndexError: boom\n")
		os.Exit(3)
	case hangs:
		time.Sleep(time.Hour)
	case prints:
		fmt.Println("progress: 10 %")
	case refuses:
		response.Error = "ValueError: too odd"
		return response
	case misfits:
		sums = sums[1:]
	case grows:
		kept := make([]byte, 512<<20)
		for i := 0; i < len(kept); i += 4096 {
			kept[i] = 1
		}
		time.Sleep(time.Hour)
		runtime.KeepAlive(kept)
	case diesOnce:
		file, err := os.OpenFile(filepath.Join(os.Getenv(folderVariable), "died"), os.O_CREATE|os.O_EXCL, 0o600)
		if err == nil {
			file.Close()
			os.Exit(4)
		}
	case undefined:
		sums[0] = float32(math.NaN())
	case confuses:
		response.ID = "another"
	case naps:
		time.Sleep(time.Second)
	case tells:
		sums[0] = float32(os.Getpid())
	}
	out := oip.Tensor{Name: "sum", Datatype: "FP32", Shape: []int64{int64(len(sums)), 1}}
	for _, sum := range sums {
		out.Raw = oip.AppendNumber(out.Raw, "FP32", float64(sum))
	}
	response.Outputs = []oip.Tensor{out}
	return response
}

func options(t testing.TB, mode string) Options {
	t.Helper()
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return Options{
		Command: []string{program}, Env: []string{modeVariable + "=" + mode, folderVariable + "=" + t.TempDir()},
		Inputs: []model.Input{{Name: "a", Type: model.Number}, {Name: "b", Type: model.Number}},
	}
}

func start(t testing.TB, o Options) *Model {
	t.Helper()
	m, err := Start(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { m.Close() })
	return m
}

// TestProgramsGetFewVariables sees that secrets of the engine stay with it, and that
// a model that is not connected runs no program.
func TestProgramsGetFewVariables(t *testing.T) {
	t.Setenv("AFTERBAY_TOKEN", "secret")
	t.Setenv("OTHER_SECRET", "secret")
	t.Setenv("MODEL_CACHE", "there")
	t.Setenv("LANG", "C")
	o := options(t, "tells environment")
	file := filepath.Join(t.TempDir(), "environment")
	o.Env = append(o.Env, environmentVariable+"="+file)
	o.Variables = []string{"MODEL_CACHE", "ABSENT"}
	m, err := Open(o)
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	if _, err := os.Stat(file); err == nil {
		t.Fatal("a model that is only opened ran its program")
	}
	if err := m.Connect(t.Context()); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	for _, line := range strings.Split(string(text), "\n") {
		name, _, _ := strings.Cut(line, "=")
		if !slices.Contains([]string{"PATH", "HOME", "LANG", "TMPDIR", "MODEL_CACHE", modeVariable, folderVariable, environmentVariable, "PWD"}, name) {
			t.Errorf("the program got %s", line)
		}
	}
	if !strings.Contains(string(text), "MODEL_CACHE=there") || !strings.Contains(string(text), "LANG=C") {
		t.Errorf("the program got %s", text)
	}
	for _, name := range []string{"AFTERBAY_TOKEN", "afterbay_x", "A=B", ""} {
		if o.Variables = []string{name}; o.Validate() == nil {
			t.Errorf("the variable %q is passed on", name)
		}
	}
}

// score returns the first score of rows of two numbers.
func score(m *Model, values ...float64) (float32, error) {
	scores := make([]float32, len(values)/2)
	err := m.Predict(context.Background(), model.Rows{Width: 2, Values: values}, scores)
	return scores[0], err
}

// wantWorking sees that a pool scores, whatever happened before.
func wantWorking(t *testing.T, m *Model) {
	t.Helper()
	if got, err := score(m, 1, 2); err != nil || got != 3 {
		t.Errorf("score %g, %v: the pool is not back", got, err)
	}
}

func wantError(t testing.TB, err error, words ...string) {
	t.Helper()
	for _, word := range words {
		if err == nil || !strings.Contains(err.Error(), word) {
			t.Errorf("error %v\nlacks %q", err, word)
		}
	}
}

func TestWorkersScoreManyCallsAtATime(t *testing.T) {
	o := options(t, "right")
	o.Workers = 3
	m := start(t, o)
	if info := m.Info(); !info.Remote || info.Scores() != 1 || info.Width() != 2 {
		t.Errorf("%+v", info)
	}
	var group sync.WaitGroup
	for g := range 8 {
		group.Go(func() {
			for i := range 50 {
				rows := model.Rows{Width: 2}
				for j := range 1 + i%5 {
					rows.Append([]float64{float64(g), float64(10*i + j)}, nil)
				}
				scores := make([]float32, rows.Len())
				if err := m.Predict(t.Context(), rows, scores); err != nil {
					t.Error(err)
				}
				for j, got := range scores {
					if want := float32(g + 10*i + j); got != want {
						t.Errorf("score %g, not %g", got, want)
					}
				}
			}
		})
	}
	group.Wait()
	if err := m.Predict(t.Context(), model.Rows{Width: 3, Values: make([]float64, 3)}, make([]float32, 1)); err == nil {
		t.Error("rows of another width were scored")
	}
}

func TestDeadWorkerCostsACallNotARecord(t *testing.T) {
	m := start(t, options(t, "good"))
	if got, err := score(m, diesOnce, 5); err != nil || got != diesOnce+5 {
		t.Errorf("score %g, %v", got, err)
	}
	wantWorking(t, m)
}

func TestRowsThatNoWorkerSurvivesFailWithItsLastWords(t *testing.T) {
	m := start(t, options(t, "good"))
	_, err := score(m, exits, 0)
	wantError(t, err, "2 of 2 tries lost their worker", "exit status 3", "IndexError: boom")
	if len(err.Error()) > wordsBytesMax+200 {
		t.Errorf("an error of %d bytes", len(err.Error()))
	}
	wantWorking(t, m)
}

func TestFaultsOfWorkersAreClearErrors(t *testing.T) {
	for name, c := range map[string]struct {
		does  float64
		words []string
	}{
		"prints":    {prints, []string{`wrote "prog"`, "stdout"}},
		"refuses":   {refuses, []string{"refuses the rows: ValueError: too odd"}},
		"misfits":   {misfits, []string{"shape [1 1], which is not 2 rows of 1"}},
		"undefined": {undefined, []string{"output sum is not a number for row 0"}},
		"confuses":  {confuses, []string{`for request "another"`}},
	} {
		t.Run(name, func(t *testing.T) {
			o := options(t, "good")
			o.Workers = 1
			m := start(t, o)
			_, err := score(m, c.does, 0, 1, 1)
			wantError(t, err, c.words...)
			wantWorking(t, m)
		})
	}
}

func TestHangingWorkerIsReplaced(t *testing.T) {
	o := options(t, "good")
	o.Workers, o.Attempts, o.Timeout = 1, 1, 2*time.Second
	m := start(t, o)
	_, err := score(m, hangs, 0)
	wantError(t, err, "did not answer within 2s")
	m.options.Timeout = time.Minute // for the next one, which has to start first
	wantWorking(t, m)
}

func TestWorkerThatGrowsIsEnded(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("memory is watched on Linux")
	}
	o := options(t, "good")
	o.Workers, o.Attempts, o.MemoryBytesMax = 1, 1, 256<<20
	m := start(t, o)
	_, err := score(m, grows, 0)
	wantError(t, err, "MiB of memory, more than it may")
	wantWorking(t, m)
}

func TestCallerThatLeavesCostsNoWorker(t *testing.T) {
	o := options(t, "good")
	o.Workers = 1
	m := start(t, o)
	before, err := score(m, tells, 0)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if err := m.Predict(ctx, model.Rows{Width: 2, Values: []float64{naps, 0}}, make([]float32, 1)); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("%v, not the deadline", err)
	}
	if after, err := score(m, tells, 0); err != nil || after != before {
		t.Errorf("worker %g instead of %g, %v", after, before, err)
	}
}

// TestProgramIsReadyUnlessItCannotStart takes the program away, and gives it back.
func TestProgramIsReadyUnlessItCannotStart(t *testing.T) {
	o := options(t, "good")
	real, program := o.Command[0], filepath.Join(t.TempDir(), "program")
	if err := os.Symlink(real, program); err != nil {
		t.Fatal(err)
	}
	o.Command, o.Timeout = []string{program}, 2*time.Second
	m := start(t, o)
	if err := m.Ready(t.Context()); err != nil {
		t.Error(err)
	}
	if err := os.Remove(program); err != nil {
		t.Fatal(err)
	}
	_, err := score(m, exits, 0)
	wantError(t, err, "lost their worker")
	_, err = score(m, 1, 2) // waits for a worker
	wantError(t, err, "no worker was free")
	wantError(t, m.Ready(t.Context()), "no such file")
	if err := os.Symlink(real, program); err != nil {
		t.Fatal(err)
	}
	for err = errors.New("not asked"); err != nil; _, err = score(m, 1, 2) {
		if t.Context().Err() != nil {
			t.Fatal(err)
		}
	}
	if err := m.Ready(t.Context()); err != nil {
		t.Error(err)
	}
}

func TestWorkerThatCannotStartIsAnError(t *testing.T) {
	for mode, word := range map[string]string{
		"dies":   "last words: ModuleNotFoundError: no xgboost",
		"chatty": `wrote "Hell" to stdout`,
		"silent": "not ready within 2s",
		"names":  `its input 1 is "b", where "a" is given`,
	} {
		t.Run(mode, func(t *testing.T) {
			o := options(t, mode)
			o.StartTimeout = 20 * time.Second
			if mode == "silent" {
				o.StartTimeout = 2 * time.Second
			}
			m, err := Start(t.Context(), o)
			wantError(t, err, word)
			if m != nil {
				t.Error("there is a model")
			}
		})
	}
	if _, err := Start(t.Context(), Options{Command: []string{"/no/such/program"}, Inputs: options(t, "good").Inputs}); err == nil {
		t.Error("no program, no error")
	}
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	if _, err := Start(ctx, options(t, "silent")); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("%v, not the deadline", err)
	}
}

func TestCloseEndsAllWorkers(t *testing.T) {
	m := start(t, options(t, "good"))
	pid, err := score(m, tells, 0)
	if err != nil {
		t.Fatal(err)
	}
	failed := make(chan error)
	go func() {
		_, err := score(m, hangs, 0)
		failed <- err
	}()
	if err := m.Close(); err != nil {
		t.Error(err)
	}
	if err := <-failed; !errors.Is(err, errClosed) {
		t.Errorf("a call under way: %v", err)
	}
	if err := syscall.Kill(int(pid), 0); !errors.Is(err, syscall.ESRCH) {
		t.Errorf("worker %g is still there: %v", pid, err)
	}
	if _, err := score(m, 1, 2); !errors.Is(err, errClosed) {
		t.Errorf("after Close: %v", err)
	}
}

func TestOptionsAreValidated(t *testing.T) {
	err := Options{Workers: -1, Attempts: 99, Timeout: -1, MemoryBytesMax: -1, Outputs: []model.Output{{Size: 0}}}.Validate()
	wantError(t, err, "no command", "-1 workers", "99 attempts", "timeout", "-1 bytes", "no inputs", "0 scores")
	o := options(t, "good")
	o.Inputs = append(o.Inputs, o.Inputs[0], model.Input{Type: model.Number}, model.Input{Name: "x", Type: "text"})
	wantError(t, o.Validate(), "twice")
}

func TestRestartsAreSpacedOut(t *testing.T) {
	for failures, want := range []time.Duration{0, 100 * time.Millisecond, 200 * time.Millisecond, 400 * time.Millisecond} {
		if got := pause(failures); got != want {
			t.Errorf("%v after %d failures, not %v", got, failures, want)
		}
	}
	if got := pause(1000); got != restartMax {
		t.Errorf("%v at last", got)
	}
}

func TestLastWordsAreTheLast(t *testing.T) {
	w := &words{also: io.Discard}
	for i := range 3000 {
		fmt.Fprintf(w, "line %d \u20ac\n", i)
	}
	text := w.String()
	if len(text) > wordsBytesMax || !strings.HasSuffix(text, "line 2999 \u20ac") || strings.ContainsRune(text, '\uFFFD') {
		t.Errorf("%d bytes: %s", len(text), text)
	}
}
