package reprocess_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/afterbay/afterbay/internal/event/header"
	"github.com/afterbay/afterbay/internal/log/embedded"
	"github.com/afterbay/afterbay/internal/ops/inspect"
	"github.com/afterbay/afterbay/internal/ops/reprocess"
	"github.com/afterbay/afterbay/internal/pipeline"
	"github.com/afterbay/afterbay/internal/state/generation"
	"github.com/afterbay/afterbay/stream"
)

var (
	paceEvents = flag.Int("pace.events", 6_000, "events that are derived again beside live ones")
	pacePairs  = flag.Int("pace.pairs", 2, "pairs of times without and with")
	paceTime   = flag.Duration("pace.time", 500*time.Millisecond, "of each")
	paceRate   = flag.Int("pace.rate", 1_000, "live events a second")
	paceMost   = flag.Float64("pace.most", 0, "most that the 99th percentile may grow to, by the median of pairs, as a factor; 0 is any")
)

// traffic appends live events at a rate, and notes how long each took to its output.
type traffic struct {
	*testing.T
	log  generation.Log
	next int // number of the next event

	mu   sync.Mutex // guards the rest
	sent map[string]time.Time
	took []time.Duration
}

// watch notes when outputs are there, until ctx is done.
func (tr *traffic) watch(ctx context.Context, wait *sync.WaitGroup) {
	for index := range int32(partitions) {
		p := stream.Partition{Topic: "out", Index: index}
		_, from, err := tr.log.Offsets(ctx, p)
		if err != nil {
			tr.Error(err)
			return
		}
		wait.Go(func() {
			for r, err := range tr.log.Tail(ctx, p, from) {
				if err != nil {
					return
				}
				now, id := time.Now(), header.Get(&r, header.Position)
				tr.mu.Lock()
				if at, ok := tr.sent[id]; ok {
					tr.took = append(tr.took, now.Sub(at))
					delete(tr.sent, id)
				}
				tr.mu.Unlock()
			}
		})
	}
}

// send sends events for a time, and returns the 99th percentile of what they took.
func (tr *traffic) send(d time.Duration) time.Duration {
	tr.Helper()
	tr.mu.Lock()
	tr.took = nil
	tr.mu.Unlock()
	begun := time.Now()
	for n := 0; time.Since(begun) < d; {
		due := int(time.Since(begun).Seconds() * float64(*paceRate))
		if n >= due {
			time.Sleep(time.Millisecond)
			continue
		}
		list := events(tr.next, due-n)
		now := time.Now() // of all: who waits for another is late by that
		tr.mu.Lock()      // or an output may come before its event is known
		if err := tr.log.Append(tr.Context(), list...); err != nil {
			tr.mu.Unlock()
			tr.Fatal(err)
		}
		for i := range list {
			if (tr.next+i)%11 != 10 {
				tr.sent[fmt.Sprintf("%v@%d", list[i].Partition, list[i].Offset)] = now
			}
		}
		tr.mu.Unlock()
		tr.next += due - n
		n = due
	}
	tr.mu.Lock()
	defer tr.mu.Unlock()
	for late := time.Now().Add(patience); len(tr.sent) > 0; {
		if time.Now().After(late) {
			tr.Fatalf("%d events have no output", len(tr.sent))
		}
		tr.mu.Unlock()
		time.Sleep(5 * time.Millisecond)
		tr.mu.Lock()
	}
	slices.Sort(tr.took)
	return tr.took[len(tr.took)*99/100]
}

// beside is send beside a re-derivation, which ends with it.
func (tr *traffic) beside(changed *pipeline.Runner, rate float64) (p99 time.Duration, last reprocess.Progress) {
	ctx, cancel := context.WithTimeout(tr.Context(), *paceTime)
	defer cancel()
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for p, err := range reprocess.Run(ctx, tr.log, changed, reprocess.Job{Rate: rate, Follow: true}) {
			if err == nil {
				last = p
			} else if !errors.Is(err, context.DeadlineExceeded) {
				tr.Error(err)
			}
		}
	}()
	p99 = tr.send(*paceTime)
	<-ended
	return p99, last
}

