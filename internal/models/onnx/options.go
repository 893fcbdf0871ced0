package onnx

import (
	"crypto/sha256"
	"errors"
	"fmt"

	"github.com/afterbay/afterbay/internal/models/text/wordpiece"
)

// InputKind is how a column of rows becomes a tensor.
type InputKind string

// The kinds of inputs.
const (
	// Numbers takes as many numbers as a row of the tensor has elements.
	Numbers InputKind = "numbers"
	// Raw takes bytes: the elements of a row of the tensor, little-endian. One length of its shape
	// may be open; the number of bytes then decides it.
	Raw InputKind = "raw"
	// Text takes a text for a tensor of strings, one for each row.
	Text InputKind = "text"
	// TokenIDs takes a text. It gives the ids of its word pieces, a mask, and types of zeros, to up
	// to three inputs of the graph.
	TokenIDs InputKind = "tokens"
	// Constant takes no column: the tensor is always the same. It may be a scalar.
	Constant InputKind = "constant"
)

// Input says how one input of a graph is filled.
type Input struct {
	Name string    // in the graph; for TokenIDs the name of the column
	Kind InputKind // "" means Text for tensors of strings, Raw if Carry is set or a length is open, else Numbers
	// Shape is the shape of a row's value, for lengths that the graph leaves open. -1 leaves a
	// length of Raw open.
	Shape []int
	// Missing passes missing numbers as NaN, for models that handle NaN.
	Missing bool
	// Carry is how many elements of a row come from the end of the key's previous row. They precede
	// the elements of the row itself, and are zeros for the first row. It requires Raw and FP32.
	Carry int
	// Constant holds the elements of a constant.
	Constant []float64
	Tokens   *Tokens // for TokenIDs
}

// Tokens says how texts become token ids.
type Tokens struct {
	Tokenizer *wordpiece.Tokenizer
	Max       int // most tokens of a text, the rest is cut off; 0 is 256, 8192 is the limit
	// IDs, Mask and Types are inputs of the graph. "" means input_ids, attention_mask and
	// token_type_ids; the last two apply only if the graph has them.
	IDs, Mask, Types string
}

// Output is an output of the graph with scores.
type Output struct {
	Name string // in the graph
	As   string // name of the scores; "" means Name
	Size int    // scores per row; 0 takes the size from the graph
	// Pool reduces the vectors of a row's tokens, a tensor of [rows, tokens, size], to one vector:
	// "mean" over the tokens of the text, or "first".
	Pool string
	// Normalize scales the scores of a row to a vector of length 1.
	Normalize bool
}

// State is a state that a model carries to the next row of the same key: an output of the graph
// that becomes an input. It is zeros at first.
type State struct {
	Input, Output string
	// Shape is the shape of the tensor, with -1 for the rows of a call, in any position. nil takes
	// the shape of the graph, if only that length is open.
	Shape []int
}

// Options say how rows become tensors, and tensors scores. The zero value takes the inputs and
// outputs of the graph in their order.
type Options struct {
	Session SessionOptions
	Inputs  []Input // in the order of the columns; nil means all inputs of the graph that States do not name
	Outputs []Output
	States  []State
	// Batch is the most rows per call; 0 is 1. The results of ONNX Runtime depend in their last
	// bits on the rows that are computed together. For models with dynamic quantization the
	// difference is much larger. So with more than 1, test the model with golden vectors, shuffled
	// and padded.
	Batch int
}

const (
	batchMax     = 4096
	tokensMax    = 8192
	tokensNormal = 256
	scoresMax    = 1 << 20
	stateMax     = 1 << 20 // numbers
)

// digest returns the digest of a model from that of its file. For a model with tokenizers it is the
// digest of the digests of all its files.
func (o Options) digest(file string) string {
	files := file
	for i := range o.Inputs {
		if t := o.Inputs[i].Tokens; t != nil {
			files += t.Tokenizer.Digest()
		}
	}
	if files == file {
		return file
	}
	return fmt.Sprintf("%x", sha256.Sum256([]byte(files)))
}

// Validate returns all errors of the options that do not depend on the graph, or nil.
func (o Options) Validate() error {
	list := []error{o.Session.Validate()}
	wrong := func(is bool, format string, arguments ...any) {
		if is {
			list = append(list, fmt.Errorf(format, arguments...))
		}
	}
	wrong(o.Batch < 0 || o.Batch > batchMax, "a batch has 1 to %d rows, not %d", batchMax, o.Batch)
	seen := map[string]bool{}
	for i := range o.Inputs {
		in := &o.Inputs[i]
		wrong(in.Name == "", "input %d has no name", i)
		wrong(seen[in.Name], "input %q occurs twice", in.Name)
		seen[in.Name] = true
		switch in.Kind {
		case "", Numbers, Raw, Text, TokenIDs, Constant:
		default:
			wrong(true, "input %q is %q: take %s, %s, %s, %s or %s", in.Name, in.Kind, Numbers, Raw, Text, TokenIDs, Constant)
		}
		wrong((in.Kind == TokenIDs) != (in.Tokens != nil), "input %q: a tokenizer is what inputs of %s have, and no others", in.Name, TokenIDs)
		wrong((in.Kind == Constant) != (in.Constant != nil), "input %q: elements are what a %s has, and no others", in.Name, Constant)
		wrong(in.Carry < 0 || in.Carry > stateMax, "input %q carries %d elements: 0 to %d", in.Name, in.Carry, stateMax)
		wrong(in.Carry > 0 && in.Kind != Raw && in.Kind != "", "input %q carries elements, which only %s can", in.Name, Raw)
		if t := in.Tokens; t != nil {
			wrong(t.Tokenizer == nil, "input %q has no tokenizer", in.Name)
			wrong(t.Max < 0 || t.Max > tokensMax, "input %q has %d tokens: 1 to %d", in.Name, t.Max, tokensMax)
		}
	}
	for i := range o.Outputs {
		out := &o.Outputs[i]
		wrong(out.Name == "", "output %d has no name", i)
		wrong(out.Size < 0 || out.Size > scoresMax, "output %q has %d scores: 1 to %d", out.Name, out.Size, scoresMax)
		wrong(out.Pool != "" && out.Pool != "mean" && out.Pool != "first", "output %q pools by %q: take mean or first", out.Name, out.Pool)
	}
	for _, state := range o.States {
		wrong(state.Input == "" || state.Output == "", "a state goes from an output to an input: name both")
		wrong(seen[state.Input], "input %q is an input and a state", state.Input)
		seen[state.Input] = true
	}
	return errors.Join(list...)
}
