package decode_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/afterbay/afterbay/internal/event/decode"
	"github.com/afterbay/afterbay/internal/event/expression"
	"github.com/afterbay/afterbay/internal/event/value"
)

// newPathScanner returns a scanner of fields such as `os optional string device.os`.
func newPathScanner(t testing.TB, fields ...string) (*decode.Scanner, *value.Schema, *value.Row, []decode.Field) {
	schema := &value.Schema{}
	var list []decode.Field
	for _, text := range fields {
		name, rest, _ := strings.Cut(text, " ")
		at := strings.LastIndexByte(rest, ' ')
		typ, err := value.ReadType(rest[:at])
		if err != nil {
			t.Fatal(err)
		}
		slot, err := schema.Add(name, typ)
		if err != nil {
			t.Fatal(err)
		}
		path, err := decode.ParsePath(rest[at+1:])
		if err != nil {
			t.Fatal(err)
		}
		list = append(list, decode.Field{Name: name, Path: path, Slot: slot})
	}
	return decode.New(list), schema, &schema.NewRows(1)[0], list
}

var pathFields = []string{
	"os optional string device.os", "screen optional int device.screen.w", "device optional raw device", "id optional string \"user-id\".\"a.b\"", "first optional number items[0].price", "third optional raw items[2]",
	"prices optional number[] items[].price", "skus optional string[] items[].sku.id", "flat optional int n", "deep optional bool a[0][1].b",
}

func TestFieldsByPath(t *testing.T) {
	scanner, schema, row, _ := newPathScanner(t, pathFields...)
	set := func(src string) string {
		t.Helper()
		row.Reset()
		if err := scanner.Scan([]byte(src), row); err != nil {
			return err.Error()
		}
		var got []string
		for _, slot := range schema.Slots {
			if row.Has(slot) {
				got = append(got, slot.Name+"="+string(expression.AppendValue(nil, row, &slot)))
			}
		}
		return strings.Join(got, " ")
	}
	for src, want := range map[string]string{
		`{"n":1,"device":{"os":"ios","screen":{"h":2,"w":3}},"x":0}`: `os="ios" screen=3 device={"os":"ios","screen":{"h":2,"w":3}} flat=1`,
		`{"device" : { } , "user-id":{"a.b":"u"}}`:                   `device={ } id="u"`,
		`{"device":null,"items":null,"a":[]}`:                        ``,
		`{"device":{"screen":null,"o\u0073":"x"}}`:                   `os="x" device={"screen":null,"o\u0073":"x"}`,
		`{"items":[]}`: `prices=[] skus=[]`,
		`{"items":[{"price":1.5,"sku":{"id":"a"}},{"sku":{"id":"b","x":[1]},"price":2}]}`:                                   `first=1.5 prices=[1.5,2] skus=["a","b"]`,
		`{"items":[ {"price":1,"sku":{"id":"a"}} , {"price":2,"sku":{"id":"b"}} , {"price":3,"sku":{"id":"c"},"y":[{}]} ]}`: `first=1 third={"price":3,"sku":{"id":"c"},"y":[{}]} prices=[1,2,3] skus=["a","b","c"]`,
		`{"a":[[0,{"b":true}],2]}`:                             `deep=true`,
		`{"a":[[0]]}`:                                          ``,
		`{"device":{"os":"a","os":"b"}}`:                       `field "os" at byte 20: occurs in the record twice`,
		`{"device":{},"device":{}}`:                            `field "os" at byte 13: occurs in the record twice`,
		`{"device":"ios"}`:                                     `field "os" at byte 10: want an object on the way to it, got a string`,
		`{"items":{"price":1}}`:                                `field "first" at byte 9: want an array on the way to it, got an object`,
		`{"items":[{"price":1,"sku":{"id":"a"}},{"price":2}]}`: `field "skus" at byte 39: element 1 of the list has none: want string`,
		`{"items":[{"price":1,"sku":{"id":"a"}},null]}`:        `field "prices" at byte 39: element 1 of the list has none: want number`,
		`{"items":[{"price":1,"price":2,"sku":{"id":"a"}}]}`:   `field "prices" at byte 21: occurs in the record twice`,
		`{"items":[{"price":"x","sku":{"id":"a"}}]}`:           `field "prices" at byte 19: want number, got a string`,
		`{"items":[{"price":null,"sku":{"id":"a"}}]}`:          `field "prices" at byte 19: null but required: want number`,
		`{"device":{"os":1}}`:                                  `field "os" at byte 16: want optional string, got a number`,
		`{"device":{"os":"a"`:                                  `field "device" at byte 19: the record ends too early`,
		`{"a":[0,]}`:                                           `field "deep" at byte 6: want an array on the way to it, got a number`,
		`{"a":[[0,{}],]}`:                                      `byte 13: unexpected ']', want a value`,
	} {
		if got := set(src); got != want {
			t.Errorf("%s:\n got %s\nwant %s", src, got, want)
		}
	}
}