// TestLiveTrafficKeepsItsPaceAndNoReaderSeesAMix derives a history again beside live
// events, in pieces, each the resumption of the one before, with the latency of
// live ones beside and without it; then it switches. Readers of the view and one that
// follows the topic look on.
func TestLiveTrafficKeepsItsPaceAndNoReaderSeesAMix(t *testing.T) {
	log, err := embedded.Open(t.TempDir(), embedded.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	old, changed := newRunner(t, payments(20)), newRunner(t, payments(40))
	stop := start(t, log, old)
	mustAppend(t, log, events(0, *paceEvents))
	idle(t, log, old)
	tr := &traffic{T: t, log: log, next: *paceEvents, sent: map[string]time.Time{}}
	watching, unwatch := context.WithCancel(t.Context())
	var watchers sync.WaitGroup
	tr.watch(watching, &watchers)
	views := &viewers{T: t, local: &inspect.Local{Log: log}}
	watchers.Go(func() { views.watch(watching) })
	tr.send(*paceTime) // to warm up
	rate := 1.1 * float64(*paceEvents) / float64(*pacePairs) / paceTime.Seconds()
	var ratios []float64
	for pair := range *pacePairs {
		var without, with time.Duration
		var last reprocess.Progress
		for half := range 2 { // in turns, so that neither is always the first
			if half == pair%2 {
				without = tr.send(*paceTime)
			} else {
				with, last = tr.beside(changed, rate)
			}
		}
		ratios = append(ratios, with.Seconds()/without.Seconds())
		t.Logf("p99 of live events %v without, %v with a re-derivation of %.0f a second: %.2f; %d of %d events derived again", without.Round(10*time.Microsecond), with.Round(10*time.Microsecond), rate, ratios[len(ratios)-1], last.Events, last.Of)
	}
	begun := time.Now()
	last := do(t, log, changed, reprocess.Job{Switch: true, HandOver: func(ctx context.Context, begun generation.Begun, given func(generation.Live)) error {
		stop()
		return generation.HandOver(ctx, log, "payments", "in", begun, given)
	}})
	names, err := generation.Open(t.Context(), log)
	if err != nil {
		t.Fatal(err)
	}
	stop = start(t, names, changed)
	tr.send(*paceTime)
	idle(t, names, changed)
	stop()
	unwatch()
	watchers.Wait()
	views.read(t.Context()) // one more, after all
	views.check(log, last.Live)
	slices.Sort(ratios)
	t.Logf("%d events derived again, then switched within %v; median of %d pairs: %.2f; %d reads of the view, %d before it moved", last.Events, time.Since(begun).Round(time.Millisecond), len(ratios), ratios[len(ratios)/2], views.reads, views.before)
	if *paceMost > 0 && ratios[len(ratios)/2] > *paceMost {
		t.Errorf("live events took %.2f times as long beside a re-derivation: the goal is %.2f", ratios[len(ratios)/2], *paceMost)
	}
	checkSwitched(t, log, last.Live, tr.next)
}

// viewers read the view again and again.
type viewers struct {
	*testing.T
	local         *inspect.Local
	all           []map[int32]*seen
	reads, before int
}

// seen is what a read of the view had of a partition's events: how many outputs and
// which offsets, by generation.
type seen struct {
	outputs     int
	least, most [3]stream.Offset
}

func (v *viewers) watch(ctx context.Context) {
	for ctx.Err() == nil {
		begun := time.Now()
		v.read(ctx)
		select {
		case <-time.After(max(50*time.Millisecond, 9*time.Since(begun))): // a tenth of the time
		case <-ctx.Done():
		}
	}
}

func (v *viewers) read(ctx context.Context) {
	parts := map[int32]*seen{}
	for r, err := range v.local.Records(ctx, inspect.Query{Topic: "out", Partition: inspect.AllPartitions, View: true}) {
		if ctx.Err() != nil {
			return
		}
		if err != nil {
			v.Error(err)
			return
		}
		_, n := generation.Of(&r)
		partition, offset, _ := generation.Event(&r)
		p := parts[partition]
		if p == nil {
			p = &seen{least: [3]stream.Offset{math.MaxInt64, math.MaxInt64, math.MaxInt64}, most: [3]stream.Offset{-1, -1, -1}}
			parts[partition] = p
		}
		p.outputs++
		p.least[n], p.most[n] = min(p.least[n], offset), max(p.most[n], offset)
	}
	v.all = append(v.all, parts)
}

// check sees, of each read, that it had each event up to its newest once, and that
// what it had was of one generation, or of the old one before the switch and of the
// new one from there on.
func (v *viewers) check(log generation.Log, lives []generation.Live) {
	v.Helper()
	at, offsets := map[int32]stream.Offset{}, map[int32][]stream.Offset{}
	for _, l := range lives {
		at[l.Partition] = l.Offset
	}
	for _, o := range outputs(v.T, log, "out") {
		p := position(v.T, o.Position)
		offsets[p.Partition.Index] = append(offsets[p.Partition.Index], p.Offset)
	}
	for i := range offsets {
		slices.Sort(offsets[i])
	}
	for i, parts := range v.all {
		v.reads++
		old := false
		for partition, p := range parts {
			newest := max(p.most[1], p.most[2])
			want, _ := slices.BinarySearch(offsets[partition], newest+1)
			mixed := p.most[1] >= 0 && (p.most[1] >= at[partition] || p.least[2] < at[partition])
			if old = old || p.most[1] >= 0; p.outputs != want || mixed {
				v.Fatalf("read %d of the view has %d outputs of %d events of partition %d, offsets %v to %v by generation, and the switch is at %d", i, p.outputs, want, partition, p.least, p.most, at[partition])
			}
		}
		if old {
			v.before++
		}
	}
	if v.before == 0 || v.before == v.reads {
		v.Errorf("%d reads of the view, %d before it moved", v.reads, v.before)
	}
}
