package expression_test

import (
	"strings"
	"testing"

	"github.com/afterbay/afterbay/internal/event/expression"
	"github.com/afterbay/afterbay/internal/event/value"
)

// TestVectorsAreIndexed reads numbers of vectors, such as the probabilities of a
// model, by their place.
func TestVectorsAreIndexed(t *testing.T) {
	schema := &value.Schema{}
	add := func(name string, typ value.Type) value.Slot {
		slot, err := schema.Add(name, typ)
		if err != nil {
			t.Fatal(err)
		}
		return slot
	}
	vector := add("list", value.Type{Kind: value.Vector, Size: 3})
	maybe := add("maybe.scores", value.Type{Kind: value.Vector, Size: 2, Optional: true})
	place := add("n", value.Type{Kind: value.Int})
	row := &schema.NewRows(1)[0]
	row.SetVector(vector, []float32{0.1, 0.25, -3})
	row.SetInt(place, 2)
	number := func(source string) (float64, error) {
		t.Helper()
		p, err := expression.Compile(source, listNames{schema})
		if err != nil {
			t.Fatal(source, err)
		}
		v, fault := p.Number(row)
		if fault != nil {
			return v, fault
		}
		return v, nil
	}
	for source, want := range map[string]float64{
		"list[0]": float64(float32(0.1)), "list[1]": 0.25, "list[-1]": -3, "list[n]": -3, "list[n - 1] * 2": 0.5, "max(list[0], list[1])": 0.25,
		"maybe.scores[1] ?? 7": 7,
	} {
		if got, err := number(source); got != want || err != nil {
			t.Errorf("%s: %v, %v, want %v", source, got, err, want)
		}
	}
	row.SetVector(maybe, []float32{1, 2})
	if got, err := number("maybe.scores[1] ?? 7"); got != 2 || err != nil {
		t.Error(got, err)
	}
	for _, outside := range []int64{3, -4, 1 << 62, -1 << 63} {
		row.SetInt(place, outside)
		if got, err := number("list[n]"); err == nil || !strings.Contains(err.Error(), "list has 3 numbers, none at ") {
			t.Errorf("list[%d]: %v, %v", outside, got, err)
		}
	}
	for source, want := range map[string]string{
		"list[3]": "column 5: list has 3 numbers, none at 3 (use 0 to 2)", "list[-4]": "none at -4", `list["a"]`: "the place in a list is an int",
		"maybe.scores[0] + 1": "may be absent", "list == list": "", "hash(list)": "column 6: hash takes a bool, int, number, time, string or bytes, not numbers", "list[0][0]": "only a table, a vector",
	} {
		if _, err := expression.Compile(source, listNames{schema}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", source, err, want)
		}
	}
}
