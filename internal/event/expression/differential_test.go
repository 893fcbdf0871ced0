package expression_test

import (
	"crypto/sha256"
	"flag"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/afterbay/afterbay/internal/event/expression"
	"github.com/afterbay/afterbay/internal/event/value"

	"github.com/expr-lang/expr"
)

var seedFlag = flag.Uint64("seed", 0, "seed of the random tests; 0 draws one")

// generator writes random expressions over the slots x, y (number), i, j (int),
// p, q (bool), s, t (string), each of a wanted type.
type generator struct{ *rand.Rand }

func (g generator) pick(choices ...func() string) string { return choices[g.IntN(len(choices))]() }

func (g generator) word(words ...string) string { return words[g.IntN(len(words))] }

func (g generator) bool(depth int) string {
	if depth == 0 {
		return g.word("p", "q", "true", "false")
	}
	d := depth - 1
	return g.pick(
		func() string {
			return fmt.Sprintf("(%s %s %s)", g.numeric(d), g.word("<", "<=", ">", ">=", "==", "!="), g.numeric(d))
		},
		func() string {
			return fmt.Sprintf("(%s %s %s)", g.bool(d), g.word("&&", "||", "and", "or", "==", "!="), g.bool(d))
		},
		func() string { return fmt.Sprintf("%s(%s)", g.word("!", "not "), g.bool(d)) },
		func() string { return fmt.Sprintf("(%s ? %s : %s)", g.bool(d), g.bool(d), g.bool(d)) },
		func() string {
			return fmt.Sprintf("(%s %s %s)", g.text(d), g.word("==", "<", ">=", "contains", "startsWith", "endsWith", "not contains"), g.text(d))
		},
		func() string { return fmt.Sprintf("(%s in [1, -2, 3])", g.int(d)) },
		func() string { return fmt.Sprintf("(%s < %s <= %s)", g.numeric(d), g.numeric(d), g.numeric(d)) },
		func() string {
			return fmt.Sprintf("%s(%s, it -> it %s %s)", g.word("any", "all"), g.list(), g.word("==", "contains", "<"), g.text(d))
		},
		func() string { return fmt.Sprintf("(%s in %s)", g.text(d), g.list()) },
		func() string { return fmt.Sprintf(`(%s matches "^[ab]+$")`, g.text(d)) },
	)
}

func (g generator) numeric(depth int) string {
	if g.IntN(2) == 0 {
		return g.int(depth)
	}
	return g.number(depth)
}

func (g generator) int(depth int) string {
	if depth == 0 {
		return g.word("i", "j", "0", "1", "7", "12")
	}
	d := depth - 1
	return g.pick(
		func() string { return fmt.Sprintf("(%s %s %s)", g.int(d), g.word("+", "-", "*", "%"), g.int(d)) },
		func() string { return fmt.Sprintf("-%s", g.int(d)) },
		func() string { return fmt.Sprintf("(%s ? %s : %s)", g.bool(d), g.int(d), g.int(d)) },
		func() string { return fmt.Sprintf("%s(%s, %s)", g.word("min", "max"), g.int(d), g.int(d)) },
		func() string { return fmt.Sprintf("abs(%s)", g.int(d)) },
		func() string { return fmt.Sprintf("int(%s)", g.numeric(d)) },
		func() string { return fmt.Sprintf("len(%s)", g.text(d)) },
		func() string { return fmt.Sprintf("len(filter(%s, it -> %s != it))", g.list(), g.text(d)) },
		func() string { return fmt.Sprintf("clamp(%s, -%s, %s)", g.int(d), g.word("3", "0"), g.word("0", "9")) },
		func() string { return g.word("hour", "weekday", "day", "month") + "(at)" },
	)
}

