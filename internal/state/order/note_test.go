package order_test

import (
	"bytes"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/afterbay/afterbay/internal/state/order"
	"github.com/afterbay/afterbay/stream"
)

// TestANoteIsSmall reads notes back, refuses damaged ones, and looks at the size of one.
func TestANoteIsSmall(t *testing.T) {
	at := func(table string, partition int32, next stream.Offset) order.TableOffset {
		return order.TableOffset{Partition: stream.Partition{Topic: table, Index: partition}, Next: next}
	}
	now := time.Date(2026, 1, 1, 9, 0, 0, 0, time.UTC).UnixMicro()
	whole := order.TableRead{Home: 3, Behind: order.PlaceAt(order.First), Time: now, Whole: true, Tables: []order.TableOffset{at("shops", 0, 1<<40), at("shops", 1, 0), at("users", 1, 7)}}
	moved := order.TableRead{Home: 3, Behind: order.PlaceAt(order.Key{Offset: 1_000_000}), Time: now, Tables: []order.TableOffset{at("shops", 1, 100_000)}}
	var notes order.Notes
	for _, n := range []order.TableRead{whole, moved} {
		data := n.Append(nil)
		if err := notes.Add(data); err != nil {
			t.Fatal(err)
		}
		ends := map[int]bool{} // where a note of fewer tables ends
		for tables := range n.Tables {
			less := n
			less.Tables = n.Tables[:tables]
			ends[len(less.Append(nil))] = true
		}
		for i := range data {
			if err := (&order.Notes{}).Add(data[:i]); (err == nil) != ends[i] {
				t.Errorf("%d bytes of %d: %v", i, len(data), err)
			}
		}
	}
	if want := (map[int32][]order.TableRead{3: {whole, moved}}); !reflect.DeepEqual(notes.Reads, want) {
		t.Errorf("got %v, want %v", notes.Reads, want)
	}
	if n := len(moved.Append(nil)); n > 30 {
		t.Errorf("a note of one partition has %d bytes", n)
	}
	if n := bytes.Count(whole.Append(nil), []byte("shops")); n != 1 {
		t.Errorf("a note names a table %d times", n)
	}
}

// TestOldNotesAreRefused has a note with a key in place of a place, as the first format had it.
func TestOldNotesAreRefused(t *testing.T) {
	var notes order.Notes
	if err := notes.Add([]byte{1, 3, 2, 0, 0, 4, 2, 1, 5, 's', 'h', 'o', 'p', 's', 0, 7}); err == nil || !strings.Contains(err.Error(), "an earlier build wrote it") {
		t.Error(err)
	}
}

// TestNotesBeginWithTheEvents has the first note of partition 3 be about other events, by their
// offsets or by their places in the order.
func TestNotesBeginWithTheEvents(t *testing.T) {
	behind, begin := order.PlaceAt(order.Key{Offset: 4}), order.PlaceAt(order.First)
	for name, test := range map[string]struct {
		behind order.Place
		part   bool
		first  map[int32]stream.Offset
		home   int32
		ok     bool
	}{
		"the first event":             {behind: behind, first: map[int32]stream.Offset{3: 5}, ok: true},
		"an event before the first":   {behind: behind, first: map[int32]stream.Offset{3: 6}, ok: true},
		"the second event":            {behind: behind, first: map[int32]stream.Offset{3: 4}, home: 3},
		"it does not say all":         {behind: behind, part: true, first: map[int32]stream.Offset{3: 5}, home: 3},
		"no note of a partition":      {behind: behind, first: map[int32]stream.Offset{3: 5, 4: 0}, home: 4},
		"the first place":             {behind: begin, ok: true},
		"the second place":            {behind: behind, home: 3},
		"a place that has not all":    {behind: begin, part: true, home: 3},
		"no partition has events":     {behind: behind, first: map[int32]stream.Offset{}, ok: true},
		"another partition has notes": {behind: behind, first: map[int32]stream.Offset{4: 5}, home: 4},
	} {
		var notes order.Notes
		for _, n := range []order.TableRead{{Home: 3, Behind: test.behind, Whole: !test.part}, {Home: 3, Behind: order.PlaceAt(order.Key{Offset: 9})}} {
			if err := notes.Add(n.Append(nil)); err != nil {
				t.Fatal(err)
			}
		}
		if home, ok := notes.Whole(test.first); home != test.home || ok != test.ok {
			t.Errorf("%s: got partition %d, %v", name, home, ok)
		}
	}
}
