package operator

import (
	"maps"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/afterbay/afterbay/internal/event/header"
	"github.com/afterbay/afterbay/internal/event/value"
	"github.com/afterbay/afterbay/stream"
)

// Meta holds the slots of the names meta.*.
type Meta struct {
	ID, Key, Time, Partition, Offset value.Slot
	Topic                            *value.Slot // topic of the source; nil if the pipeline reads no copies
	Headers                          []FromHeader
}

// FromHeader is a name with the value of a header of the event's record. The name is absent if the
// record lacks the header or the value is not valid UTF-8. If a record has several headers of the
// same name, the first one counts.
type FromHeader struct {
	Slot value.Slot
	Key  string
	Part HeaderPart
}

// HeaderPart says which part of a header is the value.
type HeaderPart uint8

// The parts.
const (
	WholeHeader HeaderPart = iota
	TenantPart             // tenant in header.ClientEvent
	ClientPart             // client in header.ClientEvent
	IntHeader              // the header as an int
)

// metaHeaders maps the names of client data to the headers that a gateway writes.
var metaHeaders = map[string]FromHeader{
	"meta.tenant":   {Key: header.ClientEvent, Part: TenantPart},
	"meta.client":   {Key: header.ClientEvent, Part: ClientPart},
	"meta.causalId": {Key: header.ClientCausal},
	"meta.priority": {Key: header.ClientPriority, Part: IntHeader},
}

// MetaHeaders lists the names of client data, sorted.
var MetaHeaders = slices.Sorted(maps.Keys(metaHeaders))

// HeaderNamed returns the header for a name such as meta.client or meta.headers["name"], without
// its slot. It returns false if the name means no header.
func HeaderNamed(name string) (FromHeader, bool) {
	if h, ok := metaHeaders[name]; ok {
		return h, true
	}
	quoted, ok := strings.CutPrefix(name, "meta.headers[")
	key, err := strconv.Unquote(strings.TrimSuffix(quoted, "]"))
	unprintable := func(r rune) bool { return r <= ' ' || r > '~' || r == '"' || r == '\\' }
	return FromHeader{Key: key}, ok && err == nil && key != "" && !strings.ContainsFunc(key, unprintable)
}

// Type returns the type of the name.
func (h *FromHeader) Type() value.Type {
	if h.Part == IntHeader {
		return value.Type{Kind: value.Int, Optional: true}
	}
	return value.Type{Kind: value.String, Optional: true}
}

// Set stores the value of a record's header in a row. The text is not copied from the record.
func (h *FromHeader) Set(row *value.Row, r *stream.Record) {
	data := header.Value(r, h.Key)
	if data == nil || !utf8.Valid(data) {
		return
	}
	text := value.Text(data)
	switch h.Part {
	case IntHeader:
		if v, err := strconv.ParseInt(text, 10, 64); err == nil {
			row.SetInt(h.Slot, v)
		}
		return
	case TenantPart, ClientPart:
		tenant, rest, found := strings.Cut(text, "/")
		client, _, ok := strings.Cut(rest, "/")
		if !found || !ok {
			return
		}
		if text = tenant; h.Part == ClientPart {
			text = client
		}
	}
	row.SetText(h.Slot, text)
}
