package shape_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// muxes are the files that make a mux: of endpoints, which have roles. The last has
// /readyz alone beside those of a gateway.
var muxes = []string{"internal/http/access/endpoint.go", "internal/http/serving/handler.go", "internal/gateway/gateway.go"}

// TestShapeOfEndpoints sees that no server answers a path that is in no table of
// endpoints: access.NewMux refuses an endpoint without a role.
func TestShapeOfEndpoints(t *testing.T) {
	var found []string
	err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		relative, err := filepath.Rel(root, path)
		if err != nil {
			return err
		}
		slash := filepath.ToSlash(relative)
		if entry.IsDir() && (strings.HasPrefix(entry.Name(), ".") && path != root || slices.Contains([]string{"testdata", "examples", "bench", "tools", "node_modules"}, entry.Name())) {
			return fs.SkipDir
		}
		if entry.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return nil
		}
		text, err := os.ReadFile(path)
		if strings.Contains(string(text), "http.NewServeMux(") || strings.Contains(string(text), "http.HandleFunc(") || strings.Contains(string(text), "http.Handle(") {
			found = append(found, slash)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range found {
		if !slices.Contains(muxes, path) {
			t.Errorf("%s makes a mux: return access.Endpoint values with roles instead, for access.NewMux", path)
		}
	}
	if len(found) < len(muxes) {
		t.Errorf("only %v were found", found)
	}
}
