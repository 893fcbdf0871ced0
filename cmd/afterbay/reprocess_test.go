package main

import (
	"encoding/json"
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/afterbay/afterbay/internal/event/header"
	"github.com/afterbay/afterbay/internal/ops/explain"
)

var (
	killSeed  = flag.Int64("rederive.seed", 1, "seed of the kills of pipelines that are derived again")
	killCount = flag.Int("rederive.kills", 4, "kills of TestKilledDerivationsAreResumedAndSwitchesHappenedOrNot")
)

// limitPipeline decides by a limit, with features.
func limitPipeline(limit int) string {
	return fmt.Sprintf(`pipeline: limits
input:
  topic: orders
  partitions: 2
  key: customer
  fields: {customer: string, amount: number}
constants: {limit: %d}
steps:
  - features:
      spent: {value: amount, windows: [24h], aggregates: [sum]}
  - decide: {action: 'spent.sum_24h > limit ? "review" : "allow"'}
  - emit: {topic: decided, value: [customer, spent.sum_24h, action]}
`, limit)
}

func orders(from, n int) string {
	var b strings.Builder
	for i := from; i < from+n; i++ {
		fmt.Fprintf(&b, `{"customer":"c%d","amount":%d}`+"\n", i%7, i)
	}
	return b.String()
}

func mustHave(t *testing.T, text string, want ...string) {
	t.Helper()
	for _, w := range want {
		if !strings.Contains(text, w) {
			t.Errorf("lacks %q:\n%s", w, text)
		}
	}
}

// TestStoppedPipelineIsDerivedAgainAndSwitched does it in the process of the command.
func TestStoppedPipelineIsDerivedAgainAndSwitched(t *testing.T) {
	if apart(t) {
		return
	}
	t.Chdir(t.TempDir())
	write(t, "limits.yaml", limitPipeline(100))
	must(t, orders(0, 100), "produce", "orders", "--partitions", "2", "--key", "customer")
	must(t, "", "run", "limits.yaml", "--listen", "none", "--until-idle")
	if r := command(t, "", "reprocess", "limits.yaml"); r.code == exitOK || !strings.Contains(r.stderr, "nothing needs reprocessing") {
		t.Errorf("of an unchanged file: %+v", r)
	}
	write(t, "new.yaml", limitPipeline(500))
	mustHave(t, must(t, "", "reprocess", "new.yaml", "--dry-run"), "100 events of limits would be reprocessed: 100 outputs, 0 dead letters", "nothing outside of the process")
	mustHave(t, must(t, "", "reprocess", "new.yaml", "--compare", "--plot", "plot.svg"), "decided: ", "of 100 outputs differ", `action: `, ` times "review" -> "allow"`, "spent_sum_24h: 0 differ")
	if plot, err := os.ReadFile("plot.svg"); err != nil || !strings.Contains(string(plot), "decided: spent_sum_24h") {
		t.Errorf("the plot: %v: %.200s", err, plot)
	}
	mustHave(t, must(t, "", "reprocess", "new.yaml"), "generation 2 of limits: 100 events reprocessed, to limits.g2.decided, limits.g2.limits.dlq", "--switch")
	live, derived := must(t, "", "tail", "decided"), must(t, "", "tail", "limits.g2.decided")
	if strings.Count(derived, "\n") != 100 || strings.Count(derived, "review") >= strings.Count(live, "review") {
		t.Errorf("derived %d decisions, %d to review, of which there were %d", strings.Count(derived, "\n"), strings.Count(derived, "review"), strings.Count(live, "review"))
	}
	if got := must(t, "", "tail", "decided", "--view"); got != live {
		t.Errorf("the view moved before the switch: %s", got)
	}
	mustHave(t, must(t, "", "reprocess", "new.yaml", "--switch"), "partition 0: live from offset", "partition 1: live from offset", "run new.yaml from now on")
	mustHave(t, must(t, "", "reprocess", "new.yaml", "--switch"), "generation 2 of limits", "partition 1: live from offset", "run new.yaml from now on")
	if got := must(t, "", "tail", "decided", "--view"); got != derived {
		t.Errorf("the view did not move: %s", got)
	}
	if r := command(t, "", "run", "limits.yaml", "--listen", "none", "--until-idle"); r.code != exitInvalid || !strings.Contains(r.stderr, "was reprocessed and handed over to generation 2") {
		t.Errorf("the file of before: %+v", r)
	}
	must(t, orders(100, 10), "produce", "orders", "--key", "customer")
	must(t, "", "run", "new.yaml", "--listen", "none", "--until-idle")
	if got, view := must(t, "", "tail", "decided"), must(t, "", "tail", "decided", "--view"); strings.Count(got, "\n") != 110 || strings.Count(view, "\n") != 110 {
		t.Errorf("%d decisions, %d in the view, of 110 events", strings.Count(got, "\n"), strings.Count(view, "\n"))
	}
	mustHave(t, must(t, "", "generations", "limits"), "generation 2: reprocessed from", " on, live in 2 of 2 partitions", "FINGERPRINT") // it has no models
	if got := must(t, "", "generations", "limits", "--json"); !strings.Contains(got, `"mixed":false`) || strings.Count(got, `"fingerprint":"`) != 2 || strings.Count(got, `"generation":2`) != 3 {
		t.Error(got)
	}
	mustHave(t, must(t, "", "lag", "limits"), "limits")
}

