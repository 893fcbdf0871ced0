package expression_test

import (
	"testing"

	"github.com/afterbay/afterbay/internal/event/expression"
)

// TestCanonicalTextsDifferWhereTokensDo writes an expression in several ways.
func TestCanonicalTextsDifferWhereTokensDo(t *testing.T) {
	for want, sources := range map[string][]string{
		`amount * 2.0`:                 {"amount*2.0", " amount\t*\n2.0 ", "amount /* twice */ * 2.0"},
		`fraud.score > 0.9`:            {"fraud.score>0.9", "fraud . score > 0.9"},
		`a == "b" ? "c d" : "e\"f"`:    {`a=='b'?'c d':'e"f'`, `a == "b" ? "c d" : "e\"f"`},
		`spend.*`:                      {"spend.*", "spend . *"},
		`limit [ region ] ?? 0`:        {"limit[region] ?? 0"},
		`( a + b ) * c`:                {"(a+b)*c"},
		`a + b * c`:                    {"a+b*c"},
		`"never closed`:                {`"never closed`},
		`x not in [ 1 , 2 ] && ! done`: {"x not in [1,2]&&!done"},
	} {
		for _, source := range sources {
			if got := expression.Canonical(source); got != want {
				t.Errorf("%q is %q, want %q", source, got, want)
			}
			if got := expression.Canonical(want); got != want {
				t.Errorf("%q again is %q", want, got)
			}
		}
	}
}

// TestRenamedExpressionsHaveOtherNamesAlone numbers the names that expressions read.
func TestRenamedExpressionsHaveOtherNamesAlone(t *testing.T) {
	for source, want := range map[string]string{
		"a.b+c * a.b":                   "<a.b> + <c> * <a.b>",
		"max(max, 2) > 1 ? n : m":       "max ( <max> , 2 ) > 1 ? <n> : <m>",
		`countries[country] ?? "c.d"`:   `<countries> [ <country> ] ?? "c.d"`,
		`country == "country"`:          `<country> == "country"`,
		"a . b":                         "<a.b>",
		"probabilities[1] + meta.time":  "<probabilities> [ 1 ] + <meta.time>",
		"a +":                           "a +",
		"true && not done and x in [1]": "true && not <done> and <x> in [ 1 ]",
	} {
		if got := expression.Rename(source, func(name string) string { return "<" + name + ">" }); got != want {
			t.Errorf("%q is %q, want %q", source, got, want)
		}
	}
}
