package sinks_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/afterbay/afterbay/internal/event/header"
	"github.com/afterbay/afterbay/internal/log/memory"
	"github.com/afterbay/afterbay/internal/observe"
	"github.com/afterbay/afterbay/internal/sinks"
	"github.com/afterbay/afterbay/internal/state/deadletter"
	"github.com/afterbay/afterbay/sink"
	"github.com/afterbay/afterbay/stream"
)

// service is a sink whose calls take a while and are answered as a test says.
type service struct {
	takes  time.Duration
	answer func(id string, call int) error // nil takes every record

	mu         sync.Mutex // guards what follows
	calls      map[string]int
	at         []time.Time // of the calls
	taken      []string    // ids, in order
	busy, most int         // calls at once
}

func (s *service) Deliver(ctx context.Context, id string, r *stream.Record) error {
	s.mu.Lock()
	if s.calls == nil {
		s.calls = map[string]int{}
	}
	s.calls[id]++
	call := s.calls[id]
	s.at = append(s.at, time.Now())
	s.busy++
	s.most = max(s.most, s.busy)
	takes := max(s.takes, 1) // in a bubble timers that are due at once crash the race detector (golang/go#78156)
	s.mu.Unlock()
	var err error
	select {
	case <-time.After(takes):
		if s.answer != nil {
			err = s.answer(id, call)
		}
	case <-ctx.Done():
		err = ctx.Err()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.busy--
	if err == nil {
		s.taken = append(s.taken, id)
	}
	return err
}

// total returns how often the service was called.
func (s *service) total() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.at)
}

const group = "fraud.freezes"

// bench is a log with the topic freezes of two partitions.
type bench struct {
	*testing.T
	log     *memory.Log
	service service
}

func newBench(t *testing.T) *bench {
	t.Helper()
	b := &bench{T: t, log: memory.New(memory.Options{RebalanceTimeout: 10 * time.Second})}
	t.Cleanup(func() { _ = b.log.Close() })
	for _, name := range []string{"freezes", deadletter.SinkTopic(group)} {
		b.ok(b.log.CreateTopic(t.Context(), stream.Topic{Name: name, Partitions: 2}))
	}
	return b
}

func (b *bench) ok(err error) {
	b.Helper()
	if err != nil {
		b.Fatal(err)
	}
}

// write appends a record.
func (b *bench) write(partition int32, key, id string, at time.Time) {
	b.Helper()
	r := stream.Record{
		Partition: stream.Partition{Topic: "freezes", Index: partition}, Time: at, Value: []byte(`{"id":"` + id + `"}`),
		Headers: []stream.Header{{Key: header.ID, Value: []byte(id)}, {Key: header.Position, Value: []byte("payments/0@17")}},
	}
	if key != "" {
		r.Key = []byte(key)
	}
	b.ok(b.log.Append(b.Context(), r))
}

// start runs a deliverer to the service; stop ends it.
func (b *bench) start(log stream.Log, o sinks.Options) (metrics *sinks.Metrics, stop func()) {
	b.Helper()
	return b.startTo(sink.Service{Each: &b.service}, log, o)
}

func (b *bench) startTo(service sink.Service, log stream.Log, o sinks.Options) (metrics *sinks.Metrics, stop func()) {
	b.Helper()
	o.Group, o.Topic, o.Name, metrics = group, "freezes", "freezes", &sinks.Metrics{}
	d, err := sinks.New(log, service, o, metrics)
	b.ok(err)
	ctx, cancel := context.WithCancel(b.Context())
	done := make(chan error, 1)
	go func() { done <- d.Run(ctx) }()
	return metrics, func() {
		b.Helper()
		cancel()
		b.ok(<-done)
	}
}

// wait lets time pass until everything is delivered, at most for so long.
func (b *bench) wait(most time.Duration) {
	b.Helper()
	for until := time.Now().Add(most); ; time.Sleep(10 * time.Millisecond) {
		left := 0
		for i := range int32(4) {
			p, reader := stream.Partition{Topic: "freezes", Index: i % 2}, group
			if i > 1 {
				p.Topic, reader = deadletter.SinkTopic(group), deadletter.SinkGroup(group)
			}
			_, next, err := b.log.Offsets(b.Context(), p)
			b.ok(err)
			committed, err := b.log.Committed(b.Context(), reader, p)
			b.ok(err)
			left += int(next - committed)
		}
		if left == 0 {
			return
		}
		if time.Now().After(until) {
			b.Fatalf("%d records are left after %v", left, most)
		}
	}
}

