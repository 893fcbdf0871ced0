package avro_test

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"math/big"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	generic "github.com/twmb/avro"

	"github.com/afterbay/afterbay/internal/event/encode"
	"github.com/afterbay/afterbay/internal/event/value"
	"github.com/afterbay/afterbay/internal/test/slots"
)

// given is what values of a fuzzed event are made of.
type given struct {
	*rand.Rand
	text string
	n    int64
	x    float64
}

// pair is a type of values and the type of Avro that they are written as. make makes one, as JSON, and whether the type has room for it.
type pair struct {
	slot, schema string
	make         func(g *given) (text string, fits bool)
}

func quoted(text string) string {
	b, err := json.Marshal(text)
	if err != nil {
		panic(err)
	}
	return string(b)
}

// instant makes a time of the years 0 to 9999, and its text in units of so many microseconds.
func instant(g *given, unit int64) string {
	const first, last = -62_167_219_200_000_000, 253_402_300_799_999_999
	t := first + int64(uint64(g.n)%uint64(last-first))
	return quoted(time.UnixMicro(t - t%unit).UTC().Format("2006-01-02T15:04:05.999999Z07:00"))
}

var pairs = []pair{
	{"bool", `"boolean"`, func(g *given) (string, bool) { return fmt.Sprint(g.n&1 == 1), true }},
	{"int", `"long"`, func(g *given) (string, bool) { return fmt.Sprint(g.n), true }},
	{"int", `"int"`, func(g *given) (string, bool) { return fmt.Sprint(g.n), g.n >= math.MinInt32 && g.n <= math.MaxInt32 }},
	{"int", `"double"`, func(g *given) (string, bool) { return fmt.Sprint(g.n), g.n >= -1<<53 && g.n <= 1<<53 }},
	{"int", `{"type":"bytes","logicalType":"decimal","precision":12,"scale":3}`, func(g *given) (string, bool) {
		return fmt.Sprint(g.n), g.n > -1_000_000_000 && g.n < 1_000_000_000
	}},
	{"number", `"double"`, func(g *given) (string, bool) { return fmt.Sprint(g.x), true }},
	{"number", `"float"`, func(g *given) (string, bool) {
		if near := float64(float32(g.x)); !math.IsInf(near, 0) {
			return fmt.Sprint(near), true
		}
		return fmt.Sprint(g.x), false
	}},
	{"number", `{"type":"fixed","name":"D","size":8,"logicalType":"decimal","precision":18,"scale":3}`, func(g *given) (string, bool) { return fmt.Sprint(float64(int32(g.n)) / 8), true }},
	{"string", `"string"`, func(g *given) (string, bool) { return quoted(g.text), true }},
	{"string", `{"type":"enum","name":"E","symbols":["b","a"]}`, func(g *given) (string, bool) {
		if g.IntN(3) > 0 {
			return quoted("a"), true
		}
		return quoted(g.text), g.text == "a" || g.text == "b"
	}},
	{"bytes", `"bytes"`, func(g *given) (string, bool) { return quoted(base64.StdEncoding.EncodeToString([]byte(g.text))), true }},
	{"bytes", `{"type":"fixed","name":"F","size":3}`, func(g *given) (string, bool) {
		return quoted(base64.StdEncoding.EncodeToString([]byte(g.text))), len(g.text) == 3
	}},
	{"time", `{"type":"long","logicalType":"timestamp-micros"}`, func(g *given) (string, bool) { return instant(g, 1), true }},
	{"time", `{"type":"long","logicalType":"timestamp-millis"}`, func(g *given) (string, bool) { return instant(g, 1000), true }},
	{"number[2]", `{"type":"array","items":"double"}`, func(g *given) (string, bool) { return fmt.Sprintf("[%v,0.5]", int8(g.n)), true }},
	{"number[2]", `{"type":"array","items":"float"}`, func(g *given) (string, bool) { return fmt.Sprintf("[%v,0.5]", int8(g.n)), true }},
	{"int[]", `{"type":"array","items":"int"}`, func(g *given) (string, bool) {
		return fmt.Sprintf("[1,%d]", g.n), g.n >= math.MinInt32 && g.n <= math.MaxInt32
	}},
	{"string[]", `{"type":"array","items":"string"}`, func(g *given) (string, bool) {
		all := []string{quoted(g.text), `""`, quoted(g.text + "b")}
		return "[" + strings.Join(all[:g.IntN(4)], ",") + "]", true
	}},
	{"map of int", `{"type":"map","values":"long"}`, func(g *given) (string, bool) { return fmt.Sprintf(`{%s:%d,"é":1}`, quoted(g.text+"_"), g.n), true }},
	{"map of string", `{"type":"map","values":"string"}`, func(g *given) (string, bool) { return fmt.Sprintf(`{"a":%s}`, quoted(g.text)), true }},
}

