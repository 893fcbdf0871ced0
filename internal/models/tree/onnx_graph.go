package tree

import (
	"errors"
	"fmt"
	"math"
	"slices"
)

// A symbol is the meaning of a name in the graph: columns of the rows, a constant, numbers that
// depend only on the leaf of one tree, or scores. Operations on the first three are evaluated once,
// at load. Operations on scores that are sums are kept as steps. This covers the graphs that
// skl2onnx writes for an IsolationForest, and similar ones; see onnxOps for the nodes.
type symbol struct {
	columns []int32
	tensor  *onnxTensor
	leaves  *leafValues
	scores  *onnxScores
	kind    onnxType // type of its elements
	rounded bool     // columns that were float32
}

// leafValues holds a number for each leaf of a tree.
type leafValues struct {
	tree   *onnxTree
	values []float64
}

// onnxScores is an ensemble, or a sum over single trees, and the steps after it.
type onnxScores struct {
	trees *onnxTrees
	terms []*leafValues
	kind  onnxType // type of the input of the steps
	steps []onnxStep
}

// onnxStep is an operation on a sum and a constant.
type onnxStep struct {
	op       func(a, b float64) float64
	constant float64
	first    bool // the constant is operand a
	kind     onnxType
}

func (s onnxStep) of(value float64) float64 {
	if s.first {
		return s.kind.round(s.op(s.constant, value))
	}
	return s.kind.round(s.op(value, s.constant))
}

// round rounds a value to the nearest value of the type.
func (k onnxType) round(value float64) float64 {
	switch k {
	case onnxFloat:
		return float64(float32(value))
	case onnxInt64, onnxInt32:
		return math.Trunc(value)
	case onnxBool:
		if value != 0 {
			return 1
		}
	}
	return value
}

// onnxOps are the operations on numbers. Those of one operand ignore the second.
var onnxOps = []struct {
	name  string
	unary bool
	kind  onnxType // type of the result, if it differs from that of the operands
	of    func(a, b float64) float64
}{
	{"Abs", true, 0, func(a, _ float64) float64 { return math.Abs(a) }},
	{"Exp", true, 0, func(a, _ float64) float64 { return math.Exp(a) }},
	{"Log", true, 0, func(a, _ float64) float64 { return math.Log(a) }},
	{"Neg", true, 0, func(a, _ float64) float64 { return -a }},
	{"Sqrt", true, 0, func(a, _ float64) float64 { return math.Sqrt(a) }},
	{"Add", false, 0, func(a, b float64) float64 { return a + b }},
	{"Div", false, 0, func(a, b float64) float64 { return a / b }},
	{"Max", false, 0, func(a, b float64) float64 { return max(a, b) }},
	{"Min", false, 0, func(a, b float64) float64 { return min(a, b) }},
	{"Mul", false, 0, func(a, b float64) float64 { return a * b }},
	{"Pow", false, 0, math.Pow},
	{"Sub", false, 0, func(a, b float64) float64 { return a - b }},
	{"Equal", false, onnxBool, func(a, b float64) float64 { return truth(a == b) }},
	{"Greater", false, onnxBool, func(a, b float64) float64 { return truth(a > b) }},
	{"Less", false, onnxBool, func(a, b float64) float64 { return truth(a < b) }},
}

// symbolsMax bounds the total size of all symbols of a graph: a node of a few bytes can copy a
// number for each leaf of a tree. An IsolationForest of 1,000 trees uses a third of it.
const symbolsMax = 1 << 25

// size returns the number of elements that a symbol holds in addition to the file's.
func (s symbol) size() int {
	size := len(s.columns)
	if s.leaves != nil {
		size += len(s.leaves.values)
	}
	if s.scores != nil {
		size += len(s.scores.terms) + len(s.scores.steps)
	}
	return size
}

func truth(is bool) float64 {
	if is {
		return 1
	}
	return 0
}

