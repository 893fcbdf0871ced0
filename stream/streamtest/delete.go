package streamtest

import (
	"context"
	"errors"
	"slices"
	"strings"

	"github.com/afterbay/afterbay/stream"
)

var deleteCases = []testCase{
	{"NamesOfTopicsAreChecked", namesAreChecked},
	{"DeletedTopicIsUnknown", deletedIsUnknown},
	{"CreatedAgainBeginsBehindTheLastOffset", createdAgain},
	{"DeletedWithoutRecordsLeavesNothing", deletedEmpty},
	{"TopicThatIsReadIsNotDeleted", deletedWhileRead},
	{"TailEndsWithItsTopic", deletedWhileTailed},
	{"GroupGoesOnBehindDeletedRecords", deletedBetweenMembers},
}

func namesAreChecked(h *harness) {
	for _, name := range []string{"", ".", "..", "../x", "a/b", "a\x00", "a\nb", "\x1b[31m", "caf\u00e9", strings.Repeat("a", 250)} {
		h.wantError("name "+name, h.CreateTopic(h.ctx, stream.Topic{Name: name, Partitions: 1}), stream.ErrTopicInvalid)
	}
	for _, partitions := range []int32{-1, 0, stream.PartitionsMax + 1} {
		h.wantError("partitions", h.CreateTopic(h.ctx, stream.Topic{Name: h.prefix + "many", Partitions: partitions}), stream.ErrTopicInvalid)
	}
	if topics, err := h.Topics(h.ctx); err != nil || len(topics) > 0 {
		h.Fatalf("topics %v, %v; want none", topics, err)
	}
}

func (h *harness) wantUnknown(p stream.Partition) {
	h.Helper()
	topics, err := h.Topics(h.ctx)
	h.ok(err)
	if slices.ContainsFunc(topics, func(t stream.Topic) bool { return t.Name == p.Topic }) {
		h.Fatalf("topic %q is listed after it was deleted", p.Topic)
	}
	h.wantError("append", h.Append(h.ctx, record(p, "late")), stream.ErrUnknownTopic)
	_, err = h.AppendOnce(h.ctx, h.prefix+"producer", 1, record(p, "late"))
	h.wantError("append once", err, stream.ErrUnknownTopic)
	_, _, err = h.inspect.Offsets(h.ctx, p)
	h.wantError("offsets", err, stream.ErrUnknownTopic)
	_, _, err = h.inspect.Peek(h.ctx, p, 0)
	h.wantError("peek", err, stream.ErrUnknownTopic)
	h.wantError("tail", h.tailError(p, 0), stream.ErrUnknownTopic)
	_, err = h.Join(h.ctx, h.prefix+"late", p.Topic)
	h.wantError("join", err, stream.ErrUnknownTopic)
	h.wantError("delete again", h.DeleteTopic(h.ctx, p.Topic), stream.ErrUnknownTopic)
}

// tailError returns the error that ends a Tail before its first record.
func (h *harness) tailError(p stream.Partition, from stream.Offset) error {
	h.Helper()
	for _, err := range h.Tail(h.ctx, p, from) {
		if err == nil {
			h.Fatalf("tail %v from %d yields a record", p, from)
		}
		return err
	}
	return nil
}

func deletedIsUnknown(h *harness) {
	in, out := h.inOut()
	h.append(in, "a", "b")
	h.append(out, "kept")
	h.wantError("delete a topic that never was", h.DeleteTopic(h.ctx, h.prefix+"none"), stream.ErrUnknownTopic)
	h.ok(h.DeleteTopic(h.ctx, in.Topic))
	h.wantUnknown(in)
	h.wantRecords(out, "kept")
}

func createdAgain(h *harness) {
	p := h.topic("in", 2)[1]
	h.append(p, "a", "b", "c")
	for _, partitions := range []int32{2, 3} {
		_, last, err := h.inspect.Offsets(h.ctx, p)
		h.ok(err)
		h.ok(h.DeleteTopic(h.ctx, p.Topic))
		if err := h.CreateTopic(h.ctx, stream.Topic{Name: p.Topic, Partitions: 1}); err == nil {
			h.Fatal("it was created again with fewer partitions")
		}
		again := stream.Topic{Name: p.Topic, Partitions: partitions}
		h.ok(h.CreateTopic(h.ctx, again))
		if topics, err := h.Topics(h.ctx); err != nil || !slices.Equal(topics, []stream.Topic{again}) {
			h.Fatalf("topics %v, %v; want %v", topics, err, again)
		}
		first, next, err := h.inspect.Offsets(h.ctx, p)
		if err != nil || first < last || next != first {
			h.Fatalf("offsets %d to %d, %v; want none, from %d on", first, next, err, last)
		}
		if r, found, err := h.inspect.Peek(h.ctx, p, 0); found || err != nil {
			h.Fatalf("peek found %q, %v, of deleted records", r.Value, err)
		}
		h.wantError("tail of deleted records", h.tailError(p, 0), stream.ErrTrimmed)
		h.append(p, "d", "e")
		if got := values(h.tail(p, first, 2)); got != "d e" {
			h.Fatalf("%v holds %s, want d e", p, got)
		}
		if r, found, err := h.inspect.Peek(h.ctx, p, 0); !found || err != nil || string(r.Value) != "d" {
			h.Fatalf("peek found %q, %v, %v; want d", r.Value, found, err)
		}
	}
	more := stream.Partition{Topic: p.Topic, Index: 2}
	h.append(more, "new")
	h.wantRecords(more, "new")
}

