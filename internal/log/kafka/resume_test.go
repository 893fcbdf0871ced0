package kafka

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/afterbay/afterbay/stream"
)

// resumable are options of a process that keeps its place in its groups, also
// where a busy machine is slow to start it again.
func resumable(t *testing.T) Options {
	o := onBroker(t) // a fake one has all members join again
	o.Dir, o.Stay = t.TempDir(), true
	o.Timeouts.Session, o.Timeouts.Rebalance = 30*time.Second, 30*time.Second
	return o
}

// ownSome polls until the member, which owns these, owns n partitions.
func ownSome(t *testing.T, s stream.Member, n int, owned ...stream.Partition) []stream.Partition {
	t.Helper()
	for len(owned) != n {
		batch, err := s.Poll(t.Context(), 1)
		if err != nil {
			t.Fatal(err)
		}
		owned = slices.DeleteFunc(owned, func(p stream.Partition) bool { return slices.Contains(batch.Revoked, p) })
		for _, a := range batch.Assigned {
			owned = append(owned, a.Partition)
		}
	}
	slices.SortFunc(owned, func(a, b stream.Partition) int { return int(a.Index - b.Index) })
	return owned
}

// TestLeaderThatComesBackDisturbsNobody restarts the member that leads a group,
// within its session timeout: all members go on as the generation that they are.
func TestLeaderThatComesBackDisturbsNobody(t *testing.T) {
	o := resumable(t)
	l := openAt(t, o).(*Log)
	if err := l.CreateTopic(t.Context(), stream.Topic{Name: "in", Partitions: 8}); err != nil {
		t.Fatal(err)
	}
	join := func(l *Log) stream.Member {
		s, err := l.Join(t.Context(), "g", "in")
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	leader := join(l)
	all := ownSome(t, leader, 8)
	o.Stay = false // those that are opened from here on leave no place behind
	others := o
	others.Dir = t.TempDir()
	other := openAt(t, others).(*Log)
	defer closeLog(t, other)
	follower := join(other)
	shared := make(chan struct{})
	var following sync.WaitGroup
	defer following.Wait()
	following.Go(func() {
		owned := 0
		for {
			batch, err := follower.Poll(t.Context(), 1)
			if err != nil {
				return
			}
			if owned += len(batch.Assigned) - len(batch.Revoked); len(batch.Assigned) > 0 && owned == 4 {
				close(shared)
			}
		}
	})
	defer follower.Close()
	before := ownSome(t, leader, 4, all...)
	leader.Wake()
	if _, err := leader.Poll(t.Context(), 1); err != nil { // it gives up what was revoked
		t.Fatal(err)
	}
	<-shared
	_, generation := follower.(*member).client.GroupMetadata()
	closeLog(t, l)
	l = openAt(t, o).(*Log)
	defer closeLog(t, l)
	leader = join(l)
	if after := ownSome(t, leader, 4); !slices.Equal(before, after) {
		t.Errorf("it had %v, and comes back to %v", before, after)
	}
	for range 50 { // time for a rebalance that was asked for
		step := stream.Transaction{Offsets: map[stream.Partition]stream.Offset{before[0]: 0}}
		if err := leader.Commit(step).Wait(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	for who, s := range map[string]stream.Member{"the leader": leader, "the other member": follower} {
		if _, now := s.(*member).client.GroupMetadata(); now != generation {
			t.Errorf("%s is of generation %d, and was of %d", who, now, generation)
		}
	}
}

// TestMemberThatComesBackToAnotherTopicReadsIt restarts a member to read another
// topic than the one that brokers reserved for it.
func TestMemberThatComesBackToAnotherTopicReadsIt(t *testing.T) {
	o := resumable(t)
	for i, topic := range []string{"in", "other", "in"} {
		o.Stay = i < 2
		l := open(t, o)
		if err := l.CreateTopic(t.Context(), stream.Topic{Name: "other", Partitions: 1}); err != nil {
			t.Fatal(err)
		}
		s, err := l.Join(t.Context(), "g", topic)
		if err != nil {
			t.Fatal(err)
		}
		if owned := fmt.Sprint(ownSome(t, s, 1)); owned != fmt.Sprintf("[%s/0]", topic) {
			t.Errorf("it owns %s, and reads %s", owned, topic)
		}
		closeLog(t, l)
	}
}

// TestMemberThatCannotBeginHoldsNothing has brokers that do not end the
// transaction which a member left: others have its partitions until they do.
func TestMemberThatCannotBeginHoldsNothing(t *testing.T) {
	cluster, o := fakeCluster(t)
	stuck := o
	stuck.Dir, stuck.Stay = t.TempDir(), true
	l := open(t, stuck)
	s, _ := ownAgain(t, l)
	id := s.(*member).id
	o.Timeouts.Session = 20 * time.Second
	others := open(t, o)
	heir, err := others.Join(t.Context(), "g", "in")
	if err != nil {
		t.Fatal(err)
	}
	for generation := int32(0); generation <= 0; {
		_, generation = heir.(*member).client.GroupMetadata()
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	var ended atomic.Bool
	cluster.ControlKey(int16(kmsg.InitProducerID), func(req kmsg.Request) (kmsg.Response, error, bool) {
		cluster.KeepControl()
		r := req.(*kmsg.InitProducerIDRequest)
		if ended.Load() || r.TransactionalID == nil || *r.TransactionalID != id {
			return nil, nil, false
		}
		resp := r.ResponseKind().(*kmsg.InitProducerIDResponse)
		resp.ErrorCode = kerr.ConcurrentTransactions.Code
		return resp, nil, true
	})
	joined := make(chan stream.Member)
	go func() {
		defer close(joined)
		if s, err := l.Join(t.Context(), "g", "in"); err != nil {
			t.Error(err)
		} else {
			joined <- s
		}
	}()
	soon, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	for batch := (stream.Batch{}); len(batch.Assigned) == 0; {
		if batch, err = heir.Poll(soon, 1); errors.Is(err, stream.ErrFenced) { // on a busy machine
			heir, err = others.Join(soon, "g", "in")
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	commit(t, heir, 0, "a", []byte("1"))
	ended.Store(true)
	if s, ok := <-joined; ok {
		if err := errors.Join(heir.Close(), s.Close()); err != nil {
			t.Error(err)
		}
	}
}

// A partition that no member has, as after a rebalance that was cut short, is
// shared out.
func TestPartitionWithoutAnOwnerIsSharedOut(t *testing.T) {
	cluster, _ := fakeCluster(t)
	o := conforming(cluster.ListenAddrs())
	o.Dir, o.Timeouts.Session = t.TempDir(), 200*time.Millisecond
	l := open(t, o)
	var emptied atomic.Bool
	cluster.ControlKey(int16(kmsg.SyncGroup), func(req kmsg.Request) (kmsg.Response, error, bool) {
		if emptied.Swap(true) {
			return nil, nil, false
		}
		for i := range req.(*kmsg.SyncGroupRequest).GroupAssignment { // the first plan leaves it to nobody
			a := &req.(*kmsg.SyncGroupRequest).GroupAssignment[i]
			none := kmsg.NewConsumerMemberAssignment()
			a.MemberAssignment = none.AppendTo(nil)
		}
		return nil, nil, false
	})
	ownAgain(t, l)
	if !emptied.Load() {
		t.Error("the partition was assigned at once")
	}
}
