package afterbay_test

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/afterbay/afterbay"
	"github.com/afterbay/afterbay/config"
)

// block returns the text of a README code block that contains a text.
func block(t *testing.T, contains string) string {
	t.Helper()
	readme, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	for i, part := range strings.Split(string(readme), "```") {
		if i%2 == 1 && strings.Contains(part, contains) {
			_, text, _ := strings.Cut(part, "\n")
			return text
		}
	}
	t.Fatalf("README.md has no code block with %q", contains)
	return ""
}

func TestReadmePipelineIsRightButForItsModel(t *testing.T) {
	file, err := config.Parse("README.md", []byte(block(t, "pipeline: fraud")))
	if err != nil {
		t.Fatal(err)
	}
	_, err = afterbay.New(file.Pipelines[0], afterbay.Options{})
	var errs afterbay.Errors
	if !errors.As(err, &errs) || len(errs) != 1 || errs[0].Path != "models.fraud.file" {
		t.Errorf("want the missing model alone: %v", err)
	}
}

// TestReadmeCommandsWork runs the commands as typed, in a folder of the test.
func TestReadmeCommandsWork(t *testing.T) {
	dir := t.TempDir()
	root, err := filepath.Abs(".")
	if err != nil {
		t.Fatal(err)
	}
	script := strings.NewReplacer(
		"go build -o bin/", "go -C "+root+" build -o "+dir+"/bin/", "go run ./examples", "go -C "+root+" run ./examples",
		"examples/fraud/pipeline.yaml", root+"/examples/fraud/pipeline.yaml --listen 127.0.0.1:0", "--events 100000", "--events 5000",
	).Replace("go run ./examples/fraud/generate --events 100000 > events.ndjson\n" + block(t, "afterbay init") + block(t, "produce transactions"))
	// All but its five dead letters are decided before the process is ended.
	script = strings.ReplaceAll(script, "kill %1", "bin/afterbay tail decisions --data data --follow --limit 4995 > /dev/null\nkill %1\nwait %1")
	command := exec.CommandContext(t.Context(), "bash", "-e", "-c", script)
	command.Dir = dir
	out, err := command.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s\n%s", err, script, out)
	}
	for _, want := range []string{"wrote ", "decide ", "listening on", "appended 5000 records", `"action":"allow"`} {
		if !strings.Contains(string(out), want) {
			t.Errorf("no %q in\n%s", want, out)
		}
	}
	if !regexp.MustCompile(`pipeline fraud: (499[5-9]|5000) events`).Match(out) {
		t.Errorf("not all events were processed:\n%s", out)
	}
}
