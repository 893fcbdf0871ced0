package e2e_test

import (
	"context"
	"encoding/binary"
	"fmt"
	"testing"
	"time"

	"github.com/afterbay/afterbay/internal/lang"
	"github.com/afterbay/afterbay/internal/lang/steps"
	"github.com/afterbay/afterbay/internal/log/memory"
	"github.com/afterbay/afterbay/internal/pipeline"
	"github.com/afterbay/afterbay/internal/process/builtin"
	"github.com/afterbay/afterbay/internal/test/answers"
	"github.com/afterbay/afterbay/stream"
	"github.com/afterbay/afterbay/udf"
)

// visits counts the clicks of a visit, which ends with 30 s of silence.
var visits = udf.Function{
	Version: 1, Keyed: true,
	Event: func(c *udf.Context) error {
		var n [8]byte
		copy(n[:], c.Get("clicks"))
		clicks := binary.BigEndian.Uint64(n[:]) + 1
		c.Put("clicks", binary.BigEndian.AppendUint64(nil, clicks))
		c.SetTimer("end", c.Time.Add(30*time.Second))
		c.SetInt("clicks", int64(clicks))
		return nil
	},
	Timer: func(c *udf.Context) error {
		c.Emit(udf.Output{Topic: "visits", Value: fmt.Appendf(nil, `{"user":%q,"clicks":%d}`, c.Key, binary.BigEndian.Uint64(c.Get("clicks")))})
		c.Put("clicks", nil)
		return nil
	},
}

func visitPipeline() lang.Pipeline {
	return lang.Pipeline{
		Name: "visits",
		Input: lang.Input{
			Topic: "clicks", Key: "user", Partitions: 1, Time: lang.EventTime{Field: "at", Unit: "s", Late: "include"},
			Fields: []lang.Field{{Name: "user", Type: "string"}, {Name: "at", Type: "int"}},
		},
		Steps: []lang.Step{
			&steps.Call{Go: "visits", Outputs: []lang.Field{{Name: "clicks", Type: "int"}}, Topics: []string{"visits"}},
			&steps.Emit{Topic: "counted", Names: []string{"user", "clicks"}},
		},
		Code: lang.Code{Functions: map[string]udf.Function{"visits": visits}},
	}
}

func click(user string, at int) stream.Record {
	return stream.Record{
		Partition: stream.Partition{Topic: "clicks", Index: stream.ByKey}, Time: time.Unix(int64(at), 0),
		Key: []byte(user), Value: fmt.Appendf(nil, `{"user":%q,"at":%d}`, user, at),
	}
}

// A step in Go keeps state by key and sets timers of event time: here it ends a
// visit after 30 s without a click.
func Example_customStep() {
	ctx := context.Background()
	log := memory.New(memory.Options{})
	runner, err := builtin.New(visitPipeline(), pipeline.Options{})
	if err != nil {
		panic(err)
	}
	answer, err := answers.RunAll(ctx, log, runner, []stream.Record{
		click("ann", 100), click("ann", 110), click("bob", 120), click("ann", 150), click("bob", 200),
	})
	if err != nil {
		panic(err)
	}
	for _, topic := range []string{"counted", "visits"} {
		for _, value := range answer.Values(topic) {
			fmt.Println(topic, value)
		}
	}
	fmt.Println(log.Close())
	// Output:
	// counted {"user":"ann","clicks":1}
	// counted {"user":"ann","clicks":2}
	// counted {"user":"bob","clicks":1}
	// counted {"user":"ann","clicks":1}
	// counted {"user":"bob","clicks":1}
	// visits {"user":"ann","clicks":2}
	// visits {"user":"bob","clicks":1}
	// visits {"user":"ann","clicks":1}
	// <nil>
}

// TestFunctionsLeaveTheSameAnswerUnderFaults is how a program tests a pipeline
// with steps of its own.
func TestFunctionsLeaveTheSameAnswerUnderFaults(t *testing.T) {
	var events []stream.Record
	for i := range 400 {
		events = append(events, click(fmt.Sprint("user-", i*i%17), 1000+i*3))
	}
	answers.SameAnswer(t,
		func() stream.Log { return memory.New(memory.Options{RebalanceTimeout: time.Second}) },
		func() (answers.Runner, error) {
			p := visitPipeline()
			p.Input.Partitions, p.Commit.Size = 4, 10
			return builtin.New(p, pipeline.Options{Members: 3, Keys: 3})
		}, events, seedsOf(20))
}

// TestTimersOfAKeyFireInTheOrderOfTheirTimes has a timer that sets itself again: it is
// called as often as it is due before another one, and not after that, in however many steps
// time moves on.
func TestTimersOfAKeyFireInTheOrderOfTheirTimes(t *testing.T) {
	p := visitPipeline()
	p.Code.Functions = map[string]udf.Function{"visits": {
		Version: 1, Keyed: true,
		Event: func(c *udf.Context) error {
			if c.Key == "ann" {
				c.SetTimer("tick", c.Time.Add(10*time.Second))
				c.SetTimer("end", c.Time.Add(100*time.Second))
			}
			c.SetInt("clicks", 1)
			return nil
		},
		Timer: func(c *udf.Context) error {
			c.Emit(udf.Output{Topic: "visits", Value: fmt.Appendf(nil, "%s at %d", c.Timer, c.Time.Unix())})
			if c.Timer == "tick" {
				c.SetTimer("tick", c.Time.Add(10*time.Second))
			} else {
				c.StopTimer("tick")
			}
			return nil
		},
	}}
	for _, size := range []int{1, 2, 100} { // events of a step: the order does not depend on it
		p.Commit.Size = size
		runner, err := builtin.New(p, pipeline.Options{})
		if err != nil {
			t.Fatal(err)
		}
		log := memory.New(memory.Options{})
		answer, err := answers.RunAll(t.Context(), log, runner, []stream.Record{
			click("ann", 100), click("bob", 1000), click("bob", 1001), click("bob", 1002),
		})
		if err != nil {
			t.Fatal(err)
		}
		if got, want := fmt.Sprint(answer.Values("visits")), "[tick at 110 tick at 120 tick at 130 tick at 140 tick at 150 tick at 160 tick at 170 tick at 180 tick at 190 end at 200]"; got != want {
			t.Errorf("steps of %d: %s, want %s", size, got, want)
		}
		closeLog(t, log)
	}
}
