package tree

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
)

const (
	parametersPlace = "learner.learner_model_param"
	treesPlace      = "learner.gradient_booster.model"
)

// refuse returns nil if the model can be scored, else the reason, the most general first. It also
// resolves values that the file has in several places: the output of each tree and its weight.
func (e *xgboost) refuse(trees string) error {
	if e.booster == "" && e.objective == "" {
		return errors.New("learner: neither a booster nor an objective is named: not a model of XGBoost")
	}
	switch e.booster {
	case "gbtree", "dart":
	case "gblinear":
		return errors.New(`learner.gradient_booster.name: booster "gblinear" is not supported: it has no trees (hint: write its weights as an expression, or train with booster gbtree)`)
	default:
		return fmt.Errorf("learner.gradient_booster.name: booster %q is not supported (gbtree and dart are)", clip([]byte(e.booster)))
	}
	if _, known := linkOf(e.objective); !known {
		var names []string
		for _, o := range objectives {
			names = append(names, o.name)
		}
		return fmt.Errorf("learner.objective.name: objective %q is not supported (hint: train with one of %s)", clip([]byte(e.objective)), strings.Join(names, ", "))
	}
	for _, check := range []func() error{e.refuseOutputs, e.refuseBase, e.refuseInputs, e.refuseTrees, e.weigh} {
		if err := check(); err != nil {
			return err
		}
	}
	e.settle()
	return e.chooseTrees(trees)
}

// settle translates the file into the terms shared by all formats.
func (e *xgboost) settle() {
	e.ensemble.objective = e.objective
	for _, margin := range e.baseMargins() {
		e.base = append(e.base, float64(margin))
	}
	e.finite, e.single, e.outputs = true, e.link(), e.margins()
	if e.link() == class {
		e.outputs = 1
	}
}

// chooseTrees removes the trees after the best iteration if the caller asks for that, or if
// scikit-learn's wrapper saved the model: its predict stops there. Booster.predict uses all trees.
func (e *xgboost) chooseTrees(asked string) error {
	best, err := strconv.Atoi(e.bestIteration)
	if err != nil || best < 0 || best >= e.count || len(e.parts) == 0 {
		if asked == "best" {
			return errors.New("trees: best: the file has no best_iteration, which training with early stopping writes (hint: write trees: all)")
		}
		return nil
	}
	last := e.parts[len(e.parts)-1]
	rounds := max(1, int(e.parallel)) * e.margins() / int(last.width)
	most := (best + 1) * max(1, rounds)
	switch {
	case most >= e.count:
	case asked == "all":
		e.note = fmt.Sprintf(", trees: all, as asked, not the first %d up to the best iteration", most)
	case asked == "" && !e.wrapped:
		e.note = fmt.Sprintf(", trees: all, although training found its best iteration at %d, with the first %d trees", best, most)
		e.ambiguous = fmt.Sprintf("all %d trees are used, as in Booster.predict, although the first %d are the best of the file: write trees: all or trees: best", e.count, most)
	default:
		e.note = fmt.Sprintf(", trees: best, the first %d of %d, %s", most, e.count, map[bool]string{true: "as XGBoost's scikit-learn wrapper predicts", false: "as asked"}[asked == ""])
		e.parts = slices.DeleteFunc(e.parts, func(p part) bool { return int(p.index) >= most })
		e.count = most
	}
	return nil
}

func (e *xgboost) refuseOutputs() error {
	l := e.link()
	switch {
	case e.classes > 1 && e.targets > 1:
		return fmt.Errorf("%s: %d classes of %d targets are not supported, nor by XGBoost", parametersPlace, e.classes, e.targets)
	case max(e.classes, e.targets) > outputsMax:
		return fmt.Errorf("%s: %d outputs are not supported (at most %d)", parametersPlace, max(e.classes, e.targets), outputsMax)
	case (l == softmax || l == class) && e.classes < 1:
		return fmt.Errorf("%s.num_class: %s without classes", parametersPlace, e.objective)
	}
	return nil
}

