package e2e_test

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/afterbay/afterbay"
	"github.com/afterbay/afterbay/internal/lang"
	"github.com/afterbay/afterbay/udf"
)

// TestProgramsReadPipelineFiles reads a text, a file with a variable and a text of JSON.
func TestProgramsReadPipelineFiles(t *testing.T) {
	code := lang.Code{Functions: map[string]udf.Function{"one": {Version: 1, Event: func(*udf.Context) error { return nil }}}}
	const text = "pipeline: p\ninput: {topic: '${TOPIC:-in}', key: k, fields: {k: string}}\nsteps: [call: {go: one, outputs: {n: int}}, emit: {topic: out, value: [k, n]}]\n"
	path := filepath.Join(t.TempDir(), "p.yaml")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("TOPIC", "events")
	made, err := json.Marshal(map[string]any{
		"pipeline": "p",
		"input":    map[string]any{"topic": "made", "key": "k", "fields": map[string]string{"k": "string"}},
		"steps":    []any{map[string]any{"emit": map[string]any{"topic": "out", "value": []string{"k"}}}},
	})
	if err != nil {
		t.Fatal(err)
	}
	for topic, read := range map[string]func() (*afterbay.Pipelines, error){
		"in":     func() (*afterbay.Pipelines, error) { return afterbay.Parse("p.yaml", []byte(text), code) },
		"events": func() (*afterbay.Pipelines, error) { return afterbay.Load(code, path) },
		"made":   func() (*afterbay.Pipelines, error) { return afterbay.Parse("made.json", made, lang.Code{}) },
	} {
		file, err := read()
		if err != nil {
			t.Fatalf("%s: %v", topic, err)
		}
		if _, err := file.Check(t.Context(), afterbay.Options{}); err != nil {
			t.Fatalf("%s: %v", topic, err)
		}
		engine, err := afterbay.Open(t.Context(), "memory:", afterbay.Options{})
		if err != nil {
			t.Fatal(err)
		}
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- engine.Run(ctx, file) }()
		if err := engine.WaitIdle(ctx); err != nil {
			t.Fatal(err)
		}
		status, err := engine.Status(ctx)
		if err != nil || status.Pipelines[0].Input != topic {
			t.Errorf("it reads %+v, %v, want %s", status, err, topic)
		}
		stop()
		if err := errors.Join(<-ended, engine.Close()); err != nil {
			t.Error(err)
		}
	}
}

// TestMistakesInFilesOfProgramsHaveTheirPlace sees line and column of what is written
// wrong, of what the compiler finds, and of a manifest that is not there.
func TestMistakesInFilesOfProgramsHaveTheirPlace(t *testing.T) {
	const head = "pipeline: p\ninput: {topic: in, key: k, fields: {k: string}}\n"
	for text, want := range map[string]string{
		head + "stepz: []\n": `p.yaml:3:1: stepz: unknown word "stepz"`,
		head + "steps: [emit: {topic: out, value: [x]}]\n":                                                                 "p.yaml:3:36: steps[0].emit.value[0]",
		head + "steps: [emit: {topic: '${T}', value: [k]}]\n":                                                              "the environment variable T is not set",
		head + "models: {m: {file: no.yaml, version: 1, outputs: {s: number}}}\nsteps: [emit: {topic: out, value: [k]}]\n": "p.yaml:3:20: models.m.file",
	} {
		file, err := afterbay.Parse("p.yaml", []byte(text), lang.Code{})
		if err == nil {
			_, err = file.Check(t.Context(), afterbay.Options{})
		}
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
	}
	if _, err := afterbay.Load(lang.Code{}, filepath.Join(t.TempDir(), "none.yaml")); err == nil || !strings.Contains(err.Error(), "read pipeline file: open") {
		t.Errorf("%v", err)
	}
}
