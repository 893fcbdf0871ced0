package main

import (
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/afterbay/afterbay/model"
	"github.com/afterbay/afterbay/model/tree"
)

const scoreRows = 1024 // of one call

// score writes margin and prediction of each row of a CSV file. Cells are read
// as float64 and rounded to float32, as the engine does with an event's
// numbers.
func (a *app) score(m *tree.Model, source io.Reader, name string) error {
	parser := csv.NewReader(source)
	parser.ReuseRecord = true
	header, err := parser.Read()
	if err != nil {
		return scoreError(name, err)
	}
	header[0] = strings.TrimPrefix(header[0], "\uFEFF")
	columns, err := a.columns(m.Info(), header, name)
	if err != nil {
		return err
	}
	titles := slices.Clone(header)
	out := newLines(a.stdout, false)
	if err := out.write([]byte(scoreHeader(m))); err != nil {
		return err
	}
	rows := model.Rows{Width: len(columns), Values: make([]float32, 0, scoreRows*len(columns))}
	for more := true; more; {
		cells, err := parser.Read()
		more = !errors.Is(err, io.EOF)
		if more && err != nil {
			return errors.Join(scoreError(name, err), out.close())
		}
		if more {
			from := len(rows.Values)
			for _, column := range columns {
				value, err := parseCell(cells[column])
				if err != nil {
					line, at := parser.FieldPos(column)
					return errors.Join(fmt.Errorf("%s:%d:%d: column %s: %w", name, line, at, titles[column], err), out.close())
				}
				rows.Values = append(rows.Values, value)
			}
			if err := m.Check(rows.Values[from:]); err != nil {
				line, _ := parser.FieldPos(0)
				return errors.Join(fmt.Errorf("%s:%d: %w", name, line, err), out.close())
			}
		}
		if !more || rows.Len() == scoreRows {
			if err := a.writeScores(m, rows, out); err != nil {
				return err
			}
			rows.Values = rows.Values[:0]
		}
	}
	return out.close()
}

func scoreError(name string, err error) error {
	if errors.Is(err, io.EOF) {
		return fmt.Errorf("%s: empty: give CSV with a header that names the columns", name)
	}
	return fmt.Errorf("%s: %w", name, err)
}

// columns finds the column of each input: by its name where the model has
// names, else by its place.
func (a *app) columns(info model.Info, header []string, name string) ([]int, error) {
	var columns []int
	if len(info.Names) == 0 {
		if len(header) != info.Inputs {
			return nil, fmt.Errorf("%s:1: %d columns for a model of %d inputs: the model has no names, so give its inputs in order and nothing else", name, len(header), info.Inputs)
		}
		for i := range header {
			columns = append(columns, i)
		}
		return columns, nil
	}
	var missing []string
	for _, input := range info.Names {
		i := slices.Index(header, input)
		if i < 0 {
			missing = append(missing, input)
		}
		columns = append(columns, i)
	}
	if missing != nil {
		return nil, fmt.Errorf("%s:1: the header lacks inputs of the model: %s; it has %s", name, strings.Join(missing, ", "), strings.Join(header, ", "))
	}
	if more := len(header) - len(columns); more > 0 {
		fmt.Fprintf(a.stderr, "%s:1: %d columns are no inputs of the model and are left out\n", name, more)
	}
	return columns, nil
}

func parseCell(cell string) (float32, error) {
	if cell == "" {
		return float32(math.NaN()), nil
	}
	value, err := strconv.ParseFloat(cell, 64)
	if err != nil {
		return 0, fmt.Errorf("%q is not a number: leave the cell empty where the value is missing", cell)
	}
	return float32(value), nil
}

func (a *app) writeScores(m *tree.Model, rows model.Rows, out *lines) error {
	if rows.Len() == 0 {
		return nil
	}
	perRow, outputs := m.MarginsPerRow(), m.Info().Outputs
	margins, scores := make([]float32, rows.Len()*perRow), make([]float32, rows.Len()*outputs)
	m.Margins(rows, margins)
	if err := m.Predict(a.ctx, rows, scores); err != nil {
		return err
	}
	var line []byte
	for i := range rows.Len() {
		line = line[:0]
		for _, v := range slices.Concat(margins[i*perRow:(i+1)*perRow], scores[i*outputs:(i+1)*outputs]) {
			line = append(strconv.AppendFloat(line, float64(v), 'g', -1, 32), ',')
		}
		if err := out.write(line[:len(line)-1]); err != nil {
			return err
		}
	}
	return nil
}

// scoreHeader names the columns of the scores: margin and prediction, numbered
// from 0 where there are several.
func scoreHeader(m *tree.Model) string {
	var names []string
	for _, c := range []struct {
		name string
		n    int
	}{{"margin", m.MarginsPerRow()}, {"prediction", m.Info().Outputs}} {
		for i := range c.n {
			name := c.name
			if c.n > 1 {
				name += "_" + strconv.Itoa(i)
			}
			names = append(names, name)
		}
	}
	return strings.Join(names, ",")
}