func deletedEmpty(h *harness) {
	p := h.topic("in", 4)[0]
	h.ok(h.DeleteTopic(h.ctx, p.Topic))
	h.wantUnknown(p)
	h.ok(h.CreateTopic(h.ctx, stream.Topic{Name: p.Topic, Partitions: 1, Key: "user"}))
	h.append(p, "a")
	h.wantRecords(p, "a")
}

func deletedWhileRead(h *harness) {
	in, _ := h.inOut()
	h.append(in, "a")
	m := h.join("g", "in")
	m.own(1)
	h.wantError("delete", h.DeleteTopic(h.ctx, in.Topic), stream.ErrTopicInUse)
	m.receive(1)
	h.append(in, "b")
	h.wantRecords(in, "a", "b")
	h.ok(m.Close())
	h.ok(h.DeleteTopic(h.ctx, in.Topic))
	h.wantUnknown(in)
}

func deletedWhileTailed(h *harness) {
	in, _ := h.inOut()
	h.append(in, "a")
	for r, err := range h.Tail(h.ctx, in, 0) {
		if err != nil {
			h.wantError("tail", err, stream.ErrUnknownTopic)
			return
		}
		if string(r.Value) != "a" {
			h.Fatalf("tail yields %q, want a", r.Value)
		}
		h.ok(h.DeleteTopic(h.ctx, in.Topic))
	}
	h.Fatal("the tail ended without an error")
}

func deletedBetweenMembers(h *harness) {
	in, _ := h.inOut()
	h.append(in, "a", "b", "c")
	m := h.join("g", "in")
	m.own(1)
	m.receive(3)
	m.commit(step(in, m.records[0].Offset+1, nil, "a=1"))
	h.ok(m.Close())
	h.ok(h.DeleteTopic(h.ctx, in.Topic))
	h.ok(h.CreateTopic(h.ctx, stream.Topic{Name: in.Topic, Partitions: 1}))
	first, _, err := h.inspect.Offsets(h.ctx, in)
	h.ok(err)
	h.append(in, "d")
	ctx, cancel := context.WithCancel(h.ctx)
	defer cancel()
	member, err := h.Join(ctx, h.prefix+"g", in.Topic)
	h.ok(err)
	h.Cleanup(func() { _ = member.Close() })
	var got []stream.Record
	for len(got) == 0 {
		batch, err := member.Poll(ctx, 10)
		if errors.Is(err, stream.ErrFenced) {
			panic(fencedWhilePolling)
		}
		h.ok(err)
		for _, a := range batch.Assigned {
			if a.Next > first || h.dump(a.State, "") != "a=1" {
				h.Fatalf("it goes on at %d with state %q, want %d at most and a=1", a.Next, h.dump(a.State, ""), first)
			}
		}
		got = append(got, batch.Records...)
	}
	if values(got) != "d" || got[0].Offset < first {
		h.Fatalf("it reads %s from %d on, want d from %d on", values(got), got[0].Offset, first)
	}
}

func deletedTopicsStay(s *store) {
	p := s.topic("in", 2)[1]
	s.topic("empty", 3)
	s.append(p, "a", "b", "c")
	s.ok(s.DeleteTopic(s.ctx, p.Topic))
	s.ok(s.DeleteTopic(s.ctx, s.prefix+"empty"))
	for range 2 {
		s.reopen()
		s.wantGone(p.Topic)
		s.wantGone(s.prefix + "empty")
	}
	s.ok(s.CreateTopic(s.ctx, stream.Topic{Name: p.Topic, Partitions: 2}))
	first, _, err := s.inspect.Offsets(s.ctx, p)
	if err != nil || first < 3 {
		s.Fatalf("it begins at offset %d, %v; want 3 or more", first, err)
	}
	s.append(p, "d")
	for range 2 {
		s.reopen()
		if got := values(s.tail(p, first, 1)); got != "d" {
			s.Fatalf("%v holds %s, want d", p, got)
		}
		s.wantError("tail of deleted records", s.tailError(p, 0), stream.ErrTrimmed)
	}
}

func (s *store) wantGone(name string) {
	s.Helper()
	topics, err := s.Topics(s.ctx)
	s.ok(err)
	if slices.ContainsFunc(topics, func(t stream.Topic) bool { return t.Name == name }) {
		s.Fatalf("topic %q is there again", name)
	}
	s.wantError("append", s.Append(s.ctx, record(stream.Partition{Topic: name}, "late")), stream.ErrUnknownTopic)
}
