package embedded

import (
	"archive/zip"
	"bytes"
	"errors"
	"flag"
	"fmt"
	"io"
	iofs "io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/afterbay/afterbay/internal/sys/vfs"
)

var update = flag.Bool("update", false, "write the golden directories of the newest format that are missing")

// TestReleasedFormatOpensForEver opens the directories that a format left
// behind: testdata/format2 holds, each with the want.txt that it reads as,
//
//   - log: META and the segments alone;
//   - closed: a log that was closed, whose oldest segments were retired, so that
//     its checkpoint is needed;
//   - killed: the same before it was closed, with frames to redo.
//
// They were made by: go test ./internal/log/embedded -run ReleasedFormat -args -update
// and are never written again.
func TestReleasedFormatOpensForEver(t *testing.T) {
	if *update {
		writeGolden(t, filepath.Join("testdata", fmt.Sprint("format", metaFormat)))
	}
	archives, err := filepath.Glob("testdata/format*/*.zip")
	if err != nil || len(archives) < 3 {
		t.Fatalf("%d directories, %v", len(archives), err)
	}
	for _, path := range archives {
		fs := unpack(t, path)
		want, err := vfs.ReadFile(fs, "want.txt")
		if err != nil {
			t.Fatal(err)
		}
		for _, how := range []string{"as it is", "again", "without indexes"} {
			if how == "without indexes" {
				if err := fs.RemoveAll("data/idx"); err != nil {
					t.Fatal(err)
				}
			}
			l, err := Open("data", crashOptions(fs))
			if err != nil {
				t.Fatalf("%s, %s: %v", path, how, err)
			}
			if got := dump(t, l); got != string(want) {
				t.Fatalf("%s, %s, reads:\n%s\nwant:\n%s", path, how, got, want)
			}
			if err := l.Close(); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// TestDirectoryOfAnotherFormatIsRefused writes other numbers into META and its copy.
func TestDirectoryOfAnotherFormatIsRefused(t *testing.T) {
	for format, do := range map[int]string{metaFormat - 1: "use an empty directory and produce the input again", metaFormat + 1: "run that version"} {
		disk := vfs.NewMemory()
		l := newLog(t, retainOptions(disk))
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
		m, _, err := readMeta(disk, "data")
		if err != nil {
			t.Fatal(err)
		}
		m.Format = format
		if err := m.write(disk, "data"); err != nil {
			t.Fatal(err)
		}
		_, err = Open("data", retainOptions(disk))
		if want := fmt.Sprintf("data/META: another version of afterbay wrote this data directory, in format %d where this one reads %d: %s", format, metaFormat, do); !errors.Is(err, ErrFormat) || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
	}
}

func unpack(t *testing.T, path string) *vfs.Memory {
	t.Helper()
	archive, err := zip.OpenReader(path)
	if err != nil {
		t.Fatal(err)
	}
	defer archive.Close()
	fs := vfs.NewMemory()
	for _, file := range archive.File {
		r, err := file.Open()
		if err != nil {
			t.Fatal(err)
		}
		b, err := io.ReadAll(r)
		if err != nil {
			t.Fatal(err)
		}
		fs.MkdirAll(fs.PathDir(file.Name), 0o755)
		overwrite(t, fs, file.Name, b)
	}
	return fs
}

// writeGolden makes the directories of today's format that are not there.
func writeGolden(t *testing.T, dir string) {
	alone := vfs.NewMemory()
	h := &history{log: newLog(t, crashOptions(alone)), rng: newRand(t)}
	h.run(t, 10)
	want, only := dump(t, h.log), alone.Crash(nil)
	for _, folder := range []string{"data/idx", "data/state"} {
		if err := only.RemoveAll(folder); err != nil {
			t.Fatal(err)
		}
	}
	archive(t, filepath.Join(dir, "log.zip"), only, want)

	disk := vfs.NewMemory()
	h = &history{log: newLog(t, retainOptions(disk)), rng: newRand(t)}
	h.run(t, 30)
	h.sess.Close()
	fillSegments(t, h.log, 5)
	if err := h.log.store.Checkpoint(t.Context(), h.log.applied.Load(), true); err != nil {
		t.Fatal(err)
	}
	eventually(t, "retention", func() bool { signal(h.log.kick); return h.log.Stats().RetiredSegments > 1 })
	h.run(t, 10)
	want, killed := dump(t, h.log), disk.Crash(nil)
	if err := h.log.Close(); err != nil {
		t.Fatal(err)
	}
	archive(t, filepath.Join(dir, "killed.zip"), killed, want)
	archive(t, filepath.Join(dir, "closed.zip"), disk, want)
}

// archive writes a directory and what it reads as, unless that is there.
func archive(t *testing.T, path string, fs *vfs.Memory, want string) {
	t.Helper()
	if _, err := os.Stat(path); err == nil {
		return
	}
	overwrite(t, fs, "want.txt", []byte(want))
	var b bytes.Buffer
	w := zip.NewWriter(&b)
	for _, folder := range []string{".", "data", "data/log", "data/idx", "data/state"} {
		packFolder(t, w, fs, folder)
	}
	if err := errors.Join(w.Close(), os.MkdirAll(filepath.Dir(path), 0o755)); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, b.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
}

func packFolder(t *testing.T, w *zip.Writer, fs vfs.FS, folder string) {
	t.Helper()
	names, err := fs.List(folder)
	if err != nil && !errors.Is(err, iofs.ErrNotExist) {
		t.Fatal(err)
	}
	for _, name := range names {
		path := fs.PathJoin(folder, name)
		if info, err := fs.Stat(path); err != nil || info.IsDir() || name == "LOCK" {
			continue
		}
		b, err := vfs.ReadFile(fs, path)
		if err != nil {
			t.Fatal(err)
		}
		f, err := w.Create(path)
		if err == nil {
			_, err = f.Write(b)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}
