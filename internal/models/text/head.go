package text

import (
	"errors"
	"fmt"
	"math"
	"slices"
)

// links turn the decisions of a linear model into its scores, in place.
var links = map[string]func([]float64){
	"identity": func([]float64) {},
	"sigmoid":  sigmoids,
	"softmax":  softmax,
	"ovr": func(values []float64) {
		sigmoids(values)
		share(values)
	},
	"huber": func(values []float64) {
		for i, v := range values {
			values[i] = (min(max(v, -1), 1) + 1) / 2
		}
		if len(values) > 1 {
			share(values)
		}
	},
}

func sigmoid(v float64) float64 { return 1 / (1 + math.Exp(-v)) }

func sigmoids(values []float64) {
	for i, v := range values {
		values[i] = sigmoid(v)
	}
}

func softmax(values []float64) {
	highest, sum := slices.Max(values), 0.0
	for i, v := range values {
		values[i] = math.Exp(v - highest)
		sum += values[i]
	}
	for i := range values {
		values[i] /= sum
	}
}

// share scales values to a sum of one. If all are zero, it makes them equal.
func share(values []float64) {
	sum := 0.0
	for _, v := range values {
		sum += v
	}
	for i := range values {
		if sum == 0 {
			values[i] = 1 / float64(len(values))
		} else {
			values[i] /= sum
		}
	}
}

// head holds the linear models of a file.
type head struct {
	members   []member
	outputs   int
	stride    int       // of weights
	weights   []float64 // by column: the factor of its value, then the weight of each decision of each member
	decisions int       // of all members
}

// newHead checks the members of a file and stores their coefficients by column, so that a column
// costs a cache line.
func newHead(f *file, columns int) (*head, error) {
	h := &head{members: f.Members, outputs: len(f.Outputs)}
	if len(f.Members) == 0 || h.outputs == 0 {
		return nil, errors.New("members or outputs are missing")
	}
	for i := range f.Members {
		if err := f.Members[i].check(columns, h.outputs); err != nil {
			return nil, fmt.Errorf("member %d: %w", i, err)
		}
		h.decisions += len(f.Members[i].Coef)
	}
	h.stride = 1 + h.decisions
	h.weights = make([]float64, columns*h.stride)
	place := 1
	for i := range h.members {
		for _, coef := range h.members[i].Coef {
			for c, w := range coef {
				h.weights[c*h.stride+place] = w
			}
			place++
		}
	}
	for c := range columns {
		h.weights[c*h.stride] = 1
	}
	return h, nil
}

func (m *member) check(columns, outputs int) error {
	decisions := len(m.Coef)
	if decisions == 0 || len(m.Intercept) != decisions {
		return fmt.Errorf("%d intercepts of %d decisions", len(m.Intercept), decisions)
	}
	for i, coef := range m.Coef {
		if len(coef) != columns {
			return fmt.Errorf("%d coefficients of decision %d for %d columns", len(coef), i, columns)
		}
	}
	if links[m.Link] == nil {
		return fmt.Errorf("link %q is not one of identity, sigmoid, ovr, softmax, huber", clip(m.Link))
	}
	if decisions != outputs && (outputs != 1 || decisions != 2 || m.Link != "softmax") {
		return fmt.Errorf("%d decisions for %d outputs", decisions, outputs)
	}
	if m.Calibration != nil {
		return m.Calibration.check(outputs)
	}
	return nil
}

func (c *calibration) check(outputs int) error {
	switch c.Method {
	case "temperature":
		return nil
	case "sigmoid":
		if len(c.A) != outputs || len(c.B) != outputs {
			return fmt.Errorf("calibration: %d a and %d b of %d outputs", len(c.A), len(c.B), outputs)
		}
		return nil
	case "isotonic":
		if len(c.X) != outputs || len(c.Y) != outputs {
			return fmt.Errorf("calibration: %d x and %d y of %d outputs", len(c.X), len(c.Y), outputs)
		}
		for i, x := range c.X {
			if len(x) == 0 || len(x) != len(c.Y[i]) {
				return fmt.Errorf("calibration: %d x and %d y of output %d", len(x), len(c.Y[i]), i)
			}
			for j := range x[1:] {
				if x[j] >= x[j+1] {
					return fmt.Errorf("calibration: x of output %d do not ascend", i)
				}
			}
		}
		return nil
	}
	return fmt.Errorf("calibration %q is not one of sigmoid, isotonic, temperature", clip(c.Method))
}

// score writes the outputs of the entries of a row.
func (h *head) score(s *scratch, out []float64) {
	sums := s.sums
	clear(sums)
	for _, e := range s.entries {
		at := int(e.column)*h.stride + 1
		for i, w := range h.weights[at : at+len(sums)] {
			sums[i] += float64(e.value * w)
		}
	}
	clear(out)
	for i := range h.members {
		m := &h.members[i]
		decisions := sums[:len(m.Coef)]
		sums = sums[len(m.Coef):]
		for j := range decisions {
			decisions[j] += m.Intercept[j]
		}
		links[m.Link](decisions)
		decisions = decisions[len(decisions)-len(out):] // for two classes, only the second
		if m.Calibration != nil {
			m.Calibration.apply(decisions)
		}
		for j, v := range decisions {
			out[j] += v
		}
	}
	if n := float64(len(h.members)); n > 1 {
		for i := range out {
			out[i] /= n
		}
	}
}

// apply turns scores into probabilities, in place.
func (c *calibration) apply(values []float64) {
	switch c.Method {
	case "temperature":
		if len(values) == 1 { // equal to softmax of both signs
			values[0] = sigmoid(2 * c.Beta * values[0])
			return
		}
		for i := range values {
			values[i] *= c.Beta
		}
		softmax(values)
		return
	case "sigmoid":
		for i, v := range values {
			values[i] = sigmoid(-(float64(c.A[i]*v) + c.B[i]))
		}
	default:
		for i, v := range values {
			values[i] = interpolate(c.X[i], c.Y[i], v)
		}
	}
	if len(values) > 1 {
		share(values)
	}
	for i, v := range values {
		if v > 1 && v <= 1+1e-5 { // as scikit-learn does
			values[i] = 1
		}
	}
}

// interpolate interpolates linearly between points. It is constant beyond them.
func interpolate(x, y []float64, at float64) float64 {
	last := len(x) - 1
	if at <= x[0] {
		return y[0]
	}
	if at >= x[last] {
		return y[last]
	}
	i, _ := slices.BinarySearch(x, at)
	slope := (y[i] - y[i-1]) / (x[i] - x[i-1])
	return float64(slope*(at-x[i-1])) + y[i-1]
}
