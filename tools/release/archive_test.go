package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"errors"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// TestArchivesOfEqualFilesAreEqual writes the same files in other orders, from disk and
// from memory, with other times on disk.
func TestArchivesOfEqualFilesAreEqual(t *testing.T) {
	dir, at := t.TempDir(), time.Unix(1800000000, 0)
	files := []file{
		{name: "a_v1/afterbay", mode: 0o755, data: []byte("program")},
		{name: "a_v1/LICENSE", data: []byte("licence")},
		{name: "a_v1/completions/afterbay.bash", data: []byte("script")},
		{name: "a_v1/data", dir: true, mode: 0o750, uid: 65532},
		{name: "a_v1/link", link: "afterbay"},
	}
	seed := rand.Uint64()
	t.Log("seed", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	var want []byte
	for n := range 6 {
		random.Shuffle(len(files), func(i, j int) { files[i], files[j] = files[j], files[i] })
		given := append([]file(nil), files...)
		for i, f := range given {
			if n%2 == 1 && f.data != nil { // from disk, with its own time and mode
				path := filepath.Join(dir, filepath.Base(f.name))
				if err := os.WriteFile(path, f.data, 0o600); err != nil {
					t.Fatal(err)
				}
				given[i].data, given[i].from = nil, path
			}
		}
		target := filepath.Join(dir, "out.tar.gz")
		if err := writeTarGz(target, given, at); err != nil {
			t.Fatal(err)
		}
		got, err := os.ReadFile(target)
		if err != nil {
			t.Fatal(err)
		}
		if n == 0 {
			want = got
		} else if !bytes.Equal(got, want) {
			t.Fatalf("archive %d differs", n)
		}
	}
	wantEntries(t, want, at)
}

func wantEntries(t *testing.T, archive []byte, at time.Time) {
	t.Helper()
	zip, err := gzip.NewReader(bytes.NewReader(archive))
	if err != nil {
		t.Fatal(err)
	}
	if !zip.ModTime.IsZero() || zip.Name != "" {
		t.Errorf("gzip has time %v, name %q", zip.ModTime, zip.Name)
	}
	want := []struct {
		name string
		mode int64
		uid  int
		data string
	}{
		{"a_v1/", 0o755, 0, ""}, {"a_v1/LICENSE", 0o644, 0, "licence"}, {"a_v1/afterbay", 0o755, 0, "program"}, {"a_v1/completions/", 0o755, 0, ""},
		{"a_v1/completions/afterbay.bash", 0o644, 0, "script"}, {"a_v1/data/", 0o750, 65532, ""}, {"a_v1/link", 0o777, 0, ""},
	}
	in := tar.NewReader(zip)
	for _, w := range want {
		h, err := in.Next()
		if err != nil {
			t.Fatal(err)
		}
		data, err := io.ReadAll(in)
		if err != nil {
			t.Fatal(err)
		}
		if h.Name != w.name || h.Mode != w.mode || h.Uid != w.uid || string(data) != w.data || !h.ModTime.Equal(at) {
			t.Errorf("%s mode %o of %d at %v has %q, want %+v", h.Name, h.Mode, h.Uid, h.ModTime, data, w)
		}
	}
	if _, err := in.Next(); !errors.Is(err, io.EOF) {
		t.Errorf("more entries: %v", err)
	}
}

func TestReleasesAreRefused(t *testing.T) {
	for _, version := range []string{"", "0.1.0", "v0.1", "v0.1.0-", "v01.0.0", "v0.1.0+build", "v0.1.0 "} {
		if versions.MatchString(version) {
			t.Errorf("%q is taken", version)
		}
	}
	for _, version := range []string{"v0.1.0", "v0.1.0-rc.1", "v12.34.56-rc.10"} {
		if !versions.MatchString(version) {
			t.Errorf("%q is refused", version)
		}
	}
	if checkSize("afterbay", bytesMax) != nil || checkSize("afterbay", bytesMax+1) == nil {
		t.Error("the limit of a program's size does not hold")
	}
}

// TestLicencesOfModules reads packages with and without a licence.
func TestLicencesOfModules(t *testing.T) {
	dir := t.TempDir()
	inner := filepath.Join(dir, "inner", "copy")
	if err := os.MkdirAll(inner, 0o755); err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{"LICENSE.md": "outer", "inner/copy/COPYING": "inner", "inner/licenses.go": "package inner"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	found := map[string]component{}
	l := listed{ImportPath: "m/inner/copy", Dir: inner}
	if err := l.into(found); err == nil {
		t.Error("a package without a module is taken")
	}
	l.Module = &module{Path: "m", Version: "v1.2.3", Dir: dir}
	if err := l.into(found); err != nil {
		t.Fatal(err)
	}
	got := found["m"]
	if got.version != "v1.2.3" || len(got.texts) != 2 || got.texts["LICENSE.md"] != "outer" || got.texts["inner/copy/COPYING"] != "inner" {
		t.Errorf("%+v", got)
	}
	if _, err := (component{path: "m", version: "v1", texts: map[string]string{}}).licensed(); err == nil {
		t.Error("a module without a licence is taken")
	}
}
