package observe

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/afterbay/afterbay/stream"
)

// Lag is how far a group is behind in one partition.
type Lag struct {
	Group     string        `json:"group"`
	Topic     string        `json:"topic"`
	Partition int32         `json:"partition"`
	Committed stream.Offset `json:"committed"` // next offset for the group to read
	Next      stream.Offset `json:"next"`      // next offset to be written
	Records   int64         `json:"records"`   // from the oldest uncommitted record to Next; 0 if all are committed
	Seconds   float64       `json:"seconds"`   // since the append of that record; 0 if all are committed
}

// Age returns Seconds as a duration.
func (l Lag) Age() time.Duration { return time.Duration(l.Seconds * float64(time.Second)) }

// Name returns the partition as topic/partition.
func (l Lag) Name() string { return fmt.Sprintf("%s/%d", l.Topic, l.Partition) }

// Read is a consumer group and a topic that it reads.
type Read struct{ Group, Topic string }

// LagSource is the part of a log that a LagMeter uses. Every stream.Log that is a stream.Inspector
// implements it. It must be safe for concurrent use.
type LagSource interface {
	Topics(ctx context.Context) ([]stream.Topic, error)
	Offsets(ctx context.Context, p stream.Partition) (first, next stream.Offset, err error)
	Peek(ctx context.Context, p stream.Partition, from stream.Offset) (stream.Record, bool, error)
	Committed(ctx context.Context, group string, p stream.Partition) (stream.Offset, error)
}

const (
	lagAtOnce = 8  // concurrent queries of partitions
	endsMost  = 64 // looks kept per partition
)

// LagMeter measures lag. The zero value is ready to use. It is safe for concurrent use.
//
// The time of a record gives its age only if it is the time of its append. A record of a pipeline
// has the time of its event instead, and the clock of a producer can be wrong. The meter therefore
// remembers the ends of partitions at earlier looks. A record was appended after the last look
// without it and before the first look with it, whatever its own time is. With a measurement every
// second, the age of new records is known to a second. The ages of old records are known to a small
// fraction, because the meter keeps fewer looks the older they are.
type LagMeter struct {
	mu     sync.Mutex                  // guards the fields below
	ends   map[stream.Partition][]look // oldest look first, at most endsMost
	oldest map[shareOf]oldest
}

// look is the end of a partition at some moment between asked and answered.
type look struct {
	asked, answered time.Time
	next            stream.Offset
}

// shareOf identifies a group and a partition that it reads.
type shareOf struct {
	group     string
	partition stream.Partition
}

// oldest is the first record at or after an offset. It need not be read again while the group
// commits nothing.
type oldest struct {
	from, offset stream.Offset
	time         time.Time
}

// Measure returns the lag of the given reads in every partition, the largest first. It queries a
// few partitions at the same time, and reads at most one record of each.
func (m *LagMeter) Measure(ctx context.Context, log LagSource, reads ...Read) ([]Lag, error) {
	topics, err := log.Topics(ctx)
	if err != nil {
		return nil, fmt.Errorf("measure lag: %w", err)
	}
	var list []Lag
	for _, read := range reads {
		i := slices.IndexFunc(topics, func(t stream.Topic) bool { return t.Name == read.Topic })
		if i < 0 {
			return nil, fmt.Errorf("measure lag of %q: topic %q: %w", read.Group, read.Topic, stream.ErrUnknownTopic)
		}
		for p := range topics[i].Partitions {
			list = append(list, Lag{Group: read.Group, Topic: read.Topic, Partition: p})
		}
	}
	appended := make([]time.Time, len(list)) // append times of the oldest uncommitted records
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(lagAtOnce)
	for i := range list {
		group.Go(func() error {
			var err error
			if appended[i], err = m.measure(ctx, log, &list[i]); err != nil {
				return fmt.Errorf("measure lag of %q in %s/%d: %w", list[i].Group, list[i].Topic, list[i].Partition, err)
			}
			return nil
		})
	}
	if err := group.Wait(); err != nil {
		return nil, err
	}
	now := time.Now()
	for i := range list {
		if list[i].Records > 0 {
			list[i].Seconds = max(0, now.Sub(appended[i]).Seconds())
		}
	}
	slices.SortFunc(list, CompareLags)
	return list, nil
}

