package kafka

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/afterbay/afterbay/stream"
)

// readValues reads p from its beginning up to n values.
func readValues(t *testing.T, l *Log, p stream.Partition, n int) string {
	t.Helper()
	var values []string
	for r, err := range l.Tail(t.Context(), p, 0) {
		if err != nil {
			t.Fatal(err)
		}
		if values = append(values, string(r.Value)); len(values) == n {
			break
		}
	}
	return strings.Join(values, " ")
}

// TestOutputsHandedOverEarlyAreWrittenOnce makes steps whose outputs are handed
// over in several parts, beside commits of those before.
func TestOutputsHandedOverEarlyAreWrittenOnce(t *testing.T) {
	for _, delivery := range []Delivery{ExactlyOnce, AtLeastOnce, AtMostOnce} {
		t.Run(fmt.Sprint(delivery), func(t *testing.T) {
			o := conforming(fake(t))
			o.Delivery = delivery
			l := open(t, o)
			out := stream.Partition{Topic: "out"}
			if err := l.CreateTopic(t.Context(), stream.Topic{Name: "out", Partitions: 1}); err != nil {
				t.Fatal(err)
			}
			s, _ := mustOwn(t, l)
			var want []string
			var pending *stream.Pending
			for i := range 5 {
				step := stream.Transaction{Offsets: map[stream.Partition]stream.Offset{in: stream.Offset(i + 1)}}
				for j := range 6 {
					value := fmt.Sprintf("%d-%d", i, j)
					want = append(want, value)
					step.Outputs = append(step.Outputs, stream.Record{Partition: out, Time: time.UnixMilli(1), Value: []byte(value)})
					if j%2 == 1 {
						s.(stream.Deliverer).Deliver(step.Outputs)
					}
				}
				if pending != nil {
					if err := pending.Wait(t.Context()); err != nil {
						t.Fatal(err)
					}
				}
				pending = s.Commit(step)
			}
			if err := pending.Wait(t.Context()); err != nil {
				t.Fatal(err)
			}
			if got := readValues(t, l, out, len(want)); got != strings.Join(want, " ") {
				t.Errorf("wrote %s, want %s", got, want)
			}
		})
	}
}

// TestAtLeastOnceIsSeenBeforeTheCommit reads outputs of a step that is not
// committed, and never is.
func TestAtLeastOnceIsSeenBeforeTheCommit(t *testing.T) {
	o := conforming(fake(t))
	o.Delivery = AtLeastOnce
	l := open(t, o)
	s, _ := mustOwn(t, l)
	s.(stream.Deliverer).Deliver([]stream.Record{{Partition: in, Time: time.UnixMilli(1), Value: []byte("early")}})
	if got := readValues(t, l, in, 1); got != "early" {
		t.Errorf("read %q", got)
	}
	if next, err := l.Committed(t.Context(), "g", in); err != nil || next != 0 {
		t.Errorf("offset %d is committed, %v", next, err)
	}
}

// TestStepWhoseEarlyOutputFailsIsNotCommitted hands over what cannot be written.
func TestStepWhoseEarlyOutputFailsIsNotCommitted(t *testing.T) {
	for name, bad := range map[string]struct {
		record stream.Record
		want   error
	}{
		"too large":     {stream.Record{Partition: in, Value: make([]byte, 2000)}, stream.ErrTooLarge},
		"unknown topic": {stream.Record{Partition: stream.Partition{Topic: "nowhere"}}, stream.ErrUnknownTopic},
	} {
		t.Run(name, func(t *testing.T) {
			o := conforming(fake(t))
			o.Delivery, o.MaxRecordBytes = AtLeastOnce, 1000
			l := open(t, o)
			s, _ := mustOwn(t, l)
			outputs := []stream.Record{{Partition: in, Value: []byte("good")}, bad.record}
			s.(stream.Deliverer).Deliver(outputs)
			err := s.Commit(stream.Transaction{Outputs: outputs, Offsets: map[stream.Partition]stream.Offset{in: 1}}).Wait(t.Context())
			if !errors.Is(err, bad.want) {
				t.Errorf("the commit ended with %v, want %v", err, bad.want)
			}
			if next, err := l.Committed(t.Context(), "g", in); err != nil || next != 0 {
				t.Errorf("offset %d is committed, %v", next, err)
			}
		})
	}
}

