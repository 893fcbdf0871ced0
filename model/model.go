// Package model turns rows of features, texts and other bytes into predictions.
package model

import (
	"context"
	"encoding/binary"
	"math"
	"time"
)

// Rows is a batch of rows: numbers and, for models that read texts, images or
// audio, bytes. Row i has the numbers Values[i*Width : (i+1)*Width], where NaN is
// missing, and the bytes Bytes[i*BytesWidth : (i+1)*BytesWidth], where nil is
// missing.
type Rows struct {
	Width      int
	Values     []float64
	BytesWidth int
	Bytes      [][]byte
	N          int // rows; 0 counts Values or, where rows have no numbers, Bytes
}

// Len returns the number of rows.
func (r Rows) Len() int {
	switch {
	case r.N > 0:
		return r.N
	case r.Width > 0:
		return len(r.Values) / r.Width
	case r.BytesWidth > 0:
		return len(r.Bytes) / r.BytesWidth
	}
	return 0
}

// Slice returns the rows from lo to before hi, in the same memory.
func (r Rows) Slice(lo, hi int) Rows {
	return Rows{
		Width: r.Width, Values: r.Values[lo*r.Width : hi*r.Width],
		BytesWidth: r.BytesWidth, Bytes: r.Bytes[lo*r.BytesWidth : hi*r.BytesWidth], N: hi - lo,
	}
}

// Row returns the numbers and bytes of row i, in the same memory.
func (r Rows) Row(i int) (values []float64, bytes [][]byte) {
	return r.Values[i*r.Width : (i+1)*r.Width], r.Bytes[i*r.BytesWidth : (i+1)*r.BytesWidth]
}

// Append appends a row, whose bytes are not copied.
func (r *Rows) Append(values []float64, bytes [][]byte) {
	r.N = r.Len() + 1
	r.Values, r.Bytes = append(r.Values, values...), append(r.Bytes, bytes...)
}

// Type is what an input of a model holds.
type Type string

// The types of inputs.
const (
	Number Type = "number" // float64, NaN where it is missing: columns of Rows.Values
	String Type = "string" // text in UTF-8, nil where it is missing: columns of Rows.Bytes
	Bytes  Type = "bytes"  // as String, of any meaning
)

// Input is an input of a model: one column of its rows, or as many as its shape
// has elements.
type Input struct {
	Name       string // "" where the model does not say
	Type       Type
	Shape      []int    // of a row's value, without the batch; nil is a single value
	Categories []string // of a number: what 0, 1 and so on stand for; of a string: what the model knows; nil where it does not say
}

// Size returns how many columns the input has.
func (in Input) Size() int { return product(in.Shape) }

func product(shape []int) int {
	n := 1
	for _, length := range shape {
		n *= length
	}
	return n
}

// Output is an output of a model: scores, or a text.
type Output struct {
	Name string
	Size int  // scores of a row; of a text 1
	Type Type // String or Bytes is a text, Number or "" scores
}

// Text reports whether the output is a text.
func (o Output) Text() bool { return o.Type == String || o.Type == Bytes }

// Numbers returns n inputs of a number each, without names.
func Numbers(n int) []Input {
	list := make([]Input, n)
	for i := range list {
		list[i].Type = Number
	}
	return list
}