// CompareLags orders lags by size, the largest first.
func CompareLags(a, b Lag) int {
	return cmp.Or(cmp.Compare(b.Seconds, a.Seconds), cmp.Compare(b.Records, a.Records),
		cmp.Compare(a.Group, b.Group), cmp.Compare(a.Topic, b.Topic), cmp.Compare(a.Partition, b.Partition))
}

// measure sets the lag in one partition except Seconds, and returns the append time of the oldest
// uncommitted record. It reads the end before the committed offset, so that records processed
// meanwhile do not count.
func (m *LagMeter) measure(ctx context.Context, log LagSource, l *Lag) (time.Time, error) {
	p := stream.Partition{Topic: l.Topic, Index: l.Partition}
	asked := time.Now()
	first, next, err := log.Offsets(ctx, p)
	if err != nil {
		return time.Time{}, err
	}
	m.saw(p, look{asked, time.Now(), next})
	if l.Committed, err = log.Committed(ctx, l.Group, p); err != nil {
		return time.Time{}, err
	}
	if l.Next = max(next, l.Committed); l.Committed >= next {
		return time.Time{}, nil
	}
	share := shareOf{l.Group, p}
	o, known := m.known(share, max(first, l.Committed))
	if !known {
		r, found, err := log.Peek(ctx, p, l.Committed)
		if err != nil {
			return time.Time{}, err
		}
		if !found || r.Offset >= next { // the remaining offsets have no records
			return time.Time{}, nil
		}
		o = oldest{l.Committed, r.Offset, r.Time}
		m.remember(share, o)
	}
	l.Records = int64(next - o.offset)
	return m.appended(p, o), nil
}

// known returns the first record at or after an offset, if it was read before.
func (m *LagMeter) known(share shareOf, from stream.Offset) (oldest, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	o, ok := m.oldest[share]
	return o, ok && o.from <= from && from <= o.offset
}

func (m *LagMeter) remember(share shareOf, o oldest) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.oldest == nil {
		m.oldest = map[shareOf]oldest{}
	}
	m.oldest[share] = o
}

// saw stores a look at the end of p. It keeps the first and the last of the looks that found the
// same end.
func (m *LagMeter) saw(p stream.Partition, l look) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.ends == nil {
		m.ends = map[stream.Partition][]look{}
	}
	ends := m.ends[p]
	n := len(ends)
	switch {
	case n > 0 && l.asked.Before(ends[n-1].asked): // a later look was faster
		return
	case n > 0 && l.next < ends[n-1].next: // the topic was replaced by another one of its name
		ends = nil
	case n > 1 && l.next == ends[n-1].next && l.next == ends[n-2].next:
		ends = ends[:n-1]
	case n == endsMost:
		ends = forget(ends, l.asked)
	}
	m.ends[p] = append(ends, l)
}

// forget removes the least useful look: the one with the closest neighbours relative to its age.
func forget(ends []look, now time.Time) []look {
	least, gapLeast := 1, math.Inf(1)
	for i := 1; i < len(ends)-1; i++ {
		gap := float64(ends[i+1].asked.Sub(ends[i-1].asked)) / float64(now.Sub(ends[i].asked))
		if gap < gapLeast {
			least, gapLeast = i, gap
		}
	}
	return slices.Delete(ends, least, least+1)
}

// appended returns the append time of a record of p. It is the record's time, limited to the
// interval between the looks without and with the record.
func (m *LagMeter) appended(p stream.Partition, o oldest) time.Time {
	m.mu.Lock()
	defer m.mu.Unlock()
	ends := m.ends[p]
	at := o.time
	with, _ := slices.BinarySearchFunc(ends, o.offset+1, func(l look, next stream.Offset) int { return cmp.Compare(l.next, next) })
	if with < len(ends) && at.After(ends[with].answered) {
		at = ends[with].answered
	}
	if with > 0 && at.Before(ends[with-1].asked) {
		at = ends[with-1].asked
	}
	return at
}
