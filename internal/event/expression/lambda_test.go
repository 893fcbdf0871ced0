package expression_test

import (
	"strings"
	"testing"

	"github.com/afterbay/afterbay/internal/event/decode"
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
		`any(xs, s -> true)`: `column 9: s is introduced already: a pipeline has one namespace, without shadowing (give the element of the list another name)`, `x -> x`: `column 1: a lambda must follow a list`,
		`any(xs, x -> any(xs, y -> y == x))`: `column 22: a lambda within a lambda is not supported (introduce a name for one of them with a let step)`, `any(xs, any(xs, true))`: `a lambda within a lambda`,
		`any(s, x -> true)`: `column 5: any takes a list, not string`, `any(xs, x -> x)`: `column 14: the lambda of any is a bool, not string`, `filter(xs, x -> 1)`: `the lambda of filter is a bool, not int`,
		`any(xs, x -> z == x)`: `column 14: unknown name z`, `any(xs, x -> x.y == "a")`: `can be indexed`, `1 in xs`: `in compares values of one type, not int and string (use string(1))`,
		`xs == xs`: `does not compare lists`, `count(xs, x -> true)`: `count is not supported: use len(filter(...))`, `any(xs, # == "a")`: `column 9: lambdas are written any(list, x -> ...)`, `any(xs, x => x == "a")`: `column 11: lambdas are written any(list, x -> ...)`,
		`["a", 1]`: `column 7: a list has values of one type, not string and int (use string(1))`, `any(xs)`: `expected at least`, `xs contains "a"`: `column 1: contains takes strings, not string[] (write x in xs)`,
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

func TestConditionsOfNumbersAllocateNothing(t *testing.T) {
	n, row := manyLists(t)
	for _, source := range []string{`n in is`, `x in ns`, `any(is, i -> i > 6)`, `all(ns, v -> v < 1e17)`, `sum(is) > 8`, `(mean(ns) ?? 0) < 1`, `(m["a"] ?? 0) == 1`, `is[0] == 3`, `len(m) == 2`, `"a" in m`} {
		p, bad := expression.Compile(source, n)
		if bad != nil {
			t.Fatal(bad)
		}
		if a := testing.AllocsPerRun(100, func() {
			if v, err := p.Bool(row); err != nil || !v {
				t.Fatal(source, v, err)
			}
		}); a > 0 {
			t.Errorf("%s: %v allocations", source, a)
		}
	}
}

// manyLists has lists and maps of all kinds.
func manyLists(t testing.TB) (listNames, *value.Row) {
	schema := &value.Schema{}
	var slots []value.Slot
	for _, name := range []string{"is int[]", "ns number[]", "bs bool[]", "ts time[]", "rs raw[]", "m map of int", "empty number[]", "huge int[]", "none optional int[]", "nomap optional map of number", "n int", "x number", "at time", "s string"} {
		name, kind, _ := strings.Cut(name, " ")
		typ, err := value.ReadType(kind)
		if err != nil {
			t.Fatal(err)
		}
		slot, err := schema.Add(name, typ)
		if err != nil {
			t.Fatal(err)
		}
		slots = append(slots, slot)
	}
	fields := make([]decode.Field, len(slots))
	for i, slot := range slots {
		fields[i] = decode.Field{Name: slot.Name, Slot: slot}
	}
	row := &schema.NewRows(1)[0]
	if err := decode.New(fields).Scan([]byte(`{"is":[3,-1,7],"ns":[0.5,-0.0,1e16,1,-1e16],"bs":[true,false],"ts":["2026-11-22T10:00:00Z"],"rs":[{"a":1},2],"m":{"b":2,"a":1},"empty":[],"huge":[9223372036854775807,1],"n":7,"x":0.5,"at":"2026-11-22T10:00:00Z","s":"b"}`), row); err != nil {
		t.Fatal(err)
	}
	return listNames{schema}, row
}

func TestFunctionsOfListsAndMapsOfAllKinds(t *testing.T) {
	n, row := manyLists(t)
	for source, want := range map[string]string{
		`is[0]`: `3`, `is[-1] + 1`: `8`, `ns[0]`: `0.5`, `bs[1]`: `false`, `ts[0]`: `"2026-11-22T10:00:00.000000Z"`, `rs[0]`: `{"a":1}`, `m["a"] ?? 0`: `1`, `m["c"] ?? 0`: `0`, `m[s] ?? 0`: `2`, `m["c"]`: `null`, `nomap["a"] ?? 1`: `1`, `m["c"] == null`: `true`,
		`len(is)`: `3`, `len(bs)`: `2`, `len(rs)`: `2`, `len(m)`: `2`, `len(none ?? [])`: `0`, `len(nomap ?? {})`: `0`, `len([1, 2.5])`: `2`,
		`n in is`: `true`, `4 in is`: `false`, `7.0 in is`: `true`, `x in ns`: `true`, `0 in ns`: `true`, `at in ts`: `true`, `true in bs`: `true`, `n in [1, n]`: `true`, `x in [n, 0.5]`: `true`, `s in m`: `true`, `"z" in m`: `false`, `"z" not in m`: `true`, `n not in is`: `false`,
		`sum(is)`: `9`, `sum(ns)`: `1.5`, `sum(empty)`: `0`, `mean(is)`: `3`, `mean(empty) ?? -1`: `-1`, `mean(empty)`: `null`, `min(is) ?? 0`: `-1`, `max(ns) ?? 0`: `10000000000000000`, `max(empty) ?? 0`: `0`, `min([2, 1.5]) ?? 0`: `1.5`, `mean(huge) ?? 0`: `4611686018427388000`,
		`any(is, i -> i > 6)`: `true`, `all(ns, v -> v >= 0)`: `false`, `filter(is, i -> i > 0)`: `[3,7]`, `map(is, i -> i * 2)`: `[6,-2,14]`, `map(is, i -> i > 0)`: `[true,false,true]`, `map(ns, v -> v > 0 ? "up" : "down")`: `["up","down","up","up","down"]`, `filter(bs, b -> b)`: `[true]`, `map(is, i -> float(i) / 2)`: `[1.5,-0.5,3.5]`,
		`filter(ts, t -> t == at)`: `["2026-11-22T10:00:00.000000Z"]`, `map(rs, r -> r)`: `[{"a":1},2]`, `sum(map(filter(is, i -> i > 0), i -> i * i))`: `58`, `[n, 1]`: `[7,1]`, `[n, x]`: `[7,0.5]`, `[at]`: `["2026-11-22T10:00:00.000000Z"]`, `none ?? is`: `[3,-1,7]`, `nomap ?? {}`: `{}`, `true ? [] : is`: `[]`, `false ? ns : [1]`: `[1]`,
		`keys(m)`: `["a","b"]`, `values(m)`: `[1,2]`, `sum(values(m))`: `3`, `{}`: `{}`,
	} {
		p, bad := expression.Compile(source, n)
		if bad != nil {
			t.Errorf("%s: %v", source, bad)
			continue
		}
		if got, err := p.AppendJSON(nil, row); err != nil || string(got) != want {
			t.Errorf("%s is %s, %v, want %s", source, got, err, want)
		}
	}
	for source, want := range map[string]string{
		`is[3]`: "column 3: the list has 3 elements, none at 3", `sum(huge)`: "sum(...): the result is out of the range of int",
	} {
		p, bad := expression.Compile(source, n)
		if bad != nil {
			t.Fatal(bad)
		}
		if got, err := p.AppendJSON(nil, row); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %s, %v, want %s", source, got, err, want)
		}
	}
	for source, want := range map[string]string{
		`m["c"] + 1`: `m["c"] may be absent`, `m[1]`: "the key of a map is a string, not int (use string(1))", `1 in m`: "the keys of a map are strings, not int", `s in is`: "in compares values of one type, not string and int", `rs[0] in rs`: "in does not compare raw", `mean(is) > 1`: "mean(is) may be absent",
		`sum(bs)`: "sum takes a list of ints or numbers, not bool[]", `min(m)`: "min takes a list of ints or numbers, or at least two ints or numbers, not map of int", `is == is`: "does not compare lists", `m == m`: "does not compare", `none[0]`: "none may be absent", `keys(is)`: "keys takes a map, not int[]", `join(is, ",")`: "join takes a list of strings, not int[]",
		`map(is, i -> is)`: "map makes a list of bools, ints, numbers, times or strings, not of int[]", `[is]`: "a list has bools, ints, numbers, times or strings, not int[]", `none ?? ["a"]`: "the sides of ?? have two types, int[] and string[]", `hash(m)`: "hash takes",
	} {
		if _, err := expression.Compile(source, n); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", source, err, want)
		}
	}
}
