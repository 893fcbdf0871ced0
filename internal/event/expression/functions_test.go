package expression_test

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/afterbay/afterbay/internal/event/expression"
	"github.com/afterbay/afterbay/internal/event/value"
)

// exampleRow has the names that the examples of functions read.
func exampleRow(t testing.TB) (*names, *value.Row) {
	n := newNames(t, "at time")
	row := &n.NewRows(1)[0]
	slot, _ := n.Lookup("at")
	row.SetInt(slot, time.Date(2026, 3, 29, 1, 30, 0, 0, time.UTC).UnixMicro())
	return n, row
}

// TestExamplesOfFunctionsAreRight evaluates the example of each function on the reference
// page.
func TestExamplesOfFunctionsAreRight(t *testing.T) {
	n, row := exampleRow(t)
	seen := map[string]bool{}
	for _, g := range expression.Groups() {
		for _, f := range g.Functions {
			if seen[f.Name] || f.Is == "" || len(f.Forms) == 0 || !strings.Contains(f.Example, f.Name+"(") {
				t.Errorf("%s is described twice or not at all", f.Name)
			}
			seen[f.Name] = true
			p := must(t, n, f.Example)
			if got, err := p.AppendJSON(nil, row); err != nil || string(got) != f.Result {
				t.Errorf("%s is %s, %v; the page says %s", f.Example, got, err, f.Result)
			}
		}
	}
	if names := expression.Functions(); len(names) != len(seen) || !slices.IsSorted(names) {
		t.Errorf("%d functions, %d on the page", len(names), len(seen))
	}
}

func TestFunctionsOfTextsTimesAndNumbers(t *testing.T) {
	n := newNames(t, "at time", "s string", "x number", "n int")
	row := &n.NewRows(1)[0]
	set := func(name string, f func(value.Slot)) {
		slot, ok := n.Lookup(name)
		if !ok {
			t.Fatal(name)
		}
		f(slot)
	}
	set("s", func(s value.Slot) { row.SetText(s, "héllo wörld") })
	set("x", func(s value.Slot) { row.SetNumber(s, 2.5) })
	set("n", func(s value.Slot) { row.SetInt(s, 3) })
	set("at", func(s value.Slot) { row.SetInt(s, time.Date(2026, 12, 31, 23, 30, 0, 0, time.UTC).UnixMicro()) })
	for source, want := range map[string]string{
		`substr(s, 1, 3)`: `"éll"`, `substr(s, -5)`: `"wörld"`, `substr(s, -5, 2)`: `"wö"`, `substr(s, 11)`: `""`, `substr(s, 11, 0)`: `""`, `substr(s, 0, 11) == s`: `true`,
		`substr("", 0)`: `""`, `substr(s, n, n)`: `"lo "`,
		`replace(s, "l", "LL")`: `"héLLLLo wörLLd"`, `replace(s, "zz", "")  == s`: `true`, `replace(s, s, "")`: `""`,
		`extract(s, "[a-z]+$")`: `"rld"`, `extract(s, "w(.)r")`: `"ö"`, `extract(s, "w(.)(.)")`: `"ö"`, `extract(s, "x") ?? "none"`: `"none"`, `extract(s, "h(x)?") == null`: `true`, `extract(s, "^")`: `""`,
		`regexp_replace(s, "[lo]+", "_")`: `"hé_ wör_d"`, `regexp_replace(s, "^|$", "$1")`: `"$1héllo wörld$1"`, `regexp_replace(s, "x", "y") == s`: `true`,
		`clamp(n, 5, 9)`: `5`, `clamp(x, 0, 2)`: `2`, `clamp(n, 0, 2.5)`: `2.5`, `clamp(n, n, n)`: `3`, `clamp(1.5, n, x + 1)`: `3`,
		`sqrt(x * x)`: `2.5`, `pow(n, 2)`: `9`, `pow(2, x) == 2 ** x`: `true`, `floor(n)`: `3`, `atan2(0, 0)`: `0`, `geo_km(0, 0, 0, 0)`: `0`,
		`hour(at)`: `23`, `day(at)`: `31`, `month(at)`: `12`, `weekday(at)`: `3`, `hour(at, "Asia/Kolkata")`: `5`, `day(at, "Asia/Kolkata")`: `1`, `month(at, "Asia/Kolkata")`: `1`, `weekday(at, "Asia/Kolkata")`: `4`,
		`hour(at, "UTC") == hour(at)`: `true`, `hour(at, "America/St_Johns")`: `20`,
		`sha256(s)`: fmt.Sprintf(`"%x"`, sha256.Sum256([]byte("héllo wörld"))), `sha256(b"\xff")`: fmt.Sprintf(`"%x"`, sha256.Sum256([]byte{0xff})), `sha256("") == "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"`: `true`,
	} {
		if got, err := must(t, n, source).AppendJSON(nil, row); err != nil || string(got) != want {
			t.Errorf("%s is %s, %v, want %s", source, got, err, want)
		}
	}
}

