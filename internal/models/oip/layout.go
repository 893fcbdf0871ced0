package oip

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/afterbay/afterbay/model"
)

// Layout says which tensors carry the inputs of a model. It is immutable and safe for concurrent
// use.
type Layout struct {
	slots             []slot
	names             []string // of the columns of numbers, then of bytes
	width, bytesWidth int
}

// slot is a tensor: its columns of numbers or of bytes in each row, beginning at from.
type slot struct {
	name, datatype string
	shape          []int64 // of a row
	from, count    int
	bytes          bool
}

// CheckInputs returns the errors of a model's inputs: each must have a unique name, a type and a
// shape of positive lengths.
func CheckInputs(inputs []model.Input) error {
	if len(inputs) == 0 {
		return errors.New("no inputs: a row would be empty")
	}
	seen := map[string]bool{}
	for i, in := range inputs {
		shape := make([]int64, len(in.Shape))
		for j, length := range in.Shape {
			shape[j] = int64(length)
		}
		n, err := Elements(shape)
		switch {
		case in.Name == "":
			return fmt.Errorf("input %d has no name, which its tensor needs", i+1)
		case seen[in.Name]:
			return fmt.Errorf("input %q occurs twice", in.Name)
		case in.Type != model.Number && in.Type != model.String && in.Type != model.Bytes:
			return fmt.Errorf("input %q has type %q: number, string and bytes are there", in.Name, in.Type)
		case err != nil || n == 0:
			return fmt.Errorf("input %q has shape %v: lengths are positive", in.Name, in.Shape)
		}
		seen[in.Name] = true
	}
	return nil
}

// CheckOutputs returns the errors of a model's outputs: each must have a size and, if there are
// several, a unique name.
func CheckOutputs(outputs []model.Output) error {
	seen := map[string]bool{}
	for i, out := range outputs {
		switch {
		case out.Size < 1 || out.Size > 1<<20:
			return fmt.Errorf("output %d has %d scores: 1 to 2^20 are possible", i+1, out.Size)
		case out.Text() && out.Size != 1:
			return fmt.Errorf("output %d is %d texts: it is one", i+1, out.Size)
		case out.Name == "" && len(outputs) > 1:
			return fmt.Errorf("output %d of %d has no name", i+1, len(outputs))
		case seen[out.Name]:
			return fmt.Errorf("output %q occurs twice", out.Name)
		}
		seen[out.Name] = true
	}
	return nil
}

// add adds a separate tensor for an input.
func (l *Layout) add(in model.Input, datatype string, shape []int64) {
	s := slot{name: in.Name, datatype: datatype, shape: shape, from: l.width, count: in.Size()}
	if in.Type != model.Number {
		s.bytes, s.from = true, l.bytesWidth
		l.bytesWidth += s.count
	} else {
		l.width += s.count
	}
	l.slots = append(l.slots, s)
}

// label sets the names of columns.
func (l *Layout) label(inputs []model.Input) {
	for _, numbers := range []bool{true, false} {
		for _, in := range inputs {
			for range in.Size() {
				if (in.Type == model.Number) == numbers {
					l.names = append(l.names, in.Name)
				}
			}
		}
	}
}

// Packed returns a layout with one FP32 tensor for all numbers of a row, and one tensor for each
// other input. The inputs must have passed CheckInputs.
func Packed(inputs []model.Input, name string) (*Layout, error) {
	l := &Layout{}
	if width := (model.Info{Inputs: inputs}).Width(); width > 0 {
		l.slots = append(l.slots, slot{name: name, datatype: "FP32", shape: []int64{int64(width)}, count: width})
		l.width = width
	}
	for _, in := range inputs {
		if in.Type == model.Number {
			continue
		}
		if in.Name == name && l.width > 0 {
			return nil, fmt.Errorf("input %q has the name of the tensor of all numbers", in.Name)
		}
		l.add(in, "BYTES", lengths(in))
	}
	l.label(inputs)
	return l, nil
}

// Columns returns a layout with one tensor for each input: FP32 for numbers. The inputs must have
// passed CheckInputs. The tensor of a single value has one dimension.
func Columns(inputs []model.Input) *Layout {
	l := &Layout{}
	for _, in := range inputs {
		datatype := "FP32"
		if in.Type != model.Number {
			datatype = "BYTES"
		}
		l.add(in, datatype, lengths(in))
	}
	l.label(inputs)
	return l
}

func lengths(in model.Input) []int64 {
	var list []int64
	for _, length := range in.Shape {
		list = append(list, int64(length))
	}
	return list
}

// Match returns the layout that a server's metadata requires. Its tensors must equal the inputs by
// name, order, type and shape. Alternatively, several numbers go into the server's only tensor of
// numbers, if it has none of their names. The error names the difference.
func Match(inputs []model.Input, tensors []Tensor) (*Layout, error) {
	var numbers []model.Input
	for _, in := range inputs {
		if in.Type == model.Number {
			numbers = append(numbers, in)
		}
	}
	ofNumbers := func(t Tensor) bool { return t.Datatype != "BYTES" }
	first := slices.IndexFunc(tensors, ofNumbers)
	single := first >= 0 && !slices.ContainsFunc(tensors[first+1:], ofNumbers)
	named := func(in model.Input) bool { return in.Name == tensors[first].Name }
	if single && len(numbers) > 1 && !slices.ContainsFunc(numbers, named) {
		all := model.Input{Name: tensors[first].Name, Type: model.Number, Shape: []int{(model.Info{Inputs: numbers}).Width()}}
		inputs = slices.DeleteFunc(slices.Clone(inputs), func(in model.Input) bool { return in.Type == model.Number })
		inputs = slices.Insert(inputs, min(first, len(inputs)), all)
		l, err := match(inputs, tensors)
		if err == nil {
			l.names = nil
			l.label(append(numbers, slices.DeleteFunc(inputs, func(in model.Input) bool { return in.Type == model.Number })...))
		}
		return l, err
	}
	l, err := match(inputs, tensors)
	if err == nil {
		l.label(inputs)
	}
	return l, err
}

