package gateway_test

import (
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/afterbay/afterbay/internal/gateway"
	"github.com/afterbay/afterbay/internal/gateway/wire"
	"github.com/afterbay/afterbay/stream"
)

const (
	structured = "application/cloudevents+json"
	batched    = "application/cloudevents-batch+json"
)

// submitted returns the payloads of the events that are in the inbox, by id.
func (w *world) submitted(client string) map[string]string {
	w.Helper()
	payloads := map[string]string{}
	p := stream.Partition{Topic: "inbox", Index: wire.PartitionOf("acme", client, partitions)}
	for offset := stream.Offset(0); ; offset++ {
		r, found, err := w.log.Peek(w.Context(), p, offset)
		w.ok(err)
		if !found {
			return payloads
		}
		e, err := wire.ParseSubmit(&r)
		w.ok(err)
		payloads[e.ID] = string(e.Payload)
	}
}

func TestCloudEventsAreTaken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, gateway.Options{MessageBytes: 1000})
		defer w.close()
		one := func(id, more string) string {
			return `{"specversion":"1.0","source":"/here","type":"t","id":"` + id + `"` + more + `}`
		}
		binary := func(id string, more ...string) []string {
			return append([]string{"Ce-Specversion", "1.0", "Ce-Source", "/here", "Ce-Type", "t", "Ce-Id", id}, more...)
		}
		for _, c := range []struct {
			name, body string
			header     []string
			status     int
			want       map[string]string // payloads by id
			wrong      string            // in the first answer
		}{
			{"structured", one("s1", `,"data":{"a":[1]},"comexample":true`), []string{"Content-Type", structured + "; charset=utf-8"}, 202, map[string]string{"s1": `{"a":[1]}`}, ""},
			{"own source", strings.Replace(one("s2", ""), "/here", "/tenants/acme/clients/ada", 1), []string{"Content-Type", structured}, 202, map[string]string{"s2": `null`}, ""},
			{"data in base64, of JSON", one("s3", `,"data_base64":"eyJiIjoyfQ=="`), []string{"Content-Type", structured}, 202, map[string]string{"s3": `{"b":2}`}, ""},
			{"data in base64, of bytes", one("s4", `,"data_base64":"/wA=","datacontenttype":"image/png","data":null`), []string{"Content-Type", structured}, 400, nil, "data and data_base64"},
			{"data in base64, of an image", one("s5", `,"data_base64":"/wA=","datacontenttype":"image/png"`), []string{"Content-Type", structured}, 202, map[string]string{"s5": `{"base64":"/wA="}`}, ""},
			{"text", one("s6", `,"data":"hi","datacontenttype":"text/plain"`), []string{"Content-Type", structured}, 202, map[string]string{"s6": `"hi"`}, ""},
			{"binary", `{"c":3}`, binary("b1", "Content-Type", "application/json"), 202, map[string]string{"b1": `{"c":3}`}, ""},
			{"binary, of text", "grün", binary("b2", "Content-Type", "text/plain; charset=utf-8"), 202, map[string]string{"b2": `"grün"`}, ""},
			{"binary, of other text", "gr\xfcn", binary("b3", "Content-Type", "text/plain; charset=iso-8859-1"), 202, map[string]string{"b3": `{"base64":"Z3L8bg=="}`}, ""},
			{"binary, without data", "", binary("b4"), 202, map[string]string{"b4": "null"}, ""},
			{"binary, an encoded id", "1", binary("b%2D5"), 202, map[string]string{"b-5": "1"}, ""},
			{"batch", "[" + one("m1", `,"data":1`) + "," + one("m2", `,"data":2`) + "]", []string{"Content-Type", batched}, 202, map[string]string{"m1": "1", "m2": "2"}, ""},
			{"batch, one is wrong", "[" + one("m3", `,"data":1`) + "," + one("m 4", "") + "]", []string{"Content-Type", batched}, 400, map[string]string{"m3": "1"}, ""},
			{"empty batch", "[]", []string{"Content-Type", batched}, 202, nil, ""},

			{"a source of another client", strings.Replace(one("x1", ""), "/here", "/tenants/acme/clients/eve", 1), []string{"Content-Type", structured}, 400, nil, "another client"},
			{"a source of another tenant", "1", binary("x2", "Ce-Source", "/tenants/other/clients/ada"), 400, nil, "another client"},
			{"no source", `{"specversion":"1.0","type":"t","id":"x3"}`, []string{"Content-Type", structured}, 400, nil, "attribute source is missing"},
			{"no id", "1", binary(""), 400, nil, "attribute id is missing"},
			{"another version", strings.Replace(one("x4", ""), "1.0", "0.3", 1), []string{"Content-Type", structured}, 400, nil, "specversion"},
			{"no number", one("x5", `,"sequence":"a"`), []string{"Content-Type", structured}, 400, nil, "sequence"},
			{"no time", one("x6", `,"time":"today"`), []string{"Content-Type", structured}, 400, nil, "time"},
			{"priority", one("x7", `,"priority":10`), []string{"Content-Type", structured}, 400, nil, "priority 10"},
			{"an attribute that is an object", one("x8", `,"subject":{}`), []string{"Content-Type", structured}, 400, nil, "attribute subject"},
			{"no JSON", "{", []string{"Content-Type", structured}, 400, nil, "no CloudEvent"},
			{"an array", "[]", []string{"Content-Type", structured}, 400, nil, "no CloudEvent"},
			{"data that is not JSON", "{", binary("x9", "Content-Type", "application/json"), 400, nil, "not JSON"},
			{"bad base64", one("x10", `,"data_base64":"?"`), []string{"Content-Type", structured}, 400, nil, "data_base64"},
			{"bad content type", one("x11", `,"data_base64":"","datacontenttype":";"`), []string{"Content-Type", structured}, 400, nil, "datacontenttype"},
			{"a batch that is none", "{}", []string{"Content-Type", batched}, 400, nil, "not a JSON array: found object"},
			{"another format", "<x/>", []string{"Content-Type", "application/cloudevents+xml"}, 415, nil, ""},
			{"too large", one("x12", `,"data":"`+strings.Repeat("x", 1000)+`"`), []string{"Content-Type", structured}, 413, nil, ""},
			{"too large, in a batch", "[" + one("x13", `,"data":"`+strings.Repeat("x", 1000)+`"`) + "]", []string{"Content-Type", batched}, 413, nil, ""},
			{"too large, binary", strings.Repeat("1", 1001), binary("x14"), 413, nil, ""},
		} {
			before := w.submitted("ada")
			r := w.request(http.MethodPost, "/v1/events", "ada", c.body, c.header...)
			body, err := io.ReadAll(r.Body)
			w.ok(err)
			w.ok(r.Body.Close())
			if r.StatusCode != c.status || c.wrong != "" && !strings.Contains(string(body), c.wrong) {
				t.Errorf("%s: %s, want %d, %q\n%s", c.name, r.Status, c.status, c.wrong, body)
			}
			got := w.submitted("ada")
			for id := range before {
				delete(got, id)
			}
			if len(got)+len(c.want) > 0 && !cmp.Equal(got, c.want) {
				t.Errorf("%s: %v is in the inbox, want %v", c.name, got, c.want)
			}
		}
	})
}

