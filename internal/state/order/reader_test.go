package order_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/afterbay/afterbay/internal/event/header"
	"github.com/afterbay/afterbay/internal/state/order"
	"github.com/afterbay/afterbay/stream"
)

// TestReadersSayWhatEventsWaitFor has two events wait for source 1, and then for an answer. What the
// clock says is the test's.
func TestReadersSayWhatEventsWaitFor(t *testing.T) {
	m, now := meet(t, 1), time.Unix(1000, 0)
	if err := m.log.CreateTopic(t.Context(), stream.Topic{Name: results, Partitions: 1}); err != nil {
		t.Fatal(err)
	}
	readers := &order.Readers{Now: func() time.Time { return now }}
	reader := readers.Reader()
	member, err := order.NewLog(m.log, meets, order.Options{Stages: order.Stages{By: []string{"shop"}}, Reader: reader}, 0, 1).Join(t.Context(), group, meets)
	if err != nil {
		t.Fatal(err)
	}
	defer member.Close()
	want := func(what string, held, open int, waits order.Holder, since int64) {
		t.Helper()
		s := readers.Standing()
		if len(s) != 1 || s[0].Held != held || s[0].Open != open || s[0].Waits != waits || waits != order.Nothing && s[0].Since.Unix() != since {
			t.Errorf("%s: %+v, want %d held, %d open, waits for %+v since %d", what, s, held, open, waits, since)
		}
	}
	c := order.Copy{Placed: order.Placed{Key: order.Key{Time: 100, Offset: 7}}}
	m.add(0, stream.Header{Key: header.Order, Value: c.Append(nil)}, stream.Header{Key: header.Asked, Value: order.AppendAsk(nil, "shop", 0)})
	m.event(0, order.Key{Time: 110, Offset: 8})
	m.mark(0, 0, 110)
	m.mark(0, 1, 50)
	m.want(member, "time 50 before 0")
	want("behind source 1", 2, 2, order.Holder{Source: 1}, 1000)
	now = now.Add(3 * time.Second)
	m.mark(0, 1, 200)
	m.want(member, "time 100 before 0")
	stage := order.Holder{Source: -1, By: "shop", Stage: true}
	want("behind a stage", 2, 2, stage, 1003)
	now = now.Add(2 * time.Second)
	q := order.Question{Source: 0, Offset: 7, By: "shop"}
	m.add(0, stream.Header{Key: header.AnswerTo, Value: q.Append(nil)})
	released := m.want(member, "0: 100 of 0@7", "1: 110 of 0@8", "time 110 before 2")
	want("released", 0, 2, order.Nothing, 0)
	for _, number := range []stream.Offset{0, 1, 2} {
		waited, of := reader.Held(stream.Partition{Topic: meets}, number)
		if number < 2 && (waited != 5*time.Second || of != stage) || number == 2 && (waited != 0 || of != order.Nothing) {
			t.Errorf("event %d was held for %v by %+v", number, waited, of)
		}
	}
	if waited := readers.Waited(); len(waited) != 2 || waited[order.Holder{Source: 1}] != 3*time.Second || waited[stage] != 2*time.Second {
		t.Errorf("events waited for %v", waited)
	}
	commit(t, member, released)
	want("committed", 0, 0, order.Nothing, 0)
	if reader.Close(); len(readers.Standing()) != 0 {
		t.Error("a reader that is closed is shown")
	}
}

// TestAnEventWaitsSinceItIsTheFirst has two events wait for answers, one after the other.
func TestAnEventWaitsSinceItIsTheFirst(t *testing.T) {
	m, now := meet(t, 1), time.Unix(1000, 0)
	readers := &order.Readers{Now: func() time.Time { return now }}
	member, err := order.NewLog(m.log, meets, order.Options{Stages: order.Stages{By: []string{"shop"}}, Reader: readers.Reader()}, 0).Join(t.Context(), group, meets)
	if err != nil {
		t.Fatal(err)
	}
	defer member.Close()
	for i := range int64(2) {
		c := order.Copy{Placed: order.Placed{Key: order.Key{Time: 100 + 10*i, Offset: 7 + i}}}
		m.add(0, stream.Header{Key: header.Order, Value: c.Append(nil)}, stream.Header{Key: header.Asked, Value: order.AppendAsk(nil, "shop", 0)})
	}
	m.mark(0, 0, 200)
	m.want(member, "time 100 before 0")
	for _, since := range []int64{1000, 1003} {
		if s := readers.Standing()[0]; !s.Waits.Stage || s.Since.Unix() != since {
			t.Errorf("%+v, want since %d", s, since)
		}
		now = now.Add(3 * time.Second)
		q := order.Question{Offset: 7 + (since-1000)/3, By: "shop"}
		m.add(0, stream.Header{Key: header.AnswerTo, Value: q.Append(nil)})
		poll(t, member, 100)
	}
}

