package config

import (
	"bytes"
	"encoding/json"
	"fmt"
	"github.com/afterbay/afterbay/internal/lang"
	"github.com/afterbay/afterbay/internal/process"
	"github.com/afterbay/afterbay/internal/spec"

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
	schema := c.shape(spec.MappingOf(process.Kinds().Fields()).Shape)
	steps := c.shape(spec.Shape{Kind: spec.AList, Of: []spec.Shape{lang.StepForm().Shape}})
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
	schema := c.shape(spec.MappingOf(gatewayFields).Shape)
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
func (c comments) shape(s spec.Shape) object {
	switch s.Kind {
	case spec.AnyText:
		if strings.HasPrefix(s.Text, "an expression") {
			return object{"type": []any{"string", "number", "boolean"}, "minLength": 1.0}
		}
		return object{"type": "string", "minLength": 1.0}
	case spec.AChoice:
		return orVariable(object{"enum": anys(s.Allowed)})
	case spec.AWhole:
		return orVariable(object{"type": "integer", "minimum": count(s.Low), "maximum": count(s.High)})
	case spec.ANumber:
		number := object{"type": "number"}
		if s.High != "" {
			number["exclusiveMinimum"], number["maximum"] = count(s.Low), count(s.High)
		}
		return orVariable(number)
	case spec.ASwitch:
		return orVariable(object{"type": "boolean"})
	case spec.ATrue:
		return orVariable(object{"const": true})
	case spec.ADuration:
		if s.Low == "0s" {
			return object{"anyOf": []any{matching(durationText), object{"const": 0.0}}}
		}
		return matching(durationText)
	case spec.ASize:
		low, _ := spec.ParseSize(s.Low)
		high, _ := spec.ParseSize(s.High)
		return object{"anyOf": []any{matching(sizeText), object{"type": "integer", "minimum": float64(low), "maximum": float64(high)}}}
	case spec.AWindow:
		return matching(durationText + "(/" + durationText + ")?")
	case spec.ASecret:
		return object{"type": "string", "pattern": spec.SecretText}
	case spec.AConstant:
		one := object{"type": []any{"string", "number", "boolean"}}
		return object{"anyOf": []any{one, object{"type": "object", "minProperties": 1.0, "additionalProperties": one}}}
	case spec.AList:
		return object{"type": "array", "minItems": 1.0, "items": c.shape(s.Of[0])}
	case spec.ANames:
		schema := object{"type": "object", "minProperties": 1.0, "additionalProperties": c.shape(s.Of[0])}
		if s.Last != nil {
			schema["properties"] = object{"default": c.shape(*s.Last)}
		}
		return schema
	case spec.AMapping, spec.AStep:
		return c.mapping(s)
	case spec.TheSteps:
		return object{"$ref": "#/$defs/steps"}
	}
	var alternatives []any
	for _, alternative := range s.Of {
		alternatives = append(alternatives, c.shape(alternative))
	}
	return object{"anyOf": alternatives}
}

func (c comments) mapping(s spec.Shape) object {
	properties := object{}
	schema := object{"type": "object", "properties": properties, "additionalProperties": false, "minProperties": 1.0}
	if s.Kind == spec.AStep {
		schema["maxProperties"] = 1.0
	}
	values := validator{object{"variable": variableSchema()}} // a default holds no steps
	var required, choices []any
	for _, w := range s.Words() {
		if !w.Accepted {
			continue
		}
		c.explain(&w)
		property := c.shape(w.Shape)
		if w.Shape.Kind == spec.AList && w.Shape.Of[0].Kind == spec.AStep {
			property = object{"$ref": "#/$defs/steps"}
		}
		property["description"] = w.Help
		if value, ok := exampleValue(w.Name, w.Example); ok {
			property["examples"] = []any{value}
		}
		if value, ok := exampleValue(w.Name, w.Absent); ok && value != nil && isValue(w.Shape.Kind) && values.check(property, value, "") == "" {
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

// isValue reports whether what holds without a word may be a value of it.
func isValue(k spec.ShapeKind) bool {
	return k == spec.AChoice || k == spec.AWhole || k == spec.ANumber || k == spec.ADuration || k == spec.ASize || k == spec.Either
}

func exampleValue(name, written string) (any, bool) {
	text := strings.ReplaceAll(written, ",", "")
	if _, err := strconv.Atoi(text); err != nil {
		text = written
	}
	documents, found := spec.ReadDocuments(spec.NewSource("", name+": "+text+"\n"), &spec.PipelineFiles)
	if len(found) > 0 || documents[0].Root.Kind != spec.Mapping {
		return nil, false
	}
	return instance(documents[0].Root.Entries[0].Value), true
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
func instance(n *spec.Node) any {
	switch n.Kind {
	case spec.Mapping:
		o := object{}
		for _, e := range n.Entries {
			o[e.Key] = instance(e.Value)
		}
		return o
	case spec.List:
		all := []any{}
		for _, item := range n.Items {
			all = append(all, instance(item))
		}
		return all
	case spec.NoValue:
		return nil
	}
	if n.Style == spec.Plain {
		if n.Text == "true" || n.Text == "false" {
			return n.Text == "true"
		}
		if number, err := strconv.ParseFloat(n.Text, 64); err == nil && spec.Fractional.MatchString(n.Text) {
			return number
		}
	}
	return n.Text
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
func writtenSchema(t *testing.T) func(n *spec.Node) string {
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
	return func(n *spec.Node) string { return v.check(schema, instance(n), "") }
}

func TestSchemaAcceptsWhatIsRight(t *testing.T) {
	check := writtenSchema(t)
	good, _ := filepath.Glob("testdata/good/*.yaml")
	examples, _ := filepath.Glob("../../examples/*/*.yaml")
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
		documents, found := spec.ReadDocuments(spec.NewSource(path, string(data)), &spec.PipelineFiles)
		if len(found) > 0 {
			t.Errorf("%v", found)
		}
		for _, d := range documents {
			if why := check(d.Root); why != "" {
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
		documents, found := spec.ReadDocuments(spec.NewSource(path, string(data)), &spec.PipelineFiles)
		if len(found) > 0 {
			continue // no YAML that a schema sees
		}
		name := strings.TrimSuffix(filepath.Base(path), ".yaml")
		wrong := slices.ContainsFunc(documents, func(d spec.Document) bool { return check(d.Root) != "" })
		if _, beyond := beyondSchema[name]; wrong == beyond {
			t.Errorf("%s: refused %v, expected %v", name, wrong, !beyond)
		}
		refused++
	}
	if refused < 60 {
		t.Errorf("only %d bad files were looked at", refused)
	}
}
