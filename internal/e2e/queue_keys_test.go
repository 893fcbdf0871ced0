package e2e_test

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/afterbay/afterbay/internal/lang"
	"github.com/afterbay/afterbay/internal/lang/steps"
	"github.com/afterbay/afterbay/internal/log/memory"
	"github.com/afterbay/afterbay/internal/pipeline"
	"github.com/afterbay/afterbay/internal/process/builtin"
	"github.com/afterbay/afterbay/model"
	"github.com/afterbay/afterbay/udf"
)

// unseen is a service whose model is one that a pipeline may name without `call`.
type unseen struct{ *service }

func (u unseen) Info() model.Info {
	info := u.service.Info()
	info.Kind = "remote"
	return info
}

// tally is a keyed function: it sets total to the sum of the last three numbers of a key.
var tally = udf.Function{Version: 1, Keyed: true, Event: func(c *udf.Context) error {
	n := c.Number("n")
	seen := strings.Fields(string(c.Get("seen")))
	seen = append(seen, strconv.FormatFloat(n, 'f', -1, 64))
	seen = seen[max(len(seen)-3, 0):]
	c.Put("seen", []byte(strings.Join(seen, " ")))
	total := 0.0
	for _, text := range seen {
		v, err := strconv.ParseFloat(text, 64)
		if err != nil {
			return err
		}
		total += v
	}
	c.SetNumber("total", total)
	return nil
}}

// keepers keep something of each key. All but the model give the sum of the last three
// numbers of a key as total.
func keepers() map[string][]lang.Step {
	sum := func(value string) *steps.Features {
		return &steps.Features{List: []steps.Feature{{Name: "past", Value: value, Last: 3, Aggregates: []string{"sum"}}}}
	}
	return map[string][]lang.Step{
		"call":     {&steps.Call{Go: "tally", Inputs: []string{"n"}, Outputs: []lang.Field{{Name: "total", Type: "number"}}}},
		"features": {sum("n"), &steps.Let{List: []lang.Binding{{Name: "total", Expr: "past.sum"}}}},
		"score":    {&steps.Score{Model: "fading", Inputs: []string{"n"}}, &steps.Let{List: []lang.Binding{{Name: "total", Expr: "fading.level"}}}},
	}
}

// totals are what keepers give for the numbers of a key in their order.
func totals(numbers []int) (list []string) {
	for i, n := range numbers {
		total := 0
		for _, m := range numbers[max(i-2, 0) : i+1] {
			total += m
		}
		list = append(list, fmt.Sprintf(`{"n":%d,"total":%d}`, n, total))
	}
	return list
}

// belowQueue returns a pipeline that keeps something of each key below a step that queues
// events.
func belowQueue(s *service, implied bool, given []lang.Step) lang.Pipeline {
	p := queueingPipeline(s, steps.Score{}, lang.Calling{Backoff: lang.Backoff{Base: time.Second, Max: time.Minute}, Breaker: lang.Breaker{Failures: 1000}})
	p.Code.Models["fading"] = fading{"one"}
	p.Code.Functions = map[string]udf.Function{"tally": tally}
	p.Models = append(p.Models, lang.Model{Name: "fading", Go: "fading", Version: 1, Outputs: []lang.Field{{Name: "level", Type: "number"}}})
	if implied {
		p.Models[0].Call, p.Code.Models["far"] = nil, unseen{s}
	}
	p.Steps = append(append(p.Steps[:1:1], given...), &steps.Emit{Topic: "out", Value: []steps.Member{{Name: "n", Expr: "n"}, {Name: "total", Expr: "total"}}})
	return p
}

// flaky fails every third call, by the fault of the service.
func flaky(call int, _ []float64) error {
	if call%3 == 0 {
		return blamed(model.BlameWay)
	}
	time.Sleep(time.Duration(call%5) * time.Millisecond)
	return nil
}

// TestWhatIsKeptOfKeysIsInTheirOrderBelowAQueue has calls fail, so that events are queued
// while later ones of their key go on. What is kept of a key below that step is then of its
// events in their order, or the pipeline is refused.
func TestWhatIsKeptOfKeysIsInTheirOrderBelowAQueue(t *testing.T) {
	for keeper, given := range keepers() {
		for _, implied := range []bool{false, true} {
			p := belowQueue(&service{}, implied, given)
			path := map[string]string{"call": "steps[1].call: ", "features": "steps[1].features.past: ", "score": "steps[1].score.model: "}[keeper]
			hint := "ordered: true at steps[0].score"
			if keeper == "score" {
				hint = "write this step above it"
			}
			_, err := builtin.New(p, pipeline.Options{})
			if err == nil || !strings.HasPrefix(err.Error(), path) || !strings.Contains(err.Error(), hint) {
				t.Errorf("%s without ordered, implied %t: %v", keeper, implied, err)
			}
			p.Steps[0].(*steps.Score).Ordered = true
			_, err = builtin.New(p, pipeline.Options{})
			if want := "has timers, which do not wait"; keeper == "score" && (err == nil || !strings.HasPrefix(err.Error(), path) || !strings.Contains(err.Error(), want)) {
				t.Errorf("%s with ordered: %v", keeper, err)
			}
			if keeper == "score" {
				continue
			}
			if err != nil {
				t.Fatal(err)
			}
			synctest.Test(t, func(t *testing.T) { keptInOrder(t, belowQueue(&service{instead: flaky}, implied, given)) })
		}
	}
}

// keptInOrder runs a pipeline whose queue is ordered, and compares the totals of keys.
func keptInOrder(t *testing.T, p lang.Pipeline) {
	t.Helper()
	p.Steps[0].(*steps.Score).Ordered = true
	p.Commit.Size = 20
	events := queueEvents(300, 5)
	answer, runner := runQueueing(t, memory.New(memory.Options{}), p, 1, events)
	if runner.Counts().Enqueued == 0 {
		t.Error("nothing was queued")
	}
	numbers, got := map[string][]int{}, byKey(answer, "out")
	for i, e := range events {
		numbers[string(e.Key)] = append(numbers[string(e.Key)], i+1)
	}
	for key := range numbers {
		if want := totals(numbers[key]); !slices.Equal(got[key], want) {
			t.Errorf("key %s: %d outputs %.300v\nwant %d %.300v", key, len(got[key]), got[key], len(want), want)
		}
	}
}
