package serving

import (
	"fmt"
	"strconv"

	"github.com/afterbay/afterbay/internal/event/decode"
)

const (
	idMost         = 1024 // maximum size of a request's id in bytes
	dimensionsMost = 16
)

// restRequest is a JSON request of the Open Inference Protocol. It has at most as many inputs and
// outputs as its model.
type restRequest struct {
	id        string
	binaryAll bool // all outputs are wanted in binary form
	inputs    []restInput
	outputs   []restOutput
}

type restInput struct {
	name     string
	datatype string
	shape    []int64
	size     []byte // value of binary_data_size; nil if absent
	data     []byte // JSON
}

type restOutput struct {
	name   string
	binary bool
}

// parseREST parses a request. Inputs alias body.
func parseREST(body []byte, m *served) (*restRequest, error) {
	r := &restRequest{}
	return r, members(body, "the request", func(name string, value []byte) (err error) {
		switch name {
		case "id":
			r.id, err = textOf(value, name)
			if err == nil && len(r.id) > idMost {
				err = fmt.Errorf("id: longer than %s", sizeText(idMost))
			}
		case "parameters":
			return members(value, name, func(name string, value []byte) error {
				if name == "binary_data_output" {
					r.binaryAll = string(value) == "true"
				}
				return nil
			})
		case "inputs":
			return list(value, name, max(len(m.inputs), 1), func(value []byte) error {
				in, err := parseInput(value)
				r.inputs = append(r.inputs, in)
				return err
			})
		case "outputs":
			return list(value, name, len(m.outputs), func(value []byte) error {
				out, err := parseOutput(value)
				r.outputs = append(r.outputs, out)
				return err
			})
		}
		return err
	})
}

func parseInput(text []byte) (in restInput, err error) {
	return in, members(text, "an input", func(name string, value []byte) (err error) {
		switch name {
		case "name":
			in.name, err = textOf(value, name)
		case "datatype":
			in.datatype, err = textOf(value, name)
		case "data":
			in.data = value
		case "shape":
			return list(value, name, dimensionsMost, func(value []byte) error {
				n, err := strconv.ParseInt(string(value), 10, 64)
				in.shape = append(in.shape, n)
				return err
			})
		case "parameters":
			in.size, err = parameter(value, "binary_data_size")
		}
		return err
	})
}

func parseOutput(text []byte) (out restOutput, err error) {
	return out, members(text, "an output", func(name string, value []byte) (err error) {
		switch name {
		case "name":
			out.name, err = textOf(value, name)
		case "parameters":
			value, err = parameter(value, "binary_data")
			out.binary = string(value) == "true"
		}
		return err
	})
}

// parameter returns the value of a member of "parameters", nil if it is absent.
func parameter(parameters []byte, of string) (value []byte, err error) {
	err = members(parameters, "parameters", func(name string, member []byte) error {
		if name == of {
			value = member
		}
		return nil
	})
	return value, err
}

// members calls each with the members of an object; null has none.
func members(text []byte, what string, each func(name string, value []byte) error) error {
	if string(text) == "null" {
		return nil
	}
	w := decode.Walk(text)
	if w.Err() == nil && w.Array() {
		return fmt.Errorf("%s is not a JSON object", what)
	}
	for w.Next() {
		if err := each(string(w.Name), w.Value); err != nil {
			return err
		}
	}
	return w.Err()
}

// list calls each with the elements of an array, at most most of them; null has none.
func list(text []byte, what string, most int, each func(value []byte) error) error {
	if string(text) == "null" {
		return nil
	}
	w := decode.Walk(text)
	if w.Err() == nil && !w.Array() {
		return fmt.Errorf("%s: no JSON array", what)
	}
	for n := 0; w.Next(); n++ {
		if n == most {
			return fmt.Errorf("%s: more than %d elements", what, most)
		}
		if err := each(w.Value); err != nil {
			return fmt.Errorf("%s: %w", what, err)
		}
	}
	return w.Err()
}

// textOf returns a string; null is "".
func textOf(value []byte, what string) (string, error) {
	if string(value) == "null" {
		return "", nil
	}
	text, ok := decode.String(value)
	if !ok {
		return "", fmt.Errorf("%s: %s is not a string", what, clip(value))
	}
	return string(text), nil
}
