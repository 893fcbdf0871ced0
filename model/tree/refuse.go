package tree

import (
	"errors"
	"fmt"
	"math"
	"strings"
)

const (
	parametersPlace = "learner.learner_model_param"
	treesPlace      = "learner.gradient_booster.model"
)

// refuse returns why a model that was read cannot be scored, most general
// reason first, or nil. It also settles what the file says in several places:
// the output of each tree and its weight.
func (e *ensemble) refuse() error {
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
	return nil
}

func (e *ensemble) refuseOutputs() error {
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

func (e *ensemble) refuseBase() error {
	if len(e.base) == 0 {
		return fmt.Errorf("%s.base_score is missing", parametersPlace)
	}
	if len(e.base) > 1 && len(e.base) != e.outputs() {
		return fmt.Errorf("%s.base_score: %d values for %d outputs", parametersPlace, len(e.base), e.outputs())
	}
	for _, base := range e.base {
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

func (e *ensemble) refuseInputs() error {
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

func (e *ensemble) refuseTrees() error {
	if e.declared != int64(e.count) {
		return fmt.Errorf("%s.trees: %d trees where num_trees says %d", treesPlace, e.count, e.declared)
	}
	if len(e.groups) != e.count {
		return fmt.Errorf("%s.tree_info: %d values for %d trees", treesPlace, len(e.groups), e.count)
	}
	categorical := map[int32]bool{}
	for i := range e.parts {
		p := &e.parts[i]
		if p.width == 1 {
			p.output = e.groups[p.index]
			if p.output < 0 || int(p.output) >= e.outputs() {
				return fmt.Errorf("%s.tree_info[%d]: output %d of a model of %d", treesPlace, p.index, p.output, e.outputs())
			}
		} else if int(p.width) != e.outputs() {
			return fmt.Errorf("%s.trees[%d].tree_param.size_leaf_vector: %d scores for %d outputs", treesPlace, p.index, p.width, e.outputs())
		}
		for j, node := range p.nodes {
			if node.left != noChild && int64(node.input) >= e.inputs {
				return fmt.Errorf("%s.trees[%d].split_indices[%d]: input %d of a model of %d", treesPlace, p.index, j, node.input, e.inputs)
			}
			if node.left != noChild && node.categorical() {
				categorical[node.input] = true
			}
		}
	}
	if slots := 2*int(e.inputs) + 1 + len(categorical); slots > math.MaxUint16+1 {
		return fmt.Errorf("%s.num_feature: %d inputs, %d of them categorical, are not supported (twice the first and the second: at most %d)", parametersPlace, e.inputs, len(categorical), math.MaxUint16)
	}
	return nil
}

// weigh multiplies the leaves with the weights of their trees, as XGBoost does
// when it adds them up: in float32, so nothing is lost.
func (e *ensemble) weigh() error {
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
				node.value *= weight
				if value := float64(node.value); math.IsNaN(value) || math.IsInf(value, 0) {
					return fmt.Errorf("%s[%d]: weight %g makes a leaf of %g", place, p.index, weight, value)
				}
			}
		}
	}
	return nil
}
