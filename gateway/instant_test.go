package gateway_test

import (
	"context"
	"iter"
	"sync"

	"github.com/afterbay/afterbay/gateway/wire"
	"github.com/afterbay/afterbay/stream"
)

// instant is a log that has the result of an event as soon as it is appended, and
// nothing else to do, so that what is measured is the gateway. It takes results too.
type instant struct {
	mu      sync.Mutex
	come    sync.Cond
	seqs    map[string]uint64
	results [partitions][]stream.Record
}

func newInstant() *instant {
	l := &instant{seqs: map[string]uint64{}}
	l.come.L = &l.mu
	return l
}

func (l *instant) Topics(context.Context) ([]stream.Topic, error) {
	return []stream.Topic{{Name: "results", Partitions: partitions}}, nil
}

func (l *instant) Append(_ context.Context, events ...stream.Record) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	for i := range events {
		if events[i].Partition.Topic == "results" {
			l.add(events[i])
			continue
		}
		e, err := wire.ParseSubmit(&events[i])
		if err != nil {
			return err
		}
		key := wire.Key(e.Tenant, e.Client)
		l.seqs[key]++
		l.add(wire.ResultRecord("results", &wire.Result{Tenant: e.Tenant, Client: e.Client, Seq: l.seqs[key], Event: e.ID, Status: wire.StatusOK, Payload: e.Payload}))
	}
	l.come.Broadcast()
	return nil
}

// add appends a result. Its caller holds mu.
func (l *instant) add(r stream.Record) {
	p := stream.Place(r.Key, partitions)
	r.Partition.Index, r.Offset = p, stream.Offset(len(l.results[p]))
	l.results[p] = append(l.results[p], r)
}

func (l *instant) Tail(ctx context.Context, p stream.Partition, from stream.Offset) iter.Seq2[stream.Record, error] {
	return func(yield func(stream.Record, error) bool) {
		for next := from; ; {
			l.mu.Lock()
			for int(next) >= len(l.results[p.Index]) && ctx.Err() == nil {
				l.come.Wait() // its process ends with what it is waited for
			}
			records := l.results[p.Index][next:]
			l.mu.Unlock()
			if ctx.Err() != nil {
				return
			}
			for i := range records {
				if !yield(records[i], nil) {
					return
				}
			}
			next += stream.Offset(len(records))
		}
	}
}

func (l *instant) Offsets(_ context.Context, p stream.Partition) (first, next stream.Offset, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return 0, stream.Offset(len(l.results[p.Index])), nil
}

func (l *instant) Peek(_ context.Context, p stream.Partition, from stream.Offset) (stream.Record, bool, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if int(from) >= len(l.results[p.Index]) {
		return stream.Record{}, false, nil
	}
	return l.results[p.Index][from], true, nil
}