func TestRequiredFieldsByPath(t *testing.T) {
	scanner, _, row, _ := newPathScanner(t, "os string device.os", "prices number[] items[].price")
	for src, want := range map[string]string{
		`{"device":{"os":"a"},"items":[]}`: "", `{"device":{"os":"a"}}`: `field "prices" at byte 20: absent but required: want number[]`,
		`{"device":{},"items":[]}`: `field "os" at byte 23: absent but required: want string`, `{"device":null,"items":[]}`: `field "os" at byte 25: absent but required: want string`,
	} {
		if err := scanner.Scan([]byte(src), row); (err == nil) != (want == "") || err != nil && err.Error() != want {
			t.Errorf("%s: %v, want %s", src, err, want)
		}
	}
}

func TestPathsAreRead(t *testing.T) {
	for text, want := range map[string]string{
		`a`: `a`, `device.os`: `device.os`, `"user-id".os`: `user-id.os`, `user-id`: `user-id`, `"a\"b.c"`: `"a\"b.c"`, `"a b"." c"`: `a b." c"`, `items[0].price`: `items[0].price`, `items[].price`: `items[].price`, `a[2][0]`: `a[2][0]`, `"".b`: `"".b`, `"\u00e9"`: `é`,
	} {
		path, err := decode.ParsePath(text)
		if err != nil || decode.PathText(path) != want {
			t.Errorf("%s: %s, %v, want %s", text, decode.PathText(path), err, want)
		}
	}
	for text, want := range map[string]string{
		``: "a name is missing", `.a`: "a name is missing", `a.`: "a name is missing", `a..b`: "a name is missing", `a[`: "write [0]", `a[-1]`: "write [0]", `a[01]`: "write [0]", `a[x]`: "write [0]", `[0]`: "a name is missing", `items[]`: "write items for the list itself",
		`a[].b[].c`: "a path can have [] only once", `"a`: "a quote is not closed", `a[0]b`: "write a dot before", `"a"b`: "write a dot before", `a .b`: "needs quotes", strings.Repeat("a.", 16) + "a": "at most 16 parts",
	} {
		if _, err := decode.ParsePath(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", text, err, want)
		}
	}
}

func TestKeyByPath(t *testing.T) {
	src := []byte(`{"user":{"id":"u1","n":7,"x":1.5},"list":["k"]}`)
	for path, want := range map[string]string{"user.id": "u1", "user.n": "7", "list[0]": "k", "user.x": "", "user.none": "", "user": "", `"user".id`: "u1", "user..id": "", "none.id": ""} {
		if key, ok := decode.Key(src, path); string(key) != want || ok != (want != "") {
			t.Errorf("%s: %q, %v, want %q", path, key, ok, want)
		}
	}
}

