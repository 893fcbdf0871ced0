package embedded

import (
	"errors"
	"fmt"
	"hash/crc32"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/afterbay/afterbay/internal/sys/vfs"
)

var metaPaths = []string{"data/" + metaName, "data/" + metaCopyName}

// flip changes a byte of a file.
func flip(t *testing.T, fs vfs.FS, path string, at int) {
	t.Helper()
	b, err := vfs.ReadFile(fs, path)
	if err != nil {
		t.Fatal(err)
	}
	b[at] ^= 1
	overwrite(t, fs, path, b)
}

// TestOneMetaIsEnough damages or removes either copy: the log opens, says so,
// and writes both again.
func TestOneMetaIsEnough(t *testing.T) {
	for _, path := range metaPaths {
		for _, how := range []string{"damaged", "missing"} {
			fs, want := crashed(t, small(nil), 3)
			if how == "missing" {
				if err := fs.Remove(path); err != nil {
					t.Fatal(err)
				}
			} else {
				flip(t, fs, path, 12)
			}
			var warned strings.Builder
			o := small(fs)
			o.Logger = slog.New(slog.NewTextHandler(&warned, nil))
			l := mustOpen(t, o)
			quiet := how == "missing" && path == metaPaths[1] // as after the first write of META
			if lost := l.Recovery().LostMeta; (lost != path || !strings.Contains(warned.String(), path)) != quiet {
				t.Errorf("%s %s: lost %q, warned: %s", path, how, lost, warned.String())
			}
			if got := dump(t, l); got != want {
				t.Errorf("%s %s:\n%s\nwant:\n%s", path, how, got, want)
			}
			after := fs.Crash(nil)
			l.Close()
			if m, found, err := readMeta(after, "data"); !found || err != nil || m.lost != nil {
				t.Errorf("%s %s: not repaired: %v, %v", path, how, err, m.lost)
			}
		}
	}
}

func TestDamageOfBothMetasIsRefused(t *testing.T) {
	fs, _ := crashed(t, small(nil), 1)
	for _, path := range metaPaths {
		flip(t, fs, path, 12)
	}
	var damaged *DamageError
	if _, err := Open("data", small(fs)); !errors.As(err, &damaged) || !strings.Contains(err.Error(), "afterbay doctor data") {
		t.Fatal(err)
	}
	for _, path := range metaPaths {
		if err := fs.Remove(path); err != nil {
			t.Fatal(err)
		}
		if _, err := Open("data", small(fs)); !errors.As(err, &damaged) {
			t.Fatal(err)
		}
	}
}

// TestMetaSurvivesACrashAndAFlip crashes each write of META before each of its
// calls. What is read then is what was written last or before that, whichever
// copy is flipped too, and it never goes back once the write has returned.
func TestMetaSurvivesACrashAndAFlip(t *testing.T) {
	r := newRand(t)
	disk := vfs.NewMemory()
	var images []*vfs.Memory
	fs := vfs.Faulty(disk, func(c vfs.Call) (o vfs.Outcome) {
		if c.Kind.Changes() {
			for range 10 {
				images = append(images, disk.Crash(r))
			}
		}
		return o
	})
	if err := errors.Join(fs.MkdirAll("data", 0o755), syncDir(fs, ".")); err != nil {
		t.Fatal(err)
	}
	m := newMeta()
	for clean := range uint64(6) {
		m.Clean, images = clean, nil
		if err := m.write(fs, "data"); err != nil {
			t.Fatal(err)
		}
		for _, image := range images {
			checkMeta(t, image, max(clean, 1)-1, clean)
		}
		checkMeta(t, disk.Crash(r), clean, clean)
	}
}

// checkMeta reads the META of fs as it is, and with either copy flipped.
func checkMeta(t *testing.T, fs *vfs.Memory, least, most uint64) {
	t.Helper()
	for i, lost := range append([]string{""}, metaPaths...) {
		fs := fs.Copy()
		if i > 0 {
			if _, err := fs.Stat(lost); err != nil || most == 0 {
				continue // the first write has no copy yet
			}
			flip(t, fs, lost, 12)
		}
		m, found, err := readMeta(fs, "data")
		if most == 0 && !found && err == nil {
			continue
		}
		if !found || err != nil || m.Clean < least || m.Clean > most {
			t.Fatalf("lost %q: %v %v: clean %d, want %d to %d", lost, found, err, m.Clean, least, most)
		}
	}
}

