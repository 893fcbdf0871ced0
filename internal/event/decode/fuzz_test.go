package decode_test

import (
	"bytes"
	"encoding/json"
	"io"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/afterbay/afterbay/internal/event/decode"
	"github.com/afterbay/afterbay/internal/event/value"
)

var fuzzFields = []string{"b optional bool", "i optional int", "n optional number", "s optional string", "y optional bytes", "t optional time", "é optional string", "r optional raw", "l optional string[]", "bs optional bool[]", "is optional int[]", "ns optional number[]", "ts optional time[]", "rs optional raw[]", "m optional map of int", "ms optional map of string"}

// FuzzScanAgreesWithEncodingJSON holds the scanner against encoding/json: both
// accept or both refuse, and what both accept has the same values.
func FuzzScanAgreesWithEncodingJSON(f *testing.F) {
	for _, src := range []string{
		sample, benchRecord, `{}`, `{"b":true,"i":1,"n":1.5,"s":"x","y":"AQI=","t":"2026-11-21T04:29:02.5Z","é":"è"}`,
		`{"b":null,"i":null}`, `{"i":1e3}`, `{"i":-0,"n":-0}`, `{"n":123456789012345678901234567890e-10}`, `{"n":1e400}`,
		`{"s":"\ud83d\ude00\ud800\u0041\"\\\/\b\f\n\r\t"}`, `{"\u0073":"a","s":"b"}`, `{"x":[[],{},[{"a":[1]}],"\u12"]}`,
		`{"x":{"a":[1,2],"b":{"c":null}}} `, "{\"s\":\"\xff\"}", `{"n":9007199254740993,"i":9223372036854775808}`, `{"y":"AQ\nI="}`,
		`{"x":0.0000000000000000000000000000001e31,"n":0.1e-22}`, "\ufeff{}", `{"B":true,"S":"x"}`, "{\"r\":{\"a\":\n[1, \"\\n\"]\r} ,\"l\":[\"a\",\"\\u0041\"]}", `{"l":["a",null]}`, `{"bs":[true,false],"is":[1,-2],"ns":[1,2.5e3],"ts":["2026-11-21T04:29:02.5Z"],"rs":[{"a":[1]},2,"x"],"m":{"b":1,"a":2},"ms":{"":"x"}}`, `{"m":{"a":1,"\u0061":2},"is":[1.5]}`, `{"is":[],"m":{}}`, `{"rs":[null],"m":{"a":null}}`, `{"r":[1,],"l":[]}`, `{"t":"2024-02-30T00:00:00Z"}`,
	} {
		f.Add([]byte(src))
	}
	scanner, schema, row := newScanner(f, fuzzFields...)
	f.Fuzz(func(t *testing.T, src []byte) {
		err := scanner.Scan(src, row)
		want, ok := reference(src, schema)
		if ok != (err == nil) {
			t.Fatalf("%q: got %v, reference accepts: %v", src, err, ok)
		}
		if ok {
			if got, want := show(schema, row), show(schema, want); got != want {
				t.Fatalf("%q:\n got %s\nwant %s", src, got, want)
			}
		} else if fault := err.(*decode.Error); fault.Offset < 0 || fault.Offset > len(src) || fault.Reason == "" {
			t.Fatalf("%q: %v", src, err)
		}
		key, has := decode.Key(src, "s")
		wantKey, wantHas := referenceKey(src)
		if has != wantHas || string(key) != wantKey {
			t.Fatalf("%q: key %q, %v, want %q, %v", src, key, has, wantKey, wantHas)
		}
	})
}

// members reads src as one object with encoding/json and our rules of syntax:
// UTF-8, depth, and names byte for byte.
func members(src []byte) (map[string][]json.RawMessage, bool) {
	if !json.Valid(src) || !utf8.Valid(src) {
		return nil, false
	}
	depth := 0
	for d := json.NewDecoder(bytes.NewReader(src)); ; {
		token, err := d.Token()
		if err == io.EOF {
			break
		}
		switch token {
		case json.Delim('{'), json.Delim('['):
			depth++
		case json.Delim('}'), json.Delim(']'):
			depth--
		}
		if depth > decode.MaxDepth {
			return nil, false
		}
	}
	d := json.NewDecoder(bytes.NewReader(src))
	if token, _ := d.Token(); token != json.Delim('{') {
		return nil, false
	}
	all := map[string][]json.RawMessage{}
	for d.More() {
		name, _ := d.Token()
		var raw json.RawMessage
		if d.Decode(&raw) != nil {
			return nil, false
		}
		all[name.(string)] = append(all[name.(string)], raw)
	}
	return all, true
}

