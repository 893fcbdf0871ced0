package tree

import (
	"context"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/afterbay/afterbay/model"
)

// scoreOf returns margins and scores of one row.
func scoreOf(t *testing.T, m *Model, row ...float32) (margins, scores []float32) {
	t.Helper()
	margins, scores = make([]float32, m.MarginsPerRow()), make([]float32, m.Info().Scores())
	m.Margins(rowsOf(row...), margins)
	if err := m.Predict(context.Background(), rowsOf(row...), scores); err != nil {
		t.Fatal(err)
	}
	return margins, scores
}

// changed parses the sample after changes, in both formats.
func changed(t *testing.T, changes ...func(object)) *Model {
	t.Helper()
	root := sample()
	for _, change := range changes {
		change(root)
	}
	m, err := parseBoth(t, root)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// Listed categories go right. What is no category goes left, whatever the
// default; a missing value goes where the default is.
func TestListedCategoriesGoRight(t *testing.T) {
	missing := float32(math.NaN())
	rights := map[float32]bool{
		0: false, 1: true, 1.5: true, 1.9999999: true, 2: false, 40: true, 40.5: true, 41: false, 39.999: false,
		float32(math.Copysign(0, -1)): false, 0.5: false, -0.5: false, -1: false, -40: false, 1e9: false,
		1<<24 - 1: false, 1 << 24: false, math.MaxFloat32: false, -math.MaxFloat32: false,
		4294967297: false, 8589934632: false, // 1 and 40 behind 32 bits
	}
	const left, right = 1.25, -2.0
	for _, defaultLeft := range []int{0, 1} {
		m := changed(t, withSets, func(o object) { tree(o, 0)["default_left"] = list{defaultLeft, 0, 0, 0, 0} })
		want := func(goesRight bool) float32 { return 1 + 0.125 + map[bool]float32{true: 2.5, false: left}[goesRight] }
		for value, goesRight := range rights {
			if got, _ := scoreOf(t, m, value, 0, -1); got[0] != want(goesRight) {
				t.Errorf("default left %d: category %g has margin %g, want %g", defaultLeft, value, got[0], want(goesRight))
			}
		}
		if got, _ := scoreOf(t, m, missing, 0, -1); got[0] != want(defaultLeft == 0) {
			t.Errorf("default left %d: a missing category has margin %g", defaultLeft, got[0])
		}
	}
	m := changed(t, withSets)
	if got, _ := scoreOf(t, m, 1, 0, 0); got[0] != 1+5+0.125 {
		t.Errorf("category 0 of the second split has margin %g", got[0])
	}
}

func TestLargestCategoryIsKnown(t *testing.T) {
	m := changed(t, withSets, func(o object) { tree(o, 0)["categories"] = list{1, categoriesMax - 1, 0} })
	if got, _ := scoreOf(t, m, categoriesMax-1, 0, -1); got[0] != 1+2.5+0.125 {
		t.Errorf("margin %g", got[0])
	}
	if got, _ := scoreOf(t, m, categoriesMax, 0, -1); got[0] != 1+1.25+0.125 {
		t.Errorf("one more: margin %g", got[0])
	}
}

func TestDamagedSetsAreRefusedWithThePlace(t *testing.T) {
	const place = "learner.gradient_booster.model.trees[0]"
	set := func(column string, index int, value any) func(object) {
		return func(o object) { tree(o, 0)[column].(list)[index] = value }
	}
	for want, change := range map[string]func(o object){
		place + ".categories_nodes[1]: 0 is not the next categorical split":            set("categories_nodes", 1, 0),
		place + ".categories_nodes[1]: 9 is not the next":                              set("categories_nodes", 1, 9),
		place + ".categories_nodes[0]: -1 is not the next":                             set("categories_nodes", 0, -1),
		place + ".categories_nodes[0]: 1 is not the next":                              set("categories_nodes", 0, 1),
		place + ".categories_segments[1]: 1 categories from place 1, where 2 of 3":     set("categories_segments", 1, 1),
		place + ".categories_segments[0]: 2 categories from place 1, where 0 of 3":     set("categories_segments", 0, 1),
		place + ".categories_segments[1]: 2 categories from place 2, where 2 of 3":     set("categories_sizes", 1, 2),
		place + ".categories_segments[0]: 0 categories from":                           set("categories_sizes", 0, 0),
		place + ".categories_segments[0]: category -1 behind -1":                       set("categories", 0, -1),
		place + ".categories_segments[0]: category 16777216 behind 1 (":                set("categories", 1, 1<<24),
		place + ".categories_segments[0]: category 1 behind 1 (":                       set("categories", 1, 1),
		place + ".categories_nodes: 2 nodes, 1 segments and 2 sizes for 2 categorical": func(o object) { tree(o, 0)["categories_segments"] = list{0} },
		place + ".categories_nodes: 2 nodes, 2 segments and 2 sizes for 1 categorical": set("split_type", 0, 0),
		place + ".split_type: 4 values for 5 nodes":                                    func(o object) { tree(o, 0)["split_type"] = list{1, 0, 1, 0} },
		"learner.gradient_booster.model.cats.enc: categories of 1 inputs of 3":         labels(object{"type": 15, "values": list{1}}),
		"cats.enc[0].offsets: not the places of texts":                                 labels(object{"offsets": list{0, 2, 1}, "values": list{97, 98}}),
		"cats.enc[1].offsets: not the places":                                          labels(object{}, object{"offsets": list{0, 3}, "values": list{97, 98}}),
		"model.trees[1].id: tree 0 is at place 1":                                      func(o object) { tree(o, 1)["id"] = 0 },
		"learner.gradient_booster.weight_drop: 0 weights for 2 trees":                  func(o object) { booster(o)["name"] = "dart" },
		"learner.gradient_booster.weight_drop: 1 weights for 2 trees":                  func(o object) { trees(o)["weight_drop"] = list{1.0} },
		"learner.gradient_booster.weight_drop[1]: weight NaN makes":                    func(o object) { trees(o)["weight_drop"] = list{1.0, math.NaN()} },
		"learner.learner_model_param.base_score: 2 values for 1 outputs":               func(o object) { parameters(o)["base_score"] = "[1E0,2E0]" },
		"base_score: 0 has no logarithm, which count:poisson adds to":                  func(o object) { name(o, "count:poisson"); parameters(o)["base_score"] = "0" },
		"num_class: multi:softprob without classes":                                    func(o object) { name(o, "multi:softprob") },
		"tree_info[1]: output 1 of a model of 1":                                       func(o object) { trees(o)["tree_info"] = list{0, 1} },
		"tree_info[0]: output -1 of a model of 1":                                      func(o object) { trees(o)["tree_info"] = list{-1, 0} },
		place + ".tree_param.size_leaf_vector: 3 scores for 4 outputs":                 func(o object) { severalOutputs(o); parameters(o)["num_class"], parameters(o)["base_score"] = "4", "1" },
		place + ".right_children[3]: leaf 3 of 3":                                      func(o object) { severalOutputs(o); set("right_children", 3, 3)(o) },
		place + ".right_children[1]: leaf -1 of 3":                                     func(o object) { severalOutputs(o); set("right_children", 1, -1)(o) },
		place + ".split_conditions[4]: a leaf's score is NaN":                          func(o object) { severalOutputs(o); set("leaf_weights", 4, math.NaN())(o) },
		"learner.learner_model_param.base_score: 2 values for 3 outputs":               func(o object) { severalOutputs(o); parameters(o)["base_score"] = "[1E0,2E0]" },
		"learner.learner_model_param.base_score: -1 is not a probability":              func(o object) { name(o, "reg:logistic"); parameters(o)["base_score"] = "-1" },
	} {
		root := sample()
		withSets(root)
		change(root)
		if _, err := parseBoth(t, root); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want %q", err, want)
		}
	}
}

