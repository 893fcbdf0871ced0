package e2e_test

import (
	"slices"
	"strings"
	"testing"
	"time"
	"unicode"

	"github.com/google/go-cmp/cmp"

	"github.com/afterbay/afterbay/internal/compile"
	"github.com/afterbay/afterbay/internal/lang"
	"github.com/afterbay/afterbay/internal/lang/steps"
	"github.com/afterbay/afterbay/internal/pipeline"
	"github.com/afterbay/afterbay/internal/process/builtin"
)

func TestPipelinesSayWhereClientsEventsEnd(t *testing.T) {
	p := contactPipeline()
	p.Input.Time.Late, p.Input.Time.LateTo = "", "late"
	want := []compile.Ending{{Topic: "answers", As: "outputs"}, {Topic: "support.ended", As: "outputs"}, {Topic: "support.dlq", As: "dead_letters"}, {Topic: "late", As: "late"}}
	for _, c := range []struct {
		answers []string
		want    []compile.Ending
	}{{[]string{"answers"}, want}, {nil, want[2:]}} {
		p.Replies = c.answers
		runner, err := builtin.New(p, pipeline.Options{})
		if err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff(c.want, runner.Endings()); d != "" {
			t.Error(d)
		}
	}
}

// outputName is the name of an emit with a condition; the others have none.
func outputName(when string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsLetter(r) {
			return r
		}
		return -1
	}, when)
}

// way is the case of events whose text is its name.
func way(name string, steps ...lang.Step) lang.Case {
	w := lang.Case{Name: name, Steps: steps}
	if name != "default" {
		w.When = `text == "` + name + `"`
	}
	return w
}

// TestEventsThatNothingAnswersAreFound names, of pipelines without answers, the steps
// at which an event of a client may end though nobody who reads topic out hears of it.
func TestEventsThatNothingAnswersAreFound(t *testing.T) {
	emit := func(topic, when string) lang.Step {
		return &steps.Emit{Topic: topic, Name: outputName(when), When: when, Names: []string{"customer"}}
	}
	group := &steps.Group{Name: "parts", By: "call", Idle: time.Minute}
	route := func(cases ...lang.Case) lang.Step { return &steps.Route{Cases: cases} }
	then := func(name, then string) lang.Case {
		w := way(name)
		w.Then = then
		return w
	}
	out, aside := emit("out", ""), emit("aside", "")
	scored := func(failed ...lang.Step) []lang.Step {
		last := emit("out", "")
		last.(*steps.Emit).Name = "last"
		return []lang.Step{&steps.Score{Model: "loud", Inputs: []string{"sound"}, OnFailure: failed}, last}
	}
	for name, c := range map[string]struct {
		steps  []lang.Step
		change func(*lang.Pipeline)
		want   []string
	}{
		"always":                       {steps: []lang.Step{aside, out}},
		"never":                        {steps: []lang.Step{aside}, want: []string{"steps"}},
		"by a condition":               {steps: []lang.Step{emit("out", `text == "hello"`)}, want: []string{"steps"}},
		"by a condition, then always":  {steps: []lang.Step{emit("out", `text == "hello"`), out}},
		"of every case":                {steps: []lang.Step{route(way("a", out), way("b", aside, out), then("c", "dlq"))}},
		"of one case":                  {steps: []lang.Step{route(way("a", out), way("default", aside))}, want: []string{"steps"}},
		"behind the cases":             {steps: []lang.Step{route(way("a", aside), way("default", aside)), out}},
		"dropped":                      {steps: []lang.Step{route(then("a", "drop"), way("default", aside)), out}, want: []string{"steps[0].route.a"}},
		"dropped behind its answer":    {steps: []lang.Step{out, route(then("a", "drop"), way("default", aside))}},
		"all dropped or dead":          {steps: []lang.Step{aside, route(then("a", "drop"), then("default", "dlq"))}, want: []string{"steps[1].route.a"}},
		"dropped by a case of a case":  {steps: []lang.Step{route(then("c", "dlq"), way("default", route(then("a", "drop"), way("b", out))))}, want: []string{"steps[0].route.default.steps[0].route.a"}},
		"taken into a group":           {steps: []lang.Step{group, out}, want: []string{"steps[0].group"}},
		"taken behind its answer":      {steps: []lang.Step{out, group}},
		"failed":                       {steps: scored()},
		"failed, and said elsewhere":   {steps: scored(aside), want: []string{"steps[0].score.on_failure"}},
		"failed, and answered":         {steps: scored(aside, out)},
		"failed, and perhaps answered": {steps: scored(emit("out", `text == "hello"`))}, // a dead letter otherwise
		"a duplicate":                  {steps: []lang.Step{out}, change: func(p *lang.Pipeline) { p.Input.Dedupe = &lang.Dedupe{ID: "id"} }, want: []string{"input.dedupe"}},
		"late": {steps: []lang.Step{out}, change: func(p *lang.Pipeline) {
			p.Inputs = []lang.Input{p.Input}
			p.Inputs[0].Time.Late, p.Input = "drop", lang.Input{}
		}, want: []string{"inputs[0].time.late"}},
	} {
		p := contactPipeline()
		p.Replies, p.Input.Dedupe, p.Input.Time.Late, p.Steps = nil, nil, "", c.steps
		loud := scoredCalls(callParts, volumeModel{}, nil)
		p.Models, p.Code = loud.Models, loud.Code
		p.Input.Fields = append(p.Input.Fields, lang.Field{Name: "sound", Type: "bytes"})
		if c.change != nil {
			c.change(&p)
		}
		runner, err := builtin.New(p, pipeline.Options{})
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		var got []string
		for _, e := range runner.Unanswered(func(topic string) bool { return topic == "out" }) {
			if got = append(got, e.Path); !strings.Contains(e.Hint, "support.ended") || strings.HasSuffix(e.Hint, "replies: []") {
				t.Errorf("%s: %v", name, e)
			}
		}
		if d := cmp.Diff(c.want, got); d != "" {
			t.Errorf("%s: %s", name, d)
		}
	}
}

