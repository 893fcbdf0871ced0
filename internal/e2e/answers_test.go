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
	"github.com/afterbay/afterbay/internal/models/calling"
	"github.com/afterbay/afterbay/internal/pipeline"
	"github.com/afterbay/afterbay/internal/process/builtin"
	"github.com/afterbay/afterbay/model"
	"github.com/afterbay/afterbay/stream"
)

// writer is a model that answers a text with two texts, a vector and a score. It
// has nothing to add to a short one, and no word for "mute".
type writer struct{}

func (writer) Info() model.Info {
	return model.Info{
		Kind: "writer", Digest: strings.Repeat("1", 64), Remote: true, Inputs: []model.Input{{Name: "text", Type: model.String}},
		Outputs: []model.Output{{Name: "words", Size: 1, Type: model.String}, {Name: "vector", Size: 3}, {Name: "more", Size: 1, Type: model.Bytes}, {Name: "length", Size: 1}},
	}
}

func (writer) Check([]float64, [][]byte) error { return nil }

func (writer) Predict(context.Context, model.Rows, []float32) error { return calling.ErrTexts }

func (writer) Answer(_ context.Context, rows model.Rows, scores []float32, texts [][]byte) error {
	for i := range rows.Len() {
		_, bytes := rows.Row(i)
		text := string(bytes[0])
		copy(scores[4*i:], []float32{0.1, -2.5, 1e-7, float32(len(text))})
		if text != "mute" {
			texts[2*i] = []byte(strings.ToUpper(text))
		}
		if len(text) > 4 {
			texts[2*i+1] = []byte{0, 1, 2}
		}
	}
	return nil
}

// summed is a model of a vector: the sum of its numbers.
type summed struct{}

func (summed) Info() model.Info {
	return model.Info{Kind: "summed", Inputs: []model.Input{{Name: "v", Type: model.Number, Shape: []int{3}}}, Outputs: []model.Output{{Name: "sum", Size: 1}}}
}

func (summed) Check([]float64, [][]byte) error { return nil }

func (summed) Predict(_ context.Context, rows model.Rows, scores []float32) error {
	for i := range rows.Len() {
		scores[i] = 0
		for _, v := range rows.Values[3*i : 3*i+3] {
			scores[i] += float32(v)
		}
	}
	return nil
}

var writerOutputs = []lang.Field{{Name: "words", Type: "string"}, {Name: "vector", Type: "number[3]"}, {Name: "more", Type: "optional bytes"}, {Name: "length", Type: "number"}}

func writerPipeline(score steps.Score, call *lang.Calling, outputs []lang.Field) lang.Pipeline {
	score.Model, score.Inputs = "writer", []string{"text"}
	return lang.Pipeline{
		Name:  "writing",
		Input: lang.Input{Topic: "in", Partitions: 1, Key: "k", Fields: []lang.Field{{Name: "k", Type: "string"}, {Name: "text", Type: "string"}}},
		Models: []lang.Model{
			{Name: "writer", Go: "writer", Version: 1, Outputs: outputs, Call: call},
			{Name: "summed", Go: "summed", Version: 1, Outputs: []lang.Field{{Name: "sum", Type: "number"}}},
		},
		Steps: []lang.Step{
			&score,
			&steps.Score{Model: "summed", Inputs: []string{"writer.vector"}},
			&steps.Let{List: []lang.Binding{{Name: "loud", Expr: `writer.words + "!"`}}},
			&steps.Emit{Topic: "out", Names: []string{"loud", "writer.*", "summed.sum"}},
		},
		Code: lang.Code{Models: map[string]model.Model{"writer": writer{}, "summed": summed{}}},
	}
}

func writerEvents(texts ...string) (events []stream.Record) {
	for i, text := range texts {
		events = append(events, stream.Record{Partition: stream.Partition{Topic: "in"}, Key: []byte(fmt.Sprint("k", i)), Value: fmt.Appendf(nil, `{"k":"k%d","text":%q}`, i, text)})
	}
	return events
}

// Whatever way a model is called, its texts and vectors are values as scores are.
func TestModelAnswersWithTextsAndVectors(t *testing.T) {
	hello := `{"loud":"HELLO!","writer_words":"HELLO","writer_vector":[0.1,-2.5,1e-7],"writer_more":"AAEC","writer_length":5,"summed_sum":-2.4000000953674316}`
	want := []string{hello, hello, `{"loud":"HO!","writer_words":"HO","writer_vector":[0.1,-2.5,1e-7],"writer_more":null,"writer_length":2,"summed_sum":-2.4000000953674316}`}
	for name, c := range map[string]struct {
		score   steps.Score
		call    *lang.Calling
		journal *lang.Journal
	}{
		"at once":         {},
		"in shared calls": {score: steps.Score{Batch: steps.Batch{Size: 2, Wait: time.Millisecond}}},
		"by calls":        {call: &lang.Calling{}},
		"off the loop":    {score: steps.Score{Async: true}},
		"journalled":      {journal: &lang.Journal{}},
		"in order":        {score: steps.Score{Ordered: true}, journal: &lang.Journal{By: "event"}},
	} {
		p := writerPipeline(c.score, c.call, writerOutputs)
		for i := range p.Models {
			p.Models[i].Journal = c.journal
		}
		answer, _ := runQueueing(t, memory.New(memory.Options{}), p, 1, writerEvents("hello", "ho", "mute", "hello"))
		values := answer.Values("out")
		slices.Sort(values)
		if !slices.Equal(values, want) {
			t.Errorf("%s: %s", name, values)
		}
		if dead := answer.Values("writing.dlq"); len(dead) != 1 || !strings.Contains(fmt.Sprint(dead), "mute") {
			t.Errorf("%s: dead letters %v", name, dead)
		}
	}
}