// Info describes a loaded model. Its slices are shared: do not change them.
type Info struct {
	Kind    string   // such as "xgboost", "lightgbm", "catboost", "onnx-trees" or "text"
	Digest  string   // sha256 of the file, 64 hex digits; of a model of several files that of their digests
	Inputs  []Input  // in order: numbers are the columns of Rows.Values, the others those of Rows.Bytes
	Outputs []Output // in order: the scores of a row and, of an Answerer, its texts
	// State is how many numbers the model wants to have for the next row of the
	// same key: the last scores of a row, and, as AppendState makes them, the last
	// column of bytes of the next, nil at the first. They are the last of Outputs
	// and the last of Inputs. 0 is none.
	State int
	Trees int
	// Remote says that Predict asks something outside the process, which may
	// bill or remember: such a model gets no event before it is durable.
	Remote   bool
	Describe string // objective and shape, for people
	// Ambiguous says what the file leaves open, and how to decide it; "" is nothing.
	Ambiguous string
	Batch     Policy // what its manifest says, else zero

	// Requests of a Remote model, for callers that repeat calls or store answers.
	Request    string        // what an answer depends on beside its row and the version: what is asked for, and how; "" where it does not say
	Generative bool          // the same row may be answered in another way each time
	RowsMax    int           // rows of a request: more of a call are requests of their own, which heed WithTimeout; 0 is any number
	CallsMax   int           // requests under way, as its manifest says: more wait; 0 is what the caller says
	Timeout    time.Duration // within which its calls end by themselves; 0 is that they may not
}

// WithoutState returns the description without the state: what is given to the
// model for a row, and what it answers.
func (info Info) WithoutState() Info {
	if info.State > 0 {
		info.Inputs, info.Outputs, info.State = info.Inputs[:len(info.Inputs)-1], info.Outputs[:len(info.Outputs)-1], 0
	}
	return info
}

// AppendState appends the bytes of the state that the scores of a row end with.
func AppendState(b []byte, state []float32) []byte {
	for _, value := range state {
		b = binary.LittleEndian.AppendUint32(b, math.Float32bits(value))
	}
	return b
}

// Width returns how many numbers a row has.
func (info Info) Width() int { return info.columns(true) }

// BytesWidth returns how many texts and bytes a row has.
func (info Info) BytesWidth() int { return info.columns(false) }

func (info Info) columns(numbers bool) int {
	n := 0
	for i := range info.Inputs {
		if in := info.Inputs[i]; (in.Type == Number) == numbers {
			n += in.Size()
		}
	}
	return n
}

// Scores returns how many scores a row has.
func (info Info) Scores() int {
	n := 0
	for _, out := range info.Outputs {
		if !out.Text() {
			n += out.Size
		}
	}
	return n
}

// Texts returns how many texts a row is answered with.
func (info Info) Texts() int {
	n := 0
	for _, out := range info.Outputs {
		if out.Text() {
			n++
		}
	}
	return n
}

// Names returns the names of the inputs, in order; nil where one has none.
func (info Info) Names() []string {
	var names []string
	for i := range info.Inputs {
		if info.Inputs[i].Name == "" {
			return nil
		}
		names = append(names, info.Inputs[i].Name)
	}
	return names
}

// Model turns rows into scores. Implementations are safe for concurrent use
// and keep neither rows nor scores. The score of a row depends on that row
// alone, bit for bit, whatever else is in the batch: the loader of a model
// scores its golden vectors alone, shuffled and padded.
type Model interface {
	// Predict writes the scores of row i to scores[i*n:], where n is
	// Info().Scores(). It fails as a whole, unless its error is RowErrors; whether
	// another one is about the rows, Blame says. ctx's deadline is what is left
	// of the batch's latency budget.
	Predict(ctx context.Context, rows Rows, scores []float32) error

	// Check returns why a single row, of Info().Width() numbers and
	// Info().BytesWidth() texts, cannot be scored, or nil. Predict may be
	// called only with rows that pass.
	Check(values []float64, bytes [][]byte) error

	// Info describes the model. It does not change.
	Info() Info
}

// Exactness says what a model that is an Exact repeats, and how exactly.
type Exactness struct {
	Name      string  // of its columns: "margin", "score"
	Columns   int     // of a row
	Bits      int     // of a value: 32 or 64
	Tolerance float64 // most that a value may differ from what the framework says; 0 is no bit
}

// Exact is implemented by models whose answers are closer to those of the
// framework that made them than a float32 of a prediction can show.
type Exact interface {
	Model

	// Exactness describes what ScoreExactly writes.
	Exactness() Exactness

	// ScoreExactly writes Exactness().Columns values a row. Otherwise it is
	// Predict.
	ScoreExactly(ctx context.Context, rows Rows, out []float64) error
}
