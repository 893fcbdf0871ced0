package main

import (
	"slices"
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
	must(t, "", append([]string{"dataset", "p.yaml", "e.ndjson", "--out", "rows.csv", "--columns", "k,who.*,over"}, tables...)...)
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

const asOfPipeline = `pipeline: sales
input: {topic: orders, key: customer, partitions: 2, time: {field: at, unit: s}, fields: {order: string, customer: string, at: int}}
steps:
  - lookup: {name: plan, table: plans, key: customer, as_of: event, time: {field: since, unit: s}, fields: {tier: string}, empty: {tier: '"free"'}}
  - emit: {topic: sold, value: [order, plan.tier]}
`

// TestTrainingRowsOfTablesAreTheLiveOnes has rows come between events. The rows that are
// exported later are what the live pipeline found: none is of a later time.
func TestTrainingRowsOfTablesAreTheLiveOnes(t *testing.T) {
	t.Chdir(t.TempDir())
	write(t, "p.yaml", asOfPipeline)
	produce := func(topic, key, line string) {
		t.Helper()
		must(t, line+"\n", "produce", topic, "--partitions", "2", "--key", key)
	}
	live := func() { must(t, "", "run", "p.yaml", "--until-idle") }
	produce("plans", "customer", `{"customer":"ann","tier":"silver","since":1767258000}`)
	produce("orders", "customer", `{"order":"o1","customer":"ann","at":1767258100}`)
	live()
	produce("plans", "customer", `{"customer":"ann","tier":"gold","since":1767258200}`)
	produce("plans", "customer", `{"customer":"bob","tier":"gold","since":1767258300}`)
	live()
	produce("orders", "customer", `{"order":"o2","customer":"ann","at":1767258200}`)
	produce("orders", "customer", `{"order":"o3","customer":"bob","at":1767258299}`)
	live()
	outputs := must(t, "", "tail", "sold", "--limit", "3")
	must(t, "", "dataset", "p.yaml", "--from-data", "data", "--out", "rows.csv", "--columns", "order,plan.tier")
	rows := strings.Split(strings.TrimSpace(read(t, "rows.csv")), "\n")
	for order, tier := range map[string]string{"o1": "silver", "o2": "gold", "o3": "free"} {
		if want := `{"order":"` + order + `","plan_tier":"` + tier + `"}`; !strings.Contains(outputs, want) {
			t.Errorf("live: %s, want %s", outputs, want)
		}
		if want := `"` + order + `","` + tier + `"`; len(rows) != 4 || !slices.Contains(rows, want) {
			t.Errorf("exported: %q, want %s", rows, want)
		}
	}
	if got := must(t, "", "lint", "p.yaml"); strings.Contains(got, "have arrived") {
		t.Errorf("lint warns of arrival: %s", got)
	}
	write(t, "arrival.yaml", strings.Replace(asOfPipeline, "as_of: event, time: {field: since, unit: s}, ", "", 1))
	if got := command(t, "", "dataset", "arrival.yaml", "--from-data", "data", "--out", "rows.csv"); got.code != exitUsage || !strings.Contains(got.stderr, "columns plan.* of pipeline sales are unknown") {
		t.Errorf("rows that no note is about are taken from the log: %s", got.stderr)
	}
	write(t, "append.yaml", strings.Replace(asOfPipeline, "time: {field: since, unit: s}, ", "", 1))
	write(t, "plans.ndjson", "{}\n")
	write(t, "e.ndjson", "{}\n")
	if got := command(t, "", "try", "append.yaml", "e.ndjson", "--table", "plans:customer=plans.ndjson"); got.code != exitUsage || !strings.Contains(got.stderr, "valid from their append on") {
		t.Errorf("rows whose times no file says are taken from one: %s", got.stderr)
	}
}