// labels gives a model the labels of its categories.
func labels(enc ...any) func(object) {
	return func(o object) {
		trees(o)["cats"] = object{"enc": list(enc), "feature_segments": list{0}, "sorted_idx": list{}}
	}
}

// Each set of one large category takes 2 MiB: 128 of them are too many, and the
// file is small.
func TestSetsTakeBoundedMemory(t *testing.T) {
	root := sample()
	withSets(root)
	t0 := tree(root, 0)
	t0["categories"] = list{categoriesMax - 1, categoriesMax - 2}
	t0["categories_segments"], t0["categories_sizes"] = list{0, 1}, list{1, 1}
	var many list
	for i := range 70 {
		clone := object{}
		for key, value := range t0 {
			clone[key] = value
		}
		clone["id"] = i
		many = append(many, clone)
	}
	trees(root)["trees"] = many
	if _, err := parseBoth(t, root); err == nil || !strings.Contains(err.Error(), "the sets of categories take more than 256 MiB") {
		t.Errorf("%v", err)
	}
}

// A set is kept once, however many outputs its tree has.
func TestSetsOfTreesWithVectorsAreSharedByTheOutputs(t *testing.T) {
	one := changed(t, withSets)
	m := changed(t, withSets, severalOutputs)
	if !slices.Equal(of32(m).flat.sets, of32(one).flat.sets) {
		t.Errorf("sets %x, of one output %x", of32(m).flat.sets, of32(one).flat.sets)
	}
	if margins, _ := scoreOf(t, m, 40, 0, 0); !slices.Equal(margins, []float32{11, 22, 34.125}) {
		t.Errorf("margins %v", margins)
	}
}

