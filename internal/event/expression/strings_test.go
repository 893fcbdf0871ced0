package expression_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/afterbay/afterbay/internal/event/decode"
	"github.com/afterbay/afterbay/internal/event/expression"
	"github.com/afterbay/afterbay/internal/event/value"
)

type listNames struct{ *value.Schema }

func (n listNames) Slot(name string) (value.Slot, bool)       { return n.Lookup(name) }
func (listNames) Constant(string) (expression.Constant, bool) { return expression.Constant{}, false }
func (listNames) Known() []string                             { return []string{"list"} }

// TestListsOfStringsGoThroughJSONAndExpressions writes lists as JSON, reads them
// back, counts and joins them.
func TestListsOfStringsGoThroughJSONAndExpressions(t *testing.T) {
	schema := &value.Schema{}
	slot, err := schema.Add("list", value.Type{Kind: value.List | value.String, Optional: true})
	if err != nil {
		t.Fatal(err)
	}
	whole, err := schema.Add("whole", value.Type{Kind: value.List | value.String})
	if err != nil {
		t.Fatal(err)
	}
	compile := func(source string) *expression.Program {
		t.Helper()
		p, err := expression.Compile(source, listNames{schema})
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
	length, joined := compile(`len(whole)`), compile(`join(whole, ", ")`)
	first, last, again := compile(`whole[0]`), compile(`whole[-1]`), compile(`join(split(join(whole, "|"), "|"), "|")`)
	if _, err := schema.Add("subtree", value.Type{Kind: value.Raw}); err != nil {
		t.Fatal(err)
	}
	for bad, want := range map[string]string{`join(whole)`: "join takes 2 arguments", `join("a", "b")`: "join takes a list of strings, not string", `join(whole, 1)`: "join takes a string between", `whole == whole`: "does not compare lists", `subtree == subtree`: "== does not compare raw", `len(subtree)`: "len takes", `whole["a"]`: "the place in a list is an int", `list[0]`: "may be absent", `split("a")`: "split takes 2 arguments", `split(1, "a")`: "split takes a string and", `split("a,b", ",")[2]`: "the list has 2 elements, none at 2", `len(list)`: "may be absent"} {
		if _, err := expression.Compile(bad, listNames{schema}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", bad, err)
		}
	}
	scanner := decode.New([]decode.Field{{Name: "list", Slot: slot}, {Name: "whole", Slot: value.Slot{Name: "whole", Type: value.Type{Kind: value.List | value.String, Optional: true}, Index: whole.Index, Bit: whole.Bit}}})
	row, back := &schema.NewRows(1)[0], &schema.NewRows(1)[0]
	for _, list := range [][]string{{}, {""}, {"", ""}, {"a"}, {"a\"b", "ü\n", strings.Repeat("x", 300), ""}} {
		var text []byte
		for _, s := range list {
			text = value.AppendString(text, s)
		}
		row.SetText(slot, string(text))
		row.SetText(whole, string(text))
		if n, err := length.Int(row); err != nil || n != int64(len(list)) {
			t.Errorf("len of %q: %d, %v", list, n, err)
		}
		if s, err := joined.Text(row); err != nil || s != strings.Join(list, ", ") {
			t.Errorf("%q joined: %q, %v", list, s, err)
		}
		if s, err := again.Text(row); err != nil || s != strings.Join(list, "|") {
			t.Errorf("%q joined, split and joined: %q, %v", list, s, err)
		}
		for want, p := range map[int]*expression.Program{0: first, len(list) - 1: last} {
			if s, err := p.Text(row); (err == nil) != (len(list) > 0) || len(list) > 0 && s != list[want] {
				t.Errorf("%d of %q: %q, %v", want, list, s, err)
			}
		}
		data := expression.AppendRow(nil, row, schema)
		if err := scanner.Scan(data, back); err != nil || back.Text(slot) != row.Text(slot) {
			t.Errorf("%q: %s read back as %q, %v", list, data, back.Text(slot), err)
		}
		if got := slices.Collect(value.EachString(row.Text(slot))); !slices.Equal(got, list) {
			t.Errorf("%q: %q", list, got)
		}
	}
	for _, bad := range []string{`{"list":["a",]}`, `{"list":[1]}`, `{"list":"a"}`, `{"list":["a" "b"]}`, `{"list":["a"`, `{"list":[`} {
		if err := scanner.Scan([]byte(bad), back); err == nil {
			t.Errorf("%s is read", bad)
		}
	}
}
