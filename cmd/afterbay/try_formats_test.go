package main

import (
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/sr/srfake"
)

// TestTryShowsOutputsOfAFormatAsJSON has each format of an output.
func TestTryShowsOutputsOfAFormatAsJSON(t *testing.T) {
	server := srfake.New()
	defer server.Close()
	t.Chdir(t.TempDir())
	write(t, "d.avsc", `{"type":"record","name":"D","fields":[{"name":"card","type":"string"},{"name":"amount","type":"double"}]}`)
	write(t, "d.proto", `syntax = "proto3"; message D { string card = 1; double amount = 2; }`)
	const pipeline = "pipeline: p\nschema_registry: REGISTRY\ninput: {topic: in, key: card, fields: {card: string, amount: number}}\nsteps:\n  - emit: {topic: out, value: [card, amount], format: FORMAT}\n"
	const want = `{"card":"ann","amount":20.5}`
	for format, tail := range map[string]string{
		"json": want, "{avro: d.avsc}": "", "{protobuf: {file: d.proto}}": "",
		"{avro: d.avsc, schema_registry: true, register: true}": `{"schema_id":1,"base64":"AAAAAAEGYW5uAAAAAACANEA="}`,
	} {
		file := strings.NewReplacer("REGISTRY", server.URL(), "FORMAT", format).Replace(pipeline)
		if !strings.Contains(format, "schema_registry") {
			file = strings.Replace(file, "schema_registry: "+server.URL()+"\n", "", 1)
		}
		write(t, "p.yaml", file)
		if out := must(t, want, "try", "p.yaml", "-"); !strings.Contains(out, "-> out  "+want+"\n") {
			t.Errorf("%s: try says\n%s", format, out)
		}
		if out := must(t, want, "try", "p.yaml", "-", "--json"); !strings.Contains(out, `"value":`+want) {
			t.Errorf("%s: try --json says\n%s", format, out)
		}
		if tail == "" {
			continue
		}
		data := "--data=" + t.TempDir()
		must(t, want, "produce", "in", "-", "--key", "card", "--partitions", "1", data)
		must(t, "", "run", "p.yaml", "--until-idle", "--listen", "none", data)
		if out := must(t, "", "tail", "out", data); out != tail+"\n" {
			t.Errorf("%s: tail says %s, want %s", format, out, tail)
		}
	}
}