func TestResultsAreCloudEventsForThoseWhoAsk(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, gateway.Options{})
		defer w.close()
		body := `{"specversion":"1.0","source":"/here","type":"t","id":"e1","causalid":"e0","correlationid":"order 7","sequence":"01","priority":3,"time":"2026-01-02T03:04:05Z","data":1}`
		if r := w.request(http.MethodPost, "/v1/events", "ada", body, "Content-Type", structured); r.StatusCode != http.StatusAccepted {
			t.Fatal(r.Status)
		}
		synctest.Wait()
		r := w.request(http.MethodGet, "/v1/results?from=earliest&wait=1s", "ada", "", "Accept", "text/html, "+batched)
		cursor := r.Header.Get(gateway.CursorHeader)
		want := `[{"specversion":"1.0","id":"0.1","source":"/tenants/acme/clients/ada/results","type":"afterbay.result.v1","subject":"e1","time":"2025-06-15T15:06:40Z","sequence":"00000000000000000001",` +
			`"status":"ok","cursor":"` + cursor + `","causalid":"e0","causationid":"e1","correlationid":"order 7","datacontenttype":"application/json","data":{"of":1}}]` + "\n"
		if got, err := io.ReadAll(r.Body); err != nil || string(got) != want || r.Header.Get("Content-Type") != batched {
			t.Errorf("%v, %s\n%s\nwant\n%s", err, r.Header.Get("Content-Type"), got, want)
		}
		empty := w.request(http.MethodGet, "/v1/results?wait=1s&cursor="+cursor, "ada", "", "Accept", structured)
		if got, err := io.ReadAll(empty.Body); err != nil || string(got) != "[]\n" {
			t.Errorf("%v, %s", err, got)
		}

		s := w.listen("ada", "Accept", "text/event-stream, "+structured, "Last-Event-ID", "")
		first := <-s.events
		var connected struct {
			Type, ID, Time string
			Data           struct{ Type, Cursor string }
		}
		if w.ok(json.Unmarshal([]byte(first.data), &connected)); connected.Type != "afterbay.connected.v1" || connected.ID == "" || connected.Time == "" || connected.Data.Type != "connected" || connected.Data.Cursor != first.id {
			t.Errorf("%s", first.data)
		}
		w.lines(w.request(http.MethodPost, "/v1/events", "ada", `{"type":"event","eventId":"e2","payload":2}`))
		if e := <-s.events; e.name != "result" || e.id == "" || !strings.Contains(e.data, `"id":"0.2"`) || !strings.Contains(e.data, `"data":{"of":2}`) {
			t.Errorf("%+v", e)
		}
		w.ok(s.body.Close())
	})
}