// TestMixedGenerationsAreShown changes a pipeline in place, and lets it compute one
// partition alone.
func TestMixedGenerationsAreShown(t *testing.T) {
	t.Chdir(t.TempDir())
	write(t, "limits.yaml", limitPipeline(100))
	must(t, orders(0, 100), "produce", "orders", "--partitions", "2", "--key", "customer")
	must(t, "", "run", "limits.yaml", "--listen", "none", "--until-idle")
	if got := must(t, "", "generations", "limits", "--json"); !strings.Contains(got, `"mixed":false`) {
		t.Error(got)
	}
	write(t, "limits.yaml", limitPipeline(200))
	must(t, orders(0, 1), "produce", "orders", "--key", "customer")
	must(t, "", "run", "limits.yaml", "--listen", "none", "--until-idle")
	mustHave(t, must(t, "", "generations", "limits"), "mixed: partitions have different generations")
}

// TestRunningPipelineIsDerivedAgainAndSwitched does it in the process that holds the
// directory, which then runs the new file.
func TestRunningPipelineIsDerivedAgainAndSwitched(t *testing.T) {
	t.Chdir(t.TempDir())
	write(t, "limits.yaml", limitPipeline(100))
	must(t, orders(0, 100), "produce", "orders", "--partitions", "2", "--key", "customer")
	out, end := background(t, "run", "limits.yaml", "--listen", "127.0.0.1:0")
	out.wait(t, "afterbay tail decided --follow")
	follow, endFollow := background(t, "tail", "decided", "--follow")
	follow.wait(t, `"spent_sum_24h":750`) // the last of c1, which is in one partition,
	follow.wait(t, `"spent_sum_24h":735`) // and of c0, which is in the other
	write(t, "new.yaml", limitPipeline(500))
	mustHave(t, must(t, "", "reprocess", "new.yaml", "--rate", "10000", "--switch", "--compare"), "of 100 outputs differ", "generation 2 of limits: 100 events", "partition 1: live from offset")
	endFollow()
	must(t, orders(100, 10), "produce", "orders", "--key", "customer")
	follow, endFollow = background(t, "tail", "decided", "--follow", "--headers")
	follow.wait(t, " 2\"")
	endFollow()
	if r := command(t, "", "reprocess", "new.yaml"); r.code == exitOK || !strings.Contains(r.stderr, "nothing needs reprocessing") {
		t.Errorf("the new file again: %+v", r)
	}
	if code := end(); code != exitOK {
		t.Errorf("exit code %d: %s", code, out)
	}
	mustHave(t, out.String(), "pipeline limits: 100 events", "pipeline limits: 10 events")
	if n := strings.Count(must(t, "", "tail", "decided", "--view"), "\n"); n != 110 {
		t.Errorf("%d decisions in the view of 110 events", n)
	}
}

// made is a decision as a reader sees it.
type made struct {
	value      string
	generation string
	offset     int64 // of its event
	partition  string
}

// decisions returns those of a topic by the id of their event, each of which is
// there once.
func decisions(t *testing.T, topic string, more ...string) map[string]made {
	t.Helper()
	all := map[string]made{}
	for line := range strings.Lines(must(t, "", append([]string{"tail", topic, "--headers"}, more...)...)) {
		var r struct {
			Value   json.RawMessage
			Headers [][2]string
		}
		if err := json.Unmarshal([]byte(line), &r); err != nil {
			t.Fatalf("%s: %v", line, err)
		}
		var m made
		id := ""
		for _, h := range r.Headers {
			switch h[0] {
			case "afterbay-id":
				id = h[1]
			case "afterbay-pipeline":
				m.generation = h[1][strings.LastIndexByte(h[1], ' ')+1:]
			case "afterbay-position":
				if _, err := fmt.Sscanf(strings.NewReplacer("/", " ", "@", " ").Replace(h[1]), "orders %s %d", &m.partition, &m.offset); err != nil {
					t.Fatalf("%s: %v", h[1], err)
				}
			}
		}
		m.value = string(r.Value)
		if _, twice := all[id]; twice {
			t.Fatalf("%s has %s twice", topic, id)
		}
		all[id] = m
	}
	return all
}

