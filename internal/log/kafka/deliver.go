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

// Pace implements stream.Pacer. A Kafka transaction costs as much as hundreds of records. Brokers
// need about 20 ms between two transactions of one member.
func (s *member) Pace() stream.Pace {
	o := &s.log.opts
	return stream.Pace{Interval: commitInterval, Events: 8192, Bytes: 4 << 20, RecordBytes: o.MaxRecordBytes}
}

// gather is how long a client waits for more records before it sends a batch that is not full. send
// ends the wait when there are no more.
const gather = 5 * time.Millisecond

// send makes client send the records that it has gathered. It does not block.
func send(client *kgo.Client) {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	_ = client.Flush(ctx) // the error is that of ctx
}

// delivered holds the outputs of a transaction that are written outside its Kafka transaction.
// Under AtLeastOnce a separate client writes them at once.
type delivered struct {
	sent  written
	taken int    // number of outputs taken, from the front
	used  []slab // memory of the outputs
	free  []slab
	err   error // why an output cannot be written; no later one is written then
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

// reset prepares e for a new transaction.
func (e *delivered) reset() {
	for _, s := range e.used {
		clear(s.records)
	}
	e.taken, e.used, e.free = 0, e.used[:0], append(e.free, e.used...)
}

// deliver takes the outputs of the next transaction, including those of earlier calls.
func (c *committer) deliver(outputs []stream.Record) {
	switch c.delivery {
	case AtLeastOnce:
		c.writeBeside(c.coming, outputs)
	case AtMostOnce:
		c.coming.taken = len(outputs)
	}
}

// writeBeside writes the outputs that were not written yet.
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
