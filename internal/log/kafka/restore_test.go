package kafka

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/afterbay/afterbay/stream"
)

// writeState leaves n values of 1,000 bytes beside each partition of in.
func writeState(t *testing.T, o Options, partitions int32, n int) {
	t.Helper()
	l := openAt(t, o).(*Log)
	defer closeLog(t, l)
	if err := l.CreateTopic(t.Context(), stream.Topic{Name: "in", Partitions: partitions}); err != nil {
		t.Fatal(err)
	}
	s, err := l.Join(t.Context(), "g", "in")
	if err != nil {
		t.Fatal(err)
	}
	step := stream.Transaction{Offsets: map[stream.Partition]stream.Offset{}}
	for len(step.Offsets) < int(partitions) {
		batch, err := s.Poll(t.Context(), 1)
		if err != nil {
			t.Fatal(err)
		}
		for _, a := range batch.Assigned {
			step.Offsets[a.Partition] = 0
		}
	}
	for i := range n {
		step.Changes = step.Changes[:0]
		for p := range step.Offsets {
			step.Changes = append(step.Changes, stream.Change{Partition: p, Key: fmt.Append(nil, i), Value: bytes.Repeat([]byte{byte(i)}, 1000)})
		}
		if err := s.Commit(step).Wait(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
}

func wantWritten(t *testing.T, view stream.View, n int) {
	t.Helper()
	for i := range n {
		wantValue(t, view, fmt.Sprint(i), bytes.Repeat([]byte{byte(i)}, 1000))
	}
}

// A restore is cut short by a rebalance, and goes on where it was when its
// partition comes back; meanwhile it says how far it is.
func TestRestoreGoesOnAfterARebalanceInItsMiddle(t *testing.T) {
	const values = 500
	cluster, _ := fakeCluster(t)
	o := conforming(cluster.ListenAddrs())
	writeState(t, o, 2, values)
	var holding atomic.Bool
	fetches := map[int32]int{} // by partition; the broker's goroutine counts
	held := make(chan struct{})
	cluster.ControlKey(int16(kmsg.Fetch), func(req kmsg.Request) (kmsg.Response, error, bool) {
		cluster.KeepControl()
		r := req.(*kmsg.FetchRequest)
		if len(r.Topics) == 1 && len(r.Topics[0].Partitions) == 1 && r.Topics[0].Partitions[0].PartitionMaxBytes == 4000 {
			if fetches[r.Topics[0].Partitions[0].Partition]++; fetches[0] < 3 || fetches[1] < 3 {
				return nil, nil, false // each has read something
			}
			holding.Store(true)
			cluster.SleepControl(func() { <-held })
		}
		return nil, nil, false
	})
	o.BufferBytes = 4000
	o.Dir = t.TempDir()
	first := openAt(t, o).(*Log)
	defer closeLog(t, first)
	s, err := first.Join(t.Context(), "g", "in")
	if err != nil {
		t.Fatal(err)
	}
	for !holding.Load() {
		_, _ = s.Poll(timeLimit(t, 10*time.Millisecond), 1)
	}
	restores := first.Restores()
	if len(restores) != 2 || restores[0].Left == 0 || restores[0].Left < restores[1].Left {
		t.Fatalf("%+v", restores)
	}
	o.Dir = t.TempDir()
	second := openAt(t, o).(*Log)
	other, err := second.Join(t.Context(), "g", "in")
	if err != nil {
		t.Fatal(err)
	}
	for len(first.Restores()) > 1 { // one partition moves while it is read back
		_, _ = s.Poll(timeLimit(t, 10*time.Millisecond), 1)
		_, _ = other.Poll(timeLimit(t, 10*time.Millisecond), 1)
	}
	close(held)
	mine, theirs := assignedOne(t, s), assignedOne(t, other)
	if mine.Partition == theirs.Partition {
		t.Fatalf("%v has two owners", mine.Partition)
	}
	wantWritten(t, mine.State, values)
	wantWritten(t, theirs.State, values)
	copied, err := first.store.local("g", theirs.Partition)
	if err != nil {
		t.Fatal(err)
	}
	copied.mu.Lock()
	partly := copied.next
	copied.mu.Unlock()
	if partly == 0 {
		t.Error("what was read before the rebalance is forgotten")
	}
	closeLog(t, second)
	back := assignedOne(t, s)
	wantWritten(t, back.State, values)
	if len(first.Restores()) > 0 {
		t.Errorf("%+v", first.Restores())
	}
}

// timeLimit returns a context that ends after d.
func timeLimit(t *testing.T, d time.Duration) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), d)
	t.Cleanup(cancel)
	return ctx
}

func assignedOne(t *testing.T, s stream.Member) stream.Assigned {
	t.Helper()
	ctx := timeLimit(t, 20*time.Second)
	for {
		batch, err := s.Poll(ctx, 1)
		if err != nil {
			t.Fatal(err)
		}
		if len(batch.Assigned) > 0 {
			return batch.Assigned[0]
		}
	}
}

