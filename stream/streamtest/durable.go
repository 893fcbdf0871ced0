package streamtest

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/afterbay/afterbay/stream"
)

// RunDurable checks that a log keeps acknowledged writes, and no others, over Close and reopening.
// Run does not check this, because internal/log/memory is not durable. RunDurable calls open
// repeatedly on the same data, each time after it closed the previous log. Every case has its own
// topics, groups and producers.
func RunDurable(t *testing.T, open func(t *testing.T) stream.Log, allowed ...Allowance) {
	runDurable(t, open, false, allowed)
	t.Run("ReadingEarly", func(t *testing.T) {
		if readsEarly(t, open(t)) {
			runDurable(t, open, true, allowed)
		}
	})
}

func runDurable(t *testing.T, open func(t *testing.T) stream.Log, early bool, allowed []Allowance) {
	for _, c := range []struct {
		name string
		test func(*store)
	}{
		{"TopicsSurvive", topicsSurvive},
		{"RecordsSurvive", recordsSurvive},
		{"CommittedStepsSurviveWhole", stepsSurvive},
		{"UncommittedWorkDoesNotSurvive", uncommittedIsGone},
		{"ProducersSurvive", producersSurvive},
		{"UnacknowledgedCommitSurvivesWholeOrNotAtAll", unacknowledgedIsWhole},
		{"DeletedStateStaysDeleted", deletedStays},
		{"DeletedTopicsStayDeleted", deletedTopicsStay},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := &store{open: func() *harness {
				h := newHarness(t, open(t))
				h.prefix, h.early = fmt.Sprint(c.name, early, "-"), early
				h.remote = slices.Contains(allowed, Remote)
				return h
			}}
			s.harness = s.open()
			c.test(s)
		})
	}
}

// store is a log that can be reopened.
type store struct {
	*harness
	open func() *harness
}

func (s *store) reopen() {
	s.Helper()
	s.close()
	s.harness = s.open()
}

func topicsSurvive(s *store) {
	want := []stream.Topic{
		{Name: s.prefix + "a", Partitions: 3, Key: "user"},
		{Name: s.prefix + "b", Partitions: 1},
	}
	for _, topic := range want {
		s.ok(s.CreateTopic(s.ctx, topic))
	}
	for range 2 {
		s.reopen()
		topics, err := s.Topics(s.ctx)
		s.ok(err)
		topics = slices.DeleteFunc(topics, func(t stream.Topic) bool { return !strings.HasPrefix(t.Name, s.prefix) })
		if !slices.Equal(topics, want) {
			s.Fatalf("topics %v, want %v", topics, want)
		}
		want[1].Key = "set later"
		s.ok(s.CreateTopic(s.ctx, want[1]))
	}
}

func recordsSurvive(s *store) {
	ps := s.topic("in", 2)
	s.append(ps[0], "a", "b")
	var want []stream.Record
	for round := range 3 {
		s.append(ps[0], fmt.Sprint(round))
		s.append(ps[1], fmt.Sprint(round))
		before := s.tail(ps[0], 0, 3+round)
		want = append(want, before[len(want):]...)
		s.reopen()
		got := s.tail(ps[0], 0, len(want))
		for i := range want {
			if g, w := got[i], want[i]; string(g.Key) != string(w.Key) || string(g.Value) != string(w.Value) || !g.Time.Equal(w.Time) {
				s.Fatalf("offset %d is %v, want %v", i, g, w)
			}
		}
		s.wantRecords(ps[1], numbers(round+1)...)
	}
}

