package main

import (
	"strings"
	"testing"
)

const tablesPipeline = `pipeline: sales
input: {topic: in, key: k, fields: {k: string, shop: int, amount: number}}
steps:
  - lookup: {name: who, table: people, key: k, fields: {limit: number}, empty: {limit: 10.0}}
  - lookup: {name: at, table: shops, key: shop, fields: {country: string}}
  - let: {over: amount > who.limit}
  - emit: {topic: out, value: [k, over, at.country]}
`

func TestRowsOfTablesComeFromFiles(t *testing.T) {
	t.Chdir(t.TempDir())
	write(t, "p.yaml", tablesPipeline)
	write(t, "e.ndjson", `{"k":"a","shop":7,"amount":50}`+"\n"+`{"k":"b","shop":8,"amount":50}`+"\n")
	write(t, "people.ndjson", `{"name":"a","limit":20}`+"\n"+`{"name":"a","limit":100}`+"\n")
	write(t, "shops.csv", "number,country\n7,DE\n")
	tables := []string{"--table", "people:name=people.ndjson", "--table", "shops:number=shops.csv"}
	got := must(t, "", append([]string{"try", "p.yaml", "e.ndjson"}, tables...)...)
	for _, want := range []string{
		"  lookup    who.limit=100 at.country=\"DE\"\n", `{"k":"a","over":false,"at_country":"DE"}`,
		"  lookup    who.limit=10\n", `{"k":"b","over":true,"at_country":null}`,
	} {
		if !strings.Contains(got, want) {
			t.Errorf("%q is not in\n%s", want, got)
		}
	}
	must(t, "", append([]string{"features", "p.yaml", "e.ndjson", "--out", "rows.csv", "--columns", "k,who.*,over"}, tables...)...)
	if want := "k,who.limit,over\n\"a\",100,false\n\"b\",10,true\n"; read(t, "rows.csv") != want {
		t.Errorf("rows: %s", read(t, "rows.csv"))
	}
}

func TestTablesSayWhatIsWrong(t *testing.T) {
	t.Chdir(t.TempDir())
	write(t, "p.yaml", tablesPipeline)
	write(t, "e.ndjson", "{}\n")
	write(t, "people.ndjson", "")
	for _, c := range []struct {
		flags string
		want  string
	}{
		{"", "pipeline sales looks up people: name a file of its rows with --table people:KEY=FILE"},
		{"--table people:name=people.ndjson", "pipeline sales looks up shops: name a file"},
		{"--table people=people.ndjson", "--table people=people.ndjson: write TOPIC:KEY=FILE"},
		{"--table cities:name=people.ndjson", "no pipeline looks up cities"},
		{"--table people:name=none.ndjson", "none.ndjson"},
	} {
		got := command(t, "", append([]string{"try", "p.yaml", "e.ndjson"}, strings.Fields(c.flags)...)...)
		if got.code != exitUsage && c.want != "none.ndjson" || got.code == 0 || !strings.Contains(got.stderr, c.want) {
			t.Errorf("%s: exit code %d and %s, want %s", c.flags, got.code, got.stderr, c.want)
		}
	}
}
