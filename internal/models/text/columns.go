package text

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
)

// entry is a non-zero column of a row.
type entry struct {
	value  float64
	column uint32
	slot   uint32 // its slot in the tally
}

// tally adds to a column. The first time it creates an entry for the column.
func (s *scratch) tally(column uint32, count float64) {
	mask := uint32(len(s.slots) - 1)
	at := column * 0x9e3779b1 >> 7 & mask
	for s.slots[at] != 0 {
		if e := &s.entries[s.slots[at]-1]; e.column == column {
			e.value += count
			return
		}
		at = (at + 1) & mask
	}
	s.entries = append(s.entries, entry{count, column, at})
	s.slots[at] = uint32(len(s.entries))
	if 2*len(s.entries) > len(s.slots) {
		s.grow()
	}
}

// grow doubles the tally, which has entries of other blocks too.
func (s *scratch) grow() {
	s.slots = make([]uint32, 2*len(s.slots))
	mask := uint32(len(s.slots) - 1)
	for i := range s.entries {
		e := &s.entries[i]
		at := e.column * 0x9e3779b1 >> 7 & mask
		for s.slots[at] != 0 {
			at = (at + 1) & mask
		}
		s.slots[at], e.slot = uint32(i)+1, at
	}
}

// reset removes the entries of a row.
func (s *scratch) reset() {
	for _, e := range s.entries {
		s.slots[e.slot] = 0
	}
	s.entries = s.entries[:0]
}

type norm int

const (
	noNorm norm = iota
	l1
	l2
	largest
)

func parseNorm(name string) (norm, error) {
	switch name {
	case "":
		return noNorm, nil
	case "l1":
		return l1, nil
	case "l2":
		return l2, nil
	case "max":
		return largest, nil
	}
	return noNorm, fmt.Errorf("norm %q is not one of l1, l2, max", clip(name))
}

// apply divides values by their norm, unless the norm is zero.
func (n norm) apply(entries []entry) {
	if n == noNorm {
		return
	}
	size := 0.0
	for _, e := range entries {
		switch n {
		case l1:
			size += math.Abs(e.value)
		case l2:
			size += float64(e.value * e.value)
		case largest:
			size = max(size, math.Abs(e.value))
		}
	}
	if n == l2 {
		size = math.Sqrt(size)
	}
	if size == 0 {
		return
	}
	for i := range entries {
		entries[i].value /= size
	}
}

// step changes values, each by its own number.
type step struct {
	do     func(value, by float64) float64
	values []float64
	norm   norm
}

var arithmetic = map[string]func(value, by float64) float64{
	"subtract": func(value, by float64) float64 { return value - by },
	"add":      func(value, by float64) float64 { return value + by },
	"multiply": func(value, by float64) float64 { return float64(value * by) },
	"divide":   func(value, by float64) float64 { return value / by },
	"at_least": func(value, by float64) float64 { return math.Max(value, by) },
	"at_most":  func(value, by float64) float64 { return math.Min(value, by) },
	"above": func(value, by float64) float64 {
		if value > by {
			return 1
		}
		return 0
	},
	"fill": func(value, by float64) float64 {
		if math.IsNaN(value) {
			return by
		}
		return value
	},
}

// parseSteps reads steps over this many columns. If sparse is set, as for whole rows, zeros are not
// stored, so it refuses steps that change a zero.
func parseSteps(list []fileStep, columns int, sparse bool) ([]step, error) {
	const most = 64 // each step reads all entries of a row
	if len(list) > most {
		return nil, fmt.Errorf("%d steps, more than %d", len(list), most)
	}
	var steps []step
	for i, from := range list {
		n, err := parseNorm(from.Norm)
		do := arithmetic[from.Do]
		switch {
		case err != nil:
		case from.Do == "norm" && n != noNorm && len(from.Values) == 0:
			steps = append(steps, step{norm: n})
			continue
		case do == nil || n != noNorm:
			err = fmt.Errorf("%q is not a step", clip(from.Do))
		case len(from.Values) != columns:
			err = fmt.Errorf("%s has %d values for %d columns", from.Do, len(from.Values), columns)
		}
		if err != nil {
			return nil, fmt.Errorf("step %d: %w", i+1, err)
		}
		for c, by := range from.Values {
			if sparse && do(0, by) != 0 || from.Do == "divide" && by == 0 {
				return nil, fmt.Errorf("step %d: %s by %g in column %d changes values that are missing", i+1, from.Do, by, c)
			}
		}
		steps = append(steps, step{do: do, values: from.Values})
	}
	return steps, nil
}

