package admin

import (
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/afterbay/afterbay/internal/control"
	"github.com/afterbay/afterbay/internal/http/ingest"
	"github.com/afterbay/afterbay/internal/observe"
	"github.com/afterbay/afterbay/internal/pipeline"
	"github.com/afterbay/afterbay/stream"
)

// backlogs limits the records that wait in the topics read by the pipelines of a process. It is
// used where records arrive by HTTP. The number of waiting records is that of the latest lag
// measurement, plus the records admitted since. So a fast source reaches the limit even between two
// measurements.
type backlogs struct {
	logger *slog.Logger
	queued func(*pipeline.Runner) int64 // events in the async queue of a pipeline

	mu       sync.Mutex // guards the fields below
	list     []*backlog
	admitted map[string]*admitted // by topic
}

// backlog is the limit of one pipeline for one topic. It counts the records that wait for the
// pipeline, and for the downstream pipelines of the process.
type backlog struct {
	runner  *pipeline.Runner
	behind  []*pipeline.Runner // downstream pipelines
	topic   string
	gate    *control.Gate
	found   int    // waiting records in the latest measurement
	refused uint64 // refused requests
}

// admitted counts the admitted records of a topic since the start.
type admitted struct {
	begun, done int // done: appended, or the append failed
	before      int // done before the current measurement began
	counted     int // done before the latest measurement began: that measurement includes them
}

func newBacklogs(runners []*pipeline.Runner, logger *slog.Logger) *backlogs {
	b := &backlogs{logger: logger, queued: func(r *pipeline.Runner) int64 { return r.Snapshot().Queued }, admitted: map[string]*admitted{}}
	for _, r := range runners {
		bounds := r.Backlogs
		for _, topic := range slices.Sorted(maps.Keys(bounds)) {
			b.list = append(b.list, &backlog{runner: r, behind: behind(r, runners), topic: topic, gate: bounds[topic].Gate(1)})
			b.admitted[topic] = &admitted{}
		}
	}
	return b
}

// behind returns the downstream pipelines of r: those that read its outputs, those that read their
// outputs, and so on.
func behind(r *pipeline.Runner, runners []*pipeline.Runner) []*pipeline.Runner {
	var list []*pipeline.Runner
	for from := []*pipeline.Runner{r}; len(from) > 0; from = from[1:] {
		writes := from[0].Outputs()
		for _, o := range runners {
			reads := func(topic string) bool { return slices.Contains(writes, topic) }
			if o != r && !slices.Contains(list, o) && slices.ContainsFunc(o.Inputs(), reads) {
				list, from = append(list, o), append(from, o)
			}
		}
	}
	return list
}

// begin marks the start of a measurement. The measurement will include all records appended so far.
func (b *backlogs) begin() {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, a := range b.admitted {
		a.before = a.done
	}
}

// measured applies the result of a measurement.
func (b *backlogs) measured(now time.Time, lags []observe.Lag) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, a := range b.admitted {
		a.counted = a.before
	}
	for _, l := range b.list {
		l.found = 0
		for _, lag := range lags {
			if l.counts(lag) {
				l.found += int(lag.Records)
			}
		}
		for _, r := range l.behind { // the pipeline's own async queue has its own limit
			if r.Ended() == nil {
				l.found += int(b.queued(r))
			}
		}
		b.observe(now, l)
	}
}

// counts reports whether a lag counts for this backlog: the records wait for the pipeline, in the
// topic or its repartition topic, or for a downstream pipeline. The lag of a pipeline that ended
// does not count: no process reads its records until the pipeline is moved.
func (l *backlog) counts(lag observe.Lag) bool {
	reads := l.runner.Reads()
	read := observe.Read{Group: lag.Group, Topic: lag.Topic}
	if slices.ContainsFunc(l.behind, func(r *pipeline.Runner) bool { return r.Ended() == nil && slices.Contains(r.Reads(), read) }) {
		return true
	}
	return read == reads[len(reads)-1] || lag.Topic == l.topic && slices.Contains(reads, read)
}

// waiting returns the number of waiting records, including those that are being appended.
func (b *backlogs) waiting(l *backlog) int {
	if l.runner.Ended() != nil {
		return 0
	}
	a := b.admitted[l.topic]
	return l.found + a.begun - a.counted
}

func (b *backlogs) observe(now time.Time, l *backlog) {
	switch l.gate.Observe(now, b.waiting(l)) {
	case control.Pause:
		b.logger.Warn("records are refused until the pipeline has caught up", "pipeline", l.runner.Name(), "topic", l.topic, "waiting", b.waiting(l), "low", l.gate.Marks().Low)
	case control.Resume:
		b.logger.Info("records are taken again", "pipeline", l.runner.Name(), "topic", l.topic, "waiting", b.waiting(l))
	}
}

// admit implements ingest.Admit for the topics.
func (b *backlogs) admit(topic string, records int) (done func(), err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, l := range b.list {
		if l.topic != topic || l.runner.Ended() != nil {
			continue
		}
		if most := l.gate.Marks().Max; records > most {
			return nil, fmt.Errorf("%w: %d records, and at most %d may wait for pipeline %s", stream.ErrTooLarge, records, most, l.runner.Name())
		}
		if waiting := b.waiting(l); l.gate.Throttled() || waiting+records > l.gate.Marks().Max {
			l.refused++
			return nil, &ingest.Behind{After: max(time.Second, l.gate.RetryAfter()), Reason: fmt.Sprintf("%d records of topic %q wait for pipeline %s, and %d more would be too many", waiting, topic, l.runner.Name(), max(1, records))}
		}
	}
	a := b.admitted[topic]
	if a == nil {
		return func() {}, nil
	}
	a.begun += records
	now := time.Now()
	for _, l := range b.list {
		if l.topic == topic {
			b.observe(now, l)
		}
	}
	return func() {
		b.mu.Lock()
		defer b.mu.Unlock()
		a.done += records
	}, nil
}

// sources returns the state of a pipeline's backlogs.
func (b *backlogs) sources(now time.Time, r *pipeline.Runner) (list []pipeline.Source) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, l := range b.list {
		if l.runner == r {
			s := pipeline.NewSource(r.Name(), l.topic, backlogQueue, l.gate.Marks(), l.gate.State(now))
			s.Waiting, s.Refused = b.waiting(l), l.refused
			list = append(list, s)
		}
	}
	return list
}
