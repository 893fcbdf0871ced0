package e2e_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/afterbay/afterbay/internal/lang"
	"github.com/afterbay/afterbay/internal/lang/steps"
	"github.com/afterbay/afterbay/internal/log/memory"
	"github.com/afterbay/afterbay/internal/models/voice"
	"github.com/afterbay/afterbay/internal/pipeline"
	"github.com/afterbay/afterbay/internal/process/builtin"
	"github.com/afterbay/afterbay/internal/state/journal"
	"github.com/afterbay/afterbay/internal/state/statekey"
	"github.com/afterbay/afterbay/model"
	"github.com/afterbay/afterbay/stream"
)

// told is a service that is of a kind, and notes what it is told of its calls.
type told struct {
	service
	info model.Info

	mu     sync.Mutex
	events []string // of calls that say whose they are
	sizes  []int
}

func (s *told) Info() model.Info {
	info := s.service.Info()
	info.Kind, info.Generative, info.Request, info.Timeout = s.info.Kind, s.info.Generative, s.info.Request, s.info.Timeout
	return info
}

func (s *told) Predict(ctx context.Context, rows model.Rows, scores []float32) error {
	s.mu.Lock()
	if call := model.CallOf(ctx); call.Once {
		s.events = append(s.events, call.Event)
	}
	s.sizes = append(s.sizes, rows.Len())
	s.mu.Unlock()
	return s.service.Predict(ctx, rows, scores)
}

// toldPipeline asks the service about each event, as a pipeline does that says no
// more of the model.
func toldPipeline(s *told, score steps.Score) lang.Pipeline {
	p := queueingPipeline(&s.service, score, lang.Calling{})
	p.Models[0].Call = nil
	p.Code.Models["far"] = s
	return p
}

// sameEvents are n events of one partition that ask questions.
func sameEvents(n, questions int) []stream.Record {
	events := queueEvents(n, 10)
	for i := range events {
		events[i].Partition.Index = 0
		events[i].Value = fmt.Appendf(nil, `{"k":%q,"n":%d}`, events[i].Key, i%questions+1)
	}
	return events
}

func TestModelOfKindRemoteThatIsDownPausesItsPipeline(t *testing.T) {
	for _, kind := range []string{"remote", "process"} {
		synctest.Test(t, func(t *testing.T) {
			start := time.Now()
			s := &told{info: model.Info{Kind: kind}}
			s.instead = func(int, []float64) error {
				if time.Since(start) < time.Minute {
					return blamed(model.BlameWay)
				}
				return nil
			}
			answer, _ := runQueueing(t, memory.New(memory.Options{}), toldPipeline(s, steps.Score{}), 1, queueEvents(300, 10))
			checkOutputs(t, answer, 300, 10, false)
		})
	}
}

func TestFeaturesOfScoresOfAModelThatMayBeDownAreInOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &told{info: model.Info{Kind: "remote"}}
		s.instead = func(call int, _ []float64) error {
			if call%3 == 0 {
				return blamed(model.BlameWay)
			}
			return nil
		}
		past := &steps.Features{List: []steps.Feature{{Name: "past", Value: "far.twice", Last: 3, Aggregates: []string{"sum"}}}}
		p := toldPipeline(s, steps.Score{})
		p.Steps = append([]lang.Step{past}, p.Steps...)
		answer, _ := runQueueing(t, memory.New(memory.Options{}), p, 1, queueEvents(100, 10))
		checkOutputs(t, answer, 100, 10, true)
	})
}

// TestAnswersAreKeptByDefaultWhereEventsAreQueued asks 50 questions 200 times.
func TestAnswersAreKeptByDefaultWhereEventsAreQueued(t *testing.T) {
	for name, c := range map[string]struct {
		info    model.Info
		journal *lang.Journal
		async   bool
		want    int // rows that are asked for
		alone   bool
		told    bool
		each    bool // the calls are told of all events
	}{
		"remote":               {info: model.Info{Kind: "remote"}, async: true, want: 50, told: true},
		"process":              {info: model.Info{Kind: "process"}, async: true, want: 50, told: true},
		"generative":           {info: model.Info{Kind: "remote", Generative: true}, async: true, want: 200, alone: true, told: true},
		"generative, written":  {info: model.Info{Kind: "remote", Generative: true}, journal: &lang.Journal{By: "request"}, want: 50, told: true},
		"in place":             {info: model.Info{Kind: "remote"}, want: 200},
		"in place, but true":   {info: model.Info{Kind: "remote"}, journal: &lang.Journal{}, want: 50, told: true},
		"off":                  {info: model.Info{Kind: "remote"}, journal: &lang.Journal{Off: true}, async: true, want: 200},
		"another kind":         {info: model.Info{Kind: "else"}, async: true, want: 200},
		"another kind, by you": {info: model.Info{Kind: "else"}, journal: &lang.Journal{By: "event"}, want: 200, told: true, each: true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := &told{info: c.info}
				p := toldPipeline(s, steps.Score{Async: c.async, Batch: steps.Batch{Size: 4}})
				p.Input.Partitions, p.Models[0].Journal = 1, c.journal
				answer, _ := runQueueing(t, memory.New(memory.Options{}), p, 1, sameEvents(200, 50))
				rows := 0
				for _, size := range s.sizes {
					rows += size
				}
				if outputs := len(answer.Values("out")); outputs != 200 || rows != c.want {
					t.Errorf("%d rows were asked for, want %d; %d outputs", rows, c.want, outputs)
				}
				if alone := slices.Max(s.sizes) == 1; alone != c.alone {
					t.Errorf("calls are of up to %d rows", slices.Max(s.sizes))
				}
				slices.Sort(s.events)
				if ids := slices.Compact(slices.Clone(s.events)); (len(s.events) > 0) != c.told || c.alone && (len(ids) != 200 || ids[0] == "") || c.each && len(ids) != len(s.sizes) || !c.alone && !c.each && len(ids) > 1 {
					t.Errorf("%d calls were told of %d events: %.100v", len(s.events), len(ids), ids)
				}
			})
		})
	}
}

