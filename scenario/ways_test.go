package scenario

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"
)

func prepared(t *testing.T, file string) *world {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	s, err := Parse(file, text)
	if err != nil {
		t.Fatal(err)
	}
	w, err := s.prepare(Options{})
	if err != nil {
		t.Fatal(err)
	}
	return w
}

func TestProcessesAreKilledAtEveryStage(t *testing.T) {
	w := prepared(t, "feedback-one-batch.txt")
	for _, v := range ways {
		out, err := w.run(t.Context(), v, filepath.Join(t.TempDir(), "log"))
		if err != nil {
			t.Fatal(err)
		}
		for _, stage := range v.kills {
			if out.killed[stage] != 1 {
				t.Errorf("%s: %d processes were killed at %s", v.name, out.killed[stage], stage)
			}
		}
		if len(out.killed) != len(v.kills) {
			t.Errorf("%s: killed at %v", v.name, out.killed)
		}
	}
}

func TestCrashesOfAScenarioHappenInEveryWay(t *testing.T) {
	for _, stage := range stages {
		w := prepared(t, "crash-"+stage+".txt")
		for _, v := range ways {
			v.kills = nil
			out, err := w.run(t.Context(), v, filepath.Join(t.TempDir(), "log"))
			if err != nil {
				t.Fatal(err)
			}
			// a step of one event is committed before the next turn
			if want := 1; out.killed[stage] != want && !(stage == "read" && v.step > 0) {
				t.Errorf("%s: killed at %v, want once at %s", v.name, out.killed, stage)
			}
		}
	}
}

func TestDifferenceSeesEveryByte(t *testing.T) {
	w := prepared(t, "dead-headers.txt")
	one, err := w.run(t.Context(), ways[0], "")
	if err != nil {
		t.Fatal(err)
	}
	again := func() *outcome {
		out, err := w.run(t.Context(), ways[0], "")
		if err != nil {
			t.Fatal(err)
		}
		return out
	}
	if d := one.difference(again()); d != "" {
		t.Fatal(d)
	}
	for name, records := range one.records {
		for i, text := range records {
			for _, at := range []int{1, len(text) / 2, len(text) - 2} {
				other := again()
				other.records[name] = slices.Clone(records)
				other.records[name][i] = text[:at] + "~" + text[at+1:]
				if one.difference(other) == "" {
					t.Errorf("byte %d of %s goes unseen", at, text)
				}
			}
		}
		other := again()
		delete(other.records, name)
		if one.difference(other) == "" || other.difference(one) == "" {
			t.Errorf("%s may be missing", name)
		}
	}
	other := again()
	other.state = other.state[1:]
	if one.difference(other) == "" {
		t.Error("state may be missing")
	}
	other = again()
	other.transcript[len(other.transcript)-1] = []string{"x"}
	if one.difference(other) == "" {
		t.Error("the transcript may differ")
	}
}

func TestDiffShowsWhatIsCommon(t *testing.T) {
	for _, c := range []struct {
		want, got []string
		text      string
	}{
		{nil, nil, ""},
		{[]string{"a", "b", "c"}, []string{"a", "c"}, "  a\n- b\n  c"},
		{[]string{"a", "c"}, []string{"a", "b", "c"}, "  a\n+ b\n  c"},
		{[]string{"x", "b", "y"}, []string{"z", "b"}, "- x\n+ z\n  b\n- y"},
		{[]string{"a", "b", "a", "b"}, []string{"b", "a"}, "- a\n  b\n  a\n- b"},
		{[]string{`t {"a": 1}`}, []string{`t {"a":1}`}, `  t {"a":1}`},
		{[]string{`t key=a b: c ...`}, []string{`t key=a b: c d`}, `  t key=a b: c d`},
	} {
		text, same := diff(c.want, c.got)
		if text != c.text || same != (!containsMark(text)) {
			t.Errorf("diff of %q and %q is %q, %v", c.want, c.got, text, same)
		}
	}
	long := make([]string, 1000)
	for i := range long {
		long[i] = string(rune('a' + i%7))
	}
	if text, same := diff(long, append(slices.Clone(long[1:]), "b")); same || text == "" {
		t.Error("long lists")
	}
}

