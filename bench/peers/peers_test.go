package main

import (
	"bufio"
	"compress/gzip"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/afterbay/afterbay/internal/config"
	"github.com/afterbay/afterbay/internal/lab/demo/baseline"
	"github.com/afterbay/afterbay/internal/lang/steps"
	"github.com/afterbay/afterbay/internal/process/builtin"
)

// lines calls take with each line of a gzip file.
func lines(t *testing.T, path string, take func(line string)) {
	t.Helper()
	file, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	unzipped, err := gzip.NewReader(file)
	if err != nil {
		t.Fatal(err)
	}
	scanner := bufio.NewScanner(unzipped)
	for scanner.Scan() {
		take(scanner.Text())
	}
	if err := scanner.Err(); err != nil {
		t.Fatal(err)
	}
}

// TestReferenceIsXGBoostByTheRow compares with the scores that XGBoost made one
// row at a time (scripts/baseline.py).
func TestReferenceIsXGBoostByTheRow(t *testing.T) {
	r, err := newReference()
	if err != nil {
		t.Fatal(err)
	}
	var got []float32
	lines(t, "../../internal/e2e/testdata/baseline/events.ndjson.gz", func(line string) {
		score, err := r.score([]byte(line))
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, score)
	})
	i := 0
	lines(t, "../../internal/e2e/testdata/baseline/scores.csv.gz", func(line string) {
		want, err := strconv.ParseFloat(line, 64)
		if err != nil {
			t.Fatal(err)
		}
		if i >= len(got) || float64(got[i]) != want {
			t.Fatalf("event %d of %d: score is not %v", i, len(got), want)
		}
		i++
	})
	if i == 0 || i != len(got) {
		t.Fatalf("%d scores for %d events", i, len(got))
	}
}

func TestAnswersCountWhatDiffersIsLostOrComesAgain(t *testing.T) {
	a := newAnswers([]float32{0.5, 0.5, 0.5, 0.5})
	for _, value := range []string{
		`{"event_id":"e000000000","score":0.50005}`, `{"event_id":"e000000001","score":0.51}`,
		`{"event_id":"e000000002","score":0.5}`, `{"event_id":"e000000002","score":0.5}`,
	} {
		if _, err := a.take([]byte(value)); err != nil {
			t.Fatal(err)
		}
	}
	want := map[string]float64{"scores_different": 1, "results_lost": 1, "results_repeated": 1}
	for _, f := range a.figures() {
		if value, ok := want[f.name]; ok && f.value != value {
			t.Errorf("%s is %v, want %v", f.name, f.value, value)
		}
	}
	for _, value := range []string{`{"event_id":"e000000004","score":0.5}`, `{"event_id":"x","score":0.5}`, `{"event_id":"e000000000"}`, `no JSON`} {
		if _, err := a.take([]byte(value)); err == nil {
			t.Errorf("%s is taken", value)
		}
	}
}

// TestSteadyLeavesOutStartAndEnd measures a system that does nothing for 2 s,
// then 100 events each 50 ms, half of them markers.
func TestSteadyLeavesOutStartAndEnd(t *testing.T) {
	var samples []sample
	start := time.Unix(0, 0)
	for i := range 120 {
		count := float64(min(max(0, i-40)*200, 10_000))
		samples = append(samples, sample{at: start.Add(time.Duration(i) * sampleEvery), count: count, cpu: time.Duration(count) * time.Microsecond})
	}
	from, to := steady(samples, 0.5, 5000)
	events := (to.count - from.count) / 2
	if rate := events / to.at.Sub(from.at).Seconds(); rate != 2000 {
		t.Errorf("%v events/s, want 2000", rate)
	}
	if took := perEvent(to.cpu-from.cpu, events); took != 2 {
		t.Errorf("%v us an event, want 2", took)
	}
	if from.count != 3000 || to.count != 9800 {
		t.Errorf("from %v to %v, want 3000 to 9800", from.count, to.count)
	}
}

