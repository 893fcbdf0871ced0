// Package tree scores ensembles of decision trees inside the process. XGBoost, LightGBM, CatBoost
// and scikit-learn (exported to ONNX) trained them. Margins equal those of the framework bit for
// bit. Margins of ONNX equal those of ONNX Runtime on one thread, because its trees are float32 and
// those of scikit-learn are not.
//
// Predictions of XGBoost and ONNX are equal too, with the exponential of the C library on Linux.
// Predictions of LightGBM and CatBoost are the nearest float32 or the one next to it. Margins and
// predictions depend on the row alone. Each load verifies this on generated rows, and the tests
// verify it against the frameworks.
//
// Each format has a reader that turns a file into an ensemble: decode and refuse, readLightGBM,
// readCatBoost, readONNX. An ensemble is laid out twice, flat for single rows and in blocks for
// many. Kernels score it in the type of the framework's sums.
package tree

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"math"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/afterbay/afterbay/model"
)

// Model is a loaded ensemble. It is safe for concurrent use, and scoring does not allocate.
type Model struct {
	forest scorer
	width  int // numbers per row
	scores int // scores per row
	info   model.Info
	labels [][]string
	finite bool // infinities are refused
}

// Options say how to load a model. The zero value is a good choice.
type Options struct {
	// Kernel names the kernel for batches: "portable", "avx2" or "avx512". All give the same bits.
	// A kernel that the processor does not support is an error. If Kernel is empty, the environment
	// variable AFTERBAY_KERNEL decides. Without it, Load measures for 2 ms which kernel is fastest,
	// and from how many rows on it beats scoring rows one by one.
	Kernel string
	// Trees says which trees of a file of XGBoost count: "all", or "best" for those up to the best
	// iteration of training. If it is empty, the trees are those that predict uses in the class
	// that saved the file: the best for scikit-learn's wrapper, all for a Booster. Files of other
	// frameworks have no best iteration: "best" is an error.
	Trees string
}

var _ model.Exact = (*Model)(nil)

// Load reads a model of trees, as Parse does. It refuses files of more than 1 GiB.
func Load(path string) (*Model, error) { return LoadWith(path, Options{}) }

// LoadWith is Load with options.
func LoadWith(path string, options Options) (*Model, error) {
	data, err := model.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("load model: %w", err)
	}
	return ParseWith(filepath.Base(path), data, options)
}

// Parse reads a model of trees. It detects the format from the content. The name is for error
// messages only. An error says where in the file it is; a hostile file can cause nothing worse than
// an error. In addition to XGBoost's formats, Parse reads:
//
//   - LightGBM's text of version 2 to 4: every boosting, numeric and categorical
//     splits, zero as missing, every objective. Linear trees are refused. A value
//     of at most 1e-35 is zero, as in LightGBM. Categories of pandas are codes:
//     see Categories.
//   - CatBoost's JSON of numeric features: trees of every growth policy, several
//     outputs. Categorical, text and embedding features are refused.
//   - ONNX with TreeEnsembleClassifier, TreeEnsembleRegressor or TreeEnsemble of
//     float32 or float64, as skl2onnx writes forests, boosting, single trees and
//     IsolationForest. Splits that compare for equality, minimum and maximum of
//     trees, and unsupported nodes beside the trees are refused by name.
//
// For XGBoost, Parse reads JSON and UBJSON of 1.0 and later. It supports the boosters gbtree and
// dart, and numeric and categorical splits. A row has one score, or one for each class or target.
// Leaves may be vectors as XGBoost 3.2 and later write them. Every objective of XGBoost 3.2 is
// supported: binary:*, multi:*, rank:*, count:poisson, survival:cox, survival:aft, reg:*.
// base_score is a number, a list of one number, or a list with one number for each output. Anything
// else is refused by name, including gblinear.
//
// A file of any version gets the margins of XGBoost 3.2. Versions 1.7 to 3.4 compute the same
// margins. Older versions summed in another order, so their margins differ in the last places. If
// versions disagree about predictions, the version that wrote the file decides: since 3.4 the
// predictions of several quantiles are in ascending order.
//
// If training stopped early and XGBoost's scikit-learn wrapper saved the file, the trees up to the
// best iteration count, as in its predict. In files of a Booster every tree counts, as in
// Booster.predict. Options.Trees overrides this. Info().Describe says which trees count.
//
// Categorical inputs take codes, as Booster.predict does: see Categories.
func Parse(name string, data []byte) (*Model, error) { return ParseWith(name, data, Options{}) }

