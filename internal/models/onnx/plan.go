package onnx

import (
	"cmp"
	"errors"
	"fmt"
	"slices"

	"github.com/afterbay/afterbay/internal/models/oip"
	"github.com/afterbay/afterbay/model"
)

// plan maps columns of rows to tensors, and tensors to scores.
type plan struct {
	feeds   []feed
	states  []stateful
	outputs []output
	names   []string // requested outputs: scores, then states

	info              model.Info
	width, bytesWidth int
	scores            int // scores of a row, with its state
	state             int // numbers of a row's state, which are the last scores
	batch             int
	rowBytes          int64 // most bytes of a row's tensors
	fixedBytes        int64 // bytes of a row's tensors with a known length
	tokens            bool  // a text is split into tokens
}

// feed fills one tensor, or up to three for tokens.
type feed struct {
	Input
	tensor         Tensor  // as in the graph; Raw has the elements of a constant
	shape          []int64 // without rows; -1 is open
	element        int     // bytes per element; 0 for strings
	size           int     // elements per row; if one length is open, the product of the others
	open           bool
	column, at     int // column of numbers or bytes; position of the carried elements in the state
	mask, types    Tensor
	tokensMax      int
	tokensConstant bool // number of tokens that the graph requires
}

// stateful is a state: a tensor of outer * rows * inner numbers.
type stateful struct {
	State
	shape            []int64 // with -1 for rows
	outer, inner, at int
}

// output says where an output's scores of a row are.
type output struct {
	Output
	at int
}

func newPlan(g Graph, o Options, tensorBytes int64) (*plan, error) {
	p := &plan{batch: max(1, o.Batch)}
	used := map[string]bool{}
	for _, state := range o.States {
		used[state.Input] = true
		if err := p.addState(g, state); err != nil {
			return nil, fmt.Errorf("state %q: %w", state.Input, err)
		}
	}
	inputs := o.Inputs
	if inputs == nil {
		for _, t := range g.Inputs {
			if !used[t.Name] {
				inputs = append(inputs, Input{Name: t.Name})
			}
		}
	}
	for _, in := range inputs {
		if err := p.addInput(g, in, used); err != nil {
			return nil, fmt.Errorf("input %q: %w", in.Name, err)
		}
	}
	for _, t := range g.Inputs {
		if !used[t.Name] {
			return nil, fmt.Errorf("input %q of the graph is neither an input nor a state here", t.Name)
		}
	}
	if err := p.addOutputs(g, o); err != nil {
		return nil, err
	}
	return p, p.finish(tensorBytes)
}

func find(list []Tensor, name string) (Tensor, error) {
	i := slices.IndexFunc(list, func(t Tensor) bool { return t.Name == name })
	if i < 0 {
		var names []string
		for _, t := range list {
			names = append(names, t.Name)
		}
		return Tensor{}, fmt.Errorf("the graph has none of this name; it has %q", names)
	}
	if list[i].Datatype == "" {
		return Tensor{}, errors.New("it is not a tensor of numbers or strings")
	}
	return list[i], nil
}

func (p *plan) addState(g Graph, state State) error {
	in, err := find(g.Inputs, state.Input)
	if err != nil {
		return err
	}
	out, err := find(g.Outputs, state.Output)
	if err != nil {
		return fmt.Errorf("output %q: %w", state.Output, err)
	}
	if in.Datatype != "FP32" || out.Datatype != "FP32" {
		return fmt.Errorf("it is %s and comes from %s: only FP32 is kept for keys", in.Datatype, out.Datatype)
	}
	s := stateful{State: state, shape: in.Shape, outer: 1, inner: 1, at: p.state}
	if state.Shape != nil {
		if s.shape, err = agree(in.Shape, state.Shape); err != nil {
			return err
		}
	}
	rows := slices.Index(s.shape, -1)
	if rows < 0 { // it is for one row
		p.batch = 1
	}
	for i, length := range s.shape {
		switch {
		case i < rows:
			s.outer = bounded(s.outer, length)
		case i > rows:
			s.inner = bounded(s.inner, length)
		}
	}
	size := bounded(s.outer, int64(s.inner))
	if size < 1 || p.state+size > stateMax {
		return fmt.Errorf("of shape %d it has no fixed size of at most %d numbers for a row: give its shape with -1 for the rows of a call", s.shape, stateMax)
	}
	p.state += size
	p.states = append(p.states, s)
	return nil
}

// bounded multiplies n by length. It returns -1 if length is negative or the product is too large.
func bounded(n int, length int64) int {
	if n < 0 || length < 0 || length > scoresMax || int64(n)*length > 1<<31 {
		return -1
	}
	return n * int(length)
}

// agree returns the graph's shape with its open lengths taken from want.
func agree(graph []int64, want []int) ([]int64, error) {
	if len(graph) != len(want) {
		return nil, fmt.Errorf("the shape %d has %d lengths, in the graph %d", want, len(want), len(graph))
	}
	shape := make([]int64, len(want))
	for i, length := range want {
		if length < -1 || length == 0 || graph[i] >= 0 && graph[i] != int64(length) {
			return nil, fmt.Errorf("the shape %d is not that of the graph, %d", want, graph)
		}
		shape[i] = int64(length)
	}
	return shape, nil
}

