package registry

import (
	"encoding/hex"
	"os/exec"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/sr/srfake"

	"github.com/afterbay/afterbay/internal/test/servertest"
)

// TestConfluentSerializersAreRead reads what the serializers of confluent-kafka write, which the
// interpreter of AFTERBAY_CONFLUENT has. The registry is srfake, which speaks Confluent's API.
func TestConfluentSerializersAreRead(t *testing.T) {
	python := servertest.Named(t, "AFTERBAY_CONFLUENT", "no interpreter, with confluent-kafka")
	server := srfake.New()
	defer server.Close()
	command := exec.CommandContext(t.Context(), python, "testdata/produce.py", server.URL())
	var complaints strings.Builder
	command.Stderr = &complaints
	out, err := command.Output()
	if err != nil {
		t.Fatalf("%v: %s", err, complaints.String())
	}
	r := read(t, open(t, Options{URL: server.URL()}), "card string", "cents int", "note optional string")
	got := map[string][]string{}
	for line := range strings.Lines(string(out)) {
		topic, text, _ := strings.Cut(strings.TrimSpace(line), " ")
		record, err := hex.DecodeString(text)
		if err != nil {
			t.Fatal(err)
		}
		got[topic] = append(got[topic], r.show(t, record))
	}
	for _, topic := range []string{"avro", "json", "protobuf"} {
		if all := strings.Join(got[topic], "; "); all != `"a" 5 "n"; "é" -7 absent; "" 1099511627776 ""` {
			t.Errorf("%s: %s", topic, all)
		}
	}
}
