package main

import (
	"strings"
	"testing"
)

func TestDemoSumsUpAndItsCommandsWork(t *testing.T) {
	if apart(t) {
		return
	}
	t.Chdir(t.TempDir())
	for range 2 { // the second replaces the first
		r := command(t, "", "demo", "--events", "5000")
		if r.code != exitOK {
			t.Fatalf("exit %d: %s", r.code, r.stderr)
		}
		for _, want := range []string{
			"5000 card payments became 49", "events/s", "queue", "feature", "model", "emit", "commit", "p50", "p99",
			"decisions     allow 4", "dead letters  ", "late events   ", "model         fraud@1 sha256:", "exactly once  yes",
		} {
			if !strings.Contains(r.stdout, want) {
				t.Errorf("%s\nlacks %q", r.stdout, want)
			}
		}
		_, commands, _ := strings.Cut(r.stdout, "look further:\n")
		for line := range strings.Lines(commands) {
			args := strings.Fields(line)
			if args[1] == "run" {
				args = append(args, "--until-idle", "--listen", "none")
			}
			if out := must(t, "", args[1:]...); out == "" && args[2] != "fraud.dlq" {
				t.Errorf("%s prints nothing", line)
			}
		}
	}
}

func TestBenchPrintsAFigureALine(t *testing.T) {
	const all = " events_per_second events_per_cpu_second cpu_us_per_event allocs_per_event bytes_per_event cpu_cores_used state_mb log_bytes_per_event"
	const throughput = "append_events_per_second" + all
	const latency = "harness_cores_used latency_p50 latency_p99 latency_p999 latency_max decisions" + all
	for line, names := range map[string]string{
		"bench --events 3000 --warmup 1000 --parallelism 2 --commit-interval 1ms --keys 500 --exact --zipf 1.3 --users 900": throughput,
		"bench --events 3000 --warmup 0 --work fraud":     throughput,
		"bench --rate 2000 --duration 500ms --part 250ms": latency + " p99_part_2 files_part_2 directory_part_2",
		"bench --rate 2000 --duration 500ms --work fraud": latency,
	} {
		out := must(t, "", append(strings.Fields(line), "--dir", t.TempDir())...)
		for name := range strings.FieldsSeq(names) {
			_, after, ok := strings.Cut("\n"+out, "\n"+name+" ")
			figure, _, _ := strings.Cut(after, "\n")
			if words := strings.Fields(figure); !ok || len(words) != 2 || strings.HasPrefix(words[0], "-") || words[0] == "0" {
				t.Errorf("%s: %s %q", line, name, figure)
			}
		}
	}
}
