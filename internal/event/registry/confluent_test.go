package registry

import (
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os/exec"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/sr/srfake"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"

	"github.com/afterbay/afterbay/internal/event/avro"
	"github.com/afterbay/afterbay/internal/event/encode"
	"github.com/afterbay/afterbay/internal/event/jsonschema"
	"github.com/afterbay/afterbay/internal/event/protobuf"
	"github.com/afterbay/afterbay/internal/test/servertest"
	"github.com/afterbay/afterbay/internal/test/slots"
)

// TestConfluentSerializersAreRead reads what the serializers of confluent-kafka write, which the
// interpreter of AFTERBAY_CONFLUENT has. The registry is srfake, which speaks Confluent's API.
func TestConfluentSerializersAreRead(t *testing.T) {
	python := servertest.Named(t, "AFTERBAY_CONFLUENT", "no interpreter, with confluent-kafka")
	server := srfake.New()
	defer server.Close()
	out := script(t, python, "testdata/produce.py", server.URL(), "")
	r := read(t, open(t, Options{URL: server.URL()}), "card string", "cents int", "note optional string")
	got := map[string][]string{}
	for line := range strings.Lines(out) {
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

// script runs a script of Python on the address of a registry, and returns what it prints.
func script(t *testing.T, python, file, url, input string) string {
	t.Helper()
	command := exec.CommandContext(t.Context(), python, file, url)
	var complaints strings.Builder
	command.Stdin, command.Stderr = strings.NewReader(input), &complaints
	out, err := command.Output()
	if err != nil {
		t.Fatalf("%v: %s", err, complaints.String())
	}
	return string(out)
}

const (
	paymentAvro  = `{"type":"record","name":"Payment","fields":[{"name":"card","type":"string"},{"name":"cents","type":"long"},{"name":"note","type":["null","string"]}]}`
	paymentJSON  = `{"title":"Payment","type":"object","required":["card"],"additionalProperties":false,"properties":{"card":{"type":"string"},"cents":{"type":"integer"},"note":{"type":["string","null"]}}}`
	paymentProto = `syntax = "proto3";
message First { string card = 1; int64 cents = 2; optional string note = 3; }
message Outer { message Other {} message Inner { string card = 1; int64 cents = 2; optional string note = 3; } }`
)

// paymentFile returns paymentProto, parsed.
func paymentFile(t *testing.T) *protobuf.File {
	t.Helper()
	file, err := protobuf.Parse("payment.proto", func(name string) (io.ReadCloser, error) {
		if name != "payment.proto" {
			return nil, fs.ErrNotExist
		}
		return io.NopCloser(strings.NewReader(paymentProto)), nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return file
}

// serialized has a registry return schemas of Protobuf as Confluent's client for Python wants them: a
// FileDescriptorProto in base64. srfake returns the text.
func serialized(t *testing.T, server *srfake.Registry, file *protobuf.File) {
	t.Helper()
	encoded, err := proto.Marshal(protodesc.ToFileDescriptorProto(file))
	if err != nil {
		t.Fatal(err)
	}
	server.Intercept(func(w http.ResponseWriter, request *http.Request) bool {
		asked := request.URL.Query().Get("format") == "serialized" && strings.HasPrefix(request.URL.Path, "/schemas/ids/")
		if asked {
			_ = json.NewEncoder(w).Encode(map[string]string{"schemaType": "PROTOBUF", "schema": base64.StdEncoding.EncodeToString(encoded)})
		}
		return asked
	})
}

// TestConfluentDeserializersReadOutputs has the deserializers of confluent-kafka read what encoders write. They
// check records of JSON Schema by the schema, and find a message of Protobuf by its index.
func TestConfluentDeserializersReadOutputs(t *testing.T) {
	python := servertest.Named(t, "AFTERBAY_CONFLUENT", "no interpreter, with confluent-kafka")
	server := srfake.New()
	defer server.Close()
	file := paymentFile(t)
	serialized(t, server, file)
	message := func(name string) *protobuf.Schema {
		of, err := file.Named(name)
		if err != nil {
			t.Fatal(err)
		}
		return of
	}
	byAvro, err := avro.Parse(paymentAvro)
	if err != nil {
		t.Fatal(err)
	}
	byJSON, err := jsonschema.Parse(paymentJSON)
	if err != nil {
		t.Fatal(err)
	}
	first, inner := message("First"), message("Outer.Inner")
	outputs := []struct {
		topic  string
		format encode.Format
		Written
	}{
		{"avro", byAvro, Written{Type: Avro, Text: paymentAvro}},
		{"json", byJSON, Written{Type: JSON, Text: paymentJSON}},
		{"protobuf-first", first, Written{Type: Protobuf, Text: paymentProto, Index: first.Index()}},
		{"protobuf-inner", inner, Written{Type: Protobuf, Text: paymentProto, Index: inner.Index()}},
	}
	r := open(t, Options{URL: server.URL()})
	ours := read(t, r, "card string", "cents int", "note optional string")
	var lines, want strings.Builder
	for _, of := range outputs {
		o := r.Output(of.topic, of.Written, true)
		if err := r.FindOutputs(t.Context(), []*Output{o}, true, func(err error) { t.Error(err) }); err != nil {
			t.Fatal(err)
		}
		for _, event := range []struct{ json, python, slots string }{
			{`{"card":"a","cents":5,"note":"n"}`, `['a', 5, 'n']`, `"a" 5 "n"`},
			{`{"card":"é","cents":-7,"note":null}`, `['é', -7, None]`, `"é" -7 absent`},
			{`{"card":"","cents":1099511627776,"note":""}`, `['', 1099511627776, '']`, `"" 1099511627776 ""`},
		} {
			e, row, err := slots.Encoder(t, of.format, event.json, "card string", "cents int", "note optional string")
			if err != nil {
				t.Fatal(err)
			}
			record, err := o.Encoder(e).Append(nil, row)
			if err != nil {
				t.Fatal(err)
			}
			if got := ours.show(t, record); got != event.slots {
				t.Errorf("%s: our decoder reads %s, want %s", of.topic, got, event.slots)
			}
			fmt.Fprintf(&lines, "%s %x\n", of.topic, record)
			fmt.Fprintf(&want, "%s %s\n", of.topic, event.python)
		}
	}
	if got := script(t, python, "testdata/consume.py", server.URL(), lines.String()); got != want.String() {
		t.Errorf("read:\n%swant:\n%s", got, want.String())
	}
}
