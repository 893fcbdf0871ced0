package wire

import (
	"bytes"
	"encoding/json"
	"reflect"
	"strings"
	"testing"
	"time"
	"unicode/utf8"
)

// frames of events, and what is almost one.
var scanned = []string{
	`{"type":"event","eventId":"e","payload":{"a":[1,-2.5e+3,true,false,null,"x\u00e9\n\\"],"b":{}}}`,
	"\t{ \"payload\" : [ ] , \"eventId\" : \"\" , \"type\" : \"event\" }\n",
	`{"type":"event","eventId":"e","sequence":17,"causalId":"d","timestamp":"2026-11-22T06:00:00.5+01:00","priority":9,"traceparent":"00-1","correlationId":"order 7","payload":null}`,
	`{"type":"event","eventId":"e","sequence":-0,"payload":"é\u2028<&>"}`, `{"type":"event","timestamp":null,"payload":1}`,
	`{"type":"event","eventId":"é","payload":1}`, `{"type":"event","eventId":"a\u0062","payload":1}`, `{"type":"event","EVENTID":"a","payload":1}`,
	`{"type":"event","eventId":"a","eventId":"b","payload":1}`, `{"type":"event","eventId":null,"payload":1}`, `{"type":"event","eventId":7,"payload":1}`,
	`{"type":"event","sequence":01,"payload":1}`, `{"type":"event","sequence":1.0,"payload":1}`, `{"type":"event","sequence":9223372036854775808,"payload":1}`,
	`{"type":"event","timestamp":"noon","payload":1}`, `{"type":"event","payload":1} {}`, `{"type":"event","payload":1,}`,
	`{"type":"event","payload":{"a" 1}}`, `{"type":"event","payload":"\x"}`, `{"type":"event","payload":"\u12"}`, `{"type":"event","payload":1.}`, `{"type":"event","payload":tru`,
	`{"type":"event","unknown":1,"payload":1}`, `{"type":"ack","cursor":"c"}`, `{"payload":1}`, `{}`, `{"type":"event"`, ``,
	`{"type":"event","payload":` + strings.Repeat("[", 100) + strings.Repeat("]", 100) + `}`,
}

// FuzzScanEvent compares what is read of an event's frame with what encoding/json
// reads.
func FuzzScanEvent(f *testing.F) {
	for _, text := range scanned {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		before := bytes.Clone(data)
		got, ok := scanEvent(data)
		if !bytes.Equal(data, before) {
			t.Fatalf("%q became %q", before, data)
		}
		if want, problem := parse(data, newClientFrame, true); ok && (problem != nil || !reflect.DeepEqual(Frame(got), want)) {
			t.Errorf("%q is read as %+v, encoding/json says %+v, %v", data, got, want, problem)
		}
		if got, want := validJSON(data), json.Valid(data); got != want {
			t.Errorf("%q is valid: %v; encoding/json says %v", data, got, want)
		}
	})
}

// FuzzAppendFrame compares the frames that are written without encoding/json with
// what that writes.
func FuzzAppendFrame(f *testing.F) {
	for _, text := range append(scanned, `a b`, "\"\xff\"", "\u2028", "\xff", `<`, "\x7f", "\x00") {
		f.Add(text, []byte(text), int64(len(text)))
	}
	f.Fuzz(func(t *testing.T, text string, payload []byte, n int64) {
		at := time.Unix(n, n&0xfffff).In(time.FixedZone("", int(n%100_000)))
		result := &ResultFrame{Seq: uint64(n), Cursor: text, EventID: text, Payload: payload}
		for _, frame := range []Frame{
			&Accepted{EventID: text, CorrelationID: text}, result, &ResultFrame{
				CausalID: text, Model: text, Status: Status(text), Attempt: int(n), Duplicate: n > 0, Timestamp: at, CorrelationID: text,
				Error: &Error{Code: text, Attempts: int(n)},
			},
		} {
			got, err := Append([]byte("before"), frame)
			want, wrong := appendFrame([]byte("before"), frame)
			want = bytes.ToValidUTF8(want, []byte(string(utf8.RuneError)))
			if (err != nil) != (wrong != nil) || err == nil && !bytes.Equal(got, want) {
				t.Errorf("%q, %v; encoding/json writes %q, %v", got, err, want, wrong)
			}
		}
	})
}

// TestFramesAsClientsWriteThemAreScanned holds scanEvent to what it is there for.
func TestFramesAsClientsWriteThemAreScanned(t *testing.T) {
	for i, text := range scanned {
		if _, ok := scanEvent([]byte(text)); ok != (i < 5) {
			t.Errorf("%s is read without encoding/json: %v", text, ok)
		}
	}
}

func BenchmarkParseClient(b *testing.B) {
	data := []byte(`{"type":"event","eventId":"e0001.000001","payload":{"text":"a message of a chat, as people write it to each other","user":"u000001"}}`)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := ParseClient(data); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkAppend(b *testing.B) {
	result := &ResultFrame{Seq: 17, Cursor: strings.Repeat("c", 50), EventID: "e0001.000001", Status: StatusOK, Payload: []byte(`{"text":"a message of a chat, as people write it to each other","user":"u000001"}`)}
	b.ReportAllocs()
	for buffer := []byte(nil); b.Loop(); {
		var err error
		if buffer, err = Append(buffer[:0], result); err != nil {
			b.Fatal(err)
		}
	}
}
