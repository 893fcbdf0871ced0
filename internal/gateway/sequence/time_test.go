package sequence_test

import (
	"context"
	"crypto/sha256"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/afterbay/afterbay/internal/event/header"
	"github.com/afterbay/afterbay/internal/gateway/sequence"
	"github.com/afterbay/afterbay/internal/gateway/wire"
	"github.com/afterbay/afterbay/internal/log/memory"
	"github.com/afterbay/afterbay/internal/state/deadletter"
	"github.com/afterbay/afterbay/stream"
)

// said is an event of client acme/c1.
func said(id string, sequence int64) *wire.Event {
	return &wire.Event{Tenant: "acme", Client: "c1", ID: id, Sequence: sequence, Payload: []byte(`{"text":"` + id + `"}`)}
}

// send appends events of clients.
func (b *bench) send(events ...*wire.Event) {
	for _, e := range events {
		b.ok(b.log.Append(b.ctx(), wire.Submit(sequence.Inbox(name), e)))
	}
}

// lines returns what clients get, in short.
func (b *bench) lines() (lines []string) {
	for _, list := range b.results() {
		for _, r := range list {
			line := fmt.Sprintf("%d %s %s", r.Seq, r.Event, r.Status)
			if r.Error != nil {
				line += " " + r.Error.Code
			}
			if r.Duplicate {
				line += " duplicate"
			}
			lines = append(lines, line)
		}
	}
	return lines
}

func (b *bench) want(want ...string) {
	b.Helper()
	if diff := cmp.Diff(want, b.lines()); diff != "" {
		b.Errorf("results (-want +got):\n%s", diff)
	}
}

// TestTimePassesWhereNobodySendsAnything lets a gap, and an event without an
// outcome, end by time alone, with few records.
func TestTimePassesWhereNobodySendsAnything(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := memory.New(memory.Options{})
		b := newBench(t, l, sequence.Limits{Window: time.Hour})
		stop := b.start(l)
		b.send(said("e1", 1), said("e3", 3), said("e4", 4))
		time.Sleep(29 * time.Second)
		b.want()
		time.Sleep(2 * time.Second)
		b.want("1 e3 rejected sequence", "2 e4 rejected sequence")
		b.send(said("e2", 2), said("e3", 3), said("e3b", 3)) // goes on, with another id
		time.Sleep(time.Minute)
		b.want("1 e3 rejected sequence", "2 e4 rejected sequence", "3 e3 rejected sequence duplicate")
		time.Sleep(2 * time.Hour)
		want := []string{
			"1 e3 rejected sequence", "2 e4 rejected sequence", "3 e3 rejected sequence duplicate",
			"4 e1 expired expired", "5 e2 expired expired", "6 e3b expired expired",
		}
		b.want(want...)
		kept := 0
		for key := range b.state() {
			if !strings.Contains(key, `"m`) && !strings.Contains(key, `"c`) {
				kept++
			}
		}
		if kept > 0 {
			t.Errorf("%d keys are kept of what is forgotten: %q", kept, b.state())
		}
		records := 0
		for _, list := range b.read(sequence.Inbox(name)) {
			records += len(list)
		}
		time.Sleep(48 * time.Hour)
		b.want(want...)
		for _, list := range b.read(sequence.Inbox(name)) {
			records -= len(list)
		}
		if records != 0 {
			t.Errorf("%d records of time though nothing waits", -records)
		}
		ends := maps.Collect(b.metrics.Ends.All())
		if diff := cmp.Diff(map[wire.Status]uint64{"ok": 0, "rejected": 2, "dead_lettered": 0, "expired": 3}, ends); diff != "" {
			t.Errorf("ends that are counted (-want +got):\n%s", diff)
		}
		stop()
		b.ok(l.Close())
	})
}

// TestHeldEventsGoOnInOrder fills gaps within their bounds.
func TestHeldEventsGoOnInOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := memory.New(memory.Options{})
		b := newBench(t, l, sequence.Limits{Held: 3})
		stop := b.start(l)
		b.send(said("e4", 4), said("e2", 2), said("e3", 3), said("e5", 5), said("other4", 4), said("e1", 1), said("e0", 1), said("e5b", 5))
		time.Sleep(time.Second)
		stop()
		b.want("1 e5 rejected sequence", "2 other4 rejected sequence", "3 e0 rejected sequence")
		var forwarded []string
		for _, list := range b.read("events") {
			for _, r := range list {
				forwarded = append(forwarded, header.Get(&r, header.ID))
			}
		}
		if diff := cmp.Diff([]string{"acme/c1/e1", "acme/c1/e2", "acme/c1/e3", "acme/c1/e4", "acme/c1/e5b"}, forwarded); diff != "" {
			t.Error(diff)
		}
		b.ok(l.Close())
	})
}

