package serving

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"time"

	"github.com/afterbay/afterbay/internal/event/decode"
	"github.com/afterbay/afterbay/internal/http/server"
	"github.com/afterbay/afterbay/internal/models/oip"
	"github.com/afterbay/afterbay/model"
)

const textBytes = 24 // memory of a text's slice header

const callTimeout = time.Minute // timeout of a model call; the model may be remote and hang

// tensor is an input of the Open Inference Protocol: numbers, or texts if the datatype is BYTES.
type tensor struct {
	name     string
	datatype string
	shape    []int64
	numbers  []float64
	texts    [][]byte
}

// request is an inference request of the protocol, decoded from any encoding.
type request struct {
	id      string
	inputs  []tensor
	outputs []string // requested outputs; empty means all
}

// answer is an output of the protocol: float32 of shape [rows, size], or texts of shape [rows, 1],
// where nil means no text.
type answer struct {
	*output
	shape  []int64
	scores []float32
	texts  [][]byte
}

// datatype returns the protocol's name for the type of an output.
func (o *output) datatype() string {
	if o.size == 0 {
		return "BYTES"
	}
	return "FP32"
}

// appendRaw appends the elements in binary form. This form cannot express a missing text, so a
// missing text becomes an empty one.
func (a *answer) appendRaw(dst []byte, room *server.Room) ([]byte, error) {
	size := 4 * len(a.scores)
	for _, text := range a.texts {
		size += 4 + len(text)
	}
	dst, err := room.Grow(dst, size)
	if err != nil {
		return dst, err
	}
	for _, text := range a.texts {
		dst = oip.AppendBytes(dst, text)
	}
	return appendFloats(dst, a.scores), nil
}

const (
	numberBytes = 16 // maximum JSON size of a float32 and a comma
	quotedBytes = 6  // maximum JSON size of one byte of a string
)

// appendJSON appends the elements as a JSON array.
func (a *answer) appendJSON(dst []byte, room *server.Room) (_ []byte, err error) {
	dst = append(dst, '[')
	for i, s := range a.scores {
		if dst, err = room.Grow(dst, numberBytes); err != nil {
			return dst, err
		}
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = appendNumber(dst, s)
	}
	for i, text := range a.texts {
		if dst, err = room.Grow(dst, quotedBytes*len(text)+numberBytes); err != nil {
			return dst, err
		}
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = appendString(dst, a.text(text))
	}
	return append(dst, ']'), nil
}

// elements returns the number of elements in the tensor's shape.
func (t *tensor) elements() (int, error) {
	n, err := oip.Elements(t.shape)
	switch {
	case oip.Size(t.datatype) < 0:
		err = fmt.Errorf("datatype %q is not known", t.datatype)
	case len(t.shape) == 0:
		err = errors.New("it has no shape")
	}
	if err != nil {
		return 0, fmt.Errorf("input %q: %w", t.name, err)
	}
	return n, nil
}

// unpack reads a tensor with elements in binary form.
func unpack(in *oip.Tensor, room *server.Room) (tensor, error) {
	t := tensor{name: in.Name, datatype: in.Datatype, shape: in.Shape}
	n, err := t.elements()
	switch size := oip.Size(t.datatype); {
	case err != nil:
		return t, err
	case size == 0:
		if err = room.Take(int64(min(n, len(in.Raw)/4)) * textBytes); err == nil {
			t.texts, err = in.Split()
		}
	case len(in.Raw) != n*size:
		err = fmt.Errorf("%d bytes for %d elements of %s", len(in.Raw), n, t.datatype)
	default:
		if err = room.Take(int64(n) * 8); err == nil {
			t.numbers = make([]float64, n)
			err = oip.Floats(in, t.numbers)
		}
	}
	if err != nil {
		return t, fmt.Errorf("input %q: %w", t.name, err)
	}
	return t, nil
}

// setJSON reads the tensor's elements from JSON arrays, flat or nested like the shape.
func (t *tensor) setJSON(data []byte, room *server.Room) error {
	n, err := t.elements()
	if err != nil {
		return err
	}
	if err := t.collect(data, n, len(t.shape), room); err != nil {
		return fmt.Errorf("input %q: %w", t.name, err)
	}
	if got := len(t.numbers) + len(t.texts); got != n {
		return fmt.Errorf("input %q: %d elements for shape %v", t.name, got, t.shape)
	}
	return nil
}

