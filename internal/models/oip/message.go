package oip

import (
	"cmp"
	_ "embed"
	"encoding/binary"
	"fmt"
	"math"

	"google.golang.org/protobuf/encoding/protowire"
)

// ProtoName and Proto are the protocol as a .proto file.
const ProtoName = "grpc_predict_v2.proto"

//go:embed grpc_predict_v2.proto
var Proto string

// Request is a ModelInferRequest with raw contents.
type Request struct {
	Model, Version, ID string
	Inputs             []Tensor
	Outputs            []string // names of the wanted outputs; empty means all
}

// Response is a ModelInferResponse.
type Response struct {
	Model, Version, ID string

	// Error is the parameter "error". A worker process sets it when it refuses a request.
	Error   string
	Outputs []Tensor
}

// Metadata is a ModelMetadataResponse.
type Metadata struct {
	Name            string
	Versions        []string
	Platform        string
	Inputs, Outputs []Tensor

	// Error is the property "error", an addition to the protocol. The worker of ONNX Runtime sets it
	// when it has no model.
	Error string
}

// AppendMetadataRequest appends a ModelMetadataRequest.
func AppendMetadataRequest(dst []byte, model, version string) []byte {
	return appendText(appendText(dst, 1, model), 2, version)
}

// ParseReady reads a ModelReadyResponse.
func ParseReady(data []byte) (ready bool, err error) {
	err = fields(data, func(number protowire.Number, _ []byte, value uint64) error {
		if number == 1 {
			ready = value != 0
		}
		return nil
	})
	return ready, err
}

// ParseMetadataRequest reads a ModelMetadataRequest.
func ParseMetadataRequest(data []byte) (model, version string, err error) {
	var names [2][]byte
	err = fields(data, func(number protowire.Number, value []byte, _ uint64) error {
		if number == 1 || number == 2 {
			names[number-1] = value
		}
		return nil
	})
	return string(names[0]), string(names[1]), err
}

// Append appends the message. It uses only strings, bytes and messages, so that a simple reader can
// parse it.
func (r *Request) Append(dst []byte) []byte {
	dst = appendText(appendText(appendText(dst, 1, r.Model), 2, r.Version), 3, r.ID)
	dst = appendHeads(dst, 5, r.Inputs)
	for _, name := range r.Outputs {
		dst = protowire.AppendBytes(protowire.AppendTag(dst, 6, protowire.BytesType), appendText(nil, 1, name))
	}
	return appendContents(dst, 7, r.Inputs)
}

// tensorsMax is the most tensors of a message if no other limit is given: two bytes of a message
// may be a tensor, which takes 100 in memory.
const tensorsMax = 16 << 10

// Limits bound an untrusted Request.
type Limits struct {
	Inputs, Outputs int                                     // 0 is 16,384
	Grow            func(dst []byte, n int) ([]byte, error) // returns dst with room for n more bytes; nil allocates them
}

func check(what string, n, most int) error {
	if most = cmp.Or(most, tensorsMax); n >= most {
		return fmt.Errorf("more than %d %s", most, what)
	}
	return nil
}

func (l *Limits) grow(dst []byte, n int) ([]byte, error) {
	if l.Grow == nil || cap(dst)-len(dst) >= n {
		return dst, nil
	}
	return l.Grow(dst, n)
}

// ParseRequest reads a message. Raw of the inputs may alias data.
func ParseRequest(data []byte) (Request, error) { return ParseRequestWithin(data, Limits{}) }

// ParseRequestWithin reads a message within limits.
func ParseRequestWithin(data []byte, limits Limits) (Request, error) {
	var r Request
	var raws [][]byte
	var model, version, id []byte // a field may occur several times: the last counts
	err := fields(data, func(number protowire.Number, value []byte, _ uint64) error {
		switch number {
		case 1:
			model = value
		case 2:
			version = value
		case 3:
			id = value
		case 5:
			return appendTensor(&r.Inputs, "inputs", limits.Inputs, value, &limits)
		case 6:
			if err := check("outputs", len(r.Outputs), limits.Outputs); err != nil {
				return err
			}
			name, _, err := ParseMetadataRequest(value)
			r.Outputs = append(r.Outputs, name)
			return err
		case 7:
			if err := check("raw contents", len(raws), limits.Inputs); err != nil {
				return err
			}
			raws = append(raws, value)
		}
		return nil
	})
	if err != nil {
		return Request{}, err
	}
	r.Model, r.Version, r.ID = string(model), string(version), string(id)
	return r, giveRaw(r.Inputs, raws)
}

// Append appends the message with raw contents.
func (r *Response) Append(dst []byte) []byte {
	dst = appendText(appendText(appendText(dst, 1, r.Model), 2, r.Version), 3, r.ID)
	if r.Error != "" {
		dst = appendText(dst, 4, errorEntry(string(appendText(nil, 3, r.Error))))
	}
	return appendContents(appendHeads(dst, 5, r.Outputs), 6, r.Outputs)
}

