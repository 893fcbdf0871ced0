package task_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/afterbay/afterbay/internal/event/expression"
	"github.com/afterbay/afterbay/internal/event/header"
	"github.com/afterbay/afterbay/internal/event/value"
	"github.com/afterbay/afterbay/internal/state/deadletter"
	"github.com/afterbay/afterbay/internal/state/dedupe"
	"github.com/afterbay/afterbay/internal/task"
	"github.com/afterbay/afterbay/internal/task/operator"
	"github.com/afterbay/afterbay/model"
)

func TestEventsAreComputedInTheOrderOfTheLog(t *testing.T) {
	for _, chunk := range []int{0, 1, 2} {
		inLoop(t, func(l *loop) {
			l.options.ChunkEvents = chunk
			l.counting()
			l.put(l.let("twice", "v * 2"), l.emit(0, "k", "twice", "n"))
			l.run(at{key: "a", t: 1, v: 1}, at{key: "b", t: 1, v: 2}, at{key: "a", t: 2, v: 3}, at{key: "a", t: 70, v: 4}, at{key: "c", t: 1, v: 5, part: 1})
			l.wants("out", `{"k":"a","twice":2,"n":1}`, `{"k":"b","twice":4,"n":1}`, `{"k":"a","twice":6,"n":2}`, `{"k":"a","twice":8,"n":1}`, `{"k":"c","twice":10,"n":1}`)
			l.wants("dead")
			if n := l.metrics.Counts().Events; n != 5 {
				t.Errorf("%d events are counted", n)
			}
		})
	}
}

// TestEventsThatEndOnTheWay has events that are late, seen before, dropped, or cannot be read.
func TestEventsThatEndOnTheWay(t *testing.T) {
	for _, late := range []struct {
		policy     operator.LatePolicy
		out, aside []string
		dead       []string
	}{
		{operator.LateDead, []string{`{"v":1}`, `{"v":3}`}, nil, []string{"late", "decode", "let"}},
		{operator.LateDrop, []string{`{"v":1}`, `{"v":3}`}, nil, []string{"decode", "let"}},
		{operator.LateInclude, []string{`{"v":1}`, `{"v":2}`, `{"v":3}`}, nil, []string{"decode", "let"}},
		{operator.LateTopic, []string{`{"v":1}`, `{"v":3}`}, []string{`{"k":"a","t":5,"v":2}`}, []string{"decode", "let"}},
	} {
		inLoop(t, func(l *loop) {
			l.plan.Time.Late, l.plan.Time.Lateness = late.policy, 10*time.Second
			l.plan.Dedupe = &task.DedupePlan{Slot: l.of("v"), Spec: dedupe.Spec{Window: time.Hour, Max: 100}}
			route := &operator.Route{Slot: l.slot("\x00case", value.Type{Kind: value.Int}), Names: []string{"small", "large"}, When: []*expression.Program{l.program("v < 100"), nil}, Then: []operator.Then{operator.GoOn, operator.Drop}}
			l.early(route)
			l.put(l.let("inverse", "6 / (v - 4)"), l.emit(0, "v"))
			l.run(at{key: "a", t: 20, v: 1}, at{key: "a", t: 5, v: 2}, at{key: "a", t: 11, v: 3}, at{key: "b", t: 11, v: 1}, at{key: "a", t: 21, v: 100}, at{key: "a", raw: "{"}, at{key: "a", t: 23, v: 4})
			l.wants("out", late.out...)
			l.wants("late", late.aside...)
			var stages []string
			for _, r := range l.records("dead") {
				stages = append(stages, header.Get(&r, header.Stage))
			}
			if !slices.Equal(stages, late.dead) {
				t.Errorf("dead letters of %q, want %q", stages, late.dead)
			}
			counts := l.metrics.Counts()
			if dropped := counts.Dropped - counts.Late; counts.Late != 1 || counts.Duplicates != 1 || late.policy == operator.LateDrop && dropped != 1 || counts.Events != 7 {
				t.Errorf("%+v", counts)
			}
		})
	}
}

// TestLaterEventsOfAKeyKnowItsPredictions has a feature add up the scores of a key before
// each of its events: those of one key are asked in turns, those of others share a call.
func TestLaterEventsOfAKeyKnowItsPredictions(t *testing.T) {
	for _, waves := range []int{0, 2} {
		inLoop(t, func(l *loop) {
			m := &stub{answer: func(_ context.Context, v float64) (float32, error) { return float32(v + 1), nil }}
			l.plan.Feedback, l.options.KeyWaves = true, waves
			score := l.score(m, "v")
			read, add := l.count("past", "m.score", true)
			sum := l.let("sum", "past + v")
			score.Inputs[0] = sum.List[0].Slot
			l.put(operator.NewFeatures([]operator.Feature{read}), sum, score, operator.NewFeatures([]operator.Feature{add}), l.emit(0, "k", "past", "m.score"))
			l.run(at{key: "a", t: 1, v: 1}, at{key: "b", t: 1, v: 10}, at{key: "a", t: 1, v: 2}, at{key: "a", t: 1, v: 3})
			l.wants("out", `{"k":"a","past":0,"m.score":2}`, `{"k":"b","past":0,"m.score":11}`, `{"k":"a","past":2,"m.score":5}`, `{"k":"a","past":7,"m.score":11}`)
			want := [][]float64{{1, 10}, {4}, {10}}
			if !slices.EqualFunc(m.calls, want, slices.Equal) {
				t.Errorf("calls of %v, want %v", m.calls, want)
			}
		})
	}
}

