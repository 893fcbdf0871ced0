package config

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/afterbay/afterbay/internal/lang"
	"github.com/afterbay/afterbay/internal/lang/steps"
	"github.com/afterbay/afterbay/internal/process/builtin"
	"github.com/afterbay/afterbay/internal/spec"
)

// explained has its fields in every style there is. Each expression holds the
// word bad once; the column that is asked for is that of bad in its text.
const explained = `pipeline: first
input: {topic: a, key: k, fields: {k: string}}
steps: [emit: {topic: b}]
---
pipeline: 'second'
input:
  topic: b   # blanks behind a plain scalar are not part of it
  key: k
  fields:
    k: string
    list: "string[]"
models:
  fraud: {file: fraud.ubj, version: 1, outputs: {score: number}}
constants: {table: {"US": 0, DE: 1}}
steps:
  - let:
      plain: 1 + bad
      single: 'it''s ''so'' bad'
      double: "a\t\"\u00e9\x41\U0001F600\ud83d\ude00\"\\ bad"
      wide: "größe: ключ bad"
      folded: one
        two

        three   ` + `
        bad
      folded_single: 'one
        two

        ''bad'''
      folded_double: "one \
        two
        bad"
      literal: |
        one
        bad
      chomped: >-
        one
        bad
  - features:
      spend: {value:   amount +  bad  , windows: [60s, 1h/5m], aggregates: [sum]}
  - score:
      model: fraud
      inputs: [spend.*, 'amount', "bad"]
  - score: {model: fraud, inputs: {amount: bad, other: amount}}
  - emit: {topic: out, value: [k, bad]}
  - emit: {topic: out, when: 'k == "é" && bad', value: {"a key": bad}}
`

func TestFindingsArePlacedUnderTheirCharacter(t *testing.T) {
	file, err := lang.Parse("chain.yaml", []byte(explained), builtin.Kinds())
	if err != nil {
		t.Fatal(err)
	}
	second := file.Pipelines[1]
	texts := map[string]string{
		"steps[1].features.spend.value": second.Steps[1].(*steps.Features).List[0].Value,
		"steps[2].score.inputs[2]":      second.Steps[2].(*steps.Score).Inputs[2],
		"steps[3].score.inputs.amount":  second.Steps[3].(*steps.Score).ByName[0].Expr,
		"steps[4].emit.value[1]":        second.Steps[4].(*steps.Emit).Names[1],
		"steps[5].emit.when":            second.Steps[5].(*steps.Emit).When,
		"steps[5].emit.value.a key":     second.Steps[5].(*steps.Emit).Value[0].Expr,
	}
	for _, b := range second.Steps[0].(*steps.Let).List {
		texts["steps[0].let."+b.Name] = b.Expr
	}
	lines := strings.Split(explained, "\n")
	for path, text := range texts {
		before, _, ok := strings.Cut(text, "bad")
		if !ok {
			t.Fatalf("%s is %q, without bad", path, text)
		}
		column := len([]rune(before)) + 1
		err := file.Explain(1, spec.Problems{{Path: path, Column: column, Message: "unknown name"}})
		var e *spec.Error
		if !errors.As(err, &e) || e.Field != path {
			t.Fatalf("%s: explained as %v", path, err)
		}
		want := "bad"
		if strings.HasSuffix(path, "literal") || strings.HasSuffix(path, "chomped") {
			want = "one" // a block scalar is shown at its start
		}
		if got := string([]rune(lines[e.Line-1])[e.Column-1:]); !strings.HasPrefix(got, want) {
			t.Errorf("%s, column %d: placed at %q\n%v", path, column, got, e)
		}
	}
}

