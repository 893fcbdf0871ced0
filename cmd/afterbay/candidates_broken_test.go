package main

import (
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"testing"
	"time"
)

// brokenModels are programs that fail, by their name.
var brokenModels = map[string]string{
	"nan":     "def predict(values):\n  return [[float('nan')] for v in values.tolist()]\n",
	"crashes": "import os\ndef predict(values):\n  os._exit(7)\n",
	"hangs":   "import time\ndef predict(values):\n  time.sleep(100000)\n",
	"starts":  "import time\ntime.sleep(100000)\ndef predict(values):\n  return [[1] for v in values.tolist()]\n",
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
		brokenModels["missing"] = ""
		for name := range brokenModels {
			before := runtime.NumGoroutine()
			with := make()
			with.produce(0, 100)
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
			if took := time.Since(began); took > 20*time.Second {
				t.Errorf("%s: it took %v to end", name, took)
			}
			if n := with.same(without, name, "decided", "payments.dlq"); n != 100 {
				t.Errorf("%s: %d outputs of 100 events", name, n)
			}
			if with.engine == nil { // a broker in this process has its own goroutines
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
	_ = dead
	return true
}
