package e2e_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/afterbay/afterbay/internal/event/header"
	"github.com/afterbay/afterbay/internal/lang"
	"github.com/afterbay/afterbay/internal/lang/steps"
	"github.com/afterbay/afterbay/internal/log/memory"
	running "github.com/afterbay/afterbay/internal/pipeline"
	"github.com/afterbay/afterbay/internal/process/builtin"
	"github.com/afterbay/afterbay/internal/spec"
	"github.com/afterbay/afterbay/internal/test/answers"
	"github.com/afterbay/afterbay/model"
	"github.com/afterbay/afterbay/stream"
)

// mixed is a model in Go of several kinds of inputs, which scores what it is
// given: the sum of the numbers, and the length of the texts.
type mixed struct{ batch model.Policy }

func (m mixed) Info() model.Info {
	return model.Info{
		Kind: "mixed", Digest: strings.Repeat("0", 64), Batch: m.batch,
		Inputs: []model.Input{
			{Name: "text", Type: model.String}, {Name: "country", Type: model.Number, Categories: []string{"US", "GB", "DE"}},
			{Name: "wave", Type: model.Number, Shape: []int{2}}, {Name: "image", Type: model.Bytes},
		},
		Outputs: []model.Output{{Name: "sum", Size: 1}, {Name: "length", Size: 1}},
	}
}

func (mixed) Check(values []float64, bytes [][]byte) error {
	if len(values) != 3 || len(bytes) != 2 {
		return fmt.Errorf("%d numbers and %d texts", len(values), len(bytes))
	}
	return nil
}

func (mixed) Predict(_ context.Context, rows model.Rows, scores []float32) error {
	for i := range rows.Len() {
		values, bytes := rows.Row(i)
		scores[2*i], scores[2*i+1] = float32(values[0]+10*values[1]+100*values[2]), float32(len(bytes[0])+100*len(bytes[1]))
		if bytes[1] == nil {
			scores[2*i+1] = -1
		}
	}
	return nil
}

func mixedPipeline(score steps.Score) lang.Pipeline {
	score.Model = "mixed"
	return lang.Pipeline{
		Name: "mixed",
		Input: lang.Input{Topic: "in", Partitions: 1, Key: "k", Fields: []lang.Field{
			{Name: "k", Type: "string"}, {Name: "land", Type: "string"}, {Name: "a", Type: "number"}, {Name: "b", Type: "int"},
			{Name: "at", Type: "time"}, {Name: "picture", Type: "optional bytes"},
		}},
		Models: []lang.Model{{Name: "mixed", Go: "mixed", Version: 1, Outputs: []lang.Field{{Name: "sum", Type: "number"}, {Name: "length", Type: "number"}}}},
		Steps:  []lang.Step{&score, &steps.Emit{Topic: "out", Names: []string{"mixed.*"}}},
		Code:   lang.Code{Models: map[string]model.Model{"mixed": mixed{}}},
	}
}

func TestModelGetsNumbersTextsAndCategoriesInItsOrder(t *testing.T) {
	for _, score := range []steps.Score{
		{Inputs: []string{"k", "land", "a", "b", "picture"}},
		{Inputs: []string{"k", "land", "a", "b", "picture"}, Batch: steps.Batch{Size: 1}},
	} {
		runner, err := builtin.New(mixedPipeline(score), running.Options{})
		if err != nil {
			t.Fatal(err)
		}
		var events []stream.Record
		for _, value := range []string{
			`{"k":"ann","land":"GB","a":2,"b":3,"at":"2026-01-01T10:00:00Z","picture":"AAA="}`,
			`{"k":"ann","land":"FR","a":2,"b":3,"at":"2026-01-01T10:00:00Z"}`,
			`{"k":"ann","land":"US","a":1,"b":0,"at":"2026-01-01T10:00:00Z"}`,
		} {
			events = append(events, stream.Record{Partition: stream.Partition{Topic: "in"}, Key: []byte("ann"), Value: []byte(value)})
		}
		answer, err := answers.RunAll(t.Context(), memory.New(memory.Options{}), runner, events)
		if err != nil {
			t.Fatal(err)
		}
		if got := fmt.Sprint(answer.Values("out")); got != `[{"mixed_sum":321,"mixed_length":203} {"mixed_sum":10,"mixed_length":-1}]` {
			t.Error(got)
		}
		if got := answer.Values("mixed.dlq"); len(got) != 1 || !strings.Contains(fmt.Sprint(got), "FR") {
			t.Errorf("dead letters %v", got)
		}
	}
}

