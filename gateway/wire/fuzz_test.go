package wire_test

import (
	"testing"
	"unicode/utf8"

	"github.com/afterbay/afterbay/gateway/wire"
)

func FuzzParseClient(f *testing.F) {
	for _, text := range []string{
		`{"type":"connect","id":1,"token":"t","resume":{"from":"latest"}}`, `{"type":"event","eventId":"e","timestamp":"2026-11-22T06:00:00Z","payload":{"a":[1]}}`,
		`{"type":"ack","cursor":"c"}`, "{\"type\":\"event\",\"eventId\":\"e\",\"payload\":\"\xe9\"}", `{"type":"pong"}`, `{"type":"refresh","token":"t"}`, `{"type":"result"}`, `[]`,
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
		again, refused := wire.ParseClient(once)
		if refused != nil {
			t.Fatalf("%s became %s: %v", data, once, refused)
		}
		if twice, err := wire.Encode(again); err != nil || string(twice) != string(once) {
			t.Errorf("%s became %s and %s, %v", data, once, twice, err)
		}
	})
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
