package kafka

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/afterbay/afterbay/stream"
)

var in = stream.Partition{Topic: "in"}

// open returns a log with topic in, of one partition, that is closed by the
// end of the test.
func open(t *testing.T, o Options) *Log {
	t.Helper()
	l := openAt(t, o).(*Log)
	t.Cleanup(func() { closeLog(t, l) })
	if err := l.CreateTopic(t.Context(), stream.Topic{Name: "in", Partitions: 1}); err != nil {
		t.Fatal(err)
	}
	return l
}

func closeLog(t *testing.T, l *Log) {
	t.Helper()
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
}

// own joins group g and polls until it owns in, or has an error.
func own(t *testing.T, l *Log) (stream.Member, stream.Assigned, error) {
	t.Helper()
	s, err := l.Join(t.Context(), "g", "in")
	if err != nil {
		t.Fatal(err)
	}
	for {
		batch, err := s.Poll(t.Context(), 1)
		if err != nil {
			return s, stream.Assigned{}, err
		}
		if len(batch.Assigned) > 0 {
			return s, batch.Assigned[0], nil
		}
	}
}

func mustOwn(t *testing.T, l *Log) (stream.Member, stream.Assigned) {
	t.Helper()
	s, a, err := own(t, l)
	if err != nil {
		t.Fatal(err)
	}
	return s, a
}

// commit commits one change beside in, at offset next.
func commit(t *testing.T, s stream.Member, next stream.Offset, key string, value []byte) {
	t.Helper()
	step := stream.Transaction{
		Changes: []stream.Change{{Partition: in, Key: []byte(key), Value: value}},
		Offsets: map[stream.Partition]stream.Offset{in: next},
	}
	if err := s.Commit(step).Wait(t.Context()); err != nil {
		t.Fatal(err)
	}
}

func wantValue(t *testing.T, view stream.View, key string, want []byte) {
	t.Helper()
	got, err := view.Get([]byte(key))
	if err != nil || !bytes.Equal(got, want) || (got == nil) != (want == nil) {
		t.Fatalf("%s is %.40q (%d bytes), %v; want %.40q (%d bytes)", key, got, len(got), err, want, len(want))
	}
}

