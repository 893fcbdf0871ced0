package tree

import (
	"bytes"
	"context"
	"math"
	"slices"
	"strconv"
	"strings"
	"testing"

	"google.golang.org/protobuf/encoding/protowire"
)

const smallLightGBM = `tree
version=v4
num_class=1
num_tree_per_iteration=1
label_index=0
max_feature_idx=1
objective=binary sigmoid:1
feature_names=age shop
feature_infos=[0:1] 0:1:2
tree_sizes=1 2

Tree=0
num_leaves=3
num_cat=1
split_feature=0 1
split_gain=1 1
threshold=0.1 0
decision_type=10 1
left_child=1 -1
right_child=-3 -2
leaf_value=0.25 -1.5 3
cat_boundaries=0 1
cat_threshold=5
is_linear=0
shrinkage=1


Tree=1
num_leaves=1
num_cat=0
leaf_value=0.1
is_linear=0
shrinkage=1


end of trees

feature_importances:
age=1

parameters:
end of parameters

pandas_categorical:[["here", "there", 7]]
`

const smallCatBoost = `{"features_info": {"float_features": [
 {"borders": [0.5], "feature_id": "age", "feature_index": 0, "flat_feature_index": 0, "nan_value_treatment": "AsTrue"},
 {"borders": [2.5], "feature_id": "size", "feature_index": 1, "flat_feature_index": 1, "nan_value_treatment": "AsIs"}]},
 "model_info": {"params": {"loss_function": {"params": {}, "type": "RMSE"}}},
 "oblivious_trees": [{"leaf_values": [1, 2, 3, 4.5], "splits": [
  {"border": 0.5, "float_feature_index": 0, "split_type": "FloatFeature"}, {"border": 2.5, "float_feature_index": 1, "split_type": "FloatFeature"}]}],
 "scale_and_bias": [2, [0.125]]}`

// message writes a protobuf message of fields: numbers, float32, texts, messages
// and lists of them.
func message(pairs ...any) []byte {
	var data []byte
	for i := 0; i < len(pairs); i += 2 {
		number := protowire.Number(pairs[i].(int))
		switch value := pairs[i+1].(type) {
		case int:
			data = protowire.AppendVarint(protowire.AppendTag(data, number, protowire.VarintType), uint64(value))
		case float32:
			data = protowire.AppendFixed32(protowire.AppendTag(data, number, protowire.Fixed32Type), math.Float32bits(value))
		case string:
			data = protowire.AppendString(protowire.AppendTag(data, number, protowire.BytesType), value)
		case []byte:
			data = protowire.AppendBytes(protowire.AppendTag(data, number, protowire.BytesType), value)
		case []int:
			for _, v := range value {
				data = append(data, message(pairs[i], v)...)
			}
		case []float32:
			for _, v := range value {
				data = append(data, message(pairs[i], v)...)
			}
		case []string:
			for _, v := range value {
				data = append(data, message(pairs[i], v)...)
			}
		case [][]byte:
			for _, v := range value {
				data = append(data, message(pairs[i], v)...)
			}
		}
	}
	return data
}

// onnxModel is what a test changes of a small model: a tree of one split and two
// leaves.
type onnxModel struct {
	op         string
	attributes map[string]any
	more       [][]byte // nodes behind it
	output     string
	inputKind  int
	outputs    int // times that the output stands there
}

func smallONNX() *onnxModel {
	return &onnxModel{
		op: "TreeEnsembleRegressor", output: "Y", inputKind: 1, outputs: 1,
		attributes: map[string]any{
			"n_targets": 1, "nodes_treeids": []int{4, 4, 4}, "nodes_nodeids": []int{0, 1, 2}, "nodes_featureids": []int{1, 0, 0},
			"nodes_modes": []string{"BRANCH_LEQ", "LEAF", "LEAF"}, "nodes_values": []float32{0.5, 0, 0}, "nodes_truenodeids": []int{1, 0, 0},
			"nodes_falsenodeids": []int{2, 0, 0}, "target_treeids": []int{4, 4}, "target_nodeids": []int{1, 2}, "target_ids": []int{0, 0},
			"target_weights": []float32{1.5, -2},
		},
	}
}