// ParseWith is Parse with options.
func ParseWith(name string, data []byte, options Options) (*Model, error) {
	m, err := parse(data, options)
	if err != nil {
		return nil, fmt.Errorf("model %s: %w", name, err)
	}
	return m, nil
}

func parse(data []byte, options Options) (*Model, error) {
	kernels, err := options.kernels()
	if err != nil {
		return nil, err
	}
	if len(data) > fileMax {
		return nil, fmt.Errorf("%d bytes, the limit is %d", len(data), fileMax)
	}
	if options.Trees != "" && options.Trees != "all" && options.Trees != "best" {
		return nil, fmt.Errorf("trees: %q is not known: write all or best", clip([]byte(options.Trees)))
	}
	e, err := ensembleOf(data, options.Trees)
	if err != nil {
		return nil, err
	}
	if options.Trees == "best" && e.kind != "xgboost" {
		return nil, fmt.Errorf("trees: best is for files of XGBoost: a file of kind %s has no best iteration (hint: remove it)", e.kind)
	}
	m := &Model{labels: e.labels, finite: e.finite, width: int(e.inputs), scores: e.outputs}
	if e.double {
		m.forest, err = plant(e, e.wide, kernels)
	} else {
		m.forest, err = plant(e, e.single, kernels)
	}
	if err != nil {
		return nil, err
	}
	digest := sha256.Sum256(data)
	m.info = model.Info{
		Kind: e.kind, Digest: hex.EncodeToString(digest[:]),
		Inputs: e.describeInputs(), Outputs: []model.Output{{Name: "prediction", Size: e.outputs}}, Trees: e.count, Ambiguous: e.ambiguous,
		Describe: m.forest.describe(e),
	}
	return m, nil
}

// ensembleOf reads a file of any format, and detects the format from the content.
func ensembleOf(data []byte, trees string) (*ensemble, error) {
	switch {
	case isLightGBM(data):
		return readLightGBM(data)
	case isCatBoost(data):
		return readCatBoost(data)
	case isONNX(data):
		return readONNX(data)
	}
	source, err := open(data)
	if err != nil {
		return nil, err
	}
	e, err := decode(source)
	if err != nil {
		return nil, err
	}
	if err := e.refuse(trees); err != nil {
		return nil, err
	}
	return &e.ensemble, nil
}

// describeInputs returns the inputs with their names and the meaning of their codes, as far as the
// file has them.
func (e *ensemble) describeInputs() []model.Input {
	inputs := model.Numbers(int(e.inputs))
	for i := range inputs {
		if i < len(e.names) {
			inputs[i].Name = e.names[i]
		}
		if i < len(e.labels) {
			inputs[i].Categories = e.labels[i]
		}
	}
	return inputs
}

// describeCategories says which inputs take codes, and the first codes.
func (e *ensemble) describeCategories(categorical []int32) string {
	const shown = 8
	var text strings.Builder
	for i, input := range categorical {
		if i == shown {
			fmt.Fprintf(&text, ", and %d more", len(categorical)-shown)
			break
		}
		text.WriteString([2]string{"; category codes in ", ", "}[min(i, 1)])
		if int(input) < len(e.names) {
			text.WriteString(clip([]byte(e.names[input])))
		} else { // the largest code in any split
			fmt.Fprintf(&text, "input %d", input)
		}
		if int(input) < len(e.labels) && len(e.labels[input]) > 0 {
			text.WriteString(describeLabels(e.labels[input], shown))
		} else {
			fmt.Fprintf(&text, " up to %d", e.largestCode(input))
		}
	}
	return text.String()
}

// largestCode returns the largest code in any split on a categorical input. All codes beyond it get
// the same score.
func (e *ensemble) largestCode(input int32) (largest int32) {
	for _, t := range e.parts {
		for i := range t.nodes {
			if n := &t.nodes[i]; n.input == input && n.categorical() {
				largest = max(largest, e.listed[n.set.to-1])
			}
		}
	}
	return largest
}

// describeLabels describes the first codes of an input.
func describeLabels(labels []string, shown int) string {
	if len(labels) > 0 && slices.Equal(labels, counted(len(labels))) {
		return fmt.Sprintf(" 0 to %d", len(labels)-1)
	}
	text := ""
	for code, label := range labels[:min(shown, len(labels))] {
		text += fmt.Sprintf(" %d=%s", code, clip([]byte(label)))
	}
	if len(labels) > shown {
		text += fmt.Sprintf(" ... %d", len(labels)-1)
	}
	return text
}

// counted returns "0", "1" and so on, n of them.
func counted(n int) []string {
	list := make([]string, n)
	for i := range list {
		list[i] = strconv.Itoa(i)
	}
	return list
}