// ParseResponse reads a message. Raw of the outputs may alias data.
func ParseResponse(data []byte) (Response, error) {
	var r Response
	var raws [][]byte
	err := fields(data, func(number protowire.Number, value []byte, _ uint64) error {
		switch number {
		case 1:
			r.Model = string(value)
		case 2:
			r.Version = string(value)
		case 3:
			r.ID = string(value)
		case 4:
			return r.parameter(value)
		case 5:
			return appendTensor(&r.Outputs, "outputs", 0, value, &Limits{})
		case 6:
			if err := check("raw contents", len(raws), 0); err != nil {
				return err
			}
			raws = append(raws, value)
		}
		return nil
	})
	if err != nil {
		return Response{}, err
	}
	return r, giveRaw(r.Outputs, raws)
}

// parameter reads an entry of the map of parameters.
func (r *Response) parameter(entry []byte) error {
	key, choice, err := ParseMetadataRequest(entry) // of the same form: two strings
	if err != nil || key != errorName {
		return err
	}
	return fields([]byte(choice), func(number protowire.Number, value []byte, _ uint64) error {
		if number == 3 {
			r.Error = string(value)
		}
		return nil
	})
}

// Append appends the message.
func (m *Metadata) Append(dst []byte) []byte {
	dst = appendText(dst, 1, m.Name)
	for _, version := range m.Versions {
		dst = protowire.AppendString(protowire.AppendTag(dst, 2, protowire.BytesType), version)
	}
	dst = appendHeads(appendHeads(appendText(dst, 3, m.Platform), 4, m.Inputs), 5, m.Outputs)
	if m.Error != "" {
		dst = appendText(dst, 6, errorEntry(m.Error))
	}
	return dst
}

// ParseMetadata reads a message.
func ParseMetadata(data []byte) (Metadata, error) {
	var m Metadata
	err := fields(data, func(number protowire.Number, value []byte, _ uint64) error {
		switch number {
		case 1:
			m.Name = string(value)
		case 2:
			m.Versions = append(m.Versions, string(value))
		case 3:
			m.Platform = string(value)
		case 4:
			return appendTensor(&m.Inputs, "inputs", 0, value, &Limits{})
		case 5:
			return appendTensor(&m.Outputs, "outputs", 0, value, &Limits{})
		case 6:
			if property, text, err := ParseMetadataRequest(value); err == nil && property == errorName { // other servers may have another field
				m.Error = text
			}
		}
		return nil
	})
	return m, err
}

// errorName is the parameter or property with an error message.
const errorName = "error"

// errorEntry is its entry in a map.
func errorEntry(value string) string {
	return string(appendText(appendText(nil, 1, errorName), 2, value))
}

// fields calls each with the fields of a message, in order: value for fields with a length, bits
// for others.
func fields(data []byte, each func(number protowire.Number, value []byte, bits uint64) error) error {
	for len(data) > 0 {
		number, kind, n := protowire.ConsumeTag(data)
		if n < 0 {
			return errTruncated
		}
		data = data[n:]
		var value []byte
		var bits uint64
		switch kind {
		case protowire.BytesType:
			value, n = protowire.ConsumeBytes(data)
		case protowire.VarintType:
			bits, n = protowire.ConsumeVarint(data)
		case protowire.Fixed32Type:
			var short uint32
			short, n = protowire.ConsumeFixed32(data)
			bits = uint64(short)
		case protowire.Fixed64Type:
			bits, n = protowire.ConsumeFixed64(data)
		default:
			n = protowire.ConsumeFieldValue(number, kind, data)
		}
		if n < 0 {
			return errTruncated
		}
		if err := each(number, value, bits); err != nil {
			return err
		}
		data = data[n:]
	}
	return nil
}

func appendText(dst []byte, number protowire.Number, text string) []byte {
	if text == "" {
		return dst
	}
	return protowire.AppendString(protowire.AppendTag(dst, number, protowire.BytesType), text)
}

// appendHeads appends name, type and shape of each tensor.
func appendHeads(dst []byte, number protowire.Number, tensors []Tensor) []byte {
	var head, shape []byte
	for i := range tensors {
		t := &tensors[i]
		shape = shape[:0]
		for _, length := range t.Shape {
			shape = protowire.AppendVarint(shape, uint64(length))
		}
		head = appendText(appendText(head[:0], 1, t.Name), 2, t.Datatype)
		if len(shape) > 0 {
			head = protowire.AppendBytes(protowire.AppendTag(head, 3, protowire.BytesType), shape)
		}
		dst = protowire.AppendBytes(protowire.AppendTag(dst, number, protowire.BytesType), head)
	}
	return dst
}

