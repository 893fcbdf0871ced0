package batch

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"sync"

	"github.com/afterbay/afterbay/internal/models/calling"
	"github.com/afterbay/afterbay/internal/state/packed"
	"github.com/afterbay/afterbay/model"
)

// Lists is a model for lists of rows of another model. A row is one text, built by AppendElement.
// Its answer is one text, read by NextAnswer. If the other model fails on a row, the whole list
// fails with an error that names the row.
type Lists struct {
	model.Model
	Size     int  // most rows of a call of Model
	ByLength bool // rows of similar length share calls
	Width    int  // numbers per row
	Texts    int  // texts per row
	Most     int  // most rows per list

	gathers sync.Pool // of *Gather
}

var _ model.Answerer = (*Lists)(nil)

// Info implements model.Model. A request of a model has whole lists.
func (l *Lists) Info() model.Info {
	info := l.Model.Info()
	info.Inputs = []model.Input{{Name: "rows", Type: model.Bytes}}
	info.Outputs = []model.Output{{Name: "answers", Size: 1, Type: model.Bytes}}
	info.Request += "\x00lists"
	if info.RowsMax > 0 {
		info.RowsMax = max(info.RowsMax/l.Most, 1)
	}
	return info
}

// Of returns the same lists with another model for their rows.
func (l *Lists) Of(m model.Model) *Lists {
	return &Lists{Model: m, Size: l.Size, ByLength: l.ByLength, Width: l.Width, Texts: l.Texts, Most: l.Most}
}

// Unwrap returns the model that scores the rows of the lists.
func (l *Lists) Unwrap() model.Model { return l.Model }

// Check implements model.Model. It accepts all lists: their rows are checked when a list is made.
func (l *Lists) Check([]float64, [][]byte) error { return nil }

// Predict implements model.Model.
func (l *Lists) Predict(context.Context, model.Rows, []float32) error { return calling.ErrTexts }

// AppendElement appends a row to the text of a list, with the index of its element.
func AppendElement(list []byte, place int, values []float64, texts [][]byte) []byte {
	list = binary.AppendUvarint(list, uint64(place))
	for _, v := range values {
		list = binary.LittleEndian.AppendUint64(list, math.Float64bits(v))
	}
	return packed.AppendTexts(list, texts)
}

// Answer implements model.Answerer.
func (l *Lists) Answer(ctx context.Context, rows model.Rows, _ []float32, answers [][]byte) error {
	g, _ := l.gathers.Get().(*Gather)
	if g == nil {
		g = new(Gather)
	}
	defer func() {
		g.Begin(0, 0) // releases the memory that it points to
		l.gathers.Put(g)
	}()
	g.Begin(l.Width, l.Texts)
	var places []int
	ends := make([]int, rows.Len()) // end of each list in the rows
	for i := range ends {
		for rest := rows.Bytes[i]; len(rest) > 0; {
			place, err := 0, error(nil)
			if place, rest, err = l.row(g, rest); err != nil {
				return err
			}
			places = append(places, place)
		}
		ends[i] = len(places)
	}
	outputs := l.Model.Info().Scores()
	if len(places) > 0 {
		if err := g.Run(ctx, l.Model, outputs, l.Size, l.ByLength); err != nil {
			return err
		}
	}
	failed := failedLists(g.Failed, places, ends)
	from := 0
	for i, end := range ends {
		answers[i] = make([]byte, 0, (end-from)*4*outputs)
		for ; from < end; from++ {
			answers[i] = appendAnswer(answers[i], g.Answer(from))
		}
	}
	switch {
	case failed == nil:
		return nil
	case len(failed) == rows.Len() && calling.BlameOf(failed[0].Err) == model.BlameWay:
		return failed[0].Err
	}
	return failed
}

// row reads the first row of a list into g. It returns the index of its element and the rest of the
// list.
func (l *Lists) row(g *Gather, list []byte) (place int, rest []byte, err error) {
	at, n := binary.Uvarint(list)
	if n <= 0 || len(list)-n < 8*l.Width {
		return 0, nil, errList
	}
	list = list[n:]
	for range l.Width {
		g.Rows.Values = append(g.Rows.Values, math.Float64frombits(binary.LittleEndian.Uint64(list)))
		list = list[8:]
	}
	for range l.Texts {
		text, after, ok := packed.NextText(list)
		if !ok {
			return 0, nil, errList
		}
		g.Rows.Bytes, list = append(g.Rows.Bytes, text), after
	}
	g.Rows.N++
	return int(at), list, nil
}

var errList = errors.New("a list of rows, or of their answers, cannot be read: only the engine makes it")

// failedLists returns the errors of the lists with failed rows. The error of a list is that of its
// first failed row.
func failedLists(rows []Failed, places, ends []int) model.RowErrors {
	first := make([]*Failed, len(ends))
	for i := range rows {
		list := 0
		for ends[list] <= rows[i].Row {
			list++
		}
		if first[list] == nil || first[list].Row > rows[i].Row {
			first[list] = &rows[i]
		}
	}
	var failed model.RowErrors
	for list, f := range first {
		if f == nil {
			continue
		}
		err := f.Err
		if calling.BlameOf(err) != model.BlameWay {
			err = fmt.Errorf("element %d: %w", places[f.Row], err)
		}
		failed = append(failed, model.RowError{Row: list, Err: err})
	}
	return failed
}

// appendAnswer appends the answer to a row to those of a list.
func appendAnswer(to []byte, answer model.Answer) []byte {
	for _, score := range answer.Scores {
		to = binary.LittleEndian.AppendUint32(to, math.Float32bits(score))
	}
	return packed.AppendTexts(to, answer.Texts)
}

// NextAnswer reads the first answer of a list into an answer with room for its scores and
// texts, and returns the rest.
func NextAnswer(list []byte, into *model.Answer) (rest []byte, err error) {
	if len(list) < 4*len(into.Scores) {
		return nil, errList
	}
	for i := range into.Scores {
		into.Scores[i] = math.Float32frombits(binary.LittleEndian.Uint32(list))
		list = list[4:]
	}
	for i := range into.Texts {
		text, after, ok := packed.NextText(list)
		if !ok {
			return nil, errList
		}
		into.Texts[i], list = text, after
	}
	return list, nil
}
