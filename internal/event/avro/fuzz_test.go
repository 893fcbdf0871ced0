package avro_test

import (
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"
	"unicode/utf8"

	generic "github.com/twmb/avro"

	"github.com/afterbay/afterbay/internal/event/avro"
	"github.com/afterbay/afterbay/internal/event/decode"
	"github.com/afterbay/afterbay/internal/event/value"
	"github.com/afterbay/afterbay/internal/test/slots"
)

// FuzzScanAgreesWithAGenericDecoder makes a schema, fields and a record of a seed, changes bytes of
// the record, and holds the decoder against twmb/avro, which makes a value of each field.
func FuzzScanAgreesWithAGenericDecoder(f *testing.F) {
	for seed := range uint64(300) {
		f.Add(seed, []byte{})
		f.Add(seed, []byte{byte(seed), 1, byte(seed >> 3), 0x80})
	}
	f.Fuzz(func(t *testing.T, seed uint64, changes []byte) {
		g := &generator{Rand: rand.New(rand.NewPCG(seed, 1))}
		text := g.schema()
		reference, err := generic.Parse(text)
		if err != nil {
			t.Fatalf("%s: %v", text, err)
		}
		schema, err := avro.Parse(text)
		if err != nil {
			t.Fatalf("%s: %v", text, err)
		}
		fields, row := g.wanted(t)
		decoder, err := schema.Decoder(fields)
		if err != nil {
			return // a type does not fit; TestTypesFit has those that do
		}
		src, err := reference.Encode(g.record)
		if err != nil {
			t.Fatalf("%s: %v: %v", text, g.record, err)
		}
		for i := 0; i+1 < len(changes) && len(src) > 0; i += 2 {
			src[int(changes[i])%len(src)] ^= changes[i+1]
		}
		if n := len(changes); n%2 == 1 && len(src) > 0 {
			src = src[:int(changes[n-1])%len(src)]
		}
		all, ok := decodeAll(reference, src)
		err = decoder.Scan(src, row)
		if err != nil {
			if fault := err.(*decode.Error); fault.Offset < 0 || fault.Offset > len(src) || fault.Reason == "" {
				t.Fatalf("%s: %x: %v", text, src, err)
			}
			if strings.HasSuffix(err.Error(), "is not a bool") {
				return // the reference takes any byte
			}
		}
		shown, wrong := schema.AppendJSON(nil, src)
		if wrong == nil && !json.Valid(shown) || wrong != nil && len(changes) == 0 {
			t.Fatalf("%s: %x: shown as %s, %v", text, src, shown, wrong)
		}
		if !ok {
			return // it looks at what is skipped here
		}
		for i := range fields {
			want, fits := stored(all[fields[i].Name], fields[i].Slot)
			if err == nil && !fits {
				t.Fatalf("%s: %x: %s is taken, and has the value %v", text, src, fields[i].Name, all[fields[i].Name])
			}
			if ok = ok && fits; err == nil && slots.Show(row, fields[i].Slot) != want {
				t.Fatalf("%s: %x: %s is %s, want %s", text, src, fields[i].Name, slots.Show(row, fields[i].Slot), want)
			}
		}
		if ok && err != nil {
			t.Fatalf("%s: %x: %v, the reference has %v", text, src, err, all)
		}
	})
}

// decodeAll decodes a record with the generic decoder. It is not ok if that refuses it.
func decodeAll(schema *generic.Schema, src []byte) (all map[string]any, ok bool) {
	var v any
	rest, err := schema.Decode(src, &v)
	if err != nil || len(rest) > 0 {
		return nil, false
	}
	all, ok = v.(map[string]any)
	return all, ok
}