// More state than memory may hold is checkpointed while it is read.
func TestRestoreKeepsWithinMemory(t *testing.T) {
	const values, most = 300, 60_000
	o := conforming(fake(t))
	writeState(t, o, 1, values)
	o.State.CheckpointEvery, o.State.MemoryBytes, o.BufferBytes = time.Hour, most, 10_000
	l := openAt(t, o).(*Log)
	defer closeLog(t, l)
	_, a := mustOwn(t, l)
	if got := l.store.cells.Stats(); got.Bytes > 2*most || got.Checkpoints == 0 {
		t.Errorf("%d bytes in memory after %d checkpoints", got.Bytes, got.Checkpoints)
	}
	wantWritten(t, a.State, values)
}

// A state that nobody owned for long is of no use, and leaves the disk.
func TestLocalStateIsRemovedWhenItIsOld(t *testing.T) {
	o := conforming(fake(t))
	o.Dir, o.State.CheckpointEvery = t.TempDir(), time.Hour
	writeState(t, o, 1, 3)
	look := func(age time.Duration, want int) {
		t.Helper()
		o.State.RebuildAfter = age
		l := openAt(t, o).(*Log)
		defer closeLog(t, l)
		if err := l.store.purge(); err != nil {
			t.Fatal(err)
		}
		copied, err := l.store.local("g", in)
		if err != nil {
			t.Fatal(err)
		}
		n := 0
		for range copied.space.Scan(nil) {
			n++
		}
		mark, err := l.store.marks.Get([]byte(copied.name))
		if err != nil || n != want || (mark != nil) != (want > 0) {
			t.Errorf("%d values, mark %x, %v; want %d", n, mark, err, want)
		}
	}
	look(time.Hour, 3)
	look(time.Nanosecond, 0)
	look(time.Hour, 0)
	o.State.RebuildAfter = time.Nanosecond
	l := openAt(t, o).(*Log)
	defer closeLog(t, l)
	_, a := mustOwn(t, l)
	if err := l.store.purge(); err != nil {
		t.Fatal(err)
	}
	wantWritten(t, a.State, 3) // it is owned
}

// The offsets of a transaction that is just being committed are awaited for
// milliseconds, not for the second that the client library sleeps.
func TestTakeoverDoesNotSleepForMarkers(t *testing.T) {
	synctest.Test(t, takeOverBesideMarkers)
}

func takeOverBesideMarkers(t *testing.T) {
	var way network
	cluster := fakeWith(t, kfake.ListenFn(way.Listen))
	o := conforming(cluster.ListenAddrs())
	o.dial = way.dial
	writeState(t, o, 1, 1)
	var left atomic.Int64
	left.Store(4)
	cluster.ControlKey(int16(kmsg.OffsetFetch), func(req kmsg.Request) (kmsg.Response, error, bool) {
		cluster.KeepControl()
		r := req.(*kmsg.OffsetFetchRequest)
		if left.Add(-1) < 0 || !r.RequireStable {
			return nil, nil, false
		}
		return undecidedOffsets(r), nil, true
	})
	l := openAt(t, o).(*Log)
	defer closeLog(t, l)
	began := time.Now()
	mustOwn(t, l)
	if took := time.Since(began); took > 900*time.Millisecond || left.Load() >= 0 {
		t.Errorf("it took %v", took)
	}
}

// undecidedOffsets is the answer that all offsets may change.
func undecidedOffsets(r *kmsg.OffsetFetchRequest) kmsg.Response {
	resp := r.ResponseKind().(*kmsg.OffsetFetchResponse)
	for _, g := range r.Groups {
		rg := kmsg.NewOffsetFetchResponseGroup()
		rg.Group = g.Group
		for _, t := range g.Topics {
			rt := kmsg.NewOffsetFetchResponseGroupTopic()
			rt.Topic, rt.TopicID = t.Topic, t.TopicID
			for _, p := range t.Partitions {
				rp := kmsg.NewOffsetFetchResponseGroupTopicPartition()
				rp.Partition, rp.ErrorCode = p, kerr.UnstableOffsetCommit.Code
				rt.Partitions = append(rt.Partitions, rp)
			}
			rg.Topics = append(rg.Topics, rt)
		}
		resp.Groups = append(resp.Groups, rg)
	}
	return resp
}

