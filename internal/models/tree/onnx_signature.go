package tree

import (
	"fmt"
	"slices"
	"strings"

	"google.golang.org/protobuf/encoding/protowire"
)

// Signature describes the inputs and outputs of a file of ONNX.
type Signature struct {
	Inputs, Outputs []Tensor
	Operators       []string // operators of its nodes, sorted
}

// Tensor is an input or an output of a graph of ONNX.
type Tensor struct {
	Name  string
	Type  TensorType
	Shape []int64 // -1 is any length
}

// TensorType is the type of a tensor's elements.
type TensorType int

// The types of elements.
const (
	NoTensor TensorType = iota // a list or a map
	Numbers                    // float32, float64 and integers
	Texts
	RawBytes // numbers that only bytes can represent, such as float16
)

// HasTrees reports whether the graph has an ensemble of trees.
func (s *Signature) HasTrees() bool {
	return slices.ContainsFunc(s.Operators, func(op string) bool { return strings.HasPrefix(op, "TreeEnsemble") })
}

// ReadSignature reads the inputs and outputs of a file of ONNX. It returns nil for other files.
func ReadSignature(data []byte) *Signature {
	if !isONNX(data) {
		return nil
	}
	s := &Signature{}
	initial := map[string]bool{} // inputs with values in the file
	var values [2][]onnxValue
	err := fields(data, func(number protowire.Number, _ protowire.Type, _ uint64, content []byte) error {
		if number != 7 {
			return nil
		}
		return fields(content, func(number protowire.Number, _ protowire.Type, _ uint64, content []byte) error {
			switch number {
			case 1:
				op, err := textOf(content, 4)
				s.Operators = append(s.Operators, op)
				return err
			case 5:
				name, err := textOf(content, 8)
				initial[name] = true
				return err
			case 11, 12:
				var value onnxValue
				if err := fields(content, value.field); err != nil {
					return fmt.Errorf("value %q: %w", clip([]byte(value.name)), err)
				}
				values[number-11] = append(values[number-11], value)
			}
			return nil
		})
	})
	if err != nil {
		return nil
	}
	slices.Sort(s.Operators)
	s.Operators = slices.Compact(s.Operators)
	for i, list := range [2]*[]Tensor{&s.Inputs, &s.Outputs} {
		for _, v := range values[i] {
			if i == 1 || !initial[v.name] {
				*list = append(*list, Tensor{v.name, v.kind.elements(), v.dims})
			}
		}
	}
	return s
}

// textOf returns a field of a message that is a text.
func textOf(message []byte, field protowire.Number) (text string, err error) {
	err = fields(message, func(number protowire.Number, _ protowire.Type, _ uint64, content []byte) error {
		if number == field {
			text = string(content)
		}
		return nil
	})
	return text, err
}

// elements returns the element type of a TensorProto.DataType. ONNX numbers the types of numbers 1
// to 7, 9 and 11 to 13; 10 is float16 and 16 bfloat16.
func (k onnxType) elements() TensorType {
	switch {
	case k == 0:
		return NoTensor
	case k == onnxText:
		return Texts
	case k <= onnxBool, k >= onnxDouble && k <= 13:
		return Numbers
	}
	return RawBytes
}
