package tree

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
)

// catboost is the content of a JSON file of CatBoost, with CatBoost's names: see
// https://github.com/catboost/tutorials/blob/master/model_analysis/model_export_as_json_tutorial.ipynb
// and catboost/libs/model/model_export/json_model_helpers.cpp in its sources.
type catboost struct {
	*jsonDocument
	ensemble
	floats []floatFeature
	scale  float64
	bias   []float64
	loss   string
	width  int       // scores per leaf; 0 before the first tree
	nodes  []split   // of the current tree; the value of a leaf is its index in scores
	scores []float64 // scores of the tree's leaves, one leaf after the other
	leaves int       // leaves of the tree so far
}

// floatFeature is one numeric input.
type floatFeature struct {
	input        int64 // index in a row
	name         string
	missingRight bool // a missing value is above all borders, else below all
}

// errStop ends the reading of a document early.
var errStop = errors.New("enough was read")

// isCatBoost recognises a file of CatBoost. It looks for the first field that is specific to
// CatBoost or to XGBoost.
func isCatBoost(data []byte) bool {
	d, found := &jsonDocument{data: data}, false
	_ = d.object(func(key []byte) error {
		switch string(key) {
		case "features_info", "model_info", "oblivious_trees", "trees", "scale_and_bias", "ctr_data":
			found = true
			return errStop
		case "learner":
			return errStop
		}
		return d.skip()
	})
	return found
}

// readCatBoost reads a model that CatBoost saved as JSON.
func readCatBoost(data []byte) (*ensemble, error) {
	d := &catboost{
		jsonDocument: &jsonDocument{data: data},
		ensemble:     ensemble{kind: "catboost", double: true},
		scale:        1,
	}
	err := record(d, field{"features_info", d.features}, field{"model_info", d.info}, field{"scale_and_bias", d.scaleAndBias})
	if err != nil {
		return nil, err
	}
	if err := d.end(); err != nil {
		return nil, err
	}
	// Splits refer to features by number, and the features may follow the trees in the file. So the
	// trees are read last.
	d.at = 0
	trees := func(read func() error) func() error {
		return func() error { return elements(d, func(i int) error { return d.oneTree(i, read) }) }
	}
	if err := record(d, field{"oblivious_trees", trees(d.oblivious)}, field{"trees", trees(d.asymmetric)}); err != nil {
		return nil, err
	}
	return &d.ensemble, d.settle()
}

func (d *catboost) textTo(target *string) func() error {
	return func() (err error) {
		*target, err = d.text()
		return err
	}
}

func (d *catboost) integerTo(target *int64) func() error {
	return func() (err error) {
		*target, err = d.integer()
		return err
	}
}

// refuseSome refuses an array that has elements.
func (d *catboost) refuseSome(what, hint string) func() error {
	return func() error {
		return elements(d, func(int) error {
			return d.fault("%s are not supported (hint: %s)", what, hint)
		})
	}
}

func (d *catboost) features() error {
	const numbers = "give CatBoost numbers, such as one column of 0 and 1 for each category"
	return record(d,
		field{"categorical_features", d.refuseSome("categorical features, which CatBoost counts in tables (CTR) or hashes,", numbers)},
		field{"ctrs", d.refuseSome("tables of counts (CTR)", numbers)},
		field{"text_features", d.refuseSome("text features", numbers)},
		field{"embedding_features", d.refuseSome("embedding features", numbers)},
		field{"float_features", func() error { return elements(d, d.oneFeature) }},
	)
}

func (d *catboost) oneFeature(i int) error {
	f, place, missing := floatFeature{input: -1}, int64(-1), ""
	err := record(d,
		field{"feature_index", d.integerTo(&place)}, field{"flat_feature_index", d.integerTo(&f.input)},
		field{"feature_id", d.textTo(&f.name)}, field{"feature_name", d.textTo(&f.name)}, field{"nan_value_treatment", d.textTo(&missing)},
	)
	switch {
	case err != nil:
		return err
	case place != int64(i):
		return within("feature_index", d.fault("feature %d is at place %d", place, i))
	case f.input < int64(i) || f.input >= inputsMax || i > 0 && f.input <= d.floats[i-1].input:
		return within("flat_feature_index", d.fault("input %d is not supported (ascending, up to %d)", f.input, inputsMax-1))
	case !slices.Contains([]string{"AsIs", "AsFalse", "AsTrue", ""}, missing):
		return within("nan_value_treatment", d.fault("%q is not supported", clip([]byte(missing))))
	}
	f.missingRight = missing == "AsTrue"
	d.floats = append(d.floats, f)
	d.inputs = f.input + 1
	return nil
}

