package kafka

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/afterbay/afterbay/internal/test/kafkatest"
	"github.com/afterbay/afterbay/stream"
)

// serverSession is what brokers of tests wait before they remove a member of a
// group that they assign.
const serverSession = 6 * time.Second

// TestServerGroupsOnABroker shares partitions among members that the broker
// assigns, kills one, and starts one again in place.
func TestServerGroupsOnABroker(t *testing.T) {
	o := onBroker(t)
	o.ServerGroups = true
	kill := &cord{}
	dead := o
	dead.dial = kill.dial
	l := openAt(t, dead).(*Log)
	if err := l.CreateTopic(t.Context(), stream.Topic{Name: "in", Partitions: 2}); err != nil {
		t.Fatal(err)
	}
	victim := joined(t, l)
	if owned := victim.until(t, 2); owned != 2 {
		t.Fatalf("one member owns %d of 2 partitions", owned)
	}
	heirs := openAt(t, o).(*Log)
	defer closeLog(t, heirs)
	heir := joined(t, heirs)
	for deadline := time.Now().Add(patience); len(victim.owned) != 1 || len(heir.owned) != 1; {
		victim.poll(t, 20*time.Millisecond)
		heir.poll(t, 20*time.Millisecond)
		if time.Now().After(deadline) {
			t.Fatalf("members own %v and %v", victim.owned, heir.owned)
		}
	}
	var lost stream.Partition
	for p := range victim.owned {
		lost = p
	}
	step := stream.Transaction{Changes: []stream.Change{{Partition: lost, Key: []byte("a"), Value: []byte("1")}}, Offsets: map[stream.Partition]stream.Offset{lost: 0}}
	if err := victim.session.Commit(step).Wait(t.Context()); err != nil {
		t.Fatal(err)
	}
	kill.pull()
	began := time.Now()
	if owned := heir.until(t, 2); owned != 2 {
		t.Fatalf("the heir owns %d partitions", owned)
	}
	took := time.Since(began)
	t.Logf("a killed member's partition is another's after %v", took.Round(10*time.Millisecond))
	if took < serverSession/2 {
		t.Errorf("taken over after %v, before the broker's session of %v", took, serverSession)
	}
	wantValue(t, heir.owned[lost], "a", []byte("1"))
	closeLog(t, l)
}

// TestStaticMembersOfServerGroupsOnABroker starts a process again in place: one
// that ended has its partitions at once, one that was killed waits until the
// broker's session has ended.
func TestStaticMembersOfServerGroupsOnABroker(t *testing.T) {
	o := onBroker(t)
	o.ServerGroups, o.Dir, o.Stay = true, t.TempDir(), true
	o.Timeouts.Transaction = time.Second // as long does a killed one try to say that it ends
	var said strings.Builder
	o.Logger = slog.New(slog.NewTextHandler(&said, nil))
	var kill *cord
	start := func() (*Log, *groupMember, time.Duration) {
		kill = &cord{}
		o.dial = kill.dial
		began := time.Now()
		l := openAt(t, o).(*Log)
		if err := l.CreateTopic(t.Context(), stream.Topic{Name: "in", Partitions: 2}); err != nil {
			t.Fatal(err)
		}
		m := joined(t, l)
		if owned := m.until(t, 2); owned != 2 {
			t.Fatalf("owns %d partitions", owned)
		}
		return l, m, time.Since(began)
	}
	l, m, _ := start()
	step := stream.Transaction{Changes: []stream.Change{{Partition: in, Key: []byte("a"), Value: []byte("1")}}, Offsets: map[stream.Partition]stream.Offset{in: 0}}
	if err := m.session.Commit(step).Wait(t.Context()); err != nil {
		t.Fatal(err)
	}
	closeLog(t, l)
	if n := membersOf(t, o.Brokers); n != 1 {
		t.Errorf("the group has %d members while one is away", n)
	}
	l, m, took := start()
	t.Logf("one that ended has its partitions after %v", took.Round(10*time.Millisecond))
	if took > serverSession*3/4 {
		t.Errorf("one that ended has its partitions after %v, no sooner than one that was killed", took)
	}
	wantValue(t, m.owned[in], "a", []byte("1"))
	began := time.Now()
	kill.pull()
	closeLog(t, l)
	l, m, _ = start()
	took = time.Since(began)
	wantValue(t, m.owned[in], "a", []byte("1"))
	closeLog(t, l)
	refused := strings.Count(said.String(), "UnreleasedInstanceID after")
	t.Logf("one that was killed, after %v, with %d refusals", took.Round(10*time.Millisecond), refused)
	if refused > 4 {
		t.Errorf("it asked %d times within %v", refused, serverSession)
	}
}

