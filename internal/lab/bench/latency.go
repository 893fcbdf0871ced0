package bench

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/afterbay/afterbay/stream"
)

// calibration is how long the schedule runs alone, to measure its own cost.
const calibration = 2 * time.Second

// latency appends events on a schedule that never waits. It measures the time from the scheduled
// time of each event until its decision can be read.
func (m *measurement) latency() error {
	harness, err := m.calibrate()
	if err != nil {
		return err
	}
	source := m.work.source()
	defer source.stop()
	settle := m.settle()
	s := m.schedule(source, settle+m.options.Duration)
	var counts time.Time // start of the measured events
	read := newTails(m.records, func(stream.Partition) consumer {
		return &latencies{work: &m.work, due: s.due, start: counts, part: m.options.Part}
	})
	runtime.GC()
	parts := &partsOfRun{measurement: m}
	behind := &lagWatch{measurement: m}
	var before, after usageOf
	err = m.whileRunning(func(ctx context.Context) error {
		if err := m.waitReady(ctx); err != nil {
			return err
		}
		s.start = time.Now()
		counts = s.start.Add(settle)
		if err := read.start(ctx, m.runner.Outputs()[:1], false); err != nil {
			return err
		}
		var group errgroup.Group
		group.Go(func() error { return s.run(ctx, m.records.Append) })
		if err := until(ctx, counts); err != nil {
			return errors.Join(err, group.Wait())
		}
		if before, err = m.profile.begin(); err != nil {
			return errors.Join(err, group.Wait())
		}
		watched, stop := parts.watch(ctx, counts), behind.watch(ctx)
		if err := errors.Join(group.Wait(), watched(), stop()); err != nil {
			return err
		}
		if err := m.runner.WaitIdle(ctx, m.records); err != nil {
			return err
		}
		after = m.profile.end()
		return read.end(ctx)
	})
	if err != nil {
		return err
	}
	all := latenciesOf(read)
	events := float64(s.events) - settle.Seconds()*float64(s.rate)
	m.figures(before, after, events)
	took := after.at.Sub(before.at).Seconds()
	reading, err := m.readingCost()
	if err != nil {
		return err
	}
	harness += reading.Seconds() * float64(sum(all).count) / took
	m.print("harness_cores_used", rounded(harness, 3), "cores")
	alone := (after.cpu-before.cpu).Seconds()/took - harness
	m.print("engine_cores_used", rounded(alone, 3), "cores")
	m.print("engine_cpu_us_per_event", rounded(alone*took*1e6/events, 3), "us")
	m.memory()
	if m.options.Repartition > 0 {
		m.print("order_forced", float64(m.runner.Counts().Forced), "events")
	}
	m.phases(m.runner.Phases(), quantiles)
	return errors.Join(parts.report(all), behind.report())
}

