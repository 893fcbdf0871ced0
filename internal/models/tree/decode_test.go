package tree

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

type object = map[string]any
type list = []any

// sample is a model of two trees over three inputs; its second tree has a
// deleted node. A test changes it and encodes it in both formats.
func sample() object {
	tree := func(id int, left, right, input list, value list, deleted string) object {
		zeros := make(list, len(left))
		for i := range zeros {
			zeros[i] = 0
		}
		return object{
			"left_children": left, "right_children": right, "split_indices": input, "split_conditions": value,
			"default_left": slices.Clone(zeros), "split_type": zeros,
			"categories": list{}, "categories_nodes": list{}, "categories_segments": list{}, "categories_sizes": list{},
			"loss_changes": list{math.NaN(), math.Inf(1), math.Inf(-1)}, "id": id,
			"tree_param": object{"num_nodes": fmt.Sprint(len(left)), "num_deleted": deleted, "size_leaf_vector": "1"},
		}
	}
	return object{
		"learner": object{
			"attributes":    object{},
			"feature_names": list{"a", "b", "c"},
			"gradient_booster": object{"name": "gbtree", "model": object{
				"gbtree_model_param": object{"num_trees": "2"},
				"tree_info":          list{0, 0},
				"trees": list{
					tree(0, list{1, -1, 3, -1, -1}, list{2, -1, 4, -1, -1}, list{0, 0, 2, 0, 0}, list{0.5, 1.25, -2.0, 2.5, 5.0}, "0"),
					tree(1, list{-1, -1}, list{-1, -1}, list{0, math.MaxInt32}, list{0.125, 0.0}, "1"),
				},
			}},
			"learner_model_param": object{"base_score": "[1E0]", "num_feature": "3", "num_class": "0", "num_target": "1"},
			"objective":           object{"name": "reg:squarederror"},
		},
		"version": list{3, 2, 0},
	}
}

func path(root object, steps ...any) any {
	var at any = root
	for _, step := range steps {
		switch step := step.(type) {
		case string:
			at = at.(object)[step]
		case int:
			at = at.(list)[step]
		}
	}
	return at
}

func learner(o object) object    { return o["learner"].(object) }
func booster(o object) object    { return learner(o)["gradient_booster"].(object) }
func trees(o object) object      { return booster(o)["model"].(object) }
func parameters(o object) object { return learner(o)["learner_model_param"].(object) }
func tree(o object, i int) object {
	return path(trees(o), "trees", i).(object)
}

// toJSON writes what encoding/json does and NaN and infinities as XGBoost does.
func toJSON(value any) []byte {
	switch value := value.(type) {
	case object:
		var parts []string
		for _, name := range slices.Sorted(maps.Keys(value)) {
			parts = append(parts, fmt.Sprintf("%q:%s", name, toJSON(value[name])))
		}
		return []byte("{" + strings.Join(parts, ",") + "}")
	case list:
		var parts []string
		for _, element := range value {
			parts = append(parts, string(toJSON(element)))
		}
		return []byte("[" + strings.Join(parts, ", ") + "]")
	case float64:
		if math.IsNaN(value) {
			return []byte("NaN")
		}
		if math.IsInf(value, 0) {
			return []byte(map[bool]string{true: "Infinity", false: "-Infinity"}[value > 0])
		}
	}
	data, _ := json.Marshal(value)
	return data
}

// toUBJ writes typed arrays where it can, as XGBoost does.
func toUBJ(value any) []byte {
	length := func(n int) []byte { return binary.BigEndian.AppendUint64([]byte{'L'}, uint64(n)) }
	switch value := value.(type) {
	case object:
		out := []byte{'{'}
		for _, name := range slices.Sorted(maps.Keys(value)) {
			out = append(append(append(out, length(len(name))...), name...), toUBJ(value[name])...)
		}
		return append(out, '}')
	case list:
		out := append([]byte("[#"), length(len(value))...)
		floats := len(value) > 0
		for _, element := range value {
			_, float := element.(float64)
			floats = floats && float
		}
		if floats {
			out = append([]byte("[$d#"), length(len(value))...)
		}
		for _, element := range value {
			encoded := toUBJ(element)
			if floats {
				encoded = encoded[1:]
			}
			out = append(out, encoded...)
		}
		return out
	case string:
		return append(append([]byte{'S'}, length(len(value))...), value...)
	case bool:
		return []byte(map[bool]string{true: "T", false: "F"}[value])
	case int:
		return binary.BigEndian.AppendUint32([]byte{'l'}, uint32(value))
	case float64:
		return binary.BigEndian.AppendUint32([]byte{'d'}, math.Float32bits(float32(value)))
	}
	return []byte{'Z'}
}

