package main

import (
	"encoding/binary"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/sr"
	"github.com/twmb/franz-go/pkg/sr/srfake"

	"github.com/afterbay/afterbay/internal/log/embedded"
	"github.com/afterbay/afterbay/stream"
)

// TestDatasetReadsEventsOfARegistry computes rows from a log whose events begin with the id of their schema.
func TestDatasetReadsEventsOfARegistry(t *testing.T) {
	server := srfake.New()
	defer server.Close()
	id, _, err := server.RegisterSchema("in-value", sr.Schema{Schema: `{"type":"record","name":"E","fields":[{"name":"n","type":"long"},{"name":"k","type":"string"}]}`})
	if err != nil {
		t.Fatal(err)
	}
	t.Chdir(t.TempDir())
	log, err := embedded.Open("data", embedded.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if err := log.CreateTopic(t.Context(), stream.Topic{Name: "in", Partitions: 1}); err != nil {
		t.Fatal(err)
	}
	for n := range 5 {
		value := append(binary.BigEndian.AppendUint32([]byte{0}, uint32(id)), byte(2*n), 2, 'a')
		if err := log.Append(t.Context(), stream.Record{Partition: stream.Partition{Topic: "in"}, Key: []byte("a"), Value: value}); err != nil {
			t.Fatal(err)
		}
	}
	if err := log.Close(); err != nil {
		t.Fatal(err)
	}
	write(t, "p.yaml", fmt.Sprintf(`pipeline: p
schema_registry: %s
input: {topic: in, key: k, format: schema_registry, fields: {k: string, n: int}}
steps:
  - features: {sum: {value: n, windows: [1h], aggregates: [sum]}}
  - emit: {topic: out, value: [k, n, sum.*]}
`, server.URL()))
	must(t, "", "dataset", "p.yaml", "--from-data", "data", "--out", "rows.csv", "--columns", "k,n")
	rows, err := os.ReadFile("rows.csv")
	if err != nil {
		t.Fatal(err)
	}
	if got := strings.ReplaceAll(strings.TrimSpace(string(rows)), "\n", ";"); got != `k,n;"a",0;"a",1;"a",2;"a",3;"a",4` {
		t.Error(got)
	}
}