// TestWhatThePipelineWritesIsAResult tells clients what their kind of topic says.
func TestWhatThePipelineWritesIsAResult(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := memory.New(memory.Options{})
		b := newBench(t, l, sequence.Limits{})
		stop := b.start(l)
		for i := range 8 {
			b.send(said(fmt.Sprint("e", i), 0))
		}
		time.Sleep(time.Second)
		write := b.writes(l)
		write("tokens", "e0", `"Hel"`, header.Attempt, "1")
		write("tokens", "e0", `"Hello"`, header.Attempt, "2")
		write("tokens", "e0", `{"once":true}`)
		write("decisions", "e0", `{"a":1}`, header.Models, "toxic@3 sha256:12, spam@1 sha256:34")
		write("decisions", "e0", `{"a":2}`)
		write("tokens", "e0", `"late"`)
		write("decisions", "e1", "\xff<raw>")
		write("late.moderation", "e2", `{}`)
		write("moderation.dlq", "e3", `{}`, header.Stage, "score", header.Error, "dial tcp 10.0.0.7: refused", header.Attempts, "4")
		write("decisions", "e3", `{"again":true}`) // it was sent back
		write("decisions", "e3", `{"again":true}`)
		write("moderation.dlq", "e6", `{}`, header.Stage, "score", header.Code, deadletter.Expired, header.After, "30000", header.Attempts, "1")
		write("decisions", "e6", `{"later":true}`) // it was sent back
		write("moderation.dlq", "e7", `{}`, header.Stage, "score", header.Code, deadletter.TenantQuota, header.After, "1000", header.Attempts, "1")
		write("moderation.dlq", "e7", `{}`, header.Stage, "score", header.Code, deadletter.TenantQuota, header.After, "1000", header.Attempts, "2")
		write("decisions", "e7", `{"later":true}`)
		write("decisions", "e2", `{"later":true}`) // it was late
		write("decisions", "", `{"of":"nobody"}`)
		write("decisions", "unknown", `{}`)
		write("decisions", "e4", ``)
		write("decisions", "e5", "\"caf\xe9\"")
		b.sequenced()
		stop()
		var got []wire.Result
		for _, list := range b.results() {
			for _, r := range list {
				r.Time, r.Tenant, r.Client = time.Time{}, "", ""
				got = append(got, r)
			}
		}
		want := []wire.Result{
			{Seq: 1, Event: "e0", Status: wire.StatusPartial, Attempt: 1, Payload: []byte(`"Hel"`)},
			{Seq: 2, Event: "e0", Status: wire.StatusPartial, Attempt: 2, Payload: []byte(`"Hello"`)},
			{Seq: 3, Event: "e0", Status: wire.StatusPartial, Payload: []byte(`{"once":true}`)},
			{Seq: 4, Event: "e0", Status: wire.StatusOK, Payload: []byte(`{"a":1}`), Model: "toxic@3, spam@1"},
			{Seq: 5, Event: "e1", Status: wire.StatusOK, Payload: []byte(`{"base64":"/zxyYXc+"}`)},
			{Seq: 6, Event: "e2", Status: wire.StatusRejected, Error: &wire.Error{Code: wire.CodeLate, Message: "the event arrived later than the lateness of the pipeline"}},
			{Seq: 7, Event: "e3", Status: wire.StatusDeadLettered, Error: &wire.Error{Code: wire.CodeDeadLettered, Message: `the event failed at "score", and is stored as a dead letter`, Attempts: 4}},
			{Seq: 8, Event: redriven("e3"), Causal: "e3", Status: wire.StatusOK, Payload: []byte(`{"again":true}`)},
			{Seq: 9, Event: "e6", Status: wire.StatusExpired, Error: &wire.Error{Code: wire.CodeExpired, Message: `the event waited too long at "score": send it again with another id`, Retryable: true, RetryAfterMs: 30_000, Attempts: 1}},
			{Seq: 10, Event: redriven("e6"), Causal: "e6", Status: wire.StatusOK, Payload: []byte(`{"later":true}`)},
			{Seq: 11, Event: "e7", Status: wire.StatusRejected, Error: &wire.Error{Code: wire.CodeTenantQuota, Message: "the tenant has the maximum number of waiting events: send it again with another id", Retryable: true, RetryAfterMs: 1000, Attempts: 1}},
			{Seq: 12, Event: redriven("e7"), Causal: "e7", Status: wire.StatusOK, Payload: []byte(`{"later":true}`)},
			{Seq: 13, Event: "e4", Status: wire.StatusOK},
			{Seq: 14, Event: "e5", Status: wire.StatusOK, Payload: []byte(`{"base64":"ImNhZuki"}`)},
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Error(diff)
		}
		if b.metrics.Foreign.Load() != 1 || b.metrics.Unknown.Load() != 1 || b.metrics.Dropped.Load() != 5 {
			t.Errorf("foreign %d, unknown %d, dropped %d; want 1, 1, 5", b.metrics.Foreign.Load(), b.metrics.Unknown.Load(), b.metrics.Dropped.Load())
		}
		b.ok(l.Close())
	})
}

