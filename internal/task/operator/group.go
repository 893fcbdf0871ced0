package operator

import (
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/afterbay/afterbay/internal/event/expression"
	"github.com/afterbay/afterbay/internal/event/value"
)

// Group collects events of a key, and continues with one event made of them. Package group
// implements the collection.
type Group struct {
	Index  int           // index among the pipeline's groups
	Name   string        // prefix of the names that it introduces
	By     value.Slot    // string or int: events with equal key and value are in one group
	Order  *value.Slot   // int, from 0 on; nil orders by event time
	End    *value.Slot   // bool: the event is the last in order; nil if no field says so
	ID     value.Slot    // string or int: a second event with the same id is ignored
	Idle   time.Duration // event time without an event after which a group ends; 0 is never
	Within time.Duration // event time since its first event after which a group ends; 0 is never
	Every  time.Duration // windows begin at its multiples; 0 is no windows: the times of the events delimit groups
	Size   time.Duration // size of a window, a multiple of Every
	Events int           // most events of a group
	Bytes  int           // most bytes of a group
	Open   int           // most open groups of a partition
	Late   LatePolicy    // policy for events of a group that ended: LateDead, LateDrop or LateInclude
	Pass   bool          // an incomplete group continues instead of becoming a dead letter

	Columns GroupColumns
	Lists   []GroupList
	Values  []GroupValue
	Folded  bool // the events are not needed and not stored; only for groups that Idle alone delimits
}

// GroupColumns are the slots that every group introduces.
type GroupColumns struct {
	Key, Count, Complete, Missing, Ended value.Slot
	Start, End                           value.Slot // bounds of a window
}

// Stores reports whether the events of a group are stored until the group's event is finished.
func (g *Group) Stores() bool { return !g.Windows() && !g.Folded }

// Windows reports whether the groups are windows. Windows store no events.
func (g *Group) Windows() bool { return g.Every > 0 }

// GroupValue is an aggregate of the events of a group.
type GroupValue struct {
	Name      string
	Aggregate Aggregate
	Value     *expression.Program // of type int or number; nil for AggregateCount
	Slot      value.Slot
}

// Aggregate is the function that combines the values of events.
type Aggregate uint8

// The aggregates. A sum is exact: it is rounded only once, at its end.
const (
	AggregateCount Aggregate = iota
	AggregateSum
	AggregateMean
	AggregateMin
	AggregateMax
)

// AggregatedMax is the greatest value that is aggregated. It is small enough that a sum of many
// such values is finite.
const AggregatedMax = 1e290

// Kind returns the type of the aggregate. Sums and extremes of ints are ints.
func (v *GroupValue) Kind() value.Kind {
	if v.Aggregate == AggregateCount || v.Aggregate != AggregateMean && v.Value != nil && v.Value.Type().Kind == value.Int {
		return value.Int
	}
	return value.Number
}

// Of returns the value of an event, as parts that add up to it. It returns nil for AggregateCount.
// A number is one part. An int is two parts, its lower and upper half, because one float64 holds
// only 53 of its 64 bits. An error makes the event a dead letter.
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

// GroupList concatenates a field of the members: to a list of strings, or to bytes.
type GroupList struct{ Field, Slot value.Slot }

// Place returns the place of an event: the text that it is grouped by, its number in the order, and
// its id. t is the event's time. The error is the event's.
func (g *Group) Place(row *value.Row, t int64) (by, id string, order int64, err error) {
	if !row.Has(g.By) {
		return "", "", 0, fmt.Errorf("has no %s, the value that it is grouped by", g.By.Name)
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
		return "", "", 0, fmt.Errorf("has no %s, its id in the group", g.ID.Name)
	}
	if by = string(row.AppendKey(nil, g.By)); len(by) > groupKeyMax {
		return "", "", 0, errGroupKey
	}
	return by, string(row.AppendKey(nil, g.ID)), order, nil
}

const groupKeyMax = 1024 // bytes

var errGroupKey = errors.New("the value that it is grouped by has more than 1024 bytes")

// Last reports whether the event says that it is the last of its group.
func (g *Group) Last(row *value.Row) bool {
	return g.End != nil && row.Has(*g.End) && row.Bool(*g.End)
}

// Label implements Operator.
func (g *Group) Label() (kind, name string) { return "group", g.Name }

// Run implements Operator.
func (g *Group) Run(e *Event) error { return e.Kept.Collect(e, g) }

// texts returns nil, because the lists are texts of the members.
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

// Complete sets the lists that a row of the group lacks because the pipeline did not read the field
// yet when the events were collected. Each event lacks the field, so its text is empty.
func (g *Group) Complete(row *value.Row) {
	n := max(0, min(row.Int(g.Columns.Count), int64(g.Events)))
	for _, l := range g.Lists {
		switch {
		case row.Has(l.Slot):
		case l.Slot.Type.Kind == value.Bytes:
			row.SetText(l.Slot, "")
		default:
			row.SetText(l.Slot, value.Text(make([]byte, n))) // the length of each text is 0
		}
	}
}
