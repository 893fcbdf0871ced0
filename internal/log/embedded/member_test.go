package embedded

import (
	"testing"

	"github.com/afterbay/afterbay/internal/sys/vfs"
	"github.com/afterbay/afterbay/stream"
)

// TestPollUsesItsMemoryAgain expects that a Poll takes the memory of the records of the
// one before, and lets go of what those pointed to.
func TestPollUsesItsMemoryAgain(t *testing.T) {
	l := mustOpen(t, small(vfs.NewMemory()))
	defer l.Close()
	create(t, l, 1)
	for range 40 {
		if err := l.Append(t.Context(), record(stream.Partition{Topic: "events"}, "value")); err != nil {
			t.Fatal(err)
		}
	}
	s, err := l.Join(t.Context(), "g", "events")
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	poll := func(limit int) []stream.Record {
		b, err := s.Poll(t.Context(), limit)
		if err != nil || len(b.Records) != limit {
			t.Fatalf("%d records, %v: want %d", len(b.Records), err, limit)
		}
		return b.Records
	}
	first := poll(20)
	value := first[0].Value
	second := poll(15)
	if &first[0] != &second[0] {
		t.Error("the second Poll made memory of its own")
	}
	if first[19].Value != nil {
		t.Error("what the first Poll brought is still pointed to")
	}
	if string(value) != "value" {
		t.Errorf("the bytes of a record became %q", value)
	}
	s.Wake()
	if b, err := s.Poll(t.Context(), 0); err != nil || len(b.Records) > 0 || second[0].Value != nil {
		t.Errorf("an empty Poll brought %d records, %v, or keeps those before", len(b.Records), err)
	}
}
