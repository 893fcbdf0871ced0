package e2e_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/afterbay/afterbay/internal/log/embedded"
	"github.com/afterbay/afterbay/internal/log/memory"
	"github.com/afterbay/afterbay/internal/pipeline"
	"github.com/afterbay/afterbay/internal/process/builtin"
	"github.com/afterbay/afterbay/internal/test/reference"
	"github.com/afterbay/afterbay/stream"
)

// TestSameAnswerWithLittleMemory gives keys and state next to no memory, so that
// every key is decoded again for every step, most are read from the disk, and
// when keys fall silent is read again from the state all the time.
func TestSameAnswerWithLittleMemory(t *testing.T) {
	events := reference.Generate(*answerSeed, min(*answerEvents, 20_000))
	want := runVariant(t, variant{engine: "memory", batch: 64, members: 1, interval: time.Millisecond}, events)
	for name, limit := range map[string]struct{ state, keys int64 }{
		"keys":           {0, 1},
		"few keys":       {0, 200_000},
		"state":          {64 << 10, 0},
		"keys and state": {64 << 10, 1},
	} {
		t.Run(name, func(t *testing.T) {
			var log stream.Log = memory.New(memory.Options{})
			if limit.state > 0 {
				var err error
				if log, err = embedded.Open(t.TempDir(), embedded.Options{StateMemoryBytes: limit.state, CheckpointBytes: 64 << 10}); err != nil {
					t.Fatal(err)
				}
			}
			defer closeLog(t, log)
			p := answerPipeline(t)
			p.Commit.Interval = time.Millisecond
			runner, err := builtin.New(p, pipeline.Options{Members: 2, KeyBytes: limit.keys})
			if err != nil {
				t.Fatal(err)
			}
			if err := runner.CreateTopics(t.Context(), log); err != nil {
				t.Fatal(err)
			}
			appendEvents(t, log, p.Input.Topic, events)
			runUntilIdle(t, runner, log)
			readAnswer(t, runner, log).mustEqual(t, want)
			if c := runner.Counts(); (c.KeyEvictions == 0) != (limit.keys == 0) {
				t.Errorf("%d decoded keys were evicted", c.KeyEvictions)
			}
			if l, ok := log.(*embedded.Log); ok && len(events) == 20_000 && l.Stats().State.Evictions == 0 {
				t.Error("no state was evicted")
			}
		})
	}
}

