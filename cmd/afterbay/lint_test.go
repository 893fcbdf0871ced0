package main

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
)

// findingsOf returns the lines of lint --json.
func findingsOf(t *testing.T, r result) []printedFinding {
	t.Helper()
	var list []printedFinding
	for line := range strings.Lines(r.stdout) {
		var f printedFinding
		decoder := json.NewDecoder(strings.NewReader(line))
		decoder.DisallowUnknownFields()
		if err := decoder.Decode(&f); err != nil {
			t.Fatalf("%s: %v", line, err)
		}
		list = append(list, f)
	}
	return list
}

// mixed has a document that is no YAML, one of wrong shape, one that means
// nothing, and one that is valid.
const mixed = `pipeline: [
---
pipeline: shape
input: {topic: in, key: k, feilds: {k: string}}
steps:
  - emit: {topic: out, vale: [k]}
---
pipeline: meaning
input: {topic: in, key: user, fields: {k: string}}
steps:
  - let: {a: 'k && 1'}
  - emit: {topic: out, value: [kk]}
---
pipeline: right
input: {topic: in, key: k, fields: {k: string}}
steps:
  - emit: {topic: out, value: [k]}
`

func TestLintFindsEverythingAtOnce(t *testing.T) {
	badFiles(t)
	write(t, "mixed.yaml", mixed)
	r := command(t, "", "lint", "--json", "mixed.yaml", "counts.yaml", "gone.yml", "mismatch.yml")
	if r.code != exitInvalid || r.stderr != "afterbay: 8 findings in 3 files\n" {
		t.Errorf("exit %d: %s", r.code, r.stderr)
	}
	list := findingsOf(t, r)
	var got []string
	for _, f := range list {
		got = append(got, strings.Join([]string{f.File, f.Path, f.Message}, " | "))
		if f.Line > 0 && !strings.Contains(f.Excerpt, "^") {
			t.Errorf("%+v lacks a part", f)
		}
	}
	want := []string{
		"mixed.yaml |  | this YAML cannot be read: sequence end token ']' not found",
		`mixed.yaml | input.feilds | unknown word "feilds"`,
		`mixed.yaml | steps[0].emit.vale | unknown word "vale"`,
		`mixed.yaml | input.key | "user" is not one of input.fields`,
		`mixed.yaml | steps[0].let.a | `,
		`mixed.yaml | steps[1].emit.value[0] | unknown name "kk"`,
		"gone.yml |  | no such file or directory",
		"mismatch.yml | steps[0].score.inputs | model m@1 takes 6 inputs, 2 are given",
	}
	for i := range max(len(got), len(want)) {
		if i >= len(got) || i >= len(want) || !strings.HasPrefix(got[i], want[i]) {
			t.Fatalf("found\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
		}
	}
	if f := list[1]; f.Line != 4 || f.Column != 28 || f.Hint != `did you mean "fields"?` ||
		f.Excerpt != "    4 | input: {topic: in, key: k, feilds: {k: string}}\n      |                            ^" {
		t.Errorf("%+v", f)
	}
	if !strings.Contains(r.stdout, "'k && 1'") {
		t.Errorf("signs are escaped: %s", r.stdout)
	}
	text := command(t, "", "lint", "mixed.yaml", "counts.yaml", "gone.yml", "mismatch.yml")
	for _, f := range list {
		if !strings.Contains(text.stderr, f.Message) || !strings.Contains(text.stderr, f.Hint) || !strings.Contains(text.stderr, f.Excerpt) {
			t.Errorf("as text, %+v is not in\n%s", f, text.stderr)
		}
	}
	if !strings.HasPrefix(text.stderr, "mixed.yaml:1:11: this YAML") || !strings.HasSuffix(text.stderr, "\n"+r.stderr) {
		t.Errorf("as text:\n%s", text.stderr)
	}
	if !strings.Contains(text.stdout, "counts.yaml: pipeline counts is valid") || strings.Contains(text.stdout, "mixed.yaml") {
		t.Errorf("right are:\n%s", text.stdout)
	}
}

func TestLintOfRightFilesSaysSo(t *testing.T) {
	badFiles(t)
	if out := must(t, "", "lint", "--json", "counts.yaml"); out != "" {
		t.Errorf("printed %s", out)
	}
	r := command(t, "", "lint", "counts.yaml", "right.yml")
	if r.code != exitOK || r.stderr != "" || strings.Count(r.stdout, " is valid: it reads ") != 3 {
		t.Errorf("exit %d: %s%s", r.code, r.stderr, r.stdout)
	}
}

// Files that are right by themselves may not fit each other.
func TestLintComparesTheFiles(t *testing.T) {
	t.Chdir(t.TempDir())
	one := "pipeline: %s\ninput: {topic: %s, key: k, fields: {k: string%s}}\nsteps:\n  - emit: {topic: %s, value: [k]}\n"
	write(t, "reader.yaml", fmt.Sprintf(one, "reader", "middle", ", count: int", "out"))
	write(t, "writer.yaml", fmt.Sprintf(one, "writer", "in", "", "middle"))
	write(t, "loop.yaml", fmt.Sprintf(one, "loop", "out", "", "in"))
	must(t, "", "lint", "reader.yaml")
	must(t, "", "lint", "writer.yaml")
	r := command(t, "", "lint", "reader.yaml", "writer.yaml")
	if r.code != exitInvalid || !strings.HasPrefix(r.stderr, `reader.yaml:2:59: input.fields.count: pipeline "writer" emits to "middle" without "count"`) ||
		!strings.HasSuffix(r.stderr, "afterbay: 1 finding in 1 file\n") || !strings.Contains(r.stdout, "writer.yaml: pipeline writer is valid") {
		t.Errorf("exit %d: %s%s", r.code, r.stderr, r.stdout)
	}
	r = command(t, "", "lint", "loop.yaml", "reader.yaml", "writer.yaml")
	if r.code != exitInvalid || !strings.Contains(r.stderr, "feed each other") || !strings.HasSuffix(r.stderr, "afterbay: 2 findings in 2 files\n") {
		t.Errorf("exit %d: %s", r.code, r.stderr)
	}
}

func TestLintReadsTheEnvironment(t *testing.T) {
	badFiles(t)
	write(t, "variables.yaml", strings.ReplaceAll(countsPipeline, "topic: in\n", "topic: ${LINT_TOPIC}\n"))
	if r := command(t, "", "lint", "variables.yaml"); r.code != exitInvalid || !strings.Contains(r.stderr, "variables.yaml:3:10: input.topic: the environment variable LINT_TOPIC is not set: export LINT_TOPIC=...") {
		t.Errorf("exit %d: %s", r.code, r.stderr)
	}
	t.Setenv("LINT_TOPIC", "in")
	must(t, "", "lint", "variables.yaml")
	t.Setenv("LINT_TOPIC", "a topic")
	if r := command(t, "", "lint", "variables.yaml"); r.code != exitInvalid || !strings.Contains(r.stderr, `variables.yaml:3:10: input.topic: "a topic" is not a topic name`) {
		t.Errorf("exit %d: %s", r.code, r.stderr)
	}
}

// TestLintFindsWhatAMistakeOfShapeDoesNotHide sees that a misspelled word does
// not keep back what is wrong above it, and makes nothing up below it.
func TestLintFindsWhatAMistakeOfShapeDoesNotHide(t *testing.T) {
	t.Chdir(t.TempDir())
	write(t, "bad.yaml", `pipeline: x
input: {topic: t, key: k, fields: {k: string, v: numbr, w: number}}
steps:
  - let: {a: "w + "}
  - features: {past: {value: score, last: 3, aggregates: [mean]}}
  - lett: {score: w}
  - emit: {topic: out, value: [score]}
`)
	r := command(t, "", "lint", "bad.yaml")
	for _, want := range []string{
		`bad.yaml:2:50: input.fields.v: unknown type "numbr"`, "bad.yaml:4:19: steps[0].let.a: the expression ends too early",
		`bad.yaml:6:5: steps[2].lett: unknown word "lett": did you mean "let"?`, "3 findings in 1 file",
	} {
		if !strings.Contains(r.stderr, want) {
			t.Errorf("no %q in\n%s", want, r.stderr)
		}
	}
	if r.code != exitInvalid {
		t.Errorf("exit code %d", r.code)
	}
}
