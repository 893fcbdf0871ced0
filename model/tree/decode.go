package tree

import (
	"fmt"
	"math"
	"strconv"
	"strings"
)

// Limits of what is loaded. Nothing is allocated on a file's word alone, so
// memory while loading is about twice the file as XGBoost writes it, and at
// most ten times a file made for the purpose.
const (
	fileMax   = 1 << 30 // bytes; 5,000 trees of depth 8 are 0.1 GB as JSON
	treesMax  = 1 << 17 // bounds what trees cost beside their nodes
	nodesMax  = 1 << 16 // of one tree: a flat node addresses its children in 16 bits
	inputsMax = 1<<15 - 1
)

// noChild marks a leaf.
const noChild = -1

// split is one node of a tree as the file has it.
type split struct {
	left, right int32 // noChild in a leaf
	input       int32
	value       float32 // threshold; in a leaf its score
	defaultLeft bool    // where a missing value goes
}

// ensemble is what a file says about its model.
type ensemble struct {
	objective, booster string
	base               []float32 // base_score, as written
	inputs, classes    int64
	targets            int64
	names              []string
	declared           int64 // trees that the file claims to have
	groups             []int32
	trees              [][]split
	bestIteration      string
}

// columns is a tree as the file has it: one array per property of its nodes.
type columns struct {
	left, right, input       []int32
	defaultLeft, splitType   []int32
	value                    []float32
	categories               []int32
	nodes, deleted, leafSize int64
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
		{"categories_nodes", d.integersTo(&t.categories)}, {"tree_param", d.treeParameters},
	}
	if err := d.record(field{"learner", d.learner}); err != nil {
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
			return d.record(field{"name", d.textTo(&d.booster)}, field{"model", d.model})
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
			return d.record(field{"num_trees", d.countTo(&d.declared)})
		}},
		field{"tree_info", d.integersTo(&d.groups)},
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

func (d *decoder) treeParameters() error {
	return d.record(field{"num_nodes", d.countTo(&d.tree.nodes)}, field{"num_deleted", d.countTo(&d.tree.deleted)},
		field{"size_leaf_vector", d.countTo(&d.tree.leafSize)})
}

// oneTree reads a tree and checks that it is one.
func (d *decoder) oneTree(index int) error {
	if index == treesMax {
		return d.fault("more than %d trees", treesMax)
	}
	t := &d.tree
	*t = columns{
		left: t.left[:0], right: t.right[:0], input: t.input[:0], value: t.value[:0],
		defaultLeft: t.defaultLeft[:0], splitType: t.splitType[:0], categories: t.categories[:0],
	}
	if err := d.record(d.fields...); err != nil {
		return err
	}
	nodes, err := d.assemble()
	if err != nil {
		return err
	}
	if err := d.checkShape(nodes); err != nil {
		return err
	}
	d.trees = append(d.trees, nodes)
	return nil
}

// assemble turns the columns of a tree into nodes.
func (d *decoder) assemble() ([]split, error) {
	t := &d.tree
	if t.leafSize > 1 {
		return nil, d.fault("leaves that are vectors of %d scores are not supported yet", t.leafSize)
	}
	if len(t.categories) > 0 {
		return nil, d.fault("categorical splits are not supported yet")
	}
	for _, kind := range t.splitType {
		if kind != 0 {
			return nil, d.fault("categorical splits are not supported yet")
		}
	}
	n := len(t.left)
	if n == 0 || int64(n) != t.nodes {
		return nil, within("left_children", d.fault("%d values for %d nodes", n, t.nodes))
	}
	if n > nodesMax {
		return nil, d.fault("a tree of %d nodes is not supported yet (at most %d)", n, nodesMax)
	}
	for _, column := range []struct {
		name   string
		length int
	}{
		{"right_children", len(t.right)}, {"split_indices", len(t.input)},
		{"split_conditions", len(t.value)}, {"default_left", len(t.defaultLeft)},
	} {
		if column.length != n {
			return nil, within(column.name, d.fault("%d values for %d nodes", column.length, n))
		}
	}
	nodes := make([]split, n)
	for i := range nodes {
		nodes[i] = split{t.left[i], t.right[i], t.input[i], t.value[i], t.defaultLeft[i] != 0}
	}
	return nodes, nil
}

// checkShape walks from the root: every child exists and has one parent, every
// node is met but those that pruning deleted, and every value can be used.
func (d *decoder) checkShape(nodes []split) error {
	met := make([]bool, len(nodes))
	met[0] = true
	queue := make([]int32, 1, len(nodes))
	for next := 0; next < len(queue); next++ {
		i := queue[next]
		node := nodes[i]
		place := func(name string, err error) error { return within(fmt.Sprintf("%s[%d]", name, i), err) }
		if node.left == noChild && node.right == noChild {
			if value := float64(node.value); math.IsNaN(value) || math.IsInf(value, 0) {
				return place("split_conditions", d.fault("a leaf's score is %g, not finite", value))
			}
			continue
		}
		if node.value != node.value {
			return place("split_conditions", d.fault("the threshold is NaN"))
		}
		if node.input < 0 {
			return place("split_indices", d.fault("the split is on input %d", node.input))
		}
		for side, child := range [2]int32{node.left, node.right} {
			name := [2]string{"left_children", "right_children"}[side]
			if child < 0 || int(child) >= len(nodes) {
				return place(name, d.fault("child %d is not one of the %d nodes", child, len(nodes)))
			}
			if met[child] {
				return place(name, d.fault("child %d has another parent, or is the root", child))
			}
			met[child] = true
			queue = append(queue, child)
		}
	}
	if lost := len(nodes) - len(queue); int64(lost) != d.tree.deleted {
		return d.fault("%d of %d nodes are out of the root's reach and %d are marked as deleted", lost, len(nodes), d.tree.deleted)
	}
	for i := range nodes {
		if !met[i] {
			nodes[i] = split{left: noChild, right: noChild}
		}
	}
	return nil
}
