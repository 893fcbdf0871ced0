package scaffold

import (
	"encoding/json"
	"errors"

	"github.com/afterbay/afterbay/internal/event/decode"
	"github.com/afterbay/afterbay/internal/event/envelope"
)

// around holds the members that an envelope can have around the data of an event.
type around struct {
	Op            string
	Before, After json.RawMessage
	Source        json.RawMessage
	Payload       json.RawMessage

	SpecVersion string
	ID, Type    string
	Data        json.RawMessage
}

// object reports whether a value is an object.
func object(raw []byte) bool { return len(raw) > 0 && raw[0] == '{' }

// image returns the row of a change event, or nil if the event is not one.
func (a *around) image() []byte {
	row := a.After
	if a.Op == "d" {
		row = a.Before
	}
	if len(a.Op) != 1 || !object(row) || !object(a.Source) {
		return nil
	}
	return row
}

// envelopeOf returns the envelope of nearly all events. Change events may be wrapped in a payload.
func envelopeOf(texts [][]byte) (kind envelope.Kind, wrapped bool) {
	var events, changes, payloads, clouds int
	for _, text := range texts {
		var a, inner around
		if !object(text) || json.Unmarshal(text, &a) != nil {
			continue
		}
		events++
		switch {
		case a.image() != nil:
			changes++
		case object(a.Payload) && json.Unmarshal(a.Payload, &inner) == nil && inner.image() != nil:
			payloads++
		case a.SpecVersion == "1.0" && a.ID != "" && a.Type != "" && object(a.Data):
			clouds++
		}
	}
	least := fits * float64(max(events, 1))
	switch {
	case float64(changes+payloads) >= least:
		return envelope.Debezium, payloads > 0
	case float64(clouds) >= least:
		return envelope.CloudEvents, false
	}
	return envelope.None, false
}

// open returns the data of an event and the values to read from its envelope.
func (s *scan) open(text []byte) (data []byte, list []leaf, err error) {
	var a around
	at := func(path string, raw []byte) {
		if parts, err := decode.ParsePath(path); err == nil && len(raw) > 0 {
			list = append(list, leaf{path: parts, raw: raw})
		}
	}
	switch s.findings.Envelope {
	case envelope.Debezium:
		err := json.Unmarshal(text, &a)
		if payload := a.Payload; err == nil && a.Op == "" && object(payload) {
			a = around{}
			err = json.Unmarshal(payload, &a)
		}
		if data = a.image(); err != nil || data == nil {
			return nil, nil, errors.New("it is not a change event of Debezium")
		}
		op, _ := json.Marshal(a.Op)
		at("op", op)
		var source struct {
			Time json.RawMessage `json:"ts_ms"`
		}
		_ = json.Unmarshal(a.Source, &source) // an object
		at("source.ts_ms", source.Time)
	case envelope.CloudEvents:
		if err := json.Unmarshal(text, &a); err != nil || a.SpecVersion != "1.0" || !object(a.Data) {
			return nil, nil, errors.New("it is not a CloudEvent of version 1.0 with data of JSON")
		}
		all, err := members(nil, text, nil)
		if err != nil {
			return nil, nil, err
		}
		for _, one := range all {
			if name := one.path[0].Name; len(one.path) == 1 && name != "data" && name != "specversion" && name != "datacontenttype" && !object(one.raw) {
				list = append(list, one)
			}
		}
		data = a.Data
	default:
		data = text
	}
	return data, list, nil
}
