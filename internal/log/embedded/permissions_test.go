package embedded

import (
	"bytes"
	"errors"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/afterbay/afterbay/stream"
)

// openToOthers returns the files and folders of dir that others than the owner have
// permissions on, and how many there are in all.
func openToOthers(t *testing.T, dir string) (wide []string, all int) {
	t.Helper()
	err := filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := entry.Info()
		if all++; err == nil && info.Mode().Perm()&0o077 != 0 {
			wide = append(wide, path+" "+info.Mode().String())
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return wide, all
}

// fillDirectory opens and closes a log twice, so that a checkpoint, an index and a
// segment that is used again are in it.
func fillDirectory(t *testing.T, dir string, options Options) {
	t.Helper()
	for i := range 2 {
		l, err := Open(dir, options)
		if err != nil {
			t.Fatal(err)
		}
		topic := string(rune('a' + i))
		if err := l.CreateTopic(t.Context(), stream.Topic{Name: topic, Partitions: 1}); err != nil {
			t.Fatal(err)
		}
		for range 20 {
			if err := l.Append(t.Context(), stream.Record{Partition: stream.Partition{Topic: topic}, Value: make([]byte, 4<<10)}); err != nil {
				t.Fatal(err)
			}
		}
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

func TestOnlyTheOwnerMayReadADataDirectory(t *testing.T) {
	defer syscall.Umask(syscall.Umask(0))
	dir := filepath.Join(t.TempDir(), "parent", "data")
	options := Options{SegmentBytes: 16 << 10, MaxFrameBytes: 8 << 10, MaxRecordBytes: 8 << 10, GroupBytes: 8 << 10}
	fillDirectory(t, dir, options)
	if wide, all := openToOthers(t, filepath.Dir(dir)); len(wide) > 0 || all < 12 {
		t.Errorf("%d in all, open to others: %q", all, wide)
	}
	// A directory of a version that left it to the umask.
	err := filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err == nil && entry.IsDir() {
			return os.Chmod(path, 0o775)
		}
		return errors.Join(err, os.Chmod(path, 0o664))
	})
	if err != nil {
		t.Fatal(err)
	}
	var logged bytes.Buffer
	options.Logger = slog.New(slog.NewTextHandler(&logged, nil))
	fillDirectory(t, dir, options)
	if wide, _ := openToOthers(t, dir); len(wide) > 0 || logged.Len() > 0 {
		t.Errorf("open to others: %q, %s", wide, &logged)
	}
	// What a repair takes away is kept in a folder of its own.
	segments, err := filepath.Glob(filepath.Join(dir, "log", "*.seg"))
	if err != nil || len(segments) == 0 {
		t.Fatal(segments, err)
	}
	if err := os.Remove(segments[len(segments)-1]); err != nil {
		t.Fatal(err)
	}
	report, err := Check(dir)
	if err != nil || len(report.Remedies) == 0 {
		t.Fatalf("%+v, %v", report, err)
	}
	if err := Cut(dir, report.Remedies[0], "cut"); err != nil {
		t.Fatal(err)
	}
	if wide, _ := openToOthers(t, dir); len(wide) > 0 {
		t.Errorf("open to others after a cut: %q", wide)
	}
}
