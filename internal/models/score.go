package models

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/afterbay/afterbay/internal/models/calling"
	"github.com/afterbay/afterbay/internal/sys/term"
	"github.com/afterbay/afterbay/model"
)

const (
	rowsOfCall = 1024 // rows of one call
	scoreFails = 20   // row errors that are printed
)

// Score writes the model's answer to each row of a CSV file to output: predictions, its texts in
// quotes and, if the model has them, margins or scores at full precision. If a row cannot be
// scored, its cells are empty and its error goes to errs. The returned error counts these rows.
func Score(ctx context.Context, m model.Model, source io.Reader, name string, output, errs io.Writer) error {
	info := m.Info()
	table, err := NewTable(source, name, info)
	if err != nil {
		return err
	}
	others := len(table.Others())
	switch {
	case others > 0 && info.Names() == nil:
		return fmt.Errorf("%s:1: %d columns too many: the model has no names of its inputs, so give these in order and nothing else", name, others)
	case others > 0:
		fmt.Fprintf(errs, "%s:1: %d columns are not inputs of the model and are left out\n", name, others)
	}
	out := term.NewLines(output, false)
	columns := ScoreColumns(m)
	for _, o := range info.Outputs {
		if o.Text() {
			columns = append(columns, cmp.Or(o.Name, "text"))
		}
	}
	if err := out.Write([]byte(strings.Join(columns, ","))); err != nil {
		return err
	}
	s := &scoring{ctx: ctx, errs: errs, model: m, out: out, empty: []byte(strings.Repeat(",", len(columns)-1))}
	if len(columns) == 1 {
		s.empty = []byte(`""`) // an empty line is no row
	}
	s.rows = model.Rows{Width: info.Width(), BytesWidth: info.BytesWidth()}
	for more := true; more; {
		err := table.Next(&s.rows)
		if err == nil {
			err = table.Check(m, &s.rows)
		}
		var wrong *RowError
		switch {
		case errors.Is(err, io.EOF):
			more = false
		case errors.As(err, &wrong):
			s.wrong(wrong)
		case err != nil:
			return errors.Join(err, out.Close())
		default:
			s.where = append(s.where, table.Where())
		}
		if !more || len(s.where) == rowsOfCall {
			if err := s.write(); err != nil {
				return errors.Join(err, out.Close())
			}
		}
	}
	if err := out.Close(); err != nil || s.failed == 0 {
		return err
	}
	return fmt.Errorf("%s of %d could not be scored: their lines have empty cells", term.Counted(s.failed, "row"), s.total)
}

// scoring is a set of rows of a file that are scored together.
type scoring struct {
	ctx   context.Context
	errs  io.Writer
	model model.Model
	out   *term.Lines
	empty []byte // line of a row that has no scores

	rows  model.Rows
	where []string // place of each row of the file; "" for a row that is not in rows

	total, failed int
}

// wrong records that the next row of the file cannot be scored.
func (s *scoring) wrong(err error) {
	s.where = append(s.where, "")
	s.fail(s.total+len(s.where), err)
}

// fail reports why a row of the file, numbered from 1, has no scores.
func (s *scoring) fail(row int, err error) {
	switch s.failed++; {
	case s.failed <= scoreFails:
		fmt.Fprintf(s.errs, "row %d: %v\n", row, err)
	case s.failed == scoreFails+1:
		fmt.Fprintf(s.errs, "the errors of further rows are not printed\n")
	}
}

// write scores the rows and writes the lines of all rows, in the order of the file.
func (s *scoring) write() error {
	lines, failed, err := s.scores()
	if err != nil {
		return err
	}
	row := 0
	for i, where := range s.where {
		line := s.empty
		if where != "" {
			if err := failed[row]; err != nil {
				s.fail(s.total+i+1, fmt.Errorf("%s: %w", where, err))
			} else {
				line = lines[row]
			}
			row++
		}
		if err := s.out.Write(line); err != nil {
			return err
		}
	}
	s.total += len(s.where)
	s.where = s.where[:0]
	s.rows = model.Rows{Width: s.rows.Width, Values: s.rows.Values[:0], BytesWidth: s.rows.BytesWidth, Bytes: s.rows.Bytes[:0]}
	return nil
}

// scores returns the lines of the rows with scores, and the errors of the others.
func (s *scoring) scores() (written [][]byte, failed map[int]error, err error) {
	m, rows := s.model, s.rows
	if rows.N == 0 {
		return nil, nil, nil
	}
	var exactness model.Exactness
	var exact []float64
	if e, ok := m.(model.Exact); ok {
		exactness = e.Exactness()
		exact = make([]float64, rows.Len()*exactness.Columns)
		if err := e.ScoreExactly(s.ctx, rows, exact); err != nil {
			return nil, nil, err
		}
	}
	outputs, words := m.Info().Scores(), m.Info().Texts()
	scores, texts := make([]float32, rows.Len()*outputs), make([][]byte, rows.Len()*words)
	var each model.RowErrors
	if err := calling.Ask(s.ctx, m, rows, scores, texts); errors.As(err, &each) {
		failed = make(map[int]error, len(each))
		for _, e := range each {
			failed[e.Row] = e.Err
		}
	} else if err != nil {
		return nil, nil, err
	}
	for i := range rows.Len() {
		var line []byte
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
		written = append(written, line[:len(line)-1])
	}
	return written, failed, nil
}