func (e *xgboost) refuseBase() error {
	if len(e.bases) == 0 {
		return fmt.Errorf("%s.base_score is missing", parametersPlace)
	}
	if len(e.bases) > 1 && len(e.bases) != e.margins() {
		return fmt.Errorf("%s.base_score: %d values for %d outputs", parametersPlace, len(e.bases), e.margins())
	}
	for _, base := range e.bases {
		switch e.link() {
		case logistic:
			if base < 0 || base > 1 {
				return fmt.Errorf("%s.base_score: %g is not a probability", parametersPlace, base)
			}
		case exponential:
			if base <= 0 {
				return fmt.Errorf("%s.base_score: %g has no logarithm, which %s adds to", parametersPlace, base, e.objective)
			}
		}
	}
	return nil
}

func (e *xgboost) refuseInputs() error {
	switch {
	case e.inputs < 0:
		return fmt.Errorf("%s.num_feature is missing", parametersPlace)
	case e.inputs == 0:
		return fmt.Errorf("%s.num_feature: a model without inputs", parametersPlace)
	case e.inputs > inputsMax:
		return fmt.Errorf("%s.num_feature: %d inputs are not supported (at most %d)", parametersPlace, e.inputs, inputsMax)
	case len(e.names) > 0 && int64(len(e.names)) != e.inputs:
		return fmt.Errorf("learner.feature_names: %d names for %d inputs", len(e.names), e.inputs)
	case len(e.labels) > 0 && int64(len(e.labels)) != e.inputs:
		return fmt.Errorf("%s.cats.enc: categories of %d inputs of %d", treesPlace, len(e.labels), e.inputs)
	}
	return nil
}

func (e *xgboost) refuseTrees() error {
	if e.declared != int64(e.count) {
		return fmt.Errorf("%s.trees: %d trees, but num_trees is %d", treesPlace, e.count, e.declared)
	}
	if len(e.groups) != e.count {
		return fmt.Errorf("%s.tree_info: %d values for %d trees", treesPlace, len(e.groups), e.count)
	}
	for i := range e.parts {
		p := &e.parts[i]
		if p.width == 1 {
			p.output = e.groups[p.index]
			if p.output < 0 || int(p.output) >= e.margins() {
				return fmt.Errorf("%s.tree_info[%d]: output %d of a model of %d", treesPlace, p.index, p.output, e.margins())
			}
		} else if int(p.width) != e.margins() {
			return fmt.Errorf("%s.trees[%d].tree_param.size_leaf_vector: %d scores for %d outputs", treesPlace, p.index, p.width, e.margins())
		}
		for j, node := range p.nodes {
			if node.left != noChild && int64(node.input) >= e.inputs {
				return fmt.Errorf("%s.trees[%d].split_indices[%d]: input %d of a model of %d", treesPlace, p.index, j, node.input, e.inputs)
			}
		}
	}
	if err := e.refuseSlots(); err != nil {
		return fmt.Errorf("%s.num_feature: %w", parametersPlace, err)
	}
	return nil
}

// weigh multiplies the leaves by the weights of their trees, in float32. XGBoost does the same when
// it sums them, so the result is equal.
func (e *xgboost) weigh() error {
	const place = "learner.gradient_booster.weight_drop"
	if len(e.weights) == 0 && e.booster == "gbtree" {
		return nil
	}
	if len(e.weights) != e.count {
		return fmt.Errorf("%s: %d weights for %d trees", place, len(e.weights), e.count)
	}
	for _, p := range e.parts {
		weight := e.weights[p.index]
		for i := range p.nodes {
			if node := &p.nodes[i]; node.left == noChild {
				node.value = float64(float32(node.value) * weight)
				if math.IsNaN(node.value) || math.IsInf(node.value, 0) {
					return fmt.Errorf("%s[%d]: weight %g makes a leaf of %g", place, p.index, weight, node.value)
				}
			}
		}
	}
	return nil
}

// refuseSlots refuses models with more inputs than the flat form can address.
func (e *ensemble) refuseSlots() error {
	categorical, zero := e.special()
	if slots := 2*(int(e.inputs)+len(zero)) + 1 + len(categorical); slots > math.MaxUint16+1 {
		return fmt.Errorf("%d inputs, %d of them categorical, are not supported (twice the first and the second: at most %d)", e.inputs, len(categorical)+2*len(zero), math.MaxUint16)
	}
	return nil
}
