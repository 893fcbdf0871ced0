package lang

import (
	"time"

	"github.com/afterbay/afterbay/internal/spec"
	"github.com/afterbay/afterbay/model"
)

// What the manifest says of models outside of the process.

var onnxFields = []spec.Field[model.ONNX]{
	{Name: "workers", Affects: spec.Nothing, Form: spec.Into(func(o *model.ONNX) *int { return &o.Workers }, spec.Whole[int](1, 64)), Example: "2"},
	{Name: "threads", Affects: spec.Nothing, Form: spec.Into(func(o *model.ONNX) *int { return &o.Threads }, spec.Whole[int](1, 256)), Example: "2"},
	{Name: "timeout", Affects: spec.Nothing, Form: spec.Into(func(o *model.ONNX) *time.Duration { return &o.Timeout }, spec.Span(time.Millisecond, time.Hour)), Example: "5s"},
	{Name: "memory", Affects: spec.Nothing, Form: spec.Into(func(o *model.ONNX) *int { return &o.MemoryBytes }, spec.Size(64<<20, 1<<40)), Example: "4GiB"},
	{Name: "tokens", Affects: spec.Outputs, Form: spec.Optional(func(o *model.ONNX) **model.Tokens { return &o.Tokens }, spec.MappingOf(tokensFields)), Example: "{file: tokenizer.json}"},
	{Name: "constants", Affects: spec.Outputs, Form: spec.Into(func(o *model.ONNX) *[]model.Constant { return &o.Constants },
		spec.Named(func(c *model.Constant) *string { return &c.Name }, spec.Into(func(c *model.Constant) *[]float64 { return &c.Values }, spec.ListOf(spec.Number())))),
		Example: "{sr: [16000]}", Absent: "none"},
	{Name: "carry", Affects: spec.Outputs, Form: spec.Into(func(o *model.ONNX) *[]model.Carry { return &o.Carry },
		spec.Named(func(c *model.Carry) *string { return &c.Name }, spec.Into(func(c *model.Carry) *int { return &c.Elements }, spec.Whole[int](1, 1<<20)))),
		Example: "{input: 64}", Absent: "none"},
	{Name: "states", Affects: spec.Outputs, Form: spec.Into(func(o *model.ONNX) *[]model.State { return &o.States },
		spec.Named(func(s *model.State) *string { return &s.Name }, spec.MappingOf(stateFields))),
		Example: "{state: {output: stateN}}", Absent: "none"},
	{Name: "missing", Affects: spec.Outputs, Form: spec.Into(func(o *model.ONNX) *bool { return &o.Missing }, spec.OnlyTrue()), Example: "true", Absent: "rows with missing numbers cannot be scored"},
	{Name: "pool", Affects: spec.Outputs, Form: spec.Into(func(o *model.ONNX) *string { return &o.Pool }, spec.Choice[string]("mean", "first")), Example: "mean", Absent: "the scores are those of the graph"},
	{Name: "normalize", Affects: spec.Outputs, Form: spec.Into(func(o *model.ONNX) *bool { return &o.Normalize }, spec.OnlyTrue()), Example: "true", Absent: "the scores are those of the graph"},
}

var tokensFields = []spec.Field[model.Tokens]{
	{Name: "file", Affects: spec.Nothing, Required: true, Form: spec.Into(func(t *model.Tokens) *string { return &t.File }, spec.ReadPath), Example: "tokenizer.json"},
	{Name: "max", Affects: spec.Outputs, Form: spec.Into(func(t *model.Tokens) *int { return &t.Max }, spec.Whole[int](1, 8192).Default(256)), Example: "128"},
}

var stateFields = []spec.Field[model.State]{
	{Name: "output", Affects: spec.Outputs, Required: true, Form: spec.Into(func(s *model.State) *string { return &s.Output }, spec.ReadName), Example: "stateN"},
	{Name: "shape", Affects: spec.Outputs, Form: spec.Into(func(s *model.State) *[]int { return &s.Shape }, spec.ListOf(spec.Whole[int](-1, 1<<20))), Example: "[2, -1, 128]"},
}