// TestTopicsAreKeyedForWhoReadsThemAsTheyAre sees which key a pipeline needs.
func TestTopicsAreKeyedForWhoReadsThemAsTheyAre(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*lang.Pipeline)
		want   string
	}{
		"as it is": {func(*lang.Pipeline) {}, "customer"},
		"another":  {func(p *lang.Pipeline) { p.Input.Topic = "others" }, ""},
		"copied":   {func(p *lang.Pipeline) { p.Input.Repartition = 2 }, ""},
		"merged":   {func(p *lang.Pipeline) { p.Inputs, p.Input = []lang.Input{p.Input}, lang.Input{} }, ""},
	} {
		p := contactPipeline()
		c.change(&p)
		runner, err := builtin.New(p, pipeline.Options{})
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if got := runner.KeyOf(contactPipeline().Input.Topic); got != c.want {
			t.Errorf("%s: key %q, want %q", name, got, c.want)
		}
	}
}

// TestConditionalAnswersAreWarnedOf where two may hold, or none.
func TestConditionalAnswersAreWarnedOf(t *testing.T) {
	emit := func(when string) lang.Step {
		return &steps.Emit{Topic: "out", Name: outputName(when), When: when, Names: []string{"customer"}}
	}
	cases := &steps.Route{Cases: []lang.Case{
		{Name: "a", When: `text == "a"`, Steps: []lang.Step{emit("")}}, {Name: "spam", When: `text == "spam"`, Then: "drop"}, {Name: "default", Steps: []lang.Step{emit("")}},
	}}
	const two, none = "may have a reply from steps[0].emit", "can reach the end of the steps without a reply"
	for name, c := range map[string]struct {
		steps []lang.Step
		want  []string
	}{
		"always":            {[]lang.Step{emit("")}, nil},
		"by cases":          {[]lang.Step{cases}, nil},
		"perhaps":           {[]lang.Step{emit(`text == "a"`)}, []string{none}},
		"perhaps two":       {[]lang.Step{emit(`text == "a"`), emit(`text == "b"`)}, []string{two, none}},
		"perhaps, and sure": {[]lang.Step{emit(`text == "a"`), emit("")}, []string{two}},
		"sure, and perhaps": {[]lang.Step{emit(""), emit(`text == "a"`)}, []string{two}},
	} {
		p := contactPipeline()
		p.Replies, p.Steps = []string{"out"}, c.steps
		runner, err := builtin.New(p, pipeline.Options{})
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		got := runner.Warnings
		if !slices.EqualFunc(got, c.want, strings.Contains) {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}
