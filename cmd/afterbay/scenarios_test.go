package main

import (
	"bytes"
	"log/slog"
	"os"
	"strings"
	"testing"
)

const countsScenario = `# The second pipeline doubles what the first counts.
pipeline counts.yaml

event 10:00:00 {"k": "a"}
  mid {"k": "a", "seen_count_24h": 1}
  out {"k": "a", "twice": 2}
crash
event 10:00:01 {"k": "a"}
  mid {"k": "a", "seen_count_24h": 2}
  out {"k": "a", "twice": 4}
`

// testScenarios runs the command without a command line.
func testScenarios(t *testing.T, c testCommand) (stdout string, code int) {
	t.Helper()
	var out, log bytes.Buffer
	err := c.Run(&app{ctx: t.Context(), stdout: &out, stderr: &log, log: slog.New(slog.DiscardHandler)})
	if err != nil {
		out.WriteString(err.Error() + "\n")
	}
	return out.String(), exitCode(err)
}

func TestScenariosOfAUserAreRun(t *testing.T) {
	t.Chdir(t.TempDir())
	write(t, "counts.yaml", countsPipeline)
	write(t, "right.txt", countsScenario)
	write(t, "wrong.txt", strings.Replace(countsScenario, `"twice": 4`, `"twice": 5`, 1))
	write(t, "bad.txt", strings.Replace(countsScenario, "crash", "crush", 1))
	out, code := testScenarios(t, testCommand{Files: []string{"right.txt", "wrong.txt", "bad.txt", "missing.txt"}})
	for _, want := range []string{
		"ok    right.txt\nFAIL  wrong.txt\n    wrong.txt:8: event 10:00:01 {\"k\": \"a\"}\n      mid {\"k\":\"a\",\"seen_count_24h\":2}\n    - out {\"k\": \"a\", \"twice\": 5}\n    + out {\"k\":\"a\",\"twice\":4}\n",
		"FAIL  bad.txt\n    bad.txt:7: unknown command \"crush\"",
		"FAIL  missing.txt\n    read scenario: open missing.txt",
		"3 of 4 scenarios failed",
	} {
		if !strings.Contains(out, want) {
			t.Errorf("got\n%s\nwant\n%s", out, want)
		}
	}
	if code != exitFailure {
		t.Errorf("exit %d", code)
	}
	out, code = testScenarios(t, testCommand{Files: []string{"right.txt", "wrong.txt"}, Update: true})
	if code != exitOK || out != "ok    right.txt\nok    wrong.txt\n2 scenarios passed\n" {
		t.Errorf("exit %d: %s", code, out)
	}
	if text, err := os.ReadFile("wrong.txt"); err != nil || !strings.Contains(string(text), `"twice":4`) {
		t.Errorf("%v: %s", err, text)
	}
}