func TestQuantilesAndMedians(t *testing.T) {
	var took []time.Duration
	for i := range 1000 {
		took = append(took, time.Duration(i)*time.Millisecond)
	}
	for q, want := range map[float64]float64{0.5: 500, 0.99: 990, 0.999: 999} {
		if got := quantile(took, q); got != want {
			t.Errorf("quantile %v is %v, want %v", q, got, want)
		}
	}
	if got := median([]float64{5, 1, 2}); got != 2 {
		t.Errorf("median of 5, 1, 2 is %v", got)
	}
	table := table{values: map[string][]float64{}}
	table.add("a", 1, 3, "x") // nothing in round 0
	table.add("a", 2, 1, "x")
	if got := median(table.values["a"]); got != 2 {
		t.Errorf("median is %v, want 2", got)
	}
}

// TestPipelineOfARunIsTheExamplesUnderOtherNames sees that each system of ours
// has a file that is understood.
func TestPipelineOfARunIsTheExamplesUnderOtherNames(t *testing.T) {
	file, err := baseline.Files.ReadFile("pipeline.yaml")
	if err != nil {
		t.Fatal(err)
	}
	r := run{id: "peers-x-0", in: "peers-posts", out: "peers-x-0-results"}
	for _, s := range systems(nil) {
		for _, lines := range []string{s.drainFile, s.pacedFile} {
			path := filepath.Join(t.TempDir(), "pipeline.yaml")
			if err := os.WriteFile(path, r.pipeline(string(file), lines), 0o600); err != nil {
				t.Fatal(err)
			}
			loaded, err := config.Load(path, builtin.Kinds())
			if err != nil {
				t.Fatal(err)
			}
			p := loaded.Pipelines[0]
			if p.Name != r.id || p.Input.Topic != r.in || p.Steps[len(p.Steps)-1].(*steps.Emit).Topic != r.out {
				t.Errorf("%s: pipeline %s from %s", s.name, p.Name, p.Input.Topic)
			}
			if strings.Contains(lines, "10ms") != (p.Commit.Interval == 10*time.Millisecond) {
				t.Errorf("%s: commits every %v by %q", s.name, p.Commit.Interval, lines)
			}
		}
	}
}

// TestReadmeAndSourcesAgree sees that each system, each of its settings and each
// version that is downloaded is told in README.md.
func TestReadmeAndSourcesAgree(t *testing.T) {
	data, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	readme := string(data)
	has := func(what string) {
		if !strings.Contains(readme, what) {
			t.Errorf("README.md says nothing of %s", what)
		}
	}
	for _, s := range systems(nil) {
		has("`" + s.name + "`")
		for _, setting := range append(append(s.argv, s.drain...), s.paced...) {
			if !strings.ContainsAny(setting, "{/") && !strings.HasPrefix(setting, "-D") && strings.Contains(setting, "=") {
				has(setting)
			}
		}
	}
	has(strings.TrimPrefix(throughput, "JDK_JAVA_OPTIONS="))
	version := regexp.MustCompile(`<artifactId>([\w.-]+)</artifactId><version>([\w.-]+)</version></dependency>`)
	for _, path := range []string{"work/pom.xml", "streams/pom.xml", "flink/pom.xml"} {
		pom, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		for _, found := range version.FindAllStringSubmatch(string(pom), -1) {
			if found[1] != "work" {
				has(found[1] + " " + found[2])
			}
		}
	}
	script, err := os.Open("../../scripts/peers.sh")
	if err != nil {
		t.Fatal(err)
	}
	defer script.Close()
	text, err := io.ReadAll(script)
	if err != nil {
		t.Fatal(err)
	}
	for _, found := range regexp.MustCompile(`([\w-]+)==([\d.]+)`).FindAllStringSubmatch(string(text), -1) {
		has(found[1] + " " + found[2])
	}
}
