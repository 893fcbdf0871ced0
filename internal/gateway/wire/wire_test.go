package wire_test

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/afterbay/afterbay/internal/gateway/wire"
	"github.com/afterbay/afterbay/stream"
)

var at = time.Date(2026, 11, 22, 6, 0, 0, 123456000, time.UTC)

func event() wire.Event {
	return wire.Event{
		Tenant: "acme", Client: "c42", ID: "01J:a", Sequence: 17, Causal: "01J:0", Payload: json.RawMessage(`{"text":"hi"}`), Time: at,
		TraceParent: "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01", Correlation: "order 7", Priority: 1,
	}
}

func TestEventComesBackFromTheLogAsItWas(t *testing.T) {
	for name, want := range map[string]wire.Event{
		"all": event(), "least": {Tenant: "a", Client: "b", ID: "c", Payload: json.RawMessage(`0`)},
		"most": {Tenant: "a", Client: "b", ID: "c", Payload: json.RawMessage(`0`), Priority: wire.PriorityMax, Correlation: strings.Repeat("x", 128)},
	} {
		r := wire.Submit("chat.inbox", &want)
		if got := string(r.Key); got != wire.Key(want.Tenant, want.Client) || r.Partition != (stream.Partition{Topic: "chat.inbox", Index: stream.ByKey}) {
			t.Errorf("%s: key %s in %v", name, got, r.Partition)
		}
		if got, err := wire.ParseSubmit(&r); err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%s: %+v, %v; want %+v", name, got, err, want)
		}
	}
}

func TestEventThatIsNotAsItShouldBeIsRefused(t *testing.T) {
	for want, change := range map[string]func(*wire.Event){
		"tenantId":      func(e *wire.Event) { e.Tenant = "a/b" },
		"clientId":      func(e *wire.Event) { e.Client = "" },
		"eventId":       func(e *wire.Event) { e.ID = strings.Repeat("x", 129) },
		"causalId":      func(e *wire.Event) { e.Causal = "a b" },
		"sequence":      func(e *wire.Event) { e.Sequence = -1 },
		"priority":      func(e *wire.Event) { e.Priority = 10 },
		"timestamp":     func(e *wire.Event) { e.Time = time.Unix(-1, 0) },
		"from 1970 on":  func(e *wire.Event) { e.Time = time.Date(1970, 1, 1, 0, 0, 0, 0, time.FixedZone("", 14*3600)) },
		"9999":          func(e *wire.Event) { e.Time = time.Date(9999, 12, 31, 23, 59, 59, 0, time.FixedZone("", -3600)) },
		"missing":       func(e *wire.Event) { e.Payload = nil },
		"not JSON":      func(e *wire.Event) { e.Payload = json.RawMessage(`{`) },
		"not UTF-8":     func(e *wire.Event) { e.Payload = json.RawMessage("{\"text\":\"caf\xe9\"}") },
		"correlationId": func(e *wire.Event) { e.Correlation = "a\nb" },
		"traceparent":   func(e *wire.Event) { e.TraceParent = "00-1" },
	} {
		e := event()
		change(&e)
		if err := e.Validate(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", want, err)
		}
		r := wire.Submit("chat.inbox", &e)
		if _, err := wire.ParseSubmit(&r); err == nil {
			t.Errorf("%s: read from the log", want)
		}
	}
}

func TestRecordThatNoGatewayWroteIsAnError(t *testing.T) {
	for name, change := range map[string]func(*stream.Record){
		"other key":      func(r *stream.Record) { r.Key = []byte("acme/c43") },
		"no headers":     func(r *stream.Record) { r.Headers = nil },
		"damaged number": func(r *stream.Record) { set(r, "afterbay-sequence", "x") },
		"damaged time":   func(r *stream.Record) { set(r, "afterbay-timestamp", "noon") },
		"an outcome":     func(r *stream.Record) { set(r, "afterbay-inbox", "outcome") },
	} {
		e := event()
		r := wire.Submit("chat.inbox", &e)
		change(&r)
		if _, err := wire.ParseSubmit(&r); err == nil {
			t.Errorf("%s: taken", name)
		}
	}
	result := wire.Result{Tenant: "acme", Client: "c42", Event: "e", Seq: 1, Status: wire.StatusOK}
	for header, value := range map[string]string{"afterbay-seq": "0", "afterbay-status": "fine", "x-client-event": "acme/c42"} {
		r := wire.ResultRecord("chat.results", &result)
		set(&r, header, value)
		if _, err := wire.ParseResult(&r); err == nil {
			t.Errorf("%s %q: taken", header, value)
		}
	}
}