// TestFunctionsNameWhatTheyCannotDo evaluates functions where they have no value. The error
// names the function and its arguments. Of literals it is found when the file is read.
func TestFunctionsNameWhatTheyCannotDo(t *testing.T) {
	n := newNames(t, sampleSlots...)
	row := sampleRow(n)
	for source, want := range map[string]string{
		`sqrt(small)`: `column 1: sqrt(-0.5): the square root of a number below 0`, `1 + pow(small, 0.5)`: `column 5: pow(-0.5, 0.5): the result is not a number`,
		`pow(amount, 1000)`: `column 1: pow(9.5, 1000): the result is out of the range of number`, `pow(0 * small, -1)`: `column 1: pow(-0, -1): the result is out of the range of number`,
		`asin(n)`: `column 1: asin(7): the inverse sine of a number that is not from -1 to 1`, `asin(-n)`: `column 1: asin(-7): the inverse sine of a number that is not from -1 to 1`,
		`geo_km(90.5 + small * 0, 0, 0, 0)`: `column 1: geo_km(90.5, 0, 0, 0): a latitude is not from -90 to 90`, `geo_km(n, n, n, -181)`: `column 1: geo_km(7, 7, 7, -181): a longitude is not from -180 to 180`,
		`clamp(n, n, 3)`: `column 1: clamp(..., 7, 3): the lower bound is above the upper one`, `clamp(small, amount, 3)`: `column 1: clamp(..., 9.5, 3): the lower bound is above the upper one`,
		`substr(tx, 4)`: `column 1: substr("t-1", 4): the text has 3 characters`, `substr(tx, -4)`: `column 1: substr("t-1", -4): the text has 3 characters`, `substr(tx, 1, n)`: `column 1: substr("t-1", 1, 7): the text has 3 characters`,
		`substr(tx, 1, -n)`: `column 1: substr("t-1", 1, -7): the text has 3 characters`, `substr(tx, big, big)`: `column 1: substr("t-1", 9223372036854775807, 9223372036854775807): the text has 3 characters`,
		`replace(tx, trim(" "), tx)`: `column 1: replace(..., "", ...): the part is empty`, `replace(tx, substr(tx, 3), "x")`: `column 1: replace("t-1", "", "x"): the part is empty`,
		`int(tx + tx + tx + tx + tx + tx + tx + tx + tx + tx + tx + tx + tx + tx)`: `column 1: int("t-1t-1t-1t-1t-1t-1t-1t-1t-1t-1t-1t-1t-1t"...): the string is not an int`,
	} {
		p, bad := expression.Compile(source, n)
		var err error
		if bad != nil {
			err = bad
		} else {
			_, err = p.AppendJSON(nil, row)
		}
		var fault *expression.Error
		if !errors.As(err, &fault) || err.Error() != want {
			t.Errorf("%s: %v, want %s", source, err, want)
		}
	}
	for source, want := range map[string]string{
		`sqrt(-1)`: `column 1: sqrt(-1): the square root`, `log(0)`: `column 1: log(0): the logarithm`, `10 * pow(10, 400)`: `column 6: pow(10, 400): the result is out of the range`, `substr("abc", 4)`: `substr("abc", 4): the text has 3 characters`,
		`substr(tx, 0, -1)`: `substr(..., -1): the count is below 0`, `clamp(n, 2, 1)`: `clamp(..., 2, 1): the lower bound is above`, `replace(tx, "", "x")`: `replace(..., "", ...): the part is empty`,
		`hour(at, "Europe/Berlim")`: `column 10: "Europe/Berlim" is not a time zone of the IANA database 2025c (did you mean Europe/Berlin?)`, `hour(at, "Mars/Base")`: `(use a name such as Europe/Berlin or UTC)`, `hour(at, "Local")`: `is not a time zone`,
		`hour(at, tx)`: `column 10: the time zone of hour is a literal (write hour(at, "Europe/Berlin"))`, `hour(n)`: `hour takes a time, not int`, `day(at, n)`: `the time zone of day is a literal`,
		`extract(tx, "(")`: `column 13: error parsing regexp`, `extract(tx, tx)`: `column 13: the regular expression of extract is a literal`, `extract(n, "a")`: `extract takes a string, not int (use string(n))`, `extract(tx, 1)`: `extract takes a string as its regular expression, not int`,
		`len(extract(tx, "a"))`: `extract(tx, "a") may be absent`, `regexp_replace(tx, "[", "")`: `column 20: error parsing regexp`, `regexp_replace(tx, "a", n)`: `regexp_replace takes strings, not int (use string(n))`,
		`sha256(n)`: `sha256 takes a string or bytes, not int`, `substr(tx, 0.5)`: `substr takes an int as a place, not number`, `substr(n, 1)`: `substr takes a string, not int`, `atan2(1)`: `atan2 takes 2 arguments, not 1 (write atan2(y number, x number) number)`,
		`sqrt(tx)`: `sqrt takes an int or a number, not string (use float(tx))`, `geo_km(1, 2, 3)`: `geo_km takes 4 arguments, not 3`, `clamp(tx, 1, 2)`: `clamp takes ints or numbers, not string (use float(tx))`,
	} {
		if _, err := expression.Compile(source, n); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", source, err, want)
		}
	}
}

