package onnx

import (
	"context"
	"time"

	"github.com/afterbay/afterbay/internal/models/text/wordpiece"
	"github.com/afterbay/afterbay/internal/spec"
	"github.com/afterbay/afterbay/model"
)

// Kind is a graph that ONNX Runtime computes.
var Kind = model.Kind{
	Name:    "onnx",
	Help:    "how a model of kind onnx is computed",
	Example: "{tokens: {file: tokenizer.json}, pool: mean}",
	New:     func() model.Config { return &Config{} },
}

// Config computes an ONNX graph in processes of ONNX Runtime. Inputs and outputs have the names of
// the graph.
type Config struct {
	Workers     int           // processes, each with the model in its memory; 0 is one for each core but one, at most 4
	Threads     int           // that compute a call; 0 is 1
	Timeout     time.Duration // most that a call may take, after which its process is ended; 0 is 30s
	MemoryBytes int           // of a process, on Linux; 0 is 2GiB

	Tokens    *TokensConfig    // the word pieces that texts are given as; nil gives the texts
	Constants []ConstantConfig // inputs that are always the same
	Carry     []Carry          // inputs in front of which the last elements of the key's row before are put
	States    []StateConfig    // inputs that are what the key's row before left
	Missing   bool             // missing numbers are given as NaN
	Pool      string           // makes one vector of those of a text's tokens
	Normalize bool             // makes the scores of a row a vector of length 1
}

// TokensConfig are word pieces of texts.
type TokensConfig struct {
	File string // tokenizer.json or vocab.txt, relative to the manifest
	Max  int    // tokens of a text, beyond which its end is cut off; 0 is 256
}

// ConstantConfig is an input of a graph that is always the same.
type ConstantConfig struct {
	Name   string
	Values []float64
}

// Carry is how many elements an input keeps of the key's row before.
type Carry struct {
	Name     string
	Elements int
}

// StateConfig is an input of a graph, in zeros at first, that an output is for the next
// row of the same key.
type StateConfig struct {
	Name   string
	Output string // of the graph
	Shape  []int  // -1 stands for the rows of a call; nil is the graph's, if only that length is open
}

var configFields = []spec.Field[Config]{
	{Name: "workers", Affects: spec.Nothing, Form: spec.Into(func(o *Config) *int { return &o.Workers }, spec.Whole[int](1, 64)), Example: "2"},
	{Name: "threads", Affects: spec.Nothing, Form: spec.Into(func(o *Config) *int { return &o.Threads }, spec.Whole[int](1, 256)), Example: "2"},
	{Name: "timeout", Affects: spec.Nothing, Form: spec.Into(func(o *Config) *time.Duration { return &o.Timeout }, spec.Span(time.Millisecond, time.Hour)), Example: "5s"},
	{Name: "memory", Affects: spec.Nothing, Form: spec.Into(func(o *Config) *int { return &o.MemoryBytes }, spec.Size(64<<20, 1<<40)), Example: "4GiB"},
	{Name: "tokens", Affects: spec.Outputs, Form: spec.Optional(func(o *Config) **TokensConfig { return &o.Tokens }, spec.MappingOf(tokensFields)), Example: "{file: tokenizer.json}"},
	{Name: "constants", Affects: spec.Outputs, Form: spec.Into(func(o *Config) *[]ConstantConfig { return &o.Constants },
		spec.Named(func(c *ConstantConfig) *string { return &c.Name }, spec.Into(func(c *ConstantConfig) *[]float64 { return &c.Values }, spec.ListOf(spec.Number())))),
		Example: "{sr: [16000]}", Absent: "none"},
	{Name: "carry", Affects: spec.Outputs, Form: spec.Into(func(o *Config) *[]Carry { return &o.Carry },
		spec.Named(func(c *Carry) *string { return &c.Name }, spec.Into(func(c *Carry) *int { return &c.Elements }, spec.Whole[int](1, 1<<20)))),
		Example: "{input: 64}", Absent: "none"},
	{Name: "states", Affects: spec.Outputs, Form: spec.Into(func(o *Config) *[]StateConfig { return &o.States },
		spec.Named(func(s *StateConfig) *string { return &s.Name }, spec.MappingOf(stateFields))),
		Example: "{state: {output: stateN}}", Absent: "none"},
	{Name: "missing", Affects: spec.Outputs, Form: spec.Into(func(o *Config) *bool { return &o.Missing }, spec.OnlyTrue()), Example: "true", Absent: "rows with missing numbers cannot be scored"},
	{Name: "pool", Affects: spec.Outputs, Form: spec.Into(func(o *Config) *string { return &o.Pool }, spec.Choice[string]("mean", "first")), Example: "mean", Absent: "the scores are those of the graph"},
	{Name: "normalize", Affects: spec.Outputs, Form: spec.Into(func(o *Config) *bool { return &o.Normalize }, spec.OnlyTrue()), Example: "true", Absent: "the scores are those of the graph"},
}

