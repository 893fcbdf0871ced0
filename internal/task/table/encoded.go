package table

import (
	"context"
	"fmt"
	"time"

	"github.com/afterbay/afterbay/internal/event/decode"
	"github.com/afterbay/afterbay/internal/event/envelope"
	"github.com/afterbay/afterbay/stream"
)

// Schemas converts records that begin with the id of their schema to JSON.
type Schemas interface{ Transcoder() decode.Transcoder }

// Schema converts records of one schema to JSON. Its errors are of type *decode.Error.
type Schema interface {
	AppendJSON(dst, record []byte) ([]byte, error)
}

// always is a Transcoder that needs no external data.
type always struct{ Schema }

// Prepare implements decode.Transcoder.
func (always) Prepare([]byte, uint64, func()) (ready bool, why error) { return true, nil }

// encoded reads the records of a table that are not JSON.
type encoded struct {
	decode.Transcoder
	whole bool // all values have one schema; otherwise keys and values begin with the id of their schema
	turn  uint64
	woken chan struct{}
}

func (e *encoded) key(data []byte) bool { return !e.whole && decode.Framed(data) }

func (e *encoded) value(data []byte) bool { return e.whole && len(data) > 0 || decode.Framed(data) }

// plain returns a record with its key as text and its value as JSON. With an envelope the key is
// JSON too, and unwrap turns it into text. plain waits for the schemas while the registry is away.
// If the value cannot be read, the record gets the value of a broken row. If the key cannot be
// read, plain returns nil, because the record has no row.
func (r *Reader) plain(ctx context.Context, at place, record *stream.Record) (*stream.Record, error) {
	e := r.encoded[at.table]
	if e == nil || !e.key(record.Key) && !e.value(record.Value) {
		return record, nil
	}
	if err := r.await(ctx, e, record); err != nil {
		return nil, err
	}
	made := *record
	if e.key(record.Key) {
		text, err := e.AppendJSON(nil, record.Key)
		if made.Key = text; err == nil && r.specs[at.table].Envelope == envelope.None {
			made.Key, err = envelope.Column(text)
		}
		if err != nil {
			r.badKey(record, err)
			return nil, nil
		}
	}
	if e.value(record.Value) {
		text, err := e.AppendJSON(nil, record.Value)
		if err != nil {
			r.metrics.TableBadRows.Add(1)
			text = fmt.Appendf([]byte{brokenRow}, "%v@%d: %v", record.Partition, record.Offset, err)
		}
		made.Value = text
	}
	return &made, nil
}

// badKey counts a record with a key that is not valid for a row, and logs the first one.
func (r *Reader) badKey(record *stream.Record, err error) {
	r.metrics.TableBadRows.Add(1)
	if !r.badKeys {
		r.logger.Warn("a record of a table has a key that cannot be the key of a row; further such records are only counted", "record", fmt.Sprintf("%v@%d", record.Partition, record.Offset), "error", err)
	}
	r.badKeys = true
}

// await waits until the schemas of a record are known.
func (r *Reader) await(ctx context.Context, e *encoded, record *stream.Record) error {
	wake := func() {
		select {
		case e.woken <- struct{}{}:
		default:
		}
	}
	e.turn++
	for {
		ready, why := true, error(nil)
		for _, data := range [][]byte{record.Key, record.Value} {
			if decode.Framed(data) {
				known, fault := e.Prepare(data, e.turn, wake)
				ready = ready && known
				if why == nil {
					why = fault
				}
			}
		}
		if ready {
			return nil
		}
		if now := r.clock.Now(); why != nil && now.Sub(r.warned) >= time.Minute {
			r.warned = now
			r.logger.Warn("the schema registry does not respond: rows of a table wait, and events that need them; the engine tries again", "record", fmt.Sprintf("%v@%d", record.Partition, record.Offset), "error", why)
		}
		select {
		case <-e.woken:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}
