// Package tree scores ensembles of decision trees, inside the process: those that
// XGBoost, LightGBM, CatBoost and scikit-learn, by way of ONNX, trained. Margins
// are those of the framework bit for bit; of ONNX those of ONNX Runtime on one
// thread, since its trees are float32 and those of scikit-learn are not.
// Predictions of XGBoost and ONNX are too, with the exponential of the C library
// on Linux; those of LightGBM and CatBoost are the nearest float32 or next to it.
// Both depend on the row alone: verified on generated rows at each load, and
// against the frameworks themselves in the tests.
//
// A format has a reader, which says in an ensemble what the file means: decode
// and refuse, readLightGBM, readCatBoost, readONNX. An ensemble is laid out twice,
// flat for single rows and in blocks for many, and scored by kernels, in the type
// in which the framework adds up.
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

// Model is a loaded ensemble. It is safe for concurrent use and scoring does
// not allocate.
type Model struct {
	forest scorer
	width  int // numbers of a row
	scores int // of a row
	info   model.Info
	labels [][]string
	finite bool // infinities are refused
}

// Options say how to load a model. The zero value is a good choice.
type Options struct {
	// Kernel is how batches are scored: "portable", "avx2" or "avx512". All
	// give the same bits; one that the processor does not run is an error.
	// Empty takes what the environment variable AFTERBAY_KERNEL names, or else
	// the fastest: which one that is, and from how many rows on it is faster
	// than scoring rows one by one, is measured for 2 ms.
	Kernel string
	// Trees says which trees of a file of XGBoost count: "all", or "best", those up to
	// the best iteration of training. Empty takes those with which predict of the class
	// that saved the file predicts: the best of scikit-learn's wrapper, all of a Booster.
	// Files of other frameworks have no best iteration: "best" is an error.
	Trees string
}

var _ model.Exact = (*Model)(nil)

// Load reads a model of trees, as Parse does. Files of more than 1 GiB are
// refused.
func Load(path string) (*Model, error) { return LoadWith(path, Options{}) }

// LoadWith is Load with options.
func LoadWith(path string, options Options) (*Model, error) {
	data, err := model.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("load model: %w", err)
	}
	return ParseWith(filepath.Base(path), data, options)
}

// Parse reads a model of trees; in which format, the content tells. The name is
// for error messages only. An error says where in the file it is; hostile bytes
// cannot do more than that. Beside XGBoost's, these are read:
//
//   - LightGBM's text of version 2 to 4: every boosting, numeric and categorical
//     splits, zero as missing, every objective. Linear trees are refused. A value
//     of at most 1e-35 is zero, as LightGBM takes it. Categories of pandas are
//     codes: see Categories.
//   - CatBoost's JSON of numeric features: trees of every growth policy, several
//     outputs. Categorical, text and embedding features are refused.
//   - ONNX with TreeEnsembleClassifier, TreeEnsembleRegressor or TreeEnsemble of
//     float32 or float64, as skl2onnx writes forests, boosting, single trees and
//     IsolationForest. Splits that compare for equality, minimum and maximum of
//     trees, and nodes beside the trees that are not read are refused by name.
//
// Of XGBoost's JSON and UBJSON, of 1.0 and later, supported are the boosters gbtree and dart, numeric and categorical splits,
// one score a row or one for each class or target, leaves that are vectors as
// XGBoost 3.2 and later write them, and every objective of XGBoost 3.2:
// binary:*, multi:*, rank:*, count:poisson, survival:cox, survival:aft, reg:*.
// base_score is a number, or a list of one or of one for each output. Anything
// else is refused by name, gblinear among it.
//
// A file of any version has the margins that XGBoost 3.2 gives it. Those of 1.7
// to 3.4 are the same; before, XGBoost added up in another order, so its own
// differ in their last places. Where versions disagree about predictions, the
// one that wrote the file is right: since 3.4 the predictions of several
// quantiles are in ascending order.
//
// Where training stopped early and XGBoost's scikit-learn wrapper saved the file, the
// trees up to the best iteration count, as its predict has it. In files of a Booster
// every tree counts, as in Booster.predict. Options.Trees chooses otherwise. Info().Describe says which trees count.
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

