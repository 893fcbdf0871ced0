package main

import (
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/afterbay/afterbay/internal/log/embedded"
)

const scorePipeline = `pipeline: p
input: {topic: in, key: k, fields: {k: string, a: number, b: number}}
models:
  m: {file: MODEL, version: 1, outputs: {score: number}}
steps:
  - score: {model: m, inputs: INPUTS}
  - emit: {topic: out, value: [m.score]}
`

func scoringFile(model, inputs string) string {
	return strings.NewReplacer("MODEL", model, "INPUTS", inputs).Replace(scorePipeline)
}

// badFiles are in the working directory of TestBadInput.
func badFiles(t *testing.T) {
	t.Helper()
	model, err := os.ReadFile("testdata/stump.ubj")
	if err != nil {
		t.Fatal(err)
	}
	t.Chdir(t.TempDir())
	corrupt := strings.Replace(string(model), "left_children", "left_chrildne", 1)
	for name, text := range map[string]string{
		"counts.yaml":    countsPipeline,
		"unreadable.yml": "pipeline: [\n",
		"type.yml":       strings.Replace(countsPipeline, "partitions: 3", "partitions: many", 1),
		"unknown.yml":    strings.Replace(countsPipeline, "partitions: 3", "partition: 3", 1),
		"expression.yml": strings.Replace(countsPipeline, "seen_count_24h * 2", "k * 2", 1),
		"name.yml":       strings.Replace(countsPipeline, "[k, seen.count_24h]", "[k, sen.count_24h]", 1),
		"right.yml":      scoringFile("stump.ubj", "[a, b, a, b, a, b]"),
		"missing.yml":    scoringFile("none.ubj", "[a, b]"),
		"truncated.yml":  scoringFile("truncated.ubj", "[a, b]"),
		"corrupt.yml":    scoringFile("corrupt.ubj", "[a, b]"),
		"mismatch.yml":   scoringFile("stump.ubj", "[a, b]"),
		"stump.ubj":      string(model),
		"truncated.ubj":  string(model[:len(model)/2]),
		"corrupt.ubj":    corrupt,
		"file":           "no directory",
		"rows.csv":       "a,b,c,d,e,f\n1,2,3,4,5,6\n1,2,x,4,5,6\n",
		"narrow.csv":     "a,b\n1,2\n",
		"infinite.csv":   "a,b,c,d,e,f\n1,2,3,4,5,1e39\n",
		"ragged.csv":     "a,b,c,d,e,f\n1,2\n",
		"empty.csv":      "",
	} {
		write(t, name, text)
	}
	must(t, "", "produce", "in", "--data", "held", "--partitions", "3")
	must(t, numbered(3), "produce", "in", "--data", "damaged", "--partitions", "1")
	for _, name := range []string{"META", "META.copy"} {
		flip(t, filepath.Join("damaged", name), 20)
	}
	must(t, numbered(3), "produce", "in", "--data", "good", "--partitions", "3", "--key", "k")
}