// showed returns what a slot shows that has a value of the generic decoder.
func showed(v any, slot value.Slot) string {
	switch of := v.(type) {
	case time.Time:
		return fmt.Sprint(of.UnixMicro())
	case *big.Rat:
		n, _ := of.Float64()
		if slot.Type.Kind == value.Int {
			return fmt.Sprint(int64(n))
		}
		return fmt.Sprint(n)
	case float64:
		if slot.Type.Kind == value.Int {
			return fmt.Sprint(int64(of))
		}
	case map[string]any:
		var entries []value.Entry
		for name, one := range of {
			e, _ := element(one, slot.Type.Kind.Element())
			entries = append(entries, value.Entry{Key: name, Element: e})
		}
		return fmt.Sprintf("%q", value.AppendMap(nil, slot.Type.Kind.Element(), entries))
	}
	text, _ := stored(v, slot)
	return text
}

// FuzzEncoderAgreesWithAGenericDecoder makes a schema and an event of a seed and of some values, encodes the event, and has twmb/avro
// decode it: to the same values, and back to the same bytes. An event has an error exactly if a value has no room in its type.
func FuzzEncoderAgreesWithAGenericDecoder(f *testing.F) {
	for seed := range uint64(100) {
		f.Add(seed, []string{"", "a", "é\x00", "abc"}[seed%4], int64(seed)<<(seed%57), float64(seed)/3)
		f.Add(seed, "\xff", -int64(seed*seed)<<(seed%50), math.Ldexp(-1, int(seed)))
	}
	f.Fuzz(func(t *testing.T, seed uint64, text string, n int64, x float64) {
		if !value.Finite(x) {
			x = 1 / x
		}
		if !value.Finite(x) {
			x = 0
		}
		g := &given{rand.New(rand.NewPCG(seed, 5)), strings.ToValidUTF8(text, "?"), n, x}
		var fields, types, members []string
		fit := true
		for i := range 1 + g.IntN(6) {
			p, name := pairs[g.IntN(len(pairs))], fmt.Sprint("f", i)
			v, fits := p.make(g)
			of := strings.NewReplacer(`"D"`, `"D`+name+`"`, `"E"`, `"E`+name+`"`, `"F"`, `"F`+name+`"`).Replace(p.schema)
			switch g.IntN(4) {
			case 0:
				p.slot, of = "optional "+p.slot, `["null",`+of+`]`
			case 1:
				p.slot, of, v, fits = "optional "+p.slot, "["+of+`,"null"]`, "null", true
			}
			fields, types, members = append(fields, name+" "+p.slot), append(types, name+" "+of), append(members, quoted(name)+":"+v)
			fit = fit && fits
		}
		schema, event := record(types...), "{"+strings.Join(members, ",")+"}"
		e, row, err := encoder(t, schema, event, fields...)
		if err != nil {
			t.Fatalf("%s: %v", schema, err)
		}
		made, err := e.Append(nil, row)
		if wrong, ok := errors.AsType[*encode.Error](err); fit != (err == nil) || err != nil && (!ok || wrong.Field == "" || wrong.Reason == "") {
			t.Fatalf("%s: %s: %v, and it has room: %v", schema, event, err, fit)
		}
		if err != nil {
			return
		}
		reference := generic.MustParse(schema)
		all, ok := decodeAll(reference, made)
		if !ok {
			t.Fatalf("%s: %s: %x is refused", schema, event, made)
		}
		wanted, _ := slots.Of(t, fields...)
		for _, w := range wanted {
			if got, want := showed(all[w.Name], w.Slot), slots.Show(row, w.Slot); got != want {
				t.Fatalf("%s: %s: %x: %s is %s, want %s", schema, event, made, w.Name, got, want)
			}
		}
		if strings.Contains(schema, `"map"`) {
			return // the reference writes maps in any order
		}
		if again, err := reference.Encode(all); err != nil || !bytes.Equal(again, made) {
			t.Fatalf("%s: %s: %x, the reference writes %x, %v", schema, event, made, again, err)
		}
	})
}

// BenchmarkEncoder writes ten fields.
func BenchmarkEncoder(b *testing.B) {
	e, row, err := encoder(b, record(`a "long"`, `b ["null","string"]`, `c "double"`, `d {"type":"long","logicalType":"timestamp-micros"}`, `e "string"`, `f "boolean"`, `g ["null","long"]`, `h "long"`,
		`i {"type":"enum","name":"E","symbols":["y","x"]}`, `j "double"`),
		`{"a":123456789,"b":"some text","c":1.5,"d":"2026-01-02T03:04:05Z","e":"another text","f":true,"g":null,"h":-7,"i":"x","j":0.1}`,
		"a int", "b optional string", "c number", "d time", "e string", "f bool", "g optional int", "h int", "i string", "j number")
	if err != nil {
		b.Fatal(err)
	}
	room := make([]byte, 0, 200)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := e.Append(room, row); err != nil {
			b.Fatal(err)
		}
	}
}