func TestFindingsWithoutColumnStandAtTheirField(t *testing.T) {
	file, err := lang.Parse("chain.yaml", []byte(explained), builtin.Kinds())
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(explained, "\n")
	deeper := file.Explain(1, spec.Problems{{Path: "input.topic.name", Column: 2, Message: "is wrong"}})
	if got := deeper.(spec.Errors)[0]; got.Line != 7 || got.Column != 10 {
		t.Errorf("a column below a scalar that is in the file is counted from it: %v", got)
	}
	for path, want := range map[string]string{
		"pipeline":                           "'second'",
		"input":                              "input:",
		"input.topic":                        "b   #",
		"input.fields.list":                  `"string[]"`,
		"input.time.unit":                    "input:", // absent: the nearest parent
		"models.fraud":                       "fraud:",
		"models.fraud.version":               "1,",
		"models.fraud.outputs.score":         "number",
		"constants.table":                    "table:",
		"constants.table.US":                 "0,",
		"steps":                              "steps:",
		"steps[1]":                           "features:",
		"steps[1].features.spend":            "spend:",
		"steps[1].features.spend.windows":    "windows:",
		"steps[1].features.spend.windows[1]": "1h/5m",
		"steps[2].score.inputs[1]":           "'amount'",
		"steps[2].score.inputs[7]":           "inputs:",
		"steps[5].emit.value.a key":          "bad",
		"nowhere":                            "'second'",
		"":                                   "'second'",
	} {
		var e *spec.Error
		if !errors.As(file.Explain(1, &spec.Problem{Path: path, Message: "is wrong"}), &e) {
			t.Fatalf("%s is not explained", path)
		}
		if got := string([]rune(lines[e.Line-1])[e.Column-1:]); !strings.HasPrefix(got, want) {
			t.Errorf("%s: placed at %q, want %q", path, got, want)
		}
	}
}

func TestFindingsAreInTheOrderOfTheFile(t *testing.T) {
	file, err := lang.Parse("fraud.yaml", readGood(t, "fraud.yaml"), builtin.Kinds())
	if err != nil {
		t.Fatal(err)
	}
	found := spec.Problems{
		{Path: "steps[2].score.inputs[3]", Message: `unknown name "past.mean"`, Hint: `did you mean "past.max"?`},
		{Path: "steps[0].let.where", Column: 19, Message: "an int is needed"},
	}
	got := fmt.Sprint(file.Explain(1, fmt.Errorf("compile: %w", found)))
	want := `fraud.yaml:25:37: steps[0].let.where: an int is needed
   25 |   - let: {where: 'region[country] ?? -1'}
      |                                     ^
fraud.yaml:30:58: steps[2].score.inputs[3]: unknown name "past.mean": did you mean "past.max"?
   30 |   - score: {model: fraud, inputs: [spend.*, amount, gap, past.mean, where, shop_count_1h, shop_mean_24h], batch: {size: ...
      |                                                          ^`
	if got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

func TestOtherErrorsAreNotExplained(t *testing.T) {
	file, err := lang.Parse("fraud.yaml", readGood(t, "fraud.yaml"), builtin.Kinds())
	if err != nil {
		t.Fatal(err)
	}
	other := errors.New("disk full")
	if got := file.Explain(0, other); got != other {
		t.Errorf("Explain(%v) = %v", other, got)
	}
	if got := file.Explain(0, nil); got != nil {
		t.Errorf("Explain(nil) = %v", got)
	}
	one := &spec.Problem{Path: "steps", Message: "is wrong"}
	for _, pipeline := range []int{-1, 2} {
		if got := file.Explain(pipeline, one); got != error(one) {
			t.Errorf("Explain of pipeline %d = %v", pipeline, got)
		}
	}
	if got := new(lang.File).Explain(0, one); got != error(one) {
		t.Errorf("Explain of no file = %v", got)
	}
}

// A column may be that of a blank, or one past the end.
func TestBlanksAndTheEndHaveAColumn(t *testing.T) {
	for _, c := range []struct {
		source string // the scalar and what is behind it
		style  spec.Style
		text   string
		column int
		want   string // what stands at the column
	}{
		{"a   b # c", spec.Plain, "a   b", 3, "  b # c"},
		{"a   b # c", spec.Plain, "a   b", 6, " # c"},
		{"a   b # c", spec.Plain, "a   b", 60, " # c"},
		{"'a   ', c", spec.SingleQuoted, "a   ", 5, "', c"},
		{"'  a'", spec.SingleQuoted, "  a", 2, " a'"},
		{`"\x20\ta\"", c`, spec.DoubleQuoted, " \ta\"", 3, `a\"", c`},
		{`"\x20\ta\"", c`, spec.DoubleQuoted, " \ta\"", 5, `", c`},
	} {
		n := &spec.Node{Kind: spec.Scalar, Style: c.style, Text: c.text}
		if got := c.source[n.OffsetOf(c.source, c.column):]; got != c.want {
			t.Errorf("column %d of %s is at %q, want %q", c.column, c.source, got, c.want)
		}
	}
}
