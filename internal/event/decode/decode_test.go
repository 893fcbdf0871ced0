package decode_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/afterbay/afterbay/internal/event/decode"
	"github.com/afterbay/afterbay/internal/event/value"
)

// newScanner returns a scanner of fields written "name type", and a row.
func newScanner(t testing.TB, fields ...string) (*decode.Scanner, *value.Schema, *value.Row) {
	t.Helper()
	var schema value.Schema
	var list []decode.Field
	for _, f := range fields {
		name, text, _ := strings.Cut(f, " ")
		typ, err := value.ReadType(text)
		if err != nil {
			t.Fatal(err)
		}
		slot, err := schema.Add(name, typ)
		if err != nil {
			t.Fatal(err)
		}
		list = append(list, decode.Field{Name: name, Slot: slot})
	}
	return decode.New(list), &schema, &schema.NewRows(1)[0]
}

// show prints the row's slots.
func show(schema *value.Schema, row *value.Row) string {
	var b strings.Builder
	for _, s := range schema.Slots {
		fmt.Fprintf(&b, " %s=", s.Name)
		switch {
		case !row.Has(s):
			b.WriteString("-")
		case s.Type.Kind == value.Bool:
			fmt.Fprint(&b, row.Bool(s))
		case s.Type.Kind == value.Number:
			fmt.Fprint(&b, row.Number(s))
		case s.Type.Kind == value.Vector:
			fmt.Fprint(&b, value.AppendVector[float32](row, nil, s))
		case s.Type.Kind.Text():
			fmt.Fprintf(&b, "%q", row.Text(s))
		default:
			fmt.Fprint(&b, row.Int(s))
		}
	}
	return strings.TrimPrefix(b.String(), " ")
}

func TestScanReadsEveryKind(t *testing.T) {
	all := []string{"b bool", "i int", "n number", "s string", "y bytes", "t time"}
	for _, c := range []struct {
		fields []string
		src    string
		want   string
	}{
		{all, `{"b":true,"i":-7,"n":1.5,"s":"x","y":"AQI=","t":"1970-01-01T00:00:01.000002Z"}`,
			`b=true i=-7 n=1.5 s="x" y="\x01\x02" t=1000002`},
		{all, ` { "t" : "1970-01-01T01:00:00+01:00" , "y":"", "s":"", "n":-0.0, "i":-0 , "b":false } ` + "\r\n\t",
			`b=false i=0 n=-0 s="" y="" t=0`},
		{[]string{"a optional string", "b optional int"}, `{"b":null}`, `a=- b=-`},
		{[]string{"a optional string", "b optional int"}, `{}`, `a=- b=-`},
		{[]string{"a int"}, `{"x":[1,{"a":[]},[[]],{}],"a":5,"y":{"a":6}}`, `a=5`},
		{[]string{"a int", "b int"}, `{"\u0061":1,"\u0062":2}`, `a=1 b=2`},
		{[]string{"a.b int"}, `{"a":{"b":1},"a.b":2}`, `a.b=2`},
		{[]string{"A int"}, `{"a":1,"A":2}`, `A=2`},
		{[]string{`q"u\o int`}, `{"q\"u\\o":1}`, `q"u\o=1`},
		{[]string{"i int"}, `{"i":9223372036854775807}`, `i=9223372036854775807`},
		{[]string{"i int"}, `{"i":-9223372036854775808}`, `i=-9223372036854775808`},
		{[]string{"n number"}, `{"n":9007199254740993}`, `n=9.007199254740992e+15`},
		{[]string{"n number"}, `{"n":1e22}`, `n=1e+22`},
		{[]string{"n number"}, `{"n":0.1}`, `n=0.1`},
		{[]string{"n number"}, `{"n":1.7976931348623157e308}`, `n=1.7976931348623157e+308`},
		{[]string{"n number"}, `{"n":0e999999999999999999999}`, `n=0`},
		{[]string{"n number"}, `{"n":1e-999}`, `n=0`},
		{[]string{"v number[3]"}, `{"v":[ 0.1 ,-2.5e0,16777217 ]}`, `v=[0.1 -2.5 1.6777216e+07]`},
		{[]string{"v optional number[3]"}, `{"v":null}`, `v=-`},
		{[]string{"s string"}, `{"s":"\"\\\/\b\f\n\r\t\u00e9\ud83d\ude00 \ud800\ud83dx\ude00\ud800\u0041"}`,
			"s=" + `"\"\\/\b\f\n\r\té😀 ` + "\ufffd\ufffdx\ufffd\ufffdA" + `"`},
	} {
		scanner, schema, row := newScanner(t, c.fields...)
		if err := scanner.Scan([]byte(c.src), row); err != nil {
			t.Errorf("%s: %v", c.src, err)
		} else if got := show(schema, row); got != c.want {
			t.Errorf("%s:\n got %s\nwant %s", c.src, got, c.want)
		}
	}
}

