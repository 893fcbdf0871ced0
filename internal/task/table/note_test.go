package table

import (
	"fmt"
	"testing"
	"time"

	"github.com/afterbay/afterbay/internal/state/order"
	"github.com/afterbay/afterbay/stream"
)

// TestNotesSayWhatMoved looks at the notes of a member. The first one and each 64th say all
// offsets, and the others those that moved. None says those of tables as of the event. A topic
// that two lookups read is there once.
func TestNotesSayWhatMoved(t *testing.T) {
	specs := []Spec{{Topic: "users"}, {Topic: "users", Own: true}, {Topic: "shops"}, {Topic: "rates", Versions: Versions{History: time.Hour}}}
	s, err := newState(specs, stream.Assigned{State: newBench(t).state.view}, "posts", nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	note := func() string {
		var n order.TableRead
		if !s.Note(&n) {
			return "none"
		}
		text := fmt.Sprint(n.Whole)
		for _, at := range n.Tables {
			text += fmt.Sprintf(" %v@%d", at.Partition, at.Next)
		}
		return text
	}
	mustSay := func(want string) {
		t.Helper()
		if got := note(); got != want {
			t.Errorf("the note says %q, want %q", got, want)
		}
	}
	mustSay("true")
	s.move(place{0, 0}, 5)
	s.move(place{1, 0}, 5)
	s.move(place{2, 1}, 7)
	s.move(place{3, 0}, 9)
	mustSay("false shops/1@7 users/0@5")
	mustSay("none")
	s.move(place{3, 0}, 10)
	mustSay("none")
	for i := 2; i < 64; i++ {
		s.move(place{2, 1}, stream.Offset(10+i))
		mustSay(fmt.Sprintf("false shops/1@%d", 10+i))
	}
	s.move(place{2, 0}, 1)
	mustSay("true shops/0@1 shops/1@73 users/0@5")
}
