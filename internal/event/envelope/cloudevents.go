package envelope

import (
	"encoding/base64"
	"fmt"

	"github.com/afterbay/afterbay/internal/event/decode"
	"github.com/afterbay/afterbay/internal/event/header"
	"github.com/afterbay/afterbay/internal/event/value"
	"github.com/afterbay/afterbay/stream"
)

// CloudEvents are events of version 1.0, in the structured or the binary mode of the protocol
// binding for Kafka.
const CloudEvents Kind = "cloudevents"

const (
	attributePrefix = "ce_"
	versionHeader   = "ce_specversion"
	version         = "1.0"

	contentType       = "datacontenttype" // the attribute that the header content-type carries
	contentTypeHeader = "content-type"
)

// cloudEvents opens CloudEvents. Fields of the envelope read their attributes.
type cloudEvents struct {
	attributes []attribute
	structured *decode.Scanner // scanner of the attributes; nil reads none
	json       bool            // the data is JSON
	looked     bool            // the format looks up schemas before Scan, which works only for values of records
}

// attribute is a field, with the header that carries it in binary mode.
type attribute struct {
	decode.Field
	header string
}

func newCloudEvents(format decode.Format, around []decode.Field) (*cloudEvents, error) {
	c := &cloudEvents{}
	_, c.json = format.(decode.JSON)
	for _, f := range around {
		path, flat := f.Members()
		if len(path) != 1 || !flat || !decode.Texts(f.Slot.Type.Kind) {
			return nil, fmt.Errorf("field %q: an attribute is a bool, int, number, string, bytes or time, and has no path below it", f.Name)
		}
		name := attributePrefix + path[0]
		if path[0] == contentType {
			name = contentTypeHeader
		}
		c.attributes = append(c.attributes, attribute{f, name})
	}
	if len(around) > 0 {
		c.structured = decode.New(around)
	}
	return c, nil
}

func (c *cloudEvents) open(r *stream.Record, row *value.Row) (data []byte, at int, err error) {
	of := header.Value(r, versionHeader)
	if of == nil {
		return c.openStructured(r.Value, row)
	}
	if string(of) != version {
		return nil, 0, unknownVersion(of, 0)
	}
	for i := range c.attributes {
		a := &c.attributes[i]
		reason := ""
		if text := header.Value(r, a.header); text != nil {
			reason = a.SetText(text, row)
		} else {
			reason = a.Absent(row)
		}
		if reason != "" {
			return nil, 0, &decode.Error{Field: a.Name, Reason: "header " + a.header + ": " + reason}
		}
	}
	return c.orNone(r.Value), 0, nil
}

// orNone returns data, or an empty JSON object if a JSON event has no data.
func (c *cloudEvents) orNone(data []byte) []byte {
	if c.json && len(data) == 0 {
		return []byte("{}")
	}
	return data
}

func unknownVersion(text []byte, at int) error {
	return &decode.Error{Field: "specversion", Offset: at, Reason: fmt.Sprintf("want %s, got %.20s", version, text)}
}

// openStructured opens an event in structured mode: one JSON object.
func (c *cloudEvents) openStructured(src []byte, row *value.Row) (data []byte, at int, err error) {
	var of, plain, encoded part
	walk, err := members(src, 0, named{"specversion", &of}, named{"data", &plain}, named{"data_base64", &encoded})
	if err == nil {
		err = walk.Err()
	}
	if err != nil {
		return nil, 0, err
	}
	text, _ := decode.String(of.text)
	switch {
	case walk.Array():
		return nil, 0, &decode.Error{Reason: "want a JSON object, got an array: a batch of CloudEvents is not supported"}
	case of.text == nil:
		return nil, 0, &decode.Error{Field: "specversion", Reason: "absent: the record is not a CloudEvent, as a JSON object or with headers " + attributePrefix + "*"}
	case string(text) != version:
		return nil, 0, unknownVersion(of.text, of.at)
	case plain.is() && encoded.is():
		return nil, 0, &decode.Error{Field: "data_base64", Offset: encoded.at, Reason: "an event has data or data_base64"}
	}
	if c.structured != nil {
		if err := c.structured.Scan(src, row); err != nil {
			return nil, 0, err
		}
	}
	return c.dataOf(plain, encoded)
}

// dataOf returns the data of a structured event.
func (c *cloudEvents) dataOf(plain, encoded part) (data []byte, at int, err error) {
	switch text, isText := decode.String(plain.text); {
	case encoded.is() && c.looked:
		return nil, 0, &decode.Error{Field: "data_base64", Offset: encoded.at, Reason: "with format: schema_registry, events are read in binary mode alone"}
	case encoded.is():
		text, ok := decode.String(encoded.text)
		if ok {
			data, err = base64.StdEncoding.AppendDecode(nil, text)
		}
		if !ok || err != nil {
			return nil, 0, &decode.Error{Field: "data_base64", Offset: encoded.at, Reason: "not standard base64 with padding"}
		}
		return c.orNone(data), 0, nil
	case !plain.is():
		return c.orNone(nil), 0, nil
	case isText && !c.json: // other formats are inside a string
		return text, 0, nil
	default:
		return plain.text, plain.at, nil
	}
}