func appendContents(dst []byte, number protowire.Number, tensors []Tensor) []byte {
	for i := range tensors {
		dst = protowire.AppendBytes(protowire.AppendTag(dst, number, protowire.BytesType), tensors[i].Raw)
	}
	return dst
}

// giveRaw gives each tensor its raw contents, if a message has any.
func giveRaw(tensors []Tensor, raws [][]byte) error {
	if len(raws) == 0 {
		return nil
	}
	if len(raws) != len(tensors) {
		return fmt.Errorf("%d raw contents for %d tensors", len(raws), len(tensors))
	}
	for i := range tensors {
		if tensors[i].Raw != nil {
			return fmt.Errorf("tensor %s has contents of both forms", tensors[i].Name)
		}
		tensors[i].Raw = raws[i]
	}
	return nil
}

// appendTensor reads a tensor: name, type, shape and contents. It converts contents that are not
// raw to raw. It refuses more than most tensors; the error calls them what.
func appendTensor(tensors *[]Tensor, what string, most int, data []byte, limits *Limits) error {
	if err := check(what, len(*tensors), most); err != nil {
		return err
	}
	var t Tensor
	var contents []byte
	err := fields(data, func(number protowire.Number, value []byte, bits uint64) error {
		switch number {
		case 1:
			t.Name = string(value)
		case 2:
			t.Datatype = string(value)
		case 3:
			if value == nil {
				t.Shape = append(t.Shape, int64(bits))
			}
			for len(value) > 0 {
				length, n := protowire.ConsumeVarint(value)
				if n < 0 || len(t.Shape) > dimensionsMax {
					return errTruncated
				}
				t.Shape, value = append(t.Shape, int64(length)), value[n:]
			}
			if len(t.Shape) > dimensionsMax {
				return fmt.Errorf("tensor %s has more than %d dimensions", t.Name, dimensionsMax)
			}
		case 5:
			contents = value
		}
		return nil
	})
	if err != nil {
		return err
	}
	if len(contents) > 0 {
		if t.Raw, err = raw(t.Datatype, contents, limits); err != nil {
			return fmt.Errorf("tensor %s: %w", t.Name, err)
		}
	}
	*tensors = append(*tensors, t)
	return nil
}

// contentsOf returns the field of InferTensorContents for a datatype.
func contentsOf(datatype string) protowire.Number {
	switch datatype {
	case "BOOL":
		return 1
	case "INT8", "INT16", "INT32":
		return 2
	case "INT64":
		return 3
	case "UINT8", "UINT16", "UINT32":
		return 4
	case "UINT64":
		return 5
	case "FP32":
		return 6
	case "FP64":
		return 7
	case "BYTES":
		return 8
	}
	return 0
}

// raw converts InferTensorContents to raw contents.
func raw(datatype string, contents []byte, limits *Limits) ([]byte, error) {
	field, size, out := contentsOf(datatype), Size(datatype), []byte(nil)
	err := fields(contents, func(number protowire.Number, value []byte, bits uint64) error {
		if number != field {
			return fmt.Errorf("contents of field %d for type %q", number, datatype)
		}
		var err error
		switch {
		case datatype == "BYTES":
			if out, err = limits.grow(out, 4+len(value)); err == nil {
				out = AppendBytes(out, value)
			}
		case value == nil:
			if out, err = limits.grow(out, size); err == nil {
				out = appendBits(out, size, bits)
			}
		case number >= 6: // packed numbers of fixed length are already raw
			if len(value)%size != 0 {
				return errTruncated
			}
			if out, err = limits.grow(out, len(value)); err == nil {
				out = append(out, value...)
			}
		default:
			out, err = appendVarints(out, value, size, limits)
		}
		return err
	})
	return out, err
}

// appendVarints appends packed varints as elements of size bytes.
func appendVarints(out, value []byte, size int, limits *Limits) ([]byte, error) {
	n := 0
	for _, b := range value {
		if b < 0x80 {
			n++
		}
	}
	out, err := limits.grow(out, n*size)
	for len(value) > 0 && err == nil {
		bits, n := protowire.ConsumeVarint(value)
		if n < 0 {
			return out, errTruncated
		}
		out, value = appendBits(out, size, bits), value[n:]
	}
	return out, err
}

// appendBits appends the low bytes of bits. Protobuf sign-extends negative numbers to 64 bits, so
// the low bytes are their value.
func appendBits(dst []byte, size int, bits uint64) []byte {
	switch size {
	case 1:
		return append(dst, byte(bits))
	case 2:
		return binary.LittleEndian.AppendUint16(dst, uint16(bits))
	case 4:
		return binary.LittleEndian.AppendUint32(dst, uint32(bits&math.MaxUint32))
	}
	return binary.LittleEndian.AppendUint64(dst, bits)
}
