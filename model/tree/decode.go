package tree

import (
	"fmt"
	"math"
	"strconv"
	"strings"
)

// Limits of what is loaded. Nothing else is allocated on a file's word alone,
// so memory while loading is about twice the file as XGBoost writes it. A file
// made for the purpose takes at most 320 MiB for the sets of its categorical
// splits, and beside them ten times its size, or a hundred times where its
// leaves are vectors.
const (
	fileMax       = 1 << 30 // bytes; 5,000 trees of depth 8 are 0.1 GB as JSON
	treesMax      = 1 << 17 // bounds what trees cost beside their nodes
	nodesMax      = 1 << 16 // of one tree: a flat node addresses its children in 16 bits
	inputsMax     = 1<<15 - 1
	outputsMax    = 1 << 12
	categoriesMax = 1 << 24 // from there on XGBoost takes a category for none
	setWordsMax   = 1 << 26
)

// noChild marks a leaf.
const noChild = -1

// split is one node of a tree as the file has it.
type split struct {
	left, right int32 // noChild in a leaf
	input       int32
	value       float32 // threshold; in a leaf its score
	defaultLeft bool    // where a missing value goes
	set         segment // of ensemble.listed: categories that go right; empty where the split is numeric
}

// segment is part of a list.
type segment struct{ from, to int32 }

// part is what one output of a model has of one tree of its file: a tree whose
// leaves are vectors has a part for each output.
type part struct {
	nodes  []split
	output int32 // where width is 1: what tree_info says
	index  int32 // of the tree in the file
	width  int32 // of its leaves
}

// ensemble is what a file says about its model.
type ensemble struct {
	objective, booster string
	version            []int32   // of the XGBoost that wrote the file
	base               []float32 // base_score, as written
	inputs, classes    int64
	targets            int64
	names              []string
	labels             [][]string // of an input: what its category codes stand for
	declared, parallel int64      // trees that the file claims to have: all, and a round for each output
	groups             []int32    // output of each tree of the file
	weights            []float32  // of each tree of the file; empty where training dropped none
	count              int        // trees of the file
	parts              []part
	listed             []int32 // categories of all sets, set behind set
	setWords           int64   // what the sets take as bits
	bestIteration      string
}

// field reads the value of one field of an object.
type field struct {
	name string
	read func() error
}

// decoder fills an ensemble from a document.
type decoder struct {
	document
	ensemble
	tree   columns // of the tree being read; its arrays are used again
	fields []field // of a tree
}

// decode reads a whole document. What it returns has trees that are trees, but
// is not checked as a whole: see refuse.
func decode(data []byte) (*ensemble, error) {
	source, err := open(data)
	if err != nil {
		return nil, err
	}
	d := &decoder{document: source, ensemble: ensemble{inputs: -1, declared: -1, targets: 1}}
	t := &d.tree
	d.fields = []field{
		{"left_children", d.integersTo(&t.left)}, {"right_children", d.integersTo(&t.right)},
		{"split_indices", d.integersTo(&t.input)}, {"split_conditions", d.numbersTo(&t.value)},
		{"default_left", d.integersTo(&t.defaultLeft)}, {"split_type", d.integersTo(&t.splitType)},
		{"categories", d.integersTo(&t.categories)}, {"categories_nodes", d.integersTo(&t.setNodes)},
		{"categories_segments", d.integersTo(&t.setStarts)}, {"categories_sizes", d.integersTo(&t.setSizes)},
		{"leaf_weights", d.numbersTo(&t.vectors)}, {"id", d.identity}, {"tree_param", d.treeParameters},
	}
	if err := d.record(field{"learner", d.learner}, field{"version", d.integersTo(&d.version)}); err != nil {
		return nil, err
	}
	if err := d.end(); err != nil {
		return nil, err
	}
	return &d.ensemble, nil
}

// record reads an object: the fields it knows, each at most once, and skips
// the others.
func (d *decoder) record(fields ...field) error {
	var seen uint32
	return d.object(func(key []byte) error {
		for i := range fields {
			if string(key) != fields[i].name {
				continue
			}
			if seen>>i&1 != 0 {
				return within(fields[i].name, d.fault("the field stands here twice"))
			}
			seen |= 1 << i
			if err := fields[i].read(); err != nil {
				return within(fields[i].name, err)
			}
			return nil
		}
		if err := d.skip(); err != nil {
			return within(clip(key), err)
		}
		return nil
	})
}

