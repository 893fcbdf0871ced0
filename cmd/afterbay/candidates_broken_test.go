package main

import (
	"fmt"
	"maps"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"
)

// brokenModels are programs that fail, by their name.
var brokenModels = map[string]string{
	"nan":     "def predict(values):\n  return [[float('nan')] for v in values.tolist()]\n",
	"crashes": "import os\ndef predict(values):\n  open('crashes.ran', 'w')\n  os._exit(7)\n",
	"hangs":   "import time\ndef predict(values):\n  open('hangs.ran', 'w')\n  time.sleep(100000)\n",
	"starts":  "import time\nopen('starts.ran', 'w')\ntime.sleep(100000)\ndef predict(values):\n  return [[1] for v in values.tolist()]\n",
	"stops":   "raise Exception('it cannot start')\n",
}

// plainPipeline scores without what it scored before, so that any kind of model fits.
const plainPipeline = `pipeline: payments
input: {topic: orders, partitions: 2, key: customer, fields: {customer: string, amount: number}}
models: {fraud: {file: fraud-3.txt, version: 3, outputs: {score: number}%s}}
steps:
  - score: {model: fraud, inputs: {amount: amount, past: amount}}
  - emit: {topic: decided, value: [customer, fraud.score]}
`

// TestABrokenCandidateHarmsNothing has candidates that fail in each way. The live outputs are those
// of a pipeline without a candidate, and the process ends as told.
func TestABrokenCandidateHarmsNothing(t *testing.T) {
	if apart(t) {
		return
	}
	if _, err := exec.LookPath("python3"); err != nil {
		if os.Getenv("AFTERBAY_FULL") == "1" {
			t.Fatal("AFTERBAY_FULL=1 but there is no python3")
		}
		t.Skip("NOT RUN: no python3")
	}
	onCandidateEngines(t, func(t *testing.T, make func() oneLog) {
		write(t, "worker.py", must(t, "", "model", "helper"))
		write(t, "plain.yaml", fmt.Sprintf(plainPipeline, ""))
		without := make()
		without.produce(0, 100)
		without.run("plain.yaml")
		for name, program := range brokenModels {
			write(t, name+".py", program)
			write(t, name+".yaml", fmt.Sprintf("model: fraud\nversion: 4\nkind: process\ninputs: {amount: number, past: number}\noutputs: [score]\nprocess: {command: [python3, worker.py, %s.py], workers: 1}\n", name))
		}
		for _, name := range append(slices.Sorted(maps.Keys(brokenModels)), "missing") {
			before := runtime.NumGoroutine()
			with := make()
			with.produce(0, 100)
			os.Remove(name + ".ran")
			write(t, "broken.yaml", fmt.Sprintf(plainPipeline, ", candidates: [{file: "+name+".yaml, version: 4, mode: shadow}]"))
			out, end := background(t, append([]string{"run", "broken.yaml", "--listen", "127.0.0.1:0", "--token", "secret"}, with.flags("run")...)...)
			out.wait(t, "afterbay tail decided --follow")
			eventually(t, "the live pipeline decides beside "+name, func() bool {
				r := command(t, "", append([]string{"tail", "decided"}, with.flags("tail")...)...)
				return strings.Count(r.stdout, "\n") == 100
			})
			eventually(t, "the candidate "+name+" had time to fail", func() bool { return failedAs(name, out.String(), with) })
			began := time.Now()
			if code := end(); code != exitOK {
				t.Errorf("%s: exit code %d: %s", name, code, out)
			}
			if took := time.Since(began); took > 2*time.Minute {
				t.Errorf("%s: it took %v to end", name, took)
			}
			if n := with.same(without, name, "decided", "payments.dlq"); n != 100 {
				t.Errorf("%s: %d outputs of 100 events", name, n)
			}
			if with.engine == nil && name != "crashes" && name != "hangs" { // a broker in this process has goroutines of its own; a call that hangs ends by its timeout
				eventually(t, "no goroutine is left of "+name, func() bool { return runtime.NumGoroutine() <= before+2 })
			}
		}
	})
}

// failedAs reports whether the candidate showed how it fails.
func failedAs(name, out string, l oneLog) bool {
	dead := func() int {
		r := command(l.t, "", append([]string{"tail", "payments.g2.payments.dlq"}, l.flags("tail")...)...)
		return strings.Count(r.stdout, "\n")
	}
	switch name {
	case "nan":
		return dead() == 100
	case "missing", "stops":
		return strings.Contains(out, "the candidate ended, and starts again")
	}
	_, err := os.Stat(name + ".ran")
	return err == nil
}

// TestLintFindsWhatIsWrongWithCandidates names line, field and what to do.
func TestLintFindsWhatIsWrongWithCandidates(t *testing.T) {
	candidatesFolder(t)
	candidates := func(versions ...int) string {
		var list []string
		for _, v := range versions {
			list = append(list, fmt.Sprintf("{file: fraud-4.txt, version: %d, mode: shadow}", v))
		}
		return candidatePipeline(withCandidates(strings.Join(list, ", ")))
	}
	other := strings.Replace(treeModel(1, 1, 1), "max_feature_idx=1", "max_feature_idx=2", 1)
	other = strings.NewReplacer("feature_names=amount past", "feature_names=amount past more", "[0:1000] [0:1000]", "[0:1000] [0:1000] [0:1]").Replace(other)
	write(t, "fraud-9.txt", other)
	asked := strings.Replace(candidates(4), "  - score:", "  - features: {by_shop: {value: amount, by: shop, windows: [1h], aggregates: [sum]}}\n  - score:", 1)
	asked = strings.Replace(asked, "amount: number}", "amount: number, shop: string}", 1)
	for text, want := range map[string][]string{
		candidates(4, 5, 6, 7, 8): {"pipeline.yaml:8:", "models.fraud.candidates[4]: a pipeline has at most 4 candidates", "remove those that are decided"},
		candidates(3):             {"models.fraud.candidates[0].version: version 3 is that of its model", "give each model file its own version"},
		candidates(4, 4):          {"models.fraud.candidates[1].version: version 4 is that of candidate 1"},
		strings.Replace(candidates(4), "shadow", "canary", 1):   {"models.fraud.candidates[0].mode", "write shadow"},
		strings.Replace(candidates(4), "fraud-4", "none", 1):    {"pipeline.yaml:8:", "models.fraud.candidates[0].file: ", "none.txt", "name a file that is there"},
		strings.Replace(candidates(4), "fraud-4", "fraud-9", 1): {"models.fraud.candidates[0]: with this model, steps[1].score", "3"},
		asked: {"a pipeline with features by another field cannot have candidates", "another pipeline name"},
	} {
		write(t, "pipeline.yaml", text)
		r := command(t, "", "lint", "pipeline.yaml")
		if r.code != exitInvalid {
			t.Errorf("exit code %d: %s", r.code, r.stdout)
		}
		mustHave(t, r.stderr, want...)
	}
	write(t, "pipeline.yaml", candidates(4, 5, 6, 7))
	mustHave(t, must(t, "", "lint", "pipeline.yaml"), "candidate fraud@4 (shadow)", "candidate fraud@7 (shadow)")
}
