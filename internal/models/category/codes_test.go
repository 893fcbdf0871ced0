package category_test

import (
	"math"
	"strings"
	"testing"

	"github.com/afterbay/afterbay/internal/models/category"
)

func TestNumbersOfCategoriesAreCategoriesWhereTheseAreNumbers(t *testing.T) {
	for _, c := range []struct {
		categories string
		number     float64
		want       float64 // -1 is an error
	}{
		{"10 20 35", 10, 0}, {"10 20 35", 35, 2}, {"10 20 35", 0, -1}, {"10 20 35", 2, -1}, {"10 20 35", 20.5, -1},
		{"0 1 2", 2, 2}, {"0 1 2", 3, -1}, {"2 0 1", 2, 0}, {"0.5 -1", -1, 1},
		{"blue green red", 0, 0}, {"blue green red", 2, 2}, {"blue green red", 3, -1}, {"blue green red", -1, -1}, {"blue green red", 0.5, -1},
		{"here 7", 7, 1}, {"here 7", 0, -1}, {"007 nan 0x2", 2, 2}, {"007 nan 0x2", 7, -1}, {"10.0 20.0", 20, 1}, {"", 7.5, 7.5},
	} {
		codes := category.NewCodes(strings.Fields(c.categories))
		got, err := codes.Number(c.number)
		if (err != nil) != (c.want < 0) || err == nil && got != c.want {
			t.Errorf("%g of %q: %g, %v; want %g", c.number, c.categories, got, err, c.want)
		}
		if got, err := codes.Number(math.NaN()); err != nil || got == got {
			t.Errorf("a missing one of %q: %g, %v", c.categories, got, err)
		}
	}
}

func TestBoolsOfCategoriesAreCategoriesOrNumbers(t *testing.T) {
	for _, c := range []struct {
		categories string
		value      bool
		want       float64 // -1 is an error
	}{
		{"true false", true, 0}, {"true false", false, 1}, {"0 1", true, 1}, {"1", true, 0}, {"1", false, -1}, {"no yes", true, 1}, {"", true, 1},
	} {
		got, err := category.NewCodes(strings.Fields(c.categories)).Bool(c.value)
		if (err != nil) != (c.want < 0) || err == nil && got != c.want {
			t.Errorf("%t of %q: %g, %v; want %g", c.value, c.categories, got, err, c.want)
		}
	}
}

func TestCategoriesThatNoEventCanTellApartAreRefused(t *testing.T) {
	for categories, want := range map[string]string{
		"a b": "", "1 2": "", "1 01": "", "nan NaN": "", "a b a": `"a" stands there twice`,
		"1 2 1.0": `"1" and "1.0" are the same number`, "9007199254740992 9007199254740993": "are the same number",
	} {
		err := category.Check(strings.Fields(categories))
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", categories, err)
		}
	}
}
