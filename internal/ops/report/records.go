package report

import (
	"cmp"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"fmt"

	"github.com/afterbay/afterbay/internal/event/header"
	"github.com/afterbay/afterbay/internal/ops/inspect"
	"github.com/afterbay/afterbay/internal/state/statekey"
	"github.com/afterbay/afterbay/internal/sys/clean"
	"github.com/afterbay/afterbay/stream"
)

// AppendRecord appends the value of a record to dst or, if headers is set, the whole record as
// JSON.
func AppendRecord(dst []byte, r *stream.Record, headers bool) []byte {
	if headers {
		return inspect.AppendRecord(dst, r)
	}
	if event := header.Get(r, header.Cancel); event != "" { // the record has no value
		text, _ := json.Marshal(map[string]string{header.Cancel: event}) // a map of strings can always be encoded
		return clean.Append(dst, text)
	}
	if id, ok := schemaOf(r.Value); ok {
		dst = fmt.Appendf(dst, `{"schema_id":%d,"base64":"`, id)
		return append(base64.StdEncoding.AppendEncode(dst, r.Value), `"}`...)
	}
	return clean.Append(dst, r.Value)
}

// schemaOf returns the schema id at the start of a value, as records of a schema registry have it.
// Text never starts with such bytes.
func schemaOf(value []byte) (id uint32, ok bool) {
	if len(value) < 5 || value[0] != 0 {
		return 0, false
	}
	return binary.BigEndian.Uint32(value[1:]), true
}

// kindWords describe the contents of state entries.
var kindWords = map[byte]string{
	'e': "features", 'E': "features", 'l': "features of scores", 'L': "features of scores",
	statekey.Call: "state of a function", statekey.Group: "group", statekey.Ended: "group that ended", statekey.Member: "event of a group", statekey.Pane: "window of a group", statekey.Join: "event of a join", statekey.Row: "row of a table",
	statekey.ID: "ids of events", statekey.Watermark: "newest time", statekey.Released: "order of events",
}

// Held describes the contents of a state entry by the kind of its key.
func Held(kind byte) string { return cmp.Or(kindWords[kind], "other") }
