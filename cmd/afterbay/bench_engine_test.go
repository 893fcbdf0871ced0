package main

import (
	"strings"
	"testing"
)

// TestBenchOnKafkaMeasuresTheSameWork sees the figures of both ways to measure,
// and brokers that hold nothing of it after.
func TestBenchOnKafkaMeasuresTheSameWork(t *testing.T) {
	engine := fakeEngine(t)
	for _, delivery := range []string{"", " --delivery at-least-once"} {
		out := must(t, "", fields("bench --events 5000 --warmup 3000 --digest --engine "+engine+delivery+" --dir "+t.TempDir())...)
		if figure(t, out, "outputs") != "8000 records" || figure(t, out, "state") == "0 entries" || strings.Contains(out, "log_bytes_per_event") {
			t.Errorf("%s: %s", delivery, out)
		}
		out = must(t, "", fields("bench --rate 500 --duration 1s --max-lag 30s --work fraud --engine "+engine+delivery+" --dir "+t.TempDir())...)
		if n := figure(t, out, "decisions"); n != "500 records" {
			t.Errorf("%s: %s decisions count, of 500 after those that settle: %s", delivery, n, out)
		}
		for _, name := range []string{"latency_p999", "engine_cpu_us_per_event", "commit_p50", "commit_p99", "commit_p999", "queue_p50", "lag_max"} {
			figure(t, out, name)
		}
	}
	if got := must(t, "", "topics", "--engine", engine); strings.Contains(got, "afterbay-bench-") {
		t.Errorf("topics are left: %s", got)
	}
	if got := must(t, "", "doctor", "--engine", engine); strings.Contains(got, "afterbay-bench-") {
		t.Errorf("state is left: %s", got)
	}
	for line, want := range map[string]string{
		"bench --delivery at-least-once":                         "--delivery needs --engine",
		"bench --retention-bytes 100000000 --engine kafka://a:1": "--retention-bytes applies only to the log in a folder",
		"bench --max-lag 1s":                                     "--max-lag needs --rate",
		"bench --engine kafka://127.0.0.1:1 --events 1000":       "check that a broker listens there",
	} {
		if r := command(t, "", fields(line)...); r.code == exitOK || !strings.Contains(r.stderr, want) {
			t.Errorf("%s: exit %d: %s, want %q", line, r.code, r.stderr, want)
		}
	}
}