// A value over the limit of a record goes in parts, through restarts with the
// local state and without.
func TestLargeValuesAreKeptInParts(t *testing.T) {
	o := conforming(fake(t))
	o.MaxRecordBytes = 1000
	kept := t.TempDir()
	value := func(n int) []byte { return []byte(strings.Repeat("0123456789", n)) }
	for i, want := range [][]byte{value(500), value(1200), value(150), value(3), value(700), nil} {
		o.Dir = ""
		if i%2 == 0 {
			o.Dir = kept
		}
		l := open(t, o)
		s, _ := mustOwn(t, l)
		commit(t, s, 0, "large", want)
		commit(t, s, 0, "small", []byte("s"))
		closeLog(t, l)
		for _, dir := range []string{"", kept} {
			o.Dir = dir
			l = open(t, o)
			_, a := mustOwn(t, l)
			wantValue(t, a.State, "large", want)
			wantValue(t, a.State, "small", []byte("s"))
			view, err := l.State(t.Context(), "g", in)
			if err != nil {
				t.Fatal(err)
			}
			wantValue(t, view, "large", want)
			closeLog(t, l)
		}
	}
	l := open(t, o)
	live := map[string]bool{} // what compaction would keep
	if _, err := l.reads.readTo(t.Context(), changelogOf("g", in), 0, func(r *kgo.Record) error {
		if len(r.Key) > 0 && r.Key[0] == kindPart && !r.Attrs.IsControl() {
			live[string(r.Key)] = r.Value != nil
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	if len(live) < 13 {
		t.Errorf("%d parts were ever written", len(live))
	}
	for key, left := range live {
		if left {
			t.Errorf("part %q is left of a value that is gone", key)
		}
	}
}

// The group's offset and the position in the changelog are written together:
// where they differ somebody changed one, and the state is of another offset.
func TestOffsetWithoutItsStateIsRefused(t *testing.T) {
	o := conforming(fake(t))
	l := open(t, o)
	if err := l.Append(t.Context(), stream.Record{Partition: in}, stream.Record{Partition: in}); err != nil {
		t.Fatal(err)
	}
	s, _ := mustOwn(t, l)
	commit(t, s, 1, "a", []byte("1"))
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	move(t, l, 2)
	_, _, err := own(t, l)
	if err == nil || !strings.Contains(err.Error(), "committed offset 2") || !strings.Contains(err.Error(), "has offset 1") {
		t.Fatalf("%v, want what differs", err)
	}
	move(t, l, 1)
	_, a := mustOwn(t, l)
	wantValue(t, a.State, "a", []byte("1"))
}

// move sets the committed offset of in, as tools do while nobody is in the group.
func move(t *testing.T, l *Log, offset int64) {
	t.Helper()
	topic, err := l.topics.get(t.Context(), "in")
	if err != nil {
		t.Fatal(err)
	}
	req := kmsg.NewPtrOffsetCommitRequest()
	req.Group = "g"
	rt := kmsg.NewOffsetCommitRequestTopic()
	rt.Topic, rt.TopicID = "in", topic.id
	rp := kmsg.NewOffsetCommitRequestTopicPartition()
	rp.Offset = offset
	rt.Partitions = append(rt.Partitions, rp)
	req.Topics = append(req.Topics, rt)
	for {
		resp, err := req.RequestWith(t.Context(), l.client)
		if err != nil {
			t.Fatal(err)
		}
		if resp.Topics[0].Partitions[0].ErrorCode == 0 {
			return
		}
		if err := l.wait(t.Context(), time.Millisecond); err != nil { // a member is leaving
			t.Fatal(err)
		}
	}
}

// A local state is taken as it is, but for what the changelog holds since; one
// that was caught up too long ago may lack deletions that compaction forgot.
func TestLocalStateIsUsedWhileItIsFresh(t *testing.T) {
	o := conforming(fake(t))
	o.Dir = t.TempDir()
	l := open(t, o)
	s, _ := mustOwn(t, l)
	commit(t, s, 0, "a", []byte("1"))
	closeLog(t, l)
	for i, fresh := range []bool{true, true, false} {
		if o.State.RebuildAfter = time.Hour; !fresh {
			o.State.RebuildAfter = time.Nanosecond
		}
		l = open(t, o)
		copied, err := l.store.local("g", in)
		if err != nil {
			t.Fatal(err)
		}
		copied.mu.Lock()
		if copied.next == 0 {
			t.Fatal("the local state has no mark")
		}
		copied.mu.Unlock()
		copied.space.Apply(l.store.seq.Add(1), pairs([][2][]byte{{[]byte("ghost"), []byte("g")}}))
		s, a := mustOwn(t, l)
		if fresh {
			wantValue(t, a.State, "ghost", []byte("g"))
		} else {
			wantValue(t, a.State, "ghost", nil)
		}
		wantValue(t, a.State, "a", []byte("1"))
		wantValue(t, a.State, "b", map[bool][]byte{false: []byte("2")}[i == 0])
		commit(t, s, 0, "b", []byte("2"))
		closeLog(t, l)
	}
}

// A commit may be known late: its member lost the partition, and the heir has
// read it back and gone on.
func TestLateCommitLeavesTheHeirsStateAlone(t *testing.T) {
	l := open(t, conforming(fake(t)))
	copied, err := l.store.local("g", in)
	if err != nil {
		t.Fatal(err)
	}
	late, heir := &share{}, &share{}
	for _, s := range []*share{late, heir} {
		if _, err := copied.take(s, [16]byte{1}, 0, 0); err != nil {
			t.Fatal(err)
		}
	}
	set := func(value string) edits {
		return edits{changes: pairs([][2][]byte{{[]byte("a"), []byte(value)}})}
	}
	if !copied.apply(heir, set("heir")) || copied.apply(late, set("late")) {
		t.Fatal("the copy follows another than its owner")
	}
	wantValue(t, copied.space, "a", []byte("heir"))
}

// An error of one record aborts the whole step, and nothing of it is visible.
func TestFailedRecordAbortsItsStep(t *testing.T) {
	o := conforming(fake(t))
	o.MaxRecordBytes = 2 << 20 // more than the broker takes
	l := open(t, o)
	if err := l.CreateTopic(t.Context(), stream.Topic{Name: "out", Partitions: 2}); err != nil {
		t.Fatal(err)
	}
	s, _ := mustOwn(t, l)
	out := stream.Partition{Topic: "out"}
	err := s.Commit(stream.Transaction{
		Outputs: []stream.Record{{Partition: out, Value: []byte("small")}, {Partition: stream.Partition{Topic: "out", Index: 1}, Value: make([]byte, 3<<19)}},
		Changes: []stream.Change{{Partition: in, Key: []byte("a"), Value: []byte("1")}},
		Offsets: map[stream.Partition]stream.Offset{in: 1},
	}).Wait(t.Context())
	if err == nil {
		t.Fatal("a step was committed without one of its records")
	}
	_, a := mustOwn(t, l)
	wantValue(t, a.State, "a", nil)
	if _, next, err := l.Offsets(t.Context(), out); err != nil || next != 0 || a.Next != 0 {
		t.Fatalf("%d outputs, %v, and offset %d", next, err, a.Next)
	}
}

func TestOptionsAreChecked(t *testing.T) {
	for want, o := range map[string]Options{
		"Brokers is empty":       {},
		"is not host:port":       {Brokers: []string{"host"}},
		"Stay without Dir":       {Brokers: []string{"h:1"}, Stay: true},
		"Timeouts.Heartbeat":     {Brokers: []string{"h:1"}, Timeouts: Timeouts{Session: time.Second, Heartbeat: time.Second}},
		"unknown SASL mechanism": {Brokers: []string{"h:1"}, SASL: SASL{Mechanism: "NTLM", User: "u"}},
		"without a token":        {Brokers: []string{"h:1"}, SASL: SASL{Mechanism: "OAUTHBEARER"}},
		"RebuildAfter is -1s":    {Brokers: []string{"h:1"}, State: LocalState{RebuildAfter: -time.Second}},
		"use exactly once":       {Brokers: []string{"h:1"}, Delivery: 3},
	} {
		if err := o.Validate(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: %v, want %q", o, err, want)
		}
	}
	if err := (Options{Brokers: []string{"h:1", "[::1]:2"}}).Validate(); err != nil {
		t.Error(err)
	}
}

func TestBrokerThatIsDownIsNamed(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	o, dials := conforming([]string{"127.0.0.1:1"}), atomic.Int32{}
	o.dial = func(ctx context.Context, network, host string) (net.Conn, error) {
		if dials.Add(1) > 3 {
			cancel()
		}
		return new(net.Dialer).DialContext(ctx, network, host)
	}
	l, err := Open(ctx, o)
	if err == nil {
		closeLog(t, l)
	}
	if err == nil || !strings.Contains(err.Error(), "127.0.0.1:1") {
		t.Fatal(fmt.Errorf("%w, want the broker's name", err))
	}
}

// The markers of a commit come after its answer, and those of a transaction before
// it may come later still: what a step wrote is found all the same.
func TestPeekFindsWhatIsCommittedBehindATransactionUnderWay(t *testing.T) {
	eachBroker(t, func(t *testing.T, o Options) {
		l := open(t, o)
		out := stream.Partition{Topic: "out"}
		if err := l.CreateTopic(t.Context(), stream.Topic{Name: "out", Partitions: 1}); err != nil {
			t.Fatal(err)
		}
		other, err := l.newClient(kgo.TransactionalID("other"))
		if err != nil {
			t.Fatal(err)
		}
		defer other.Close()
		if err := other.BeginTransaction(); err != nil {
			t.Fatal(err)
		}
		if err := other.ProduceSync(t.Context(), &kgo.Record{Topic: "out"}).FirstErr(); err != nil {
			t.Fatal(err)
		}
		s, _ := mustOwn(t, l)
		step := stream.Transaction{Outputs: []stream.Record{{Partition: out, Value: []byte("committed")}}, Offsets: map[stream.Partition]stream.Offset{in: 0}}
		if err := s.Commit(step).Wait(t.Context()); err != nil {
			t.Fatal(err)
		}
		found := make(chan string)
		go func() {
			r, _, err := l.Peek(t.Context(), out, 0)
			found <- fmt.Sprint(string(r.Value), err)
		}()
		select {
		case got := <-found:
			t.Errorf("peeked %q before it was decided", got)
			return
		case <-time.After(5 * fetchWait):
		}
		if err := other.EndTransaction(t.Context(), kgo.TryAbort); err != nil {
			t.Fatal(err)
		}
		if got := <-found; got != "committed<nil>" {
			t.Errorf("peeked %q", got)
		}
	})
}

func TestRemoveLeavesNothing(t *testing.T) {
	o := conforming(fake(t))
	ran(t, o)
	l := openAt(t, o).(*Log)
	defer closeLog(t, l)
	for range 2 { // what is gone is no error
		if err := l.Remove(t.Context(), "g", "in", "out"); err != nil {
			t.Fatal(err)
		}
	}
	topics, err := l.topics.ask(t.Context())
	for _, info := range topics {
		if info.name != keysTopic {
			t.Errorf("topic %s is left", info.name)
		}
	}
	keys, keysErr := l.keys.read(t.Context())
	groups, groupsErr := l.Groups(t.Context())
	if err := errors.Join(err, keysErr, groupsErr); err != nil || keys["in"] != "" || len(groups) > 0 {
		t.Errorf("left are keys %v, groups %v, %v", keys, groups, err)
	}
}

// The client library sends what waited for a topic to be known, and notes after it
// that it is.
func TestFirstTransactionOfAClientIsNotTakenForEmpty(t *testing.T) {
	l := open(t, conforming(fake(t)))
	release := make(chan struct{})
	client, err := l.newClient(kgo.TransactionalID("first"), kgo.RecordPartitioner(kgo.BasicConsistentPartitioner(func(string) func(*kgo.Record, int) int {
		return func(r *kgo.Record, _ int) int {
			if r.Key == nil {
				return 0
			}
			<-release
			return -1 // nowhere
		}
	})))
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	if err := client.BeginTransaction(); err != nil {
		t.Fatal(err)
	}
	sent := make(chan error)
	first := &kgo.Record{Topic: "in", Value: []byte("first")}
	client.Produce(t.Context(), first, func(_ *kgo.Record, err error) { sent <- err })
	client.Produce(t.Context(), &kgo.Record{Topic: "in", Key: []byte("holds up")}, nil)
	if err := <-sent; err != nil {
		t.Fatal(err)
	}
	time.AfterFunc(50*time.Millisecond, func() { close(release) })
	if err := l.end(t.Context(), client, first); err != nil {
		t.Fatal(err)
	}
	if r, found, err := l.Peek(t.Context(), in, 0); err != nil || string(r.Value) != "first" {
		t.Errorf("found %v %q, %v, after it was committed", found, r.Value, err)
	}
}

// What was aborted is read nowhere, wherever a fetch begins and is cut.
func TestFetchPassesOverWhatWasAborted(t *testing.T) {
	eachBroker(t, func(t *testing.T, o Options) {
		o.MaxRecordBytes, o.BufferBytes = 1000, 3000
		l := open(t, o)
		client, err := kgo.NewClient(kgo.SeedBrokers(o.Brokers...), kgo.TransactionalID("writer"), kgo.RecordPartitioner(kgo.ManualPartitioner()))
		if err != nil {
			t.Fatal(err)
		}
		defer client.Close()
		for i := range 20 {
			if err := client.BeginTransaction(); err != nil {
				t.Fatal(err)
			}
			commit := i%3 == 0
			record := &kgo.Record{Topic: "in", Key: fmt.Append(nil, commit), Value: make([]byte, 100*(i%7))}
			if err := client.ProduceSync(t.Context(), record, &kgo.Record{Topic: "in", Key: record.Key}).FirstErr(); err != nil {
				t.Fatal(err)
			}
			if err := client.EndTransaction(t.Context(), kgo.TransactionEndTry(commit)); err != nil {
				t.Fatal(err)
			}
		}
		for from := int64(0); from < 60; from += 7 {
			_, err := l.reads.readTo(t.Context(), in, from, func(r *kgo.Record) error {
				if !r.Attrs.IsControl() && string(r.Key) != "true" {
					return errors.New("it was aborted")
				}
				return nil
			})
			if err != nil {
				t.Errorf("from %d on: %v", from, err)
			}
		}
	})
}

// A second commit beside the first would be of the same transaction: it is refused, and
// its member ends without either.
func TestCommitBesideAnotherIsRefused(t *testing.T) {
	cluster := fakeWith(t)
	o := patient(conforming(cluster.ListenAddrs()))
	l := open(t, o)
	s, _ := mustOwn(t, l)
	begun := make(chan struct{}, 1)
	cluster.ControlKey(int16(kmsg.TxnOffsetCommit), func(req kmsg.Request) (kmsg.Response, error, bool) {
		cluster.KeepControl()
		signal(begun)
		resp := req.ResponseKind().(*kmsg.TxnOffsetCommitResponse)
		topic := kmsg.NewTxnOffsetCommitResponseTopic()
		topic.Topic = "in"
		topic.Partitions = append(topic.Partitions, kmsg.TxnOffsetCommitResponseTopicPartition{ErrorCode: kerr.RebalanceInProgress.Code})
		resp.Topics = append(resp.Topics, topic)
		return resp, nil, true
	})
	first := s.Commit(stream.Transaction{Offsets: map[stream.Partition]stream.Offset{in: 1}})
	<-begun
	second := s.Commit(stream.Transaction{Offsets: map[stream.Partition]stream.Offset{in: 2}})
	if err := second.Wait(t.Context()); !errors.Is(err, errOutstanding) {
		t.Errorf("the second commit: %v", err)
	}
	if err := first.Wait(t.Context()); !errors.Is(err, stream.ErrFenced) {
		t.Errorf("the first commit: %v", err)
	}
	if next, err := l.Committed(t.Context(), "g", in); err != nil || next != 0 {
		t.Errorf("offset %d is committed, %v", next, err)
	}
}

// A log may be closed while a member joins: a pipeline joins again, and its process ends.
// Whichever comes first, no member outlives its log.
func TestLogThatIsClosedWhileAMemberJoins(t *testing.T) {
	brokers := fake(t)
	if err := open(t, conforming(brokers)).CreateTopic(t.Context(), stream.Topic{Name: in.Topic, Partitions: 1}); err != nil {
		t.Fatal(err)
	}
	for range 30 {
		l := openAt(t, conforming(brokers)).(*Log)
		l.mu.Lock() // both wait for it
		joined, closed := make(chan error, 1), make(chan error, 1)
		go func() {
			s, err := l.Join(t.Context(), "g", in.Topic)
			for err == nil { // it was first, as far as it needs the lock
				_, err = s.Poll(t.Context(), 1)
			}
			joined <- err
		}()
		<-timeLimit(t, 10*time.Millisecond).Done()
		go func() { closed <- l.Close() }()
		<-timeLimit(t, 2*time.Millisecond).Done()
		l.mu.Unlock()
		if err := <-joined; !errors.Is(err, stream.ErrClosed) {
			t.Errorf("the member ended with %v", err)
		}
		if err := <-closed; err != nil {
			t.Error(err)
		}
	}
}
