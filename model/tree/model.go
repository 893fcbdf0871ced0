// Package tree scores ensembles of decision trees that XGBoost trained, inside
// the process. Margins are those of XGBoost bit for bit, probabilities within
// two units in the last place, and both depend on the row alone: verified on
// generated rows at each load, and against XGBoost itself in the tests.
package tree

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"sync"

	"github.com/afterbay/afterbay/model"
)

// Model is a loaded ensemble. It is safe for concurrent use and scoring does
// not allocate.
type Model struct {
	flat        *flat
	info        model.Info
	probability bool
	scratches   sync.Pool // of *scratch
}

var _ model.Model = (*Model)(nil)

// Load reads a model that XGBoost saved as JSON or UBJSON, as Parse does. Files
// of more than 1 GiB are refused.
func Load(path string) (*Model, error) {
	data, err := read(path)
	if err != nil {
		return nil, fmt.Errorf("load model: %w", err)
	}
	return Parse(filepath.Base(path), data)
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
// Supported are the booster gbtree with numeric splits, one score a row, and
// the objectives binary:logistic, reg:logistic, binary:logitraw,
// reg:squarederror, reg:squaredlogerror, reg:absoluteerror,
// reg:pseudohubererror and reg:quantileerror. Anything else is refused by name.
// An error says where in the file it is; hostile bytes cannot do more than that.
//
// Every tree counts, as in XGBoost's own Booster.predict, also where training
// stopped early: to score with the best iteration, save a slice of the booster.
func Parse(name string, data []byte) (*Model, error) {
	m, err := parse(data)
	if err != nil {
		return nil, fmt.Errorf("model %s: %w", name, err)
	}
	return m, nil
}

func parse(data []byte) (*Model, error) {
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
	isProbability, _ := logistic(e.objective)
	base := e.base[0]
	if isProbability {
		base = baseMargin(base)
	}
	m := &Model{flat: flatten(e, base), probability: isProbability}
	if err := verify(e, m.flat); err != nil {
		return nil, fmt.Errorf("verify: %w", err)
	}
	digest := sha256.Sum256(data)
	m.info = model.Info{
		Kind: "xgboost", Digest: hex.EncodeToString(digest[:]),
		Inputs: int(e.inputs), Names: e.names, Outputs: 1, Trees: len(e.trees),
		Describe: e.describe(m.flat),
	}
	m.scratches.New = func() any { return m.flat.scratch() }
	return m, nil
}

// describe returns objective and shape.
func (e *ensemble) describe(f *flat) string {
	depth := int32(0)
	for _, t := range f.trees {
		depth = max(depth, t.depth)
	}
	text := fmt.Sprintf("%s, %d trees of depth up to %d, %d nodes", e.objective, len(f.trees), depth, len(f.nodes))
	if e.bestIteration != "" {
		text += fmt.Sprintf(", all used although training found its best iteration at %s", clip([]byte(e.bestIteration)))
	}
	return text
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

// Predict writes one score a row: a probability for logistic objectives, the
// margin for the others. It returns early when ctx ends, between blocks of 64
// rows; scores are then unspecified.
func (m *Model) Predict(ctx context.Context, rows model.Rows, scores []float32) error {
	if rows.Width != m.info.Inputs || len(rows.Values)%rows.Width != 0 {
		return fmt.Errorf("%d values in rows of %d for a model of %d inputs", len(rows.Values), rows.Width, m.info.Inputs)
	}
	n := rows.Len()
	if len(scores) < n {
		return fmt.Errorf("room for %d scores of %d rows", len(scores), n)
	}
	s := m.scratches.Get().(*scratch)
	defer m.scratches.Put(s)
	for first := 0; first < n; first += blockRows {
		if err := ctx.Err(); err != nil {
			return err
		}
		end := min(first+blockRows, n)
		block := scores[first:end]
		m.flat.score(s, rows.Values[first*rows.Width:end*rows.Width], block)
		if m.probability {
			for i, margin := range block {
				block[i] = probability(margin)
			}
		}
	}
	return nil
}

// Margins writes the sum of base margin and leaves of each row to out, which
// has room for rows.Len() of them, whatever the objective. Rows of another
// width than the model's are a programming error.
func (m *Model) Margins(rows model.Rows, out []float32) {
	if rows.Width != m.info.Inputs || len(rows.Values)%rows.Width != 0 {
		panic(fmt.Sprintf("%d values in rows of %d for a model of %d inputs", len(rows.Values), rows.Width, m.info.Inputs))
	}
	s := m.scratches.Get().(*scratch)
	defer m.scratches.Put(s)
	m.flat.score(s, rows.Values, out[:rows.Len()])
}
