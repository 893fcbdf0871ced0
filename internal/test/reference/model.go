package reference

import (
	"encoding/json"
	"fmt"
	"math"
	"strconv"
	"strings"
)

// xgboost is the part of an XGBoost model in JSON that scores need.
type xgboost struct {
	Learner struct {
		Param struct {
			BaseScore string `json:"base_score"`
		} `json:"learner_model_param"`
		Booster struct {
			Model struct {
				Trees []tree `json:"trees"`
			} `json:"model"`
		} `json:"gradient_booster"`
	} `json:"learner"`

	base float32
}

// tree holds its nodes by number, the root being 0. A node whose left child is
// -1 is a leaf, and its condition the leaf's value.
type tree struct {
	Left        []int     `json:"left_children"`
	Right       []int     `json:"right_children"`
	Column      []int     `json:"split_indices"`
	Condition   []float32 `json:"split_conditions"`
	DefaultLeft []int     `json:"default_left"`
}

func parseModel(data []byte) (*xgboost, error) {
	m := &xgboost{}
	if err := json.Unmarshal(data, m); err != nil {
		return nil, err
	}
	base, err := strconv.ParseFloat(strings.Trim(m.Learner.Param.BaseScore, "[]"), 32)
	if err != nil {
		return nil, fmt.Errorf("base_score: %w", err)
	}
	odds := 1/float32(base) - 1 // in float32, as XGBoost does
	m.base = float32(-math.Log(float64(odds)))
	return m, nil
}

// margin adds up the leaves of a row, in the order of the trees. A missing
// value is NaN.
func (m *xgboost) margin(row []float32) float32 {
	sum := m.base
	for _, t := range m.Learner.Booster.Model.Trees {
		node := 0
		for t.Left[node] >= 0 {
			x := row[t.Column[node]]
			if x < t.Condition[node] || x != x && t.DefaultLeft[node] != 0 {
				node = t.Left[node]
			} else {
				node = t.Right[node]
			}
		}
		sum += t.Condition[node]
	}
	return sum
}

// Probability is the logistic function as XGBoost computes it.
func Probability(margin float32) float32 {
	return 1 / (1 + exponent(min(-margin, 88.7)))
}
