package spec

import (
	"strconv"
	"strings"
)

// Docs generates documentation from tables, for people and for editors.
type Docs struct {
	Explain func(w *About) // adds help from comments of structs; nil adds none
}

type object = map[string]any

const (
	hasVariable  = `\$\{`
	durationText = `([0-9]+d)?([0-9]+(\.[0-9]+)?(ns|us|ms|s|m|h))*`
	sizeText     = `[0-9]+ *(B|KB|MB|GB|KiB|MiB|GiB)?`
)

// VariableSchema returns the definition that schemas refer to as variable.
func VariableSchema() object {
	return object{"type": "string", "pattern": hasVariable, "description": "text with environment variables"}
}

// orVariable returns a schema that also accepts text with an environment variable.
func orVariable(schema object) object {
	return object{"anyOf": []any{schema, object{"$ref": "#/$defs/variable"}}}
}

func matching(pattern string) object {
	return object{"type": "string", "pattern": "^(" + pattern + ")$|" + hasVariable}
}

// Schema returns the JSON Schema of the values that a form reads.
func (d Docs) Schema(s Shape) map[string]any {
	switch s.Kind {
	case AnyText:
		if strings.HasPrefix(s.Text, "an expression") {
			return object{"type": []any{"string", "number", "boolean"}, "minLength": 1.0}
		}
		return object{"type": "string", "minLength": 1.0}
	case AChoice:
		return orVariable(object{"enum": anys(s.Allowed)})
	case AWhole:
		return orVariable(object{"type": "integer", "minimum": count(s.Low), "maximum": count(s.High)})
	case ANumber:
		return orVariable(numberSchema(&s))
	case ASwitch:
		return orVariable(object{"type": "boolean"})
	case ATrue:
		return orVariable(object{"const": true})
	case ADuration:
		if s.Low == "0s" {
			return object{"anyOf": []any{matching(durationText), object{"const": 0.0}}}
		}
		return matching(durationText)
	case ASize:
		low, _ := ParseSize(s.Low)
		high, _ := ParseSize(s.High)
		return object{"anyOf": []any{matching(sizeText), object{"type": "integer", "minimum": float64(low), "maximum": float64(high)}}}
	case AWindow:
		return matching(durationText + "(/" + durationText + ")?")
	case ASecret:
		return object{"type": "string", "pattern": SecretText}
	case AConstant:
		one := object{"type": []any{"string", "number", "boolean"}}
		return object{"anyOf": []any{one, object{"type": "object", "minProperties": 1.0, "additionalProperties": one}}}
	case AList:
		return object{"type": "array", "minItems": 1.0, "items": d.Schema(s.Of[0])}
	case ANames:
		schema := object{"type": "object", "minProperties": 1.0, "additionalProperties": d.Schema(s.Of[0])}
		if s.Last != nil {
			schema["properties"] = object{"default": d.Schema(*s.Last)}
		}
		return schema
	case AMapping, AStep:
		return d.mapping(s)
	case TheSteps:
		return object{"$ref": "#/$defs/steps"}
	}
	var alternatives []any
	for _, alternative := range s.Of {
		alternatives = append(alternatives, d.Schema(alternative))
	}
	return object{"anyOf": alternatives}
}

func (d Docs) mapping(s Shape) object {
	properties := object{}
	schema := object{"type": "object", "properties": properties, "additionalProperties": false, "minProperties": 1.0}
	if s.Kind == AStep {
		schema["maxProperties"] = 1.0
	}
	var required, choices []any
	for _, w := range s.Words() {
		if !w.Accepted {
			continue
		}
		d.explain(&w)
		property := d.Schema(w.Shape)
		if w.Shape.Kind == AList && w.Shape.Of[0].Kind == AStep {
			property = object{"$ref": "#/$defs/steps"}
		}
		property["description"] = w.Help
		if value, ok := exampleValue(w.Name, w.Example); ok {
			property["examples"] = []any{value}
		}
		if value, ok := exampleValue(w.Name, w.Absent); ok && value != nil && IsValue(w.Shape.Kind) && w.takes(w.Absent) {
			property["default"] = value
		}
		properties[w.Name] = property
		switch {
		case w.Required && w.Or != "":
			for name := range strings.SplitSeq(w.Name+"|"+w.Or, "|") {
				choices = append(choices, object{"required": []any{name}})
			}
		case w.Required:
			required = append(required, w.Name)
		}
	}
	if required != nil {
		schema["required"] = required
	}
	if choices != nil {
		schema["oneOf"] = choices
	}
	return schema
}

// IsValue reports whether the default of such a field may be one of its values.
func IsValue(k ShapeKind) bool {
	return k == AChoice || k == AWhole || k == ANumber || k == ADuration || k == ASize || k == Either
}

func exampleValue(name, written string) (any, bool) {
	_, n, ok := exampleNode(name, written)
	if !ok {
		return nil, false
	}
	return Instance(n), true
}

// exampleNode reads a value. A number may have commas.
func exampleNode(name, written string) (*Source, *Node, bool) {
	text := strings.ReplaceAll(written, ",", "")
	if _, err := strconv.Atoi(text); err != nil {
		text = written
	}
	s := NewSource("", name+": "+text+"\n")
	documents, found := ReadDocuments(s, &PipelineFiles)
	if len(found) > 0 || documents[0].Root.Kind != Mapping {
		return nil, nil, false
	}
	return s, documents[0].Root.Entries[0].Value, true
}

// takes reports whether the field accepts a text.
func (w *About) takes(written string) bool {
	s, n, ok := exampleNode(w.Name, written)
	if !ok {
		return false
	}
	r := &Reader{Source: s, Places: map[string]Place{}, Lookup: func(string) (string, bool) { return "", false }}
	w.Try(r, n, w.Name)
	return len(r.Errors) == 0
}

func (d Docs) explain(w *About) {
	if d.Explain != nil {
		d.Explain(w)
	}
}

// numberSchema returns the schema of a number.
func numberSchema(s *Shape) object {
	number := object{"type": "number"}
	least := "exclusiveMinimum"
	if s.Closed {
		least = "minimum"
	}
	if s.Low != "" {
		number[least] = count(s.Low)
	}
	if s.High != "" {
		number["maximum"] = count(s.High)
	}
	return number
}

// count returns a numeric bound of a shape.
func count(text string) float64 {
	n, err := strconv.ParseFloat(strings.ReplaceAll(text, ",", ""), 64)
	if err != nil {
		panic(err)
	}
	return n
}

func anys[T any](list []T) []any {
	all := make([]any, len(list))
	for i, v := range list {
		all[i] = v
	}
	return all
}

// Instance returns the JSON value that YAML's core schema gives a node.
func Instance(n *Node) any {
	switch n.Kind {
	case Mapping:
		o := object{}
		for _, e := range n.Entries {
			o[e.Key] = Instance(e.Value)
		}
		return o
	case List:
		all := []any{}
		for _, item := range n.Items {
			all = append(all, Instance(item))
		}
		return all
	case NoValue:
		return nil
	}
	if n.Style == Plain {
		if n.Text == "true" || n.Text == "false" {
			return n.Text == "true"
		}
		if number, err := strconv.ParseFloat(n.Text, 64); err == nil && Fractional.MatchString(n.Text) {
			return number
		}
	}
	return n.Text
}