func (d *decoder) fault(format string, arguments ...any) error {
	return &formatError{offset: d.offset(), text: fmt.Sprintf(format, arguments...)}
}

func (d *decoder) learner() error {
	return d.record(
		field{"attributes", func() error {
			return d.record(field{"best_iteration", d.textTo(&d.bestIteration)})
		}},
		field{"feature_names", func() error {
			return d.array(func(i int) error {
				name, err := d.text()
				if err != nil {
					return within(fmt.Sprintf("[%d]", i), err)
				}
				d.names = append(d.names, name)
				return nil
			})
		}},
		field{"gradient_booster", func() error {
			// The booster dart keeps its trees one object deeper. XGBoost 3.4
			// writes gbtree, and the weights into the model.
			return d.record(field{"name", d.textTo(&d.booster)}, field{"model", d.model}, field{"weight_drop", d.numbersTo(&d.weights)},
				field{"gbtree", func() error { return d.record(field{"model", d.model}) }})
		}},
		field{"learner_model_param", func() error {
			return d.record(field{"base_score", d.baseScore}, field{"num_feature", d.countTo(&d.inputs)},
				field{"num_class", d.countTo(&d.classes)}, field{"num_target", d.countTo(&d.targets)})
		}},
		field{"objective", func() error {
			return d.record(field{"name", d.textTo(&d.objective)})
		}},
	)
}

func (d *decoder) model() error {
	return d.record(
		field{"gbtree_model_param", func() error {
			return d.record(field{"num_trees", d.countTo(&d.declared)}, field{"num_parallel_tree", d.countTo(&d.parallel)})
		}},
		field{"tree_info", d.integersTo(&d.groups)},
		field{"cats", d.categoryLabels},
		field{"weight_drop", d.numbersTo(&d.weights)},
		field{"trees", func() error {
			return d.array(func(i int) error {
				if err := d.oneTree(i); err != nil {
					return within(fmt.Sprintf("[%d]", i), err)
				}
				return nil
			})
		}},
	)
}

// textTo returns a reader of a text into target.
func (d *decoder) textTo(target *string) func() error {
	return func() (err error) {
		*target, err = d.text()
		return err
	}
}

// countTo returns a reader of an integer that is written as a string.
func (d *decoder) countTo(target *int64) func() error {
	return func() error {
		text, err := d.text()
		if err != nil {
			return err
		}
		if *target, err = strconv.ParseInt(text, 10, 64); err != nil || *target < 0 {
			return d.fault("%q is not a count", clip([]byte(text)))
		}
		return nil
	}
}

// integersTo returns a reader of an array of 32-bit integers into target.
func (d *decoder) integersTo(target *[]int32) func() error {
	return func() error {
		*target = (*target)[:0]
		return d.array(func(i int) error {
			value, err := d.integer()
			if err == nil && int64(int32(value)) != value {
				err = d.fault("%d does not fit 32 bits", value)
			}
			if err != nil {
				return within(fmt.Sprintf("[%d]", i), err)
			}
			*target = append(*target, int32(value))
			return nil
		})
	}
}

// numbersTo returns a reader of an array of numbers into target.
func (d *decoder) numbersTo(target *[]float32) func() error {
	return func() error {
		*target = (*target)[:0]
		return d.array(func(i int) error {
			value, err := d.number()
			if err != nil {
				return within(fmt.Sprintf("[%d]", i), err)
			}
			*target = append(*target, value)
			return nil
		})
	}
}

// baseScore reads "5E-1", which XGBoost before 3.1 writes, and "[5E-1]".
func (d *decoder) baseScore() error {
	text, err := d.text()
	if err != nil {
		return err
	}
	list := strings.TrimSpace(text)
	if inner, ok := strings.CutPrefix(list, "["); ok {
		list = strings.TrimSuffix(inner, "]")
	}
	for part := range strings.SplitSeq(list, ",") {
		value, err := strconv.ParseFloat(strings.TrimSpace(part), 32)
		if err != nil || math.IsNaN(value) || math.IsInf(value, 0) {
			return d.fault("%q is not a finite number or a list of them", clip([]byte(text)))
		}
		d.base = append(d.base, float32(value))
	}
	return nil
}
