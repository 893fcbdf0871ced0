package process

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/afterbay/afterbay/internal/spec"
	"github.com/afterbay/afterbay/model"
)

// Kind is a program.
var Kind = model.Kind{
	Name:    "process",
	Help:    "the program that is a model of kind process",
	Example: "{command: [python3, worker.py, model.py]}",
	NoFile:  true,
	New:     func() model.Config { return &Config{} },
}

// Config asks a program on this machine for scores or texts, over stdin and stdout.
type Config struct {
	Command     []string      // the program and its arguments, run in the manifest's folder
	Workers     int           // processes that run; 0 is 2
	Timeout     time.Duration // most that a worker may take for an answer; 0 is 30s
	Start       time.Duration // most that a worker may take to start; 0 is 1m
	MemoryBytes int           // at which a worker is ended, on Linux; 0 is 2GiB
	Pure        bool          // the program computes each row for itself and does nothing else: events may be scored before they are durable
	Env         []string      // names of variables that the program gets, beside PATH, HOME, LANG and TMPDIR; AFTERBAY_* is refused
}

var configFields = []spec.Field[Config]{
	{Name: "command", Affects: spec.Outputs, Required: true, Form: spec.Into(func(p *Config) *[]string { return &p.Command }, spec.Program(spec.ListOf(spec.TextOf("a text")))),
		Example: "[python3, worker.py, model.py]"},
	{Name: "workers", Affects: spec.Nothing, Form: spec.Into(func(p *Config) *int { return &p.Workers }, spec.Whole[int](1, 256)), Example: "4"},
	{Name: "timeout", Affects: spec.Nothing, Form: spec.Into(func(p *Config) *time.Duration { return &p.Timeout }, spec.Span(time.Millisecond, time.Hour)), Example: "5s"},
	{Name: "start", Affects: spec.Nothing, Form: spec.Into(func(p *Config) *time.Duration { return &p.Start }, spec.Span(time.Millisecond, time.Hour)), Example: "2m"},
	{Name: "memory", Affects: spec.Nothing, Form: spec.Into(func(p *Config) *int { return &p.MemoryBytes }, spec.Size(1<<20, 1<<40)), Example: "4GiB"},
	{Name: "pure", Affects: spec.Outputs, Form: spec.Into(func(p *Config) *bool { return &p.Pure }, spec.OnlyTrue()), Example: "true", Absent: "events are scored when they are durable"},
	{Name: "env", Affects: spec.Nothing, Form: spec.Into(func(p *Config) *[]string { return &p.Env }, spec.ListOf(spec.TextOf("a name"))), Example: "[MODEL_CACHE]",
		Absent: "none", Help: "variables of the engine's environment that the program gets, beside PATH, HOME, LANG and TMPDIR; names that begin with AFTERBAY_ are refused"},
}

// FieldTable implements spec.Tabled.
func (c *Config) FieldTable() spec.Table { return spec.Fields(configFields) }

// Check implements model.Config. Options have the rest.
func (c *Config) Check(*model.Manifest) []error {
	if c.Command == nil {
		return []error{errors.New("a model of kind process needs process: {command: [...]}")}
	}
	return nil
}

// Open implements model.Config.
func (c *Config) Open(_ context.Context, m *model.Manifest) (model.Model, error) {
	options := Options{
		Command: c.Command, Dir: m.Dir, Inputs: m.Described(), Outputs: m.Outputs, Digest: m.Digest, Workers: c.Workers,
		Timeout: c.Timeout, StartTimeout: c.Start, MemoryBytesMax: int64(c.MemoryBytes), Pure: c.Pure, Variables: c.Env,
	}
	if len(m.Outputs) == 1 { // what a function returns has no name
		options.Outputs = []model.Output{{Size: m.Outputs[0].Size, Type: m.Outputs[0].Type}}
	}
	return Open(options)
}

// Describe implements model.Config.
func (c *Config) Describe() string { return strings.Join(c.Command, " ") }

// Program implements model.Program.
func (c *Config) Program() string { return c.Describe() }

// Inline implements model.Inliner.
func (c *Config) Inline(m model.Inline) (model.Config, bool, error) {
	return &Config{Command: m.Command, Timeout: m.Timeout, Workers: m.Calls}, m.Command != nil, nil
}