// info reads the loss function from an object, or from a text that contains one.
func (d *catboost) info() error {
	loss := func(from document) error {
		return record(from, field{"loss_function", func() error {
			return record(from, field{"type", func() (err error) {
				d.loss, err = from.text()
				return err
			}})
		}})
	}
	return record(d, field{"params", func() error {
		if d.peek() != '"' {
			return loss(d)
		}
		text, err := d.text()
		if err != nil {
			return err
		}
		return loss(&jsonDocument{data: []byte(text)})
	}})
}

// scaleAndBias reads [scale, [bias of each output]], and [scale, bias], the form of CatBoost before
// 0.25.
func (d *catboost) scaleAndBias() error {
	return elements(d, func(i int) (err error) {
		switch {
		case i == 0:
			d.scale, err = d.finite()
		case i > 1:
			err = d.fault("more than a scale and a bias")
		case d.peek() == '[':
			err = elements(d, func(int) error {
				bias, err := d.finite()
				d.bias = append(d.bias, bias)
				return err
			})
		default:
			var bias float64
			bias, err = d.finite()
			d.bias = append(d.bias, bias)
		}
		return err
	})
}

func (d *catboost) finite() (float64, error) {
	value, err := d.number64()
	if err == nil && (math.IsNaN(value) || math.IsInf(value, 0)) {
		err = d.fault("%g is not finite", value)
	}
	return value, err
}

// oneTree reads a tree into nodes and scores, and creates a part of it for each output.
func (d *catboost) oneTree(index int, read func() error) error {
	if index == treesMax || d.count != index {
		return d.fault("more than %d trees, or two lists of them", treesMax)
	}
	d.nodes, d.scores, d.leaves = d.nodes[:0], d.scores[:0], 0
	if err := read(); err != nil {
		return err
	}
	leaves := (len(d.nodes) + 1) / 2
	width := len(d.scores) / leaves
	switch {
	case width*leaves != len(d.scores) || width < 1 || width > outputsMax || d.width > 0 && width != d.width:
		return d.fault("%d scores for %d leaves", len(d.scores), leaves)
	case len(d.parts)+width > treesMax:
		return d.fault("more than %d trees of one output", treesMax)
	}
	d.width = width
	d.count++
	for output := range width {
		nodes := slices.Clone(d.nodes)
		for i := range nodes {
			if n := &nodes[i]; n.left == noChild {
				n.value = d.scores[int(n.value)*width+output]
			}
		}
		d.parts = append(d.parts, part{nodes, int32(output), int32(index), int32(width)})
	}
	return nil
}

// question reads a split into a node: values above the border go right.
func (d *catboost) question(n *split) error {
	feature, border, kind := int64(-1), float32(math.NaN()), ""
	err := record(d, field{"float_feature_index", d.integerTo(&feature)}, field{"split_type", d.textTo(&kind)},
		field{"border", func() (err error) {
			border, err = d.number()
			return err
		}})
	switch {
	case err != nil:
		return err
	case kind != "FloatFeature":
		return within("split_type", d.fault("%q is not supported (hint: train on numeric features alone)", clip([]byte(kind))))
	case feature < 0 || feature >= int64(len(d.floats)):
		return within("float_feature_index", d.fault("feature %d of %d", feature, len(d.floats)))
	case border != border:
		return within("border", d.fault("the border is missing or NaN"))
	}
	f := d.floats[feature]
	n.input, n.defaultLeft = int32(f.input), !f.missingRight
	n.atMost(float64(border))
	return nil
}

// oblivious reads a tree that asks one question at each depth. The last split is asked at the root,
// and is the highest digit of a leaf's number.
func (d *catboost) oblivious() error {
	var levels []split
	err := record(d,
		field{"leaf_values", func() error { return elements(d, d.score) }},
		field{"splits", func() error {
			return elements(d, func(int) error {
				levels = append(levels, split{left: 1, right: 2})
				return d.question(&levels[len(levels)-1])
			})
		}})
	if err != nil {
		return err
	}
	if 2<<len(levels)-1 > nodesMax || 1<<len(levels) > len(d.scores) {
		return d.fault("a tree of depth %d with %d leaf_values is not supported (at most depth 15)", len(levels), len(d.scores))
	}
	for depth := range levels {
		n := levels[len(levels)-1-depth]
		turned := n.left - 1 // by atMost
		for range 1 << depth {
			left := int32(2*len(d.nodes) + 1)
			n.left, n.right = left+turned, left+1-turned
			d.nodes = append(d.nodes, n)
		}
	}
	for leaf := range 1 << len(levels) {
		d.nodes = append(d.nodes, split{left: noChild, right: noChild, value: float64(leaf)})
	}
	return nil
}

