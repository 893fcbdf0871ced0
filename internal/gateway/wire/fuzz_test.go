package wire_test

import (
	"reflect"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/afterbay/afterbay/internal/gateway/wire"
)

func FuzzParseClient(f *testing.F) {
	for _, text := range []string{
		`{"type":"connect","id":1,"token":"t","resume":{"from":"latest"}}`, `{"type":"event","eventId":"e","timestamp":"2026-11-22T06:00:00Z","payload":{"a":[1]}}`,
		`{"type":"ack","cursor":"c"}`, "{\"type\":\"event\",\"eventId\":\"e\",\"payload\":\"\xe9\"}", `{"type":"pong"}`, `{"type":"refresh","token":"t"}`, `{"type":"result"}`, `[]`,
		`{"type":"event","eventId":"e","timestamp":"1970-01-01T00:00:00+14:00","payload":1}`, `{"type":"event","eventId":"e","timestamp":"9999-12-31T23:59:59-01:00","payload":1}`,
	} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		frame, refused := wire.ParseClient(data)
		if refused != nil {
			return
		}
		once, err := wire.Encode(frame)
		if err != nil || !utf8.Valid(once) {
			t.Fatalf("%s: %q, %v", data, once, err)
		}
		if sent, ok := frame.(*wire.Submission); ok {
			inTheLogAsItIs(t, sent.Event("acme", "c42"))
		}
		again, refused := wire.ParseClient(once)
		if refused != nil {
			t.Fatalf("%s became %s: %v", data, once, refused)
		}
		if twice, err := wire.Encode(again); err != nil || string(twice) != string(once) {
			t.Errorf("%s became %s and %s, %v", data, once, twice, err)
		}
	})
}

// inTheLogAsItIs appends an event that gateways accept: the sequencer, which has to end
// it, reads the same.
func inTheLogAsItIs(t *testing.T, e wire.Event) {
	t.Helper()
	if e.Validate() != nil {
		return
	}
	r := wire.Submit("chat.inbox", &e)
	got, err := wire.ParseSubmit(&r)
	if err != nil {
		t.Fatalf("%+v is accepted, and then: %v", e, err)
	}
	if !got.Time.Equal(e.Time) {
		t.Errorf("%v became %v", e.Time, got.Time)
	}
	got.Time, e.Time = time.Time{}, time.Time{} // which lose their zone
	if !reflect.DeepEqual(got, e) {
		t.Errorf("%+v became %+v", e, got)
	}
}

func FuzzParseCursor(f *testing.F) {
	key := wire.NewCursorKey([]byte("0123456789abcdef"))
	f.Add(wire.Cursor{Epoch: 1, Partition: 3, Offset: 1842}.Encode(key, "acme", "c42"))
	f.Add("")
	f.Fuzz(func(t *testing.T, text string) {
		if c, err := wire.ParseCursor(key, "acme", "c42", text); err == nil && c.Encode(key, "acme", "c42") != text {
			t.Errorf("%q is taken for %+v", text, c)
		}
	})
}