// apply changes entries. Their columns start at first.
func (p step) apply(entries []entry, first int) {
	if p.do == nil {
		p.norm.apply(entries)
		return
	}
	for i := range entries {
		e := &entries[i]
		e.value = p.do(e.value, p.values[int(e.column)-first])
	}
}

// numbers are columns of numbers, one for each input.
type numbers struct {
	inputs []int
	first  int
	steps  []step
	fills  bool // steps replace all missing values
}

func (f *fileNumbers) numbers(first int) (*numbers, error) {
	steps, err := parseSteps(f.Steps, len(f.Inputs), false)
	if err != nil {
		return nil, err
	}
	n := &numbers{inputs: f.Inputs, first: first, steps: steps}
	for _, s := range f.Steps {
		n.fills = n.fills || s.Do == "fill"
	}
	return n, nil
}

func (n *numbers) write(s *scratch, columns []Column, row int) {
	from := len(s.entries)
	for i, input := range n.inputs {
		s.tally(uint32(n.first+i), columns[input].Numbers[row])
	}
	for _, step := range n.steps {
		step.apply(s.entries[from:], n.first)
	}
}

// category holds the columns for the values of one input.
type category struct {
	input   int
	first   int
	width   int
	numbers map[float64]int // column by number, -1 for no column; for inputs that are numbers
	texts   map[string]int
	missing int // column of a missing value
	unknown int
}

// refused replaces the column for values that make a row invalid.
const refused = -2

func (f *fileCategory) category(kind Kind, first int) (*category, error) {
	c := &category{
		input: f.Input, first: first, width: f.Width, missing: refused, unknown: refused,
		numbers: map[float64]int{}, texts: map[string]int{},
	}
	if len(f.Values) != len(f.Columns) || c.width < 0 || c.width > columnsMax {
		return nil, fmt.Errorf("%d values have %d columns of %d", len(f.Values), len(f.Columns), f.Width)
	}
	switch f.Unknown {
	case "error":
	case "ignore":
		c.unknown, c.missing = -1, -1
	default:
		return nil, fmt.Errorf("unknown %q is not one of error, ignore", clip(f.Unknown))
	}
	for i, value := range f.Values {
		column := f.Columns[i]
		if column < -1 || column >= c.width {
			return nil, fmt.Errorf("value %d has column %d of %d", i, column, c.width)
		}
		if err := c.add(value, kind, column); err != nil {
			return nil, fmt.Errorf("value %d: %w", i, err)
		}
	}
	if len(f.Fill) == 0 {
		return c, nil
	}
	column, err := c.find(f.Fill, kind)
	c.missing = column
	return c, err
}

var errKind = errors.New("is not of the kind of its input")

// add gives a value its column.
func (c *category) add(value json.RawMessage, kind Kind, column int) error {
	var number float64
	var text string
	switch {
	case string(value) == "null":
		c.missing = column
		return nil
	case kind == Number && json.Unmarshal(value, &number) == nil:
		if _, ok := c.numbers[number]; ok {
			return errors.New("occurs twice")
		}
		c.numbers[number] = column
		return nil
	case kind != Number && json.Unmarshal(value, &text) == nil:
		if _, ok := c.texts[text]; ok {
			return errors.New("occurs twice")
		}
		c.texts[text] = column
		return nil
	}
	return errKind
}

// find returns the column of a value in the file.
func (c *category) find(value json.RawMessage, kind Kind) (int, error) {
	var number float64
	var text string
	switch {
	case kind == Number && json.Unmarshal(value, &number) == nil:
		return c.ofNumber(number), nil
	case kind != Number && json.Unmarshal(value, &text) == nil:
		return c.ofText(text), nil
	}
	return 0, fmt.Errorf("fill: %w", errKind)
}

func (c *category) ofNumber(value float64) int {
	if math.IsNaN(value) {
		return c.missing
	}
	if column, ok := c.numbers[value]; ok {
		return column
	}
	return c.unknown
}

func (c *category) ofText(value string) int {
	if column, ok := c.texts[value]; ok {
		return column
	}
	return c.unknown
}

// column returns the column of a row's value, -1 for no column, or refused.
func (c *category) column(in *Column, row int) int {
	switch {
	case in.Numbers != nil:
		return c.ofNumber(in.Numbers[row])
	case in.Missing != nil && in.Missing[row]:
		return c.missing
	}
	return c.ofText(in.Texts[row])
}