// TestEveryFrameIsACloudEvent writes results of every status, and what else a
// client hears.
func TestEveryFrameIsACloudEvent(t *testing.T) {
	c := wire.CloudEvents{Tenant: "acme", Client: "ada", Epoch: "7"}
	problem := &wire.Error{Code: "late", Message: "too late"}
	for _, x := range []struct {
		result wire.Result
		want   string
	}{
		{wire.Result{Status: wire.StatusOK}, `"status":"ok","cursor":"c","causationid":"e"}`},
		{wire.Result{Status: wire.StatusPartial, Attempt: 2, Payload: []byte(`"a"`), Model: "m@1"}, `"status":"partial","cursor":"c","causationid":"e","model":"m@1","attempt":2,"datacontenttype":"application/json","data":"a"}`},
		{wire.Result{Status: wire.StatusRejected, Error: problem, Duplicate: true}, `"status":"rejected","cursor":"c","causationid":"e","duplicate":true,"datacontenttype":"application/json","data":{"code":"late","message":"too late","retryable":false}}`},
		{wire.Result{Status: wire.StatusError, Error: problem}, `"status":"error","cursor":"c","causationid":"e","datacontenttype":"application/json","data":{"code":"late","message":"too late","eventId":"e","retryable":false}}`},
	} {
		x.result.Seq, x.result.Event = 12, "e"
		got, err := c.Encode(wire.FrameOf(&x.result, "c"), "unused", fixed)
		want := `{"specversion":"1.0","id":"7.12","source":"/tenants/acme/clients/ada/results","type":"afterbay.result.v1","subject":"e",`
		if x.result.Status == wire.StatusError {
			want += `"time":"2026-01-01T00:00:00Z",`
		}
		if want += `"sequence":"00000000000000000012",` + x.want; err != nil || string(got) != want {
			t.Errorf("%v\n%s\nwant\n%s", err, got, want)
		}
	}
	got, err := c.Encode(&wire.Gap{Requested: "a", Earliest: "b"}, "random", fixed)
	want := `{"specversion":"1.0","id":"random","source":"/tenants/acme/clients/ada/results","type":"afterbay.gap.v1","time":"2026-01-01T00:00:00Z","datacontenttype":"application/json","data":{"type":"gap","requested":"a","earliest":"b"}}`
	if err != nil || string(got) != want {
		t.Errorf("%v\n%s\nwant\n%s", err, got, want)
	}
	if got, err := c.Encode(&wire.ResultFrame{Seq: 1, Payload: []byte("{")}, "", fixed); err == nil {
		t.Errorf("a payload that is not JSON: %s", got)
	}
	for i, f := range []wire.Frame{&wire.Accepted{CorrelationID: "x"}, &wire.Backpressure{CorrelationID: "x"}, &wire.ErrorFrame{CorrelationID: "x", Error: problem}, &wire.ResultFrame{CorrelationID: "x"}} {
		if got, err := c.Encode(f, "", fixed); err != nil || !strings.Contains(string(got), `"correlationid":"x"`) {
			t.Error(i, string(got), err)
		}
	}
}

var fixed = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
