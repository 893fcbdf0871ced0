package tree

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/afterbay/afterbay/internal/models/category"
)

// lightgbm is the content of a text file of a LightGBM model. It has lines of a key, '=' and a
// value: first those of the model, then those of each tree after a line "Tree=0". Only LightGBM's
// sources document the lines: GBDT::LoadModelFromString in src/boosting/gbdt_model_text.cpp,
// Tree::Tree in src/io/tree.cpp, Tree::NumericalDecision in include/LightGBM/tree.h.
type lightgbm struct {
	ensemble
	rest       []byte // lines not yet read
	line       int    // number of the last line read, from 1
	perRound   int64  // trees per round, one for each output
	classes    int64
	average    bool   // random forest: predictions are the mean of the rounds
	infos      string // feature_infos of the inputs: which are categorical
	categories string // pandas categories, as JSON
	tree       lightgbmTree
}

// lightgbmTree is one tree as the file has it.
type lightgbmTree struct {
	used                         int64 // sets of earlier splits
	leaves, sets, linear         int64
	input, left, right, decision []int64
	setStarts, setWords          []int64
	threshold, score             []float64
	lineOf                       map[string]int
}

// isLightGBM recognises a file of LightGBM by its first line.
func isLightGBM(data []byte) bool {
	line, _, _ := bytes.Cut(data, []byte{'\n'})
	return string(bytes.TrimRight(line, "\r ")) == "tree"
}

// readLightGBM reads a model that LightGBM 2 or later saved as text.
func readLightGBM(data []byte) (*ensemble, error) {
	m := &lightgbm{rest: data, ensemble: ensemble{kind: "lightgbm", inputs: -1, codes: lightgbmCodes, double: true, wideInputs: true}, perRound: 1, classes: 1}
	if err := m.header(); err != nil {
		return nil, err
	}
	for {
		key, value, more := m.next()
		switch {
		case !more:
			return nil, m.fault("", "the file ends before the line \"end of trees\": it is cut off")
		case key == "end of trees":
			if err := m.footer(); err != nil {
				return nil, err
			}
			return &m.ensemble, m.settle()
		case key == "Tree":
			if err := m.oneTree(value); err != nil {
				return nil, fmt.Errorf("tree %d: %w", m.count-1, err)
			}
		case key != "":
			return nil, m.fault("", "%q where a tree should begin", clip([]byte(key)))
		}
	}
}

// next returns the key and the value of the next line, or false at the end.
func (m *lightgbm) next() (key, value string, more bool) {
	if len(m.rest) == 0 {
		return "", "", false
	}
	line, rest, _ := bytes.Cut(m.rest, []byte{'\n'})
	m.rest = rest
	m.line++
	key, value, _ = strings.Cut(strings.TrimSuffix(string(line), "\r"), "=")
	return key, value, true
}

func (m *lightgbm) fault(field, format string, arguments ...any) error {
	return m.faultAt(m.line, field, format, arguments...)
}

func (m *lightgbm) faultAt(line int, field, format string, arguments ...any) error {
	if field != "" {
		field += ": "
	}
	return fmt.Errorf("line %d: %s%s", line, field, fmt.Sprintf(format, arguments...))
}

// header reads the lines before the trees, down to an empty one.
func (m *lightgbm) header() error {
	seen := map[string]bool{}
	last := int64(-1)
	for {
		key, value, more := m.next()
		if !more {
			return m.fault("", "the file ends before its trees: it is cut off")
		}
		if key == "" {
			break
		}
		if seen[key] {
			return m.fault(clip([]byte(key)), "the key stands here twice")
		}
		var err error
		switch key {
		case "tree", "label_index", "feature_infos", "feature_names", "objective", "average_output":
		case "version":
			if !slices.Contains([]string{"v2", "v3", "v4"}, value) {
				err = m.fault(key, "%q is not supported (v2, v3 and v4 are; hint: load and save the model again with LightGBM 4)", clip([]byte(value)))
			}
		case "num_class":
			m.classes, err = m.count32(key, value)
		case "num_tree_per_iteration":
			m.perRound, err = m.count32(key, value)
		case "max_feature_idx":
			last, err = m.count32(key, value)
		}
		if err != nil {
			return err
		}
		seen[key] = true
		switch key {
		case "feature_infos":
			m.infos = value
		case "feature_names":
			m.names = strings.Fields(value)
		case "objective":
			m.objective = value
		case "average_output":
			m.average = true
		}
	}
	if !seen["version"] || last < 0 {
		return m.fault("", "version or max_feature_idx is missing above: not a model of LightGBM 2 or later")
	}
	return m.inputsOf(last + 1)
}

