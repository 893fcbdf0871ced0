package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"
)

const guideDir = "../../docs/guide"

// fence is a fenced block of a guide. What stands behind the three ticks says
// what it is:
//
//	sh               run by bash -e in the folder of the guide
//	sh exit=3        the same, and it has to end with that code
//	sh needs=xgboost the same, where AFTERBAY_PYTHON names a Python that has XGBoost
//	js               a script of a page: run by Node.js, with a token and the address of files
//	sh setup         how a reader gets a folder with afterbay in PATH; the test has its own
//	output           what the commands above print: three dots stand for any text,
//	                 on a line of their own for any lines
//	... file=NAME    a file that the guide writes
//	... from=PATH    a part of a file of the repository
type fence struct {
	line       int
	language   string
	attributes map[string]string
	text       string
}

var fenceStart = regexp.MustCompile("(?m)^```(.+)\n((?s:.*?))^```$")

func fences(t *testing.T, guide string) []fence {
	t.Helper()
	text, err := os.ReadFile(guide)
	if err != nil {
		t.Fatal(err)
	}
	if strings.Count("\n"+string(text), "\n```")%2 != 0 {
		t.Fatalf("%s: a block does not end", guide)
	}
	var all []fence
	for _, m := range fenceStart.FindAllSubmatchIndex(text, -1) {
		words := strings.Fields(string(text[m[2]:m[3]]))
		f := fence{strings.Count(string(text[:m[0]]), "\n") + 1, words[0], map[string]string{}, string(text[m[4]:m[5]])}
		for _, word := range words[1:] {
			name, value, _ := strings.Cut(word, "=")
			f.attributes[name] = value
		}
		all = append(all, f)
	}
	return all
}