// writes returns what has a pipeline write a record about an event of acme/c1, a second
// after the one before: topics have no order among them.
func (b *bench) writes(l *memory.Log) func(topic, event, value string, more ...string) {
	return func(topic, event, value string, more ...string) {
		r := stream.Record{Partition: stream.Partition{Topic: topic}, Time: time.Now(), Value: []byte(value)}
		for i := 0; i < len(more); i += 2 {
			r.Headers = append(r.Headers, stream.Header{Key: more[i], Value: []byte(more[i+1])})
		}
		if event != "" {
			r.Headers = append(r.Headers, stream.Header{Key: header.ClientEvent, Value: []byte("acme/c1/" + event)})
		}
		b.ok(l.Append(b.ctx(), r))
		time.Sleep(time.Second)
	}
}

// redriven returns the id of the event that a dead letter of another is, sent back.
func redriven(id string) string {
	return fmt.Sprintf("redriven:%x", sha256.Sum256([]byte(id)))[:len("redriven:")+32]
}

// TestWhatIsTooLargeForTheLogEndsItsEvent sees that neither an event nor a result
// makes a step that the log refuses.
func TestWhatIsTooLargeForTheLogEndsItsEvent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := memory.New(memory.Options{MaxRecordBytes: 20 << 10})
		b := newBench(t, l, sequence.Limits{})
		stop := b.start(paced{l, stream.Pace{Bytes: 1 << 20, RecordBytes: 20 << 10}})
		large := []byte(`"` + strings.Repeat("x", 19<<10) + `"`)
		e := said("e1", 0)
		e.Payload = large
		keyed := said("e0", 0) // fits alone, but not beside its key
		keyed.Payload = []byte(`{"room":"` + strings.Repeat("x", 11<<10) + `"}`)
		b.send(keyed, e, said("e2", 0), said("e3", 0))
		time.Sleep(time.Second)
		for _, r := range []struct{ topic, event, value string }{
			{"decisions", "e2", string(large)},
			{"tokens", "e3", string(large)}, // a part, of what may be made again
			{"decisions", "e3", "1"},
		} {
			headers := []stream.Header{{Key: header.ClientEvent, Value: []byte("acme/c1/" + r.event)}}
			b.ok(l.Append(b.ctx(), stream.Record{Partition: stream.Partition{Topic: r.topic}, Value: []byte(r.value), Headers: headers}))
			b.sequenced()
			time.Sleep(time.Second)
		}
		stop()
		b.want("1 e0 rejected too_large", "2 e1 rejected too_large", "3 e2 dead_lettered too_large", "4 e3 ok")
		b.ok(l.Close())
	})
}

