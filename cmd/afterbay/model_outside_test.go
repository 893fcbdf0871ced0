package main

import (
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

const outsidePipeline = `pipeline: payments
input: {topic: payments, key: card, fields: {card: string, amount: number}}
models: {risk: {file: risk.yaml, version: 1, outputs: {score: number}}}
steps:
  - score: {model: risk, inputs: [amount, card]}
  - emit: {topic: decisions, value: [risk.score]}
`

const processManifest = `model: risk
version: 1
kind: process
inputs: {amount: number, card: string}
outputs: [score]
golden: golden.csv
process: {command: [python3, worker.py, model.py], workers: 1}
`

// outsideFolder makes a folder with a model in Python, and works there.
func outsideFolder(t *testing.T) {
	t.Helper()
	if _, err := exec.LookPath("python3"); err != nil {
		if os.Getenv("AFTERBAY_FULL") == "1" {
			t.Fatal("AFTERBAY_FULL=1 but there is no python3")
		}
		t.Skip("NOT RUN: no python3")
	}
	t.Chdir(t.TempDir())
	write(t, "worker.py", must(t, "", "model", "helper"))
	write(t, "model.py", "inputs = ['amount', 'card']\ndef predict(values, card):\n  return [[v[0] / 2 + len(c)] for v, c in zip(values.tolist(), card)]\n")
	write(t, "golden.csv", "amount,card,prediction\n1,a,1.5\n7,,3.5\n20,abc,13\n")
	write(t, "risk.yaml", processManifest)
	write(t, "pipeline.yaml", outsidePipeline)
}

func TestPipelineScoresWithAProgramThatItsManifestNames(t *testing.T) {
	outsideFolder(t)
	if out := must(t, "", "model", "verify", "risk.yaml"); !strings.Contains(out, "risk.yaml: risk version 1, process: 3 golden vectors passed") {
		t.Error(out)
	}
	if out := must(t, `{"card": "ab", "amount": 9}`+"\n", "try", "pipeline.yaml"); !strings.Contains(out, `{"risk_score":6.5}`) {
		t.Error(out)
	}
	for _, c := range [][3]string{
		{"python3, worker.py, model.py", "python3, worker.py, none.py", "risk.yaml:7:1: process: start python3 worker.py none.py"},
		{"amount: number, card: string", "amount: number, kard: string", "risk.yaml:7:1: process: start python3 worker.py model.py"},
		{"outputs: [score]", "outputs: [score, other]", "risk.yaml:6:9: golden: "},
		{"kind: process", "kind: remote", "risk.yaml:7:1: process: belongs to models of kind process"},
		{"process: {", "file: model.py\nsha256: " + strings.Repeat("0", 64) + "\nprocess: {", "risk.yaml:8:9: sha256: model.py has sha256 "},
		{"golden: golden.csv", "golden: wrong.csv", "risk.yaml:6:9: golden: row 2 of wrong.csv: prediction is 3.5, expected 3.6"},
	} {
		write(t, "wrong.csv", strings.Replace(read(t, "golden.csv"), "7,,3.5", "7,,3.6", 1))
		write(t, "risk.yaml", strings.Replace(processManifest, c[0], c[1], 1))
		if r := command(t, "", "try", "pipeline.yaml"); r.code != exitInvalid || !strings.Contains(r.stdout+r.stderr, c[2]) {
			t.Errorf("%s: %+v", c[1], r)
		}
	}
}

// TestOnlyCommandsThatScoreRunPrograms has a manifest name a program that leaves a mark.
func TestOnlyCommandsThatScoreRunPrograms(t *testing.T) {
	outsideFolder(t)
	t.Setenv("AFTERBAY_TOKEN", "engine's own")
	t.Setenv("OTHER_SECRET", "another")
	t.Setenv("MODEL_CACHE", "there")
	write(t, "model.py", "import json, os\njson.dump(dict(os.environ), open('ran', 'w'))\n"+read(t, "model.py"))
	write(t, "risk.yaml", strings.Replace(processManifest, "workers: 1", "workers: 1, env: [MODEL_CACHE]", 1))
	for _, args := range [][]string{
		{"lint", "pipeline.yaml", "risk.yaml"}, {"lint", "--connect", "pipeline.yaml"}, {"model", "inspect", "risk.yaml"},
	} {
		r := command(t, "", args...)
		if _, err := os.Stat("ran"); err == nil || r.code != 0 {
			t.Fatalf("%v: the program ran (%v), or: %+v", args, err == nil, r)
		}
		if args[0] == "lint" && !strings.Contains(r.stdout, "the model's program was not run") {
			t.Errorf("%v: %s", args, r.stdout)
		}
	}
	for _, args := range [][]string{{"try", "pipeline.yaml"}, {"model", "verify", "risk.yaml"}} {
		r := command(t, "", args...)
		var environment map[string]string
		if err := json.Unmarshal([]byte(read(t, "ran")), &environment); err != nil || r.code != 0 || !strings.Contains(r.stderr, "model risk@1 runs the program python3 worker.py model.py\n") {
			t.Fatalf("%v: %v, %+v", args, err, r)
		}
		if environment["MODEL_CACHE"] != "there" || environment["PATH"] == "" || environment["AFTERBAY_TOKEN"]+environment["OTHER_SECRET"] != "" {
			t.Errorf("%v: the program got %v", args, environment)
		}
		os.Remove("ran")
	}
	write(t, "risk.yaml", strings.Replace(processManifest, "workers: 1", "workers: 1, env: [AFTERBAY_TOKEN]", 1))
	if r := command(t, "", "lint", "pipeline.yaml"); r.code != exitInvalid || !strings.Contains(r.stderr, "the variable AFTERBAY_TOKEN belongs to the engine") {
		t.Errorf("%+v", r)
	}
}

func TestProgramsEndWithTheCommand(t *testing.T) {
	outsideFolder(t)
	write(t, "model.py", "import os\nopen('pids', 'a').write(f'{os.getpid()} ')\n"+read(t, "model.py"))
	write(t, "wrong.yaml", strings.Replace(processManifest, "golden: golden.csv", "golden: wrong.csv", 1))
	write(t, "wrong.csv", "amount,card,prediction\n1,a,9\n")
	write(t, "broken.yaml", strings.Replace(outsidePipeline, "risk.score]", "risk.skore]", 1))
	must(t, `{"card": "ab", "amount": 9}`+"\n", "try", "pipeline.yaml")
	must(t, "amount,card\n1,a\n", "model", "score", "risk.yaml")
	command(t, "", "model", "verify", "wrong.yaml") // opened, and not usable
	command(t, "", "try", "broken.yaml")            // opened, and the pipeline is not
	pids := strings.Fields(read(t, "pids"))
	if len(pids) < 4 {
		t.Errorf("%d programs were started", len(pids))
	}
	for _, text := range pids {
		pid, err := strconv.Atoi(text)
		if err != nil {
			t.Fatal(err)
		}
		if syscall.Kill(pid, 0) == nil {
			t.Errorf("program %d still runs", pid)
		}
	}
}

func TestOutputsOfAManifestInAnotherOrderAreRefused(t *testing.T) {
	outsideFolder(t)
	write(t, "model.py", "def predict(values, card):\n  return {'low': [v[0] for v in values.tolist()], 'high': [[2 * v[0], 3 * v[0]] for v in values.tolist()]}\n")
	write(t, "golden.csv", "amount,card,prediction_0,prediction_1,prediction_2\n2,a,2,4,6\n")
	write(t, "risk.yaml", strings.Replace(processManifest, "[score]", "{low: 1, high: 2}", 1))
	named := func(outputs string) string {
		return strings.NewReplacer("{score: number}", outputs, "[risk.score]", "[risk.low]").Replace(outsidePipeline)
	}
	write(t, "pipeline.yaml", named("{low: number, high: number, higher: number}"))
	if out := must(t, `{"card": "ab", "amount": 9}`+"\n", "try", "pipeline.yaml"); !strings.Contains(out, `{"risk_low":9}`) {
		t.Error(out)
	}
	write(t, "model.py", "def predict(values, card):\n  return {'low': [v[0] for v in values.tolist()], 'high': [2 * v[0] for v in values.tolist()]}\n")
	write(t, "golden.csv", "amount,card,prediction_0,prediction_1\n2,a,2,4\n")
	write(t, "risk.yaml", strings.Replace(processManifest, "[score]", "[low, high]", 1))
	write(t, "pipeline.yaml", named("{high: number, low: number}"))
	if r := command(t, "", "lint", "pipeline.yaml"); r.code != exitInvalid || !strings.Contains(r.stdout+r.stderr, "models.risk.outputs: the manifest has them in another order: low, high") {
		t.Errorf("%+v", r)
	}
}

func TestProgramThatMixesRowsIsNotUsable(t *testing.T) {
	outsideFolder(t)
	write(t, "model.py", "def predict(values, card):\n  return [[v[0] / 2 + max(map(len, card))] for v in values.tolist()]\n")
	r := command(t, "", "model", "verify", "risk.yaml")
	if r.code != exitInvalid || !strings.Contains(r.stderr, "has other scores alone") || !strings.Contains(r.stderr, "a row must not change the score of another row") {
		t.Errorf("%+v", r)
	}
}

func TestServerThatIsAwayAtTheStartIsTriedAgain(t *testing.T) {
	const unused = "127.0.0.1:1" // no ephemeral port: another test may be given that
	busy := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		http.Error(w, "loading", http.StatusServiceUnavailable)
	}))
	defer busy.Close()
	t.Chdir(t.TempDir())
	pipeline := strings.Replace(outsidePipeline, "[amount, card]", "[amount]", 1)
	write(t, "events.ndjson", `{"card": "ab", "amount": 9}`+"\n")
	for _, remote := range []string{
		"{endpoint: \"grpc://" + unused + "\", timeout: 2s}", "{endpoint: \"http://" + unused + "\"}", "{endpoint: \"" + busy.URL + "\", json: true}",
		"{endpoint: \"" + busy.URL + "\", api: http}",
	} {
		write(t, "risk.yaml", "model: risk\nversion: 1\nkind: remote\ninputs: {amount: number}\noutputs: [score]\nremote: "+remote+"\n")
		for _, line := range []string{"run pipeline.yaml --data data --until-idle", "try pipeline.yaml events.ndjson", "model score risk.yaml events.ndjson"} {
			write(t, "pipeline.yaml", pipeline)
			if r := command(t, "", fields(line)...); r.code != exitEngine || !strings.Contains(r.stderr, "risk.yaml:6:1: remote: ") || !strings.Contains(r.stderr, "unreachable: ") || !strings.Contains(r.stderr, "see that its server runs") {
				t.Errorf("%s of %s: %+v", line, remote, r)
			}
			write(t, "pipeline.yaml", strings.Replace(pipeline, "[risk.score]", "[amounts]", 1)) // wrong besides
			if r := command(t, "", fields(line)...); !strings.HasPrefix(line, "model") && r.code != exitInvalid {
				t.Errorf("%s of %s and a wrong name: %+v", line, remote, r)
			}
		}
		write(t, "pipeline.yaml", pipeline)
		if r := command(t, "", "lint", "pipeline.yaml", "risk.yaml"); r.code != exitOK || !strings.Contains(r.stdout, "warning: models.risk") || !strings.Contains(r.stdout, "to check the model: afterbay model verify risk.yaml") {
			t.Errorf("lint needs the server of %s: %+v", remote, r)
		}
		if r := command(t, "", "lint", "pipeline.yaml", "--connect"); r.code != exitInvalid || !strings.Contains(r.stderr, "unreachable: ") {
			t.Errorf("lint --connect does not ask the server of %s: %+v", remote, r)
		}
	}
}