// parseBoth parses a model as JSON and as UBJSON and requires one outcome.
func parseBoth(t *testing.T, root object) (*Model, error) {
	t.Helper()
	m, err := Parse("model", toJSON(root))
	other, otherErr := Parse("model", toUBJ(root))
	if (err == nil) != (otherErr == nil) {
		t.Fatalf("JSON: %v; UBJSON: %v", err, otherErr)
	}
	if err != nil {
		cut := func(err error) string { text, _, _ := strings.Cut(err.Error(), " at byte "); return text }
		if cut(err) != cut(otherErr) {
			t.Errorf("JSON says %q, UBJSON says %q", err, otherErr)
		}
		return nil, err
	}
	if !slices.Equal(of32(m).flat.nodes, of32(other).flat.nodes) || !slices.Equal(of32(m).flat.leaves, of32(other).flat.leaves) {
		t.Error("JSON and UBJSON make different models")
	}
	return m, nil
}

func TestSampleIsScored(t *testing.T) {
	m, err := parseBoth(t, sample())
	if err != nil {
		t.Fatal(err)
	}
	row := func(a, b, c float32) float32 {
		var out [1]float32
		m.Margins(rowsOf(a, b, c), out[:])
		return out[0]
	}
	missing := float32(math.NaN())
	for _, c := range []struct{ got, want float32 }{
		{row(0, 0, 0), 1 + 1.25 + 0.125},
		{row(0.5, 0, -2), 1 + 5 + 0.125},
		{row(1, 0, -3), 1 + 2.5 + 0.125},
		{row(missing, 0, -3), 1 + 2.5 + 0.125},
	} {
		if c.got != c.want {
			t.Errorf("margin %g, want %g", c.got, c.want)
		}
	}
}

func name(o object, objective string) { path(o, "learner", "objective").(object)["name"] = objective }

func TestWhatIsNotSupportedIsRefusedByName(t *testing.T) {
	for want, change := range map[string]func(o object){
		`booster "gblinear" is not supported: it has no trees (hint: `: func(o object) {
			learner(o)["gradient_booster"] = object{"name": "gblinear", "model": object{"weights": list{0.5, 1.0}}}
		},
		`learner.gradient_booster.name: booster "gbforest" is not supported`:               func(o object) { booster(o)["name"] = "gbforest" },
		`objective "reg:expectileerror" is not supported (hint: train with one of binary:`: func(o object) { name(o, "reg:expectileerror") },
		`learner.learner_model_param: 4 classes of 2 targets are not supported`: func(o object) {
			parameters(o)["num_class"], parameters(o)["num_target"] = "4", "2"
		},
		`5000 outputs are not supported (at most 4096)`: func(o object) { parameters(o)["num_class"] = "5000" },
		`leaves of 5000 scores are not supported`: func(o object) {
			tree(o, 1)["leaf_weights"] = list{1.0}
			tree(o, 1)["tree_param"].(object)["size_leaf_vector"] = "5000"
		},
		`trees[1]: leaves that are vectors of 3 scores without leaf_weights: XGBoost before 3.2`: func(o object) {
			tree(o, 1)["tree_param"].(object)["size_leaf_vector"] = "3"
		},
		`trees[0].split_type[2]: a split of type 2 is not supported`: func(o object) { tree(o, 0)["split_type"] = list{0, 0, 2, 0, 0} },
		`num_feature: 32768 inputs are not supported`: func(o object) {
			parameters(o)["num_feature"], learner(o)["feature_names"] = "32768", list{}
		},
		`32767 inputs, 2 of them categorical, are not supported`: func(o object) {
			parameters(o)["num_feature"], learner(o)["feature_names"] = "32767", list{}
			withSets(o)
		},
	} {
		root := sample()
		change(root)
		if _, err := parseBoth(t, root); err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "support") && !strings.Contains(err.Error(), "hint") && !strings.Contains(err.Error(), "train the model") {
			t.Errorf("error %v, want %q", err, want)
		}
	}
}

