package models

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"

	"github.com/afterbay/afterbay/internal/models/tree"
	"github.com/afterbay/afterbay/model"
)

// inputsMax bounds the inputs, and the outputs, of a drafted manifest.
const inputsMax = 256

// GraphError refuses a file of ONNX that is not a model of trees. ONNX Runtime can run it, given a
// manifest.
type GraphError struct {
	Manifest *model.Manifest // a draft from the file, without name and version
	Open     []string        // the questions that the file leaves open, and the fields of the manifest that answer them

	name string // of the file
	ops  []string
}

// Error says why the file needs a manifest, and how to get one.
func (e *GraphError) Error() string {
	ops := strings.Join(e.ops[:min(len(e.ops), 3)], ", ")
	if len(e.ops) > 3 {
		ops += ", ..."
	}
	return fmt.Sprintf("model %s: its graph (%s) is not a model of trees, so ONNX Runtime computes it and a manifest describes it: write one by `afterbay model add %s --name NAME --version 1`", e.name, ops, e.name)
}

// graphError returns a *GraphError if the file is ONNX but not readable as trees. It returns nil
// for other files.
func graphError(name string, data []byte, err error) error {
	s := tree.ReadSignature(data)
	if s == nil || s.HasTrees() || len(s.Operators) == 0 || len(s.Inputs) > inputsMax || len(s.Outputs) > inputsMax {
		return err
	}
	digest := sha256.Sum256(data)
	e := &GraphError{name: name, ops: s.Operators, Manifest: &model.Manifest{Kind: "onnx", File: name, Digest: hex.EncodeToString(digest[:])}}
	e.inputs(s.Inputs)
	e.outputs(s.Outputs)
	return e
}

func (e *GraphError) open(format string, args ...any) {
	e.Open = append(e.Open, fmt.Sprintf(format, args...))
}

// tokenInputs are the inputs of a model that reads the word pieces of a text.
var tokenInputs = []string{"input_ids", "attention_mask", "token_type_ids"}

func (e *GraphError) inputs(list []tree.Tensor) {
	tokens := slices.ContainsFunc(list, func(t tree.Tensor) bool { return t.Name == tokenInputs[0] && len(t.Shape) == 2 })
	if tokens {
		e.Manifest.Inputs = append(e.Manifest.Inputs, model.ManifestInput{Name: "text", Type: model.String})
		e.open("the model reads word pieces (%s): write `onnx: {tokens: {file: tokenizer.json}}`", tokenInputs[0])
	}
	for _, t := range list {
		if !tokens || !slices.Contains(tokenInputs, t.Name) {
			e.input(t)
		}
	}
}

func (e *GraphError) input(t tree.Tensor) {
	in := model.ManifestInput{Name: t.Name, Type: model.Number}
	switch {
	case t.Type == tree.NoTensor:
		e.open("input %s is a list or a map, which no manifest can give: export the model with tensors", t.Name)
		return
	case len(t.Shape) == 0:
		e.open("input %s has no rows, it is the same for all: write its value as `onnx: {constants: {%s: [0]}}`, or `onnx: {states: {%s: {output: NAME}}}` if an output becomes it", t.Name, t.Name, t.Name)
		return
	case t.Shape[0] > 1:
		e.open("input %s takes exactly %d rows: export the model with an open first length, or name the output that becomes it as `onnx: {states: {%s: {output: NAME}}}`", t.Name, t.Shape[0], t.Name)
	}
	row, missing := t.Shape[1:], 0
	for _, length := range row {
		if in.Shape = append(in.Shape, int(length)); length < 0 {
			missing++
		}
	}
	switch {
	case t.Type == tree.Texts:
		in.Type, in.Shape = model.String, nil
	case missing > 0 || t.Type == tree.RawBytes:
		in.Type, in.Shape = model.Bytes, nil
		if missing > 1 {
			e.open("input %s has the shape %v, and more than one length of a row is open: write all of them, as `{type: bytes, shape: [3, 48, 320]}`", t.Name, row)
		}
	}
	e.Manifest.Inputs = append(e.Manifest.Inputs, in)
}

func (e *GraphError) outputs(list []tree.Tensor) {
	for _, t := range list {
		if t.Type != tree.Numbers {
			continue // no scores
		}
		out := model.Output{Name: t.Name, Size: 1}
		for _, length := range t.Shape[min(1, len(t.Shape)):] {
			if length < 0 || out.Size < 0 || length > 1<<20 {
				out.Size = -1
			} else if out.Size *= int(length); out.Size > 1<<20 {
				out.Size = -1
			}
		}
		if out.Size < 1 {
			e.open("output %s has the shape %v: write how many scores a row has as `outputs: {%s: 384}`, and `onnx: {pool: mean}` if they are those of tokens", t.Name, t.Shape, t.Name)
			out.Size = 1
		}
		e.Manifest.Outputs = append(e.Manifest.Outputs, out)
	}
	if len(e.Manifest.Outputs) == 0 {
		e.open("the graph has no output of numbers: export the model so that its scores are a tensor")
	}
}
