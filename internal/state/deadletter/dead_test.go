package deadletter

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/afterbay/afterbay/internal/event/header"
	"github.com/afterbay/afterbay/internal/log/memory"
	"github.com/afterbay/afterbay/stream"
)

func letter(partition int32, id, stage, reason, key string, at time.Time) stream.Record {
	r := stream.Record{Partition: stream.Partition{Topic: "p.dlq", Index: partition}, Key: []byte(key), Value: []byte("{}"), Time: at}
	for _, h := range [][2]string{
		{header.ID, "p:" + id + ":p.dlq"}, {header.Event, id}, {header.Position, fmt.Sprintf("in/%d@7", partition)}, {header.Stage, stage}, {header.Error, reason},
		{header.Attempts, "2"}, {header.Resume, "start"}, {"trace", "abc"},
	} {
		r.Headers = append(r.Headers, stream.Header{Key: h[0], Value: []byte(h[1])})
	}
	return r
}

func TestPositionsAreReadAsWritten(t *testing.T) {
	for _, p := range []Position{{stream.Partition{Topic: "in"}, 0}, {stream.Partition{Topic: "a/b@c", Index: 17}, 1 << 40}} {
		if got, err := ParsePosition(p.String()); err != nil || got != p {
			t.Errorf("%v: %v, %v", p, got, err)
		}
	}
	for _, text := range []string{"", "in", "in/0", "in@0", "/0@0", "in/-1@0", "in/0@-1", "in/0@x", "in/2147483648@0"} {
		if p, err := ParsePosition(text); err == nil {
			t.Errorf("%q is read as %v", text, p)
		}
	}
}

func TestFilterTakesWhatAllItsPartsTake(t *testing.T) {
	at := time.Unix(1_760_000_000, 0)
	l := Read(letter(1, "id-1", "decode", "field amount: wrong", "k1", at))
	for _, c := range []struct {
		filter Filter
		takes  bool
	}{
		{Filter{}, true},
		{Filter{Stage: "decode", Reason: "amount", Key: "k1", ID: "id-1", Partitions: []int32{0, 1}, Since: at, Until: at.Add(1)}, true},
		{Filter{Stage: "late"}, false},
		{Filter{Reason: "Amount"}, false},
		{Filter{Key: "k"}, false},
		{Filter{ID: "id"}, false},
		{Filter{Partitions: []int32{0}}, false},
		{Filter{Since: at.Add(1)}, false},
		{Filter{Until: at}, false},
	} {
		if c.filter.Takes(&l) != c.takes {
			t.Errorf("%+v takes it: %v", c.filter, !c.takes)
		}
	}
}

func TestRefusalsSayWhy(t *testing.T) {
	change := func(headers ...string) Letter {
		r := letter(0, "id", "score", "x", "k", time.Now())
		for i := 0; i < len(headers); i += 2 {
			r.Headers = slices.DeleteFunc(r.Headers, func(h stream.Header) bool { return h.Key == headers[i] })
			r.Headers = append(r.Headers, stream.Header{Key: headers[i], Value: []byte(headers[i+1])})
		}
		return Read(r)
	}
	for _, l := range []Letter{
		change(header.Stage, ""), change(header.Resume, ""), change(header.Truncated, "value, row"), change(header.Truncated, "row, read headers"),
		change(header.Resume, "from score x"), change(header.Position, "nowhere"),
	} {
		if l.Refusal() == "" {
			t.Errorf("%+v is not refused", l)
		}
	}
	for _, l := range []Letter{change(), change(header.Truncated, "headers"), change(header.Resume, "from score x", header.Row, "{}")} {
		if why := l.Refusal(); why != "" {
			t.Errorf("%+v: %s", l, why)
		}
	}
}

func TestAReturnSaysWhatTheLetterKnew(t *testing.T) {
	r := letter(3, "id", "score", "x", "k", time.Unix(5, 0))
	r.Offset = 9
	for _, h := range [][2]string{{header.Row, `{"a":1}`}, {header.Copied, "src/0@1"}} {
		r.Headers = append(r.Headers, stream.Header{Key: h[0], Value: []byte(h[1])})
	}
	l := Read(r)
	l.Resume = "from score x"
	again, err := l.Again()
	if err != nil {
		t.Fatal(err)
	}
	want := &Return{
		Letters: "p.dlq", Origin: Position{stream.Partition{Topic: "in", Index: 3}, 7}, Resume: "from score x",
		Source: "src/0@1", Row: []byte(`{"a":1}`), Attempts: 2,
	}
	if d := cmp.Diff(want, Returned(again.Headers)); d != "" {
		t.Error(d)
	}
	if again.Partition != want.Origin.Partition || !again.Time.Equal(r.Time) || header.Get(&again, "trace") != "abc" || header.Get(&again, header.ID) != "id" || header.Get(&again, header.Stage) != "" {
		t.Errorf("%+v", again)
	}
	if Returned(r.Headers) != nil {
		t.Error("a dead letter is taken for an event that was sent back")
	}
}