// withSets makes both splits of the first tree categorical: at the root the
// categories 1 and 40 of input 0 go right, then 0 of input 2.
func withSets(o object) {
	t := tree(o, 0)
	t["split_type"], t["default_left"] = list{1, 0, 1, 0, 0}, list{1, 0, 0, 0, 0}
	t["categories"], t["categories_nodes"] = list{1, 40, 0}, list{0, 2}
	t["categories_segments"], t["categories_sizes"] = list{0, 2}, list{2, 1}
	t["split_conditions"].(list)[0] = math.NaN()
}

// severalOutputs makes a model of three classes; its first tree has leaves of
// three scores, the second counts for class 2.
func severalOutputs(o object) {
	name(o, "multi:softmax")
	parameters(o)["num_class"], parameters(o)["base_score"] = "3", "[1E0,2E0,4E0]"
	trees(o)["tree_info"] = list{0, 2}
	t := tree(o, 0)
	t["tree_param"].(object)["size_leaf_vector"] = "3"
	t["right_children"] = list{2, 0, 4, 2, 1}
	t["leaf_weights"] = list{0.5, 0.25, 0.125, 10.0, 20.0, 30.0, -1.0, -2.0, -3.0}
}

func TestDamagedModelsAreRefusedWithThePlace(t *testing.T) {
	const place = "learner.gradient_booster.model.trees[0]"
	set := func(column string, index int, value any) func(object) {
		return func(o object) { tree(o, 0)[column].(list)[index] = value }
	}
	for want, change := range map[string]func(o object){
		place + ".left_children[0]: child 5 is not one of the 5 nodes":             set("left_children", 0, 5),
		place + ".right_children[0]: child -7 is not one of the 5 nodes":           set("right_children", 0, -7),
		place + ".left_children[1]: child -1 is not one":                           set("right_children", 1, 3),
		place + ".left_children[2]: child 0 has another parent, or is the root":    set("left_children", 2, 0),
		place + ".right_children[2]: child 2 has another parent":                   set("right_children", 2, 2),
		place + ".right_children[2]: child 3 has another parent":                   set("right_children", 2, 3),
		place + ".split_conditions[1]: a leaf's score is +Inf, not finite":         set("split_conditions", 1, math.Inf(1)),
		place + ".split_conditions[4]: a leaf's score is NaN, not finite":          set("split_conditions", 4, math.NaN()),
		place + ".split_conditions[2]: the threshold is NaN":                       set("split_conditions", 2, math.NaN()),
		place + ".split_indices[2]: the split is on input -1":                      set("split_indices", 2, -1),
		place + ".split_indices[2]: input 3 of a model of 3":                       set("split_indices", 2, 3),
		place + ": 2 of 5 nodes are out of the root's reach and 0 are marked":      func(o object) { set("left_children", 2, -1)(o); set("right_children", 2, -1)(o) },
		place + ".left_children: 5 values for 6 nodes":                             func(o object) { tree(o, 0)["tree_param"].(object)["num_nodes"] = "6" },
		place + ".right_children: 4 values for 5 nodes":                            func(o object) { tree(o, 0)["right_children"] = list{2, -1, 4, -1} },
		place + ".default_left: 0 values for 5 nodes":                              func(o object) { delete(tree(o, 0), "default_left") },
		place + ".left_children: 0 values for 0 nodes":                             func(o object) { clear(tree(o, 0)) },
		place + `.tree_param.num_nodes: "-5" is not a count`:                       func(o object) { tree(o, 0)["tree_param"].(object)["num_nodes"] = "-5" },
		"learner.gradient_booster.model.trees: 2 trees, but num_trees is 3":        func(o object) { trees(o)["gbtree_model_param"].(object)["num_trees"] = "3" },
		"learner.gradient_booster.model.tree_info: 1 values for 2 trees":           func(o object) { trees(o)["tree_info"] = list{0} },
		`learner_model_param.base_score: "[1,x]" is not a finite number or a list`: func(o object) { parameters(o)["base_score"] = "[1,x]" },
		`learner_model_param.base_score: "nan" is not a finite number`:             func(o object) { parameters(o)["base_score"] = "nan" },
		`learner_model_param.base_score: "" is not a finite number`:                func(o object) { parameters(o)["base_score"] = "" },
		"learner.learner_model_param.base_score is missing":                        func(o object) { delete(parameters(o), "base_score") },
		"learner.learner_model_param.num_feature is missing":                       func(o object) { delete(parameters(o), "num_feature") },
		"learner.learner_model_param.num_feature: a model without inputs":          func(o object) { parameters(o)["num_feature"] = "0" },
		"learner.feature_names: 3 names for 4 inputs":                              func(o object) { parameters(o)["num_feature"] = "4" },
		"learner.feature_names[1]: a string that is not UTF-8":                     func(o object) { learner(o)["feature_names"] = list{"a", "\xff", "c"} },
		"neither a booster nor an objective is named: not a model of XGBoost":      func(o object) { clear(o) },
		"learner.learner_model_param.base_score: 1.5 is not a probability": func(o object) {
			parameters(o)["base_score"] = "1.5"
			path(o, "learner", "objective").(object)["name"] = "binary:logistic"
		},
		"learner.gradient_booster.model.tree_info[1]: 1099511627776 does not fit 3": func(o object) { trees(o)["tree_info"] = list{0, int64(1) << 40} },
	} {
		root := sample()
		change(root)
		if strings.Contains(want, "1099511627776") || strings.Contains(want, "UTF-8") {
			// Only one of the formats can say it, or both in other words.
			data := toJSON(root)
			if strings.Contains(want, "UTF-8") {
				data = toUBJ(root)
			}
			if _, err := Parse("model", data); err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("error %v, want %q", err, want)
			}
			continue
		}
		if _, err := parseBoth(t, root); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want %q", err, want)
		}
	}
}