// until waits for a time. It returns the error of ctx if ctx is done first.
func until(ctx context.Context, at time.Time) error {
	timer := time.NewTimer(time.Until(at))
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (m *measurement) schedule(source *source, d time.Duration) *schedule {
	s := &schedule{rate: m.options.Rate, events: int64(float64(m.options.Rate) * d.Seconds()), topic: m.runner.Input(), source: source}
	if m.options.Repartition > 0 {
		s.arrivals = newArrivals(m.options.Seed, s.rate, s.events, m.options.Busy)
	}
	return s
}

// calibrate returns how many cores the schedule uses while it appends nothing or, on Kafka, while
// it appends to a topic without readers.
func (m *measurement) calibrate() (cores float64, err error) {
	if m.Engine.Shared() {
		return m.calibrateOnKafka()
	}
	source := m.work.source()
	defer source.stop()
	s := m.schedule(source, min(calibration, m.options.Duration))
	s.start = time.Now()
	before := cpuNow()
	err = s.run(m.ctx, func(context.Context, ...stream.Record) error { return nil })
	return (cpuNow() - before).Seconds() / time.Since(s.start).Seconds(), err
}

// readingCost returns the processor time to read one of the newest decisions, while nothing else
// runs. It is the smallest of several measurements.
func (m *measurement) readingCost() (least time.Duration, err error) {
	if m.Engine.Shared() {
		return 0, nil // its connections would dominate the cost
	}
	for range 5 {
		read := newTails(m.records, func(stream.Partition) consumer {
			now := time.Now()
			return &latencies{work: &m.work, due: func(int64) time.Time { return now }, start: now, part: m.options.Part}
		})
		before := cpuNow()
		if err := read.start(m.ctx, m.runner.Outputs()[:1], true); err != nil {
			return 0, err
		}
		if err := read.end(m.ctx); err != nil {
			return 0, err
		}
		cost := (cpuNow() - before) / time.Duration(max(1, sum(latenciesOf(read)).count))
		if least == 0 || cost < least {
			least = cost
		}
	}
	return least, nil
}

// latenciesOf merges the latencies that the readers of the partitions measured, by part.
func latenciesOf(read *tails) []*times {
	var all []*times
	for _, t := range read.tails {
		for i, part := range t.consumer.(*latencies).parts {
			if i == len(all) {
				all = append(all, &times{})
			}
			all[i].merge(part)
		}
	}
	return all
}

func sum(parts []*times) *times {
	all := &times{}
	for _, t := range parts {
		all.merge(t)
	}
	return all
}

// partsOfRun holds the measurements of the parts of a long run.
type partsOfRun struct {
	*measurement
	list []partOfRun
}

// partOfRun is the resource use at the end of a part.
type partOfRun struct{ resident, files, bytes float64 }

// watch measures at the end of each part. The returned function waits for the last one.
func (p *partsOfRun) watch(ctx context.Context, start time.Time) (wait func() error) {
	var group errgroup.Group
	group.Go(func() error {
		for n := range int(p.options.Duration / p.options.Part) {
			select {
			case <-time.After(time.Until(start.Add(time.Duration(n+1) * p.options.Part))):
			case <-ctx.Done():
				return ctx.Err()
			}
			resident, _, _ := residentBytes()
			files, bytes := countFiles(p.data)
			p.list = append(p.list, partOfRun{float64(resident), float64(files), float64(bytes)})
		}
		return nil
	})
	return group.Wait
}

// report prints the quantiles. If there are several parts, it also prints the measurements of each.
func (p *partsOfRun) report(found []*times) error {
	all := sum(found)
	if all.count == 0 {
		return errors.New("no decisions came: use more events")
	}
	for _, q := range quantiles {
		p.print("latency_"+q.name, milliseconds(all.quantile(q.share)), "ms")
	}
	p.print("latency_max", milliseconds(all.most), "ms")
	p.print("decisions", float64(all.count), "records")
	word := "part"
	if p.options.Part == time.Minute {
		word = "minute"
	}
	for i, part := range p.list {
		name := fmt.Sprintf("_%s_%d", word, i+1)
		if i < len(found) {
			p.print("p99"+name, milliseconds(found[i].quantile(0.99)), "ms")
		}
		if part.resident > 0 {
			p.print("rss"+name, rounded(part.resident/1e6, 1), "MB")
		}
		p.print("files"+name, part.files, "files")
		p.print("directory"+name, rounded(part.bytes/1e6, 1), "MB")
	}
	if p.options.Steady {
		return steady(p.list)
	}
	return nil
}

func milliseconds(d time.Duration) float64 { return rounded(d.Seconds()*1e3, 3) }

// steadyFactor is how much larger the last parts may be than the early ones.
const steadyFactor = 1.12

// steady returns an error if the last three parts use more than the three after the second part. It
// compares medians, because files are merged from time to time. There must be at least three parts.
func steady(parts []partOfRun) error {
	early, last := parts[2:min(5, len(parts))], parts[max(2, len(parts)-3):]
	var errs []error
	for _, test := range []struct {
		name string
		of   func(partOfRun) float64
	}{
		{"memory", func(p partOfRun) float64 { return p.resident }},
		{"files", func(p partOfRun) float64 { return p.files }},
		{"bytes of the directory", func(p partOfRun) float64 { return p.bytes }},
	} {
		median := func(parts []partOfRun) float64 {
			ordered := slices.SortedFunc(slices.Values(parts), func(a, b partOfRun) int { return cmp.Compare(test.of(a), test.of(b)) })
			return test.of(ordered[len(ordered)/2])
		}
		if begin, end := median(early), median(last); end > begin*steadyFactor {
			errs = append(errs, fmt.Errorf("%s grow: %.0f in early parts, %.0f at the end", test.name, begin, end))
		}
	}
	return errors.Join(errs...)
}