// TestEachLetterIsSettledOnceByAnyFilters settles letters by random filters and
// limits, and compares with a set. Marks are dropped where all before is settled.
func TestEachLetterIsSettledOnceByAnyFilters(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	rng := rand.New(rand.NewPCG(seed, 1))
	log := memory.New(memory.Options{})
	open := fill(t, log, rng, 3*blockLetters)
	sent := 0
	for round := 0; len(open) > 0; round++ {
		job := Job{Pipeline: "p", Drop: rng.IntN(2) == 0}
		if round < 40 {
			job.Filter = Filter{Stage: []string{"", "decode", "late"}[rng.IntN(3)], Key: []string{"", fmt.Sprint("k", rng.IntN(20))}[rng.IntN(2)], Reason: fmt.Sprint("reason ", rng.IntN(5))}
			job.Limit = rng.IntN(2000)
		}
		want := 0
		for id, l := range open {
			if job.Filter.Takes(&l) && job.Limit == 0 {
				want++
				delete(open, id)
			}
		}
		last := settle(t, log, job)
		if !last.Done || last.Settled != want && job.Limit == 0 || job.Limit > 0 && last.Settled > job.Limit {
			t.Fatalf("seed %d: round %d: %+v of %+v, want %d", seed, round, last, job, want)
		}
		if !job.Drop {
			sent += last.Settled
		}
		seen := openLetters(t, log)
		if job.Limit > 0 { // which ones is the log's order
			if len(open)-len(seen) != last.Settled {
				t.Fatalf("seed %d: round %d: %d open, %d before, %d settled", seed, round, len(seen), len(open), last.Settled)
			}
			open = seen
		}
		if len(seen) != len(open) {
			t.Fatalf("seed %d: round %d: %d are open, want %d", seed, round, len(seen), len(open))
		}
	}
	if back := sentBack(t, log); back != sent {
		t.Errorf("seed %d: %d events are back, %d were sent", seed, back, sent)
	}
}

// fill makes a log with a number of letters, which it returns by id.
func fill(t *testing.T, log *memory.Log, rng *rand.Rand, letters int) map[string]Letter {
	t.Helper()
	for _, topic := range []stream.Topic{{Name: "p.dlq", Partitions: 2}, {Name: "in", Partitions: 2}} {
		if err := log.CreateTopic(t.Context(), topic); err != nil {
			t.Fatal(err)
		}
	}
	open := map[string]Letter{}
	for i := range letters {
		id, stage, reason := fmt.Sprint("id-", i), []string{"decode", "late", "time"}[rng.IntN(3)], fmt.Sprint("reason ", rng.IntN(50))
		r := letter(int32(i%2), id, stage, reason, fmt.Sprint("k", rng.IntN(20)), time.Unix(int64(i), 0))
		if err := log.Append(t.Context(), r); err != nil {
			t.Fatal(err)
		}
		open[id] = Read(r)
	}
	return open
}

func settle(t *testing.T, log Log, job Job) (last Progress) {
	t.Helper()
	for p, err := range Settle(t.Context(), log, job) {
		if err != nil {
			t.Fatal(err)
		}
		last = p
	}
	return last
}

func openLetters(t *testing.T, log Log) map[string]Letter {
	t.Helper()
	open := map[string]Letter{}
	for l, err := range Letters(t.Context(), log, "p", Filter{}, false) {
		if err != nil {
			t.Fatal(err)
		}
		open[l.ID] = l
	}
	return open
}

// sentBack returns how many events are in the input, and sees that no marks are
// left of what is settled from the beginning on.
func sentBack(t *testing.T, log Log) (back int) {
	t.Helper()
	for i := range int32(2) {
		_, next, err := log.Offsets(t.Context(), stream.Partition{Topic: "in", Index: i})
		if err != nil {
			t.Fatal(err)
		}
		back += int(next)
		state, err := log.State(t.Context(), Group("p"), stream.Partition{Topic: "p.dlq", Index: i})
		if err != nil {
			t.Fatal(err)
		}
		marks := 0
		for range state.Scan([]byte{markKind}) {
			marks++
		}
		if marks > 1 { // of the block that the end is in
			t.Errorf("%d blocks of marks are left where all is settled", marks)
		}
	}
	return back
}

func TestTalliesTellKindsOfReasonsApartNotTheirNumbers(t *testing.T) {
	var tallies Tallies
	for i := range 10 {
		l := Read(letter(0, "id", "decode", fmt.Sprintf("byte %d: bad", i), "k", time.Unix(int64(i), 0)))
		l.Settled = i < 3
		tallies.Add(&l)
	}
	other := Read(letter(0, "id", "late", "1.5s before", "k", time.Unix(0, 0)))
	tallies.Add(&other)
	want := []Tally{
		{Stage: "decode", Reason: "byte #: bad", Open: 7, Settled: 3, First: time.Unix(0, 0), Last: time.Unix(9, 0)},
		{Stage: "late", Reason: "#s before", Open: 1, First: time.Unix(0, 0), Last: time.Unix(0, 0)},
	}
	if d := cmp.Diff(want, tallies.List()); d != "" {
		t.Error(d)
	}
}
