package e2e_test

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/afterbay/afterbay/internal/event/header"
	"github.com/afterbay/afterbay/internal/lang"
	"github.com/afterbay/afterbay/internal/lang/steps"
	"github.com/afterbay/afterbay/internal/log/memory"
	"github.com/afterbay/afterbay/internal/pipeline"
	"github.com/afterbay/afterbay/internal/process/builtin"
	replies "github.com/afterbay/afterbay/internal/test/answers"
	"github.com/afterbay/afterbay/stream"
	"github.com/afterbay/afterbay/stream/streamtest"
)

func clientEvent(n int) string { return fmt.Sprintf("acme/c%d/e%d", n%5, n) }

// fromClient makes records those of events 0, 1, ... of clients.
func fromClient(events ...stream.Record) []stream.Record {
	for n := range events {
		events[n].Headers = append(events[n].Headers,
			stream.Header{Key: header.ClientEvent, Value: []byte(clientEvent(n))}, stream.Header{Key: header.Correlation, Value: fmt.Append(nil, "order ", n)})
	}
	return events
}

// endsIn returns in which of topics the events of clients are, and the stage that
// their records say.
func endsIn(t *testing.T, a replies.Answer, topics ...string) map[string][]string {
	t.Helper()
	ends := map[string][]string{}
	for p, records := range a {
		for i := range records {
			r := &records[i]
			client := header.Get(r, header.ClientEvent)
			if client == "" || !slices.Contains(topics, p.Topic) {
				continue
			}
			_, n, _ := strings.Cut(client, "/e")
			if got, want := header.Get(r, header.Correlation), "order "+n; got != want {
				t.Errorf("%s in %s: correlation %q, want %q", client, p.Topic, got, want)
			}
			ends[client] = append(ends[client], strings.TrimSpace(p.Topic+" "+header.Get(r, header.Stage)))
		}
	}
	return ends
}

// contactPipeline has events end in every way: answered, filtered, as duplicates,
// late, as members of a group, as dead letters.
func contactPipeline() lang.Pipeline {
	return lang.Pipeline{
		Name: "support", Replies: []string{"answers"},
		Input: lang.Input{
			Topic: "contacts", Key: "customer", Partitions: 4, Time: lang.EventTime{Field: "at", Unit: "s", Lateness: 5 * time.Second, Late: "drop"},
			Dedupe: &lang.Dedupe{ID: "id"},
			Fields: []lang.Field{
				{Name: "customer", Type: "string"}, {Name: "at", Type: "int"}, {Name: "id", Type: "string"}, {Name: "text", Type: "string"},
				{Name: "call", Type: "optional string"}, {Name: "part", Type: "optional int"}, {Name: "end", Type: "optional bool"},
			},
		},
		Steps: []lang.Step{
			&steps.Emit{Topic: "audit", Names: []string{"customer", "at"}},
			&steps.Route{Cases: []lang.Case{
				{Name: "spam", When: `text == "spam"`, Then: "drop"},
				{Name: "abuse", When: `text == "abuse"`, Then: "dlq"},
				{Name: "call", When: `text == "call"`, Steps: []lang.Step{
					&steps.Group{Name: "parts", By: "call", Order: "part", End: "end", Idle: 20 * time.Second, Late: "drop"},
					&steps.Emit{Topic: "answers", Names: []string{"customer", "parts.key"}},
				}},
				{Name: "default", Steps: []lang.Step{
					&steps.Emit{Topic: "answers", When: `text == "hello"`, Names: []string{"customer", "at"}},
				}},
			}},
		},
	}
}

// contacts returns n events of clients, and one for each partition that ends the
// groups.
func contacts(t *testing.T, seed uint64, n int) []stream.Record {
	rng := rand.New(rand.NewPCG(seed, 0))
	record := func(partition int32, value map[string]any) stream.Record {
		text, err := json.Marshal(value)
		if err != nil {
			t.Fatal(err)
		}
		return stream.Record{
			Partition: stream.Partition{Topic: "contacts", Index: partition}, Key: fmt.Append(nil, value["customer"]), Value: text,
			Time: time.Unix(int64(value["at"].(int)), 0),
		}
	}
	var events []stream.Record
	for i := range n {
		value := map[string]any{
			"customer": fmt.Sprint("u", rng.IntN(6)), "at": 1000 + i - rng.IntN(12), "id": fmt.Sprint(rng.IntN(4 * n)),
			"text": []string{"spam", "abuse", "hello", "well", "call", "call", "call"}[rng.IntN(7)],
		}
		if value["text"] == "call" {
			value["call"], value["part"], value["end"] = fmt.Sprint("c", i/60), rng.IntN(3), rng.IntN(3) == 0
		}
		events = append(events, record(stream.ByKey, value))
	}
	events = fromClient(events...)
	for i := range int32(4) {
		events = append(events, record(i, map[string]any{"customer": "nobody", "at": 100_000, "id": fmt.Sprint("last ", i), "text": "well"}))
	}
	return events
}