// stored returns what a slot shows that has a value of the generic decoder; it is not ok if the
// slot does not take it.
func stored(v any, slot value.Slot) (text string, ok bool) {
	if v == nil {
		return "absent", slot.Type.Optional
	}
	switch slot.Type.Kind {
	case value.Bool:
		v, ok := v.(bool)
		return fmt.Sprint(v), ok
	case value.Int:
		return whole(v)
	case value.Number:
		n, ok := number(v)
		return fmt.Sprint(n), ok
	case value.String:
		v, ok := v.(string)
		return fmt.Sprintf("%q", v), ok && utf8.ValidString(v)
	case value.Bytes:
		v, ok := v.([]byte)
		return fmt.Sprintf("%q", v), ok
	case value.List | value.String, value.List | value.Int, value.List | value.Number, value.List | value.Bool:
		list, ok := v.([]any)
		var all []byte
		for _, one := range list {
			e, fits := element(one, slot.Type.Kind.Element())
			ok = ok && fits
			all = value.AppendElement(all, slot.Type.Kind.Element(), e)
		}
		return fmt.Sprintf("%q", all), ok
	case value.Vector:
		list, ok := v.([]any)
		var all []float32
		for _, one := range list {
			n, fits := number(one)
			ok = ok && fits && value.Finite(float64(float32(n)))
			all = append(all, float32(n))
		}
		return fmt.Sprint(all), ok && len(all) == slot.Type.Size
	}
	return "", false
}

func element(v any, of value.Kind) (e value.Element, ok bool) {
	switch of {
	case value.String:
		e.Str, ok = v.(string)
		return e, ok && utf8.ValidString(e.Str)
	case value.Number:
		n, ok := number(v)
		return value.Element{Num: math.Float64bits(n)}, ok
	case value.Bool:
		b, ok := v.(bool)
		return value.Element{Num: map[bool]uint64{true: 1}[b]}, ok
	}
	switch v := v.(type) {
	case int32:
		return value.Element{Num: uint64(v)}, true
	case int64:
		return value.Element{Num: uint64(v)}, true
	}
	return e, false
}

func whole(v any) (string, bool) {
	switch v.(type) {
	case int32, int64, int:
		return fmt.Sprint(v), true
	}
	return "", false
}

func number(v any) (float64, bool) {
	switch v := v.(type) {
	case int32:
		return float64(v), true
	case int64:
		return float64(v), true
	case int:
		return float64(v), true
	case float32:
		return float64(v), value.Finite(float64(v))
	case float64:
		return v, value.Finite(v)
	}
	return 0, false
}

// generator makes schemas and values of them.
type generator struct {
	*rand.Rand
	names  int
	kinds  []string // of the fields of the record, as the schema has them
	record map[string]any
}

// schema makes the schema of a record, and a value.
func (g *generator) schema() string {
	g.record = map[string]any{}
	var fields []string
	for i := range 1 + g.IntN(12) {
		of, v := g.of(0)
		g.kinds = append(g.kinds, of)
		g.record[fmt.Sprint("f", i)] = v
		fields = append(fields, fmt.Sprintf(`{"name":"f%d","type":%s}`, i, of))
	}
	return `{"type":"record","name":"Event","namespace":"test","fields":[` + strings.Join(fields, ",") + `]}`
}

// of makes a type and a value of it.
func (g *generator) of(depth int) (string, any) {
	n := 14
	if depth > 3 {
		n = 9
	}
	switch g.IntN(n) {
	case 0:
		return `"boolean"`, g.IntN(2) == 0
	case 1:
		return `"int"`, int32(g.Uint32()) >> g.IntN(31)
	case 2:
		return `"long"`, int64(g.Uint64()) >> g.IntN(63)
	case 3:
		return `"float"`, g.Float32()
	case 4:
		return `"double"`, g.NormFloat64()
	case 5:
		return `"string"`, g.word()
	case 6:
		return `"bytes"`, []byte(g.word())
	case 7:
		g.names++
		return fmt.Sprintf(`{"type":"enum","name":"E%d","symbols":["A","B","C"]}`, g.names), string(rune('A' + g.IntN(3)))
	case 8:
		g.names++
		size := g.IntN(9)
		return fmt.Sprintf(`{"type":"fixed","name":"F%d","size":%d}`, g.names, size), make([]byte, size)
	case 9, 10:
		of, v := g.of(5)
		if g.IntN(3) == 0 {
			v = nil
		}
		return `["null",` + of + `]`, v
	case 11:
		of, v := g.of(depth + 1)
		list := make([]any, g.IntN(4))
		for i := range list {
			list[i] = v
		}
		return `{"type":"array","items":` + of + `}`, list
	case 12:
		of, v := g.of(depth + 1)
		all := map[string]any{}
		for range g.IntN(3) {
			all[g.word()] = v
		}
		return `{"type":"map","values":` + of + `}`, all
	}
	g.names++
	name, of := g.names, ""
	of, v := g.of(depth + 1)
	other, w := g.of(depth + 1)
	return fmt.Sprintf(`{"type":"record","name":"R%d","fields":[{"name":"a","type":%s},{"name":"b","type":%s}]}`, name, of, other), map[string]any{"a": v, "b": w}
}

