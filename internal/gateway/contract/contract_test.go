package contract_test

import (
	"bytes"
	"encoding/json"
	"flag"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"testing"

	"github.com/afterbay/afterbay/internal/gateway/contract"
)

var update = flag.Bool("update", false, "write the documents of docs/reference")

const (
	openAPI  = "../../../docs/reference/gateway-openapi.json"
	asyncAPI = "../../../docs/reference/gateway-asyncapi.json"
)

func TestDocumentsAreWhatTheCodeSays(t *testing.T) {
	for path, want := range map[string][]byte{openAPI: contract.OpenAPI(), asyncAPI: contract.AsyncAPI()} {
		if *update {
			if err := os.WriteFile(path, want, 0o644); err != nil {
				t.Fatal(err)
			}
		}
		if got, err := os.ReadFile(path); err != nil || !bytes.Equal(got, want) {
			t.Errorf("%s is stale: run make docs (%v)", path, err)
		}
	}
}

// TestDocumentsHaveTheSameFrames compares the schemas of the AsyncAPI document with
// those of the other.
func TestDocumentsHaveTheSameFrames(t *testing.T) {
	var open, async struct {
		Components struct{ Schemas map[string]any }
	}
	for document, into := range map[string]any{string(contract.OpenAPI()): &open, string(contract.AsyncAPI()): &async} {
		if err := json.Unmarshal([]byte(document), into); err != nil {
			t.Fatal(err)
		}
	}
	for name, want := range async.Components.Schemas {
		if !reflect.DeepEqual(open.Components.Schemas[name], want) {
			t.Errorf("schema %s differs", name)
		}
	}
	if n := len(async.Components.Schemas); n != 17 {
		t.Errorf("%d schemas, want those of 15 frames, resume and problem", n)
	}
}

// TestDocumentsAreValidToOthers has PyPI's openapi-spec-validator and npm's
// @asyncapi/parser judge them, and refuse ones that were broken.
func TestDocumentsAreValidToOthers(t *testing.T) {
	python := os.Getenv("AFTERBAY_CLIENTS")
	if python == "" {
		if os.Getenv("AFTERBAY_FULL") == "1" {
			t.Fatal("AFTERBAY_FULL=1 but AFTERBAY_CLIENTS names no interpreter that has the validators: make deps installs one")
		}
		t.Skip("AFTERBAY_CLIENTS names no interpreter that has the validators")
	}
	broken := func(path, right, wrong string) string {
		document, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		path = filepath.Join(t.TempDir(), filepath.Base(path))
		if err := os.WriteFile(path, bytes.Replace(document, []byte(right), []byte(wrong), 1), 0o644); err != nil {
			t.Fatal(err)
		}
		return path
	}
	run := func(name string, args ...string) ([]byte, error) {
		return exec.CommandContext(t.Context(), name, args...).CombinedOutput()
	}
	if out, err := run(python, "-m", "openapi_spec_validator", "--schema", "3.1", openAPI); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
	if out, err := run(python, "-m", "openapi_spec_validator", "--schema", "3.1", broken(openAPI, `"in": "query"`, `"in": "body"`)); err == nil {
		t.Errorf("a parameter in the body is valid: %s", out)
	}
	modules := filepath.Join(filepath.Dir(python), "..", "asyncapi", "node_modules")
	if out, err := run("node", "testdata/asyncapi.mjs", modules, asyncAPI, broken(asyncAPI, `/schemas/ack"`, `/schemas/nack"`)); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}
