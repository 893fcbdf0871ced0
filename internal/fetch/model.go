package fetch

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"golang.org/x/sync/errgroup"

	"github.com/afterbay/afterbay/internal/control"
	"github.com/afterbay/afterbay/internal/event/value"
	"github.com/afterbay/afterbay/internal/models/calling"
	"github.com/afterbay/afterbay/model"
)

// Model is a Fetcher with the interface of a model. The input is a URL or a list of URLs. The
// output is a text, the JSON object of a Row. So the engine handles slow or failing content in the
// same way as a slow or failing model. Events carry a reference to content, not the content itself.
// Contents reads the content for models.
type Model struct {
	*Fetcher
	list     bool
	bytesMax int64
	places   *places
	info     model.Info
}

var _ model.Answerer = Model{}

// Row is the output of a Model.
type Row struct {
	Bytes string `json:"bytes"` // a reference, in the format of slots of kind value.Content
	Sum   string `json:"sha256"`
	Size  int64  `json:"size"`
	Type  string `json:"type"`
}

// NewModel returns a fetcher as a model, for content of at most bytesMax. The input is one URL or,
// if list is true, a list of URLs made by value.AppendString. Each host and bucket has a circuit
// breaker. NewModel panics if the breaker's options are invalid.
func NewModel(f *Fetcher, list bool, bytesMax int64, breaker control.BreakerOptions) Model {
	return Model{f, list, bytesMax, newPlaces(breaker, f.options.Now, &f.forgotten), model.Info{
		Kind: "fetch", Digest: "fetch", Remote: true,
		Inputs:  []model.Input{{Name: "url", Type: model.String}},
		Outputs: []model.Output{{Name: "content", Size: 1, Type: model.String}},
	}}
}

// Info implements model.Model.
func (m Model) Info() model.Info { return m.info }

var errNoURL = errors.New("there is no URL")

// Check implements model.Model.
func (m Model) Check(_ []float64, bytes [][]byte) error {
	if len(bytes[0]) == 0 {
		return errNoURL
	}
	return nil
}

// Predict implements model.Model. It returns an error, because content is not a score.
func (m Model) Predict(context.Context, model.Rows, []float32) error { return calling.ErrTexts }

// Answer implements model.Answerer. Rows without content become model.RowErrors.
func (m Model) Answer(ctx context.Context, rows model.Rows, _ []float32, texts [][]byte) error {
	return each(len(rows.Bytes), func(i int) error {
		content, err := m.fetch(ctx, urlsOf(rows.Bytes[i], m.list), m.bytesMax, m.places)
		if err != nil {
			return err
		}
		texts[i], err = json.Marshal(Row{content.reference(), content.Sum, content.Size, content.Type})
		return err
	})
}

// each calls do concurrently for each row, and collects the errors.
func each(rows int, do func(i int) error) error {
	errs := make([]error, rows)
	var group errgroup.Group
	group.SetLimit(16)
	for i := range rows {
		group.Go(func() error {
			errs[i] = do(i)
			return nil
		})
	}
	group.Wait()
	var failed model.RowErrors
	for i, err := range errs {
		if err != nil {
			failed = append(failed, model.RowError{Row: i, Err: err})
		}
	}
	if failed != nil {
		return failed
	}
	return nil
}

func urlsOf(text []byte, list bool) (urls []string) {
	if !list {
		return []string{string(text)}
	}
	for one := range value.EachString(string(text)) {
		urls = append(urls, one)
	}
	return urls
}

const hashName = "sha256:"

func (c Content) reference() string { return hashName + c.Sum + ":" + strconv.FormatInt(c.Size, 10) }

func parseReference(text []byte) (c Content, err error) {
	rest, ok := strings.CutPrefix(string(text), hashName)
	if len(rest) > 65 && ok && rest[64] == ':' {
		c.Sum = rest[:64]
		c.Size, err = strconv.ParseInt(rest[65:], 10, 64)
	}
	if c.Sum == "" || err != nil {
		return c, refuse("%.80q is not a reference to content", text)
	}
	return c, nil
}

// Column is an input of a model that takes content.
type Column struct {
	At   int  // index in the texts of a row
	Text bool // the content must be UTF-8

	From    Model         // the model that fetched the content
	Timeout time.Duration // timeout for fetching it again
}