// handovers returns the generations that each partition was given, by the offset
// from which on. Each is given both partitions or none.
func handovers(t *testing.T) map[string]map[int64]string {
	t.Helper()
	at, given := map[string]map[int64]string{"0": {}, "1": {}}, map[int]int{}
	for line := range strings.Lines(must(t, "", "tail", "limits.generations")) {
		var e struct {
			Live *struct {
				Generation, Partition int
				Offset                int64
			}
		}
		if err := json.Unmarshal([]byte(line), &e); err != nil {
			t.Fatal(err)
		}
		if e.Live != nil {
			at[fmt.Sprint(e.Live.Partition)][e.Live.Offset] = fmt.Sprint(e.Live.Generation)
			given[e.Live.Generation]++
		}
	}
	for n, partitions := range given {
		if partitions != 2 {
			t.Fatalf("generation %d was given %d of 2 partitions", n, partitions)
		}
	}
	return at
}

// TestKilledDerivationsAreResumedAndSwitchesHappenedOrNot kills, by signal 9, the
// process that derives a pipeline again while events come, with the command that
// asked for it, and then goes on with the same command, or derives the next
// generation where the switch had happened.
func TestKilledDerivationsAreResumedAndSwitchesHappenedOrNot(t *testing.T) {
	if apart(t) {
		return
	}
	t.Chdir(t.TempDir())
	file := func(n int) string {
		name := fmt.Sprintf("%d.yaml", n)
		write(t, name, limitPipeline(n*20_000))
		return name
	}
	total, now := 10_000, 1
	must(t, orders(0, total), "produce", "orders", "--partitions", "2", "--key", "customer")
	must(t, "", "run", file(now), "--listen", "none", "--until-idle")
	rng := rand.New(rand.NewPCG(uint64(*killSeed), 0))
	for i := range *killCount {
		running, out := killable(t, "run", file(now), "--listen", "127.0.0.1:0")
		out.wait(t, "afterbay tail decided --follow")
		job, said := killable(t, "reprocess", file(now+1), "--switch", "--rate", "20000", "--json")
		must(t, orders(total, 100), "produce", "orders", "--key", "customer")
		total += 100
		after := time.Duration(rng.Int64N(int64(1500 * time.Millisecond)))
		if i%2 == 0 { // about when it switches
			said.wait(t, `"caught_up":true`)
			after /= 50
		}
		time.Sleep(after)
		for _, c := range []*exec.Cmd{running, job} {
			_ = c.Process.Kill() // the job may be done
			_ = c.Wait()
		}
		switched := slices.Contains(slices.Collect(maps.Values(handovers(t)["0"])), fmt.Sprint(now+1))
		t.Logf("kill %d, after %v: generation %d has taken over: %t", i+1, after.Round(time.Millisecond), now+1, switched)
		if switched {
			now++
		}
	}
	must(t, "", "run", file(now), "--listen", "none", "--until-idle")
	must(t, "", "reprocess", file(now+1), "--switch")
	now++
	must(t, "", "run", file(now), "--listen", "none", "--until-idle")
	checkKilled(t, file(now), now, total)
}

// checkKilled sees that each event has one decision, of the generation that its
// offset was given, and that the view is what the newest would have made alone.
func checkKilled(t *testing.T, file string, newest, total int) {
	t.Helper()
	at, live := handovers(t), decisions(t, "decided")
	view, derived := decisions(t, "decided", "--view"), decisions(t, fmt.Sprintf("limits.g%d.decided", newest))
	if len(live) != total || len(view) != total {
		t.Fatalf("seed %d: %d decisions, %d in the view, of %d events", *killSeed, len(live), len(view), total)
	}
	for id, m := range live {
		want := "1"
		for _, from := range slices.Sorted(maps.Keys(at[m.partition])) {
			if m.offset >= from {
				want = at[m.partition][from]
			}
		}
		if _, ok := derived[id]; m.generation != want || ok != (want != fmt.Sprint(newest)) {
			t.Fatalf("seed %d: %s is of generation %s, and derived again: %t; its event is at %s@%d, handed over were %v", *killSeed, id, m.generation, ok, m.partition, m.offset, at)
		}
	}
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	write(t, "fresh.yaml", strings.NewReplacer("pipeline: limits", "pipeline: fresh", "topic: decided", "topic: anew").Replace(string(text)))
	must(t, "", "run", "fresh.yaml", "--listen", "none", "--until-idle")
	want := decisions(t, "anew")
	for id, m := range view {
		if w := want[strings.NewReplacer("limits:", "fresh:", ":decided", ":anew").Replace(id)]; m.value != w.value || m.generation != fmt.Sprint(newest) {
			t.Fatalf("seed %d: the view has %s as %+v; a pipeline that alone ever ran makes %s", *killSeed, id, m, w.value)
		}
	}
}

