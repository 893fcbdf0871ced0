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

// Meta are the names meta.*.
type Meta struct {
	ID, Key, Time, Partition, Offset value.Slot
	Topic                            *value.Slot // the source; nil where nothing is copied
	Headers                          []FromHeader
}

// FromHeader is a name that a header of the event's record says. It is absent where the
// record has no such header, or one that is not valid UTF-8. Of several headers of a name
// the first counts.
type FromHeader struct {
	Slot value.Slot
	Key  string
	Part HeaderPart
}

// HeaderPart is what of a header a name is.
type HeaderPart uint8

// The parts.
const (
	WholeHeader HeaderPart = iota
	TenantPart             // of header.ClientEvent
	ClientPart             // of header.ClientEvent
	IntHeader              // an int
)

// metaHeaders are the names of what clients said, with the headers that a gateway writes.
var metaHeaders = map[string]FromHeader{
	"meta.tenant":   {Key: header.ClientEvent, Part: TenantPart},
	"meta.client":   {Key: header.ClientEvent, Part: ClientPart},
	"meta.causalId": {Key: header.ClientCausal},
	"meta.priority": {Key: header.ClientPriority, Part: IntHeader},
}

// MetaHeaders are the names of what clients said, sorted.
var MetaHeaders = slices.Sorted(maps.Keys(metaHeaders))

// HeaderNamed returns what a name says of a header, without its slot: meta.client and its
// like, or meta.headers["name"].
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

// Set gives a row what a record's header says. The text is the record's.
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
