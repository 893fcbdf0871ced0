package main

import (
	"crypto/sha256"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// silero prints frames of a call in base64 and what Python's ONNX Runtime says of
// each: the recurrent state and the end of the frame before go with it.
const silero = `import base64, glob, importlib.util, json, os, shutil
import numpy as np, onnxruntime
package = importlib.util.find_spec("silero_vad").submodule_search_locations[0]
shutil.copy(os.path.join(package, "data", "silero_vad_16k_op15.onnx"), "silero.onnx")
library = os.path.join(importlib.util.find_spec("onnxruntime").submodule_search_locations[0], "capi", "libonnxruntime.*")
shutil.copy(glob.glob(library)[0], "runtime")
model = onnxruntime.InferenceSession("silero.onnx", providers=["CPUExecutionProvider"])
random = np.random.default_rng(1)
at = np.arange(512 * 8) / 16000
wave = (0.3 * np.sin(2 * np.pi * 140 * at) * (1 + np.sin(2 * np.pi * 4 * at)) + 0.05 * random.standard_normal(len(at))).astype(np.float32)
state, before = np.zeros((2, 1, 128), np.float32), np.zeros(64, np.float32)
for i, frame in enumerate(wave.reshape(-1, 512)):
    output, state = model.run(["output", "stateN"], {"input": np.concatenate([before, frame])[None], "state": state, "sr": np.array(16000, np.int64)})
    before, text = frame[-64:], base64.b64encode(frame.tobytes()).decode()
    print(json.dumps({"call": "a", "frame": text}), float(output[0][0]))
`

// onnxFolder makes a folder with ONNX Runtime installed and what a script of
// Python writes, works there, and returns what it prints.
func onnxFolder(t testing.TB, script string) string {
	t.Helper()
	python := os.Getenv("AFTERBAY_PYTHON")
	if python == "" {
		if os.Getenv("AFTERBAY_FULL") == "1" {
			t.Fatal("AFTERBAY_FULL=1 but AFTERBAY_PYTHON names no Python with onnxruntime and silero-vad")
		}
		t.Skip("NOT RUN: AFTERBAY_PYTHON names no Python with onnxruntime and silero-vad")
	}
	dir := t.TempDir()
	if out, err := exec.CommandContext(t.Context(), "go", "build", "-o", dir, "../afterbay-onnx").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	t.Setenv("PATH", dir+string(filepath.ListSeparator)+os.Getenv("PATH"))
	t.Setenv("XDG_CACHE_HOME", filepath.Join(dir, "cache"))
	t.Chdir(dir)
	command := exec.CommandContext(t.Context(), python, "-c", script)
	command.Stderr = os.Stderr
	out, err := command.Output()
	if err != nil {
		t.Fatal(err)
	}
	must(t, "", "model", "runtime", "--lib", "runtime")
	return string(out)
}

func TestPipelineScoresWithAModelOfONNXWhoseStateIsKeptByKey(t *testing.T) {
	printed := onnxFolder(t, silero)
	var events, want strings.Builder
	var golden string
	for i, line := range strings.Split(strings.TrimSpace(printed), "\n") {
		event, score, _ := strings.Cut(line, "} ")
		fmt.Fprintln(&events, event+"}")
		fmt.Fprintln(&want, score)
		if i == 0 {
			frame := event[strings.LastIndex(event, ": ")+3 : len(event)-1]
			golden = "input,prediction\n" + frame + "," + score + "\n"
		}
	}
	write(t, "golden.csv", golden)
	data := read(t, "silero.onnx")
	write(t, "speech.yaml", "model: speech\nversion: 1\nkind: onnx\nfile: silero.onnx\nsha256: "+fmt.Sprintf("%x", sha256.Sum256([]byte(data)))+`
inputs: {input: bytes}
outputs: [output]
golden: golden.csv
onnx: {constants: {sr: [16000]}, carry: {input: 64}, states: {state: {output: stateN, shape: [2, -1, 128]}}, workers: 1}
`)
	if out := must(t, "", "model", "verify", "speech.yaml"); !strings.Contains(out, "speech.yaml: speech version 1, onnx: 1 golden vector passed") {
		t.Error(out)
	}
	write(t, "pipeline.yaml", `pipeline: calls
input: {topic: calls, key: call, fields: {call: string, frame: bytes}}
models: {speech: {file: speech.yaml, version: 1, outputs: {there: number}}}
steps:
  - score: {model: speech, inputs: [frame]}
  - emit: {topic: speech, value: [speech.there]}
`)
	out := must(t, events.String(), "try", "pipeline.yaml")
	for score := range strings.Lines(want.String()) {
		var expected, got float64
		if _, err := fmt.Sscan(score, &expected); err != nil {
			t.Fatal(err)
		}
		const name = `{"speech_there":`
		_, rest, found := strings.Cut(out, name)
		if _, err := fmt.Sscan(strings.ReplaceAll(rest, "}", " "), &got); !found || err != nil {
			t.Fatalf("%v in %s", err, out)
		}
		if out = rest; got-expected > 1e-5 || expected-got > 1e-5 {
			t.Errorf("%v, Python says %v", got, expected)
		}
	}
	if out := must(t, "", "model", "bench", "speech.yaml", "--duration", "100ms"); !strings.Contains(out, "batch: size ") {
		t.Error(out)
	}
}
