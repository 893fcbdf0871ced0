package kafka

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/afterbay/afterbay/stream"
)

// fakeCluster is fake, for tests that interfere with the broker, and options
// with which a member that is silent is soon removed.
func fakeCluster(t *testing.T) (*kfake.Cluster, Options) {
	t.Helper()
	cluster := fakeWith(t)
	o := conforming(cluster.ListenAddrs())
	o.Timeouts.Session, o.Timeouts.Transaction = 300*time.Millisecond, 300*time.Millisecond
	return cluster, o
}

// patient returns o for tests in which nobody is to be removed, however long the
// machine does something else.
func patient(o Options) Options {
	o.Timeouts.Session, o.Timeouts.Rebalance, o.Timeouts.Transaction = 20*time.Second, 20*time.Second, 20*time.Second
	return o
}

// A zombie is fenced by the offsets that it commits, also where they do not
// move: its step has nothing but what queued work came to.
func TestZombieWithOnlyCompletionsIsRefused(t *testing.T) {
	for _, static := range []bool{false, true} {
		t.Run(fmt.Sprintf("static=%v", static), func(t *testing.T) {
			eachBroker(t, func(t *testing.T, o Options) {
				dead := o
				dead.Timeouts.Session, dead.Timeouts.Heartbeat = 60*time.Second, 50*time.Second // so that it does not hear that it was removed
				if static {
					dead.Dir = t.TempDir()
				}
				s, _ := mustOwn(t, open(t, dead))
				commit(t, s, 0, "queued", []byte("1"))
				l := open(t, o)
				removeMember(t, l, s.(*member))
				heir, a := mustOwn(t, l)
				err := s.Commit(stream.Transaction{
					Changes: []stream.Change{{Partition: in, Key: []byte("queued")}},
					Offsets: map[stream.Partition]stream.Offset{in: 0},
				}).Wait(t.Context())
				if !errors.Is(err, stream.ErrFenced) {
					t.Fatalf("a zombie's commit: %v", err)
				}
				view, err := l.State(t.Context(), "g", in)
				if err != nil {
					t.Fatal(err)
				}
				wantValue(t, view, "queued", []byte("1"))
				commit(t, heir, 0, "queued", nil)
				wantValue(t, a.State, "queued", nil)
			})
		})
	}
}

// removeMember takes a member out of its group, as the group does with a member
// that was silent for too long.
func removeMember(t *testing.T, l *Log, s *member) {
	t.Helper()
	req := kmsg.NewPtrLeaveGroupRequest()
	req.Group = s.group
	m := kmsg.NewLeaveGroupRequestMember()
	if m.MemberID, _ = s.client.GroupMetadata(); s.instance != "" {
		m.InstanceID = &s.instance
	}
	req.MemberID, req.Members = m.MemberID, append(req.Members, m)
	resp, err := req.RequestWith(t.Context(), l.client)
	if err != nil {
		t.Fatal(err)
	}
	err = kerr.ErrorForCode(resp.ErrorCode)
	for _, m := range resp.Members {
		err = errors.Join(err, kerr.ErrorForCode(m.ErrorCode))
	}
	if err != nil {
		t.Fatal(err)
	}
}

// A member that was removed, and hears of it when a rebalance has it join again,
// is a member again at once. It commits nothing beside what it had before: another
// had it meanwhile, and has it still or not.
func TestMemberThatJoinedAgainIsFenced(t *testing.T) {
	for _, static := range []bool{false, true} {
		for _, left := range []bool{false, true} {
			name := fmt.Sprintf("static=%v,left=%v", static, left)
			t.Run(name, func(t *testing.T) { joinedAgain(t, conforming(fake(t)), static, left) })
			if static == left { // the others take their time, and show the same
				t.Run(name+"/broker", func(t *testing.T) { joinedAgain(t, onBroker(t), static, left) })
			}
		}
	}
}

