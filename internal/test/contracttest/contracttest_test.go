package contracttest_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"testing"
	"time"

	"github.com/afterbay/afterbay/internal/gateway/wire"
	"github.com/afterbay/afterbay/internal/test/contracttest"
)

var now = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// frames has one of each, with all of its fields.
var frames = []wire.Frame{
	&wire.Connect{ID: 1, Token: "t", SessionID: "s", Resume: &wire.Resume{From: wire.FromLatest}, MaxInflight: 1, AckEvery: 1},
	&wire.Submission{EventID: "e", Sequence: 1, CausalID: "c", Timestamp: now, Priority: 9, TraceParent: "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01", CorrelationID: "order 7", Payload: []byte("null")},
	&wire.Ack{Cursor: "c"},
	&wire.Pong{},
	&wire.Refresh{ID: 1, Token: "t"},
	&wire.Connected{ID: 1, ClientID: "c", TenantID: "t", Epoch: "0", Cursor: "c", Recovered: true, PingMs: 1, PongTimeoutMs: 1, PendingLimit: 1, MaxMessageBytes: 1, ExpiresAt: now},
	&wire.Accepted{EventID: "e", CorrelationID: "x"},
	&wire.ResultFrame{Seq: 1, Cursor: "c", EventID: "e", CausalID: "c", Model: "m@1", Status: wire.StatusPartial, Attempt: 1, Duplicate: true, Timestamp: now, CorrelationID: "x", Payload: []byte("1"), Error: &wire.Error{Code: "late", Message: "m", EventID: "e", Retryable: true, Attempts: 1}},
	&wire.ErrorFrame{ID: 1, Seq: 1, Cursor: "c", CorrelationID: "x", Error: &wire.Error{Code: "late", Message: "m"}},
	&wire.Backpressure{Reason: wire.ReasonDraining, EventID: "e", CorrelationID: "x", Pending: 1, Limit: 1, RetryAfterMs: 1},
	&wire.Ping{},
	&wire.Refreshed{ID: 1, ExpiresAt: now},
	&wire.Gap{Requested: "a", Earliest: "b"},
	&wire.Disconnect{Code: 4501, Reason: "drain", Reconnect: true, RetryAfterMs: 1},
}

// TestFramesAreCheckedInAnyFolder stands first: schemas are compiled once, when a frame
// of theirs comes, and tests change their working directory meanwhile.
func TestFramesAreCheckedInAnyFolder(t *testing.T) {
	for _, frame := range frames {
		t.Chdir(t.TempDir())
		message, err := wire.Encode(frame)
		if err == nil {
			err = check(message)
		}
		if err != nil {
			t.Error(err)
		}
	}
}

// check takes the frame of either side.
func check(data []byte) error {
	if err := contracttest.Server(data); err != nil {
		if contracttest.Client(data) != nil {
			return err
		}
	}
	return nil
}

// TestMutatedFramesAreRefused changes every field of every frame: it is of another
// type, or another one beside it, or missing.
func TestMutatedFramesAreRefused(t *testing.T) {
	needed := 0
	for _, f := range frames {
		data, err := wire.Encode(f)
		if err != nil {
			t.Fatal(err)
		}
		if err := check(data); err != nil {
			t.Errorf("%s: %v", f.Name(), err)
		}
		var fields map[string]any
		if err := json.Unmarshal(data, &fields); err != nil {
			t.Fatal(err)
		}
		mutated := func(name string, value any) error {
			changed := maps.Clone(fields)
			if changed[name] = value; value == nil {
				delete(changed, name)
			}
			data, err := json.Marshal(changed)
			if err != nil {
				t.Fatal(err)
			}
			return check(data)
		}
		for name := range fields {
			if name != "payload" && mutated(name, []int{1}) == nil { // any JSON
				t.Errorf("%s: %s is an array", f.Name(), name)
			}
			if mutated(name, nil) != nil {
				needed++
			}
		}
		if mutated("more", 1) == nil {
			t.Errorf("%s has a field that it does not have", f.Name())
		}
	}
	// Types, and what is said in every frame.
	if want := len(frames) + 2 + 1 + 1 + 8 + 1 + 4 + 1 + 1 + 1 + 2 + 3; needed != want {
		t.Errorf("%d fields are needed, want %d", needed, want)
	}
	for _, wrong := range []string{
		`{"type":"fly"}`, `{}`, `[]`, `{`, `{"type":"ack","cursor":"c"}{}`,
		`{"type":"event","eventId":"a b","payload":1}`, `{"type":"event","eventId":"e","payload":1,"priority":10}`, `{"type":"event","eventId":"e","payload":1,"timestamp":"today"}`,
		`{"type":"result","seq":0,"cursor":"c","eventId":"e","status":"ok"}`, `{"type":"result","seq":1,"cursor":"c","eventId":"e","status":"fine"}`,
		`{"type":"backpressure","reason":"mood","retryAfterMs":1}`, `{"type":"disconnect","code":1000,"reason":"drain","reconnect":false}`,
	} {
		if check([]byte(wrong)) == nil {
			t.Errorf("%s is taken", wrong)
		}
	}
	if contracttest.Server([]byte(`{"type":"pong"}`)) == nil || contracttest.Client([]byte(`{"type":"ping"}`)) == nil {
		t.Error("a frame of the other side is taken")
	}
}