// dead returns the dead letters.
func (b *bench) dead() (list []stream.Record) {
	b.Helper()
	for i := range int32(2) {
		p := stream.Partition{Topic: sinks.DeadTopic(group), Index: i}
		_, next, err := b.log.Offsets(b.Context(), p)
		b.ok(err)
		if next == 0 {
			continue
		}
		for r, err := range b.log.Tail(b.Context(), p, 0) {
			b.ok(err)
			if list = append(list, r); r.Offset+1 == next {
				break
			}
		}
	}
	return list
}

// once checks that the service was called once for each of n ids e0, e1, ...
func (b *bench) once(n int) {
	b.Helper()
	for i := range n {
		if calls := b.service.calls[fmt.Sprint("e", i)]; calls != 1 {
			b.Errorf("%d calls for e%d", calls, i)
		}
	}
	if len(b.service.calls) != n {
		b.Errorf("calls for %d ids, want %d", len(b.service.calls), n)
	}
}

func TestRecordsOfAKeyComeInOrderAndOthersBesideThem(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		const keys, each = 20, 30
		want := map[string][]string{}
		for i := range keys * each {
			key, id := fmt.Sprint("k", i%keys), fmt.Sprintf("k%d:%d", i%keys, i)
			want[key] = append(want[key], id)
			b.write(int32(i%keys%2), key, id, time.Now())
		}
		b.service.takes = 10 * time.Millisecond
		b.service.answer = func(id string, call int) error {
			if call == 1 && strings.HasSuffix(id, "3") {
				return errors.New("not today")
			}
			return nil
		}
		metrics, stop := b.start(b.log, sinks.Options{Concurrency: 8})
		defer stop()
		b.wait(10 * time.Minute)
		got := map[string][]string{}
		for _, id := range b.service.taken {
			key, _, _ := strings.Cut(id, ":")
			got[key] = append(got[key], id)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("order by key (-want +got):\n%s", diff)
		}
		if b.service.most != 8 {
			t.Errorf("%d calls at once, want 8", b.service.most)
		}
		var fresh observe.Snapshot
		if fresh.Add(&metrics.Fresh); fresh.Count != keys*each || fresh.Quantile(0.99) < 100*time.Millisecond || fresh.Quantile(1) > time.Minute {
			t.Errorf("%d records were up to %v old", fresh.Count, fresh.Quantile(1))
		}
		if n := metrics.Delivered.Load(); n != keys*each || metrics.Failures.Load() != keys*each/10 {
			t.Errorf("%d delivered, %d failures", n, metrics.Failures.Load())
		}
	})
}

func TestServiceThatIsDownCostsFewCallsAndNoDeadLetter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		for i := range 2000 {
			b.write(int32(i%2), fmt.Sprint("k", i%100), fmt.Sprint("e", i), time.Now())
		}
		back := time.Now().Add(10 * time.Minute)
		b.service.answer = func(string, int) error {
			if time.Now().Before(back) {
				return errors.New("connection refused")
			}
			return nil
		}
		metrics, stop := b.start(b.log, sinks.Options{})
		defer stop()
		time.Sleep(9 * time.Minute)
		if n := b.service.total(); n > 600 || !metrics.Resting.Load() {
			t.Errorf("%d calls in 9 minutes, resting: %v", n, metrics.Resting.Load())
		}
		if n := metrics.Waiting.Load(); n > 2*(256+256) || metrics.Pauses.Load() != 2 { // one of each partition
			t.Errorf("%d records are held after %d pauses", n, metrics.Pauses.Load())
		}
		time.Sleep(time.Minute + 2*time.Second) // more than the time between two probes
		if metrics.Resting.Load() || metrics.Delivered.Load() == 0 {
			t.Errorf("%d delivered two seconds after it works again", metrics.Delivered.Load())
		}
		b.wait(time.Minute)
		if dead := b.dead(); len(dead) > 0 || metrics.Delivered.Load() != 2000 || metrics.Resting.Load() {
			t.Errorf("%d dead letters, %d delivered", len(dead), metrics.Delivered.Load())
		}
	})
}

