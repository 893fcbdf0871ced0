package registry

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/sr"
	"github.com/twmb/franz-go/pkg/sr/srfake"

	"github.com/afterbay/afterbay/internal/event/value"
)

// plain appends one byte.
type plain struct{}

func (plain) Append(dst []byte, _ *value.Row) ([]byte, error) { return append(dst, 'x'), nil }

// find finds the schema of the topic `out`, and returns what records begin with, or the error.
func find(t *testing.T, of *Registry, schema string, register, mayRegister bool) string {
	t.Helper()
	o := of.Output("out", Written{Text: schema}, register)
	if err := of.FindOutputs(t.Context(), []*Output{o}, mayRegister, func(why error) { t.Errorf("away: %v", why) }); err != nil {
		return err.Error()
	}
	made, err := o.Encoder(plain{}).Append(nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	return fmt.Sprintf("%x", made)
}

// TestOutputsHaveTheIDOfTheirSchema looks schemas up, and registers them where that is said. The newest version of a subject does
// not matter, and a schema that is there is found again by its text.
func TestOutputsHaveTheIDOfTheirSchema(t *testing.T) {
	server := srfake.New()
	defer server.Close()
	server.SeedSchema("other-value", 1, 300, sr.Schema{Schema: `"long"`})
	r := open(t, Options{URL: server.URL()})
	lacks := "subject out-value does not have the schema: "
	for i, c := range []struct {
		schema          string
		register, mayBe bool
		want            string
	}{
		{cents, false, true, lacks + "register it, or write `register: true`"},
		{cents, true, false, lacks + "a replay registers none. Run the pipeline first"},
		{cents, true, true, "000000012d78"},
		{cents, true, true, "000000012d78"},
		{cents, false, false, "000000012d78"},
		{`"string"`, false, true, lacks + "register it, or write `register: true`"},
		{`"string"`, true, true, "000000012e78"},
		{cents, true, true, "000000012d78"},
		{`"long"`, true, true, "000000012c78"},
	} {
		if got := find(t, r, c.schema, c.register, c.mayBe); got != c.want {
			t.Errorf("%d: %s, want %s", i, got, c.want)
		}
	}
}

// TestRecordsOfProtobufNameTheirMessage writes the index of the message type behind the id of the schema.
func TestRecordsOfProtobufNameTheirMessage(t *testing.T) {
	server := srfake.New()
	defer server.Close()
	r := open(t, Options{URL: server.URL()})
	for want, index := range map[string][]int{"000000000178": nil, "00000000010078": {0}, "0000000001020278": {1}, "00000000010400c80178": {0, 100}} {
		o := r.Output("out", Written{Type: Protobuf, Text: `syntax = "proto3";`, Index: index}, true)
		if err := r.FindOutputs(t.Context(), []*Output{o}, true, nil); err != nil {
			t.Fatal(err)
		}
		made, err := o.Encoder(plain{}).Append(nil, nil)
		if err != nil || fmt.Sprintf("%x", made) != want {
			t.Errorf("%v: %x, %v, want %s", index, made, err, want)
		}
		if data := string(o.Data(made)); data != "x" {
			t.Errorf("%v: data %q", index, data)
		}
	}
}

// TestARefusedSchemaEndsTheWait names the reason that the registry gives.
func TestARefusedSchemaEndsTheWait(t *testing.T) {
	for status, body := range map[int]string{http.StatusConflict: `{"error_code":409,"message":"amount was removed"}`, http.StatusUnprocessableEntity: `{"error_code":42201,"message":"no schema"}`} {
		server := srfake.New()
		server.Intercept(func(w http.ResponseWriter, request *http.Request) bool {
			if !strings.HasSuffix(request.URL.Path, "/versions") {
				return false
			}
			w.WriteHeader(status)
			_, _ = w.Write([]byte(body))
			return true
		})
		if got := find(t, open(t, Options{URL: server.URL()}), cents, true, true); !strings.HasPrefix(got, "the registry refuses the schema for subject out-value: 4") {
			t.Errorf("%d: %s", status, got)
		}
		server.Close()
	}
}

// TestAnAwayRegistryIsAskedAgain answers wrongly in several ways before it answers. No way ends the wait, follows a redirection,
// or shows the password.
func TestAnAwayRegistryIsAskedAgain(t *testing.T) {
	server := srfake.New()
	defer server.Close()
	elsewhere := srfake.New()
	defer elsewhere.Close()
	elsewhere.Intercept(func(http.ResponseWriter, *http.Request) bool { t.Error("a redirection was followed"); return false })
	answers := []func(w http.ResponseWriter){
		func(w http.ResponseWriter) { http.Error(w, "starting", http.StatusServiceUnavailable) },
		func(w http.ResponseWriter) {
			http.Error(w, `{"error_code":401,"message":"no"}`, http.StatusUnauthorized)
		},
		func(w http.ResponseWriter) { http.Error(w, "no such page", http.StatusNotFound) },
		func(w http.ResponseWriter) {
			w.Header().Set("Location", elsewhere.URL())
			w.WriteHeader(http.StatusTemporaryRedirect)
		},
		func(w http.ResponseWriter) { _, _ = w.Write([]byte(`{"id":0}`)) },
		func(w http.ResponseWriter) { _, _ = w.Write([]byte(`<html>`)) },
		func(w http.ResponseWriter) { http.Error(w, `conflict`, http.StatusConflict) },
	}
	asked := 0
	server.Intercept(func(w http.ResponseWriter, request *http.Request) bool {
		if user, password, _ := request.BasicAuth(); user != "u" || password != "geheim" {
			t.Errorf("user %q", user)
		}
		if asked++; asked > len(answers) {
			return false
		}
		answers[asked-1](w)
		return true
	})
	r := open(t, Options{URL: server.URL(), User: "u", Password: "geheim"})
	o := r.Output("out", Written{Text: cents}, true)
	var why []string
	if err := r.FindOutputs(t.Context(), []*Output{o}, true, func(err error) {
		why = append(why, err.Error())
		if r.Stats().Away != err.Error() || r.Stats().Waiting != 1 {
			t.Errorf("%+v", r.Stats())
		}
	}); err != nil {
		t.Fatal(err)
	}
	if len(why) != len(answers) || strings.Contains(strings.Join(why, ""), "geheim") || !strings.HasPrefix(why[0], "subject out-value: look it up: 503 Service Unavailable: starting") {
		t.Errorf("%d attempts failed: %q", len(why), why)
	}
	if s := r.Stats(); s.Away != "" || s.Waiting != 0 {
		t.Errorf("%+v", s)
	}
	ended, stop := context.WithCancel(t.Context())
	asked = len(answers) // it answers
	if err := r.FindOutputs(t.Context(), []*Output{o}, true, nil); err != nil || asked != len(answers) {
		t.Errorf("the id is looked for again: %v", err)
	}
	asked = 0
	if err := r.FindOutputs(ended, []*Output{r.Output("out", Written{Text: cents}, true)}, true, func(error) { stop() }); err != context.Canceled {
		t.Errorf("a stop while it waits: %v", err)
	}
}
