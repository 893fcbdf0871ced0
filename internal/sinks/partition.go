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
	heldMax      = 256 // held records of a partition above which it is paused
	heldBytesMax = 4 << 20
)

// delivery is a record that is being delivered.
type delivery struct {
	record stream.Record
	id     string
	part   *partition

	// The newest earlier records with the same key and with the same id, which must be done first;
	// nil if none is left.
	key, same *delivery

	state    progress
	checked  bool // its id was checked against the accepted ids; no unfinished record can add it any more
	attempts int
	begun    time.Time // start of the first attempt
	due      time.Time // time of the next attempt
	err      error     // error of the last attempt
}

type progress uint8

const (
	waiting progress = iota
	calling
	delivered
	repeated
	refused
	passed // a cancel from a client; no service receives it
)

func (d *delivery) done() bool { return d.state >= delivered }

// first reports whether no other record must be done before d.
func (d *delivery) first() bool {
	for _, before := range []**delivery{&d.key, &d.same} {
		if *before != nil && (*before).done() {
			*before = nil // otherwise the chain of finished records would stay in memory
		}
	}
	return d.key == nil && d.same == nil
}

func (d *delivery) size() int { return sizeOf(&d.record) }

// partition is an assigned partition. It holds the records that are being delivered, and the ids
// that the service has accepted, which are ahead of the committed state.
//
//  1. held is ordered by offset. Finished records leave at its front, and only then does
//     next, the offset to commit, move.
//  2. An id is remembered when the service accepts it, even if earlier records are not
//     done. So after a crash only calls that were in flight are repeated. heldMax is
//     below the minimum number of remembered ids.
//  3. A dead letter is written in the transaction that moves next past its record, so
//     each record has at most one.
type partition struct {
	assigned
	next    stream.Offset
	held    []*delivery
	bytes   int
	calling int
	keys    map[string]*delivery // newest held record of each key,
	sames   map[string]*delivery // and of each id

	ids    *dedupe.Set // ids that the service has accepted
	newest int64       // event time, microseconds
	moved  bool        // newest is not yet committed

	changed bool // there is something to commit
}

// newPartition restores the state of a partition.
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

// isCancel reports whether a record says that a gateway client cancelled an event. Such a record is
// for the pipeline that reads the topic. It is neither an event nor an output.
func isCancel(r *stream.Record) bool { return header.Get(r, header.Cancel) != "" }

func (p *partition) awaited() bool { return p.calling > 0 }

func (p *partition) dirty(bool) bool { return p.changed }

// full reports whether the partition must be paused. It becomes full when it holds too much, and
// stays full until half of that is left.
func (p *partition) full() bool {
	if p.paused {
		return len(p.held) > heldMax/2 || p.bytes > heldBytesMax/2
	}
	return len(p.held) >= heldMax || p.bytes >= heldBytesMax
}

// see advances the partition's time.
func (p *partition) see(t time.Time) {
	if at := t.UnixMicro(); at > p.newest {
		p.newest, p.moved = at, true
	}
}

// take marks d as accepted by the service.
func (p *partition) take(d *delivery) {
	d.state = delivered
	p.see(d.record.Time)
	p.ids.Seen(d.id, p.newest, p.newest) // the window starts now, even if the event is late
	p.changed = true
}

// knows reports whether the service has accepted d's id before.
func (p *partition) knows(d *delivery) bool {
	return p.ids.Has(d.id, max(p.newest, d.record.Time.UnixMicro()))
}

// pass removes finished records from the front. It stops at a refused record if letter does not
// accept its dead letter.
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

// changes appends the state changes to list.
func (p *partition) changes(list []stream.Change) []stream.Change {
	if p.moved {
		list = append(list, stream.Change{Partition: p.id, Key: []byte{statekey.Watermark}, Value: binary.BigEndian.AppendUint64(nil, uint64(p.newest))})
		p.moved = false
	}
	p.ids.Changes(func(key, value []byte) {
		change := stream.Change{Partition: p.id, Key: append([]byte{statekey.ID}, key...)}
		if value != nil { // value is only valid during the call
			change.Value = append([]byte{}, value...)
		}
		list = append(list, change)
	})
	return list
}