// TestOutputsThatAreNotDeliveredAreCommittedWithTheirStep commits a step of which
// a part is handed over, and another one that fails: nothing of the rest is seen.
func TestOutputsThatAreNotDeliveredAreCommittedWithTheirStep(t *testing.T) {
	for _, delivery := range []Delivery{AtLeastOnce, AtMostOnce} {
		t.Run(fmt.Sprint(delivery), func(t *testing.T) {
			o := conforming(fake(t))
			o.Delivery = delivery
			l := open(t, o)
			for _, topic := range []string{"apart", "within"} {
				if err := l.CreateTopic(t.Context(), stream.Topic{Name: topic, Partitions: 1}); err != nil {
					t.Fatal(err)
				}
			}
			apart, within := stream.Partition{Topic: "apart"}, stream.Partition{Topic: "within"}
			s, _ := mustOwn(t, l)
			for i, to := range []stream.Partition{in, {Topic: "in", Index: 9}} { // the second is not owned
				step := stream.Transaction{Offsets: map[stream.Partition]stream.Offset{to: 1}}
				for _, p := range []stream.Partition{apart, within} {
					step.Outputs = append(step.Outputs, stream.Record{Partition: p, Time: time.UnixMilli(1), Value: fmt.Append(nil, i)})
				}
				s.(stream.Deliverer).Deliver(step.Outputs[:1])
				if err := s.Commit(step).Wait(t.Context()); (err == nil) != (i == 0) {
					t.Fatalf("commit %d: %v", i, err)
				}
			}
			if got := readValues(t, l, within, 1) + readValues(t, l, apart, 1); got != "00" {
				t.Errorf("read %q", got)
			}
			if _, next, err := l.Offsets(t.Context(), within); err != nil || next != 1 {
				t.Errorf("the next offset is %d, %v", next, err)
			}
		})
	}
}

// TestReaderGoesOnWhenAPartitionIsGivenUp has a reader wait for room while all
// that it read ahead is of a partition that goes to another member.
func TestReaderGoesOnWhenAPartitionIsGivenUp(t *testing.T) {
	sh := &share{partition: in, queue: make([]stream.Record, 2), cancel: func() {}, released: make(chan struct{})}
	s := newShares("g", 1)
	s.all = []*share{sh}
	if !s.full() {
		t.Fatal("there is room")
	}
	s.release(sh)
	if s.full() || len(s.room) == 0 {
		t.Error("the reader is not told of the room")
	}
}

// TestOutputsOfAMemberThatEndedAreNotWrittenLater cuts every connection that brings
// an output, until its member is over: by then the next owner of the partition may
// have written, and what comes behind that would be in another order.
func TestOutputsOfAMemberThatEndedAreNotWrittenLater(t *testing.T) {
	cluster, _ := fakeCluster(t)
	var cutting atomic.Bool
	cut := make(chan struct{}, 1)
	cluster.ControlKey(int16(kmsg.Produce), func(req kmsg.Request) (kmsg.Response, error, bool) {
		cluster.KeepControl()
		if req.(*kmsg.ProduceRequest).TransactionID != nil || !cutting.Load() {
			return nil, nil, false
		}
		select {
		case cut <- struct{}{}:
		default:
		}
		return nil, errors.New("cut"), true
	})
	o := conforming(cluster.ListenAddrs())
	o.Delivery = AtMostOnce
	l := open(t, o)
	apart := stream.Partition{Topic: "apart"}
	if err := l.CreateTopic(t.Context(), stream.Topic{Name: "apart", Partitions: 1}); err != nil {
		t.Fatal(err)
	}
	s, _ := mustOwn(t, l)
	cutting.Store(true)
	outputs := []stream.Record{{Partition: apart, Time: time.UnixMilli(1), Value: []byte("late")}}
	s.(stream.Deliverer).Deliver(outputs)
	pending := s.Commit(stream.Transaction{Outputs: outputs, Offsets: map[stream.Partition]stream.Offset{in: 1}})
	<-cut
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if err := pending.Wait(t.Context()); err == nil {
		t.Error("the step was decided as written")
	}
	cutting.Store(false)
	if err := l.Append(t.Context(), stream.Record{Partition: apart, Value: []byte("next")}); err != nil {
		t.Fatal(err)
	}
	time.Sleep(time.Second) // it would be tried again after 250 ms
	if _, next, err := l.Offsets(t.Context(), apart); err != nil || next != 1 {
		t.Errorf("%d records, %v", next, err)
	}
}