func set(r *stream.Record, key, value string) {
	for i := range r.Headers {
		if r.Headers[i].Key == key {
			r.Headers[i].Value = []byte(value)
		}
	}
}

func results() []wire.Result {
	return []wire.Result{
		{Tenant: "acme", Client: "c42", Seq: 1, Event: "e1", Causal: "e0", Status: wire.StatusOK, Payload: json.RawMessage(`{"a":1}`), Model: "m@7", Time: at, Correlation: "x"},
		{Tenant: "acme", Client: "c42", Seq: 2, Event: "e1", Status: wire.StatusPartial, Attempt: 2, Payload: json.RawMessage(`"tok"`), Time: at},
		{Tenant: "acme", Client: "c42", Seq: 3, Event: "e1", Status: wire.StatusOK, Time: at, Duplicate: true},
		{Tenant: "acme", Client: "c42", Seq: 4, Event: "e2", Status: wire.StatusDeadLettered, Time: at, Error: &wire.Error{Code: "score", Message: "model m: timeout", Retryable: true, Attempts: 4}},
		{Tenant: "acme", Client: "c42", Seq: 5, Event: "e1", Status: wire.StatusError, Time: at, Error: &wire.Error{Code: wire.CodeEventIDConflict, Message: "other payload"}},
	}
}

func TestResultComesBackFromTheLogAsItWas(t *testing.T) {
	for _, want := range results() {
		r := wire.ResultRecord("chat.results", &want)
		if got, err := wire.ParseResult(&r); err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%+v, %v; want %+v", got, err, want)
		}
		r, want.Seq = wire.Outcome("chat.inbox", &want), 0
		if got, err := wire.ParseOutcome(&r); err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("outcome: %+v, %v; want %+v", got, err, want)
		}
		if _, err := wire.ParseSubmit(&r); err == nil {
			t.Error("an outcome was read as an event")
		}
	}
}

func TestFramesComeBackAsTheyWere(t *testing.T) {
	client := []wire.Frame{
		&wire.Connect{ID: 1, Token: "t", SessionID: "tab-7", Resume: &wire.Resume{Cursor: "c"}, MaxInflight: 50, AckEvery: 32},
		&wire.Submission{EventID: "e", Sequence: 1, CausalID: "d", Timestamp: at, Priority: 2, TraceParent: "x", CorrelationID: "y", Payload: json.RawMessage(`{"a":[1]}`)},
		&wire.Ack{Cursor: "c"}, &wire.Pong{}, &wire.Refresh{ID: 2, Token: "t"},
	}
	server := []wire.Frame{
		&wire.Connected{ID: 1, ClientID: "c42", TenantID: "acme", Epoch: "1", Cursor: "c", Recovered: true, PingMs: 15000, PendingLimit: 50, ExpiresAt: at},
		&wire.Accepted{EventID: "e"}, &wire.Backpressure{Reason: wire.ReasonPendingLimit, EventID: "e", Pending: 50, Limit: 50, RetryAfterMs: 40},
		&wire.ErrorFrame{ID: 9, Error: &wire.Error{Code: wire.CodeBadEvent, Message: "m", EventID: "e"}},
		&wire.Ping{}, &wire.Refreshed{ID: 4, ExpiresAt: at}, &wire.Gap{Requested: "a", Earliest: "b"},
		&wire.Disconnect{Code: 4501, Reason: "drain", Reconnect: true, RetryAfterMs: 1800},
	}
	for _, r := range results() {
		server = append(server, wire.FrameOf(&r, "c"))
	}
	for _, side := range []struct {
		frames []wire.Frame
		parse  func([]byte) (wire.Frame, *wire.Error)
	}{{client, parseClient}, {server, wire.ParseServer}} {
		for _, want := range side.frames {
			data, err := wire.Encode(want)
			if err != nil || !strings.HasPrefix(string(data), `{"type":"`+want.Name()+`"`) || !json.Valid(data) {
				t.Fatalf("%s, %v", data, err)
			}
			if got, err := side.parse(data); err != nil || !reflect.DeepEqual(got, want) {
				t.Errorf("%s: %+v, %v", data, got, err)
			}
		}
	}
}

