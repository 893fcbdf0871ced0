// Package tree scores ensembles of decision trees that XGBoost trained, inside
// the process. Margins are those of XGBoost bit for bit, and so are predictions,
// with the exponential of its C library on Linux. Both depend on the row alone:
// verified on generated rows at each load, and against XGBoost itself in the
// tests.
package tree

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/afterbay/afterbay/model"
)

// Model is a loaded ensemble. It is safe for concurrent use and scoring does
// not allocate.
type Model struct {
	flat      *flat
	blocks    *blocks // nil where rows are scored one by one only
	choice    choice
	info      model.Info
	link      link
	labels    [][]string
	scratches sync.Pool // of *scratch
}

// scratch is the working memory of one call.
type scratch struct {
	slots []uint32      // of one row
	block *blockScratch // nil where there are no blocks
	all   []float32     // margins of a block, where the scores are others
}

// Options say how to load a model. The zero value is a good choice.
type Options struct {
	// Kernel is how batches are scored: "portable", "avx2" or "avx512". All
	// give the same bits; one that the processor does not run is an error.
	// Empty takes what the environment variable AFTERBAY_KERNEL names, or else
	// the fastest: which one that is, and from how many rows on it is faster
	// than scoring rows one by one, is measured for 2 ms.
	Kernel string
}

var _ model.Model = (*Model)(nil)

// Load reads a model that XGBoost saved as JSON or UBJSON, as Parse does. Files
// of more than 1 GiB are refused.
func Load(path string) (*Model, error) { return LoadWith(path, Options{}) }

// LoadWith is Load with options.
func LoadWith(path string, options Options) (*Model, error) {
	data, err := read(path)
	if err != nil {
		return nil, fmt.Errorf("load model: %w", err)
	}
	return parseWith(filepath.Base(path), data, options)
}

func read(path string) ([]byte, error) {
	about, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if !about.Mode().IsRegular() {
		return nil, fmt.Errorf("%s is not a regular file", path)
	}
	if about.Size() > fileMax {
		return nil, fmt.Errorf("%s has %d bytes, the limit is %d", path, about.Size(), fileMax)
	}
	return os.ReadFile(path)
}

// Parse reads a model that XGBoost 1.0 or later saved as JSON or UBJSON; which,
// the content tells. The name is for error messages only.
//
// Supported are the boosters gbtree and dart, numeric and categorical splits,
// one score a row or one for each class or target, leaves that are vectors as
// XGBoost 3.2 and later write them, and every objective of XGBoost 3.2:
// binary:*, multi:*, rank:*, count:poisson, survival:cox, survival:aft, reg:*.
// base_score is a number, or a list of one or of one for each output. Anything
// else is refused by name, gblinear among it. An error says where in the file
// it is; hostile bytes cannot do more than that.
//
// A file of any version has the margins that XGBoost 3.2 gives it. Those of 1.7
// to 3.4 are the same; before, XGBoost added up in another order, so its own
// differ in their last places. Where versions disagree about predictions, the
// one that wrote the file is right: since 3.4 the predictions of several
// quantiles are in ascending order.
//
// Every tree counts, as in XGBoost's own Booster.predict, also where training
// stopped early: its scikit-learn wrapper alone stops at the best iteration.
// To score with that one, save a slice of the booster.
//
// Categorical inputs take codes, as Booster.predict does: see Categories.
func Parse(name string, data []byte) (*Model, error) { return parseWith(name, data, Options{}) }

func parseWith(name string, data []byte, options Options) (*Model, error) {
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
	e, err := decode(data)
	if err != nil {
		return nil, err
	}
	if err := e.refuse(); err != nil {
		return nil, err
	}
	base := e.margins()
	m := &Model{flat: flatten(e, base), blocks: layBlocks(e, base), link: e.link(), labels: e.labels}
	rows := generate(e, verifyRows)
	if err := verify(e, m.flat, m.blocks, kernels, rows); err != nil {
		return nil, fmt.Errorf("verify: %w", err)
	}
	m.choice = choose(m.flat, m.blocks, kernels, rows, measureMax)
	digest := sha256.Sum256(data)
	m.info = model.Info{
		Kind: "xgboost", Digest: hex.EncodeToString(digest[:]),
		Inputs: int(e.inputs), Names: e.names, Outputs: e.outputs(), Trees: e.count,
		Describe: e.describe(m.flat, m.choice.kernel.name),
	}
	if m.link == class {
		m.info.Outputs = 1
	}
	m.scratches.New = func() any { return m.scratch() }
	return m, nil
}

func (m *Model) scratch() *scratch {
	s := &scratch{slots: m.flat.scratch()}
	if m.blocks != nil {
		s.block = m.blocks.scratch()
	}
	if m.link == class {
		s.all = make([]float32, blockRows*m.MarginsPerRow())
	}
	return s
}

// describe returns objective, shape and what scores batches.
func (e *ensemble) describe(f *flat, kernel string) string {
	depth := int32(0)
	for _, t := range f.trees {
		depth = max(depth, t.depth)
	}
	text := e.objective
	if n := len(f.outputs); n > 1 {
		text += fmt.Sprintf(" of %d outputs", n)
	}
	text += fmt.Sprintf(", %d trees of depth up to %d, %d nodes, kernel %s", e.count, depth, len(f.nodes), kernel)
	if e.stoppedEarly() {
		text += fmt.Sprintf(", all used although training found its best iteration at %s", clip([]byte(e.bestIteration)))
	}
	return text + e.describeCategories(f)
}

