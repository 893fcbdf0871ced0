package config

import (
	"bytes"
	"encoding/json"
	"fmt"

	"github.com/afterbay/afterbay/internal/process/builtin"
	"github.com/afterbay/afterbay/internal/spec"

	"maps"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"
)

type object = map[string]any

// schema returns the JSON Schema of a pipeline.
func (c comments) schema() object {
	schema := c.docs().Schema(spec.MappingOf(builtin.Kinds().Fields()).Shape)
	steps := c.docs().Schema(spec.Shape{Kind: spec.AList, Of: []spec.Shape{builtin.Kinds().StepForm().Shape}})
	maps.Copy(schema, object{
		"$schema": "https://json-schema.org/draft/2020-12/schema", "title": "A pipeline of Afterbay",
		"$defs": object{
			"steps":    steps,
			"variable": spec.VariableSchema(),
		},
	})
	return schema
}

// gatewaySchema returns the JSON Schema of a gateway file.
func (c comments) gatewaySchema() object {
	schema := c.docs().Schema(spec.MappingOf(fieldsOfGateway(builtin.Kinds())).Shape)
	maps.Copy(schema, object{
		"$schema": "https://json-schema.org/draft/2020-12/schema", "title": "A gateway of Afterbay",
		"$defs": object{"variable": spec.VariableSchema()},
	})
	return schema
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
	return func(n *spec.Node) string { return v.check(schema, spec.Instance(n), "") }
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
