package main

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/afterbay/afterbay/model"
	"github.com/afterbay/afterbay/model/load"
)

const scoreRows = 1024 // of one call

// score writes what a model says of each row of a CSV file: predictions and,
// where the model has them, margins or scores at full precision, and its texts in
// quotes.
func (a *app) score(m model.Model, source io.Reader, name string) error {
	info := m.Info()
	table, err := load.NewTable(source, name, info)
	if err != nil {
		return err
	}
	others := len(table.Others())
	switch {
	case others > 0 && info.Names() == nil:
		return fmt.Errorf("%s:1: %d columns too many: the model has no names of its inputs, so give these in order and nothing else", name, others)
	case others > 0:
		fmt.Fprintf(a.stderr, "%s:1: %d columns are no inputs of the model and are left out\n", name, others)
	}
	out := newLines(a.stdout, false)
	columns := load.ScoreColumns(m)
	for _, o := range info.Outputs {
		if o.Text() {
			columns = append(columns, cmp.Or(o.Name, "text"))
		}
	}
	if err := out.write([]byte(strings.Join(columns, ","))); err != nil {
		return err
	}
	width, bytesWidth := info.Width(), info.BytesWidth()
	rows := model.Rows{Width: width, BytesWidth: bytesWidth}
	for more := true; more; {
		values, texts := len(rows.Values), len(rows.Bytes)
		err := table.Next(&rows)
		if more = !errors.Is(err, io.EOF); more && err != nil {
			return errors.Join(err, out.close())
		}
		if more {
			if err := m.Check(rows.Values[values:], rows.Bytes[texts:]); err != nil {
				return errors.Join(fmt.Errorf("%s: %w", table.Where(), err), out.close())
			}
		}
		if !more && rows.N > 0 || rows.N == scoreRows {
			if err := a.writeScores(m, rows, out); err != nil {
				return err
			}
			rows = model.Rows{Width: width, Values: rows.Values[:0], BytesWidth: bytesWidth, Bytes: rows.Bytes[:0]}
		}
	}
	return out.close()
}

func (a *app) writeScores(m model.Model, rows model.Rows, out *lines) error {
	var exactness model.Exactness
	var exact []float64
	if e, ok := m.(model.Exact); ok {
		exactness = e.Exactness()
		exact = make([]float64, rows.Len()*exactness.Columns)
		if err := e.ScoreExactly(a.ctx, rows, exact); err != nil {
			return err
		}
	}
	outputs, words := m.Info().Scores(), m.Info().Texts()
	scores, texts := make([]float32, rows.Len()*outputs), make([][]byte, rows.Len()*words)
	if err := model.Ask(a.ctx, m, rows, scores, texts); err != nil {
		return err
	}
	var line []byte
	for i := range rows.Len() {
		line = line[:0]
		for _, v := range exact[i*exactness.Columns : (i+1)*exactness.Columns] {
			line = append(strconv.AppendFloat(line, v, 'g', -1, exactness.Bits), ',')
		}
		for _, v := range scores[i*outputs : (i+1)*outputs] {
			line = append(strconv.AppendFloat(line, float64(v), 'g', -1, 32), ',')
		}
		for _, text := range texts[i*words : (i+1)*words] {
			if text != nil {
				line = append(append(append(line, '"'), bytes.ReplaceAll(text, []byte{'"'}, []byte(`""`))...), '"')
			}
			line = append(line, ',')
		}
		if err := out.write(line[:len(line)-1]); err != nil {
			return err
		}
	}
	return nil
}
