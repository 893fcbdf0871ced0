package avro_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/afterbay/afterbay/internal/event/avro"
	"github.com/afterbay/afterbay/internal/event/decode"
	"github.com/afterbay/afterbay/internal/event/value"
)

const declaredSchema = `{"type":"record","name":"R","fields":[
	{"name":"s","type":"string"},{"name":"ns","type":["null","string"]},{"name":"l","type":"long"},{"name":"f","type":"float"},{"name":"b","type":"boolean"},{"name":"x","type":"bytes"},
	{"name":"ts","type":{"type":"long","logicalType":"timestamp-micros"}},{"name":"d","type":["null",{"type":"int","logicalType":"date"}]},{"name":"c","type":{"type":"fixed","name":"C","size":8,"logicalType":"decimal","scale":2}},
	{"name":"e","type":{"type":"enum","name":"E","symbols":["A","B"]}},{"name":"ls","type":{"type":"array","items":"string"}},{"name":"m","type":{"type":"map","values":"double"}},
	{"name":"in","type":["null",{"type":"record","name":"In","fields":[{"name":"a","type":"int"},{"name":"self","type":["null","In"]}]}]},
	{"name":"lr","type":{"type":"array","items":"In"}},{"name":"u","type":["null","long","string"]},{"name":"nothing","type":"null"}]}`

// TestDeclaredSaysWhatFieldsCanRead compares what is declared with what decoders take.
func TestDeclaredSaysWhatFieldsCanRead(t *testing.T) {
	schema, err := avro.Parse(declaredSchema)
	if err != nil {
		t.Fatal(err)
	}
	list, open := schema.Declared("")
	var got []string
	for _, d := range list {
		first := value.Kind(0)
		for i, kind := range d.Kinds {
			if i == 0 {
				first = kind
			}
			field := decode.Field{Name: "f", Path: d.Path, Slot: value.Slot{Type: value.Type{Kind: kind, Optional: d.Optional}}}
			if _, err := schema.Decoder([]decode.Field{field}); err != nil {
				t.Errorf("%s as %v: %v", decode.PathText(d.Path), kind, err)
			}
		}
		got = append(got, strings.TrimSpace(fmt.Sprintf("%s:%s %s", decode.PathText(d.Path), value.Type{Kind: first, Optional: d.Optional}, strings.Join(d.Symbols, " "))))
	}
	const self = "in.self.self.self"
	want := "s:string|ns:optional string|l:int|f:number|b:bool|x:bytes|ts:time|d:optional time|c:number|e:string A B|ls:string[]|m:map of number|" +
		"in.a:optional int|in.self.a:optional int|in.self.self.a:optional int|" + self + ".a:optional int|" + self + ".self:optional|lr:|u:optional int|nothing:optional"
	if text := strings.Join(got, "|"); text != want || open {
		t.Errorf("open %v\n%s, want\n%s", open, text, want)
	}
	inside, _ := schema.Declared("in")
	if len(inside) == 0 || decode.PathText(inside[0].Path) != "a" || inside[0].Optional {
		t.Errorf("of the member: %v", inside)
	}
	if none, _ := schema.Declared("s"); none != nil {
		t.Errorf("of a text: %v", none)
	}
}

// TestDeclaredIsBounded has a schema whose records in records are more than any memory.
func TestDeclaredIsBounded(t *testing.T) {
	var fields []string
	for i := range 200 {
		fields = append(fields, fmt.Sprintf(`{"name":"f%d","type":["null","R"]}`, i))
	}
	schema, err := avro.Parse(`{"type":"record","name":"R","fields":[` + strings.Join(fields, ",") + `]}`)
	if err != nil {
		t.Fatal(err)
	}
	if list, _ := schema.Declared(""); len(list) > decode.DeclaredMax {
		t.Errorf("%d values", len(list))
	}
}
