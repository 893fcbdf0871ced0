package kafka

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/afterbay/afterbay/stream"
)

// network is a way to brokers that can be cut.
type network struct {
	kfake.VirtualNetwork
	mu    sync.Mutex // guards the rest
	down  bool
	conns []net.Conn
}

func (n *network) dial(ctx context.Context, kind, host string) (net.Conn, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.down {
		return nil, &net.OpError{Op: "dial", Net: kind, Err: syscall.ECONNREFUSED}
	}
	conn, err := n.DialContext(ctx, kind, host)
	if err == nil {
		n.conns = append(n.conns, conn)
	}
	return conn, err
}

// set cuts the network, or mends it.
func (n *network) set(down bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.down = down
	for _, conn := range n.conns {
		_ = conn.Close()
	}
	n.conns = nil
}

// shown is a log that tests read.
type shown struct {
	mu   sync.Mutex
	text bytes.Buffer
}

// Write implements io.Writer.
func (s *shown) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.text.Write(p)
}

func (s *shown) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.text.String()
}

// ownAgain joins until in is owned, as a task does.
func ownAgain(t *testing.T, l *Log) (stream.Member, stream.Assigned) {
	t.Helper()
	for {
		s, a, err := own(t, l)
		if err == nil {
			return s, a
		}
		if !errors.Is(err, stream.ErrFenced) {
			t.Fatal(err)
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

// Brokers that are gone are waited for, by a join, too, and nothing is lost.
func TestBrokersThatAreGoneAreWaitedFor(t *testing.T) {
	synctest.Test(t, waitForBrokers) // the client library tries for some 10 s before it says so
}

func waitForBrokers(t *testing.T) {
	var way network
	var told shown
	o := conforming(fake(t, kfake.ListenFn(way.Listen)))
	o.dial, o.Logger = way.dial, slog.New(slog.NewTextHandler(&told, nil))
	o.Timeouts.Session, o.State.CheckpointEvery = 500*time.Millisecond, time.Minute
	l := open(t, o)
	s, _ := mustOwn(t, l)
	commit(t, s, 1, "a", []byte("1"))
	way.set(true)
	pending := s.Commit(stream.Transaction{
		Changes: []stream.Change{{Partition: in, Key: []byte("a"), Value: []byte("2")}},
		Offsets: map[stream.Partition]stream.Offset{in: 2},
	})
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	lost := pending.Wait(t.Context())
	joined := make(chan stream.Member)
	go func() {
		defer close(joined)
		s, err := l.Join(t.Context(), "g", "in")
		if err != nil {
			t.Error(err)
			return
		}
		joined <- s
	}()
	for deadline := time.Now().Add(patience); !strings.Contains(told.String(), "waiting for the brokers"); time.Sleep(100 * time.Millisecond) {
		select {
		case <-joined:
			t.Fatal("joined nobody")
		default:
		}
		if time.Now().After(deadline) {
			t.Fatal("nobody is told that the brokers are waited for")
		}
	}
	way.set(false)
	s, ok := <-joined
	if !ok {
		return
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	_, a := ownAgain(t, l)
	want := "1"
	if lost == nil {
		want = "2"
	}
	wantValue(t, a.State, "a", []byte(want))
}

func wantAdvice(t *testing.T, err error, want ...string) {
	t.Helper()
	if err == nil || errors.Is(err, stream.ErrFenced) {
		t.Fatalf("%v: a task would join again", err)
	}
	for _, text := range want {
		if !strings.Contains(err.Error(), text) {
			t.Errorf("%v, want %q", err, text)
		}
	}
}

// failing answers a kind of request with an error.
func failing(t *testing.T, answer func(kmsg.Request) kmsg.Response, key kmsg.Key) []string {
	t.Helper()
	cluster := fakeWith(t)
	cluster.ControlKey(key.Int16(), func(req kmsg.Request) (kmsg.Response, error, bool) {
		cluster.KeepControl()
		return answer(req), nil, true
	})
	return cluster.ListenAddrs()
}

func TestRefusalsOfBrokersSayWhatToDo(t *testing.T) {
	for name, c := range map[string]struct {
		key    kmsg.Key
		answer func(kmsg.Request) kmsg.Response
		want   string
	}{
		"group": {kmsg.JoinGroup, func(req kmsg.Request) kmsg.Response {
			r := req.ResponseKind().(*kmsg.JoinGroupResponse)
			r.ErrorCode = kerr.GroupAuthorizationFailed.Code
			return r
		}, "allow the principal to Read the groups"},
		"group is full": {kmsg.JoinGroup, func(req kmsg.Request) kmsg.Response {
			r := req.ResponseKind().(*kmsg.JoinGroupResponse)
			r.ErrorCode = kerr.GroupMaxSizeReached.Code
			return r
		}, "run fewer members"},
		"transactional id": {kmsg.InitProducerID, func(req kmsg.Request) kmsg.Response {
			r := req.ResponseKind().(*kmsg.InitProducerIDResponse)
			r.ErrorCode = kerr.TransactionalIDAuthorizationFailed.Code
			return r
		}, "transactional ids that start with afterbay-"},
	} {
		t.Run(name, func(t *testing.T) {
			l := open(t, conforming(failing(t, c.answer, c.key)))
			var err error
			for ok := true; ok; ok = errors.Is(err, stream.ErrFenced) { // the task joins again
				var s stream.Member
				if s, err = l.Join(t.Context(), "g", "in"); err == nil {
					_, err = s.Poll(t.Context(), 1)
					_ = s.Close()
				}
			}
			wantAdvice(t, err, c.want)
		})
	}
}

func removeTopic(t *testing.T, l *Log, name string) {
	t.Helper()
	req := kmsg.NewPtrDeleteTopicsRequest()
	topic := kmsg.NewDeleteTopicsRequestTopic()
	topic.Topic = &name
	req.Topics, req.TopicNames = append(req.Topics, topic), []string{name}
	resp, err := req.RequestWith(t.Context(), l.client)
	if err == nil {
		err = kerr.ErrorForCode(resp.Topics[0].ErrorCode)
	}
	if err != nil {
		t.Fatal(err)
	}
}

func TestDeletedChangelogIsRefused(t *testing.T) {
	l := open(t, conforming(fake(t)))
	if err := l.Append(t.Context(), stream.Record{Partition: in}, stream.Record{Partition: in}); err != nil {
		t.Fatal(err)
	}
	s, _ := mustOwn(t, l)
	commit(t, s, 1, "a", []byte("1"))
	removeTopic(t, l, changelogOf("g", in).Topic)
	err := s.Commit(stream.Transaction{Offsets: map[stream.Partition]stream.Offset{in: 2}}).Wait(t.Context())
	wantAdvice(t, err, "its changelog, is gone", "create the missing topics again")
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	_, _, err = own(t, l)
	wantAdvice(t, err, "committed offset 1", "it was deleted", "use another pipeline name")
}

// A topic that is gone is another one when it comes back.
func TestDeletedInputIsRefused(t *testing.T) {
	l := open(t, conforming(fake(t)))
	s, _ := mustOwn(t, l)
	commit(t, s, 1, "a", []byte("1"))
	removeTopic(t, l, "in")
	var err error
	for err == nil { // the group may take it away before
		_, err = s.Poll(t.Context(), 1)
	}
	wantAdvice(t, err, `topic "in" was deleted`, "start again with another pipeline name")
}

// What the client library says over and over is said once.
func TestSameWarningIsLoggedOnceInAWhile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var told shown
		l := newLogger(slog.New(slog.NewTextHandler(&told, nil)))
		for range 100 {
			l.Log(kgo.LogLevelWarn, "no way", "addr", "a:1")
			time.Sleep(time.Second)
		}
		l.Log(kgo.LogLevelError, "another")
		if got := strings.Count(told.String(), "no way"); got != 4 {
			t.Errorf("%d times", got)
		}
		if !strings.Contains(told.String(), "level=ERROR msg=\"kafka: another\"") {
			t.Error(told.String())
		}
	})
}

func TestOtherPartitionCountIsRefused(t *testing.T) {
	l := open(t, conforming(fake(t)))
	name := changelogOf("g", in).Topic
	if _, err := l.ensureTopic(t.Context(), name, 2); err != nil {
		t.Fatal(err)
	}
	_, err := l.Join(t.Context(), "g", "in")
	wantAdvice(t, err, "has 1 partitions, and the state beside it 2", "use another pipeline name")
	removeTopic(t, l, name)
	s, _ := mustOwn(t, l)
	addPartitions(t, l, "in", 2)
	s2, err := l.Join(t.Context(), "g", "in")
	if err == nil {
		_ = s2.Close()
	}
	wantAdvice(t, err, "has 2 partitions, and the state beside it 1")
	_ = s.Close()
}

// A member that is alone in its group, of a process that asks for nothing else, hears
// of it within the session timeout.
func TestMemberEndsWhenItsTopicGetsMorePartitions(t *testing.T) {
	for _, o := range []Options{conforming(fake(t)), serverGroups(t, 6*time.Second)} {
		l := open(t, o)
		s, _ := mustOwn(t, l)
		addPartitions(t, l, "in", 2)
		_, err := s.Poll(t.Context(), 1)
		if errors.Is(err, stream.ErrFenced) { // brokers that assign partitions may be sooner: then a task joins again
			_, err = l.Join(t.Context(), "g", "in")
		}
		if grown, ok := errors.AsType[*stream.PartitionsError](err); !ok || *grown != (stream.PartitionsError{Topic: "in", Partitions: 2, State: 1}) {
			t.Error(err)
		}
		wantAdvice(t, err, "has 2 partitions, and the state beside it 1", "use another pipeline name", "repartition: N")
		_ = s.Close()
	}
}

func addPartitions(t *testing.T, l *Log, name string, count int32) {
	t.Helper()
	req := kmsg.NewPtrCreatePartitionsRequest()
	topic := kmsg.NewCreatePartitionsRequestTopic()
	topic.Topic, topic.Count = name, count
	req.Topics = append(req.Topics, topic)
	if _, err := req.RequestWith(t.Context(), l.client); err != nil {
		t.Fatal(err)
	}
}

// Two processes of one identity: the older one ends, and does not fence the
// other in turn.
func TestIdentityUsedTwiceEndsTheOlderProcess(t *testing.T) {
	o := conforming(broker(t))
	o.Timeouts.Rebalance, o.Timeouts.Heartbeat = 3*time.Second, time.Second // so that a commit may come first
	o.Dir = t.TempDir()
	older := open(t, o)
	s, _ := mustOwn(t, older)
	commit(t, s, 0, "a", []byte("1"))
	identity, err := os.ReadFile(filepath.Join(o.Dir, slotFile))
	if err != nil {
		t.Fatal(err)
	}
	o.Dir = t.TempDir()
	if err := os.WriteFile(filepath.Join(o.Dir, slotFile), identity, 0o600); err != nil {
		t.Fatal(err)
	}
	newer := open(t, o)
	heir, a := ownAgain(t, newer)
	wantValue(t, a.State, "a", []byte("1"))
	commit(t, heir, 0, "a", []byte("2"))
	err = s.Commit(stream.Transaction{Offsets: map[stream.Partition]stream.Offset{in: 1}}).Wait(t.Context())
	if errors.Is(err, stream.ErrFenced) { // its heart beat first
		_, err = s.Poll(t.Context(), 1)
	}
	wantAdvice(t, err, "another process has the same identity", "its own folder")
	commit(t, heir, 0, "a", []byte("3"))
}

// A member that lost its partitions says why, however late the client tells it: else
// it would join again, and fence the process that has its identity now.
func TestLostMemberSaysWhy(t *testing.T) {
	o := conforming(fake(t))
	o.Dir = t.TempDir()
	m, _ := mustOwn(t, open(t, o))
	lost := m.(*member)
	lost.client.OptValue(kgo.OnPartitionsLost).(func(context.Context, *kgo.Client, map[string][]int32))(t.Context(), lost.client, nil)
	soon, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	if _, err := m.Poll(soon, 1); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("%v before the reason is known", err)
	}
	thief, err := kgo.NewClient(kgo.SeedBrokers(o.Brokers...), kgo.TransactionalID(lost.id))
	if err != nil {
		t.Fatal(err)
	}
	defer thief.Close()
	if _, _, err := thief.ProducerID(t.Context()); err != nil {
		t.Fatal(err)
	}
	lost.OnGroupManageError(kerr.FencedInstanceID)
	_, err = m.Poll(t.Context(), 1)
	wantAdvice(t, err, "another process has the same identity", "its own folder")
}

