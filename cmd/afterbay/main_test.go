package main

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime/pprof"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/afterbay/afterbay/internal/test/faultserver"
)

var update = flag.Bool("update", false, "write the golden files")

// asCommand in the environment makes the test binary the command itself, for
// tests that kill it.
const asCommand = "AFTERBAY_TEST_AS_COMMAND"

func TestMain(m *testing.M) {
	faultserver.Main()
	if url := os.Getenv(healthOf); url != "" {
		os.Exit(runHealth(url))
	}
	if os.Getenv(asCommand) != "" {
		if at := os.Getenv(killedAt); at != "" {
			os.Exit(runKilled(at))
		}
		if os.Getenv(ordersFrom) != "" {
			os.Exit(runOrdered())
		}
		main()
	}
	os.Exit(broker.Run(m))
}

// result is what a command line did.
type result struct {
	code           int
	stdout, stderr string
}

func command(t testing.TB, stdin string, args ...string) result {
	t.Helper()
	var stdout, stderr bytes.Buffer
	ctx, cancel := context.WithTimeout(t.Context(), 8*time.Minute) // one that should fail may run on
	defer cancel()
	stuck := context.AfterFunc(ctx, func() {
		if ctx.Err() == context.DeadlineExceeded {
			_ = pprof.Lookup("goroutine").WriteTo(os.Stderr, 1) // what it waits for
		}
	})
	defer stuck()
	code := run(ctx, args, strings.NewReader(stdin), &stdout, &stderr)
	return result{code, stdout.String(), stderr.String()}
}

// must is the standard output of a command line that has to succeed.
func must(t testing.TB, stdin string, args ...string) string {
	t.Helper()
	r := command(t, stdin, args...)
	if r.code != exitOK {
		t.Fatalf("%v: exit %d: %s", args, r.code, r.stderr)
	}
	return r.stdout
}

func write(t testing.TB, name, text string) {
	t.Helper()
	if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

const countsPipeline = `pipeline: counts
input:
  topic: in
  partitions: 3
  key: k
  fields: {k: string}
steps:
  - features:
      seen: {windows: [24h], aggregates: [count]}
  - emit: {topic: mid, value: [k, seen.count_24h]}
---
pipeline: doubles
input:
  topic: mid
  key: k
  fields: {k: string, seen_count_24h: int}
steps:
  - decide: {twice: 'seen_count_24h * 2'}
  - emit: {topic: out, value: [k, twice]}
`

func TestHelpIsGolden(t *testing.T) {
	var all strings.Builder
	for _, name := range []string{"", "init", "try", "lint", "test", "run", "produce", "tail", "explain", "dataset", "skew", "topics", "dlq ls", "dlq show", "dlq stats", "dlq redrive", "dlq drop", "dlq resume", "lag", "status", "budget", "state get", "state dump", "queue ls", "queue retry", "queue drop", "journal stats", "doctor", "gateway", "clients", "token issue", "token inspect", "model inspect", "model score", "model verify", "model bench", "model add", "model list", "model runtime", "demo", "bench", "placement", "simulate", "plan", "serve", "completion", "version"} {
		args := append(strings.Fields(name), "--help")
		fmt.Fprintf(&all, "$ afterbay %s\n%s\n", strings.Join(args, " "), must(t, "", args...))
	}
	const golden = "testdata/help.txt"
	if *update {
		write(t, golden, all.String())
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), all.String()); diff != "" {
		t.Errorf("go test -update writes it: %s", diff)
	}
	for code := range 7 {
		if !strings.Contains(strings.Join(strings.Fields(all.String()), " "), fmt.Sprintf("%d ", code)) {
			t.Errorf("exit code %d is not in the help", code)
		}
	}
	if got, want := must(t, ""), must(t, "", "--help"); got != want {
		t.Errorf("without a command: %s", got)
	}
	if got, want := must(t, "", "help"), must(t, "", "--help"); got != want {
		t.Errorf("help: %s", got)
	}
	if got, want := must(t, "", "help", "dlq", "redrive"), must(t, "", "dlq", "redrive", "--help"); got != want {
		t.Errorf("help of a command: %s", got)
	}
	if got := must(t, "", "version"); !strings.HasPrefix(got, "afterbay ") || got != must(t, "", "--version") {
		t.Error("version")
	}
}

// numbered is n lines of NDJSON of 7 keys.
func numbered(n int) string {
	var text strings.Builder
	for i := range n {
		fmt.Fprintf(&text, "{\"k\":\"key %d\",\"n\":%d}\n", i%7, i)
	}
	return text.String()
}

