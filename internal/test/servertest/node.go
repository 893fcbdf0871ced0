package servertest

import (
	"os"
	"path/filepath"
	"testing"
)

// NodeModules returns the folder of the packages of npm that drive a browser and
// compile TypeScript. They lie beside the python of AFTERBAY_CLIENTS: without that
// the test is skipped, without them it fails.
func NodeModules(t testing.TB) string {
	t.Helper()
	python := Named(t, "AFTERBAY_CLIENTS", "no python whose environment has the clients of tests")
	modules := filepath.Join(filepath.Dir(python), "..", "browser", "node_modules")
	if _, err := os.Stat(modules); err != nil {
		t.Fatalf("there are no packages of npm in %s: make deps installs them", modules)
	}
	return modules
}
