package avro

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"math"
	"strconv"
	"time"

	"github.com/afterbay/afterbay/internal/event/decode"
)

// textMax limits the JSON of a record, because an enum value of one byte can have a long name.
const textMax = 4 << 20

// AppendJSON appends a whole record as JSON, for display. Bytes become base64, and numbers that are
// not finite become null.
func (s *Schema) AppendJSON(dst, record []byte) ([]byte, error) {
	t := texts{reader{src: record}, len(dst) + textMax}
	dst, reason := t.append(dst, s.root)
	if reason == "" && t.i < len(record) {
		reason = "the record continues after its last field"
	}
	if reason != "" {
		return nil, &decode.Error{Offset: min(t.i, len(record)), Reason: reason}
	}
	return dst, nil
}

// texts converts a record to JSON.
type texts struct {
	reader
	most int // limit of the output in bytes
}

// append appends a value.
func (t *texts) append(dst []byte, n *node) (made []byte, reason string) {
	if t.depth == MaxDepth {
		return dst, fmt.Sprintf("nested deeper than %d", MaxDepth)
	}
	if len(dst) > t.most {
		return dst, fmt.Sprintf("its JSON has more than %d bytes", textMax)
	}
	t.depth++
	defer func() { t.depth-- }()
	switch n.kind {
	case record:
		return t.members(dst, n)
	case array, dictionary:
		return t.blocks(dst, n)
	case union:
		branch, reason := t.varint()
		if reason == "" && uint64(branch) >= uint64(len(n.branches)) {
			reason = fmt.Sprintf("branch %d of a union of %d", branch, len(n.branches))
		}
		if reason != "" {
			return dst, reason
		}
		return t.append(dst, n.branches[branch])
	}
	return t.one(dst, n)
}

// members appends a record.
func (t *texts) members(dst []byte, n *node) (_ []byte, reason string) {
	dst = append(dst, '{')
	for i := range n.fields {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = append(quoted(dst, n.fields[i].name), ':')
		if dst, reason = t.append(dst, n.fields[i].of); reason != "" {
			return dst, reason
		}
	}
	return append(dst, '}'), ""
}

// blocks appends an array or a map.
func (t *texts) blocks(dst []byte, n *node) ([]byte, string) {
	ends := "[]"
	if n.kind == dictionary {
		ends = "{}"
	}
	dst = append(dst, ends[0])
	for first := true; ; {
		count, reason := t.block()
		if reason != "" {
			return dst, reason
		}
		if count == 0 {
			return append(dst, ends[1]), ""
		}
		for ; count > 0; count-- {
			if !first {
				dst = append(dst, ',')
			}
			first = false
			if n.kind == dictionary {
				key, reason := t.text()
				if reason != "" {
					return dst, reason
				}
				dst = append(quoted(dst, key), ':')
			}
			if dst, reason = t.append(dst, n.items); reason != "" {
				return dst, reason
			}
		}
	}
}

// one appends a value that contains no other values.
func (t *texts) one(dst []byte, n *node) ([]byte, string) {
	switch n.kind {
	case null:
		return append(dst, "null"...), ""
	case boolean:
		b, reason := t.next(1)
		return strconv.AppendBool(dst, reason == "" && b[0] != 0), reason
	case integer, long:
		return t.whole(dst, n)
	case float, double:
		v, reason := t.real(n.kind)
		return appendNumber(dst, v), reason
	case text:
		v, reason := t.text()
		return quoted(dst, v), reason
	case enum:
		v, reason := t.symbol(n.symbols)
		return quoted(dst, v), reason
	}
	var b []byte
	var reason string
	if n.kind == fixed {
		b, reason = t.next(n.size)
	} else {
		b, reason = t.bytes()
	}
	if reason == "" && n.logical == "decimal" {
		var v float64
		v, reason = decimal(b, n.scale)
		return appendNumber(dst, v), reason
	}
	return append(base64.StdEncoding.AppendEncode(append(dst, '"'), b), '"'), reason
}

// whole appends an int or long, which may be a time.
func (t *texts) whole(dst []byte, n *node) ([]byte, string) {
	if by, ok := ticks[n.logical]; ok && n.kind == long {
		at, reason := t.time(&step{op: readTicks, n: by})
		return quoted(dst, time.UnixMicro(at).UTC().Format(time.RFC3339Nano)), reason
	}
	if n.logical == "date" {
		at, reason := t.time(&step{op: readDays})
		return quoted(dst, time.UnixMicro(at).UTC().Format(time.DateOnly)), reason
	}
	v, reason := t.varint()
	return strconv.AppendInt(dst, v, 10), reason
}

func appendNumber(dst []byte, v float64) []byte {
	if math.IsNaN(v) || math.IsInf(v, 0) {
		return append(dst, "null"...)
	}
	return strconv.AppendFloat(dst, v, 'g', -1, 64)
}

// quoted appends a text as a JSON string.
func quoted(dst []byte, s string) []byte {
	var made bytes.Buffer
	encoder := json.NewEncoder(&made)
	encoder.SetEscapeHTML(false)
	_ = encoder.Encode(s) // encoding a string cannot fail
	return append(dst, bytes.TrimSuffix(made.Bytes(), []byte("\n"))...)
}
