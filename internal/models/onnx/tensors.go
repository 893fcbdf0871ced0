package onnx

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"

	"github.com/afterbay/afterbay/internal/models/oip"
	"github.com/afterbay/afterbay/internal/models/onnx/internal/wire"
	"github.com/afterbay/afterbay/model"
)

// scratch holds the tensors of a call, until its answer is read.
type scratch struct {
	tensors []Tensor
	ids     []int64
	ends    []int // end of each row's tokens in ids
}

func (s *scratch) append(frame []byte, names []string) []byte {
	return wire.AppendRequest(frame, s.tensors, names)
}

// next returns a tensor to fill. It reuses the memory of an earlier one.
func (s *scratch) next(as *Tensor) *Tensor {
	n := len(s.tensors)
	if n < cap(s.tensors) {
		s.tensors = s.tensors[:n+1]
	} else {
		s.tensors = append(s.tensors, Tensor{})
	}
	t := &s.tensors[n]
	t.Name, t.Datatype, t.Shape, t.Raw = as.Name, as.Datatype, t.Shape[:0], t.Raw[:0]
	return t
}

// fill fills the tensors of the rows of a call. The rows must have passed Check.
func (p *plan) fill(s *scratch, rows model.Rows, at span) {
	s.tensors = s.tensors[:0]
	for i := range p.feeds {
		f := &p.feeds[i]
		switch f.Kind {
		case Constant:
			t := s.next(&f.tensor)
			t.Shape, t.Raw = append(t.Shape, f.tensor.Shape...), append(t.Raw, f.tensor.Raw...)
		case TokenIDs:
			f.fillTokens(s, rows, at)
		default:
			p.fillRows(s.next(&f.tensor), f, rows, at)
		}
	}
	for i := range p.states {
		p.fillState(s.next(&Tensor{Name: p.states[i].Input, Datatype: "FP32"}), &p.states[i], rows, at)
	}
}

func (p *plan) fillRows(t *Tensor, f *feed, rows model.Rows, at span) {
	count := int64(at.hi - at.lo)
	for row := at.lo; row < at.hi; row++ {
		switch f.Kind {
		case Numbers:
			values := rows.Values[row*rows.Width+f.column:][:f.size]
			for _, value := range values {
				t.Raw = oip.AppendNumber(t.Raw, t.Datatype, float64(value))
			}
		case Text:
			t.Raw = oip.AppendBytes(t.Raw, f.bytes(rows, row))
		default:
			if f.Carry > 0 {
				t.Raw = p.appendState(t.Raw, rows, row, f.at, f.Carry)
			}
			t.Raw = append(t.Raw, f.bytes(rows, row)...)
		}
	}
	t.Shape = append(t.Shape, count)
	for _, length := range f.shape {
		if length < 0 {
			length = int64(len(t.Raw)/f.element/f.size) / count
		}
		t.Shape = append(t.Shape, length)
	}
}

// appendState appends n numbers of a row's state.
func (p *plan) appendState(raw []byte, rows model.Rows, row, from, n int) []byte {
	if state := rows.Bytes[(row+1)*rows.BytesWidth-1]; state != nil {
		return append(raw, state[4*from:4*(from+n)]...)
	}
	return append(raw, make([]byte, 4*n)...)
}

// fillState interleaves the states of rows: the rows are in the middle of the shape.
func (p *plan) fillState(t *Tensor, s *stateful, rows model.Rows, at span) {
	for _, length := range s.shape {
		if length < 0 {
			length = int64(at.hi - at.lo)
		}
		t.Shape = append(t.Shape, length)
	}
	for o := range s.outer {
		for row := at.lo; row < at.hi; row++ {
			t.Raw = p.appendState(t.Raw, rows, row, s.at+o*s.inner, s.inner)
		}
	}
}

// fillTokens splits texts into tokens. It pads them to the longest with zeros, which the mask
// excludes.
func (f *feed) fillTokens(s *scratch, rows model.Rows, at span) {
	s.ids, s.ends = s.ids[:0], s.ends[:0]
	longest := 0
	for row := at.lo; row < at.hi; row++ {
		before := len(s.ids)
		s.ids = f.Tokens.Tokenizer.Append(s.ids, string(f.bytes(rows, row)), f.tokensMax)
		s.ends = append(s.ends, len(s.ids))
		longest = max(longest, len(s.ids)-before)
	}
	if f.tokensConstant {
		longest = f.tokensMax
	}
	for kind, as := range []*Tensor{&f.tensor, &f.mask, &f.types} {
		if as.Name == "" {
			continue
		}
		t := s.next(as)
		t.Shape = append(t.Shape, int64(at.hi-at.lo), int64(longest))
		start := 0
		for _, end := range s.ends {
			for i := range longest {
				value := int64(0)
				switch {
				case start+i >= end || kind == 2:
				case kind == 0:
					value = s.ids[start+i]
				default:
					value = 1
				}
				if t.Datatype == "INT32" {
					t.Raw = binary.LittleEndian.AppendUint32(t.Raw, uint32(value))
				} else {
					t.Raw = binary.LittleEndian.AppendUint64(t.Raw, uint64(value))
				}
			}
			start = end
		}
	}
}

