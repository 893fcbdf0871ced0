package e2e_test

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/afterbay/afterbay/internal/config"
	"github.com/afterbay/afterbay/internal/pipeline"
	"github.com/afterbay/afterbay/internal/process/builtin"
	"github.com/afterbay/afterbay/internal/spec"
)

// block returns the text of a code block of a page that contains a text.
func block(t *testing.T, page, contains string) string {
	t.Helper()
	readme, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	for i, part := range strings.Split(string(readme), "```") {
		if i%2 == 1 && strings.Contains(part, contains) {
			_, text, _ := strings.Cut(part, "\n")
			return text
		}
	}
	t.Fatalf("%s has no code block with %q", page, contains)
	return ""
}

func TestReadmePipelineIsRightButForItsModel(t *testing.T) {
	file, err := config.Parse("README.md", []byte(block(t, "README.md", "pipeline: fraud")), builtin.Kinds())
	if err != nil {
		t.Fatal(err)
	}
	_, err = builtin.New(file.Pipelines[0], pipeline.Options{})
	var errs spec.Problems
	if !errors.As(err, &errs) || len(errs) != 1 || errs[0].Path != "models.fraud.file" {
		t.Errorf("want the missing model alone: %v", err)
	}
}

// TestReadmeCommandsWork runs the commands as typed, in a folder of the test.
func TestReadmeCommandsWork(t *testing.T) {
	t.Parallel() // it waits more than it computes
	script := "go -C examples run ./fraud/generate --events 100000 > events.ndjson\n" + block(t, "README.md", "afterbay init") + block(t, "README.md", "produce transactions")
	out := runScript(t, "fraud", script, 4995) // all but its five dead letters
	for _, want := range []string{"wrote ", "decide ", "listening on", "appended 5000 records", `"action":"allow"`} {
		if !strings.Contains(out, want) {
			t.Errorf("no %q in\n%s", want, out)
		}
	}
	if !regexp.MustCompile(`pipeline fraud: (499[5-9]|5000) events`).MatchString(out) {
		t.Errorf("not all events were processed:\n%s", out)
	}
}

// runScript runs commands of a page about an example as typed, in a folder of the
// test, with 5,000 events, the next after the process has made its data directory, as
// who types is slower than a busy machine. Before they end it, so many are decided.
func runScript(t *testing.T, example, script string, decided int) string {
	t.Helper()
	dir := t.TempDir()
	root, err := filepath.Abs(".")
	if err != nil {
		t.Fatal(err)
	}
	script = strings.NewReplacer(
		"go build -o bin/", "go -C "+root+" build -o "+dir+"/bin/", "go -C examples run", "go -C "+root+"/examples run",
		"examples/"+example+"/pipeline.yaml", root+"/examples/"+example+"/pipeline.yaml --listen 127.0.0.1:0",
		"examples/"+example+"/", root+"/examples/"+example+"/", "--events 100000", "--events 5000", "--posts 100000", "--posts 5000",
		"kill %1", fmt.Sprintf("bin/afterbay tail decisions --data data --follow --limit %d > /dev/null\nkill %%1\nwait %%1", decided),
		"--data data &", "--data data &\nuntil [ -e data/META ]; do kill -0 $!; sleep 0.05; done\ntrue",
	).Replace(script)
	command := exec.CommandContext(t.Context(), "bash", "-e", "-c", "trap 'kill $(jobs -p) 2> /dev/null || true' EXIT\n"+script)
	command.Dir, command.WaitDelay = dir, time.Minute // where what it began goes on, and has its output open
	out, err := command.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s\n%s", err, script, out)
	}
	return string(out)
}
