package main

import (
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// candidatePipeline scores with what it scored before. models is its section of models.
func candidatePipeline(models string) string {
	return `pipeline: payments
input:
  topic: orders
  partitions: 2
  key: customer
  fields: {customer: string, amount: number}
models:
` + models + `
steps:
  - features:
      past: {value: fraud.score, windows: [24h], aggregates: [sum]}
  - score: {model: fraud, inputs: {amount: amount, past: past.sum_24h}}
  - decide: {action: 'fraud.score > 0.5 ? "review" : "allow"'}
  - emit: {topic: decided, value: [customer, fraud.score, past.sum_24h, action]}
`
}

const (
	championModel = "  fraud: {file: fraud-3.txt, version: 3, outputs: {score: number}}"
	newModel      = "  fraud: {file: fraud-4.txt, version: 4, outputs: {score: number}}"
	fourth        = "{file: fraud-4.txt, version: 4, mode: shadow}"
)

// withCandidates is championModel with candidates.
func withCandidates(list string) string {
	return strings.TrimSuffix(championModel, "}") + ", candidates: [" + list + "]}"
}

// treeModel is a LightGBM model that scores by the amount and the past.
func treeModel(limit int, low, high float64) string {
	return fmt.Sprintf(`tree
version=v4
num_class=1
num_tree_per_iteration=1
label_index=0
max_feature_idx=1
objective=binary sigmoid:1
feature_names=amount past
feature_infos=[0:1000] [0:1000]
tree_sizes=1

Tree=0
num_leaves=3
num_cat=0
split_feature=0 1
split_gain=1 1
threshold=%d 3.5
decision_type=2 2
left_child=-1 -2
right_child=1 -3
leaf_value=%g %g 0.7
is_linear=0
shrinkage=1


end of trees
`, limit, low, high)
}

// candidatesFolder makes a folder with two models and the files of pipelines, and works there.
func candidatesFolder(t *testing.T) {
	t.Helper()
	t.Chdir(t.TempDir())
	write(t, "fraud-3.txt", treeModel(40, -1.5, 1.25))
	write(t, "fraud-4.txt", treeModel(60, -2, 0.5))
	write(t, "fraud-5.txt", treeModel(20, -1, 2))
	write(t, "alone.yaml", candidatePipeline(championModel))
	write(t, "new.yaml", candidatePipeline(newModel))
	write(t, "both.yaml", candidatePipeline(withCandidates(fourth)))
}

// onCandidateEngines runs a test on each engine. make makes a log of its own.
func onCandidateEngines(t *testing.T, test func(t *testing.T, make func() oneLog)) {
	for name, engine := range map[string]func(t *testing.T) []string{
		"embedded": func(t *testing.T) []string { return nil },
		"kafka":    func(t *testing.T) []string { return []string{"--engine", fakeEngine(t)} },
	} {
		t.Run(name, func(t *testing.T) {
			candidatesFolder(t)
			test(t, func() oneLog { return oneLog{t, engine(t), t.TempDir()} })
		})
	}
}

// oneLog runs commands on one log.
type oneLog struct {
	t      *testing.T
	engine []string // flags; nil is a data directory
	data   string
}

func (l oneLog) flags(command string) []string {
	if l.engine == nil || command == "run" || command == "reprocess" {
		return append(slices.Clone(l.engine), "--data", l.data)
	}
	return l.engine
}

func (l oneLog) do(stdin string, args ...string) string {
	l.t.Helper()
	return must(l.t, stdin, append(args, l.flags(args[0])...)...)
}

func (l oneLog) produce(from, n int) {
	l.t.Helper()
	l.do(orders(from, n), "produce", "orders", "--partitions", "2", "--key", "customer")
}

func (l oneLog) run(file string) string {
	l.t.Helper()
	return l.do("", "run", file, "--listen", "none", "--until-idle")
}

var placeOfRecord = regexp.MustCompile(`"offset":\d+,"time":"[^"]*",`)

// outputs returns the records of a topic with their headers, in the order of each partition. It
// leaves out their own offsets and append times, which differ between logs.
func (l oneLog) outputs(topic string, more ...string) []string {
	l.t.Helper()
	lines := slices.Collect(strings.Lines(l.do("", append([]string{"tail", topic, "--headers"}, more...)...)))
	for i := range lines {
		lines[i] = placeOfRecord.ReplaceAllString(lines[i], "")
	}
	slices.SortStableFunc(lines, func(a, b string) int { return strings.Compare(a[:len(`{"partition":0`)], b[:len(`{"partition":0`)]) })
	return lines
}

// same reports topics that differ between two logs, and returns how many records both have.
func (l oneLog) same(other oneLog, what string, topics ...string) (records int) {
	l.t.Helper()
	for _, topic := range topics {
		got, want := l.outputs(topic), other.outputs(topic)
		if d := cmp.Diff(want, got); d != "" {
			l.t.Errorf("%s: %s differs: %s", what, topic, d)
		}
		records += len(got)
	}
	return records
}

// TestACandidateShadowsAndIsPromoted compares a pipeline that has a candidate with one that has
// none, and the candidate with a reprocessing, before and after the switch to it.
func TestACandidateShadowsAndIsPromoted(t *testing.T) {
	if apart(t) {
		return
	}
	t.Run("real broker", func(t *testing.T) { // the other log is on a data directory
		engine := realEngine(t)
		candidatesFolder(t)
		wantPromoted(t, oneLog{t, []string{"--engine", engine}, t.TempDir()}, oneLog{t, nil, t.TempDir()})
	})
	onCandidateEngines(t, func(t *testing.T, make func() oneLog) { wantPromoted(t, make(), make()) })
}

func wantPromoted(t *testing.T, with, without oneLog) {
	t.Helper()
	for i, file := range []string{"both.yaml", "alone.yaml", "both.yaml"} { // in between the candidate is removed
		for _, l := range []oneLog{with, without} {
			l.produce(i*200, 200)
		}
		with.run(file)
		without.run("alone.yaml")
	}
	if n := with.same(without, "live", "decided"); n != 600 {
		t.Errorf("%d decisions of 600 events", n)
	}
	without.do("", "reprocess", "new.yaml")
	if n := with.same(without, "the candidate", "payments.g2.decided", "payments.g2.payments.dlq"); n != 600 {
		t.Errorf("%d outputs of the candidate for 600 events", n)
	}
	if slices.Equal(with.outputs("decided"), with.outputs("payments.g2.decided")) {
		t.Error("both models decide the same: the test shows nothing")
	}
	for _, l := range []oneLog{with, without} {
		mustHave(t, l.do("", "reprocess", "new.yaml", "--switch"), "generation 2 of payments", "partition 1: live from offset")
		l.produce(600, 100)
		l.run("new.yaml")
	}
	with.same(without, "after the promotion", "decided", "payments.g2.decided")
	if d := cmp.Diff(without.outputs("decided", "--view"), with.outputs("decided", "--view")); d != "" {
		t.Errorf("the view: %s", d)
	}
}

// TestARunningCandidateIsPromoted switches to a candidate in the process that runs it, with a file
// that has the next candidate. Each candidate begins one generation.
func TestARunningCandidateIsPromoted(t *testing.T) {
	if apart(t) {
		return
	}
	candidatesFolder(t)
	l := oneLog{t: t, data: t.TempDir()}
	const fifth = "{file: fraud-5.txt, version: 5, mode: shadow}"
	write(t, "both.yaml", candidatePipeline(withCandidates(fourth+", "+fifth)))
	write(t, "new.yaml", candidatePipeline(strings.TrimSuffix(newModel, "}")+", candidates: ["+fifth+"]}"))
	l.produce(0, 200)
	out, end := background(t, "run", "both.yaml", "--listen", "127.0.0.1:0", "--data", l.data)
	out.wait(t, "candidate fraud@5 (shadow)")
	count := func(topic string) int { return len(l.outputs(topic)) }
	promoted := ""
	eventually(t, "both candidates shadow", func() bool {
		for _, n := range []string{"2", "3"} {
			topic := "payments.g" + n + ".decided"
			if r := command(t, "", "tail", topic, "--data", l.data); r.code != exitOK || strings.Count(r.stdout, "\n") != 200 {
				return false
			}
			if strings.Contains(l.outputs(topic)[0], "fraud@4 ") {
				promoted = n
			}
		}
		return true
	})
	mustHave(t, l.do("", "reprocess", "new.yaml", "--switch"), "generation "+promoted+" of payments", "partition 1: live from offset")
	l.produce(200, 100)
	eventually(t, "the live generation and its candidate go on", func() bool {
		r := command(t, "", "tail", "payments.g4.decided", "--data", l.data)
		return count("decided") == 300 && r.code == exitOK && strings.Count(r.stdout, "\n") == 300 && strings.Contains(l.outputs("payments.g4.decided")[0], "fraud@5 ")
	})
	if code := end(); code != exitOK {
		t.Errorf("exit code %d: %s", code, out)
	}
	other := oneLog{t: t, data: t.TempDir()}
	other.produce(0, 300)
	other.run("new.yaml")
	view := l.outputs("decided", "--view")
	want := other.outputs("decided")
	generation := regexp.MustCompile(` \d+"\]\]`) // the other is the first of its log
	for _, list := range [][]string{view, want} {
		for i := range list {
			list[i] = generation.ReplaceAllString(list[i], "")
		}
	}
	if d := cmp.Diff(want, view); d != "" {
		t.Errorf("the view is not what the candidate alone makes: %s", d)
	}
}

// eventually waits until something is true.
func eventually(t *testing.T, what string, is func() bool) {
	t.Helper()
	for begun := time.Now(); !is(); time.Sleep(20 * time.Millisecond) {
		if time.Since(begun) > 2*time.Minute {
			t.Fatalf("after 2m it is not so that %s", what)
		}
	}
}

// TestKilledProcessesDoNotChangeACandidate kills a process at the phases of the candidate's
// transactions and of those of the pipeline.
func TestKilledProcessesDoNotChangeACandidate(t *testing.T) {
	if apart(t) {
		return
	}
	onCandidateEngines(t, func(t *testing.T, make func() oneLog) {
		with, without := make(), make()
		without.produce(0, 900)
		without.run("alone.yaml")
		without.do("", "reprocess", "new.yaml")
		with.produce(0, 100)
		with.run("both.yaml")
		stages := []string{"candidate-read", "candidate-model", "candidate-write", "candidate-sync", "candidate-after", "sync"}
		self, err := os.Executable()
		if err != nil {
			t.Fatal(err)
		}
		for i, stage := range stages {
			with.produce(100+i*100, 100)
			c := exec.CommandContext(t.Context(), self, append([]string{"run", "both.yaml", "--listen", "none", "--until-idle"}, with.flags("run")...)...)
			c.Env = append(os.Environ(), asCommand+"=1", killedAt+"="+stage+" 1")
			if out, err := c.CombinedOutput(); err == nil || c.ProcessState.ExitCode() >= 0 {
				t.Errorf("%s: it was not killed: %v: %s", stage, err, out)
			}
		}
		with.produce(700, 200)
		with.run("both.yaml")
		with.same(without, "live", "decided")
		if n := with.same(without, "the candidate", "payments.g2.decided", "payments.g2.payments.dlq"); n != 900 {
			t.Errorf("%d outputs of the candidate for 900 events", n)
		}
	})
}
