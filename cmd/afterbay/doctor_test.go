package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/afterbay/afterbay/internal/log/embedded"
	"github.com/afterbay/afterbay/internal/process"
	"github.com/afterbay/afterbay/stream"
)

// hurt makes a data directory of three records, and flips a bit of the second.
func hurt(t *testing.T) (dir string) {
	t.Helper()
	t.Chdir(t.TempDir())
	for _, value := range []string{"first", "second", "third"} {
		held(t, "shop", value)
	}
	must(t, "", "doctor", "shop")
	segment := filepath.Join("shop", "log", "00000000000000000001.seg")
	b, err := os.ReadFile(segment)
	if err != nil {
		t.Fatal(err)
	}
	flip(t, segment, strings.Index(string(b), "second"))
	return "shop"
}

// held appends values to a directory with small files, and returns all that it
// holds then.
func held(t *testing.T, dir string, values ...string) (all string) {
	t.Helper()
	log, err := embedded.Open(dir, embedded.Options{SegmentBytes: 64 << 10})
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	p := stream.Partition{Topic: "in"}
	err = log.CreateTopic(t.Context(), stream.Topic{Name: p.Topic, Partitions: 1})
	for _, value := range values {
		err = errors.Join(err, log.Append(t.Context(), stream.Record{Partition: p, Value: []byte(value)}))
	}
	first, next, offsetsErr := log.Offsets(t.Context(), p)
	if err = errors.Join(err, offsetsErr); err != nil {
		t.Fatal(err)
	}
	for r, err := range log.Tail(t.Context(), p, first) {
		if err != nil {
			t.Fatal(err)
		}
		all += string(r.Value) + " "
		if first++; first == next {
			break
		}
	}
	return all
}

func TestDoctorCutsWhatItSaysAndAsksFirst(t *testing.T) {
	for _, c := range []struct {
		answer, args, want string
	}{
		{"y\n", "", "first "},
		{"", "--yes", "first "},
		{"", "--yes --keep 1", "first "},
		{"YES\n", "--keep 4", "third "},
	} {
		dir := hurt(t)
		for _, no := range []string{"", "\n", "n\n", "yep\n"} {
			r := command(t, no, "doctor", dir, "--cut")
			if r.code != exitFailure || !strings.Contains(r.stderr, "nothing was changed") || !strings.Contains(r.stdout, "[y/N]") {
				t.Fatalf("answered %q: exit %d: %s", no, r.code, r.stderr)
			}
		}
		if r := command(t, "", "doctor", dir); r.code != exitDamaged || !strings.Contains(r.stdout, "it held in/0 offset 1\n") {
			t.Fatalf("exit %d: %s", r.code, r.stdout)
		}
		if cuts, _ := filepath.Glob(dir + "/cut-*"); len(cuts) > 0 {
			t.Fatalf("cut without consent: %q", cuts)
		}
		got := must(t, c.answer, append([]string{"doctor", dir, "--cut"}, strings.Fields(c.args)...)...)
		if cuts, _ := filepath.Glob(dir + "/cut-*/log/*.seg"); len(cuts) != 1 || !strings.Contains(got, filepath.Dir(filepath.Dir(cuts[0]))) {
			t.Errorf("cut into %q: %s", cuts, got)
		}
		if got := must(t, "", "doctor", dir, "--cut"); !strings.Contains(got, "shop is healthy") {
			t.Errorf("cut again: %s", got)
		}
		if got := held(t, dir, "more"); got != c.want+"more " {
			t.Errorf("%+v: %q", c, got)
		}
	}
}

func TestDoctorPrintsJSON(t *testing.T) {
	dir := hurt(t)
	var report struct {
		embedded.Report
		Cut string
	}
	r := command(t, "", "doctor", dir, "--json")
	if err := json.Unmarshal([]byte(r.stdout), &report); err != nil || r.code != exitDamaged {
		t.Fatalf("exit %d: %v: %s", r.code, err, r.stdout)
	}
	if report.Healthy || len(report.Damage) != 1 || report.Damage[0].First != 3 || len(report.Remedies) != 2 || report.Remedies[0].Last != 2 {
		t.Errorf("%s", r.stdout)
	}
	if err := json.Unmarshal([]byte(must(t, "", "doctor", dir, "--cut", "--yes", "--json")), &report); err != nil || !report.Healthy || !strings.HasPrefix(report.Cut, "cut-") {
		t.Errorf("%v: %+v", err, report)
	}
	if r := command(t, "", "doctor", hurt(t), "--cut", "--keep", "99"); r.code != exitUsage || !strings.Contains(r.stderr, "no remedy keeps frame 99") {
		t.Errorf("exit %d: %s", r.code, r.stderr)
	}
}

