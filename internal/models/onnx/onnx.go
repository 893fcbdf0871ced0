// Package onnx runs any ONNX model by ONNX Runtime. The runtime is a library in C++, so it is
// isolated in separate processes of the program afterbay-onnx. Each process has a memory limit, and
// is restarted when it dies. Trees in ONNX do not need the runtime: internal/models/tree reads
// them.
package onnx

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"
	"sync"

	"golang.org/x/sync/errgroup"

	"github.com/afterbay/afterbay/internal/models/oip"
	"github.com/afterbay/afterbay/model"
)

// StateName is the name of the last column and of the last scores of a model with state.
const StateName = "state"

// Model is a model of ONNX with tensors as rows. It is safe for concurrent use.
//
// A model may keep state per key: a recurrent state, or elements that it carries from row to row.
// It then has one more column of bytes, the last: the state after the key's previous row, or nil at
// its first. The last Info().State scores of a row are its new state. So only the caller has the
// state. The caller must score the rows of one key one after the other, and a repeated call gives
// the same result.
type Model struct {
	session   *Session
	plan      *plan
	scratches sync.Pool
}

var _ model.Model = (*Model)(nil)

// Load reads a model from a file. The caller must close it.
func Load(ctx context.Context, path string, options Options) (*Model, error) {
	if err := options.Validate(); err != nil {
		return nil, fmt.Errorf("load model %s: %w", path, err)
	}
	session, err := Open(ctx, path, options.Session)
	if err != nil {
		return nil, err
	}
	graph := session.Graph()
	p, err := newPlan(graph, options, session.bytes)
	if err != nil {
		session.Close()
		return nil, fmt.Errorf("load model %s: %w", path, err)
	}
	m := &Model{session: session, plan: p}
	m.scratches.New = func() any { return new([2]scratch) }
	p.info.Kind, p.info.Digest = "onnx", options.digest(session.digest)
	p.info.Describe = fmt.Sprintf("graph of %d inputs and %d outputs, %s, %d rows a call", len(graph.Inputs), len(graph.Outputs), graph.Runtime, p.batch)
	return m, nil
}

// Close ends the processes of the model.
func (m *Model) Close() { m.session.Close() }

// Session returns the session that the model runs in.
func (m *Model) Session() *Session { return m.session }

// Info describes the model. Its slices are shared: do not change them.
func (m *Model) Info() model.Info { return m.plan.info }

// Check returns nil if a row can be scored, else the reason. The reasons are a missing value where
// none is allowed, an infinity, a non-integer for a tensor of integers, bytes that do not match a
// row of their tensor, and too many bytes.
func (m *Model) Check(values []float64, columns [][]byte) error {
	p := m.plan
	if len(values) != p.width || len(columns) != p.bytesWidth {
		return fmt.Errorf("a row of %d numbers and %d texts for a model of %d and %d", len(values), len(columns), p.width, p.bytesWidth)
	}
	total := p.fixedBytes
	for i := range p.feeds {
		f := &p.feeds[i]
		var err error
		switch f.Kind {
		case Numbers:
			err = f.checkNumbers(values[f.column : f.column+f.size])
		case Raw:
			total += int64(len(columns[f.column]))
			err = f.checkRaw(columns[f.column])
		case Text:
			total += int64(len(columns[f.column])) + 4
			err = missing(columns[f.column])
			if bytes.IndexByte(columns[f.column], 0) >= 0 {
				err = errors.New("a zero byte ends strings in ONNX Runtime")
			}
		case TokenIDs:
			err = missing(columns[f.column])
		}
		if err != nil {
			return &model.InputError{Name: f.Name, Err: err}
		}
	}
	if p.state > 0 {
		if state := columns[p.bytesWidth-1]; state != nil && (len(state) != 4*p.state || !finite("FP32", state)) {
			return fmt.Errorf("a state of %d bytes does not have %d finite numbers", len(state), p.state)
		}
	}
	if total > p.rowBytes {
		return fmt.Errorf("a row of %d bytes, the limit is %d", total, p.rowBytes)
	}
	return nil
}

func missing(value []byte) error {
	if value == nil {
		return errors.New("it is missing: give a value in its place")
	}
	return nil
}

func (f *feed) checkNumbers(values []float64) error {
	for _, value := range values {
		floats := f.tensor.Datatype == "FP32" || f.tensor.Datatype == "FP64"
		switch {
		case math.IsNaN(value) && f.Missing && floats:
		case math.IsNaN(value) && floats:
			return errors.New("it is missing: give a number in its place, or write `missing: true` below `onnx` in the manifest if the model takes NaN")
		case math.IsNaN(value):
			return fmt.Errorf("it is missing, and %s has no NaN: give a number in its place", f.tensor.Datatype)
		case math.IsInf(value, 0):
			return fmt.Errorf("it is %g", value)
		default:
			if err := oip.CheckNumber(f.tensor.Datatype, value); err != nil {
				return err
			}
		}
	}
	return nil
}