var tokensFields = []spec.Field[TokensConfig]{
	{Name: "file", Affects: spec.Nothing, Required: true, Form: spec.Into(func(t *TokensConfig) *string { return &t.File }, spec.ReadPath), Example: "tokenizer.json"},
	{Name: "max", Affects: spec.Outputs, Form: spec.Into(func(t *TokensConfig) *int { return &t.Max }, spec.Whole[int](1, 8192).Default(256)), Example: "128"},
}

var stateFields = []spec.Field[StateConfig]{
	{Name: "output", Affects: spec.Outputs, Required: true, Form: spec.Into(func(s *StateConfig) *string { return &s.Output }, spec.ReadName), Example: "stateN"},
	{Name: "shape", Affects: spec.Outputs, Form: spec.Into(func(s *StateConfig) *[]int { return &s.Shape }, spec.ListOf(spec.Whole[int](-1, 1<<20))), Example: "[2, -1, 128]"},
}

// FieldTable implements spec.Tabled.
func (c *Config) FieldTable() spec.Table { return spec.Fields(configFields) }

// Check implements model.Config. Options have what is checked.
func (c *Config) Check(*model.Manifest) []error { return nil }

// Open implements model.Config.
func (c *Config) Open(ctx context.Context, m *model.Manifest) (model.Model, error) {
	options := Options{
		Session: SessionOptions{Digest: m.Digest, Processes: c.Workers, Threads: c.Threads, Timeout: c.Timeout, MemoryBytes: int64(c.MemoryBytes)},
		Batch:   m.Batch.Size,
	}
	tokens, err := c.Tokens.load()
	if err != nil {
		return nil, err
	}
	for _, in := range m.Inputs {
		options.Inputs = append(options.Inputs, c.input(in, tokens))
	}
	for _, constant := range c.Constants {
		options.Inputs = append(options.Inputs, Input{Name: constant.Name, Kind: Constant, Constant: constant.Values})
	}
	for _, out := range m.Outputs {
		options.Outputs = append(options.Outputs, Output{Name: out.Name, Size: out.Size, Pool: c.Pool, Normalize: c.Normalize})
	}
	for _, s := range c.States {
		options.States = append(options.States, State{Input: s.Name, Output: s.Output, Shape: s.Shape})
	}
	loaded, err := Load(ctx, m.File, options)
	if err != nil {
		return nil, err
	}
	return closer{loaded}, nil
}

// Describe implements model.Config.
func (c *Config) Describe() string { return "" }

func (c *Config) input(in model.ManifestInput, tokens *Tokens) Input {
	input := Input{Name: in.Name, Shape: in.Shape, Kind: Numbers, Missing: c.Missing}
	switch {
	case in.Type == model.Bytes:
		input.Kind = Raw
	case in.Type == model.String && tokens != nil:
		input.Kind, input.Tokens = TokenIDs, tokens
	case in.Type == model.String:
		input.Kind = Text
	}
	for _, carried := range c.Carry {
		if carried.Name == in.Name {
			input.Carry = carried.Elements
		}
	}
	return input
}

func (t *TokensConfig) load() (*Tokens, error) {
	if t == nil {
		return nil, nil
	}
	tokenizer, err := wordpiece.Load(t.File, wordpiece.Options{})
	if err != nil {
		return nil, err
	}
	return &Tokens{Tokenizer: tokenizer, Max: t.Max}, nil
}

// closer is a model that is an io.Closer.
type closer struct{ *Model }

// Close ends the processes of the model.
func (c closer) Close() error {
	c.Model.Close()
	return nil
}
