package embedded

import (
	"context"
	"encoding/binary"
	"errors"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/afterbay/afterbay/internal/sys/vfs"
	"github.com/afterbay/afterbay/stream"
)

// timing is a load in virtual time: a sync takes as long, and an event.
type timing struct {
	rate   int // events a second, appended every 500 us
	events int
	sync   func(n int) time.Duration // of the n-th frame
	event  time.Duration
	early  bool
}

// latencies runs a load and returns how long each event took from when it was
// due until its output could be read, sorted.
func (l timing) latencies(t *testing.T) (took []time.Duration, stats Stats) {
	synctest.Test(t, func(t *testing.T) {
		syncs := 0
		o := Options{Logger: quiet, CheckpointInterval: time.Hour, fs: vfs.Faulty(vfs.NewMemory(), func(c vfs.Call) (o vfs.Outcome) {
			if frameSync(c) {
				syncs++
				time.Sleep(l.sync(syncs))
			}
			return o
		})}
		log := mustOpen(t, o)
		create(t, log, 4)
		var group sync.WaitGroup
		start := time.Now().Add(20 * time.Millisecond)
		ctx, stop := context.WithCancel(t.Context())
		defer stop()
		group.Go(func() { l.work(ctx, t, log) })
		var mu sync.Mutex
		for i := range int32(4) {
			group.Go(func() {
				for r, err := range log.Tail(ctx, stream.Partition{Topic: "scores", Index: i}, 0) {
					if err != nil {
						return
					}
					due := start.Add(time.Duration(binary.LittleEndian.Uint64(r.Value)))
					mu.Lock()
					if took = append(took, time.Since(due)); len(took) == l.events {
						stop()
					}
					mu.Unlock()
				}
			})
		}
		l.feed(t, log, start)
		group.Wait()
		stats = log.Stats()
		if err := log.Close(); err != nil {
			t.Error(err)
		}
	})
	slices.Sort(took)
	return took, stats
}

// feed appends events when they are due, 500 us of them at once.
func (l timing) feed(t *testing.T, log *Log, start time.Time) {
	var group sync.WaitGroup
	defer group.Wait()
	each := time.Second / time.Duration(l.rate)
	for next := 0; next < l.events; {
		var records []stream.Record
		for time.Sleep(500 * time.Microsecond); next < l.events && time.Since(start) >= time.Duration(next)*each; next++ {
			value := binary.LittleEndian.AppendUint64(nil, uint64(time.Duration(next)*each))
			records = append(records, stream.Record{Partition: stream.Partition{Topic: "events", Index: int32(next % 4)}, Value: value})
		}
		group.Go(func() {
			if err := log.Append(t.Context(), records...); err != nil {
				t.Error(err)
			}
		})
	}
}

// work is the loop of package task: it commits what it computed when the step
// before is decided, and computes the next meanwhile.
func (l timing) work(ctx context.Context, t *testing.T, log *Log) {
	member, err := log.Join(ctx, "g", "events")
	if err != nil {
		t.Error(err)
		return
	}
	member.(stream.EarlyReader).ReadEarly(l.early)
	var pending *stream.Pending
	var committed time.Time
	st := stream.Transaction{Offsets: map[stream.Partition]stream.Offset{}}
	timer := time.AfterFunc(time.Hour, member.Wake)
	defer timer.Stop()
	for ctx.Err() == nil {
		batch, err := member.Poll(ctx, 2048)
		if err != nil && !errors.Is(err, context.Canceled) {
			t.Error(err)
			return
		}
		time.Sleep(time.Duration(len(batch.Records)) * l.event)
		for _, r := range batch.Records {
			st.Outputs = append(st.Outputs, stream.Record{Partition: stream.Partition{Topic: "scores", Index: r.Partition.Index}, Value: r.Value})
			st.Offsets[r.Partition] = r.Offset + 1
		}
		if pending != nil {
			select {
			case <-pending.Done():
				pending = nil
			default:
			}
		}
		wait := 2*time.Millisecond - time.Since(committed)
		if len(st.Offsets) == 0 || pending != nil {
			continue
		}
		if wait > 0 && !l.early {
			timer.Reset(wait)
			continue
		}
		committed, pending = time.Now(), member.Commit(st)
		st = stream.Transaction{Offsets: map[stream.Partition]stream.Offset{}}
	}
	if err := member.Close(); err != nil {
		t.Error(err)
	}
}

func at(sorted []time.Duration, q float64) time.Duration {
	return sorted[int(q*float64(len(sorted)-1))]
}

// TestStepsShareTheSyncOfTheirInputs measures in virtual time what reading early
// saves: the second of two syncs, and the wait for it. It costs no syncs, it
// comes back after stalls, and where the member is too slow for it, or the
// load too high, it does no harm.
func TestStepsShareTheSyncOfTheirInputs(t *testing.T) {
	const ms = time.Millisecond
	always := func(int) time.Duration { return 1200 * time.Microsecond }
	stalling := func(n int) time.Duration {
		if n%97 == 0 {
			return 12 * ms
		}
		return 1200 * time.Microsecond
	}
	for _, c := range []struct {
		name  string
		load  timing
		p50   time.Duration // at most, reading early
		saved time.Duration // at least, of p50
		fused float64       // share of the frames, at least
	}{
		{"a little", timing{rate: 500, sync: always, event: 4500}, 1300 * time.Microsecond, 1500 * time.Microsecond, .99},
		{"5,000 a second", timing{rate: 5000, sync: always, event: 4500}, 3 * ms, 1500 * time.Microsecond, .98},
		{"50,000 a second", timing{rate: 50_000, sync: always, event: 4500}, 3500 * time.Microsecond, 1200 * time.Microsecond, .98},
		{"syncs that stall", timing{rate: 50_000, sync: stalling, event: 4500}, 3500 * time.Microsecond, 1200 * time.Microsecond, .93},
		{"too much", timing{rate: 200_000, sync: always, event: 4500}, 9 * ms, -2 * ms, 0},
		{"slow", timing{rate: 1000, sync: always, event: 900_000}, 12 * ms, -2 * ms, 0},
	} {
		c.load.events = c.load.rate / 4
		late, without := c.load.latencies(t)
		c.load.early = true
		early, with := c.load.latencies(t)
		t.Logf("%s: p50 %v, p99 %v; reading early %v, %v; %d and %d frames, %d fused", c.name, at(late, .5), at(late, .99), at(early, .5), at(early, .99),
			without.Frames, with.Frames, with.FusedSteps)
		if p50 := at(early, .5); p50 > c.p50 || at(late, .5)-p50 < c.saved || at(early, .99) > at(late, .99)+2*ms {
			t.Errorf("%s: p50 %v, want at most %v and %v less than %v; p99 %v, not above %v", c.name, p50, c.p50, c.saved, at(late, .5), at(early, .99), at(late, .99)+2*ms)
		}
		if float64(with.FusedSteps) < c.fused*float64(with.Frames-4) || float64(with.Frames) > 1.1*float64(without.Frames) {
			t.Errorf("%s: %d frames instead of %d, %d fused", c.name, with.Frames, without.Frames, with.FusedSteps)
		}
	}
}
