package main

import (
	"flag"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/afterbay/afterbay/observe"
)

var supportChats = flag.Int("support.chats", 4000, "chats of the busy stream of TestQuietChatIsSearchableInItsTimeAndBusyOnesFillBatches")

// What a chat of a quiet stream may wait for, by the file: rows of its model's call,
// records of its sink's write, a commit. The rest is for what the model, the log and
// the database take themselves, on a machine that others use.
const (
	quietBatch  = time.Second
	quietSink   = 0
	quietCommit = 2 * time.Millisecond
	quietRest   = 2 * time.Second

	busyBatch = 200 // rows of a call
)

// TestQuietChatIsSearchableInItsTimeAndBusyOnesFillBatches sends examples/support
// chats one by one, and then as many as it can take.
func TestQuietChatIsSearchableInItsTimeAndBusyOnesFillBatches(t *testing.T) {
	s := newSupportRun(t)
	s.serve("pace")
	must(s, "", "produce", "contacts", "--partitions", "4", "--key", "customer")
	e := s.start()
	s.until(e, func() bool { return s.status(e) != nil })
	var took []time.Duration
	for n := range 5 {
		took = append(took, s.searchable(e, 1, fmt.Sprint("quiet-", n)))
	}
	slices.Sort(took)
	const most = quietBatch + quietSink + quietCommit + quietRest
	t.Logf("a chat of a quiet stream is searchable after %v, of %d: %v to %v; %v are the most", took[2], len(took), took[0], took[4], most)
	if took[2] > most {
		t.Errorf("half of the chats are searchable only after %v, want %v", took[2], most)
	}
	before := s.status(e).Counts
	whole := s.searchable(e, *supportChats, "busy")
	after := s.status(e)
	batches := batchesOf(&after.Counts) - batchesOf(&before)
	mean := float64(after.Counts.ModelRows-before.ModelRows) / float64(max(batches, 1))
	sink := after.Sinks[0]
	t.Logf("%d chats at once are searchable after %v: %d calls of the model of %.0f rows each, of %d that fit; %.0f rows a write", *supportChats, whole, batches, mean, busyBatch, float64(sink.Delivered)/float64(sink.Calls))
	if mean < 0.8*busyBatch {
		t.Errorf("calls have %.0f rows of %d: before %+v, after %+v", mean, busyBatch, before, after.Counts)
	}
	if err := e.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	<-e.done
}

// batchesOf is how many batches of rows were called, for whatever reason.
func batchesOf(c *observe.Counts) uint64 {
	return c.ModelFull + c.ModelIdle + c.ModelWaited + c.ModelDue
}

// searchable sends chats and returns how long it takes until each is a row with a
// vector, rounded to milliseconds.
func (s *supportRun) searchable(e *supportEngine, chats int, name string) time.Duration {
	s.Helper()
	var events strings.Builder
	for n := range chats {
		fmt.Fprintf(&events, "{\"kind\":\"chat\",\"contact\":\"%s/%d\",\"customer\":\"c%d\",\"ts\":%d,\"text\":\"it is late\"}\n", name, n, n%97, time.Now().UnixMilli())
	}
	conn := s.connect(s.url)
	defer conn.Close(s.Context())
	begun := time.Now()
	must(s, events.String(), "produce", "contacts")
	s.until(e, func() bool {
		var rows int
		if err := conn.QueryRow(s.Context(), "SELECT count(embed_vector) FROM artifacts WHERE id LIKE $1", name+"/%").Scan(&rows); err != nil {
			return false // there is no table yet
		}
		return rows == chats
	})
	return time.Since(begun).Round(time.Millisecond)
}