func TestConversationsAreCheckedUpToWhereTheyEnd(t *testing.T) {
	const get, post = "GET /v1/results HTTP/1.1\r\nHost: g\r\n\r\n", "POST /v1/events HTTP/1.1\r\nHost: g\r\nContent-Length: 2\r\n\r\n{}"
	upgrade := "GET /v1/stream HTTP/1.1\r\nHost: g\r\n\r\n"
	upgraded := "HTTP/1.1 101 Switching Protocols\r\nX-Correlation-Id: c\r\n\r\n"
	answer := func(status int, media, body string) string {
		return fmt.Sprintf("HTTP/1.1 %d x\r\nX-Correlation-Id: c\r\nContent-Type: %s\r\nContent-Length: %d\r\n\r\n%s", status, media, len(body), body)
	}
	message := func(text string) string { return string([]byte{0x81, byte(len(text))}) + text }
	masked := func(text string) string { return string([]byte{0x81, 0x80 | byte(len(text)), 0, 0, 0, 0}) + text }
	const accepted, wrong = `{"type":"accepted","eventId":"e"}`, `{"type":"accepted","eventid":"e"}`
	for name, c := range map[string]struct {
		written, read string
		wrong         int
	}{
		"lines":               {post, answer(200, "application/x-ndjson", accepted+"\n"), 0},
		"a wrong line":        {post, answer(200, "application/x-ndjson", accepted+"\n"+wrong+"\n"), 1},
		"the second request":  {post + post, answer(200, "application/x-ndjson", accepted+"\n") + answer(202, "application/x-ndjson", wrong+"\n"), 1},
		"another status":      {post, answer(418, "application/x-ndjson", ""), 1},
		"another type":        {post, answer(200, "text/html", ""), 1},
		"no header":           {post, "HTTP/1.1 200 OK\r\nContent-Type: application/x-ndjson\r\nContent-Length: 0\r\n\r\n", 1},
		"a refusal":           {post, answer(400, "application/json", `{"error":"x"}`), 0},
		"a wrong refusal":     {post, answer(400, "application/json", `{"wrong":"x"}`), 1},
		"events":              {get, answer(200, "text/event-stream", "event: accepted\ndata: "+accepted+"\n\ndata: "+wrong+"\n\ndata: {"), 1},
		"a CloudEvent":        {get, answer(200, "text/event-stream", `data: {"specversion":"1.0","id":"1","source":"s","type":"t"}`+"\n"), 0},
		"no CloudEvent":       {get, answer(200, "application/cloudevents-batch+json", `[{"specversion":"1.0","id":"1","source":"s"}]`), 1},
		"messages":            {upgrade + masked(`{"type":"pong"}`), upgraded + message(accepted) + message(`{"type":"ping"}`), 0},
		"a wrong message":     {upgrade, upgraded + message(accepted) + message(wrong) + message(accepted), 1},
		"in parts":            {upgrade, upgraded + "\x01\x05" + wrong[:5] + "\x89\x00" + string([]byte{0x80, byte(len(wrong) - 5)}) + wrong[5:], 1},
		"a wrong one, masked": {upgrade + masked(`{"type":"ping"}`), upgraded, 1},
		"no header of one":    {upgrade, "HTTP/1.1 101 Switching Protocols\r\n\r\n", 1},
		"cut":                 {upgrade, upgraded + message(accepted) + message(wrong)[:20], 0},
	} {
		got := contracttest.Conversation([]byte(c.written), []byte(c.read), true)
		if len(got) != c.wrong {
			t.Errorf("%s: %d are wrong, want %d: %v", name, len(got), c.wrong, got)
		}
		for n := range len(c.read) { // wherever it is cut
			if more := contracttest.Conversation([]byte(c.written), []byte(c.read)[:n], true); len(more) > len(got) {
				t.Errorf("%s, cut after %d: %v", name, n, more)
			}
		}
	}
}