// TestAnswersToOtherRequestsAreOthers runs a pipeline over a log twice, of which
// the second asks what the first did, in another way: of a service, or of a model that a
// manifest describes in another way.
func TestAnswersToOtherRequestsAreOthers(t *testing.T) {
	for _, c := range []struct {
		request string
		seconds int // of the manifest
		want    int
	}{{"one", 60, 0}, {"two", 60, 50}, {"one", 30, 50}} {
		synctest.Test(t, func(t *testing.T) {
			log, asked, want := memory.New(memory.Options{}), 0, c.want
			for i := range 2 {
				request, seconds := "one", 60
				if i == 1 {
					request, seconds = c.request, c.seconds
				}
				s := &told{info: model.Info{Kind: "remote", Request: request}}
				p := toldPipeline(s, steps.Score{Async: true})
				p.Models[0].Manifest = &model.Manifest{Kind: "voice", Config: &voice.Config{Seconds: seconds}}
				p.Input.Partitions, p.Models[0].Journal = 1, &lang.Journal{Price: 0.25}
				runQueueing(t, log, p, 1, sameEvents(200, 50))
				asked = len(s.rows)
			}
			if asked != want {
				t.Errorf("%d questions were asked again, want %d", asked, want)
			}
			view, err := log.State(t.Context(), "parking", stream.Partition{Topic: "in"})
			if err != nil {
				t.Fatal(err)
			}
			head, err := view.Get([]byte{statekey.JournalHead})
			if err != nil {
				t.Fatal(err)
			}
			if stats, err := journal.ReadStats(head); err != nil || stats.Models[0].Price != 0.25 || stats.Models[0].Hits+stats.Models[0].Calls != 400 {
				t.Errorf("%+v, %v", stats, err)
			}
		})
	}
}

// TestLateAnswerIsRefusedAndKept has the first calls take longer than they may,
// and bring an answer all the same.
func TestLateAnswerIsRefusedAndKept(t *testing.T) {
	for _, c := range []struct {
		journal *lang.Journal
		async   bool
		again   bool
	}{{&lang.Journal{}, true, false}, {&lang.Journal{Off: true}, true, true}, {&lang.Journal{Off: true}, false, true}} {
		synctest.Test(t, func(t *testing.T) {
			s := &told{info: model.Info{Kind: "remote", Timeout: time.Second}}
			s.instead = func(call int, _ []float64) error {
				if call <= 2 {
					time.Sleep(2 * time.Second)
				}
				return nil
			}
			p := toldPipeline(s, steps.Score{Async: c.async, Batch: steps.Batch{Size: 2}})
			p.Code.Models["far"] = late{s}
			p.Models[0].Journal = c.journal
			answer, _ := runQueueing(t, memory.New(memory.Options{}), p, 1, queueEvents(10, 3))
			checkOutputs(t, answer, 10, 3, false)
			twice := 0
			for _, n := range s.rows {
				twice += n - 1
			}
			if (twice > 0) != c.again {
				t.Errorf("%+v: %d rows were asked for again", c, twice)
			}
		})
	}
}

// late is a service that does not hear that its time is over.
type late struct{ *told }

func (l late) Predict(ctx context.Context, rows model.Rows, scores []float32) error {
	return l.told.Predict(context.WithoutCancel(ctx), rows, scores)
}

func TestJournalSaysWhatIsWrong(t *testing.T) {
	for want, j := range map[string]*lang.Journal{
		`models.far.journal.by: unknown word "day": use request or event`: {By: "day"},
		`models.far.journal.price: -1 is not a price`:                     {Price: -1},
		`models.far.journal: retention is -1ns`:                           {Retention: -1},
		`models.far.journal: 1 bytes of answers`:                          {Max: 1},
	} {
		p := toldPipeline(&told{}, steps.Score{})
		p.Models[0].Journal = j
		if _, err := builtin.New(p, pipeline.Options{}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v\nwant %q", err, want)
		}
	}
}
