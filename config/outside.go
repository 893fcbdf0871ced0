package config

import (
	"time"

	"github.com/afterbay/afterbay/model"
)

// What the manifest says of models outside of the process.

var onnxWords = []word[model.ONNX]{
	{name: "workers", form: field(func(o *model.ONNX) *int { return &o.Workers }, whole[int](1, 64)), example: "2"},
	{name: "threads", form: field(func(o *model.ONNX) *int { return &o.Threads }, whole[int](1, 256)), example: "2"},
	{name: "timeout", form: field(func(o *model.ONNX) *time.Duration { return &o.Timeout }, span(time.Millisecond, time.Hour)), example: "5s"},
	{name: "memory", form: field(func(o *model.ONNX) *int { return &o.MemoryBytes }, size(64<<20, 1<<40)), example: "4GiB"},
	{name: "tokens", form: optional(func(o *model.ONNX) **model.Tokens { return &o.Tokens }, words(tokensWords)), example: "{file: tokenizer.json}"},
	{name: "constants", form: field(func(o *model.ONNX) *[]model.Constant { return &o.Constants },
		named(func(c *model.Constant) *string { return &c.Name }, field(func(c *model.Constant) *[]float64 { return &c.Values }, listOf(number())))),
		example: "{sr: [16000]}", absent: "none"},
	{name: "carry", form: field(func(o *model.ONNX) *[]model.Carry { return &o.Carry },
		named(func(c *model.Carry) *string { return &c.Name }, field(func(c *model.Carry) *int { return &c.Elements }, whole[int](1, 1<<20)))),
		example: "{input: 64}", absent: "none"},
	{name: "states", form: field(func(o *model.ONNX) *[]model.State { return &o.States },
		named(func(s *model.State) *string { return &s.Name }, words(stateWords))),
		example: "{state: {output: stateN}}", absent: "none"},
	{name: "missing", form: field(func(o *model.ONNX) *bool { return &o.Missing }, onlyTrue()), example: "true", absent: "rows with missing numbers cannot be scored"},
	{name: "pool", form: field(func(o *model.ONNX) *string { return &o.Pool }, choice[string]("mean", "first")), example: "mean", absent: "the scores are those of the graph"},
	{name: "normalize", form: field(func(o *model.ONNX) *bool { return &o.Normalize }, onlyTrue()), example: "true", absent: "the scores are those of the graph"},
}

var tokensWords = []word[model.Tokens]{
	{name: "file", required: true, form: field(func(t *model.Tokens) *string { return &t.File }, readPath), example: "tokenizer.json"},
	{name: "max", form: field(func(t *model.Tokens) *int { return &t.Max }, whole[int](1, 8192)), example: "128"},
}

var stateWords = []word[model.State]{
	{name: "output", required: true, form: field(func(s *model.State) *string { return &s.Output }, readName), example: "stateN"},
	{name: "shape", form: field(func(s *model.State) *[]int { return &s.Shape }, listOf(whole[int](-1, 1<<20))), example: "[2, -1, 128]"},
}

var ocrWords = []word[model.OCR]{
	{name: "read", required: true, form: field(func(o *model.OCR) *model.Weights { return &o.Read }, words(weightsWords)),
		example: "{file: read.onnx, sha256: 48fc40f24f6d2a207a2b1091d3437eb3cc3eb6b676dc3ef9c37384005483683b}"},
	{name: "turn", form: optional(func(o *model.OCR) **model.Weights { return &o.Turn }, words(weightsWords)),
		example: "{file: turn.onnx, sha256: e47acedf663230f8863ff1ab0e64dd2d82b838fceb5957146dab185a89d6215c}"},
	{name: "pixels", form: field(func(o *model.OCR) *int { return &o.Pixels }, whole[int](1, 200_000_000)), example: "5000000"},
	{name: "workers", form: field(func(o *model.OCR) *int { return &o.Workers }, whole[int](1, 64)), example: "2"},
	{name: "threads", form: field(func(o *model.OCR) *int { return &o.Threads }, whole[int](1, 256)), example: "2"},
	{name: "timeout", form: field(func(o *model.OCR) *time.Duration { return &o.Timeout }, span(time.Millisecond, time.Hour)), example: "5s"},
	{name: "memory", form: field(func(o *model.OCR) *int { return &o.MemoryBytes }, size(64<<20, 1<<40)), example: "4GiB"},
}

var voiceWords = []word[model.Voice]{
	{name: "seconds", form: field(func(v *model.Voice) *int { return &v.Seconds }, whole[int](1, 86_400)), example: "60"},
	{name: "workers", form: field(func(v *model.Voice) *int { return &v.Workers }, whole[int](1, 64)), example: "2"},
	{name: "threads", form: field(func(v *model.Voice) *int { return &v.Threads }, whole[int](1, 256)), example: "2"},
	{name: "timeout", form: field(func(v *model.Voice) *time.Duration { return &v.Timeout }, span(time.Millisecond, time.Hour)), example: "5s"},
	{name: "memory", form: field(func(v *model.Voice) *int { return &v.MemoryBytes }, size(64<<20, 1<<40)), example: "4GiB"},
}

