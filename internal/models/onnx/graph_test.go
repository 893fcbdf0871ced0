package onnx

import (
	"google.golang.org/protobuf/encoding/protowire"
)

// Element types of ONNX.
const (
	float32s = 1
	int64s   = 7
	strings8 = 8
)

// graph writes small files of ONNX: fields by their numbers in onnx.proto.
type graph struct{ body []byte }

func message(field protowire.Number, parts ...[]byte) []byte {
	var body []byte
	for _, part := range parts {
		body = append(body, part...)
	}
	return protowire.AppendBytes(protowire.AppendTag(nil, field, protowire.BytesType), body)
}

func text(field protowire.Number, s string) []byte { return message(field, []byte(s)) }

func integer(field protowire.Number, v int64) []byte {
	return protowire.AppendVarint(protowire.AppendTag(nil, field, protowire.VarintType), uint64(v))
}

// node adds an operator; attributes are messages of field 5.
func (g *graph) node(operator string, inputs, outputs []string, attributes ...[]byte) {
	var body []byte
	for _, name := range inputs {
		body = append(body, text(1, name)...)
	}
	for _, name := range outputs {
		body = append(body, text(2, name)...)
	}
	body = append(body, text(4, operator)...)
	for _, each := range attributes {
		body = append(body, each...)
	}
	g.body = append(g.body, message(1, body)...)
}

func ints(name string, values ...int64) []byte {
	parts := [][]byte{text(1, name)}
	for _, v := range values {
		parts = append(parts, integer(8, v))
	}
	return message(5, append(parts, integer(20, 7))...)
}

func flag(name string, value int64) []byte {
	return message(5, text(1, name), integer(3, value), integer(20, 2))
}

// constant adds a tensor of float32.
func (g *graph) constant(name string, shape []int64, values ...float32) {
	var body []byte
	for _, length := range shape {
		body = append(body, integer(1, length)...)
	}
	body = append(append(body, integer(2, float32s)...), text(8, name)...)
	g.body = append(g.body, message(5, append(body, message(9, floats(values...))...))...)
}

// tensor adds an input (11) or an output (12); a length of -1 is open.
func (g *graph) tensor(field protowire.Number, name string, element int64, shape ...int64) {
	var dims []byte
	for _, length := range shape {
		if length < 0 {
			dims = append(dims, message(1, text(2, "any"))...)
		} else {
			dims = append(dims, message(1, integer(1, length))...)
		}
	}
	kind := message(2, message(1, integer(1, element), message(2, dims)))
	g.body = append(g.body, message(field, text(1, name), kind)...)
}

func (g *graph) in(name string, element int64, shape ...int64) { g.tensor(11, name, element, shape...) }
func (g *graph) out(name string, element int64, shape ...int64) {
	g.tensor(12, name, element, shape...)
}

// file returns the model.
func (g *graph) file() []byte {
	body := append(text(2, "g"), g.body...)
	model := append(integer(1, 8), message(7, body)...)
	return append(model, message(8, text(1, ""), integer(2, 17))...)
}
