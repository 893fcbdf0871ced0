package envelope_test

import (
	"strings"
	"testing"

	"github.com/afterbay/afterbay/internal/event/decode"
	"github.com/afterbay/afterbay/internal/event/envelope"
	"github.com/afterbay/afterbay/stream"
)

var orderFields = []string{"total number", "note optional string", "id string from id", "at optional time from time", "n optional int from sequence", "of optional string from datacontenttype", "k string from key"}

func TestStructuredCloudEvents(t *testing.T) {
	for src, want := range map[string]string{
		`{"specversion":"1.0","id":"e1","time":"2026-01-01T00:00:00Z","sequence":3,"datacontenttype":"application/json","data":{"total":5}}`: `total=5 note=absent id="e1" at=1767225600000000 n=3 of="application/json" k="c"`,
		`{"data_base64":"eyJ0b3RhbCI6NX0=","specversion":"1.0","id":"e1"}`:                                                                   `total=5 note=absent id="e1" at=absent n=absent of=absent k="c"`,
		`{"specversion":"1.0","id":"e1","data":{"total":"5"}}`:                                                                               `field "total" at byte 47: want number, got a string`,
		`{"specversion":"1.0","id":"e1"}`:                                                                                                    `field "total" at byte 1: absent but required: want number`,
		`{"specversion":"1.0","data":{"total":5}}`:                                                                                           `field "id" at byte 39: absent but required: want string`,
		`{"specversion":"0.3","id":"e1","data":{"total":5}}`:                                                                                 `field "specversion" at byte 15: want 1.0, got "0.3"`,
		`{"id":"e1","data":{"total":5}}`:                                                                                                     `field "specversion" at byte 0: absent: the record is not a CloudEvent, as a JSON object or with headers ce_*`,
		`{"specversion":"1.0","id":"e1","data":{},"data_base64":"e30="}`:                                                                     `field "data_base64" at byte 55: an event has data or data_base64`,
		`{"specversion":"1.0","id":"e1","data_base64":"e30"}`:                                                                                `field "data_base64" at byte 45: not standard base64 with padding`,
		`{"specversion":"1.0","id":"e1","data":1,"data":2}`:                                                                                  `field "data" at byte 47: a second value`,
		`[]`: `byte 0: want a JSON object, got an array: a batch of CloudEvents is not supported`,
		``:   `byte 0: the record ends too early`,
	} {
		r := &stream.Record{Key: []byte("c"), Value: []byte(src)}
		if got := read(t, envelope.CloudEvents, decode.JSON{}, r, orderFields...); got != want {
			t.Errorf("%s\n  got  %s\n  want %s", src, got, want)
		}
	}
}

func TestBinaryCloudEvents(t *testing.T) {
	for headers, want := range map[string]string{
		`ce_specversion=1.0 ce_id=e1 ce_time=2026-01-01T00:00:00Z ce_sequence=3 content-type=application/json`: `total=5 note=absent id="e1" at=1767225600000000 n=3 of="application/json" k="c"`,
		`ce_specversion=1.0 ce_id=e1 ce_sequence=x`:                                                            `field "n" at byte 0: header ce_sequence: want optional int, got "x"`,
		`ce_specversion=1.0`:          `field "id" at byte 0: header ce_id: absent but required: want string`,
		`ce_specversion=2.0 ce_id=e1`: `field "specversion" at byte 0: want 1.0, got 2.0`,
	} {
		r := &stream.Record{Key: []byte("c"), Value: []byte(`{"total":5}`)}
		for _, h := range strings.Fields(headers) {
			key, text, _ := strings.Cut(h, "=")
			r.Headers = append(r.Headers, stream.Header{Key: key, Value: []byte(text)})
		}
		if got := read(t, envelope.CloudEvents, decode.JSON{}, r, orderFields...); got != want {
			t.Errorf("%s\n  got  %s\n  want %s", headers, got, want)
		}
	}
}

func TestDataOfCloudEventsInOtherFormats(t *testing.T) {
	for src, want := range map[string]string{
		`{"specversion":"1.0","data":"a \"b\""}`:       `line="a \"b\""`,
		`{"specversion":"1.0","data_base64":"YWJj"}`:   `line="abc"`,
		`{"specversion":"1.0"}`:                        `line=""`,
		`{"specversion":"1.0","data":{"a":1}}`:         `line="{\"a\":1}"`,
		`{"specversion":"1.0","data":null,"x":"data"}`: `line=""`,
	} {
		if got := read(t, envelope.CloudEvents, decode.Text{}, &stream.Record{Value: []byte(src)}, "line string"); got != want {
			t.Errorf("%s\n  got  %s\n  want %s", src, got, want)
		}
	}
	for fields, want := range map[string]string{
		"x string[] from tags": `field "x": an attribute is a bool, int, number, string, bytes or time, and has no path below it`,
		"x string from a.b":    `field "x": an attribute is a bool, int, number, string, bytes or time, and has no path below it`,
	} {
		if got := read(t, envelope.CloudEvents, decode.JSON{}, &stream.Record{}, fields); got != want {
			t.Errorf("%s: got %s, want %s", fields, got, want)
		}
	}
}
