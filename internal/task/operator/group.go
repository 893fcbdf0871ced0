package operator

import (
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/afterbay/afterbay/internal/event/expression"
	"github.com/afterbay/afterbay/internal/event/value"
)

// Group collects events of a key, and goes on with one event made of them. What
// collects them is package group.
type Group struct {
	Index  int           // among the pipeline's groups
	Name   string        // prefix of the names that it introduces
	By     value.Slot    // string or int: events of one key and value are together
	Order  *value.Slot   // int, from 0 on; nil orders by event time
	End    *value.Slot   // bool: the event is the last in order; nil where nothing says so
	ID     value.Slot    // string or int: a second event of the same is left out
	Idle   time.Duration // of event time without an event, that ends it; 0 is never
	Within time.Duration // of event time since its first event, that ends it; 0 is never
	Every  time.Duration // windows begin at the multiples of it; 0 is no windows: the times of the events cut groups
	Size   time.Duration // of a window, a multiple of Every
	Events int           // most of a group
	Bytes  int           // most of a group
	Open   int           // most groups beside a partition
	Late   LatePolicy    // of events for a group that ended: LateDead, LateDrop or LateInclude
	Pass   bool          // a group that ended incomplete goes on, and is no dead letter

	Columns GroupColumns
	Lists   []GroupList
	Values  []GroupValue
	Folded  bool // nothing needs its events, which are not stored; of groups that Idle alone cuts
}

// GroupColumns are what a group introduces, whatever its events are.
type GroupColumns struct {
	Key, Count, Complete, Missing, Ended value.Slot
	Start, End                           value.Slot // of a window
}

// Stores reports whether the events of a group are stored until its event is through.
func (g *Group) Stores() bool { return !g.Windows() && !g.Folded }

// Windows reports whether the groups are windows, which keep no events.
func (g *Group) Windows() bool { return g.Every > 0 }

// GroupValue is an aggregate of the events of a group.
type GroupValue struct {
	Name      string
	Aggregate Aggregate
	Value     *expression.Program // of type int or number; nil for AggregateCount
	Slot      value.Slot
}

// Aggregate is how the values of events become one.
type Aggregate uint8

// The aggregates. A sum is exact: it is rounded once, at its end.
const (
	AggregateCount Aggregate = iota
	AggregateSum
	AggregateMean
	AggregateMin
	AggregateMax
)

// AggregatedMax is the greatest value that is aggregated: a sum of very many of them is a
// number, too.
const AggregatedMax = 1e290

// Kind is the type of the aggregate. Sums and extremes of ints are ints.
func (v *GroupValue) Kind() value.Kind {
	if v.Aggregate == AggregateCount || v.Aggregate != AggregateMean && v.Value != nil && v.Value.Type().Kind == value.Int {
		return value.Int
	}
	return value.Number
}

// Of returns the value of an event, as parts that add up to it; nil for AggregateCount. A
// number is one part. An int is two, its lower and upper half, because one float64 holds 53
// of its 64 bits. An error makes the event a dead letter.
func (v *GroupValue) Of(row *value.Row) (parts []float64, err error) {
	switch {
	case v.Value == nil:
		return nil, nil
	case v.Value.Type().Kind == value.Int:
		var n int64
		if n, err = v.Value.Int(row); err == nil {
			return []float64{float64(uint32(n)), float64(n >> 32 << 32)}, nil
		}
	default:
		var x float64
		if x, err = v.Value.Number(row); err == nil && math.Abs(x) > AggregatedMax {
			err = fmt.Errorf("is %v: a group aggregates numbers up to %v", x, AggregatedMax)
		}
		if err == nil {
			return []float64{x}, nil
		}
	}
	return nil, fmt.Errorf("%s: %w", v.Name, err)
}

// GroupList is a field of the members, one behind the other: a list of strings, or
// bytes.
type GroupList struct{ Field, Slot value.Slot }

// Place returns where an event belongs: the text of what it is grouped by, what it
// is ordered by and its id. t is the event's time. The error is the event's.
func (g *Group) Place(row *value.Row, t int64) (by, id string, order int64, err error) {
	if !row.Has(g.By) {
		return "", "", 0, fmt.Errorf("has no %s: what it is grouped by", g.By.Name)
	}
	order = t
	if g.Order != nil {
		if !row.Has(*g.Order) {
			return "", "", 0, fmt.Errorf("has no %s: its place in the group", g.Order.Name)
		}
		if order = row.Int(*g.Order); order < 0 || order > math.MaxInt32 {
			return "", "", 0, fmt.Errorf("%s is %d: events of a group are numbered from 0 to %d", g.Order.Name, order, math.MaxInt32)
		}
	}
	if !row.Has(g.ID) {
		return "", "", 0, fmt.Errorf("has no %s: by which it is known", g.ID.Name)
	}
	if by = string(row.AppendKey(nil, g.By)); len(by) > groupKeyMax {
		return "", "", 0, errGroupKey
	}
	return by, string(row.AppendKey(nil, g.ID)), order, nil
}

const groupKeyMax = 1024 // bytes

var errGroupKey = errors.New("what it is grouped by has more than 1024 bytes")

// Last reports whether the event says that it is the last of its group.
func (g *Group) Last(row *value.Row) bool {
	return g.End != nil && row.Has(*g.End) && row.Bool(*g.End)
}

// Label implements Operator.
func (g *Group) Label() (kind, name string) { return "group", g.Name }

// Run implements Operator.
func (g *Group) Run(e *Event) error { return e.Kept.Collect(e, g) }

// texts has nothing: the lists are texts of the members.
func (g *Group) texts() []value.Slot { return nil }

// Makes implements Operator.
func (g *Group) Makes() []value.Slot {
	slots := []value.Slot{g.Columns.Key, g.Columns.Count, g.Columns.Complete, g.Columns.Missing, g.Columns.Ended}
	if g.Windows() {
		slots = append(slots, g.Columns.Start, g.Columns.End)
	}
	for i := range g.Values {
		slots = append(slots, g.Values[i].Slot)
	}
	for _, l := range g.Lists {
		slots = append(slots, l.Slot)
	}
	return slots
}

// Complete sets the lists that a row of the group lacks, because its events were collected before
// the pipeline read the field: each event lacks the field, so its text is empty.
func (g *Group) Complete(row *value.Row) {
	n := max(0, min(row.Int(g.Columns.Count), int64(g.Events)))
	for _, l := range g.Lists {
		switch {
		case row.Has(l.Slot):
		case l.Slot.Type.Kind == value.Bytes:
			row.SetText(l.Slot, "")
		default:
			row.SetText(l.Slot, value.Text(make([]byte, n))) // the length of each, 0
		}
	}
}