// TestEventsComeByTheKeyOfThePipelinesInput sees that a pipeline gets them as from any
// producer; where there is no key in an event, or none is known of the topic, as of
// their client.
func TestEventsComeByTheKeyOfThePipelinesInput(t *testing.T) {
	for field, want := range map[string][]string{
		"room": {"lobby", "7", "a/b", "acme/c1", "acme/c1", "acme/c1", "lobby"},
		"":     {"acme/c1", "acme/c1", "acme/c1", "acme/c1", "acme/c1", "acme/c1", "acme/c1"},
	} {
		synctest.Test(t, func(t *testing.T) {
			l := memory.New(memory.Options{})
			for _, topic := range []stream.Topic{{Name: "in", Partitions: 1, Key: field}, {Name: "out", Partitions: 1}} {
				if err := l.CreateTopic(t.Context(), topic); err != nil {
					t.Fatal(err)
				}
			}
			b := &bench{T: t, log: l, options: sequence.Options{Name: name, Partitions: 1, Input: "in", Sources: []sequence.Source{{Topic: "out"}}}}
			b.ok(b.sequencer(l).MakeTopics(b.ctx()))
			stop := b.start(l)
			for i, payload := range []string{`{"room":"lobby"}`, `{"text":"", "room":7}`, `{"room":"a\/b"}`, `{"room":[]}`, `{"text":"hi"}`, `"lobby"`} {
				e := said(fmt.Sprint("e", i), 0)
				e.Payload = []byte(payload)
				b.send(e)
			}
			later := said("held", 2) // waits, and is another record of the state then
			later.Payload = []byte(`{"room":"lobby"}`)
			b.send(later)
			time.Sleep(time.Second)
			stop()
			stop = b.start(l)
			first := said("first", 1)
			first.Payload = []byte(`{"room":"none"}`)
			b.send(first)
			time.Sleep(time.Second)
			stop()
			var got []string
			for _, r := range b.read("in")[0] {
				if header.Get(&r, header.ID) != "acme/c1/first" {
					got = append(got, string(r.Key))
				}
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("keys by field %q (-want +got):\n%s", field, diff)
			}
			b.ok(l.Close())
		})
	}
}

// TestRecordThatNoGatewayWroteIsADeadLetter sees that it is kept, as far as it
// fits, and costs nothing else.
func TestRecordThatNoGatewayWroteIsADeadLetter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := memory.New(memory.Options{})
		b := newBench(t, l, sequence.Limits{})
		stop := b.start(l)
		inbox := stream.Partition{Topic: sequence.Inbox(name)}
		misplaced := wire.Submit(sequence.Inbox(name), said("e1", 0))
		misplaced.Partition.Index = 1 - wire.PartitionOf("acme", "c1", 2)
		b.ok(l.Append(b.ctx(),
			stream.Record{Partition: inbox, Value: make([]byte, 1<<20), Headers: []stream.Header{{Key: header.Inbox, Value: []byte("?")}}}, misplaced,
			stream.Record{Partition: inbox, Value: []byte("x"), Headers: []stream.Header{{Key: "trace", Value: make([]byte, 100<<10)}}},
			stream.Record{Partition: inbox, Key: make([]byte, 1<<20), Headers: []stream.Header{{Key: "trace", Value: []byte("4bf9")}}},
		))
		b.send(said("e2", 0))
		b.sequenced()
		stop()
		var letters []deadletter.Letter
		for _, list := range b.read(sequence.DeadTopic(name)) {
			for _, r := range list {
				letters = append(letters, deadletter.Read(r))
			}
		}
		slices.SortFunc(letters, func(a, b deadletter.Letter) int { return len(b.Record.Value) - len(a.Record.Value) })
		cut := []string{"value", "", "headers", "key"}
		for i, want := range []string{"no gateway wrote this record", "append events by their key", "no gateway wrote this record", "no gateway wrote this record"} {
			if i >= len(letters) || !strings.Contains(letters[i].Reason, want) || letters[i].Stage != "sequence" || !strings.HasPrefix(letters[i].Origin, "chat.inbox/") || header.Get(&letters[i].Record, header.Truncated) != cut[i] {
				t.Errorf("letter %d of %d is not of %q", i, len(letters), want)
			}
		}
		if n := b.metrics.Accepted.Load(); n != 1 {
			t.Errorf("%d events accepted, want 1", n)
		}
		b.ok(l.Close())
	})
}

func TestOptionsSayWhatIsWrong(t *testing.T) {
	sources := []sequence.Source{{Topic: "decisions"}}
	for want, o := range map[string]sequence.Options{
		"Name is empty":    {Input: "events", Sources: sources},
		"Input is empty":   {Name: name, Sources: sources},
		"Sources are":      {Name: name, Input: "events"},
		"Partitions is -1": {Name: name, Input: "events", Sources: sources, Partitions: -1},
		"occurs twice":     {Name: name, Input: "decisions", Sources: sources},
		"of kind 9":        {Name: name, Input: "events", Sources: []sequence.Source{{Topic: "a", Kind: 9}}},
		"Window is 1ns":    {Name: name, Input: "events", Sources: sources, Limits: sequence.Limits{Window: 1}},
		"HeldFor is 25h":   {Name: name, Input: "events", Sources: sources, Limits: sequence.Limits{HeldFor: 25 * time.Hour}},
		"number below 1":   {Name: name, Input: "events", Sources: sources, Limits: sequence.Limits{IDs: -1}},
		"Held is 32":       {Name: name, Input: "events", Sources: sources, Limits: sequence.Limits{IDs: 7}},
	} {
		if _, err := sequence.New(nil, o); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v; want %q", err, want)
		}
	}
}