func stepsSurvive(s *store) {
	ins, outs := s.topic("in", 2), s.topic("out", 2)
	s.append(ins[0], "a", "b")
	s.append(ins[1], "c", "d")
	m := s.join("g", "in")
	m.receive(4)
	m.commit(wholeStep(ins, outs))
	for range 3 {
		s.reopen()
		s.wantWhole(ins, outs)
		groups, err := s.inspect.Groups(s.ctx)
		s.ok(err)
		if !slices.Contains(groups, s.prefix+"g") {
			s.Fatalf("groups %v", groups)
		}
	}
	heir := s.join("g", "in")
	heir.own(2)
	heir.receive(1)
	if a := heir.owned[ins[0]]; values(heir.records) != "b" || a.Next != 1 || s.dump(a.State, "") != "a=1" {
		s.Fatalf("polled %s after an assignment from %d with %q", values(heir.records), a.Next, s.dump(a.State, ""))
	}
	heir.commit(step(ins[0], 2, records(outs[0], "more"), "b=2"))
	s.reopen()
	s.wantRecords(outs[0], "x", "y", "more")
	s.wantState("g", ins[0], "a=1 b=2")
	s.wantState("g", ins[1], "a=2")
	s.wantCommitted("g", ins[0], 2)
}

func uncommittedIsGone(s *store) {
	ins, outs := s.topic("in", 2), s.topic("out", 2)
	s.append(ins[0], "a", "b")
	s.append(ins[1], "c", "d")
	m := s.join("g", "in")
	m.receive(4)
	s.reopen()
	s.wantNothing(ins, outs)
	m = s.join("g", "in")
	m.receive(4)
	bad := wholeStep(ins, outs)
	bad.Offsets[outs[0]] = 0 // not owned
	m.refused(bad, stream.ErrFenced)
	s.reopen()
	s.wantNothing(ins, outs)
	m = s.join("g", "in")
	m.receive(4)
	m.commit(wholeStep(ins, outs))
	s.reopen()
	s.wantWhole(ins, outs)
}

func producersSurvive(s *store) {
	in := s.topic("in", 1)[0]
	s.once("a", in, 0, 1, "1", "2")
	s.once("b", in, 0, 7, "b7")
	s.reopen()
	s.once("a", in, 2, 1, "1", "2", "3")
	s.reopen()
	s.once("a", in, 3, 1, "1", "2", "3")
	s.once("b", in, 1, 7, "b7", "b8")
	s.wantRecords(in, "1", "2", "b7", "3", "b8")
}

// A commit in progress when the log is closed may succeed or fail, but only as a whole.
func unacknowledgedIsWhole(s *store) {
	in, out := s.inOut()
	const n = 10
	s.append(in, numbers(n)...)
	for {
		m := s.join("g", "in")
		m.own(1)
		next := m.owned[in].Next
		if next == n {
			break
		}
		m.Commit(step(in, next+1, records(out, fmt.Sprint(next)), fmt.Sprintf("count=%d", next+1)))
		s.reopen()
		committed, err := s.inspect.Committed(s.ctx, s.prefix+"g", in)
		s.ok(err)
		if committed != next && committed != next+1 {
			s.Fatalf("committed %d, want %d or one more", committed, next)
		}
		s.wantRecords(out, numbers(int(committed))...)
		if committed > 0 {
			s.wantState("g", in, fmt.Sprintf("count=%d", committed))
		}
		if s.ctx.Err() != nil {
			s.Fatal("no commit under way at Close ever happened")
		}
		if committed == next { // or Close always wins the race, and this loop would never end
			m := s.join("g", "in")
			m.own(1)
			m.commit(step(in, next+1, records(out, fmt.Sprint(next)), fmt.Sprintf("count=%d", next+1)))
			s.ok(m.Close())
		}
	}
}

func deletedStays(s *store) {
	in := s.topic("in", 1)[0]
	m := s.join("g", "in")
	m.own(1)
	m.commit(step(in, 0, nil, "a=1", "b=1", "c="))
	s.reopen()
	m = s.join("g", "in")
	m.own(1)
	m.commit(step(in, 0, nil, "a"))
	s.reopen()
	s.wantState("g", in, "b=1 c=")
	m = s.join("g", "in")
	m.own(1)
	m.commit(step(in, 0, nil, "a=2", "b"))
	s.reopen()
	s.wantState("g", in, "a=2 c=")
}