func TestSeveralOutputsAreScored(t *testing.T) {
	m := changed(t, severalOutputs)
	if m.MarginsPerRow() != 3 || m.Info().Scores() != 1 || m.Info().Trees != 2 {
		t.Errorf("%d margins, %+v", m.MarginsPerRow(), m.Info())
	}
	for _, c := range []struct {
		row     [3]float32
		margins []float32
		class   float32
	}{
		{[3]float32{0, 0, 0}, []float32{1.5, 2.25, 4.25}, 2},
		{[3]float32{1, 0, -3}, []float32{0, 0, 1.125}, 2},
		{[3]float32{1, 0, 0}, []float32{11, 22, 34.125}, 2},
	} {
		margins, scores := scoreOf(t, m, c.row[:]...)
		if !slices.Equal(margins, c.margins) || scores[0] != c.class {
			t.Errorf("%v: margins %v, class %v; want %v, %v", c.row, margins, scores, c.margins, c.class)
		}
	}
	m = changed(t, severalOutputs, func(o object) {
		parameters(o)["base_score"] = "5E-1" // as before 3.1: one for all
		tree(o, 0)["leaf_weights"] = list{7.0, 7.0, 6.875, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0}
	})
	if margins, scores := scoreOf(t, m, 0, 0, 0); !slices.Equal(margins, []float32{7.5, 7.5, 7.5}) || scores[0] != 0 {
		t.Errorf("of equal margins %v the class is %v, not the first", margins, scores)
	}
	m = changed(t, severalOutputs, func(o object) { name(o, "multi:softprob") })
	_, scores := scoreOf(t, m, 1, 0, 0)
	if sum := scores[0] + scores[1] + scores[2]; len(scores) != 3 || math.Abs(float64(sum)-1) > 1e-6 || scores[2] < 0.99 {
		t.Errorf("probabilities %v", scores)
	}
}

func TestQuantilesAscendAsInTheVersionThatWroteThem(t *testing.T) {
	quantiles := func(o object) {
		severalOutputs(o)
		name(o, "reg:quantileerror")
		parameters(o)["num_class"], parameters(o)["num_target"] = "0", "3"
		parameters(o)["base_score"] = "[9E0,2E0,4E0]"
	}
	for version, want := range map[int][]float32{2: {9.5, 2.25, 4.25}, 4: {2.25, 4.25, 9.5}} {
		m := changed(t, quantiles, func(o object) { o["version"] = list{3, version, 0} })
		if margins, scores := scoreOf(t, m, 0, 0, 0); !slices.Equal(scores, want) || margins[0] != 9.5 {
			t.Errorf("version 3.%d: margins %v, scores %v", version, margins, scores)
		}
	}
}

// dart before XGBoost 3.4, and gbtree with weights since.
func TestWeightsOfDroppedTreesCount(t *testing.T) {
	weights := list{0.5, 0.25}
	for form, change := range map[string]func(object){
		"dart": func(o object) {
			learner(o)["gradient_booster"] = object{"name": "dart", "gbtree": booster(o), "weight_drop": weights}
		},
		"gbtree": func(o object) { trees(o)["weight_drop"] = weights },
	} {
		m := changed(t, change)
		if got, _ := scoreOf(t, m, 0.5, 0, -2); got[0] != 1+5*0.5+0.125*0.25 {
			t.Errorf("%s: margin %g", form, got[0])
		}
	}
}