// TestEventsOfClientsEndOnce sees that each event of a client has one record that
// ends it, whatever became of it, and the same one whatever fails.
func TestEventsOfClientsEndOnce(t *testing.T) {
	const n = 600
	for seed := range uint64(5) {
		runner, err := builtin.New(contactPipeline(), pipeline.Options{})
		if err != nil {
			t.Fatal(err)
		}
		log := memory.New(memory.Options{})
		answer, err := replies.RunAll(t.Context(), log, runner, contacts(t, seed, n))
		if err != nil {
			t.Fatal(err)
		}
		ends, ways := endsIn(t, answer, "answers", "support.ended", "support.dlq"), map[string]int{}
		for i := range n {
			got := ends[clientEvent(i)]
			if len(got) != 1 {
				t.Errorf("seed %d: event %d ends as %q, want once", seed, i, got)
				continue
			}
			ways[got[0]]++
		}
		for _, way := range []string{"answers", "support.ended", "support.ended late", "support.ended group", "support.dlq route", "support.dlq group"} {
			if ways[way] == 0 {
				t.Errorf("seed %d: no event ends in %s: %v", seed, way, ways)
			}
		}
		if len(answer.Values("audit")) == 0 {
			t.Error("nothing is in the topic that answers nobody")
		}
	}
	replies.SameAnswer(t,
		func() stream.Log { return memory.New(memory.Options{RebalanceTimeout: time.Second}) },
		func() (replies.Runner, error) {
			p := contactPipeline()
			p.Commit.Size = 10
			return builtin.New(p, pipeline.Options{Members: 3, Keys: 3})
		}, contacts(t, 7, 300), seedsOf(10))
}

// TestWhatNoClientSentHasNoEnd sees that the topic of ends is for clients alone, and
// that there is none for a pipeline that answers none.
func TestWhatNoClientSentHasNoEnd(t *testing.T) {
	events := contacts(t, 1, 300)
	for i := range events {
		events[i].Headers = nil
	}
	for _, answers := range [][]string{{"answers"}, nil} {
		p := contactPipeline()
		p.Replies = answers
		answer, runner := runQueueing(t, memory.New(memory.Options{}), p, 1, events)
		if list := answer.Values("support.ended"); len(list) > 0 || len(answer.Values("answers")) == 0 {
			t.Errorf("answers %q: ends are %q", answers, list)
		}
		if got := slices.Contains(runner.Outputs(), "support.ended"); got != (answers != nil) {
			t.Errorf("answers %q: outputs are %q", answers, runner.Outputs())
		}
	}
}

// TestLateEventsEndByWhatBecameOfThem sees that an event is rejected as late where that
// is why it was dropped, and not where it was taken and then filtered.
func TestLateEventsEndByWhatBecameOfThem(t *testing.T) {
	for late, want := range map[string]string{"drop": "support.ended late", "include": "support.ended", "dlq": "support.dlq late"} {
		p := contactPipeline()
		p.Input.Time.Late, p.Input.Partitions = late, 1
		var events []stream.Record
		for i, at := range []int{1000, 500} {
			events = append(events, stream.Record{
				Partition: stream.Partition{Topic: "contacts"}, Time: time.Unix(int64(at), 0), Key: []byte("ann"),
				Value: fmt.Appendf(nil, `{"customer":"ann","at":%d,"id":"%d","text":"spam"}`, at, i),
			})
		}
		answer, _ := runQueueing(t, memory.New(memory.Options{}), p, 1, fromClient(events...))
		ends := endsIn(t, answer, "answers", "support.ended", "support.dlq")
		if d := cmp.Diff(map[string][]string{clientEvent(0): {"support.ended"}, clientEvent(1): {want}}, ends); d != "" {
			t.Errorf("late: %s: %s", late, d)
		}
	}
}

// TestQueuedEventsOfClientsEndOnce has events answered before they wait for a model,
// behind it, and not at all, while commits fail.
func TestQueuedEventsOfClientsEndOnce(t *testing.T) {
	for seed := range uint64(4) {
		p := queueingPipeline(&service{}, steps.Score{Async: true}, lang.Calling{Concurrency: 4},
			&steps.Emit{Topic: "early", When: "n <= 30", Names: []string{"n"}})
		p.Steps[len(p.Steps)-1].(*steps.Emit).When = "n > 60"
		p.Replies, p.Commit.Size = []string{"early", "out"}, 10
		sound := memory.New(memory.Options{RebalanceTimeout: time.Second})
		log := inspected{streamtest.NewFaulty(sound, streamtest.FaultyOptions{
			Seed: seed, Percent: map[streamtest.Fault]int{streamtest.CommitLost: 10, streamtest.CommitHidden: 10},
		}), sound}
		answer, _ := runQueueing(t, log, p, 2, fromClient(queueEvents(90, 5)...))
		ends := endsIn(t, answer, "early", "out", "parking.ended", "parking.dlq")
		for i := range 90 {
			want := []string{"early", "parking.ended", "out"}[i/30]
			if got := ends[clientEvent(i)]; !slices.Equal(got, []string{want}) {
				t.Errorf("seed %d: event %d ends as %q, want %s", seed, i, got, want)
			}
		}
	}
}

