package e2e_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/afterbay/afterbay/internal/event/header"
	"github.com/afterbay/afterbay/internal/lang"
	"github.com/afterbay/afterbay/internal/lang/steps"
	"github.com/afterbay/afterbay/internal/log/memory"
	"github.com/afterbay/afterbay/internal/lookups/redis"
	"github.com/afterbay/afterbay/internal/pipeline"
	"github.com/afterbay/afterbay/internal/process/builtin"
	"github.com/afterbay/afterbay/lookup"
	"github.com/afterbay/afterbay/stream"
)

// shelf is where a lookup finds rows: the row of k7 is {"level":7}, with the number
// of its call; k1 has none, k2 has one that is wrong and k3 is refused.
type shelf struct {
	instead func() error // nil answers

	mu     sync.Mutex
	calls  [][]string
	asked  map[string]int // how often, by key
	closed bool
}

func (s *shelf) Rows(ctx context.Context, keys []string) ([][]byte, error) {
	s.mu.Lock()
	s.calls = append(s.calls, slices.Clone(keys))
	call := len(s.calls)
	if s.asked == nil {
		s.asked = map[string]int{}
	}
	for _, key := range keys {
		s.asked[key]++
	}
	s.mu.Unlock()
	if s.instead != nil {
		if err := s.instead(); err != nil {
			return nil, err
		}
	}
	rows := make([][]byte, len(keys))
	for i, key := range keys {
		switch key {
		case "k1":
		case "k2":
			rows[i] = []byte(`{"level":"high"}`)
		case "k3":
			return nil, &lookup.Error{Refused: true, Err: errors.New("no such key is allowed")}
		default:
			rows[i] = fmt.Appendf(nil, `{"level":%s,"call":%d,"more":[]}`, strings.TrimLeft(key, "k"), call)
		}
	}
	return rows, ctx.Err()
}

func (s *shelf) Close() { s.closed = true }

// onShelf is where the rows of a shelf are, or its documents.
type onShelf struct {
	URL    string        `field:"url" affects:"nothing" help:"where it is" example:"shelf://host"`
	Source lookup.Source `field:"-"`
	Err    error         `field:"-"`

	told lookup.Search
}

func (o *onShelf) Check(lookup.Step) []error         { return nil }
func (o *onShelf) CheckSearch(lookup.Search) []error { return nil }
func (o *onShelf) Describe() string                  { return o.URL }

func (o *onShelf) Open(context.Context, lookup.Step) (lookup.Source, error) { return o.Source, o.Err }

func (o *onShelf) OpenSearch(_ context.Context, s lookup.Search) (lookup.Source, error) {
	o.told = s
	return o.Source, o.Err
}

// shelfPipeline writes the level of each event's key, by default -1.
func shelfPipeline(s *shelf, change func(*steps.Lookup)) lang.Pipeline {
	l := steps.Lookup{
		Name: "row", Kind: "shelf", Config: &onShelf{Source: s}, Key: "k",
		Fields: []lang.Field{{Name: "level", Type: "int"}, {Name: "call", Type: "int"}},
		Empty:  []lang.Binding{{Name: "level", Expr: "-1"}},
	}
	if change != nil {
		change(&l)
	}
	return lang.Pipeline{
		Name: "shelves",
		Input: lang.Input{Topic: "in", Partitions: 2, Key: "k", Fields: []lang.Field{
			{Name: "k", Type: "string"}, {Name: "n", Type: "int"},
		}},
		Steps: []lang.Step{&l, &steps.Emit{Topic: "out", Value: []steps.Member{
			{Name: "n", Expr: "n"}, {Name: "level", Expr: "row.level"},
		}}},
	}
}

// rowLevels returns what is written for events 1 to n of keys, whose rows are right.
func rowLevels(n, keys int) map[string][]string {
	want := map[string][]string{}
	for i := range n {
		key := fmt.Sprint("k", i*7%keys)
		if key == "k2" || key == "k3" {
			continue
		}
		level := strings.TrimLeft(key, "k")
		if key == "k1" {
			level = "-1"
		}
		want[key] = append(want[key], fmt.Sprintf(`{"n":%d,"level":%s}`, i+1, level))
	}
	return want
}

// checkLevels compares outputs and dead letters of events 1 to n of keys.
func checkLevels(t *testing.T, got map[string][]string, n, keys, dead int) {
	t.Helper()
	want, wrong := rowLevels(n, keys), 0
	for key, list := range want {
		if !slices.Equal(got[key], list) {
			t.Fatalf("key %s: %.300v\nwant %.300v", key, got[key], list)
		}
		wrong += len(list)
	}
	if wrong = n - wrong; wrong != dead {
		t.Errorf("%d dead letters of %d events that have no row", dead, wrong)
	}
}

