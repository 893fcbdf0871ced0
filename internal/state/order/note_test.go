package order_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/afterbay/afterbay/internal/state/order"
	"github.com/afterbay/afterbay/stream"
)

// TestANoteIsSmall reads notes back, refuses damaged ones, and looks at the size of one.
func TestANoteIsSmall(t *testing.T) {
	at := func(table string, partition int32, next stream.Offset) order.TableOffset {
		return order.TableOffset{Partition: stream.Partition{Topic: table, Index: partition}, Next: next}
	}
	now := time.Date(2026, 1, 1, 9, 0, 0, 0, time.UTC).UnixMicro()
	whole := order.TableRead{Home: 3, Behind: order.First, Time: now, Whole: true, Tables: []order.TableOffset{at("shops", 0, 1<<40), at("shops", 1, 0), at("users", 1, 7)}}
	moved := order.TableRead{Home: 3, Behind: order.Key{Offset: 1_000_000}, Time: now, Tables: []order.TableOffset{at("shops", 1, 100_000)}}
	var notes order.Notes
	for _, n := range []order.TableRead{whole, moved} {
		data := n.Append(nil)
		if err := notes.Add(data); err != nil {
			t.Fatal(err)
		}
		for i := range data[:len(data)-1] {
			if got := (&order.Notes{}); got.Add(data[:i]) == nil && cmp.Equal(got.Reads[3], []order.TableRead{n}) {
				t.Errorf("%d bytes of %d are enough", i, len(data))
			}
		}
	}
	if d := cmp.Diff(map[int32][]order.TableRead{3: {whole, moved}}, notes.Reads); d != "" {
		t.Error(d)
	}
	if n := len(moved.Append(nil)); n > 30 {
		t.Errorf("a note of one partition has %d bytes", n)
	}
	if home, ok := notes.Whole(nil); !ok || home != 0 {
		t.Errorf("the notes begin with the events, but for partition %d", home)
	}
	if _, ok := notes.Whole(map[int32]stream.Offset{3: 0, 4: 0}); ok {
		t.Error("partition 4 has no notes")
	}
}