// badInputs are command lines that cannot work; TAKEN is an address in use.
var badInputs = []struct {
	line string
	code int
	want []string // parts of the message: what is wrong, and what to do
}{
	{"lint unreadable.yml", exitInvalid, []string{"unreadable.yml:1:11", "close the bracket", "pipeline: ["}},
	{"lint type.yml", exitInvalid, []string{"type.yml:4:15", "input.partitions"}},
	{"lint unknown.yml", exitInvalid, []string{"unknown.yml:4:3", `did you mean "partitions"?`}},
	{"lint expression.yml", exitInvalid, []string{"expression.yml:18:24", "decide.twice"}},
	{"lint name.yml", exitInvalid, []string{"name.yml:10:35", "sen.count_24h", "did you mean seen.count_24h"}},
	{"lint gone.yml", exitInvalid, []string{"gone.yml: no such file", "name a pipeline file"}},
	{"lint unknown.yml type.yml", exitInvalid, []string{"unknown.yml:4:3", "type.yml:4:15"}},
	{"lint missing.yml", exitInvalid, []string{"missing.yml:4:", "models.m.file", "none.ubj: no such file"}},
	{"lint truncated.yml", exitInvalid, []string{"models.m.file", "truncated.ubj"}},
	{"lint corrupt.yml", exitInvalid, []string{"models.m.file", "corrupt.ubj"}},
	{"lint mismatch.yml", exitInvalid, []string{"mismatch.yml:6:", "steps[0].score.inputs", "6"}},
	{"lint counts.yaml counts.yaml", exitInvalid, []string{`pipeline "counts" is in counts.yaml too`, "rename one"}},
	{"run mismatch.yml", exitInvalid, []string{"steps[0].score.inputs"}},
	{"run counts.yaml --listen 0.0.0.0:0", exitUsage, []string{"can be reached from other machines", "--token"}},
	{"run counts.yaml --listen here", exitUsage, []string{"use host:port"}},
	{"run counts.yaml --parallelism -1", exitUsage, []string{"--parallelism -1"}},
	{"run counts.yaml --data good --listen TAKEN", exitFailure, []string{"address already in use", "--listen"}},
	{"run counts.yaml --data held", exitLocked, []string{"held", "in use: by process", "choose another directory"}},
	{"run counts.yaml --data damaged", exitDamaged, []string{"damaged/META", "afterbay doctor damaged"}},
	{"run counts.yaml --data file/x", exitDamaged, []string{"file", "not a directory", "--data"}},
	{"topics --data held", exitLocked, []string{"in use: by process", "does not answer: it is starting or stopping"}},
	{"topics --data none", exitFailure, []string{"none is not a data directory", "--data"}},
	{"topics --data damaged", exitDamaged, []string{"damaged/META"}},
	{"topics --url localhost:1", exitUsage, []string{"use http://host:port"}},
	{"topics --url http://127.0.0.1:1", exitFailure, []string{"connection refused"}},
	{"doctor held", exitLocked, []string{"in use: by process", "end that process first"}},
	{"doctor none", exitFailure, []string{"none", "not a data directory"}},
	{"doctor file", exitInvalid, []string{"file:1:1", "must be a mapping"}},
	{"doctor damaged", exitDamaged, []string{"the directory is damaged"}},
	{"doctor damaged --cut --yes", exitFailure, []string{"nothing was changed", "restore it from a copy"}},
	{"doctor good --yes", exitUsage, []string{"--yes and --keep belong to --cut"}},
	{"doctor good --cut --json", exitUsage, []string{"add --yes"}},
	{"doctor", exitUsage, []string{"name one data directory", "--engine"}},
	{"produce gone --data good", exitFailure, []string{`topic "gone": unknown topic`, "the topics are ", "--partitions"}},
	{"produce in gone.csv --data good", exitFailure, []string{"gone.csv: no such file", "name a file"}},
	{"produce in . --data good", exitFailure, []string{"is a directory"}},
	{"produce in --data good --partitions 7", exitFailure, []string{"3 partitions, not 7"}},
	{"produce in --data good --format xml", exitUsage, []string{"--format", "ndjson"}},
	{"tail gone --data good", exitFailure, []string{`topic "gone": unknown topic`}},
	{"tail in --data good --partition 3", exitFailure, []string{"it has the partitions 0 to 2"}},
	{"tail in --data good --limit=-1", exitUsage, []string{"--limit"}},
	{"tail in --data good --from x", exitUsage, []string{"--from"}},
	{"state dump gone --data good", exitFailure, []string{`unknown pipeline "gone"`, "start one with afterbay run"}},
	{"model inspect truncated.ubj", exitInvalid, []string{"truncated.ubj", "XGBoost"}},
	{"model score none.ubj rows.csv", exitInvalid, []string{"none.ubj: no such file"}},
	{"model score stump.ubj none.csv", exitFailure, []string{"none.csv: no such file"}},
	{"model score stump.ubj rows.csv", exitFailure, []string{`rows.csv:3:5: column c: "x" is not a number`, "leave the cell empty"}},
	{"model score stump.ubj narrow.csv", exitFailure, []string{"narrow.csv:1: 2 columns for a model of 6 inputs", "in order"}},
	{"model score stump.ubj infinite.csv", exitFailure, []string{"infinite.csv:2:", "finite"}},
	{"model score stump.ubj ragged.csv", exitFailure, []string{"ragged.csv:2:1: 2 cells, but the header has 6"}},
	{"model score stump.ubj empty.csv", exitFailure, []string{"empty.csv: empty"}},
	{"demo --dir good", exitUsage, []string{"good is not empty and no demo made it"}},
	{"demo --dir file/x", exitDamaged, []string{"--dir"}},
	{"demo --events 0", exitUsage, []string{"--events 0"}},
	{"bench --rate=-1", exitUsage, []string{"--rate"}},
	{"bench --warmup=-1", exitUsage, []string{"--warmup"}},
	{"bench --users 0", exitUsage, []string{"--users 0: use 1 or more"}},
	{"bench --users 100000001", exitUsage, []string{"--users", "use 1 to 100,000,000"}},
	{"bench --zipf=-1", exitUsage, []string{"--zipf", "use 0 to 10"}},
	{"bench --zipf NaN", exitUsage, []string{"--zipf", "use 0 to 10"}},
	{"bench --work other", exitUsage, []string{"--work", "baseline", "fraud"}},
	{"bench --work fraud --users 7", exitUsage, []string{"--users and --zipf need --work baseline"}},
	{"bench --steady", exitUsage, []string{"--steady", "use --rate"}},
	{"bench --steady --rate 1000 --duration 2m", exitUsage, []string{"--duration of at least three times --part, which is 1m0s"}},
	{"bench --digest --rate 1000", exitUsage, []string{"--digest needs --rate 0"}},
	{"bench --state-memory 1", exitUsage, []string{"--state-memory", "the changes of a step must fit"}},
	{"bench --retention-bytes 1", exitUsage, []string{"--retention-bytes", "whole files are deleted"}},
	{"frobnicate", exitUsage, []string{"frobnicate", "--help"}},
	{"run", exitUsage, []string{"<file>", "--help"}},
	{"topics --colour", exitUsage, []string{"--colour"}},
}

