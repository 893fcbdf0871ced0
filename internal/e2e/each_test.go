package e2e_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/afterbay/afterbay/internal/event/header"
	"github.com/afterbay/afterbay/internal/lang"
	"github.com/afterbay/afterbay/internal/lang/steps"
	"github.com/afterbay/afterbay/internal/log/memory"
	"github.com/afterbay/afterbay/internal/pipeline"
	"github.com/afterbay/afterbay/internal/process/builtin"
	"github.com/afterbay/afterbay/internal/test/answers"
	"github.com/afterbay/afterbay/model"
	"github.com/afterbay/afterbay/stream"
	"github.com/afterbay/afterbay/stream/streamtest"
)

// eachPipeline asks a service about the elements of a list, at once, and emits the two
// greatest answers. Odd elements are not scored.
func eachPipeline(s *told, score steps.Score) lang.Pipeline {
	score.Model, score.Inputs, score.When = "far", []string{"base + n"}, "n % 2 == 0"
	score.Fallback = []lang.Binding{{Name: "twice", Expr: "-1.0"}}
	p := toldPipeline(s, score)
	p.Input.Fields = []lang.Field{{Name: "k", Type: "string"}, {Name: "base", Type: "int"}, {Name: "ns", Type: "int[]"}}
	p.Steps = []lang.Step{
		&steps.Each{In: "ns", As: "n", Max: 8, Steps: []lang.Step{
			&score, &steps.Let{List: []lang.Binding{{Name: "answer", Expr: "string(n) + \"=\" + string(far.twice)"}}},
		}, Gather: &steps.Gather{To: "best", Sort: "-far.twice", Top: 2, Value: steps.Member{Expr: "answer"}}},
		&steps.Emit{Topic: "out", Names: []string{"base", "best"}},
	}
	return p
}

// eachEvents are n events of one partition, each with elements 1 to 6 above one of so many
// bases.
func eachEvents(n, bases int) []stream.Record {
	events := queueEvents(n, 5)
	for i := range events {
		events[i].Partition.Index = 0
		events[i].Value = fmt.Appendf(nil, `{"k":%q,"base":%d,"ns":[1,2,3,4,5,6]}`, events[i].Key, i%bases*10)
	}
	return events
}

// checkEach compares what was written for events with so many bases.
func checkEach(t *testing.T, a answers.Answer, n, bases int) {
	t.Helper()
	counts := map[string]int{}
	for _, value := range a.Values("out") {
		counts[value]++
	}
	for i := range bases {
		want := fmt.Sprintf(`{"base":%d,"best":["6=%d","4=%d"]}`, 10*i, 2*(10*i+6), 2*(10*i+4))
		if counts[want] != n/bases {
			t.Fatalf("%s was written %d times of %d: %.300v", want, counts[want], n/bases, counts)
		}
	}
}

// TestElementsAreAskedForAtOnceAndOnce has events with lists wait for a service that is slow
// and fails, with commits and partitions lost. The journal has the answers of whole lists.
func TestElementsAreAskedForAtOnceAndOnce(t *testing.T) {
	const n, bases = 60, 6
	for seed := range min(6, *faultSeeds) {
		for _, async := range []bool{true, false} {
			synctest.Test(t, func(t *testing.T) {
				inner := memory.New(memory.Options{RebalanceTimeout: time.Second})
				faulty := streamtest.NewFaulty(inner, streamtest.FaultyOptions{Seed: seed})
				s := &told{info: model.Info{Kind: "remote"}}
				s.instead = func(call int, _ []float64) error {
					rng := rand.New(rand.NewPCG(seed, uint64(call)))
					time.Sleep(time.Duration(rng.Int64N(int64(50 * time.Millisecond))))
					if seed > 0 && rng.IntN(3) == 0 {
						return blamed(model.BlameWay)
					}
					return nil
				}
				p := eachPipeline(s, steps.Score{Async: async, Batch: steps.Batch{Size: 16}})
				p.Input.Partitions = 1
				runner, err := builtin.New(p, pipeline.Options{})
				if err != nil {
					t.Fatal(err)
				}
				var log stream.Log = inspected{faulty, inner}
				if seed == 0 {
					log = inner
				}
				answer, err := answers.RunAll(t.Context(), log, runner, eachEvents(n, bases))
				if err != nil {
					t.Fatalf("seed %d: %v", seed, err)
				}
				checkEach(t, answer, n, bases)
				for _, size := range s.sizes {
					if size%3 != 0 {
						t.Fatalf("seed %d: a request has %d rows, and each event asks for 3", seed, size)
					}
				}
				if seed == 0 && async {
					checkAskedOnce(t, &s.service, bases)
					if counts := runner.Snapshot().Counts; counts.Elements != 6*n {
						t.Errorf("%d elements are counted, want %d", counts.Elements, 6*n)
					}
				}
				if err := faulty.Close(); err != nil {
					t.Fatal(err)
				}
			})
		}
	}
}

// checkAskedOnce checks that each element of even number was asked for once.
func checkAskedOnce(t *testing.T, s *service, bases int) {
	t.Helper()
	if len(s.rows) != 3*bases {
		t.Errorf("%d elements were asked for, want %d: %v", len(s.rows), 3*bases, s.rows)
	}
	for row, asked := range s.rows {
		if asked != 1 {
			t.Errorf("%v was asked for %d times, want once", row, asked)
		}
	}
}

