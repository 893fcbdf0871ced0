package main

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestSimulateTextbookIsJSON(t *testing.T) {
	var got struct {
		Produced       int `json:"produced"`
		Scored         int `json:"scored"`
		Dropped        int `json:"dropped"`
		PeakDepth      int `json:"peak_depth"`
		ThrottledTicks int `json:"throttled_ticks"`
		Switches       int `json:"switches"`
		Samples        []struct{ Tick, Depth int }
	}
	for name, want := range map[string][6]int{
		"textbook": {1078, 1000, 0, 151, 2676, 5}, "wide": {1131, 1000, 0, 195, 2609, 3},
		"equal": {1100, 1000, 0, 104, 2623, 873}, "fast": {2031, 2000, 0, 58, 0, 0},
	} {
		got.Samples = nil
		if err := json.Unmarshal([]byte(must(t, "", "simulate", "--preset", name, "--json")), &got); err != nil {
			t.Fatal(err)
		}
		if found := [6]int{got.Produced, got.Scored, got.Dropped, got.PeakDepth, got.ThrottledTicks, got.Switches}; found != want {
			t.Errorf("%s: %v, want %v", name, found, want)
		}
		if len(got.Samples) != 15 || got.Samples[14].Tick != 3750 {
			t.Errorf("%s: %v", name, got.Samples)
		}
	}
}

func TestSimulateFlagsSayWhatAPresetSays(t *testing.T) {
	for name, flags := range map[string]string{
		"wide": "--high 195 --low 5", "equal": "--high=100 --low=100", "fast": "--service 1500us",
		"textbook": "--arrivals bernoulli --peak 0.5/ms --throttled 150 --max 200 --duration 4s --tick 1ms --seed 7 --every 250 --workers 1 --batch 1 --service 4ms",
	} {
		if diff := cmp.Diff(must(t, "", "simulate", "--preset", name, "--json"), must(t, "", append([]string{"simulate", "--json"}, fields(flags)...)...)); diff != "" {
			t.Errorf("%s: %s", flags, diff)
		}
	}
}

func TestSimulateReadsWhatWasRecorded(t *testing.T) {
	t.Chdir(t.TempDir())
	write(t, "arrivals.txt", "2026-11-21T21:00:00Z\n2026-11-21T21:00:00.003Z\n2026-11-21T21:00:00.0205Z\n")
	write(t, "service.txt", "2ms\n2.5\n\n")
	out := must(t, "", "simulate", "--arrivals", "file:arrivals.txt", "--backlog", "--service", "file:service.txt")
	for _, want := range []string{"3 events that were recorded, a log before the queue, read at 150/s while throttled", "calls of 2.25ms on average", "21 ticks of 1ms", "produced   3\nscored     3\n"} {
		if !strings.Contains(out, want) {
			t.Errorf("%s\nlacks %s", out, want)
		}
	}
	write(t, "arrivals.txt", "2026-11-21T21:00:00Z\n3\n")
	for text, flags := range map[string]string{
		"arrivals.txt:2: \"3\": the lines before": "--arrivals file:arrivals.txt --backlog",
		"no such file":                   "--service file:missing.txt",
		"preset \"other\": there are":    "--preset other",
		"arrivals \"never\"":             "--arrivals never",
		"rate \"0.5/d\"":                 "--peak 0.5/d",
		"use two times such as 2s/8s":    "--burst 2s",
		"service \"fixed:x\"":            "--service fixed:x",
		"the high mark 300":              "--high 300",
		".svg or .png":                   "--plot depth.gif",
		"--tick must be above 0":         "--tick 0s",
		"must be 0 or more":              "--max=-1",
		"use poisson, or a shorter tick": "--peak 5000",
	} {
		r := command(t, "", append([]string{"simulate"}, fields(flags)...)...)
		if r.code != exitUsage || !strings.Contains(r.stderr, text) || r.stdout != "" {
			t.Errorf("%s: %+v", flags, r)
		}
	}
}

func TestSimulateDraws(t *testing.T) {
	t.Chdir(t.TempDir())
	for _, flags := range []string{"", "--sweep", "--backlog --throttled 0 --duration 1m --arrivals poisson --burst 1s/2s --rest 10"} {
		for _, name := range []string{"plot.svg", "plot.png"} {
			must(t, "", append([]string{"simulate", "--plot", name}, fields(flags)...)...)
			if data := read(t, name); len(data) < 1000 || !strings.HasPrefix(data, map[string]string{"plot.svg": "<svg ", "plot.png": "\x89PNG"}[name]) {
				t.Errorf("%s %s: %.100q", flags, name, data)
			}
		}
	}
}

