package decode_test

import (
	"encoding/json"
	"fmt"
	"math"
	"strconv"
	"strings"
	"testing"

	"github.com/afterbay/afterbay/internal/event/decode"
)

// walk returns the members as text, and the error.
func walk(src string) (string, error) {
	w := decode.Walk([]byte(src))
	var members []string
	for w.Next() {
		if w.Array() {
			members = append(members, string(w.Value))
		} else {
			members = append(members, string(w.Name)+"="+string(w.Value))
		}
	}
	return strings.Join(members, " "), w.Err()
}

func TestWalkFindsEveryMember(t *testing.T) {
	for src, want := range map[string]string{
		`{}`:                                 "",
		` [ ] `:                              "",
		`{"a":1,"b":"x"}`:                    `a=1 b="x"`,
		` { "a" : [1, 2] , "a" : null } `:    `a=[1, 2] a=null`,
		`{"\u0061\"":{"b":{}}}`:              `a"={"b":{}}`,
		`[1,-2.5e3 , "]", [3], {"a":[","]}]`: `1 -2.5e3 "]" [3] {"a":[","]}`,
		`[true,false,null]`:                  `true false null`,
	} {
		if got, err := walk(src); err != nil || got != want {
			t.Errorf("%s: %q, %v; want %q", src, got, err, want)
		}
	}
}

func TestWalkRefusesWhatIsNoJSON(t *testing.T) {
	for _, src := range []string{
		"", " ", "1", `"a"`, "{", "[", "[1", "[1,", "[1,]", "[,1]", "[1 2]", "[1}", `{"a":1]`, `{"a"}`, `{"a":}`, `{a:1}`, `{"a":1,}`,
		`{"a":1}x`, "[]]", "{}{}", "[01]", "[1.]", "[\"\x01\"]", "[\"\xff\"]", `["\x"]`, `[nul]`, strings.Repeat("[", 100),
	} {
		if got, err := walk(src); err == nil {
			t.Errorf("%q was read as %q", src, got)
		}
	}
}

func FuzzWalkAgreesWithEncodingJSON(f *testing.F) {
	for _, src := range []string{`{"a":1,"b":[{"c":null}]}`, `[1,2.5e-3,"x\u00e9"]`, `{"a":{"b":[]}}`, `[01]`, `{}x`} {
		f.Add(src)
	}
	f.Fuzz(func(t *testing.T, src string) {
		if strings.Contains(src, "\\u") { // halves of surrogates are told apart in the scanner's own fuzz
			return
		}
		_, err := walk(src)
		var object map[string]json.RawMessage
		var array []json.RawMessage
		want := json.Unmarshal([]byte(src), &object) == nil && object != nil || json.Unmarshal([]byte(src), &array) == nil && array != nil
		if err == nil && !want {
			t.Errorf("%q was taken", src)
		}
		deep := strings.Count(src, "[")+strings.Count(src, "{") > decode.MaxDepth
		if err != nil && want && !deep && strings.ToValidUTF8(src, "") == src {
			t.Errorf("%q was refused: %v", src, err)
		}
	})
}

func TestNumberIsNearest(t *testing.T) {
	for _, text := range []string{"0", "-0", "1", "5.1", "-3.5", "0.1", "1e22", "1e-22", "123456789012345678901234567890", "4.9e-324", "1.7976931348623157e308"} {
		want, err := strconv.ParseFloat(text, 64)
		if err != nil {
			t.Fatal(err)
		}
		if got, ok := decode.Number([]byte(text)); !ok || math.Float64bits(got) != math.Float64bits(want) {
			t.Errorf("%s: %v, %v; want %v", text, got, ok, want)
		}
	}
	for _, text := range []string{"", " 1", "1 ", "+1", ".5", "1.", "01", "1e999", "x", "-", "NaN", "0x1"} {
		if got, ok := decode.Number([]byte(text)); ok {
			t.Errorf("%q is %v", text, got)
		}
	}
}

func ExampleWalk() {
	w := decode.Walk([]byte(`{"id":"r-1","amount":12.5}`))
	for w.Next() {
		fmt.Printf("%s is %s\n", w.Name, w.Value)
	}
	fmt.Println(w.Err())
	// Output:
	// id is "r-1"
	// amount is 12.5
	// <nil>
}