// guideTools makes a folder of commands for PATH: afterbay is the test binary,
// which takes a free port where a guide runs pipelines, and visits is the
// program of the library's guide.
func guideTools(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	tools := map[string]string{"afterbay": `if [ "$1" = run ]; then shift; set -- run --listen 127.0.0.1:0 "$@"; fi
` + asCommand + `=1 exec '` + self + `' "$@"`}
	if python := os.Getenv("AFTERBAY_PYTHON"); python != "" {
		tools["python"] = `exec '` + python + `' "$@"`
	}
	build := exec.CommandContext(t.Context(), "go", "build", "-C", "../../examples", "-o", filepath.Join(dir, "visits"), "./library")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	for name, script := range tools {
		if err := os.WriteFile(filepath.Join(dir, name), []byte("#!/bin/sh\n"+script+"\n"), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// TestGuidesDoWhatTheySay writes the files of each guide, runs its commands in
// order, and compares what they print.
func TestGuidesDoWhatTheySay(t *testing.T) {
	guides, err := filepath.Glob(guideDir + "/*.md")
	if err != nil || len(guides) < 8 {
		t.Fatalf("guides: %v, %v", guides, err)
	}
	tools := guideTools(t)
	guides = append(guides, "../../docs/howto/reprocess.md", "../../docs/howto/shadow.md", "../../docs/howto/gateway.md", "../../docs/howto/nested.md", "../../docs/howto/rank.md", "../../docs/howto/chunks.md", "../../docs/howto/schemas.md", "../../docs/howto/formats.md", "../../docs/howto/change-events.md", "../../docs/howto/aggregate.md", "../../docs/howto/share.md", "../../docs/howto/train-xgboost.md", "../../docs/howto/back-up.md")
	for _, guide := range guides {
		t.Run(strings.TrimSuffix(filepath.Base(guide), ".md"), func(t *testing.T) {
			t.Parallel()
			r := &reader{T: t, dir: t.TempDir(), tools: tools}
			if filepath.Base(guide) == "kafka.md" {
				r.engine = guideEngine(t)
			}
			for _, f := range fences(t, guide) {
				if err := r.follow(f); err != nil {
					t.Fatalf("%s:%d: %v", guide, f.line, err)
				}
			}
		})
	}
}

// guideEngine returns the URL of a real broker or, where there is none, of one in
// this process.
func guideEngine(t *testing.T) string {
	if os.Getenv("AFTERBAY_KAFKA") == "" && os.Getenv("AFTERBAY_FULL") != "1" {
		return fakeEngine(t)
	}
	return realEngine(t)
}

// reader follows a guide.
type reader struct {
	*testing.T
	dir     string
	tools   string
	engine  string // AFTERBAY_ENGINE
	printed string // by the newest commands
	skipped bool   // the newest commands
}

func (r *reader) follow(f fence) error {
	_, setup := f.attributes["setup"]
	name, isFile := f.attributes["file"]
	from, isPart := f.attributes["from"]
	switch {
	case setup:
		return nil
	case isFile:
		return os.WriteFile(filepath.Join(r.dir, name), []byte(f.text), 0o644)
	case isPart:
		text, err := os.ReadFile(filepath.Join("../..", from))
		if err == nil && !strings.Contains(string(text), f.text) {
			err = fmt.Errorf("this is not in %s", from)
		}
		return err
	case f.language == "sh":
		return r.run(f)
	case f.language == "js":
		return r.page(f)
	case f.language == "output" && r.skipped:
		return nil
	case f.language == "output":
		return same(f.text, r.printed)
	}
	return fmt.Errorf("nothing checks a block of %s", f.language)
}

func (r *reader) run(f fence) error {
	if r.skipped = f.attributes["needs"] != "" && os.Getenv("AFTERBAY_PYTHON") == ""; r.skipped {
		if os.Getenv("AFTERBAY_FULL") == "1" {
			return errors.New("AFTERBAY_FULL=1 but AFTERBAY_PYTHON names no Python that has xgboost")
		}
		r.Logf("line %d: NOT RUN: AFTERBAY_PYTHON names no Python that has xgboost", f.line)
		return nil
	}
	want, _ := strconv.Atoi(f.attributes["exit"]) // without it 0
	return r.command(f, want, "bash", "-e", "-c", f.text)
}

// aPage is what a page has beside its script.
const aPage = `import { readFileSync } from "node:fs"
const [token, address] = ["token", "address"].map(file => readFileSync(file, "utf8").trim())
Object.defineProperty(globalThis, "localStorage", { value: {} })
const show = frame => { console.log(JSON.stringify(frame)); ws.onclose = () => process.exit(); ws.close() }
`

func (r *reader) page(f fence) error {
	if _, err := exec.LookPath("node"); err != nil {
		if os.Getenv("AFTERBAY_FULL") == "1" {
			return fmt.Errorf("AFTERBAY_FULL=1 but %w: make deps installs it", err)
		}
		r.skipped = true
		r.Logf("line %d: NOT RUN: there is no node", f.line)
		return nil
	}
	r.skipped = false
	script := aPage + strings.Replace(f.text, `"wss://chat.example.org`, `address.replace("http", "ws") + "`, 1)
	return r.command(f, 0, "node", "--no-warnings", "--experimental-websocket", "--input-type=module", "-e", script)
}

// command runs what a fence says, and wants its exit code.
func (r *reader) command(f fence, want int, name string, args ...string) error {
	ctx, cancel := context.WithTimeout(r.Context(), 3*time.Minute)
	defer cancel()
	c := exec.CommandContext(ctx, name, args...)
	c.Dir, c.WaitDelay = r.dir, time.Second
	c.Env = append(os.Environ(), "AFTERBAY_ENGINE="+r.engine, "PATH="+r.tools+string(os.PathListSeparator)+os.Getenv("PATH"), "LC_ALL=C", "TZ=UTC")
	out, err := c.CombinedOutput()
	if c.ProcessState == nil || c.ProcessState.ExitCode() != want {
		return fmt.Errorf("%w, want exit code %d\n%s\n%s", err, want, f.text, out)
	}
	r.printed = string(out)
	return nil
}

// slow matches lines that commands print on a slow machine alone: how many lines they
// have read, and that a pipeline is behind.
var slow = regexp.MustCompile(`(?m)^(?:\d+ lines, \d+/s|time=\S+ level=\S+ msg="pipeline (?:falls behind|caught up)" .*)\n`)

// same says where what was printed is not what the guide says.
func same(want, got string) error {
	var pattern strings.Builder
	for line := range strings.Lines(want) {
		if line == "...\n" {
			pattern.WriteString(`(?:.*\n)*?`)
			continue
		}
		pattern.WriteString(strings.ReplaceAll(regexp.QuoteMeta(line), `\.\.\.`, `.*`))
	}
	if !strings.HasSuffix(got, "\n") && got != "" {
		got += "\n"
	}
	got = slow.ReplaceAllString(got, "")
	if !regexp.MustCompile(`\A` + pattern.String() + `\z`).MatchString(got) {
		return fmt.Errorf("the guide says:\n%s\nit prints:\n%s", want, got)
	}
	return nil
}

// TestGuidesAreCheckedBySame shows that a wrong output is seen.
func TestGuidesAreCheckedBySame(t *testing.T) {
	for _, c := range []struct {
		want, got string
		same      bool
	}{
		{"a\nb\n", "a\nb\n", true},
		{"a\nb\n", "a\nc\n", false},
		{"a\n", "a\nb\n", false},
		{"a\nb\n", "a\n", false},
		{"a 1...s\n...\nz\n", "a 1.5s\nb\nc\nz\n", true},
		{"a 1...s\n...\nz\n", "a 2.5s\nz\n", false},
		{"...\nz\n", "z\n", true},
		{"", "a\n", false},
		{"a.b\n", "axb\n", false},
		{"a\nb\n", "12288 lines, 2088/s\na\ntime=2026-11-26T16:33:49.655Z level=WARN msg=\"pipeline falls behind\" pipeline=p lag=24s\nb\n", true},
		{"b\n", "time=2026-11-26T16:33:49.655Z level=WARN msg=\"no such thing\"\nb\n", false},
	} {
		if err := same(c.want, c.got); (err == nil) != c.same {
			t.Errorf("%q and %q: %v", c.want, c.got, err)
		}
	}
}

// TestGuidesNameTheirFiles, since what stands behind the three ticks is not shown.
func TestGuidesNameTheirFiles(t *testing.T) {
	pages, _ := filepath.Glob("../../docs/*/*.md")
	files := 0
	for _, page := range pages {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range fences(t, page) {
			name, above := f.attributes["file"], strings.Join(strings.SplitAfter(string(text), "\n")[:f.line-1], "")
			if name == "" {
				continue
			}
			files++
			if !strings.Contains(fenceStart.ReplaceAllString(above, ""), name) {
				t.Errorf("%s:%d: say above the block that it is %s", page, f.line, name)
			}
		}
	}
	if files < 20 {
		t.Errorf("%d files", files)
	}
}

// TestGuidesAreInTheirIndex sees that the index has a link to each guide. internal/shape follows
// the links of all pages.
func TestGuidesAreInTheirIndex(t *testing.T) {
	guides, _ := filepath.Glob(guideDir + "/*.md")
	index, err := os.ReadFile(guideDir + "/README.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, guide := range guides {
		if name := filepath.Base(guide); name != "README.md" && !strings.Contains(string(index), "("+name+")") {
			t.Errorf("README.md has no link to %s", name)
		}
	}
}
