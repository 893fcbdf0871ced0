package ocr

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/afterbay/afterbay/internal/models/onnx"
)

const (
	lineHeight = 48
	lineWidth  = 320  // least width of a call
	turnWidth  = 192  // width of a line for the model of directions
	callLines  = 6    // most lines per call
	callBytes  = 48e6 // most bytes of an answer
)

// tone maps bytes of colours to the inputs of the models.
type tone [256]float32

// pageTone returns the tone for finding lines. Its rounding differs from that of the other models,
// as in the original code.
func pageTone() (t tone) {
	for i := range t {
		t[i] = float32((float64(float32(i)*float32(1./255)) - 0.5) / 0.5)
	}
	return t
}

func lineTone() (t tone) {
	for i := range t {
		t[i] = (float32(i)/255 - 0.5) / 0.5
	}
	return t
}

// put writes the picture into a tensor of three planes of width columns, padded with zeros.
func (p *picture) put(raw []byte, width int, t *tone) {
	for c := range 3 {
		for y := range p.h {
			line := raw[4*((c*p.h+y)*width):]
			for x := range p.w {
				binary.LittleEndian.PutUint32(line[4*x:], math.Float32bits(t[p.pix[3*(y*p.w+x)+c]]))
			}
		}
	}
}

func planes(n, h, w int) onnx.Tensor {
	return onnx.Tensor{Datatype: "FP32", Shape: []int64{int64(n), 3, int64(h), int64(w)}, Raw: make([]byte, 4*3*n*h*w)}
}

// lineOf scales a line to the height of the models, and to at most the given width.
func lineOf(p *picture, width int) *picture {
	return p.resize(min(int(math.Ceil(lineHeight*ratio(p))), width), lineHeight)
}

func ratio(p *picture) float64 { return float64(p.w) / float64(p.h) }

// call is lines that are read together, and the width of their tensor.
type call struct {
	lines []int
	width int
}

// callsOf groups lines into calls, the narrow ones first. A tensor is as wide as its widest line.
// classes is how many numbers an answer has per 8 columns of a line.
func callsOf(lines []*picture, classes int) []call {
	order := make([]int, len(lines))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int {
		if ratio(lines[a]) < ratio(lines[b]) {
			return -1
		} else if ratio(lines[a]) > ratio(lines[b]) {
			return 1
		}
		return 0
	})
	var list []call
	for len(order) > 0 {
		var c call
		for _, line := range order[:min(callLines, len(order))] {
			width := max(lineWidth, int(lineHeight*ratio(lines[line])))
			if len(c.lines) > 0 && (len(c.lines)+1)*width/8*classes*4 > callBytes {
				break
			}
			c.lines, c.width = append(c.lines, line), width
		}
		order = order[len(c.lines):]
		list = append(list, c)
	}
	return list
}

// line is the text of a line, and the model's confidence in it.
type line struct {
	text string
	sure float64
}

// linesOf decodes a model's answer to lines: the probability of each character in each column.
// Equal neighbours are one character, and the first class means no character.
func linesOf(answer *onnx.Tensor, n int, characters []string) ([]line, error) {
	shape := answer.Shape
	if len(shape) != 3 || shape[0] != int64(n) || shape[2] != int64(len(characters)) || answer.Datatype != "FP32" {
		return nil, fmt.Errorf("an answer of %s and shape %d for %d lines of %d characters", answer.Datatype, shape, n, len(characters))
	}
	list := make([]line, n)
	columns, classes := int(shape[1]), len(characters)
	for i := range list {
		var text strings.Builder
		before, sum, count := 0, 0.0, 0
		for column := range columns {
			best, most := best(answer.Raw[4*classes*(i*columns+column):], classes)
			if best != before && best != 0 {
				text.WriteString(characters[best])
				sum += float64(most)
				count++
			}
			before = best
		}
		list[i] = line{text.String(), sum / float64(max(count, 1))}
	}
	return list, nil
}

// best returns the first largest of n numbers.
func best(raw []byte, n int) (at int, most float32) {
	most = float32(math.Inf(-1))
	for i := range n {
		if value := math.Float32frombits(binary.LittleEndian.Uint32(raw[4*i:])); value > most {
			at, most = i, value
		}
	}
	return at, most
}

// charactersOf returns the characters of an ONNX model, by their class. They are in its metadata
// under the key character, one per line. The first class is no character. The last is a space,
// which the metadata does not list.
func charactersOf(model []byte) ([]string, error) {
	const metadata, key, value = 14, 1, 2 // fields of protobuf
	for len(model) > 0 {
		field, content, rest, err := next(model)
		if err != nil {
			return nil, err
		}
		if model = rest; field != metadata {
			continue
		}
		pair := map[protowire.Number]string{}
		for len(content) > 0 {
			number, text, rest, err := next(content)
			if err != nil {
				return nil, err
			}
			pair[number], content = string(text), rest
		}
		if pair[key] == "character" {
			list := strings.Split(strings.TrimSuffix(pair[value], "\n"), "\n")
			return slices.Concat([]string{""}, list, []string{" "}), nil
		}
	}
	return nil, errors.New("its metadata has no characters: it is not a PaddleOCR model for reading lines, as in rapidocr")
}

// next returns the first field of a message; content is nil if the field is not bytes.
func next(message []byte) (field protowire.Number, content, rest []byte, err error) {
	field, kind, n := protowire.ConsumeTag(message)
	if n < 0 {
		return 0, nil, nil, fmt.Errorf("no file of ONNX: %w", protowire.ParseError(n))
	}
	m := protowire.ConsumeFieldValue(field, kind, message[n:])
	if m < 0 {
		return 0, nil, nil, fmt.Errorf("no file of ONNX: %w", protowire.ParseError(m))
	}
	if kind == protowire.BytesType {
		content, _ = protowire.ConsumeBytes(message[n:])
	}
	return field, content, message[n+m:], nil
}

func floats(raw []byte) []float32 {
	list := make([]float32, len(raw)/4)
	for i := range list {
		list[i] = math.Float32frombits(binary.LittleEndian.Uint32(raw[4*i:]))
	}
	return list
}