func TestOutputsThatTheModelHasNotAreRefused(t *testing.T) {
	for _, c := range []struct {
		outputs []lang.Field
		want    string
	}{
		{writerOutputs[1:], "models.writer.outputs: the model answers with 2 texts, 1 are named"},
		{writerOutputs[:3], "models.writer.outputs: the model has 4 outputs, 3 are named"},
		{append([]lang.Field{{Name: "a", Type: "int"}}, writerOutputs...), `models.writer.outputs.a: type "int": the output of a model is a number, number[384], string or bytes`},
		{[]lang.Field{{Name: "a", Type: "number[03]"}}, `models.writer.outputs.a: type "number[03]": write number[384] for that many numbers`},
		{[]lang.Field{{Name: "a", Type: "optional number"}}, `models.writer.outputs.a: type "optional number": scores are there`},
	} {
		_, err := builtin.New(writerPipeline(steps.Score{}, nil, c.outputs), pipeline.Options{})
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%v, want %s", err, c.want)
		}
	}
}

// A vector keeps its length wherever an expression takes it.
func TestVectorsOfOtherLengthsDoNotMix(t *testing.T) {
	for source, want := range map[string]string{
		`text == "a" ? writer.vector : other`: "the branches of ?: have two types, number[3] and number[2]",
		`writer.vector == writer.vector`:      "== does not compare lists",
		`string(writer.vector)`:               "",
		`len(writer.vector)`:                  "len takes a string, bytes, a list or a map, not numbers",
	} {
		p := writerPipeline(steps.Score{}, nil, writerOutputs)
		p.Input.Fields = append(p.Input.Fields, lang.Field{Name: "other", Type: "number[2]"})
		p.Steps[2].(*steps.Let).List[0].Expr = source
		if _, err := builtin.New(p, pipeline.Options{}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", source, err, want)
		}
	}
}

// talker answers with words, one each 100 ms. It breaks off the first call about
// "again" in the middle, is slow at the first about "deaf", whoever
// still listens, and refuses "never" at the end.
type talker struct {
	mu    sync.Mutex
	asked map[string]int
}

func (*talker) Info() model.Info {
	return model.Info{Kind: "talker", Remote: true, Inputs: []model.Input{{Name: "text", Type: model.String}}, Outputs: []model.Output{{Name: "words", Size: 1, Type: model.String}}}
}

func (*talker) Check([]float64, [][]byte) error { return nil }

func (*talker) Predict(context.Context, model.Rows, []float32) error { return calling.ErrTexts }

func (m *talker) Answer(ctx context.Context, rows model.Rows, _ []float32, texts [][]byte) error {
	text := string(rows.Bytes[0])
	m.mu.Lock()
	m.asked[text]++
	first := m.asked[text] == 1
	m.mu.Unlock()
	for i := range 10 {
		pause := 100 * time.Millisecond
		if text == "deaf" && first {
			pause = 1100 * time.Millisecond
		}
		time.Sleep(pause)
		if text == "again" && first && i == 6 {
			return blamed(model.BlameWay)
		}
		word := fmt.Sprintf("%s%d ", text, i)
		model.CallOf(ctx).Part(0, word)
		texts[0] = append(texts[0], word...)
	}
	if text == "never" {
		return blamed(model.BlameRows)
	}
	return ctx.Err()
}

// What is said so far is shown while it comes, and then the whole.
func TestWordsAreShownWhileTheyCome(t *testing.T) {
	for _, kept := range []*lang.Journal{nil, {By: "event"}} {
		synctest.Test(t, func(t *testing.T) {
			m := &talker{asked: map[string]int{}}
			p := writerPipeline(steps.Score{Async: true, Partial: &steps.Partial{Topic: "drafts"}}, &lang.Calling{}, []lang.Field{{Name: "words", Type: "string"}})
			p.Models[0].Journal, p.Code.Models["writer"], p.Steps = kept, m, []lang.Step{p.Steps[0], &steps.Emit{Topic: "out", Names: []string{"writer.words"}}}
			answer, _ := runQueueing(t, memory.New(memory.Options{}), p, 1, writerEvents("a", "again"))
			out := answer.Values("out")
			slices.Sort(out)
			if want := []string{`{"writer_words":"a0 a1 a2 a3 a4 a5 a6 a7 a8 a9 "}`, `{"writer_words":"again0 again1 again2 again3 again4 again5 again6 again7 again8 again9 "}`}; !slices.Equal(out, want) {
				t.Errorf("%s", out)
			}
			drafts, attempts := byKey(answer, "drafts"), ""
			for _, d := range draftsOf(answer)["k1"] {
				attempts += fmt.Sprint(d.attempt)
			}
			want := map[string][]string{}
			for _, n := range []string{"0:2", "0:5", "0:8", "1:2", "1:5", "1:2", "1:5", "1:8"} { // every third word, and again from the beginning
				var words strings.Builder
				for i := range int(n[2]-'0') + 1 {
					fmt.Fprintf(&words, "%s%d ", []string{"a", "again"}[n[0]-'0'], i)
				}
				want["k"+n[:1]] = append(want["k"+n[:1]], fmt.Sprintf(`{"id":"in/0@%s","writer_words":%q}`, n[:1], words.String()))
			}
			if fmt.Sprint(drafts) != fmt.Sprint(want) || attempts != "11222" {
				t.Errorf("drafts\n%v, of attempts %s, want\n%v", drafts, attempts, want)
			}
		})
	}
}