// TestATurnWaitsForNothingWithoutAnEvent has a stage answer its last ask. The turn of that comes
// with a later event, and is no wait: that of another ask is.
func TestATurnWaitsForNothingWithoutAnEvent(t *testing.T) {
	m := meet(t, 1)
	readers := &order.Readers{Now: func() time.Time { return time.Unix(1000, 0) }}
	stages := order.Stages{Delay: 20 * time.Microsecond}
	member, err := order.NewLog(m.log, meets, order.Options{Stages: stages, Reader: readers.Reader()}, 0, 1).Join(t.Context(), group, meets)
	if err != nil {
		t.Fatal(err)
	}
	defer member.Close()
	m.event(0, order.Key{Time: 100, Offset: 7})
	m.mark(0, 0, 100)
	m.mark(0, 1, 100)
	m.want(member, "0: 100 of 0@7", "time 100 before 1")
	if s := readers.Standing()[0]; s.Waits != order.Nothing || s.Held != 0 {
		t.Errorf("%+v", s)
	}
	m.event(0, order.Key{Time: 150, Offset: 8})
	m.mark(0, 0, 150)
	poll(t, member, 100)
	if s := readers.Standing()[0]; s.Waits != (order.Holder{Source: 1}) || s.Held != 1 {
		t.Errorf("%+v", s)
	}
}

// TestEventsThatBecameStateSayHowLongTheyWaited has two events become state while they wait for a
// source. A member after a restart does not know when they came.
func TestEventsThatBecameStateSayHowLongTheyWaited(t *testing.T) {
	for _, restart := range []bool{false, true} {
		m, now := meet(t, 1), time.Unix(1000, 0)
		if err := m.log.CreateTopic(t.Context(), stream.Topic{Name: results, Partitions: 1}); err != nil {
			t.Fatal(err)
		}
		var reader *order.Reader
		join := func() (stream.Member, *order.Held) {
			reader = (&order.Readers{Now: func() time.Time { return now }}).Reader()
			return m.bounded(order.Options{Bytes: 1, Reader: reader}, 0, 1)
		}
		member, held := join()
		for i := range int64(2) {
			m.event(0, order.Key{Time: 100 + i, Offset: i})
		}
		m.mark(0, 0, 110)
		m.mark(0, 1, 50)
		m.read(member)
		if held.Spilled != 2 {
			t.Fatalf("%+v", held)
		}
		want := 3 * time.Second
		if now = now.Add(want); restart {
			if err := member.Close(); err != nil {
				t.Fatal(err)
			}
			member, _ = join()
			want = 0
		}
		m.mark(0, 1, 200)
		released := slices.Concat(poll(t, member, 100), poll(t, member, 100))
		for _, number := range []stream.Offset{0, 1} {
			if waited, _ := reader.Held(stream.Partition{Topic: meets}, number); waited != want {
				t.Errorf("restart %v: event %d was held for %v, want %v", restart, number, waited, want)
			}
		}
		if n := commit(t, member, released); n != 2 {
			t.Errorf("restart %v: %d events", restart, n)
		}
	}
}

// TestASkippedSourceHoldsNothingUpToNow writes the mark of a skip behind an event that waits for a
// source of which nothing is known. A later event waits again, and one of the source from before
// is forced.
func TestASkippedSourceHoldsNothingUpToNow(t *testing.T) {
	m := meet(t, 1)
	m.event(0, order.Key{Time: 100, Offset: 1})
	m.mark(0, 0, 100)
	member := m.join(0, 1)
	skip := order.Marks{order.Skip(1, 1000)}.Records([]string{meets}, 1, time.Unix(1000, 0))
	if err := m.log.Append(t.Context(), skip...); err != nil {
		t.Fatal(err)
	}
	m.want(member, "0: 100 of 0@1", "time 100 before 1")
	m.event(0, order.Key{Time: 200, Offset: 2})
	m.mark(0, 0, 200)
	m.event(0, order.Key{Time: 90, Source: 1, Offset: 3})
	var got []string
	for _, r := range slices.Concat(poll(t, member, 100), poll(t, member, 100), poll(t, member, 100)) {
		got = append(got, said(&r))
	}
	if want := []string{"1: 100 of 1@3 forced"}; fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("%q, want %q", got, want)
	}
}
