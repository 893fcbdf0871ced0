package compile_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/afterbay/afterbay/internal/compile"
	"github.com/afterbay/afterbay/internal/config"
	"github.com/afterbay/afterbay/internal/lang"
	"github.com/afterbay/afterbay/internal/process/builtin"
)

// readByName is a pipeline whose state is of names: lets, constants and fields.
const readByName = `
pipeline: p
input:
  topic: in
  key: customer
  time: {field: ts, unit: ms}
  fields: {customer: string, ts: int, amount: number, country: string, tx: string, part: int, last: bool}
  dedupe: {id: tx}
constants: {rate: 1.1, factors: {US: 1, GB: 2}, unread: 3}
steps:
- let: {eur: amount * rate, noise: amount + 1.0, call: tx, place: part, closing: last, chunk: tx}
- let: {big: eur > 10.0}
- route:
    large: {when: amount > 50.0, steps: [let: {level: part}]}
    small: {when: amount > 5.0, steps: [let: {level: part + 1}]}
    default: {steps: [let: {level: "0"}]}
- features:
    past: {value: eur, when: big, windows: [24h], aggregates: [sum]}
    factor: {value: 'factors[country] ?? 0', last: 3, aggregates: [max]}
    levels: {value: level, last: 3, aggregates: [max]}
    plain: {value: part, last: 3, aggregates: [max]}
- group: {name: parts, by: call, order: place, end: closing, id: chunk, idle: 60s}
- emit: {topic: out, value: [parts.key, noise]}
`

// readInCases has names that are lets in several cases of a route.
const readInCases = `
pipeline: p
input: {topic: in, key: customer, fields: {customer: string, amount: number}}
steps:
- route:
    large:
      when: amount > 50.0
      steps:
      - let: {base: amount - 50.0}
      - let: {share: base / 2.0}
      - features: {paid: {value: share, last: 3, aggregates: [max]}}
    default:
      steps:
      - let: {base: amount + 0.0}
      - let: {share: base / 3.0}
      - features: {owed: {value: share, last: 3, aggregates: [max]}}
- features: {both: {value: share, last: 3, aggregates: [max]}}
- emit: {topic: out, value: [share]}
`

// TestStateHashesHaveWhatIsReadByName changes what a part of the state reads by name: the
// hash of that part changes, and no other.
func TestStateHashesHaveWhatIsReadByName(t *testing.T) {
	of := planner{t, compile.PlanOf}
	of.changes(readByName, []change{
		{"eur: amount * rate", "eur: amount * rate * 100.0", []string{"past"}},
		{"eur: amount * rate", "eur: amount*rate", nil},
		{"eur > 10.0", "eur > 11.0", []string{"past"}},
		{"rate: 1.1", "rate: 1.2", []string{"past"}},
		{"US: 1", "US: 3", []string{"factor"}},
		{"unread: 3", "unread: 4", nil},
		{"amount + 1.0", "amount + 2.0", nil},
		{"level: part}", "level: part * 2}", []string{"levels"}},
		{`level: "0"`, `level: "1"`, []string{"levels"}},
		{"amount > 5.0", "amount > 6.0", []string{"levels"}},
		{"amount: number", "amount: int", []string{"past", "levels"}},
		{"country: string", "country: string, more: string", nil},
		{"ts: int", "ts: number", []string{"in"}},
		{"customer: string", "customer: int", []string{"in"}},
		{"id: tx", "id: country", []string{"in"}},
		{"tx: string", "tx: int", []string{"in", "parts"}},
		{"call: tx", "call: country", []string{"parts"}},
		{"place: part", "place: part + 1", []string{"parts"}},
		{"closing: last", "closing: '! last'", []string{"parts"}},
		{"chunk: tx", "chunk: country", []string{"parts"}},
	})
	renamed := strings.NewReplacer("eur", "euro", "rate", "exchange", "call", "conversation", "level:", "grade:", "level,", "grade,", "factors", "weights", "big", "great").Replace(readByName)
	if got := changedParts(of.plan(readByName), of.plan(renamed)); got != nil {
		t.Errorf("other names of lets and constants change the state %q", got)
	}
}

// TestLetsOfOtherCasesAreNotRead changes lets of cases: what reads the name in the same
// case, or below the route, is another part of the state.
func TestLetsOfOtherCasesAreNotRead(t *testing.T) {
	of := planner{t, compile.PlanOf}
	of.changes(readInCases, []change{
		{"base / 2.0", "base / 4.0", []string{"paid", "both"}},
		{"amount - 50.0", "amount - 51.0", []string{"paid", "both"}},
		{"base / 3.0", "base / 4.0", []string{"owed", "both"}},
		{"amount + 0.0", "amount + 1.0", []string{"owed", "both"}},
		{"amount > 50.0", "amount > 60.0", []string{"both"}}, // which events a feature gets is no meaning of its cells
	})
}

// change is a part of a text, what is in its place, and the parts of the state that it
// makes others.
type change struct {
	was, is string
	changed []string
}

// planner makes plans of the texts of pipeline files.
type planner struct {
	t  *testing.T
	of func(lang.Pipeline) (compile.Planned, error)
}

func (p planner) changes(text string, all []change) {
	p.t.Helper()
	same := p.plan(text)
	for _, c := range all {
		changed := strings.Replace(text, c.was, c.is, 1)
		if changed == text {
			p.t.Fatalf("%s is not there", c.was)
		}
		plan := p.plan(changed)
		if got := changedParts(same, plan); !slices.Equal(got, c.changed) {
			p.t.Errorf("%s in place of %s changes the state %q, want %q", c.is, c.was, got, c.changed)
		}
		if c.changed != nil && plan.Fingerprint.Outputs == same.Fingerprint.Outputs {
			p.t.Errorf("%s in place of %s changes the state, and no outputs", c.is, c.was)
		}
	}
}

func (p planner) plan(text string) compile.Planned {
	p.t.Helper()
	file, err := config.Parse("p.yaml", []byte(text), builtin.Kinds())
	if err != nil {
		p.t.Fatalf("%v in %s", err, text)
	}
	plan, err := p.of(file.Pipelines[0])
	if err != nil {
		p.t.Fatalf("%v in %s", err, text)
	}
	return plan
}

// changedParts returns the names of the parts of the state whose hashes differ.
func changedParts(a, b compile.Planned) (names []string) {
	for _, was := range a.Fingerprint.State {
		if !slices.Contains(b.Fingerprint.State, was) && !slices.Contains(names, was.Name) {
			names = append(names, was.Name)
		}
	}
	return names
}
