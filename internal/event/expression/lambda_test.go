package expression_test

import (
	"strings"
	"testing"

	"github.com/afterbay/afterbay/internal/event/expression"
	"github.com/afterbay/afterbay/internal/event/value"
)

// listRow has a list of strings and a text.
func listRow(t testing.TB, list ...string) (listNames, *value.Row) {
	schema := &value.Schema{}
	xs, err := schema.Add("xs", value.Type{Kind: value.List | value.String})
	if err != nil {
		t.Fatal(err)
	}
	s, err := schema.Add("s", value.Type{Kind: value.String})
	if err != nil {
		t.Fatal(err)
	}
	row := &schema.NewRows(1)[0]
	var text []byte
	for _, v := range list {
		text = value.AppendString(text, v)
	}
	row.SetText(xs, string(text))
	row.SetText(s, "bc")
	return listNames{schema}, row
}

func TestFunctionsOfLists(t *testing.T) {
	n, row := listRow(t, "a", "bc", "", "bc")
	for source, want := range map[string]string{
		`any(xs, x -> x == s)`: `true`, `any(xs, x->x == "z")`: `false`, `all(xs, x -> len(x) < 3)`: `true`, `all(xs, x -> x != "")`: `false`, `any([], x -> true)`: `false`, `all([], x -> false)`: `true`,
		`filter(xs, x -> x contains "b")`: `["bc","bc"]`, `filter(xs, item -> item == "")`: `[""]`, `filter(xs, x -> false)`: `[]`, `map(xs, x -> x + s)`: `["abc","bcbc","bc","bcbc"]`, `map([s, "q"], é -> upper(é))`: `["BC","Q"]`,
		`join(map(filter(xs, x -> len(x) > 0), y -> upper(y) + "!"), ",")`: `"A!,BC!,BC!"`, `len(filter(xs, x -> x in ["a", "bc"]))`: `3`, `map(xs, x -> x)[1]`: `"bc"`, `any(xs, x -> (x == "a" ? "x" : x) == "x")`: `true`,
		`s in xs`: `true`, `"z" in xs`: `false`, `"z" not in xs`: `true`, `s in split("a,bc", ",")`: `true`, `["a", s]`: `["a","bc"]`, `[]`: `[]`, `len(["a", "b"])`: `2`, `"a" in []`: `false`, `any(xs, xs2 -> xs2 in xs)`: `true`,
		`any(xs, x -> any == 1 ?: true)`: ``, `map(xs, x -> extract(x, "b(.)") ?? "-")`: `["-","c","-","c"]`,
	} {
		if want == "" {
			continue
		}
		p, bad := expression.Compile(source, n)
		if bad != nil {
			t.Errorf("%s: %v", source, bad)
			continue
		}
		if got, err := p.AppendJSON(nil, row); err != nil || string(got) != want {
			t.Errorf("%s is %s, %v, want %s", source, got, err, want)
		}
		if again, err := expression.Compile(expression.Canonical(source), n); err != nil {
			t.Errorf("%s, canonical: %v", source, err)
		} else if got, err := again.AppendJSON(nil, row); err != nil || string(got) != want {
			t.Errorf("%s, canonical, is %s, %v, want %s", source, got, err, want)
		}
	}
	for source, want := range map[string]string{
		`any(xs, s -> true)`: `column 9: s is introduced already: names are one flat set without shadowing (give the element of the list another name)`, `x -> x`: `column 1: a lambda stands behind a list`,
		`any(xs, x -> any(xs, y -> y == x))`: `column 22: a lambda within a lambda is not supported (introduce a name for one of them with a let step)`, `any(xs, any(xs, true))`: `a lambda within a lambda`,
		`any(s, x -> true)`: `column 5: any takes a list of strings, not string`, `any(xs, x -> x)`: `column 14: the lambda of any is a bool, not string`, `filter(xs, x -> 1)`: `the lambda of filter is a bool, not int`,
		`map(xs, x -> len(x))`: `map makes a list of strings, not of int (use string(len`, `any(xs, x -> z == x)`: `column 14: unknown name z`, `any(xs, x -> x.y == "a")`: `can be indexed`, `1 in xs`: `in compares values of one type, not int and string (use string(1))`,
		`xs == xs`: `does not compare lists`, `count(xs, x -> true)`: `count is not supported: use len(filter(...))`, `any(xs, # == "a")`: `column 9: lambdas are written any(list, x -> ...)`, `any(xs, x => x == "a")`: `column 11: lambdas are written any(list, x -> ...)`,
		`["a", 1]`: `column 7: a list has strings, not int (use string(1))`, `any(xs)`: `expected at least`, `xs contains "a"`: `column 1: contains takes strings, not string[] (write x in xs)`,
	} {
		if _, err := expression.Compile(source, n); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", source, err, want)
		}
	}
}

// TestLambdasAreBounded evaluates lambdas over lists and texts at their bounds and above.
func TestLambdasAreBounded(t *testing.T) {
	for _, c := range []struct {
		source string
		items  int
		bytes  int // of s
		fits   bool
	}{
		{`any(xs, x -> x == s)`, expression.ItemsMax, 8, true}, {`any(xs, x -> x == s)`, expression.ItemsMax + 1, 8, false},
		{`all(xs, x -> s contains x)`, 64, value.TextMax, true}, {`all(xs, x -> s contains x)`, 65, value.TextMax, false}, {`any(xs, x -> x == "b")`, 100, value.TextMax, true},
		{`map(xs, x -> s)[0] == ""`, 1000, 1020, true}, {`map(xs, x -> s)[0] == ""`, 1000, 1100, false}, {`map(xs, x -> upper(s) == s ? "a" : "b")[0] == "b"`, 500, 16 << 10, false},
	} {
		n, row := listRow(t, strings.Split(strings.Repeat("a", c.items), "")...)
		slot, _ := n.Lookup("s")
		row.SetText(slot, strings.Repeat("a", c.bytes))
		p, bad := expression.Compile(c.source, n)
		if bad != nil {
			t.Fatal(bad)
		}
		if _, err := p.Bool(row); (err == nil) != c.fits {
			t.Errorf("%s, %d elements, %d bytes: %v", c.source, c.items, c.bytes, err)
		}
	}
}

func TestConditionsOfListsAllocateNothing(t *testing.T) {
	n, row := listRow(t, "a", "bc", "d")
	for _, source := range []string{`s in xs`, `any(xs, x -> x == "d" && s != "")`, `all(xs, x -> len(x) < 3)`} {
		p, bad := expression.Compile(source, n)
		if bad != nil {
			t.Fatal(bad)
		}
		if a := testing.AllocsPerRun(100, func() {
			if _, err := p.Bool(row); err != nil {
				t.Fatal(err)
			}
		}); a > 0 {
			t.Errorf("%s: %v allocations", source, a)
		}
	}
}
