package tree

import (
	"errors"
	"fmt"
	"math"

	"google.golang.org/protobuf/encoding/protowire"
)

// An ONNX file is a ModelProto. These are the parts of it that a model of trees needs: see
// onnx/onnx.proto3 of https://github.com/onnx/onnx. The field numbers are in the code that reads
// them.
type (
	onnxGraph struct {
		nodes     []onnxNode
		constants map[string]*onnxTensor
		inputs    []onnxValue
		outputs   []onnxValue
	}
	onnxNode struct {
		op, domain, name string
		inputs, outputs  []string
		attributes       map[string]*onnxAttribute
	}
	onnxAttribute struct {
		number  float32
		integer int64
		text    string
		floats  []float32
		ints    []int64
		texts   []string
		tensor  *onnxTensor
	}
	// onnxTensor holds numbers of any type; those of float32 and of integers up
	// to 2^53 are exact.
	onnxTensor struct {
		kind   onnxType
		dims   []int64
		values []float64
		bytes  []byte // little-endian, until check decodes them to values
	}
	// onnxValue is an input or an output.
	onnxValue struct {
		name string
		kind onnxType // 0 if it is not a tensor
		dims []int64  // -1 for any length
	}
)

// onnxType is TensorProto.DataType.
type onnxType int64

const (
	onnxFloat  onnxType = 1
	onnxUint8  onnxType = 2
	onnxInt32  onnxType = 6
	onnxInt64  onnxType = 7
	onnxText   onnxType = 8
	onnxBool   onnxType = 9
	onnxDouble onnxType = 11
)

// isONNX recognises a file of ONNX: fields of protobuf, including a graph.
func isONNX(data []byte) bool {
	graph := false
	for len(data) > 0 {
		number, kind, n := protowire.ConsumeTag(data)
		if n < 0 {
			return false
		}
		graph = graph || number == 7 && kind == protowire.BytesType
		m := protowire.ConsumeFieldValue(number, kind, data[n:])
		if m < 0 {
			return false
		}
		data = data[n+m:]
	}
	return graph
}

// fields calls visit with each field of a message. number is set for a varint and for fixed 32 and
// 64 bits, content for bytes. An error is prefixed with the path of the field.
func fields(data []byte, visit func(number protowire.Number, kind protowire.Type, value uint64, content []byte) error) error {
	for at := 0; at < len(data); {
		number, kind, n := protowire.ConsumeTag(data[at:])
		if n < 0 {
			return fmt.Errorf("%w at byte %d of its message", protowire.ParseError(n), at)
		}
		var value uint64
		var content []byte
		m := 0
		switch rest := data[at+n:]; kind {
		case protowire.VarintType:
			value, m = protowire.ConsumeVarint(rest)
		case protowire.Fixed32Type:
			var word uint32
			word, m = protowire.ConsumeFixed32(rest)
			value = uint64(word)
		case protowire.Fixed64Type:
			value, m = protowire.ConsumeFixed64(rest)
		case protowire.BytesType:
			content, m = protowire.ConsumeBytes(rest)
		default:
			m = protowire.ConsumeFieldValue(number, kind, rest)
		}
		if m < 0 {
			return fmt.Errorf("field %d: %w at byte %d of its message", number, protowire.ParseError(m), at)
		}
		if err := visit(number, kind, value, content); err != nil {
			return err
		}
		at += n + m
	}
	return nil
}

// readGraph reads the graph of a ModelProto.
func readGraph(data []byte) (*onnxGraph, error) {
	g := &onnxGraph{constants: map[string]*onnxTensor{}}
	err := fields(data, func(number protowire.Number, _ protowire.Type, _ uint64, content []byte) error {
		if number != 7 {
			return nil
		}
		if err := fields(content, g.field); err != nil {
			return fmt.Errorf("graph.%w", err)
		}
		return nil
	})
	return g, err
}

func (g *onnxGraph) field(number protowire.Number, _ protowire.Type, _ uint64, content []byte) (err error) {
	switch number {
	case 1:
		var node onnxNode
		node.attributes = map[string]*onnxAttribute{}
		if err = fields(content, node.field); err != nil {
			err = fmt.Errorf("node[%d]: %w", len(g.nodes), err)
		}
		g.nodes = append(g.nodes, node)
	case 5:
		var name string
		tensor := &onnxTensor{}
		err = fields(content, func(number protowire.Number, kind protowire.Type, value uint64, content []byte) error {
			if number == 8 {
				name = string(content)
			}
			return tensor.field(number, kind, value, content)
		})
		if err == nil {
			err = tensor.check()
		}
		if err != nil {
			err = fmt.Errorf("initializer %q: %w", clip([]byte(name)), err)
		}
		g.constants[name] = tensor
	case 11, 12:
		var value onnxValue
		if err = fields(content, value.field); err != nil {
			return fmt.Errorf("%s %q: %w", [2]string{"input", "output"}[number-11], clip([]byte(value.name)), err)
		}
		list := [2]*[]onnxValue{&g.inputs, &g.outputs}[number-11]
		*list = append(*list, value)
	}
	return err
}

func (n *onnxNode) field(number protowire.Number, _ protowire.Type, _ uint64, content []byte) error {
	switch number {
	case 1:
		n.inputs = append(n.inputs, string(content))
	case 2:
		n.outputs = append(n.outputs, string(content))
	case 3:
		n.name = string(content)
	case 4:
		n.op = string(content)
	case 5:
		name, a := "", &onnxAttribute{}
		err := fields(content, func(number protowire.Number, kind protowire.Type, value uint64, content []byte) error {
			if number == 1 {
				name = string(content)
			}
			return a.field(number, kind, value, content)
		})
		if err == nil && a.tensor != nil {
			err = a.tensor.check()
		}
		if err != nil {
			return fmt.Errorf("attribute %q: %w", clip([]byte(name)), err)
		}
		if n.attributes[name] != nil {
			return fmt.Errorf("attribute %q stands here twice", clip([]byte(name)))
		}
		n.attributes[name] = a
	case 7:
		n.domain = string(content)
	}
	return nil
}

