package main

import (
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/sr"
	"github.com/twmb/franz-go/pkg/sr/srfake"
)

const registryPipeline = `pipeline: posts
schema_registry: ${REGISTRY}
inputs:
  - {topic: posts, key: user, format: schema_registry, fields: {user: string, score: number}}
  - {topic: likes, key: user, format: schema_registry, fields: {user: string}}
steps:
  - emit: {topic: seen, value: [user, score ?? 0.0]}
`

// TestLintComparesFieldsWithTheRegistry names each input whose newest schema does not have its fields, and warns of
// subjects that are not there or whose next version may lack fields.
func TestLintComparesFieldsWithTheRegistry(t *testing.T) {
	server := srfake.New()
	defer server.Close()
	t.Chdir(t.TempDir())
	t.Setenv("REGISTRY", server.URL())
	write(t, "posts.yaml", strings.Replace(registryPipeline, "[user, score ?? 0.0]", "[user]", 1))
	must(t, "", "lint", "posts.yaml") // sends no request
	register := func(of sr.SchemaType, schema string) {
		if _, _, err := server.RegisterSchema("posts-value", sr.Schema{Schema: schema, Type: of}); err != nil {
			t.Fatal(err)
		}
	}
	lint := func() (findings []string, text string) {
		r := command(t, "", "lint", "--connect", "posts.yaml")
		for _, f := range findingsOf(t, command(t, "", "lint", "--connect", "--json", "posts.yaml")) {
			findings = append(findings, f.Path+": "+f.Message)
		}
		return findings, r.stdout
	}
	found, text := lint()
	if len(found) > 0 || !strings.Contains(text, "inputs[0]: the schema registry has no subject posts-value") || !strings.Contains(text, "inputs[1]: the schema registry has no subject likes-value") {
		t.Errorf("without subjects: %q, %s", found, text)
	}
	register(sr.TypeAvro, `{"type":"record","name":"Post","fields":[{"name":"user","type":"string"},{"name":"score","type":"double"}]}`)
	if found, text := lint(); len(found) > 0 || !strings.Contains(text, "inputs[0]: subject posts-value has the compatibility mode BACKWARD") {
		t.Errorf("by default: %q, %s", found, text)
	}
	if err := server.SetCompat("posts-value", sr.CompatFull); err != nil {
		t.Fatal(err)
	}
	if found, text := lint(); len(found) > 0 || strings.Contains(text, "posts-value") {
		t.Errorf("with FULL: %q, %s", found, text)
	}
	register(sr.TypeProtobuf, `syntax = "proto3"; message Other { string score = 1; } message Post { string user = 1; double score = 2; }`)
	if found, text := lint(); len(found) > 0 {
		t.Errorf("of Protobuf: %q, %s", found, text)
	}
	register(sr.TypeAvro, `{"type":"record","name":"Post","fields":[{"name":"user","type":"string"},{"name":"score","type":"string"}]}`)
	if found, _ := lint(); len(found) != 1 || !strings.HasPrefix(found[0], `inputs[0].fields: version 3 of subject posts-value, schema id 3, does not fit: field "score" is of type string in the schema: want number`) {
		t.Errorf("of another type: %q", found)
	}
	server.Intercept(func(w http.ResponseWriter, _ *http.Request) bool {
		http.Error(w, "", http.StatusUnauthorized)
		return true
	})
	if found, _ := lint(); len(found) != 2 || !strings.HasPrefix(found[0], "schema_registry: the schema registry does not answer: 401 Unauthorized") {
		t.Errorf("without credentials: %q", found)
	}
}

