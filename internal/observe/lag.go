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
	Committed stream.Offset `json:"committed"` // next offset that the group reads
	Next      stream.Offset `json:"next"`      // next offset to be written
	Records   int64         `json:"records"`   // from the oldest one that is not committed to Next; 0 where all are
	Seconds   float64       `json:"seconds"`   // since that one was appended; 0 where there is none
}

// Age returns the lag's seconds.
func (l Lag) Age() time.Duration { return time.Duration(l.Seconds * float64(time.Second)) }

// Name returns the partition as topic/partition.
func (l Lag) Name() string { return fmt.Sprintf("%s/%d", l.Topic, l.Partition) }

// Read is a consumer group and a topic that it reads.
type Read struct{ Group, Topic string }

// LagSource is what a LagMeter asks of a log; every stream.Inspector that is a
// stream.Log is one. It must be safe for concurrent use.
type LagSource interface {
	Topics(ctx context.Context) ([]stream.Topic, error)
	Offsets(ctx context.Context, p stream.Partition) (first, next stream.Offset, err error)
	Peek(ctx context.Context, p stream.Partition, from stream.Offset) (stream.Record, bool, error)
	Committed(ctx context.Context, group string, p stream.Partition) (stream.Offset, error)
}

const (
	lagAtOnce = 8  // partitions asked about at once
	endsMost  = 64 // kept of a partition
)

// LagMeter measures lag. The zero value is ready; it is safe for concurrent use.
//
// How old a record is says its time, if that is the time of its append. It is
// not where a pipeline wrote the record, whose time is then the event's, or a
// producer whose clock is wrong. So the meter remembers where partitions ended
// when it looked: a record was appended after the last look that did not find
// it and before the first one that did, whatever its time says. Who measures
// every second therefore knows the age of what came meanwhile to a second, or
// for old records to a small part of their age, since the looks that are
// remembered are the rarer the older they are.
type LagMeter struct {
	mu     sync.Mutex                  // guards what follows
	ends   map[stream.Partition][]look // oldest first, at most endsMost
	oldest map[shareOf]oldest
}

// look is where a partition ended at a moment between two.
type look struct {
	asked, answered time.Time
	next            stream.Offset
}

// shareOf names what a group has of a partition.
type shareOf struct {
	group     string
	partition stream.Partition
}

// oldest is the first record from an offset on, which need not be read again
// while the group stands still.
type oldest struct {
	from, offset stream.Offset
	time         time.Time
}

// Measure returns the lag in every partition of what is read, the worst first.
// It asks about a few partitions at once, and reads at most one record of each.
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
	appended := make([]time.Time, len(list)) // of the oldest records
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

// CompareLags compares two lags: the worst is first.
func CompareLags(a, b Lag) int {
	return cmp.Or(cmp.Compare(b.Seconds, a.Seconds), cmp.Compare(b.Records, a.Records),
		cmp.Compare(a.Group, b.Group), cmp.Compare(a.Topic, b.Topic), cmp.Compare(a.Partition, b.Partition))
}

// measure fills in the lag in one partition but for its seconds, and returns when
// the oldest record was appended. It asks for the end before what is
// committed, so that what is processed meanwhile does not count.
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
		if !found || r.Offset >= next { // nothing but what is no record
			return time.Time{}, nil
		}
		o = oldest{l.Committed, r.Offset, r.Time}
		m.remember(share, o)
	}
	l.Records = int64(next - o.offset)
	return m.appended(p, o), nil
}

// known returns the first record from an offset on, where it was read before.
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

// saw notes where p ends. Of looks that found the same end the first and the
// last are kept.
func (m *LagMeter) saw(p stream.Partition, l look) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.ends == nil {
		m.ends = map[stream.Partition][]look{}
	}
	ends := m.ends[p]
	n := len(ends)
	switch {
	case n > 0 && l.asked.Before(ends[n-1].asked): // who looked later was faster
		return
	case n > 0 && l.next < ends[n-1].next: // another topic of that name
		ends = nil
	case n > 1 && l.next == ends[n-1].next && l.next == ends[n-2].next:
		ends = ends[:n-1]
	case n == endsMost:
		ends = forget(ends, l.asked)
	}
	m.ends[p] = append(ends, l)
}

// forget leaves out the look that is missed least: whose neighbours are closest
// for their age.
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

// appended returns when a record of p was appended: its time, as far as that
// agrees with when p was seen without and with it.
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