// TestMembersOfAGroupEndWithIt sees that one member has what comes of the group, which
// waits for a model, and that the others end as it does.
func TestMembersOfAGroupEndWithIt(t *testing.T) {
	events := func() []stream.Record {
		return fromClient(chunk("a", 100, "c1", 1, true), chunk("a", 101, "c1", 0, false), chunk("a", 102, "c2", 0, true), chunk("a", 103, "c1", 0, false))
	}
	for name, c := range map[string]struct {
		p    lang.Pipeline
		want map[string][]string
	}{
		"answered": {scoredCalls(callParts, volumeModel{remote: true}, &lang.Calling{}), map[string][]string{
			clientEvent(0): {"support.ended"}, clientEvent(1): {"calls"}, clientEvent(2): {"calls"}, clientEvent(3): {"support.ended"},
		}},
		"answered at once": {scoredCalls(callParts, volumeModel{}, nil), map[string][]string{
			clientEvent(0): {"support.ended"}, clientEvent(1): {"calls"}, clientEvent(2): {"calls"}, clientEvent(3): {"support.ended"},
		}},
		"given up": {scoredCalls(callParts, refusing{volumeModel{remote: true}}, &lang.Calling{Attempts: 1}), map[string][]string{
			clientEvent(0): {"support.ended score"}, clientEvent(1): {"support.dlq score"}, clientEvent(2): {"support.dlq score"}, clientEvent(3): {"support.ended"},
		}},
	} {
		t.Run(name, func(t *testing.T) {
			c.p.Replies = []string{"calls"}
			answer, _ := runQueueing(t, memory.New(memory.Options{}), c.p, 1, events())
			if d := cmp.Diff(c.want, endsIn(t, answer, "calls", "support.ended", "support.dlq")); d != "" {
				t.Error(d)
			}
		})
	}
}

// TestTimersAreNobodysEvent sees that what a timer writes is not of the client whose
// event moved time to it.
func TestTimersAreNobodysEvent(t *testing.T) {
	answer, _ := runQueueing(t, memory.New(memory.Options{}), visitPipeline(), 1, fromClient(click("ann", 100), click("bob", 200)))
	want := map[string][]string{clientEvent(0): {"counted"}, clientEvent(1): {"counted"}}
	if d := cmp.Diff(want, endsIn(t, answer, "counted", "visits")); d != "" || len(answer.Values("visits")) != 1 {
		t.Errorf("%s, visits %q", d, answer.Values("visits"))
	}
}

func TestAnswersAreChecked(t *testing.T) {
	emits := 0
	emit := func(topic, when string) lang.Step {
		emits++
		return &steps.Emit{Topic: topic, Name: fmt.Sprint("e", emits), When: when, Names: []string{"customer"}}
	}
	group := &steps.Group{Name: "parts", By: "call", Idle: time.Minute}
	large := &steps.Group{Name: "parts", By: "call", Idle: time.Minute, Max: steps.GroupMax{Events: 5000}}
	route := func(given ...lang.Step) lang.Step {
		return &steps.Route{Cases: []lang.Case{{Name: "spam", When: `text == "spam"`, Then: "drop"}, {Name: "default", Steps: given}}}
	}
	for want, c := range map[string]struct {
		answers []string
		steps   []lang.Step
	}{
		`replies[1]: the pipeline does not write "other" (it writes out)`:                                     {[]string{"out", "other"}, []lang.Step{emit("out", "")}},
		`replies[1]: "out" is named twice`:                                                                    {[]string{"out", "out"}, []lang.Step{emit("out", "")}},
		`steps[1].emit.topic: topic "support.ended" has a name that is reserved`:                              {[]string{"out"}, []lang.Step{emit("out", ""), emit("support.ended", "")}},
		`steps[1].emit: events that come here already have a reply from steps[0].emit`:                        {[]string{"out"}, []lang.Step{emit("out", ""), emit("out", "")}},
		`steps[1].route.default.steps[0].emit: events that come here already have a reply from steps[0].emit`: {[]string{"out", "more"}, []lang.Step{emit("out", ""), route(emit("more", ""))}},
		`already have a reply from steps[0].route.default.steps[1].emit`:                                      {[]string{"out", "more"}, []lang.Step{route(emit("audit", ""), emit("out", "")), emit("more", "")}},
		`steps[1].group: its events already have a reply from steps[0].emit`:                                  {[]string{"out"}, []lang.Step{emit("out", `text == "hello"`), group, emit("out", "")}},
		`steps[0].group.max.events: 5000 is above 4096`:                                                       {[]string{"out"}, []lang.Step{large, emit("out", "")}},
		"": {[]string{"out", "more"}, []lang.Step{emit("audit", ""), emit("out", `text == "a"`), emit("more", `text == "b"`), route(emit("out", `text == "c"`)), emit("more", "")}},
	} {
		p := contactPipeline()
		p.Replies, p.Steps = c.answers, c.steps
		if _, err := builtin.New(p, pipeline.Options{}); (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
}