// Info describes the model. Its slices are shared: do not change them.
func (m *Model) Info() model.Info { return m.info }

// Check returns nil if a row of numbers can be scored, else the reason. XGBoost refuses infinities
// and numbers that float32 rounds to infinity, so XGBoost models refuse them here too. NaN is a
// missing value.
func (m *Model) Check(row []float64, bytes [][]byte) error {
	if len(row) != m.width || len(bytes) > 0 {
		return fmt.Errorf("a row of %d numbers and %d texts for a model of %d numbers", len(row), len(bytes), m.width)
	}
	for i, value := range row {
		if m.finite && math.Float32bits(float32(value))<<1 == 0xff<<24 {
			return &model.InputError{Name: m.info.Inputs[i].Name, Index: i, Err: fmt.Errorf("it is %g: a model of trees takes finite numbers within float32, and missing values", value)}
		}
	}
	return nil
}

// Categories returns the labels of a categorical input's codes, beginning with code 0. It is nil
// for other inputs and if the file has no labels. Labels are missing in files of LightGBM with
// constant or ordered columns of pandas, in files of XGBoost before 3.1, and in models that were
// not trained on data frames. Texts beyond ASCII are damaged in the file and are not returned. A
// value that is no such code, such as one unseen in training, belongs to no set of categories, as
// in the framework.
func (m *Model) Categories(input int) []string {
	if input < 0 || input >= len(m.labels) {
		return nil
	}
	return slices.Clone(m.labels[input])
}

// MarginsPerRow returns how many margins a row has: one for each class or target. It differs from
// Info().Scores() only for multi:softmax, which has one score, the class.
func (m *Model) MarginsPerRow() int { return m.forest.width() }

// MarginBits returns how many bits a margin has: 64 if the framework sums scores in float64, else
// 32.
func (m *Model) MarginBits() int {
	if _, wide := m.forest.(*forest[float64]); wide {
		return 64
	}
	return 32
}

// Predict writes Info().Scores() scores per row, equal to the result of the framework's predict.
// For CatBoost it is predict_proba, and with two classes the probability of class 1. The scores
// depend on the objective:
//
//   - logistic: the probability
//   - several classes: one probability for each class
//   - multi:softmax and binary:hinge: the class
//   - trees that sum a logarithm (poisson, gamma, tweedie, survival:*): the expected value
//   - others: the margin
//
// For a file of ONNX the scores are its score output. Predict returns early when ctx ends, between
// blocks of 64 rows; the scores are then unspecified.
func (m *Model) Predict(ctx context.Context, rows model.Rows, scores []float32) error {
	if err := m.fits(rows, len(scores), m.scores); err != nil {
		return err
	}
	return m.forest.predict(ctx, rows, m.scores, scores)
}

// fits returns an error if rows with each results per row do not fit the model or room.
func (m *Model) fits(rows model.Rows, room, each int) error {
	if rows.Width != m.width || len(rows.Values) != rows.Len()*m.width {
		return fmt.Errorf("%d values in rows of %d for a model of %d inputs", len(rows.Values), rows.Width, m.width)
	}
	if room < rows.Len()*each {
		return fmt.Errorf("room for %d scores of %d rows of %d", room, rows.Len(), each)
	}
	return nil
}

// Exactness implements model.Exact: margins equal those of the framework bit for bit.
func (m *Model) Exactness() model.Exactness {
	return model.Exactness{Name: "margin", Columns: m.MarginsPerRow(), Bits: m.MarginBits()}
}

// ScoreExactly implements model.Exact: it writes margins.
func (m *Model) ScoreExactly(ctx context.Context, rows model.Rows, out []float64) error {
	if err := m.fits(rows, len(out), m.MarginsPerRow()); err != nil {
		return err
	}
	m.Margins64(rows, out)
	return ctx.Err()
}

// Margins writes the raw scores of the framework, for any objective: the sums of base margin and
// leaves. It writes MarginsPerRow margins for each row, one row after the other. If MarginBits is
// 64, each margin is rounded once to float32. It panics if the width of the rows differs from the
// model's or out is too short.
func (m *Model) Margins(rows model.Rows, out []float32) {
	m.mustFit(rows)
	m.forest.margins(rows, out)
}

// Margins64 does what Margins does, without rounding.
func (m *Model) Margins64(rows model.Rows, out []float64) {
	m.mustFit(rows)
	m.forest.margins64(rows, out)
}

func (m *Model) mustFit(rows model.Rows) {
	if err := m.fits(rows, 0, 0); err != nil {
		panic(err.Error())
	}
}