// A broker that answers late, at the wrong moment, does not keep the member from
// looking for the reason why the offsets stay undecided.
func TestUndecidedOffsetsAreLookedIntoThoughABrokerIsSlow(t *testing.T) {
	cluster, _ := fakeCluster(t)
	o := conforming(cluster.ListenAddrs())
	writeState(t, o, 1, 1)
	var asked atomic.Int64
	var looked atomic.Bool
	cluster.ControlKey(int16(kmsg.Metadata), func(req kmsg.Request) (kmsg.Response, error, bool) {
		cluster.KeepControl()
		for _, t := range req.(*kmsg.MetadataRequest).Topics {
			if t.Topic != nil && *t.Topic == offsetsTopic {
				looked.Store(true)
			}
		}
		return nil, nil, false
	})
	cluster.ControlKey(int16(kmsg.OffsetFetch), func(req kmsg.Request) (kmsg.Response, error, bool) {
		cluster.KeepControl()
		r := req.(*kmsg.OffsetFetchRequest)
		if looked.Load() || !r.RequireStable {
			return nil, nil, false
		}
		if asked.Add(1) == 1 {
			time.Sleep(stableMost + 100*time.Millisecond)
		}
		return undecidedOffsets(r), nil, true
	})
	l := openAt(t, o).(*Log)
	defer closeLog(t, l)
	mustOwn(t, l)
	if !looked.Load() {
		t.Error("nobody looked")
	}
}

// Who goes on where another stopped in the middle of a value reads all its parts.
func TestRestoreThatIsCutInAValueReadsItsPartsAgain(t *testing.T) {
	l := open(t, conforming(fake(t)))
	copied, err := l.store.local("g", in)
	if err != nil {
		t.Fatal(err)
	}
	n := binary.AppendUvarint(nil, 2)
	records := []*kgo.Record{
		{Offset: 4, Key: []byte("vother"), Value: []byte("1")},
		{Offset: 5, Key: partKey(nil, []byte("a"), 0), Value: []byte("left")},
		{Offset: 6, Key: partKey(nil, []byte("a"), 1), Value: []byte("right")},
		{Offset: 7, Key: []byte("va"), Value: []byte{}, Headers: []kgo.RecordHeader{{Key: partsHeader, Value: n}}},
		{Offset: 8, Key: []byte{kindPosition}, Value: []byte{7: 3}},
	}
	for cut := range records {
		who := &share{}
		from, err := copied.take(who, [16]byte{1, byte(cut)}, 4, 9)
		if err != nil || from != 4 {
			t.Fatal(from, err)
		}
		for _, to := range []int{cut + 1, len(records)} {
			f := newFollower(who, copied, changelogOf("g", in), from)
			if err := f.follow(records[from-4:to], int64(4+to)); err != nil {
				t.Fatal(err)
			}
			if from, err = copied.take(who, copied.topic, 4, 9); err != nil {
				t.Fatal(err)
			}
			if err := f.replay.end(); err != nil {
				t.Fatal(err)
			}
		}
		wantValue(t, copied.space, "a", []byte("leftright"))
		if from != 9 || copied.positionNow() != 3 {
			t.Errorf("cut after %d: at %d, position %d", cut, from, copied.positionNow())
		}
	}
}

// A coordinator that has not read its log says for a while that nothing was committed. The
// member joins again instead of ending its pipeline.
func TestOffsetThatABrokerForgotForAMomentIsAskedForAgain(t *testing.T) {
	cluster := fakeWith(t)
	l := open(t, conforming(cluster.ListenAddrs()))
	if err := l.Append(t.Context(), stream.Record{Partition: in}); err != nil {
		t.Fatal(err)
	}
	s, _ := mustOwn(t, l)
	commit(t, s, 1, "a", []byte("1"))
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	answers := forgetOffsets(cluster, 3)
	if _, _, err := own(t, l); !errors.Is(err, stream.ErrFenced) || answers.Load() <= 3 {
		t.Fatalf("the member ended with %v after %d answers", err, answers.Load())
	}
	_, a := mustOwn(t, l)
	wantValue(t, a.State, "a", []byte("1"))
	if a.Next != 1 {
		t.Errorf("the next offset is %d", a.Next)
	}
}

// forgetOffsets has brokers say in so many answers that groups committed nothing. It returns
// how often they were asked.
func forgetOffsets(cluster *kfake.Cluster, n int32) *atomic.Int32 {
	answers := new(atomic.Int32)
	cluster.ControlKey(int16(kmsg.OffsetFetch), func(req kmsg.Request) (kmsg.Response, error, bool) {
		cluster.KeepControl()
		if answers.Add(1) > n {
			return nil, nil, false
		}
		asked := req.(*kmsg.OffsetFetchRequest)
		resp := asked.ResponseKind().(*kmsg.OffsetFetchResponse)
		for _, g := range asked.Groups {
			group := kmsg.NewOffsetFetchResponseGroup()
			group.Group = g.Group
			for _, asked := range g.Topics {
				topic := kmsg.NewOffsetFetchResponseGroupTopic()
				topic.Topic, topic.TopicID = asked.Topic, asked.TopicID
				for _, index := range asked.Partitions {
					p := kmsg.NewOffsetFetchResponseGroupTopicPartition()
					p.Partition, p.Offset = index, -1
					topic.Partitions = append(topic.Partitions, p)
				}
				group.Topics = append(group.Topics, topic)
			}
			resp.Groups = append(resp.Groups, group)
		}
		return resp, nil, true
	})
	return answers
}