func onnxNodeOf(op, name string, inputs []string, output string, attributes map[string]any) []byte {
	outputs := []string{output}
	if op == "TreeEnsembleClassifier" {
		outputs = []string{"label", output}
	}
	node := message(1, inputs, 2, outputs, 3, name, 4, op, 7, "ai.onnx.ml")
	for name, value := range attributes {
		field := 3
		switch value.(type) {
		case float32:
			field = 2
		case string:
			field = 4
		case []byte:
			field = 5
		case []float32:
			field = 7
		case []int:
			field = 8
		case []string:
			field = 9
		}
		node = append(node, message(5, message(1, name, field, value))...)
	}
	return node
}

func (m *onnxModel) bytes() []byte {
	value := func(name string, kind int) []byte {
		shape := message(1, message(2, "rows"), 1, message(1, 2))
		return message(1, name, 2, message(1, message(1, kind, 2, shape)))
	}
	graph := message(1, onnxNodeOf(m.op, "trees", []string{"X"}, "Y", m.attributes), 1, m.more, 11, value("X", m.inputKind))
	for range m.outputs {
		graph = append(graph, message(12, value(m.output, 1))...)
	}
	return message(1, 8, 2, "test", 7, graph, 8, message(1, "", 2, 18))
}

func TestSmallFilesOfEachFormatAreScored(t *testing.T) {
	missing := float32(math.NaN())
	for name, c := range map[string]struct {
		file    []byte
		kind    string
		names   []string
		margins map[[2]float32]float64
	}{
		"lightgbm": {[]byte(smallLightGBM), "lightgbm", []string{"age", "shop"}, map[[2]float32]float64{
			{0, 2}: 0.25 + 0.1, {0, -0.5}: 0.25 + 0.1, {0, 1}: -1.5 + 0.1, {0, missing}: -1.5 + 0.1, {0, 33}: -1.5 + 0.1,
			{0.1, 0}: 3 + 0.1, {math.Nextafter32(0.1, 0), 0}: 0.25 + 0.1, {missing, 0}: 0.25 + 0.1, // 0.1 in float32 is above that of float64
		}},
		"catboost": {[]byte(smallCatBoost), "catboost", []string{"age", "size"}, map[[2]float32]float64{
			{0.5, 0}: 2.125, {missing, 0}: 4.125, {0, 3}: 6.125, {1, 3}: 9.125, {0, missing}: 2.125, {1, float32(math.Inf(1))}: 9.125,
		}},
		"onnx": {smallONNX().bytes(), "onnx-trees", nil, map[[2]float32]float64{{0, 0.5}: 1.5, {0, missing}: -2, {0, math.Nextafter32(0.5, 1)}: -2}},
	} {
		m, err := Parse(name, c.file)
		if err != nil {
			t.Error(err)
			continue
		}
		if info := m.Info(); info.Kind != c.kind || !slices.Equal(info.Names(), c.names) || info.Width() != 2 || info.Scores() != 1 {
			t.Errorf("%s: %+v", name, info)
		}
		for row, want := range c.margins {
			var got [1]float64
			if m.Margins64(rowsOf(row[:]...), got[:]); got[0] != want {
				t.Errorf("%s: %v has margin %v, want %v", name, row, got[0], want)
			}
		}
	}
}

func TestPandasCategoriesAreLabels(t *testing.T) {
	m, err := Parse("model", []byte(smallLightGBM))
	if err != nil {
		t.Fatal(err)
	}
	if got := m.Categories(1); !slices.Equal(got, []string{"here", "there", "7"}) || m.Categories(0) != nil {
		t.Errorf("%q", got)
	}
	for lists, want := range map[string]string{
		`[["a"], ["here", "there"]]`:  "",
		`[[0, 1], [false, true]]`:     "",
		`[["a"], [10, 20, 35]]`:       "does not name the columns of the categories 10, 20, 35",
		`[["a"], ["1", "0"]]`:         "does not name the columns of the categories 1, 0",
		`[["a"], ["here", 7]]`:        "does not name the columns of the categories here, 7",
		`[[1, 2, "1"]]`:               `category "1" stands there twice`,
		`[["here", "there", "here"]]`: `category "here" stands there twice`,
	} {
		m, err := Parse("model", []byte(strings.Replace(smallLightGBM, `[["here", "there", 7]]`, lists, 1)))
		switch {
		case want != "":
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%s: %v", lists, err)
			}
		case err != nil || m.Categories(1) != nil || !strings.Contains(m.Info().Describe, "2 columns of pandas categories"):
			t.Errorf("%s: %v", lists, err)
		}
	}
}

