package eventtime

import (
	"fmt"
	"math"
	"math/big"
	"slices"
)

// Feature is an aggregate of the events of a key.
type Feature struct {
	By        string // the text field that is the key
	From      string // the topic whose events count; "" is each
	Value     string // the field: a number, for distinct a text; count has none
	Window    int64  // counts events of (t - Window, t], t being the time of the event that reads
	Last      int    // counts this many newest events instead, in their order
	Aggregate string // count, sum, mean, min, max, stddev or distinct
}

// Rows returns the features of each event, by its id: of the events up to it in the
// order, itself among them. NaN is no value: of an event that lacks the key, and of no events
// where the aggregate has none.
func Rows(order []Placed, features ...Feature) map[string][]float64 {
	rows := map[string][]float64{}
	for _, f := range features {
		before := map[string][]*Placed{}
		for i := range order {
			x := &order[i]
			key, ok := x.Text[f.By]
			if ok && (f.From == "" || f.From == x.Topic) {
				before[key] = append(before[key], x)
			}
			v := math.NaN()
			if ok {
				v = f.of(f.counted(before[key], x.Time))
			}
			rows[x.ID] = append(rows[x.ID], v)
		}
	}
	return rows
}

// counted returns the events that count at time at.
func (f Feature) counted(before []*Placed, at int64) []*Placed {
	if f.Last > 0 {
		return before[max(0, len(before)-f.Last):]
	}
	var in []*Placed
	for _, e := range before {
		if e.Time > at-f.Window && e.Time <= at {
			in = append(in, e)
		}
	}
	return in
}

// of aggregates without rounding, and rounds the result.
func (f Feature) of(events []*Placed) float64 {
	switch {
	case f.Aggregate == "count":
		return float64(len(events))
	case f.Aggregate == "distinct":
		texts := map[string]bool{}
		for _, e := range events {
			texts[e.Text[f.Value]] = true
		}
		return float64(len(texts))
	case len(events) == 0 && f.Aggregate != "sum":
		return math.NaN()
	}
	values := make([]float64, len(events))
	for i, e := range events {
		values[i] = e.Number[f.Value]
	}
	switch f.Aggregate {
	case "sum":
		sum, _ := sum(values).Float64()
		return sum
	case "mean":
		mean, _ := new(big.Float).Quo(sum(values), exact(float64(len(values)))).Float64()
		return mean
	case "stddev":
		return deviation(values)
	case "min":
		return slices.Min(values)
	case "max":
		return slices.Max(values)
	}
	panic(fmt.Sprintf("there is no aggregate %q", f.Aggregate))
}

// exact returns v with room for the sum of any numbers.
func exact(v float64) *big.Float { return new(big.Float).SetPrec(2400).SetFloat64(v) }

func sum(values []float64) *big.Float {
	sum := exact(0)
	for _, v := range values {
		sum.Add(sum, new(big.Float).SetFloat64(v))
	}
	return sum
}

// deviation returns the standard deviation of all values there are.
func deviation(values []float64) float64 {
	n := new(big.Rat).SetInt64(int64(len(values)))
	mean, squares := new(big.Rat), new(big.Rat)
	for _, v := range values {
		mean.Add(mean, new(big.Rat).SetFloat64(v))
	}
	mean.Quo(mean, n)
	for _, v := range values {
		d := new(big.Rat).Sub(new(big.Rat).SetFloat64(v), mean)
		squares.Add(squares, d.Mul(d, d))
	}
	variance, _ := squares.Quo(squares, n).Float64()
	return math.Sqrt(variance)
}

// Looked is what an event found in a table.
type Looked struct {
	Row   *Event
	Found bool
}

// AsOf returns rows of a table by the id of each other event. The row is the newest one before the
// event in the order that has the event's text in the field key.
func AsOf(order []Placed, table, key string) map[string]Looked {
	found := map[string]Looked{}
	for i, x := range order {
		if x.Topic == table {
			continue
		}
		looked := Looked{}
		for j := range order[:i] {
			row := &order[j]
			if row.Topic == table && row.Text[key] == x.Text[key] {
				looked = Looked{Row: &row.Event, Found: !row.Deleted}
			}
		}
		found[x.ID] = looked
	}
	return found
}

// ValidAt returns the row of a table that was valid at the time of each other event, by the event's
// id. Among the rows with the event's text in the field key, it is the newest with a time at or
// before the event's, at any place in the log. If two rows have the same time, the later offset
// counts.
func ValidAt(events []Event, table, key string) map[string]Looked {
	found := map[string]Looked{}
	for _, x := range events {
		if x.Topic == table {
			continue
		}
		var newest *Event
		for i := range events {
			row := &events[i]
			if row.Topic != table || row.Text[key] != x.Text[key] || row.Time > x.Time {
				continue
			}
			if newest == nil || row.Time > newest.Time || row.Time == newest.Time && row.Offset > newest.Offset {
				newest = row
			}
		}
		found[x.ID] = Looked{Row: newest, Found: newest != nil && !newest.Deleted}
	}
	return found
}