func TestOlderFormsAreRead(t *testing.T) {
	want, err := parseBoth(t, sample())
	if err != nil {
		t.Fatal(err)
	}
	for name, change := range map[string]func(o object){
		"a bare base_score":    func(o object) { parameters(o)["base_score"] = "1.000000e+00" },
		"no num_target":        func(o object) { delete(parameters(o), "num_target") },
		"no feature_names":     func(o object) { delete(learner(o), "feature_names") },
		"no split_type":        func(o object) { delete(tree(o, 0), "split_type"); delete(tree(o, 0), "categories_nodes") },
		"default_left as bool": func(o object) { tree(o, 0)["default_left"] = list{false, false, false, false, false} },
		"a deleted node with children": func(o object) {
			tree(o, 1)["left_children"], tree(o, 1)["right_children"] = list{-1, 7}, list{-1, -9}
		},
		"unknown fields": func(o object) { o["x"] = list{nil, true, object{"y": "z\n\"", "n": list{list{}, object{}}}, -1.5e-3} },
	} {
		root := sample()
		change(root)
		m, err := parseBoth(t, root)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if !slices.Equal(of32(m).flat.nodes, of32(want).flat.nodes) || of32(m).flat.outputs[0].base != of32(want).flat.outputs[0].base {
			t.Errorf("%s: another model", name)
		}
	}
}

