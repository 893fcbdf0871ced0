package tree

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
)

// wideLink is the link of models that sum in float64: the formulas of LightGBM and CatBoost in
// float64, each score rounded once. They use Go's exponential, which is within an ulp of the C
// library's. So scores are the nearest float32 to the framework's or the one next to it.
type wideLink struct {
	kind   wideKind
	slope  float64 // of the logistic curve
	rounds float64 // number of rounds that margins are averaged over first; 0 if they are not
}

type wideKind uint8

const (
	wideIdentity    wideKind = iota
	wideLogistic             // of each margin on its own
	wideExponential          // logarithm to value
	wideSoftmax              // margins to probabilities that add up to 1
	wideSquare               // square root, of either sign, to value
	wideSoftplus             // ln(1+e^x)
)

// apply turns margins into scores: see linker.
func (l wideLink) apply(margins []float64, width int, scores []float32) {
	if l.rounds > 0 {
		for i := range margins {
			margins[i] /= l.rounds
		}
	}
	switch l.kind {
	case wideLogistic:
		for i, margin := range margins {
			margins[i] = 1 / (1 + math.Exp(-l.slope*margin))
		}
	case wideExponential:
		for i, margin := range margins {
			margins[i] = math.Exp(margin)
		}
	case wideSoftmax:
		for row := range slices.Chunk(margins, width) {
			largest, sum := slices.Max(row), 0.0
			for i, margin := range row {
				row[i] = math.Exp(margin - largest)
				sum += row[i]
			}
			for i := range row {
				row[i] /= sum
			}
		}
	case wideSquare:
		for i, margin := range margins {
			margins[i] = math.Copysign(margin*margin, margin)
		}
	case wideSoftplus:
		for i, margin := range margins {
			margins[i] = math.Log1p(math.Exp(margin))
		}
	}
	round(margins, scores)
}

// wideObjectives are the objectives of LightGBM 4.
var wideObjectives = []struct {
	name string
	kind wideKind
}{
	{"binary", wideLogistic}, {"cross_entropy", wideLogistic}, {"cross_entropy_lambda", wideSoftplus}, {"custom", wideIdentity},
	{"fair", wideIdentity}, {"gamma", wideExponential}, {"huber", wideIdentity}, {"lambdarank", wideIdentity},
	{"mape", wideIdentity}, {"multiclass", wideSoftmax}, {"multiclassova", wideLogistic}, {"poisson", wideExponential},
	{"quantile", wideIdentity}, {"rank_xendcg", wideIdentity}, {"regression", wideIdentity}, {"regression_l1", wideIdentity},
	{"tweedie", wideExponential},
}

// link parses an objective: a name, "key:value" pairs and the word "sqrt". Training with a
// user-defined objective leaves no objective in the file: it is custom.
func (m *lightgbm) link() (wideLink, error) {
	words := strings.Fields(m.objective)
	if len(words) == 0 {
		words = []string{"custom"}
	}
	l := wideLink{slope: 1}
	known := slices.IndexFunc(wideObjectives, func(o struct {
		name string
		kind wideKind
	}) bool {
		return o.name == words[0]
	})
	if known < 0 {
		var names []string
		for _, o := range wideObjectives {
			names = append(names, o.name)
		}
		return l, fmt.Errorf("%q is not supported (hint: train with one of %s)", clip([]byte(words[0])), strings.Join(names, ", "))
	}
	l.kind = wideObjectives[known].kind
	for _, word := range words[1:] {
		key, value, _ := strings.Cut(word, ":")
		switch key {
		case "sigmoid":
			slope, err := strconv.ParseFloat(value, 64)
			if err != nil || !(slope > 0) || math.IsInf(slope, 0) {
				return l, fmt.Errorf("%q is not the slope of a sigmoid", clip([]byte(value)))
			}
			l.slope = slope
		case "num_class":
			if value != strconv.FormatInt(m.perRound, 10) {
				return l, fmt.Errorf("%q of %d trees a round", clip([]byte(word)), m.perRound)
			}
		case "sqrt":
			if l.kind == wideIdentity {
				l.kind = wideSquare
			}
		}
	}
	return l, nil
}
