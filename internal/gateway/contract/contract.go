// Package contract describes the gateway's API for programs: OpenAPI 3.1 for the HTTP endpoints,
// and AsyncAPI 3.0 for WebSocket and server-sent events. Both use the same schemas for the frames
// of package wire. The schemas are built from the Go types and from one table of field
// descriptions.
package contract

import (
	_ "embed"
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/afterbay/afterbay/internal/gateway/wire"
)

// schema is a JSON Schema with the keywords that both documents support.
type schema = map[string]any

var (
	clientFrames = []wire.Frame{&wire.Connect{}, &wire.Submission{}, &wire.Cancel{}, &wire.Ack{}, &wire.Pong{}, &wire.Refresh{}}
	serverFrames = []wire.Frame{&wire.Connected{}, &wire.Accepted{}, &wire.ResultFrame{}, &wire.ErrorFrame{}, &wire.Backpressure{}, &wire.Ping{}, &wire.Refreshed{}, &wire.Gap{}, &wire.Disconnect{}}
)

//go:embed openapi.json
var openAPI []byte

//go:embed asyncapi.json
var asyncAPI []byte

// OpenAPI returns the OpenAPI document as indented JSON. The caller must not modify it.
var OpenAPI = sync.OnceValue(func() []byte {
	document := parse(openAPI)
	components := document["components"].(schema)
	schemas := components["schemas"].(schema)
	maps.Copy(schemas, schemasOfFrames())
	return text(document)
})

// AsyncAPI returns the AsyncAPI document as indented JSON. The caller must not modify it.
var AsyncAPI = sync.OnceValue(func() []byte {
	document := parse(asyncAPI)
	messages := schema{}
	channels := document["channels"].(schema)
	for _, f := range slices.Concat(clientFrames, serverFrames) {
		name := f.Name()
		messages[name] = schema{"name": name, "summary": frames[name], "payload": schema{"$ref": "#/components/schemas/" + name}}
		channel(channels, "stream", name)
	}
	for _, f := range serverFrames {
		if name := f.Name(); name != "ping" && name != "accepted" && name != "refreshed" && name != "backpressure" {
			channel(channels, "results", name)
		}
	}
	operations := document["operations"].(schema)
	operation(operations, "send", "stream", clientFrames)
	operation(operations, "receive", "stream", serverFrames)
	document["components"] = schema{"messages": messages, "schemas": schemasOfFrames()}
	return text(document)
})

func channel(channels schema, channel, message string) {
	channels[channel].(schema)["messages"].(schema)[message] = schema{"$ref": "#/components/messages/" + message}
}

func operation(operations schema, name, channel string, frames []wire.Frame) {
	var messages []any
	for _, f := range frames {
		messages = append(messages, schema{"$ref": "#/channels/" + channel + "/messages/" + f.Name()})
	}
	operations[name].(schema)["messages"] = messages
}

// schemasOfFrames returns the schemas of all frames and of their parts, by name.
func schemasOfFrames() schema {
	all := schema{
		"resume":  object(reflect.TypeFor[wire.Resume](), "resume", true),
		"problem": object(reflect.TypeFor[wire.Error](), "problem", false),
	}
	for _, f := range clientFrames {
		all[f.Name()] = frame(f, true)
	}
	for _, f := range serverFrames {
		all[f.Name()] = frame(f, false)
	}
	return all
}

// frame returns the schema of a frame. A frame that the gateway reads must have only known fields.
// A frame that it writes may get more fields in later versions.
func frame(f wire.Frame, closed bool) schema {
	s := object(reflect.TypeOf(f).Elem(), f.Name(), closed)
	s["description"] = frames[f.Name()]
	s["properties"].(schema)["type"] = schema{"type": "string", "const": f.Name()}
	s["required"] = append([]string{"type"}, s["required"].([]string)...)
	return s
}

func object(t reflect.Type, name string, closed bool) schema {
	properties, required := schema{}, []string{}
	for i := range t.NumField() {
		f := t.Field(i)
		tag, options, _ := strings.Cut(f.Tag.Get("json"), ",")
		if f.Anonymous {
			continue // the embedded type field
		}
		properties[tag] = property(f.Type, name, tag)
		if !strings.Contains(options, "omit") {
			required = append(required, tag)
		}
	}
	s := schema{"type": "object", "properties": properties, "required": required}
	if closed {
		s["additionalProperties"] = false
	}
	return s
}

// property returns the schema of a field: its type, and its entry in the table.
func property(t reflect.Type, of, name string) schema {
	if t == reflect.TypeFor[*wire.Error]() {
		return schema{"$ref": "#/components/schemas/problem"}
	}
	if t == reflect.TypeFor[*wire.Resume]() {
		return schema{"$ref": "#/components/schemas/resume"}
	}
	s := schema{}
	switch {
	case t == reflect.TypeFor[time.Time]():
		s["type"], s["format"] = "string", "date-time"
	case t == reflect.TypeFor[json.RawMessage](): // any JSON
	case t.Kind() == reflect.String:
		s["type"] = "string"
	case t.Kind() == reflect.Bool:
		s["type"] = "boolean"
	case t.Kind() == reflect.Uint64:
		s["type"], s["minimum"] = "integer", 0
	default:
		s["type"] = "integer"
	}
	maps.Copy(s, meaning(of, name))
	return s
}

// meaning returns the table's entry for a field: the one for this frame, or else the general one.
func meaning(of, name string) schema {
	m, ok := fields[of+"."+name]
	if !ok {
		m, ok = fields[name]
	}
	if !ok {
		panic(fmt.Sprintf("contract: the table lacks field %s of %s", name, of))
	}
	return m
}

func parse(document []byte) (parsed schema) {
	if err := json.Unmarshal(document, &parsed); err != nil {
		panic(fmt.Sprintf("contract: %v", err)) // the document is part of this program
	}
	return parsed
}

func text(document schema) []byte {
	b, err := json.MarshalIndent(document, "", "  ")
	if err != nil {
		panic(fmt.Sprintf("contract: %v", err))
	}
	return append(b, '\n')
}
