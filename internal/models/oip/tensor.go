// Package oip writes and reads the messages of the Open Inference Protocol that scoring needs, as
// protobuf without generated code: see docs/adr/0059-oip.md. Worker processes, ONNX Runtime, remote
// model servers and this module's own server use the protocol.
package oip

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/afterbay/afterbay/model"
)

// Tensor is a named block of values of one type.
type Tensor struct {
	Name     string
	Datatype string  // FP32, INT64, BYTES and the like
	Shape    []int64 // rows first; in metadata -1 means any length

	// Raw holds the elements, row by row, little-endian. An element of BYTES follows its length in
	// 4 bytes. Metadata has no elements.
	Raw []byte
}

const (
	elementsMax   = 1 << 31 // in a shape
	dimensionsMax = 32      // of a shape
)

// Elements returns how many values a shape has. It fails for a negative length, for more than 2^31
// values and for more than 32 dimensions.
func Elements(shape []int64) (int, error) {
	if len(shape) > dimensionsMax {
		return 0, fmt.Errorf("a shape has %d dimensions, more than %d", len(shape), dimensionsMax)
	}
	n := int64(1)
	for _, length := range shape {
		if length < 0 || length > elementsMax {
			return 0, fmt.Errorf("shape %v has a length outside 0 to 2^31", shape)
		}
		if n *= length; n > elementsMax {
			return 0, fmt.Errorf("shape %v has more than 2^31 values", shape)
		}
	}
	return int(n), nil
}

// Size returns the bytes of an element: 0 for BYTES, because its elements differ in size, and -1
// for a datatype that is not in the protocol.
func Size(datatype string) int {
	switch datatype {
	case "BYTES":
		return 0
	case "BOOL", "INT8", "UINT8":
		return 1
	case "INT16", "UINT16", "FP16", "BF16":
		return 2
	case "INT32", "UINT32", "FP32":
		return 4
	case "INT64", "UINT64", "FP64":
		return 8
	}
	return -1
}

// Floats writes the numbers of t to out, which must have exactly their length. It rounds numbers to
// the nearest T.
func Floats[T float32 | float64](t *Tensor, out []T) error {
	size := Size(t.Datatype)
	if size <= 0 {
		return fmt.Errorf("%s has values of type %q: not numbers", t.Name, t.Datatype)
	}
	n, err := Elements(t.Shape)
	if err != nil {
		return fmt.Errorf("%s: %w", t.Name, err)
	}
	if n != len(out) || len(t.Raw) != n*size {
		return fmt.Errorf("%s has %d bytes for shape %v of %s where %d values are expected",
			t.Name, len(t.Raw), t.Shape, t.Datatype, len(out))
	}
	for i := range out {
		out[i] = T(Number(t.Datatype, t.Raw, i))
	}
	return nil
}

// Check returns nil if the elements fit datatype and shape, else the reason.
func (t *Tensor) Check() error {
	size := Size(t.Datatype)
	if size == 0 {
		_, err := t.Split()
		return err
	}
	n, err := Elements(t.Shape)
	switch {
	case err != nil:
		return fmt.Errorf("%s: %w", t.Name, err)
	case size < 0 || len(t.Raw) != n*size:
		return fmt.Errorf("%s has %d bytes for shape %v of %q", t.Name, len(t.Raw), t.Shape, t.Datatype)
	}
	return nil
}

// Number returns element i of raw contents of numbers. It rounds integers of more than 53 bits.
func Number(datatype string, raw []byte, i int) float64 {
	little := binary.LittleEndian
	switch datatype {
	case "FP32":
		return float64(math.Float32frombits(little.Uint32(raw[4*i:])))
	case "FP64":
		return math.Float64frombits(little.Uint64(raw[8*i:]))
	case "FP16":
		return half(little.Uint16(raw[2*i:]))
	case "BF16":
		return float64(math.Float32frombits(uint32(little.Uint16(raw[2*i:])) << 16))
	case "INT8":
		return float64(int8(raw[i]))
	case "INT16":
		return float64(int16(little.Uint16(raw[2*i:])))
	case "INT32":
		return float64(int32(little.Uint32(raw[4*i:])))
	case "INT64":
		return float64(int64(little.Uint64(raw[8*i:])))
	case "UINT16":
		return float64(little.Uint16(raw[2*i:]))
	case "UINT32":
		return float64(little.Uint32(raw[4*i:]))
	case "UINT64":
		return float64(little.Uint64(raw[8*i:]))
	}
	return float64(raw[i]) // BOOL and UINT8
}

// half returns a number of 16 bits: 1 sign, 5 exponent, 10 fraction.
func half(bits uint16) float64 {
	sign, exponent, fraction := 1.0, int(bits>>10&31), float64(bits&1023)
	if bits>>15 == 1 {
		sign = -1
	}
	switch {
	case exponent == 31 && fraction != 0:
		return math.NaN()
	case exponent == 31:
		return math.Inf(int(sign))
	case exponent == 0:
		return sign * math.Ldexp(fraction, -24)
	}
	return sign * math.Ldexp(1024+fraction, exponent-25)
}