func (a *onnxAttribute) field(number protowire.Number, kind protowire.Type, value uint64, content []byte) error {
	switch number {
	case 2:
		a.number = math.Float32frombits(uint32(value))
	case 3:
		a.integer = int64(value)
	case 4:
		a.text = string(content)
	case 5:
		a.tensor = &onnxTensor{}
		return fields(content, a.tensor.field)
	case 7:
		return repeated(kind, protowire.Fixed32Type, value, content, func(bits uint64) {
			a.floats = append(a.floats, math.Float32frombits(uint32(bits)))
		})
	case 8:
		return repeated(kind, protowire.VarintType, value, content, func(bits uint64) {
			a.ints = append(a.ints, int64(bits))
		})
	case 9:
		a.texts = append(a.texts, string(content))
	case 6, 10, 11:
		return errors.New("graphs within graphs and lists of tensors are not supported")
	}
	return nil
}

// repeated adds one number, or all numbers of a packed field.
func repeated(kind, of protowire.Type, value uint64, content []byte, add func(bits uint64)) error {
	if kind != protowire.BytesType {
		add(value)
		return nil
	}
	for len(content) > 0 {
		n := 0
		switch of {
		case protowire.Fixed32Type:
			var word uint32
			word, n = protowire.ConsumeFixed32(content)
			value = uint64(word)
		case protowire.Fixed64Type:
			value, n = protowire.ConsumeFixed64(content)
		default:
			value, n = protowire.ConsumeVarint(content)
		}
		if n < 0 {
			return protowire.ParseError(n)
		}
		add(value)
		content = content[n:]
	}
	return nil
}

// field reads a TensorProto.
func (t *onnxTensor) field(number protowire.Number, kind protowire.Type, value uint64, content []byte) error {
	add := func(value float64) { t.values = append(t.values, value) }
	switch number {
	case 1:
		return repeated(kind, protowire.VarintType, value, content, func(bits uint64) { t.dims = append(t.dims, int64(bits)) })
	case 2:
		t.kind = onnxType(value)
	case 3, 13:
		return errors.New("a tensor in parts or in another file is not supported")
	case 4:
		return repeated(kind, protowire.Fixed32Type, value, content, func(bits uint64) { add(float64(math.Float32frombits(uint32(bits)))) })
	case 5, 7:
		return repeated(kind, protowire.VarintType, value, content, func(bits uint64) { add(float64(int64(bits))) })
	case 9:
		t.bytes = content
	case 10:
		return repeated(kind, protowire.Fixed64Type, value, content, func(bits uint64) { add(math.Float64frombits(bits)) })
	}
	return nil
}

// raw reads the bytes of a tensor.
func (t *onnxTensor) raw() error {
	content := t.bytes
	width := map[onnxType]int{onnxFloat: 4, onnxInt32: 4, onnxDouble: 8, onnxInt64: 8, onnxUint8: 1, onnxBool: 1}[t.kind]
	if len(content) > 0 && (width == 0 || len(content)%width != 0) {
		return fmt.Errorf("%d bytes of type %d are not supported", len(content), t.kind)
	}
	for ; len(content) > 0; content = content[width:] {
		bits := uint64(0)
		for i := range width {
			bits |= uint64(content[i]) << (8 * i)
		}
		var value float64
		switch t.kind {
		case onnxFloat:
			value = float64(math.Float32frombits(uint32(bits)))
		case onnxDouble:
			value = math.Float64frombits(bits)
		case onnxInt32:
			value = float64(int32(bits))
		default:
			value = float64(int64(bits))
		}
		t.values = append(t.values, value)
	}
	return nil
}

// check reads the bytes of a tensor and compares its values with its dimensions.
func (t *onnxTensor) check() error {
	if err := t.raw(); err != nil {
		return err
	}
	count := int64(1)
	for _, dim := range t.dims {
		if dim < 0 || dim > 0 && count > fileMax/dim {
			return fmt.Errorf("a tensor of dimensions %v", t.dims)
		}
		count *= dim
	}
	if int64(len(t.values)) != count && t.kind != onnxText {
		return fmt.Errorf("%d values for dimensions %v", len(t.values), t.dims)
	}
	return nil
}

// field reads a ValueInfoProto: TypeProto.Tensor with its element type and
// TensorShapeProto.
func (v *onnxValue) field(number protowire.Number, _ protowire.Type, _ uint64, content []byte) error {
	switch number {
	case 1:
		v.name = string(content)
	case 2:
		return fields(content, func(number protowire.Number, _ protowire.Type, _ uint64, content []byte) error {
			if number != 1 {
				return nil
			}
			return fields(content, func(number protowire.Number, _ protowire.Type, value uint64, content []byte) error {
				switch number {
				case 1:
					v.kind = onnxType(value)
				case 2:
					return fields(content, v.dimension)
				}
				return nil
			})
		})
	}
	return nil
}

func (v *onnxValue) dimension(number protowire.Number, _ protowire.Type, _ uint64, content []byte) error {
	if number != 1 {
		return nil
	}
	dim := int64(-1)
	err := fields(content, func(number protowire.Number, kind protowire.Type, value uint64, _ []byte) error {
		if number == 1 && kind == protowire.VarintType {
			dim = int64(value)
		}
		return nil
	})
	v.dims = append(v.dims, dim)
	return err
}