// readONNX reads a model of trees in ONNX.
func readONNX(data []byte) (*ensemble, error) {
	g, err := readGraph(data)
	if err != nil {
		return nil, err
	}
	output, err := g.scoreOutput()
	if err != nil {
		return nil, err
	}
	symbols, inputs, names, err := g.start()
	if err != nil {
		return nil, err
	}
	needed := map[string]bool{output: true}
	for _, node := range slices.Backward(g.nodes) {
		if slices.ContainsFunc(node.outputs, func(name string) bool { return needed[name] }) {
			for _, name := range node.inputs {
				needed[name] = true
			}
		}
	}
	held := 0
	for i := range g.nodes {
		node := &g.nodes[i]
		for at, name := range node.outputs {
			if !needed[name] || name == "" {
				continue
			}
			s, err := node.evaluate(symbols, at)
			if held += s.size(); err == nil && held > symbolsMax {
				err = fmt.Errorf("the nodes down to here make more than %d numbers of the trees (hint: load the file with a model of kind onnx)", symbolsMax)
			}
			if err != nil {
				return nil, fmt.Errorf("graph.node[%d] %q, %s: %w", i, clip([]byte(node.name)), clip([]byte(node.op)), err)
			}
			symbols[name] = s
		}
	}
	e := &ensemble{kind: "onnx-trees", inputs: int64(inputs), names: names}
	if err := e.settleONNX(symbols[output]); err != nil {
		return nil, fmt.Errorf("graph.output %q: %w", clip([]byte(output)), err)
	}
	return e, nil
}

// scoreOutput returns the output with the scores: the one that has no integers or texts. Labels
// have these types.
func (g *onnxGraph) scoreOutput() (string, error) {
	var found []string
	for _, output := range g.outputs {
		switch output.kind {
		case onnxFloat, onnxDouble, 0:
			found = append(found, output.name)
		}
	}
	if len(found) != 1 {
		return "", fmt.Errorf("graph.output: %d outputs of scores, %q, where one is supported (hint: convert again with that one)", len(found), found[:min(len(found), 4)])
	}
	return found[0], nil
}

// start returns the symbols of inputs and constants. A row has the columns of all inputs, in their
// order. If each input is one column, their names are the names of the columns.
func (g *onnxGraph) start() (symbols map[string]symbol, width int, names []string, err error) {
	symbols = map[string]symbol{}
	for name, tensor := range g.constants {
		symbols[name] = symbol{tensor: tensor, kind: tensor.kind}
	}
	for _, input := range g.inputs {
		if g.constants[input.name] != nil { // as before ONNX 1.4
			continue
		}
		if len(input.dims) != 2 || input.dims[1] < 1 || input.dims[1] > inputsMax-int64(width) {
			return nil, 0, nil, fmt.Errorf("graph.input %q: dimensions %v are not supported (rows of a known number of columns, at most %d; hint: convert again with FloatTensorType([None, columns]))", clip([]byte(input.name)), input.dims, inputsMax)
		}
		switch input.kind {
		case onnxFloat, onnxDouble, onnxInt64, onnxInt32, onnxBool:
		default:
			return nil, 0, nil, fmt.Errorf("graph.input %q: type %d is not supported (numbers are)", clip([]byte(input.name)), input.kind)
		}
		columns := make([]int32, input.dims[1])
		for i := range columns {
			columns[i] = int32(width + i)
		}
		width += len(columns)
		names = append(names, input.name)
		symbols[input.name] = symbol{columns: columns, kind: input.kind, rounded: input.kind == onnxFloat}
	}
	if width == 0 {
		return nil, 0, nil, errors.New("graph.input: a model without inputs")
	}
	if len(names) != width || width == 1 {
		names = nil
	}
	return symbols, width, names, nil
}

