package generation

import (
	"context"
	"testing"

	"github.com/afterbay/afterbay/internal/event/header"
	"github.com/afterbay/afterbay/internal/log/memory"
	"github.com/afterbay/afterbay/stream"
)

// polled is a member that brings batches, and notes what is committed.
type polled struct {
	stream.Member
	batches []stream.Batch
	outputs []stream.Record
}

func (s *polled) Poll(context.Context, int) (stream.Batch, error) {
	b := s.batches[0]
	s.batches = s.batches[1:]
	return b, nil
}

func (s *polled) Pause(...stream.Partition)  {}
func (s *polled) Resume(...stream.Partition) {}
func (s *polled) Wake()                      {}

func (s *polled) Commit(step stream.Transaction) *stream.Pending {
	s.outputs = append(s.outputs, step.Outputs...)
	p := stream.NewPending()
	p.Decide(nil)
	return p
}

// TestOutputsOfARevokedPartitionGoWhereItIsLive commits what touches a partition that
// goes to another member: it is live there, and another one is not.
func TestOutputsOfARevokedPartitionGoWhereItIsLive(t *testing.T) {
	log := memory.New(memory.Options{})
	for topic, n := range map[string]int32{"in": 2, Topic("p"): 2} {
		if err := log.CreateTopic(t.Context(), stream.Topic{Name: topic, Partitions: n}); err != nil {
			t.Fatal(err)
		}
	}
	live := entry{Live: &Live{Generation: 2, Partition: 1, Offset: 5}}
	if err := log.Append(t.Context(), live.record(stream.Partition{Topic: Topic("p"), Index: 1})); err != nil {
		t.Fatal(err)
	}
	p0, p1 := stream.Partition{Topic: "in"}, stream.Partition{Topic: "in", Index: 1}
	state, err := log.State(t.Context(), "p", p0)
	if err != nil {
		t.Fatal(err)
	}
	inner := &polled{batches: []stream.Batch{
		{Assigned: []stream.Assigned{{Partition: p0, State: state}, {Partition: p1, Next: 7, State: state}}},
		{Revoked: []stream.Partition{p1}},
		{},
	}}
	s := &member{Member: inner, of: newDeriving(log, "p", Begun{Pipeline: "p", Generation: 2, Group: "p", Outputs: []string{"out"}}), ctx: t.Context(), parts: map[stream.Partition]*part{}}
	output := func(position string) stream.Record {
		return stream.Record{Partition: stream.Partition{Topic: "out"}, Headers: []stream.Header{{Key: header.Position, Value: []byte(position)}}}
	}
	for range 2 {
		if _, err := s.Poll(t.Context(), 10); err != nil {
			t.Fatal(err)
		}
	}
	s.Commit(stream.Transaction{Outputs: []stream.Record{output("in/0@3"), output("in/1@7")}, Offsets: map[stream.Partition]stream.Offset{p0: 4, p1: 8}})
	if inner.outputs[0].Partition.Topic != "p.g2.out" || inner.outputs[1].Partition.Topic != "out" {
		t.Errorf("outputs went to %v and %v", inner.outputs[0].Partition, inner.outputs[1].Partition)
	}
	if _, err := s.Poll(t.Context(), 10); err != nil || len(s.parts) != 1 {
		t.Errorf("%d partitions after the next poll: %v", len(s.parts), err)
	}
}