// TestDerivedIntoTopics derives into topics, in a process of its own and in that which
// runs the pipeline.
func TestDerivedIntoTopics(t *testing.T) {
	t.Chdir(t.TempDir())
	write(t, "limits.yaml", limitPipeline(100))
	write(t, "new.yaml", limitPipeline(500))
	must(t, orders(0, 100), "produce", "orders", "--partitions", "2", "--key", "customer")
	must(t, "", "run", "limits.yaml", "--listen", "none", "--until-idle")
	live := must(t, "", "tail", "decided")
	got := must(t, "", "reprocess", "new.yaml", "--into", "history", "--compare")
	mustHave(t, got, "generation 2 of limits: 100 events reprocessed, to history, limits.g2.limits.dlq", "decided: ", "of 100 outputs differ", `action: `, ` times "review" -> "allow"`, "spent_sum_24h: 0 differ")
	if strings.Contains(got, "--switch") {
		t.Errorf("it offers a switch: %s", got)
	}
	for _, refused := range [][]string{{"--into", "orders"}, {"--into", "decided"}, {"--into", "history", "--switch"}} {
		if r := command(t, "", append([]string{"reprocess", "new.yaml"}, refused...)...); r.code == exitOK || !strings.Contains(r.stderr, "into") {
			t.Errorf("%v: %+v", refused, r)
		}
	}
	out, end := background(t, "run", "limits.yaml", "--listen", "127.0.0.1:0")
	out.wait(t, "afterbay tail decided --follow")
	mustHave(t, must(t, "", "reprocess", "new.yaml", "--into", "decided=other", "--into", "limits.dlq=bad"), "generation 3 of limits: 100 events reprocessed, to other, bad")
	if code := end(); code != exitOK {
		t.Errorf("exit code %d: %s", code, out)
	}
	if history, other := decisions(t, "history"), decisions(t, "other"); len(history) != 100 || len(other) != 100 {
		t.Errorf("%d and %d decisions of 100 events", len(history), len(other))
	}
	if now := must(t, "", "tail", "decided"); now != live {
		t.Errorf("the live topic changed: %s", now)
	}
	explainDerived(t)
	mustHave(t, must(t, "", "generations", "limits"), "live in 0 of 2 partitions")
}

// TestDerivedFromAState begins with the state that an ended generation has, and with
// that of the live one.
func TestDerivedFromAState(t *testing.T) {
	t.Chdir(t.TempDir())
	write(t, "limits.yaml", limitPipeline(100))
	write(t, "new.yaml", limitPipeline(500))
	must(t, orders(0, 100), "produce", "orders", "--partitions", "2", "--key", "customer")
	must(t, "", "run", "limits.yaml", "--listen", "none", "--until-idle")
	mustHave(t, must(t, "", "reprocess", "limits.yaml", "--to", "2100-01-01T00:00:00Z"), "generation 2 of limits: 100 events")
	mustHave(t, must(t, "", "reprocess", "new.yaml", "--from-state", "live"), "generation 3 of limits: 0 events", "next: start the pipeline")
	must(t, orders(100, 50), "produce", "orders", "--key", "customer")
	mustHave(t, must(t, "", "reprocess", "new.yaml", "--from-state", "2", "--dry-run"), "0 events of limits would be")
	out, end := background(t, "run", "limits.yaml", "--listen", "127.0.0.1:0")
	out.wait(t, "afterbay tail decided --follow")
	if r := command(t, "", "reprocess", "limits.yaml", "--from-state", "live"); r.code == exitOK || !strings.Contains(r.stderr, "Stop the process") {
		t.Errorf("of a pipeline that runs: %+v", r)
	}
	follow, endFollow := background(t, "tail", "decided", "--follow")
	for _, last := range []string{`"c0","spent_sum_24h":1617`, `"c1","spent_sum_24h":1639`, `"c2","spent_sum_24h":1661`} { // the last of each partition is among them
		follow.wait(t, last)
	}
	endFollow()
	for _, state := range []string{"2", "live"} {
		mustHave(t, must(t, "", "reprocess", "new.yaml", "--from-state", state, "--compare"), ": 50 events reprocessed", "of 50 outputs differ", "; 0 exist only before, 0 only now", "spent_sum_24h: 0 differ")
	}
	if code := end(); code != exitOK {
		t.Errorf("exit code %d: %s", code, out)
	}
	if r := command(t, "", "reprocess", "new.yaml", "--from-state", "2", "--switch"); r.code == exitOK || !strings.Contains(r.stderr, "leave out switch") {
		t.Errorf("a switch: %+v", r)
	}
}

