package remote

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/afterbay/afterbay/model"
)

// mapped is a server that takes JSON by POST.
type mapped struct {
	web
	mapping
	url  string
	info model.Info
}

func newMapped(o *Options, to *url.URL) (*mapped, error) {
	places, err := newMapping(o)
	return &mapped{newWeb(o), places, to.String(), describe(o)}, err
}

// mapping says where values are in requests and answers. A place is the names on the path to it.
type mapping struct {
	rows    []string // nil sends a call for each row
	results []string
	puts    [][]string // places of inputs
	gets    [][]string // places of outputs; a nil place means by name, or the whole result
}

func newMapping(o *Options) (m mapping, err error) {
	var list []error
	place := func(text string) []string {
		names := strings.Split(text, ".")
		if text == "" {
			return nil
		}
		if slices.Contains(names, "") {
			list = append(list, fmt.Errorf("place %q has an empty name", text))
		}
		return names
	}
	find := func(places []Place, name string) []string {
		if i := slices.IndexFunc(places, func(p Place) bool { return p.Name == name }); i >= 0 {
			return place(places[i].Place)
		}
		return nil
	}
	m.rows, m.results = place(o.Mapping.Rows), place(o.Mapping.Results)
	var inputs, outputs []string
	for _, in := range o.Inputs {
		if in.Type == model.Bytes {
			list = append(list, fmt.Errorf("input %q has bytes, which JSON has no place for", in.Name))
		}
		at := find(o.Mapping.Send, in.Name)
		if at == nil {
			at = []string{in.Name}
		}
		inputs, m.puts = append(inputs, in.Name), append(m.puts, at)
	}
	for _, out := range o.Outputs {
		outputs, m.gets = append(outputs, out.Name), append(m.gets, find(o.Mapping.Read, out.Name))
	}
	for _, p := range o.Mapping.Send {
		if !slices.Contains(inputs, p.Name) {
			list = append(list, fmt.Errorf("a place for %q, which is not an input", p.Name))
		}
	}
	for _, p := range o.Mapping.Read {
		if !slices.Contains(outputs, p.Name) {
			list = append(list, fmt.Errorf("a place of %q, which is not an output", p.Name))
		}
	}
	object := map[string]any{}
	for i, at := range m.puts {
		if !put(object, at, inputs[i]) {
			list = append(list, fmt.Errorf("input %q cannot be placed at %q: another value is there, or above or below it", inputs[i], strings.Join(at, ".")))
		}
	}
	return m, errors.Join(list...)
}

// put sets the value at a place. It reports false if the place or a parent already has another
// value.
func put(object map[string]any, place []string, value any) bool {
	for _, name := range place[:len(place)-1] {
		below, ok := object[name]
		if !ok {
			below = map[string]any{}
			object[name] = below
		}
		if object, ok = below.(map[string]any); !ok {
			return false
		}
	}
	last := place[len(place)-1]
	if _, taken := object[last]; taken {
		return false
	}
	object[last] = value
	return true
}

// get returns the value at a place, or nil if the place is empty.
func get(value any, place []string) any {
	for _, name := range place {
		switch inside := value.(type) {
		case map[string]any:
			value = inside[name]
		case []any:
			at, err := strconv.Atoi(name)
			if err != nil || at < 0 || at >= len(inside) {
				return nil
			}
			value = inside[at]
		default:
			return nil
		}
	}
	return value
}

// floats reads a number, true or false, or a list. A list must have exactly as many elements as
// into.
func floats(value any, into []float32) error {
	switch value := value.(type) {
	case float64:
		into[0] = float32(value)
	case bool:
		if into[0] = 0; value {
			into[0] = 1
		}
	case []any:
		if len(value) != len(into) {
			return fmt.Errorf("%d numbers, not %d", len(value), len(into))
		}
		for i := range value {
			if _, list := value[i].([]any); list {
				return errors.New("a list in a list of numbers")
			}
			if err := floats(value[i], into[i:i+1]); err != nil {
				return err
			}
		}
		return nil
	default:
		return errors.New("not a number")
	}
	if len(into) != 1 {
		return fmt.Errorf("one number, not %d", len(into))
	}
	return finite(into)
}

// agree requests only the headers, which has no effect on servers that conform to HTTP.
func (s *mapped) agree(ctx context.Context) (model.Info, error) { return s.info, s.ready(ctx) }

func (s *mapped) ready(ctx context.Context) error {
	if err := s.reach(ctx, http.MethodHead, s.url); err != nil {
		return fmt.Errorf("check that %s exists: %w", s.url, err)
	}
	return nil
}