// What nobody waits for any more is not shown, and what was shown is no part of an
// event that has no answer.
func TestWordsOfCallsThatCountNoMoreAreNotShown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := writerPipeline(steps.Score{Async: true, Partial: &steps.Partial{Topic: "drafts"}}, &lang.Calling{}, []lang.Field{{Name: "words", Type: "string"}})
		p.Code.Models["writer"], p.Steps = &talker{asked: map[string]int{}}, []lang.Step{p.Steps[0], &steps.Emit{Topic: "out", Names: []string{"writer.words"}}}
		answer, _ := runQueueing(t, memory.New(memory.Options{}), p, 1, writerEvents("deaf", "never"))
		var drafts []string
		for _, d := range draftsOf(answer)["k0"] {
			drafts = append(drafts, fmt.Sprint(d.attempt, ":", strings.Count(d.words, "deaf")))
		}
		if want := []string{"1:1", "1:2", "1:3", "1:4", "2:3", "2:6", "2:9"}; !slices.Equal(drafts, want) { // the lease of a call is 5 s
			t.Errorf("drafts %v, want %v", drafts, want)
		}
		if out := answer.Values("out"); len(out) != 1 || strings.Count(out[0], "deaf") != 10 {
			t.Errorf("%s", out)
		}
		letters := answer[stream.Partition{Topic: "writing.dlq"}]
		if len(letters) != 1 || strings.Contains(header.Get(&letters[0], header.Row), "never0") || len(byKey(answer, "drafts")["k1"]) < 3 {
			t.Errorf("dead letters %v", letters)
		}
	})
}

func TestWordsAreShownOfOneTextOffTheLoopAlone(t *testing.T) {
	partial := &steps.Partial{Topic: "drafts"}
	for _, c := range []struct {
		score   steps.Score
		outputs []lang.Field
		want    string
	}{
		{steps.Score{Partial: partial}, []lang.Field{{Name: "words", Type: "string"}}, "steps[0].score.partial: partial answers are written only while an event is queued (write async: true in the score)"},
		{steps.Score{Async: true, Partial: &steps.Partial{Topic: "in"}}, []lang.Field{{Name: "words", Type: "string"}}, `steps[0].score.partial.topic: the pipeline reads "in"`},
		{steps.Score{Async: true, Partial: partial}, writerOutputs, "steps[0].score.partial: model writer@1 must have one output of type string"},
	} {
		p := writerPipeline(c.score, nil, c.outputs)
		if p.Steps = []lang.Step{p.Steps[0], &steps.Emit{Topic: "out", Names: []string{"writer.words"}}}; len(c.outputs) == 1 {
			p.Code.Models["writer"] = &talker{}
		}
		if _, err := builtin.New(p, pipeline.Options{}); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%v, want %s", err, c.want)
		}
	}
}

func TestWordsAreDurableWhileTheRestIsWaitedFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := writerPipeline(steps.Score{Async: true, Partial: &steps.Partial{Topic: "drafts"}}, nil, []lang.Field{{Name: "words", Type: "string"}})
		p.Code.Models["writer"], p.Steps = &talker{asked: map[string]int{}}, []lang.Step{p.Steps[0], &steps.Emit{Topic: "out", Names: []string{"writer.words"}}}
		runner, err := builtin.New(p, pipeline.Options{Members: 1})
		if err != nil {
			t.Fatal(err)
		}
		log := memory.New(memory.Options{})
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- runner.Run(ctx, log) }()
		synctest.Wait() // for its topics
		if err := log.Append(ctx, writerEvents("a")...); err != nil {
			t.Fatal(err)
		}
		time.Sleep(700 * time.Millisecond) // of 1 s
		for _, c := range []struct {
			topic string
			want  int
		}{{"drafts", 2}, {"out", 0}} {
			tail, stop := context.WithTimeout(ctx, time.Millisecond)
			defer stop()
			n := 0
			for _, err := range log.Tail(tail, stream.Partition{Topic: c.topic}, 0) {
				if err == nil {
					n++
				}
			}
			if n != c.want {
				t.Errorf("%d records of %s, want %d", n, c.topic, c.want)
			}
		}
		cancel()
		if err := <-ended; err != nil && !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
	})
}