func TestRefusedRecordIsOneDeadLetterAndIsDeliveredWhenItIsSentBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		for i := range 64 {
			b.write(0, "k", fmt.Sprint("e", i), time.Unix(int64(i), 0))
		}
		closed := true
		b.service.answer = func(id string, _ int) error {
			if id == "e20" && closed {
				return fmt.Errorf("call: %w", &sink.Refused{Err: errors.New("no such card")})
			}
			return nil
		}
		_, stop := b.start(b.log, sinks.Options{})
		b.wait(time.Minute)
		stop()
		letters := b.dead()
		if len(letters) != 1 || len(b.service.taken) != 63 {
			t.Fatalf("%d dead letters, %d taken", len(letters), len(b.service.taken))
		}
		for key, want := range map[string]string{
			header.ID: group + ":e20:" + sinks.DeadTopic(group), header.Event: "e20", header.Position: "payments/0@17", header.Stage: "sink:freezes", header.Error: "call: refused: no such card", header.Attempts: "1",
		} {
			if got := header.Get(&letters[0], key); got != want {
				t.Errorf("%s of the dead letter is %q, want %q", key, got, want)
			}
		}
		if string(letters[0].Value) != `{"id":"e20"}` || string(letters[0].Key) != "k" || !letters[0].Time.Equal(time.Unix(20, 0)) {
			t.Errorf("dead letter %+v", letters[0])
		}

		for _, closed = range []bool{true, false} { // it is refused once more
			b.sendBack()
			_, stop = b.start(b.log, sinks.Options{})
			b.wait(time.Minute)
			stop()
		}
		b.sendBack() // of which there is nothing
		if letters = b.dead(); len(letters) != 2 || header.Get(&letters[1], header.Attempts) != "2" || header.Get(&letters[1], header.Position) != "payments/0@17" {
			t.Errorf("dead letters %+v", letters)
		}
		if len(b.service.taken) != 64 || b.service.calls["e20"] != 3 || b.service.calls["e21"] != 1 {
			t.Errorf("%d taken, %d calls for e20, %d for e21", len(b.service.taken), b.service.calls["e20"], b.service.calls["e21"])
		}
		if _, next, err := b.log.Offsets(t.Context(), stream.Partition{Topic: "freezes"}); err != nil || next != 64 {
			t.Errorf("other readers of the topic see %d records: %v", next, err)
		}
	})
}

// sendBack sends dead letters back to the sink.
func (b *bench) sendBack() {
	b.Helper()
	for p, err := range deadletter.Settle(b.Context(), b.log, deadletter.Job{Pipeline: group}) {
		if b.ok(err); p.Refused > 0 {
			b.Errorf("refused: %+v", p)
		}
	}
}

func TestIDIsTakenOnceInItsWindow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		b.service.takes = time.Second
		event := time.Unix(1_000_000, 0)
		deliverAll := func(repeated uint64) {
			t.Helper()
			metrics, stop := b.start(b.log, sinks.Options{})
			b.wait(time.Minute)
			stop()
			if n := metrics.Repeated.Load(); n != repeated {
				t.Errorf("%d left out, want %d", n, repeated)
			}
		}
		b.write(0, "a", "e0", event)
		b.write(0, "b", "e0", event) // while the first is called for, and not of its key
		deliverAll(1)
		b.write(0, "a", "e0", event.Add(23*time.Hour))
		b.write(0, "a", "e1", event.Add(-time.Hour)) // late, and remembered from here on
		deliverAll(1)                                // by another process
		b.write(0, "a", "e1", event.Add(40*time.Hour))
		deliverAll(1)
		b.once(2)
		b.write(0, "a", "e0", event.Add(48*time.Hour))
		deliverAll(0)
		if calls := b.service.calls["e0"]; calls != 2 {
			t.Errorf("%d calls for an id that came again out of its window", calls)
		}
	})
}

func TestRecordThatIsTriedForTooLongIsADeadLetter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		for i := range 10 {
			b.write(0, "", fmt.Sprint("e", i), time.Now())
		}
		b.service.answer = func(id string, _ int) error {
			if id == "e4" {
				return errors.New("out of order")
			}
			return nil
		}
		metrics, stop := b.start(b.log, sinks.Options{Expire: time.Hour})
		defer stop()
		time.Sleep(59 * time.Minute)
		if n := len(b.dead()); n > 0 || metrics.Delivered.Load() != 9 {
			t.Fatalf("%d dead letters, %d delivered", n, metrics.Delivered.Load())
		}
		b.wait(2 * time.Minute)
		if dead := b.dead(); len(dead) != 1 || !strings.Contains(header.Get(&dead[0], header.Error), "not taken for 1h0m0s: out of order") {
			t.Errorf("dead letters %v", dead)
		}
	})
}

func TestServiceThatAsksForRestGetsIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		for i := range 100 {
			b.write(0, "", fmt.Sprint("e", i), time.Now())
		}
		b.service.takes = time.Second
		b.service.answer = func(id string, call int) error {
			if id == "e0" && call == 1 {
				return &sink.Later{After: 20 * time.Second, Err: errors.New("too many requests")}
			}
			return nil
		}
		begun := time.Now()
		_, stop := b.start(b.log, sinks.Options{Concurrency: 1})
		defer stop()
		b.wait(10 * time.Minute)
		if second := b.service.at[1].Sub(begun); second < 21*time.Second || second > 22*time.Second {
			t.Errorf("the second call came after %v", second)
		}
	})
}

func TestHangingCallEndsInTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		b.write(0, "", "e0", time.Now())
		b.service.takes = time.Hour
		metrics, stop := b.start(b.log, sinks.Options{})
		defer stop()
		time.Sleep(2900 * time.Millisecond)
		if n := b.service.total(); n != 1 || metrics.Calling.Load() != 1 || metrics.Failures.Load() != 0 {
			t.Fatalf("%d calls, %d under way", n, metrics.Calling.Load())
		}
		time.Sleep(time.Minute)
		b.service.mu.Lock()
		b.service.takes = 0
		b.service.mu.Unlock()
		b.wait(time.Minute)
		if n := metrics.Failures.Load(); n < 2 || b.service.most != 1 {
			t.Errorf("%d calls failed, %d at once", n, b.service.most)
		}
	})
}

func TestMembersShareTheRecordsAndCallOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		for i := range 2000 {
			b.write(int32(i%2), fmt.Sprint("k", i%100), fmt.Sprint("e", i), time.Now())
		}
		b.service.takes = time.Second
		first, stopFirst := b.start(b.log, sinks.Options{})
		time.Sleep(10 * time.Second)
		second, stopSecond := b.start(b.log, sinks.Options{})
		time.Sleep(20 * time.Second)
		if n := second.Delivered.Load(); n < 100 {
			t.Errorf("%d delivered by the second beside the first", n)
		}
		stopFirst()
		b.wait(10 * time.Minute)
		stopSecond()
		b.once(2000)
		if first.Delivered.Load() < 100 || second.Delivered.Load() < 100 || first.Delivered.Load()+second.Delivered.Load() != 2000 {
			t.Errorf("%d and %d delivered", first.Delivered.Load(), second.Delivered.Load())
		}
		if first.Rejoined.Load()+second.Rejoined.Load() > 0 {
			t.Error("a member was fenced")
		}
	})
}

func TestRecordWithoutIDHasThatOfItsPlace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		for range 2 {
			b.ok(b.log.Append(t.Context(), stream.Record{Partition: stream.Partition{Topic: "freezes", Index: 1}, Value: []byte("{}")}))
		}
		_, stop := b.start(b.log, sinks.Options{})
		b.wait(time.Minute)
		stop()
		if want := []string{"freezes/1@0", "freezes/1@1"}; !slices.Equal(slices.Sorted(slices.Values(b.service.taken)), want) {
			t.Errorf("ids %q, want %q", b.service.taken, want)
		}
	})
}

func TestOptionsAreChecked(t *testing.T) {
	for name, o := range map[string]sinks.Options{
		"group": {Topic: "out"}, "topic": {Group: "g"}, "timeout": {Group: "g", Topic: "out", Timeout: time.Hour},
		"concurrency": {Group: "g", Topic: "out", Concurrency: 2000}, "max": {Group: "g", Topic: "out", Max: 10},
		"window": {Group: "g", Topic: "out", Window: time.Millisecond}, "expire": {Group: "g", Topic: "out", Expire: -1},
	} {
		if err := o.Validate(); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if err := (sinks.Options{Group: "g", Topic: "out"}).Validate(); err != nil {
		t.Error(err)
	}
}
