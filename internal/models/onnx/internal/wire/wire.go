// Package wire passes tensors between the engine and the process with ONNX Runtime. Messages are
// those of the Open Inference Protocol with raw contents. Each follows its length in four bytes,
// little-endian.
package wire

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"

	"google.golang.org/protobuf/encoding/protowire"
)

const (
	// FrameRest is the room in a frame for names and shapes.
	FrameRest = 1 << 20

	dimensionsMax = 32
	tensorsMax    = 1024
)

// Tensor is elements of one type in a shape.
type Tensor struct {
	Name string
	// Datatype is one of the Open Inference Protocol: BOOL, UINT8 to UINT64, INT8 to INT64, FP16,
	// FP32, FP64, or BYTES for strings.
	Datatype string
	// Shape holds the lengths of the dimensions, the slowest first; it is empty for a scalar. In
	// descriptions of models -1 means any length.
	Shape []int64
	// Raw holds the elements in row-major order, little-endian. An element of BYTES follows its
	// length in four bytes.
	Raw []byte
}

// Graph describes the inputs and outputs of a model.
type Graph struct {
	Runtime         string // name and version of the runtime
	Inputs, Outputs []Tensor
}

// ElementSize returns the bytes of an element, 0 for BYTES, and -1 for an unknown datatype.
func ElementSize(datatype string) int {
	switch datatype {
	case "BYTES":
		return 0
	case "BOOL", "UINT8", "INT8":
		return 1
	case "UINT16", "INT16", "FP16":
		return 2
	case "UINT32", "INT32", "FP32":
		return 4
	case "UINT64", "INT64", "FP64":
		return 8
	}
	return -1
}

// Elements returns how many elements the shape has. It fails if a length is negative or there are
// more elements than memory could hold.
func (t *Tensor) Elements() (int, error) {
	if len(t.Shape) > dimensionsMax {
		return 0, fmt.Errorf("tensor %q has %d dimensions, the limit is %d", t.Name, len(t.Shape), dimensionsMax)
	}
	n := int64(1)
	for _, length := range t.Shape {
		if length < 0 || length > 0 && n > math.MaxInt32*16/length {
			return 0, fmt.Errorf("tensor %q has the shape %d", t.Name, t.Shape)
		}
		n *= length
	}
	return int(n), nil
}

// Check returns nil if the data fits type and shape, else the reason.
func (t *Tensor) Check() error {
	n, err := t.Elements()
	if err != nil {
		return err
	}
	size := ElementSize(t.Datatype)
	if size > 0 && len(t.Raw) == n*size {
		return nil
	}
	if size == 0 {
		count := 0
		for range Strings(t.Raw) {
			count++
		}
		if count == n && stringsEnd(t.Raw) {
			return nil
		}
		return fmt.Errorf("tensor %q of shape %d has no %d strings in its %d bytes", t.Name, t.Shape, n, len(t.Raw))
	}
	return fmt.Errorf("tensor %q of %s and shape %d has %d bytes", t.Name, t.Datatype, t.Shape, len(t.Raw))
}

// Strings iterates over the complete elements of a tensor of BYTES.
func Strings(data []byte) func(yield func([]byte) bool) {
	return func(yield func([]byte) bool) {
		for len(data) >= 4 {
			n := uint64(binary.LittleEndian.Uint32(data))
			if uint64(len(data)-4) < n || !yield(data[4:4+n]) {
				return
			}
			data = data[4+n:]
		}
	}
}

func stringsEnd(data []byte) bool {
	for part := range Strings(data) {
		data = data[4+len(part):]
	}
	return len(data) == 0
}

// AppendString appends an element of a tensor of BYTES.
func AppendString(data, element []byte) []byte {
	return append(binary.LittleEndian.AppendUint32(data, uint32(len(element))), element...)
}

// Field numbers of the messages ModelInferRequest, ModelInferResponse and ModelMetadataResponse.
const (
	requestInputs, requestOutputs, requestRaw  = 5, 6, 7
	answerParameters, answerOutputs, answerRaw = 4, 5, 6
	metadataPlatform, metadataInputs           = 3, 4
	metadataOutputs, metadataProperties        = 5, 6
	tensorName, tensorType, tensorShape        = 1, 2, 3
	mapKey, mapValue, parameterString          = 1, 2, 3
)

// errorParameter is the parameter or property with an error message.
const errorParameter = "error"

// Begin returns b with room for the length of a frame, which End sets.
func Begin(b []byte) []byte { return append(b[:0], 0, 0, 0, 0) }

