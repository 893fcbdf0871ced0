package demo

import (
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/afterbay/afterbay/internal/config"
	"github.com/afterbay/afterbay/internal/failure"
	"github.com/afterbay/afterbay/internal/lab/demo/fraud"
	"github.com/afterbay/afterbay/internal/pipeline"
	"github.com/afterbay/afterbay/internal/process"
)

// ModelName is the model file of the fraud example.
const ModelName = "fraud.ubj"

const (
	examplePipeline = "pipeline.yaml"
	exampleTopic    = "transactions"
)

// Files are the pipeline file of an example and its model files.
type Files struct {
	fs.FS
	Model []string
}

// FraudFiles returns the files of the fraud example.
func FraudFiles() Files { return Files{fraud.Files, []string{ModelName}} }

// Example is an example in a folder: pipeline file, model and data directory.
type Example struct {
	Dir   string
	Files Files
}

// NewExample writes the files of an example into a folder. It replaces an existing folder only if
// an example created it.
func NewExample(dir string, files Files) (*Example, error) {
	e := &Example{dir, files}
	entries, err := os.ReadDir(dir)
	if err != nil && !os.IsNotExist(err) {
		return nil, failure.As(failure.OfDirectory, fmt.Errorf("%w: name a folder that can be written with --dir", err))
	}
	if len(entries) > 0 {
		if _, err := os.Stat(e.marker()); err != nil {
			return nil, failure.Usage("%s is not empty and no demo made it: name another folder with --dir", dir)
		}
		if err := os.RemoveAll(dir); err != nil {
			return nil, failure.As(failure.OfDirectory, err)
		}
	}
	if err := e.Write(); err != nil {
		return nil, failure.As(failure.OfDirectory, fmt.Errorf("%w: name a folder that can be written with --dir", err))
	}
	return e, nil
}

// Write writes the files into the folder.
func (e *Example) Write() error {
	if err := os.MkdirAll(e.Dir, 0o755); err != nil {
		return err
	}
	if err := os.WriteFile(e.marker(), nil, 0o644); err != nil {
		return err
	}
	for _, name := range append([]string{examplePipeline}, e.Files.Model...) {
		text, err := fs.ReadFile(e.Files, name)
		if err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(e.Dir, name), text, 0o644); err != nil {
			return err
		}
	}
	return nil
}

// marker returns the path of the file that marks the folder as safe to remove.
func (e *Example) marker() string { return filepath.Join(e.Dir, ".afterbay-demo") }

// Pipeline returns the path of the pipeline file.
func (e *Example) Pipeline() string { return filepath.Join(e.Dir, examplePipeline) }

// Data returns the path of the data directory.
func (e *Example) Data() string { return filepath.Join(e.Dir, "data") }

// load returns the example's pipeline.
func (e *Example) load(loader *process.Loader, o pipeline.Options) (*pipeline.Runner, error) {
	file, err := config.Load(e.Pipeline(), loader.Kinds)
	if err != nil {
		return nil, err
	}
	runner, err := loader.New(file.Pipelines[0], o)
	if err != nil {
		return nil, file.Explain(0, err)
	}
	return runner, nil
}

// payments returns generated card payments as NDJSON. The caller must call the returned function
// after it has read or abandoned them.
func payments(o fraud.Options) (io.Reader, func() error) {
	reader, writer := io.Pipe()
	done := make(chan error, 1)
	go func() {
		_, err := fraud.Generate(writer, o)
		writer.CloseWithError(err) // a nil error becomes io.EOF
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