// evaluate returns the symbol of an output of a node.
func (n *onnxNode) evaluate(symbols map[string]symbol, at int) (symbol, error) {
	operands := make([]symbol, len(n.inputs))
	for i, name := range n.inputs {
		s, known := symbols[name]
		if !known {
			return s, fmt.Errorf("input %q is not an output of a node above", clip([]byte(name)))
		}
		operands[i] = s
	}
	if len(operands) == 0 {
		if a := n.attributes["value"]; n.op == "Constant" && a != nil && a.tensor != nil {
			return symbol{tensor: a.tensor, kind: a.tensor.kind}, nil
		}
		return symbol{}, errors.New("the node has no input")
	}
	switch n.op {
	case "Identity", "ZipMap":
		return operands[0], nil
	case "Cast":
		return operands[0].cast(onnxType(n.integer("to", 0)))
	case "Reshape":
		return n.reshape(operands)
	case "Concat", "Gather", "ArrayFeatureExtractor":
		return n.choose(operands)
	case "LabelEncoder":
		return n.encode(operands[0])
	case "TreeEnsembleClassifier", "TreeEnsembleRegressor", "TreeEnsemble":
		return n.ensemble(operands[0], at)
	case "Sum":
		return n.sum(operands)
	}
	for _, o := range onnxOps {
		if o.name == n.op && (o.unary && len(operands) == 1 || !o.unary && len(operands) == 2) {
			kind := o.kind
			if o.unary {
				operands = append(operands, symbol{tensor: &onnxTensor{values: []float64{0}}})
			}
			return n.calculate(operands[0], operands[1], kind, o.of)
		}
	}
	return symbol{}, errors.New("the node is not supported in a model of trees (hint: compute its result in the pipeline, or load the file with a model of kind onnx)")
}

var errOperand = errors.New("an operand that is neither a number that depends on one tree, nor a sum of those, nor one constant, is not supported (hint: load the file with a model of kind onnx)")

// ensemble returns the scores of an ensemble. If a single tree has one number for each leaf, the
// result is these numbers.
func (n *onnxNode) ensemble(rows symbol, at int) (symbol, error) {
	if rows.columns == nil {
		return symbol{}, errors.New("its input is not columns of the rows (hint: compute what the nodes above do in the pipeline)")
	}
	if n.op == "TreeEnsembleClassifier" && at == 0 {
		return symbol{}, errors.New("its labels are not scores")
	}
	t, err := n.trees(rows.columns)
	if err != nil {
		return symbol{}, err
	}
	kind := onnxFloat
	if n.op == "TreeEnsemble" && rows.kind == onnxDouble {
		kind = onnxDouble
	}
	if rows.kind == onnxDouble && !t.double {
		return symbol{}, errors.New("float32 thresholds for float64 inputs are not supported (hint: convert again with FloatTensorType)")
	}
	for i := range t.trees {
		t.trees[i].wide = rows.kind == onnxDouble && !rows.rounded
	}
	if len(t.trees) > 1 || t.targets != 1 || len(t.after.bias) > 0 || t.double || n.op == "TreeEnsembleClassifier" {
		return symbol{scores: &onnxScores{trees: t, kind: kind}, kind: kind}, nil
	}
	values := make([]float64, t.trees[0].leaves)
	for _, s := range t.trees[0].scores {
		values[s.leaf] = s.score
	}
	return symbol{leaves: &leafValues{&t.trees[0], values}, kind: kind}, nil
}

func (s symbol) cast(to onnxType) (symbol, error) {
	switch to {
	case onnxFloat, onnxDouble, onnxInt64, onnxInt32, onnxBool:
	default:
		return s, fmt.Errorf("to: type %d is not supported", to)
	}
	whole := to != onnxFloat && to != onnxDouble
	switch {
	case s.kind == to && s.tensor == nil:
		return s, nil
	case s.columns != nil && !whole:
	case s.scores != nil && !whole:
		return s.after(func(a, _ float64) float64 { return a }, 0, false, to), nil
	case s.leaves != nil:
		l := &leafValues{s.leaves.tree, slices.Clone(s.leaves.values)}
		for i, value := range l.values {
			l.values[i] = to.round(value)
		}
		s.leaves = l
	default:
		return s, fmt.Errorf("to type %d: %w", to, errOperand)
	}
	s.kind, s.rounded = to, s.rounded || to == onnxFloat
	return s, nil
}

// after returns the scores with one more step.
func (s symbol) after(op func(a, b float64) float64, constant float64, first bool, kind onnxType) symbol {
	scores := *s.scores
	scores.steps = append(slices.Clip(scores.steps), onnxStep{op, constant, first, kind})
	return symbol{scores: &scores, kind: kind}
}

