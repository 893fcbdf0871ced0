package config

import (
	"errors"
	"fmt"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/afterbay/afterbay/internal/lang"
	"github.com/afterbay/afterbay/internal/lang/steps"
	"github.com/afterbay/afterbay/internal/process/builtin"
	"github.com/afterbay/afterbay/internal/spec"

	"github.com/google/go-cmp/cmp"
)

// set returns a Lookup of these variables.
func set(variables map[string]string) spec.Lookup {
	return func(name string) (string, bool) {
		value, ok := variables[name]
		return value, ok
	}
}

// constantsOf reads constants, each written as its text stands.
func constantsOf(variables map[string]string, written ...string) ([]any, error) {
	text := "pipeline: p\ninput: {topic: t, key: k, fields: {k: string}}\nsteps: [emit: {topic: o}]\nconstants:\n"
	for i, w := range written {
		text += fmt.Sprintf("  c%d: %s\n", i, w)
	}
	file, err := lang.ParseWith("f.yaml", []byte(text), set(variables), builtin.Kinds())
	if err != nil {
		return nil, err
	}
	var values []any
	for _, c := range file.Pipelines[0].Constants {
		values = append(values, c.Value)
	}
	return values, nil
}

func TestVariablesBecomeTheirValues(t *testing.T) {
	variables := map[string]string{
		"N": "8", "HALF": "-0.5", "YES": "true", "TEXT": "a: [b] # c", "NONE": "", "WIDE": "größe", "SELF": "${N}", "ESCAPED": "$${N}", "_a1": "x",
	}
	for _, c := range []struct {
		written string
		want    any
	}{
		{"${N}", int64(8)}, {"'${N}'", "8"}, {`"${N}"`, "8"}, {"1${N}", int64(18)}, {"${N}.${N}", 8.8},
		{"${HALF}", -0.5}, {"${YES}", true}, {"'${YES}'", "true"},
		{"${TEXT}", "a: [b] # c"}, {"<${TEXT}>", "<a: [b] # c>"},
		{"${WIDE}${WIDE}", "größegröße"}, {"${_a1}", "x"},
		{"${ABSENT:-no}", "no"}, {"${ABSENT:-7}", int64(7)}, {"${NONE:-no}", "no"}, {"${N:-9}", int64(8)}, {"'${ABSENT:-}'", ""}, {"'${NONE}'", ""},
		{"a${ABSENT:-}b", "ab"}, {"${ABSENT:-a-:b}", "a-:b"},
		{"$${N}", "${N}"}, {"$$${N}", "$${N}"}, {"$N", "$N"}, {"a$", "a$"}, {"${N}$", "8$"}, {"$${", "${"},
		{"'${SELF}'", "${N}"}, {"${ESCAPED}", "$${N}"},
		{"|\n    ${N}\n    b", "8\nb\n"},
	} {
		got, err := constantsOf(variables, c.written)
		if err != nil {
			t.Errorf("%s: %v", c.written, err)
		} else if diff := cmp.Diff([]any{c.want}, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", c.written, diff)
		}
	}
}

// What a variable holds is read like what stands in the file: no more is
// accepted of it.
func TestVariablesKeepTheRules(t *testing.T) {
	for value, written := range map[string]string{
		"0x1F": "0x1F", "010": "010", "1_000": "1_000", ".inf": ".inf", "null": "null", "~": "~", "1e999": "1e999", "99999999999999999999": "99999999999999999999", "True": "True", "": "",
	} {
		_, direct := constantsOf(nil, written)
		_, err := constantsOf(map[string]string{"V": value}, "${V}")
		var findings spec.Errors
		if direct == nil || !errors.As(err, &findings) || len(findings) != 1 {
			t.Errorf("%q is accepted: %v in the file, %v in a variable", value, direct, err)
		} else if e := findings[0]; e.Line != 5 || e.Column != 7 || e.Field != "constants.c0" {
			t.Errorf("%q is reported as %v", value, e)
		}
	}
	for _, c := range []struct{ field, written, value, want string }{
		{"partitions", "${V}", "many", "is not a whole number"},
		{"partitions", "${V}", "2000", "is out of range"},
		{"partitions", `"${V}"`, "8", "must be a number, is text"},
		{"max_bytes", "${V}", "2MiB", "is out of range"},
		{"max_bytes", "${V}", "8 dogs", "is not a size"},
		{"topic", "${V}", "  ", "is empty"},
		{"topic", "${V}", "", "has no value"},
		{"topic", "${V}", "a\xff", "V is not UTF-8"},
		{"fields", "${V}", "{k: string}", "must be a mapping, is a single value"},
		{"${V}", "a", "topic", `unknown word "${V}"`},
	} {
		text := "pipeline: p\ninput:\n  " + c.field + ": " + c.written + "\n"
		_, err := lang.ParseWith("f.yaml", []byte(text), set(map[string]string{"V": c.value}), builtin.Kinds())
		if err == nil || !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), "f.yaml:3:") {
			t.Errorf("%s: %s of %q: %v, want %s", c.field, c.written, c.value, err, c.want)
		}
	}
}