// FuzzPathsAgreeWithEncodingJSON holds fields by path against values that encoding/json has
// found.
func FuzzPathsAgreeWithEncodingJSON(f *testing.F) {
	for _, src := range []string{
		`{"n":1,"device":{"os":"ios","screen":{"h":2,"w":3}},"x":0}`, `{"items":[{"price":1.5,"sku":{"id":"a"}},{"sku":{"id":"b"},"price":2},{"price":3,"sku":{"id":""}}]}`, `{"a":[[0,{"b":true}],2],"user-id":{"a.b":"u"}}`,
		`{"items":[]}`, `{"items":[null]}`, `{"device":{"os":null},"items":null,"a":[null]}`, `{"items":[{"price":1,"price":1}]}`, `{"device":[]}`, `{"device":{"os":"a"},"device":1}`, `{"a":[[]],"items":[{"sku":null}]}`,
	} {
		f.Add([]byte(src))
	}
	scanner, schema, row, fields := newPathScanner(f, pathFields...)
	f.Fuzz(func(t *testing.T, src []byte) {
		row.Reset()
		err := scanner.Scan(src, row)
		want, ok := referencePaths(src, schema, fields)
		if ok != (err == nil) {
			t.Fatalf("%q: got %v, reference accepts: %v", src, err, ok)
		}
		if !ok {
			return
		}
		if got, want := show(schema, row), show(schema, want); got != want {
			t.Fatalf("%q:\n got %s\nwant %s", src, got, want)
		}
	})
}

// referencePaths is Scan of fields by path, one after the other.
func referencePaths(src []byte, schema *value.Schema, fields []decode.Field) (*value.Row, bool) {
	if _, ok := members(src); !ok {
		return nil, false
	}
	row := &schema.NewRows(1)[0]
	for _, f := range fields {
		found, ok := walkTo(src, f.Path)
		if !ok {
			return nil, false
		}
		if found != nil && !store(found, f.Slot, row) {
			return nil, false
		}
	}
	return row, true
}

// walkTo returns the value at a path, as a list for one that gathers; nil is absent.
func walkTo(src json.RawMessage, path []decode.Part) (json.RawMessage, bool) {
	if len(path) == 0 {
		if string(src) == "null" {
			return nil, true
		}
		return src, true
	}
	if string(src) == "null" {
		return nil, true
	}
	part := path[0]
	if !part.List {
		all, ok := members(src)
		if !ok || len(all[part.Name]) > 1 {
			return nil, false
		}
		if len(all[part.Name]) == 0 {
			return nil, true
		}
		return walkTo(all[part.Name][0], path[1:])
	}
	var list []json.RawMessage
	if src[0] != '[' || json.Unmarshal(src, &list) != nil {
		return nil, false
	}
	if !part.All {
		if part.Index >= len(list) {
			return nil, true
		}
		return walkTo(list[part.Index], path[1:])
	}
	var each []string
	for _, one := range list {
		v, ok := walkTo(one, path[1:])
		if !ok || v == nil {
			return nil, false
		}
		each = append(each, string(v))
	}
	return json.RawMessage("[" + strings.Join(each, ",") + "]"), true
}

// nestedRecord is benchRecord with half of its fields in objects.
const nestedRecord = `{"event_id":"3f2b8c1e-77aa-4a55-9a52-1d2f6f1b0c9a","user":{"id":"user-0012345","country":"GB","trusted":true},"ts":1763700000123,` +
	`"amount":129.95,"context":{"channel":"web","device":{"id":"device-889","score":0.731},"session":"sess-5567-aa-01"}}`

var nestedFields = []string{
	"event_id string event_id", "user_id string user.id", "ts int ts", "amount number amount", "country string user.country", "channel string context.channel", "device string context.device.id", "trusted bool user.trusted", "score number context.device.score", "session string context.session",
}

func BenchmarkScanNested(b *testing.B) {
	scanner, _, row, _ := newPathScanner(b, nestedFields...)
	src := []byte(nestedRecord)
	b.SetBytes(int64(len(src)))
	b.ReportAllocs()
	for b.Loop() {
		if err := scanner.Scan(src, row); err != nil {
			b.Fatal(err)
		}
	}
}

func TestNestedScanAllocatesNothing(t *testing.T) {
	scanner, _, row, _ := newPathScanner(t, nestedFields...)
	src := []byte(nestedRecord)
	if n := testing.AllocsPerRun(100, func() {
		if err := scanner.Scan(src, row); err != nil {
			t.Fatal(err)
		}
	}); n > 0 {
		t.Errorf("%v allocations", n)
	}
}
