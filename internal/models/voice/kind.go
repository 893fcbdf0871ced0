package voice

import (
	"context"
	"errors"
	"time"

	"github.com/afterbay/afterbay/internal/models/onnx"
	"github.com/afterbay/afterbay/internal/spec"
	"github.com/afterbay/afterbay/model"
)

// Kind is a model that hears sounds.
var Kind = model.Kind{
	Name:    "voice",
	Help:    "how a model of kind voice hears",
	Example: "{seconds: 60}",
	New:     func() model.Config { return &Config{} },
}

// Config measures speech in sounds. The file is silero's model for 16 kHz.
type Config struct {
	Seconds int // that a sound may be long; 0 is 900

	Workers     int           // sounds that are heard at a time, each by a process; 0 is 1
	Threads     int           // that compute a call; 0 is 1
	Timeout     time.Duration // most that a frame of 32 ms may take, after which the process is ended; 0 is 30s
	MemoryBytes int           // of a process, on Linux; 0 is 2GiB
}

var configFields = []spec.Field[Config]{
	{Name: "seconds", Affects: spec.Outputs, Form: spec.Into(func(v *Config) *int { return &v.Seconds }, spec.Whole[int](1, 86_400).Default(900)), Example: "60"},
	{Name: "workers", Affects: spec.Nothing, Form: spec.Into(func(v *Config) *int { return &v.Workers }, spec.Whole[int](1, 64)), Example: "2"},
	{Name: "threads", Affects: spec.Nothing, Form: spec.Into(func(v *Config) *int { return &v.Threads }, spec.Whole[int](1, 256)), Example: "2"},
	{Name: "timeout", Affects: spec.Nothing, Form: spec.Into(func(v *Config) *time.Duration { return &v.Timeout }, spec.Span(time.Millisecond, time.Hour)), Example: "5s"},
	{Name: "memory", Affects: spec.Nothing, Form: spec.Into(func(v *Config) *int { return &v.MemoryBytes }, spec.Size(64<<20, 1<<40)), Example: "4GiB"},
}

// FieldTable implements spec.Tabled.
func (c *Config) FieldTable() spec.Table { return spec.Fields(configFields) }

// Check implements model.Config.
func (c *Config) Check(m *model.Manifest) []error {
	if len(m.Inputs) != 1 || m.Inputs[0].Type != model.Bytes {
		return []error{errors.New("a model of kind voice hears sounds: inputs: {audio: bytes}")}
	}
	return nil
}

// Open implements model.Config.
func (c *Config) Open(ctx context.Context, m *model.Manifest) (model.Model, error) {
	return Load(ctx, Options{
		Path: m.File, SecondsMax: c.Seconds, Input: m.Inputs[0].Name, Outputs: m.Outputs,
		Session: onnx.SessionOptions{Digest: m.Digest, Processes: c.Workers, Threads: c.Threads, Timeout: c.Timeout, MemoryBytes: int64(c.MemoryBytes)},
	})
}

// Describe implements model.Config.
func (c *Config) Describe() string { return "" }