var badInput = []struct{ src, want string }{
	{``, `byte 0: the record ends too early`},
	{` `, `byte 1: the record ends too early`},
	{"\ufeff{}", `byte 0: a byte order mark before the object`},
	{`null`, `byte 0: unexpected 'n', want a JSON object`},
	{`[]`, `byte 0: unexpected '[', want a JSON object`},
	{`{}x`, `byte 2: unexpected 'x', want the end of the record`},
	{`{} {}`, `byte 3: unexpected '{', want the end of the record`},
	{`{,}`, `byte 1: unexpected ',', want a key in double quotes`},
	{`{"i":1,}`, `byte 7: unexpected '}', want a key in double quotes`},
	{`{i:1}`, `byte 1: unexpected 'i', want a key in double quotes`},
	{`{"i" 1}`, `byte 5: unexpected '1', want ':'`},
	{`{"i":1 "s":""}`, `byte 7: unexpected '"', want ',' or '}'`},
	{`{"i":1]`, `byte 6: unexpected ']', want ',' or '}'`},
	{`{"x":[1}`, `byte 7: unexpected '}', want ',' or ']'`},
	{`{"x":[1,]}`, `byte 8: unexpected ']', want a value`},
	{`{"x":{"y":1,}}`, `byte 12: unexpected '}', want a key in double quotes`},
	{`{"x":{1:1}}`, `byte 6: unexpected '1', want a key in double quotes`},
	{`{"x":é}`, `byte 5: unexpected 'é', want a value`},
	{`{"x":tru}`, `byte 8: unexpected '}', want true`},
	{`{"x":nul`, `byte 8: the record ends too early`},
	{`{"x":True}`, `byte 5: unexpected 'T', want a value`},
	{`{"x":01}`, `byte 6: a number with a leading zero`},
	{`{"x":-}`, `byte 6: unexpected '}', want a digit`},
	{`{"x":+1}`, `byte 5: unexpected '+', want a value`},
	{`{"x":.5}`, `byte 5: unexpected '.', want a value`},
	{`{"x":1.}`, `byte 7: unexpected '}', want a digit`},
	{`{"x":1e+}`, `byte 8: unexpected '}', want a digit`},
	{`{"x":0x10}`, `byte 6: unexpected 'x', want ',' or '}'`},
	{`{"x":NaN}`, `byte 5: unexpected 'N', want a value`},
	{"{\"x\":\"a\tb\"}", `byte 7: control character 0x09 in a string, want \u0009`},
	{"{\"x\":\"\x00\"}", `byte 6: control character 0x00 in a string, want \u0000`},
	{`{"x":"\x"}`, `byte 7: unexpected 'x', want one of "\/bfnrtu after a backslash`},
	{`{"x":"\u12g4"}`, `byte 10: unexpected 'g', want a hexadecimal digit`},
	{`{"x":"\u123`, `byte 11: the record ends too early`},
	{`{"x":"\`, `byte 7: the record ends too early`},
	{"{\"x\":\"a\xffb\"}", `byte 7: invalid UTF-8`},
	{"{\"s\":\"\xed\xa0\x80\"}", `byte 6: invalid UTF-8`},
	{"{\"s\":\"\xc0\x80\"}", `byte 6: invalid UTF-8`},
	{"{\"s\":\"\ufffd\xe2\x82", `byte 9: invalid UTF-8`},
	{`{"i":1,"x":0,"i":1}`, `field "i" at byte 13: occurs in the record twice`},
	{`{"i":null,"\u0069":1}`, `field "i" at byte 10: occurs in the record twice`},
	{`{"b":1}`, `field "b" at byte 5: want optional bool, got a number`},
	{`{"b":"true"}`, `field "b" at byte 5: want optional bool, got a string`},
	{`{"i":true}`, `field "i" at byte 5: want optional int, got a bool`},
	{`{"i":"1"}`, `field "i" at byte 5: want optional int, got a string`},
	{`{"i":1.0}`, `field "i" at byte 5: want int, got a number with a fraction or an exponent`},
	{`{"i":1e3}`, `field "i" at byte 5: want int, got a number with a fraction or an exponent`},
	{`{"i":9223372036854775808}`, `field "i" at byte 5: out of the range of int: 9223372036854775808`},
	{`{"i":-9223372036854775809}`, `field "i" at byte 5: out of the range of int: -9223372036854775809`},
	{`{"i":` + strings.Repeat("9", 400) + `}`, `field "i" at byte 5: out of the range of int: ` + strings.Repeat("9", 37) + `...`},
	{`{"n":1e309}`, `field "n" at byte 5: out of the range of number: 1e309`},
	{`{"n":-1e99999999999999999999}`, `field "n" at byte 5: out of the range of number: -1e99999999999999999999`},
	{`{"n":"1"}`, `field "n" at byte 5: want optional number, got a string`},
	{`{"n":{}}`, `field "n" at byte 5: want optional number, got an object`},
	{`{"s":[]}`, `field "s" at byte 5: want optional string, got an array`},
	{`{"s":5}`, `field "s" at byte 5: want optional string, got a number`},
	{`{"s":x}`, `field "s" at byte 5: unexpected 'x', want a value`},
	{`{"s":nil}`, `field "s" at byte 6: unexpected 'i', want null`},
	{`{"s":`, `field "s" at byte 5: the record ends too early`},
	{`{"y":"AQI"}`, `field "y" at byte 5: not standard base64 with padding`},
	{`{"y":"A-_="}`, `field "y" at byte 5: not standard base64 with padding`},
	{`{"t":0}`, `field "t" at byte 5: want optional time, got a number`},
	{`{"t":"2026-01-01T00:00:00+24:00"}`, `field "t" at byte 5: not a time of RFC 3339 like 2006-01-02T15:04:05.123456Z`},
	{`{"t":"2026-01-01T00:00:00+00:60"}`, `field "t" at byte 5: not a time of RFC 3339 like 2006-01-02T15:04:05.123456Z`},
	{`{"t":"yesterday"}`, `field "t" at byte 5: not a time of RFC 3339 like 2006-01-02T15:04:05.123456Z`},
}

func TestBadInputIsRefusedWithPlaceAndReason(t *testing.T) {
	fields := []string{"b optional bool", "i optional int", "n optional number", "s optional string", "y optional bytes", "t optional time"}
	for _, c := range badInput {
		scanner, _, row := newScanner(t, fields...)
		err := scanner.Scan([]byte(c.src), row)
		var fault *decode.Error
		if !errors.As(err, &fault) {
			t.Errorf("%s: got %v, want %s", c.src, err, c.want)
		} else if err.Error() != c.want {
			t.Errorf("%s:\n got %v\nwant %s", c.src, err, c.want)
		}
	}
}

func TestRequiredFieldMustBePresent(t *testing.T) {
	scanner, _, row := newScanner(t, "a optional int", "b string")
	for src, want := range map[string]string{
		`{"a":1}`:    `field "b" at byte 6: absent but required: want string`,
		`{"b":null}`: `field "b" at byte 5: null but required: want string`,
	} {
		if err := scanner.Scan([]byte(src), row); err == nil || err.Error() != want {
			t.Errorf("%s: got %v, want %s", src, err, want)
		}
	}
}

func TestAVerbatimFieldTakesNumbersAsTheyAreWritten(t *testing.T) {
	var schema value.Schema
	slot, err := schema.Add("id", value.Type{Kind: value.String})
	if err != nil {
		t.Fatal(err)
	}
	scanner, row := decode.New([]decode.Field{{Name: "id", Slot: slot, Verbatim: true}}), schema.NewRows(1)[0]
	for src, want := range map[string]string{`"7"`: "7", `7`: "7", `-0.50`: "-0.50", ` 1E5 `: "1E5", `9223372036854775808`: "9223372036854775808", `"\u0037"`: "7"} {
		if err := scanner.Scan([]byte(`{"id":`+src+`}`), &row); err != nil || row.Text(slot) != want {
			t.Errorf("%s is %q, %v", src, row.Text(slot), err)
		}
	}
	for _, src := range []string{"true", "null", "07", "1.", "[1]"} {
		if err := scanner.Scan([]byte(`{"id":`+src+`}`), &row); err == nil {
			t.Errorf("%s was taken", src)
		}
	}
}

func TestRawIsTheTextOfAnyValueInOneLine(t *testing.T) {
	scanner, schema, row := newScanner(t, "r raw", "o optional raw", "tags string[]")
	for src, want := range map[string]string{
		`{"r": {"b" : 1.50,"a":["\u0041",{}]} ,"tags":[]}`: `r="{\"b\" : 1.50,\"a\":[\"\\u0041\",{}]}" o=- tags=""`,
		`{"r":[1, null],"o":null,"tags":["a","\u0062"]}`:   `r="[1, null]" o=- tags="\x01a\x01b"`,
		`{"r":"x","o":-0.0e1,"tags":[""]}`:                 `r="\"x\"" o="-0.0e1" tags="\x00"`,
		"{\"r\":true,\"o\":{\r\n\"a\":\n1},\"tags\":[ ]}":  `r="true" o="{  \"a\": 1}" tags=""`,
	} {
		if err := scanner.Scan([]byte(src), row); err != nil {
			t.Errorf("%s: %v", src, err)
		} else if got := show(schema, row); got != want {
			t.Errorf("%q:\n got %s\nwant %s", src, got, want)
		}
	}
	deep := strings.Repeat("[", decode.MaxDepth)
	for src, want := range map[string]string{
		`{"r":null,"tags":[]}`:     `field "r" at byte 5: null but required: want raw`,
		`{"tags":[]}`:              `field "r" at byte 10: absent but required: want raw`,
		`{"r":{"a":01},"tags":[]}`: `field "r" at byte 11: a number with a leading zero`,
		`{"r":x}`:                  `field "r" at byte 5: unexpected 'x', want a value`,
		`{"r":1,"tags":["a",1]}`:   `field "tags" at byte 19: want string, got a number`,
		`{"r":1,"tags":["a",]}`:    `field "tags" at byte 19: unexpected ']', want a value`,
		`{"r":` + deep:             `field "r" at byte 68: nested deeper than 64`,
	} {
		if err := scanner.Scan([]byte(src), row); err == nil || err.Error() != want {
			t.Errorf("%s: %v, want %s", src, err, want)
		}
	}
}

func TestScanLeavesOtherSlotsAloneAndClearsItsOwn(t *testing.T) {
	_, schema, row := newScanner(t, "a optional int", "other int")
	a, other := schema.Slots[0], schema.Slots[1]
	row.SetInt(a, 1)
	row.SetInt(other, 2)
	if err := decode.New([]decode.Field{{Name: "a", Slot: a}}).Scan([]byte(`{"other":3}`), row); err != nil {
		t.Fatal(err)
	}
	if got := show(schema, row); got != "a=- other=2" {
		t.Error(got)
	}
}

func TestNestingIsBounded(t *testing.T) {
	scanner, _, row := newScanner(t, "a optional int")
	nest := func(n int) string {
		text := `{"x":` + strings.Repeat(`[{"y":`, n/2) + strings.Repeat("[", n%2)
		return text + strings.Repeat("]", n%2) + map[int]string{0: "1", 1: ""}[n%2] + strings.Repeat("}]", n/2) + `}`
	}
	for n := range decode.MaxDepth {
		if err := scanner.Scan([]byte(nest(n)), row); err != nil {
			t.Fatalf("%d levels: %v", n+1, err)
		}
	}
	for _, n := range []int{decode.MaxDepth, decode.MaxDepth + 1, 100_000} {
		err := scanner.Scan([]byte(nest(n)), row)
		if err == nil || !strings.HasSuffix(err.Error(), "nested deeper than 64") {
			t.Errorf("%d levels: %v", n+1, err)
		}
	}
	if err := scanner.Scan(bytes.Repeat([]byte("["), 1e6), row); err == nil {
		t.Error("a million open brackets accepted")
	}
}

const sample = `{"event_id":"3f2b8c1e-77aa-4a55-9a52-1d2f6f1b0c9a","user_id":"user-0012345","ts":1763700000123,` +
	`"amount":129.95,"country":"GB","channel":"web","device":"ios","trusted":true,"score":0.731,` +
	`"note":"caf\u00e9 \"x\"","nested":{"a":[1,2.5e3,{"b":null}],"c":"d"},"text":"a longer text that nobody reads, 60 characters or so","raw":"AQIDBA==","at":"2026-11-21T04:29:02.5Z"}`

var sampleFields = []string{"event_id string", "user_id string", "ts int", "amount number", "country string", "channel string",
	"device string", "trusted bool", "score number", "note string", "raw bytes", "at time"}

func TestRecordCutAtAnyByteIsRefused(t *testing.T) {
	scanner, _, row := newScanner(t, sampleFields...)
	for n := range len(sample) {
		err := scanner.Scan([]byte(sample[:n]), row)
		var fault *decode.Error
		if !errors.As(err, &fault) {
			t.Fatalf("cut at %d accepted", n)
		}
		if fault.Reason != "the record ends too early" || fault.Offset != n {
			t.Errorf("cut at %d: %v", n, err)
		}
		if _, ok := decode.Key([]byte(sample[:n]), "user_id"); ok {
			t.Errorf("cut at %d has a key", n)
		}
	}
	if err := scanner.Scan([]byte(sample), row); err != nil {
		t.Fatal(err)
	}
}

func TestOrderOfMembersDoesNotMatter(t *testing.T) {
	scanner, schema, row := newScanner(t, "a int", "b int", "c int", "d optional int")
	for _, src := range []string{`{"a":1,"b":2,"c":3}`, `{"c":3,"b":2,"a":1}`, `{"b":2,"c":3,"x":0,"a":1}`, `{"a" :1,"c":3, "b":2}`} {
		if err := scanner.Scan([]byte(src), row); err != nil {
			t.Fatal(err)
		}
		if got := show(schema, row); got != "a=1 b=2 c=3 d=-" {
			t.Errorf("%s: %s", src, got)
		}
	}
}

func TestManyFieldsAreTrackedEach(t *testing.T) {
	var fields []string
	src := "{"
	for i := range 300 {
		fields = append(fields, fmt.Sprintf("f%d int", i))
		src += fmt.Sprintf(`"f%d":%d,`, i, i)
	}
	scanner, schema, row := newScanner(t, fields...)
	if err := scanner.Scan([]byte(src[:len(src)-1]+"}"), row); err != nil || row.Int(schema.Slots[299]) != 299 {
		t.Errorf("%v", err)
	}
	if err := scanner.Scan([]byte(src+`"f256":1}`), row); err == nil || !strings.Contains(err.Error(), "twice") {
		t.Errorf("duplicate: %v", err)
	}
	if err := scanner.Scan([]byte(strings.Replace(src[:len(src)-1], `"f280"`, `"g"`, 1)+"}"), row); err == nil || !strings.Contains(err.Error(), `"f280"`) {
		t.Errorf("absent: %v", err)
	}
}

func TestTimesReadAsTimeParseReadsThem(t *testing.T) {
	scanner, schema, row := newScanner(t, "t time")
	for _, s := range []string{
		"1970-01-01T00:00:00Z", "0000-01-01T00:00:00Z", "9999-12-31T23:59:59.999999999Z", "1969-12-31T23:59:59.9999999Z",
		"2024-02-29T12:00:00+23:59", "2023-02-29T12:00:00Z", "2026-11-21T04:29:02.5-08:30", "2026-04-31T00:00:00Z",
		"2026-11-21T24:00:00Z", "2026-11-21T23:60:00Z", "2026-11-21T23:59:60Z", "2026-13-01T00:00:00Z", "2026-00-01T00:00:00Z",
		"2026-01-00T00:00:00Z", "2026-01-01T00:00:00", "2026-01-01T00:00:00z", "2026-01-01t00:00:00Z", "2026-01-01T00:00:00.Z",
		"2026-01-01T00:00:00+0000", "2026-01-01 00:00:00Z",
		"2026-01-01T00:00:00ZZ", "2026-1-01T00:00:00Z", "+026-01-01T00:00:00Z", "2026-01-01T00:00:00.123456789012345678901234567890Z",
	} {
		var std time.Time
		want := std.UnmarshalText([]byte(s))
		err := scanner.Scan([]byte(`{"t":"`+s+`"}`), row)
		if (err == nil) != (want == nil) {
			t.Errorf("%s: got %v, time.Time says %v", s, err, want)
		} else if err == nil && row.Int(schema.Slots[0]) != std.UnixMicro() {
			t.Errorf("%s: got %d, want %d", s, row.Int(schema.Slots[0]), std.UnixMicro())
		}
	}
}

func TestNumbersReadAsStrconvReadsThem(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	scanner, schema, row := newScanner(t, "n number")
	for range 20_000 {
		text := strconv.FormatUint(random.Uint64()>>random.IntN(64), 10)
		if cut := random.IntN(len(text)); cut > 0 {
			text = text[:cut] + "." + text[cut:]
		}
		text += []string{"", "", fmt.Sprintf("e%d", random.IntN(50)-25), fmt.Sprintf("E+%03d", random.IntN(300))}[random.IntN(4)]
		if random.IntN(2) == 0 {
			text = "-" + text
		}
		want, _ := strconv.ParseFloat(text, 64)
		if err := scanner.Scan([]byte(`{"n":`+text+`}`), row); math.IsInf(want, 0) != (err != nil) {
			t.Fatalf("%s: %v", text, err)
		} else if err == nil && row.Number(schema.Slots[0]) != want {
			t.Fatalf("%s: got %v, want %v", text, row.Number(schema.Slots[0]), want)
		}
	}
}

func TestEveryByteOfAStringIsChecked(t *testing.T) {
	scanner, schema, row := newScanner(t, "s string")
	for c := range 0x80 {
		for at := range 20 {
			text := strings.Repeat("é", at/2) + strings.Repeat("x", at%2) + string(rune(c)) + "0123456789"
			err := scanner.Scan([]byte(`{"s":"`+text+`"}`), row)
			bad := c < ' ' || c == '"' || c == '\\'
			if bad != (err != nil) {
				t.Fatalf("%q: %v", text, err)
			}
			if place := 6 + len(text) - 11; c < ' ' && err.(*decode.Error).Offset != place {
				t.Fatalf("%q: %v, want byte %d", text, err, place)
			}
			if !bad && row.Text(schema.Slots[0]) != text {
				t.Fatalf("%q: got %q", text, row.Text(schema.Slots[0]))
			}
		}
	}
}

func TestKeyIsTheTextOfAStringOrInteger(t *testing.T) {
	const none = "\x00none"
	for src, want := range map[string]string{
		`{"k":"user 1"}`:                  "user 1",
		`{"x":[{"k":1}],"k" : "a\u0062"}`: "ab",
		`{"\u006b":"v"}`:                  "v",
		`{"k":""}`:                        "",
		`{"k":-12}`:                       "-12",
		`{"k":-0}`:                        "0",
		`{"k":9223372036854775807}`:       "9223372036854775807",
		`{"k":9223372036854775808}`:       none,
		`{"k":1.0}`:                       none,
		`{"k":1e2}`:                       none,
		`{"k":null}`:                      none,
		`{"k":true}`:                      none,
		`{"k":{"k":"x"}}`:                 none,
		`{"K":"x"}`:                       none,
		`{}`:                              none,
		``:                                none,
		`["k","v"]`:                       none,
		`{"k":"a","k":"a"}`:               none,
		`{"k":"a"} x`:                     none,
		`{"k":"a",}`:                      none,
		`{"k":"a","x":[}`:                 none,
		"{\"k\":\"a\",\"x\":\"\xff\"}":    none,
	} {
		key, ok := decode.Key([]byte(src), "k")
		if got := string(key); ok != (want != none) || ok && got != want {
			t.Errorf("%s: got %q, %v, want %q", src, key, ok, want)
		}
	}
}

func TestScanAllocatesNothing(t *testing.T) {
	scanner, _, row := newScanner(t, benchFields...)
	src := []byte(benchRecord)
	if n := testing.AllocsPerRun(100, func() {
		if err := scanner.Scan(src, row); err != nil {
			t.Fatal(err)
		}
		if _, ok := decode.Key(src, "user_id"); !ok {
			t.Fatal("no key")
		}
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func TestFieldNamedTwicePanics(t *testing.T) {
	defer func() {
		if recover() == nil {
			t.Error("accepted")
		}
	}()
	decode.New([]decode.Field{{Name: "a"}, {Name: "a"}})
}

func Example() {
	var schema value.Schema
	user, _ := schema.Add("user", value.Type{Kind: value.String})
	amount, _ := schema.Add("amount", value.Type{Kind: value.Number})
	coupon, _ := schema.Add("coupon", value.Type{Kind: value.String, Optional: true})
	scanner := decode.New([]decode.Field{{Name: "user", Slot: user}, {Name: "amount", Slot: amount}, {Name: "coupon", Slot: coupon}})

	row := schema.NewRows(1)[0]
	err := scanner.Scan([]byte(`{"user": "ann", "cart": [1, 2], "amount": 12.5}`), &row)
	fmt.Println(row.Text(user), row.Number(amount), row.Has(coupon), err)

	err = scanner.Scan([]byte(`{"user": "ann", "amount": "12.5"}`), &row)
	fmt.Println(err)
	// Output:
	// ann 12.5 false <nil>
	// field "amount" at byte 26: want number, got a string
}

// The record of the benchmarks: 10 fields of 12 in 300 bytes.
const benchRecord = `{"event_id":"3f2b8c1e-77aa-4a55-9a52-1d2f6f1b0c9a","user_id":"user-0012345","ts":1763700000123,"amount":129.95,` +
	`"country":"GB","channel":"web","device":"ios","trusted":true,"score":0.731,"session":"9a52-1d2f6f1b","extra":17,` +
	`"text":"a longer text that no step of the pipeline reads, some 70 characters"}`

var benchFields = []string{"event_id string", "user_id string", "ts int", "amount number", "country string", "channel string",
	"device string", "trusted bool", "score number", "session string"}

func BenchmarkScan(b *testing.B) {
	scanner, _, row := newScanner(b, benchFields...)
	src := []byte(benchRecord)
	b.SetBytes(int64(len(src)))
	b.ReportAllocs()
	for b.Loop() {
		if err := scanner.Scan(src, row); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkScanShuffled(b *testing.B) {
	fields := append([]string(nil), benchFields...)
	for i := range fields {
		j := (i*7 + 3) % len(fields)
		fields[i], fields[j] = fields[j], fields[i]
	}
	scanner, _, row := newScanner(b, fields...)
	src := []byte(benchRecord)
	b.ReportAllocs()
	for b.Loop() {
		if err := scanner.Scan(src, row); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkKey(b *testing.B) {
	src := []byte(benchRecord)
	b.ReportAllocs()
	for b.Loop() {
		if _, ok := decode.Key(src, "user_id"); !ok {
			b.Fatal("no key")
		}
	}
}

func BenchmarkEncodingJSON(b *testing.B) {
	src := []byte(benchRecord)
	var event struct {
		EventID string  `json:"event_id"`
		UserID  string  `json:"user_id"`
		TS      int64   `json:"ts"`
		Amount  float64 `json:"amount"`
		Country string  `json:"country"`
		Channel string  `json:"channel"`
		Device  string  `json:"device"`
		Trusted bool    `json:"trusted"`
		Score   float64 `json:"score"`
		Session string  `json:"session"`
	}
	b.ReportAllocs()
	for b.Loop() {
		if err := json.Unmarshal(src, &event); err != nil {
			b.Fatal(err)
		}
	}
}

func TestVectorsOfAnotherLengthOrShapeAreRefused(t *testing.T) {
	scanner, _, row := newScanner(t, "v number[2]")
	for src, want := range map[string]string{
		`{"v":[1]}`:        `field "v" at byte 7: 1 numbers: want number[2]`,
		`{"v":[1,2,3]}`:    `field "v" at byte 10: more numbers than number[2]`,
		`{"v":[]}`:         `0 numbers: want number[2]`,
		`{"v":[1,2,]}`:     `unexpected ']', want a number`,
		`{"v":[,1]}`:       `unexpected ',', want a number`,
		`{"v":[1 2]}`:      `unexpected '2', want ',' or ']'`,
		`{"v":["1",2]}`:    `unexpected '"', want a number`,
		`{"v":[[1],2]}`:    `unexpected '[', want a number`,
		`{"v":[1,1e39]}`:   `out of the range of a number of 32 bits: 1e39`,
		`{"v":[1,`:         `the record ends too early`,
		`{"v":1}`:          `want number[2], got a number`,
		`{"v":"AAAAAAAA"}`: `want number[2], got a string`,
	} {
		if err := scanner.Scan([]byte(src), row); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", src, err, want)
		}
	}
}