// A member whose own request took its name away joins again, as nobody has the id of its
// transactions.
func TestMemberFencedByItsOwnRequestJoinsAgain(t *testing.T) {
	for name, brokers := range map[string][]string{"kfake": fake(t), "broker": nil} {
		t.Run(name, func(t *testing.T) {
			if brokers == nil {
				brokers = broker(t)
			}
			o := conforming(brokers)
			o.Dir = t.TempDir()
			l := open(t, o)
			m, _ := mustOwn(t, l)
			commit(t, m, 0, "a", []byte("1"))
			s := m.(*member)
			protocol := kmsg.NewJoinGroupRequestProtocol()
			protocol.Name = s.client.OptValue(kgo.Balancers).([]kgo.GroupBalancer)[0].ProtocolName()
			again := kmsg.NewPtrJoinGroupRequest() // as the client sends it
			again.Group, again.InstanceID, again.ProtocolType = s.group, &s.instance, "consumer"
			again.SessionTimeoutMillis, again.RebalanceTimeoutMillis = int32(l.opts.Timeouts.Session.Milliseconds()), 1000
			again.Protocols = append(again.Protocols, protocol)
			if r, err := again.RequestWith(t.Context(), s.client); err != nil || kerr.ErrorForCode(r.ErrorCode) != nil {
				t.Fatal(r, err)
			}
			for {
				if _, err := m.Poll(t.Context(), 1); err != nil {
					if !errors.Is(err, stream.ErrFenced) || lasting(err) {
						t.Errorf("%v, want a member that is fenced and joins again", err)
					}
					break
				}
			}
			if err := m.Close(); err != nil {
				t.Fatal(err)
			}
			heir, a := ownAgain(t, l)
			wantValue(t, a.State, "a", []byte("1"))
			commit(t, heir, 0, "a", []byte("2"))
		})
	}
}

