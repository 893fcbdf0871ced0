package embedded

import (
	"errors"
	"fmt"
	"testing"

	"github.com/afterbay/afterbay/internal/sys/vfs"
	"github.com/afterbay/afterbay/stream"
)

func TestPartitionsOfADirectoryAreBounded(t *testing.T) {
	o := small(vfs.NewMemory())
	o.MaxPartitions = 10
	l := newLog(t, o) // with two topics of a partition
	create := func(name string, partitions int32) error {
		return l.CreateTopic(t.Context(), stream.Topic{Name: name, Partitions: partitions})
	}
	if err := create("many", 9); !errors.Is(err, stream.ErrTooManyPartitions) {
		t.Fatalf("9 more than 2 of 10: %v, want ErrTooManyPartitions", err)
	}
	for range 3 { // topics deleted without a record make room
		if err := create("many", 8); err != nil {
			t.Fatal(err)
		}
		if err := create("one", 1); !errors.Is(err, stream.ErrTooManyPartitions) {
			t.Fatalf("one more than 10: %v, want ErrTooManyPartitions", err)
		}
		if err := l.DeleteTopic(t.Context(), "many"); err != nil {
			t.Fatal(err)
		}
	}
	l.Close()
	l = mustOpen(t, o)
	defer l.Close()
	if err := l.CreateTopic(t.Context(), stream.Topic{Name: "many", Partitions: 8}); err != nil {
		t.Fatal(err)
	}
}

// TestDeletedTopicStaysDeletedBesideSegments deletes and creates again a topic with
// records in sealed segments, which are opened by their indexes.
func TestDeletedTopicStaysDeletedBesideSegments(t *testing.T) {
	o := crashOptions(vfs.NewMemory())
	l := newLog(t, o)
	p := stream.Partition{Topic: "passing"}
	var first, next stream.Offset
	for round := range 4 {
		if err := l.CreateTopic(t.Context(), stream.Topic{Name: p.Topic, Partitions: 1}); err != nil {
			t.Fatal(err)
		}
		for i := range 40 {
			appendValues(t, l, p, fmt.Sprintf("%d of %d: %01000d", i, round, 0))
		}
		l.Close()
		l = mustOpen(t, o)
		var err error
		if first, next, err = l.Offsets(t.Context(), p); err != nil || int(first) != 40*round || int(next) != 40*(round+1) {
			t.Fatalf("round %d: offsets %d to %d, %v", round, first, next, err)
		}
		if got := values(t, l, p, first); len(got) != 40 {
			t.Fatalf("round %d: %d records, want 40", round, len(got))
		}
		if err := l.DeleteTopic(t.Context(), p.Topic); err != nil {
			t.Fatal(err)
		}
	}
	l.Close()
}
