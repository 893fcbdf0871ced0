package group

import (
	"encoding/binary"
	"math"
	"math/big"
	"slices"

	"github.com/afterbay/afterbay/internal/event/value"
	"github.com/afterbay/afterbay/internal/state/packed"
	"github.com/afterbay/afterbay/internal/task/operator"
)

// aggregate is an aggregate of events. It does not depend on the order of the events.
type aggregate struct {
	n     int64     // number of events
	parts []float64 // the exact sum as non-overlapping numbers, the smallest first; or the minimum or maximum
}

// aggregatesOf returns the aggregates of one event. The error is the event's.
func aggregatesOf(g *operator.Group, row *value.Row) ([]aggregate, error) {
	if len(g.Values) == 0 {
		return nil, nil
	}
	list := make([]aggregate, len(g.Values))
	for i := range g.Values {
		v := &g.Values[i]
		parts, err := v.Of(row)
		if err != nil {
			return nil, err
		}
		list[i].n = 1
		list[i].take(v.Aggregate, parts)
	}
	return list, nil
}

// merge adds the aggregates of other events to into. It does not change others.
func merge(g *operator.Group, into, others []aggregate) {
	for i := range into {
		if i == len(others) {
			return // the event was stored before the group had the value
		}
		if into[i].n == 0 { // copied as stored: adding the parts one by one might change them
			into[i] = aggregate{others[i].n, slices.Clone(others[i].parts)}
			continue
		}
		into[i].n += others[i].n
		into[i].take(g.Values[i].Aggregate, others[i].parts)
	}
}

// take adds the parts of another aggregate.
func (a *aggregate) take(how operator.Aggregate, parts []float64) {
	switch {
	case how == operator.AggregateSum || how == operator.AggregateMean:
		for _, x := range parts {
			a.add(x)
		}
	case len(a.parts) == 0 || how == operator.AggregateMin && less(parts, a.parts) || how == operator.AggregateMax && less(a.parts, parts):
		a.parts = append(a.parts[:0], parts...)
	}
}

// less compares the parts of two values: two numbers, or two ints.
func less(a, b []float64) bool {
	for i := len(a) - 1; i >= 0; i-- {
		switch x, y := a[i], b[i]; {
		case x != y:
			return x < y
		case math.Signbit(x) != math.Signbit(y): // -0 is before 0
			return math.Signbit(x)
		}
	}
	return false
}

// add adds a number without rounding. The parts form an expansion as defined by Shewchuk.
func (a *aggregate) add(x float64) {
	n := 0
	for _, y := range a.parts {
		if math.Abs(x) < math.Abs(y) {
			x, y = y, x
		}
		sum := x + y
		if rest := y - (sum - x); rest != 0 {
			a.parts[n] = rest
			n++
		}
		x = sum
	}
	if a.parts = a.parts[:n]; x != 0 {
		a.parts = append(a.parts, x)
	}
}

// sum returns the sum of the parts, rounded once, half to even.
func (a *aggregate) sum() float64 {
	n := len(a.parts) - 1
	if n < 0 {
		return 0
	}
	sum, rest := a.parts[n], 0.0
	for n > 0 && rest == 0 {
		n--
		x, y := sum, a.parts[n]
		sum = x + y
		rest = y - (sum - x)
	}
	if n > 0 && rest != 0 && math.Signbit(rest) == math.Signbit(a.parts[n-1]) {
		if x := sum + 2*rest; x-sum == 2*rest { // the sum looked half way, but is not
			sum = x
		}
	}
	return sum
}

// int returns the sum of the parts of ints. ok is false if it does not fit in 64 bits.
func (a *aggregate) int() (n int64, ok bool) {
	sum := new(big.Int)
	for _, x := range a.parts {
		part, _ := big.NewFloat(x).Int(nil)
		sum.Add(sum, part)
	}
	return sum.Int64(), sum.IsInt64()
}

// set sets the value of an aggregate in the row of the group's event. It sets no value if a sum of
// ints does not fit in an int: see Ended.Refused.
func (a *aggregate) set(v *operator.GroupValue, row *value.Row) {
	switch {
	case v.Aggregate == operator.AggregateCount:
		row.SetInt(v.Slot, a.n)
	case v.Aggregate == operator.AggregateMean:
		row.SetNumber(v.Slot, a.sum()/float64(max(a.n, 1)))
	case v.Kind() == value.Number:
		row.SetNumber(v.Slot, a.sum())
	default:
		if n, ok := a.int(); ok {
			row.SetInt(v.Slot, n)
		}
	}
}

func appendAggregates(dst []byte, list []aggregate) []byte {
	dst = binary.AppendUvarint(dst, uint64(len(list)))
	for i := range list {
		dst = binary.AppendUvarint(dst, uint64(list[i].n))
		dst = binary.AppendUvarint(dst, uint64(len(list[i].parts)))
		for _, x := range list[i].parts {
			dst = binary.LittleEndian.AppendUint64(dst, math.Float64bits(x))
		}
	}
	return dst
}

// aggregatesFrom parses the output of appendAggregates.
func aggregatesFrom(r *packed.Reader) []aggregate {
	n := r.Count()
	if n == 0 {
		return nil
	}
	list := make([]aggregate, n)
	for i := range list {
		list[i].n = int64(r.Number())
		for range r.Count() {
			list[i].parts = append(list[i].parts, math.Float64frombits(r.Word()))
		}
	}
	return list
}