// What the coordinator says of the transactional id decides whether another process has it.
func TestFencedMemberAsksWhoHasItsTransactions(t *testing.T) {
	for name, c := range map[string]struct {
		answer kmsg.DescribeTransactionsResponseTransactionState
		epoch  int16 // above the member's
		ends   bool
	}{
		"its own":                 {kmsg.DescribeTransactionsResponseTransactionState{State: "CompleteCommit"}, 0, false},
		"aborted after a timeout": {kmsg.DescribeTransactionsResponseTransactionState{State: "CompleteAbort"}, 1, false},
		"being aborted":           {kmsg.DescribeTransactionsResponseTransactionState{State: "PrepareEpochFence"}, 1, false},
		"no coordinator":          {kmsg.DescribeTransactionsResponseTransactionState{ErrorCode: kerr.CoordinatorLoadInProgress.Code}, 0, false},
		"of another process":      {kmsg.DescribeTransactionsResponseTransactionState{State: "Empty"}, 1, true},
		"used by another process": {kmsg.DescribeTransactionsResponseTransactionState{State: "Ongoing"}, 2, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cluster := fakeWith(t)
			o := conforming(cluster.ListenAddrs())
			o.Dir, o.Timeouts.Rebalance = t.TempDir(), 200*time.Millisecond
			m, _ := mustOwn(t, open(t, o))
			lost := m.(*member)
			producer, epoch, err := lost.client.ProducerID(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			cluster.ControlKey(int16(kmsg.DescribeTransactions), func(req kmsg.Request) (kmsg.Response, error, bool) {
				cluster.KeepControl()
				resp := req.ResponseKind().(*kmsg.DescribeTransactionsResponse)
				answer := c.answer
				answer.TransactionalID, answer.ProducerID, answer.ProducerEpoch = lost.id, producer, epoch+c.epoch
				resp.TransactionStates = append(resp.TransactionStates, answer)
				return resp, nil, true
			})
			lost.OnGroupManageError(kerr.FencedInstanceID)
			if _, err = m.Poll(t.Context(), 1); lasting(err) != c.ends || !c.ends && !errors.Is(err, stream.ErrFenced) {
				t.Errorf("%v", err)
			}
		})
	}
}