func (s *mapped) fits(rows model.Rows) error { return fits(&s.info, rows) }

// check accepts missing values, which are null in JSON.
func (s *mapped) check(values []float64, bytes [][]byte) error {
	number, text := 0, 0
	for i := range s.info.Inputs {
		in := &s.info.Inputs[i]
		for range in.Size() {
			if in.Type == model.Number {
				if math.IsInf(values[number], 0) {
					return &model.InputError{Name: in.Name, Err: fmt.Errorf("it is %g, which JSON has no place for", values[number])}
				}
				number++
				continue
			}
			if bytes[text] != nil {
				if err := checkBytes(in, bytes[text]); err != nil {
					return err
				}
			}
			text++
		}
	}
	return nil
}

func (s *mapped) describe() model.Info { return s.info }

func (s *mapped) rowsMax() int {
	if s.rows == nil {
		return 1
	}
	return 0
}

func (s *mapped) ask(ctx context.Context, rows model.Rows, into model.Answer) error {
	n := rows.Len()
	objects := make([]any, n)
	for i := range n {
		objects[i] = s.object(rows.Row(i))
	}
	body := objects[0]
	if s.rows != nil {
		all := map[string]any{}
		put(all, s.rows, objects)
		body = all
	}
	answer, err := s.post(ctx, s.url, body, roomFor(into)+4096*int64(n))
	if err != nil {
		return err
	}
	var said any
	if err := json.Unmarshal(answer, &said); err != nil {
		return fault(Malformed, "the answer's JSON: %w", err)
	}
	results := []any{get(said, s.results)}
	if s.rows != nil {
		var list bool
		if results, list = results[0].([]any); !list || len(results) != n {
			return fault(Malformed, "%d results of %d rows at %q", len(results), n, strings.Join(s.results, "."))
		}
	}
	width, words := s.info.Scores(), s.info.Texts()
	var unfit model.RowErrors
	for i, result := range results {
		if err := s.read(result, into.Scores[i*width:(i+1)*width], into.Texts[i*words:(i+1)*words]); err != nil {
			unfit = append(unfit, model.RowError{Row: i, Err: &Error{Fault: Unfit, Err: err}})
		}
	}
	switch {
	case unfit == nil:
		return nil
	case n == 1:
		return unfit[0].Err
	}
	return unfit
}

// object returns the JSON of a row.
func (s *mapped) object(values []float64, bytes [][]byte) map[string]any {
	object := map[string]any{}
	for i := range s.info.Inputs {
		in := &s.info.Inputs[i]
		var list []any
		for range in.Size() {
			var value any // null if the number is missing
			if in.Type == model.Number {
				if number := values[0]; number == number {
					value = number
				}
				values = values[1:]
			} else {
				if bytes[0] != nil {
					value = string(bytes[0])
				}
				bytes = bytes[1:]
			}
			list = append(list, value)
		}
		if in.Shape == nil {
			put(object, s.puts[i], list[0])
		} else {
			put(object, s.puts[i], list)
		}
	}
	return object
}

// read reads the result of a row.
func (s *mapped) read(result any, scores []float32, texts [][]byte) error {
	_, object := result.(map[string]any)
	for i, out := range s.info.Outputs {
		at := result
		switch {
		case s.gets[i] != nil:
			at = get(result, s.gets[i])
		case object:
			at = get(result, []string{out.Name})
		case len(s.info.Outputs) > 1:
			return fmt.Errorf("a result that is not an object, of %d outputs", len(s.info.Outputs))
		}
		if out.Text() {
			text, err := textAt(at, out.Type)
			if err != nil {
				return fmt.Errorf("output %q: %w", out.Name, err)
			}
			texts[0], texts = text, texts[1:]
			continue
		}
		if err := floats(at, scores[:out.Size]); err != nil {
			return fmt.Errorf("output %q: %w", out.Name, err)
		}
		scores = scores[out.Size:]
	}
	return nil
}

// textAt returns a value as a text, or nil for null. Bytes are decoded from standard base64. A
// value that is not a string becomes its JSON.
func textAt(value any, kind model.Type) ([]byte, error) {
	text, ok := value.(string)
	switch {
	case value == nil:
		return nil, nil
	case ok && kind == model.Bytes:
		data, err := base64.StdEncoding.DecodeString(text)
		if err != nil {
			return nil, errors.New("not standard base64 with padding")
		}
		return append([]byte{}, data...), nil
	case ok:
		return append([]byte{}, text...), nil
	case kind == model.Bytes:
		return nil, errors.New("not a string of base64")
	}
	return json.Marshal(value)
}