// Contents replaces references in the rows of a model by the content. Its rows have, after the
// texts of the model's rows, the URLs of each column. If content is not cached, Contents fetches it
// again from these URLs. It does so only off the task loop, because it takes time.
type Contents struct {
	model.Model
	columns []Column
	texts   int // number of texts in the model's rows
}

var _ model.Answerer = Contents{}

// NewContents returns a model for rows with references.
func NewContents(m model.Model, columns []Column) Contents {
	return Contents{m, columns, m.Info().BytesWidth()}
}

// Check implements model.Model. The model itself can check a row only when the content is
// available.
func (c Contents) Check(values []float64, texts [][]byte) error {
	if len(texts) != c.texts+len(c.columns) {
		return fmt.Errorf("%d texts of a row, want %d", len(texts), c.texts+len(c.columns))
	}
	return nil
}

// Predict implements model.Model.
func (c Contents) Predict(ctx context.Context, rows model.Rows, scores []float32) error {
	return c.Answer(ctx, rows, scores, nil)
}

// Answer implements model.Answerer. Rows without content, and rows that the model refuses, become
// model.RowErrors.
func (c Contents) Answer(ctx context.Context, rows model.Rows, scores []float32, texts [][]byte) error {
	n := rows.Len()
	full := model.Rows{Width: rows.Width, Values: rows.Values, BytesWidth: c.texts, Bytes: make([][]byte, 0, n*c.texts), N: n}
	for i := range n {
		_, bytes := rows.Row(i)
		full.Bytes = append(full.Bytes, bytes[:c.texts]...)
	}
	err := each(n, func(i int) error {
		_, given := rows.Row(i)
		values, bytes := full.Row(i)
		if err := c.fill(ctx, bytes, given[c.texts:]); err != nil {
			return err
		}
		if err := c.Model.Check(values, bytes); err != nil {
			return refuse("%w", err)
		}
		return nil
	})
	var failed model.RowErrors
	if !errors.As(err, &failed) {
		return calling.Ask(ctx, c.Model, full, scores, texts)
	}
	return c.answerSome(ctx, full, failed, scores, texts)
}

// fill replaces the references of a row by content.
func (c Contents) fill(ctx context.Context, bytes, urls [][]byte) error {
	for k, column := range c.columns {
		reference := bytes[column.At]
		if reference == nil { // the model may accept a row without this input
			continue
		}
		content, err := parseReference(reference)
		if err != nil {
			return err
		}
		got, err := column.bytes(ctx, content, urls[k])
		if err != nil {
			return err
		}
		if column.Text && !utf8.Valid(got) {
			return refuse("content sha256:%s is not UTF-8 text", content.Sum)
		}
		bytes[column.At] = got
	}
	return nil
}

// bytes returns content. It fetches content again only off the task loop.
func (c *Column) bytes(ctx context.Context, of Content, urls []byte) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, c.Timeout)
	defer cancel()
	return c.From.content(ctx, of, urlsOf(urls, c.From.list), model.CallOf(ctx).OffLoop, c.From.places)
}

// answerSome calls the model for the rows that did not fail.
func (c Contents) answerSome(ctx context.Context, rows model.Rows, failed model.RowErrors, scores []float32, texts [][]byte) error {
	n, info := rows.Len(), c.Info()
	wide, said := info.Scores(), info.Texts()
	some := model.Rows{Width: rows.Width, BytesWidth: rows.BytesWidth}
	var places []int
	for i, next := 0, 0; i < n; i++ {
		if next < len(failed) && failed[next].Row == i {
			next++
			continue
		}
		some.Append(rows.Row(i))
		places = append(places, i)
	}
	if len(places) == 0 {
		return failed
	}
	someScores, someTexts := make([]float32, len(places)*wide), make([][]byte, len(places)*said)
	err := calling.Ask(ctx, c.Model, some, someScores, someTexts)
	var refused model.RowErrors
	if err != nil && !errors.As(err, &refused) {
		return err
	}
	for k, i := range places {
		copy(scores[i*wide:(i+1)*wide], someScores[k*wide:])
		copy(texts[i*said:(i+1)*said], someTexts[k*said:])
	}
	for _, r := range refused {
		failed = append(failed, model.RowError{Row: places[r.Row], Err: r.Err})
	}
	slices.SortFunc(failed, func(a, b model.RowError) int { return cmp.Compare(a.Row, b.Row) })
	return failed
}
