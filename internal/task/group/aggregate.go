package group

import (
	"encoding/binary"
	"math"
	"slices"

	"github.com/afterbay/afterbay/internal/event/value"
	"github.com/afterbay/afterbay/internal/state/packed"
	"github.com/afterbay/afterbay/internal/task/operator"
)

// aggregate is an aggregate of events. It is the same in whatever order they come.
type aggregate struct {
	n     int64     // events
	parts []float64 // the exact sum as numbers without common digits, the smallest first; or the minimum or maximum
}

// aggregatesOf returns the aggregates of one event. The error is the event's.
func aggregatesOf(g *operator.Group, row *value.Row) ([]aggregate, error) {
	if len(g.Values) == 0 {
		return nil, nil
	}
	list := make([]aggregate, len(g.Values))
	for i := range g.Values {
		v := &g.Values[i]
		x, err := v.Of(row)
		if err != nil {
			return nil, err
		}
		if list[i].n = 1; v.Value != nil {
			list[i].take(v.Aggregate, x)
		}
	}
	return list, nil
}

// merge adds the aggregates of other events. It does not change those.
func merge(g *operator.Group, into, others []aggregate) {
	for i := range into {
		if i == len(others) {
			return // of an event that was stored before the group had the value
		}
		if into[i].n == 0 { // as they are stored: added one by one, the parts might be others
			into[i] = aggregate{others[i].n, slices.Clone(others[i].parts)}
			continue
		}
		into[i].n += others[i].n
		for _, x := range others[i].parts {
			into[i].take(g.Values[i].Aggregate, x)
		}
	}
}

func (a *aggregate) take(how operator.Aggregate, x float64) {
	switch {
	case how == operator.AggregateSum || how == operator.AggregateMean:
		a.add(x)
	case len(a.parts) == 0:
		a.parts = append(a.parts, x)
	case how == operator.AggregateMin:
		a.parts[0] = min(a.parts[0], x)
	default:
		a.parts[0] = max(a.parts[0], x)
	}
}

// add adds a number without rounding: the parts are what Shewchuk calls an expansion.
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

// sum returns what the parts add up to, rounded once, half to even.
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
		if x := sum + 2*rest; x-sum == 2*rest { // it was half way, and is not
			sum = x
		}
	}
	return sum
}

// set puts an aggregate into the row of a group's event.
func (a *aggregate) set(v *operator.GroupValue, row *value.Row) {
	switch v.Aggregate {
	case operator.AggregateCount:
		row.SetInt(v.Slot, a.n)
	case operator.AggregateMean:
		row.SetNumber(v.Slot, a.sum()/float64(max(a.n, 1)))
	default:
		row.SetNumber(v.Slot, a.sum())
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

// aggregatesFrom reads what appendAggregates wrote.
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