func TestFolderInUseIsLocked(t *testing.T) {
	o := conforming(fake(t))
	o.Dir = t.TempDir()
	open(t, o)
	if _, err := Open(t.Context(), o); !errors.Is(err, ErrLocked) || !strings.Contains(err.Error(), o.Dir) {
		t.Error(err)
	}
}

func TestDeliveryIsByGroup(t *testing.T) {
	o := Options{Delivery: AtLeastOnce, Deliveries: map[string]Delivery{"g": ExactlyOnce}}
	if o.delivery("g") != ExactlyOnce || o.delivery("h") != AtLeastOnce {
		t.Error(o)
	}
}

// Brokers say of a topic that is being made that it is there, and nothing about
// its partitions.
func TestTopicThatIsBeingMadeIsAwaited(t *testing.T) {
	cluster := fakeWith(t)
	o := conforming(cluster.ListenAddrs())
	open(t, o)
	fresh := openAt(t, o).(*Log)
	defer closeLog(t, fresh)
	answers := cluster.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Metadata}, Topic: "in", Err: kerr.LeaderNotAvailable, Count: 3})
	record := stream.Record{Partition: stream.Partition{Topic: "in", Index: stream.ByKey}}
	if err := fresh.Append(t.Context(), record); err != nil || answers.Hits() != 3 {
		t.Errorf("%v after %d answers", err, answers.Hits())
	}
}