// TestElementAtFaultIsOneDeadLetter has the service fail over one element, in the place of
// events and off the loop.
func TestElementAtFaultIsOneDeadLetter(t *testing.T) {
	for _, async := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			s := &told{info: model.Info{Kind: "remote"}}
			s.instead = func(_ int, rows []float64) error {
				if slices.Contains(rows, 24) {
					return blamed(model.BlameRows)
				}
				return nil
			}
			p := eachPipeline(s, steps.Score{Async: async, Batch: steps.Batch{Size: 16}})
			p.Input.Partitions = 1
			answer, _ := runQueueing(t, memory.New(memory.Options{}), p, 1, eachEvents(10, 10))
			if outputs, dead := answer.Values("out"), answer.Values("parking.dlq"); len(outputs) != 9 || len(dead) != 1 {
				t.Fatalf("%d outputs and %d dead letters: %v", len(outputs), len(dead), outputs)
			}
			for p, records := range answer {
				if p.Topic == "parking.dlq" {
					if said := header.Get(&records[0], header.Error); !strings.Contains(said, "far@1: element 3: no answer") {
						t.Errorf("async %v: the dead letter says %q, and no element", async, said)
					}
				}
			}
		})
	}
}

// TestEachRefusesModelsThatNeedSeveralRequests has a service that takes fewer rows in a request
// than an event may have elements.
func TestEachRefusesModelsThatNeedSeveralRequests(t *testing.T) {
	s := &told{info: model.Info{Kind: "remote"}}
	_, err := builtin.New(eachPipeline(s, steps.Score{Batch: steps.Batch{Size: 4}}), pipeline.Options{})
	if want := "steps[0].each.steps[0].score: a call has 4 rows, but one call must score up to 8 elements"; err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("%v\nwant %q", err, want)
	}
	p := eachPipeline(s, steps.Score{})
	each := p.Steps[0].(*steps.Each)
	each.Steps = append([]lang.Step{&steps.Lookup{Name: "row", Table: "rows", Key: "k", Fields: []lang.Field{{Name: "x", Type: "number"}}}}, each.Steps...)
	_, err = builtin.New(p, pipeline.Options{})
	if want := "steps[0].each.steps: an event may wait for model far"; err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("%v\nwant %q", err, want)
	}
}

// BenchmarkRanking answers requests of 200 candidates with the best ten, by the 200 trees of the
// baseline. It reports CPU time of the whole process by request: a request is an iteration.
func BenchmarkRanking(b *testing.B) {
	p := baselinePipeline(b)
	p.Steps = append(p.Steps[:2:2], &steps.Each{
		In: "candidates", As: "item", Fields: []lang.Field{{Name: "sku", Type: "string"}, {Name: "price", Type: "number"}, {Name: "age", Type: "number"}},
		Steps:  []lang.Step{&steps.Score{Model: "fraud", Inputs: []string{"spend.*", "item.price", "gap", "item.age", "code"}}},
		Gather: &steps.Gather{To: "ranked", Sort: "-fraud.score", Top: 10, Value: steps.Member{Members: []steps.Member{{Name: "sku", Expr: "item.sku"}, {Name: "score", Expr: "fraud.score"}}}},
	}, &steps.Emit{Topic: "ranked", Names: []string{"event_id", "ranked"}})
	features := p.Steps[1].(*steps.Features)
	features.List = slices.DeleteFunc(features.List, func(f steps.Feature) bool { return f.Name == "past" })
	p.Input.Fields = append(p.Input.Fields, lang.Field{Name: "candidates", Type: "raw[]"})
	runner, err := builtin.New(p, pipeline.Options{})
	if err != nil {
		b.Fatal(err)
	}
	log := openLog(b, "embedded", b.TempDir())
	defer closeLog(b, log)
	if err := runner.CreateTopics(b.Context(), log); err != nil {
		b.Fatal(err)
	}
	for i := range b.N {
		if err := log.Append(b.Context(), rankingRequest(i)); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportAllocs()
	start := cpu(b)
	b.ResetTimer()
	runUntilIdle(b, runner, log)
	b.StopTimer()
	b.ReportMetric(float64((cpu(b)-start).Nanoseconds())/float64(b.N), "cpu-ns/request")
	if counts := runner.Snapshot().Counts; counts.Elements != 200*uint64(b.N) {
		b.Fatalf("%d elements of %d requests are counted", counts.Elements, b.N)
	}
}

// rankingRequest is a request of one of 1,000 users, with 200 candidates.
func rankingRequest(i int) stream.Record {
	user := fmt.Sprint("u", i%1000)
	value := fmt.Appendf(nil, `{"event_id":"e%d","user_id":%q,"ts":%d,"amount":%d.5,"country":"DE","channel":"app","device":"ios","candidates":[`, i, user, 1767225600000+i, i%90)
	for n := range 200 {
		if n > 0 {
			value = append(value, ',')
		}
		value = fmt.Appendf(value, `{"sku":"sku-%d","price":%d.25,"age":%d,"title":"candidate %d"}`, n, (i+n*37)%300, (i*7+n)%60, n)
	}
	return stream.Record{Partition: stream.Partition{Topic: "posts", Index: stream.ByKey}, Key: []byte(user), Value: append(value, "]}"...)}
}