func TestRowsOutsideAreFoundInFewCalls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &shelf{}
		p := shelfPipeline(s, func(l *steps.Lookup) { l.Ordered, l.Cache.TTL = true, time.Hour })
		answer, runner := runQueueing(t, memory.New(memory.Options{}), p, 1, queueEvents(500, 20))
		checkLevels(t, byKey(answer, "out"), 500, 20, len(answer.Values("shelves.dlq")))
		for key, n := range s.asked {
			if key != "k3" && n > 8 { // k3 is looked for by halves
				t.Errorf("%s was asked for %d times", key, n)
			}
		}
		for _, r := range answer[stream.Partition{Topic: "shelves.dlq", Index: 0}] {
			if stage, reason := header.Get(&r, header.Stage), header.Get(&r, header.Error); stage != "lookup" || !strings.Contains(reason, "row") {
				t.Errorf("dead letter of stage %q: %q", stage, reason)
			}
		}
		if l := runner.Snapshot().Lookups; len(l) != 1 || l[0].Lookup != "row" || l[0].Keys < 500 || l[0].Kept == 0 || l[0].Calls != uint64(len(s.calls)) || runner.Counts().ModelCalls+runner.Counts().ModelFull+runner.Counts().ModelIdle > 0 {
			t.Errorf("%+v, and %d calls", l, len(s.calls))
		}
		runner.Close()
		if !s.closed {
			t.Error("the source was not closed")
		}
	})
}

func TestRowsAreAskedForAgainWhenTheyAreTooOld(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for keep, want := range map[time.Duration]int{0: 10, time.Minute: 1, 30 * time.Second: 2} {
			s := &shelf{}
			p := shelfPipeline(s, func(l *steps.Lookup) { l.Cache.TTL = keep })
			p.Input.Partitions = 1
			log := memory.New(memory.Options{})
			runner := newRunner(t, p, pipeline.Options{})
			ctx, stop := context.WithCancel(t.Context())
			ended := make(chan error, 1)
			if err := runner.CreateTopics(ctx, log); err != nil {
				t.Fatal(err)
			}
			go func() { ended <- runner.Run(ctx, log) }()
			for i := range 10 {
				if err := log.Append(ctx, row("in", "k5", fmt.Sprintf(`{"k":"k5","n":%d}`, i))); err != nil {
					t.Fatal(err)
				}
				time.Sleep(5 * time.Second)
			}
			stop()
			if err := <-ended; err != nil {
				t.Fatal(err)
			}
			if s.asked["k5"] != want || runner.Counts().Outputs != 10 {
				t.Errorf("kept for %v: asked %d times, want %d; counts %+v", keep, s.asked["k5"], want, runner.Counts())
			}
		}
	})
}

// TestSourceOfRowsThatIsDownMakesNoDeadLetter has it fail for a minute.
func TestSourceOfRowsThatIsDownMakesNoDeadLetter(t *testing.T) {
	for name, change := range map[string]func(*steps.Lookup){
		"pause":   func(*steps.Lookup) {},
		"queue":   func(l *steps.Lookup) { l.Call = &lang.Calling{Breaker: lang.Breaker{Open: "queue"}} },
		"async":   func(l *steps.Lookup) { l.Async = true },
		"journal": func(l *steps.Lookup) { l.Journal = &lang.Journal{} },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				start := time.Now()
				s := &shelf{instead: func() error {
					if time.Since(start) < time.Minute {
						return &lookup.Error{Err: errors.New("connection refused")}
					}
					return nil
				}}
				p := shelfPipeline(s, func(l *steps.Lookup) { l.Ordered = true; change(l) })
				answer, runner := runQueueing(t, memory.New(memory.Options{}), p, 2, queueEvents(300, 20))
				checkLevels(t, byKey(answer, "out"), 300, 20, len(answer.Values("shelves.dlq")))
				if runner.Counts().Retries == 0 {
					t.Errorf("counts %+v", runner.Counts())
				}
			})
		})
	}
}

func TestRowsAreTheirFallbackWhileTheBreakerIsOpen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &shelf{instead: func() error { return &lookup.Error{Err: errors.New("connection refused")} }}
		p := shelfPipeline(s, func(l *steps.Lookup) {
			l.Call = &lang.Calling{Breaker: lang.Breaker{Failures: 1, Open: "fallback"}}
		})
		answer, _ := runQueueing(t, memory.New(memory.Options{}), p, 1, queueEvents(20, 20))
		for place, records := range answer {
			for i := range records {
				if place.Topic == "out" && (header.Get(&records[i], header.Fallback) != "row" || !strings.HasSuffix(string(records[i].Value), `"level":-1}`)) {
					t.Errorf("%s is marked as fallback of %q", records[i].Value, header.Get(&records[i], header.Fallback))
				}
			}
		}
		if n := len(answer.Values("out")); n != 20 {
			t.Errorf("%d outputs of 20 events", n)
		}
	})
}