func TestVariablesAreReadInEveryScalar(t *testing.T) {
	text := `pipeline: ${NAME}
input:
  topic: ${TOPIC:-payments}
  partitions: ${PARTITIONS}
  key: k
  fields: {k: string}
  max_bytes: ${BYTES}
  time: {lateness: '${LATE}', late: '${POLICY}'}
steps:
  - features: {spend: {windows: ['${WINDOW}', 1h], aggregates: ['${AGGREGATE}'], elapsed: true}}
  - route:
      a: {when: 'k == "${WHO}"', steps: '${END}'}
      default: ${END}
`
	file, err := lang.ParseWith("f.yaml", []byte(text), set(map[string]string{
		"NAME": "p", "PARTITIONS": "3", "BYTES": "1KiB", "LATE": "5s", "POLICY": "drop", "WINDOW": "60s/5s", "AGGREGATE": "count", "WHO": "me", "END": "drop",
	}), builtin.Kinds())
	if err != nil {
		t.Fatal(err)
	}
	in := file.Pipelines[0].Input
	if file.Pipelines[0].Name != "p" || in.Topic != "payments" || in.Partitions != 3 || in.MaxBytes != 1024 || in.Time.Lateness != 5e9 || in.Time.Late != "drop" {
		t.Errorf("read as %+v", file.Pipelines[0])
	}
	list := file.Pipelines[0].Steps
	if f, cases := list[0].(*steps.Features).List[0], list[1].(*steps.Route).Cases; f.Windows[0] != "60s/5s" || f.Aggregates[0] != "count" || cases[0].When != `k == "me"` || cases[0].Then != "drop" || cases[1].Then != "drop" {
		t.Errorf("steps are read as %+v", list)
	}
}

// A finding stands under its character where that is written, and under its
// variable where it came from one.
func TestFindingsInVariablesArePlacedAtTheirName(t *testing.T) {
	text := "pipeline: p\ninput: {topic: t, key: k, fields: {k: string}}\nsteps:\n  - let:\n      a: 'größe + ${A} + bad ${B:-x}$${ end'\n      b: ${B:-ÿÿ} + bad\n      c: \"\\u00e9${A}\\\"bad\"\n"
	file, err := lang.ParseWith("f.yaml", []byte(text), set(map[string]string{"A": "longer than its name"}), builtin.Kinds())
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(text, "\n")
	for _, c := range []struct{ name, at, want string }{
		{"a", "größe", "größe +"}, {"a", "longer", "${A}"}, {"a", "its name", "${A}"}, {"a", "bad", "bad ${B"}, {"a", "x${", "${B:-x}"}, {"a", "${ end", "$${ end"}, {"a", "end", "end'"},
		{"b", "ÿ", "${B:-ÿÿ}"}, {"b", "bad", "bad"},
		{"c", "é", `\u00e9`}, {"c", "longer", "${A}"}, {"c", `"`, `\"bad`}, {"c", "bad", `bad"`},
	} {
		let := file.Pipelines[0].Steps[0].(*steps.Let).List
		for _, b := range let {
			if b.Name != c.name {
				continue
			}
			before, _, ok := strings.Cut(b.Expr, c.at)
			if !ok {
				t.Fatalf("%q lacks %q", b.Expr, c.at)
			}
			found := file.Explain(0, &spec.Problem{Path: "steps[0].let." + c.name, Column: len([]rune(before)) + 1, Message: "is wrong"})
			var e *spec.Error
			if !errors.As(found, &e) {
				t.Fatalf("not explained: %v", found)
			}
			if got := string([]rune(lines[e.Line-1])[e.Column-1:]); !strings.HasPrefix(got, c.want) {
				t.Errorf("%s in %s stands at %q, want %q", c.at, c.name, got, c.want)
			}
		}
	}
	past := file.Explain(0, &spec.Problem{Path: "steps[0].let.b", Column: 400, Message: "is wrong"}).(spec.Errors)[0]
	if past.Column != len("      b: ${B:-yy} + bad")+1 {
		t.Errorf("a column past the end is %d", past.Column)
	}
}

func TestParseReadsNoEnvironment(t *testing.T) {
	t.Setenv("AFTERBAY_TOPIC", "payments")
	text := []byte("pipeline: ${AFTERBAY_TOPIC}\ninput: {topic: t, key: k, fields: {k: string}}\nsteps: [emit: {topic: o}]\n")
	if _, err := lang.Parse("f.yaml", text, builtin.Kinds()); err == nil || !strings.Contains(err.Error(), "the environment variable AFTERBAY_TOPIC is not set") {
		t.Errorf("Parse: %v", err)
	}
}

// Neither many variables nor large ones take long or fill the memory.
func TestVariablesAreBounded(t *testing.T) {
	const head = "pipeline: p\nconstants:\n  a: "
	large := set(map[string]string{"V": strings.Repeat("x", 1<<17)})
	for _, c := range []struct{ written, want string }{
		{strings.Repeat("${V}", 200_000), "the variables make the file too large"},
		{strings.Repeat("${W}", 200_000), "there is more than these errors"},
		{strings.Repeat("${W:-}", 150_000) + "${W}", "W is not set"},
		{strings.Repeat("${W:-", 150_000), "starts no variable"},
		{strings.Repeat("$", 900_000) + "{", "`input` is missing"},
		{strings.Repeat("${V}\n    ", 90_000), "the variables make the file too large"},
	} {
		start := spent(t)
		_, err := lang.ParseWith("f.yaml", []byte(head+c.written+"\n"), large, builtin.Kinds())
		if took := spent(t) - start; took > 10*time.Second {
			t.Errorf("%.20s... took %v", c.written, took)
		}
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%.20s...: %.200v, want %s", c.written, err, c.want)
		}
	}
}

// spent is what the process took of its CPUs so far: a busy machine makes it no longer.
func spent(t *testing.T) time.Duration {
	t.Helper()
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		t.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