// TestLintAsksForTheSchemasOfOutputs names a schema that the registry lacks, refuses or is not asked for, and registers none.
func TestLintAsksForTheSchemasOfOutputs(t *testing.T) {
	server := srfake.New()
	defer server.Close()
	t.Chdir(t.TempDir())
	t.Setenv("REGISTRY", server.URL())
	write(t, "seen.avsc", `{"type":"record","name":"Seen","fields":[{"name":"user","type":"string"}]}`)
	lint := func(format string) (findings []string) {
		write(t, "seen.yaml", `pipeline: posts
schema_registry: ${REGISTRY}
input: {topic: posts, key: user, fields: {user: string}}
steps:
  - emit: {topic: seen, value: [user], format: {`+format+`}}
`)
		must(t, "", "lint", "seen.yaml") // sends no request
		for _, f := range findingsOf(t, command(t, "", "lint", "--connect", "--json", "seen.yaml")) {
			findings = append(findings, f.Path+": "+f.Message)
		}
		return findings
	}
	lacks := "steps[0].emit.format: subject seen-value does not have the schema: register it, or write `register: true`"
	if found := lint("avro: seen.avsc, schema_registry: true"); len(found) != 1 || found[0] != lacks {
		t.Errorf("without the schema: %q", found)
	}
	if found := lint("avro: seen.avsc, schema_registry: true, register: true"); len(found) > 0 || server.SubjectExists("seen-value") {
		t.Errorf("to be registered: %q", found)
	}
	write(t, "seen.proto", `syntax = "proto3"; message Seen { string user = 1; }`)
	write(t, "seen.json", `{"required":["user"]}`)
	for _, format := range []string{"protobuf: {file: seen.proto}", "json_schema: seen.json"} {
		if found := lint(format + ", schema_registry: true"); len(found) != 1 || found[0] != lacks {
			t.Errorf("%s: %q", format, found)
		}
	}
	server.Intercept(func(w http.ResponseWriter, request *http.Request) bool {
		asked := strings.HasPrefix(request.URL.Path, "/compatibility/")
		if asked {
			_, _ = w.Write([]byte(`{"is_compatible":false,"messages":["reader field user is missing"]}`))
		}
		return asked
	})
	if found := lint("avro: seen.avsc, schema_registry: true, register: true"); len(found) != 1 || found[0] != `steps[0].emit.format: the schema is not compatible with the newest version of subject seen-value: ["reader field user is missing"]` {
		t.Errorf("not compatible: %q", found)
	}
	server.Close()
	if found := lint("avro: seen.avsc, schema_registry: true"); len(found) != 1 || !strings.HasPrefix(found[0], "schema_registry: the schema registry does not answer: ") {
		t.Errorf("away: %q", found)
	}
}