// TestDamagePageShowsASessionThatHappens follows the commands of docs/damage.md.
func TestDamagePageShowsASessionThatHappens(t *testing.T) {
	t.Parallel()
	const page = "../../docs/damage.md"
	r := &reader{T: t, dir: t.TempDir(), tools: guideTools(t)}
	blocks := fences(t, page)
	if len(blocks) < 4 {
		t.Fatalf("%d blocks", len(blocks))
	}
	for _, f := range blocks {
		if err := r.follow(f); err != nil {
			t.Fatalf("%s:%d: %v", page, f.line, err)
		}
	}
}

func TestPipesInADataDirectoryAreRefused(t *testing.T) {
	t.Chdir(t.TempDir())
	for _, name := range []string{"META", "META.copy", "log/*.seg", "state/CURRENT", "state/*.sst", "LOCK"} {
		must(t, numbered(3), "produce", "in", "--data", "d", "--partitions", "1", "--key", "k")
		paths, err := filepath.Glob("d/" + name)
		if err != nil {
			t.Fatal(err)
		}
		for _, path := range paths {
			if err := errors.Join(os.Remove(path), syscall.Mkfifo(path, 0o644)); err != nil {
				t.Fatal(err)
			}
		}
		for _, line := range []string{"doctor d", "tail in --data d", "topics --data d"} {
			if r := command(t, "", fields(line)...); len(paths) > 0 && r.code != exitDamaged && (name != "LOCK" && name != "META.copy" || r.code != exitOK) {
				t.Errorf("%s with a pipe as %v: %+v", line, paths, r)
			}
		}
		if err := os.RemoveAll("d"); err != nil {
			t.Fatal(err)
		}
	}
}

func TestReadOnlyDirectoryIsRead(t *testing.T) {
	if os.Geteuid() == 0 {
		t.Skip("nothing is read-only to root; the embedded log has a test of its own")
	}
	t.Chdir(t.TempDir())
	must(t, numbered(3), "produce", "in", "--data", "d", "--partitions", "1", "--key", "k")
	modes := func(dir, file os.FileMode) {
		err := filepath.WalkDir("d", func(path string, entry fs.DirEntry, err error) error {
			if err == nil && entry.IsDir() {
				return os.Chmod(path, dir)
			}
			return errors.Join(err, os.Chmod(path, file))
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	modes(0o555, 0o444)
	defer modes(0o755, 0o644)
	if got := must(t, "", "tail", "in", "--data", "d"); got != numbered(3) {
		t.Error(got)
	}
	must(t, "", "topics", "--data", "d")
	must(t, "", "doctor", "d")
	if r := command(t, numbered(3), "produce", "in", "--data", "d"); r.code == exitOK || !strings.Contains(r.stderr, "make d writable") {
		t.Errorf("%+v", r)
	}
	if r := command(t, "", "run", "p.yaml", "--data", "d"); r.code == exitOK {
		t.Errorf("%+v", r)
	}
}

func TestHintsOfDirectoriesDiffer(t *testing.T) {
	for err, want := range map[error]string{
		syscall.ENOSPC: "free disk space", syscall.EROFS: "mount it for writing", fs.ErrPermission: "the right to read and write",
		embedded.ErrIrregular: "check the files at that path", errors.New("else"): "afterbay doctor 'my data'",
	} {
		if got := process.DirectoryHint(fmt.Errorf("open: %w", err), "my data"); !strings.Contains(got, want) {
			t.Errorf("%v: %s", err, got)
		}
	}
	const stranger = 54_321
	dir := t.TempDir()
	if err := os.Chown(dir, stranger, -1); err != nil {
		t.Skip("only root can give a directory away")
	}
	if got, want := process.DirectoryHint(fs.ErrPermission, dir), "only the user #54321, its owner, may read"; !strings.Contains(got, want) || !strings.Contains(got, "sudo -u '#54321' afterbay") {
		t.Error(got)
	}
}

func TestOnlyTheOwnerMayReadWhatRunLeaves(t *testing.T) {
	t.Chdir(t.TempDir())
	defer syscall.Umask(syscall.Umask(0))
	write(t, "p.yaml", countsPipeline)
	must(t, numbered(3), "produce", "in", "--data", "d", "--partitions", "3", "--key", "k")
	if err := errors.Join(os.Chmod("d", 0o755), os.Chmod("d/META", 0o644)); err != nil {
		t.Fatal(err)
	}
	must(t, "", "run", "p.yaml", "--data", "d", "--listen", "127.0.0.1:0", "--until-idle")
	err := filepath.WalkDir("d", func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := entry.Info()
		if err == nil && info.Mode().Perm()&0o077 != 0 {
			t.Errorf("%s has %v", path, info.Mode())
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}