var weightsWords = []word[model.Weights]{
	{name: "file", required: true, form: field(func(w *model.Weights) *string { return &w.File }, readPath), example: "read.onnx"},
	{name: "sha256", required: true, form: field(func(w *model.Weights) *string { return &w.Digest }, digest()),
		example: "48fc40f24f6d2a207a2b1091d3437eb3cc3eb6b676dc3ef9c37384005483683b"},
}

var processWords = []word[model.Process]{
	{name: "command", required: true, form: field(func(p *model.Process) *[]string { return &p.Command }, listOf(textOf("a text"))),
		example: "[python3, worker.py, model.py]"},
	{name: "workers", form: field(func(p *model.Process) *int { return &p.Workers }, whole[int](1, 256)), example: "4"},
	{name: "timeout", form: field(func(p *model.Process) *time.Duration { return &p.Timeout }, span(time.Millisecond, time.Hour)), example: "5s"},
	{name: "start", form: field(func(p *model.Process) *time.Duration { return &p.Start }, span(time.Millisecond, time.Hour)), example: "2m"},
	{name: "memory", form: field(func(p *model.Process) *int { return &p.MemoryBytes }, size(1<<20, 1<<40)), example: "4GiB"},
	{name: "pure", form: field(func(p *model.Process) *bool { return &p.Pure }, onlyTrue()), example: "true", absent: "events are scored when they are durable"},
	{name: "env", form: field(func(p *model.Process) *[]string { return &p.Env }, listOf(textOf("a name"))), example: "[MODEL_CACHE]",
		absent: "none", means: "variables of the engine's environment that the program gets, beside PATH, HOME, LANG and TMPDIR; names that begin with AFTERBAY_ are refused"},
}

var remoteWords = []word[model.Remote]{
	{name: "endpoint", required: true, form: field(func(m *model.Remote) *string { return &m.Endpoint }, readURL), example: "grpc://models:8081"},
	{name: "api", form: field(func(m *model.Remote) *string { return &m.API }, choice[string]("embeddings", "moderations", "chat", "transcriptions", "http")), example: "embeddings"},
	{name: "model", form: field(func(m *model.Remote) *string { return &m.Model }, readName), example: "fraud", absent: "the name of the manifest"},
	{name: "version", form: field(func(m *model.Remote) *string { return &m.Version }, readName), example: "v1.0"},
	{name: "json", form: field(func(m *model.Remote) *bool { return &m.JSON }, onlyTrue()), example: "true", absent: "binary tensors"},
	{name: "timeout", form: field(func(m *model.Remote) *time.Duration { return &m.Timeout }, span(time.Millisecond, time.Hour)), example: "500ms"},
	{name: "calls", form: field(func(m *model.Remote) *int { return &m.Calls }, whole[int](1, 4096)), example: "32"},
	{name: "token", or: "token_file", form: field(func(m *model.Remote) *string { return &m.Token }, readName), example: "MODELS_TOKEN"},
	{name: "token_file", form: field(func(m *model.Remote) *string { return &m.TokenFile }, readPath), example: "/run/secrets/models"},
	{name: "header", form: field(func(m *model.Remote) *string { return &m.Header }, readName), example: "X-API-Key"},
	{name: "chat", form: optional(func(m *model.Remote) **model.Chat { return &m.Chat }, words(chatWords)),
		example: "{prompt: 'How angry is this, from 0 to 1? {text}'}", absent: "required with api chat", means: "what a chat model is asked"},
	{name: "mapping", form: optional(func(m *model.Remote) **model.Mapping { return &m.Mapping }, words(mappingWords)),
		example: "{rows: instances, results: predictions}", absent: "as below", means: "the JSON of api http"},
}

var chatWords = []word[model.Chat]{
	{name: "prompt", required: true, form: field(func(c *model.Chat) *string { return &c.Prompt }, textOf("a question")), example: "'How angry is this, from 0 to 1? {text}'"},
	{name: "system", form: field(func(c *model.Chat) *string { return &c.System }, textOf("a text")), example: "You rate posts."},
	{name: "answer", form: field(func(c *model.Chat) *int { return &c.Answer }, whole[int](1, 1<<20)), example: "32"},
	{name: "tokens", form: field(func(c *model.Chat) *int { return &c.Tokens }, whole[int](1, 1<<30)), example: "20000"},
	{name: "reasons", form: field(func(c *model.Chat) *bool { return &c.Reasons }, onlyTrue()), example: "true", absent: "max_tokens, and a temperature of 0"},
}

var mappingWords = []word[model.Mapping]{
	{name: "rows", form: field(func(m *model.Mapping) *string { return &m.Rows }, readName), example: "instances"},
	{name: "results", form: field(func(m *model.Mapping) *string { return &m.Results }, readName), example: "predictions"},
	{name: "send", form: field(func(m *model.Mapping) *[]model.Place { return &m.Send }, readPlaces), example: "{amount: transaction.amount}", absent: "by their names"},
	{name: "read", form: field(func(m *model.Mapping) *[]model.Place { return &m.Read }, readPlaces), example: "{score: risk.0}", absent: "by their names"},
}

var readPlaces = named(func(p *model.Place) *string { return &p.Name }, field(func(p *model.Place) *string { return &p.Place }, readName))