// CheckNumber returns nil if a tensor of the datatype can represent a number, else the reason. Only
// floating-point types represent NaN, a missing value.
func CheckNumber(datatype string, value float64) error {
	low, high := 0.0, 0.0
	switch datatype {
	case "FP64":
		return nil
	case "FP32":
		if math.IsInf(float64(float32(value)), 0) && !math.IsInf(value, 0) {
			return fmt.Errorf("%g is beyond FP32", value)
		}
		return nil
	case "BOOL":
		high = 1
	case "INT8", "INT16", "INT32", "INT64":
		bits := 8*Size(datatype) - 1
		low, high = -math.Ldexp(1, bits), math.Ldexp(1, bits)-1
	case "UINT8", "UINT16", "UINT32", "UINT64":
		high = math.Ldexp(1, 8*Size(datatype)) - 1
	default:
		return fmt.Errorf("no number goes into %s", datatype)
	}
	switch {
	case value != value:
		return fmt.Errorf("it is missing, which %s cannot say: give a number in its place", datatype)
	case value != math.Trunc(value):
		return fmt.Errorf("%g is not an integer, as %s wants", value, datatype)
	// In float64 the greatest numbers of 64 bits round up to a power of two.
	case value < low || value > high || Size(datatype) == 8 && value == high:
		return fmt.Errorf("%g is no %s", value, datatype)
	}
	return nil
}

// AppendNumber appends a number that passed CheckNumber.
func AppendNumber(dst []byte, datatype string, value float64) []byte {
	little := binary.LittleEndian
	switch datatype {
	case "FP32":
		return little.AppendUint32(dst, math.Float32bits(float32(value)))
	case "FP64":
		return little.AppendUint64(dst, math.Float64bits(value))
	case "UINT64":
		return little.AppendUint64(dst, uint64(value))
	}
	bits := uint64(int64(value))
	switch Size(datatype) {
	case 1:
		return append(dst, byte(bits))
	case 2:
		return little.AppendUint16(dst, uint16(bits))
	case 4:
		return little.AppendUint32(dst, uint32(bits))
	}
	return little.AppendUint64(dst, bits)
}

// AppendBytes appends an element of BYTES.
func AppendBytes(dst, element []byte) []byte {
	return append(binary.LittleEndian.AppendUint32(dst, uint32(len(element))), element...)
}

// Split returns the elements of a tensor of BYTES. They alias Raw.
func (t *Tensor) Split() ([][]byte, error) {
	n, err := Elements(t.Shape)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", t.Name, err)
	}
	if n > len(t.Raw)/4 {
		return nil, fmt.Errorf("%s has %d bytes for shape %v of BYTES", t.Name, len(t.Raw), t.Shape)
	}
	list, rest := make([][]byte, 0, n), t.Raw
	for range n {
		if len(rest) < 4 || uint64(binary.LittleEndian.Uint32(rest)) > uint64(len(rest)-4) {
			return nil, fmt.Errorf("%s ends within an element", t.Name)
		}
		end := 4 + int(binary.LittleEndian.Uint32(rest))
		list, rest = append(list, rest[4:end]), rest[end:]
	}
	if len(rest) > 0 {
		return nil, fmt.Errorf("%s has %d bytes behind its last element", t.Name, len(rest))
	}
	return list, nil
}

// Scores copies the outputs of an answer to scores: of each row those of the
// first output wanted, then of the next. A name of "" is the first of the answer.
// It fails where an output is absent, has not a first dimension of rows and as
// many values as wanted, or holds a NaN.
func Scores(outputs []Tensor, wanted []model.Output, rows int, scores []float32) error {
	return Answers(outputs, wanted, rows, model.Answer{Scores: scores})
}

// Answers copies the outputs of an answer as Scores does, those that are texts to
// into.Texts. Their memory is that of the answer.
func Answers(outputs []Tensor, wanted []model.Output, rows int, into model.Answer) error {
	about := model.Info{Outputs: wanted}
	width, from, words, word, scores := about.Scores(), 0, about.Texts(), 0, into.Scores
	for _, want := range wanted {
		t, n, err := find(outputs, want, rows)
		if err != nil {
			return err
		}
		if want.Text() {
			list, err := t.Split()
			if err != nil || t.Datatype != "BYTES" {
				return fmt.Errorf("output %s is of type %s, or no texts: %w", t.Name, t.Datatype, err)
			}
			for row, text := range list {
				into.Texts[row*words+word] = text
			}
			word++
			continue
		}
		values := scores[:n]
		if want.Size != width {
			values = make([]float32, n)
		}
		if err := Floats(t, values); err != nil {
			return fmt.Errorf("output %w", err)
		}
		for j, value := range values {
			if value != value {
				return fmt.Errorf("output %s is not a number for row %d", t.Name, j/want.Size)
			}
			if want.Size != width {
				scores[j/want.Size*width+from+j%want.Size] = value
			}
		}
		from += want.Size
	}
	return nil
}

// find returns an output with as many values as wanted.
func find(outputs []Tensor, want model.Output, rows int) (t *Tensor, n int, err error) {
	at := slices.IndexFunc(outputs, func(t Tensor) bool { return want.Name == "" || t.Name == want.Name })
	if at < 0 {
		return nil, 0, fmt.Errorf("output %q is not among the %d outputs of the answer", want.Name, len(outputs))
	}
	t = &outputs[at]
	if n, err = Elements(t.Shape); err != nil {
		return nil, 0, fmt.Errorf("output %s: %w", t.Name, err)
	}
	if len(t.Shape) == 0 || t.Shape[0] != int64(rows) || n != rows*want.Size {
		return nil, 0, fmt.Errorf("output %s has shape %v, which is not %d rows of %d", t.Name, t.Shape, rows, want.Size)
	}
	return t, n, nil
}

var errTruncated = errors.New("the message is cut or malformed")
