package moderation_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"reflect"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/afterbay/afterbay/internal/lab/demo/moderation"
)

const postsDigest = "f5a18b12e3e7e1102387512d7ce1b651b485b8ee7bfd0243a755113e9cf94a2a"

func posts(o moderation.Options, n int) ([]byte, moderation.Stats) {
	var all []byte
	g := moderation.NewGenerator(o)
	for range n {
		all, _ = g.Append(all)
		all = append(all, '\n')
	}
	return all, g.Stats()
}

func TestOneSeedGivesTheSameBytesOnEveryMachine(t *testing.T) {
	first, _ := posts(moderation.Options{Seed: 1}, 100_000)
	if sum := sha256.Sum256(first); hex.EncodeToString(sum[:]) != postsDigest {
		t.Errorf("posts of seed 1 have sha256 %x, want %s", sum, postsDigest)
	}
	if other, _ := posts(moderation.Options{Seed: 2}, 100_000); bytes.Equal(first, other) {
		t.Error("seeds 1 and 2 give the same posts")
	}
}

// TestPostsAreWhatThePipelineReads checks each field of each post, and that Stats
// counts them.
func TestPostsAreWhatThePipelineReads(t *testing.T) {
	g := moderation.NewGenerator(moderation.Options{Seed: 3})
	malformed, late := 0, 0
	var newest time.Time
	for i := range 50_000 {
		line, user := g.Append(nil)
		if len(line) > moderation.LineBytesMax {
			t.Fatalf("%d bytes: %s", len(line), line)
		}
		var post struct {
			Post, User, Text string
			Created          time.Time
		}
		if !bytes.Contains(line, fmt.Appendf(nil, `"user":"%s"`, user)) {
			t.Fatalf("%s: user %s", line, user)
		}
		if json.Unmarshal(line, &post) != nil {
			malformed++
			continue
		}
		if post.Post != fmt.Sprintf("p%09d", i) || post.User != string(user) || post.Text == "" {
			t.Fatalf("%s: post %d of %s", line, i, user)
		}
		if newest.Sub(post.Created) > 5*time.Second {
			late++
		}
		if post.Created.After(newest) {
			newest = post.Created
		}
	}
	s := g.Stats()
	if s.Posts != 50_000 || s.Malformed != malformed || s.Late < late || s.Late > late+5 { // some late ones are malformed
		t.Errorf("%+v, found %d malformed and %d late", s, malformed, late)
	}
	if malformed == 0 || late == 0 || s.Insults < 200 || s.Flooding < 50 {
		t.Errorf("too tame: %+v", s)
	}
}

// TestModelIsThatOfTheInstalledPackage exports it again. The tables of characters
// are those of whichever Python does.
func TestModelIsThatOfTheInstalledPackage(t *testing.T) {
	python := os.Getenv("AFTERBAY_PYTHON")
	if python == "" {
		if os.Getenv("AFTERBAY_FULL") == "1" {
			t.Fatal("AFTERBAY_FULL=1 but AFTERBAY_PYTHON names no interpreter that has alt-profanity-check 1.9.1")
		}
		t.Skip("NOT RUN: AFTERBAY_PYTHON names no interpreter that has alt-profanity-check 1.9.1")
	}
	folder := t.TempDir()
	lines, _ := posts(moderation.Options{Seed: 1}, 20_000)
	if err := os.WriteFile(folder+"/posts.ndjson", lines, 0o600); err != nil {
		t.Fatal(err)
	}
	command := exec.CommandContext(t.Context(), python, "../../../../examples/moderation/export.py", folder+"/posts.ndjson", folder)
	command.Env = append(os.Environ(), "PYTHONDONTWRITEBYTECODE=1")
	if output, err := command.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, output)
	}
	read := func(data []byte, err error) map[string]any {
		var model map[string]any
		if err := errors.Join(err, json.Unmarshal(data, &model)); err != nil {
			t.Fatal(err)
		}
		delete(model, "source")
		delete(model, "characters")
		return model
	}
	if !reflect.DeepEqual(read(os.ReadFile(folder+"/profanity.json")), read(os.ReadFile("profanity.json"))) {
		t.Error("profanity.json is not the model of the installed package")
	}
	texts := func(name string) string {
		data, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		return regexp.MustCompile(`,[0-9.e-]+\n`).ReplaceAllString(string(data), "\n") // scores have the last bits of a processor
	}
	if texts(folder+"/golden.csv") != texts("golden.csv") {
		t.Error("golden.csv is not of the posts of seed 1")
	}
}

func TestPostsCostNoAllocation(t *testing.T) {
	g := moderation.NewGenerator(moderation.Options{})
	buffer := make([]byte, 0, moderation.LineBytesMax)
	if n := testing.AllocsPerRun(1000, func() { g.Append(buffer) }); n > 0 {
		t.Errorf("%v allocations a post", n)
	}
}

func TestOptionsOutOfBoundsAreRefused(t *testing.T) {
	for want, o := range map[string]moderation.Options{"-1 users": {Users: -1}, "1000001 users": {Users: 1_000_001}, "-1 posts": {Rate: -1}, "100001 posts": {Rate: 100_001}} {
		if err := o.Validate(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: %v", o, err)
		}
	}
}

func BenchmarkAppend(b *testing.B) {
	g := moderation.NewGenerator(moderation.Options{})
	buffer := make([]byte, 0, moderation.LineBytesMax)
	b.ReportAllocs()
	for b.Loop() {
		g.Append(buffer)
	}
}

func ExampleGenerator_Append() {
	g := moderation.NewGenerator(moderation.Options{Seed: 1})
	for range 3 {
		g.Append(nil)
	}
	line, user := g.Append(nil)
	fmt.Printf("%s\n%s\n", line, user)
	// Output:
	// {"post":"p000000003","user":"u048430","text":"release this night week! test 3.14 never","created":"2025-10-09T08:53:20.030Z"}
	// u048430
}
