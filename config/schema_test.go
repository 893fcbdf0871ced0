package config

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"
)

type object = map[string]any

const (
	hasVariable  = `\$\{`
	durationText = `([0-9]+d)?([0-9]+(\.[0-9]+)?(ns|us|ms|s|m|h))*`
	sizeText     = `[0-9]+ *(B|KB|MB|GB|KiB|MiB|GiB)?`
)

// schema returns the JSON Schema of a pipeline.
func (c comments) schema() object {
	schema := c.shape(words(pipelineWords).shape)
	steps := c.shape(shape{kind: aList, of: []shape{step().shape}})
	maps.Copy(schema, object{
		"$schema": "https://json-schema.org/draft/2020-12/schema", "title": "A pipeline of Afterbay",
		"$defs": object{
			"steps":    steps,
			"variable": variableSchema(),
		},
	})
	return schema
}

// gatewaySchema returns the JSON Schema of a gateway file.
func (c comments) gatewaySchema() object {
	schema := c.shape(words(gatewayWords).shape)
	maps.Copy(schema, object{
		"$schema": "https://json-schema.org/draft/2020-12/schema", "title": "A gateway of Afterbay",
		"$defs": object{"variable": variableSchema()},
	})
	return schema
}

func variableSchema() object {
	return object{"type": "string", "pattern": hasVariable, "description": "text with environment variables"}
}

// orVariable returns schema, or text that names an environment variable.
func orVariable(schema object) object {
	return object{"anyOf": []any{schema, object{"$ref": "#/$defs/variable"}}}
}

func matching(pattern string) object {
	return object{"type": "string", "pattern": "^(" + pattern + ")$|" + hasVariable}
}

// shape returns the schema of what a form reads.
func (c comments) shape(s shape) object {
	switch s.kind {
	case anyText:
		if strings.HasPrefix(s.text, "an expression") {
			return object{"type": []any{"string", "number", "boolean"}, "minLength": 1.0}
		}
		return object{"type": "string", "minLength": 1.0}
	case aChoice:
		return orVariable(object{"enum": anys(s.allowed)})
	case aWhole:
		return orVariable(object{"type": "integer", "minimum": count(s.low), "maximum": count(s.high)})
	case aNumber:
		number := object{"type": "number"}
		if s.high != "" {
			number["exclusiveMinimum"], number["maximum"] = count(s.low), count(s.high)
		}
		return orVariable(number)
	case aSwitch:
		return orVariable(object{"type": "boolean"})
	case aTrue:
		return orVariable(object{"const": true})
	case aDuration:
		if s.low == "0s" {
			return object{"anyOf": []any{matching(durationText), object{"const": 0.0}}}
		}
		return matching(durationText)
	case aSize:
		low, _ := parseSize(s.low)
		high, _ := parseSize(s.high)
		return object{"anyOf": []any{matching(sizeText), object{"type": "integer", "minimum": float64(low), "maximum": float64(high)}}}
	case aWindow:
		return matching(durationText + "(/" + durationText + ")?")
	case aSecret:
		return object{"type": "string", "pattern": secretText}
	case aConstant:
		one := object{"type": []any{"string", "number", "boolean"}}
		return object{"anyOf": []any{one, object{"type": "object", "minProperties": 1.0, "additionalProperties": one}}}
	case aList:
		return object{"type": "array", "minItems": 1.0, "items": c.shape(s.of[0])}
	case aNames:
		schema := object{"type": "object", "minProperties": 1.0, "additionalProperties": c.shape(s.of[0])}
		if s.last != nil {
			schema["properties"] = object{"default": c.shape(*s.last)}
		}
		return schema
	case aMapping, aStep:
		return c.mapping(s)
	case theSteps:
		return object{"$ref": "#/$defs/steps"}
	}
	var alternatives []any
	for _, alternative := range s.of {
		alternatives = append(alternatives, c.shape(alternative))
	}
	return object{"anyOf": alternatives}
}

