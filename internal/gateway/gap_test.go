package gateway_test

import (
	"fmt"
	"testing"
	"testing/synctest"

	"github.com/afterbay/afterbay/internal/gateway"
	"github.com/afterbay/afterbay/internal/gateway/wire"
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

// TestCursorOfAnOlderHistoryIsAGap restores the log from a copy, of the same epoch, and
// lets it grow beyond what clients had: their cursors are before its end, and of other
// records.
func TestCursorOfAnOlderHistoryIsAGap(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		lost := newWorld(t, gateway.Options{})
		results := func(w *world, n int) (last string) {
			c, _ := w.connect("ada", nil)
			for i := range n {
				w.ok(c.send(event(fmt.Sprint("e", i), fmt.Sprint(n*i+n))))
				for result := (*wire.ResultFrame)(nil); result == nil; {
					result, _ = w.receive(c).(*wire.ResultFrame)
					if result != nil {
						last = result.Cursor
					}
				}
			}
			return last
		}
		last := results(lost, 3)
		begun := lost.request("GET", "/v1/results?wait=0s", "ada", "").Header.Get(gateway.CursorHeader) // at the latest, behind no result of its own
		polled := lost.request("GET", "/v1/results?wait=0s&cursor="+last, "ada", "").Header.Get(gateway.CursorHeader)
		for name, cursor := range map[string]string{"last": last, "begun": begun, "polled": polled} {
			if c, connected := lost.connect("ada", &wire.Resume{Cursor: cursor}); !connected.Recovered || c == nil {
				t.Errorf("%s: the log that has the record: %+v", name, connected)
			}
		}
		lost.close()

		w := newWorld(t, gateway.Options{})
		defer w.close()
		results(w, 5)
		for name, cursor := range map[string]string{"last": last, "begun": begun, "polled": polled} {
			c, connected := w.connect("ada", &wire.Resume{Cursor: cursor})
			gap, ok := w.receive(c).(*wire.Gap)
			if connected.Recovered || !ok || gap.Earliest != connected.Cursor {
				t.Errorf("%s: connected says %+v, then comes %+v", name, connected, gap)
				continue
			}
			if first, ok := w.receive(c).(*wire.ResultFrame); !ok || first.EventID != "e0" {
				t.Errorf("%s: behind the gap comes %+v", name, first)
			}
			lines := w.lines(w.request("GET", "/v1/results?wait=0s&cursor="+cursor, "ada", ""))
			if _, ok := lines[0].(*wire.Gap); !ok {
				t.Errorf("%s: a poll begins with %+v", name, lines[0])
			}
		}
	})
}
