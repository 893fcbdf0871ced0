package main

import (
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/afterbay/afterbay"
	"github.com/afterbay/afterbay/internal/config"
	"github.com/afterbay/afterbay/internal/failure"
	"github.com/afterbay/afterbay/internal/lab/demo/fraud"
	"github.com/afterbay/afterbay/internal/process"
)

const (
	examplePipeline = "pipeline.yaml"
	exampleModel    = "fraud.ubj"
	exampleTopic    = "transactions"
)

// exampleFiles are the pipeline file of an example and those of its model.
type exampleFiles struct {
	fs.FS
	model []string
}

// fraudExample returns the files of the fraud example.
func fraudExample() exampleFiles { return exampleFiles{fraud.Files, []string{exampleModel}} }

// example is an example in a folder: pipeline file, model and data directory.
type example struct {
	dir   string
	files exampleFiles
}

// newExample writes the example's files into a folder. One that is there is
// replaced if an example made it.
func newExample(dir string, files exampleFiles) (*example, error) {
	e := &example{dir, files}
	entries, err := os.ReadDir(dir)
	if err != nil && !os.IsNotExist(err) {
		return nil, failure.As(failure.OfDirectory, fmt.Errorf("%w: name a folder that can be written with --dir", err))
	}
	if len(entries) > 0 {
		if _, err := os.Stat(e.marker()); err != nil {
			return nil, usage("%s is not empty and no demo made it: name another folder with --dir", dir)
		}
		if err := os.RemoveAll(dir); err != nil {
			return nil, failure.As(failure.OfDirectory, err)
		}
	}
	if err := e.write(); err != nil {
		return nil, failure.As(failure.OfDirectory, fmt.Errorf("%w: name a folder that can be written with --dir", err))
	}
	return e, nil
}

func (e *example) write() error {
	if err := os.MkdirAll(e.dir, 0o755); err != nil {
		return err
	}
	if err := os.WriteFile(e.marker(), nil, 0o644); err != nil {
		return err
	}
	for _, name := range append([]string{examplePipeline}, e.files.model...) {
		text, err := fs.ReadFile(e.files, name)
		if err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(e.dir, name), text, 0o644); err != nil {
			return err
		}
	}
	return nil
}

// marker is a file that says that the folder may be removed.
func (e *example) marker() string { return filepath.Join(e.dir, ".afterbay-demo") }

func (e *example) pipeline() string { return filepath.Join(e.dir, examplePipeline) }

func (e *example) data() string { return filepath.Join(e.dir, "data") }

// load returns the example's pipeline.
func (e *example) load(a *app, sessions int) (*afterbay.Runner, error) {
	file, err := config.Load(e.pipeline(), fileKinds())
	if err != nil {
		return nil, err
	}
	runner, err := a.newRunner(file.Pipelines[0], afterbay.Options{Sessions: process.Members(sessions), Logger: a.log})
	if err != nil {
		return nil, file.Explain(0, err)
	}
	return runner, nil
}

// payments returns NDJSON of generated card payments, and a function to call
// when it was read or is not wanted any more.
func payments(o fraud.Options) (io.Reader, func() error) {
	reader, writer := io.Pipe()
	done := make(chan error, 1)
	go func() {
		_, err := fraud.Generate(writer, o)
		writer.CloseWithError(err) // nil is io.EOF
		done <- err
	}()
	return reader, func() error {
		_ = reader.Close()
		if err := <-done; err != nil && err != io.ErrClosedPipe {
			return fmt.Errorf("generate payments: %w", err)
		}
		return nil
	}
}