func TestScoresOfAChunkShareCalls(t *testing.T) {
	inLoop(t, func(l *loop) {
		m := &stub{}
		score := l.score(m, "v")
		score.Size, score.When = 2, l.program("v != 3")
		score.Outputs[0].Type.Optional = true
		l.put(score, l.emit(0, "v"))
		l.run(at{key: "a", t: 1, v: 1}, at{key: "a", t: 1, v: 2}, at{key: "b", t: 1, v: 3}, at{key: "c", t: 1, v: 4, part: 1})
		l.wants("out", `{"v":1}`, `{"v":2}`, `{"v":3}`, `{"v":4}`)
		if n := len(m.calls); n != 2 {
			t.Errorf("%d calls of %v", n, m.calls)
		}
	})
}

// TestRowThatAModelRefuses makes one dead letter of a call of several events, and sends it back.
func TestRowThatAModelRefuses(t *testing.T) {
	inLoop(t, func(l *loop) {
		bad := true
		m := &stub{answer: func(_ context.Context, v float64) (float32, error) {
			if v == 2 && bad {
				return 0, errors.New("it is two")
			}
			return float32(v), nil
		}}
		l.counting()
		l.put(l.let("twice", "v * 2"), l.score(rowByRow{m}, "v"), l.emit(0, "k", "n", "twice", "m.score"))
		l.run(at{key: "a", t: 1, v: 1}, at{key: "a", t: 2, v: 2}, at{key: "b", t: 2, v: 3})
		l.wants("out", `{"k":"a","n":1,"twice":2,"m.score":1}`, `{"k":"b","n":1,"twice":6,"m.score":3}`)
		letters := l.records("dead")
		if len(letters) != 1 || header.Get(&letters[0], header.Stage) != "score" || !strings.Contains(header.Get(&letters[0], header.Error), "it is two") {
			t.Fatalf("%+v", letters)
		}
		bad = false
		l.append(again(t, letters[0]))
		l.start()
		l.pass(time.Second)
		l.wants("out", `{"k":"a","n":1,"twice":2,"m.score":1}`, `{"k":"b","n":1,"twice":6,"m.score":3}`, `{"k":"a","n":2,"twice":4,"m.score":2}`)
		out := l.records("out")
		if from, id := header.Get(&out[2], header.Position), header.Get(&out[2], header.ID); from != "in/0@1" || !strings.Contains(id, "in/0@1") {
			t.Errorf("the output is said to be of %s, under the id %s", from, id)
		}
	})
}

// rowByRow blames the rows that a stub fails for.
type rowByRow struct{ *stub }

func (m rowByRow) Predict(ctx context.Context, rows model.Rows, scores []float32) error {
	var failed model.RowErrors
	for i, v := range rows.Values {
		err := m.stub.Predict(ctx, model.Rows{Width: 1, Values: []float64{v}, N: 1}, scores[i:i+1])
		if err != nil {
			failed = append(failed, model.RowError{Row: i, Err: err})
		}
	}
	if failed == nil {
		return nil
	}
	return failed
}

func TestOutputThatIsTooLargeIsOwed(t *testing.T) {
	inLoop(t, func(l *loop) {
		l.options.OutputMaxBytes = 100
		l.counting()
		l.put(l.emit(0, "w"), l.emit(1, "k", "n"))
		l.run(at{key: "a", t: 1, w: strings.Repeat("x", 200)})
		l.wants("out", `{"k":"a","n":1}`)
		letters := l.records("dead")
		if len(letters) != 1 || header.Get(&letters[0], header.Stage) != "emit" || header.Get(&letters[0], header.Resume) != "only; emit out" {
			t.Fatalf("%v", letters)
		}
		l.options.OutputMaxBytes = 1000
		l.append(again(t, letters[0]))
		l.start()
		l.pass(time.Second)
		l.wants("out", `{"k":"a","n":1}`, `{"w":"`+strings.Repeat("x", 200)+`"}`)
	})
}

// TestElementThatIsTooLargeIsNotWrittenAgain has the record of the second element be too large,
// when features have counted its event and the record of the first one is written.
func TestElementThatIsTooLargeIsNotWrittenAgain(t *testing.T) {
	inLoop(t, func(l *loop) {
		l.options.OutputMaxBytes = 100
		l.counting()
		in := l.program(`split(w ?? "", ",")`)
		item := l.slot("item", value.Type{Kind: value.String})
		emit := l.emit(0, "item")
		emit.Key = &item
		l.put(operator.NewEach(operator.Each{Name: "list", In: in, Max: 2, Item: item, Emits: []*operator.Emit{emit}}))
		l.run(at{key: "a", t: 1, w: "small," + strings.Repeat("x", 200)})
		l.wants("out", `{"item":"small"}`)
		letters := l.records("dead")
		if len(letters) != 1 || header.Get(&letters[0], header.Stage) != "each" || header.Get(&letters[0], header.Resume) != "" {
			t.Fatalf("%v", letters)
		}
		if letter := deadletter.Read(letters[0]); letter.Refusal() == "" {
			t.Error("it can be sent back, which counts its event again")
		}
	})
}