func TestBaseScoreIsReadInTheScaleOfTheObjective(t *testing.T) {
	for _, c := range []struct {
		objective, base string
		margin          float64
	}{
		{"reg:squarederror", "5E-1", 0.5}, {"reg:squarederror", "[5E-1]", 0.5}, {"binary:logitraw", "0.25", 0.25},
		{"binary:logistic", "2.5E-1", math.Log(0.25 / 0.75)}, {"binary:hinge", "[2.5E-1]", 0.25},
		{"count:poisson", "3E0", math.Log(3)}, {"reg:gamma", "3E0", math.Log(3)}, {"reg:tweedie", "3E0", math.Log(3)},
		{"survival:cox", "3E0", math.Log(3)}, {"survival:cox", "1E0", 0}, {"survival:aft", "1E-40", math.Log(1e-40)}, {"rank:ndcg", "3E0", 3},
	} {
		m := changed(t, func(o object) { name(o, c.objective); parameters(o)["base_score"] = c.base })
		if got := of32(m).flat.outputs[0].base; math.Abs(float64(got)-c.margin) > 1e-6*math.Abs(c.margin) {
			t.Errorf("%s: base_score %s has margin %g, want %g", c.objective, c.base, got, c.margin)
		}
	}
}

// Rounding the true logarithm is not enough: see logarithm, which the logistic
// links of XGBoost prove.
func TestBaseMarginsHaveTheLogarithmOfTheCLibrary(t *testing.T) {
	differing := 0
	for i := range 1000 {
		e := &xgboost{objective: "count:poisson", bases: []float32{0.1 + float32(i)/300}}
		margin := e.baseMargins()[0]
		if margin != logarithm(e.bases[0]) {
			t.Errorf("base_score %g has margin %g", e.bases[0], margin)
		}
		if margin != float32(math.Log(float64(e.bases[0]))) {
			differing++
		}
	}
	if differing == 0 {
		t.Error("the values do not tell the logarithms apart")
	}
}

func TestScoresOfEachLink(t *testing.T) {
	infinity := float32(math.Inf(1))
	for _, c := range []struct {
		link            link
		margins, scores []float32
	}{
		{identity, []float32{-1, 0, 2}, []float32{-1, 0, 2}},
		{hinge, []float32{-1, 0, 2}, []float32{0, 0, 1}},
		{exponential, []float32{0, 1, 1000}, []float32{1, math.E, infinity}},
		{softmax, []float32{3, 3, -1000}, []float32{0.5, 0.5, 0}},
		{ascending, []float32{3, 1, 2}, []float32{1, 2, 3}},
		{class, []float32{1, 7, 7}, []float32{1}},
	} {
		scores := slices.Clone(c.margins)[:len(c.scores)]
		c.link.apply(slices.Clone(c.margins), 3, scores)
		if c.link == identity {
			scores = c.margins
		}
		if !slices.Equal(scores, c.scores) {
			t.Errorf("link %d: %v has scores %v, want %v", c.link, c.margins, scores, c.scores)
		}
	}
}

func TestCategoriesAreThoseOfTheFile(t *testing.T) {
	m := load(t, "kind-3.2.0-frame-categories.ubj")
	if got := m.Categories(0); !slices.Equal(got, []string{"blue", "green", "red"}) {
		t.Errorf("%q", got)
	}
	if got := m.Categories(1); len(got) != 12 || got[2] != "25" {
		t.Errorf("%q", got)
	}
	if m.Categories(2) != nil {
		t.Error("texts that are not ASCII, which XGBoost cuts wrongly, are trusted")
	}
	if m.Categories(3) != nil || m.Categories(-1) != nil || m.Categories(6) != nil {
		t.Error("a numeric input has categories")
	}
	want := "; category codes in color 0=blue 1=green 2=red, size 0=5 1=15 2=25 3=35 4=45 5=55 6=65 7=75 ... 11, shop up to 68"
	if got := m.Info().Describe; !strings.HasSuffix(got, want) {
		t.Errorf("%q, want %q behind it", got, want)
	}
	m = load(t, "kind-3.2.0-categories-onehot.json")
	if got := m.Info().Describe; m.Categories(0) != nil || !strings.Contains(got, "; category codes in input 0 up to 2, input 1 up to 10, input 2 up to 6") {
		t.Errorf("%q", got)
	}
}