func TestBytesThatAreNoDocumentAreRefusedWithTheOffset(t *testing.T) {
	deep := strings.Repeat("[", 100_000)
	long := binary.BigEndian.AppendUint64(nil, math.MaxInt64)
	key := "L\x00\x00\x00\x00\x00\x00\x00\x01x"
	for input, want := range map[string]string{
		"":                                       "the file is empty",
		" \n":                                    "the file is empty",
		"binf\x00":                               "neither JSON, UBJSON, text of LightGBM nor ONNX",
		"[1]":                                    "neither JSON, UBJSON, text of LightGBM nor ONNX",
		"{":                                      "the file ends where a field's name should be at byte 1",
		"{}x":                                    "bytes behind the end of the model at byte 2",
		`{"learner":3}`:                          `learner: '3' where an object should be at byte 11`,
		`{"learner":{},"learner":{}}`:            "learner: the field stands here twice",
		`{"learner" {}}`:                         `'{' where ':' should be at byte 11`,
		`{"a":1 "b":2}`:                          `'"' where ',' or '}' should be at byte 7`,
		`{"a\`:                                   "the file ends inside a field's name",
		`{"\ud":1}`:                              "a string with a malformed escape",
		`{"a":` + deep:                           "nested deeper than 64",
		`{"a":,}`:                                "a: ',' where a value should be",
		"{" + key + strings.Repeat("[", 100_000): "nested deeper than 64",
		"{" + key + "[$l#L" + string(long):       "an array of 9223372036854775807 values where 0 bytes are left",
		"{" + key + "[#L" + string(long) + "}":   "an array of 9223372036854775807 values where 1 bytes are left",
		"{" + key + "[#i\xff}":                   "an array of -1 values",
		"{" + key + "[$Z#i\x05}":                 `an array of type 'Z'`,
		"{" + key + "[$li\x05}":                  "a typed array without a count",
		"{" + key + "SL" + string(long) + "}":    "a string of 9223372036854775807 bytes where 1 are left",
		"{" + key + "Si\xffabc}":                 "a string of -1 bytes where 4 are left",
		"{" + key + "H":                          `x: type 'H', but an integer is expected`,
		"{" + key + "D\x00":                      "a number of 8 bytes where 1 are left",
		"{L\x00\x00":                             "an integer of 8 bytes where 2 are left at byte 2",
		"{S":                                     "'S' where a field's name should be at byte 1",
		"{" + key + "Z":                          "a field's name of 1 bytes where 0 are left",
		"{" + key + "Z}Z":                        "bytes behind the end of the model",
		`{"learner":{"gradient_booster":{"model":{"trees":[{"split_conditions":[1,0x10]}]}}}}`: `trees[0].split_conditions[1]: "0x10" is not a number at byte`,
		`{"learner":{"gradient_booster":{"model":{"trees":[{"split_conditions":[1e99]}]}}}}`:   `split_conditions[0]: "1e99" is not a number of 32 bits`,
		`{"learner":{"gradient_booster":{"model":{"trees":[{"left_children":[1.5]}]}}}}`:       `left_children[0]: "1.5" is not an integer`,
	} {
		_, err := Parse("model", []byte(input))
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.60q: error %v, want %q", input, err, want)
		}
	}
}

func TestEveryPrefixOfAModelIsRefused(t *testing.T) {
	for i, data := range append(samples(), unpack(t, "testdata/small-stump.ubj.gz")) {
		for n := 0; n < len(data); n += []int{1, 7}[min(1, i/2)] { // each prefix of the first form
			if _, err := Parse("model", data[:n]); err == nil {
				t.Fatalf("the first %d of %d bytes are a model", n, len(data))
			}
		}
	}
}

// samples are models of each form, as JSON and UBJSON.
func samples() [][]byte {
	var files [][]byte
	for _, change := range []func(object){
		func(object) {}, withSets, severalOutputs,
		func(o object) { trees(o)["weight_drop"] = list{0.5, 0.25} },
		func(o object) {
			labels(object{"offsets": list{0, 1, 3}, "values": list{97, 98, 99}}, object{"type": 15, "values": list{7, -7}}, object{})(o)
			learner(o)["gradient_booster"] = object{"name": "dart", "gbtree": booster(o), "weight_drop": list{0.5, 0.25}}
		},
	} {
		root := sample()
		change(root)
		files = append(files, toJSON(root), toUBJ(root))
	}
	return files
}

// A damaged byte may make another model, but neither a panic nor a model that
// cannot be scored.
func TestDamagedBytesNeverPanic(t *testing.T) {
	const seed = 11
	random := rand.New(rand.NewPCG(seed, 0))
	refused := 0
	for _, data := range samples() {
		for i := range data {
			for range 2 {
				damaged := slices.Clone(data)
				damaged[i] ^= byte(1 + random.IntN(255))
				m, err := Parse("model", damaged)
				if err != nil {
					refused++
					continue
				}
				m.Margins(rowsOf(make([]float32, m.info.Width())...), make([]float32, m.MarginsPerRow()))
			}
		}
	}
	if refused < 4000 {
		t.Errorf("seed %d: only %d damaged models were refused", seed, refused)
	}
}

func TestLoadReportsWhatIsNotAFile(t *testing.T) {
	folder := t.TempDir()
	if _, err := Load(filepath.Join(folder, "absent.json")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("absent file: %v", err)
	}
	if _, err := Load(folder); err == nil || !strings.Contains(err.Error(), "not a regular file") {
		t.Errorf("folder: %v", err)
	}
	huge := filepath.Join(folder, "huge.json")
	if err := os.WriteFile(huge, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(huge, fileMax+1); err != nil {
		t.Fatal(err)
	}
	if _, err := Load(huge); err == nil || !strings.Contains(err.Error(), "the limit is 1073741824") {
		t.Errorf("huge file: %v", err)
	}
}

func FuzzParse(f *testing.F) {
	for _, data := range samples() {
		f.Add(data)
	}
	for _, name := range []string{"small-stump.ubj", "small-leaf.json", "kind-3.2.0-single.ubj", "kind-3.4.1-vector.ubj"} {
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
		m.Margins(row, make([]float32, m.MarginsPerRow()))
		if err := m.Predict(context.Background(), row, make([]float32, info.Scores())); err != nil {
			t.Fatal(err)
		}
	})
}