// TestOutputsOfAProcessThatStoodStillAreNotWritten has the end of a transaction take
// as long as the group waits for a member. The process may not have run meanwhile,
// and does not know yet whether it is one.
func TestOutputsOfAProcessThatStoodStillAreNotWritten(t *testing.T) {
	cluster, _ := fakeCluster(t)
	o := patient(conforming(cluster.ListenAddrs()))
	o.Delivery, o.Timeouts.Session, o.Timeouts.Heartbeat = AtMostOnce, 10*time.Second, 9900*time.Millisecond
	l := open(t, o)
	apart := stream.Partition{Topic: "apart"}
	if err := l.CreateTopic(t.Context(), stream.Topic{Name: "apart", Partitions: 1}); err != nil {
		t.Fatal(err)
	}
	s, _ := mustOwn(t, l)
	cluster.ControlKey(int16(kmsg.EndTxn), func(kmsg.Request) (kmsg.Response, error, bool) {
		cluster.SleepControl(func() { time.Sleep(200 * time.Millisecond) })
		return nil, nil, false
	})
	outputs := []stream.Record{{Partition: apart, Time: time.UnixMilli(1), Value: []byte("late")}}
	s.(stream.Deliverer).Deliver(outputs)
	err := s.Commit(stream.Transaction{Outputs: outputs, Offsets: map[stream.Partition]stream.Offset{in: 1}}).Wait(t.Context())
	if !errors.Is(err, stream.ErrFenced) {
		t.Errorf("the step was decided with %v", err)
	}
	if _, next, err := l.Offsets(t.Context(), apart); err != nil || next != 0 {
		t.Errorf("%d records, %v", next, err)
	}
}

func TestNothingIsWrittenOnceALeaseIsOver(t *testing.T) {
	here, there := net.Pipe()
	go io.Copy(io.Discard, here)
	defer here.Close()
	var l lease
	conn, err := l.guard(func(context.Context, string, string) (net.Conn, error) { return there, nil })(t.Context(), "", "")
	if err != nil {
		t.Fatal(err)
	}
	write := func() bool {
		_, err := conn.Write([]byte("output"))
		if err != nil && !errors.Is(err, net.ErrClosed) { // which the client takes for a connection that failed
			t.Errorf("%v", err)
		}
		return err == nil
	}
	before := write()
	l.begin(time.Now(), time.Minute)
	within := write()
	l.begin(time.Now().Add(-time.Minute), 59*time.Second)
	after := write()
	l.end()
	if again := write(); !before || !within || after || !again {
		t.Errorf("written before %v, within %v, after %v, again %v", before, within, after, again)
	}
}

// A step is not committed before its outputs are written, which a crash would lose.
func TestCommitWaitsForOutputsWrittenBesideIt(t *testing.T) {
	cluster, _ := fakeCluster(t)
	var cuts atomic.Int32
	var cutting atomic.Bool
	cluster.ControlKey(int16(kmsg.Produce), func(req kmsg.Request) (kmsg.Response, error, bool) {
		cluster.KeepControl()
		if req.(*kmsg.ProduceRequest).TransactionID != nil || !cutting.Load() {
			return nil, nil, false
		}
		cuts.Add(1)
		return nil, errors.New("cut"), true
	})
	o := patient(conforming(cluster.ListenAddrs()))
	o.Delivery = AtLeastOnce
	l := open(t, o)
	s, _ := mustOwn(t, l)
	cutting.Store(true)
	outputs := []stream.Record{{Partition: in, Time: time.UnixMilli(1), Value: []byte("late")}}
	s.(stream.Deliverer).Deliver(outputs)
	pending := s.Commit(stream.Transaction{Outputs: outputs, Offsets: map[stream.Partition]stream.Offset{in: 1}})
	until(t, "the output was tried some times", func() bool { return cuts.Load() > 5 })
	if next, err := l.Committed(t.Context(), "g", in); err != nil || next != 0 {
		t.Errorf("offset %d is committed before the output is written, %v", next, err)
	}
	cutting.Store(false)
	if err := pending.Wait(t.Context()); err != nil {
		t.Fatal(err)
	}
	if next, err := l.Committed(t.Context(), "g", in); err != nil || next != 1 {
		t.Errorf("offset %d is committed, %v", next, err)
	}
}