// inputsOf checks the inputs that the header declares.
func (m *lightgbm) inputsOf(inputs int64) error {
	if inputs > inputsMax {
		return m.fault("max_feature_idx", "%d inputs are not supported (at most %d)", inputs, inputsMax)
	}
	m.inputs = inputs
	if len(m.names) > 0 && int64(len(m.names)) != inputs {
		return m.fault("feature_names", "%d names for %d inputs", len(m.names), inputs)
	}
	invented := true
	for i, name := range m.names {
		invented = invented && name == "Column_"+strconv.Itoa(i)
	}
	if invented { // LightGBM invented the names because it was given none
		m.names = nil
	}
	if m.perRound < 1 || m.perRound > outputsMax {
		return m.fault("num_tree_per_iteration", "%d outputs are not supported (at most %d)", m.perRound, outputsMax)
	}
	return nil
}

// count32 reads a count.
func (m *lightgbm) count32(key, value string) (int64, error) {
	count, err := strconv.ParseInt(value, 10, 32)
	if err != nil || count < 0 {
		return 0, m.fault(key, "%q is not a count", clip([]byte(value)))
	}
	return count, nil
}

// footer reads the lines after the trees.
func (m *lightgbm) footer() error {
	for {
		line, _, more := bytes.Cut(m.rest, []byte{'\n'})
		m.line++
		if list, ok := bytes.CutPrefix(line, []byte("pandas_categorical:")); ok {
			m.categories = string(list)
			return m.categoryLabels()
		}
		if !more {
			return nil
		}
		m.rest = m.rest[len(line)+1:]
	}
}

// categoryLabels reads the meaning of the codes of columns that were categories of a data frame.
// The file lists them in the order of the columns but does not name the columns. If there are as
// many categorical inputs, they are the columns.
func (m *lightgbm) categoryLabels() error {
	var lists [][]json.RawMessage
	if text := strings.TrimSpace(m.categories); text == "null" || text == "[]" {
		return nil
	}
	if err := json.Unmarshal([]byte(m.categories), &lists); err != nil {
		return m.fault("pandas_categorical", "%v", err)
	}
	var categorical []int
	for i, info := range strings.Fields(m.infos) {
		if info != "none" && !strings.HasPrefix(info, "[") {
			categorical = append(categorical, i)
		}
	}
	if len(categorical) != len(lists) || len(lists) > 0 && int64(categorical[len(lists)-1]) >= m.inputs {
		for _, list := range lists {
			if labels := labelsOfJSON(list); !countFromZero(labels) {
				return m.fault("pandas_categorical", "the file does not name the columns of the categories %s: a number may be a category or a code. Train with categories that are texts", clip([]byte(strings.Join(labels, ", "))))
			}
		}
		m.note = fmt.Sprintf(", trained on %d columns of pandas categories: it takes their codes, but does not name the columns", len(lists))
		return nil
	}
	m.labels = make([][]string, m.inputs)
	for i, list := range lists {
		m.labels[categorical[i]] = labelsOfJSON(list)
		if err := category.Check(m.labels[categorical[i]]); err != nil {
			return m.fault("pandas_categorical", "%v", err)
		}
	}
	return nil
}

// labelsOfJSON returns the categories of one column as texts.
func labelsOfJSON(list []json.RawMessage) []string {
	labels := make([]string, len(list))
	for i, raw := range list {
		if json.Unmarshal(raw, &labels[i]) != nil {
			labels[i] = string(raw) // a number
		}
	}
	return labels
}

// countFromZero reports whether each code equals the number that it stands for.
func countFromZero(labels []string) bool {
	codes := category.NewCodes(labels)
	for i := range labels {
		if code, err := codes.Number(float64(i)); err != nil || code != float64(i) {
			return false
		}
	}
	return true
}

// settle translates the file into the terms shared by all formats.
func (m *lightgbm) settle() error {
	if m.count == 0 || m.count%int(m.perRound) != 0 {
		return fmt.Errorf("%d trees are not a multiple of num_tree_per_iteration=%d", m.count, m.perRound)
	}
	m.base, m.outputs = make([]float64, m.perRound), int(m.perRound)
	link, err := m.link()
	if err != nil {
		return fmt.Errorf("objective: %w", err)
	}
	if m.average {
		link.rounds = float64(m.count / int(m.perRound))
		m.note = ", averaged" + m.note
	}
	m.wide = link
	if m.objective == "" {
		m.ensemble.objective = "custom objective"
	}
	if err := m.refuseSlots(); err != nil {
		return fmt.Errorf("max_feature_idx: %w", err)
	}
	return nil
}