// tokensOf returns how many tokens a row of a call has.
func (s *scratch) tokensOf(i int) int {
	if i == 0 {
		return s.ends[0]
	}
	return s.ends[i] - s.ends[i-1]
}

// read writes the scores and states of the rows of a call.
func (p *plan) read(s *scratch, rows model.Rows, at span, answer []Tensor, scores []float32) error {
	if len(answer) != len(p.names) {
		return fmt.Errorf("%d outputs, but %d were requested", len(answer), len(p.names))
	}
	for i := range answer {
		t := &answer[i]
		if t.Name != p.names[i] {
			return fmt.Errorf("output %q, but %q was requested", t.Name, p.names[i])
		}
		var err error
		if i < len(p.outputs) {
			err = p.readScores(s, &p.outputs[i], at, t, scores)
		} else {
			err = p.readState(&p.states[i-len(p.outputs)], at, t, scores)
		}
		if err != nil {
			return fmt.Errorf("output %q: %w", t.Name, err)
		}
	}
	for i := range p.feeds {
		if f := &p.feeds[i]; f.Carry > 0 {
			p.readCarried(f, rows, at, scores)
		}
	}
	return nil
}

var errNotANumber = errors.New("a score is not a finite number")

func (p *plan) readScores(s *scratch, out *output, at span, t *Tensor, scores []float32) error {
	count := at.hi - at.lo
	n, err := oip.Elements(t.Shape)
	if err != nil {
		return err
	}
	if oip.Size(t.Datatype) < 1 {
		return fmt.Errorf("its elements are %s", t.Datatype)
	}
	tokens := 0
	if out.Pool != "" {
		if len(t.Shape) != 3 || t.Shape[0] != int64(count) || t.Shape[2] != int64(out.Size) || t.Shape[1] < 1 {
			return fmt.Errorf("it has the shape %d, not %d rows of vectors of %d", t.Shape, count, out.Size)
		}
		tokens = int(t.Shape[1])
	} else if n != count*out.Size || count > 1 && t.Shape[0] != int64(count) {
		return fmt.Errorf("it has the shape %d, not %d rows of %d", t.Shape, count, out.Size)
	}
	for i := range count {
		row := scores[(at.lo+i)*p.scores+out.at:][:out.Size]
		if tokens > 0 {
			used := tokens
			if p.tokens {
				used = min(used, s.tokensOf(i))
			}
			if out.Pool == "first" {
				used = 1
			}
			pool(row, t, i*tokens, used)
		} else {
			for j := range row {
				row[j] = float32(oip.Number(t.Datatype, t.Raw, i*out.Size+j))
			}
		}
		if out.Normalize {
			normalize(row)
		}
		for _, value := range row {
			if value-value != 0 {
				return errNotANumber
			}
		}
	}
	return nil
}

// pool writes the mean of n vectors, beginning at from.
func pool(row []float32, t *Tensor, from, n int) {
	for j := range row {
		sum := 0.0
		for i := range n {
			sum += oip.Number(t.Datatype, t.Raw, (from+i)*len(row)+j)
		}
		row[j] = float32(sum / float64(max(n, 1)))
	}
}

// normalize scales a vector to length 1. It leaves a vector of length 0 unchanged.
func normalize(row []float32) {
	sum := 0.0
	for _, value := range row {
		sum += float64(float64(value) * float64(value))
	}
	length := max(math.Sqrt(sum), 1e-12)
	for i, value := range row {
		row[i] = float32(float64(value) / length)
	}
}

func (p *plan) readState(s *stateful, at span, t *Tensor, scores []float32) error {
	count := at.hi - at.lo
	same := len(t.Shape) == len(s.shape)
	for i := 0; same && i < len(t.Shape); i++ {
		same = t.Shape[i] == s.shape[i] || s.shape[i] < 0 && t.Shape[i] == int64(count)
	}
	if !same || t.Datatype != "FP32" {
		return fmt.Errorf("the state has the shape %d of %s, it goes in with %d of FP32", t.Shape, t.Datatype, s.shape)
	}
	for o := range s.outer {
		for i := range count {
			row := scores[(at.lo+i)*p.scores+p.scores-p.state+s.at+o*s.inner:][:s.inner]
			for j := range row {
				row[j] = float32(oip.Number("FP32", t.Raw, (o*count+i)*s.inner+j))
				if row[j]-row[j] != 0 {
					return errNotANumber
				}
			}
		}
	}
	return nil
}

// readCarried keeps the last elements of rows for the next rows.
func (p *plan) readCarried(f *feed, rows model.Rows, at span, scores []float32) {
	for row := at.lo; row < at.hi; row++ {
		kept := scores[row*p.scores+p.scores-p.state+f.at:][:f.Carry]
		given := f.bytes(rows, row)
		n := len(given) / f.element
		if n < f.Carry { // keeps some elements that were carried before
			old := p.appendState(nil, rows, row, f.at, f.Carry)
			given = append(old, given...)
			n = len(given) / f.element
		}
		for j := range kept {
			kept[j] = float32(oip.Number("FP32", given, n-f.Carry+j))
		}
	}
}