// TestProcessStartsWhileItsModelsAreAway takes events before the server of a model is
// there, and scores them when it is.
func TestProcessStartsWhileItsModelsAreAway(t *testing.T) {
	t.Chdir(t.TempDir())
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.Method == http.MethodPost && strings.HasPrefix(r.URL.Path, "/v2/"):
			fmt.Fprint(w, `{"outputs": [{"name": "score", "datatype": "FP32", "shape": [1, 1], "data": [0.5]}]}`)
		case r.Method == http.MethodPost:
			fmt.Fprint(w, `{"score": 0.5}`)
		case strings.HasPrefix(r.URL.Path, "/v2/"):
			fmt.Fprint(w, `{"name": "risk", "inputs": [{"name": "amount", "datatype": "FP32", "shape": [-1, 1]}], "outputs": [{"name": "score", "datatype": "FP32", "shape": [-1, 1]}]}`)
		}
	}))
	defer server.Close()
	server.Listener.Close()
	address := freeAddress(t)
	model := "  risk: {file: risk.yaml, version: 1, outputs: {score: number}, call: {breaker: {probe: 100ms}}}\n"
	for name, remote := range map[string]string{"http": ", api: http", "oip": ", json: true"} {
		write(t, name+".yaml", "model: risk\nversion: 1\nkind: remote\ninputs: {amount: number}\noutputs: [score]\nremote: {endpoint: \"http://"+address+"\""+remote+"}\n")
	}
	write(t, "pipeline.yaml", "pipeline: away\ninput: {topic: in, partitions: 1, key: card, fields: {card: string, amount: number}}\nmodels:\n"+
		strings.ReplaceAll(model, "risk.yaml", "http.yaml")+strings.NewReplacer("risk:", "other:", "risk.yaml", "oip.yaml").Replace(model)+
		"steps:\n  - score: {model: risk, inputs: [amount]}\n  - score: {model: other, inputs: [amount]}\n  - emit: {topic: out, value: [risk.score, other.score]}\n")
	out, end := background(t, "run", "pipeline.yaml", "--listen", "127.0.0.1:0")
	out.wait(t, "next, in another terminal")
	if text := out.String(); !strings.Contains(text, "warning: models.risk: the model does not answer") || !strings.Contains(text, "warning: models.other: the model does not answer") {
		t.Errorf("it does not say which models are away: %s", text)
	}
	must(t, `{"card": "ab", "amount": 9}`+"\n", "produce", "in")
	for !strings.Contains(command(t, "", "queue", "ls", "away").stdout, `"ab"`) { // an error before the first commit
		time.Sleep(10 * time.Millisecond)
	}
	listener, err := net.Listen("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	server.Listener = listener
	server.Start()
	follow, stop := background(t, "tail", "out", "--follow")
	follow.wait(t, `{"risk_score":0.5,"other_score":0.5}`)
	stop()
	if code := end(); code != exitOK {
		t.Errorf("exit code %d", code)
	}
}