func TestProducedFileIsAppendedOnce(t *testing.T) {
	if apart(t) {
		return
	}
	t.Chdir(t.TempDir())
	write(t, "events.ndjson", numbered(10_000))
	write(t, "copy", numbered(10_000))
	for i, args := range [][]string{
		{"events.ndjson", "--partitions", "3", "--key", "k"}, {"events.ndjson"}, {"copy"}, {"events.ndjson", "--partitions", "3"},
	} {
		r := command(t, "", append([]string{"produce", "in"}, args...)...)
		want := "appended 10000 records of 10000 lines to in"
		if i > 0 {
			want = "skipped 10000 records that were in the topic already"
		}
		if r.code != 0 || !strings.Contains(r.stderr, want) {
			t.Errorf("%v: %+v, want %s", args, r, want)
		}
	}
	got := strings.SplitAfter(must(t, "", "tail", "in"), "\n")
	want := strings.SplitAfter(numbered(10_000), "\n")
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		t.Errorf("%d lines are in the topic, want %d", len(got), len(want))
	}
	if out := must(t, "", "topics"); !strings.Contains(out, "in     k    3           10000") {
		t.Error(out)
	}
	for _, args := range [][]string{{"--producer", "again"}, {"--producer", "once more"}} {
		must(t, numbered(5), append([]string{"produce", "in"}, args...)...)
		must(t, numbered(5), append([]string{"produce", "in", "-"}, args...)...)
	}
	must(t, numbered(5), "produce", "in")
	if out := must(t, "", "topics"); !strings.Contains(out, "10015") {
		t.Errorf("standard input under two names and without one: %s", out)
	}
}

func TestProduceGoesOnAfterALineWasCorrected(t *testing.T) {
	t.Chdir(t.TempDir())
	good := numbered(6000)
	write(t, "events.ndjson", good+`{"k":"`+strings.Repeat("x", 1<<20)+"\"}\n{\"k\":\"last\"}\n")
	r := command(t, "", "produce", "in", "events.ndjson", "--partitions", "1")
	if r.code != exitFailure || !strings.Contains(r.stderr, "events.ndjson:6001: the line is longer than 1 MiB") || !strings.Contains(r.stderr, "6000 records of it are in topic in") {
		t.Fatalf("%d %s", r.code, r.stderr)
	}
	_, after, _ := strings.Cut(r.stderr, "--producer ")
	producer, _, _ := strings.Cut(after, ",")
	write(t, "events.ndjson", good+"{\"k\":\"short\"}\n{\"k\":\"last\"}\n")
	must(t, "", "produce", "in", "events.ndjson", "--producer", producer)
	if got, want := must(t, "", "tail", "in"), good+"{\"k\":\"short\"}\n{\"k\":\"last\"}\n"; got != want {
		t.Errorf("%d bytes in the topic, want %d", len(got), len(want))
	}
}

func TestCSVIsProduced(t *testing.T) {
	t.Chdir(t.TempDir())
	must(t, "k,n,note\na,1.50,\nb,2,\"x, y\"\n", "produce", "in", "--format", "csv", "--partitions", "1", "--key", "k")
	want := "{\"k\":\"a\",\"n\":1.50}\n{\"k\":\"b\",\"n\":2,\"note\":\"x, y\"}\n"
	if got := must(t, "", "tail", "in"); got != want {
		t.Errorf("%s, want %s", got, want)
	}
	if got := must(t, "", "tail", "in", "--headers", "--from", "-1"); !strings.Contains(got, `"offset":1,"time":"20`) || !strings.Contains(got, `"key":"b"`) {
		t.Error(got)
	}
	must(t, "n,k\n3,c\n", "produce", "in", "--format", "csv")
	if got := must(t, "", "tail", "in", "--headers", "--from", "2"); !strings.Contains(got, `"key":"c"`) {
		t.Errorf("%s: the topic's field is not the key", got)
	}
	if got := must(t, "", "tail", "in", "--partition", "0", "--limit", "1"); got != "{\"k\":\"a\",\"n\":1.50}\n" {
		t.Error(got)
	}
}

// screen is an output that tests wait for.
type screen struct {
	mu      sync.Mutex
	text    bytes.Buffer
	changed chan struct{}
}

func newScreen() *screen { return &screen{changed: make(chan struct{}, 1)} }

// Write implements io.Writer.
func (s *screen) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	select {
	case s.changed <- struct{}{}:
	default:
	}
	return s.text.Write(p)
}

func (s *screen) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.text.String()
}

func (s *screen) wait(t testing.TB, text string) {
	t.Helper()
	for deadline := time.After(3 * time.Minute); !strings.Contains(s.String(), text); {
		select {
		case <-s.changed:
		case <-deadline:
			t.Fatalf("%q did not come: %s", text, s)
		}
	}
}