// flip changes a byte of a file.
func flip(t *testing.T, path string, at int) {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	b[at] ^= 1
	write(t, path, string(b))
}

func TestBadInputIsAClearErrorWithAnExitCode(t *testing.T) {
	if apart(t) {
		return
	}
	badFiles(t)
	held, err := embedded.Open("held", embedded.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer held.Close()
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	for _, test := range badInputs {
		t.Run(test.line, func(t *testing.T) {
			r := command(t, "", fields(strings.ReplaceAll(test.line, "TAKEN", taken.Addr().String()))...)
			if r.code != test.code {
				t.Errorf("exit %d, want %d", r.code, test.code)
			}
			for _, want := range test.want {
				if !strings.Contains(r.stderr, want) {
					t.Errorf("%s\nlacks %s", r.stderr, want)
				}
			}
			report := strings.HasPrefix(r.stdout, "margin") || test.line == "doctor damaged" // the findings are the result
			if r.stdout != "" && !report && test.code != exitFailure {
				t.Errorf("printed %s", r.stdout)
			}
		})
	}
}

func TestChangedFeaturesAreRefusedAsInvalid(t *testing.T) {
	t.Chdir(t.TempDir())
	write(t, "counts.yaml", countsPipeline)
	must(t, numbered(20), "produce", "in", "--partitions", "3", "--key", "k")
	must(t, "", "run", "counts.yaml", "--until-idle", "--listen", "none")
	write(t, "counts.yaml", strings.ReplaceAll(strings.ReplaceAll(countsPipeline, "24h]", "12h]"), "count_24h", "count_12h"))
	must(t, numbered(20), "produce", "in")
	r := command(t, "", "run", "counts.yaml", "--until-idle", "--listen", "none")
	if r.code != exitInvalid || !strings.Contains(r.stderr, "give the pipeline another name") {
		t.Errorf("exit %d: %s", r.code, r.stderr)
	}
}
