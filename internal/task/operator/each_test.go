package operator

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/afterbay/afterbay/internal/event/decode"
	"github.com/afterbay/afterbay/internal/event/expression"
	"github.com/afterbay/afterbay/internal/event/value"
	"github.com/afterbay/afterbay/internal/models/batch"
	"github.com/afterbay/afterbay/internal/models/category"
	"github.com/afterbay/afterbay/model"
)

// slots are names of a row.
type slots struct{ *value.Schema }

func (s slots) Slot(name string) (value.Slot, bool)              { return s.Lookup(name) }
func (s slots) Constant(string) (c expression.Constant, ok bool) { return c, false }
func (s slots) Known() []string                                  { return nil }

func (s slots) make(t testing.TB, name string, typ value.Type) value.Slot {
	t.Helper()
	slot, err := s.Add(name, typ)
	if err != nil {
		t.Fatal(err)
	}
	return slot
}

func (s slots) program(t testing.TB, source string) *expression.Program {
	t.Helper()
	p, err := expression.Compile(source, s)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// tripled is a model of a number and a text. It answers with three times the number.
type tripled struct{}

func (tripled) Info() model.Info {
	return model.Info{Inputs: append(model.Numbers(1), model.Input{Type: model.String}), Outputs: []model.Output{{Size: 1}}}
}

func (tripled) Check(values []float64, _ [][]byte) error {
	if values[0] > 900 {
		return errors.New("over 900")
	}
	return nil
}

func (tripled) Predict(_ context.Context, rows model.Rows, scores []float32) error {
	for i := range scores {
		scores[i] = float32(3 * rows.Values[i])
	}
	return nil
}

// scoredItems is a step that scores items with a positive price and gathers the best three.
func scoredItems(t testing.TB) (s slots, op *Scored, items value.Slot) {
	s = slots{new(value.Schema)}
	items = s.make(t, "items", value.Type{Kind: value.List | value.Raw})
	price := s.make(t, "item.price", value.Type{Kind: value.Number})
	sku := s.make(t, "item.sku", value.Type{Kind: value.String})
	label := s.make(t, "label", value.Type{Kind: value.String})
	half := s.make(t, "half", value.Type{Kind: value.Number})
	score := s.make(t, "rank.score", value.Type{Kind: value.Number, Optional: true})
	rounded := s.make(t, "rounded", value.Type{Kind: value.Number})
	to := s.make(t, "ranked", value.Type{Kind: value.List | value.Raw})
	x := Each{
		Name: "items", In: s.program(t, "items"), Max: 200, When: s.program(t, "item.price != 0"),
		Fields: []decode.Field{{Name: "sku", Slot: sku}, {Name: "price", Slot: price}},
		Before: []Operator{&Let{List: []Assign{{"half", half, s.program(t, "item.price / 2")}, {"label", label, s.program(t, `"<" + item.sku + ">"`)}}}},
		After:  []Operator{&Let{List: []Assign{{"rounded", rounded, s.program(t, "round(rank.score ?? -1.0)")}}}},
		Gather: &Gather{To: to, Sort: s.program(t, "-rounded"), Top: 3, Object: &Object{
			Before: [][]byte{[]byte(`"sku":`), []byte(`,"score":`)}, Values: []value.Slot{label, rounded},
		}},
	}
	return s, NewScored(x, &Score{
		Batch: Batch{Name: "rank@1", Model: tripled{}, Size: 64}, When: s.program(t, "item.price > 0"), Outputs: []value.Slot{score}, Fallback: make([]*expression.Program, 1),
		Inputs: []value.Slot{half}, Codes: make([]*category.Codes, 1), Texts: []value.Slot{label},
	}, 64), items
}

// row returns a row with items.
func (s slots) row(items value.Slot, list ...string) *value.Row {
	row, text := &s.NewRows(1)[0], []byte(nil)
	for _, item := range list {
		text = value.AppendString(text, item)
	}
	row.SetText(items, string(text))
	return row
}

// ask does a step for an event, as the loop does.
func ask(t testing.TB, s *Scored, e *Event) error {
	wanted, err := s.Wants(e)
	if err != nil {
		return err
	}
	if !wanted {
		return s.Skip(e)
	}
	var g batch.Gather
	numbers, texts, outputs := s.Columns()
	g.Begin(numbers, texts)
	if err := s.Append(&g.Rows, e); err != nil {
		return err
	}
	if err := g.Run(t.Context(), s.Model, outputs, s.Size, s.ByLength); err != nil {
		t.Fatal(err)
	}
	if len(g.Failed) > 0 {
		return g.Failed[0].Err
	}
	return s.Store(e, g.Answer(0))
}

func TestElementsAreScoredTogetherAndTheBestAreGathered(t *testing.T) {
	s, op, items := scoredItems(t)
	for _, c := range []struct{ items, want string }{
		{"", ""},
		{`{"sku":"a","price":2}`, `{"sku":"<a>","score":3}`},
		{`{"sku":"a","price":2} {"sku":"b","price":0} {"price":-1,"sku":"c"} {"sku":"d","price":8} {"sku":"e","price":2} {"sku":"f","price":2}`,
			`{"sku":"<d>","score":12} {"sku":"<a>","score":3} {"sku":"<e>","score":3}`},
		{`{"sku":"c","price":-1}`, `{"sku":"<c>","score":-1}`},
	} {
		e := &Event{Row: s.row(items, strings.Fields(c.items)...)}
		if err := ask(t, op, e); err != nil {
			t.Fatal(err)
		}
		var got []string
		for text := range value.EachString(e.Row.Text(op.Gather.To)) {
			got = append(got, text)
		}
		if got := strings.Join(got, " "); got != c.want {
			t.Errorf("%s\nbecame %s\nwant   %s", c.items, got, c.want)
		}
		if n := len(strings.Fields(c.items)); e.Elements != n {
			t.Errorf("%d elements are counted, want %d", e.Elements, n)
		}
		s.hasNothingOfElements(t, e.Row)
	}
}

// hasNothingOfElements checks that a row has the list and what came of it alone.
func (s slots) hasNothingOfElements(t *testing.T, row *value.Row) {
	t.Helper()
	for _, slot := range s.Slots {
		if row.Has(slot) && slot.Name != "items" && slot.Name != "ranked" {
			t.Errorf("the row still has %s", slot.Name)
		}
	}
}

func TestElementThatFailsIsNamed(t *testing.T) {
	s, op, items := scoredItems(t)
	good := `{"sku":"a","price":2}`
	for last, want := range map[string]string{
		`{"sku":"b"}`:              `element 1 of items: field "price"`,
		`{"sku":"b","price":"x"}`:  `element 1 of items: field "price"`,
		`7`:                        "element 1 of items: byte 0",
		`{"sku":"b","price":2000}`: "element 1 of items: over 900",
	} {
		row := s.row(items, good, last)
		if err := ask(t, op, &Event{Row: row}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", last, err, want)
		}
		s.hasNothingOfElements(t, row)
	}
	many := make([]string, 201)
	for i := range many {
		many[i] = good
	}
	want := "items has 201 elements, and max of the step is 200"
	if err := ask(t, op, &Event{Row: s.row(items, many...)}); err == nil || err.Error() != want {
		t.Errorf("%v, want %q", err, want)
	}
}

// TestTextsOfElementsDoNotAddUp has many events' worth of texts go through one row.
func TestTextsOfElementsDoNotAddUp(t *testing.T) {
	s, op, items := scoredItems(t)
	long := fmt.Sprintf(`{"price":2,"sku":%q}`, strings.Repeat("x", 100_000))
	list := make([]string, 100)
	for i := range list {
		list[i] = long
	}
	op.Gather.Object.Values, op.Gather.Object.Before = op.Gather.Object.Values[1:], op.Gather.Object.Before[:1]
	row := s.row(items, list...)
	if err := ask(t, op, &Event{Row: row}); err != nil {
		t.Fatal(err)
	}
	if err := row.Compose(value.TextMax); err != nil {
		t.Errorf("the row has no room for a text of its steps: %v", err)
	}
}

// TestAnswersForOtherElements stores answers that are too few, too many or damaged.
func TestAnswersForOtherElements(t *testing.T) {
	s, op, items := scoredItems(t)
	for _, answer := range [][]byte{nil, {0, 0, 0}, make([]byte, 8)} {
		row := s.row(items, `{"sku":"a","price":2}`)
		if err := op.Store(&Event{Row: row}, model.Answer{Texts: [][]byte{answer}}); err == nil {
			t.Errorf("%d bytes of answers are taken for one element", len(answer))
		}
		if row.Has(op.Gather.To) {
			t.Error("the row has a list")
		}
	}
}

// BenchmarkEach does an each with a score for 200 elements of two fields, without the time of
// a model.
func BenchmarkEach(b *testing.B) {
	s, op, items := scoredItems(b)
	list := make([]string, 200)
	for i := range list {
		list[i] = fmt.Sprintf(`{"sku":"sku-%d","price":%d.5}`, i, i*37%200+1)
	}
	e := &Event{Row: s.row(items, list...)}
	b.ReportAllocs()
	for b.Loop() {
		if err := ask(b, op, e); err != nil {
			b.Fatal(err)
		}
	}
}
