package main

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/afterbay/afterbay/internal/sys/procfs"
)

// schedule is what keeping to a schedule came to.
type schedule struct {
	start    time.Time
	from, to sample // of what counts; their counts are not set
	err      error
}

// due is when event i of the schedule was due.
func (s schedule) due(i, rate int) time.Time {
	return s.start.Add(time.Duration(i) * time.Second / time.Duration(rate))
}

// producer returns a function that writes the next event to a topic.
func (b *bench) producer(ctx context.Context, topic string) func() {
	generator := newGenerator(b.seed)
	return func() {
		line, key := generator.Append(nil)
		// A record that is not written is a result that is missing.
		b.broker.client.Produce(ctx, &kgo.Record{Topic: topic, Key: key, Value: line}, nil)
	}
}

// follow writes events on a schedule. It writes events due within the same millisecond together.
func (b *bench) follow(ctx context.Context, p *process, produce func(), rate int) schedule {
	s := schedule{start: time.Now()}
	ticker := time.NewTicker(time.Millisecond)
	defer ticker.Stop()
	settled := int(settle.Seconds()) * rate
	for made, n := 0, rate*b.seconds; made < n && s.err == nil; <-ticker.C {
		for now := time.Now(); made < n && !s.due(made, rate).After(now); made++ {
			if made == settled {
				s.from, s.err = b.used(p)
			}
			produce()
		}
		if s.err == nil {
			s.err = p.check(ctx)
		}
	}
	if s.err == nil {
		s.to, s.err = b.used(p)
	}
	return s
}

// used returns the CPU time of a system and of the broker up to here.
func (b *bench) used(p *process) (s sample, err error) {
	if s.cpu, err = procfs.CPU(p.command.Process.Pid); err != nil {
		return s, err
	}
	s.broker, err = b.broker.cpu()
	return s, err
}

// latencies are when results came.
type latencies struct {
	answers *answers
	at      []time.Time // by event
}

// read reads until the results of n events have come.
func (l *latencies) read(ctx context.Context, p *process, reader *kgo.Client, n int) error {
	for came := time.Now(); l.answers.found < n; {
		wait, cancel := context.WithTimeout(ctx, time.Second)
		fetches := reader.PollFetches(wait)
		cancel()
		now := time.Now()
		for _, record := range fetches.Records() {
			i, err := l.answers.take(record.Value)
			if err != nil {
				return err
			}
			if l.at[i].IsZero() {
				l.at[i] = now
			}
			came = now
		}
		if err := p.check(ctx); err != nil {
			return err
		}
		if now.Sub(came) > stalledFor {
			return fmt.Errorf("no result for %s after %d of %d: see %s", stalledFor, l.answers.found, n, p.log)
		}
	}
	return nil
}

// since returns how long the results of the events from number from on took, in
// ascending order.
func (l *latencies) since(from int, due func(i int) time.Time) []time.Duration {
	var took []time.Duration
	for i := from; i < len(l.at); i++ {
		took = append(took, l.at[i].Sub(due(i)))
	}
	slices.Sort(took)
	return took
}

// quantile returns the q-quantile of sorted durations, in milliseconds.
func quantile(sorted []time.Duration, q float64) float64 {
	if len(sorted) == 0 {
		return 0
	}
	return float64(sorted[min(int(q*float64(len(sorted))), len(sorted)-1)]) / float64(time.Millisecond)
}