// collect adds the elements of an array, at most most of them, at most depth levels deep.
func (t *tensor) collect(data []byte, most, depth int, room *server.Room) error {
	w := decode.Walk(data)
	if w.Err() == nil && !w.Array() {
		return fmt.Errorf("the data is not an array")
	}
	for w.Next() {
		if err := cmp.Or(room.Another(len(t.numbers), max(cap(t.numbers), 1), 8), room.Another(len(t.texts), max(cap(t.texts), 1), textBytes)); err != nil {
			return err
		}
		if len(t.numbers)+len(t.texts) == most && w.Value[0] != '[' {
			return fmt.Errorf("more than %d elements for shape %v", most, t.shape)
		}
		if v, ok := decode.Number(w.Value); ok && t.datatype != "BYTES" {
			t.numbers = append(t.numbers, v)
			continue
		}
		if bytes.IndexByte(w.Value, '\\') >= 0 {
			if err := room.Take(int64(len(w.Value))); err != nil { // for a copy without escapes
				return err
			}
		}
		text, isText := decode.String(w.Value)
		switch c := w.Value[0]; {
		case c == '[' && depth > 1:
			if err := t.collect(w.Value, most, depth-1, room); err != nil {
				return err
			}
		case isText && t.datatype == "BYTES":
			t.texts = append(t.texts, text)
		case c == 'n' && t.datatype == "BYTES":
			t.texts = append(t.texts, nil)
		case c == 'n':
			t.numbers = append(t.numbers, missing)
		case (c == 't' || c == 'f') && t.datatype == "BOOL":
			t.numbers = append(t.numbers, map[byte]float64{'t': 1}[c])
		default:
			return fmt.Errorf("%s is not an element of %s", clip(w.Value), t.datatype)
		}
	}
	return w.Err()
}

// rows converts tensors to rows: one tensor of shape [rows, inputs], or one of shape [rows] or
// [rows, 1] for each named input.
func (m *served) rows(inputs []tensor, room *server.Room) (model.Rows, error) {
	if len(inputs) == 0 {
		return model.Rows{}, fmt.Errorf("no inputs: the model has %s", m.inputNames())
	}
	if len(inputs) == 1 {
		if _, ok := m.byName[inputs[0].name]; !ok || len(m.inputs) == 1 {
			return m.matrix(&inputs[0])
		}
	}
	n := inputs[0].shape[0]
	seen := make([]bool, len(m.inputs))
	for i := range inputs {
		t := &inputs[i]
		at, ok := m.byName[t.name]
		switch {
		case !ok:
			return model.Rows{}, fmt.Errorf("the model has no input %q: it has %s", t.name, m.inputNames())
		case seen[at]:
			return model.Rows{}, fmt.Errorf("input %q occurs twice", t.name)
		case t.shape[0] != n || len(t.shape) > 2 || len(t.shape) == 2 && t.shape[1] != 1:
			return model.Rows{}, fmt.Errorf("input %q: shape %v, want [%d] or [%d, 1]", t.name, t.shape, n, n)
		case (m.inputs[at].kind == model.Number) == (t.datatype == "BYTES"):
			return model.Rows{}, fmt.Errorf("input %q does not take %s", t.name, t.datatype)
		}
		seen[at] = true
	}
	if at := slices.Index(seen, false); at >= 0 {
		return model.Rows{}, fmt.Errorf("input %q is missing", m.inputs[at].name)
	}
	if err := room.Take(n * int64(8*m.numbers+textBytes*m.texts)); err != nil {
		return model.Rows{}, err
	}
	return m.join(inputs, int(n)), nil
}

// join combines columns into rows.
func (m *served) join(inputs []tensor, n int) model.Rows {
	rows := m.rowsOf(n)
	rows.N, rows.Values, rows.Bytes = n, rows.Values[:n*m.numbers], rows.Bytes[:n*m.texts]
	for i := range inputs {
		t := &inputs[i]
		column := m.inputs[m.byName[t.name]].column
		for row, v := range t.numbers {
			rows.Values[row*m.numbers+column] = v
		}
		for row, text := range t.texts {
			rows.Bytes[row*m.texts+column] = text
		}
	}
	return rows
}

// encode replaces category numbers in rows by codes.
func (m *served) encode(rows model.Rows) error {
	for i := range m.inputs {
		in := &m.inputs[i]
		for row := 0; in.codes != nil && row < rows.Len(); row++ {
			at := row*m.numbers + in.column
			code, err := in.codes.Number(rows.Values[at])
			if err != nil {
				return fmt.Errorf("row %d: input %q: %w", row, in.name, err)
			}
			rows.Values[at] = code
		}
	}
	return nil
}