// oneTree reads a tree: the lines down to an empty one.
func (m *lightgbm) oneTree(number string) error {
	m.count++
	if number != strconv.Itoa(m.count-1) {
		return m.fault("Tree", "%q where tree %d should stand", clip([]byte(number)), m.count-1)
	}
	if m.count > treesMax {
		return m.fault("Tree", "more than %d trees", treesMax)
	}
	t := &m.tree
	clear(t.lineOf)
	*t = lightgbmTree{
		input: t.input[:0], left: t.left[:0], right: t.right[:0], decision: t.decision[:0], setStarts: t.setStarts[:0],
		setWords: t.setWords[:0], threshold: t.threshold[:0], score: t.score[:0], lineOf: t.lineOf,
	}
	if t.lineOf == nil {
		t.lineOf = map[string]int{}
	}
	for {
		key, value, more := m.next()
		if !more || key == "" {
			break
		}
		if err := m.property(key, value); err != nil {
			return err
		}
	}
	nodes, err := m.assemble()
	if err != nil {
		return err
	}
	index := int32(m.count - 1)
	m.parts = append(m.parts, part{nodes, index % int32(m.perRound), index, 1})
	return nil
}

// property reads one line of a tree.
func (m *lightgbm) property(key, value string) error {
	t := &m.tree
	if t.lineOf[key] != 0 {
		return m.fault(clip([]byte(key)), "the key stands here twice")
	}
	t.lineOf[key] = m.line
	var err error
	switch key {
	case "num_leaves":
		t.leaves, err = m.count32(key, value)
	case "num_cat":
		t.sets, err = m.count32(key, value)
	case "is_linear":
		t.linear, err = m.count32(key, value)
	case "split_feature":
		err = m.integers(key, value, &t.input)
	case "left_child":
		err = m.integers(key, value, &t.left)
	case "right_child":
		err = m.integers(key, value, &t.right)
	case "decision_type":
		err = m.integers(key, value, &t.decision)
	case "cat_boundaries":
		err = m.integers(key, value, &t.setStarts)
	case "cat_threshold":
		err = m.integers(key, value, &t.setWords)
	case "threshold":
		err = m.numbers(key, value, &t.threshold)
	case "leaf_value":
		err = m.numbers(key, value, &t.score)
	}
	return err
}

func (m *lightgbm) integers(key, value string, to *[]int64) error {
	for word := range strings.FieldsSeq(value) {
		number, err := strconv.ParseInt(word, 10, 64)
		if err != nil {
			return m.fault(key, "%q, at place %d, is not an integer", clip([]byte(word)), len(*to))
		}
		*to = append(*to, number)
	}
	return nil
}

func (m *lightgbm) numbers(key, value string, to *[]float64) error {
	for word := range strings.FieldsSeq(value) {
		number, err := strconv.ParseFloat(word, 64)
		if err != nil || math.IsNaN(number) {
			return m.fault(key, "%q, at place %d, is not a number", clip([]byte(word)), len(*to))
		}
		*to = append(*to, number)
	}
	return nil
}

// assemble turns the lines of a tree into nodes: its splits and then its leaves.
func (m *lightgbm) assemble() ([]split, error) {
	t := &m.tree
	if t.linear != 0 {
		return nil, m.at("is_linear", "linear trees are not supported (hint: train with linear_tree=false)")
	}
	if t.leaves < 1 || 2*t.leaves-1 > nodesMax {
		return nil, m.at("num_leaves", "a tree of %d leaves is not supported (1 to %d)", t.leaves, (nodesMax+1)/2)
	}
	splits := int(t.leaves) - 1
	for _, column := range []struct {
		name           string
		length, wanted int
	}{
		{"leaf_value", len(t.score), splits + 1}, {"split_feature", len(t.input), splits}, {"threshold", len(t.threshold), splits},
		{"decision_type", len(t.decision), splits}, {"left_child", len(t.left), splits}, {"right_child", len(t.right), splits},
	} {
		if column.length != column.wanted {
			return nil, m.at(column.name, "%d values where num_leaves=%d wants %d", column.length, t.leaves, column.wanted)
		}
	}
	nodes := make([]split, 2*splits+1)
	for i := range splits {
		if err := m.oneSplit(&nodes[i], i); err != nil {
			return nil, err
		}
	}
	for i, score := range t.score {
		nodes[splits+i] = split{left: noChild, right: noChild, value: score}
	}
	met, wrong := checkShape(nodes)
	if wrong != nil {
		name := [...]string{ofValue: "threshold", ofInput: "split_feature", ofLeft: "left_child", ofRight: "right_child"}[wrong.property]
		return nil, m.at(name, "of split %d: %s", wrong.node, wrong.text)
	}
	if met != len(nodes) {
		return nil, m.at("left_child", "%d of %d nodes are out of the root's reach", len(nodes)-met, len(nodes))
	}
	return nodes, nil
}

