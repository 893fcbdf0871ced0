package embedded

import (
	"errors"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/afterbay/afterbay/internal/sys/vfs"
	"github.com/afterbay/afterbay/stream"
)

// TestReadOnlyLogIsReadAndNotChanged opens directories that crashed and that were
// closed on a file system that refuses every change.
func TestReadOnlyLogIsReadAndNotChanged(t *testing.T) {
	for _, closed := range []bool{false, true} {
		disk, want := crashed(t, small(nil), 40)
		if closed {
			l := mustOpen(t, small(disk))
			if err := l.Close(); err != nil {
				t.Fatal(err)
			}
		}
		o := small(vfs.Faulty(disk, func(c vfs.Call) (out vfs.Outcome) {
			if c.Kind.Changes() && c.Kind != vfs.Lock { // that of a file system that has no other users
				t.Errorf("%v %s", c.Kind, c.Path)
				out.Err = syscall.EROFS
			}
			return out
		}))
		o.ReadOnly = true
		l := mustOpen(t, o)
		if got := dump(t, l); got != want {
			t.Errorf("closed %t:\n%s\nwant:\n%s", closed, got, want)
		}
		if err := l.Append(t.Context(), record(partitions(t, l)[0], "x")); !errors.Is(err, ErrReadOnly) {
			t.Errorf("append: %v", err)
		}
		if err := l.CreateTopic(t.Context(), stream.Topic{Name: "new", Partitions: 1}); !errors.Is(err, ErrReadOnly) {
			t.Errorf("create a topic: %v", err)
		}
		if err := l.Close(); err != nil {
			t.Error(err)
		}
	}
	if _, err := Open(t.TempDir(), Options{ReadOnly: true}); err == nil {
		t.Error("an empty folder is opened for reading")
	}
}

// TestPipesAreNotWaitedFor replaces files of a log by pipes, which would block a
// reader.
func TestPipesAreNotWaitedFor(t *testing.T) {
	for _, pattern := range []string{"META", "log/*.seg", "state/MANIFEST-*"} {
		dir := t.TempDir()
		l, err := Open(dir, Options{})
		if err != nil {
			t.Fatal(err)
		}
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
		paths, err := filepath.Glob(filepath.Join(dir, pattern))
		if err != nil || len(paths) == 0 {
			t.Fatal(pattern, err)
		}
		for _, path := range paths {
			if err := errors.Join(os.Remove(path), syscall.Mkfifo(path, 0o644)); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := Open(dir, Options{}); err == nil {
			t.Errorf("%s: a log is opened whose file is a pipe", pattern)
		}
		if report, err := Check(dir); err == nil && report.Healthy {
			t.Errorf("%s: a directory is healthy whose file is a pipe", pattern)
		}
	}
}