func (g *generator) word() string { return strings.Repeat(string(rune('a'+g.IntN(26))), g.IntN(80)) }

// wanted chooses fields of the record, each with a type that mostly fits, and returns a row.
func (g *generator) wanted(t *testing.T) ([]decode.Field, *value.Row) {
	t.Helper()
	var schema value.Schema
	var fields []decode.Field
	for i, of := range g.kinds {
		if g.IntN(3) == 0 {
			continue
		}
		text, optional := strings.CutPrefix(of, `["null",`)
		kind := map[string]value.Kind{`"boolean"`: value.Bool, `"int"`: value.Int, `"long"`: value.Int, `"float"`: value.Number, `"double"`: value.Number, `"string"`: value.String, `"bytes"`: value.Bytes}[strings.TrimSuffix(text, "]")]
		switch {
		case kind == value.Int && g.IntN(2) == 0:
			kind = value.Number
		case strings.HasPrefix(text, `{"type":"enum"`):
			kind = value.String
		case strings.HasPrefix(text, `{"type":"fixed"`):
			kind = value.Bytes
		case strings.HasPrefix(text, `{"type":"array","items":"string"`):
			kind = value.List | value.String
		case strings.HasPrefix(text, `{"type":"array","items":"boolean"`):
			kind = value.List | value.Bool
		case strings.HasPrefix(text, `{"type":"array","items":"int"`), strings.HasPrefix(text, `{"type":"array","items":"long"`):
			kind = value.List | value.Int
		case strings.HasPrefix(text, `{"type":"array","items":"float"`) && g.IntN(2) == 0:
			kind = value.List | value.Number
		case strings.HasPrefix(text, `{"type":"array"`):
			kind = value.Vector
		case kind == 0:
			continue
		}
		typ := value.Type{Kind: kind, Optional: optional && g.IntN(4) > 0}
		if kind == value.Vector {
			typ.Size = 1 + g.IntN(3)
		}
		name := fmt.Sprint("f", i)
		slot, err := schema.Add(name, typ)
		if err != nil {
			t.Fatal(err)
		}
		fields = append(fields, decode.Field{Name: name, Slot: slot})
	}
	g.Shuffle(len(fields), func(i, j int) { fields[i], fields[j] = fields[j], fields[i] })
	return fields, &schema.NewRows(1)[0]
}

// FuzzParse sees that what the parser of twmb/avro takes is taken, but for records without an end, and
// that no schema and no record takes memory or time without a bound.
func FuzzParse(f *testing.F) {
	for seed := range uint64(50) {
		g := &generator{Rand: rand.New(rand.NewPCG(seed, 2))}
		f.Add(g.schema(), []byte{1, 2, 3})
	}
	f.Add(`{"type":"record","name":"L","fields":[{"name":"v","type":"long"},{"name":"next","type":["null","L"]}]}`, []byte{2, 2, 4, 0})
	f.Add(`{"type":"record","name":"L","fields":[{"name":"next","type":"L"}]}`, []byte{})
	f.Add(`{"type":"record","name":"N","fields":[{"name":"n","type":{"type":"array","items":"null"}}]}`, []byte{0xfe, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f, 0})
	f.Fuzz(func(t *testing.T, text string, src []byte) {
		schema, err := avro.Parse(text)
		if _, refused := generic.Parse(text); refused == nil && err != nil && !strings.Contains(err.Error(), "is a part of itself") && json.Valid([]byte(text)) && len(text) < 1000 {
			t.Fatalf("%s: %v", text, err)
		}
		if err != nil {
			return
		}
		decoder, err := schema.Decoder(nil)
		if err != nil {
			return
		}
		var none value.Schema
		_ = decoder.Scan(src, &none.NewRows(1)[0])
	})
}