func containsMark(text string) bool {
	for _, line := range slices.Collect(linesOf(text)) {
		if line != "" && line[0] != ' ' {
			return true
		}
	}
	return false
}

func linesOf(text string) func(func(string) bool) {
	return func(yield func(string) bool) {
		for start, i := 0, 0; i <= len(text); i++ {
			if i == len(text) || text[i] == '\n' {
				if !yield(text[start:i]) {
					return
				}
				start = i + 1
			}
		}
	}
}

func TestTimesAreReadAsTheyAreWritten(t *testing.T) {
	p := &parser{}
	for _, c := range []struct{ text, want string }{
		{"10:00:05", "2026-01-01T10:00:05Z"},
		{"10:00", "2026-01-01T10:00:00Z"},
		{"23:59:59.999999", "2026-01-01T23:59:59.999999Z"},
		{"+1.5s", "2026-01-01T12:00:01.5Z"},
		{"-24h", "2025-12-31T12:00:00Z"},
		{"2026-01-03T10:00:00+01:00", "2026-01-03T09:00:00Z"},
	} {
		got, err := p.time(c.text, day.Add(12*time.Hour))
		if err != nil || got.Format(time.RFC3339Nano) != c.want {
			t.Errorf("%s is %v, %v", c.text, got, err)
		}
		if back, err := p.time(clock(got), day); err != nil || !back.Equal(got) {
			t.Errorf("%s is written as %s: %v", c.text, clock(got), err)
		}
	}
}

func TestFieldOfTheTimeIsAddedInItsUnit(t *testing.T) {
	at := day.Add(time.Second + 1500*time.Microsecond)
	for unit, want := range map[string]string{"s": "1767225601", "ms": "1767225601001", "us": "1767225601001500", "ns": "1767225601001500000", "rfc3339": `"2026-01-01T00:00:01.0015Z"`} {
		text := timeText(at, unit)
		if text != want {
			t.Errorf("%s: %s", unit, text)
		}
		if back := readTime([]byte(text), unit, time.Time{}); back.IsZero() || at.Sub(back) >= time.Second {
			t.Errorf("%s: %s is read as %v", unit, text, back)
		}
	}
	if got := string(appendField([]byte(`{"a": 1} `), "at", "5", true)); got != `{"a": 1, "at": 5}` {
		t.Error(got)
	}
	if got := string(appendField([]byte(`{}`), "at", "5", false)); got != `{"at": 5}` {
		t.Error(got)
	}
	if got := readTime([]byte("1.5"), "s", day); !got.Equal(time.UnixMilli(1500)) {
		t.Errorf("1.5 s is %v", got)
	}
	for _, text := range []string{"", "x", "1e300", "99999999999999999999", "9223372036854775807", "-9223372036854775808"} {
		if got := readTime([]byte(text), "s", day); !got.Equal(day) {
			t.Errorf("%s is %v", text, got)
		}
	}
}

// FuzzScenario sees that no text makes the parser or the runner panic, and that
// what is wrong with one is said with its line.
func FuzzScenario(f *testing.F) {
	files, err := filepath.Glob("*.txt")
	if err != nil {
		f.Fatal(err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		s, err := Parse("fuzz.txt", text)
		if err != nil {
			var at *Error
			if !errors.As(err, &at) || at.Line < 1 || at.Line > bytes.Count(text, []byte("\n"))+1 {
				t.Errorf("an error without its line: %v", err)
			}
			return
		}
		events := 0
		for _, c := range s.commands {
			if c.event != nil {
				events += c.event.times
			}
			if c.word == "pipeline" && len(c.args) > 0 {
				return // fuzzing reads no files
			}
		}
		if events > 20 || s.partitions > 3 {
			return
		}
		_, _ = s.runIn(t.Context(), ways[:1], Options{}) // a pipeline may be wrong in many ways
	})
}
