package scenario_test

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/sr"
	"github.com/twmb/franz-go/pkg/sr/srfake"

	"github.com/afterbay/afterbay/internal/test/servertest"
	"github.com/afterbay/afterbay/scenario"
)

// TestCookbookHappensAsItIsWritten runs the recipes of the documentation: a file each, of at
// most 25 lines, with a scenario that uses it and a row of the table.
func TestCookbookHappensAsItIsWritten(t *testing.T) {
	const folder = "../docs/cookbook/"
	page, err := os.ReadFile(folder + "README.md")
	if err != nil {
		t.Fatal(err)
	}
	scenarios, _ := filepath.Glob(folder + "*.txt")
	var all []byte
	for _, file := range scenarios {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, text...)
		name := strings.TrimSuffix(filepath.Base(file), ".txt")
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if start, ok := servers[name]; ok {
				withServer(t, file, text, start)
				return
			}
			scenario.Test(t, file, scenario.Options{Update: *update})
		})
	}
	recipes, _ := filepath.Glob(folder + "*.yaml")
	if len(recipes) == 0 {
		t.Fatal("no recipes")
	}
	for _, file := range recipes {
		name := filepath.Base(file)
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if n := bytes.Count(text, []byte("\n")); n > 25 {
			t.Errorf("%s has %d lines: a recipe has at most 25", name, n)
		}
		if !bytes.Contains(all, []byte("pipeline "+name+"\n")) {
			t.Errorf("no scenario runs %s", name)
		}
		if !bytes.Contains(page, []byte("("+name+")")) {
			t.Errorf("README.md does not name %s", name)
		}
	}
}

// servers start what recipes read from beside the log. They return the URL of the server, and
// the one that stands in its place in the scenario.
var servers = map[string]func(*testing.T) (url, written string){
	"merchant-risk": cache,
	"registered":    schemaRegistry,
}

// withServer runs a scenario with the URL of a server that was started.
func withServer(t *testing.T, file string, text []byte, start func(*testing.T) (url, written string)) {
	url, written := start(t)
	if !bytes.Contains(text, []byte("="+written+"\n")) {
		t.Fatalf("%s does not name %s", file, written)
	}
	s, err := scenario.Parse(file, bytes.ReplaceAll(text, []byte("="+written+"\n"), []byte("="+url+"\n")))
	if err != nil {
		t.Fatal(err)
	}
	failures, err := s.Run(t.Context(), scenario.Options{})
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range failures {
		t.Error(f)
	}
}

// cache starts a server of Redis with the row of a merchant.
func cache(t *testing.T) (url, written string) {
	server := servertest.Redis(t)
	client := server.Redis(t)
	if err := client.Do(t.Context(), client.B().Set().Key("merchant:m1").Value(`{"risk": 0.9, "country": "GB"}`).Build()).Error(); err != nil {
		t.Fatal(err)
	}
	return server.URL, "redis://localhost:6379/0"
}

// schemaRegistry starts a registry that speaks Confluent's API, with three schemas.
func schemaRegistry(t *testing.T) (url, written string) {
	const fields = `{"type":"record","name":"Payment","fields":[{"name":"card","type":"string"},{"name":"amount","type":"double"},` +
		`{"name":"at","type":{"type":"long","logicalType":"timestamp-millis"}},NOTE` +
		`{"name":"device","type":["null",{"type":"record","name":"Device","fields":[{"name":"os","type":"string"}]}]}]}`
	server := srfake.New()
	t.Cleanup(server.Close)
	for k, of := range []struct {
		subject string
		schema  sr.Schema
	}{
		{"payments-value", sr.Schema{Schema: strings.ReplaceAll(fields, "NOTE", "")}},
		{"payments-json", sr.Schema{Schema: `{"type":"object"}`, Type: sr.TypeJSON}},
		{"payments-value", sr.Schema{Schema: strings.ReplaceAll(fields, "NOTE", `{"name":"note","type":"string","default":""},`)}},
	} {
		if id, _, err := server.RegisterSchema(of.subject, of.schema); err != nil || id != k+1 {
			t.Fatalf("schema id %d: %v", id, err)
		}
	}
	return server.URL(), "http://localhost:8081"
}
