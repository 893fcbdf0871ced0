package tree

import (
	"fmt"
	"math"
	"strconv"
	"strings"
)

// xgboost is the content of a file of XGBoost, with the names of its JSON: see
// https://xgboost.readthedocs.io/en/stable/tutorials/saving_model.html and doc/model.schema in its
// sources.
type xgboost struct {
	ensemble
	objective, booster string
	version            []int32   // version of the XGBoost that wrote the file
	bases              []float32 // as written
	classes, targets   int64
	declared, parallel int64     // number of trees that the file declares: all, and per round and output
	groups             []int32   // output of each tree of the file
	weights            []float32 // of each tree of the file; empty if training dropped no tree
	bestIteration      string
	wrapped            bool // scikit-learn's wrapper wrote the file
}

// field reads the value of one field of an object.
type field struct {
	name string
	read func() error
}

// decoder fills an xgboost from a document.
type decoder struct {
	document
	xgboost
	tree   columns // the current tree; its arrays are reused
	fields []field // of a tree
}

// decode reads a whole document. Each returned tree has a valid shape, but the model as a whole is
// not checked yet: see refuse.
func decode(source document) (*xgboost, error) {
	d := &decoder{document: source, xgboost: xgboost{ensemble: ensemble{kind: "xgboost", inputs: -1}, declared: -1, targets: 1}}
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
	return &d.xgboost, nil
}

func (d *decoder) record(fields ...field) error { return record(d, fields...) }

// record reads an object. It reads the given fields, each at most once, and skips all others.
func record(d document, fields ...field) error {
	var seen uint32
	return d.object(func(key []byte) error {
		for i := range fields {
			if string(key) != fields[i].name {
				continue
			}
			if seen>>i&1 != 0 {
				return within(fields[i].name, faultOf(d, "the field stands here twice"))
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
	return faultOf(d, format, arguments...)
}

// faultOf returns an error about the value that was read last.
func faultOf(d document, format string, arguments ...any) error {
	return &formatError{offset: d.offset(), text: fmt.Sprintf(format, arguments...)}
}

// elements reads an array.
func elements(d document, element func(index int) error) error {
	return d.array(func(i int) error {
		if err := element(i); err != nil {
			return within(fmt.Sprintf("[%d]", i), err)
		}
		return nil
	})
}

func (d *decoder) learner() error {
	return d.record(
		field{"attributes", func() error {
			return d.record(field{"best_iteration", d.textTo(&d.bestIteration)},
				field{"scikit_learn", func() error {
					d.wrapped = true
					return d.skip()
				}})
		}},
		field{"feature_names", func() error {
			return elements(d, func(int) error {
				name, err := d.text()
				d.names = append(d.names, name)
				return err
			})
		}},
		field{"gradient_booster", func() error {
			// The booster dart nests its trees one object deeper. XGBoost 3.4 writes gbtree, and
			// puts the weights into the model.
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
			return elements(d, d.oneTree)
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
		return elements(d, func(int) error {
			value, err := d.integer()
			if err == nil && int64(int32(value)) != value {
				err = d.fault("%d does not fit 32 bits", value)
			}
			*target = append(*target, int32(value))
			return err
		})
	}
}

// numbersTo returns a reader of an array of numbers into target.
func (d *decoder) numbersTo(target *[]float32) func() error {
	return func() error {
		*target = (*target)[:0]
		return elements(d, func(int) error {
			value, err := d.number()
			*target = append(*target, value)
			return err
		})
	}
}

// baseScore reads "5E-1", the form before XGBoost 3.1, and "[5E-1]".
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
		d.bases = append(d.bases, float32(value))
	}
	return nil
}
