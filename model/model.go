// Package model turns rows of features, texts and other bytes into predictions.
package model

import (
	"context"
	"encoding/binary"
	"math"
	"time"
)

// Rows is a batch of rows: numbers and, for models that read texts, images or audio, bytes. Row i
// has the numbers Values[i*Width : (i+1)*Width], where NaN means missing. It has the bytes
// Bytes[i*BytesWidth : (i+1)*BytesWidth], where nil means missing.
type Rows struct {
	Width      int
	Values     []float64
	BytesWidth int
	Bytes      [][]byte
	N          int // number of rows; 0 derives it from Values or, if rows have no numbers, from Bytes
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

// Slice returns the rows [lo, hi). They share memory with r.
func (r Rows) Slice(lo, hi int) Rows {
	return Rows{
		Width: r.Width, Values: r.Values[lo*r.Width : hi*r.Width],
		BytesWidth: r.BytesWidth, Bytes: r.Bytes[lo*r.BytesWidth : hi*r.BytesWidth], N: hi - lo,
	}
}

// Row returns the numbers and bytes of row i. They share memory with r.
func (r Rows) Row(i int) (values []float64, bytes [][]byte) {
	return r.Values[i*r.Width : (i+1)*r.Width], r.Bytes[i*r.BytesWidth : (i+1)*r.BytesWidth]
}

// Append appends a row. It does not copy the bytes.
func (r *Rows) Append(values []float64, bytes [][]byte) {
	r.N = r.Len() + 1
	r.Values, r.Bytes = append(r.Values, values...), append(r.Bytes, bytes...)
}

// Type is the type of a model's input.
type Type string

// The types of inputs.
const (
	Number Type = "number" // float64, NaN if missing: columns of Rows.Values
	String Type = "string" // text in UTF-8, nil if missing: columns of Rows.Bytes
	Bytes  Type = "bytes"  // like String, but of any content
)

// Input is an input of a model. It has one column of a row for each element of its shape.
type Input struct {
	Name       string // "" if the model does not name it
	Type       Type
	Shape      []int    // of one row's value, without the batch dimension; nil means a scalar
	Categories []string // of a number: the meaning of 0, 1 and so on; of a string: the known values; nil if the model does not say
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
	Size int  // scores per row; 1 for a text
	Type Type // String or Bytes for a text, Number or "" for scores
}

// Text reports whether the output is a text.
func (o Output) Text() bool { return o.Type == String || o.Type == Bytes }

// Numbers returns n unnamed inputs of one number each.
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
	Digest  string   // sha256 of the file, 64 hex digits; for a model of several files, the sha256 of their digests
	Inputs  []Input  // in order: numbers are columns of Rows.Values, the others columns of Rows.Bytes
	Outputs []Output // in order: the scores of a row and, for an Answerer, its texts
	// State is the number of state values that the model carries from one row to the next row of
	// the same key. The last State scores of a row become the last column of bytes of the next row,
	// encoded by AppendState; that column is nil for the first row. The state is the last of
	// Outputs and the last of Inputs. 0 means no state.
	State int
	Trees int
	// Remote reports that Predict calls something outside the process, which may charge for the
	// call or store it. The engine sends such a model only durable events.
	Remote   bool
	Describe string // objective and shape, for people
	// Ambiguous says what the file leaves open, and how to decide it; "" means nothing is open.
	Ambiguous string
	Batch     Policy // the batch policy of the manifest; zero if it has none

	// Requests of a Remote model, for callers that repeat calls or store answers.
	Request    string        // the request template: what an answer depends on apart from its row and the version; "" if unknown
	Generative bool          // equal rows may get different answers
	RowsMax    int           // rows per request: a larger call sends several requests, each bounded by Call.Timeout; 0 means no limit
	CallsMax   int           // concurrent requests, from the manifest: further ones wait; 0 leaves it to the caller
	Timeout    time.Duration // limit within which the model's calls end on their own; 0 means no limit
}

// WithoutState returns the description without the state: the inputs that a caller provides for a
// row, and the outputs it gets.
func (info Info) WithoutState() Info {
	if info.State > 0 {
		info.Inputs, info.Outputs, info.State = info.Inputs[:len(info.Inputs)-1], info.Outputs[:len(info.Outputs)-1], 0
	}
	return info
}

// AppendState appends the encoded state, which is the end of a row's scores.
func AppendState(b []byte, state []float32) []byte {
	for _, value := range state {
		b = binary.LittleEndian.AppendUint32(b, math.Float32bits(value))
	}
	return b
}

// Width returns the number of numeric columns of a row.
func (info Info) Width() int { return info.columns(true) }

// BytesWidth returns the number of text and bytes columns of a row.
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

// Scores returns the number of scores per row.
func (info Info) Scores() int {
	n := 0
	for _, out := range info.Outputs {
		if !out.Text() {
			n += out.Size
		}
	}
	return n
}

// Texts returns the number of texts in the answer to a row.
func (info Info) Texts() int {
	n := 0
	for _, out := range info.Outputs {
		if out.Text() {
			n++
		}
	}
	return n
}

// Names returns the names of the inputs, in order. It is nil if an input has no name.
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

// Model turns rows into scores. Implementations are safe for concurrent use and keep neither rows
// nor scores. The score of a row depends on that row alone, bit for bit, whatever else is in the
// batch. The loader verifies this: it scores a model's golden vectors alone, shuffled and padded.
type Model interface {
	// Predict writes the scores of row i to scores[i*n:], where n is Info().Scores(). An error
	// means that the whole call failed, unless it is RowErrors. Blame says whether an error is
	// about the rows. ctx's deadline is the rest of the batch's latency budget.
	Predict(ctx context.Context, rows Rows, scores []float32) error

	// Check returns nil if a single row can be scored, else the reason. The row has Info().Width()
	// numbers and Info().BytesWidth() texts. Call Predict only with rows that pass.
	Check(values []float64, bytes [][]byte) error

	// Info describes the model. It does not change.
	Info() Info
}

// Exactness describes the values that an Exact model reproduces, and how exactly.
type Exactness struct {
	Name      string  // of its columns: "margin", "score"
	Columns   int     // per row
	Bits      int     // per value: 32 or 64
	Tolerance float64 // largest difference of a value from the framework's; 0 means bit-equal
}

// Exact is implemented by models that reproduce the answers of their framework more closely than a
// float32 prediction can show.
type Exact interface {
	Model

	// Exactness describes the output of ScoreExactly.
	Exactness() Exactness

	// ScoreExactly writes Exactness().Columns values per row. Otherwise it behaves like Predict.
	ScoreExactly(ctx context.Context, rows Rows, out []float64) error
}