var ocrFields = []spec.Field[model.OCR]{
	{Name: "read", Affects: spec.Outputs, Required: true, Form: spec.Into(func(o *model.OCR) *model.Weights { return &o.Read }, spec.MappingOf(weightsFields)),
		Example: "{file: read.onnx, sha256: 48fc40f24f6d2a207a2b1091d3437eb3cc3eb6b676dc3ef9c37384005483683b}"},
	{Name: "turn", Affects: spec.Outputs, Form: spec.Optional(func(o *model.OCR) **model.Weights { return &o.Turn }, spec.MappingOf(weightsFields)),
		Example: "{file: turn.onnx, sha256: e47acedf663230f8863ff1ab0e64dd2d82b838fceb5957146dab185a89d6215c}"},
	{Name: "pixels", Affects: spec.Outputs, Form: spec.Into(func(o *model.OCR) *int { return &o.Pixels }, spec.Whole[int](1, 200_000_000).Default(20_000_000)), Example: "5000000"},
	{Name: "workers", Affects: spec.Nothing, Form: spec.Into(func(o *model.OCR) *int { return &o.Workers }, spec.Whole[int](1, 64)), Example: "2"},
	{Name: "threads", Affects: spec.Nothing, Form: spec.Into(func(o *model.OCR) *int { return &o.Threads }, spec.Whole[int](1, 256)), Example: "2"},
	{Name: "timeout", Affects: spec.Nothing, Form: spec.Into(func(o *model.OCR) *time.Duration { return &o.Timeout }, spec.Span(time.Millisecond, time.Hour)), Example: "5s"},
	{Name: "memory", Affects: spec.Nothing, Form: spec.Into(func(o *model.OCR) *int { return &o.MemoryBytes }, spec.Size(64<<20, 1<<40)), Example: "4GiB"},
}

var voiceFields = []spec.Field[model.Voice]{
	{Name: "seconds", Affects: spec.Outputs, Form: spec.Into(func(v *model.Voice) *int { return &v.Seconds }, spec.Whole[int](1, 86_400).Default(900)), Example: "60"},
	{Name: "workers", Affects: spec.Nothing, Form: spec.Into(func(v *model.Voice) *int { return &v.Workers }, spec.Whole[int](1, 64)), Example: "2"},
	{Name: "threads", Affects: spec.Nothing, Form: spec.Into(func(v *model.Voice) *int { return &v.Threads }, spec.Whole[int](1, 256)), Example: "2"},
	{Name: "timeout", Affects: spec.Nothing, Form: spec.Into(func(v *model.Voice) *time.Duration { return &v.Timeout }, spec.Span(time.Millisecond, time.Hour)), Example: "5s"},
	{Name: "memory", Affects: spec.Nothing, Form: spec.Into(func(v *model.Voice) *int { return &v.MemoryBytes }, spec.Size(64<<20, 1<<40)), Example: "4GiB"},
}

var weightsFields = []spec.Field[model.Weights]{
	{Name: "file", Affects: spec.Nothing, Required: true, Form: spec.Into(func(w *model.Weights) *string { return &w.File }, spec.ReadPath), Example: "read.onnx"},
	{Name: "sha256", Affects: spec.Outputs, Required: true, Form: spec.Into(func(w *model.Weights) *string { return &w.Digest }, digest()),
		Example: "48fc40f24f6d2a207a2b1091d3437eb3cc3eb6b676dc3ef9c37384005483683b"},
}

var processFields = []spec.Field[model.Process]{
	{Name: "command", Affects: spec.Outputs, Required: true, Form: spec.Into(func(p *model.Process) *[]string { return &p.Command }, readCommand),
		Example: "[python3, worker.py, model.py]"},
	{Name: "workers", Affects: spec.Nothing, Form: spec.Into(func(p *model.Process) *int { return &p.Workers }, spec.Whole[int](1, 256)), Example: "4"},
	{Name: "timeout", Affects: spec.Nothing, Form: spec.Into(func(p *model.Process) *time.Duration { return &p.Timeout }, spec.Span(time.Millisecond, time.Hour)), Example: "5s"},
	{Name: "start", Affects: spec.Nothing, Form: spec.Into(func(p *model.Process) *time.Duration { return &p.Start }, spec.Span(time.Millisecond, time.Hour)), Example: "2m"},
	{Name: "memory", Affects: spec.Nothing, Form: spec.Into(func(p *model.Process) *int { return &p.MemoryBytes }, spec.Size(1<<20, 1<<40)), Example: "4GiB"},
	{Name: "pure", Affects: spec.Outputs, Form: spec.Into(func(p *model.Process) *bool { return &p.Pure }, spec.OnlyTrue()), Example: "true", Absent: "events are scored when they are durable"},
	{Name: "env", Affects: spec.Nothing, Form: spec.Into(func(p *model.Process) *[]string { return &p.Env }, spec.ListOf(spec.TextOf("a name"))), Example: "[MODEL_CACHE]",
		Absent: "none", Help: "variables of the engine's environment that the program gets, beside PATH, HOME, LANG and TMPDIR; names that begin with AFTERBAY_ are refused"},
}

