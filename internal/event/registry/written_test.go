package registry

import (
	"context"
	"encoding/binary"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/sr"
	"github.com/twmb/franz-go/pkg/sr/srfake"

	"github.com/afterbay/afterbay/internal/event/decode"
)

// TestSchemasOfRecordsAreFound has records of each type of schema.
func TestSchemasOfRecordsAreFound(t *testing.T) {
	server := srfake.New()
	defer server.Close()
	all := open(t, Options{URL: server.URL()}).Schemas()
	for _, c := range []struct {
		of                   sr.SchemaType
		schema, data         string
		json, first, subject string
	}{
		{sr.TypeAvro, `{"type":"record","name":"R","fields":[{"name":"n","type":"long"}]}`, "\x0e", `{"n":7}`, "n", "a"},
		{sr.TypeProtobuf, `syntax = "proto3"; message O { string s = 1; message I { int32 n = 1; string z = 2; } }`, "\x04\x00\x00\x08\x07", `{"n":7,"z":""}`, "n", "b"},
		{sr.TypeProtobuf, `syntax = "proto3"; message O { string s = 1; }`, "\x00\x0a\x01x", `{"s":"x"}`, "s", "c"},
		{sr.TypeJSON, `{"properties":{"n":{"type":"integer"}}}`, `{"n":7}`, `{"n":7}`, "n", "d"},
		{sr.TypeJSON, `[]`, `{"n":7}`, `{"n":7}`, "", "e"},
	} {
		id, _, err := server.RegisterSchema(c.subject, sr.Schema{Schema: c.schema, Type: c.of})
		if err != nil {
			t.Fatal(err)
		}
		record := append(binary.BigEndian.AppendUint32([]byte{0}, uint32(id)), c.data...)
		of, found, data, err := all.Of(t.Context(), record)
		if err != nil {
			t.Errorf("%s: %v", c.schema, err)
			continue
		}
		text, err := of.AppendJSON(nil, data)
		list, _ := of.Declared("")
		first := ""
		if len(list) > 0 {
			first = decode.PathText(list[0].Path)
		}
		if err != nil || found != id || string(text) != c.json || first != c.first {
			t.Errorf("%s: %d, %s, %s, %v", c.schema, found, text, first, err)
		}
	}
}

// TestSchemasSayWhyThereIsNone has records without a schema, and a registry that is away.
func TestSchemasSayWhyThereIsNone(t *testing.T) {
	server := srfake.New()
	defer server.Close()
	all := open(t, Options{URL: server.URL()}).Schemas()
	for record, want := range map[string]string{
		`{"a":1}`: "the record does not begin with the id of a schema", "": "the record does not begin with the id of a schema", "\x00\x00\x00\x00\x09x": "schema id 9: the registry does not know it",
	} {
		_, _, _, err := all.Of(t.Context(), []byte(record))
		if wrong := new(*decode.Error); !errors.As(err, wrong) || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %s", record, err, want)
		}
	}
	away := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "", http.StatusServiceUnavailable) }))
	defer away.Close()
	all = open(t, Options{URL: away.URL}).Schemas()
	_, _, _, err := all.Of(t.Context(), []byte("\x00\x00\x00\x00\x08x"))
	if why := new(*AwayError); !errors.As(err, why) || !strings.HasPrefix(err.Error(), "the schema registry does not answer: 503 Service Unavailable") {
		t.Errorf("away: %v", err)
	}
	stuck := make(chan struct{})
	silent := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-stuck }))
	defer silent.Close()
	defer close(stuck)
	all = open(t, Options{URL: silent.URL}).Schemas()
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if _, _, _, err := all.Of(ctx, []byte("\x00\x00\x00\x00\x07x")); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("stuck: %v", err)
	}
}
