package main

import (
	"crypto/sha256"
	"debug/elf"
	"encoding/hex"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/afterbay/afterbay/internal/models/onnx"
)

func TestRuntimeOfTheKnownDigestAloneIsInstalled(t *testing.T) {
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	t.Setenv("HOME", t.TempDir())
	file := filepath.Join(t.TempDir(), "lib.so")
	write(t, file, "a library")
	if r := command(t, "", "model", "runtime", "--lib", file); r.code != exitFailure || !strings.Contains(r.stderr, "expected") {
		t.Errorf("exit %d: %s", r.code, r.stderr)
	}
	sum := sha256.Sum256([]byte("a library"))
	digest := hex.EncodeToString(sum[:])
	if path := must(t, "", "model", "runtime", "--lib", file, "--sha256", digest); !strings.Contains(path, digest) {
		t.Errorf("installed at %q", path)
	}
	if r := command(t, "", "model", "runtime", "--lib", file, "--wheel", file); r.code != exitFailure || !strings.Contains(r.stderr, "not both") {
		t.Errorf("exit %d: %s", r.code, r.stderr)
	}
}

// What can load libraries is linked to the system's C library, with or without
// cgo: that is afterbay-onnx, not afterbay.
func TestAfterbayIsLinkedToNothing(t *testing.T) {
	if apart(t) {
		return
	}
	if runtime.GOOS != "linux" || os.Getenv("AFTERBAY_FULL") != "1" {
		t.Skip("NOT RUN: building both programs without cgo, on Linux (make test does)")
	}
	folder := t.TempDir()
	build := exec.CommandContext(t.Context(), "go", "build", "-o", folder, ".", "../afterbay-onnx")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	for name, linked := range map[string]bool{"afterbay": false, onnx.WorkerName: true} {
		file, err := elf.Open(filepath.Join(folder, name))
		if err != nil {
			t.Fatal(err)
		}
		if libraries, err := file.ImportedLibraries(); err != nil || len(libraries) > 0 != linked {
			t.Errorf("%s is linked to %v: %v", name, libraries, err)
		}
		if err := file.Close(); err != nil {
			t.Error(err)
		}
	}
}
