package jsonschema_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/afterbay/afterbay/internal/event/decode"
	"github.com/afterbay/afterbay/internal/event/jsonschema"
	"github.com/afterbay/afterbay/internal/event/value"
)

func TestDeclaredSaysWhatFieldsCanRead(t *testing.T) {
	schema, err := jsonschema.Parse(`{"required":["a","in","n"],"properties":{"a":{"type":"string","enum":["x","y"]},"b":{"type":["integer","null"]},"n":{"type":"number"},"t":{"type":"boolean"},"e":{"enum":[1,2]},
		"l":{"type":"array","items":{"type":"integer"}},"lo":{"type":"array","items":{"type":"object"}},"o":{"type":"object"},"u":{"type":["string","integer"]},"r":{"$ref":"#/x"},"nil":null,
		"in":{"type":"object","required":["s"],"properties":{"s":{"type":"string"},"p":{"type":"string"}}}}}`)
	if err != nil {
		t.Fatal(err)
	}
	list, open := schema.Declared("")
	var got []string
	for _, d := range list {
		first := value.Kind(0)
		if len(d.Kinds) > 0 {
			first = d.Kinds[0]
		}
		if d.Any != (first == 0) {
			t.Errorf("%s: any %v", decode.PathText(d.Path), d.Any)
		}
		got = append(got, strings.TrimSpace(fmt.Sprintf("%s:%s %s", decode.PathText(d.Path), value.Type{Kind: first, Optional: d.Optional}, strings.Join(d.Symbols, " "))))
	}
	const want = "a:string x y|b:optional int|e:optional|in.p:optional string|in.s:string|l:optional int[]|lo:optional|n:number|o:optional|r:optional|t:optional bool|u:optional"
	if text := strings.Join(got, "|"); text != want || !open {
		t.Errorf("open %v\n%s, want\n%s", open, text, want)
	}
	if inside, _ := schema.Declared("in"); len(inside) != 2 || decode.PathText(inside[1].Path) != "s" || inside[1].Optional {
		t.Errorf("of the member: %v", inside)
	}
}
