package gateway_test

import (
	"encoding/json"
	"io"
	"net/http"
	"testing"
	"testing/synctest"

	"github.com/afterbay/afterbay/internal/gateway"
	"github.com/afterbay/afterbay/internal/gateway/wire"
)

// TestEventsAreGivenUp cancels an event over WebSocket, and another one by HTTP.
func TestEventsAreGivenUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, gateway.Options{PendingLimit: 2})
		defer w.close()
		c, _ := w.connect("ada", nil)
		for _, id := range []string{"e1", "e2"} {
			w.ok(c.send(&wire.Submission{EventID: id, Payload: json.RawMessage(`"never"`)}))
			if f, ok := w.receive(c).(*wire.Accepted); !ok || f.EventID != id {
				t.Fatalf("%+v", f)
			}
		}
		// All places are taken: giving up needs none.
		w.ok(c.send(&wire.Cancel{EventID: "e1"}))
		if f, ok := w.receive(c).(*wire.Accepted); !ok || f.EventID != "e1" {
			t.Errorf("%+v", f)
		}
		answer := w.request(http.MethodPost, "/v1/cancel", "ada", `{"type":"cancel","eventId":"e2"}`)
		body, err := io.ReadAll(answer.Body)
		if w.ok(err); answer.StatusCode != http.StatusAccepted || string(body) != `{"eventId":"e2","type":"accepted"}`+"\n" {
			t.Errorf("%s: %s", answer.Status, body)
		}
		for _, id := range []string{"e1", "e2"} {
			if f, ok := w.receive(c).(*wire.ResultFrame); !ok || f.EventID != id || f.Status != wire.StatusRejected || f.Error.Code != wire.CodeCancelled {
				t.Errorf("%+v", f)
			}
		}
		w.ok(c.send(&wire.Cancel{EventID: "no id"}))
		if f, ok := w.receive(c).(*wire.ErrorFrame); !ok || f.Error.Code != wire.CodeBadEvent {
			t.Errorf("%+v", f)
		}
		for _, body := range []string{`{"type":"cancel","eventId":""}`, `{"type":"ack","cursor":""}`, `{`} {
			if r := w.request(http.MethodPost, "/v1/cancel", "ada", body); r.StatusCode != http.StatusBadRequest {
				t.Errorf("%s: %s", body, r.Status)
			}
		}
		if r := w.request(http.MethodPost, "/v1/cancel", "", `{"type":"cancel","eventId":"e2"}`); r.StatusCode != http.StatusUnauthorized {
			t.Errorf("without a token: %s", r.Status)
		}
	})
}