func (c comments) mapping(s shape) object {
	properties := object{}
	schema := object{"type": "object", "properties": properties, "additionalProperties": false, "minProperties": 1.0}
	if s.kind == aStep {
		schema["maxProperties"] = 1.0
	}
	values := validator{object{"variable": variableSchema()}} // a default holds no steps
	var required, choices []any
	for _, w := range s.words() {
		if !w.accepted {
			continue
		}
		c.explain(&w)
		property := c.shape(w.shape)
		if w.shape.kind == aList && w.shape.of[0].kind == aStep {
			property = object{"$ref": "#/$defs/steps"}
		}
		property["description"] = w.means
		if value, ok := exampleValue(w.name, w.example); ok {
			property["examples"] = []any{value}
		}
		if value, ok := exampleValue(w.name, w.absent); ok && value != nil && isValue(w.shape.kind) && values.check(property, value, "") == "" {
			property["default"] = value
		}
		properties[w.name] = property
		switch {
		case w.required && w.or != "":
			for name := range strings.SplitSeq(w.name+"|"+w.or, "|") {
				choices = append(choices, object{"required": []any{name}})
			}
		case w.required:
			required = append(required, w.name)
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

// isValue reports whether what holds without a word may be a value of it.
func isValue(k shapeKind) bool {
	return k == aChoice || k == aWhole || k == aNumber || k == aDuration || k == aSize || k == either
}

func exampleValue(name, written string) (any, bool) {
	text := strings.ReplaceAll(written, ",", "")
	if _, err := strconv.Atoi(text); err != nil {
		text = written
	}
	documents, found := readDocuments(newSource("", name+": "+text+"\n"), &pipelineFiles)
	if len(found) > 0 || documents[0].root.kind != mapping {
		return nil, false
	}
	return instance(documents[0].root.entries[0].value), true
}

func count(text string) float64 {
	n, err := strconv.Atoi(strings.ReplaceAll(text, ",", ""))
	if err != nil {
		panic(err)
	}
	return float64(n)
}

func anys[T any](list []T) []any {
	all := make([]any, len(list))
	for i, v := range list {
		all[i] = v
	}
	return all
}

// instance returns what YAML's core schema makes of a node, as JSON values.
func instance(n *node) any {
	switch n.kind {
	case mapping:
		o := object{}
		for _, e := range n.entries {
			o[e.key] = instance(e.value)
		}
		return o
	case list:
		all := []any{}
		for _, item := range n.items {
			all = append(all, instance(item))
		}
		return all
	case nothing:
		return nil
	}
	if n.style == plain {
		if n.text == "true" || n.text == "false" {
			return n.text == "true"
		}
		if number, err := strconv.ParseFloat(n.text, 64); err == nil && fractional.MatchString(n.text) {
			return number
		}
	}
	return n.text
}

// validator checks values against a schema. It knows the keywords that the
// schema uses, and no others.
type validator struct{ defs object }

// check returns why value does not hold against schema, "" where it does.
func (v *validator) check(schema object, value any, path string) string {
	for _, keyword := range slices.Sorted(maps.Keys(schema)) {
		if why := v.keyword(schema, keyword, value, path); why != "" {
			return why
		}
	}
	return ""
}

func (v *validator) keyword(schema object, keyword string, value any, path string) string {
	want := schema[keyword]
	text, isText := value.(string)
	number, isNumber := value.(float64)
	items, _ := value.([]any)
	members, isObject := value.(object)
	bad := func(is bool) string {
		if !is {
			return ""
		}
		return fmt.Sprintf("%s: %v is not %s %v", path, value, keyword, want)
	}
	switch keyword {
	case "$schema", "$defs", "title", "description", "examples", "default":
		return ""
	case "$ref":
		return v.check(v.defs[strings.TrimPrefix(want.(string), "#/$defs/")].(object), value, path)
	case "type":
		names, isList := want.([]any)
		if !isList {
			names = []any{want}
		}
		return bad(!slices.ContainsFunc(names, func(name any) bool { return isType(name.(string), value) }))
	case "const":
		return bad(!reflect.DeepEqual(want, value))
	case "enum":
		return bad(!slices.Contains(want.([]any), value))
	case "minimum":
		return bad(isNumber && number < want.(float64))
	case "exclusiveMinimum":
		return bad(isNumber && number <= want.(float64))
	case "maximum":
		return bad(isNumber && number > want.(float64))
	case "minLength":
		return bad(isText && float64(utf8.RuneCountInString(text)) < want.(float64))
	case "pattern":
		return bad(isText && !regexp.MustCompile(want.(string)).MatchString(text))
	case "minItems":
		return bad(items != nil && float64(len(items)) < want.(float64))
	case "minProperties":
		return bad(isObject && float64(len(members)) < want.(float64))
	case "maxProperties":
		return bad(isObject && float64(len(members)) > want.(float64))
	case "required":
		return bad(isObject && slices.ContainsFunc(want.([]any), func(name any) bool { _, ok := members[name.(string)]; return !ok }))
	case "anyOf", "oneOf":
		holds := 0
		for _, one := range want.([]any) {
			if v.check(one.(object), value, path) == "" {
				holds++
			}
		}
		return bad(holds == 0 || keyword == "oneOf" && holds > 1)
	case "items":
		for i, item := range items {
			if why := v.check(want.(object), item, fmt.Sprintf("%s[%d]", path, i)); why != "" {
				return why
			}
		}
		return ""
	case "properties", "additionalProperties":
		return v.members(schema, keyword, members, path)
	}
	panic("the validator does not know " + keyword)
}

// members checks the members of an object that keyword is about.
func (v *validator) members(schema object, keyword string, members object, path string) string {
	properties, _ := schema["properties"].(object)
	for _, name := range slices.Sorted(maps.Keys(members)) {
		property, known := properties[name].(object)
		if known != (keyword == "properties") {
			continue
		}
		if other, isSchema := schema["additionalProperties"].(object); !known && isSchema {
			property = other
		} else if !known {
			return path + ": unknown " + name
		}
		if why := v.check(property, members[name], path+"."+name); why != "" {
			return why
		}
	}
	return ""
}

func isType(name string, value any) bool {
	switch v := value.(type) {
	case string:
		return name == "string"
	case bool:
		return name == "boolean"
	case float64:
		return name == "number" || name == "integer" && v == math.Trunc(v)
	case []any:
		return name == "array"
	case object:
		return name == "object"
	}
	return name == "null"
}

// writtenSchema is the schema as editors read it.
func writtenSchema(t *testing.T) func(n *node) string {
	t.Helper()
	data, err := os.ReadFile(referenceSchema)
	if err != nil {
		t.Fatal(err)
	}
	var schema object
	if err := json.Unmarshal(data, &schema); err != nil {
		t.Fatal(err)
	}
	v := &validator{schema["$defs"].(object)}
	return func(n *node) string { return v.check(schema, instance(n), "") }
}

func TestSchemaAcceptsWhatIsRight(t *testing.T) {
	check := writtenSchema(t)
	good, _ := filepath.Glob("testdata/good/*.yaml")
	examples, _ := filepath.Glob("../examples/*/*.yaml")
	if len(good) < 4 || len(examples) < 1 {
		t.Fatalf("found %d good files and %d examples", len(good), len(examples))
	}
	for _, path := range append(good, examples...) {
		data, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Contains(data, []byte("\npipeline: ")) && !bytes.HasPrefix(data, []byte("pipeline: ")) {
			continue // a manifest of a model, or of Kubernetes
		}
		documents, found := readDocuments(newSource(path, string(data)), &pipelineFiles)
		if len(found) > 0 {
			t.Errorf("%v", found)
		}
		for _, d := range documents {
			if why := check(d.root); why != "" {
				t.Errorf("%s: %s", path, why)
			}
		}
	}
}

// beyondSchema are the mistakes that a schema cannot see, and why.
var beyondSchema = map[string]string{
	"constants-mixed":        "the kinds of a table's values",
	"empty-name":             "names are anything",
	"environment":            "the environment",
	"environment-several":    "the environment",
	"environment-syntax":     "a value with ${ is not looked into",
	"environment-values":     "a value with ${ is not looked into",
	"key-twice":              "a mapping has each key once",
	"long-line":              "the kinds of a table's values",
	"max-bytes-range":        "the range of a size with a unit",
	"name-twice":             "a mapping has each key once",
	"route-case-twice":       "a mapping has each key once",
	"route-default-not-last": "a mapping has no order",
	"same-pipeline-twice":    "one document at a time",
	"wide-characters":        "numbers that YAML readers disagree on",
}

func TestSchemaRefusesWhatIsWrong(t *testing.T) {
	check := writtenSchema(t)
	paths, _ := filepath.Glob("testdata/bad/*.yaml")
	refused := 0
	for _, path := range paths {
		data, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		documents, found := readDocuments(newSource(path, string(data)), &pipelineFiles)
		if len(found) > 0 {
			continue // no YAML that a schema sees
		}
		name := strings.TrimSuffix(filepath.Base(path), ".yaml")
		wrong := slices.ContainsFunc(documents, func(d document) bool { return check(d.root) != "" })
		if _, beyond := beyondSchema[name]; wrong == beyond {
			t.Errorf("%s: refused %v, expected %v", name, wrong, !beyond)
		}
		refused++
	}
	if refused < 60 {
		t.Errorf("only %d bad files were looked at", refused)
	}
}