// TestNumbersOfCategoriesAreCategories scores numbers, ints, texts and bools where the
// categories are numbers, and codes where they are texts.
func TestNumbersOfCategoriesAreCategories(t *testing.T) {
	for _, c := range []struct{ categories, kind, values, want, refused string }{
		{"10 20 35", "int", "10 35 2", "0 2", "k: 2 is not one of the categories 10, 20, 35"},
		{"10 20 35", "optional number", "20.0 null 20.5", "1 -1", "k: 20.5 is not one of"},
		{"10 20 35", "string", `"35" "x"`, "2", `k is "x"`},
		{"blue red", "int", "1 2", "1", "k: 2 is not a code of a category"},
		{"true false", "bool", "true false", "0 1", ""},
	} {
		pipeline := mixedPipeline(steps.Score{Inputs: []string{"k"}})
		pipeline.Input.Key, pipeline.Input.Fields = "u", []lang.Field{{Name: "u", Type: "string"}, {Name: "k", Type: c.kind}}
		pipeline.Models[0].Outputs, pipeline.Steps[1].(*steps.Emit).Names = []lang.Field{{Name: "code", Type: "number"}}, []string{"mixed.code"}
		pipeline.Code.Models["mixed"] = coded(strings.Fields(c.categories))
		runner, err := builtin.New(pipeline, running.Options{})
		if err != nil {
			t.Fatal(err)
		}
		var events []stream.Record
		for _, value := range strings.Fields(c.values) {
			events = append(events, stream.Record{Partition: stream.Partition{Topic: "in"}, Key: []byte("ann"), Value: []byte(`{"u":"ann","k":` + value + `}`)})
		}
		answer, err := answers.RunAll(t.Context(), memory.New(memory.Options{}), runner, events)
		if err != nil {
			t.Fatal(err)
		}
		got := strings.NewReplacer(`{"mixed_code":`, "", "}", "").Replace(fmt.Sprint(answer.Values("out")))
		if got != "["+c.want+"]" {
			t.Errorf("%+v: %s", c, got)
		}
		letters, said := answer[stream.Partition{Topic: "mixed.dlq"}], ""
		if len(letters) > 0 {
			said = header.Get(&letters[0], header.Error)
		}
		if (said == "") != (c.refused == "") || !strings.Contains(said, c.refused) {
			t.Errorf("%+v: dead letters %q", c, said)
		}
	}
}

// coded is a model of one category. Its score is the code of the category.
type coded []string

func (m coded) Info() model.Info {
	return model.Info{
		Kind: "coded", Digest: strings.Repeat("0", 64),
		Inputs: []model.Input{{Name: "k", Type: model.Number, Categories: m}}, Outputs: []model.Output{{Name: "code", Size: 1}},
	}
}

func (coded) Check([]float64, [][]byte) error { return nil }

func (coded) Predict(_ context.Context, rows model.Rows, scores []float32) error {
	for i, code := range rows.Values {
		if scores[i] = float32(code); code != code {
			scores[i] = -1
		}
	}
	return nil
}

// TestInputsMayBeExpressions computes inputs by list and by name, also of a value
// that may be absent. One that cannot be computed is a dead letter of the score.
func TestInputsMayBeExpressions(t *testing.T) {
	for _, score := range []steps.Score{
		{Inputs: []string{`upper(k) + "!"`, "land", "a / b", "factor", "picture"}},
		{ByName: []lang.Binding{{Name: "image", Expr: "picture"}, {Name: "country", Expr: "land"}, {Name: "text", Expr: `k + "?"`}, {Name: "wave", Expr: "both"}}},
		{Inputs: []string{`k + "!"`, "land", "a / b", "factor", "picture"}, When: "b != 0"},
	} {
		pipeline := mixedPipeline(score)
		pipeline.Constants = []spec.Constant{{Name: "factor", Value: int64(3)}}
		if score.ByName != nil {
			pipeline.Input.Fields = append(pipeline.Input.Fields, lang.Field{Name: "both", Type: "number[2]"})
		}
		runner, err := builtin.New(pipeline, running.Options{})
		if err != nil {
			t.Fatal(err)
		}
		var events []stream.Record
		for _, b := range []int{4, 0} {
			value := fmt.Sprintf(`{"k":"ann","land":"GB","a":2,"b":%d,"at":"2026-01-01T10:00:00Z","picture":"AAA=","both":[0.5,3]}`, b)
			events = append(events, stream.Record{Partition: stream.Partition{Topic: "in"}, Key: []byte("ann"), Value: []byte(value)})
		}
		answer, err := answers.RunAll(t.Context(), memory.New(memory.Options{}), runner, events)
		if err != nil {
			t.Fatal(err)
		}
		const scored = `{"mixed_sum":306,"mixed_length":204}`
		want := map[string]string{"": "[" + scored + "]", "b != 0": "[" + scored + ` {"mixed_sum":null,"mixed_length":null}]`}[score.When]
		if score.ByName != nil {
			want = "[" + scored + " " + scored + "]"
		}
		if got := fmt.Sprint(answer.Values("out")); got != want {
			t.Errorf("%+v: %s, want %s", score, got, want)
		}
		letters := answer[stream.Partition{Topic: "mixed.dlq"}]
		if bad := score.ByName == nil && score.When == ""; bad != (len(letters) == 1) {
			t.Errorf("%+v: dead letters %v", score, letters)
		} else if bad && (header.Get(&letters[0], header.Stage) != "score" || !strings.Contains(header.Get(&letters[0], header.Error), "a / b: ")) {
			t.Errorf("%v", letters[0].Headers)
		}
	}
}

