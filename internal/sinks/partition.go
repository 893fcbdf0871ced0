package sinks

import (
	"encoding/binary"
	"errors"
	"math"
	"time"

	"github.com/afterbay/afterbay/internal/event/header"
	"github.com/afterbay/afterbay/internal/state/dedupe"
	"github.com/afterbay/afterbay/internal/state/statekey"
	"github.com/afterbay/afterbay/sink"
	"github.com/afterbay/afterbay/stream"
)

const (
	heldMax      = 256 // records of a partition that are held, beyond which it is paused
	heldBytesMax = 4 << 20
)

// delivery is a record on its way to the service.
type delivery struct {
	record stream.Record
	id     string
	part   *partition

	// The newest records before it of its key and of its id, which are done
	// first; nil where there are none that are not.
	key, same *delivery

	state    progress
	checked  bool // that its id was not taken before: who could take it is done
	attempts int
	begun    time.Time // of the first attempt
	due      time.Time // of the next one
	err      error     // of the newest one
}

type progress uint8

const (
	waiting progress = iota
	calling
	delivered
	repeated
	refused
	passed // it is the cancel of a client, which no service gets
)

func (d *delivery) done() bool { return d.state >= delivered }

// first reports whether nothing has to be done before d.
func (d *delivery) first() bool {
	for _, before := range []**delivery{&d.key, &d.same} {
		if *before != nil && (*before).done() {
			*before = nil // which would keep what it waited for
		}
	}
	return d.key == nil && d.same == nil
}

func (d *delivery) size() int { return sizeOf(&d.record) }

// partition is one that is assigned: records on their way, and the ids that the
// service took, which run ahead of what is committed.
//
//  1. held is in the order of offsets. Records leave at its front when they are
//     done, and only then does next, the offset to commit, move.
//  2. An id is remembered when the service took it, also where records before it
//     are not done: a crash calls with what was in flight again, and with nothing
//     else. heldMax is below the fewest ids that are remembered.
//  3. A dead letter is written by the step that moves next beyond its record, so
//     there is one.
type partition struct {
	assigned
	next    stream.Offset
	held    []*delivery
	bytes   int
	calling int
	keys    map[string]*delivery // newest held of each key,
	sames   map[string]*delivery // and of each id

	ids    *dedupe.Set // that the service took
	newest int64       // event time, microseconds
	moved  bool        // newest is not in a step

	changed bool // there is something to commit
}

// newPartition restores what is kept beside a partition.
func newPartition(a stream.Assigned, ids dedupe.Spec) (*partition, error) {
	p := &partition{
		assigned: assigned{id: a.Partition}, next: a.Next, newest: math.MinInt64,
		keys: map[string]*delivery{}, sames: map[string]*delivery{},
	}
	data, err := a.State.Get([]byte{statekey.Watermark})
	switch {
	case err != nil:
		return nil, err
	case len(data) == 8:
		p.newest = int64(binary.BigEndian.Uint64(data))
	case data != nil:
		return nil, errors.New("stored state is damaged: the newest time")
	}
	p.ids, err = dedupe.Restore(p.id, a.State, ids)
	return p, err
}

// hold adds a record.
func (p *partition) hold(r stream.Record) {
	d := &delivery{record: r, part: p, id: sink.IDOf(&r)}
	p.held = append(p.held, d)
	p.bytes += d.size()
	if isCancel(&r) {
		d.state, p.changed = passed, p.changed || len(p.held) == 1
		return
	}
	if r.Key != nil {
		d.key = p.keys[string(r.Key)]
		p.keys[string(r.Key)] = d
	}
	d.same = p.sames[d.id]
	p.sames[d.id] = d
}

// isCancel reports whether a record says that a client of a gateway gave an event up. It
// is for the pipeline that reads the topic, and no event or output.
func isCancel(r *stream.Record) bool { return header.Get(r, header.Cancel) != "" }

func (p *partition) awaited() bool { return p.calling > 0 }

func (p *partition) dirty(bool) bool { return p.changed }

// full reports whether the partition is to be paused: once it holds too much, until
// half of that is left.
func (p *partition) full() bool {
	if p.paused {
		return len(p.held) > heldMax/2 || p.bytes > heldBytesMax/2
	}
	return len(p.held) >= heldMax || p.bytes >= heldBytesMax
}

// see moves the partition's time.
func (p *partition) see(t time.Time) {
	if at := t.UnixMicro(); at > p.newest {
		p.newest, p.moved = at, true
	}
}

// take notes that the service took d.
func (p *partition) take(d *delivery) {
	d.state = delivered
	p.see(d.record.Time)
	p.ids.Seen(d.id, p.newest, p.newest) // within the window from here on, however late its event is
	p.changed = true
}

// knows reports whether the service took d's id before.
func (p *partition) knows(d *delivery) bool {
	return p.ids.Has(d.id, max(p.newest, d.record.Time.UnixMicro()))
}

// pass lets records leave that are done, from the front, until letter does not take
// one that is to become a dead letter.
func (p *partition) pass(letter func(*delivery) bool) {
	n := 0
	for n < len(p.held) && p.held[n].done() {
		d := p.held[n]
		if d.state == refused && !letter(d) {
			break
		}
		n++
		p.see(d.record.Time)
		p.next = d.record.Offset + 1
		p.bytes -= d.size()
		if key := string(d.record.Key); p.keys[key] == d {
			delete(p.keys, key)
		}
		if p.sames[d.id] == d {
			delete(p.sames, d.id)
		}
	}
	rest := copy(p.held, p.held[n:])
	clear(p.held[rest:])
	p.held = p.held[:rest]
	p.changed = rest > 0 && p.held[0].done()
}

// changes appends what is to be stored.
func (p *partition) changes(list []stream.Change) []stream.Change {
	if p.moved {
		list = append(list, stream.Change{Partition: p.id, Key: []byte{statekey.Watermark}, Value: binary.BigEndian.AppendUint64(nil, uint64(p.newest))})
		p.moved = false
	}
	p.ids.Changes(func(key, value []byte) {
		change := stream.Change{Partition: p.id, Key: append([]byte{statekey.ID}, key...)}
		if value != nil { // valid for now
			change.Value = append([]byte{}, value...)
		}
		list = append(list, change)
	})
	return list
}