// joinedAgain closes the member of the other owner before, where it left.
func joinedAgain(t *testing.T, o Options, static, left bool) {
	silent := o
	silent.Timeouts.Session, silent.Timeouts.Heartbeat, silent.Timeouts.Rebalance = 60*time.Second, 50*time.Second, 30*time.Second
	if static {
		silent.Dir = t.TempDir()
	}
	s, _ := mustOwn(t, open(t, silent))
	<-timeLimit(t, 700*time.Millisecond).Done() // the client beats once more after 500 ms, and would hear of it then
	commit(t, s, 0, "a", []byte("1"))
	l := open(t, o)
	removeMember(t, l, s.(*member))
	heir, _ := mustOwn(t, l)
	commit(t, heir, 0, "a", []byte("2"))
	if left {
		if err := heir.Close(); err != nil {
			t.Fatal(err)
		}
	}
	client := s.(*member).client
	before, generation := client.GroupMetadata()
	client.ForceRebalance()
	until(t, "it joined again", func() bool {
		id, now := client.GroupMetadata()
		return s.(*member).life.dead() != nil || id != "" && id != before && now != generation
	})
	err := s.Commit(stream.Transaction{
		Changes: []stream.Change{{Partition: in, Key: []byte("b"), Value: []byte("1")}},
		Offsets: map[stream.Partition]stream.Offset{in: 0},
	}).Wait(t.Context())
	if !errors.Is(err, stream.ErrFenced) {
		t.Errorf("the commit of a member that joined again: %v", err)
	}
	view, err := l.State(t.Context(), "g", in)
	if err != nil {
		t.Fatal(err)
	}
	wantValue(t, view, "a", []byte("2"))
	wantValue(t, view, "b", nil)
}

// cord is the network of a process. Once it is pulled the process is as good as
// killed.
type cord struct {
	mu     sync.Mutex // guards the rest
	conns  []net.Conn
	pulled bool
	free   chan struct{} // closed where the process may hear answers; nil is always
}

func (c *cord) dial(ctx context.Context, network, host string) (net.Conn, error) {
	conn, err := (&net.Dialer{}).DialContext(ctx, network, host)
	if err != nil {
		return nil, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.pulled {
		_ = conn.Close()
		return nil, net.ErrClosed
	}
	c.conns = append(c.conns, conn)
	return &corded{conn, c}, nil
}

func (c *cord) pull() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.pulled = true
	for _, conn := range c.conns {
		_ = conn.Close()
	}
}

// hold lets the process hear no answers until it is released: it stands still.
func (c *cord) hold() (release func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	free := make(chan struct{})
	c.free = free
	return func() { close(free) }
}

type corded struct {
	net.Conn
	cord *cord
}

// Read implements net.Conn.
func (c *corded) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	c.cord.mu.Lock()
	free := c.cord.free
	c.cord.mu.Unlock()
	if free != nil {
		<-free
	}
	return n, err
}

// pollRecords polls until n records came.
func pollRecords(t *testing.T, s stream.Member, limit, n int) []stream.Record {
	t.Helper()
	var records []stream.Record
	for len(records) < n {
		batch, err := s.Poll(t.Context(), limit)
		if err != nil {
			t.Fatal(err)
		}
		records = append(records, batch.Records...)
	}
	return records
}

// What was read ahead, and what was polled beyond a step, is read again by the
// heir: offsets are the step's, not the client's.
func TestCrashWithPrefetchedRecordsLosesNone(t *testing.T) {
	eachBroker(t, crashWithPrefetched)
}

func crashWithPrefetched(t *testing.T, o Options) {
	kill := &cord{}
	dead := o
	dead.dial, dead.Timeouts.Session, dead.Timeouts.Transaction = kill.dial, time.Second, 300*time.Millisecond
	l := open(t, dead)
	s, err := l.Join(t.Context(), "g", "in")
	if err != nil {
		t.Fatal(err)
	}
	var records []stream.Record
	for i := range 100 {
		records = append(records, stream.Record{Partition: in, Value: fmt.Append(nil, i)})
	}
	if err := l.Append(t.Context(), records...); err != nil {
		t.Fatal(err)
	}
	pollRecords(t, s, 10, 10)
	commit(t, s, 4, "read", []byte("4"))
	m := s.(*member).shares
	m.mu.Lock()
	ahead := m.all[0].buffered()
	m.mu.Unlock()
	if ahead == 0 {
		t.Fatal("nothing was read ahead")
	}
	kill.pull()
	heir, err := open(t, o).Join(t.Context(), "g", "in")
	if err != nil {
		t.Fatal(err)
	}
	for i, r := range pollRecords(t, heir, 1000, 96) {
		if want := fmt.Sprint(4 + i); string(r.Value) != want || int(r.Offset) != 4+i {
			t.Fatalf("record %d is %q at offset %d, want %s", i, r.Value, r.Offset, want)
		}
	}
}

// Markers of a transaction reach the offsets before the changelog: who restores
// waits for all that was written, decided or not.
func TestRestoreWaitsForAChangelogBehindItsOffset(t *testing.T) {
	eachBroker(t, restoreWaitsForTheChangelog)
}

