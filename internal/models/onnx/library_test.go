package onnx

import (
	"archive/zip"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func wheel(t *testing.T, name string, content []byte) string {
	t.Helper()
	var archive bytes.Buffer
	w := zip.NewWriter(&archive)
	for _, each := range []string{"onnxruntime/capi/libonnxruntime_providers_shared.so", name} {
		member, err := w.Create(each)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := member.Write(content); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return modelFile(t, "onnxruntime.whl", archive.Bytes())
}

func TestLibraryIsKeptIfItsDigestIsTheExpectedOne(t *testing.T) {
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	t.Setenv("HOME", t.TempDir()) // where caches are on other systems
	content := []byte("a library")
	sum := sha256.Sum256(content)
	digest := hex.EncodeToString(sum[:])
	good, other := wheel(t, "onnxruntime/capi/libonnxruntime.so.1.2.3", content), wheel(t, "onnxruntime/capi/libonnxruntime.so.1.2.3", []byte("another"))
	for _, c := range []struct {
		from Source
		want string
	}{
		{Source{Wheel: other, Digest: digest}, "expected " + digest},
		{Source{Wheel: wheel(t, "elsewhere/libonnxruntime.so", content), Digest: digest}, "holds no"},
		{Source{Wheel: modelFile(t, "x.whl", content), Digest: digest}, "open "},
		{Source{Library: modelFile(t, "x.so", []byte("changed")), Digest: digest}, "expected " + digest},
		{Source{Wheel: good, Library: good}, "not both"},
		{Source{Wheel: good, Digest: "abc"}, "64 hex digits"},
		{Source{Wheel: good}, "expected"},
	} {
		_, err := Install(t.Context(), c.from)
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%+v: %v, expected %q", c.from, err, c.want)
		}
	}
	if _, err := Installed(); err == nil || !strings.Contains(err.Error(), "afterbay model runtime") {
		t.Errorf("%v", err)
	}
	for _, from := range []Source{{Wheel: good, Digest: digest}, {Library: modelFile(t, "x.so", content), Digest: strings.ToUpper(digest)}} {
		path, err := Install(t.Context(), from)
		if err != nil {
			t.Fatal(err)
		}
		kept, err := os.ReadFile(path)
		if err != nil || !bytes.Equal(kept, content) {
			t.Errorf("kept %q: %v", kept, err)
		}
		if names, err := os.ReadDir(filepath.Dir(path)); err != nil || len(names) != 1 {
			t.Errorf("left %v: %v", names, err)
		}
	}
	path, _ := Install(t.Context(), Source{Library: good, Digest: digest}) // there is one already
	if err := os.WriteFile(path, []byte("rotten"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Install(t.Context(), Source{Wheel: good, Digest: digest}); err != nil {
		t.Fatal(err)
	}
	if kept, err := os.ReadFile(path); err != nil || !bytes.Equal(kept, content) {
		t.Errorf("a changed file in the cache stayed: %q %v", kept, err)
	}
}

func TestThePageOnInstallingNamesTheVersion(t *testing.T) {
	page, err := os.ReadFile("../../../docs/howto/install.md")
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(page), "onnxruntime=="+RuntimeVersion+" ") {
		t.Errorf("docs/howto/install.md downloads another version of onnxruntime than %s", RuntimeVersion)
	}
}
