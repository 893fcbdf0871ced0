package scenario_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/afterbay/afterbay/internal/lang"
	"github.com/afterbay/afterbay/scenario"
	"github.com/afterbay/afterbay/udf"
)

const visits = `# Each page counts its visits.
pipeline
  pipeline: visits
  input:
    topic: visits
    key: page
    fields: {page: string}
  steps:
    - features:
        seen: {windows: [1h], aggregates: [count]}
    - emit: {topic: counts, value: [page, seen.count_1h]}

event 10:00:00 {"page": "home"}
  counts {"page": "home", "seen_count_1h": 1}
event +1s {"page": "home"}
  counts {"page": "home", "seen_count_1h": 2}
state home
  10:00:01 seen.count_1h=2
`

// run runs a scenario that is not in a file.
func run(t *testing.T, text string, code lang.Code) []scenario.Failure {
	t.Helper()
	s, err := scenario.Parse("visits.txt", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	failures, err := s.Run(t.Context(), scenario.Options{Code: code})
	if err != nil {
		t.Fatal(err)
	}
	return failures
}

func TestWhatIsNotAsWrittenIsAFailure(t *testing.T) {
	if failures := run(t, visits, lang.Code{}); failures != nil {
		t.Fatal(failures)
	}
	for _, c := range []struct{ name, old, new, want string }{
		{
			"a byte of an output", `1h": 2}`, `1h": 3}`,
			"visits.txt:15: event +1s {\"page\": \"home\"}\n- counts {\"page\": \"home\", \"seen_count_1h\": 3}\n+ counts {\"page\":\"home\",\"seen_count_1h\":2}",
		},
		{"a topic", `  counts {"page": "home", "seen_count_1h": 1}`, `  count {"page": "home", "seen_count_1h": 1}`, "visits.txt:13: event"},
		{"the order of fields", `{"page": "home", "seen_count_1h": 1}`, `{"seen_count_1h": 1, "page": "home"}`, "visits.txt:13: event"},
		{"an output that is not expected", "  counts {\"page\": \"home\", \"seen_count_1h\": 1}\n", "", "visits.txt:13: event 10:00:00 {\"page\": \"home\"}\n+ counts"},
		{"an output that does not come", "{\"page\": \"home\"}\n  counts {\"page\": \"home\", \"seen_count_1h\": 1}\n", "{\"page\": \"home\"}\n  counts {\"page\": \"home\", \"seen_count_1h\": 1}\n  late\n", "\n  counts {\"page\":\"home\",\"seen_count_1h\":1}\n- late"},
		{"state", "seen.count_1h=2", "seen.count_1h=1", "visits.txt:17: state home\n- 10:00:01 seen.count_1h=1\n+ 10:00:01 seen.count_1h=2"},
		{"a result of a command without", "state home", "partitions 1\n  one\nstate home", "visits.txt:17: partitions 1\n- one"},
	} {
		text := strings.Replace(visits, c.old, c.new, 1)
		if text == visits {
			t.Fatalf("%s: nothing is replaced", c.name)
		}
		if got := fmt.Sprint(run(t, text, lang.Code{})); !strings.Contains(got, c.want) {
			t.Errorf("%s: got\n%s\nwant\n%s", c.name, got, c.want)
		}
	}
}

func TestExpectationMayLeaveTheEndOpen(t *testing.T) {
	if failures := run(t, strings.Replace(visits, `{"page": "home", "seen_count_1h": 2}`, "...", 1), lang.Code{}); failures != nil {
		t.Error(failures)
	}
	if failures := run(t, strings.Replace(visits, `counts {"page": "home", "seen_count_1h": 2}`, "others ...", 1), lang.Code{}); failures == nil {
		t.Error("the start is not compared")
	}
}

func TestFunctionThatIsNotPureIsFound(t *testing.T) {
	const text = `pipeline
  pipeline: p
  input: {topic: in, key: k, fields: {k: string}}
  steps:
    - call: {go: calls, outputs: {n: int}}
    - emit: {topic: out, value: [n]}

event 10:00:00 {"k": "a"}
  out {"n": 1}
`
	var calls atomic.Int64
	failures := run(t, text, lang.Code{Functions: map[string]udf.Function{"calls": {Version: 1, Event: func(c *udf.Context) error {
		c.SetInt("n", calls.Add(1))
		return nil
	}}}})
	if got := fmt.Sprint(failures); !strings.Contains(got, "visits.txt: the same events leave different results:\n- memory log, all events at once\n+ memory log, event by event") {
		t.Error(got)
	}
}

func TestUpdateWritesWhatHappens(t *testing.T) {
	path := filepath.Join(t.TempDir(), "visits.txt")
	wrong := strings.NewReplacer("  counts {\"page\": \"home\", \"seen_count_1h\": 1}\n", "", `1h": 2}`, `1h": 3}`+"\n  late", "=2", "=3").Replace(visits)
	if err := os.WriteFile(path, []byte(wrong), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, o := range []scenario.Options{{Update: true}, {}} {
		if failures, err := scenario.Run(t.Context(), path, o); err != nil || failures != nil {
			t.Fatal(failures, err)
		}
	}
	got, err := os.ReadFile(path)
	if want := strings.ReplaceAll(visits, `counts {"page": "home", "seen_count_1h": `, `counts {"page":"home","seen_count_1h":`); err != nil || string(got) != want {
		t.Errorf("%v, got\n%s", err, got)
	}
}

func TestUpdateKeepsWhatIsRight(t *testing.T) {
	path := filepath.Join(t.TempDir(), "visits.txt")
	if err := os.WriteFile(path, []byte(strings.Replace(visits, "=2", "=3", 1)), 0o600); err != nil {
		t.Fatal(err)
	}
	if failures, err := scenario.Run(t.Context(), path, scenario.Options{Update: true}); err != nil || failures != nil {
		t.Fatal(failures, err)
	}
	if got, err := os.ReadFile(path); err != nil || string(got) != visits {
		t.Errorf("%v, got\n%s", err, got)
	}
}

func TestBadScenariosNameTheirLines(t *testing.T) {
	const head = "pipeline\n  pipeline: p\n  input: {topic: in, key: k, fields: {k: string}}\n  steps: [emit: {topic: out, value: [k]}]\n"
	for _, c := range []struct{ text, want string }{
		{"", "x.txt:1: there is no pipeline"},
		{"  indented", "x.txt:1: an indented line needs a command above it"},
		{head + "evnet {}", `x.txt:5: unknown command "evnet": use pipeline, partitions, env, show, event, row, crash, state, watermark, counts`},
		{head + "event 25:00:00 {}", `x.txt:5: "25:00:00" is not a time: write it as 10:00:05, +7s or 2026-01-02T10:00:05Z`},
		{head + "event +x {}", `x.txt:5: "+x" is not a distance in time`},
		{head + "event 10:00:00 11:00:00 {}", `x.txt:5: unexpected "11:00:00"`},
		{head + "event keys=a {}", `x.txt:5: unknown attribute "keys"`},
		{head + "event key=\"a {}", `x.txt:5: key="a {}: the text in double quotes does not end`},
		{head + "event 10:00:00", "x.txt:5: an event has a value"},
		{head + "event value=x {}", "x.txt:5: an event has one value"},
		{head + "event partition=1 {}", "x.txt:5: there is no partition 1"},
		{head + "event partition=-1 {}", `x.txt:5: partition "-1" is not a number from 0`},
		{head + "event times=0 {}", `x.txt:5: times "0" is not a number from 1`},
		{head + "event times=100000 {}\nevent {}", "x.txt:6: a scenario has at most 100000 events"},
		{head + "event every=1 {}", `x.txt:5: every "1" is not a duration`},
		{head + "event topic=other {}", `x.txt:5: no pipeline reads topic "other"; they read in`},
		{head + "event header.afterbay-position=x {}", "x.txt:5: header afterbay-position is written by pipelines"},
		{head + "event {}\n\n  out {}", "x.txt:7: write results directly below their command"},
		{head + "crash", "x.txt:5: nothing is in flight"},
		{head + "event {}\nstate a\ncrash", "x.txt:7: nothing is in flight"},
		{head + "event {}\ncrash now", `x.txt:6: unknown stage "now": use read, model, write, sync, after`},
		{head + "state", "x.txt:5: state takes a key"},
		{head + "state a b", `x.txt:5: no pipeline is named "b"`},
		{head + "state a b c", "x.txt:5: state takes at most 2 words"},
		{head + "partitions 0", "x.txt:5: partitions takes a number from 1 to 64"},
		{head + "show ids", `x.txt:5: unknown "ids": show takes id, key`},
		{head + "env X", "x.txt:5: env takes variables as NAME=value"},
		{head + "event {}\n" + head, "x.txt:6: write pipelines above the first event"},
		{head + "\n" + head, `x.txt:6: a second pipeline is named "p"`},
		{"pipeline", "x.txt:1: a pipeline is a file's name, or YAML indented below"},
		{"pipeline missing.yaml", "x.txt:1: open missing.yaml: no such file"},
		{"pipeline .", "x.txt:1: . is not a file"},
		{"pipeline\n  pipeline: p\n input: {}", "x.txt:3: the lines of a pipeline are indented by spaces"},
		{"# what\n\npipeline\n\n  pipeline: p\n  inputt: {}", "x.txt:6:1: inputt"},
		{strings.Replace(head, "value: [k]", "value: [kk]", 1), "x.txt:4:36: steps[0].emit.value[0]"},
		{head + "\xff", "x.txt:1: the file is not UTF-8"},
		{strings.Repeat("#\n", 1<<19+1), "x.txt:1: the file is larger than 1 MiB"},
	} {
		s, err := scenario.Parse("x.txt", []byte(c.text))
		if err == nil {
			_, err = s.Run(t.Context(), scenario.Options{})
		}
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s\ngot  %v\nwant %s", c.text[:min(len(c.text), 300)], err, c.want)
		}
	}
}

func TestMissingFileIsAnError(t *testing.T) {
	if _, err := scenario.Run(t.Context(), "missing.txt", scenario.Options{}); !errors.Is(err, os.ErrNotExist) {
		t.Error(err)
	}
}

// failing is a T that keeps what it was told.
type failing struct {
	*testing.T
	said []string
}

func (f *failing) Error(args ...any) { f.said = append(f.said, fmt.Sprint(args...)) }

func TestTestFailsWithEachFailure(t *testing.T) {
	path := filepath.Join(t.TempDir(), "visits.txt")
	if err := os.WriteFile(path, []byte(strings.Replace(visits, "=2", "=3", 1)), 0o600); err != nil {
		t.Fatal(err)
	}
	f := &failing{T: t}
	scenario.Test(f, path, scenario.Options{})
	scenario.Test(f, path+"x", scenario.Options{})
	if len(f.said) != 2 || !strings.Contains(f.said[0], "visits.txt:17: state home") || !strings.Contains(f.said[1], "read scenario") {
		t.Errorf("%q", f.said)
	}
}