func restoreWaitsForTheChangelog(t *testing.T, o Options) {
	l := open(t, o)
	if err := l.Append(t.Context(), stream.Record{Partition: in}, stream.Record{Partition: in}); err != nil {
		t.Fatal(err)
	}
	s, _ := mustOwn(t, l)
	commit(t, s, 1, "a", []byte("1"))
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	late, err := l.newClient(kgo.TransactionalID("late"))
	if err != nil {
		t.Fatal(err)
	}
	defer late.Close()
	if err := late.BeginTransaction(); err != nil {
		t.Fatal(err)
	}
	changelog := changelogOf("g", in)
	for _, r := range []*kgo.Record{{Key: []byte("va"), Value: []byte("2")}, {Key: []byte{kindPosition}, Value: []byte{7: 2}}} {
		r.Topic, r.Partition = changelog.Topic, changelog.Index
		if err := late.ProduceSync(t.Context(), r).FirstErr(); err != nil {
			t.Fatal(err)
		}
	}
	move(t, l, 2)
	if s, err = l.Join(t.Context(), "g", "in"); err != nil {
		t.Fatal(err)
	}
	for range 10 {
		short, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
		batch, err := s.Poll(short, 1)
		cancel()
		if !errors.Is(err, context.DeadlineExceeded) {
			t.Fatalf("%v, %v before the changelog is decided", batch, err)
		}
	}
	if err := late.EndTransaction(t.Context(), kgo.TryCommit); err != nil {
		t.Fatal(err)
	}
	for {
		batch, err := s.Poll(t.Context(), 1)
		if err != nil {
			t.Fatal(err)
		}
		if len(batch.Assigned) > 0 {
			if a := batch.Assigned[0]; a.Next != 2 {
				t.Fatalf("the next offset is %d, want 2", a.Next)
			}
			wantValue(t, batch.Assigned[0].State, "a", []byte("2"))
			return
		}
	}
}

// Compaction forgets in the end that a key was deleted. A local state that was
// not there to hear of it would bring the key back.
func TestLocalStateOlderThanTombstonesIsRebuilt(t *testing.T) {
	t.Run("fake", func(t *testing.T) {
		cluster, o := fakeCluster(t)
		olderThanTombstones(t, patient(o), func(*Log, func()) {
			for range 3 {
				cluster.Compact()
			}
		})
	})
	t.Run("broker", func(t *testing.T) {
		olderThanTombstones(t, onBroker(t), func(l *Log, write func()) {
			for remembered := true; remembered; {
				write() // a segment that is written to is not compacted, nor one twice for nothing
				remembered = false
				if _, err := l.reads.readTo(t.Context(), changelogOf("g", in), 0, func(r *kgo.Record) error {
					remembered = remembered || string(r.Key) == "vdeleted"
					return nil
				}); err != nil {
					t.Fatal(err)
				}
				if err := l.wait(t.Context(), 50*time.Millisecond); err != nil {
					t.Fatal(err)
				}
			}
		})
	})
}

// olderThanTombstones is given what makes brokers forget, which may write.
func olderThanTombstones(t *testing.T, o Options, compact func(l *Log, write func())) {
	kept := o
	kept.Dir = t.TempDir()
	l := open(t, kept)
	if _, err := l.ensureTopic(t.Context(), changelogOf("g", in).Topic, 1, "cleanup.policy", "compact",
		"delete.retention.ms", "0", "min.cleanable.dirty.ratio", "0", "segment.ms", "100"); err != nil {
		t.Fatal(err)
	}
	s, _ := mustOwn(t, l)
	commit(t, s, 0, "first", []byte("1")) // else the changelog begins later, which is reason enough
	commit(t, s, 0, "deleted", []byte("1"))
	commit(t, s, 0, "left", []byte("1"))
	closeLog(t, l)
	l = open(t, o)
	s, _ = mustOwn(t, l)
	commit(t, s, 0, "deleted", nil)
	commit(t, s, 0, "left", []byte("2"))
	compact(l, func() { commit(t, s, 0, "other", []byte("2")) })
	closeLog(t, l)
	for _, age := range []time.Duration{time.Hour, time.Nanosecond} {
		kept.State.RebuildAfter = age
		l = open(t, kept)
		_, a := mustOwn(t, l)
		wantValue(t, a.State, "left", []byte("2"))
		// The first shows that the danger is real.
		wantValue(t, a.State, "deleted", map[time.Duration][]byte{time.Hour: []byte("1")}[age])
		closeLog(t, l)
	}
}