func parseClient(data []byte) (wire.Frame, *wire.Error) {
	f, refused := wire.ParseClient(data)
	if refused != nil {
		return nil, refused.Error
	}
	return f, nil
}

// What json.Valid lets pass would end the connection of a browser.
func TestFramesAreAlwaysUTF8(t *testing.T) {
	payload := json.RawMessage("{\"text\":\"caf\xe9\",\"key\xff\":\"\xc3\"}")
	for _, f := range []wire.Frame{&wire.ResultFrame{EventID: "e", Payload: payload}, &wire.Submission{EventID: "e", Payload: payload}, &wire.Accepted{EventID: "\xff"}} {
		data, err := wire.Encode(f)
		if err != nil || !utf8.Valid(data) || !json.Valid(data) {
			t.Errorf("%q, %v", data, err)
		}
	}
	data, err := wire.Encode(&wire.ResultFrame{EventID: "e", Payload: payload})
	if err != nil || !strings.Contains(string(data), `{"text":"caf�","key�":"�"}`) {
		t.Errorf("%s, %v", data, err)
	}
}

func TestBadFramesOfClientsAreNamed(t *testing.T) {
	for _, c := range []struct{ data, want string }{
		{``, "no JSON"}, {`nonsense`, "no JSON"}, {`[]`, "no JSON object with a type: found array"}, {`{}`, "its type is missing"}, {`null`, "its type is missing"},
		{`{"type":7}`, "type: found number, use a string"},
		{`{"type":"result"}`, `"result" is not one of afterbay.v1`},
		{`{"type":"ack","cursor":"a"} {}`, "after top-level"},
		{`{"type":"event","eventid_":"a"}`, `frame event: unknown field "eventid_"`},
		{`{"type":"event","eventId":7}`, "frame event: eventId: found number, use a string"},
		{`{"type":"event","sequence":1.5}`, "frame event: sequence: found number 1.5, use a whole number"},
		{`{"type":"event","priority":"high"}`, "frame event: priority: found string, use a whole number"},
		{`{"type":"event","timestamp":"yesterday"}`, "frame event: a time is not RFC 3339"},
		{`{"type":"event","timestamp":5}`, "frame event: a time is not RFC 3339"},
		{`{"type":"connect","resume":{"cursors":"a"}}`, `unknown field "cursors"`},
		{`{"type":"connect","resume":"a"}`, "resume: found string, use an object"},
		{`{"type":"connect","resume":{"cursor":1}}`, "resume.cursor: found number, use a string"},
	} {
		f, err := parseClient([]byte(c.data))
		if err == nil || err.Code != wire.CodeBadFrame || !strings.Contains(err.Message, c.want) {
			t.Errorf("%s: %v, %v; want %q", c.data, f, err, c.want)
		} else if strings.Contains(err.Message, "Go ") || strings.Contains(err.Message, "json:") {
			t.Errorf("%s: %q is about our code, not about the frame", c.data, err.Message)
		}
	}
	if _, err := wire.ParseServer([]byte(`{"type":"ping","new":1}`)); err != nil {
		t.Errorf("clients are to pass over what they do not know: %v", err)
	}
}

// A client with many events on their way has to know which of them was refused.
func TestBadFramesAreAnsweredByTheirIds(t *testing.T) {
	for data, want := range map[string]wire.ErrorFrame{
		`{"type":"event","priority":"high","eventId":"e1","correlationId":"c1","payload":1}`: {CorrelationID: "c1", Error: &wire.Error{EventID: "e1"}},
		`{"type":"event","eventId":"e2","clientId":"someone","payload":1}`:                   {Error: &wire.Error{EventID: "e2"}},
		`{"type":"refresh","id":7,"tokens":"t"}`:                                             {ID: 7, Error: &wire.Error{}},
		`{"type":"nothing","id":"8","eventId":"no id"}`:                                      {Error: &wire.Error{}},
		`{"type":"event","eventId":"e3"`:                                                     {Error: &wire.Error{}},
	} {
		_, got := wire.ParseClient([]byte(data))
		if got == nil || got.ID != want.ID || got.CorrelationID != want.CorrelationID || got.Error.EventID != want.Error.EventID {
			t.Errorf("%s: %+v; want %+v", data, got, want)
		}
	}
}