// stoppedEarly reports whether there are trees behind those of the best
// iteration, which XGBoost 1 names in every file.
func (e *ensemble) stoppedEarly() bool {
	best, err := strconv.Atoi(e.bestIteration)
	if err != nil || len(e.parts) == 0 {
		return false
	}
	last := e.parts[len(e.parts)-1]
	round := max(1, int(e.parallel)) * e.outputs() / int(last.width)
	return (best+1)*max(1, round) < e.count
}

// describeCategories says which inputs take codes, and the first codes.
func (e *ensemble) describeCategories(f *flat) string {
	const shown = 8
	var text strings.Builder
	for i, input := range slices.Sorted(slices.Values(f.categorical)) {
		if i == shown {
			fmt.Fprintf(&text, ", and %d more", len(f.categorical)-shown)
			break
		}
		text.WriteString([2]string{"; category codes in ", ", "}[min(i, 1)])
		if int(input) < len(e.names) {
			text.WriteString(clip([]byte(e.names[input])))
		} else {
			fmt.Fprintf(&text, "input %d", input)
		}
		if int(input) < len(e.labels) {
			text.WriteString(describeLabels(e.labels[input], shown))
		}
	}
	return text.String()
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

// Info describes the model. Its Names are shared: do not change them.
func (m *Model) Info() model.Info { return m.info }

// Check returns why a row cannot be scored, or nil. An infinity is refused, as
// XGBoost refuses it. NaN is a missing value.
func (m *Model) Check(row []float32) error {
	if len(row) != m.info.Inputs {
		return fmt.Errorf("a row of %d values for a model of %d inputs", len(row), m.info.Inputs)
	}
	for i, value := range row {
		if math.Float32bits(value)<<1 == 0xff<<24 {
			if i < len(m.info.Names) {
				return fmt.Errorf("input %q is %g: a model of trees takes finite and missing values", m.info.Names[i], value)
			}
			return fmt.Errorf("input %d is %g: a model of trees takes finite and missing values", i, value)
		}
	}
	return nil
}

// Categories returns what the codes of a categorical input stand for: code 0 is
// the first. It is nil for other inputs and where the file does not say: files
// of XGBoost before 3.1 and models that were not trained on data frames do not,
// and texts beyond ASCII stand there damaged. A value that is no such code, such
// as one that training never met, is scored as XGBoost scores it: it belongs to
// no set of categories.
func (m *Model) Categories(input int) []string {
	if input < 0 || input >= len(m.labels) {
		return nil
	}
	return slices.Clone(m.labels[input])
}

// MarginsPerRow is how many margins a row has: one for each class or target. Of
// multi:softmax alone it is not Info().Outputs, which is one, the class.
func (m *Model) MarginsPerRow() int { return len(m.flat.outputs) }

// Predict writes Info().Outputs scores a row, what Booster.predict returns: the
// probability for logistic objectives, one for each class for multi:softprob,
// the class for multi:softmax and binary:hinge, the expected value where trees
// add up its logarithm (count:poisson, reg:gamma, reg:tweedie, survival:*), and
// the margin for the others. It returns early when ctx ends, between blocks of
// 64 rows; scores are then unspecified.
func (m *Model) Predict(ctx context.Context, rows model.Rows, scores []float32) error {
	if rows.Width != m.info.Inputs || len(rows.Values)%rows.Width != 0 {
		return fmt.Errorf("%d values in rows of %d for a model of %d inputs", len(rows.Values), rows.Width, m.info.Inputs)
	}
	n := rows.Len()
	width := m.info.Outputs
	if len(scores) < n*width {
		return fmt.Errorf("room for %d scores of %d rows of %d", len(scores), n, width)
	}
	s := m.scratches.Get().(*scratch)
	defer m.scratches.Put(s)
	for first := 0; first < n; first += blockRows {
		if err := ctx.Err(); err != nil {
			return err
		}
		end := min(first+blockRows, n)
		block := scores[first*width : end*width]
		margins := block
		if m.link == class {
			margins = s.all[:(end-first)*m.MarginsPerRow()]
		}
		m.score(s, rows.Values[first*rows.Width:end*rows.Width], margins)
		m.link.apply(margins, m.MarginsPerRow(), block)
	}
	return nil
}

// Margins writes the sums of base margin and leaves, MarginsPerRow of them for
// each row, row behind row, whatever the objective. Rows of another width than
// the model's, or an out without room for all, are a programming error.
func (m *Model) Margins(rows model.Rows, out []float32) {
	if rows.Width != m.info.Inputs || len(rows.Values)%rows.Width != 0 {
		panic(fmt.Sprintf("%d values in rows of %d for a model of %d inputs", len(rows.Values), rows.Width, m.info.Inputs))
	}
	s := m.scratches.Get().(*scratch)
	defer m.scratches.Put(s)
	width := m.MarginsPerRow()
	for first := 0; first < rows.Len(); first += blockRows {
		end := min(first+blockRows, rows.Len())
		m.score(s, rows.Values[first*rows.Width:end*rows.Width], out[first*width:end*width])
	}
}

// score writes the margins of at most 64 rows.
func (m *Model) score(s *scratch, rows, out []float32) {
	if len(out) < m.choice.minimum*m.MarginsPerRow() {
		m.flat.score(&m.choice.kernel, s.slots, rows, out)
		return
	}
	m.blocks.score(&m.choice.kernel, s.block, rows, out)
}
