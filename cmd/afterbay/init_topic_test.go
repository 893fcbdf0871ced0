package main

import (
	"fmt"
	"net/http"
	"os"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/sr"
	"github.com/twmb/franz-go/pkg/sr/srfake"

	"github.com/afterbay/afterbay/internal/ops/scaffold"
)

// registered is how a topic is written, and what a pipeline of its records has.
type registered struct {
	file, schema, format string
	want                 []string // lines of the pipeline
}

func registeredForms() map[string]registered {
	return map[string]registered{
		"avro": {"p.avsc", `{"type":"record","name":"P","fields":[{"name":"card","type":"string"},{"name":"amount","type":{"type":"bytes","logicalType":"decimal","precision":12,"scale":2}},
			{"name":"at","type":{"type":"long","logicalType":"timestamp-millis"}},{"name":"day","type":{"type":"int","logicalType":"date"}},{"name":"side","type":{"type":"enum","name":"Side","symbols":["PAYMENT","REFUND","VOID"]}},
			{"name":"note","type":["null","string"]},{"name":"never","type":["null","long"]},{"name":"units","type":["null","double"]},{"name":"device","type":["null",{"type":"record","name":"Device","fields":[{"name":"os","type":"string"}]}]}]}`, "avro: p.avsc", []string{
			"    amount: number ", "    day: time ", "    never: optional int                              # of the schema: no event of the sample has it\n", "    units: optional number",
			"    device_os: {path: device.os, type: optional string}", "an enum: PAYMENT, REFUND, VOID", `  side_codes: {"PAYMENT": 0, "REFUND": 1, "VOID": 2}`,
		}},
		"protobuf": {"p.proto", `syntax = "proto3"; import "google/protobuf/timestamp.proto"; enum Side { PAYMENT = 0; REFUND = 1; VOID = 2; }
			message P { string card = 1; double amount = 2; google.protobuf.Timestamp at = 3; Side side = 4; optional string note = 5; int64 units = 6; optional int64 never = 7; Device device = 8; } message Device { string os = 1; }`, "protobuf: {file: p.proto, message: P}", []string{
			"    amount: number ", "    never: optional int ", "    units: int ", `    # left out: "device"                             # it is of type Device in the schema, which no field can read`, `  side_codes: {"PAYMENT": 0, "REFUND": 1, "VOID": 2}`,
		}},
		"json schema": {"p.json", `{"type":"object","required":["card","amount","at","side"],"properties":{"card":{"type":"string"},"amount":{"type":"number"},"at":{"type":"string"},"side":{"type":"string","enum":["PAYMENT","REFUND","VOID"]},
			"note":{"type":["string","null"]},"units":{"type":["number","null"]},"device":{"type":"object","properties":{"os":{"type":"string"}}}}}`, "json_schema: p.json", []string{
			"    amount: number ", "    units: optional number ", "    device_os: {path: device.os, type: optional string}", `  side_codes: {"PAYMENT": 0, "REFUND": 1, "VOID": 2}`,
		}},
	}
}

const sampleEvents = 120

// fillTopic writes the topic payments.v1 by a pipeline, with the schema of a form; of "" as JSON.
func fillTopic(t *testing.T, f registered, registry, engine string) {
	t.Helper()
	text := ""
	for i := range sampleEvents {
		note := ""
		if i%3 == 0 {
			note = fmt.Sprintf(`,"note":"n%d"`, i)
		}
		text += fmt.Sprintf(`{"card":"c%d","amount":%d.5,"at":"2026-01-20T10:%02d:%02dZ","side":"%s","units":%d,"os":"ios"%s}`+"\n", i%7, i%70, i/60, i%60, []string{"PAYMENT", "PAYMENT", "REFUND"}[i%3], i, note)
	}
	write(t, "raw.ndjson", text)
	values, format, head := "{card: card, amount: amount, at: at, side: side, note: note, units: units, device: {os: os}}", "", ""
	if f.file != "" {
		write(t, f.file, f.schema)
		format, head = ", format: {"+f.format+", schema_registry: true, register: true}", "schema_registry: "+registry+"\n"
	}
	if strings.HasSuffix(f.file, ".avsc") {
		values = strings.Replace(values, "at: at", "at: at, day: at", 1)
	}
	write(t, "writer.yaml", "pipeline: writer\n"+head+`input: {topic: raw, key: card, fields: {card: string, amount: number, at: time, side: string, units: int, os: string, note: optional string}}
steps:
  - emit: {topic: payments.v1, value: `+values+format+`}
`)
	must(t, "", append([]string{"produce", "raw", "raw.ndjson", "--key", "card", "--partitions", "2"}, strings.Fields(engine)...)...)
	must(t, "", append([]string{"run", "writer.yaml", "--until-idle", "--listen", "none"}, strings.Fields(engine)...)...)
}