func (g generator) number(depth int) string {
	if depth == 0 {
		return g.word("x", "y", "0.5", "2.25", "1e3", ".1")
	}
	d := depth - 1
	return g.pick(
		func() string { return fmt.Sprintf("(%s %s %s)", g.number(d), g.word("+", "-", "*", "/"), g.numeric(d)) },
		func() string { return fmt.Sprintf("(%s %s %s)", g.numeric(d), g.word("+", "-", "*"), g.number(d)) },
		func() string { return fmt.Sprintf("(%s / %s)", g.int(d), g.int(d)) },
		func() string {
			return fmt.Sprintf("(%s %s %s)", g.numeric(d), g.word("**", "^"), g.word("2", "3", "-1", "0", "0.5"))
		},
		func() string { return fmt.Sprintf("-%s", g.number(d)) },
		func() string { return fmt.Sprintf("(%s ? %s : %s)", g.bool(d), g.number(d), g.number(d)) },
		func() string { return fmt.Sprintf("(%s ? %s : 3)", g.bool(d), g.number(d)) },
		func() string { return fmt.Sprintf("%s(%s, %s)", g.word("min", "max"), g.number(d), g.numeric(d)) },
		func() string {
			return fmt.Sprintf("%s(%s)", g.word("abs", "floor", "ceil", "round", "float", "sqrt"), g.number(d))
		},
		func() string { return fmt.Sprintf("clamp(%s, -1, %s)", g.number(d), g.word("0.5", "9")) },
		func() string { return fmt.Sprintf("pow(%s, %s)", g.numeric(d), g.word("2", "3", "-1", "0")) },
	)
}

func (g generator) text(depth int) string {
	if depth == 0 {
		return g.word("s", "t", `"a"`, `""`, `"bab"`)
	}
	d := depth - 1
	return g.pick(
		func() string { return fmt.Sprintf("(%s + %s)", g.text(d), g.text(d)) },
		func() string { return fmt.Sprintf("(%s ? %s : %s)", g.bool(d), g.text(d), g.text(d)) },
		func() string { return fmt.Sprintf("%s(%s)", g.word("upper", "lower", "trim"), g.text(d)) },
		func() string { return fmt.Sprintf("string(%s)", g.int(d)) },
		func() string { return fmt.Sprintf("split(%s, %s)[%s]", g.text(d), g.text(d), g.word("0", "1", "-1")) },
		func() string { return fmt.Sprintf("join(split(%s, %s), %s)", g.text(d), g.text(d), g.text(d)) },
		func() string { return fmt.Sprintf("join(map(%s, it -> it + %s), %s)", g.list(), g.text(d), g.text(d)) },
		func() string {
			return fmt.Sprintf("replace(%s, %s, %s)", g.text(d), g.word(`"a"`, `"bb"`, `" "`), g.text(d))
		},
		func() string { return fmt.Sprintf("substr(%s, %s)", g.text(d), g.word("0", "1", "-1", "j % 3")) },
		func() string {
			return fmt.Sprintf("substr(%s, %s, %s)", g.text(d), g.word("0", "1", "-2", "j % 3"), g.word("0", "1", "2"))
		},
		func() string {
			return fmt.Sprintf(`(extract(%s, %q) ?? "-")`, g.text(d), g.word("b+", "a(b|B)?", "^a", "(x)|b"))
		},
		func() string {
			return fmt.Sprintf("regexp_replace(%s, %q, %s)", g.text(d), g.word("b+", "[aB]", "^", "x*"), g.text(d))
		},
		func() string { return fmt.Sprintf("sha256(%s)", g.text(d)) },
	)
}

// list is a list of texts; lambdas do not stand within lambdas.
func (g generator) list() string {
	return g.pick(
		func() string { return fmt.Sprintf(`[%s, s, "a"]`, g.text(0)) },
		func() string { return fmt.Sprintf("split(%s, %s)", g.text(0), g.word(`""`, `"b"`, "s")) },
	)
}

// slow are the functions that expr has not, written anew for its machine. A place that a text
// has not is an error of both.
var slow = map[string]any{
	"sqrt": func(args ...any) (any, error) { return math.Sqrt(asNumber(args[0])), nil },
	"pow":  func(args ...any) (any, error) { return math.Pow(asNumber(args[0]), asNumber(args[1])), nil },
	"clamp": func(args ...any) (any, error) {
		x, low, high := asNumber(args[0]), asNumber(args[1]), asNumber(args[2])
		switch {
		case x < low:
			return args[1], nil
		case x > high:
			return args[2], nil
		}
		return args[0], nil
	},
	"hour":    func(args ...any) (any, error) { return args[0].(int) / 3600e6 % 24, nil },
	"weekday": func(args ...any) (any, error) { return (args[0].(int)/86400e6 + 3) % 7, nil },
	"day":     func(args ...any) (any, error) { return time.Unix(0, int64(args[0].(int))*1000).UTC().Day(), nil },
	"month":   func(args ...any) (any, error) { return int(time.Unix(0, int64(args[0].(int))*1000).UTC().Month()), nil },
	"substr": func(args ...any) (any, error) {
		runes, from := []rune(args[0].(string)), args[1].(int)
		if from < 0 {
			from += len(runes)
		}
		to := len(runes)
		if len(args) == 3 {
			to = from + args[2].(int)
		}
		return string(runes[from:to]), nil
	},
	"extract": func(args ...any) (any, error) {
		match := regexp.MustCompile(args[1].(string)).FindStringSubmatch(args[0].(string))
		places := regexp.MustCompile(args[1].(string)).FindStringSubmatchIndex(args[0].(string))
		if match == nil || places[len(places)-2] < 0 {
			return nil, nil
		}
		return match[len(match)-1], nil
	},
	"regexp_replace": func(args ...any) (any, error) {
		return regexp.MustCompile(args[1].(string)).ReplaceAllLiteralString(args[0].(string), args[2].(string)), nil
	},
	"sha256": func(args ...any) (any, error) { return fmt.Sprintf("%x", sha256.Sum256([]byte(args[0].(string)))), nil },
}