// TestRecordedRowIsTheEventsOwn computes events again where only the journal is
// left, and the source says otherwise.
func TestRecordedRowIsTheEventsOwn(t *testing.T) {
	for _, by := range []string{"request", "event"} {
		synctest.Test(t, func(t *testing.T) {
			recorded := func(s *shelf) lang.Pipeline {
				p := shelfPipeline(s, func(l *steps.Lookup) {
					l.Batch.Size, l.Call, l.Journal = 7, &lang.Calling{Concurrency: 3}, &lang.Journal{By: by}
				})
				p.Input.Partitions = answerPartitions
				p.Steps[1].(*steps.Emit).Value = append(p.Steps[1].(*steps.Emit).Value, steps.Member{Name: "call", Expr: "row.call ?? 0"})
				return p
			}
			var events []stream.Record
			for i := range 200 {
				key := fmt.Sprint("k", i%40)
				events = append(events, row("in", key, fmt.Sprintf(`{"k":%q,"n":%d}`, key, i)))
			}
			first, again := &shelf{}, &shelf{}
			log, other := memory.New(memory.Options{}), memory.New(memory.Options{})
			answer, _ := runQueueing(t, log, recorded(first), 2, events)
			want := answer.Values("out")
			p := recorded(again)
			if err := newRunner(t, p, pipeline.Options{}).CreateTopics(t.Context(), other); err != nil {
				t.Fatal(err)
			}
			copyJournal(t, p, log, other)
			again.calls = make([][]string, 1000) // its rows have other numbers
			answer, _ = runQueueing(t, other, p, 2, events)
			got := answer.Values("out")
			slices.Sort(got)
			slices.Sort(want)
			if !slices.Equal(got, want) || len(got) != 200-2*5 {
				t.Errorf("recorded by %s: %d outputs, then %d others; first %q, then %q", by, len(want), len(got), want[:3], got[:min(3, len(got))])
			}
			for key, n := range again.asked {
				if key != "k3" { // to refuse is no answer
					t.Errorf("recorded by %s: %s was asked for again, %d times", by, key, n)
				}
			}
		})
	}
}

// TestSlowSourceIsInTime has each call take most of the timeout, and more of them
// than are made at a time.
func TestSlowSourceIsInTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &shelf{instead: func() error { time.Sleep(2 * time.Second); return nil }}
		p := shelfPipeline(s, func(l *steps.Lookup) { l.Key, l.Batch.Size = "n", 1 })
		answer, runner := runQueueing(t, memory.New(memory.Options{}), p, 1, queueEvents(300, 50))
		if c := runner.Counts(); len(answer.Values("out")) != 300 || c.Retries > 0 || c.Enqueued > 0 {
			t.Errorf("%d outputs, counts %+v", len(answer.Values("out")), c)
		}
	})
}

func TestKeyOfALookupOutsideMayBeAnInt(t *testing.T) {
	s := &shelf{}
	p := shelfPipeline(s, func(l *steps.Lookup) { l.Key, l.When = "n", "n > 4" })
	answer, _ := runQueueing(t, memory.New(memory.Options{}), p, 1, queueEvents(9, 9))
	got := answer.Values("out")
	slices.Sort(got)
	var want []string
	for n := 1; n <= 9; n++ {
		level := n
		if n <= 4 {
			level = -1
		}
		want = append(want, fmt.Sprintf(`{"n":%d,"level":%d}`, n, level))
	}
	if !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}

func TestWrongLookupsOutsideAreRefused(t *testing.T) {
	for why, change := range map[string]func(*steps.Lookup){
		"a lookup has one source of rows": func(l *steps.Lookup) { l.Table = "users" },
		"lookup.table: missing":           func(l *steps.Lookup) { l.Config = nil },
		"the lookup makes no calls":       func(l *steps.Lookup) { l.Config, l.Table, l.Cache.TTL = nil, "users", time.Second },
		"use 0 to 24h":                    func(l *steps.Lookup) { l.Cache.TTL = 48 * time.Hour },
		"out of range: use 1 to":          func(l *steps.Lookup) { l.Batch.Size = 5000 },
		"KeepBytes is -1":                 func(l *steps.Lookup) { l.Cache.Max = -1 },
		`unknown word "stop"`:             func(l *steps.Lookup) { l.Call = &lang.Calling{Breaker: lang.Breaker{Open: "stop"}} },
		"not one of the fields":           func(l *steps.Lookup) { l.Empty = []lang.Binding{{Name: "age", Expr: "1"}} },
		"name the key of the row":         func(l *steps.Lookup) { l.Key = "" },
		`unknown type "integer"`:          func(l *steps.Lookup) { l.Fields[0].Type = "integer" },
		`unknown name "customer"`:         func(l *steps.Lookup) { l.Key = "customer" },
		"write ordered: true":             nil,
		"the URL is not as redis:/":       func(l *steps.Lookup) { l.Config = &redis.Config{} },
		"shelf.url: it is on fire": func(l *steps.Lookup) {
			l.Config = &onShelf{Err: &lookup.Mistake{Field: "url", Err: errors.New("it is on fire")}}
		},
		"onShelf: an embedded struct": func(l *steps.Lookup) { l.Config = &struct{ onShelf }{} },
	} {
		p := shelfPipeline(&shelf{}, change)
		if why == "write ordered: true" {
			past := steps.Feature{Name: "past", Value: "row.level", Last: 3, Aggregates: []string{"max"}}
			p.Steps = append([]lang.Step{&steps.Features{List: []steps.Feature{past}}}, p.Steps...)
		}
		if _, err := builtin.New(p, pipeline.Options{}); err == nil || !strings.Contains(err.Error(), why) {
			t.Errorf("%s: %v", why, err)
		}
	}
}