// TestTextsThatFunctionsMakeAreBounded makes texts of another at the bound and above it.
func TestTextsThatFunctionsMakeAreBounded(t *testing.T) {
	b := newBounded(t)
	x := func(n int) string { return strings.Repeat("x", n) }
	for _, c := range []struct {
		source string
		fits   int
	}{
		{`replace(s, "x", "yyyy")`, value.TextMax / 4}, {`replace(s, "x", s)`, 1024}, {`regexp_replace(s, "x", "yyyy")`, value.TextMax / 4}, {`regexp_replace(s, "x", s)`, 1024},
	} {
		p, slot := b.compile(c.source), b.results[0]
		if _, err := b.store(p, slot, x(c.fits)); err != nil {
			t.Errorf("%s of %d: %v", c.source, c.fits, err)
		}
		b.row.Reset()
		b.row.SetText(b.more, "x")
		n, err := b.store(p, slot, x(c.fits+1))
		if err == nil || !strings.Contains(err.Error(), "over the limit of 1048576") || b.row.Has(slot) {
			t.Errorf("%s of %d: %v", c.source, c.fits+1, err)
		}
		if n > 8*value.TextMax {
			t.Errorf("%s of %d takes %d although it is refused", c.source, c.fits+1, n)
		}
	}
}

// TestFunctionsOfScalarsAllocateNothing evaluates what makes no text.
func TestFunctionsOfScalarsAllocateNothing(t *testing.T) {
	n := newNames(t, sampleSlots...)
	row := sampleRow(n)
	for _, source := range []string{
		`sqrt(amount) + exp(small) + log(amount) + pow(amount, small) + sin(amount) + cos(1e300 * amount) + asin(small) + atan2(amount, small)`,
		`geo_km(amount, small, n, 0)`, `clamp(n, 0, 5) + abs(n) + min(n, 3) + max(n, 8)`, `floor(amount) + ceil(amount) + round(amount)`,
		`hour(at, "Europe/Berlin") + weekday(at, "Asia/Kolkata") + day(at) + month(later)`, `substr(tx, 1, 2) == replace(tx, "z", "") || len(tx) == 3`, `(extract(tx, "[0-9]+") ?? "") == ""`,
		`regexp_replace(tx, "z", "") == trim(tx)`, `hash(tx, "salt") % 20 == 0`,
	} {
		p := must(t, n, source)
		slot := value.Slot{Name: "result", Type: p.Type(), Bit: 1}
		most := 0.0
		if strings.HasPrefix(source, "(extract") {
			most = 1 // the places of a match
		}
		if a := testing.AllocsPerRun(100, func() {
			if err := p.Store(row, slot); err != nil {
				t.Fatal(err)
			}
		}); a > most {
			t.Errorf("%s: %v allocations", source, a)
		}
	}
}

// BenchmarkFunctions evaluates a function of each kind.
func BenchmarkFunctions(b *testing.B) {
	n := newNames(b, sampleSlots...)
	row := sampleRow(n)
	for _, source := range []string{`sqrt(amount)`, `sin(amount)`, `atan2(amount, small)`, `geo_km(amount, small, n, 0)`, `hour(at, "Europe/Berlin")`, `substr(tx, 1, 2) == "x"`, `(extract(tx, "[0-9]+") ?? "") == ""`, `sha256(tx) == ""`} {
		p := must(b, n, source)
		slot := value.Slot{Name: "result", Type: p.Type(), Bit: 1}
		b.Run(source, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if err := p.Store(row, slot); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
