package main

import (
	"flag"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/afterbay/afterbay/internal/observe"
	"github.com/afterbay/afterbay/internal/pipeline"
)

var supportChats = flag.Int("support.chats", pacedChats, "chats of the busy stream of TestQuietChatIsSearchableInItsTimeAndBusyOnesFillBatches; with more of them it compares times, too, on a machine that does nothing else")

const pacedChats = 1000

// What a chat of a quiet stream may wait for, by the file: rows of its model's call,
// records of its sink's write, a commit. The rest is for what the model, the log and
// the database take themselves, on a machine that others use.
const (
	quietBatch  = time.Second
	quietSink   = 0
	quietCommit = 2 * time.Millisecond
	quietRest   = 2 * time.Second

	busyBatch = 200 // rows of a call
	busyRest  = 5   // calls of fewer: what is left in each of four partitions, and one of a machine that stood still
)

// TestQuietChatIsSearchableInItsTimeAndBusyOnesFillBatches sends examples/support
// chats one by one, and then as many as it can take.
func TestQuietChatIsSearchableInItsTimeAndBusyOnesFillBatches(t *testing.T) {
	if apart(t) {
		return
	}
	s := newSupportRun(t)
	s.serve("pace")
	must(s, "", "produce", "contacts", "--partitions", "4", "--key", "customer")
	e := s.start()
	s.until(e, func() bool { return s.status(e) != nil })
	var took []time.Duration
	for n := range 5 {
		sent := s.produce(1, fmt.Sprint("quiet-", n))
		s.searchable(e, 1, fmt.Sprint("quiet-", n))
		took = append(took, time.Since(sent).Round(time.Millisecond))
	}
	slices.Sort(took)
	const most = quietBatch + quietSink + quietCommit + quietRest
	t.Logf("a chat of a quiet stream is searchable after %v, of %d: %v to %v; %v are the most", took[2], len(took), took[0], took[4], most)
	if *supportChats > pacedChats && took[2] > most {
		t.Errorf("half of the chats are searchable only after %v, want %v", took[2], most)
	}
	s.end(e)
	sent := s.produce(*supportChats, "busy")
	e = s.start() // which finds all of them
	s.searchable(e, *supportChats, "busy")
	whole := time.Since(sent).Round(time.Millisecond)
	var after *pipeline.Snapshot
	s.until(e, func() bool { after = s.status(e); return after != nil })
	if after == nil {
		t.Fatalf("the engine ended: %s", e.out)
	}
	batches := batchesOf(&after.Counts)
	sink := after.Sinks[0]
	t.Logf("%d chats at once are searchable after %v, a start among it: %d calls of the model of %.0f rows each, of %d that fit; %.0f rows a write", *supportChats, whole, batches,
		float64(after.Counts.ModelRows)/float64(max(batches, 1)), busyBatch, float64(sink.Delivered)/float64(sink.Calls))
	full := after.Counts.ModelRows / busyBatch
	if *supportChats <= pacedChats {
		full = after.Counts.ModelRows / 10 // a machine that stands still waits for more of them in vain
	}
	if most := full + busyRest; batches > most { // rows of a chat, or of one that had to be computed again
		t.Errorf("there were %d calls for %d rows, want %d at most: %+v", batches, after.Counts.ModelRows, most, after.Counts)
	}
	s.end(e)
}

// end kills an engine.
func (s *supportRun) end(e *supportEngine) {
	s.Helper()
	if err := e.Process.Kill(); err != nil {
		s.Fatal(err)
	}
	<-e.done
}

// batchesOf is how many batches of rows were called, for whatever reason.
func batchesOf(c *observe.Counts) uint64 {
	return c.ModelFull + c.ModelIdle + c.ModelWaited + c.ModelDue
}

// produce sends chats, and returns when.
func (s *supportRun) produce(chats int, name string) (sent time.Time) {
	s.Helper()
	sent = time.Now()
	var events strings.Builder
	for n := range chats {
		fmt.Fprintf(&events, "{\"kind\":\"chat\",\"contact\":\"%s/%d\",\"customer\":\"c%d\",\"ts\":%d,\"text\":\"it is late\"}\n", name, n, n%97, sent.UnixMilli())
	}
	must(s, events.String(), "produce", "contacts")
	return sent
}

// searchable waits until each of these chats is a row with a vector.
func (s *supportRun) searchable(e *supportEngine, chats int, name string) {
	s.Helper()
	conn := s.connect(s.url)
	defer conn.Close(s.Context())
	rows := 0
	s.until(e, func() bool {
		if err := conn.QueryRow(s.Context(), "SELECT count(embed_vector) FROM artifacts WHERE id LIKE $1", name+"/%").Scan(&rows); err != nil {
			return false // there is no table yet
		}
		return rows == chats
	})
	if rows != chats {
		s.Fatalf("the engine ended with %d of %d chats: %s", rows, chats, e.out)
	}
}
