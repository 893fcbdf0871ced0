package task

import (
	"time"

	"github.com/afterbay/afterbay/stream"
	"github.com/afterbay/afterbay/value"
)

// Observed is an event after it was computed.
type Observed struct {
	Record    *stream.Record
	Row       *value.Row // what of the plan's Schema the event has
	Time      time.Time  // zero where it is not known
	Watermark time.Time  // at the event's position; zero where the event has no time
	Late      bool       // before the watermark
	Dropped   bool       // left out: late, seen before, or by a route
	Stage     string     // where it failed; "" where it did not
	Err       error
}

// Column is a name and its value.
type Column struct {
	Name  string
	Value float64
}

// Describe returns the features of a user key as of its newest event, in the
// order of the stages, from its stored entries, which get returns by state key;
// nil where the key has none.
func (p *Plan) Describe(key string, get func(stored []byte) ([]byte, error)) (columns []Column, newest time.Time, err error) {
	k := &keyState{key: key, newest: never}
	if err := k.load(p, nil, get); err != nil || k.newest == never {
		return nil, time.Time{}, err
	}
	for i := range p.Stages {
		f := p.Stages[i].Feature
		if f == nil || !f.Read {
			continue
		}
		values := make([]float64, len(f.Columns))
		p.sets()[setOf(f)].Read(k.cells[setOf(f)], f.Index, k.newest, values)
		for c, slot := range f.Columns {
			columns = append(columns, Column{slot.Name, values[c]})
		}
	}
	return columns, time.UnixMicro(k.newest).UTC(), nil
}