func TestDamagedLightGBMIsRefusedWithLineAndKey(t *testing.T) {
	for want, change := range map[string][2]string{
		`line 2: version: "v9" is not supported`:                                     {"version=v4", "version=v9"},
		`version or max_feature_idx is missing`:                                      {"max_feature_idx=1\n", ""},
		`line 8: version: the key stands here twice`:                                 {"feature_names=", "version=v4\nfeature_names="},
		`feature_names: 3 names for 2 inputs`:                                        {"feature_names=age", "feature_names=age more"},
		`num_tree_per_iteration: 0 outputs`:                                          {"num_tree_per_iteration=1", "num_tree_per_iteration=0"},
		`2 trees are not a multiple of num_tree_per_iteration=3`:                     {"num_tree_per_iteration=1", "num_tree_per_iteration=3"},
		`objective: "frobnicate" is not supported (hint: train with one of binary`:   {"objective=binary", "objective=frobnicate"},
		`objective: "-1" is not the slope`:                                           {"sigmoid:1", "sigmoid:-1"},
		`tree 0: line 24: is_linear: linear trees are not supported (hint: train wi`: {"is_linear=0", "is_linear=1"},
		`tree 0: line 13: num_leaves: a tree of 0 leaves`:                            {"num_leaves=3", "num_leaves=0"},
		`tree 0: line 21: leaf_value: 2 values where num_leaves=3 wants 3`:           {"leaf_value=0.25 -1.5 3", "leaf_value=0.25 3"},
		`line 21: leaf_value: "x", at place 1, is not a number`:                      {"leaf_value=0.25 -1.5", "leaf_value=0.25 x"},
		`line 17: threshold: "nan", at place 0, is not a number`:                     {"threshold=0.1", "threshold=nan"},
		`of split 2: a leaf's score is +Inf, not finite`:                             {"leaf_value=0.25", "leaf_value=inf"},
		`line 15: split_feature: input 2, of split 0, of a model of 2`:               {"split_feature=0 1", "split_feature=2 1"},
		`line 19: left_child: 7, of split 0 of 2`:                                    {"left_child=1 -1", "left_child=7 -1"},
		`line 19: left_child: of split 0: child 0 has another parent, or is the ro`:  {"left_child=1 -1", "left_child=0 -1"},
		`line 20: right_child: of split 1: child 2 has another parent`:               {"right_child=-3 -2", "right_child=-3 -1"},
		`line 18: decision_type: 12, of split 0, is not supported`:                   {"decision_type=10 1", "decision_type=12 1"},
		`threshold: set 1, of split 1, where set 0 of num_cat=1`:                     {"threshold=0.1 0", "threshold=0.1 1"},
		`cat_boundaries: set 0 is words 0 to 2 of 1`:                                 {"cat_boundaries=0 1", "cat_boundaries=0 2"},
		`cat_threshold: 4294967296, at place 0, is not a word`:                       {"cat_threshold=5", "cat_threshold=4294967296"},
		`the file ends before the line "end of trees"`:                               {"end of trees", ""},
		`line 28: Tree: "5" where tree 1 should stand`:                               {"Tree=1", "Tree=5"},
		`pandas_categorical: invalid character`:                                      {`["here"`, `[here`},
	} {
		file := strings.Replace(smallLightGBM, change[0], change[1], 1)
		if want == `the file ends before the line "end of trees"` {
			file = file[:strings.Index(file, "feature_importances")]
		}
		if _, err := Parse("m.txt", []byte(file)); err == nil || !strings.Contains(err.Error(), want) || !strings.HasPrefix(err.Error(), "model m.txt: ") {
			t.Errorf("error %v, want %q", err, want)
		}
	}
}

