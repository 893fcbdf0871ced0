package dataset_test

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/afterbay/afterbay/internal/http/ingest"
	"github.com/afterbay/afterbay/internal/ops/dataset"
)

// TestRowsHaveTheirManifestFirst has the rename of the manifest fail, and then that of the
// rows: no rows are there without a manifest.
func TestRowsHaveTheirManifestFirst(t *testing.T) {
	folder(t, generate(5, 50))
	for _, c := range []struct{ blocked, want string }{{"rows.csv.manifest.json", ""}, {"rows.csv", "rows.csv.manifest.json"}} {
		var said bytes.Buffer
		p := program(&said)
		events := p.Events
		p.Events = func(path, format string) (*ingest.Source, error) { // when both are begun
			if err := os.Mkdir(c.blocked, 0o700); err != nil {
				t.Error(err)
			}
			return events(path, format)
		}
		if err := dataset.Write(t.Context(), p, options("rows.csv")); err == nil {
			t.Errorf("%s was replaced", c.blocked)
		}
		if err := os.Remove(c.blocked); err != nil {
			t.Fatal(err)
		}
		left, err := filepath.Glob("rows.csv*")
		hidden, _ := filepath.Glob(".rows*")
		if got := strings.Join(append(left, hidden...), " "); err != nil || got != c.want {
			t.Errorf("%s cannot be replaced: %q is there, want %q", c.blocked, got, c.want)
		}
	}
}

// TestRowsAreWrittenAsOtherOutputs looks at modes, links and what errors leave.
func TestRowsAreWrittenAsOtherOutputs(t *testing.T) {
	folder(t, generate(5, 50))
	old := syscall.Umask(0o077)
	defer syscall.Umask(old)
	if err := os.Mkdir("elsewhere", 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("elsewhere/rows.csv", "link.csv"); err != nil {
		t.Fatal(err)
	}
	written(t, options("link.csv"))
	for _, name := range []string{"elsewhere/rows.csv", "link.csv.manifest.json"} {
		if info, err := os.Lstat(name); err != nil || !info.Mode().IsRegular() || info.Mode().Perm() != 0o600 {
			t.Errorf("%s: %v %v", name, info, err)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for name, c := range map[string]struct {
		ctx    context.Context
		change func(*dataset.Options)
	}{
		"cancelled":  {ctx, func(*dataset.Options) {}},
		"events":     {t.Context(), func(o *dataset.Options) { o.Events = "none.ndjson" }},
		"keep":       {t.Context(), func(o *dataset.Options) { o.Keep = "1 / (at - at) > 0.0" }},
		"no folder":  {t.Context(), func(o *dataset.Options) { o.Out = "none/rows.csv" }},
		"a folder":   {t.Context(), func(o *dataset.Options) { o.Out = "folder.csv" }},
		"a manifest": {t.Context(), func(o *dataset.Options) { o.Out = "blocked.csv" }},
	} {
		for _, folder := range []string{"folder.csv", "blocked.csv.manifest.json"} {
			if err := os.MkdirAll(folder, 0o700); err != nil {
				t.Fatal(err)
			}
		}
		o := options("rows.csv")
		c.change(&o)
		var said bytes.Buffer
		if err := dataset.Write(c.ctx, program(&said), o); err == nil {
			t.Errorf("%s: no error", name)
		}
		left, err := filepath.Glob(".*.tmp")
		if rows, _ := filepath.Glob("rows.csv*"); err != nil || len(left)+len(rows) > 0 {
			t.Errorf("%s: %v %v %v is left over", name, left, rows, err)
		}
	}
}