// membersOf returns how many members group g has.
func membersOf(t *testing.T, brokers []string) int {
	t.Helper()
	l := openAt(t, conforming(brokers)).(*Log)
	defer closeLog(t, l)
	req := kmsg.NewPtrConsumerGroupDescribeRequest()
	req.Groups = []string{"g"}
	resp, err := req.RequestWith(t.Context(), l.client)
	if err != nil {
		t.Fatal(err)
	}
	return len(resp.Groups[0].Members)
}

// groupMember is a session and what it owns.
type groupMember struct {
	session stream.Member
	owned   map[stream.Partition]stream.View
	log     *Log
}

func joined(t *testing.T, l *Log) *groupMember {
	t.Helper()
	s, err := l.Join(t.Context(), "g", "in")
	if err != nil {
		t.Fatal(err)
	}
	return &groupMember{s, map[stream.Partition]stream.View{}, l}
}

// poll polls for at most d. Who lost the session joins again, as a task does.
func (m *groupMember) poll(t *testing.T, d time.Duration) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), d)
	defer cancel()
	batch, err := m.session.Poll(ctx, 1)
	switch {
	case errors.Is(err, context.DeadlineExceeded):
	case errors.Is(err, stream.ErrFenced):
		clear(m.owned)
		again := joined(t, m.log)
		m.session = again.session
	case err != nil:
		t.Fatal(err)
	}
	for _, p := range batch.Revoked {
		delete(m.owned, p)
	}
	for _, a := range batch.Assigned {
		m.owned[a.Partition] = a.State
	}
}

// until polls until the member owns n partitions, for as long as there is patience.
func (m *groupMember) until(t *testing.T, n int) int {
	t.Helper()
	for deadline := time.Now().Add(patience); len(m.owned) != n && time.Now().Before(deadline); {
		m.poll(t, 50*time.Millisecond)
	}
	return len(m.owned)
}

// fetches counts what a client reads from each broker.
type fetches struct {
	mu   sync.Mutex
	from map[int32]int
}

// OnBrokerE2E implements kgo.HookBrokerE2E.
func (f *fetches) OnBrokerE2E(broker kgo.BrokerMetadata, key int16, _ kgo.BrokerE2E) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if key == int16(kmsg.Fetch) {
		f.from[broker.NodeID]++
	}
}

func (f *fetches) count(broker int32) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.from[broker]
}

// TestRackAndReplicationOnBrokers reads from the replica in the reader's rack,
// and makes topics of as many copies as asked for.
func TestRackAndReplicationOnBrokers(t *testing.T) {
	if os.Getenv("AFTERBAY_PROVE") == "" {
		t.Skip("NOT RUN: it takes three brokers; set AFTERBAY_PROVE=1")
	}
	o := conforming(kafkatest.Start(t, kafkatest.Options{Brokers: 3}).Addresses())
	o.Replication = 2
	l := open(t, o)
	client, err := l.newClient()
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	topics, err := kadm.NewClient(client).ListTopics(t.Context(), "in")
	if err != nil || len(topics["in"].Partitions[0].Replicas) != 2 {
		t.Fatalf("%+v, %v, want 2 copies", topics, err)
	}
	about := topics["in"].Partitions[0]
	follower := about.Replicas[0]
	if follower == about.Leader {
		follower = about.Replicas[1]
	}
	for rack, want := range map[string]int32{"": about.Leader, fmt.Sprintf("rack-%d", about.Leader): about.Leader, fmt.Sprintf("rack-%d", follower): follower} {
		o.Rack = rack
		near := open(t, o)
		seen := &fetches{from: map[int32]int{}}
		reader, err := near.newClient(kgo.WithHooks(seen), kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{"in": {0: kgo.NewOffset().AtStart()}}))
		if err != nil {
			t.Fatal(err)
		}
		read := 0
		for i := range 50 {
			if err := l.Append(t.Context(), stream.Record{Partition: in, Value: []byte("x")}); err != nil {
				t.Fatal(err)
			}
			for got := reader.PollFetches(t.Context()); ; got = reader.PollFetches(t.Context()) {
				if err := got.Err(); err != nil {
					t.Fatal(err)
				}
				if read += got.NumRecords(); read > i {
					break
				}
			}
		}
		reader.Close()
		other := about.Leader + follower - want
		t.Logf("rack %q: %v fetches by broker, leader %d", rack, seen.from, about.Leader)
		if seen.count(want) < 40 || seen.count(other) > 10 {
			t.Errorf("rack %q: %d fetches from broker %d, %d from %d", rack, seen.count(want), want, seen.count(other), other)
		}
	}
}
