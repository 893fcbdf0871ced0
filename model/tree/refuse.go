package tree

import (
	"errors"
	"fmt"
)

// logistic reports whether scores of an objective are probabilities, which
// also makes base_score one, and whether the objective is supported at all. Of
// the others the score is the margin itself.
func logistic(objective string) (probability, supported bool) {
	switch objective {
	case "binary:logistic", "reg:logistic":
		return true, true
	case "binary:logitraw", "reg:squarederror", "reg:squaredlogerror", "reg:absoluteerror",
		"reg:pseudohubererror", "reg:quantileerror":
		return false, true
	}
	return false, false
}

// refuse returns why a model that was read cannot be scored, most general
// reason first, or nil.
func (e *ensemble) refuse() error {
	if e.booster == "" && e.objective == "" {
		return errors.New("learner: neither a booster nor an objective is named: not a model of XGBoost")
	}
	if e.booster != "gbtree" {
		return fmt.Errorf("learner.gradient_booster.name: booster %q is not supported yet (gbtree is)", clip([]byte(e.booster)))
	}
	probability, supported := logistic(e.objective)
	if !supported {
		return fmt.Errorf("learner.objective.name: objective %q is not supported yet", clip([]byte(e.objective)))
	}
	const parameters = "learner.learner_model_param"
	switch {
	case e.classes > 1:
		return fmt.Errorf("%s.num_class: models of %d classes are not supported yet", parameters, e.classes)
	case e.targets > 1:
		return fmt.Errorf("%s.num_target: models of %d targets are not supported yet", parameters, e.targets)
	case len(e.base) > 1:
		return fmt.Errorf("%s.base_score: models of %d scores a row are not supported yet", parameters, len(e.base))
	case len(e.base) == 0:
		return fmt.Errorf("%s.base_score is missing", parameters)
	case probability && (e.base[0] < 0 || e.base[0] > 1):
		return fmt.Errorf("%s.base_score: %g is not a probability", parameters, e.base[0])
	case e.inputs < 0:
		return fmt.Errorf("%s.num_feature is missing", parameters)
	case e.inputs == 0:
		return fmt.Errorf("%s.num_feature: a model without inputs", parameters)
	case e.inputs > inputsMax:
		return fmt.Errorf("%s.num_feature: %d inputs are not supported yet (at most %d)", parameters, e.inputs, inputsMax)
	case len(e.names) > 0 && int64(len(e.names)) != e.inputs:
		return fmt.Errorf("learner.feature_names: %d names for %d inputs", len(e.names), e.inputs)
	}
	return e.refuseTrees()
}

func (e *ensemble) refuseTrees() error {
	const place = "learner.gradient_booster.model"
	if e.declared != int64(len(e.trees)) {
		return fmt.Errorf("%s.trees: %d trees where num_trees says %d", place, len(e.trees), e.declared)
	}
	if len(e.groups) != len(e.trees) {
		return fmt.Errorf("%s.tree_info: %d values for %d trees", place, len(e.groups), len(e.trees))
	}
	for i, nodes := range e.trees {
		if e.groups[i] != 0 {
			return fmt.Errorf("%s.tree_info[%d]: trees of class %d are not supported yet", place, i, e.groups[i])
		}
		for j, node := range nodes {
			if node.left != noChild && int64(node.input) >= e.inputs {
				return fmt.Errorf("%s.trees[%d].split_indices[%d]: input %d of a model of %d", place, i, j, node.input, e.inputs)
			}
		}
	}
	return nil
}