func asNumber(v any) float64 {
	if i, ok := v.(int); ok {
		return float64(i)
	}
	return v.(float64)
}

func TestValuesAgreeWithExprsMachine(t *testing.T) {
	seed := *seedFlag
	if seed == 0 {
		seed = rand.Uint64()
	}
	t.Logf("-seed=%d", seed)
	g := generator{rand.New(rand.NewPCG(seed, 0))}
	n := newNames(t, "x number", "y number", "i int", "j int", "p bool", "q bool", "s string", "t string", "at time")
	row := &n.NewRows(1)[0]
	rounds, refused, nested := 4000, 0, 0
	for range rounds {
		env := map[string]any{
			"x": float64(g.IntN(9)-4) / 4, "y": g.NormFloat64() * 10, "i": g.IntN(9) - 4, "j": g.IntN(2000) - 1000,
			"p": g.IntN(2) == 0, "q": g.IntN(2) == 0, "s": g.word("", "a", "ab", "Bé"), "t": g.word("b", "abba", " a "),
			"at": g.IntN(4e15),
		}
		fill(n, row, env)
		depth := g.IntN(5)
		source := g.pick(func() string { return g.bool(depth) }, func() string { return g.int(depth) }, func() string { return g.number(depth) }, func() string { return g.text(depth) })
		if len(source) > expression.MaxBytes {
			continue
		}
		got, err := evaluate(source, n, row)
		if err != nil && strings.Contains(err.Error(), "a lambda within a lambda") {
			nested++
			continue
		}
		if err != nil { // the machine yields an infinity or a wrapped int there, maybe far inside
			var e *expression.Error
			if e, _ = err.(*expression.Error); e == nil || !arithmeticFault(e.Message) {
				t.Fatalf("%s with %v: %v", source, env, err)
			}
			refused++
			continue
		}
		maps.Copy(env, slow)
		pointers := strings.ReplaceAll(strings.ReplaceAll(source, "it -> ", ""), " it", " #") // as expr writes lambdas
		want, err := expr.Eval(pointers, env)
		if err != nil {
			t.Fatalf("%s with %v: got %v, expr fails: %v", source, env, got, err)
		}
		if !same(got, want) {
			t.Fatalf("%s with %v: got %v, expr says %v", source, env, got, want)
		}
	}
	if refused+nested > rounds/2 {
		t.Errorf("%d of %d expressions had an error: too few were compared", refused+nested, rounds)
	}
}

// arithmeticFault reports whether the message says that a result does not fit its type. A
// function precedes the message with its name and arguments.
func arithmeticFault(message string) bool {
	for _, fault := range []string{"the result is ", "the list has ", "sqrt(", "substr("} {
		if strings.HasPrefix(message, fault) {
			return true
		}
	}
	return message == "division by zero" || strings.Contains(message, ": the result is ")
}

func fill(n *names, row *value.Row, env map[string]any) {
	for name, v := range env {
		slot, _ := n.Lookup(name)
		switch v := v.(type) {
		case bool:
			row.SetBool(slot, v)
		case int:
			row.SetInt(slot, int64(v))
		case float64:
			row.SetNumber(slot, v)
		case string:
			row.SetText(slot, v)
		}
	}
}

