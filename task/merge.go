package task

import (
	"strconv"
	"time"

	"github.com/afterbay/afterbay/decode"
	"github.com/afterbay/afterbay/header"
	"github.com/afterbay/afterbay/merge"
	"github.com/afterbay/afterbay/statekey"
	"github.com/afterbay/afterbay/stream"
	"github.com/afterbay/afterbay/value"
)

// Topics that are read together, or have another key, are first copied to one
// topic, by key. That topic is the log that decides results: the order in which
// sources meet there is not promised, but is kept for ever.
//
//  1. A copy is the event's bytes and headers with its event time, and says
//     where it comes from and the watermark of that source partition.
//  2. The watermark of the merged partition is the least of all source
//     partitions', whether or not they had an event here: each announces its
//     own everywhere as it goes, in records that are no events.
//  3. A source partition without events holds the others back until it was
//     silent for idleAfter. Then its copier announces that it is idle: the
//     clock is read once, and what it said is in the log.

const (
	idleAfter = 10 * time.Second
	idleCheck = idleAfter / 10
)

// scanners returns a scanner for each source of copies, or the one of the input.
func (p *Plan) scanners() []*decode.Scanner {
	if p.Sources == nil {
		return []*decode.Scanner{decode.New(p.Fields)}
	}
	var list []*decode.Scanner
	for _, s := range p.Sources {
		list = append(list, decode.New(s.Fields))
	}
	return list
}

// hear takes in what a copy or announcement says of its source. It reports
// whether there is an event to go on with.
func (w *worker) hear(it *item) bool {
	p := it.partition
	var from, watermark string
	for i := range it.record.Headers {
		switch h := &it.record.Headers[i]; h.Key {
		case header.Source:
			from = value.Text(h.Value)
		case header.Watermark:
			watermark = value.Text(h.Value)
		}
	}
	heard, err := p.sources.Read(from, watermark)
	if err != nil {
		it.fail("source", err)
		return false
	}
	p.newest = max(p.newest, p.sources.Take(heard))
	it.source, it.watermark = heard.Topic, p.newest
	it.notice, it.skip = !heard.Event, !heard.Event
	return heard.Event
}

// loadSources restores what is known of the sources.
func (p *partition) loadSources(plan *Plan) error {
	if plan.Sources == nil {
		return nil
	}
	var sources []merge.Source
	for _, s := range plan.Sources {
		sources = append(sources, merge.Source{Topic: s.Topic, Partitions: s.Partitions})
	}
	p.sources = merge.New(sources)
	for entry, err := range p.view.Scan([]byte{statekey.Source}) {
		if err != nil {
			return err
		}
		if err := p.sources.Load(string(entry.Key[1:]), entry.Value); err != nil {
			return err
		}
	}
	return nil
}

// copy appends the copy of an event, and its source's announcement where that
// is due.
func (w *worker) copy(it *item) {
	s, r := w.step, it.record
	it.partition.heard, it.partition.idle = w.now, false
	if it.announce {
		w.announce(it.partition, merge.Text(it.watermark), it.watermark+w.plan.Time.Lateness.Microseconds())
	}
	if !it.alive() {
		return
	}
	from := len(s.headers)
	position := r.Partition.String() + "@" + strconv.FormatInt(int64(r.Offset), 10)
	s.headers = append(s.headers, stream.Header{Key: header.Source, Value: []byte(position)},
		stream.Header{Key: header.Watermark, Value: []byte(merge.Text(it.watermark))})
	s.headers = header.AppendCarried(s.headers, r.Headers)
	at := len(s.bytes)
	s.bytes = appendKey(s.bytes, it.row, w.plan.Key)
	s.Outputs = append(s.Outputs, stream.Record{
		Partition: stream.Partition{Topic: w.plan.Outputs[0], Index: stream.ByKey},
		Time:      time.UnixMicro(it.time), Key: s.bytes[at:len(s.bytes):len(s.bytes)], Value: r.Value,
		Headers: s.headers[from:len(s.headers):len(s.headers)],
	})
	s.carried += len(r.Value) + header.Bytes(s.headers[from:])
}

// announce writes a source's watermark to every partition of the merged topic.
func (w *worker) announce(p *partition, watermark string, newest int64) {
	headers := []stream.Header{{Key: header.Source, Value: []byte(p.id.String())}, {Key: header.Watermark, Value: []byte(watermark)}}
	if newest == never {
		newest = 0
	}
	for i := range w.plan.Copy.Partitions {
		w.step.Outputs = append(w.step.Outputs, stream.Record{
			Partition: stream.Partition{Topic: w.plan.Outputs[0], Index: i}, Time: time.UnixMicro(newest), Headers: headers,
		})
		w.step.carried += header.Bytes(headers)
	}
}

// idle announces the partitions that were silent for so long that the others
// are not to wait for them. It is called after a Poll that brought nothing, so
// all of them stood at their end.
func (w *worker) idle(now time.Time) {
	for _, p := range w.partitions {
		if !p.idle && now.Sub(p.heard) >= idleAfter {
			p.idle = true
			w.step.touch(p)
			w.announce(p, merge.Idle(), p.newest)
		}
	}
}