func TestPipelineScoresWithServersOfOtherAPIs(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("X-API-Key") != "secret" {
			http.Error(w, "who?", http.StatusUnauthorized)
			return
		}
		switch r.URL.Path {
		case "/v1/chat/completions":
			fmt.Fprint(w, `{"choices": [{"message": {"content": "{\"score\": 0.25}"}, "finish_reason": "stop"}]}`)
		case "/v1/embeddings":
			fmt.Fprint(w, `{"data": [{"embedding": [0.5]}]}`)
		case "/v1/moderations":
			fmt.Fprint(w, `{"results": [{"category_scores": {"score": 0.75}}]}`)
		case "/risk":
			fmt.Fprint(w, `{"predictions": [{"score": 0.125}]}`)
		}
	}))
	defer server.Close()
	t.Chdir(t.TempDir())
	write(t, "key", "secret\n")
	write(t, "pipeline.yaml", strings.Replace(outsidePipeline, "[amount, card]", "[card]", 1))
	for remote, want := range map[string]string{
		"/v1, api: chat, chat: {prompt: 'Is it {card}?'}":               `{"risk_score":0.25}`,
		"/v1, api: embeddings":                                          `{"risk_score":0.5}`,
		", api: moderations":                                            `{"risk_score":0.75}`,
		"/risk, api: http, mapping: {rows: rows, results: predictions}": `{"risk_score":0.125}`,
	} {
		write(t, "risk.yaml", "model: risk\nversion: 1\nkind: remote\ninputs: {card: string}\noutputs: [score]\nremote: {token_file: key, header: X-API-Key, endpoint: "+server.URL+remote+"}\n")
		if out := must(t, `{"card": "ab", "amount": 9}`+"\n", "try", "pipeline.yaml"); !strings.Contains(out, want) {
			t.Errorf("%s: %s", remote, out)
		}
	}
	write(t, "key", "other")
	if r := command(t, "", "run", "pipeline.yaml", "--data", "data"); r.code != exitEngine || !strings.Contains(r.stderr, "denied: HTTP status 401") {
		t.Errorf("%+v", r)
	}
}