func TestInputsOfTheWrongTypeAreRefused(t *testing.T) {
	for _, c := range []struct {
		inputs []string
		byName []lang.Binding
		want   string
	}{
		{[]string{"k", "land", "a", "b"}, nil, "steps[0].score.inputs: model mixed@1 takes 5 inputs, 4 are given (it takes, in order: text, country, wave, image)"},
		{[]string{"a", "land", "a", "b", "picture"}, nil, `steps[0].score.inputs[0]: "a" is of type number: the model takes a text here`},
		{[]string{"k", "picture", "a", "b", "picture"}, nil, `steps[0].score.inputs[1]: "picture" is of type optional bytes: the model takes a number here`},
		{[]string{"k", "land", "land", "b", "picture"}, nil, `steps[0].score.inputs[2]: "land" is of type string: the model takes a number here`},
		{[]string{"k", "land", "at", "b", "picture"}, nil, `steps[0].score.inputs[2]: "at" is of type time: the model takes a number here`},
		{[]string{"k", "land", "a", "b", "b"}, nil, `steps[0].score.inputs[4]: "b" is of type int: the model takes bytes here`},
		{[]string{"a + 1", "land", "a", "b", "picture"}, nil, `steps[0].score.inputs[0]: "a + 1" is of type number: the model takes a text here (write string(a + 1))`},
		{[]string{"k", "land", "a + x", "b", "picture"}, nil, `steps[0].score.inputs[2]: column 5: unknown name x`},
		{[]string{"k", "land", "aa", "b", "picture"}, nil, `steps[0].score.inputs[2]: unknown name "aa" (did you mean at?)`},
		{nil, []lang.Binding{{Name: "text", Expr: "k"}, {Name: "country", Expr: "land"}, {Name: "wave", Expr: "a"}, {Name: "image", Expr: "k"}}, `steps[0].score.inputs.wave: the model's feature "wave" takes 2 values, 1 are given`},
		{nil, []lang.Binding{{Name: "text", Expr: "k"}, {Name: "country", Expr: "land"}, {Name: "image", Expr: "k"}}, `the model's feature "wave" is not given`},
	} {
		_, err := builtin.New(mixedPipeline(steps.Score{Inputs: c.inputs, ByName: c.byName}), running.Options{})
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%v, want %s", err, c.want)
		}
	}
}

func TestBatchesAreCountedByTheReasonOfTheirCall(t *testing.T) {
	for _, byLength := range []bool{false, true} {
		pipeline := mixedPipeline(steps.Score{Inputs: []string{"k", "land", "a", "b", "picture"}})
		pipeline.Code.Models["mixed"] = mixed{model.Policy{Size: 2, ByLength: byLength}}
		runner, err := builtin.New(pipeline, running.Options{})
		if err != nil {
			t.Fatal(err)
		}
		var events []stream.Record
		for i := range 5 {
			value := fmt.Sprintf(`{"k":"ann","land":"GB","a":2,"b":3,"at":"2026-01-01T10:00:00Z","picture":"%s"}`, strings.Repeat("AAAA", 5-i))
			events = append(events, stream.Record{Partition: stream.Partition{Topic: "in"}, Key: []byte("ann"), Value: []byte(value)})
		}
		answer, err := answers.RunAll(t.Context(), memory.New(memory.Options{}), runner, events)
		if err != nil {
			t.Fatal(err)
		}
		if got := len(answer.Values("out")); got != 5 {
			t.Errorf("%d outputs", got)
		}
		if c := runner.Counts(); c.ModelFull != 2 || c.ModelIdle != 1 || c.ModelCalls != 3 || c.ModelRows != 5 {
			t.Errorf("by length %v: %d full, %d idle, %d calls of %d rows", byLength, c.ModelFull, c.ModelIdle, c.ModelCalls, c.ModelRows)
		}
	}
}
