package e2e_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/afterbay/afterbay/internal/log/embedded"
	"github.com/afterbay/afterbay/internal/ops/explain"
	"github.com/afterbay/afterbay/internal/pipeline"
	"github.com/afterbay/afterbay/internal/process/builtin"
	"github.com/afterbay/afterbay/stream"
)

// TestOnlyTheOwnerMayReadWhatPipelinesKeep walks a data directory with features, a
// queue, a group, a journal, the state and timers of a function, dead letters and
// timings. The umask takes nothing away. What is wide is narrow after the next Open.
func TestOnlyTheOwnerMayReadWhatPipelinesKeep(t *testing.T) {
	defer syscall.Umask(syscall.Umask(0))
	dir := filepath.Join(t.TempDir(), "data")
	makeDirectory(t, dir)
	log, err := embedded.Open(dir, embedded.Options{SegmentBytes: 256 << 10})
	if err != nil {
		t.Fatal(err)
	}
	runner, err := builtin.New(directoryPipeline(&service{}), pipeline.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer runner.Close()
	wrong := stream.Record{Partition: chunk("c0", 0, "", 0, false).Partition, Key: []byte("c0"), Value: []byte("no JSON")}
	if err := log.Append(t.Context(), chunk("c0", 1_750_010_000, "", 0, false), wrong); err != nil {
		t.Fatal(err)
	}
	runUntilIdle(t, runner, log)
	letters := 0
	for i := range int32(answerPartitions) {
		_, next, err := log.Offsets(t.Context(), stream.Partition{Topic: "kept.dlq", Index: i})
		if letters += int(next); err != nil {
			t.Fatal(err)
		}
	}
	if letters == 0 {
		t.Error("there is no dead letter")
	}
	if err := explain.WriteTimings(dir, []*pipeline.Runner{runner}); err != nil {
		t.Fatal(err)
	}
	closeLog(t, log)
	checkNarrow(t, dir)
	if _, err := os.Stat(filepath.Join(dir, "timings")); err != nil {
		t.Error(err)
	} // An earlier version made them all wide. The folder of a sink is no part of what the log made.
	for path, info := range entriesOf(t, dir) {
		if err := os.Chmod(path, info.Mode()|0o055); err != nil {
			t.Fatal(err)
		}
	}
	archive := filepath.Join(dir, "archive")
	if err := os.Mkdir(archive, 0o755); err != nil {
		t.Fatal(err)
	}
	if log, err = embedded.Open(dir, embedded.Options{SegmentBytes: 256 << 10}); err != nil {
		t.Fatal(err)
	}
	closeLog(t, log)
	if info, err := os.Stat(archive); err != nil || info.Mode().Perm() != 0o755 {
		t.Errorf("%s has %v, %v", archive, info.Mode(), err)
	}
	if err := os.Remove(archive); err != nil {
		t.Fatal(err)
	}
	checkNarrow(t, dir)
}

// checkNarrow checks that only the owner has permissions on a data directory.
func checkNarrow(t *testing.T, dir string) {
	t.Helper()
	var files, folders int
	for path, info := range entriesOf(t, dir) {
		want := fs.FileMode(0o600)
		if files++; info.IsDir() {
			files, folders, want = files-1, folders+1, 0o700
		}
		if info.Mode().Perm() != want {
			t.Errorf("%s has %v, want %v", path, info.Mode().Perm(), want)
		}
	}
	if files < 10 || folders != 4 {
		t.Errorf("%d files, %d folders", files, folders)
	}
}

// entriesOf returns a directory and all that is in it.
func entriesOf(t *testing.T, dir string) map[string]fs.FileInfo {
	t.Helper()
	entries := map[string]fs.FileInfo{}
	if err := filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err == nil {
			entries[path], err = entry.Info()
		}
		return err
	}); err != nil {
		t.Fatal(err)
	}
	return entries
}
