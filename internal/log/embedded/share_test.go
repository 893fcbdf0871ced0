package embedded

import (
	"fmt"
	"strings"
	"testing"

	"github.com/afterbay/afterbay/internal/sys/vfs"
	"github.com/afterbay/afterbay/stream"
)

// TestPartitionsThatAreBehindGoThroughTheLogTogether reads a log whose records
// are most of one partition, and expects that each is about as far as the others
// at any time, so that the files are read once.
func TestPartitionsThatAreBehindGoThroughTheLogTogether(t *testing.T) {
	o := small(vfs.NewMemory())
	o.SegmentBytes, o.RingBytes = 1<<20, 1
	l := mustOpen(t, o)
	defer l.Close()
	create(t, l, 3)
	const rounds = 400
	of := []int{12, 5, 4} // records of each partition a round
	for i := range rounds {
		var rs []stream.Record
		for p, n := range of {
			for range n {
				rs = append(rs, record(stream.Partition{Topic: "events", Index: int32(p)}, fmt.Sprint(i, strings.Repeat("x", 200))))
			}
		}
		if err := l.Append(t.Context(), rs...); err != nil {
			t.Fatal(err)
		}
	}
	s, err := l.Join(t.Context(), "g", "events")
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	next := make([]int, len(of))
	for left := rounds * (12 + 5 + 4); left > 0; {
		b, err := s.Poll(t.Context(), 97)
		if err != nil {
			t.Fatal(err)
		}
		if len(b.Records) > 97 || len(b.Records) < min(97, left) {
			t.Fatalf("%d records of %d", len(b.Records), left)
		}
		for i := range b.Records {
			next[b.Records[i].Partition.Index]++
		}
		left -= len(b.Records)
		for p := range of {
			if behind := next[0]/of[0] - next[p]/of[p]; behind < -10 || behind > 10 {
				t.Fatalf("partition %d is %d rounds behind the first: %d", p, behind, next)
			}
		}
	}
}

// TestPartitionFarBehindDoesNotHoldUpOthers expects half of an even share at
// least for a partition beside one with a hundred times as much to read.
func TestPartitionFarBehindDoesNotHoldUpOthers(t *testing.T) {
	l := mustOpen(t, small(vfs.NewMemory()))
	defer l.Close()
	create(t, l, 2)
	long, short := stream.Partition{Topic: "events"}, stream.Partition{Topic: "events", Index: 1}
	for range 50 {
		appendValues(t, l, long, strings.Fields(strings.Repeat("x ", 200))...)
	}
	appendValues(t, l, short, strings.Fields(strings.Repeat("x ", 100))...)
	s, err := l.Join(t.Context(), "g", "events")
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	got := 0
	for range 4 {
		b, err := s.Poll(t.Context(), 100)
		if err != nil {
			t.Fatal(err)
		}
		for i := range b.Records {
			if b.Records[i].Partition == short {
				got++
			}
		}
	}
	if got < 100 {
		t.Errorf("%d of 100 records in 4 batches of 100", got)
	}
}