// End sets the length of the frame b.
func End(b []byte) ([]byte, error) {
	if len(b)-4 > math.MaxUint32 {
		return nil, fmt.Errorf("a message of %d bytes", len(b))
	}
	binary.LittleEndian.PutUint32(b, uint32(len(b)-4))
	return b, nil
}

// AppendRequest appends a ModelInferRequest. Without output names it requests all outputs.
func AppendRequest(b []byte, inputs []Tensor, outputs []string) []byte {
	b = appendTensors(b, requestInputs, inputs)
	for _, name := range outputs {
		b = protowire.AppendTag(b, requestOutputs, protowire.BytesType)
		b = protowire.AppendBytes(b, appendText(nil, tensorName, name))
	}
	return appendRaw(b, requestRaw, inputs)
}

// AppendAnswer appends a ModelInferResponse.
func AppendAnswer(b []byte, outputs []Tensor) []byte {
	return appendRaw(appendTensors(b, answerOutputs, outputs), answerRaw, outputs)
}

// AppendError appends a ModelInferResponse with the reason why there is no answer.
func AppendError(b []byte, reason string) []byte {
	parameter := appendText(nil, parameterString, reason)
	entry := appendText(nil, mapKey, errorParameter)
	entry = protowire.AppendBytes(protowire.AppendTag(entry, mapValue, protowire.BytesType), parameter)
	return protowire.AppendBytes(protowire.AppendTag(b, answerParameters, protowire.BytesType), entry)
}

// AppendNoGraph appends a ModelMetadataResponse with the reason why there is no model.
func AppendNoGraph(b []byte, reason string) []byte {
	entry := appendText(appendText(nil, mapKey, errorParameter), mapValue, reason)
	return protowire.AppendBytes(protowire.AppendTag(b, metadataProperties, protowire.BytesType), entry)
}

// AppendGraph appends a ModelMetadataResponse.
func AppendGraph(b []byte, g Graph) []byte {
	b = appendText(b, metadataPlatform, g.Runtime)
	return appendTensors(appendTensors(b, metadataInputs, g.Inputs), metadataOutputs, g.Outputs)
}

func appendText(b []byte, field protowire.Number, text string) []byte {
	return protowire.AppendString(protowire.AppendTag(b, field, protowire.BytesType), text)
}

func appendTensors(b []byte, field protowire.Number, list []Tensor) []byte {
	var body, shape []byte
	for i := range list {
		t := &list[i]
		shape = shape[:0]
		for _, length := range t.Shape {
			shape = protowire.AppendVarint(shape, uint64(length))
		}
		body = appendText(appendText(body[:0], tensorName, t.Name), tensorType, t.Datatype)
		body = protowire.AppendBytes(protowire.AppendTag(body, tensorShape, protowire.BytesType), shape)
		b = protowire.AppendBytes(protowire.AppendTag(b, field, protowire.BytesType), body)
	}
	return b
}

func appendRaw(b []byte, field protowire.Number, list []Tensor) []byte {
	for i := range list {
		b = protowire.AppendBytes(protowire.AppendTag(b, field, protowire.BytesType), list[i].Raw)
	}
	return b
}

var errBroken = errors.New("a broken message")

// fields iterates over the fields of a message that are strings, bytes or messages, and skips the
// others.
func fields(b []byte, each func(field protowire.Number, value []byte) error) error {
	for len(b) > 0 {
		field, kind, n := protowire.ConsumeTag(b)
		if n < 0 {
			return errBroken
		}
		b = b[n:]
		if kind != protowire.BytesType {
			if n = protowire.ConsumeFieldValue(field, kind, b); n < 0 {
				return errBroken
			}
			b = b[n:]
			continue
		}
		value, n := protowire.ConsumeBytes(b)
		if n < 0 {
			return errBroken
		}
		b = b[n:]
		if err := each(field, value); err != nil {
			return err
		}
	}
	return nil
}

func parseTensor(b []byte) (t Tensor, err error) {
	err = fields(b, func(field protowire.Number, value []byte) error {
		switch field {
		case tensorName:
			t.Name = string(value)
		case tensorType:
			t.Datatype = string(value)
		case tensorShape:
			for len(value) > 0 {
				length, n := protowire.ConsumeVarint(value)
				if n < 0 || len(t.Shape) == dimensionsMax {
					return errBroken
				}
				t.Shape = append(t.Shape, int64(length))
				value = value[n:]
			}
		}
		return nil
	})
	return t, err
}

