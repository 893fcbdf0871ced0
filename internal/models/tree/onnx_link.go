package tree

import (
	"errors"
	"fmt"
	"math"
	"slices"
)

// onnxTransform is the transform that a node applies to its sums; the numbers are those of
// TreeEnsemble.
type onnxTransform int64

const (
	onnxNone onnxTransform = iota
	onnxSoftmax
	onnxLogistic
	onnxSoftmaxZero
	onnxProbit
)

var onnxTransforms = []string{"NONE", "SOFTMAX", "LOGISTIC", "SOFTMAX_ZERO", "PROBIT"}

// onnxLink is the link of a model of ONNX: what ONNX Runtime computes from the sums, in float32. It
// uses the exponential of the C library.
type onnxLink struct {
	transform onnxTransform
	second    onnxSecond
	steps     []onnxStep // operations of the nodes after the trees, if there is one sum and no transform
}

// onnxSecond says how one sum becomes two scores, for the classes 0 and 1.
type onnxSecond uint8

const (
	onnxAlone    onnxSecond = iota // one score only
	onnxRest                       // 1 minus the sum, and the sum: no score of a leaf is negative
	onnxOpposite                   // minus the sum, and the sum
)

// onnxLink32 and onnxLink64 are the link for sums of each type.
type (
	onnxLink32 struct{ onnxLink }
	onnxLink64 struct{ onnxLink }
)

func (l onnxLink32) apply(margins []float32, width int, scores []float32) {
	applyONNX(&l.onnxLink, margins, width, scores)
}

func (l onnxLink64) apply(margins []float64, width int, scores []float32) {
	applyONNX(&l.onnxLink, margins, width, scores)
}

func applyONNX[T number](l *onnxLink, margins []T, width int, scores []float32) {
	if len(l.steps) > 0 {
		for i, margin := range margins {
			value := float64(margin)
			for _, step := range l.steps {
				value = step.of(value)
			}
			scores[i] = float32(value)
		}
		return
	}
	switch l.second {
	case onnxRest: // no transform applies
		for i, margin := range margins {
			scores[2*i], scores[2*i+1] = float32(1-margin), float32(margin)
		}
	case onnxOpposite:
		for i, margin := range margins {
			scores[2*i], scores[2*i+1] = float32(-margin), float32(margin)
			if l.transform == onnxLogistic {
				scores[2*i], scores[2*i+1] = logisticONNX(float32(-margin)), logisticONNX(float32(margin))
			}
		}
	default:
		round(margins, scores)
		l.transform.apply(scores, width)
	}
}

// apply transforms the scores of rows in place.
func (t onnxTransform) apply(scores []float32, width int) {
	switch t {
	case onnxLogistic:
		for i, score := range scores {
			scores[i] = logisticONNX(score)
		}
	case onnxSoftmax, onnxSoftmaxZero:
		for row := range slices.Chunk(scores, width) {
			softmaxONNX(row, t == onnxSoftmaxZero)
		}
	}
}

func logisticONNX(x float32) float32 {
	v := 1 / (1 + exponent(-float32(math.Abs(float64(x)))))
	if x < 0 {
		return 1 - v
	}
	return v
}

// softmaxONNX turns a row into probabilities. If zero is set, scores that are zero stay zero.
func softmaxONNX(row []float32, zero bool) {
	largest, sum := row[first(row)], float32(0)
	for i, score := range row {
		if zero && score <= 1e-7 && score >= -1e-7 {
			row[i] = float32(score * exponent(-largest))
			continue
		}
		row[i] = exponent(score - largest)
		sum += row[i]
	}
	for i := range row {
		row[i] /= sum
	}
}

// transform returns the transform that a node applies to its sums.
func (n *onnxNode) transform() (onnxTransform, error) {
	transform := onnxTransform(n.integer("post_transform", 0))
	if n.op != "TreeEnsemble" {
		transform = onnxTransform(slices.Index(onnxTransforms, n.word("post_transform", "NONE")))
	}
	if n.op == "TreeEnsemble" && (transform == onnxSoftmax || transform == onnxLogistic) {
		return 0, fmt.Errorf("post_transform: %d: 1 is SOFTMAX and 2 LOGISTIC in the specification of TreeEnsemble, and the other way round in ONNX Runtime: neither is supported (hint: convert to ai.onnx.ml 3)", transform)
	}
	if transform < 0 || transform >= onnxProbit {
		return 0, fmt.Errorf("post_transform: %q, or number %d, is not supported (NONE, SOFTMAX, LOGISTIC and SOFTMAX_ZERO are)", clip([]byte(n.word("post_transform", ""))), transform)
	}
	return transform, nil
}

