package e2e_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/afterbay/afterbay/internal/event/header"
	"github.com/afterbay/afterbay/internal/lang"
	"github.com/afterbay/afterbay/internal/lang/steps"
	"github.com/afterbay/afterbay/stream"
)

// TestATextThatIsTooLargeIsOneDeadLetter gives a pipeline, between others, an event that
// makes a text too large. The process goes on, and names the text.
func TestATextThatIsTooLargeIsOneDeadLetter(t *testing.T) {
	const square = `join(split(n, ""), n)`
	emit := func(e steps.Emit) lang.Step {
		e.Topic = "out"
		return &e
	}
	card := emit(steps.Emit{Names: []string{"card"}})
	let := func(name, source string) lang.Step {
		return &steps.Let{List: []lang.Binding{{Name: name, Expr: source}}}
	}
	var whole []steps.Member
	for i := range 64 {
		whole = append(whole, steps.Member{Name: fmt.Sprint("n", i), Expr: "n"})
	}
	note := func(n int) stream.Record {
		r := payment("a", 1, 1)
		r.Value = fmt.Appendf(r.Value[:len(r.Value)-1], `,"note":%q}`, strings.Repeat("x", n))
		return r
	}
	most := note(1<<20 - 100)
	with := func(r stream.Record, h stream.Header) stream.Record {
		r.Headers = append(slices.Clone(r.Headers), h)
		return r
	}
	for name, c := range map[string]struct {
		steps  []lang.Step
		poison stream.Record
		want   string // stage and error
	}{
		"let":           {[]lang.Step{let("big", square), card}, note(30_000), `let: big: column 1: join(split(n, ""), n): a text of 900000000 bytes is over the limit of 1048576`},
		"decide":        {[]lang.Step{&steps.Decide{List: []lang.Binding{{Name: "d", Expr: square}}}, card}, note(30_000), "decide: d: column 1: join"},
		"value of emit": {[]lang.Step{emit(steps.Emit{Value: []steps.Member{{Name: "v", Expr: "n + n"}}})}, most, "emit: value.v: column 1: n + n: a text of 2096"},
		"id of emit":    {[]lang.Step{emit(steps.Emit{Names: []string{"card"}, ID: "upper(n) + n + card"})}, most, "emit: id: column 1: upper(n) + n"},
		"feature":       {[]lang.Step{&steps.Features{List: []steps.Feature{{Name: "f", Value: "len(" + square + ")", Last: 2, Aggregates: []string{"max"}}}}, card}, note(30_000), "features: feature f: value: column 5: join"},
		"when":          {[]lang.Step{&steps.Features{List: []steps.Feature{{Name: "f", When: square + ` == ""`, Last: 2, Value: "amount", Aggregates: []string{"max"}}}}, card}, note(30_000), "features: feature f: when: column 1: join"},
		"route":         {[]lang.Step{&steps.Route{Cases: []lang.Case{{Name: "r", When: square + ` == ""`, Steps: []lang.Step{card}}, {Name: "default", Steps: []lang.Step{card}}}}}, note(30_000), "route: r: column 1: join"},
		"many texts":    {[]lang.Step{let("a", "upper(n)"), let("b", "a"), let("c", "a"), let("d", "n"), card}, most, "let: d: column 1: n: the texts that the steps of the event make have 52"},
		"output":        {[]lang.Step{emit(steps.Emit{Value: whole})}, most, "emit: output of "},
		"large key":     {[]lang.Step{emit(steps.Emit{Names: []string{"card", "n"}, Key: "n"})}, note(600_000), "emit: output of 600"},
		"id of event":   {[]lang.Step{emit(steps.Emit{Names: []string{"card", "meta.id"}})}, with(payment("a", 1, 1), stream.Header{Key: header.ID, Value: []byte(strings.Repeat("i", 1<<20+64<<10-100))}), "emit: output of 11"},
		"key of event":  {[]lang.Step{card}, stream.Record{Key: []byte(strings.Repeat("k", 1<<20+64<<10-100)), Value: []byte("{")}, "decode: "},
		"context":       {[]lang.Step{emit(steps.Emit{Names: []string{"n", "note"}})}, with(note(400_000), stream.Header{Key: header.Correlation, Value: []byte(strings.Repeat("i", 500_000))}), "emit: output of 800"},
	} {
		t.Run(name, func(t *testing.T) {
			p := payments()
			p.Steps = append([]lang.Step{let("n", `note ?? ""`)}, c.steps...)
			log := openLog(t, "embedded", t.TempDir())
			defer closeLog(t, log)
			runOn(t, log, p, payment("a", 1, 0), c.poison, payment("a", 2, 2))
			if got := values(t, log, "out"); len(got) != 2 {
				t.Errorf("%d outputs: %.200q", len(got), got)
			}
			got := stages(t, log, "payments.dlq")
			if len(got) != 1 || !strings.HasPrefix(got[0], c.want) {
				t.Errorf("dead letters %.300q, want %s", got, c.want)
			}
		})
	}
}

// TestALateOrCopiedEventThatIsTooLargeIsOneDeadLetter has events that fit in the log as
// they come, and do not with the headers that a late or a copied event gets.
func TestALateOrCopiedEventThatIsTooLargeIsOneDeadLetter(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*lang.Input)
		second int
	}{
		"late":   {func(in *lang.Input) { in.Time.Late, in.Time.LateTo = "", "late" }, -60},
		"copied": {func(in *lang.Input) { in.Repartition = 1 }, 0},
	} {
		t.Run(name, func(t *testing.T) {
			p := payments()
			c.change(&p.Input)
			large := payment("a", 2, c.second)
			large.Headers = []stream.Header{{Key: "h", Value: []byte(strings.Repeat("h", 1<<20+64<<10-60))}}
			log := openLog(t, "embedded", t.TempDir())
			defer closeLog(t, log)
			runOn(t, log, p, payment("a", 1, 0), large, payment("a", 3, 1))
			if got := values(t, log, "out"); len(got) != 2 {
				t.Errorf("%d outputs: %q", len(got), got)
			}
			if got := stages(t, log, "payments.dlq"); len(got) != 1 || !strings.Contains(got[0], "of key and headers") {
				t.Errorf("dead letters %.300q", got)
			}
		})
	}
}