// parsed collects the common content of all three messages.
type parsed struct {
	tensors [2][]Tensor // by field: inputs or outputs first, then the others
	raw     [][]byte
	failure error
}

func (p *parsed) tensor(list int, value []byte) error {
	if len(p.tensors[list]) == tensorsMax {
		return fmt.Errorf("more than %d tensors", tensorsMax)
	}
	t, err := parseTensor(value)
	p.tensors[list] = append(p.tensors[list], t)
	return err
}

func (p *parsed) fill() ([]Tensor, error) {
	list := p.tensors[0]
	if len(p.raw) != len(list) {
		return nil, fmt.Errorf("%d tensors and %d of raw contents", len(list), len(p.raw))
	}
	for i := range list {
		list[i].Raw = p.raw[i]
		if err := list[i].Check(); err != nil {
			return nil, err
		}
	}
	return list, nil
}

// parameter reads an entry of a map. Its value is a string, or a parameter that holds a string.
func (p *parsed) parameter(entry []byte, bare bool) error {
	var key, value []byte
	err := fields(entry, func(field protowire.Number, part []byte) error {
		switch {
		case field == mapKey:
			key = part
		case field == mapValue && bare:
			value = part
		case field == mapValue:
			return fields(part, func(field protowire.Number, text []byte) error {
				if field == parameterString {
					value = text
				}
				return nil
			})
		}
		return nil
	})
	if string(key) == errorParameter {
		p.failure = &Failure{string(value)}
	}
	return err
}

// Failure is an answer with an error message. The server continues to answer.
type Failure struct{ Reason string }

// Error returns the reason.
func (f *Failure) Error() string { return f.Reason }

// ParseRequest parses a ModelInferRequest. Each Raw is a slice of b.
func ParseRequest(b []byte) (inputs []Tensor, outputs []string, err error) {
	var p parsed
	err = fields(b, func(field protowire.Number, value []byte) error {
		switch field {
		case requestInputs:
			return p.tensor(0, value)
		case requestOutputs:
			if len(outputs) == tensorsMax {
				return fmt.Errorf("more than %d outputs", tensorsMax)
			}
			t, err := parseTensor(value)
			outputs = append(outputs, t.Name)
			return err
		case requestRaw:
			p.raw = append(p.raw, value)
		}
		return nil
	})
	if err != nil {
		return nil, nil, err
	}
	inputs, err = p.fill()
	return inputs, outputs, err
}

// ParseAnswer parses a ModelInferResponse. If it has an error message, the error is a *Failure.
// Each Raw is a slice of b.
func ParseAnswer(b []byte) ([]Tensor, error) {
	var p parsed
	err := fields(b, func(field protowire.Number, value []byte) error {
		switch field {
		case answerParameters:
			return p.parameter(value, false)
		case answerOutputs:
			return p.tensor(0, value)
		case answerRaw:
			p.raw = append(p.raw, value)
		}
		return nil
	})
	if err = errors.Join(err, p.failure); err != nil {
		return nil, err
	}
	return p.fill()
}

// ParseGraph parses a ModelMetadataResponse. If it has an error message, the error is a *Failure.
func ParseGraph(b []byte) (Graph, error) {
	var p parsed
	var g Graph
	err := fields(b, func(field protowire.Number, value []byte) error {
		switch field {
		case metadataPlatform:
			g.Runtime = string(value)
		case metadataInputs:
			return p.tensor(0, value)
		case metadataOutputs:
			return p.tensor(1, value)
		case metadataProperties:
			return p.parameter(value, true)
		}
		return nil
	})
	g.Inputs, g.Outputs = p.tensors[0], p.tensors[1]
	return g, errors.Join(err, p.failure)
}

// ReadFrame reads a frame into b, which it extends, and returns its message. If the message is
// longer than max, it reads only the length. The error is io.EOF if the input ends between frames.
func ReadFrame(r io.Reader, b []byte, max int64) ([]byte, error) {
	b = slices.Grow(b[:0], 4)[:4]
	if _, err := io.ReadFull(r, b); err != nil {
		return nil, err
	}
	n := int64(binary.LittleEndian.Uint32(b))
	if n > max {
		return nil, fmt.Errorf("a message of %d bytes, the limit is %d", n, max)
	}
	b = slices.Grow(b[:0], int(n))[:n]
	if _, err := io.ReadFull(r, b); err != nil {
		return nil, fmt.Errorf("a message of %d bytes: %w", n, errors.Join(err, io.ErrUnexpectedEOF))
	}
	return b, nil
}
