package value_test

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/afterbay/afterbay/internal/event/value"
)

func TestTypesReadAsTheyAreWritten(t *testing.T) {
	for _, text := range []string{"bool", "int", "number", "string", "bytes", "time", "number[1]", "number[65536]", "optional int", "optional bytes", "optional number[384]"} {
		if typ, err := value.ParseType(text); err != nil || typ.String() != text {
			t.Errorf("%s: %v, %v", text, typ, err)
		}
	}
	for _, text := range []string{"string[]", "optional string[]", "raw", "optional raw", "int[]", "number[]", "bool[]", "time[]", "raw[]", "optional int[]", "map of int", "map of number", "map of bool", "optional map of string", "optional number[384]", "int"} {
		if typ, err := value.ReadType(text); err != nil || typ.String() != text {
			t.Errorf("%s: %v, %v", text, typ, err)
		}
	}
	for _, text := range []string{"", "text", "optional", "optional  int", "Int", "optional optional int", "numbers", "content", "bytes[]", "int[][]", "[]", "map", "map of", "map of time", "map of int[]", "content[]"} {
		for _, parse := range []func(string) (value.Type, error){value.ParseType, value.ReadType} {
			if typ, err := parse(text); err == nil || !strings.Contains(err.Error(), "unknown type") {
				t.Errorf("%q: %v, %v", text, typ, err)
			}
		}
	}
	if typ, err := value.ParseType("int[]"); err == nil {
		t.Errorf("%v is a type of a scalar", typ)
	}
	for _, text := range []string{"number[]", "number[0]", "number[-1]", "number[65537]", "number[+1]", "number[01]", "number[1", "number[1]]"} {
		if typ, err := value.ParseType(text); err == nil || !strings.Contains(err.Error(), "write number[384]") {
			t.Errorf("%q: %v, %v", text, typ, err)
		}
	}
}

func TestNamesAreOneFlatSet(t *testing.T) {
	var s value.Schema
	if _, err := s.Add("a", value.Type{Kind: value.Int}); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Add("a", value.Type{Kind: value.String}); err == nil {
		t.Error("a name can be introduced twice")
	}
	if _, ok := s.Lookup("b"); ok {
		t.Error("a name that was not introduced is found")
	}
}

func TestRowsKeepEverySlotApart(t *testing.T) {
	var s value.Schema
	kinds := []value.Kind{value.Bool, value.Int, value.Number, value.Time, value.String, value.Bytes}
	var slots []value.Slot
	for i := range 130 { // more than one word of bits
		slot, err := s.Add(fmt.Sprint("n", i), value.Type{Kind: kinds[i%len(kinds)], Optional: true})
		if err != nil {
			t.Fatal(err)
		}
		slots = append(slots, slot)
	}
	rows := s.NewRows(3)
	set := func(r *value.Row, slot value.Slot, i int) {
		switch slot.Type.Kind {
		case value.Bool:
			r.SetBool(slot, i%2 == 0)
		case value.Int, value.Time:
			r.SetInt(slot, math.MinInt64+int64(i))
		case value.Number:
			r.SetNumber(slot, float64(i)/3)
		default:
			r.SetText(slot, fmt.Sprint(i))
		}
	}
	for i, slot := range slots {
		set(&rows[1], slot, i)
	}
	for i, slot := range slots {
		r := &rows[1]
		if !r.Has(slot) || rows[0].Has(slot) || rows[2].Has(slot) {
			t.Fatalf("%s: presence leaks", slot.Name)
		}
		ok := false
		switch slot.Type.Kind {
		case value.Bool:
			ok = r.Bool(slot) == (i%2 == 0)
		case value.Int, value.Time:
			ok = r.Int(slot) == math.MinInt64+int64(i)
		case value.Number:
			ok = r.Number(slot) == float64(i)/3
		default:
			ok = r.Text(slot) == fmt.Sprint(i)
		}
		if !ok {
			t.Errorf("%s holds another value", slot.Name)
		}
	}
	rows[1].Clear(slots[64])
	if rows[1].Has(slots[64]) || !rows[1].Has(slots[63]) || !rows[1].Has(slots[65]) {
		t.Error("clearing a slot clears its neighbours")
	}
	if rows[1].Reset(); rows[1].Has(slots[0]) || rows[1].Has(slots[129]) {
		t.Error("a reset row has values")
	}
}

func ExampleSchema() {
	var s value.Schema
	amount, err := s.Add("amount", value.Type{Kind: value.Number})
	if err != nil {
		panic(err)
	}
	row := &s.NewRows(1)[0]
	fmt.Println(row.Has(amount))
	row.SetNumber(amount, 9.5)
	fmt.Println(row.Has(amount), row.Number(amount))
	// Output:
	// false
	// true 9.5
}

func TestListsAndMapsGoThroughTheirTexts(t *testing.T) {
	elements := map[value.Kind][]value.Element{
		value.Bool: {{Num: 1}, {Num: 0}}, value.Int: {{Num: 7}, {Num: math.MaxUint64}}, value.Number: {{Num: math.Float64bits(-0.5)}}, value.Time: {{Num: 1}},
		value.String: {{Str: ""}, {Str: strings.Repeat("x", 300)}}, value.Raw: {{Str: `{"a":1}`}, {Str: "2"}},
	}
	for kind, list := range elements {
		var text []byte
		var entries []value.Entry
		size := 0
		for i, e := range list {
			text = value.AppendElement(text, kind, e)
			size += value.ElementBytes(kind, e)
			entries = append(entries, value.Entry{Key: fmt.Sprint("k", len(list)-i), Element: e})
		}
		if got := slices.Collect(value.Elements(string(text), kind)); !slices.Equal(got, list) || size != len(text) || value.Count(string(text), value.List|kind) != len(list) {
			t.Errorf("%v: %v of %d bytes, want %v of %d", kind, got, len(text), list, size)
		}
		text = value.AppendMap(nil, kind, entries)
		got := slices.Collect(value.Entries(string(text), kind))
		if !slices.Equal(got, entries) || got[0].Key != "k1" || value.Count(string(text), value.Map|kind) != len(list) {
			t.Errorf("%v: %v, want %v", kind, got, entries)
		}
		for cut := range text { // damaged texts end early, and nothing panics
			for range value.Entries(string(text[:cut]), kind) {
			}
			for range value.Elements(string(text[:cut]), kind) {
			}
		}
	}
}