func TestDamagedCatBoostIsRefusedWithThePlace(t *testing.T) {
	for want, change := range map[string][2]string{
		"features_info.categorical_features[0]: categorical features, which CatBoost counts in tables (CTR)": {`"features_info": {`, `"features_info": {"categorical_features": [{}], `},
		"features_info.ctrs[0]: tables of counts (CTR) are not supported (hint: give CatBoost numbers":       {`"features_info": {`, `"features_info": {"ctrs": [{}], `},
		`oblivious_trees[0].splits[0].split_type: "OnlineCtr" is not supported`:                              {`"split_type": "FloatFeature"`, `"split_type": "OnlineCtr"`},
		"oblivious_trees[0].splits[0].float_feature_index: feature 2 of 2":                                   {`"float_feature_index": 0`, `"float_feature_index": 2`},
		"oblivious_trees[0].splits[0].border: the border is missing or NaN":                                  {`"border": 0.5,`, ``},
		"oblivious_trees[0]: 5 scores for 4 leaves":                                                          {`[1, 2, 3`, `[1, 2, 3, 4`},
		"oblivious_trees[0]: a tree of depth 2 with 3 leaf_values":                                           {`[1, 2, 3, `, `[1, 2, `},
		"oblivious_trees[0].leaf_values[1]: +Inf is not finite":                                              {`[1, 2`, `[1, Infinity`},
		"features_info.float_features[1].feature_index: feature 7 is at place 1":                             {`"feature_index": 1`, `"feature_index": 7`},
		"features_info.float_features[1].flat_feature_index: input 0 is not supported":                       {`"flat_feature_index": 1`, `"flat_feature_index": 0`},
		`nan_value_treatment: "Odd" is not supported`:                                                        {`AsTrue`, `Odd`},
		"scale_and_bias: 2 biases for 1 outputs":                                                             {`[0.125]`, `[0.125, 1]`},
		"scale_and_bias: the scale is 0":                                                                     {`[2, [`, `[0, [`},
		"RMSEWithUncertainty is not supported (hint: train with RMSE)":                                       {`"RMSE"`, `"RMSEWithUncertainty"`},
		"neither oblivious_trees nor trees":                                                                  {`"oblivious_trees"`, `"oblivious_bushes"`},
		"at byte":                                                                                            {`"leaf_values": [`, `"leaf_values": ["`},
	} {
		file := strings.Replace(smallCatBoost, change[0], change[1], 1)
		if _, err := Parse("m.json", []byte(file)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want %q", err, want)
		}
	}
}

// set changes an attribute of the trees.
func set(name string, value any) func(*onnxModel) {
	return func(m *onnxModel) { m.attributes[name] = value }
}