// matrix returns the rows of a single tensor that has all inputs.
func (m *served) matrix(t *tensor) (model.Rows, error) {
	width := int64(len(m.inputs))
	flat := len(t.shape) == 1 && width == 1
	switch {
	case m.numbers > 0 && m.texts > 0:
		return model.Rows{}, fmt.Errorf("the model has no input %q: it has %s", t.name, m.inputNames())
	case !flat && (len(t.shape) != 2 || t.shape[1] != width):
		return model.Rows{}, fmt.Errorf("input %q: shape %v, want [rows, %d]", t.name, t.shape, width)
	case (m.numbers > 0) == (t.datatype == "BYTES"):
		return model.Rows{}, fmt.Errorf("input %q: the model does not take %s", t.name, t.datatype)
	}
	return model.Rows{Width: m.numbers, Values: t.numbers, BytesWidth: m.texts, Bytes: t.texts, N: int(t.shape[0])}, nil
}

// score checks and scores rows. Calls may be shared with rows of other requests, and end after
// callTimeout.
func (m *served) score(ctx context.Context, rows model.Rows, room *server.Room) (all model.Answer, err error) {
	if err := room.Take(int64(rows.N) * int64(4*m.width+textBytes*m.words)); err != nil {
		return all, err
	}
	for i := range rows.N {
		if err := m.Model.Check(rows.Row(i)); err != nil {
			return all, refuse(http.StatusBadRequest, "bad_row", "row %d: %v", i, err)
		}
	}
	all = model.Answer{Scores: make([]float32, rows.N*m.width), Texts: make([][]byte, rows.N*m.words)}
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	room.Rest() // the model limits its own calls
	m.shared.Enter()
	err = m.shared.Answer(ctx, rows, all.Scores, all.Texts)
	m.shared.Leave()
	if ended := room.Work(); ended != nil {
		return all, ended
	}
	if err != nil {
		return all, refuse(http.StatusInternalServerError, "model_failed", "predict: %v", err)
	}
	return all, nil
}

// infer serves a request of the protocol. Errors are refusals.
func (m *served) infer(ctx context.Context, in *request, room *server.Room) ([]answer, error) {
	rows, err := m.rows(in.inputs, room)
	if err == nil {
		err = m.encode(rows)
	}
	if _, full := server.AsRefusal(err); full {
		return nil, err
	}
	if err != nil {
		return nil, refuse(http.StatusBadRequest, "bad_input", "%v", err)
	}
	for _, name := range in.outputs {
		if !slices.ContainsFunc(m.outputs, func(o output) bool { return o.name == name }) {
			return nil, refuse(http.StatusBadRequest, "bad_output", "the model has no output %q", name)
		}
	}
	all, err := m.score(ctx, rows, room)
	if err != nil {
		return nil, err
	}
	var answers []answer
	from, word := 0, 0
	for o := range m.outputs {
		a := answer{output: &m.outputs[o], shape: []int64{int64(rows.N), int64(max(m.outputs[o].size, 1))}}
		if len(in.outputs) == 0 || slices.Contains(in.outputs, a.name) {
			if err := a.fill(m, &all, from, word, room); err != nil {
				return nil, err
			}
			answers = append(answers, a)
		}
		if from += a.size; a.size == 0 {
			word++
		}
	}
	return answers, nil
}

// fill copies the output's part from the answers of all rows. If the model has one output, that is
// everything.
func (a *answer) fill(m *served, all *model.Answer, from, word int, room *server.Room) error {
	switch rows := int(a.shape[0]); {
	case a.size == m.width && a.size > 0:
		a.scores = all.Scores
	case a.size == 0 && m.words == 1:
		a.texts = all.Texts
	default:
		if err := room.Take(a.shape[0] * int64(4*a.size+textBytes)); err != nil {
			return err
		}
		if a.size == 0 {
			a.texts = make([][]byte, 0, rows)
		} else {
			a.scores = make([]float32, 0, rows*a.size)
		}
		for i := range rows {
			if a.size == 0 {
				a.texts = append(a.texts, all.Texts[i*m.words+word])
			}
			a.scores = append(a.scores, all.Scores[i*m.width+from:i*m.width+from+a.size]...)
		}
	}
	return nil
}

// described is the protocol's description of a model's tensor.
type described struct {
	Name     string  `json:"name"`
	Datatype string  `json:"datatype"`
	Shape    []int64 `json:"shape"`
}

// tensors describes the model's inputs and outputs. If all inputs are numbers, they are one input
// with all columns.
func (m *served) tensors() (inputs, outputs []described) {
	if m.texts == 0 && len(m.inputs) > 1 {
		inputs = append(inputs, described{"input", "FP32", []int64{-1, int64(m.numbers)}})
	} else {
		for _, in := range m.inputs {
			d := described{in.name, "BYTES", []int64{-1, 1}}
			if in.kind == model.Number {
				d.Datatype = "FP32"
			}
			inputs = append(inputs, d)
		}
	}
	for _, out := range m.outputs {
		outputs = append(outputs, described{out.name, out.datatype(), []int64{-1, int64(max(out.size, 1))}})
	}
	return inputs, outputs
}