func TestOtherNumberOfPartitionsIsRefused(t *testing.T) {
	l := memory.New(memory.Options{})
	b := newBench(t, l, sequence.Limits{})
	b.options.Partitions = 3
	if err := b.sequencer(l).Run(t.Context()); err == nil || !strings.Contains(err.Error(), "with 3 partitions, which cannot change") {
		t.Errorf("%v", err)
	}
	b.options.Partitions, b.options.Sources = 2, []sequence.Source{{Topic: "nowhere"}}
	if err := b.sequencer(l).Run(t.Context()); err == nil || !strings.Contains(err.Error(), "nowhere") {
		t.Errorf("%v", err)
	}
}

// TestClockOfOneGatewayIsAhead has an event come from a gateway whose clock is wrong.
// What others send after it still waits, for those before it and for its result.
func TestClockOfOneGatewayIsAhead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := memory.New(memory.Options{})
		b := newBench(t, l, sequence.Limits{})
		stop := b.start(l)
		wrong := wire.Submit(sequence.Inbox(name), said("e1", 0))
		wrong.Time = time.Now().Add(25 * time.Hour)
		b.ok(l.Append(b.ctx(), wrong))
		b.send(said("s2", 2), said("e2", 0))
		time.Sleep(20 * time.Second)
		b.want()
		b.send(said("s1", 1))
		time.Sleep(time.Second)
		b.want()
		if n := b.metrics.Accepted.Load(); n != 4 {
			t.Errorf("%d events went on, want 4", n)
		}
		stop()
		b.ok(l.Close())
	})
}

// counted is a log that notes the largest step, and how many there are.
type counted struct {
	stream.Log
	steps, most *atomic.Int64
}

type countedMember struct {
	stream.Member
	in counted
}

func (c counted) Join(ctx context.Context, group string, topics ...string) (stream.Member, error) {
	s, err := c.Log.Join(ctx, group, topics...)
	return countedMember{s, c}, err
}

func (s countedMember) Commit(step stream.Transaction) *stream.Pending {
	s.in.steps.Add(1)
	s.in.most.Store(max(s.in.most.Load(), int64(len(step.Outputs)))) // one partition is sequenced by one goroutine
	return s.Member.Commit(step)
}

// TestManyEventsThatNobodyAnswersEndSoon has the events of an idle partition expire, all
// at once: it takes steps that are bounded, and little time.
func TestManyEventsThatNobodyAnswersEndSoon(t *testing.T) {
	events, bound := 20_000, int64(1025) // entries that a record ends, and the next record of time
	if os.Getenv("AFTERBAY_FULL") == "1" {
		events = 100_000
	}
	synctest.Test(t, func(t *testing.T) {
		l := memory.New(memory.Options{})
		b := newBench(t, l, sequence.Limits{Window: time.Hour})
		var steps, most atomic.Int64
		stop := b.start(counted{l, &steps, &most})
		list := make([]stream.Record, events)
		for i := range list {
			list[i] = wire.Submit(sequence.Inbox(name), said(fmt.Sprint("e", i), 0))
		}
		b.ok(l.Append(b.ctx(), list...))
		time.Sleep(time.Hour - time.Second)
		if n := b.metrics.Expired.Load(); n != 0 {
			t.Errorf("%d events have expired before their time", n)
		}
		steps.Store(0)
		most.Store(0)
		time.Sleep(2 * time.Second)
		synctest.Wait()
		if n := b.metrics.Expired.Load(); n != uint64(events) {
			t.Errorf("%d of %d events have expired within a second", n, events)
		}
		if fewest := int64(events) / bound; most.Load() > bound || steps.Load() < fewest || steps.Load() > 3*fewest {
			t.Errorf("%d steps of at most %d outputs, want some more than %d of %d", steps.Load(), most.Load(), fewest, bound)
		}
		for key := range b.state() {
			if strings.Contains(key, `"i`) || strings.Contains(key, `"n`) {
				t.Fatalf("%s is kept", key)
			}
		}
		stop()
		b.ok(l.Close())
	})
}