// TestKilledDerivationsIntoTopicsAreResumed kills, by signal 9, the process that derives
// into a topic, from the state of an ended generation, and goes on with the same
// command: each event behind that state is in the topic once.
func TestKilledDerivationsIntoTopicsAreResumed(t *testing.T) {
	if apart(t) {
		return
	}
	t.Chdir(t.TempDir())
	write(t, "limits.yaml", limitPipeline(100))
	write(t, "new.yaml", limitPipeline(5000))
	must(t, orders(0, 1000), "produce", "orders", "--partitions", "2", "--key", "customer")
	must(t, "", "run", "limits.yaml", "--listen", "none", "--until-idle")
	must(t, "", "reprocess", "limits.yaml", "--to", "2100-01-01T00:00:00Z")
	must(t, orders(1000, 5000), "produce", "orders", "--key", "customer")
	must(t, "", "run", "limits.yaml", "--listen", "none", "--until-idle")
	rng := rand.New(rand.NewPCG(uint64(*killSeed), 1))
	ask := []string{"reprocess", "new.yaml", "--from-state", "2", "--into", "history"}
	for range *killCount {
		job, _ := killable(t, append(ask, "--rate", "2000", "--json")...)
		after := time.Duration(rng.Int64N(int64(1500 * time.Millisecond)))
		time.Sleep(after)
		_ = job.Process.Kill() // the job may be done
		_ = job.Wait()
		t.Logf("killed after %v", after.Round(time.Millisecond))
	}
	must(t, "", ask...)
	was, got := decisions(t, "decided"), decisions(t, "history")
	if len(got) != 5000 {
		t.Fatalf("seed %d: %d decisions in the topic, of 5000 events", *killSeed, len(got))
	}
	for id, m := range got {
		sum := func(m made) string { s, _, _ := strings.Cut(m.value, `,"action"`); return s }
		if was[id].offset != m.offset || sum(was[id]) != sum(m) {
			t.Fatalf("seed %d: %s is %+v, and was %+v", *killSeed, id, m, was[id])
		}
	}
}

// explainDerived explains an event and its records where a copy in history and one in
// other have the ids of the live ones.
func explainDerived(t *testing.T) {
	t.Helper()
	var record struct{ Headers [][2]string }
	if err := json.Unmarshal([]byte(must(t, "", "tail", "decided", "--headers", "--partition", "0", "--limit", "1")), &record); err != nil {
		t.Fatal(err)
	}
	id := ""
	for _, h := range record.Headers {
		if h[0] == header.ID {
			id = h[1]
		}
	}
	for line, want := range map[string]string{
		id + " limits.yaml": "decided/0@0", "decided/0@0 limits.yaml": "decided/0@0", "history/0@0 new.yaml": "history/0@0",
		"orders/0@0 limits.yaml": "decided/0@0", "orders/0@0 new.yaml": "history/0@0",
	} {
		var report explain.Report
		if err := json.Unmarshal([]byte(must(t, "", append([]string{"explain", "--json"}, fields(line)...)...)), &report); err != nil {
			t.Fatal(err)
		}
		if len(report.Replays) != 1 || !report.Replays[0].Same {
			t.Errorf("%s: %+v", line, report.Replays)
		}
		if report.Output != nil && report.Output.Position != want {
			t.Errorf("%s: it takes %s, want %s", line, report.Output.Position, want)
		}
	}
	out := must(t, "", "explain", "history/0@0", "limits.yaml")
	if !strings.Contains(out, "the pipeline was ") {
		t.Errorf("the copy by the file of the live one: %s", out)
	}
}