func TestPlanIsArithmetic(t *testing.T) {
	out := must(t, "", fields("plan --rate 50000 --batch 64 --batch-time 5ms --redundancy 2 --cores 4")...)
	for _, want := range []string{
		"a worker     12800 events/s: 64 in calls of 5ms\n", "workers      4 at least for 50000 events/s, 8 with redundancy 2\n",
		"partitions   8 at least", "97.7 %", "48.8 %", "One machine of 4 cores is enough", "use Apache Kafka and 2 machines",
	} {
		if !strings.Contains(out, want) {
			t.Errorf("%s\nlacks %s", out, want)
		}
	}
	var plan struct {
		PerWorker float64 `json:"per_worker"`
		Least     struct {
			Workers int
			Mean    float64 `json:"wait_mean_ms"`
			P99     float64 `json:"wait_p99_ms"`
		}
		OneMachine bool `json:"one_machine"`
		Machines   int
	}
	if err := json.Unmarshal([]byte(must(t, "", fields("plan --rate 50/ms --batch 64 --batch-time 5ms --cores 2 --json")...)), &plan); err != nil {
		t.Fatal(err)
	}
	if plan.PerWorker != 12800 || plan.Least.Workers != 4 || plan.OneMachine || plan.Machines != 2 || plan.Least.Mean <= 2 || plan.Least.P99 <= plan.Least.Mean {
		t.Errorf("%+v", plan)
	}
	if out := must(t, "", fields("plan --rate 51200 --batch 64 --batch-time 5ms --cores 2")...); !strings.Contains(out, "no end") || !strings.Contains(out, "plan for 5 workers") || !strings.Contains(out, "One machine of 2 cores is not enough") {
		t.Error(out)
	}
	for text, line := range map[string]string{
		"the size and time of a call are missing": "plan --rate 5", "leave out --batch": "plan --rate 5 --batch 1 --model x", "rate \"x\"": "plan --rate x",
		"--redundancy must be 1 or more": "plan --rate 5 --batch 1 --batch-time 1ms --redundancy 0", "has to be above 0": "plan --rate 0 --batch 1 --batch-time 1ms",
	} {
		if r := command(t, "", fields(line)...); r.code != exitUsage || !strings.Contains(r.stderr, text) {
			t.Errorf("%s: %+v", line, r)
		}
	}
}

func TestPlanMeasuresAModel(t *testing.T) {
	risk, err := os.ReadFile("../../scenario/testdata/risk.json")
	if err != nil {
		t.Fatal(err)
	}
	t.Chdir(t.TempDir())
	write(t, "risk.json", string(risk))
	if out := must(t, "", fields("plan --rate 1000 --model risk.json --measure-for 20ms")...); !strings.Contains(out, "workers      1 at least for 1000 events/s\n") {
		t.Error(out)
	}
	must(t, "", "model", "add", "risk.json", "--name", "risk", "--version", "2", "--outputs", "score")
	if out := must(t, "", fields("plan --rate 1000 --model models/risk/2/model.yaml --measure-for 20ms")...); !strings.Contains(out, "1 at least") {
		t.Error(out)
	}
}

var shownCommand = regexp.MustCompile("(?ms)^```\n\\$ afterbay ((?:simulate|plan)[^\n]*)\n(.*?)^```$")

// TestPageOfMarksShowsWhatIsPrinted runs the commands of the page that need no
// pipeline, in a folder with its pictures.
func TestPageOfMarksShowsWhatIsPrinted(t *testing.T) {
	const page = "queue-marks.md"
	dir, err := filepath.Abs("../../docs/howto")
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(filepath.Join(dir, page))
	if err != nil {
		t.Fatal(err)
	}
	t.Chdir(t.TempDir())
	shown := shownCommand.ReplaceAllFunc(text, func(block []byte) []byte {
		line := string(shownCommand.FindSubmatch(block)[1])
		return []byte("```\n$ afterbay " + line + "\n" + must(t, "", fields(line)...) + "```")
	})
	pictures, err := filepath.Glob("*.svg")
	if err != nil || len(pictures) < 2 {
		t.Fatalf("%v: %v", pictures, err)
	}
	for _, name := range pictures {
		if *update {
			write(t, filepath.Join(dir, name), read(t, name))
		}
		if kept, err := os.ReadFile(filepath.Join(dir, name)); err != nil || string(kept) != read(t, name) {
			t.Errorf("%s is another picture (%v): go test -run Marks -update writes it", name, err)
		}
		if !bytes.Contains(text, []byte("("+name+")")) {
			t.Errorf("the page does not show %s", name)
		}
	}
	if *update {
		write(t, filepath.Join(dir, page), string(shown))
		return
	}
	if diff := cmp.Diff(string(text), string(shown)); diff != "" {
		t.Errorf("go test -run Marks -update writes it: %s", diff)
	}
}