// background runs a command line until end is called, which returns its code.
func background(t testing.TB, args ...string) (out *screen, end func() int) {
	t.Helper()
	out = newScreen()
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	code := make(chan int, 1)
	go func() { code <- run(ctx, args, strings.NewReader(""), out, out) }()
	end = sync.OnceValue(func() int {
		cancel()
		return <-code
	})
	t.Cleanup(func() { end() })
	return out, end
}

func TestCommandsReachTheProcessThatHoldsTheDirectory(t *testing.T) {
	t.Chdir(t.TempDir())
	write(t, "counts.yaml", countsPipeline)
	write(t, "events.ndjson", numbered(500)+"broken\n")
	out, end := background(t, "run", "counts.yaml", "--listen", "127.0.0.1:0", "--token", "secret", "--parallelism", "2")
	out.wait(t, "afterbay tail mid --follow")
	follow, endFollow := background(t, "tail", "out", "--follow")
	must(t, "", "produce", "in", "events.ndjson")
	if r := command(t, "", "produce", "in", "events.ndjson"); !strings.Contains(r.stderr, "skipped 501 records") {
		t.Error(r.stderr)
	}
	follow.wait(t, `{"k":"key 6","twice":142}`)
	follow.wait(t, `{"k":"key 0","twice":144}`)
	letters, _ := background(t, "tail", "counts.dlq", "--follow") // of another partition, maybe
	letters.wait(t, "broken")
	if code := endFollow(); code != exitOK {
		t.Errorf("tail ended by a signal: %d", code)
	}
	if dead := must(t, "", "tail", "counts.dlq", "--headers"); !strings.Contains(dead, "afterbay-stage") || strings.Count(dead, "\n") != 1 {
		t.Error(dead)
	}
	url := out.String()
	_, url, _ = strings.Cut(url, "listening on ")
	url, _, _ = strings.Cut(url, ": POST")
	if r := command(t, "{}", "produce", "in", "--url", url); r.code != exitFailure || !strings.Contains(r.stderr, "token") {
		t.Errorf("without the token: %+v", r)
	}
	must(t, `{"k":"key 9"}`, "produce", "in", "--url", url, "--token", "secret")
	follow, _ = background(t, "tail", "out", "--follow", "--limit", "501")
	follow.wait(t, `{"k":"key 9","twice":2}`)

	lines := []string{"topics", "tail in", "tail out --headers", "state dump counts", "state get counts key_3", "tail mid --from -3 --partition 1", "lag", "lag counts --json"}
	held := map[string]string{}
	for _, line := range lines {
		held[line] = must(t, "", fields(line)...)
	}
	if code := end(); code != exitOK {
		t.Fatalf("exit %d: %s", code, out)
	}
	out.wait(t, "pipeline counts: 502 events, 501 outputs, 1 dead letters, 0 late")
	if _, err := os.Stat(filepath.Join("data", "ADMIN")); !os.IsNotExist(err) {
		t.Error(err)
	}
	for _, line := range lines {
		if diff := cmp.Diff(held[line], must(t, "", fields(line)...)); diff != "" || held[line] == "" {
			t.Errorf("%s, of the process and of the directory: %s", line, diff)
		}
	}
}

// fields splits a command line; "_" stands for a space within a field.
func fields(line string) []string {
	words := strings.Fields(line)
	for i := range words {
		words[i] = strings.ReplaceAll(words[i], "_", " ")
	}
	return words
}

func TestUntilIdleWorksOffAChainOfFiles(t *testing.T) {
	t.Chdir(t.TempDir())
	first, second, _ := strings.Cut(countsPipeline, "---\n")
	write(t, "second.yaml", second)
	write(t, "first.yaml", first)
	must(t, numbered(700), "produce", "in", "--partitions", "3", "--key", "k")
	out := must(t, "", "run", "second.yaml", "first.yaml", "--listen", "none", "--until-idle")
	for _, want := range []string{"pipeline counts: 700 events", "pipeline doubles: 700 events, 700 outputs"} {
		if !strings.Contains(out, want) {
			t.Errorf("%s, want %s", out, want)
		}
	}
	if n := strings.Count(must(t, "", "tail", "out"), "\n"); n != 700 {
		t.Errorf("%d outputs", n)
	}
	if out := must(t, "", "lint", "first.yaml", "second.yaml"); !strings.Contains(out, "first.yaml: pipeline counts is valid: it reads in and writes mid, counts.dlq") {
		t.Error(out)
	}
}