func TestCursorIsOfItsClientAlone(t *testing.T) {
	key, other := wire.NewCursorKey([]byte("0123456789abcdef")), wire.NewCursorKey([]byte("123456789abcdef"))
	if got := (wire.Cursor{Epoch: 1, Partition: 3, Offset: 1842}).Encode(key, "acme", "c42"); got != "AQAAAAAAAAABAAAAAwAAAAAAAAczZ2uCciTJ0mDE_Gx0BPnqNw" {
		t.Errorf("%s: clients have others", got)
	}
	for _, want := range []wire.Cursor{{Epoch: 1, Partition: 3, Offset: 1842}, {Epoch: 1, Partition: 3, Offset: 1842, Digest: 1<<32 - 1}, {Offset: -1}, {Epoch: 1 << 63, Partition: 1<<31 - 1, Offset: 1<<62 + 1}} {
		text := want.Encode(key, "acme", "c42")
		if got, err := wire.ParseCursor(key, "acme", "c42", text); err != nil || got != want {
			t.Errorf("%+v, %v; want %+v", got, err, want)
		}
		for i := range len(text) {
			for _, c := range []byte("AB_\n") {
				changed := text[:i] + string(c) + text[i+1:]
				if _, err := wire.ParseCursor(key, "acme", "c42", changed); (changed != text) != errors.Is(err, wire.ErrBadCursor) {
					t.Errorf("byte %d is %q: %v", i, c, err)
				}
			}
		}
		for name, parse := range map[string]func() (wire.Cursor, error){
			"another client": func() (wire.Cursor, error) { return wire.ParseCursor(key, "acme", "c43", text) },
			"another tenant": func() (wire.Cursor, error) { return wire.ParseCursor(key, "acm", "e/c42", text) },
			"another key":    func() (wire.Cursor, error) { return wire.ParseCursor(other, "acme", "c42", text) },
			"cut":            func() (wire.Cursor, error) { return wire.ParseCursor(key, "acme", "c42", text[:len(text)-4]) },
			"empty":          func() (wire.Cursor, error) { return wire.ParseCursor(key, "acme", "c42", "") },
			"longer":         func() (wire.Cursor, error) { return wire.ParseCursor(key, "acme", "c42", text+"AAAA") },
		} {
			if _, err := parse(); !errors.Is(err, wire.ErrBadCursor) {
				t.Errorf("%s: %v", name, err)
			}
		}
	}
}

// TestCursorOfAnotherFormIsRefused has cursors that are signed, and that this version
// does not write.
func TestCursorOfAnotherFormIsRefused(t *testing.T) {
	secret := []byte("0123456789abcdef")
	key := wire.NewCursorKey(secret)
	right := (wire.Cursor{Epoch: 1, Partition: 3, Offset: 1842}).Encode(key, "acme", "c42")
	for at, want := range map[int]error{8: nil, 0: wire.ErrBadCursor, 9: wire.ErrBadCursor, 13: wire.ErrBadCursor} {
		b, err := base64.RawURLEncoding.DecodeString(right)
		if err != nil {
			t.Fatal(err)
		}
		b = b[:len(b)-16]
		b[at] |= 0x80
		mac := hmac.New(sha256.New, secret)
		fmt.Fprintf(mac, "afterbay.cursor.%sacme/c42", b)
		text := base64.RawURLEncoding.EncodeToString(append(b, mac.Sum(nil)[:16]...))
		if got, err := wire.ParseCursor(key, "acme", "c42", text); !errors.Is(err, want) {
			t.Errorf("byte %d: %+v, %v", at, got, err)
		}
	}
}