// evaluate compiles and evaluates a source to a bool, int64, float64 or string.
func evaluate(source string, n *names, row *value.Row) (any, error) {
	p, bad := expression.Compile(source, n)
	if bad != nil {
		return nil, bad
	}
	switch p.Type().Kind {
	case value.Bool:
		return p.Bool(row)
	case value.Int, value.Time:
		return p.Int(row)
	case value.Number:
		return p.Number(row)
	}
	return p.Text(row)
}

// same compares a result with expr's, whose ints and floats may mix.
func same(got, want any) bool {
	switch want := want.(type) {
	case int:
		if v, ok := got.(float64); ok {
			return v == float64(want)
		}
		return got == int64(want)
	case float64:
		return got == want
	}
	return got == want
}

// FuzzCompile holds that no text panics, and that what compiles evaluates, to
// what expr's machine says where that has an answer.
func FuzzCompile(f *testing.F) {
	for _, source := range []string{decision, `region[country] ?? -1`, `1 < n < 9 ?: ok`, `tx matches "^t"`, `text ?? string(n)`, `a.b["c"]?.d()[1:2]`, `n in [1, -2]`,
		`let a = 1; {"b": [a, #]}`, `max(n, 1.5) ** -2 % 3`, "\"\\u{1F600}\" + `a``b` /* c */", `b"\xff" == raw`, `not tx contains 'x' and !(ok or at >= later)`,
		`substr(tx, n, -1) + replace(tx, "", text ?? "")`, `hour(at, "Europe/Berlin") // 2`, `extract(tx, "(a)|b") ?? sha256(raw)`, `any(split(tx, "-"), x -> x == tx)`, `map(filter(["a", tx], é -> len(é) > 1 && any(n, y->y)), x - > x[0].x + [x])[-1]`, `geo_km(amount, small, big, 1e308) + clamp(n, big, -1) + pow(sin(small), asin(n))`} {
		f.Add(source)
	}
	n := newNames(f, sampleSlots...)
	row := sampleRow(n)
	f.Fuzz(func(t *testing.T, source string) {
		p, bad := expression.Compile(source, n)
		if bad != nil {
			if length := len([]rune(source)); bad.Column < 0 || bad.Column > length+1 || bad.Message == "" {
				t.Fatalf("%q: column %d of %d: %v", source, bad.Column, length, bad)
			}
			return
		}
		if dst, err := p.AppendJSON(nil, row); err == nil && len(dst) == 0 {
			t.Fatalf("%q: no result", source)
		}
	})
}

func BenchmarkDecision(b *testing.B) {
	n := newNames(b, sampleSlots...)
	row := sampleRow(n)
	p := must(b, n, decision)
	b.ReportAllocs()
	for b.Loop() {
		if v, err := p.Text(row); err != nil || v != "review" {
			b.Fatal(v, err)
		}
	}
}

func BenchmarkArithmetic(b *testing.B) {
	n := newNames(b, sampleSlots...)
	row := sampleRow(n)
	p := must(b, n, `ok ? 0.8 * amount : max(amount, 0.9 * fraud.score)`)
	slot, _ := n.Lookup("small")
	b.ReportAllocs()
	for b.Loop() {
		if err := p.Store(row, slot); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkTable(b *testing.B) {
	n := newNames(b, sampleSlots...)
	row := sampleRow(n)
	p := must(b, n, `region[country] ?? -1`)
	b.ReportAllocs()
	for b.Loop() {
		if v, err := p.Int(row); err != nil || v != 1 {
			b.Fatal(v, err)
		}
	}
}

func BenchmarkExprMachine(b *testing.B) {
	env := map[string]any{"fraud": map[string]any{"score": 0.93}}
	p, err := expr.Compile(decision, expr.Env(env))
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		if v, err := expr.Run(p, env); err != nil || v != "review" {
			b.Fatal(v, err)
		}
	}
}

// BenchmarkText composes a text of five parts, joins a list and puts texts in lower case.
func BenchmarkText(b *testing.B) {
	schema := &value.Schema{}
	slot, err := schema.Add("s", value.Type{Kind: value.String})
	if err != nil {
		b.Fatal(err)
	}
	row := &schema.NewRows(1)[0]
	row.SetText(slot, "Ann,Bob,Cem")
	for _, source := range []string{`s`, `s + ":" + s`, `s + ":" + s + ":" + s`, `lower(s)`, `split(s, ",")[1]`, `join(split(s, ","), ", ")`} {
		p, err := expression.Compile(source, listNames{schema})
		if err != nil {
			b.Fatal(err)
		}
		b.Run(source, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, err := p.Text(row); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