func TestDamagedONNXIsRefusedWithNodeAndAttribute(t *testing.T) {
	behind := func(op string, inputs ...string) func(*onnxModel) {
		return func(m *onnxModel) {
			m.output, m.more = "Z", [][]byte{onnxNodeOf(op, "last", inputs, "Z", nil)}
		}
	}
	for want, change := range map[string]func(*onnxModel){
		`graph.node[0] "trees", TreeEnsembleRegressor: node 0: mode BRANCH_EQ is not supported (hint: split on`: set("nodes_modes", []string{"BRANCH_EQ", "LEAF", "LEAF"}),
		`nodes_modes[0]: mode "BRANCH" is not known`:                                                            set("nodes_modes", []string{"BRANCH", "LEAF", "LEAF"}),
		`nodes_modes: not 3 values`:                                                                             set("nodes_modes", []string{"LEAF"}),
		`nodes_values: 2 values for 3 nodes`:                                                                    set("nodes_values", []float32{1, 2}),
		`node 0: the threshold is NaN`:                                                                          set("nodes_values", []float32{float32(math.NaN()), 0, 0}),
		`nodes_truenodeids[0]: no node 9 in its tree`:                                                           set("nodes_truenodeids", []int{9, 0, 0}),
		`nodes_truenodeids or nodes_falsenodeids[0]: child 0 has another parent, or is`:                         set("nodes_truenodeids", []int{0, 0, 0}),
		`nodes_falsenodeids or nodes_truenodeids[0]: child 1 has another parent`:                                set("nodes_falsenodeids", []int{1, 0, 0}),
		`nodes_featureids: input 2, of tree 0, of 2 columns`:                                                    set("nodes_featureids", []int{2, 0, 0}),
		`nodes_featureids: input -1 is not supported`:                                                           set("nodes_featureids", []int{-1, 0, 0}),
		`nodes_nodeids[1]: node 0 occurs in its tree twice`:                                                     set("nodes_nodeids", []int{0, 0, 2}),
		`nodes_treeids[2]: the nodes of tree 4 are not beside each other`: func(m *onnxModel) {
			set("nodes_treeids", []int{4, 5, 4})(m)
			set("nodes_modes", []string{"LEAF", "LEAF", "LEAF"})(m)
		},
		`nodes_treeids[0]: 2 nodes of the tree are out of its root's reach`: set("nodes_modes", []string{"LEAF", "LEAF", "LEAF"}),
		`tree 0: 1 scores for 2 leaves`: func(m *onnxModel) {
			for name, value := range map[string]any{"treeids": []int{4}, "nodeids": []int{1}, "ids": []int{0}, "weights": []float32{1}} {
				set("target_"+name, value)(m)
			}
		},
		`tree 0: a leaf has two scores for output 0`:                                         set("target_nodeids", []int{1, 1}),
		`target_ids[1]: output -1 is not supported`:                                          set("target_ids", []int{0, -1}),
		`target_ids[1]: a leaf's score is +Inf`:                                              set("target_weights", []float32{1, float32(math.Inf(1))}),
		`tree 0: output 1 of a model of 1`:                                                   set("target_ids", []int{0, 1}),
		`target_nodeids[0]: no node 8 in tree 4`:                                             set("target_nodeids", []int{8, 2}),
		`n_targets: 0 outputs`:                                                               set("n_targets", 0),
		`aggregate_function: "MIN" is not supported (SUM and AVERAGE are)`:                   set("aggregate_function", "MIN"),
		`post_transform: "PROBIT", or number 4, is not supported`:                            set("post_transform", "PROBIT"),
		`base_values: 2 values for 1 outputs`:                                                set("base_values", []float32{1, 2}),
		`graph.input "X": type 8 is not supported`:                                           func(m *onnxModel) { m.inputKind = 8 },
		`float32 thresholds for float64 inputs are not supported (hint: convert`:             func(m *onnxModel) { m.inputKind = 11 },
		`graph.output: 2 outputs of scores, ["Y" "Y"], where one is supported`:               func(m *onnxModel) { m.outputs = 2 },
		`graph.node[1] "last", Scaler: the node is not supported in a model of trees (hint:`: behind("Scaler", "Y"),
		`graph.node[1] "last", Add: an operand that is neither a number that`:                behind("Add", "Y", "X"),
		`graph.node[1] "last", Add: input "W" is not an output of a node above`:              behind("Add", "Y", "W"),
		`graph.output "X": it has no scores of trees`:                                        func(m *onnxModel) { m.output = "X" },
	} {
		m := smallONNX()
		change(m)
		if _, err := Parse("m.onnx", m.bytes()); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want %q", err, want)
		}
	}
}

func TestDamagedClassifiersOfONNXAreRefused(t *testing.T) {
	classes := func(more func(*onnxModel)) func(*onnxModel) {
		return func(m *onnxModel) {
			m.op = "TreeEnsembleClassifier"
			for _, name := range []string{"treeids", "nodeids", "ids", "weights"} {
				m.attributes["class_"+name] = m.attributes["target_"+name]
			}
			m.attributes["classlabels_int64s"] = []int{0, 1}
			more(m)
		}
	}
	for want, change := range map[string]func(*onnxModel){
		`classlabels_int64s and classlabels_strings: 1 classes`:                                classes(set("classlabels_int64s", []int{0})),
		`base_values: of two classes that have a score each, or two values, are not supported`: classes(set("base_values", []float32{1, 2})),
		`tree 0: class 2 of 2`:                                classes(set("class_ids", []int{0, 2})),
		`a leaf without a score for class 1 is not supported`: classes(set("class_ids", []int{0, 1})),
	} {
		m := smallONNX()
		change(m)
		if _, err := Parse("m.onnx", m.bytes()); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want %q", err, want)
		}
	}
}

func TestCutONNXIsRefused(t *testing.T) {
	whole := smallONNX().bytes()
	for cut := range whole {
		if _, err := Parse("m.onnx", whole[:cut]); err == nil && cut > 0 && bytes.Contains(whole[cut:], []byte("nodes_")) {
			t.Errorf("the first %d bytes are a model", cut)
		}
	}
}