// ensembleOf reads a file of any format: which one, the content tells.
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

// describeInputs returns the inputs with their names and what their codes stand
// for, as far as the file says.
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
		} else { // the largest code that a split names
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

// largestCode returns the largest code that a split on a categorical input names. All
// codes beyond it are scored alike.
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

// describeLabels says what the first codes of an input stand for.
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

// Check returns why a row of numbers cannot be scored, or nil. XGBoost refuses an infinity
// and what float32 rounds to one, and so do its models here. NaN is a missing value.
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

// Categories returns what the codes of a categorical input stand for: code 0 is
// the first. It is nil for other inputs and where the file does not say: files
// of LightGBM where columns of pandas were constant or ordered, files of XGBoost
// before 3.1, and models that were not trained on data frames do not,
// and texts beyond ASCII stand there damaged. A value that is no such code, such
// as one that training never met, is scored as the framework scores it: it
// belongs to no set of categories.
func (m *Model) Categories(input int) []string {
	if input < 0 || input >= len(m.labels) {
		return nil
	}
	return slices.Clone(m.labels[input])
}

// MarginsPerRow is how many margins a row has: one for each class or target. Of
// multi:softmax alone it is not Info().Scores(), which is one, the class.
func (m *Model) MarginsPerRow() int { return m.forest.width() }

// MarginBits is 64 where the framework adds scores up in float64, else 32: how
// many bits of a margin there are.
func (m *Model) MarginBits() int {
	if _, wide := m.forest.(*forest[float64]); wide {
		return 64
	}
	return 32
}

// Predict writes Info().Scores() scores a row, what the framework's predict
// returns, or predict_proba of CatBoost, for its one class where there are two:
// the probability for logistic objectives, one for each class for those of
// several, the class for multi:softmax and binary:hinge, the expected value where
// trees add up its logarithm (poisson, gamma, tweedie, survival:*), and the margin
// for the others. Of a file of ONNX it is the output that has the scores. It returns early when ctx ends, between blocks of
// 64 rows; scores are then unspecified.
func (m *Model) Predict(ctx context.Context, rows model.Rows, scores []float32) error {
	if err := m.fits(rows, len(scores), m.scores); err != nil {
		return err
	}
	return m.forest.predict(ctx, rows, m.scores, scores)
}

// fits says why rows of so many results each cannot be scored into room.
func (m *Model) fits(rows model.Rows, room, each int) error {
	if rows.Width != m.width || len(rows.Values) != rows.Len()*m.width {
		return fmt.Errorf("%d values in rows of %d for a model of %d inputs", len(rows.Values), rows.Width, m.width)
	}
	if room < rows.Len()*each {
		return fmt.Errorf("room for %d scores of %d rows of %d", room, rows.Len(), each)
	}
	return nil
}

// Exactness implements model.Exact: margins are those of the framework bit for bit.
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

// Margins writes what the framework calls raw: the sums of base margin and
// leaves, MarginsPerRow of them for each row, row behind row, whatever the
// objective, each rounded once to float32 where MarginBits are 64. Rows of another width than
// the model's, or an out without room for all, are a programming error.
func (m *Model) Margins(rows model.Rows, out []float32) {
	m.mustFit(rows)
	m.forest.margins(rows, out)
}

// Margins64 is Margins without rounding.
func (m *Model) Margins64(rows model.Rows, out []float64) {
	m.mustFit(rows)
	m.forest.margins64(rows, out)
}

func (m *Model) mustFit(rows model.Rows) {
	if err := m.fits(rows, 0, 0); err != nil {
		panic(err.Error())
	}
}
