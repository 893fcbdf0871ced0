package inspect

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"strconv"
	"time"
	"unicode/utf8"

	"github.com/afterbay/afterbay/stream"
)

// AppendRecord appends a record as one line of JSON, without the newline:
//
//	{"partition":0,"offset":7,"time":"...","key":"c1","headers":[["name","text"]],"value":{...}}
//
// It writes {"base64":"..."} for a value that is not JSON on one line, and for a key or header that
// is not UTF-8. It omits a missing key.
func AppendRecord(dst []byte, r *stream.Record) []byte {
	dst = fmt.Appendf(dst, `{"partition":%d,"offset":%d,"time":"%s"`, r.Partition.Index, r.Offset, r.Time.UTC().Format(time.RFC3339Nano))
	if r.Key != nil {
		dst = AppendText(append(dst, `,"key":`...), r.Key)
	}
	for i, h := range r.Headers {
		if i == 0 {
			dst = append(dst, `,"headers":[`...)
		} else {
			dst = append(dst, ',')
		}
		dst = append(dst, '[')
		dst = append(AppendText(dst, []byte(h.Key)), ',')
		dst = append(AppendText(dst, h.Value), ']')
		if i == len(r.Headers)-1 {
			dst = append(dst, ']')
		}
	}
	dst = append(dst, `,"value":`...)
	if verbatim(r.Value) {
		dst = append(dst, r.Value...)
	} else {
		dst = appendBinary(dst, r.Value)
	}
	return append(dst, '}')
}

// verbatim reports whether a value can stand unchanged in the JSON line, so that a reader gets the
// same bytes back.
func verbatim(value []byte) bool {
	return utf8.Valid(value) && json.Valid(value) && bytes.IndexByte(value, '\n') < 0 &&
		!bytes.HasPrefix(value, []byte(`{"base64"`)) && len(bytes.Trim(value, " \t\r")) == len(value)
}

// AppendText appends a text as a JSON value, or as {"base64":"..."} if it is not UTF-8.
func AppendText(dst, text []byte) []byte {
	if !utf8.Valid(text) {
		return appendBinary(dst, text)
	}
	quoted, err := json.Marshal(string(text))
	if err != nil {
		return appendBinary(dst, text)
	}
	return append(dst, quoted...)
}

func appendBinary(dst, data []byte) []byte {
	dst = append(dst, `{"base64":"`...)
	return append(base64.StdEncoding.AppendEncode(dst, data), `"}`...)
}

// ParseRecord parses a line of AppendRecord.
func ParseRecord(line []byte, topic string) (stream.Record, error) {
	var e struct {
		Partition int32
		Offset    stream.Offset
		Time      time.Time
		Key       json.RawMessage
		Headers   [][2]json.RawMessage
		Value     json.RawMessage
	}
	if err := json.Unmarshal(line, &e); err != nil {
		return stream.Record{}, fmt.Errorf("record %s: %w", strconv.Quote(string(line[:min(len(line), 100)])), err)
	}
	r := stream.Record{
		Partition: stream.Partition{Topic: topic, Index: e.Partition}, Offset: e.Offset, Time: e.Time,
		Value: e.Value,
	}
	if binary, ok := parseBinary(e.Value); ok {
		r.Value = binary
	}
	if e.Key != nil {
		r.Key = parseText(e.Key)
	}
	for _, h := range e.Headers {
		r.Headers = append(r.Headers, stream.Header{Key: string(parseText(h[0])), Value: parseText(h[1])})
	}
	return r, nil
}

func parseText(raw json.RawMessage) []byte {
	if binary, ok := parseBinary(raw); ok {
		return binary
	}
	var text string
	_ = json.Unmarshal(raw, &text) // cannot fail: the whole line was valid, and AppendRecord writes only text or binary
	return []byte(text)
}

func parseBinary(raw json.RawMessage) ([]byte, bool) {
	if !bytes.HasPrefix(raw, []byte(`{"base64"`)) {
		return nil, false
	}
	var b struct{ Base64 []byte }
	if err := json.Unmarshal(raw, &b); err != nil {
		return nil, false
	}
	return append([]byte{}, b.Base64...), true
}
