package ocr

import (
	"context"
	"errors"
	"time"

	"github.com/afterbay/afterbay/internal/models/onnx"
	"github.com/afterbay/afterbay/internal/spec"
	"github.com/afterbay/afterbay/model"
)

// Kind is models that read images.
var Kind = model.Kind{
	Name:    "ocr",
	Help:    "the other models of one of kind ocr",
	Example: "{read: {file: read.onnx, sha256: 48fc40f24f6d2a207a2b1091d3437eb3cc3eb6b676dc3ef9c37384005483683b}}",
	New:     func() model.Config { return &Config{} },
}

// Config reads the text of images. The model of the file finds the lines, and other models read
// them.
type Config struct {
	Read   Weights  // reads the lines
	Turn   *Weights // tells which lines stand on their head; nil takes all as they are
	Pixels int      // of an image; 0 is 20,000,000

	Workers     int           // images that are read at a time, by a process for each model; 0 is 1
	Threads     int           // that compute a call; 0 is 1
	Timeout     time.Duration // most that a model may take for a call, after which its process is ended; 0 is 30s
	MemoryBytes int           // of a process, on Linux; 0 is 2GiB
}

// Weights is the file of a further model.
type Weights struct {
	File   string // relative to the manifest
	Digest string // sha256 of the file, 64 hex digits
}

var configFields = []spec.Field[Config]{
	{Name: "read", Affects: spec.Outputs, Required: true, Form: spec.Into(func(o *Config) *Weights { return &o.Read }, spec.MappingOf(weightsFields)),
		Example: "{file: read.onnx, sha256: 48fc40f24f6d2a207a2b1091d3437eb3cc3eb6b676dc3ef9c37384005483683b}"},
	{Name: "turn", Affects: spec.Outputs, Form: spec.Optional(func(o *Config) **Weights { return &o.Turn }, spec.MappingOf(weightsFields)),
		Example: "{file: turn.onnx, sha256: e47acedf663230f8863ff1ab0e64dd2d82b838fceb5957146dab185a89d6215c}"},
	{Name: "pixels", Affects: spec.Outputs, Form: spec.Into(func(o *Config) *int { return &o.Pixels }, spec.Whole[int](1, 200_000_000).Default(20_000_000)), Example: "5000000"},
	{Name: "workers", Affects: spec.Nothing, Form: spec.Into(func(o *Config) *int { return &o.Workers }, spec.Whole[int](1, 64)), Example: "2"},
	{Name: "threads", Affects: spec.Nothing, Form: spec.Into(func(o *Config) *int { return &o.Threads }, spec.Whole[int](1, 256)), Example: "2"},
	{Name: "timeout", Affects: spec.Nothing, Form: spec.Into(func(o *Config) *time.Duration { return &o.Timeout }, spec.Span(time.Millisecond, time.Hour)), Example: "5s"},
	{Name: "memory", Affects: spec.Nothing, Form: spec.Into(func(o *Config) *int { return &o.MemoryBytes }, spec.Size(64<<20, 1<<40)), Example: "4GiB"},
}

var weightsFields = []spec.Field[Weights]{
	{Name: "file", Affects: spec.Nothing, Required: true, Form: spec.Into(func(w *Weights) *string { return &w.File }, spec.ReadPath), Example: "read.onnx"},
	{Name: "sha256", Affects: spec.Outputs, Required: true, Form: spec.Into(func(w *Weights) *string { return &w.Digest }, spec.ReadDigest),
		Example: "48fc40f24f6d2a207a2b1091d3437eb3cc3eb6b676dc3ef9c37384005483683b"},
}

// FieldTable implements spec.Tabled.
func (c *Config) FieldTable() spec.Table { return spec.Fields(configFields) }

// Check implements model.Config.
func (c *Config) Check(m *model.Manifest) []error {
	if c.Read == (Weights{}) {
		return []error{errors.New("a model of kind ocr needs ocr: {read: {file: ..., sha256: ...}}")}
	}
	if len(m.Inputs) != 1 || m.Inputs[0].Type != model.Bytes {
		return []error{errors.New("a model of kind ocr reads images: inputs: {image: bytes}")}
	}
	return nil
}

// Open implements model.Config.
func (c *Config) Open(ctx context.Context, m *model.Manifest) (model.Model, error) {
	options := Options{
		Lines: File{Path: m.File, Digest: m.Digest}, Read: File{Path: c.Read.File, Digest: c.Read.Digest},
		PixelsMax: c.Pixels, Input: m.Inputs[0].Name, Outputs: m.Outputs,
		Session: onnx.SessionOptions{Processes: c.Workers, Threads: c.Threads, Timeout: c.Timeout, MemoryBytes: int64(c.MemoryBytes)},
	}
	if c.Turn != nil {
		options.Turns = File{Path: c.Turn.File, Digest: c.Turn.Digest}
	}
	return Load(ctx, options)
}

// Describe implements model.Config.
func (c *Config) Describe() string { return "" }