// reshape returns symbols with one number per row unchanged.
func (n *onnxNode) reshape(operands []symbol) (symbol, error) {
	if len(operands) == 2 && operands[1].tensor != nil && operands[0].leaves != nil {
		if shape := operands[1].tensor.values; slices.Equal(shape, []float64{-1, 1}) || slices.Equal(shape, []float64{-1}) {
			return operands[0], nil
		}
	}
	return symbol{}, errors.New("only numbers that depend on one tree, to [-1, 1], are supported")
}

// choose concatenates columns, or selects some.
func (n *onnxNode) choose(operands []symbol) (symbol, error) {
	axis := n.integer("axis", 0)
	s := symbol{columns: []int32{}, kind: operands[0].kind, rounded: operands[0].rounded}
	if n.op == "Concat" {
		for _, o := range operands {
			if o.columns == nil || axis != 1 && axis != -1 || o.kind != s.kind || o.rounded != s.rounded || len(s.columns)+len(o.columns) > inputsMax {
				return symbol{}, fmt.Errorf("only columns of one type, on axis 1, at most %d, are supported", inputsMax)
			}
			s.columns = append(s.columns, o.columns...)
		}
		return s, nil
	}
	if n.op == "ArrayFeatureExtractor" {
		axis = 1
	}
	if len(operands) != 2 || operands[0].columns == nil || operands[1].tensor == nil || axis != 1 && axis != -1 || len(operands[1].tensor.values) > inputsMax {
		return symbol{}, errors.New("only columns of the rows, by constant places, on axis 1, are supported")
	}
	from := operands[0].columns
	for _, place := range operands[1].tensor.values {
		if place < 0 {
			place += float64(len(from))
		}
		if !(place >= 0 && place < float64(len(from))) {
			return symbol{}, fmt.Errorf("column %g of %d", place, len(from))
		}
		s.columns = append(s.columns, from[int(place)])
	}
	return s, nil
}

// encode looks up the numbers of leaves.
func (n *onnxNode) encode(s symbol) (symbol, error) {
	if s.leaves == nil {
		return s, errOperand
	}
	list := func(ints, floats string) ([]float64, onnxType) {
		var values []float64
		for _, value := range n.ints(ints) {
			values = append(values, float64(value))
		}
		if len(values) > 0 {
			return values, onnxInt64
		}
		if a := n.attributes[floats]; a != nil {
			for _, value := range a.floats {
				values = append(values, float64(value))
			}
		}
		return values, onnxFloat
	}
	keys, _ := list("keys_int64s", "keys_floats")
	values, kind := list("values_int64s", "values_floats")
	if len(keys) == 0 || len(keys) != len(values) {
		return s, fmt.Errorf("%d keys and %d values that are numbers", len(keys), len(values))
	}
	table := make(map[float64]float64, len(keys))
	for i, key := range keys {
		if _, known := table[key]; !known {
			table[key] = values[i]
		}
	}
	l := &leafValues{s.leaves.tree, make([]float64, len(s.leaves.values))}
	for i, value := range s.leaves.values {
		to, known := table[value]
		if !known {
			return s, fmt.Errorf("no key %g for leaf %d", value, i)
		}
		l.values[i] = to
	}
	return symbol{leaves: l, kind: kind}, nil
}

