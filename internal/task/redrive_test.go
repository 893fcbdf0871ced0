package task

import (
	"strings"
	"testing"

	"github.com/afterbay/afterbay/internal/event/expression"
	"github.com/afterbay/afterbay/internal/event/value"
	"github.com/afterbay/afterbay/internal/state/deadletter"
	"github.com/afterbay/afterbay/internal/task/operator"
	"github.com/afterbay/afterbay/udf"
)

// scope is the names of a schema.
type scope struct{ *value.Schema }

func (s scope) Slot(name string) (value.Slot, bool)       { return s.Lookup(name) }
func (scope) Constant(string) (expression.Constant, bool) { return expression.Constant{}, false }
func (s scope) Known() []string                           { return nil }
func (s scope) add(t *testing.T, name, kind string) value.Slot {
	t.Helper()
	typ, err := value.ParseType(kind)
	if err != nil {
		t.Fatal(err)
	}
	slot, err := s.Add(name, typ)
	if err != nil {
		t.Fatal(err)
	}
	return slot
}

func (s scope) compile(t *testing.T, source string) *expression.Program {
	t.Helper()
	p, err := expression.Compile(source, s)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// example is a pipeline: let double; route to big or else; there let size, as in
// the other; emit twice to one topic.
func example(t *testing.T) (*resumption, scope) {
	t.Helper()
	s := scope{&value.Schema{}}
	s.add(t, "amount", "number")
	s.add(t, "note", "optional string")
	double := s.add(t, "double", "number")
	way, size := s.add(t, "\x00way", "int"), s.add(t, "size", "string")
	called := s.add(t, "called", "int")
	stages := []operator.Placed{
		{Operator: &operator.Let{Kind: "let", List: []operator.Assign{{Name: "double", Slot: double, Program: s.compile(t, "amount * 2.0")}}}},
		{Operator: &operator.Call{Name: "nth", Function: &udf.Function{Keyed: true}, Outputs: []value.Slot{called}}},
		{Operator: &operator.Route{Slot: way, Names: []string{"big", "default"}, When: []*expression.Program{s.compile(t, "double > 10.0"), nil}, Then: []operator.Then{operator.GoOn, operator.GoOn}}},
		{Guard: &operator.Guard{Slot: way, Case: 0, Name: "big"}, Operator: &operator.Let{Kind: "let", List: []operator.Assign{{Name: "size", Slot: size, Program: s.compile(t, `"big"`)}}}},
		{Guard: &operator.Guard{Slot: way, Case: 1, Name: "default"}, Operator: &operator.Let{Kind: "let", List: []operator.Assign{{Name: "size", Slot: size, Program: s.compile(t, `"small"`)}}}},
		{Operator: &operator.Emit{Index: 0, Topic: "out"}},
		{Operator: &operator.Emit{Index: 1, Topic: "out", Name: "second"}},
	}
	for i := range stages {
		stages[i].At = i + 1
	}
	return newResumption(stages, s.Schema), s
}

func TestWordsAreFoundAgain(t *testing.T) {
	s, _ := example(t)
	for _, c := range []struct {
		words string
		point point
	}{
		{deadletter.Start, point{}},
		{deadletter.Late, point{seen: true}},
		{s.words(0, 0), point{seen: true, judged: true}},
		{s.words(3, 0), point{done: 3, seen: true, judged: true}},
		{s.words(4, 0), point{done: 4, seen: true, judged: true}},
		{s.words(6, 1), point{done: 6, owed: 1, seen: true, judged: true}},
		{s.words(7, 3), point{done: 7, owed: 3, seen: true, judged: true}},
	} {
		if got, err := s.find(c.words); err != nil || got != c.point {
			t.Errorf("%q: %+v, %v; want %+v", c.words, got, err, c.point)
		}
	}
	if got := s.words(4, 2); got != "from let size in default; emit out#second" {
		t.Errorf("words %q", got)
	}
	for _, words := range []string{"", "from", "from let gone", "only; emit gone", "only; let double", "nowhere"} {
		if p, err := s.find(words); err == nil {
			t.Errorf("%q is found at %+v", words, p)
		}
	}
}

func TestAPointTakesWhatWasNotDoneAndWhatIsOwed(t *testing.T) {
	s, _ := example(t)
	for words, want := range map[string]string{
		deadletter.Start: "1234567", deadletter.Late: "1234567", "from route big": "34567", "only; emit out#second": "7", "from emit out#second; emit out": "67", "only": "",
	} {
		p, err := s.find(words)
		if err != nil {
			t.Fatal(err)
		}
		var taken strings.Builder
		for i := range s.stages {
			if p.takes(&s.stages[i]) {
				taken.WriteByte(byte('1' + i))
			}
		}
		if taken.String() != want {
			t.Errorf("%q takes %s, want %s", words, &taken, want)
		}
	}
}

func TestRestoredRowsTakeTheirWayAgain(t *testing.T) {
	s, names := example(t)
	for _, c := range []struct {
		row   string
		done  int
		wrong string
	}{
		{`{"amount":1,"double":2,"called":1,"size":"small"}`, 6, ""},
		{`{"amount":9,"called":1}`, 3, ""},                                                       // double is computed anew,
		{`{"amount":9,"double":7,"called":1}`, 3, ""},                                            // also where it had another value
		{`{"amount":9,"double":2,"called":1}`, 4, "does not contain step `let size in default`"}, // and so its way
		{`{"amount":9,"called":1}`, 4, "does not contain step `let size in default`"},            // the other case
		{`{"amount":1,"double":2}`, 3, "step `call nth` is new and above the step that"},         // it would have to be called
		{`{"amount":1`, 3, "its row"},
	} {
		row := &names.NewRows(1)[0]
		_, err := s.restore(row, []byte(c.row))
		on := true
		if err == nil {
			on, err = s.rerun(row, c.done)
		}
		switch {
		case c.wrong == "" && (err != nil || !on):
			t.Errorf("%s from %d: %v, %v", c.row, c.done, on, err)
		case c.wrong != "" && (err == nil || !strings.Contains(err.Error(), c.wrong)):
			t.Errorf("%s from %d: %v, want %q", c.row, c.done, err, c.wrong)
		case c.wrong == "":
			amount, _ := names.Lookup("amount")
			double, _ := names.Lookup("double")
			note, _ := names.Lookup("note")
			if !row.Has(double) || row.Number(double) != 2*row.Number(amount) || row.Has(note) {
				t.Errorf("%s: the row has %v", c.row, row.Number(double))
			}
		}
	}
}
