package sinks

import (
	"slices"
	"strconv"
	"strings"

	"github.com/afterbay/afterbay/internal/event/header"
	"github.com/afterbay/afterbay/internal/state/deadletter"
	"github.com/afterbay/afterbay/stream"
)

// StagePrefix is the prefix of the stage in a sink's dead letters. The sink's name follows.
const StagePrefix = "sink:"

const (
	reasonMax  = 4 << 10
	letterRoom = reasonMax + 1<<10 // space for the headers that a dead letter adds to the record
)

// letter returns the dead letter of a record. It contains the record unchanged, the reason, and the
// record's id as event id, so that a redrive can deliver it. A record that is a dead letter itself
// cannot be redriven, because it can hold only one reason.
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
	before, _ := strconv.Atoi(header.Get(&r, header.Attempts)) // from earlier deliveries, if it was redriven
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
