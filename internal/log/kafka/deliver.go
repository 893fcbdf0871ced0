package kafka

import (
	"context"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/afterbay/afterbay/stream"
)

var (
	_ stream.Deliverer = (*member)(nil)
	_ stream.Pacer     = (*member)(nil)
)

const commitInterval = 50 * time.Millisecond

// Pace implements stream.Pacer: a transaction costs as much as hundreds of
// records, and the brokers take some 20 ms between two of one member.
func (s *member) Pace() stream.Pace {
	o := &s.log.opts
	return stream.Pace{Interval: commitInterval, Events: 8192, Bytes: 4 << 20, RecordBytes: o.MaxRecordBytes}
}

// gather is how long a client waits at most for more records before it sends a
// batch that is not full. It is told when there are no more (send).
const gather = 5 * time.Millisecond

// send makes client send what it gathered. It does not wait.
func send(client *kgo.Client) {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	_ = client.Flush(ctx) // of ctx
}

// delivered are the outputs of a step that are written apart from its transaction:
// under AtLeastOnce by a client beside, as they come.
type delivered struct {
	sent  written
	taken int    // the first outputs of the step
	used  []slab // what they lie in
	free  []slab
	err   error // why one cannot be written; then none after it is
}

// slab is memory for the outputs of one call.
type slab struct {
	records []kgo.Record
	headers []kgo.RecordHeader
}

// slab returns memory for n records.
func (e *delivered) slab(n int) slab {
	var s slab
	if last := len(e.free) - 1; last >= 0 {
		s, e.free = e.free[last], e.free[:last]
	}
	if cap(s.records) < n {
		s.records = make([]kgo.Record, n)
	}
	s.records, s.headers = s.records[:n], s.headers[:0]
	return s
}

// reset makes e that of a new step.
func (e *delivered) reset() {
	for _, s := range e.used {
		clear(s.records)
	}
	e.taken, e.used, e.free = 0, e.used[:0], append(e.free, e.used...)
}

// deliver takes outputs of the step that is coming, those of earlier calls included.
func (c *committer) deliver(outputs []stream.Record) {
	switch c.delivery {
	case AtLeastOnce:
		c.writeBeside(c.coming, outputs)
	case AtMostOnce:
		c.coming.taken = len(outputs)
	}
}

// writeBeside writes those of the outputs of a step that were not.
func (c *committer) writeBeside(e *delivered, outputs []stream.Record) {
	fresh := outputs[e.taken:]
	if len(fresh) == 0 || e.err != nil {
		return
	}
	places, err := c.log.place(c.life.ctx, fresh)
	if err != nil {
		e.err = err
		return
	}
	memory := e.slab(len(fresh))
	for i := range fresh {
		memory.headers = encode(&memory.records[i], &fresh[i], memory.headers)
		memory.records[i].Partition = places[i]
	}
	e.taken += len(fresh)
	e.used = append(e.used, memory)
	e.sent.begin(c.life.ctx, c.beside, memory.records)
	send(c.beside)
}