// targets interprets the sums of a TreeEnsembleRegressor or TreeEnsemble.
func (n *onnxNode) targets(t *onnxTrees) error {
	count := n.integer("n_targets", 0)
	if count < 1 || count > outputsMax {
		return fmt.Errorf("n_targets: %d outputs are not supported (1 to %d)", count, outputsMax)
	}
	t.targets = int(count)
	aggregate := n.word("aggregate_function", "SUM")
	if n.op == "TreeEnsemble" {
		aggregate = map[int64]string{0: "AVERAGE", 1: "SUM", 2: "MIN", 3: "MAX"}[n.integer("aggregate_function", 1)]
	}
	switch aggregate {
	case "SUM":
	case "AVERAGE":
		t.after.divisor = float64(len(t.trees))
	default:
		return fmt.Errorf("aggregate_function: %q is not supported (SUM and AVERAGE are)", clip([]byte(aggregate)))
	}
	base, double, err := n.numbers("base_values")
	if err != nil {
		return err
	}
	t.double = t.double || double
	if len(base) > 0 && len(base) != t.targets {
		return fmt.Errorf("base_values: %d values for %d outputs", len(base), t.targets)
	}
	t.after.bias = base
	if t.link.transform, err = n.transform(); err != nil {
		return err
	}
	if t.targets == 1 { // ONNX Runtime ignores other transforms of a single sum
		t.link.transform = onnxNone
	}
	for i, tree := range t.trees {
		if t.targets == 1 && len(tree.scores) != tree.leaves {
			return fmt.Errorf("tree %d: %d scores for %d leaves", i, len(tree.scores), tree.leaves)
		}
		for _, s := range tree.scores {
			if int(s.target) >= t.targets {
				return fmt.Errorf("tree %d: output %d of a model of %d", i, s.target, t.targets)
			}
		}
	}
	return nil
}

// classes interprets the sums of a TreeEnsembleClassifier. If there are two classes and leaves
// score only one, there is one sum, which becomes two scores.
func (n *onnxNode) classes(t *onnxTrees) error {
	labels := len(n.ints("classlabels_int64s"))
	if a := n.attributes["classlabels_strings"]; a != nil && len(a.texts) > 0 {
		labels = len(a.texts)
	}
	if labels < 2 || labels > outputsMax {
		return fmt.Errorf("classlabels_int64s and classlabels_strings: %d classes are not supported (2 to %d)", labels, outputsMax)
	}
	base, double, err := n.numbers("base_values")
	if err != nil {
		return err
	}
	t.double = t.double || double
	if t.link.transform, err = n.transform(); err != nil {
		return err
	}
	t.targets, t.after.bias = labels, base
	var seen [2]bool
	negative := false
	for i, tree := range t.trees {
		ones := 0
		for _, s := range tree.scores {
			if int(s.target) >= labels {
				return fmt.Errorf("tree %d: class %d of %d", i, s.target, labels)
			}
			if labels == 2 {
				seen[s.target] = true
				ones += int(s.target)
			}
			negative = negative || s.score < 0
		}
		if labels == 2 && ones > 0 && ones != tree.leaves {
			return fmt.Errorf("tree %d: a leaf without a score for class 1 is not supported: runtimes disagree about it", i)
		}
	}
	switch {
	case labels > 2:
		if len(base) > 0 && len(base) != labels {
			return fmt.Errorf("base_values: %d values for %d classes", len(base), labels)
		}
	case seen[1] && len(base) > 0 || len(base) > 1:
		return errors.New("base_values: of two classes that have a score each, or two values, are not supported: runtimes disagree about them")
	case !seen[1]:
		t.targets, t.link.second = 1, onnxOpposite
		if !negative {
			t.link.second = onnxRest
		}
	}
	return nil
}

// parts returns a part of each tree for each target that its leaves have.
func (t *onnxTrees) parts() ([]part, error) {
	var parts []part
	known, copied := 0, 0 // a copy for a target that few leaves have would be too large compared with the file
	for index, tree := range t.trees {
		for from := 0; from < len(tree.scores); {
			target := tree.scores[from].target
			values := make([]float64, tree.leaves)
			end := from
			for ; end < len(tree.scores) && tree.scores[end].target == target; end++ {
				values[tree.scores[end].leaf] = tree.scores[end].score
			}
			known += end - from
			if copied += len(tree.nodes); copied > 4*known+1<<22 || len(parts) == treesMax {
				return nil, fmt.Errorf("tree %d: more than %d trees of one output, or of %d nodes for %d scores, are not supported", index, treesMax, copied, known)
			}
			nodes := slices.Clone(tree.nodes)
			for i := range nodes {
				if n := &nodes[i]; n.left == noChild {
					n.value = values[int(n.value)]
				}
			}
			parts = append(parts, part{nodes, target, int32(index), int32(t.targets)})
			from = end
		}
	}
	return parts, nil
}