// Each node picks 30,000 columns by a constant that all share.
func TestSmallGraphsOfONNXTakeBoundedMemory(t *testing.T) {
	places := slices.Repeat([]byte{0}, 30_000) // packed int64
	nodes := [][]byte{onnxNodeOf("Constant", "", nil, "places", map[string]any{"value": message(1, len(places), 2, 7, 7, places)})}
	from := "X"
	for i := range symbolsMax/len(places) + 1 {
		to := strconv.Itoa(i)
		nodes = append(nodes, onnxNodeOf("Gather", "", []string{from, "places"}, to, map[string]any{"axis": 1}))
		from = to
	}
	nodes = append(nodes, onnxNodeOf("TreeEnsembleRegressor", "", []string{from}, "Y", smallONNX().attributes))
	value := func(name string) []byte {
		return message(1, name, 2, message(1, message(1, 1, 2, message(1, message(2, "rows"), 1, message(1, 2)))))
	}
	_, err := Parse("m.onnx", message(1, 8, 7, message(1, nodes, 11, value("X"), 12, value("Y"))))
	if err == nil || !strings.Contains(err.Error(), "the nodes down to here make more than 33554432 numbers") {
		t.Errorf("%v", err)
	}
}

func FuzzParseFormats(f *testing.F) {
	f.Add([]byte(smallLightGBM))
	f.Add([]byte(smallCatBoost))
	f.Add([]byte(strings.Replace(smallCatBoost, `"oblivious_trees": [{`, `"trees": [{"left": {"value": [1]}, "right": {"value": 2}, "split": {"border": 1, "float_feature_index": 1, "split_type": "FloatFeature"}}], "oblivious": [{`, 1)))
	f.Add(smallONNX().bytes())
	for _, name := range []string{"lightgbm-stump.txt", "catboost-quantile.json", "onnx-tree.onnx", "onnx-ensemble.onnx", "onnx-isolation.onnx", "onnx-double.onnx", "onnx-tree-regressor.onnx"} {
		f.Add(unpack(f, "testdata/"+name+".gz"))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		m, err := Parse("model", data)
		if err != nil {
			return
		}
		info := m.Info()
		if info.Width() < 1 || info.Width() > inputsMax || len(info.Names()) > 0 && len(info.Names()) != info.Width() {
			t.Fatalf("%+v", info)
		}
		row := rowsOf(make([]float32, info.Width())...)
		m.Margins64(row, make([]float64, m.MarginsPerRow()))
		if err := m.Predict(context.Background(), row, make([]float32, info.Scores())); err != nil {
			t.Fatal(err)
		}
	})
}

// Columns that a graph puts into another order, and a sum over trees in the order
// in which it names them: the numbers tell the orders apart.
func TestGraphsOfONNXKeepColumnsAndOrder(t *testing.T) {
	value := func(name string) []byte {
		return message(1, name, 2, message(1, message(1, 1, 2, message(1, message(2, "rows"), 1, message(1, 2)))))
	}
	one := func(score float32) map[string]any {
		m := smallONNX()
		m.attributes["target_weights"] = []float32{score, 2 * score}
		return m.attributes
	}
	places := message(1, 2, 2, 7, 7, 1, 7, 0) // int64: 1, 0
	nodes := [][]byte{
		onnxNodeOf("Constant", "", nil, "places", map[string]any{"value": places}),
		onnxNodeOf("Gather", "", []string{"X", "places"}, "swapped", map[string]any{"axis": 1}),
		onnxNodeOf("TreeEnsembleRegressor", "", []string{"swapped"}, "a", one(1<<24)),
		onnxNodeOf("TreeEnsembleRegressor", "", []string{"swapped"}, "b", one(1)),
		onnxNodeOf("TreeEnsembleRegressor", "", []string{"X"}, "c", one(-1<<24)),
		onnxNodeOf("Neg", "", []string{"b"}, "d", nil),
		onnxNodeOf("Sum", "", []string{"a", "c", "d"}, "Y", nil),
	}
	m, err := Parse("m.onnx", message(1, 8, 7, message(1, nodes, 11, value("X"), 12, value("Y"))))
	if err != nil {
		t.Fatal(err)
	}
	for row, want := range map[[2]float32]float64{
		{0, 0}: -1,                // 2^24 - 2^24 - 1; in another order 1 is lost
		{1, 0}: 1<<25 - 1<<24 - 2, // the first two see column 0, the third column 1
		{0, 1}: 1<<24 - 1<<25,     // less 1, which float32 does not hold
	} {
		var got [1]float64
		if m.Margins64(rowsOf(row[:]...), got[:]); got[0] != want {
			t.Errorf("%v: margin %v, want %v", row, got[0], want)
		}
	}
	if m.Info().Trees != 3 {
		t.Errorf("%+v", m.Info())
	}
}
