package e2e_test

import (
	"context"
	"encoding/binary"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/afterbay/afterbay/internal/lang"
	"github.com/afterbay/afterbay/internal/lang/steps"
	"github.com/afterbay/afterbay/internal/log/memory"
	"github.com/afterbay/afterbay/internal/pipeline"
	"github.com/afterbay/afterbay/internal/process/builtin"
	"github.com/afterbay/afterbay/internal/test/answers"
	"github.com/afterbay/afterbay/model"
	"github.com/afterbay/afterbay/stream"
)

// fading is a model with state: the sum of the key's values, each worth half at
// the next, and how many there were. It refuses 13.
type fading struct{ digest string }

func (m fading) Info() model.Info {
	return model.Info{
		Kind: "fading", Digest: m.digest, State: 2,
		Inputs:  append(model.Numbers(1), model.Input{Name: "state", Type: model.Bytes}),
		Outputs: []model.Output{{Name: "level", Size: 1}, {Name: "state", Size: 2}},
	}
}

func (m fading) Check(_ []float64, bytes [][]byte) error {
	if n := len(bytes[0]); n != 0 && n != 8 {
		return fmt.Errorf("a state of %d bytes", n)
	}
	return nil
}

func (m fading) Predict(_ context.Context, rows model.Rows, scores []float32) error {
	for i := range rows.Len() {
		values, bytes := rows.Row(i)
		if values[0] == 13 {
			return fmt.Errorf("%v is refused", values[0])
		}
		var level, count float32
		if state := bytes[0]; state != nil {
			level = math.Float32frombits(binary.LittleEndian.Uint32(state))
			count = math.Float32frombits(binary.LittleEndian.Uint32(state[4:]))
		}
		level = level/2 + float32(values[0])
		copy(scores[3*i:], []float32{level, level, count + 1})
	}
	return nil
}

func fadingPipeline(digest string) lang.Pipeline {
	return lang.Pipeline{
		Name: "levels",
		Input: lang.Input{
			Topic: "clicks", Key: "user", Partitions: 1, Time: lang.EventTime{Field: "at", Unit: "s", Late: "include"},
			Fields: []lang.Field{{Name: "user", Type: "string"}, {Name: "at", Type: "int"}},
		},
		Models: []lang.Model{{Name: "fading", Go: "fading", Version: 1, Outputs: []lang.Field{{Name: "level", Type: "number"}}}},
		Steps: []lang.Step{
			&steps.Score{Model: "fading", Inputs: []string{"at"}},
			&steps.Emit{Topic: "levels", Names: []string{"user", "at", "fading.level"}},
		},
		Code: lang.Code{Models: map[string]model.Model{"fading": fading{digest}}},
	}
}

func levels(t *testing.T, log stream.Log, p lang.Pipeline, events ...stream.Record) []string {
	t.Helper()
	runner, err := builtin.New(p, pipeline.Options{})
	if err != nil {
		t.Fatal(err)
	}
	answer, err := answers.RunAll(t.Context(), log, runner, events)
	if err != nil {
		t.Fatal(err)
	}
	var list []string
	for _, value := range answer.Values("levels") {
		var user string
		var at int
		var level float64
		if _, err := fmt.Sscanf(strings.NewReplacer(`"`, " ", ":", " ", ",", " ", "}", " ").Replace(value), "{ user %s at %d fading_level %g", &user, &at, &level); err != nil {
			t.Fatalf("%s: %v", value, err)
		}
		list = append(list, fmt.Sprintf("%s %d=%.0f", user, at, level))
	}
	return list
}

func TestModelsStateIsThatOfTheKey(t *testing.T) {
	const month = 30 * 24 * 3600 // seconds
	log := memory.New(memory.Options{})
	want := []string{"ann 16=16", "ann 8=16", "bob 100=100", "ann 2=10", "bob 10=60", "dot 40=40", "dot 20=40", "dot 2592030=2592050", "cid 7776000=7776000", "ann 7776000=7776000"}
	got := levels(t, log, fadingPipeline("one"),
		click("ann", 16), click("ann", 8), click("bob", 100), click("ann", 13), click("ann", 2), click("bob", 10),
		click("dot", 40), click("dot", 20), click("dot", month+30), // kept from the latest of its times on
		click("cid", 3*month), click("ann", 3*month)) // she was silent for long: nothing is left
	if !slices.Equal(got, want) {
		t.Errorf("%v, expected %v", got, want)
	}
	got = levels(t, log, fadingPipeline("one"), click("bob", 3*month+4), click("cid", 3*month))[len(want):]
	if want := []string{"bob 7776004=7776004", "cid 7776000=11664000"}; !slices.Equal(got, want) {
		t.Errorf("after a restart %v, expected %v", got, want)
	}
	got = levels(t, log, fadingPipeline("two"), click("cid", 3*month))[len(want)+2:]
	if want := []string{"cid 7776000=7776000"}; !slices.Equal(got, want) {
		t.Errorf("another model got the state of the one before: %v, expected %v", got, want)
	}
}

func TestModelsStateLeavesTheSameAnswerUnderFaults(t *testing.T) {
	var events []stream.Record
	for i := range 400 {
		events = append(events, click(fmt.Sprint("user-", i*i%17), 1000+i*3))
	}
	answers.SameAnswer(t,
		func() stream.Log { return memory.New(memory.Options{RebalanceTimeout: time.Second}) },
		func() (answers.Runner, error) {
			p := fadingPipeline("one")
			p.Input.Partitions, p.Commit.Size = 4, 10
			return builtin.New(p, pipeline.Options{Members: 3, Keys: 3})
		}, events, seedsOf(20))
}