var remoteFields = []spec.Field[model.Remote]{
	{Name: "endpoint", Affects: spec.Outputs, Required: true, Form: spec.Into(func(m *model.Remote) *string { return &m.Endpoint }, spec.PathOf(spec.ReadURL)), Example: "grpc://models:8081"},
	{Name: "api", Affects: spec.Outputs, Form: spec.Into(func(m *model.Remote) *string { return &m.API }, spec.Choice[string]("embeddings", "moderations", "chat", "transcriptions", "http")), Example: "embeddings"},
	{Name: "model", Affects: spec.Outputs, Form: spec.Into(func(m *model.Remote) *string { return &m.Model }, spec.ReadName), Example: "fraud", Absent: "the name of the manifest"},
	{Name: "version", Affects: spec.Outputs, Form: spec.Into(func(m *model.Remote) *string { return &m.Version }, spec.ReadName), Example: "v1.0"},
	{Name: "json", Affects: spec.Outputs, Form: spec.Into(func(m *model.Remote) *bool { return &m.JSON }, spec.OnlyTrue()), Example: "true", Absent: "binary tensors"},
	{Name: "timeout", Affects: spec.Nothing, Form: spec.Into(func(m *model.Remote) *time.Duration { return &m.Timeout }, spec.Span(time.Millisecond, time.Hour)), Example: "500ms"},
	{Name: "calls", Affects: spec.Nothing, Form: spec.Into(func(m *model.Remote) *int { return &m.Calls }, spec.Whole[int](1, 4096)), Example: "32"},
	{Name: "token", Affects: spec.Nothing, Or: "token_file", Form: spec.Into(func(m *model.Remote) *string { return &m.Token }, spec.ReadName), Example: "MODELS_TOKEN"},
	{Name: "token_file", Affects: spec.Nothing, Form: spec.Into(func(m *model.Remote) *string { return &m.TokenFile }, spec.ReadPath), Example: "/run/secrets/models"},
	{Name: "header", Affects: spec.Nothing, Form: spec.Into(func(m *model.Remote) *string { return &m.Header }, spec.ReadName), Example: "X-API-Key"},
	{Name: "chat", Affects: spec.Outputs, Form: spec.Optional(func(m *model.Remote) **model.Chat { return &m.Chat }, spec.MappingOf(chatFields)),
		Example: "{prompt: 'How angry is this, from 0 to 1? {text}'}", Absent: "required with api chat", Help: "what a chat model is asked"},
	{Name: "mapping", Affects: spec.Outputs, Form: spec.Optional(func(m *model.Remote) **model.Mapping { return &m.Mapping }, spec.MappingOf(mappingFields)),
		Example: "{rows: instances, results: predictions}", Absent: "as below", Help: "the JSON of api http"},
}

var chatFields = []spec.Field[model.Chat]{
	{Name: "prompt", Affects: spec.Outputs, Required: true, Form: spec.Into(func(c *model.Chat) *string { return &c.Prompt }, spec.TextOf("a question")), Example: "'How angry is this, from 0 to 1? {text}'"},
	{Name: "system", Affects: spec.Outputs, Form: spec.Into(func(c *model.Chat) *string { return &c.System }, spec.TextOf("a text")), Example: "You rate posts."},
	{Name: "answer", Affects: spec.Outputs, Form: spec.Into(func(c *model.Chat) *int { return &c.Answer }, spec.Whole[int](1, 1<<20).Default(64)), Example: "32"},
	{Name: "tokens", Affects: spec.Nothing, Form: spec.Into(func(c *model.Chat) *int { return &c.Tokens }, spec.Whole[int](1, 1<<30)), Example: "20000"},
	{Name: "reasons", Affects: spec.Outputs, Form: spec.Into(func(c *model.Chat) *bool { return &c.Reasons }, spec.OnlyTrue()), Example: "true", Absent: "max_tokens, and a temperature of 0"},
}

var mappingFields = []spec.Field[model.Mapping]{
	{Name: "rows", Affects: spec.Outputs, Form: spec.Into(func(m *model.Mapping) *string { return &m.Rows }, spec.ReadName), Example: "instances"},
	{Name: "results", Affects: spec.Outputs, Form: spec.Into(func(m *model.Mapping) *string { return &m.Results }, spec.ReadName), Example: "predictions"},
	{Name: "send", Affects: spec.Outputs, Form: spec.Into(func(m *model.Mapping) *[]model.Place { return &m.Send }, readPlaces), Example: "{amount: transaction.amount}", Absent: "by their names"},
	{Name: "read", Affects: spec.Outputs, Form: spec.Into(func(m *model.Mapping) *[]model.Place { return &m.Read }, readPlaces), Example: "{score: risk.0}", Absent: "by their names"},
}

var readPlaces = spec.Named(func(p *model.Place) *string { return &p.Name }, spec.Into(func(p *model.Place) *string { return &p.Place }, spec.ReadName))