// follow types what init says to type next, and looks for a decision of each event.
func follow(t *testing.T, said, pipeline string) {
	t.Helper()
	_, next, _ := strings.Cut(said, "; next:\n")
	commands := 0
	for line := range strings.Lines(next) {
		args := shellFields(strings.TrimSpace(line))[1:]
		if args[0] == "run" {
			args = append(args, "--listen", "none")
		}
		out := must(t, "", args...)
		switch commands++; {
		case args[0] == "try" && !(strings.Contains(out, "dead letters  none") && strings.Contains(out, fmt.Sprintf("%d outputs", sampleEvents))), args[0] == "lint" && !strings.Contains(out, "is valid"):
			t.Errorf("%s says\n%s\n%s", line, out, pipeline)
		case args[0] == "tail":
			args[3] = "0" // of --limit
			if out := must(t, "", args...); strings.Count(out, "\n") != sampleEvents || !strings.Contains(out, `"action":"allow"`) {
				t.Errorf("%d decisions\n%s\n%s", strings.Count(out, "\n"), pipeline, said)
			}
		}
	}
	if commands != 4 {
		t.Errorf("%d commands in\n%s", commands, said)
	}
}

// sampleTopic writes a pipeline of the topic, and runs it.
func sampleTopic(t *testing.T, f registered, engine string) {
	t.Helper()
	server := srfake.New()
	t.Cleanup(server.Close)
	fillTopic(t, f, server.URL(), engine)
	args := append([]string{"init", "--sample", "topic:payments.v1"}, strings.Fields(engine)...)
	if f.file != "" {
		args = append(args, "--schema-registry", server.URL())
	}
	said := must(t, "", args...)
	pipeline := read(t, "pipeline.yaml")
	want := append([]string{"pipeline: payments-v1\n", "  topic: payments.v1\n", "  key: card  ", "{field: at, unit: rfc3339, lateness: 1s,", "    note: optional string ", "    at: time "}, f.want...)
	if f.file != "" {
		want = append(want, "schema_registry: "+server.URL()+"\n", "  format: schema_registry ")
	}
	for _, want := range want {
		if !strings.Contains(pipeline, want) {
			t.Errorf("%q is not in\n%s", want, pipeline)
		}
	}
	if strings.Contains(pipeline, "repartition:") {
		t.Errorf("the records have the key:\n%s", pipeline)
	}
	follow(t, said, pipeline)
}

// TestATopicBecomesDecisions has a topic of each format of a schema registry, and one of JSON.
func TestATopicBecomesDecisions(t *testing.T) {
	forms := registeredForms()
	forms["json"] = registered{}
	for name, f := range forms {
		t.Run(name, func(t *testing.T) {
			t.Chdir(t.TempDir())
			sampleTopic(t, f, "")
		})
	}
}

func TestATopicOfABrokerBecomesDecisions(t *testing.T) {
	t.Chdir(t.TempDir())
	sampleTopic(t, registeredForms()["avro"], "--engine "+fakeEngine(t))
}

func TestATopicOfARealBrokerBecomesDecisions(t *testing.T) {
	engine := "--engine " + realEngine(t)
	t.Chdir(t.TempDir())
	sampleTopic(t, registeredForms()["avro"], engine)
}

// TestInitSaysWhatATopicLacks has topics that are no sample, and registries that do not help.
func TestInitSaysWhatATopicLacks(t *testing.T) {
	t.Chdir(t.TempDir())
	server := srfake.New()
	defer server.Close()
	avro := registeredForms()["avro"]
	fillTopic(t, avro, server.URL(), "")
	must(t, "", "produce", "empty", "-", "--partitions", "1", "--key", "card")
	must(t, `{"n":1}`+"\n", "produce", "lines", "-", "--partitions", "1", "--key", "n")
	other := srfake.New()
	defer other.Close()
	for _, c := range []struct {
		args string
		code int
		want string
	}{
		{"--sample topic:none", exitFailure, `topic "none": unknown topic`},
		{"--sample topic:empty", exitFailure, "topic empty has no records: write some first"},
		{"--sample topic:payments.v1", exitFailure, "the records begin with the id of a schema, a byte 0 and 4 bytes: name its registry with --schema-registry URL"},
		{"--sample topic:payments.v1 --schema-registry " + other.URL(), exitFailure, "schema id 1: the registry does not know it): leave out --schema-registry if the records are JSON, or name the registry"},
		{"--sample topic:raw --schema-registry " + server.URL(), exitFailure, "the record does not begin with the id of a schema, a byte 0 and 4 bytes: its producer uses no schema registry): leave out --schema-registry"},
		{"--sample topic:payments.v1 --schema-registry http://127.0.0.1:1", exitFailure, "the schema registry does not answer: "},
		{"--sample topic:payments.v1 --schema-registry ftp://a", exitUsage, "--schema-registry: "},
		{"--sample topic:payments.v1 --schema-registry-user u", exitUsage, "name the registry too"},
		{"--sample topic:payments.v1 --schema-registry https://a --schema-registry-user u", exitUsage, "set AFTERBAY_SCHEMA_REGISTRY_PASSWORD"},
		{"--sample topic:payments.v1 --format csv", exitUsage, "are for files"},
		{"--sample raw.ndjson --schema-registry https://a", exitUsage, "is for topics"},
		{"--sample topic:lines", exitUsage, "name one with --key"},
	} {
		if r := command(t, "", append([]string{"init"}, strings.Fields(c.args)...)...); r.code != c.code || !strings.Contains(r.stderr, c.want) {
			t.Errorf("%s: %+v, want %d, %s", c.args, r, c.code, c.want)
		}
	}
	if _, err := os.Lstat("pipeline.yaml"); err == nil {
		t.Error("a pipeline was written")
	}
}