// A topic may take less than MaxRecordBytes says. The step is refused whole, and
// the error says what to set; the next member goes on from before it.
func TestOutputLargerThanItsTopicTakes(t *testing.T) {
	eachBroker(t, outputTooLargeForItsTopic)
}

func outputTooLargeForItsTopic(t *testing.T, o Options) {
	if _, err := open(t, o).ensureTopic(t.Context(), "out", 1, "max.message.bytes", "2000"); err != nil {
		t.Fatal(err)
	}
	for delivery := ExactlyOnce; delivery <= AtLeastOnce; delivery++ {
		o.Delivery = delivery
		l := open(t, o)
		s, a := mustOwn(t, l)
		err := s.Commit(stream.Transaction{
			Outputs: []stream.Record{{Partition: stream.Partition{Topic: "out"}, Value: make([]byte, 5000)}},
			Changes: []stream.Change{{Partition: in, Key: []byte("a"), Value: []byte("1")}},
			Offsets: map[stream.Partition]stream.Offset{in: a.Next + 1},
		}).Wait(t.Context())
		if !errors.Is(err, stream.ErrTooLarge) || !strings.Contains(err.Error(), "max.message.bytes") {
			t.Fatalf("delivery %d: %v, want what is too large for what", delivery, err)
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		s, a = mustOwn(t, l)
		wantValue(t, a.State, "a", nil)
		if a.Next != 0 {
			t.Fatalf("delivery %d: the next offset is %d", delivery, a.Next)
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		if _, next, err := l.Offsets(t.Context(), stream.Partition{Topic: "out"}); err != nil || next != 0 {
			t.Fatalf("delivery %d: %d outputs, %v", delivery, next, err)
		}
		closeLog(t, l)
	}
}

// A member that is to give a partition up keeps it while a commit is outstanding:
// brokers would take the commit also when another has the partition.
func TestPartitionStaysWhileACommitIsOutstanding(t *testing.T) {
	cluster := fakeWith(t)
	o := conforming(cluster.ListenAddrs())
	o.Timeouts.Rebalance, o.Timeouts.Session, o.Timeouts.Transaction = 30*time.Second, 10*time.Second, 30*time.Second
	l, another := openAt(t, o).(*Log), openAt(t, o).(*Log)
	defer closeLog(t, l)
	defer closeLog(t, another)
	if err := l.CreateTopic(t.Context(), stream.Topic{Name: "in", Partitions: 2}); err != nil {
		t.Fatal(err)
	}
	s := mustJoin(t, l)
	step := stream.Transaction{Offsets: map[stream.Partition]stream.Offset{}}
	for len(step.Offsets) < 2 {
		batch, err := s.Poll(timeLimit(t, 20*time.Second), 1)
		if err != nil {
			t.Fatal(err)
		}
		for _, a := range batch.Assigned {
			step.Offsets[a.Partition] = 0
		}
	}
	var hold atomic.Bool
	hold.Store(true)
	cluster.ControlKey(int16(kmsg.TxnOffsetCommit), func(req kmsg.Request) (kmsg.Response, error, bool) {
		cluster.KeepControl()
		if !hold.Load() {
			return nil, nil, false
		}
		resp := req.ResponseKind().(*kmsg.TxnOffsetCommitResponse)
		topic := kmsg.NewTxnOffsetCommitResponseTopic()
		topic.Topic = "in"
		topic.Partitions = append(topic.Partitions, kmsg.TxnOffsetCommitResponseTopicPartition{ErrorCode: kerr.RebalanceInProgress.Code})
		resp.Topics = append(resp.Topics, topic)
		return resp, nil, true
	})
	pending := s.Commit(step)
	other := mustJoin(t, another)
	until(t, "a partition is taken away", func() bool { return revoking(s) }, s)
	for range 50 {
		for _, m := range []stream.Member{s, other} {
			if _, err := m.Poll(timeLimit(t, 5*time.Millisecond), 1); err != nil && !errors.Is(err, context.DeadlineExceeded) {
				t.Fatal(err)
			}
		}
		if owned(other) {
			t.Fatal("another has a partition while a commit beside it is outstanding")
		}
	}
	hold.Store(false)
	if err := pending.Wait(t.Context()); err != nil {
		t.Fatal(err)
	}
	until(t, "the other has it", func() bool { return owned(other) }, s, other)
}

// revoking reports whether Poll told the member to give a partition up.
func revoking(s stream.Member) bool {
	m := s.(*member).shares
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, sh := range m.all {
		if sh.told {
			return true
		}
	}
	return false
}