// at returns a fault at the line of a key of the tree.
func (m *lightgbm) at(key, format string, arguments ...any) error {
	line := m.tree.lineOf[key]
	if line == 0 {
		line = m.line
	}
	return m.faultAt(line, key, format, arguments...)
}

// oneSplit decodes the question of a split. The bits of its decision are: categorical; a missing
// value goes left; and two for the values that count as missing.
func (m *lightgbm) oneSplit(n *split, i int) error {
	const (
		categorical = 1 << iota
		defaultLeft
		zeroMissing // else: of the bits above, one
		nanMissing  // if neither is set, a missing value is 0
	)
	t := &m.tree
	decision := t.decision[i]
	if decision < 0 || decision > 15 || decision&zeroMissing != 0 && decision&nanMissing != 0 {
		return m.at("decision_type", "%d, of split %d, is not supported", decision, i)
	}
	if t.input[i] < 0 || t.input[i] >= m.inputs {
		return m.at("split_feature", "input %d, of split %d, of a model of %d", t.input[i], i, m.inputs)
	}
	n.input = int32(t.input[i])
	for side, child := range [2]int64{t.left[i], t.right[i]} {
		if child < -t.leaves || child >= t.leaves-1 {
			return m.at([2]string{"left_child", "right_child"}[side], "%d, of split %d of %d", child, i, t.leaves-1)
		}
		if child < 0 {
			child = t.leaves - 1 + ^child
		}
		*[2]*int32{&n.left, &n.right}[side] = int32(child)
	}
	if decision&categorical != 0 {
		return m.oneSet(n, i)
	}
	n.zeroMissing = decision&zeroMissing != 0
	n.defaultLeft = decision&defaultLeft != 0
	if decision&(zeroMissing|nanMissing) == 0 {
		n.defaultLeft = 0 <= t.threshold[i]
	}
	switch limit := t.threshold[i]; { // LightGBM turns values next to zero into zero before a tree sees them
	case limit < 0 && limit >= -zeroMax:
		n.value = -zeroMax
	case limit >= 0 && limit < zeroMax:
		n.atMost(zeroMax)
	default:
		n.atMost(limit)
	}
	return nil
}

// oneSet reads the set of a categorical split: words of bits between two entries of cat_boundaries.
// Its categories go left, so oneSet swaps the sides. All other values, including missing ones, go
// right.
func (m *lightgbm) oneSet(n *split, i int) error {
	t := &m.tree
	index := int64(t.threshold[i])
	if float64(index) != t.threshold[i] || index != t.used || t.sets+1 != int64(len(t.setStarts)) || index >= t.sets {
		return m.at("threshold", "set %g, of split %d, where set %d of num_cat=%d with %d cat_boundaries should stand", t.threshold[i], i, t.used, t.sets, len(t.setStarts))
	}
	t.used++
	from, to := t.setStarts[index], t.setStarts[index+1]
	if from < 0 || from > to || to > int64(len(t.setWords)) || to-from > categoriesMax/32 {
		return m.at("cat_boundaries", "set %d is words %d to %d of %d, at most %d", index, from, to, len(t.setWords), categoriesMax/32)
	}
	first := len(m.listed)
	for at, word := range t.setWords[from:to] {
		if word < 0 || word > math.MaxUint32 {
			return m.at("cat_threshold", "%d, at place %d, is not a word of 32 bits", word, int(from)+at)
		}
		for bit := range 32 {
			if word>>bit&1 != 0 {
				m.listed = append(m.listed, int32(32*at+bit))
			}
		}
	}
	if len(m.listed) == first { // no category
		n.value = math.Inf(-1)
		return nil
	}
	n.left, n.right = n.right, n.left
	n.defaultLeft, n.set = true, segment{int32(first), int32(len(m.listed))}
	largest := m.listed[len(m.listed)-1]
	if m.setWords += setWords(largest); m.setWords > setWordsMax {
		return m.at("cat_threshold", "category %d of set %d: the sets of categories take more than %d MiB", largest, index, setWordsMax>>18)
	}
	return nil
}