func (f *feed) checkRaw(value []byte) error {
	if err := missing(value); err != nil {
		return err
	}
	n := len(value)/f.element + f.Carry
	switch {
	case len(value) == 0 || len(value)%f.element != 0:
		return fmt.Errorf("%d bytes are not whole elements of %s", len(value), f.tensor.Datatype)
	case f.open && n%f.size != 0, !f.open && n != f.size:
		return fmt.Errorf("%d elements do not have the shape %d", n, f.shape)
	case !finite(f.tensor.Datatype, value):
		return errors.New("its elements are not all finite numbers")
	}
	return nil
}

// finite reports whether all elements of a row given as bytes are finite.
func finite(datatype string, raw []byte) bool {
	switch datatype {
	case "FP32", "FP64", "FP16":
	default:
		return true
	}
	for i := range len(raw) / oip.Size(datatype) {
		if v := oip.Number(datatype, raw, i); math.IsNaN(v) || math.IsInf(v, 0) {
			return false
		}
	}
	return true
}

// span is the rows [lo, hi) of a call.
type span struct{ lo, hi int }

// spans splits rows into calls: all rows of a call have the same shape.
func (p *plan) spans(rows model.Rows) []span {
	n := rows.Len()
	list := make([]span, 0, (n+p.batch-1)/p.batch)
	for lo := 0; lo < n; {
		hi := lo + 1
		for hi < n && hi < lo+p.batch && p.alike(rows, lo, hi) {
			hi++
		}
		list = append(list, span{lo, hi})
		lo = hi
	}
	return list
}

func (p *plan) alike(rows model.Rows, a, b int) bool {
	for i := range p.feeds {
		f := &p.feeds[i]
		if f.Kind == Raw && f.open && len(f.bytes(rows, a)) != len(f.bytes(rows, b)) {
			return false
		}
	}
	return true
}

func (f *feed) bytes(rows model.Rows, row int) []byte {
	return rows.Bytes[row*rows.BytesWidth+f.column]
}

// Predict writes the scores of the outputs, one after the other, and then the state. When ctx ends,
// it returns after the calls in flight, which take at most the session's timeout.
func (m *Model) Predict(ctx context.Context, rows model.Rows, scores []float32) error {
	p, n := m.plan, rows.Len()
	if rows.Width != p.width || rows.BytesWidth != p.bytesWidth || len(rows.Values) != n*p.width || len(rows.Bytes) != n*p.bytesWidth {
		return fmt.Errorf("%d rows of %d numbers and %d texts for a model of %d and %d", n, rows.Width, rows.BytesWidth, p.width, p.bytesWidth)
	}
	if len(scores) < n*p.scores {
		return fmt.Errorf("room for %d scores of %d rows of %d", len(scores), n, p.scores)
	}
	spans := p.spans(rows)
	parts := min(len(spans), len(m.session.slots))
	if parts <= 1 {
		return m.predict(ctx, rows, spans, scores)
	}
	group, ctx := errgroup.WithContext(ctx)
	for i := range parts {
		group.Go(func() error {
			return m.predict(ctx, rows, spans[len(spans)*i/parts:len(spans)*(i+1)/parts], scores)
		})
	}
	return group.Wait()
}

func (m *Model) predict(ctx context.Context, rows model.Rows, spans []span, scores []float32) error {
	pair := m.scratches.Get().(*[2]scratch)
	defer m.scratches.Put(pair)
	err := m.session.work(ctx, calls{
		n: len(spans),
		encode: func(call int, frame []byte) ([]byte, error) {
			s := &pair[call%2]
			m.plan.fill(s, rows, spans[call])
			if err := m.session.fits(s.tensors); err != nil {
				return nil, err
			}
			return s.append(frame, m.plan.names), nil
		},
		decode: func(call int, answer []Tensor) error {
			return m.plan.read(&pair[call%2], rows, spans[call], answer, scores)
		},
	})
	if err != nil {
		return fmt.Errorf("predict: %w", err)
	}
	return nil
}

// CountTokens returns how many tokens of a text the model sees, including those that it adds. It
// returns 0 for a model that does not take texts as tokens. It is safe for concurrent use.
func (m *Model) CountTokens(text []byte) (n int) {
	for i := range m.plan.feeds {
		if f := &m.plan.feeds[i]; f.Tokens != nil {
			return len(f.Tokens.Tokenizer.Append(nil, string(text), f.tokensMax))
		}
	}
	return 0
}