// A member that was removed hears of it when a rebalance has it join again. Its
// client does so under a new id: that is no other process of the same identity.
func TestMemberThatJoinedAgainIsNotAnotherProcess(t *testing.T) {
	cluster := fakeWith(t)
	o := conforming(cluster.ListenAddrs())
	o.Dir, o.Timeouts.Rebalance = t.TempDir(), 30*time.Second
	s, _ := mustOwn(t, open(t, o))
	id, _ := s.(*member).client.GroupMetadata()
	var decided atomic.Bool
	cluster.ControlKey(int16(kmsg.JoinGroup), func(req kmsg.Request) (kmsg.Response, error, bool) {
		cluster.KeepControl()
		join := req.(*kmsg.JoinGroupRequest)
		resp := join.ResponseKind().(*kmsg.JoinGroupResponse)
		switch {
		case decided.Load() || join.InstanceID == nil || *join.InstanceID != s.(*member).instance:
			return nil, nil, false
		case join.MemberID == id:
			resp.ErrorCode = kerr.UnknownMemberID.Code
		default:
			resp.ErrorCode = kerr.CoordinatorLoadInProgress.Code
		}
		return resp, nil, true
	})
	cluster.ControlKey(int16(kmsg.TxnOffsetCommit), func(req kmsg.Request) (kmsg.Response, error, bool) {
		cluster.KeepControl()
		if req.(*kmsg.TxnOffsetCommitRequest).MemberID != id {
			return nil, nil, false
		}
		resp := req.ResponseKind().(*kmsg.TxnOffsetCommitResponse)
		topic := kmsg.NewTxnOffsetCommitResponseTopic()
		topic.Topic = "in"
		topic.Partitions = append(topic.Partitions, kmsg.TxnOffsetCommitResponseTopicPartition{ErrorCode: kerr.IllegalGeneration.Code})
		resp.Topics = append(resp.Topics, topic)
		return resp, nil, true
	})
	done := s.Commit(stream.Transaction{Offsets: map[stream.Partition]stream.Offset{in: 0}})
	other := o
	other.Dir = t.TempDir()
	mustJoin(t, open(t, other))
	err := done.Wait(t.Context())
	decided.Store(true)
	if !errors.Is(err, stream.ErrFenced) {
		t.Errorf("the commit of a member that joined again: %v", err)
	}
}

// A member joins again while its commit is under way: the commit does not go on under the
// new id, which the brokers would take.
func TestCommitIsNotTakenUnderTheNextID(t *testing.T) {
	cluster := fakeWith(t)
	o := patient(conforming(cluster.ListenAddrs()))
	l := open(t, o)
	s, _ := mustOwn(t, l)
	client := s.(*member).client
	id, _ := client.GroupMetadata()
	cluster.ControlKey(int16(kmsg.JoinGroup), func(req kmsg.Request) (kmsg.Response, error, bool) {
		cluster.KeepControl()
		join := req.(*kmsg.JoinGroupRequest)
		if join.MemberID != id {
			return nil, nil, false
		}
		resp := join.ResponseKind().(*kmsg.JoinGroupResponse)
		resp.ErrorCode = kerr.UnknownMemberID.Code
		return resp, nil, true
	})
	refused := make(chan struct{}, 1)
	cluster.ControlKey(int16(kmsg.TxnOffsetCommit), func(req kmsg.Request) (kmsg.Response, error, bool) {
		cluster.KeepControl()
		if req.(*kmsg.TxnOffsetCommitRequest).MemberID != id {
			return nil, nil, false
		}
		signal(refused)
		resp := req.ResponseKind().(*kmsg.TxnOffsetCommitResponse)
		topic := kmsg.NewTxnOffsetCommitResponseTopic()
		topic.Topic = "in"
		topic.Partitions = append(topic.Partitions, kmsg.TxnOffsetCommitResponseTopicPartition{ErrorCode: kerr.IllegalGeneration.Code})
		resp.Topics = append(resp.Topics, topic)
		return resp, nil, true
	})
	done := s.Commit(stream.Transaction{Offsets: map[stream.Partition]stream.Offset{in: 1}})
	<-refused
	removeMember(t, l, s.(*member)) // so that it is let in at once
	client.ForceRebalance()
	if err := done.Wait(t.Context()); !errors.Is(err, stream.ErrFenced) {
		t.Errorf("the commit of a member that joined again: %v", err)
	}
	if next, err := l.Committed(t.Context(), "g", in); err != nil || next != 0 {
		t.Errorf("offset %d is committed, %v", next, err)
	}
}