func (d *catboost) score(int) error {
	score, err := d.finite()
	d.scores = append(d.scores, score)
	return err
}

// asymmetric reads a tree with nested nodes. A leaf has one value, or one value per output.
func (d *catboost) asymmetric() error {
	at := len(d.nodes)
	if at == nodesMax-1 {
		return d.fault("a tree of more than %d nodes is not supported", nodesMax-1)
	}
	d.nodes = append(d.nodes, split{})
	n, first := split{left: noChild, right: noChild}, len(d.scores)
	asked, leaf := false, false
	child := func(to *int32) func() error {
		return func() error {
			*to = int32(len(d.nodes))
			return d.asymmetric()
		}
	}
	var question split
	err := record(d, field{"left", child(&n.left)}, field{"right", child(&n.right)},
		field{"split", func() error {
			asked, question = true, split{left: 1, right: 2}
			return d.question(&question)
		}},
		field{"value", func() error {
			leaf = true
			if d.peek() == '[' {
				return elements(d, d.score)
			}
			return d.score(0)
		}})
	switch {
	case err != nil:
		return err
	case leaf && !asked && n.left == noChild && n.right == noChild && len(d.scores) > first:
		n.value = float64(d.leaves)
		d.leaves++
	case !leaf && asked && n.left != noChild && n.right != noChild:
		if question.left == 2 { // turned by atMost
			n.left, n.right = n.right, n.left
		}
		question.left, question.right = n.left, n.right
		n = question
	default:
		return d.fault("a node is a leaf with a value, or has left, right and split")
	}
	d.nodes[at] = n
	return nil
}

// losses are the losses of CatBoost with predictions that differ from the sums. The predictions are
// those of predict_proba and predict: probabilities for classes, and the expected value if trees
// sum its logarithm.
var losses = []struct {
	name string
	kind wideKind
}{
	{"Logloss", wideLogistic}, {"CrossEntropy", wideLogistic}, {"Focal", wideLogistic}, {"MultiClass", wideSoftmax},
	{"MultiClassOneVsAll", wideLogistic}, {"MultiLogloss", wideLogistic}, {"MultiCrossEntropy", wideLogistic},
	{"Poisson", wideExponential}, {"Tweedie", wideExponential},
}

// settle translates the file into the terms shared by all formats.
func (d *catboost) settle() error {
	switch {
	case len(d.floats) == 0:
		return errors.New("features_info.float_features: a model without numeric features is not supported")
	case d.count == 0:
		return errors.New("neither oblivious_trees nor trees")
	case d.loss == "RMSEWithUncertainty":
		return errors.New("model_info.params.loss_function.type: RMSEWithUncertainty is not supported (hint: train with RMSE)")
	case len(d.bias) > 0 && len(d.bias) != d.width:
		return fmt.Errorf("scale_and_bias: %d biases for %d outputs", len(d.bias), d.width)
	}
	link := wideLink{slope: 1}
	for _, l := range losses {
		if l.name == d.loss {
			link.kind = l.kind
		}
	}
	d.wide, d.outputs, d.base = link, d.width, make([]float64, d.width)
	d.after = after{factor: d.scale, bias: d.bias}
	if d.scale == 0 {
		return errors.New("scale_and_bias: the scale is 0")
	}
	if d.objective = d.loss; d.loss == "" {
		d.objective = "unknown loss"
	}
	return d.nameInputs()
}

// nameInputs takes the names of the inputs, if all have one. If CatBoost was given no names, it
// writes empty ones or their numbers.
func (d *catboost) nameInputs() error {
	names, invented := make([]string, d.inputs), true
	for _, f := range d.floats {
		names[f.input] = f.name
		invented = invented && f.name == strconv.FormatInt(f.input, 10)
	}
	if !invented && !slices.Contains(names, "") {
		d.names = names
	}
	if err := d.refuseSlots(); err != nil {
		return fmt.Errorf("features_info.float_features: %w", err)
	}
	return nil
}