// TestManyKeysFallSilentAtOnce lets the watermark of each partition jump over
// the windows of thousands of keys, more than one step has room for.
func TestManyKeysFallSilentAtOnce(t *testing.T) {
	const keys, hour = 60_000, 3_600_000
	log, err := embedded.Open(t.TempDir(), embedded.Options{MaxFrameBytes: 2 << 20}) // what all of them change has no room
	if err != nil {
		t.Fatal(err)
	}
	defer closeLog(t, log)
	runner, err := builtin.New(baselinePipeline(t), pipeline.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if err := runner.CreateTopics(t.Context(), log); err != nil {
		t.Fatal(err)
	}
	var records []stream.Record
	add := func(key string, ts int64) {
		records = append(records, baselineEvent(runner.Input(), len(records), key, ts))
	}
	const begin = 1_760_000_000_000
	for i := range keys {
		add(fmt.Sprintf("u%060d", i), begin)
	}
	for i := range 100 { // one in each partition at least
		add(fmt.Sprint("v", i), begin+2*hour)
	}
	for chunk := range slices.Chunk(records, 5000) {
		if err := log.Append(t.Context(), chunk...); err != nil {
			t.Fatal(err)
		}
	}
	err = runWhile(t.Context(), runner, log, func(ctx context.Context) error {
		idle := runner.WaitIdle(ctx, log)
		for tick := time.NewTicker(5 * time.Millisecond); runner.Counts().Outputs < keys+100 && ctx.Err() == nil; {
			<-tick.C
		}
		for tick := time.NewTicker(100 * time.Millisecond); windows(t, log, runner) > 100 && ctx.Err() == nil; { // it reads all keys
			<-tick.C
		}
		return errors.Join(idle, ctx.Err())
	})
	if err != nil {
		t.Fatal(err)
	}
	if left := windows(t, log, runner); left != 100 {
		t.Errorf("%d keys have windows, want 100", left)
	}
	if c := runner.Counts(); c.Outputs != keys+100 || c.Rejoined > 0 {
		t.Errorf("%d outputs, and %d members failed", c.Outputs, c.Rejoined)
	}
}

// TestKeysThatComeAndGoTakeNoMoreMemory has keys that fall silent over and over,
// and looks at what is noted of when they do.
func TestKeysThatComeAndGoTakeNoMoreMemory(t *testing.T) {
	const keys, rounds, begin, hour = 200, 200, 1_760_000_000_000, 3_600_000
	log := memory.New(memory.Options{})
	defer closeLog(t, log)
	p := baselinePipeline(t)
	p.Commit.Interval = time.Millisecond
	runner, err := builtin.New(p, pipeline.Options{Members: 1})
	if err != nil {
		t.Fatal(err)
	}
	if err := runner.CreateTopics(t.Context(), log); err != nil {
		t.Fatal(err)
	}
	var noted [rounds]int64
	err = runWhile(t.Context(), runner, log, func(ctx context.Context) error {
		for round := range rounds {
			var records []stream.Record
			for i := round % 2; i < keys; i += 2 { // while the other half is silent
				records = append(records, baselineEvent(runner.Input(), i, fmt.Sprint("user", i), begin+int64(2*round)*hour))
			}
			if err := errors.Join(log.Append(ctx, records...), runner.WaitIdle(ctx, log)); err != nil {
				return err
			}
			noted[round] = runner.Snapshot().Memory.ExpiryBytes
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	soon, last := noted[rounds/10], noted[rounds-1]
	if soon == 0 || last > 2*soon {
		t.Errorf("%d bytes are noted, and after ten times the rounds %d", soon, last)
	}
}

// baselineEvent is the i-th event of the baseline work, placed in topic by its key.
func baselineEvent(topic string, i int, key string, ts int64) stream.Record {
	value := fmt.Appendf(nil, `{"event_id": "e%d", "user_id": "%s", "ts": %d, "amount": 1.25, "country": "DE", "channel": "app", "device": "ios"}`, i, key, ts)
	return stream.Record{
		Partition: stream.Partition{Topic: topic, Index: stream.ByKey}, Key: []byte(key), Value: value, Time: time.UnixMilli(ts),
	}
}

// windows returns how many keys have something in a window.
func windows(t *testing.T, log stream.Log, runner *pipeline.Runner) (n int) {
	t.Helper()
	for i := range int32(answerPartitions) {
		view, err := log.(stream.Inspector).State(t.Context(), runner.Name(), stream.Partition{Topic: runner.Input(), Index: i})
		if err != nil {
			t.Fatal(err)
		}
		for entry, err := range view.Scan([]byte("e")) {
			if err != nil {
				t.Fatal(err)
			}
			columns, _, err := runner.Plan.Describe(string(entry.Key[1:]), view.Get)
			if err != nil {
				t.Fatal(err)
			}
			if columns[0].Value != "0" {
				n++
			}
		}
	}
	return n
}

// TestAStepIsCommittedWhereItsTimerMeetsRecords lets the timer of a step run out
// while Poll brings all that is asked for, of events so late that the step is put
// off. Nothing comes after them.
func TestAStepIsCommittedWhereItsTimerMeetsRecords(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := &timedLog{Log: memory.New(memory.Options{})}
		defer closeLog(t, log)
		p := baselinePipeline(t)
		p.Commit.Interval = 5 * time.Millisecond
		runner, err := builtin.New(p, pipeline.Options{Members: 1})
		if err != nil {
			t.Fatal(err)
		}
		if err := runner.CreateTopics(t.Context(), log); err != nil {
			t.Fatal(err)
		}
		add := func(ctx context.Context, n int) error {
			var records []stream.Record
			for i := range n {
				r := baselineEvent(runner.Input(), i, "user", time.Now().Add(-time.Minute).UnixMilli())
				r.Partition.Index = 0
				records = append(records, r)
			}
			return log.Log.Append(ctx, records...)
		}
		// The first is committed at once; the second waits; the timer comes with the rest.
		log.before = []func(context.Context) error{
			func(ctx context.Context) error { return add(ctx, 1) },
			func(ctx context.Context) error { return add(ctx, 1) },
			func(ctx context.Context) error { time.Sleep(6 * time.Millisecond); return add(ctx, 1024) },
		}
		ctx, stop := context.WithTimeout(t.Context(), time.Minute)
		defer stop()
		done := make(chan error, 1)
		go func() { done <- runner.Run(ctx, log) }()
		time.Sleep(time.Second)
		if committed := runner.Counts().Outputs; committed != 1026 {
			t.Errorf("%d outputs are committed, want 1026", committed)
		}
		stop()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}

// timedLog does something before each of the first polls of its members that
// own a partition.
type timedLog struct {
	stream.Log
	before []func(context.Context) error
}

func (l *timedLog) Join(ctx context.Context, group string, topics ...string) (stream.Member, error) {
	s, err := l.Log.Join(ctx, group, topics...)
	return &timedMember{Member: s, log: l}, err
}

type timedMember struct {
	stream.Member
	log   *timedLog
	owner bool
}

func (s *timedMember) Poll(ctx context.Context, limit int) (stream.Batch, error) {
	if before := s.log.before; s.owner && len(before) > 0 {
		s.log.before = before[1:]
		if err := before[0](ctx); err != nil {
			return stream.Batch{}, err
		}
	}
	batch, err := s.Member.Poll(ctx, limit)
	s.owner = s.owner || len(batch.Assigned) > 0
	return batch, err
}
