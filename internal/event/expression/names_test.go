package expression_test

import (
	"slices"
	"testing"

	"github.com/afterbay/afterbay/internal/event/expression"
)

func TestNamesOfExpressionsAreThoseThatTheyRead(t *testing.T) {
	for source, want := range map[string][]string{
		"a.b + c":                      {"a.b", "c"},
		"fraud.score > 0.5 ? n : m":    {"fraud.score", "m", "n"},
		"countries[country] ?? 0":      {"countries", "country"},
		`length(split(text, ","))`:     {"text"},
		"a.b.c == null":                {"a.b.c", "null"},
		"1 + 2":                        nil,
		"a +":                          nil,
		`probabilities[1] + meta.time`: {"meta.time", "probabilities"},
	} {
		got := expression.NamesIn(source)
		slices.Sort(got)
		if !slices.Equal(got, want) {
			t.Errorf("%s: %q, want %q", source, got, want)
		}
	}
}
