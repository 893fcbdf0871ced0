package main

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
)

const lookupPipeline = `pipeline: shelves
input: {topic: in, key: k, fields: {k: string}}
steps:
  - lookup:
      name: row
      http: {url: '${ROWS}/{key}', token_file: secrets/token}
      key: k
      fields: {level: int}
      empty: {level: -1}
  - emit: {topic: out, value: [k, row.level]}
`

// The paths of a lookup's files are relative to the pipeline file, and its rows are
// asked for by the commands.
func TestTryFindsRowsOutsideOfTheLog(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.Header.Get("Authorization") != "Bearer told to nobody":
			w.WriteHeader(http.StatusUnauthorized)
		case r.URL.Path == "/ann":
			fmt.Fprint(w, `{"level":7}`)
		default:
			w.WriteHeader(http.StatusNotFound)
		}
	}))
	defer server.Close()
	t.Chdir(t.TempDir())
	t.Setenv("ROWS", server.URL)
	if err := os.MkdirAll("pipelines/secrets", 0o755); err != nil {
		t.Fatal(err)
	}
	write(t, "pipelines/p.yaml", lookupPipeline)
	write(t, "pipelines/secrets/token", "told to nobody\n")
	got := must(t, `{"k":"ann"}`+"\n"+`{"k":"bob"}`+"\n", "try", "pipelines/p.yaml")
	for _, want := range []string{"lookup    row.level=7", `-> out  {"k":"ann","row_level":7}`, `-> out  {"k":"bob","row_level":-1}`} {
		if !strings.Contains(got, want) {
			t.Errorf("%s\nlacks %s", got, want)
		}
	}
	write(t, "pipelines/p.yaml", strings.Replace(lookupPipeline, "http: {url: '${ROWS}/{key}', token_file: secrets/token}", "redis: {url: 'redis://:hush@cache:6379/0'}", 1))
	if r := command(t, "", "lint", "pipelines/p.yaml"); r.code == exitOK || !strings.Contains(r.stderr+r.stdout, "a password has no place in the file") || strings.Contains(r.stderr+r.stdout, "hush") {
		t.Errorf("%+v", r)
	}
}
