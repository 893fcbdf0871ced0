package e2e_test

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/afterbay/afterbay/internal/config"
	"github.com/afterbay/afterbay/internal/event/decode"
	"github.com/afterbay/afterbay/internal/lang"
	"github.com/afterbay/afterbay/internal/pipeline"
	"github.com/afterbay/afterbay/internal/process/builtin"
	"github.com/afterbay/afterbay/stream"
)

// TestBaselineWorkNeedsNoCode runs examples/baseline/pipeline.yaml over events
// whose scores XGBoost made one row at a time (scripts/baseline.py). With
// AFTERBAY_BASELINE it takes the events and scores in that folder instead.
func TestBaselineWorkNeedsNoCode(t *testing.T) {
	dir := "internal/e2e/testdata/baseline"
	if other := os.Getenv("AFTERBAY_BASELINE"); other != "" {
		dir = other
	}
	log := openLog(t, "embedded", t.TempDir())
	defer closeLog(t, log)
	runner, err := builtin.New(baselinePipeline(t), pipeline.Options{Members: 2})
	if err != nil {
		t.Fatal(err)
	}
	if err := runner.CreateTopics(t.Context(), log); err != nil {
		t.Fatal(err)
	}
	n := appendLines(t, log, runner.Input(), "user_id", filepath.Join(dir, "events.ndjson.gz"))
	runUntilIdle(t, runner, log)
	got := baselineResults(t, log, runner, n)
	scores := unzip(t, filepath.Join(dir, "scores.csv.gz"))
	defer scores.Close()
	var exact, compared, over, flips int
	for lines := bufio.NewScanner(scores); lines.Scan(); compared++ {
		want, err := strconv.ParseFloat(lines.Text(), 64)
		if err != nil {
			t.Fatal(err)
		}
		g := got[compared]
		if g.Score == want {
			exact++
		}
		if math.Abs(g.Score-want) > 1e-6 {
			if over++; over == 1 {
				t.Errorf("event %d is the first: score %v, %s; want %v, %s", compared, g.Score, g.Decision, want, decision(want))
			}
		}
		if g.Decision != decision(want) {
			flips++
		}
	}
	t.Logf("%d events: %d decisions differ, %d scores by more than 1e-6, %d scores are bit-equal", n, flips, over, exact)
	if flips+over > 0 || compared != n || n == 0 {
		t.Errorf("%d scores for %d events", compared, n)
	}
}

type baselineResult struct {
	EventID  string `json:"event_id"`
	Score    float64
	Decision string
}

func decision(score float64) string {
	switch {
	case score >= 0.9:
		return "block"
	case score >= 0.5:
		return "review"
	}
	return "allow"
}

func baselinePipeline(t testing.TB) lang.Pipeline {
	t.Helper()
	file, err := config.Load("examples/baseline/pipeline.yaml", builtin.Kinds())
	if err != nil {
		t.Fatal(err)
	}
	return file.Pipelines[0]
}

func unzip(t testing.TB, path string) io.ReadCloser {
	t.Helper()
	file, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { file.Close() })
	r, err := gzip.NewReader(bufio.NewReader(file))
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func appendLines(t testing.TB, log stream.Log, topic, key, path string) int {
	t.Helper()
	events := unzip(t, path)
	defer events.Close()
	var records []stream.Record
	n := 0
	flush := func() {
		if err := log.Append(t.Context(), records...); err != nil {
			t.Fatal(err)
		}
		records = records[:0]
	}
	for lines := bufio.NewScanner(events); lines.Scan(); n++ {
		line := bytes.Clone(lines.Bytes())
		k, ok := decode.Key(line, key)
		if !ok {
			t.Fatalf("line %d has no %s", n+1, key)
		}
		records = append(records, stream.Record{Partition: stream.Partition{Topic: topic, Index: stream.ByKey}, Key: k, Value: line})
		if len(records) == 4096 {
			flush()
		}
	}
	flush()
	return n
}

func baselineResults(t *testing.T, log stream.Log, runner *pipeline.Runner, n int) []baselineResult {
	t.Helper()
	results := make([]baselineResult, n)
	seen := 0
	for i := range int32(answerPartitions) {
		for _, r := range readPartition(t, log, stream.Partition{Topic: runner.Outputs()[0], Index: i}) {
			var result baselineResult
			if err := json.Unmarshal(r.Value, &result); err != nil {
				t.Fatal(err)
			}
			var at int
			if _, err := fmt.Sscanf(result.EventID, "e%d", &at); err != nil || results[at].EventID != "" {
				t.Fatalf("result %q a second time, or %v", result.EventID, err)
			}
			results[at] = result
			seen++
		}
	}
	if seen != n {
		t.Fatalf("%d results for %d events", seen, n)
	}
	return results
}