// TestChangedFeaturesAreRefusedWithoutANewEvent sees that a run until idle looks
// at the state also where it has nothing to do.
func TestChangedFeaturesAreRefusedWithoutANewEvent(t *testing.T) {
	t.Chdir(t.TempDir())
	write(t, "counts.yaml", countsPipeline)
	must(t, numbered(70), "produce", "in", "--partitions", "3", "--key", "k")
	must(t, "", "run", "counts.yaml", "--listen", "none", "--until-idle")
	must(t, "", "run", "counts.yaml", "--listen", "none", "--until-idle")
	write(t, "counts.yaml", strings.ReplaceAll(countsPipeline, "24h", "12h"))
	r := command(t, "", "run", "counts.yaml", "--listen", "none", "--until-idle")
	if r.code == exitOK || !strings.Contains(r.stderr, `was written with another feature "seen"`) {
		t.Errorf("%+v", r)
	}
}

func TestStateGetShowsTheFeaturesOfAKey(t *testing.T) {
	t.Chdir(t.TempDir())
	write(t, "counts.yaml", countsPipeline)
	must(t, numbered(70), "produce", "in", "--partitions", "3", "--key", "k")
	must(t, "", "run", "counts.yaml", "--listen", "none", "--until-idle")
	out := must(t, "", "state", "get", "counts", "key 3", "--file", "counts.yaml")
	if !strings.Contains(out, "newest event") || !strings.Contains(out, "seen.count_24h           10\n") {
		t.Error(out)
	}
	if r := command(t, "", "state", "get", "counts", "key 8", "--file", "counts.yaml"); r.code != exitFailure || !strings.Contains(r.stderr, "has nothing stored") {
		t.Errorf("%+v", r)
	}
	if got := must(t, "", "state", "get", "counts", "key 3"); got != out {
		t.Errorf("with the file of the folder: %s", got)
	}
	if got := must(t, "", "state", "get", "counts", "key 3", "--raw"); !strings.Contains(got, `"value":"`) {
		t.Errorf("as it is stored: %s", got)
	}
	if err := os.Rename("counts.yaml", "counts.txt"); err != nil {
		t.Fatal(err)
	}
	r := command(t, "", "state", "get", "counts", "key 3")
	if !strings.HasPrefix(r.stdout, "features ") || !strings.Contains(r.stderr, "name its file with --file") {
		t.Errorf("without the file: %+v", r)
	}
	if err := os.Rename("counts.txt", "counts.yaml"); err != nil {
		t.Fatal(err)
	}
	if r := command(t, "", "state", "get", "gone", "key 3", "--file", "counts.yaml"); r.code != exitUsage {
		t.Errorf("%+v", r)
	}
}

// killable starts the command as a process of its own.
func killable(t *testing.T, args ...string) (*exec.Cmd, *screen) {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	out := newScreen()
	c := exec.CommandContext(t.Context(), self, args...)
	c.Env = append(os.Environ(), asCommand+"=1")
	c.Stdout, c.Stderr = out, out
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	return c, out
}

func TestKilledProcessesLoseAndRepeatNothing(t *testing.T) {
	if apart(t) {
		return
	}
	t.Chdir(t.TempDir())
	write(t, "counts.yaml", countsPipeline)
	write(t, "events.ndjson", numbered(100_000))
	for i := range 3 {
		running, out := killable(t, "run", "counts.yaml", "--listen", "127.0.0.1:0")
		out.wait(t, "afterbay tail mid --follow")
		producing, _ := killable(t, "produce", "in", "events.ndjson")
		follow, _ := background(t, "tail", "out", "--follow")
		follow.wait(t, fmt.Sprintf(`{"k":"key 0","twice":%d}`, 2+i*8000)) // much is still to come
		for _, c := range []*exec.Cmd{producing, running} {
			_ = c.Process.Kill() // the producer may be done
			_ = c.Wait()
		}
	}
	running, out := killable(t, "run", "counts.yaml", "--listen", "127.0.0.1:0")
	out.wait(t, "afterbay tail mid --follow")
	must(t, "", "produce", "in", "events.ndjson")
	if err := running.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := running.Wait(); err != nil {
		t.Fatalf("after SIGTERM: %v: %s", err, out)
	}
	must(t, "", "run", "counts.yaml", "--until-idle", "--listen", "127.0.0.1:0")
	counts := map[string]int{}
	for line := range strings.Lines(must(t, "", "tail", "out")) {
		counts[line]++
	}
	for i := range 100_000 {
		line := fmt.Sprintf("{\"k\":\"key %d\",\"twice\":%d}\n", i%7, 2*(i/7+1))
		if counts[line] != 1 {
			t.Fatalf("%d times %s", counts[line], line)
		}
	}
	if len(counts) != 100_000 {
		t.Errorf("%d outputs", len(counts))
	}
}
