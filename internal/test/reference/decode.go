package reference

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"unicode/utf8"
)

// event is the fields of the pipeline.
type event struct {
	tx, customer, country string
	amount                float64
	ts                    int64
}

// decode reads an event. All fields must be there once, with their types.
func decode(value []byte) (event, error) {
	var e event
	found, err := members(value)
	if err != nil {
		return e, err
	}
	for _, field := range []struct {
		name string
		into any
	}{{"tx", &e.tx}, {"customer", &e.customer}, {"amount", &e.amount}, {"country", &e.country}, {"ts", &e.ts}} {
		values := found[field.name]
		if len(values) != 1 || string(values[0]) == "null" {
			return e, fmt.Errorf("field %s stands there %d times or is null", field.name, len(values))
		}
		if err := json.Unmarshal(values[0], field.into); err != nil {
			return e, fmt.Errorf("field %s: %w", field.name, err)
		}
	}
	return e, nil
}

// members reads a JSON object: the values of each name, in order.
func members(value []byte) (map[string][]json.RawMessage, error) {
	if !utf8.Valid(value) || !json.Valid(value) {
		return nil, errors.New("no JSON in UTF-8")
	}
	d := json.NewDecoder(bytes.NewReader(value))
	if t, err := d.Token(); err != nil || t != json.Delim('{') {
		return nil, errors.New("no object")
	}
	found := map[string][]json.RawMessage{}
	for d.More() {
		name, err := d.Token()
		if err != nil {
			return nil, err
		}
		var raw json.RawMessage
		if err := d.Decode(&raw); err != nil {
			return nil, err
		}
		found[name.(string)] = append(found[name.(string)], raw)
	}
	return found, nil
}

// object writes names and values, in turn, as a JSON object.
func object(members ...any) []byte {
	out := []byte{'{'}
	for i := 0; i < len(members); i += 2 {
		if i > 0 {
			out = append(out, ',')
		}
		out = append(out, '"')
		out = append(out, members[i].(string)...)
		out = append(out, '"', ':')
		switch v := members[i+1].(type) {
		case int64:
			out = strconv.AppendInt(out, v, 10)
		default:
			out = append(out, encode(v)...)
		}
	}
	return append(out, '}')
}

// encode writes a value as encoding/json does, without escaping for HTML.
func encode(v any) []byte {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		panic(err) // strings and finite numbers always encode
	}
	return bytes.TrimSuffix(b.Bytes(), []byte{'\n'})
}
