package tree

import "slices"

// link turns the margins of a row into its scores.
type link uint8

const (
	identity    link = iota
	logistic         // margin to probability
	exponential      // logarithm to value
	hinge            // sign to class 0 or 1
	softmax          // margins to probabilities that add up to 1
	class            // margins to the index of the first largest one
	ascending        // quantiles that do not cross
)

// objectives are the objectives of XGBoost 3.2, with the link of each. The link also gives the
// meaning of base_score: a probability if it is logistic, a value if it is exponential, else a
// margin.
var objectives = []struct {
	name string
	link link
}{
	{"binary:hinge", hinge}, {"binary:logistic", logistic}, {"binary:logitraw", identity},
	{"count:poisson", exponential}, {"multi:softmax", class}, {"multi:softprob", softmax},
	{"rank:map", identity}, {"rank:ndcg", identity}, {"rank:pairwise", identity},
	{"reg:absoluteerror", identity}, {"reg:gamma", exponential}, {"reg:linear", identity},
	{"reg:logistic", logistic}, {"reg:pseudohubererror", identity}, {"reg:quantileerror", identity},
	{"reg:squarederror", identity}, {"reg:squaredlogerror", identity}, {"reg:tweedie", exponential},
	{"survival:aft", exponential}, {"survival:cox", exponential},
}

func linkOf(objective string) (_ link, known bool) {
	for _, o := range objectives {
		if o.name == objective {
			return o.link, true
		}
	}
	return identity, false
}

// link returns the link of an ensemble with a known objective.
func (e *xgboost) link() link {
	l, _ := linkOf(e.objective)
	if e.objective == "reg:quantileerror" && slices.Compare(e.version, []int32{3, 4}) >= 0 {
		return ascending
	}
	return l
}

// margins returns how many margins a row has.
func (e *xgboost) margins() int { return int(max(1, e.classes, e.targets)) }

// baseMargins returns the base margin of each output. XGBoost before 3.1 wrote
// one base_score for all.
func (e *xgboost) baseMargins() []float32 {
	margins := make([]float32, e.margins())
	for i := range margins {
		base := e.bases[min(i, len(e.bases)-1)]
		switch e.link() {
		case logistic:
			base = baseMargin(base)
		case exponential:
			base = logarithm(base)
		}
		margins[i] = base
	}
	return margins
}

// apply turns margins into scores: see linker. Only class writes fewer scores than margins.
func (l link) apply(margins []float32, width int, scores []float32) {
	switch l {
	case identity, softmax, ascending:
		copy(scores, margins)
	}
	switch l {
	case logistic:
		for i, margin := range margins {
			scores[i] = probability(margin)
		}
	case exponential:
		for i, margin := range margins {
			scores[i] = exponent(margin)
		}
	case hinge:
		for i, margin := range margins {
			scores[i] = 0
			if margin > 0 {
				scores[i] = 1
			}
		}
	case softmax:
		for row := range slices.Chunk(scores, width) {
			normalize(row)
		}
	case class:
		for i := range scores {
			scores[i] = float32(first(margins[i*width : (i+1)*width]))
		}
	case ascending:
		for row := range slices.Chunk(scores, width) {
			slices.Sort(row)
		}
	}
}

// normalize turns the margins of a row into probabilities, with XGBoost's type at each step.
func normalize(row []float32) {
	largest, sum := row[first(row)], 0.0
	for i, margin := range row {
		row[i] = exponent(margin - largest)
		sum += float64(row[i])
	}
	for i := range row {
		row[i] /= float32(sum)
	}
}

// first returns the index of the first largest margin.
func first(row []float32) int {
	at := 0
	for i, value := range row {
		if value > row[at] {
			at = i
		}
	}
	return at
}