func TestPipelineScoresWithAServerThatItsManifestNames(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "Bearer secret" {
			http.Error(w, "who?", http.StatusUnauthorized)
			return
		}
		if r.Method == http.MethodGet {
			fmt.Fprint(w, `{"name": "fraud", "inputs": [{"name": "amount", "datatype": "FP32", "shape": [-1, 1]}]}`)
			return
		}
		var request struct{ Inputs []struct{ Data []float64 } }
		if err := json.NewDecoder(r.Body).Decode(&request); err != nil || len(request.Inputs) != 1 {
			http.Error(w, "what?", http.StatusBadRequest)
			return
		}
		data := request.Inputs[0].Data
		text, err := json.Marshal(map[string]any{"outputs": []any{map[string]any{"name": "score", "datatype": "FP32", "shape": []int{len(data), 1}, "data": data}}})
		if err != nil {
			t.Error(err)
		}
		_, _ = w.Write(text)
	}))
	defer server.Close()
	t.Chdir(t.TempDir())
	t.Setenv("MODELS_TOKEN", "secret")
	manifest := "model: risk\nversion: 1\nkind: remote\ninputs: {amount: number}\noutputs: [score]\ngolden: golden.csv\nremote: {endpoint: \"" + server.URL + "\", model: fraud, json: true, token: MODELS_TOKEN, timeout: 5s}\n"
	write(t, "golden.csv", "amount,prediction\n1,1\n2,2.00001\n")
	write(t, "risk.yaml", manifest)
	write(t, "pipeline.yaml", strings.Replace(outsidePipeline, "[amount, card]", "[amount]", 1))
	if out := must(t, `{"card": "ab", "amount": 9}`+"\n", "try", "pipeline.yaml"); !strings.Contains(out, `{"risk_score":9}`) {
		t.Error(out)
	}
	if out := must(t, "amount\n4\n", "model", "score", "risk.yaml"); out != "prediction\n4\n" {
		t.Error(out)
	}
	for change, want := range map[string]string{
		"timeout: 5s|timeout: 5s, version: v9, calls: 2":   "risk version 1, remote",
		"kind: remote|kind: remote\nlimits: {rows: 1}":     "risk version 1, remote",
		"[score]|[predict]":                                "risk.yaml:6:9: golden: ",
		"MODELS_TOKEN|MODELS_TOKEN_2":                      "risk.yaml:7:1: remote: the variable MODELS_TOKEN_2 of the environment has no token",
		"amount: number|amount: string":                    "risk.yaml:7:1: remote: ",
		"remote: {endpoint:|remote: {endpoint: ftp://x, #": "risk.yaml",
		"\nremote: {|\nonnx: {workers: 1}\nremote: {":      "risk.yaml:7:1: onnx: belongs to models of kind onnx",
		"kind: remote|kind: xgboost":                       "remote: belongs to models of kind remote",
	} {
		before, after, _ := strings.Cut(change, "|")
		write(t, "risk.yaml", strings.Replace(manifest, before, after, 1))
		if r := command(t, "", "model", "verify", "risk.yaml"); !strings.Contains(r.stdout+r.stderr, want) {
			t.Errorf("%s: %+v", change, r)
		}
	}
}
