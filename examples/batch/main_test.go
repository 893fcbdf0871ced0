package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/afterbay/afterbay"
	"github.com/afterbay/afterbay/stream"
)

const pipeline = `
pipeline: large
input: {topic: payments, key: user, fields: {user: string, amount: int}}
steps:
  - route:
      large: {when: amount >= 100, steps: [{emit: {topic: decisions, value: [user, amount]}}]}
      default: drop
sinks:
  - from: decisions
    print: {before: 'decision '}
`

// TestRecordsOfALogAreProcessed fills a log in a folder, and runs a file over it.
func TestRecordsOfALogAreProcessed(t *testing.T) {
	dir := t.TempDir()
	log, err := afterbay.OpenLog(t.Context(), "embedded", afterbay.Code{}, stream.Process{Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	if err := log.CreateTopic(t.Context(), stream.Topic{Name: "payments", Partitions: 1}); err != nil {
		t.Fatal(err)
	}
	for i, amount := range []int{20, 300, 7} {
		user := fmt.Sprint("user-", i)
		if err := log.Append(t.Context(), stream.Record{
			Partition: stream.Partition{Topic: "payments"}, Key: []byte(user), Value: fmt.Appendf(nil, `{"user":%q,"amount":%d}`, user, amount),
		}); err != nil {
			t.Fatal(err)
		}
	}
	if err := log.Close(); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(dir, "pipeline.yaml")
	if err := os.WriteFile(file, []byte(pipeline), 0o600); err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	if err := run(t.Context(), &out, []string{"-file", file, "-data", dir, "-topic", "payments", "-explain", "decisions/0@0"}); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"decision {\"user\":\"user-1\",\"amount\":300}\n", "large: 3 events, 1 outputs, 0 dead letters\n", `"amount":300`} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("%s\nlacks %s", out.String(), want)
		}
	}
}

// TestKindsAreDocumented sees the kind of the program in what editors and people read.
func TestKindsAreDocumented(t *testing.T) {
	for _, what := range []string{"schema", "reference"} {
		var out strings.Builder
		if err := run(t.Context(), &out, []string{"-show", what}); err != nil || !strings.Contains(out.String(), "what each line begins with") {
			t.Errorf("%s: %s, %v", what, out.String(), err)
		}
	}
}
