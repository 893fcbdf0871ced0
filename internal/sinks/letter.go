package sinks

import (
	"slices"
	"strconv"
	"strings"

	"github.com/afterbay/afterbay/internal/event/header"
	"github.com/afterbay/afterbay/internal/state/deadletter"
	"github.com/afterbay/afterbay/stream"
)

// StagePrefix is what the stage of a sink's dead letter begins with; the rest is
// the sink's name.
const StagePrefix = "sink:"

const (
	reasonMax  = 4 << 10
	letterRoom = reasonMax + 1<<10 // of what a dead letter says beside the record
)

// letter is the dead letter of a record: the record as it was, with its id as that of
// the event, so that it can be delivered when it is sent back, and why it was not taken. That of
// what is a dead letter itself cannot: its own reason has room once.
func (w *Deliverer) letter(d *delivery, recordBytes int) stream.Record {
	r := d.record
	headers := slices.DeleteFunc(slices.Clone(r.Headers), func(h stream.Header) bool {
		return h.Key == header.ID || h.Key == header.Event || h.Key == header.Stage || h.Key == header.Error || h.Key == header.Attempts || h.Key == header.Resume
	})
	add := func(key, value string) { headers = append(headers, stream.Header{Key: key, Value: []byte(value)}) }
	to := DeadTopic(w.options.Group)
	add(header.ID, string(header.AppendID(nil, w.options.Group, d.id, to, "", "")))
	add(header.Event, d.id)
	reason := d.err.Error()
	if len(reason) > reasonMax {
		reason = strings.ToValidUTF8(reason[:reasonMax], "")
	}
	add(header.Stage, StagePrefix+w.options.Name)
	add(header.Error, reason)
	before, _ := strconv.Atoi(header.Get(&r, header.Attempts)) // where it was sent back
	add(header.Attempts, strconv.Itoa(before+d.attempts))
	if header.Get(&r, header.Stage) == "" {
		add(header.Resume, deadletter.Deliver)
	}
	value := r.Value
	if over := len(r.Key) + len(value) + header.Bytes(headers) - recordBytes; over > 0 {
		add(header.Truncated, "value")
		value = value[:max(0, len(value)-over-64)]
	}
	return stream.Record{
		Partition: stream.Partition{Topic: to, Index: r.Partition.Index},
		Time:      r.Time, Key: r.Key, Value: value, Headers: headers,
	}
}