func match(inputs []model.Input, tensors []Tensor) (*Layout, error) {
	l := &Layout{}
	for i, in := range inputs {
		if i >= len(tensors) {
			return nil, fmt.Errorf("input %q is not one of the %d inputs of the server", in.Name, len(tensors))
		}
		t := &tensors[i]
		if t.Name != in.Name {
			return nil, fmt.Errorf("input %d is %q, but the server has %q: names and their order must be the same", i+1, in.Name, t.Name)
		}
		known := CheckNumber(t.Datatype, 0) == nil
		if in.Type != model.Number {
			known = t.Datatype == "BYTES"
		}
		if !known {
			return nil, fmt.Errorf("input %q is a %s, but the server wants %s", in.Name, in.Type, t.Datatype)
		}
		shape, err := rowShape(t.Shape, in.Size())
		if err != nil {
			return nil, fmt.Errorf("input %q: %w", in.Name, err)
		}
		l.add(in, t.Datatype, shape)
	}
	if len(tensors) > len(inputs) {
		return nil, fmt.Errorf("the server has an input %q, which is not one of the %d inputs here", tensors[len(inputs)].Name, len(inputs))
	}
	return l, nil
}

// rowShape returns the dimensions after the rows in a shape of metadata, for size values per row.
func rowShape(shape []int64, size int) ([]int64, error) {
	if len(shape) == 0 || shape[0] != -1 {
		return nil, fmt.Errorf("the server wants shape %v, but its first dimension is not -1 (any number of rows)", shape)
	}
	row, free, n := slices.Clone(shape[1:]), -1, 1
	for i, length := range row {
		switch {
		case length == -1 && free < 0:
			free = i
		case length < 1 || length > elementsMax || n > elementsMax:
			return nil, fmt.Errorf("the server wants shape %v, so the size of a row is open", shape)
		default:
			n *= int(length)
		}
	}
	if free >= 0 && size%n == 0 {
		row[free] = int64(size / n)
		n = size
	}
	if n != size {
		return nil, fmt.Errorf("a row has %d values, but the server wants shape %v", size, shape)
	}
	return row, nil
}

// Fits returns an error if the batch as a whole does not fit, else nil.
func (l *Layout) Fits(rows model.Rows) error {
	n := rows.Len()
	if rows.Width != l.width || rows.BytesWidth != l.bytesWidth || len(rows.Values) != n*l.width || len(rows.Bytes) != n*l.bytesWidth {
		return fmt.Errorf("%d rows of %d numbers and %d texts for a model of %d and %d", n, rows.Width, rows.BytesWidth, l.width, l.bytesWidth)
	}
	return nil
}

// Check returns nil if the tensors can represent a row, else the reason.
func (l *Layout) Check(values []float64, bytes [][]byte) error {
	if len(values) != l.width || len(bytes) != l.bytesWidth {
		return fmt.Errorf("a row of %d numbers and %d texts for a model of %d and %d", len(values), len(bytes), l.width, l.bytesWidth)
	}
	for i := range l.slots {
		s := &l.slots[i]
		for j := s.from; j < s.from+s.count; j++ {
			switch {
			case s.bytes && bytes[j] == nil:
				return &model.InputError{Name: l.names[l.width+j], Err: errors.New("it is missing, which BYTES cannot say: give a text in its place")}
			case s.bytes && len(bytes[j]) > math.MaxInt32:
				return &model.InputError{Name: l.names[l.width+j], Err: fmt.Errorf("it has %d bytes: at most 2^31-1 are possible", len(bytes[j]))}
			case s.bytes:
				continue
			}
			if err := CheckNumber(s.datatype, values[j]); err != nil {
				return &model.InputError{Name: l.names[j], Err: err}
			}
		}
	}
	return nil
}

// Name returns the name of the input of a column of numbers, or of bytes.
func (l *Layout) Name(column int, bytes bool) string {
	if bytes {
		column += l.width
	}
	return l.names[column]
}

// Fill writes rows that passed Check to tensors and returns them. It reuses their memory if it
// suffices. The result is valid until the next Fill.
func (l *Layout) Fill(tensors []Tensor, rows model.Rows) []Tensor {
	n := rows.Len()
	if len(tensors) != len(l.slots) {
		tensors = make([]Tensor, len(l.slots))
	}
	for i := range l.slots {
		s, t := &l.slots[i], &tensors[i]
		raw := t.Raw[:0]
		for row := range n {
			switch {
			case s.bytes:
				for _, element := range rows.Bytes[row*l.bytesWidth+s.from:][:s.count] {
					raw = AppendBytes(raw, element)
				}
			case s.datatype == "FP32":
				for _, value := range rows.Values[row*l.width+s.from:][:s.count] {
					raw = binary.LittleEndian.AppendUint32(raw, math.Float32bits(float32(value)))
				}
			default:
				for _, value := range rows.Values[row*l.width+s.from:][:s.count] {
					raw = AppendNumber(raw, s.datatype, value)
				}
			}
		}
		t.Name, t.Datatype, t.Raw = s.name, s.datatype, raw
		t.Shape = append(append(t.Shape[:0], int64(n)), s.shape...)
	}
	return tensors
}