// reference is Scan by encoding/json.
func reference(src []byte, schema *value.Schema) (*value.Row, bool) {
	all, ok := members(src)
	if !ok {
		return nil, false
	}
	row := &schema.NewRows(1)[0]
	for _, slot := range schema.Slots {
		raws := all[slot.Name]
		if len(raws) > 1 {
			return nil, false
		}
		if len(raws) == 0 || string(raws[0]) == "null" {
			continue
		}
		if !store(raws[0], slot, row) {
			return nil, false
		}
	}
	return row, true
}

// lax is what package time takes and RFC 3339 does not: zones, and hours of one digit.
var lax = regexp.MustCompile(`[+-](24:\d\d|\d\d:60)$|T\d:`)

func store(raw json.RawMessage, slot value.Slot, row *value.Row) bool {
	switch slot.Type.Kind {
	case value.Bool:
		return into(raw, func(v bool) { row.SetBool(slot, v) })
	case value.Int:
		return into(raw, func(v int64) { row.SetInt(slot, v) })
	case value.Number:
		return into(raw, func(v float64) { row.SetNumber(slot, v) })
	case value.Bytes:
		return into(raw, func(v []byte) { row.SetText(slot, string(v)) })
	case value.Raw:
		row.SetText(slot, strings.NewReplacer("\n", " ", "\r", " ").Replace(string(raw)))
		return true
	case value.Time:
		var v string
		if json.Unmarshal(raw, &v) != nil || lax.MatchString(v) {
			return false
		}
		return into(raw, func(v time.Time) { row.SetInt(slot, v.UnixMicro()) })
	}
	switch kind := slot.Type.Kind; {
	case kind.IsList():
		return storeList(raw, slot, row)
	case kind.IsMap():
		return storeMap(raw, slot, row)
	}
	return into(raw, func(v string) { row.SetText(slot, v) })
}

// storeOne is store of an element of a list or map.
func storeOne(raw json.RawMessage, kind value.Kind) (value.Element, bool) {
	var schema value.Schema
	slot, err := schema.Add("element", value.Type{Kind: kind})
	if err != nil {
		panic(err) // one name
	}
	row := &schema.NewRows(1)[0]
	ok := string(raw) != "null" && store(raw, slot, row)
	return row.Element(&slot), ok
}

func storeList(raw json.RawMessage, slot value.Slot, row *value.Row) bool {
	var list []json.RawMessage
	if raw[0] != '[' || json.Unmarshal(raw, &list) != nil {
		return false
	}
	of := slot.Type.Kind.Element()
	var text []byte
	for _, one := range list {
		e, ok := storeOne(one, of)
		if !ok {
			return false
		}
		text = value.AppendElement(text, of, e)
	}
	row.SetText(slot, string(text))
	return true
}

func storeMap(raw json.RawMessage, slot value.Slot, row *value.Row) bool {
	all, ok := members(raw)
	if !ok {
		return false
	}
	of := slot.Type.Kind.Element()
	var text []byte
	for _, key := range slices.Sorted(maps.Keys(all)) {
		e, ok := storeOne(all[key][0], of)
		if !ok || len(all[key]) > 1 {
			return false
		}
		text = value.AppendEntry(text, of, value.Entry{Key: key, Element: e})
	}
	row.SetText(slot, string(text))
	return true
}

func into[T any](raw []byte, set func(T)) bool {
	var v T
	if raw[0] == '[' || json.Unmarshal(raw, &v) != nil { // an array of numbers is bytes to encoding/json
		return false
	}
	set(v)
	return true
}

func referenceKey(src []byte) (string, bool) {
	all, ok := members(src)
	if !ok || len(all["s"]) != 1 {
		return "", false
	}
	var v any
	d := json.NewDecoder(bytes.NewReader(all["s"][0]))
	d.UseNumber()
	if d.Decode(&v) != nil {
		return "", false
	}
	switch v := v.(type) {
	case string:
		return v, true
	case json.Number:
		n, err := strconv.ParseInt(v.String(), 10, 64)
		return map[bool]string{true: strconv.FormatInt(n, 10)}[err == nil], err == nil
	}
	return "", false
}
