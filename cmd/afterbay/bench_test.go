package main

import (
	"strings"
	"testing"
)

// figure returns what follows a name in what bench printed.
func figure(t *testing.T, out, name string) string {
	t.Helper()
	_, after, ok := strings.Cut("\n"+out, "\n"+name+" ")
	value, _, _ := strings.Cut(after, "\n")
	if !ok || value == "" {
		t.Fatalf("%s\nlacks %s", out, name)
	}
	return value
}

// TestEqualWorkHasEqualDigests runs one work with one member and with several,
// and with a state that does not fit into memory.
func TestEqualWorkHasEqualDigests(t *testing.T) {
	if apart(t) {
		return
	}
	bench := func(flags string) string {
		return must(t, "", append(strings.Fields("bench --events 20000 --warmup 5000 --users 20000 --zipf 0 --digest --dir "+t.TempDir()), strings.Fields(flags)...)...)
	}
	want := bench("--parallelism 1")
	if figure(t, want, "state_evictions") != "0 cells" || figure(t, want, "outputs") != "25000 records" {
		t.Errorf("printed %s", want)
	}
	for _, flags := range []string{"--parallelism 3 --commit-interval 7ms", "--state-memory 90000 --keys 100"} {
		got := bench(flags)
		for _, name := range []string{"outputs", "outputs_digest", "state", "state_digest"} {
			if figure(t, got, name) != figure(t, want, name) {
				t.Errorf("%s: %s is %s, want %s", flags, name, figure(t, got, name), figure(t, want, name))
			}
		}
		if strings.Contains(flags, "--state-memory") && figure(t, got, "state_evictions") == "0 cells" {
			t.Errorf("%s: nothing was evicted: %s", flags, got)
		}
	}
	for _, flags := range []string{"--seed 2", "--exact"} {
		if figure(t, bench(flags), "state_digest") == figure(t, want, "state_digest") {
			t.Errorf("%s: the same state", flags)
		}
	}
}

// TestBenchFindsTheDecisionsOfPosts sees that each decision of the moderation
// example counts: none of the seed's first posts is malformed or late.
func TestBenchFindsTheDecisionsOfPosts(t *testing.T) {
	out := must(t, "", fields("bench --work moderation --rate 500 --duration 1s --dir "+t.TempDir())...)
	if n := figure(t, out, "decisions"); n != "500 records" || figure(t, out, "kernel") != "none" {
		t.Errorf("%s", out)
	}
	if r := command(t, "", fields("bench --work moderation --users 5")...); r.code == exitOK || !strings.Contains(r.stderr, "need --work baseline") {
		t.Errorf("exit %d: %s", r.code, r.stderr)
	}
}

// TestBenchMeasuresCopiesInEitherOrder sees that each decision counts, also if partitions are
// silent: the events of a seed are the same.
func TestBenchMeasuresCopiesInEitherOrder(t *testing.T) {
	decisions := map[string]string{}
	for _, flags := range []string{"--order time", "--order arrival", "--order time --busy 1 --idle 100ms"} {
		out := must(t, "", append(strings.Fields("bench --rate 500 --repartition 2 --duration 1s --users 100 --dir "+t.TempDir()), strings.Fields(flags)...)...)
		decisions[flags] = figure(t, out, "decisions")
		if figure(t, out, "order_forced") == "" || !strings.Contains(out, "in the order of "+strings.Fields(flags)[1]) {
			t.Errorf("%s: %s", flags, out)
		}
	}
	if n := decisions["--order time"]; len(n) != len("500 records") || n != decisions["--order arrival"] || len(decisions["--order time --busy 1 --idle 100ms"]) != len(n) {
		t.Errorf("decisions: %v", decisions)
	}
	for flags, want := range map[string]string{"--order arrival": "need --repartition", "--repartition 2 --busy 5": "--busy", "--repartition 2 --rate 1 --work fraud": "needs --work baseline"} {
		if r := command(t, "", append([]string{"bench"}, strings.Fields(flags)...)...); r.code == exitOK || !strings.Contains(r.stderr, want) {
			t.Errorf("%s: exit %d: %s", flags, r.code, r.stderr)
		}
	}
}
