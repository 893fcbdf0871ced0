package expression_test

import (
	"errors"
	"runtime"
	"strings"
	"testing"

	"github.com/afterbay/afterbay/internal/event/expression"
	"github.com/afterbay/afterbay/internal/event/value"
)

// bounded is a row of the text s, another and results to store, and what compiles
// expressions of it.
type bounded struct {
	*testing.T
	schema  *value.Schema
	s, more value.Slot
	results []value.Slot
	row     *value.Row
}

func newBounded(t *testing.T) *bounded {
	b := &bounded{T: t, schema: &value.Schema{}}
	add := func(name string, kind value.Kind) value.Slot {
		slot, err := b.schema.Add(name, value.Type{Kind: kind})
		if err != nil {
			t.Fatal(err)
		}
		return slot
	}
	b.s, b.more = add("s", value.String), add("more", value.String)
	for _, name := range []string{"a", "b", "c", "d", "e"} {
		b.results = append(b.results, add(name, value.String))
	}
	b.row = &b.schema.NewRows(1)[0]
	b.row.SetText(b.more, "x")
	return b
}

func (b *bounded) compile(source string) *expression.Program {
	b.Helper()
	p, err := expression.Compile(source, listNames{b.schema})
	if err != nil {
		b.Fatal(err)
	}
	return p
}

// store evaluates into the first result and returns how many bytes that allocated.
func (b *bounded) store(p *expression.Program, slot value.Slot, s string) (int, error) {
	var before, after runtime.MemStats
	b.row.SetText(b.s, s)
	runtime.ReadMemStats(&before)
	err := p.Store(b.row, slot)
	runtime.ReadMemStats(&after)
	return int(after.TotalAlloc - before.TotalAlloc), err
}

// TestATextIsBoundedBeforeItIsMade evaluates each way to make a text of another, at
// the bound and above it. A text above it takes no memory.
func TestATextIsBoundedBeforeItIsMade(t *testing.T) {
	b, third := newBounded(t), value.TextMax/3
	x := func(n int) string { return strings.Repeat("x", n) }
	for _, c := range []struct {
		source, fits, over string // two texts of s
	}{
		{`join(split(s, ""), s)`, x(1023), x(10 << 10)},
		{`join(split(s, ""), s) contains "y" ? "a" : "b"`, x(1023), x(10 << 10)},
		{`split(s, "")[0]`, x(value.TextMax / 2), x(value.TextMax/2 + 1)},
		{`split(s, "x")[0]`, x(value.TextMax - 1), x(value.TextMax)},
		{`s + s`, x(value.TextMax / 2), x(value.TextMax/2 + 1)},
		{`s + (more + s) + s`, x(third), x(third + 1)},
		{`upper(s)`, strings.Repeat("\u0250", third), strings.Repeat("\u0250", third+1)},
		{`lower(s)`, strings.Repeat("\xff", third), strings.Repeat("\xff", third+1)},
		{`s`, x(value.TextMax), x(value.TextMax + 1)},
	} {
		p, slot := b.compile(c.source), b.results[0]
		if n, err := b.store(p, slot, c.fits); err != nil || n > 4*value.TextMax {
			t.Errorf("%s of %d bytes: %v, takes %d", c.source, len(c.fits), err, n)
		}
		b.row.Reset()
		b.row.SetText(b.more, "x")
		n, err := b.store(p, slot, c.over)
		var e *expression.Error
		if !errors.As(err, &e) || e.Column != 1 || !strings.Contains(e.Message, "over the limit of 1048576") || b.row.Has(slot) {
			t.Errorf("%s of %d bytes: %v", c.source, len(c.over), err)
		} else if source := strings.Fields(c.source)[0]; !strings.Contains(e.Message, source) {
			t.Errorf("%s: the error does not name it: %v", c.source, err)
		}
		if n > 64<<10 {
			t.Errorf("%s of %d bytes takes %d although it is refused", c.source, len(c.over), n)
		}
	}
	long := `"` + strings.Repeat("l", 300) + `"`
	square := "join(split(" + long + `, ""), ` + long + ")"
	if _, err := expression.Compile("join(split("+square+`, ""), `+square+")", listNames{b.schema}); err == nil || !strings.Contains(err.Error(), "over the limit") {
		t.Errorf("of literals: %v", err)
	}
}

// TestTheTextsOfAnEventAreBoundedTogether stores texts until the event has too much,
// and evaluates an expression that composes too much on its way.
func TestTheTextsOfAnEventAreBoundedTogether(t *testing.T) {
	b := newBounded(t)
	upper, same := b.compile(`upper(s)`), b.compile(`s`)
	whole := strings.Repeat("x", value.TextMax)
	for round := range 2 {
		for i, slot := range b.results[:4] {
			if _, err := b.store(same, slot, whole); err != nil {
				t.Fatalf("round %d, text %d: %v", round, i, err)
			}
		}
		if _, err := b.store(same, b.results[3], whole); err != nil {
			t.Errorf("a text instead of another: %v", err)
		}
		for _, p := range []*expression.Program{same, upper} {
			n, err := b.store(p, b.results[4], whole)
			if err == nil || !strings.Contains(err.Error(), "5242880 bytes, over the limit of 4194304") || n > 64<<10 {
				t.Errorf("%v, takes %d", err, n)
			}
		}
		b.row.Reset()
	}
	few, many := strings.Repeat("+len(upper(s))", 4), strings.Repeat("+len(upper(s))", 5)
	b.row.SetText(b.s, whole)
	for range 3 { // each evaluation begins with what the event has
		if _, err := b.compile(few).Int(b.row); err != nil {
			t.Error(err)
		}
		if _, err := b.compile(many).Int(b.row); err == nil {
			t.Error("an expression composes 5 MiB")
		}
	}
}

// TestAChainOfTextsIsComposedOnce concatenates so many texts that all the texts on the
// way would be too much.
func TestAChainOfTextsIsComposedOnce(t *testing.T) {
	b := newBounded(t)
	chain := b.compile("s" + strings.Repeat("+(more+s)", 99))
	part := strings.Repeat("x", 10<<10)
	n, err := b.store(chain, b.results[0], part)
	if err != nil || b.row.Text(b.results[0]) != part+strings.Repeat("x"+part, 99) {
		t.Errorf("%v", err)
	}
	if n > 2*value.TextMax {
		t.Errorf("it takes %d bytes", n)
	}
	for source, want := range map[string]string{`"" + ""`: "", `"" + more`: "x", `more + "" + ("" + "")`: "x", `"a" + "b" + more + ("c" + more)`: "abxcx"} {
		if got, err := b.compile(source).Text(b.row); err != nil || got != want {
			t.Errorf("%s is %q, %v", source, got, err)
		}
	}
}