// calculate applies an operation. kind is the type of the result, or 0 for the type of the
// operands.
func (n *onnxNode) calculate(a, b symbol, kind onnxType, op func(a, b float64) float64) (symbol, error) {
	constant := func(s symbol) (float64, bool) {
		if s.tensor == nil || len(s.tensor.values) != 1 {
			return 0, false
		}
		return s.tensor.values[0], true
	}
	if kind == 0 {
		if kind = a.kind; a.tensor != nil {
			kind = b.kind
		}
		if kind != onnxFloat && kind != onnxDouble {
			return symbol{}, fmt.Errorf("numbers of type %d are not supported", kind)
		}
	}
	first, aConstant := constant(a)
	second, bConstant := constant(b)
	switch {
	case a.scores != nil && bConstant && kind != onnxBool:
		return a.after(op, second, false, kind), nil
	case b.scores != nil && aConstant && kind != onnxBool:
		return b.after(op, first, true, kind), nil
	case a.leaves != nil && (bConstant || b.leaves != nil && b.leaves.tree == a.leaves.tree):
		l := &leafValues{a.leaves.tree, make([]float64, len(a.leaves.values))}
		for i, value := range a.leaves.values {
			if b.leaves != nil {
				second = b.leaves.values[i]
			}
			l.values[i] = kind.round(op(value, second))
		}
		return symbol{leaves: l, kind: kind}, nil
	case b.leaves != nil && aConstant:
		return n.calculate(b, a, kind, func(x, y float64) float64 { return op(y, x) })
	case n.op == "Add":
		return n.sum([]symbol{a, b})
	}
	return symbol{}, errOperand
}

// sum adds up numbers of trees, in their order.
func (n *onnxNode) sum(operands []symbol) (symbol, error) {
	var terms []*leafValues
	for _, o := range operands {
		switch {
		case o.kind != operands[0].kind || o.kind != onnxFloat && o.kind != onnxDouble:
			return symbol{}, errOperand
		case o.leaves != nil:
			terms = append(terms, o.leaves)
		case len(terms) == 0 && o.scores != nil && o.scores.trees == nil && len(o.scores.steps) == 0:
			terms = slices.Clone(o.scores.terms)
		default:
			return symbol{}, errOperand
		}
		if len(terms) > treesMax {
			return symbol{}, fmt.Errorf("more than %d trees", treesMax)
		}
	}
	return symbol{scores: &onnxScores{terms: terms, kind: operands[0].kind}, kind: operands[0].kind}, nil
}

// settleONNX translates the scores into the terms shared by all formats.
func (e *ensemble) settleONNX(s symbol) error {
	if s.leaves != nil {
		s.scores = &onnxScores{terms: []*leafValues{s.leaves}, kind: s.kind}
	}
	if s.scores == nil {
		return errors.New("it has no scores of trees (hint: load the file with a model of kind onnx)")
	}
	t := s.scores.trees
	if t == nil {
		t = &onnxTrees{targets: 1, double: s.scores.kind == onnxDouble}
		known := map[*onnxTree]bool{}
		for _, term := range s.scores.terms {
			if known[term.tree] {
				return errors.New("a sum with the same tree twice is not supported")
			}
			known[term.tree] = true
			tree := onnxTree{nodes: term.tree.nodes, leaves: term.tree.leaves, wide: term.tree.wide}
			for leaf, value := range term.values {
				if err := tree.addScore(leaf, 0, value); err != nil {
					return err
				}
			}
			t.trees = append(t.trees, tree)
		}
	}
	e.wideInputs = t.trees[0].wide
	if slices.ContainsFunc(t.trees, func(tree onnxTree) bool { return tree.wide != e.wideInputs }) {
		return errors.New("trees of float32 beside trees of float64 inputs are not supported (hint: convert again with inputs of one type)")
	}
	link := t.link
	if link.steps = s.scores.steps; len(link.steps) > 0 {
		if t.targets > 1 || link.second != onnxAlone {
			return errors.New("operations on several scores a row are not supported (hint: load the file with a model of kind onnx)")
		}
		if t.double && s.scores.kind == onnxFloat { // the tree node rounds
			link.steps = slices.Insert(link.steps, 0, onnxStep{func(a, _ float64) float64 { return a }, 0, false, onnxFloat})
		}
	}
	var err error
	if e.parts, err = t.parts(); err != nil {
		return err
	}
	e.count, e.double, e.after, e.base = len(t.trees), t.double, t.after, make([]float64, t.targets)
	e.single, e.wide = onnxLink32{link}, onnxLink64{link}
	if e.outputs = t.targets; link.second != onnxAlone {
		e.outputs = 2
	}
	e.objective = "post_transform " + onnxTransforms[link.transform]
	if len(link.steps) > 0 {
		e.objective = fmt.Sprintf("%d operations on the sum", len(link.steps))
	}
	return e.refuseSlots()
}
