package gateway_test

import (
	"testing"
	"testing/synctest"

	"github.com/afterbay/afterbay/gateway"
	"github.com/afterbay/afterbay/gateway/wire"
)

// TestConnectedSaysThatAGapFollows resumes after a result that the log, which was
// lost, does not have.
func TestConnectedSaysThatAGapFollows(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, gateway.Options{})
		defer w.close()
		at := resultsAt("ada")
		lost := wire.Cursor{Partition: at.Index, Offset: 1000}.Encode(cursors, "acme", "ada")

		c, connected := w.connect("ada", &wire.Resume{Cursor: lost})
		gap, ok := w.receive(c).(*wire.Gap)
		if connected.Recovered || !ok || gap.Requested != lost || gap.Earliest != connected.Cursor {
			t.Errorf("connected says %+v, then comes %+v", connected, gap)
		}

		// A browser that is cut before it hears of the gap comes with its old id.
		s := w.listen("ada", "Last-Event-ID", lost)
		s.next()
		if s.id != "" {
			t.Errorf("before the gap the id is %q", s.id)
		}
		if _, ok := s.next().(*wire.Gap); !ok || s.id != gap.Earliest {
			t.Errorf("with the gap the id is %q, want %q", s.id, gap.Earliest)
		}
		w.ok(s.body.Close())
	})
}