func (p *plan) addInput(g Graph, in Input, used map[string]bool) error {
	if in.Kind == TokenIDs {
		return p.addTokens(g, in, used)
	}
	t, err := find(g.Inputs, in.Name)
	if err != nil {
		return err
	}
	if used[in.Name] {
		return errors.New("it is given twice")
	}
	used[in.Name] = true
	f := feed{Input: in, tensor: t, element: oip.Size(t.Datatype)}
	if in.Kind == Constant {
		return p.addConstant(f)
	}
	if err := p.shapeOf(&f, t.Shape); err != nil {
		return err
	}
	if f.Kind == "" {
		switch {
		case t.Datatype == "BYTES":
			f.Kind = Text
		case f.open || in.Carry > 0:
			f.Kind = Raw
		default:
			f.Kind = Numbers
		}
	}
	switch {
	case (f.Kind == Text) != (t.Datatype == "BYTES"):
		return fmt.Errorf("its elements are %s, which %s cannot be", t.Datatype, f.Kind)
	case f.Kind == Text && (f.open || f.size != 1):
		return fmt.Errorf("a row of it has the shape %d, a text is one element", f.shape)
	case f.Kind == Numbers && f.open:
		return fmt.Errorf("the graph leaves the shape of a row open, %d: give it, or take %s", f.shape, Raw)
	case f.Kind == Numbers && t.Datatype == "FP16":
		return fmt.Errorf("numbers cannot be FP16: take %s", Raw)
	case in.Carry > 0 && (t.Datatype != "FP32" || !f.open && in.Carry >= f.size):
		return fmt.Errorf("a row of %d elements of %s cannot carry %d", f.size, t.Datatype, in.Carry)
	}
	p.addFeed(f)
	return nil
}

// shapeOf sets the shape of a row.
func (p *plan) shapeOf(f *feed, graph []int64) error {
	if len(graph) == 0 {
		return fmt.Errorf("it is a scalar, which has no rows: make it a %s", Constant)
	}
	switch {
	case graph[0] == 1:
		p.batch = 1
	case graph[0] >= 0:
		return fmt.Errorf("the graph takes exactly %d rows: export it with an open first length", graph[0])
	}
	f.shape = graph[1:]
	if f.Shape != nil {
		var err error
		if f.shape, err = agree(f.shape, f.Shape); err != nil {
			return err
		}
	}
	f.size = 1
	for _, length := range f.shape {
		if length < 0 {
			if f.open {
				return fmt.Errorf("more than one length of a row is open, %d: give its shape", f.shape)
			}
			f.open = true
			continue
		}
		f.size = bounded(f.size, length)
	}
	if f.size < 1 || f.size > scoresMax {
		return fmt.Errorf("a row has the shape %d: 1 to %d elements are possible", f.shape, scoresMax)
	}
	return nil
}

func (p *plan) addFeed(f feed) {
	in := model.Input{Name: f.Name, Type: model.Bytes}
	switch f.Kind {
	case Numbers:
		in.Type, f.column = model.Number, p.width
		for _, length := range f.shape {
			in.Shape = append(in.Shape, int(length))
		}
		p.width += f.size
		p.fixedBytes += int64(f.size * f.element)
	case Text, TokenIDs:
		in.Type = model.String
		fallthrough
	default:
		f.column = p.bytesWidth
		p.bytesWidth++
	}
	if f.Carry > 0 {
		f.at = p.state
		p.state += f.Carry
		p.fixedBytes += int64(f.Carry * f.element)
	}
	p.info.Inputs = append(p.info.Inputs, in)
	p.feeds = append(p.feeds, f)
}

func (p *plan) addConstant(f feed) error {
	if f.tensor.Datatype == "BYTES" || f.tensor.Datatype == "FP16" {
		return fmt.Errorf("a constant cannot be %s", f.tensor.Datatype)
	}
	if f.Shape != nil {
		var err error
		if f.tensor.Shape, err = agree(f.tensor.Shape, f.Shape); err != nil {
			return err
		}
	}
	n := 1
	for i, length := range f.tensor.Shape {
		if length < 0 && len(f.tensor.Shape) == 1 { // the length of the constant
			f.tensor.Shape = []int64{int64(len(f.Constant))}
			length = f.tensor.Shape[i]
		}
		n = bounded(n, length)
	}
	if n != len(f.Constant) {
		return fmt.Errorf("it has %d elements for the shape %d", len(f.Constant), f.tensor.Shape)
	}
	for _, value := range f.Constant {
		if err := oip.CheckNumber(f.tensor.Datatype, value); err != nil {
			return err
		}
		f.tensor.Raw = oip.AppendNumber(f.tensor.Raw, f.tensor.Datatype, value)
	}
	p.fixedBytes += int64(len(f.tensor.Raw))
	p.feeds = append(p.feeds, f)
	return nil
}

