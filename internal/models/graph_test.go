package models

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"google.golang.org/protobuf/encoding/protowire"
)

// message encodes fields of protobuf: numbers, texts and messages by turns of field and value.
func message(fields ...any) (data []byte) {
	for i := 0; i < len(fields); i += 2 {
		number := protowire.Number(fields[i].(int))
		switch value := fields[i+1].(type) {
		case int:
			data = protowire.AppendVarint(protowire.AppendTag(data, number, protowire.VarintType), uint64(value))
		case string:
			data = protowire.AppendString(protowire.AppendTag(data, number, protowire.BytesType), value)
		case []byte:
			data = protowire.AppendBytes(protowire.AppendTag(data, number, protowire.BytesType), value)
		}
	}
	return data
}

// tensor is a ValueInfoProto; a length of -1 is open.
func tensor(name string, kind int, lengths ...int) []byte {
	var shape []byte
	for _, length := range lengths {
		dimension := message(1, length)
		if length < 0 {
			dimension = message(2, "n")
		}
		shape = append(shape, message(1, dimension)...)
	}
	return message(1, name, 2, message(1, message(1, kind, 2, shape)))
}

// graph is a ModelProto of one node.
func graph(op string, fields ...any) []byte {
	return message(1, 8, 7, message(append([]any{1, message(4, op)}, fields...)...))
}

const (
	float, int64s, texts, half = 1, 7, 8, 10
	anInput, anOutput          = 11, 12
)

func TestGraphsOfONNXHaveADraftOfTheirManifest(t *testing.T) {
	for name, c := range map[string]struct {
		data            []byte
		inputs, outputs string
		open            []string // parts
	}{
		"numbers": {graph("MatMul", 5, message(8, "w"), anInput, tensor("w", float, 3, 2), anInput, tensor("x", float, -1, 3), anInput, tensor("n", int64s, -1), anOutput, tensor("y", float, -1, 2)),
			"[{x number [3] []} {n number [] []}]", "[{y 2 }]", nil},
		"texts and bytes": {graph("Gather", anInput, tensor("s", texts, -1, 1), anInput, tensor("wave", float, -1, -1), anInput, tensor("h", half, -1, 4), anOutput, tensor("label", texts, -1), anOutput, tensor("p", float, -1)),
			"[{s string [] []} {wave bytes [] []} {h bytes [] []}]", "[{p 1 }]", nil},
		"word pieces": {graph("Gather", anInput, tensor("input_ids", int64s, -1, -1), anInput, tensor("attention_mask", int64s, -1, -1), anOutput, tensor("h", float, -1, -1, 384)),
			"[{text string [] []}]", "[{h 1 }]", []string{"tokens: {file: tokenizer.json}", "output h has the shape [-1 -1 384]"}},
		"state and constant": {graph("LSTM", anInput, tensor("state", float, 2, -1, 8), anInput, tensor("rate", int64s), anOutput, tensor("o", float, -1, 1)),
			"[{state bytes [] []}]", "[{o 1 }]", []string{"input state takes exactly 2 rows", "constants: {rate: [0]}"}},
		"several open lengths": {graph("Conv", anInput, tensor("image", float, -1, 3, -1, -1), anOutput, tensor("o", float, -1, 1<<20, 1<<20)),
			"[{image bytes [] []}]", "[{o 1 }]", []string{"input image has the shape [3 -1 -1]", "output o has the shape"}},
		"no scores": {graph("Cast", anInput, tensor("x", float, -1), anOutput, message(1, "map")),
			"[{x number [] []}]", "[]", []string{"no output of numbers"}},
	} {
		_, err := Parse(name, c.data)
		var graph *GraphError
		if !errors.As(err, &graph) {
			t.Errorf("%s: %v", name, err)
			continue
		}
		m := graph.Manifest
		if got := fmt.Sprint(m.Inputs); got != c.inputs {
			t.Errorf("%s: inputs %s, want %s", name, got, c.inputs)
		}
		if got := fmt.Sprint(m.Outputs); got != c.outputs {
			t.Errorf("%s: outputs %s, want %s", name, got, c.outputs)
		}
		for i, part := range c.open {
			if len(graph.Open) != len(c.open) || !strings.Contains(graph.Open[i], part) {
				t.Errorf("%s: open %q, want %q", name, graph.Open, c.open)
			}
		}
		if len(graph.Open) != len(c.open) || m.Kind != "onnx" || len(m.Digest) != 64 || !strings.Contains(err.Error(), "afterbay model add "+name) {
			t.Errorf("%s: %v %+v %q", name, err, m, graph.Open)
		}
	}
	for name, data := range map[string][]byte{"trees": graph("TreeEnsembleRegressor", anInput, tensor("x", float, -1, 3)), "other": []byte("no model"), "cut": graph("MatMul", anInput, []byte{0x0a, 9})} {
		if _, err := Parse(name, data); err == nil || errors.As(err, new(*GraphError)) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