// TestLintComparesTablesAndKeysWithTheRegistry has the schemas of the rows and keys of a table, and of the keys of an input.
func TestLintComparesTablesAndKeysWithTheRegistry(t *testing.T) {
	const row = `{"type":"record","name":"Row","fields":[{"name":"tier","type":"string"},{"name":"since","type":{"type":"long","logicalType":"timestamp-millis"}},{"name":"hash","type":"bytes"}]}`
	const change = `{"type":"record","name":"Envelope","fields":[{"name":"after","type":["null",` + row + `]},{"name":"op","type":"string"}]}`
	const rowProto = `syntax = "proto3"; import "google/protobuf/timestamp.proto"; message Row { string tier = 1; google.protobuf.Timestamp since = 2; int32 level = 3; }`
	const id, both = `{"type":"record","name":"Key","fields":[{"name":"id","type":["null","long"]}]}`, `{"type":"record","name":"Key","fields":[{"name":"id","type":"long"},{"name":"shop","type":"string"}]}`
	for _, c := range []struct {
		subjects map[string]string
		lookup   string
		want     []string // beginnings of what is found and warned of
	}{
		{map[string]string{}, "tier: string", []string{"steps[0].lookup: the schema registry has no subject customers-value: the first event shows whether its rows have the fields"}},
		{map[string]string{"customers-value": row, "customers-key": id, "orders-key": id}, "tier: string, since: time, hash: bytes", nil},
		{map[string]string{"customers-value": row, "customers-key": `"string"`, "orders-key": `"long"`}, "since: string, hash: string, level: optional int", nil},
		{map[string]string{"customers-value": row}, "tier: int, level: int", []string{`steps[0].lookup.fields: version 1 of subject customers-value, schema id 2, does not fit: field "tier" is of type string in the schema: want int; field "level" is required: the schema has no such field`}},
		{map[string]string{"customers-value": change}, "tier: string}, envelope: debezium, empty: {tier: '\"\"'", nil},
		{map[string]string{"customers-value": change}, "tier: bool}, envelope: debezium, empty: {tier: 'false'", []string{`steps[0].lookup.fields: version 1 of subject customers-value, schema id 2, does not fit: field "tier" is of type string in the schema: want bool`}},
		{map[string]string{"customers-value": row, "customers-key": both, "orders-key": both}, "tier: string", []string{
			"input.fields.customer: version 1 of subject orders-key", "steps[0].lookup.table: version 1 of subject customers-key, schema id 2, does not fit: a key is one text or whole number, or a record with one"}},
		{map[string]string{"customers-value": rowProto, "customers-key": `syntax = "proto3"; message Key { int64 id = 1; }`}, "tier: string, since: string, level: int", nil},
		{map[string]string{"customers-value": rowProto, "customers-key": `syntax = "proto3"; message Key { In id = 1; message In { string a = 1; } }`}, "tier: int", []string{
			"steps[0].lookup.table: version 1 of subject customers-key", `steps[0].lookup.fields: version 1 of subject customers-value, schema id 2, does not fit: field "tier" is of type string`}},
		{map[string]string{"customers-value": row, "customers-key": `{"type":"map","values":"long"}`}, "tier: string", []string{"steps[0].lookup.table: version 1 of subject customers-key"}},
	} {
		server := srfake.New()
		t.Chdir(t.TempDir())
		c.subjects["orders-value"] = `{"type":"record","name":"Order","fields":[]}`
		for _, subject := range slices.Backward(slices.Sorted(maps.Keys(c.subjects))) {
			of := sr.Schema{Schema: c.subjects[subject]}
			if strings.HasPrefix(of.Schema, "syntax") {
				of.Type = sr.TypeProtobuf
			}
			if _, _, err := server.RegisterSchema(subject, of); err != nil {
				t.Fatal(err)
			}
			if err := server.SetCompat(subject, sr.CompatFull); err != nil {
				t.Fatal(err)
			}
		}
		write(t, "orders.yaml", `pipeline: orders
schema_registry: `+server.URL()+`
input: {topic: orders, key: customer, repartition: 2, format: schema_registry, fields: {customer: {from: key, type: int}}}
steps:
  - lookup: {name: who, table: customers, format: schema_registry, key: customer, fields: {`+c.lookup+`}}
  - emit: {topic: out, value: [customer]}
`)
		var got []string
		for _, f := range findingsOf(t, command(t, "", "lint", "--connect", "--json", "orders.yaml")) {
			got = append(got, f.Path+": "+f.Message)
		}
		for line := range strings.Lines(command(t, "", "lint", "--connect", "orders.yaml").stdout) {
			if _, warning, ok := strings.Cut(line, "warning: "); ok && strings.Contains(line, "the schema registry") {
				got = append(got, warning)
			}
		}
		if !slices.EqualFunc(got, c.want, strings.HasPrefix) {
			t.Errorf("%v, %s: %q, want %q", c.subjects, c.lookup, got, c.want)
		}
		server.Close()
	}
}

// TestLintComparesFieldsOfChangeEventsWithTheRegistry looks for the fields of a row in the row after the change, and for those of the
// envelope around it.
func TestLintComparesFieldsOfChangeEventsWithTheRegistry(t *testing.T) {
	server := srfake.New()
	defer server.Close()
	t.Chdir(t.TempDir())
	t.Setenv("REGISTRY", server.URL())
	if _, _, err := server.RegisterSchema("customers-value", sr.Schema{Schema: `{"type":"record","name":"Envelope","fields":[{"name":"after","type":["null",{"type":"record","name":"Value","fields":[{"name":"id","type":"long"}]}]},{"name":"op","type":"string"}]}`}); err != nil {
		t.Fatal(err)
	}
	for field, want := range map[string]string{
		"id: int": "", "id: {from: key, type: int}": "",
		"id: string":            `field "id" is of type long in the schema: want string`,
		"id: int, tier: string": `field "tier" is required: the schema has no such field`,
		"id: int, by: {from: envelope, path: source.user, type: string}": `field "by" is required: the schema has no such field`,
	} {
		write(t, "customers.yaml", `pipeline: customers
schema_registry: ${REGISTRY}
input: {topic: customers, key: id, repartition: 2, envelope: debezium, format: schema_registry, fields: {`+field+`, op: {from: envelope, type: string}}}
steps:
  - emit: {topic: seen, value: [id, op]}
`)
		findings := findingsOf(t, command(t, "", "lint", "--connect", "--json", "customers.yaml"))
		switch {
		case want == "" && len(findings) > 0, want != "" && (len(findings) != 1 || !strings.Contains(findings[0].Message, want)):
			t.Errorf("%s: %v, want %s", field, findings, want)
		}
	}
}