// TestATopicWithOtherKeysIsRepartitioned has records whose key is no field that is the key.
func TestATopicWithOtherKeysIsRepartitioned(t *testing.T) {
	t.Chdir(t.TempDir())
	fillTopic(t, registered{}, "", "")
	must(t, read(t, "raw.ndjson"), "produce", "others", "-", "--partitions", "3", "--key", "units")
	said := must(t, "", "init", "--sample", "topic:others")
	pipeline := read(t, "pipeline.yaml")
	if !strings.Contains(pipeline, "  key: card ") || !strings.Contains(pipeline, "\n  repartition: 3 ") {
		t.Error(pipeline)
	}
	follow(t, said, pipeline)
}

// TestTheNewestSchemaOfATopicDecides has records of two versions of a schema.
func TestTheNewestSchemaOfATopicDecides(t *testing.T) {
	t.Chdir(t.TempDir())
	server := srfake.New()
	defer server.Close()
	if err := server.SetCompat("payments.v1-value", sr.CompatNone); err != nil {
		t.Fatal(err)
	}
	f := registeredForms()["avro"]
	fillTopic(t, f, server.URL(), "")
	f.schema = strings.Replace(f.schema, `{"name":"units","type":["null","double"]},`, `{"name":"units","type":["null","double"]},{"name":"later","type":["null","string"]},`, 1)
	f.schema = strings.Replace(f.schema, `{"name":"note","type":["null","string"]},`, ``, 1)
	write(t, f.file, f.schema)
	write(t, "writer.yaml", strings.NewReplacer("pipeline: writer", "pipeline: again", "note: note, ", "", "units: units", "units: units, later: note").Replace(read(t, "writer.yaml")))
	must(t, "", "run", "writer.yaml", "--until-idle", "--listen", "none")
	said := must(t, "", "init", "--sample", "topic:payments.v1", "--schema-registry", server.URL())
	pipeline := read(t, "pipeline.yaml")
	for _, want := range []string{"the sample has the schema ids 1, 2; types are those of 2", "    later: optional string ", `    # left out: "note"                               # schema id 2, the newest, does not have it`} {
		if !strings.Contains(pipeline, want) {
			t.Errorf("%q is not in\n%s", want, pipeline)
		}
	}
	if !strings.Contains(said, "the records have 2 schemas: types are those of schema id 2, the newest") {
		t.Error(said)
	}
	if out := must(t, "", "try", "pipeline.yaml", "topic:payments.v1"); !strings.Contains(out, fmt.Sprintf("%d outputs", 2*sampleEvents)) {
		t.Error(out)
	}
}

// TestSecretsOfARegistryAreOfTheEnvironment has a registry that wants a password.
func TestSecretsOfARegistryAreOfTheEnvironment(t *testing.T) {
	t.Chdir(t.TempDir())
	server := srfake.New()
	defer server.Close()
	fillTopic(t, registeredForms()["avro"], server.URL(), "")
	var asked string
	server.Intercept(func(_ http.ResponseWriter, r *http.Request) bool {
		user, password, _ := r.BasicAuth()
		asked = user + " " + password + r.Header.Get("Authorization")[:6]
		return false
	})
	for _, c := range []struct{ name, secret, user, asked, line string }{
		{scaffold.RegistryPassword, "pass word", "me", "me pass wordBasic ", ", user: me, password: '${AFTERBAY_SCHEMA_REGISTRY_PASSWORD}'}\n"},
		{scaffold.RegistryToken, "abc", "", " Bearer", ", token: '${AFTERBAY_SCHEMA_REGISTRY_TOKEN}'}\n"},
	} {
		t.Setenv(c.name, c.secret)
		args := []string{"init", "--force", "--sample", "topic:payments.v1", "--schema-registry", server.URL()}
		if c.user != "" {
			args = append(args, "--schema-registry-user", c.user)
		}
		must(t, "", args...)
		if pipeline := read(t, "pipeline.yaml"); asked != c.asked || !strings.Contains(pipeline, "schema_registry: {url: "+server.URL()+c.line) {
			t.Errorf("%s: asked %q\n%.300s", c.name, asked, pipeline)
		}
		must(t, "", "lint", "--connect", "pipeline.yaml")
	}
}
