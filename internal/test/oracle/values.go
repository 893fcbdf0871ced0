package oracle

import (
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// Kind is the type of a value.
type Kind int

// The kinds, as the pipeline file writes them.
const (
	Bool Kind = iota
	Int
	Number
	String
	List // of an output alone, as maps are
	Map
)

// String returns the kind as the pipeline file writes it.
func (k Kind) String() string {
	return [...]string{"bool", "int", "number", "string", "list", "map"}[k]
}

// Value is one value of an event. A Number has a Tolerance if the order of additions may change its
// last bits.
type Value struct {
	Kind      Kind
	Absent    bool
	Bool      bool
	Int       int64
	Number    float64
	Tolerance float64
	String    string
	Items     []Value          // of a List
	Entries   map[string]Value // of a Map
}

func (v Value) text() string {
	switch v.Kind {
	case Int:
		return strconv.FormatInt(v.Int, 10)
	case Bool:
		return strconv.FormatBool(v.Bool)
	}
	return v.String
}

// Equals reports whether got, the raw JSON of a field, is v.
func (v Value) Equals(got json.RawMessage) bool {
	text := string(got)
	if v.Absent {
		return text == "null"
	}
	switch v.Kind {
	case Bool:
		return text == strconv.FormatBool(v.Bool)
	case Int:
		return text == strconv.FormatInt(v.Int, 10)
	case Number:
		f, err := strconv.ParseFloat(text, 64)
		return err == nil && (f == v.Number || math.Abs(f-v.Number) <= v.Tolerance)
	case List:
		var items []json.RawMessage
		return json.Unmarshal(got, &items) == nil && items != nil && slices.EqualFunc(v.Items, items, Value.Equals)
	case Map:
		var entries map[string]json.RawMessage
		return json.Unmarshal(got, &entries) == nil && entries != nil && maps.EqualFunc(v.Entries, entries, Value.Equals)
	}
	var s string
	return json.Unmarshal(got, &s) == nil && s == v.String
}

// Show returns v as text, for messages.
func (v Value) Show() string {
	switch {
	case v.Absent:
		return "null"
	case v.Kind == Bool:
		return strconv.FormatBool(v.Bool)
	case v.Kind == Number:
		return fmt.Sprintf("%v (+-%g)", v.Number, v.Tolerance)
	case v.Kind == Int:
		return v.text()
	case v.Kind == List:
		var items []string
		for _, item := range v.Items {
			items = append(items, item.Show())
		}
		return "[" + strings.Join(items, ", ") + "]"
	case v.Kind == Map:
		var entries []string
		for _, key := range slices.Sorted(maps.Keys(v.Entries)) {
			entries = append(entries, strconv.Quote(key)+": "+v.Entries[key].Show())
		}
		return "{" + strings.Join(entries, ", ") + "}"
	}
	return strconv.Quote(v.String)
}

func eventID(partition int, offset int64) string {
	return fmt.Sprintf("events/%d@%d", partition, offset)
}

// outputID returns the id of a record that a pipeline writes for an event to a topic. name is the
// name of the emit.
func (t *turn) outputID(topic, name string) string {
	if name != "" {
		name = "#" + name
	}
	return t.Name + ":" + t.id + ":" + topic + name
}

// decode reads the fields of the event. It reports whether each is there with its type.
func (t *turn) decode() bool {
	if !utf8.ValidString(t.record.Value) || !json.Valid([]byte(t.record.Value)) {
		return false
	}
	object, ok := members(t.record.Value)
	if !ok {
		return false
	}
	for _, f := range t.Fields {
		v := Value{Kind: f.Kind}
		raw, there := object[f.Name]
		switch {
		case !there || raw == "null":
			v.Absent = true
			if !f.Optional {
				return false
			}
		case !v.read(raw):
			return false
		}
		t.values[f.Name] = v
	}
	return true
}

// members returns the raw members of a JSON object; ok is false if text is no object, or
// has a name twice. The generator repeats no other names than fields.
func members(text string) (object map[string]string, ok bool) {
	d := json.NewDecoder(strings.NewReader(text))
	d.UseNumber()
	if first, err := d.Token(); err != nil || first != json.Delim('{') {
		return nil, false
	}
	object = map[string]string{}
	for d.More() {
		name, err := d.Token()
		if err != nil {
			return nil, false
		}
		var raw json.RawMessage
		if d.Decode(&raw) != nil {
			return nil, false
		}
		if _, twice := object[name.(string)]; twice {
			return nil, false
		}
		object[name.(string)] = string(raw)
	}
	return object, true
}

// read reads raw JSON as v's kind.
func (v *Value) read(raw string) bool {
	var err error
	switch v.Kind {
	case Bool:
		v.Bool = raw == "true"
		return v.Bool || raw == "false"
	case Int:
		v.Int, err = strconv.ParseInt(raw, 10, 64)
		return err == nil
	case Number:
		if raw[0] != '-' && (raw[0] < '0' || raw[0] > '9') {
			return false
		}
		v.Number, err = strconv.ParseFloat(raw, 64)
		return err == nil
	}
	if raw[0] != '"' {
		return false
	}
	return json.Unmarshal([]byte(raw), &v.String) == nil
}