func TestModelsOfOneAndOfFiveThousandTreesAreWhole(t *testing.T) {
	for name, trees := range map[string]int{"kind-3.2.0-single.ubj": 1, "kind-3.2.0-many.ubj": 5000, "kind-3.2.0-vector.json": 8, "kind-3.2.0-classes-forest.json": 120} {
		if got := load(t, name).Info().Trees; got != trees {
			t.Errorf("%s: %d trees, want %d", name, got, trees)
		}
	}
}

func TestNoKindOfModelAllocates(t *testing.T) {
	for _, name := range []string{"kind-3.2.0-classes-categories.ubj", "kind-3.2.0-class.ubj", "kind-3.2.0-vector.json", "dart.ubj"} {
		m := load(t, name)
		width := m.Info().Width()
		rows := model.Rows{Width: width, Values: make([]float64, 130*width)}
		scores, margins := make([]float32, 130*m.Info().Scores()), make([]float32, 130*m.MarginsPerRow())
		allocations := testing.AllocsPerRun(100, func() {
			if err := m.Predict(context.Background(), rows, scores); err != nil {
				t.Fatal(err)
			}
			m.Margins(rows, margins)
		})
		if allocations != 0 && !raceEnabled() {
			t.Errorf("%s: %g allocations", name, allocations)
		}
	}
}

// Random ensembles of both kinds of splits and several outputs, and the check
// at load, which compares them with a plain walk.
func TestRandomEnsemblesAreScoredAsWalked(t *testing.T) {
	const seed = 9
	random := rand.New(rand.NewPCG(seed, 0))
	for round := range 60 {
		e := &ensemble{inputs: int64(1 + random.IntN(20))}
		base := make([]float32, 1+random.IntN(4))
		for range 1 + random.IntN(30) {
			nodes := randomTree(random, 1+2*random.IntN(60), int(e.inputs))
			e.codes = coding(round % 2)
			for i := range nodes {
				nodes[i].zeroMissing = nodes[i].left != noChild && random.IntN(4) == 0
				if nodes[i].left != noChild && random.IntN(8) == 0 {
					nodes[i].atMost([]float64{zeroMax, -zeroMax, 0, math.Inf(1)}[random.IntN(4)])
				}
				if nodes[i].left == noChild || random.IntN(2) > 0 {
					continue
				}
				nodes[i].zeroMissing = false
				from := int32(len(e.listed))
				for range 1 + random.IntN(5) {
					e.listed = append(e.listed, int32(random.IntN(1+random.IntN(200))))
				}
				slices.Sort(e.listed[from:])
				nodes[i].set = segment{from, int32(len(e.listed))}
			}
			e.parts = append(e.parts, part{nodes: nodes, output: int32(random.IntN(len(base)))})
		}
		if _, err := e.narrow(); err != nil {
			t.Fatal(err)
		}
		f, b, rows := flatten(e, base), layBlocks(e, base), generate(e, verifyRows)
		if err := verify(e, f, b, kernels(), rows); err != nil {
			t.Fatalf("seed %d, round %d: %v", seed, round, err)
		}
		double := make([]float64, len(base))
		if err := verify(e, flatten(e, double), layBlocks(e, double), kernels(), rows); err != nil {
			t.Fatalf("seed %d, round %d, in float64: %v", seed, round, err)
		}
		if round > 0 && len(f.sets) > 0 { // round 0 may have no split that a row meets
			noticed := false
			for i := 0; i < len(f.sets) && !noticed; i++ {
				f.sets[i] ^= 1 << 1
				noticed = verify(e, f, nil, kernels(), rows) != nil
				f.sets[i] ^= 1 << 1
			}
			if !noticed {
				t.Errorf("seed %d, round %d: no damage to a set is noticed", seed, round)
			}
		}
	}
}

func TestEarlyStoppedModelsUseEveryTree(t *testing.T) {
	info := load(t, "kind-3.2.0-early.json").Info()
	if !strings.Contains(info.Describe, "best iteration") || info.Trees < 6 {
		t.Errorf("%+v", info)
	}
}