// TestVersionsWithoutACopyGoOnWithMeta writes META as such a version does.
// Theirs is the newest, however often the copy was written; without it the copy
// is not taken for the newest where the log shows that it is not.
func TestVersionsWithoutACopyGoOnWithMeta(t *testing.T) {
	fs, _ := crashed(t, small(nil), 3)
	older, _, err := readMeta(fs, "data")
	if err != nil {
		t.Fatal(err)
	}
	spare, err := vfs.ReadFile(fs, metaPaths[1])
	if err != nil {
		t.Fatal(err)
	}
	positions, b := framesOf(t, fs, firstSegment)
	last := positions[len(positions)-1]
	end := last + align(parseHeader(b[last:]).length)
	seq := uint64(len(positions)) + 1
	epoch := older.begin(seq, 1)
	older.Writes = 0
	if err := older.write(fs, "data"); err != nil {
		t.Fatal(err)
	}
	b2, _ := vfs.ReadFile(fs, metaPaths[0])
	line := strings.Replace(string(b2), `,"writes":1`, "", 1)
	line, _, _ = strings.Cut(line, "\n")
	overwrite(t, fs, metaPaths[0], fmt.Appendf(nil, "%s\n%08x\n", line, crc32.Checksum([]byte(line), castagnoli)))
	overwrite(t, fs, metaPaths[1], spare)
	payload := beginSection(newFrame(nil, 200), sectionInput, flagCritical)
	payload = appendRecordsHead(payload, events, 3, 1)
	payload = appendRecord(payload, ptr(record(events, "of the older version")))
	endSection(payload, frameHeader)
	copy(b[end:], sealFrame(payload, header{seq: seq, epoch: epoch, sections: 1, durable: seq - 1}, older.salt))
	overwrite(t, fs, firstSegment, b)

	l := mustOpen(t, small(fs.Copy()))
	if got := values(t, l, events, 0); l.Recovery() != (Recovery{ReplayedFrames: int(seq)}) || !slices.Contains(got, "of the older version") {
		t.Errorf("%+v: %q", l.Recovery(), got)
	}
	l.Close()
	flip(t, fs, metaPaths[0], 12)
	var damaged *DamageError
	if _, err := Open("data", small(fs)); !errors.As(err, &damaged) || damaged.Offset != int64(end) {
		t.Error(err)
	}
}

func TestFolderOfOthersIsNoDataDirectory(t *testing.T) {
	for _, name := range []string{"readme.md", ".git/config", "META-INF"} {
		dir := t.TempDir()
		if err := os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, name), nil, 0o644); err != nil {
			t.Fatal(err)
		}
		log, err := Open(dir, Options{})
		if !errors.Is(err, ErrForeign) {
			t.Errorf("%s: %v", name, err)
			if err == nil {
				_ = log.Close()
			}
		}
		if entries, err := os.ReadDir(dir); err != nil || len(entries) != 1 {
			t.Errorf("%s: files were made: %v, %v", name, entries, err)
		}
	}
	dir := t.TempDir()
	for _, name := range []string{"LOCK", "log", "kafka", "lost+found"} {
		if err := os.MkdirAll(filepath.Join(dir, name), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Remove(filepath.Join(dir, "LOCK")); err != nil {
		t.Fatal(err)
	}
	log, err := Open(dir, Options{})
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(log.Close(), os.WriteFile(filepath.Join(dir, "notes"), nil, 0o644)); err != nil {
		t.Fatal(err)
	}
	if log, err = Open(dir, Options{}); err != nil {
		t.Fatalf("another file in a data directory: %v", err)
	}
	if err := log.Close(); err != nil {
		t.Error(err)
	}
}