func (p *plan) addTokens(g Graph, in Input, used map[string]bool) error {
	if p.tokens {
		return errors.New("a model splits one text into tokens, no second one")
	}
	f := feed{Input: in, tokensMax: cmp.Or(in.Tokens.Max, tokensNormal)}
	for i, each := range []struct {
		name, normal string
		to           *Tensor
	}{{in.Tokens.IDs, "input_ids", &f.tensor}, {in.Tokens.Mask, "attention_mask", &f.mask}, {in.Tokens.Types, "token_type_ids", &f.types}} {
		t, err := find(g.Inputs, cmp.Or(each.name, each.normal))
		if err != nil && i > 0 && each.name == "" {
			continue
		}
		if err != nil {
			return fmt.Errorf("tensor %q: %w", cmp.Or(each.name, each.normal), err)
		}
		if used[t.Name] {
			return fmt.Errorf("tensor %q is given twice", t.Name)
		}
		used[t.Name] = true
		if t.Datatype != "INT64" && t.Datatype != "INT32" || len(t.Shape) != 2 {
			return fmt.Errorf("tensor %q is of %s and shape %d, tokens are integers of rows and tokens", t.Name, t.Datatype, t.Shape)
		}
		if t.Shape[0] >= 0 {
			p.batch = 1
		}
		if fixed := t.Shape[1]; fixed >= 0 {
			if fixed < 3 || fixed > tokensMax || f.tokensConstant && int(fixed) != f.tokensMax {
				return fmt.Errorf("tensor %q takes exactly %d tokens", t.Name, fixed)
			}
			f.tokensMax, f.tokensConstant = int(fixed), true
		}
		*each.to = t
		p.fixedBytes += int64(f.tokensMax * oip.Size(t.Datatype))
	}
	p.addFeed(f)
	p.tokens = true
	return nil
}

func (p *plan) addOutputs(g Graph, o Options) error {
	list := o.Outputs
	if list == nil {
		for _, t := range g.Outputs {
			isState := slices.ContainsFunc(o.States, func(s State) bool { return s.Output == t.Name })
			if !isState && oip.Size(t.Datatype) > 0 {
				list = append(list, Output{Name: t.Name})
			}
		}
	}
	if len(list) == 0 {
		return errors.New("the model has no output of numbers")
	}
	seen := map[string]bool{}
	for _, out := range list {
		t, err := find(g.Outputs, out.Name)
		if err == nil && oip.Size(t.Datatype) < 1 {
			err = fmt.Errorf("its elements are %s, scores are numbers", t.Datatype)
		}
		if err == nil {
			out.Size, err = out.sizeOf(t.Shape)
		}
		if err != nil {
			return fmt.Errorf("output %q: %w", out.Name, err)
		}
		out.As = cmp.Or(out.As, out.Name)
		if seen[out.As] || out.As == StateName {
			return fmt.Errorf("output %q occurs twice", out.As)
		}
		seen[out.As] = true
		p.outputs = append(p.outputs, output{out, p.scores})
		p.info.Outputs = append(p.info.Outputs, model.Output{Name: out.As, Size: out.Size})
		p.scores += out.Size
		p.names = append(p.names, out.Name)
	}
	for _, s := range p.states {
		p.names = append(p.names, s.Output)
	}
	return nil
}

// sizeOf returns how many scores a row has, from the shape of the output in the graph.
func (out *Output) sizeOf(graph []int64) (int, error) {
	n, row := 1, []int64(nil)
	if len(graph) > 0 {
		row = graph[1:]
	}
	if out.Pool != "" {
		if len(graph) != 3 {
			return 0, fmt.Errorf("it has the shape %d: pool needs the dimensions rows, tokens and numbers", graph)
		}
		row = graph[2:]
	}
	for _, length := range row {
		n = bounded(n, length)
	}
	switch {
	case n < 1 && out.Size == 0:
		return 0, fmt.Errorf("the graph leaves open how many scores a row has, %d: give its size, or a pool", graph)
	case n > 0 && out.Size > 0 && n != out.Size:
		return 0, fmt.Errorf("a row has %d scores, not %d", n, out.Size)
	}
	return cmp.Or(out.Size, n), nil
}

func (p *plan) finish(tensorBytes int64) error {
	if p.state > 0 {
		p.info.Inputs = append(p.info.Inputs, model.Input{Name: StateName, Type: model.Bytes})
		p.info.Outputs = append(p.info.Outputs, model.Output{Name: StateName, Size: p.state})
		p.info.State = p.state
		p.bytesWidth++
		p.scores += p.state
		p.fixedBytes += int64(4 * p.state)
	}
	if p.scores > scoresMax {
		return fmt.Errorf("a row has %d scores, the limit is %d", p.scores, scoresMax)
	}
	p.rowBytes = tensorBytes / int64(p.batch)
	if p.fixedBytes > p.rowBytes {
		return fmt.Errorf("%d rows of %d bytes are beyond the limit of a call, %d bytes", p.batch, p.fixedBytes, tensorBytes)
	}
	return nil
}
