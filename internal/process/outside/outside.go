// Package outside opens the models of manifests that run outside of the process:
// in processes of ONNX Runtime, as any program, or on a server. Package models has
// those that run inside; a program that wants these too gives Kinds to whom it
// has verify manifests.
package outside

import (
	"cmp"
	"context"
	"fmt"
	"os"

	"github.com/afterbay/afterbay/internal/models"
	"github.com/afterbay/afterbay/internal/models/ocr"
	"github.com/afterbay/afterbay/internal/models/onnx"
	"github.com/afterbay/afterbay/internal/models/process"
	"github.com/afterbay/afterbay/internal/models/remote"
	"github.com/afterbay/afterbay/internal/models/text/wordpiece"
	"github.com/afterbay/afterbay/internal/models/voice"
	"github.com/afterbay/afterbay/model"
)

// Kinds returns what opens models of the kinds onnx, ocr, process, remote and
// voice.
func Kinds() map[string]models.Opener {
	return map[string]models.Opener{"onnx": openONNX, "ocr": openOCR, "process": openProcess, "remote": openRemote, "voice": openVoice}
}

// inputs returns the inputs of a manifest.
func inputs(m *model.Manifest) []model.Input {
	list := make([]model.Input, len(m.Inputs))
	for i, in := range m.Inputs {
		list[i] = model.Input{Name: in.Name, Type: cmp.Or(in.Type, model.Number), Shape: in.Shape, Categories: in.Categories}
	}
	return list
}

func openProcess(_ context.Context, m *model.Manifest) (model.Model, error) {
	p := m.Process
	if p == nil {
		return nil, fmt.Errorf("a model of kind process needs process: {command: [...]}")
	}
	options := process.Options{
		Command: p.Command, Dir: p.Dir, Inputs: inputs(m), Outputs: m.Outputs, Digest: m.Digest, Workers: p.Workers,
		Timeout: p.Timeout, StartTimeout: p.Start, MemoryBytesMax: int64(p.MemoryBytes), Pure: p.Pure, Variables: p.Env,
	}
	if len(m.Outputs) == 1 { // what a function returns has no name
		options.Outputs = []model.Output{{Size: m.Outputs[0].Size, Type: m.Outputs[0].Type}}
	}
	return process.Open(options)
}

func openRemote(_ context.Context, m *model.Manifest) (model.Model, error) {
	r := m.Remote
	if r == nil {
		return nil, fmt.Errorf("a model of kind remote needs remote: {endpoint: grpc://host:port}")
	}
	options := remote.Options{
		URL: r.Endpoint, API: remote.API(r.API), JSON: r.JSON, Model: cmp.Or(r.Model, m.Name), Version: r.Version,
		Inputs: inputs(m), Outputs: m.Outputs, Timeout: r.Timeout, Calls: r.Calls, BearerFile: r.TokenFile, Header: r.Header,
	}
	if r.Chat != nil {
		options.Chat = *r.Chat
	}
	if r.Mapping != nil {
		options.Mapping = *r.Mapping
	}
	if r.Token != "" {
		if options.Bearer = os.Getenv(r.Token); options.Bearer == "" {
			return nil, fmt.Errorf("the variable %s of the environment has no token", r.Token)
		}
	}
	return remote.Open(options)
}

func openONNX(ctx context.Context, m *model.Manifest) (model.Model, error) {
	o := m.ONNX
	if o == nil {
		o = &model.ONNX{}
	}
	options := onnx.Options{
		Session: onnx.SessionOptions{Digest: m.Digest, Processes: o.Workers, Threads: o.Threads, Timeout: o.Timeout, MemoryBytes: int64(o.MemoryBytes)},
		Batch:   m.Batch.Size,
	}
	tokens, err := tokensOf(o)
	if err != nil {
		return nil, err
	}
	for _, in := range m.Inputs {
		options.Inputs = append(options.Inputs, inputOf(in, o, tokens))
	}
	for _, c := range o.Constants {
		options.Inputs = append(options.Inputs, onnx.Input{Name: c.Name, Kind: onnx.Constant, Constant: c.Values})
	}
	for _, out := range m.Outputs {
		options.Outputs = append(options.Outputs, onnx.Output{Name: out.Name, Size: out.Size, Pool: o.Pool, Normalize: o.Normalize})
	}
	for _, s := range o.States {
		options.States = append(options.States, onnx.State{Input: s.Name, Output: s.Output, Shape: s.Shape})
	}
	loaded, err := onnx.Load(ctx, m.File, options)
	if err != nil {
		return nil, err
	}
	return closer{loaded}, nil
}

func openOCR(ctx context.Context, m *model.Manifest) (model.Model, error) {
	o := m.OCR
	if o == nil {
		return nil, fmt.Errorf("a model of kind ocr needs ocr: {read: {file: ..., sha256: ...}}")
	}
	if len(m.Inputs) != 1 || m.Inputs[0].Type != model.Bytes {
		return nil, fmt.Errorf("a model of kind ocr reads images: inputs: {image: bytes}")
	}
	options := ocr.Options{
		Lines: ocr.File{Path: m.File, Digest: m.Digest}, Read: ocr.File{Path: o.Read.File, Digest: o.Read.Digest},
		PixelsMax: o.Pixels, Input: m.Inputs[0].Name, Outputs: m.Outputs,
		Session: onnx.SessionOptions{Processes: o.Workers, Threads: o.Threads, Timeout: o.Timeout, MemoryBytes: int64(o.MemoryBytes)},
	}
	if o.Turn != nil {
		options.Turns = ocr.File{Path: o.Turn.File, Digest: o.Turn.Digest}
	}
	return ocr.Load(ctx, options)
}

func openVoice(ctx context.Context, m *model.Manifest) (model.Model, error) {
	v := m.Voice
	if v == nil {
		v = &model.Voice{}
	}
	if len(m.Inputs) != 1 || m.Inputs[0].Type != model.Bytes {
		return nil, fmt.Errorf("a model of kind voice hears sounds: inputs: {audio: bytes}")
	}
	return voice.Load(ctx, voice.Options{
		Path: m.File, SecondsMax: v.Seconds, Input: m.Inputs[0].Name, Outputs: m.Outputs,
		Session: onnx.SessionOptions{Digest: m.Digest, Processes: v.Workers, Threads: v.Threads, Timeout: v.Timeout, MemoryBytes: int64(v.MemoryBytes)},
	})
}

func inputOf(in model.ManifestInput, o *model.ONNX, tokens *onnx.Tokens) onnx.Input {
	input := onnx.Input{Name: in.Name, Shape: in.Shape, Kind: onnx.Numbers, Missing: o.Missing}
	switch {
	case in.Type == model.Bytes:
		input.Kind = onnx.Raw
	case in.Type == model.String && tokens != nil:
		input.Kind, input.Tokens = onnx.TokenIDs, tokens
	case in.Type == model.String:
		input.Kind = onnx.Text
	}
	for _, c := range o.Carry {
		if c.Name == in.Name {
			input.Carry = c.Elements
		}
	}
	return input
}

func tokensOf(o *model.ONNX) (*onnx.Tokens, error) {
	if o.Tokens == nil {
		return nil, nil
	}
	tokenizer, err := wordpiece.Load(o.Tokens.File, wordpiece.Options{})
	if err != nil {
		return nil, err
	}
	return &onnx.Tokens{Tokenizer: tokenizer, Max: o.Tokens.Max}, nil
}

// closer is a model of ONNX that is an io.Closer.
type closer struct{ *onnx.Model }

// Close ends the processes of the model.
func (c closer) Close() error {
	c.Model.Close()
	return nil
}
